//! Ledger-only mode: claims of a sale whose gates are away, if its merchant
//! chose that. Each is answered "confirming": the ledger decides.
//!
//! Nothing here says yes. A shopper gets one claim, which is noted before it is
//! sent, so that repetitions lead to it, also once the gates are back. What
//! lets so few through is a row of the ledger for each bucket and moment, the
//! same for all environments.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::{Code, Problem, Reply};
use domain::bucket::home;
use domain::{BucketId, ClaimId, Order, OrderStatus, Sale, SaleId};
use gate::sale::Request;
use jiff::{SignedDuration, Timestamp};
use lambda_http::http::StatusCode;
use ledger::orders::Bucket;
use ledger::without_gates::{Confirming, Permit, Window};

use crate::ClaimFunction;
use crate::admission::{Claimant, Visitor};
use crate::refusal::{limit_reached, reused};
use crate::view;
use crate::yes::Yes;

/// Rows of buckets are read again after this: a life that is closed stays so,
/// and how much is to spare is the order function's to decide.
const ROWS_AGE_MAX: SignedDuration = SignedDuration::from_millis(500);

/// Sales that are remembered at once.
const SALES_MAX: usize = 100;

type Rows = HashMap<SaleId, (Timestamp, Arc<Vec<Bucket>>)>;

/// What one environment remembers, so that a crowd does not ask the ledger in
/// vain.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    rows: Mutex<Rows>,
    /// The newest window of each bucket that was found used up.
    used_up: Mutex<HashMap<(SaleId, BucketId), i64>>,
}

impl Remembered {
    fn is_used_up(&self, sale: &SaleId, home: BucketId, window: Window) -> bool {
        let used_up = self.used_up.lock().unwrap_or_else(PoisonError::into_inner);
        used_up.get(&(sale.clone(), home)) == Some(&window.number)
    }

    fn note_used_up(&self, sale: &SaleId, home: BucketId, window: Window) {
        let mut used_up = self.used_up.lock().unwrap_or_else(PoisonError::into_inner);
        if used_up.len() >= SALES_MAX * 40 {
            used_up.clear();
        }
        used_up.insert((sale.clone(), home), window.number);
    }

    fn rows(&self, sale: &SaleId, now: Timestamp) -> Option<Arc<Vec<Bucket>>> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, rows) = rows.get(sale)?;
        (now - *at < ROWS_AGE_MAX && *at <= now).then(|| Arc::clone(rows))
    }

    fn note_rows(&self, sale: &SaleId, now: Timestamp, rows: &Arc<Vec<Bucket>>) {
        let mut held = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() >= SALES_MAX {
            held.clear();
        }
        held.insert(sale.clone(), (now, Arc::clone(rows)));
    }
}

impl ClaimFunction {
    /// The claim that was taken for this shopper while the gates were away, if
    /// one was: whoever asks again hears of it, by whatever key.
    pub(crate) async fn taken_before(
        &self,
        whose: Claimant<'_>,
        request: &Request<'_>,
    ) -> Result<Option<Reply>, Problem> {
        let sale = whose.sale;
        if !sale.gates_were_away || sale.config.ledger_only_rate_per_s == 0 {
            return Ok(None);
        }
        let noted = self.ledger.confirming(&sale.id, whose.shopper).await?;
        let Some(noted) = noted else { return Ok(None) };
        let order = self.ledger.order(&noted.claim).await?;
        if asked(sale, request).digest() != noted.claim.digest() {
            let voided = is_voided(order.as_ref());
            return match noted.quantity {
                _ if voided => Ok(None),
                held if held >= request.limit => self.again_by_ledger(whose, &noted, order).await,
                held if held + request.quantity > request.limit => Err(limit(request, &noted)),
                // A gate may give one more.
                _ => Ok(None),
            };
        }
        if noted.quantity != request.quantity {
            return Err(reused());
        }
        self.again_by_ledger(whose, &noted, order).await
    }

    /// Whatever the ledger knows of a claim that is noted. If it knows nothing,
    /// the message may never have been stored: once more.
    async fn again_by_ledger(
        &self,
        whose: Claimant<'_>,
        noted: &Confirming,
        order: Option<Order>,
    ) -> Result<Option<Reply>, Problem> {
        let sale = whose.sale;
        let reply = match order {
            Some(order) => Reply::ok(&view::ordered(sale, &order)),
            None => {
                self.send_noted(whose, noted).await?;
                confirming(sale, noted)
            }
        };
        reply.map(Some)
    }

    /// Takes a claim without its gate, if the sale takes any so now. `because`:
    /// what the gates said.
    pub(crate) async fn claim_by_ledger(
        &self,
        visitor: &Visitor,
        request: &Request<'_>,
        because: gate::Error,
        now: Timestamp,
    ) -> Result<Reply, Problem> {
        let sale = &visitor.sale;
        let window = sale.config.ledger_only_window(now);
        let (Some(window), Some(_)) = (window, sale.gates_away) else {
            return Err(because.into());
        };
        let window = Window {
            claims: window.0,
            number: window.1,
        };
        let home = home(&visitor.shopper, sale.config.buckets);
        if self.without_gates.is_used_up(&sale.id, home, window) {
            return Err(Problem::new(Code::TooManyRequests));
        }
        let noted = self.ledger.confirming(&sale.id, &visitor.shopper).await?;
        if let Some(noted) = &noted {
            let order = self.ledger.order(&noted.claim).await?;
            if !is_voided(order.as_ref()) {
                // One each, until the gates are back.
                return Err(limit(request, noted));
            }
        }
        let orders = self.orders_of(visitor.claimant()).await?;
        if let Some(known) = had(sale, request, &orders) {
            return known;
        }
        let rows = self.bucket_rows(sale, now).await?;
        let count = rows.len();
        let from_home = (0..count).map(|step| (usize::from(home.0) + step) % count);
        let has_some = |n: &usize| rows[*n].spare >= request.quantity;
        let Some(n) = from_home.into_iter().find(has_some) else {
            return Err(self.sold_out(visitor, now).await?);
        };
        let (bucket, epoch) = (BucketId(n as u16), rows[n].epoch);
        // Before the message: see `ledger::without_gates`.
        if rows[n].closed != epoch && !self.ledger.close_life(&sale.id, bucket, epoch).await? {
            // It is being recovered.
            return Err(Problem::new(Code::Frozen));
        }
        let taken = Confirming {
            claim: asked(sale, request).in_bucket(bucket),
            quantity: request.quantity,
            pay_by: request.pay_by,
            taken_at: now,
            epoch,
        };
        let instead = noted.as_ref().map(|noted| &noted.claim);
        let permit =
            self.ledger
                .take_permit(&sale.id, home, window, &visitor.shopper, &taken, instead);
        match permit.await? {
            Permit::Taken => {}
            Permit::Busy => {
                self.without_gates.note_used_up(&sale.id, home, window);
                return Err(Problem::new(Code::TooManyRequests));
            }
            // The same shopper, at the same time: asked again, they hear of it.
            Permit::Other => return Err(Problem::new(Code::Unavailable).because("asked twice")),
        }
        self.send_noted(visitor.claimant(), &taken).await?;
        confirming(sale, &taken)
    }

    /// Orders of the shopper's claims, whatever gate knows of them; none that was
    /// voided.
    pub(crate) async fn orders_of(&self, whose: Claimant<'_>) -> Result<Vec<Order>, Problem> {
        let Claimant { sale, shopper } = whose;
        let mut rows = self.ledger.customers(&sale.id, [shopper]).await?;
        let Some(row) = rows.remove(shopper) else {
            return Ok(Vec::new());
        };
        let claims = row.claims.iter().flat_map(|digest| {
            let named = move |n| format!("cl_{}_{}_{digest}", sale.id, BucketId(n));
            (0..sale.config.buckets).filter_map(move |n| named(n).parse::<ClaimId>().ok())
        });
        let claims: Vec<ClaimId> = claims.collect();
        let orders = self.ledger.orders(&claims).await?.into_values();
        Ok(orders.filter(|order| !is_voided(Some(order))).collect())
    }

    async fn bucket_rows(&self, sale: &Sale, now: Timestamp) -> Result<Arc<Vec<Bucket>>, Problem> {
        if let Some(rows) = self.without_gates.rows(&sale.id, now) {
            return Ok(rows);
        }
        let rows = self.ledger.buckets(&sale.id, sale.config.buckets).await?;
        let rows = Arc::new(rows);
        self.without_gates.note_rows(&sale.id, now, &rows);
        Ok(rows)
    }

    /// The message of a claim that is noted, once more or for the first time.
    async fn send_noted(&self, whose: Claimant<'_>, noted: &Confirming) -> Result<(), Problem> {
        let yes = Yes {
            claim: &noted.claim,
            quantity: noted.quantity,
            claimed_at: noted.taken_at,
            pay_by: noted.pay_by,
            epoch: noted.epoch,
        };
        self.send(whose, yes).await
    }
}

/// What the shopper's orders are to a request: one is of this key, or they are as
/// much as one may have had.
pub(crate) fn had(
    sale: &Sale,
    request: &Request<'_>,
    orders: &[Order],
) -> Option<Result<Reply, Problem>> {
    let digest = asked(sale, request).digest().to_owned();
    if let Some(same) = orders.iter().find(|order| order.claim.digest() == digest) {
        return Some(if same.quantity == request.quantity {
            Reply::ok(&view::ordered(sale, same))
        } else {
            Err(reused())
        });
    }
    // As at a gate: who let a hold lapse had the chance.
    let units: u32 = orders.iter().map(|order| order.quantity).sum();
    let newest = orders.iter().max_by_key(|order| order.claimed_at);
    let newest = newest.filter(|_| units + request.quantity > request.limit)?;
    Some(if units >= request.limit {
        Reply::ok(&view::ordered(sale, newest))
    } else {
        Err(limit_reached(units, request.limit, &newest.claim))
    })
}

/// The claim that a request is about, in the shopper's home.
fn asked(sale: &Sale, request: &Request<'_>) -> ClaimId {
    let home = home(request.shopper, sale.config.buckets);
    ClaimId::derive(&sale.id, home, request.shopper, request.key)
}

fn is_voided(order: Option<&Order>) -> bool {
    order.is_some_and(|order| order.status == OrderStatus::Voided)
}

fn limit(request: &Request<'_>, noted: &Confirming) -> Problem {
    limit_reached(noted.quantity, request.limit, &noted.claim)
}

fn confirming(sale: &Sale, noted: &Confirming) -> Result<Reply, Problem> {
    Reply::json(StatusCode::ACCEPTED, &view::taken(sale, noted))
}
