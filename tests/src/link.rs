//! A TCP link between a function and a server, which a test can cut.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// How a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// It carries everything.
    Up,
    /// Connections are closed at once.
    Cut,
    /// Connections are taken and nothing is carried.
    Silent,
    /// New connections carry nothing for so long first.
    Slow(Duration),
}

/// A link that listens before its server is known: the address goes into a
/// function's settings before the system starts.
#[derive(Debug)]
pub struct Link {
    address: SocketAddr,
    target: Arc<OnceLock<String>>,
    condition: watch::Sender<Condition>,
    task: JoinHandle<()>,
}

impl Link {
    /// A link that is up, and leads nowhere yet.
    pub async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let target = Arc::new(OnceLock::<String>::new());
        let (condition, seen) = watch::channel(Condition::Up);
        let known = Arc::clone(&target);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (target, seen) = (Arc::clone(&known), seen.clone());
                tokio::spawn(async move {
                    if let Some(target) = target.get() {
                        carry(client, target, seen).await;
                    }
                });
            }
        });
        Self {
            address,
            target,
            condition,
            task,
        }
    }

    /// Its own address, as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Leads to the server at this URL from now on.
    pub fn lead_to(&self, url: &str) {
        let address = url.trim_start_matches("http://").to_owned();
        self.target.set(address).expect("a link is led once");
    }

    /// Changes how it is. Connections that carried before are closed.
    pub fn turn(&self, condition: Condition) {
        self.condition.send_replace(condition);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(mut client: TcpStream, target: &str, mut seen: watch::Receiver<Condition>) {
    let condition = *seen.borrow_and_update();
    let work = async {
        match condition {
            Condition::Cut => return,
            Condition::Silent => std::future::pending().await,
            Condition::Slow(wait) => sleep(wait).await,
            Condition::Up => {}
        }
        if let Ok(mut server) = TcpStream::connect(target).await {
            let _ = copy_bidirectional(&mut client, &mut server).await;
        }
    };
    tokio::select! {
        () = work => {}
        _ = seen.changed() => {}
    }
}
