//! CloudFront's key-value store. Each write names the store's ETag and gets a
//! new one, so of two writers one is refused and reads again.

use std::collections::BTreeSet;

use aws_sdk_cloudfrontkeyvaluestore::Client;
use aws_sdk_cloudfrontkeyvaluestore::config::endpoint::{
    Endpoint, EndpointFuture, Params, ResolveEndpoint,
};
use runtime::Environment;
use serde_json::Value;

/// How often a write is tried when others write too.
const ATTEMPTS: u32 = 3;

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is there.
    Done,
    /// It was there, or what is there is newer. One of the same version that says
    /// something else is replaced: the secret comes without another version.
    Behind,
}

/// One store.
#[derive(Debug)]
pub(crate) struct Store {
    client: Client,
    arn: String,
}

/// For as long as writes are accepted, nobody else has written.
#[derive(Debug)]
pub(crate) struct Alone {
    /// As of the newest answer.
    etag: String,
    /// Keys of which it is known since then what is there.
    keys: BTreeSet<String>,
}

impl Store {
    /// The store that `EDGE_STORE_ARN` names; none if there is no edge.
    pub(crate) fn connect(environment: &Environment) -> Option<Self> {
        let settings = &environment.settings;
        let arn = settings.get("EDGE_STORE_ARN")?.to_owned();
        let mut config = aws_sdk_cloudfrontkeyvaluestore::config::Builder::from(&environment.aws);
        if let Some(url) = settings.get("AWS_ENDPOINT_URL_CLOUDFRONT_KEYVALUESTORE") {
            config = config.endpoint_resolver(As(url.to_owned()));
        }
        Some(Self {
            client: Client::from_conf(config.build()),
            arn,
        })
    }

    /// Writes a document, unless a newer one is there.
    pub(crate) async fn put(
        &self,
        before: &mut Option<Alone>,
        key: &str,
        text: &str,
        version: u64,
    ) -> Result<Written, String> {
        for _ in 0..ATTEMPTS {
            let mut alone = match before.take() {
                Some(alone) => alone,
                None => Alone {
                    etag: self.ask_etag().await?,
                    keys: BTreeSet::new(),
                },
            };
            // After the ETag: what is written from then on makes ours be refused.
            if alone.keys.insert(key.to_owned())
                && let Some(stored) = self.stored(key).await?
                && (version_of(&stored) > Some(version) || stored == text)
            {
                *before = Some(alone);
                return Ok(Written::Behind);
            }
            let put = self
                .client
                .put_key()
                .kvs_arn(&self.arn)
                .key(key)
                .value(text);
            match put.if_match(&alone.etag).send().await {
                Ok(answer) => {
                    alone.etag = answer.e_tag;
                    *before = Some(alone);
                    return Ok(Written::Done);
                }
                Err(error) => {
                    let conflict = error
                        .as_service_error()
                        .is_some_and(|error| error.is_conflict_exception());
                    // Else nobody knows whether it was written: read anew, too.
                    if !conflict {
                        return Err(runtime::cause(&error).to_owned());
                    }
                }
            }
        }
        Err("other writers kept coming between".to_owned())
    }

    async fn ask_etag(&self) -> Result<String, String> {
        let asked = self.client.describe_key_value_store().kvs_arn(&self.arn);
        match asked.send().await {
            Ok(answer) => Ok(answer.e_tag),
            Err(error) => Err(runtime::cause(&error).to_owned()),
        }
    }

    async fn stored(&self, key: &str) -> Result<Option<String>, String> {
        let asked = self.client.get_key().kvs_arn(&self.arn).key(key);
        match asked.send().await {
            Ok(answer) => Ok(Some(answer.value)),
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(|error| error.is_resource_not_found_exception()) =>
            {
                Ok(None)
            }
            Err(error) => Err(runtime::cause(&error).to_owned()),
        }
    }
}

/// None of what is no document.
fn version_of(stored: &str) -> Option<u64> {
    let stored: Value = serde_json::from_str(stored).unwrap_or_default();
    stored["version"].as_u64()
}

/// A stand-in's address. The service's own rule would put the account's number
/// in front of its host, where no stand-in is.
#[derive(Debug)]
struct As(String);

impl ResolveEndpoint for As {
    fn resolve_endpoint<'a>(&'a self, _: &'a Params) -> EndpointFuture<'a> {
        EndpointFuture::ready(Ok(Endpoint::builder().url(self.0.clone()).build()))
    }
}
