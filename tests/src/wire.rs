//! Wires between functions and servers, on which things go wrong.
//!
//! A [`HttpWire`] stands before DynamoDB or the queue and knows requests from
//! answers, so it can carry a request out and lose the answer. [`ClusterWires`]
//! stand before every node of the gates' cluster, for clients, replicas and
//! the cluster's own bus: a node can be cut off from the others while clients
//! still reach it.
//!
//! What happens to a request is drawn from a seed and the request's number.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use local::NodePorts;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// Draws with a seed: the n-th draw is the same in every run.
#[derive(Debug)]
struct Dice {
    seed: u64,
    thrown: AtomicU64,
}

impl Dice {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            thrown: AtomicU64::new(0),
        }
    }

    /// From 0 to below 1, one for each purpose.
    fn throw<const N: usize>(&self) -> [f64; N] {
        let number = self.thrown.fetch_add(1, Ordering::Relaxed);
        std::array::from_fn(|purpose| {
            let mut hasher = DefaultHasher::new();
            (self.seed, number, purpose).hash(&mut hasher);
            f64::from(hasher.finish() as u32) / (f64::from(u32::MAX) + 1.0)
        })
    }
}

/// What goes wrong with requests; shares are from 0 to 1.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trouble {
    /// Only requests whose body holds this text.
    pub only: Option<&'static str>,
    /// Share that is not carried out: the connection closes.
    pub refused: f64,
    /// Share that is carried out and not answered: the connection closes.
    pub unanswered: f64,
    /// Share that is carried out twice; the second answer counts.
    pub twice: f64,
    /// Share that is late.
    pub late: f64,
    /// By up to so much.
    pub late_by: Duration,
}

/// A wire before a server that speaks HTTP/1.1.
#[derive(Debug)]
pub struct HttpWire {
    address: SocketAddr,
    line: Arc<Line>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Line {
    target: OnceLock<String>,
    trouble: Mutex<Trouble>,
    dice: Dice,
    /// Requests that something happened to.
    hit: AtomicU64,
    work: Mutex<Work>,
}

/// How much a server had to do.
#[derive(Debug, Default)]
struct Work {
    requests: u64,
    /// Not answered yet.
    open: u32,
    since: Option<Instant>,
    busy: Duration,
}

impl HttpWire {
    /// A wire that leads nowhere yet: its address goes into the settings of a
    /// function before the system starts.
    pub async fn new(seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let line = Arc::new(Line {
            target: OnceLock::new(),
            trouble: Mutex::default(),
            dice: Dice::new(seed),
            hit: AtomicU64::new(0),
            work: Mutex::default(),
        });
        let shared = Arc::clone(&line);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let line = Arc::clone(&shared);
                tokio::spawn(async move { line.carry(client).await });
            }
        });
        Self {
            address,
            line,
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
        self.line.target.set(address).expect("a wire is led once");
    }

    /// What goes wrong from now on.
    pub fn trouble(&self, trouble: Trouble) {
        *self.line.trouble() = trouble;
    }

    /// For how long the server had something to answer, and how many requests
    /// it answered, since this was last asked.
    pub fn meter(&self) -> (Duration, u64) {
        let mut work = self.line.work();
        let now = Instant::now();
        if let Some(since) = &mut work.since {
            let busy = now - std::mem::replace(since, now);
            work.busy += busy;
        }
        (
            std::mem::take(&mut work.busy),
            std::mem::take(&mut work.requests),
        )
    }

    /// Requests that something happened to so far.
    pub fn hit(&self) -> u64 {
        self.line.hit.load(Ordering::Relaxed)
    }
}

impl Drop for HttpWire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Line {
    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries requests and answers, one after the other, until one side
    /// closes or something goes wrong.
    async fn carry(&self, client: TcpStream) -> Option<()> {
        let _ = client.set_nodelay(true);
        let mut client = BufReader::new(client);
        let mut server = None;
        loop {
            let request = message(&mut client).await?;
            let trouble = *self.trouble();
            let concerned = trouble.only.is_none_or(|text| holds(&request, text));
            let [refused, unanswered, twice, late, by] = self.dice.throw();
            let is = |drawn: f64, share: f64| concerned && drawn < share;
            if is(refused, trouble.refused)
                || is(unanswered, trouble.unanswered)
                || is(twice, trouble.twice)
                || is(late, trouble.late)
            {
                self.hit.fetch_add(1, Ordering::Relaxed);
            }
            if is(late, trouble.late) {
                sleep(trouble.late_by.mul_f64(by)).await;
            }
            if is(refused, trouble.refused) {
                return None;
            }
            let mut answer = self.exchange(&mut server, &request).await?;
            if is(twice, trouble.twice) {
                answer = self.exchange(&mut server, &request).await?;
            }
            if is(unanswered, trouble.unanswered) {
                return None;
            }
            client.get_mut().write_all(&answer).await.ok()?;
        }
    }

    async fn exchange(
        &self,
        server: &mut Option<BufReader<TcpStream>>,
        request: &[u8],
    ) -> Option<Vec<u8>> {
        if server.is_none() {
            let stream = TcpStream::connect(self.target.get()?).await.ok()?;
            let _ = stream.set_nodelay(true);
            *server = Some(BufReader::new(stream));
        }
        let stream = server.as_mut()?;
        let _at_work = AtWork::begin(self);
        stream.get_mut().write_all(request).await.ok()?;
        message(stream).await
    }
}

/// One request that is not answered yet.
struct AtWork<'a>(&'a Line);

impl<'a> AtWork<'a> {
    fn begin(line: &'a Line) -> Self {
        let mut work = line.work();
        work.open += 1;
        work.since.get_or_insert_with(Instant::now);
        drop(work);
        Self(line)
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let mut work = self.0.work();
        work.requests += 1;
        work.open -= 1;
        if work.open == 0
            && let Some(since) = work.since.take()
        {
            work.busy += since.elapsed();
        }
    }
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

/// One request or answer, to the byte: what SDK and servers here send tells
/// its length.
async fn message(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut length = 0;
    loop {
        let start = bytes.len();
        if stream.read_until(b'\n', &mut bytes).await.ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&bytes[start..]);
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        assert!(
            !line.starts_with("transfer-encoding:"),
            "a body without a length"
        );
    }
    let head = bytes.len();
    bytes.resize(head + length, 0);
    stream.read_exact(&mut bytes[head..]).await.ok()?;
    Some(bytes)
}

/// Wires before all nodes of a cluster.
#[derive(Debug)]
pub struct ClusterWires {
    ports: Vec<NodePorts>,
    web: Arc<Web>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Web {
    ports: Vec<NodePorts>,
    /// Nodes that only clients reach.
    apart: watch::Sender<BTreeSet<usize>>,
    /// Share of the answers to clients that are lost, in millionths.
    unanswered: AtomicU64,
    dice: Dice,
}

/// Which of a node's two ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Clients,
    Bus,
}

impl ClusterWires {
    /// Wires for so many nodes, which are not there yet.
    pub async fn new(nodes: usize, seed: u64) -> Self {
        let mut listeners = Vec::new();
        let mut ports = local::free_ports(nodes).unwrap();
        for node in &mut ports {
            let clients = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let bus = TcpListener::bind("127.0.0.1:0").await.unwrap();
            node.told_port = clients.local_addr().unwrap().port();
            node.told_bus = bus.local_addr().unwrap().port();
            listeners.push((clients, bus));
        }
        let web = Arc::new(Web {
            ports: ports.clone(),
            apart: watch::Sender::new(BTreeSet::new()),
            unanswered: AtomicU64::new(0),
            dice: Dice::new(seed),
        });
        let mut tasks = Vec::new();
        for (to, (clients, bus)) in listeners.into_iter().enumerate() {
            for (listener, kind) in [(clients, Kind::Clients), (bus, Kind::Bus)] {
                let web = Arc::clone(&web);
                tasks.push(tokio::spawn(async move {
                    while let Ok((client, _)) = listener.accept().await {
                        let web = Arc::clone(&web);
                        tokio::spawn(async move { web.carry(client, to, kind).await });
                    }
                }));
            }
        }
        Self { ports, web, tasks }
    }

    /// For the options of a system.
    pub fn ports(&self) -> Vec<NodePorts> {
        self.ports.clone()
    }

    /// Cuts nodes off from all others: no bus, no replication. Clients reach
    /// them as before. An empty set heals it.
    pub fn set_apart(&self, nodes: impl IntoIterator<Item = usize>) {
        self.web.apart.send_replace(nodes.into_iter().collect());
    }

    /// Loses this share of the answers to clients, each with its connection.
    pub fn lose_answers(&self, share: f64) {
        let millionths = (share * 1e6) as u64;
        self.web.unanswered.store(millionths, Ordering::Relaxed);
    }
}

impl Drop for ClusterWires {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// The beginning of a message on the bus: signature, length, version, and the
/// sender's port for clients.
const BUS_HEAD: usize = 12;

impl Web {
    async fn carry(&self, mut from: TcpStream, to: usize, kind: Kind) -> Option<()> {
        let _ = from.set_nodelay(true);
        let node = self.ports[to];
        let port = if kind == Kind::Bus {
            node.bus
        } else {
            node.port
        };
        let mut head = [0; BUS_HEAD];
        let mut ends = BTreeSet::from([to]);
        if kind == Kind::Bus {
            from.read_exact(&mut head).await.ok()?;
            let sender = u16::from_be_bytes([head[10], head[11]]);
            let sender = self.ports.iter().position(|one| one.told_port == sender);
            ends.extend(sender);
        }
        let mut apart = self.apart.subscribe();
        let is_cut = |apart: &BTreeSet<usize>| !apart.is_disjoint(&ends);
        let of_nodes = AtomicBool::new(kind == Kind::Bus);
        // What is cut hangs: nobody is told. It is closed once it is healed,
        // since what was sent meanwhile is lost.
        if kind == Kind::Bus && is_cut(&apart.borrow()) {
            let _ = apart.wait_for(|apart| !is_cut(apart)).await;
            return None;
        }
        let mut server = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        let _ = server.set_nodelay(true);
        if kind == Kind::Bus {
            server.write_all(&head).await.ok()?;
        }
        let (from_read, from_write) = from.into_split();
        let (server_read, server_write) = server.into_split();
        let cut = async {
            loop {
                let _ = apart.wait_for(|apart| is_cut(apart)).await;
                if of_nodes.load(Ordering::Relaxed) {
                    return;
                }
                let _ = apart.changed().await;
            }
        };
        let is_cut_now = || is_cut(&self.apart.borrow());
        tokio::select! {
            _ = self.up(from_read, server_write, &of_nodes, is_cut_now) => None,
            _ = self.down(server_read, from_write, &of_nodes) => None,
            () = cut => {
                let _ = self.apart.subscribe().wait_for(|apart| !is_cut(apart)).await;
                None
            }
        }
    }

    /// From whoever connected to the node. A replica is known by what it says
    /// first; if its node is apart, it hears nothing.
    async fn up(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        of_nodes: &AtomicBool,
        is_cut: impl Fn() -> bool,
    ) -> Option<()> {
        let mut buffer = vec![0; 16 * 1024];
        let mut chunks = 0;
        loop {
            let read = from.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
            if chunks < 8 && holds(&buffer[..read], "REPLCONF") {
                of_nodes.store(true, Ordering::Relaxed);
                if is_cut() {
                    return None;
                }
            }
            chunks += 1;
            to.write_all(&buffer[..read]).await.ok()?;
        }
    }

    async fn down(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        of_nodes: &AtomicBool,
    ) -> Option<()> {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let read = from.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
            let share = self.unanswered.load(Ordering::Relaxed);
            if share > 0 && !of_nodes.load(Ordering::Relaxed) {
                let [drawn] = self.dice.throw();
                if drawn * 1e6 < share as f64 {
                    return None;
                }
            }
            to.write_all(&buffer[..read]).await.ok()?;
        }
    }
}
