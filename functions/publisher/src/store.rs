//! CloudFront's key-value store. Each write names the store's ETag and gets a
//! new one, so of two writers one is refused and reads again.

use std::collections::BTreeSet;

use aws_sdk_cloudfrontkeyvaluestore::Client;
use aws_sdk_cloudfrontkeyvaluestore::config::endpoint::{
    Endpoint, EndpointFuture, Params, ResolveEndpoint,
};
use domain::edge::{DOCUMENT_MAX, Document};
use runtime::Environment;
use serde_json::Value;

/// How often a write is tried when others write too.
const ATTEMPTS: u32 = 3;

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is there.
    Done,
    /// As good as it was there, or what is there is newer. One of the same version
    /// that says something else is replaced: the secret comes without another version.
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

    /// Writes a document, unless a newer one is there or one that is as good.
    pub(crate) async fn put(
        &self,
        before: &mut Option<Alone>,
        key: &str,
        document: &Document,
    ) -> Result<Written, String> {
        let text = serde_json::to_string(document).map_err(|error| error.to_string())?;
        if text.len() > DOCUMENT_MAX {
            return Err(format!("a document of {} bytes", text.len()));
        }
        for _ in 0..ATTEMPTS {
            let mut alone = match before.take() {
                Some(alone) => alone,
                None => Alone {
                    etag: self.ask_etag().await?,
                    keys: BTreeSet::new(),
                },
            };
            // After the ETag: what is written from then on makes ours be refused.
            if !alone.keys.contains(key)
                && let Some(stored) = self.stored(key).await?
                && !is_wanted(document, &stored)
            {
                *before = Some(alone);
                return Ok(Written::Behind);
            }
            alone.keys.insert(key.to_owned());
            let put = self
                .client
                .put_key()
                .kvs_arn(&self.arn)
                .key(key)
                .value(&text);
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

/// Whether a document is to replace what is stored. Of one that can't be read, as
/// another release may have written it, the version decides alone.
fn is_wanted(document: &Document, stored: &str) -> bool {
    let Ok(there) = serde_json::from_str::<Document>(stored) else {
        let there: Value = serde_json::from_str(stored).unwrap_or_default();
        return there["version"].as_u64() <= Some(document.version);
    };
    there.version <= document.version && document.is_news_after(&there)
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
