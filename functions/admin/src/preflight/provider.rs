//! The payment provider: whether money would move, and only then.

use domain::{BucketId, Sale};
use runtime::Settings;
use tokio::time::timeout;

use super::{ANSWER_MAX, Check, check};
use crate::AdminFunction;

const NAME: &str = "payment_provider";

/// Whose key it is, by what it begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    /// None, or none of the provider's: what the stack was made with.
    Foreign,
    /// No money moves.
    Test,
    /// Money moves.
    Live,
}

/// What is known of the provider's secrets; never what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Keys {
    key: Key,
    /// Webhooks are verified with a secret of the provider's.
    webhooks: bool,
}

/// What is wrong, and what to do.
type Wrong = (&'static str, &'static str);

impl Keys {
    /// Reads what the secrets begin with.
    pub(super) fn read(settings: &Settings) -> Self {
        let key = settings.get("PROVIDER_KEY").unwrap_or_default();
        let begins = |with: [&str; 2]| with.iter().any(|one| key.starts_with(one));
        let secrets = settings.get("WEBHOOK_SECRETS").unwrap_or_default();
        Self {
            key: if begins(["sk_live_", "rk_live_"]) {
                Key::Live
            } else if begins(["sk_test_", "rk_test_"]) {
                Key::Test
            } else {
                Key::Foreign
            },
            webhooks: secrets.split(',').any(|one| one.starts_with("whsec_")),
        }
    }

    /// The kind of key, if these secrets are right for a launch or a rehearsal.
    fn judge(self, rehearses: bool) -> Result<&'static str, Wrong> {
        let kind = match (self.key, rehearses) {
            (Key::Foreign, _) => {
                return Err((
                    "no key of the provider's",
                    "Nobody can pay: put the key into ProviderKeySecret, and start the functions anew.",
                ));
            }
            (Key::Test, false) => {
                return Err((
                    "a test key",
                    "No money moves: put the live key in. A rehearsal says Rehearsal=true.",
                ));
            }
            (Key::Live, true) => {
                return Err((
                    "a live key in a rehearsal",
                    "Real money moves: put a test key in, or leave Rehearsal=true out.",
                ));
            }
            (Key::Test, true) => "a test key",
            (Key::Live, false) => "a live key",
        };
        if !self.webhooks {
            return Err((
                "no webhook secret of the provider's",
                "No payment is heard of: put the endpoint's secret into WebhookSecretsSecret, and start the functions anew.",
            ));
        }
        Ok(kind)
    }
}

impl AdminFunction {
    pub(super) async fn check_provider(&self, sale: &Sale) -> Check {
        let name = self.provider.name();
        if sale.config.price.amount == 0 {
            let found = "none is asked: the price is 0".to_owned();
            return check(NAME, true, found, "");
        }
        let rehearses = self.deployment.rehearses;
        if self.provider.as_sandbox().is_some() {
            return check(
                NAME,
                rehearses,
                name.to_owned(),
                "No money moves: whoever has an intent confirms it. A rehearsal says Rehearsal=true.",
            );
        }
        let kind = match self.deployment.keys.judge(rehearses) {
            Ok(kind) => kind,
            Err((wrong, advice)) => {
                return check(NAME, false, format!("{name}, {wrong}"), advice);
            }
        };
        // A call that every key must be allowed to make, and that changes nothing.
        let asked = timeout(
            ANSWER_MAX,
            self.provider
                .list(&sale.id, BucketId(0), sale.config.opens_at.at),
        )
        .await;
        let answers = match &asked {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => {
                tracing::warn!(sale = %sale.id, %error, "the provider did not answer the preflight");
                false
            }
            Err(_) => false,
        };
        let word = if answers {
            "answers"
        } else {
            "does not answer"
        };
        check(
            NAME,
            answers,
            format!("{name}, {kind}, {word}"),
            "Nobody can pay: look at the network's way out, and at what the key may do.",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(key: &str, secrets: &str) -> Keys {
        let settings = [("PROVIDER_KEY", key), ("WEBHOOK_SECRETS", secrets)];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Keys::read(&settings.into_iter().collect())
    }

    #[test]
    fn money_moves_at_a_launch_and_at_no_rehearsal() {
        let made = "q8N3vT0sLr5Zx1Yb";
        let (launch, rehearsal) = (false, true);
        for (key, secrets, rehearses, right) in [
            ("rk_live_1", "whsec_1", launch, Ok("a live key")),
            ("sk_live_1", "whsec_2,whsec_1", launch, Ok("a live key")),
            ("sk_test_1", "whsec_1", rehearsal, Ok("a test key")),
            ("rk_test_1", "whsec_1", rehearsal, Ok("a test key")),
            ("sk_test_1", "whsec_1", launch, Err("a test key")),
            (
                "sk_live_1",
                "whsec_1",
                rehearsal,
                Err("a live key in a rehearsal"),
            ),
            // What a page may know moves no money.
            (
                "pk_live_1",
                "whsec_1",
                launch,
                Err("no key of the provider's"),
            ),
            (made, "whsec_1", launch, Err("no key of the provider's")),
            ("", "whsec_1", launch, Err("no key of the provider's")),
            (
                "sk_live_1",
                made,
                launch,
                Err("no webhook secret of the provider's"),
            ),
            (
                "sk_live_1",
                "",
                launch,
                Err("no webhook secret of the provider's"),
            ),
        ] {
            let said = keys(key, secrets).judge(rehearses);
            let said = said.map_err(|(wrong, _)| wrong);
            assert_eq!(said, right, "{key} {secrets} {rehearses}");
        }
    }

    #[test]
    fn what_is_kept_of_a_key_is_not_the_key() {
        let shown = format!("{:?}", keys("sk_live_secret", "whsec_secret"));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
