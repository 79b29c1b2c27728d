//! One bucket: claim, mark, release, settle.

use domain::slot::GateAddress;
use domain::{ClaimId, ShopperId};
use jiff::Timestamp;
use redis::{Cmd, Value, cmd, pipe};

use crate::Error;
use crate::connection::{Gate, read};
use crate::script::{self, Fence};

/// How often a claim is looked at before its shopper is told that nobody knows.
const LOOKS: u32 = 3;

/// What a shopper asks a bucket for.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// Who.
    pub shopper: &'a ShopperId,
    /// The claim that it would be; its bucket is where the units are taken.
    pub claim: &'a ClaimId,
    /// How many units.
    pub quantity: u32,
    /// How many the shopper may hold.
    pub limit: u32,
    /// When it must be paid.
    pub pay_by: Timestamp,
    /// Claims a second that this bucket lets through; `None`: no bound.
    pub rate_per_s: Option<u32>,
}

/// What a gate holds of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Which claim; its bucket is where the units are.
    pub claim: ClaimId,
    /// How many units.
    pub quantity: u32,
    /// How many of them were taken from the bucket that says so: none if it
    /// only marks the shopper.
    pub taken_here: u32,
    /// Which mark led to it, or which mark it is, in the count of the home
    /// bucket; 0: claimed without a mark.
    pub turn: u64,
    /// When it must be paid.
    pub pay_by: Timestamp,
    /// Whose.
    pub shopper: ShopperId,
}

impl std::str::FromStr for Hold {
    type Err = Error;
    fn from_str(record: &str) -> Result<Self, Error> {
        let odd = || Error::Unavailable("a record of another shape".to_owned());
        let mut parts = record.splitn(6, ' ');
        let mut next = || parts.next().ok_or_else(odd);
        let claim = next()?.parse().map_err(|_| odd())?;
        let quantity = next()?.parse().map_err(|_| odd())?;
        let taken_here = next()?.parse().map_err(|_| odd())?;
        let turn = next()?.parse().map_err(|_| odd())?;
        let pay_by = next()?.parse().map_err(|_| odd())?;
        let shopper = next()?.parse().map_err(|_| odd())?;
        let pay_by = Timestamp::from_millisecond(pay_by).map_err(|_| odd())?;
        Ok(Self {
            claim,
            quantity,
            taken_here,
            turn,
            pay_by,
            shopper,
        })
    }
}

/// A bucket's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Yes, now.
    Claimed(Hold),
    /// This very claim was made before.
    Same(Hold),
    /// The shopper holds so much that this would exceed the limit; the newest
    /// claim, and the units held.
    Holds(Hold, u32),
    /// Not enough units.
    Empty,
    /// More claims in this second than the race lets through.
    Busy,
}

/// What ending a hold does to units and shopper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// Expired or given back: units return; the shopper had the chance.
    Lapsed,
    /// Voided, and the units exist: they return, the shopper may ask again.
    Voided,
    /// Voided since the units never existed: none return.
    Forget,
    /// The mark of this turn, for a claim that was not made after all.
    Erase(u64),
}

impl Release {
    /// What becomes of units, shopper, and of a mark of which turn.
    fn arguments(self) -> [String; 3] {
        let (units, shopper, turn) = match self {
            Self::Lapsed => ("return", "spent", None),
            Self::Voided => ("return", "forget", None),
            Self::Forget => ("keep", "forget", None),
            Self::Erase(turn) => ("keep", "erase", Some(turn)),
        };
        let turn = turn.map(|turn| turn.to_string());
        [units.into(), shopper.into(), turn.unwrap_or_default()]
    }
}

/// The gate of one bucket, in one life.
#[derive(Debug, Clone)]
pub struct BucketGate {
    gate: Gate,
    tag: String,
    stock: String,
    due: String,
    rate: String,
    /// Written so that there is something to wait for; never read.
    look: String,
    epoch: u64,
    pub(crate) fence: Fence,
}

/// The key of a bucket's hash.
pub(crate) fn stock_key(tag: &str) -> String {
    format!("{{{tag}}}:stock")
}

/// The key of a bucket's deadlines.
pub(crate) fn due_key(tag: &str) -> String {
    format!("{{{tag}}}:due")
}

impl Gate {
    /// The gate at this address.
    pub fn bucket(&self, address: &GateAddress) -> BucketGate {
        let tag = address.tag.clone();
        BucketGate {
            gate: self.clone(),
            stock: stock_key(&tag),
            due: due_key(&tag),
            rate: format!("{{{tag}}}:rate"),
            look: format!("{{{tag}}}:look"),
            epoch: address.epoch,
            fence: Fence::new(&tag, address.epoch),
            tag,
        }
    }

    /// Drops the deadline of a claim that was paid.
    ///
    /// # Errors
    /// No answer; the sweeper does it then.
    pub async fn settle(&self, tag: &str, claim: &ClaimId) -> Result<(), Error> {
        let mut command = cmd("ZREM");
        command.arg(due_key(tag)).arg(claim.to_string());
        self.run(tag, command).await
    }

    /// Moves the deadline of a claim that is still due.
    ///
    /// # Errors
    /// No answer.
    pub async fn defer(&self, tag: &str, claim: &ClaimId, until: Timestamp) -> Result<(), Error> {
        let mut command = cmd("ZADD");
        command
            .arg(due_key(tag))
            .arg("XX")
            .arg(until.as_millisecond())
            .arg(claim.to_string());
        self.run(tag, command).await
    }

    /// Ends a hold, if it still has a deadline. Says whether this call did.
    ///
    /// # Errors
    /// No answer; doing it again is safe.
    pub async fn release(&self, tag: &str, claim: &ClaimId, how: Release) -> Result<bool, Error> {
        Ok(self.release_all(tag, [claim], how).await? == [true])
    }

    /// Ends holds at one moment, as [`Gate::release`] ends one, and says of each, in
    /// their order, whether this call did. Some dozens at most: nothing else runs on
    /// their node meanwhile.
    ///
    /// # Errors
    /// No answer; doing it again is safe.
    pub async fn release_all<'a>(
        &self,
        tag: &str,
        claims: impl IntoIterator<Item = &'a ClaimId>,
        how: Release,
    ) -> Result<Vec<bool>, Error> {
        let mut command = script::eval(script::RELEASE, &[&stock_key(tag), &due_key(tag)]);
        command.arg(&how.arguments());
        for claim in claims {
            command.arg(claim.to_string()).arg(claim.digest());
        }
        self.run(tag, command).await
    }
}

impl BucketGate {
    /// Hash tag of its keys.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Asks for units of this bucket.
    ///
    /// # Errors
    /// Frozen, not loaded, or no answer: never "empty".
    pub async fn claim(&self, ask: &Ask<'_>) -> Result<Decision, Error> {
        self.ask(ask, "take", 0).await
    }

    /// Asks for units of this bucket, to which the mark of this turn leads.
    /// "Empty" holds for this turn from then on, whatever comes back here.
    ///
    /// # Errors
    /// As [`BucketGate::claim`].
    pub async fn claim_marked(&self, ask: &Ask<'_>, turn: u64) -> Result<Decision, Error> {
        self.ask(ask, "take", turn).await
    }

    /// Marks the shopper here for units that are taken elsewhere, in place of
    /// the mark `led_nowhere` (0: of none). "Same" if another mark or claim of
    /// this key stands.
    ///
    /// # Errors
    /// As [`BucketGate::claim`].
    pub async fn mark(&self, ask: &Ask<'_>, led_nowhere: u64) -> Result<Decision, Error> {
        self.ask(ask, "mark", led_nowhere).await
    }

    async fn ask(&self, ask: &Ask<'_>, how: &str, turn: u64) -> Result<Decision, Error> {
        let mut command = cmd("EVALSHA");
        command
            .arg(&self.fence.sha)
            .arg(3)
            .arg(&[&self.stock, &self.due, &self.rate])
            .arg(ask.shopper.as_str())
            .arg(ask.claim.to_string())
            .arg(ask.claim.digest())
            .arg(ask.quantity)
            .arg(ask.limit)
            .arg(ask.pay_by.as_millisecond())
            .arg(how)
            .arg(ask.rate_per_s.unwrap_or(0))
            .arg(turn);
        let answer: Vec<Value> = self.gate.run(&self.tag, command).await?;
        let mut words = answer.into_iter().map(read::<String>);
        let mut word = || words.next().unwrap_or_else(|| Ok(String::new()));
        match word()?.as_str() {
            "CLAIMED" => Ok(Decision::Claimed(word()?.parse()?)),
            "SAME" => Ok(Decision::Same(word()?.parse()?)),
            "HOLDS" => {
                let newest = word()?.parse()?;
                Ok(Decision::Holds(
                    newest,
                    word()?.parse().unwrap_or(ask.limit),
                ))
            }
            "EMPTY" => Ok(Decision::Empty),
            "BUSY" => Ok(Decision::Busy),
            "NOT_READY" => Err(Error::NotReady),
            // An epoch that is not ours: this gate has had another life.
            _ => Err(Error::Frozen),
        }
    }

    /// Which life of the bucket this is the gate of.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether enough replicas acknowledge what was written before, in time.
    ///
    /// # Errors
    /// No answer.
    pub async fn acknowledged(&self) -> Result<bool, Error> {
        let acknowledged: u32 = self.gate.run(&self.tag, self.wait()).await?;
        Ok(acknowledged >= self.gate.acks)
    }

    fn wait(&self) -> Cmd {
        let mut command = cmd("WAIT");
        command.arg(self.gate.acks).arg(self.gate.ack_wait_ms);
        command
    }

    /// Waits until enough replicas have what was written before, on the same
    /// primary and connection, and looks whether that is the claim, in this
    /// life, and the bucket open: after a failover, `WAIT` would speak of a
    /// primary that may never have had it. `false`: a failover could take the
    /// claim back, or did.
    ///
    /// Asked once the claim's message is stored: while the bucket is open no
    /// recovery has been asked for, so any that follows stands behind it.
    ///
    /// # Errors
    /// No answer.
    pub async fn replicated(&self, claim: &ClaimId) -> Result<bool, Error> {
        let mut looked = self.look_at(claim).await;
        for _ in 1..LOOKS {
            if looked.is_ok() {
                break;
            }
            looked = self.look_at(claim).await;
        }
        looked
    }

    /// `WAIT` comes last, behind a write: the connection may be a new one, to a
    /// primary on which another one wrote the claim. Of a connection that has
    /// only read, Valkey says at once that everything is acknowledged (seen on
    /// 9.1; Redis 7 waits for what was read, too).
    async fn look_at(&self, claim: &ClaimId) -> Result<bool, Error> {
        let mut look = pipe();
        look.cmd("SCRIPT").arg("EXISTS").arg(&self.fence.sha);
        look.cmd("HMGET")
            .arg(&self.stock)
            .arg("epoch")
            .arg(format!("c:{}", claim.digest()));
        look.cmd("SET").arg(&self.look).arg(1);
        look.add_command(self.wait());
        let mut answers = self.gate.run_all(&self.tag, look).await?.into_iter();
        let mut answer = || answers.next().unwrap_or(Value::Nil);
        let known: Vec<bool> = read(answer())?;
        let (epoch, record): (Option<u64>, Option<String>) = read(answer())?;
        let _written = answer();
        let acknowledged: u32 = read(answer())?;
        let hold: Option<Hold> = record.map(|record| record.parse()).transpose()?;
        Ok(acknowledged >= self.gate.acks
            && known == [true]
            && epoch == Some(self.epoch)
            && hold.is_some_and(|hold| hold.claim == *claim))
    }
}
