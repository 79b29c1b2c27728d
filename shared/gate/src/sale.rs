//! All buckets of a sale: home first, then whoever has units, and "sold out"
//! only after every one of them said so.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::bucket::home;
use domain::slot::Gates;
use domain::{BucketId, ClaimId, IdempotencyKey, SaleId, ShopperId};
use futures::future::join_all;
use jiff::Timestamp;
use redis::{Value, pipe};

use crate::Error;
use crate::bucket::{Ask, BucketGate, Decision, Hold, Release, stock_key};
use crate::connection::{Gate, read};

/// How often a claim starts over after a mark that led nowhere.
const ATTEMPTS: u32 = 4;

/// A claim on any bucket of a sale.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Who.
    pub shopper: &'a ShopperId,
    /// Their name for this attempt.
    pub key: &'a IdempotencyKey,
    /// How many units.
    pub quantity: u32,
    /// How many the shopper may hold.
    pub limit: u32,
    /// When it must be paid.
    pub pay_by: Timestamp,
    /// Claims a second that each bucket lets through; `None`: no bound.
    pub rate_per_s: Option<u32>,
}

/// The gates of one sale.
#[derive(Debug, Clone)]
pub struct SaleGates {
    gate: Gate,
    sale: SaleId,
    buckets: Vec<BucketGate>,
    frozen: Arc<Mutex<BTreeSet<BucketId>>>,
}

impl SaleGates {
    /// The gates at these addresses.
    pub fn new(gate: &Gate, sale: &SaleId, gates: &Gates) -> Self {
        let buckets = gates
            .addresses
            .iter()
            .map(|address| gate.bucket(address))
            .collect();
        Self {
            gate: gate.clone(),
            sale: sale.clone(),
            buckets,
            frozen: Arc::default(),
        }
    }

    /// Buckets that were found frozen since this was last asked, and the life
    /// in which they were.
    pub fn take_frozen(&self) -> Vec<(BucketId, u64)> {
        let frozen = std::mem::take(&mut *self.frozen());
        let epoch = |id: BucketId| Some((id, self.bucket(id)?.epoch()));
        frozen.into_iter().filter_map(epoch).collect()
    }

    fn frozen(&self) -> MutexGuard<'_, BTreeSet<BucketId>> {
        self.frozen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gate of one bucket.
    pub fn bucket(&self, id: BucketId) -> Option<&BucketGate> {
        self.buckets.get(usize::from(id.0))
    }

    /// What the shopper holds or held already, for when nothing more is given
    /// out: never takes a unit.
    ///
    /// # Errors
    /// No answer, or not loaded.
    pub async fn held(&self, request: &Request<'_>) -> Result<Option<Decision>, Error> {
        let home = home(request.shopper, self.buckets.len() as u16);
        let asked = ClaimId::derive(&self.sale, home, request.shopper, request.key);
        let gate = self.bucket(home).ok_or(Error::NotReady)?;
        // This very claim, if it is one of several.
        let (_, same) = self.glance(usize::from(home.0), &asked).await?;
        let found = match same {
            Some(hold) => Some((0, hold)),
            None => self.gate.newest(gate.tag(), request.shopper).await?,
        };
        let Some((units, hold)) = found else {
            return Ok(None);
        };
        if hold.claim.bucket() != home {
            // A mark counts if its units were taken.
            let elsewhere = self.bucket(hold.claim.bucket()).ok_or(Error::NotReady)?;
            let taken = self.gate.hold(elsewhere.tag(), &hold.claim).await?;
            if taken.is_none_or(|taken| taken.taken_here == 0) {
                return Ok(None);
            }
        }
        Ok(if hold.claim.digest() == asked.digest() {
            Some(Decision::Same(hold))
        } else if units + request.quantity > request.limit {
            Some(Decision::Holds(hold, units))
        } else {
            None
        })
    }

    /// Asks the home bucket, and the others if it is empty or frozen.
    ///
    /// # Errors
    /// No bucket could be asked, or none gave units while some could not be
    /// asked: the shopper is not told "sold out" on half a view.
    pub async fn claim(&self, request: &Request<'_>) -> Result<Decision, Error> {
        for _ in 0..ATTEMPTS {
            if let Some(decision) = self.attempt(request).await? {
                return Ok(decision);
            }
        }
        Err(Error::Unavailable("marks kept changing".to_owned()))
    }

    /// One attempt; `None` if a mark led nowhere and was erased: start over.
    async fn attempt(&self, request: &Request<'_>) -> Result<Option<Decision>, Error> {
        let home = home(request.shopper, self.buckets.len() as u16);
        let claim = ClaimId::derive(&self.sale, home, request.shopper, request.key);
        let gate = self.bucket(home).ok_or(Error::NotReady)?;
        match gate.claim(&request.ask(&claim)).await {
            Ok(Decision::Empty) => self.overflow(request, &claim, Some(gate)).await,
            // Without a mark at home, the ledger alone keeps the limit.
            Err(Error::Frozen | Error::NotReady) => {
                self.frozen().insert(home);
                self.overflow(request, &claim, None).await
            }
            // Its answer may be lost and the unit taken: the same key finds it
            // there, while another bucket would hold a second one.
            Err(error) => Err(error),
            Ok(decision) => self.complete(decision, home, gate).await,
        }
    }

    /// What the home bucket said of an earlier claim may be a mark: its units
    /// are, or were about to be, in another bucket. They are taken there now,
    /// if they were not before.
    async fn complete(
        &self,
        decision: Decision,
        home: BucketId,
        home_gate: &BucketGate,
    ) -> Result<Option<Decision>, Error> {
        let hold = match &decision {
            Decision::Same(hold) | Decision::Holds(hold, _) if hold.claim.bucket() != home => hold,
            _ => return Ok(Some(decision)),
        };
        let gate = self.bucket(hold.claim.bucket()).ok_or(Error::NotReady)?;
        let ask = Ask {
            shopper: &hold.shopper,
            claim: &hold.claim,
            quantity: hold.quantity,
            // The mark at home has passed the limit; here it is one claim.
            limit: u32::MAX,
            pay_by: hold.pay_by,
            rate_per_s: None,
        };
        match gate.claim_marked(&ask, hold.turn).await? {
            Decision::Empty => {
                self.erase(home_gate, hold).await?;
                Ok(None)
            }
            _ => Ok(Some(decision)),
        }
    }

    /// Takes a mark that led to no units back.
    async fn erase(&self, home: &BucketGate, mark: &Hold) -> Result<(), Error> {
        let how = Release::Erase(mark.turn);
        self.gate.release(home.tag(), &mark.claim, how).await?;
        Ok(())
    }

    /// Tries the other buckets. The shopper is marked at home first: a crash
    /// in between strands a mark, which times out, but never gives two units.
    async fn overflow(
        &self,
        request: &Request<'_>,
        claim: &ClaimId,
        home: Option<&BucketGate>,
    ) -> Result<Option<Decision>, Error> {
        let mut unknown = home.is_none().then_some(Error::Frozen);
        let mut marked: Option<Hold> = None;
        let mut candidates = Vec::new();
        // From the home on, so that those who overflow at one moment do not
        // all meet at one bucket.
        let count = self.buckets.len();
        let others = (1..count).map(|step| (usize::from(claim.bucket().0) + step) % count);
        let looks = others.map(|n| async move { (n, self.glance(n, claim).await) });
        for (n, seen) in join_all(looks).await {
            match seen {
                Ok((_, Some(hold))) => return Ok(Some(Decision::Same(hold))),
                Ok((free, None)) if free >= request.quantity => candidates.push(n),
                Ok(_) => {}
                Err(error) => {
                    if matches!(error, Error::Frozen | Error::NotReady) {
                        self.frozen().insert(BucketId(n as u16));
                    }
                    unknown = Some(error);
                }
            }
        }
        for n in candidates {
            let elsewhere = claim.in_bucket(BucketId(n as u16));
            let ask = Ask {
                rate_per_s: None,
                ..request.ask(&elsewhere)
            };
            if let Some(gate) = home {
                let before = marked.map_or(0, |mark| mark.turn);
                match gate.mark(&ask, before).await? {
                    Decision::Claimed(mark) => marked = Some(mark),
                    other => return self.complete(other, claim.bucket(), gate).await,
                }
            }
            let turn = marked.as_ref().map_or(0, |mark| mark.turn);
            match self.buckets[n].claim_marked(&ask, turn).await {
                Ok(Decision::Empty) => {}
                Ok(decision @ (Decision::Claimed(_) | Decision::Same(_))) => {
                    return Ok(Some(decision));
                }
                // The home forgot what this shopper has there. Repeated, the mark
                // would be completed, beyond the limit.
                Ok(decision) => {
                    if let (Some(gate), Some(mark)) = (home, &marked) {
                        self.erase(gate, mark).await?;
                    }
                    return Ok(Some(decision));
                }
                Err(error @ (Error::Frozen | Error::NotReady)) => {
                    self.frozen().insert(elsewhere.bucket());
                    unknown = Some(error);
                }
                // A unit may have been taken and its answer lost: another
                // bucket would give a second one. The mark leads the same key
                // there; else both time out.
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = unknown {
            return Err(error);
        }
        if let (Some(gate), Some(mark)) = (home, &marked) {
            self.erase(gate, mark).await?;
        }
        Ok(Some(Decision::Empty))
    }

    /// Free units of a bucket, and what it holds of this very claim. What a
    /// frozen one shows may be of any earlier moment: it is not "nothing left".
    async fn glance(&self, n: usize, claim: &ClaimId) -> Result<(u32, Option<Hold>), Error> {
        let bucket = &self.buckets[n];
        let mut look = pipe();
        look.cmd("SCRIPT").arg("EXISTS").arg(&bucket.fence.sha);
        look.cmd("HMGET")
            .arg(stock_key(bucket.tag()))
            .arg(&["left", "epoch"])
            .arg(format!("c:{}", claim.digest()));
        let answers = self.gate.run_all(bucket.tag(), look).await?;
        let mut answers = answers.into_iter();
        let mut answer = || answers.next().unwrap_or(Value::Nil);
        let known: Vec<bool> = read(answer())?;
        let (left, epoch, record): (Option<u32>, Option<u64>, Option<String>) = read(answer())?;
        let hold: Option<Hold> = record.map(|record| record.parse()).transpose()?;
        let left = left.ok_or(Error::NotReady)?;
        let open = known == [true] && epoch == Some(bucket.epoch());
        if !open && hold.is_none() {
            return Err(Error::Frozen);
        }
        Ok((left, hold))
    }
}

impl<'a> Request<'a> {
    fn ask<'b>(&self, claim: &'b ClaimId) -> Ask<'b>
    where
        'a: 'b,
    {
        Ask {
            shopper: self.shopper,
            claim,
            quantity: self.quantity,
            limit: self.limit,
            pay_by: self.pay_by,
            rate_per_s: self.rate_per_s,
        }
    }
}
