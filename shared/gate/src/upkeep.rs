//! What controller, sweeper, recovery and administration do with a gate.

use std::collections::HashMap;

use domain::slot::{GateAddress, SLOTS};
use domain::{ClaimId, ShopperId};
use jiff::Timestamp;
use redis::{Value, cmd, pipe};
use uuid::Uuid;

use crate::bucket::{Hold, due_key, stock_key};
use crate::connection::{Gate, read};
use crate::line::{entries_key, late_key};
use crate::{Error, script};

/// What a bucket's gate shows at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct View {
    /// Units that can be claimed.
    pub left: u64,
    /// Units ever taken.
    pub taken: u64,
    /// Claims that have a deadline.
    pub due: u64,
    /// Entries of the draw.
    pub entries: u64,
    /// Late entries.
    pub late: u64,
}

/// All that a bucket's gate knows of claims, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Records {
    /// Its counters.
    pub view: View,
    /// Claims and marks that have a deadline.
    pub due: Vec<Hold>,
    /// Those that have none any more.
    pub rest: Vec<Hold>,
}

/// A gate as the ledger says that it must be.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    /// Units that can be claimed.
    pub left: u32,
    /// Units taken so far.
    pub taken: u32,
    /// Late entries that the bucket has counted, at least: who comes next is
    /// behind them.
    pub late: u64,
    /// Every claim that the bucket knows.
    pub claims: Vec<Known>,
}

/// A claim of which the ledger knows.
#[derive(Debug, Clone)]
pub struct Known {
    /// As the gate would have recorded it.
    pub hold: Hold,
    /// Its deadline, if it still has one.
    pub due: Option<Timestamp>,
    /// Whether its units count against the shopper's limit.
    pub counts: bool,
}

/// What a comparison did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Correction {
    /// Gate and ledger agree.
    Agrees,
    /// The gate had too much and was lowered.
    Lowered,
    /// The gate had too little, twice in a row, and was raised.
    Raised,
    /// The gate has too little, seen for the first time.
    Noted,
    /// It moved while it was compared: nothing can be said.
    Moved,
}

/// Claims taken from a bucket's deadlines at once: one read stays short.
pub const DUE_BATCH: usize = 500;

/// Marks of one life of a bucket: more than it can ever make.
const TURNS: u64 = 1_000_000_000;

/// A gap below zero is only corrected if it was seen this long before: what
/// is on its way between the two stores has arrived by then.
const GAP_AGE_MS: u32 = 2_000;

/// No move of units between buckets lasts longer: it ends with its function.
pub const MOVE_MAX_MS: u32 = 60_000;

impl Gate {
    /// Makes the gate true and loads its script, on its primary alone. Only
    /// who has just read the ledger, as the bucket's one writer, may do so.
    ///
    /// # Errors
    /// No answer: the bucket may be frozen then, never too full. Frozen: a
    /// later life of it has begun.
    pub async fn load(&self, address: &GateAddress, truth: &Truth) -> Result<(), Error> {
        let (stock, due) = (stock_key(&address.tag), due_key(&address.tag));
        let late = late_key(&address.tag);
        let mut write = script::eval(script::LOAD, &[&stock, &due, &late]);
        write.arg(address.epoch).arg(truth.late);
        write.arg(&["left", &truth.left.to_string()]);
        write.arg(&["taken", &truth.taken.to_string()]);
        // Above every turn of the lives before this one, which other buckets
        // may remember.
        write.arg("turn").arg(address.epoch * TURNS);
        let mut held = HashMap::<&str, (u32, String)>::new();
        for Known { hold, counts, .. } in &truth.claims {
            if *counts {
                let entry = held.entry(hold.shopper.as_str()).or_default();
                entry.0 += hold.quantity;
                entry.1 = format!("{} {}", entry.1, hold.claim.digest());
            }
            write.arg(format!("c:{}", hold.claim.digest()));
            write.arg(record(hold));
        }
        for (shopper, (units, digests)) in held {
            write.arg(format!("u:{shopper}"));
            write.arg(format!("{units}{digests}"));
        }
        write.arg("");
        for Known { hold, due, .. } in &truth.claims {
            if let Some(deadline) = due {
                write.arg(hold.claim.to_string());
                write.arg(deadline.as_millisecond());
            }
        }
        if !self.run::<bool>(&address.tag, write).await? {
            return Err(Error::Frozen);
        }
        let mut load = cmd("SCRIPT");
        load.arg("LOAD").arg(self.bucket(address).fence.text);
        self.run::<String>(&address.tag, load).await?;
        Ok(())
    }

    /// Looks at one bucket.
    ///
    /// # Errors
    /// No answer, or the bucket is not loaded.
    pub async fn look(&self, tag: &str) -> Result<View, Error> {
        let mut look = pipe();
        look.cmd("HMGET")
            .arg(stock_key(tag))
            .arg(&["left", "taken"]);
        look.cmd("ZCARD").arg(due_key(tag));
        look.cmd("PFCOUNT").arg(entries_key(tag));
        look.cmd("HGET").arg(late_key(tag)).arg("n");
        let mut answers = self.run_all(tag, look).await?.into_iter();
        let mut answer = || answers.next().unwrap_or(Value::Nil);
        let (left, taken): (Option<u64>, Option<u64>) = read(answer())?;
        Ok(View {
            left: left.ok_or(Error::NotReady)?,
            taken: taken.ok_or(Error::NotReady)?,
            due: read(answer())?,
            entries: read(answer())?,
            late: read::<Option<u64>>(answer())?.unwrap_or(0),
        })
    }

    /// Whether the bucket's claim script is loaded and its counter of the same
    /// life, asked on its primary.
    ///
    /// # Errors
    /// No answer.
    pub async fn is_open(&self, address: &GateAddress) -> Result<bool, Error> {
        let mut look = pipe();
        look.cmd("SCRIPT")
            .arg("EXISTS")
            .arg(self.bucket(address).fence.sha);
        look.cmd("HGET").arg(stock_key(&address.tag)).arg("epoch");
        let mut answers = self.run_all(&address.tag, look).await?.into_iter();
        let mut answer = || answers.next().unwrap_or(Value::Nil);
        let known: Vec<bool> = read(answer())?;
        let epoch: Option<u64> = read(answer())?;
        Ok(known == [true] && epoch == Some(address.epoch))
    }

    /// Claims whose deadline has passed, the oldest first, at most
    /// [`DUE_BATCH`].
    ///
    /// # Errors
    /// No answer.
    pub async fn due(&self, tag: &str, until: Timestamp) -> Result<Vec<ClaimId>, Error> {
        let mut command = cmd("ZRANGEBYSCORE");
        command
            .arg(due_key(tag))
            .arg("-inf")
            .arg(until.as_millisecond());
        command.arg("LIMIT").arg(0).arg(DUE_BATCH);
        let claims: Vec<String> = self.run(tag, command).await?;
        Ok(claims
            .iter()
            .filter_map(|claim| claim.parse().ok())
            .collect())
    }

    /// Left, taken, and every claim that has a deadline, read at one moment.
    ///
    /// # Errors
    /// No answer, or the bucket is not loaded.
    pub async fn holds(&self, tag: &str) -> Result<(View, Vec<Hold>), Error> {
        let Records { view, due, .. } = self.records(tag).await?;
        Ok((view, due))
    }

    /// Left, taken, and every claim that the bucket has a record of, read at
    /// one moment.
    ///
    /// # Errors
    /// No answer, or the bucket is not loaded.
    pub async fn records(&self, tag: &str) -> Result<Records, Error> {
        let read = script::eval(script::READ, &[&stock_key(tag), &due_key(tag)]);
        let (mut fields, due): (HashMap<String, String>, Vec<String>) = self.run(tag, read).await?;
        let number = |name: &str| {
            fields
                .get(name)
                .and_then(|n| n.parse().ok())
                .ok_or(Error::NotReady)
        };
        let view = View {
            left: number("left")?,
            taken: number("taken")?,
            due: due.len() as u64,
            ..View::default()
        };
        let claims = due.iter().filter_map(|claim| claim.parse::<ClaimId>().ok());
        let due = claims
            .filter_map(|claim| {
                fields
                    .remove(&format!("c:{}", claim.digest()))?
                    .parse()
                    .ok()
            })
            .collect();
        let rest = fields.iter().filter(|(name, _)| name.starts_with("c:"));
        let rest = rest.filter_map(|(_, record)| record.parse().ok()).collect();
        Ok(Records { view, due, rest })
    }

    /// What this bucket knows of a claim.
    ///
    /// # Errors
    /// No answer.
    pub async fn hold(&self, tag: &str, claim: &ClaimId) -> Result<Option<Hold>, Error> {
        let mut command = cmd("HGET");
        command
            .arg(stock_key(tag))
            .arg(format!("c:{}", claim.digest()));
        let record: Option<String> = self.run(tag, command).await?;
        record.map(|record| record.parse()).transpose()
    }

    /// The units that this bucket counts for a shopper, and the newest claim.
    ///
    /// # Errors
    /// No answer.
    pub(crate) async fn newest(
        &self,
        tag: &str,
        shopper: &ShopperId,
    ) -> Result<Option<(u32, Hold)>, Error> {
        let field = |name: String| {
            let mut command = cmd("HGET");
            command.arg(stock_key(tag)).arg(name);
            self.run::<Option<String>>(tag, command)
        };
        let Some(mine) = field(format!("u:{shopper}")).await? else {
            return Ok(None);
        };
        let odd = || Error::Unavailable("a record of another shape".to_owned());
        // The units, then the claims' digests, the newest last.
        let (units, digests) = mine.split_once(' ').ok_or_else(odd)?;
        let digest = digests.rsplit(' ').next().unwrap_or(digests);
        let units = units.parse().map_err(|_| odd())?;
        let record = field(format!("c:{digest}")).await?;
        let hold: Option<Hold> = record.map(|record| record.parse()).transpose()?;
        Ok(hold.map(|hold| (units, hold)))
    }

    /// Corrects a counter that differs by `gap` (gate minus ledger) from what
    /// it must be, if it still is as it was seen.
    ///
    /// # Errors
    /// No answer.
    pub async fn correct(
        &self,
        tag: &str,
        seen: &View,
        gap: i64,
        now: Timestamp,
    ) -> Result<Correction, Error> {
        let mut command = script::eval(script::CORRECT, &[&stock_key(tag)]);
        command.arg(seen.left).arg(seen.taken).arg(gap);
        command.arg(now.as_millisecond()).arg(GAP_AGE_MS);
        command.arg(MOVE_MAX_MS);
        Ok(match self.run::<String>(tag, command).await?.as_str() {
            "AGREES" => Correction::Agrees,
            "LOWERED" => Correction::Lowered,
            "RAISED" => Correction::Raised,
            "NOTED" => Correction::Noted,
            _ => Correction::Moved,
        })
    }

    /// Takes up to so many free units out of a bucket; says how many.
    ///
    /// # Errors
    /// No answer, not loaded, or in another life than this address says.
    pub async fn take(&self, address: &GateAddress, units: u32) -> Result<u32, Error> {
        self.take_units(address, units, None).await
    }

    /// Takes as [`Gate::take`] does, as a part of a move that will take the
    /// ledger along: until [`MOVE_MAX_MS`] after `now`, no comparison puts
    /// units into this bucket. With no units: announces that some come.
    ///
    /// # Errors
    /// As [`Gate::take`].
    pub async fn begin_move(
        &self,
        address: &GateAddress,
        units: u32,
        now: Timestamp,
    ) -> Result<u32, Error> {
        self.take_units(address, units, Some(now)).await
    }

    async fn take_units(
        &self,
        address: &GateAddress,
        units: u32,
        begun: Option<Timestamp>,
    ) -> Result<u32, Error> {
        let taken = self.move_units(address, i64::from(units), begun).await?;
        u32::try_from(taken).map_err(|_| Error::NotReady)
    }

    /// Puts units into a bucket.
    ///
    /// # Errors
    /// As [`Gate::take`].
    pub async fn put(&self, address: &GateAddress, units: u32) -> Result<(), Error> {
        let moved = self.move_units(address, -i64::from(units), None).await;
        moved.map(drop)
    }

    async fn move_units(
        &self,
        address: &GateAddress,
        units: i64,
        begun: Option<Timestamp>,
    ) -> Result<i64, Error> {
        let mut command = script::eval(script::TAKE, &[&stock_key(&address.tag)]);
        let begun = begun.map(|at| at.as_millisecond().to_string());
        command
            .arg(units)
            .arg(address.epoch)
            .arg(begun.unwrap_or_default())
            .arg(Uuid::new_v4().simple().to_string());
        self.run::<Option<i64>>(&address.tag, command)
            .await?
            .ok_or(Error::NotReady)
    }

    /// The slots of each primary, in the order of their first slot.
    ///
    /// # Errors
    /// No answer.
    pub async fn primaries(&self) -> Result<Vec<Vec<std::ops::RangeInclusive<u16>>>, Error> {
        let mut command = cmd("CLUSTER");
        command.arg("SLOTS");
        let shards: Vec<Vec<Value>> = self.ask_any(command).await?;
        let mut primaries = std::collections::BTreeMap::<String, Vec<_>>::new();
        for shard in shards {
            let mut shard = shard.into_iter();
            let mut next = || shard.next().unwrap_or(Value::Nil);
            let (first, last): (u16, u16) = (read(next())?, read(next())?);
            let node: Vec<Value> = read(next())?;
            let name = node.get(2).cloned().unwrap_or(Value::Nil);
            let owner: String = read(name)?;
            primaries
                .entry(owner)
                .or_default()
                .push(first..=last.min(SLOTS - 1));
        }
        let mut primaries: Vec<_> = primaries.into_values().collect();
        primaries.sort_by_key(|ranges: &Vec<std::ops::RangeInclusive<u16>>| {
            ranges.iter().map(|range| *range.start()).min()
        });
        Ok(primaries)
    }
}

fn record(hold: &Hold) -> String {
    format!(
        "{} {} {} {} {} {}",
        hold.claim,
        hold.quantity,
        hold.taken_here,
        hold.turn,
        hold.pay_by.as_millisecond(),
        hold.shopper
    )
}
