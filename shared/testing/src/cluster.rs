//! Who owns what in a cluster, and slots that move while it is in use.

use anyhow::Context;
use redis::{Connection, FromRedisValue, Value, cmd};

use crate::GateServers;

impl GateServers {
    /// Whether a node is a primary in its own eyes. Blocks.
    ///
    /// # Errors
    /// The node does not answer.
    pub fn is_primary(&self, index: usize) -> anyhow::Result<bool> {
        let role: Vec<Value> = cmd("ROLE").query(&mut self.connect(index)?)?;
        let role = role.into_iter().next().unwrap_or(Value::Nil);
        Ok(String::from_redis_value(role)? == "master")
    }

    /// The node that owns a slot, in the eyes of another one. Blocks.
    ///
    /// # Errors
    /// That one does not answer, or knows of no owner.
    pub fn owner_of(&self, slot: u16, asked: usize) -> anyhow::Result<usize> {
        let shards: Vec<Vec<Value>> = cmd("CLUSTER")
            .arg("SLOTS")
            .query(&mut self.connect(asked)?)?;
        for shard in shards {
            let [first, last, owner, ..] = &shard[..] else {
                continue;
            };
            let (first, last) = (number(first)?, number(last)?);
            if !(first..=last).contains(&slot) {
                continue;
            }
            let owner: Vec<Value> = Vec::from_redis_value(owner.clone())?;
            let port = number(owner.get(1).context("an owner has a port")?)?;
            return self.index_of(port).context("a node of another cluster");
        }
        anyhow::bail!("nobody owns slot {slot}")
    }

    /// A move of a slot to another primary. Nothing has happened yet.
    ///
    /// # Errors
    /// The nodes do not answer.
    pub fn migration(&self, slot: u16, to: usize) -> anyhow::Result<Migration<'_>> {
        Ok(Migration {
            servers: self,
            slot,
            from: self.owner_of(slot, to)?,
            to,
        })
    }

    fn id_of(&self, index: usize) -> anyhow::Result<String> {
        Ok(cmd("CLUSTER")
            .arg("MYID")
            .query(&mut self.connect(index)?)?)
    }
}

fn number(value: &Value) -> anyhow::Result<u16> {
    Ok(u16::from_redis_value(value.clone())?)
}

/// A slot that moves, step by step, as an operator's tool moves it. Each step
/// blocks.
#[derive(Debug)]
pub struct Migration<'a> {
    servers: &'a GateServers,
    slot: u16,
    /// Whose it is.
    pub from: usize,
    /// Whose it is going to be.
    pub to: usize,
}

impl Migration<'_> {
    /// Both nodes know: from now on keys may be with either.
    ///
    /// # Errors
    /// A node does not answer.
    pub fn begin(&self) -> anyhow::Result<()> {
        self.set(self.to, &["IMPORTING", &self.servers.id_of(self.from)?])?;
        self.set(self.from, &["MIGRATING", &self.servers.id_of(self.to)?])
    }

    /// Moves up to so many keys; says how many.
    ///
    /// # Errors
    /// A node does not answer.
    pub fn move_keys(&self, most: usize) -> anyhow::Result<usize> {
        self.carry(self.from, self.to, most)
    }

    /// The slot has moved; every node is told.
    ///
    /// # Errors
    /// A node does not answer.
    pub fn finish(&self) -> anyhow::Result<()> {
        let owner = self.servers.id_of(self.to)?;
        self.set(self.to, &["NODE", &owner])?;
        self.set(self.from, &["NODE", &owner])?;
        for index in 0..self.servers.ports().len() {
            // A replica refuses to be told; it hears of it by itself.
            let _ = self.set(index, &["NODE", &owner]);
        }
        Ok(())
    }

    /// It does not move after all: keys that have moved come back. Until they
    /// are there, they are missed: who still knows of the move takes none.
    ///
    /// # Errors
    /// A node does not answer.
    pub fn give_up(&self) -> anyhow::Result<()> {
        self.set(self.from, &["STABLE"])?;
        while self.carry(self.to, self.from, 100)? > 0 {}
        self.set(self.to, &["STABLE"])
    }

    fn set(&self, index: usize, what: &[&str]) -> anyhow::Result<()> {
        let mut command = cmd("CLUSTER");
        command.arg("SETSLOT").arg(self.slot).arg(what);
        Ok(command.exec(&mut self.servers.connect(index)?)?)
    }

    fn carry(&self, from: usize, to: usize, most: usize) -> anyhow::Result<usize> {
        let mut connection: Connection = self.servers.connect(from)?;
        let keys: Vec<String> = cmd("CLUSTER")
            .arg("GETKEYSINSLOT")
            .arg(self.slot)
            .arg(most)
            .query(&mut connection)?;
        if !keys.is_empty() {
            cmd("MIGRATE")
                .arg("127.0.0.1")
                .arg(self.servers.ports()[to])
                .arg("")
                .arg(0)
                .arg(5_000)
                // A slot that is given up: the key is only where it went.
                .arg("REPLACE")
                .arg("KEYS")
                .arg(&keys)
                .exec(&mut connection)?;
        }
        Ok(keys.len())
    }
}
