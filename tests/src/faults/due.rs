//! Ten thousand holds fall due within two seconds, while others claim.

use std::fmt;
use std::time::Duration;

use domain::{BucketId, ClaimId, Money, Order, OrderStatus};
use gate::{Ask, Decision};
use jiff::{SignedDuration, Timestamp};
use ledger::orders::Outcome;
use local::{GateServers, Options};
use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::wire::HttpWire;
use crate::{Answer, OnSale, Shop, all, now, until, until_after};

/// How many holds `make faults` lets lapse.
pub const HOLDS: u32 = 10_000;

/// They fall due within so long.
const WITHIN: SignedDuration = SignedDuration::from_secs(2);
/// Holds of a bucket.
const EACH: u32 = 250;
/// Orders of one transaction.
const BATCH: usize = 45;
/// Who claim meanwhile, a second.
const CLAIMS_PER_S: u32 = 100;
/// Claims are watched for so long before and after.
const WATCHED_S: u32 = 6;
/// No script may take longer.
const SLOW_MICROS: u32 = 10_000;
/// Of a hundred units 99 are back so long after their deadline.
const IN_TIME_MS: i64 = 2_000;
/// Beyond this the units are not coming back.
const PATIENCE: Duration = Duration::from_secs(120);

/// What came of it.
#[derive(Debug)]
pub struct Lapsed {
    holds: u32,
    /// After its deadline, each release in the ledger: p50, p99, the last.
    lag_ms: [i64; 3],
    /// After the last deadline, all units were free at the gates.
    free_after: Duration,
    /// Claims a while before, and in the same seconds: p99.
    claims_p99: [Duration; 2],
    /// Commands of the gates that took longer than 10 ms.
    slow: usize,
    /// The ledger's stand-in was at work for so long from the first deadline
    /// to the end, and in how many requests.
    busy: (Duration, u64),
    /// One release of forty holds, alone.
    alone: Duration,
}

impl Lapsed {
    /// Whether the units were back as soon as is promised.
    pub fn in_time(&self) -> bool {
        let [_, p99, _] = self.lag_ms;
        p99 <= IN_TIME_MS
    }
}

impl fmt::Display for Lapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, max] = self.lag_ms;
        let [before, during] = self.claims_p99.map(|of| of.as_millis());
        let (busy, requests) = self.busy;
        let total = self.free_after + Duration::try_from(WITHIN).unwrap_or_default();
        write!(
            f,
            "{} holds fell due within {} s: released after their deadline p50 {p50} ms, p99 {p99} \
             ms, the last {max} ms; all free at the gates {:.1} s after the last deadline, each \
             once. Claims p99 {before} ms before, {during} ms in the same seconds. {} commands of \
             the gates above {} ms. The ledger's stand-in was at work for {:.1} of these {:.1} s, \
             in {requests} requests; one release of 40 holds takes it {} ms alone.",
            self.holds,
            WITHIN.as_secs(),
            self.free_after.as_secs_f64(),
            self.slow,
            SLOW_MICROS / 1_000,
            busy.as_secs_f64(),
            total.as_secs_f64(),
            self.alone.as_millis(),
        )
    }
}

/// Lets so many holds lapse together.
///
/// # Errors
/// Something does not answer, or a unit did not come back once.
pub async fn run(holds: u32) -> anyhow::Result<Lapsed> {
    let wire = HttpWire::new(1).await;
    let mut options = Options {
        primaries: 8,
        replicas: 1,
        ..Shop::options()
    };
    let endpoint = ("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), wire.url());
    options
        .settings
        .insert("sweeper-function".to_owned(), [endpoint].into());
    let shop = Shop::start(options).await;
    wire.lead_to(shop.system.dynamodb_url());
    let buckets = holds.div_ceil(EACH);
    let shape = json!({"units": holds, "buckets": buckets, "pay_window_s": 3_600,
        "waitlist_pay_window_s": 3_600});
    let sale = shop.sale(shape).await;
    let others = shop
        .sale_in(
            700,
            json!({"units": 250 * 16, "buckets": 16, "pay_window_s": 3_600}),
        )
        .await;
    let crowd = others.crowd((2 * WATCHED_S * CLAIMS_PER_S) as usize).await;

    let alone = alone(&sale).await?;
    // Each is written in about half the time that its release takes.
    let ahead = SignedDuration::try_from(alone * (holds / 40) + Duration::from_secs(15))?;
    let first_due = now() + ahead;
    hold_all(&sale, first_due).await?;
    let gate = shop.system.gate().expect("it runs").clone();
    let nodes = gate.ports().len();
    let watched = gate.clone();
    spawn_blocking(move || (0..nodes).try_for_each(|node| watch_slow(&watched, node))).await??;
    anyhow::ensure!(now() < first_due, "the holds were written too late");

    let begin = first_due - SignedDuration::from_secs(i64::from(WATCHED_S));
    let claims = async {
        let pace = |n: usize| {
            begin + SignedDuration::from_millis(1_000 * n as i64 / i64::from(CLAIMS_PER_S))
        };
        let sent = crowd.iter().enumerate().map(|(n, shopper)| async move {
            until(pace(n)).await;
            let sent = Instant::now();
            let answer: Answer = shopper.claim().await;
            (sent.elapsed(), answer.is_yes())
        });
        futures::future::join_all(sent).await
    };
    let released = async {
        until(first_due).await;
        wire.meter();
        until(first_due + WITHIN).await;
        let last_due = Instant::now();
        let limit = last_due + PATIENCE;
        while free(&sale).await != u64::from(holds) {
            anyhow::ensure!(Instant::now() < limit, "units did not come back");
            sleep(Duration::from_millis(50)).await;
        }
        anyhow::Ok((last_due.elapsed(), wire.meter()))
    };
    let (claims, released) = tokio::join!(claims, released);
    let (free_after, busy) = released?;
    let slow =
        spawn_blocking(move || (0..nodes).map(|node| slow(&gate, node)).sum::<usize>()).await?;

    // Once each: not one unit more after a further sweep with comparison.
    sale.comes_to("expired", i64::from(holds)).await;
    until_after(now(), 3_000).await;
    anyhow::ensure!(
        free(&sale).await == u64::from(holds),
        "units came back twice"
    );
    let books = sale.rest().await;
    let mut lags: Vec<_> = books
        .orders()
        .filter(|order| order["status"] == "EXPIRED")
        .filter_map(|order| {
            let at = |name: &str| order[name].as_str()?.parse::<Timestamp>().ok();
            let changed = at("released_at").or_else(|| at("changed_at"))?;
            Some(changed.as_millisecond() - at("pay_by")?.as_millisecond())
        })
        .collect();
    anyhow::ensure!(lags.len() == holds as usize, "{} orders", lags.len());
    lags.sort_unstable();
    let (before, during) = claims.split_at(claims.len() / 2);
    let p99 = |claims: &[(Duration, bool)]| {
        let mut took: Vec<_> = claims.iter().map(|(took, _)| *took).collect();
        took.sort_unstable();
        took[(took.len() * 99).div_ceil(100) - 1]
    };
    Ok(Lapsed {
        holds,
        lag_ms: [50, 99, 100].map(|share| lags[(lags.len() * share).div_ceil(100) - 1]),
        free_after,
        claims_p99: [p99(before), p99(during)],
        slow,
        busy,
        alone,
    })
}

/// Free units at all gates.
async fn free(sale: &OnSale<'_>) -> u64 {
    let (gate, gates) = (sale.shop.gate(), sale.gates().await);
    let looks = gates.iter().map(|(_, address)| gate.look(&address.tag));
    let views = futures::future::join_all(looks).await;
    views.into_iter().flatten().map(|view| view.left).sum()
}

/// An order for one unit that must be paid by then.
fn order(sale: &OnSale<'_>, bucket: BucketId, n: u32, pay_by: Timestamp) -> Order {
    let shopper: domain::ShopperId = format!("holder-{}-{n}", bucket.0).parse().unwrap();
    let key = "the-only-key".parse().unwrap();
    Order {
        claim: ClaimId::derive(&sale.sale_id(), bucket, &shopper, &key),
        shopper,
        quantity: 1,
        money: Money {
            amount: 999_900,
            currency: "INR".parse().unwrap(),
        },
        status: OrderStatus::PendingPayment,
        pay_by,
        pay_until: None,
        intent: None,
        attempt: 0,
        claimed_at: now(),
        changed_at: now(),
        void_reason: None,
    }
}

/// Fills every bucket with holds, at its gate and in the ledger.
async fn hold_all(sale: &OnSale<'_>, first_due: Timestamp) -> anyhow::Result<()> {
    let (ledger, gate) = (sale.shop.ledger(), sale.shop.gate());
    let gates = sale.gates().await;
    let id = sale.sale_id();
    let filled = all(gates.iter().map(|(bucket, address)| {
        let (ledger, gate, id) = (&ledger, &gate, &id);
        async move {
            let row = ledger.bucket(id, bucket).await?.expect("a bucket");
            let orders: Vec<_> = (0..row.capacity)
                .map(|n| {
                    let within = WITHIN.as_millis() as i64 * i64::from(n) / i64::from(row.capacity);
                    order(
                        sale,
                        bucket,
                        n,
                        first_due + SignedDuration::from_millis(within),
                    )
                })
                .collect();
            let bucket_gate = gate.bucket(address);
            for order in &orders {
                let asked = bucket_gate.claim(&ask(order)).await?;
                let claimed = matches!(asked, Decision::Claimed(_));
                anyhow::ensure!(claimed, "a claim was refused: {asked:?}");
            }
            for batch in orders.chunks(BATCH) {
                let written = ledger
                    .create_orders(id, bucket, address.epoch, 1, batch)
                    .await?;
                let all = written.iter().all(|one| *one == Outcome::Created);
                anyhow::ensure!(all, "an order was refused");
            }
            let due = gate.look(&address.tag).await?.due;
            anyhow::ensure!(due == u64::from(row.capacity), "{due} have a deadline");
            Ok(())
        }
    }))
    .await;
    filled.into_iter().collect()
}

fn ask(order: &Order) -> Ask<'_> {
    Ask {
        shopper: &order.shopper,
        claim: &order.claim,
        quantity: order.quantity,
        limit: 1,
        pay_by: order.pay_by,
        rate_per_s: None,
    }
}

/// How long the ledger takes for one release of forty holds, when nobody else
/// asks for anything: the mean of some.
async fn alone(sale: &OnSale<'_>) -> anyhow::Result<Duration> {
    const TIMES: u32 = 10;
    let (ledger, id) = (sale.shop.ledger(), sale.sale_id());
    let bucket = BucketId(0);
    let mut took = Duration::ZERO;
    for time in 0..TIMES {
        // Not those of the run: these have ended before it begins.
        let numbers = (0..40).map(|n| 1_000_000 + time * 40 + n);
        let later = now() + SignedDuration::from_hours(1);
        let orders: Vec<_> = numbers.map(|n| order(sale, bucket, n, later)).collect();
        ledger.create_orders(&id, bucket, 1, 1, &orders).await?;
        let begun = Instant::now();
        let to = OrderStatus::Cancelled;
        let ended = ledger.release(&id, bucket, &orders, to, now()).await?;
        took += begun.elapsed();
        anyhow::ensure!(ended.len() == orders.len(), "a hold was not released");
    }
    Ok(took / TIMES)
}

fn watch_slow(gate: &GateServers, node: usize) -> anyhow::Result<()> {
    let mut connection = gate.connect(node)?;
    redis::cmd("CONFIG")
        .arg("SET")
        .arg("slowlog-log-slower-than")
        .arg(SLOW_MICROS)
        .exec(&mut connection)?;
    Ok(redis::cmd("SLOWLOG").arg("RESET").exec(&mut connection)?)
}

fn slow(gate: &GateServers, node: usize) -> usize {
    let length = |connection: &mut redis::Connection| {
        redis::cmd("SLOWLOG").arg("LEN").query::<usize>(connection)
    };
    let connection = gate.connect(node);
    connection.map_or(0, |mut connection| length(&mut connection).unwrap_or(0))
}
