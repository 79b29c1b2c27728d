//! Keys and secrets: that they are there, never what they are.

use aws_sdk_secretsmanager::Client;
use futures::{StreamExt, stream};

use super::{Check, Deployment, check, unknown};
use crate::CONCURRENCY;

/// What makes a version the one that functions read.
const CURRENT: &str = "AWSCURRENT";

impl Deployment {
    pub(super) async fn check_secrets(&self) -> Check {
        const NAME: &str = "secrets";
        const ADVICE: &str =
            "Functions can't start without them: restore them, or give them a value.";
        if self.secrets.is_empty() {
            return unknown(NAME, "no secret is named", ADVICE);
        }
        let client = Client::new(&self.aws);
        let asked = stream::iter(self.secrets.clone()).map(|secret| wrong(client.clone(), secret));
        let asked: Vec<_> = asked.buffered(CONCURRENCY).collect().await;
        let all = asked.len();
        let mut problems = Vec::new();
        for answer in asked {
            match answer {
                Ok(problem) => problems.extend(problem),
                Err(why) => return unknown(NAME, why, ADVICE),
            }
        }
        let found = if problems.is_empty() {
            format!("{all} are there")
        } else {
            problems.join("; ")
        };
        check(NAME, problems.is_empty(), found, ADVICE)
    }
}

/// What is wrong with a secret, if anything; an error where that can't be
/// known.
async fn wrong(client: Client, secret: String) -> Result<Option<String>, String> {
    // An ARN ends in the name and six random characters.
    let name = secret.rsplit(':').next().unwrap_or(&secret);
    let answer = match client.describe_secret().secret_id(&secret).send().await {
        Ok(answer) => answer,
        Err(error) => {
            return match runtime::cause(&error) {
                "ResourceNotFoundException" => Ok(Some(format!("{name} is not there"))),
                why => Err(why.to_owned()),
            };
        }
    };
    let versions = answer.version_ids_to_stages.unwrap_or_default();
    let current = versions.values().flatten().any(|stage| stage == CURRENT);
    Ok(if answer.deleted_date.is_some() {
        Some(format!("{name} is to be deleted"))
    } else if !current {
        Some(format!("{name} has no value"))
    } else {
        None
    })
}
