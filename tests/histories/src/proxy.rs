//! A line to the gates' servers, command by command: scripts can be exchanged
//! on it for twins without a guard, and each command is a step at which a
//! function can stop.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use redis::Script as Text;
use testing::Steps;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A guard taken out of whichever script has it: a piece of its text, and what
/// stands there instead.
#[derive(Debug, Clone, Copy)]
pub struct Script {
    /// As it is.
    pub guard: &'static str,
    /// As it is not.
    pub instead: &'static str,
}

/// Listens in front of every server. Ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    ports: Vec<u16>,
    listeners: Vec<JoinHandle<()>>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listeners.iter().for_each(JoinHandle::abort);
    }
}

struct Line {
    /// Of each server, and in front of it.
    ports: Vec<(u16, u16)>,
    script: Option<Script>,
    steps: Option<Steps>,
    /// The name of each exchanged script, and the twin's.
    names: Mutex<HashMap<String, String>>,
}

type Bytes = Vec<u8>;

impl Proxy {
    /// Listens in front of the servers at these ports.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start(servers: &[u16], script: Option<Script>, steps: Option<Steps>) -> Self {
        let mut sockets = Vec::new();
        for _ in servers {
            sockets.push(TcpListener::bind("127.0.0.1:0").await.expect("a port"));
        }
        let own = |socket: &TcpListener| socket.local_addr().expect("an address").port();
        let ports: Vec<u16> = sockets.iter().map(own).collect();
        let line = Arc::new(Line {
            ports: servers.iter().copied().zip(ports.iter().copied()).collect(),
            script,
            steps,
            names: Mutex::default(),
        });
        let listeners = sockets.into_iter().zip(servers.to_vec());
        let listeners = listeners.map(|(socket, server)| {
            let line = Arc::clone(&line);
            tokio::spawn(async move {
                while let Ok((client, _)) = socket.accept().await {
                    tokio::spawn(serve(Arc::clone(&line), client, server));
                }
            })
        });
        Self {
            listeners: listeners.collect(),
            ports,
        }
    }

    /// Seeds for a cluster client.
    pub fn url(&self) -> String {
        let seeds: Vec<String> = self
            .ports
            .iter()
            .map(|port| format!("redis://127.0.0.1:{port}"))
            .collect();
        seeds.join(",")
    }
}

/// One connection, until an end closes it.
async fn serve(line: Arc<Line>, client: TcpStream, server: u16) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, mut to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let (mut from_client, mut from_server) =
        (BufReader::new(from_client), BufReader::new(from_server));
    while let Some(mut command) = read_command(&mut from_client).await {
        line.exchange(&mut command);
        let asked = ask(&mut to_server, &mut from_server, &command);
        let answer = match &line.steps {
            Some(steps) if is_work(&command) => steps.step(asked).await,
            _ => asked.await,
        };
        let Some(answer) = answer else { return };
        let answer = line.own_ports(&command, answer);
        if to_client.write_all(&answer).await.is_err() {
            return;
        }
    }
}

async fn ask(
    to: &mut OwnedWriteHalf,
    from: &mut BufReader<OwnedReadHalf>,
    command: &[Bytes],
) -> Option<Bytes> {
    let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
    for part in command {
        bytes.extend(format!("${}\r\n", part.len()).bytes());
        bytes.extend(part);
        bytes.extend(b"\r\n");
    }
    to.write_all(&bytes).await.ok()?;
    read_answer(from).await
}

/// Not what a client asks by itself.
fn is_work(command: &[Bytes]) -> bool {
    let own = ["CLIENT", "CLUSTER", "HELLO", "PING", "READONLY"];
    !own.iter().any(|word| is(command.first(), word))
}

fn is(part: Option<&Bytes>, word: &str) -> bool {
    part.is_some_and(|part| part.eq_ignore_ascii_case(word.as_bytes()))
}

impl Line {
    /// The twin in place of a script, wherever its text or its name is.
    fn exchange(&self, command: &mut [Bytes]) {
        let Some(Script { guard, instead }) = self.script else {
            return;
        };
        let named = is(command.first(), "EVALSHA");
        let of_scripts = is(command.first(), "SCRIPT");
        let exists = of_scripts && is(command.get(1), "EXISTS");
        let loads = of_scripts && is(command.get(1), "LOAD");
        let at = match (named || is(command.first(), "EVAL"), exists || loads) {
            (true, _) => 1,
            (_, true) => 2,
            _ => return,
        };
        let Some(part) = command.get_mut(at) else {
            return;
        };
        let text = String::from_utf8_lossy(part).into_owned();
        let mut names = self.names.lock().expect("nobody panics here");
        if named || exists {
            if let Some(twin) = names.get(&text) {
                *part = twin.clone().into_bytes();
            }
        } else if text.contains(guard) {
            let twin = text.replace(guard, instead);
            let name = |text: &str| Text::new(text).get_hash().to_owned();
            names.insert(name(&text), name(&twin));
            *part = twin.into_bytes();
        }
    }

    /// Servers name their own ports; clients are to come here.
    fn own_ports(&self, command: &[Bytes], answer: Bytes) -> Bytes {
        if !is(command.first(), "CLUSTER") {
            return answer;
        }
        let mut text = String::from_utf8_lossy(&answer).into_owned();
        for (server, own) in &self.ports {
            text = text.replace(&format!(":{server}\r\n"), &format!(":{own}\r\n"));
        }
        text.into_bytes()
    }
}

async fn read_line(from: &mut BufReader<OwnedReadHalf>) -> Option<Bytes> {
    let mut line = Vec::new();
    let read = from.read_until(b'\n', &mut line).await.ok()?;
    (read > 2 && line.ends_with(b"\r\n")).then_some(line)
}

/// The number behind a line's first byte.
fn number(line: &[u8]) -> Option<i64> {
    let digits = std::str::from_utf8(line.get(1..)?).ok()?;
    digits.trim_end().parse().ok()
}

async fn read_command(from: &mut BufReader<OwnedReadHalf>) -> Option<Vec<Bytes>> {
    let parts = number(&read_line(from).await?)?;
    let mut command = Vec::new();
    for _ in 0..parts {
        let length = number(&read_line(from).await?)?;
        let mut part = vec![0; usize::try_from(length).ok()? + 2];
        from.read_exact(&mut part).await.ok()?;
        part.truncate(part.len() - 2);
        command.push(part);
    }
    Some(command)
}

/// One answer as it came, whatever is nested in it.
async fn read_answer(from: &mut BufReader<OwnedReadHalf>) -> Option<Bytes> {
    let (mut answer, mut parts) = (Vec::new(), 1);
    while parts > 0 {
        let line = read_line(from).await?;
        parts -= 1;
        match line[0] {
            b'$' | b'=' | b'!' => {
                let length = number(&line)?;
                answer.extend(&line);
                if let Ok(length) = usize::try_from(length) {
                    let mut bytes = vec![0; length + 2];
                    from.read_exact(&mut bytes).await.ok()?;
                    answer.extend(bytes);
                }
                continue;
            }
            b'*' | b'~' | b'>' => parts += number(&line)?.max(0),
            b'%' => parts += 2 * number(&line)?,
            _ => {}
        }
        answer.extend(line);
    }
    Some(answer)
}
