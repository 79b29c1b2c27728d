//! DynamoDB in process: `dynoxide`, behind its HTTP protocol.
//!
//! It works synchronously on SQLite, so it has a thread of its own: it must
//! not hold up those that run functions.

use anyhow::{Context, anyhow};
use dynoxide::Database;
use tokio::sync::oneshot;

use crate::template::Table;

/// A running database. It ends when this is dropped.
pub(crate) struct Server {
    url: String,
    // Dropping it tells the thread to end.
    _stop: oneshot::Sender<()>,
}

impl Server {
    /// Starts an empty database with the tables of a template.
    pub(crate) fn start(tables: &[Table]) -> anyhow::Result<Self> {
        let database = Database::memory().map_err(|error| anyhow!("{error}"))?;
        for table in tables {
            let request = serde_json::from_value(table.definition.clone())
                .with_context(|| format!("the table {}", table.name))?;
            database
                .create_table(request)
                .map_err(|error| anyhow!("the table {}: {error}", table.name))?;
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let url = format!("http://{}", listener.local_addr()?);
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name("dynamodb".to_owned())
            .spawn(move || {
                let served = runtime.block_on(async {
                    let listener = tokio::net::TcpListener::from_std(listener)
                        .map_err(|error| error.to_string())?;
                    let never = std::future::pending();
                    tokio::select! {
                        served = dynoxide::server::serve_with_shutdown(listener, database, never) => served,
                        _ = stopped => Ok(()),
                    }
                });
                if let Err(error) = served {
                    tracing::error!(error, "the database stopped");
                }
            })?;
        Ok(Self { url, _stop: stop })
    }

    /// Where it is reached.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}
