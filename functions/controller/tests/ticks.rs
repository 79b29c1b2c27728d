//! The controller against real gates and the real ledger: any number of them
//! come to one result.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use controller_function::ControllerFunction;
use domain::Sale;
use domain::sale::SaleState;
use gate::Release;
use jiff::SignedDuration;
use runtime::{EventFunction, Metric};
use serde_json::json;
use testing::{Fate, Metrics, World, gates, judged, metrics_of};

const SECOND: SignedDuration = SignedDuration::from_secs(1);
const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// A sale by draw of 20 units in two buckets that opens in a minute and
/// closes ten minutes later.
async fn world() -> World {
    let (environment, _) = testing::ledger().await;
    let opens_at = environment.clock.now() + MINUTE;
    let config = json!({
        "opens_at": opens_at.to_string(),
        "closes_at": (opens_at + MINUTE * 10).to_string(),
        "draw_window_ms": 2_000,
    });
    World::new(gates::shared(), &[10, 10], config).await
}

async fn controller(world: &World, later: SignedDuration) -> ControllerFunction {
    let environment = world.later(later);
    ControllerFunction::start(&environment).await.unwrap()
}

/// One look, some time later; the sale as it then is.
async fn tick(world: &World, later: SignedDuration) -> Sale {
    controller(world, later).await.tick().await.unwrap();
    sale(world).await
}

async fn sale(world: &World) -> Sale {
    world.ledger.sale(&world.sale).await.unwrap().unwrap()
}

async fn enter(world: &World, bucket: u16, entries: u32) {
    let tag = &world.address(bucket).tag;
    for n in 0..entries {
        let pass = format!("p{bucket}-{n}").parse().unwrap();
        world.gate.enter(tag, &pass).await.unwrap();
    }
}

#[tokio::test]
async fn a_sale_opens_is_counted_and_admits() {
    let world = world().await;
    let before = tick(&world, SECOND).await;
    assert_eq!(before.state, SaleState::Scheduled);
    let drawing = tick(&world, MINUTE + SECOND).await;
    assert_eq!(drawing.state, SaleState::Drawing);
    assert_eq!(drawing.admission.scale, 0);
    enter(&world, 0, 50).await;
    enter(&world, 1, 50).await;

    let live = tick(&world, MINUTE + SECOND * 4).await;
    assert_eq!(live.state, SaleState::Live);
    // A HyperLogLog counts few entries to within one.
    assert!((98..=102).contains(&live.admission.entries), "{live:?}");
    assert_eq!(live.admission.scale, live.admission.entries);
    assert_eq!((live.admission.round, live.admission.admitted), (1, 22));
    assert!(live.admission.threshold > 0.2 && live.admission.threshold < 0.24);

    let rounds = world.ledger.rounds(&world.sale).await.unwrap();
    assert_eq!(rounds.len(), 1);
    assert_eq!(rounds[0].threshold, live.admission.threshold);
    assert_eq!((rounds[0].admitted, rounds[0].offered), (22, 20));
    // Seen again, nothing is new and nothing is written.
    let again = tick(&world, MINUTE + SECOND * 4).await;
    assert_eq!(again.version, live.version);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_at_the_same_time_open_a_round_once() {
    let world = world().await;
    enter(&world, 0, 100).await;
    let later = MINUTE + SECOND * 4;
    let version = sale(&world).await.version;
    let mut ticks = Vec::new();
    for _ in 0..6 {
        let controller = controller(&world, later).await;
        ticks.push(tokio::spawn(async move {
            controller.tick().await.unwrap();
        }));
    }
    for tick in ticks {
        tick.await.unwrap();
    }
    let after = sale(&world).await;
    assert_eq!((after.admission.round, after.version), (1, version + 1));
    let rounds = world.ledger.rounds(&world.sale).await.unwrap();
    let numbers: Vec<_> = rounds.iter().map(|round| round.round).collect();
    assert_eq!(numbers, [1]);
}

/// Units that come back while the gates are looked at belong to the round that then
/// is published: it must not seem older than they are.
#[tokio::test]
async fn a_round_has_the_time_of_its_publication() {
    let world = world().await;
    enter(&world, 0, 100).await;
    let environment = world.later(MINUTE + SECOND * 4);
    let begun = environment.clock.now();
    let slow = judged(&environment, |_| Fate::Late(Duration::from_millis(300)));
    let controller = ControllerFunction::start(&slow).await.unwrap();
    controller.tick().await.unwrap();
    let rounds = world.ledger.rounds(&world.sale).await.unwrap();
    // The list of sales, the sale and its gates are read before.
    assert!(rounds[0].at - begun >= SignedDuration::from_millis(900));
}

#[tokio::test]
async fn a_unit_that_comes_back_opens_one_round_for_one() {
    let world = world().await;
    enter(&world, 0, 100).await;
    let live = tick(&world, MINUTE + SECOND * 4).await;
    for n in 0..20u16 {
        let pay_by = world.now() + MINUTE * 5;
        world.claim(n % 2, &format!("u_{n}"), pay_by).await;
    }
    let full = tick(&world, MINUTE + SECOND * 5).await;
    assert_eq!((full.state, full.free), (SaleState::AllClaimed, 0));
    assert!(full.admission.waitlist_open);

    let claim = world.claim_id(0, "u_0");
    let tag = &world.address(0).tag;
    let released = world.gate.release(tag, &claim, Release::Lapsed).await;
    assert!(released.unwrap());
    let back = tick(&world, MINUTE + SECOND * 6).await;
    assert_eq!((back.state, back.free), (SaleState::Live, 1));
    assert_eq!(back.admission.round, live.admission.round + 1);
    let again = tick(&world, MINUTE + SECOND * 6).await;
    assert_eq!(again.admission, back.admission);
}

#[tokio::test]
async fn a_bucket_that_can_not_be_seen_decides_nothing() {
    let world = world().await;
    enter(&world, 0, 100).await;
    let stock = format!("{{{}}}:stock", world.address(1).tag);
    redis::cmd("DEL")
        .arg(stock)
        .exec(&mut gates::shared().connect(0).unwrap())
        .unwrap();
    let half = tick(&world, MINUTE + SECOND * 4).await;
    assert_eq!((half.admission.scale, half.admission.round), (0, 0));
    assert_ne!(half.state, SaleState::SoldOut);
}

/// Nobody can take what a frozen bucket shows: it is not offered, and not missed.
#[tokio::test]
async fn a_frozen_bucket_offers_nothing() {
    let world = world().await;
    enter(&world, 0, 100).await;
    redis::cmd("HSET")
        .arg(format!("{{{}}}:stock", world.address(1).tag))
        .arg(&["epoch", "99"])
        .exec(&mut gates::shared().connect(0).unwrap())
        .unwrap();
    let other = tick(&world, MINUTE + SECOND * 4).await;
    assert_eq!((other.free, other.admission.admitted), (10, 11));
    for n in 0..10 {
        let pay_by = world.now() + MINUTE * 5;
        world.claim(0, &format!("u{n}"), pay_by).await;
    }
    let claimed = tick(&world, MINUTE + SECOND * 5).await;
    assert_eq!((claimed.state, claimed.free), (SaleState::Live, 0));
    assert!(!claimed.admission.waitlist_open);
}

#[tokio::test]
async fn an_ended_sale_is_closed_when_no_hold_is_left() {
    let world = world().await;
    let end = MINUTE * 12;
    let hold = world.claim(0, "u", world.now() + MINUTE * 5).await;
    let listed = || async { world.ledger.sales(true).await.unwrap() };
    let ended = tick(&world, end).await;
    assert_eq!(ended.state, SaleState::Ended);
    tick(&world, end).await;
    assert_eq!(listed().await, std::slice::from_ref(&world.sale));

    let tag = &world.address(0).tag;
    world.gate.settle(tag, &hold.claim).await.unwrap();
    // A claim that was let in just before the end may still be under way.
    tick(&world, end).await;
    assert_eq!(listed().await, std::slice::from_ref(&world.sale));
    let controller = controller(&world, end + SECOND * 11).await;
    controller.tick().await.unwrap();
    assert!(listed().await.is_empty());
    // Nothing is left to watch.
    assert_eq!(controller.tick().await.unwrap(), None);
}

/// Created while the gates were away, and never loaded: it ends like any other.
#[tokio::test]
async fn a_sale_that_was_never_loaded_is_closed_after_its_end() {
    let world = world().await;
    let id = "never-loaded".parse().unwrap();
    let config = sale(&world).await.config;
    let unloaded = Sale::new(id, config, String::new());
    world.ledger.create_sale(&unloaded, "00").await.unwrap();
    let listed = async || {
        let names = world.ledger.sales(true).await.unwrap();
        names.contains(&unloaded.id)
    };
    tick(&world, MINUTE).await;
    assert!(listed().await);
    for seconds in [0, 11] {
        let later = MINUTE * 12 + SECOND * seconds;
        controller(&world, later).await.tick().await.unwrap();
        assert_eq!(listed().await, seconds == 0);
    }
}

#[tokio::test]
async fn a_sale_far_ahead_is_not_watched() {
    let world = world().await;
    let early = controller(&world, -MINUTE * 10).await;
    assert_eq!(early.tick().await.unwrap(), None);
    assert_eq!(sale(&world).await.version, 1);
}

/// What a look some time later tells.
async fn told(world: &World, later: SignedDuration) -> Metrics {
    let controller = controller(world, later).await;
    let (ticked, metrics) = metrics_of(controller.tick()).await;
    ticked.unwrap();
    metrics
}

#[tokio::test]
async fn a_look_tells_stock_and_admission() {
    let world = world().await;
    enter(&world, 0, 50).await;
    let hold = world.claim(1, "shopper-1", world.now() + MINUTE).await;
    let metrics = told(&world, MINUTE + SECOND * 4).await;
    let admission = sale(&world).await.admission;
    let one = |metric| {
        let values = metrics.of(metric, &world.sale);
        assert_eq!(values.len(), 1, "{metric:?}: {values:?}");
        values[0]
    };
    assert_eq!(one(Metric::UnitsFree), 19.0);
    assert_eq!(one(Metric::Entries), admission.entries as f64);
    assert!((49.0..=51.0).contains(&one(Metric::Entries)));
    assert_eq!(one(Metric::AdmissionThreshold), admission.threshold);
    assert!(admission.threshold > 0.3);
    assert_eq!(one(Metric::Admitted), admission.admitted as f64);
    assert_eq!(one(Metric::Admitted), 21.0); // ⌈19 × 1.1⌉
    assert_eq!(one(Metric::AdmissionRound), 1.0);
    // The heartbeat, and the nought by which the sweeper's silence is heard.
    assert_eq!(metrics.overall(Metric::ControllerLook), [1.0]);
    assert_eq!(one(Metric::ControllerLook), 1.0);
    assert_eq!(metrics.overall(Metric::SweeperLook), [0.0]);
    let claim = hold.claim.to_string();
    metrics.hold_none_of(["shopper-1", &claim, "p0-1"]);
}

#[tokio::test]
async fn a_look_that_did_not_see_everything_tells_that_it_failed() {
    let world = world().await;
    let stock = format!("{{{}}}:stock", world.address(1).tag);
    redis::cmd("DEL")
        .arg(stock)
        .exec(&mut gates::shared().connect(0).unwrap())
        .unwrap();
    let metrics = told(&world, MINUTE + SECOND * 4).await;
    assert_eq!(metrics.overall(Metric::LooksFailed), [1.0]);
    assert_eq!(metrics.of(Metric::LooksFailed, &world.sale), [1.0]);
    assert!(metrics.overall(Metric::ControllerLook).is_empty());
    assert!(metrics.of(Metric::UnitsFree, &world.sale).is_empty());
}

#[tokio::test]
async fn a_sale_that_can_not_be_read_tells_that_the_look_failed() {
    let world = world().await;
    let mut damage = ledger::Transaction::new();
    let row = ledger::key::sale(&world.sale);
    damage.put(&row, &json!({"state": 7})).unwrap();
    let table = world.ledger.table();
    table.write_or_conflict(&damage).await.unwrap();
    let metrics = told(&world, MINUTE).await;
    assert_eq!(metrics.overall(Metric::LooksFailed), [1.0]);
    assert!(metrics.overall(Metric::ControllerLook).is_empty());
}

#[tokio::test]
async fn of_a_sale_far_ahead_nothing_is_told() {
    let world = world().await;
    let metrics = told(&world, -MINUTE * 10).await;
    assert!(metrics.overall(Metric::ControllerLook).is_empty());
    assert!(metrics.overall(Metric::LooksFailed).is_empty());
}

/// A sale is paused by itself while no gate shows a counter, and only then; it
/// goes on once a bucket is open and believed.
#[tokio::test]
async fn a_sale_without_gates_is_noted_until_one_is_open() {
    let world = world().await;
    let ticked = async || {
        let before = sale(&world).await.version;
        let sale = tick(&world, MINUTE + SECOND).await;
        (sale.gates_away.is_some(), sale.version > before)
    };
    assert!(!ticked().await.0);
    let lose = |bucket| {
        let stock = format!("{{{}}}:stock", world.address(bucket).tag);
        let mut server = gates::shared().connect(0).unwrap();
        redis::cmd("DEL").arg(stock).exec(&mut server).unwrap();
    };
    // The control: half of the gates are not all.
    lose(1);
    assert!(!ticked().await.0);
    lose(0);
    assert_eq!(ticked().await, (true, true));
    assert_eq!(ticked().await, (true, false), "noted once");
    let (told, metrics) = {
        let controller = controller(&world, MINUTE + SECOND).await;
        metrics_of(controller.tick()).await
    };
    told.unwrap();
    assert_eq!(metrics.overall(Metric::GatesAway), [1.0]);

    // A counter is back; its life was closed meanwhile.
    let ledger = &world.ledger;
    let bucket = domain::BucketId(0);
    assert!(ledger.close_life(&world.sale, bucket, 1).await.unwrap());
    let truth = |left| gate::upkeep::Truth {
        left,
        ..Default::default()
    };
    world.gate.load(world.address(0), &truth(10)).await.unwrap();
    assert!(ticked().await.0, "nobody believes it");
    // Another one is back, and believed.
    world.gate.load(world.address(1), &truth(10)).await.unwrap();
    assert_eq!(ticked().await, (false, true));
    let noted = sale(&world).await;
    assert!(noted.gates_were_away);
}
