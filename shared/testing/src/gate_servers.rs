//! A real Redis or Valkey cluster on loopback ports, as child processes.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use redis::{Client, Connection, TlsCertificates};
use runtime::Settings;
use uuid::Uuid;

/// Programs that will do, best first.
const PROGRAMS: [&str; 2] = ["valkey-server", "redis-server"];
/// Names another program for everything that starts a cluster without naming
/// one: the same tests run on Redis and on Valkey.
const PROGRAM_VARIABLE: &str = "GATE_PROGRAM";
/// A cluster that is not whole by then never will be.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// A free port may be taken before the server has it.
const ATTEMPTS: usize = 3;
/// Below those that the kernel gives to whoever asks for any (32,768 and above):
/// between the choice of a port and the start of its server, nobody gets it.
const PORTS: Range<u16> = 10_000..32_000;
const PORT_TRIES: u32 = 10_000;
const SLOTS: usize = 16_384;
/// Waits for the end of its input, which is the end of the process that holds
/// the other end; then cleans up after server `$0` in directory `$1`.
const GUARD: &str = r#"read -r _; kill -9 "$0"; rm -rf -- "$1"; rmdir -- "${1%/*}" 2>/dev/null"#;

/// The shape of the cluster.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server program; looked for on the path if none is named.
    pub program: Option<String>,
    /// Nodes that own slots.
    pub primaries: usize,
    /// Replicas of each primary.
    pub replicas: usize,
    /// After how long without an answer a node counts as failed.
    pub node_timeout: Duration,
    /// TLS on every port, and a password, as the cluster of a deployment has
    /// them.
    pub secure: bool,
    /// The nodes' ports, primaries first; free ones if none are given.
    pub ports: Vec<NodePorts>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            program: None,
            primaries: 1,
            replicas: 1,
            node_timeout: Duration::from_secs(15),
            secure: false,
            ports: Vec::new(),
        }
    }
}

/// Where a node listens, and where it tells others that it does: whoever
/// stands between sees the traffic of clients, replicas and the cluster's bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePorts {
    /// For clients and replicas.
    pub port: u16,
    /// For the cluster's bus.
    pub bus: u16,
    /// Told in place of `port`.
    pub told_port: u16,
    /// Told in place of `bus`.
    pub told_bus: u16,
}

/// A running cluster. It ends when this is dropped, or when this process ends
/// in whatever way.
#[derive(Debug)]
pub struct GateServers {
    program: String,
    node_timeout: Duration,
    directory: PathBuf,
    primaries: usize,
    secured: Option<Secured>,
    /// Primaries first, then replicas: replica `i` is of primary
    /// `i mod primaries` to begin with.
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    ports: NodePorts,
    client: Client,
    server: Mutex<Option<Server>>,
}

/// What a cluster with TLS and a password has: one certificate for all nodes,
/// which is its own authority.
struct Secured {
    certificate: String,
    key: String,
    password: String,
}

/// The certificate's file in the directory of each node.
const CERTIFICATE: &str = "certificate.pem";
/// The file of its key.
const CERTIFICATE_KEY: &str = "key.pem";

impl Secured {
    fn new() -> anyhow::Result<Self> {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        Ok(Self {
            certificate: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
            password: Uuid::new_v4().simple().to_string(),
        })
    }

    /// What a server is started with, in a directory of its own.
    fn arguments(&self, directory: &Path) -> anyhow::Result<[&str; 18]> {
        std::fs::write(directory.join(CERTIFICATE), &self.certificate)?;
        std::fs::write(directory.join(CERTIFICATE_KEY), &self.key)?;
        Ok([
            "--tls-cert-file",
            CERTIFICATE,
            "--tls-key-file",
            CERTIFICATE_KEY,
            "--tls-ca-cert-file",
            CERTIFICATE,
            "--tls-auth-clients",
            "no",
            "--tls-cluster",
            "yes",
            "--tls-replication",
            "yes",
            "--requirepass",
            &self.password,
            "--masterauth",
            &self.password,
            "--port",
            "0",
        ])
    }

    fn client(&self, port: u16) -> anyhow::Result<Client> {
        let url = format!("rediss://:{}@127.0.0.1:{port}", self.password);
        let certificates = TlsCertificates {
            client_tls: None,
            root_cert: Some(self.certificate.clone().into_bytes()),
        };
        Ok(Client::build_with_tls(url, certificates)?)
    }
}

impl std::fmt::Debug for Secured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secured").finish_non_exhaustive()
    }
}

/// One server process, and a shell that waits for this process to end, then
/// kills the server and removes what it wrote: even a test that is killed
/// leaves nothing behind.
#[derive(Debug)]
struct Server {
    process: Child,
    guard: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The guard first, while the server's id can't belong to another.
        for process in [&mut self.guard, &mut self.process] {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl GateServers {
    /// Starts a cluster and waits until it serves. Blocks.
    ///
    /// # Errors
    /// There is no server program, or the cluster does not come up.
    pub fn start(plan: &Plan) -> anyhow::Result<Self> {
        ensure!(plan.primaries > 0, "a cluster has at least one primary");
        let program = program(plan.program.as_deref())?;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match Self::attempt(&program, plan) {
                Ok(servers) => return Ok(servers),
                Err(error) => last = Some(error),
            }
        }
        Err(last.context("no attempt was made")?)
    }

    fn attempt(program: &str, plan: &Plan) -> anyhow::Result<Self> {
        let directory = std::env::temp_dir().join(format!("flash-sale-{}", Uuid::new_v4()));
        let mut servers = Self {
            program: program.to_owned(),
            node_timeout: plan.node_timeout,
            directory,
            primaries: plan.primaries,
            secured: plan.secure.then(Secured::new).transpose()?,
            nodes: Vec::new(),
        };
        let count = plan.primaries * (1 + plan.replicas);
        let ports = match &plan.ports[..] {
            [] => free_ports(count)?,
            given => given.to_vec(),
        };
        ensure!(
            ports.len() == count,
            "a cluster of {count} nodes has ports for each"
        );
        for ports in ports {
            let port = ports.port;
            servers.nodes.push(Node {
                ports,
                client: match &servers.secured {
                    Some(secured) => secured.client(port)?,
                    None => Client::open(format!("redis://127.0.0.1:{port}"))?,
                },
                server: Mutex::new(None),
            });
        }
        for index in 0..count {
            servers.restart(index)?;
        }
        servers.join()?;
        Ok(servers)
    }

    /// Makes one cluster of the nodes.
    fn join(&self) -> anyhow::Result<()> {
        let end = Instant::now() + READY_LIMIT;
        let (primaries, replicas) = self.nodes.split_at(self.primaries);
        let first = &primaries[0];
        for (index, node) in primaries.iter().enumerate() {
            let mut connection = node.connect(end)?;
            let from = index * SLOTS / primaries.len();
            let to = (index + 1) * SLOTS / primaries.len() - 1;
            redis::cmd("CLUSTER")
                .arg("ADDSLOTSRANGE")
                .arg(from)
                .arg(to)
                .exec(&mut connection)?;
            // Distinct epochs from the start: nodes need not settle them.
            redis::cmd("CLUSTER")
                .arg("SET-CONFIG-EPOCH")
                .arg(index + 1)
                .exec(&mut connection)?;
        }
        for node in self.nodes.iter().skip(1) {
            redis::cmd("CLUSTER")
                .arg("MEET")
                .arg("127.0.0.1")
                .arg(first.ports.told_port)
                .arg(first.ports.told_bus)
                .exec(&mut node.connect(end)?)?;
        }
        for (index, node) in replicas.iter().enumerate() {
            let primary: String = redis::cmd("CLUSTER")
                .arg("MYID")
                .query(&mut primaries[index % primaries.len()].connect(end)?)?;
            let mut connection = node.connect(end)?;
            wait(end, "a replica to learn of its primary", || {
                let replicate = redis::cmd("CLUSTER")
                    .arg("REPLICATE")
                    .arg(&primary)
                    .exec(&mut connection);
                Ok(replicate.is_ok())
            })?;
        }
        self.await_ready(end)
    }

    /// Every node sees all slots served and all nodes; every replica follows
    /// its primary. Before that nothing is promoted and `WAIT` answers 0.
    fn await_ready(&self, end: Instant) -> anyhow::Result<()> {
        for node in &self.nodes {
            let mut connection = node.connect(end)?;
            wait(end, "the cluster to serve", || {
                let info: String = redis::cmd("CLUSTER").arg("INFO").query(&mut connection)?;
                let known = format!("cluster_known_nodes:{}", self.nodes.len());
                Ok(has_line(&info, "cluster_state:ok") && has_line(&info, &known))
            })?;
        }
        for node in &self.nodes[self.primaries..] {
            let mut connection = node.connect(end)?;
            wait(end, "a replica to follow", || {
                let info: String = redis::cmd("INFO")
                    .arg("replication")
                    .query(&mut connection)?;
                Ok(has_line(&info, "master_link_status:up"))
            })?;
        }
        Ok(())
    }

    /// Seeds for a cluster client, separated by commas; without the password.
    pub fn url(&self) -> String {
        let scheme = match self.secured {
            Some(_) => "rediss",
            None => "redis",
        };
        let seeds: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("{scheme}://127.0.0.1:{}", node.ports.told_port))
            .collect();
        seeds.join(",")
    }

    /// The password, if there is one.
    pub fn password(&self) -> Option<&str> {
        let secured = self.secured.as_ref()?;
        Some(&secured.password)
    }

    /// The file of the certificate that clients must trust, if there is TLS.
    pub fn certificate(&self) -> Option<PathBuf> {
        self.secured.as_ref()?;
        let node = self.nodes.first()?;
        Some(self.directory_of(node).join(CERTIFICATE))
    }

    fn directory_of(&self, node: &Node) -> PathBuf {
        self.directory.join(node.ports.port.to_string())
    }

    /// The nodes' ports: first those that began as primaries.
    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.ports.port).collect()
    }

    /// Which node tells this port for clients.
    pub(crate) fn index_of(&self, told_port: u16) -> Option<usize> {
        let mut nodes = self.nodes.iter();
        nodes.position(|node| node.ports.told_port == told_port)
    }

    /// How many nodes began as primaries.
    pub fn primaries(&self) -> usize {
        self.primaries
    }

    /// Kills a node at once (`SIGKILL`). An index that does not exist is
    /// ignored.
    pub fn kill(&self, index: usize) {
        if let Some(node) = self.nodes.get(index) {
            drop(node.lock().take());
        }
    }

    /// Starts a node again after [`GateServers::kill`], with nothing in
    /// memory and its old place in the cluster. Blocks until it answers.
    ///
    /// # Errors
    /// The server does not start, or there is no such node.
    pub fn restart(&self, index: usize) -> anyhow::Result<()> {
        let node = self.nodes.get(index).context("there is no such node")?;
        let directory = self.directory_of(node);
        std::fs::create_dir_all(&directory)?;
        let mut server = node.lock();
        drop(server.take());
        *server = Some(self.spawn(node, &directory)?);
        drop(server);
        node.connect(Instant::now() + READY_LIMIT)?;
        Ok(())
    }

    /// Stops a node where it is (`SIGSTOP`): its connections stay open and
    /// nothing answers. An index that does not exist is ignored.
    pub fn pause(&self, index: usize) {
        self.signal(index, "STOP");
    }

    /// Lets a node go on after [`GateServers::pause`].
    pub fn resume(&self, index: usize) {
        self.signal(index, "CONT");
    }

    fn signal(&self, index: usize, signal: &str) {
        let Some(node) = self.nodes.get(index) else {
            return;
        };
        if let Some(server) = &*node.lock() {
            let id = server.process.id().to_string();
            // The shell's own: a small image has no program of that name.
            let sent = Command::new("sh")
                .args(["-c", r#"kill -s "$0" "$1""#, signal, &id])
                .status();
            assert!(sent.is_ok_and(|sent| sent.success()), "no {signal} to {id}");
        }
    }

    /// A connection to one node, past the cluster's client. Blocks.
    ///
    /// # Errors
    /// The node does not answer, or there is no such node.
    pub fn connect(&self, index: usize) -> anyhow::Result<Connection> {
        let node = self.nodes.get(index).context("there is no such node")?;
        node.connect(Instant::now() + READY_LIMIT)
    }

    fn spawn(&self, node: &Node, directory: &Path) -> anyhow::Result<Server> {
        let log = std::fs::File::create(directory.join("log"))?;
        let mut command = Command::new(&self.program);
        let port = node.ports.port.to_string();
        match &self.secured {
            Some(secured) => command
                .args(secured.arguments(directory)?)
                .args(["--tls-port", &port]),
            None => command.args(["--port", &port]),
        };
        let mut process = command
            .current_dir(directory)
            .args(["--cluster-port", &node.ports.bus.to_string()])
            .args(node.ports.told())
            .args(["--bind", "127.0.0.1"])
            .args(["--cluster-enabled", "yes"])
            .args(["--cluster-config-file", "nodes.conf"])
            .args([
                "--cluster-node-timeout",
                &self.node_timeout.as_millis().to_string(),
            ])
            .args(["--save", ""])
            .args(["--appendonly", "no"])
            .args(["--repl-diskless-sync-delay", "0"])
            .args(["--maxmemory-policy", "noeviction"])
            // Ctrl-C in a terminal is for the runner, which ends the servers.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{} does not start", self.program))?;
        let guard = Command::new("sh")
            .args(["-c", GUARD, &process.id().to_string()])
            .arg(directory)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match guard {
            Ok(guard) => Ok(Server { process, guard }),
            Err(error) => {
                let _ = process.kill();
                let _ = process.wait();
                Err(error).context("the shell that guards a server does not start")
            }
        }
    }
}

impl Drop for GateServers {
    fn drop(&mut self) {
        for index in 0..self.nodes.len() {
            self.kill(index);
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl NodePorts {
    /// What a server is started with, if it tells other ports than its own.
    fn told(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        for (name, own, told) in [
            ("--cluster-announce-port", self.port, self.told_port),
            ("--cluster-announce-bus-port", self.bus, self.told_bus),
        ] {
            if own != told {
                arguments.extend([name.to_owned(), told.to_string()]);
            }
        }
        arguments
    }
}

/// Free ports for so many nodes. All are held at once, so that none is given
/// twice.
///
/// # Errors
/// There are none.
pub fn free_ports(nodes: usize) -> anyhow::Result<Vec<NodePorts>> {
    let mut held = Vec::new();
    for _ in 0..PORT_TRIES {
        if held.len() == nodes * 2 {
            break;
        }
        let drawn = Uuid::new_v4().as_u128() % u128::from(PORTS.end - PORTS.start);
        let port = PORTS.start + drawn as u16;
        held.extend(TcpListener::bind(("127.0.0.1", port)).ok());
    }
    ensure!(held.len() == nodes * 2, "there are no free ports");
    let port = |listener: &TcpListener| anyhow::Ok(listener.local_addr()?.port());
    held.chunks(2)
        .map(|pair| {
            let (port, bus) = (port(&pair[0])?, port(&pair[1])?);
            Ok(NodePorts {
                port,
                bus,
                told_port: port,
                told_bus: bus,
            })
        })
        .collect()
}

impl Node {
    fn lock(&self) -> MutexGuard<'_, Option<Server>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects as soon as the server answers.
    fn connect(&self, end: Instant) -> anyhow::Result<Connection> {
        loop {
            let error = match self.client.get_connection() {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            if let Some(server) = self.lock().as_mut()
                && let Some(status) = server.process.try_wait()?
            {
                bail!("a server ended by itself: {status}");
            }
            ensure!(Instant::now() < end, "a server does not answer: {error}");
            sleep(Duration::from_millis(10));
        }
    }
}

/// The program to run: the named one, the environment's, or the first that is
/// installed.
fn program(named: Option<&str>) -> anyhow::Result<String> {
    let settings = Settings::from_process();
    let named = named.or(settings.get(PROGRAM_VARIABLE));
    let candidates: &[&str] = match &named {
        Some(named) => std::slice::from_ref(named),
        None => &PROGRAMS,
    };
    for candidate in candidates {
        let found = Command::new(candidate)
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match found {
            Ok(_) => return Ok((*candidate).to_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("{candidate} does not run")),
        }
    }
    bail!(
        "{} is not installed; on Debian and Ubuntu: apt-get install redis-server (or valkey-server)",
        candidates.join(" or ")
    )
}

fn wait(
    end: Instant,
    what: &str,
    mut done: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    while !done()? {
        ensure!(Instant::now() < end, "waited in vain for {what}");
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn has_line(text: &str, line: &str) -> bool {
    text.lines().any(|one| one == line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            node_timeout: Duration::from_secs(5),
            ..Plan::default()
        }
    }

    #[test]
    fn a_cluster_acknowledges_writes_and_is_gone_afterwards() {
        let servers = GateServers::start(&plan()).unwrap();
        let ports = servers.ports();
        let end = Instant::now() + READY_LIMIT;
        let mut connection = servers.nodes[0].connect(end).unwrap();
        redis::cmd("SET")
            .arg("a")
            .arg(1)
            .exec(&mut connection)
            .unwrap();
        let acknowledged: u32 = redis::cmd("WAIT")
            .arg(1)
            .arg(1_000)
            .query(&mut connection)
            .unwrap();
        assert_eq!(acknowledged, 1);
        let directory = servers.directory.clone();
        drop(servers);
        assert!(!directory.exists());
        for port in ports {
            assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
        }
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let error = GateServers::start(&Plan {
            program: Some("no-such-server".to_owned()),
            ..plan()
        });
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("no-such-server") && error.contains("apt-get"),
            "{error}"
        );
    }
}
