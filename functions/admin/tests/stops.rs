//! Administration that stops half-way: whatever request a call ends at, the
//! same call again brings the sale to where it was meant to be.

#![allow(clippy::unwrap_used)]

use admin_function::AdminFunction;
use api::HttpFunction;
use domain::BucketId;
use jiff::SignedDuration;
use ledger::Ledger;
use runtime::{Clock, Environment, EventFunction};
use serde_json::{Value, json};
use sweeper_function::SweeperFunction;
use testing::{Point, World, gates};

const SALE: &str = "/v1/admin/sales/{sale}";

async fn call(environment: &Environment, route: &str, sale: &str, body: Value) -> (u16, Value) {
    let function = AdminFunction::start(environment).await.unwrap();
    let mut change = testing::session("merchant", &["sales.admin"]);
    if !body.is_null() {
        change["body"] = body.to_string().into();
    }
    let event = testing::http_event(route, &json!({"sale": sale}), change);
    let request = lambda_http::request::from_str(&event.to_string()).unwrap();
    let response = api::invoke(&function, request).await;
    let body = serde_json::from_slice(response.body()).unwrap();
    (response.status().as_u16(), body)
}

async fn resize(environment: &Environment, sale: &str, units: u32) -> (u16, Value) {
    let route = format!("PATCH {SALE}");
    call(environment, &route, sale, json!({"units": units})).await
}

async fn capacity(world: &World) -> u32 {
    let mut sum = 0;
    for (bucket, _) in world.gates.iter() {
        let row = world.ledger.bucket(&world.sale, bucket).await;
        let row = row.unwrap().unwrap();
        assert_eq!(row.allotted + row.spare, row.capacity);
        sum += row.capacity;
    }
    sum
}

async fn left(world: &World) -> u64 {
    let mut sum = 0;
    for (BucketId(bucket), _) in world.gates.iter() {
        sum += world.left(bucket).await;
    }
    sum
}

/// Two comparisons, some seconds apart and after a change can still be under
/// way: what they find stays found.
async fn compare(world: &World) {
    for seconds in [70, 80] {
        let later = world.later(SignedDuration::from_secs(seconds));
        let sweeper = SweeperFunction::start(&later).await.unwrap();
        sweeper.sweep().await.unwrap();
        assert!(sweeper.keep_up().await.unwrap());
    }
}

/// Every point at which a call may stop, until it stops nowhere.
fn points() -> impl Iterator<Item = Point> {
    (1..).flat_map(|n| [Point::BeforeRequest(n), Point::AfterRequest(n)])
}

async fn resize_stopped_everywhere(units: u32) {
    let mut stops = 0;
    for point in points() {
        let world = World::open(&[6, 5, 4]).await;
        let sale = world.sale.to_string();
        let pay_by = world.now() + SignedDuration::from_mins(30);
        let hold = world.claim(1, "u_1", pay_by).await;
        world.order(&hold).await;

        let stopped = testing::stopped_at(&world.environment, point, async |environment| {
            resize(&environment, &sale, units).await
        });
        if let Some((status, answer)) = stopped.await {
            assert_eq!(
                (status, &answer["units"]),
                (200, &units.into()),
                "{answer:#}"
            );
            break;
        }
        stops += 1;
        // Never more to claim than the ledger will sell.
        assert!(
            left(&world).await < u64::from(capacity(&world).await),
            "{point:?}"
        );

        let (mut status, mut answer) = resize(&world.environment, &sale, units).await;
        if status == 409 {
            // What the gates gave up comes back first.
            assert_eq!(answer["error"], "units_in_use", "{answer:#}");
            compare(&world).await;
            (status, answer) = resize(&world.environment, &sale, units).await;
        }
        assert_eq!(
            (status, &answer["units"]),
            (200, &units.into()),
            "{answer:#}"
        );
        assert_eq!(capacity(&world).await, units, "{point:?}");
        compare(&world).await;
        assert_eq!(left(&world).await, u64::from(units) - 1, "{point:?}");
    }
    assert!(stops >= 16, "{stops}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fewer_units_stopped_anywhere_and_sent_again() {
    resize_stopped_everywhere(6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_units_stopped_anywhere_and_sent_again() {
    resize_stopped_everywhere(24).await;
}

/// A merchant who changes his mind while the first change is under way: the
/// older one is told so, and its units are where the newer one wants them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_changes_at_once_end_as_the_newer_one() {
    let mut met = 0;
    for point in points() {
        let world = World::open(&[6, 5, 4]).await;
        let sale = world.sale.to_string();
        let newer = async {
            let (status, answer) = resize(&world.environment, &sale, 12).await;
            assert_eq!((status, &answer["units"]), (200, &12.into()), "{answer:#}");
        };
        let older = async |environment| resize(&environment, &sale, 9).await;
        let ((status, answer), interrupted) =
            testing::interrupted_at(&world.environment, point, newer, older).await;
        if interrupted.is_none() {
            break;
        }
        met += 1;
        let units = match (status, answer["error"].as_str()) {
            // The newer one came before the older one began, or after its end.
            (200, _) => u32::try_from(answer["units"].as_u64().unwrap()).unwrap(),
            (409, Some("conflict")) => 12,
            _ => panic!("{point:?}: {status} {answer:#}"),
        };
        let (_, stands) = call(
            &world.environment,
            &format!("GET {SALE}"),
            &sale,
            json!(null),
        )
        .await;
        let stands = u32::try_from(stands["units"].as_u64().unwrap()).unwrap();
        assert!(
            stands == units || stands == 12,
            "{point:?}: {stands} of {units}"
        );
        assert_eq!(capacity(&world).await, stands, "{point:?}");
        compare(&world).await;
        assert_eq!(left(&world).await, u64::from(stands), "{point:?}");
    }
    assert!(met >= 16, "{met}");
}

/// A creation that stops after its first row leaves a sale that says it is
/// not loaded; `load` completes it, and nothing of it was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_creation_stopped_anywhere_is_completed_by_load() {
    let mut completed = 0;
    for point in points() {
        let (environment, ledger) = testing::ledger().await;
        let environment = gates::with_gates(&environment, gates::shared());
        let id = gates::unique_sale();
        let name = id.to_string();
        let opens_at = environment.clock.now() + SignedDuration::from_mins(10);
        let sale = json!({
            "sale_id": name, "sku": "PHONE-1", "name": "Phone",
            "price": {"amount": 999_900, "currency": "INR"},
            "units": 10, "buckets": 2, "opens_at": opens_at.to_string(), "mode": "draw",
        });
        let create = async |environment: &Environment| {
            let route = "POST /v1/admin/sales";
            call(environment, route, &name, sale.clone()).await
        };
        let stopped = testing::stopped_at(&environment, point, async |environment| {
            create(&environment).await
        });
        if let Some((status, answer)) = stopped.await {
            assert_eq!(
                (status, &answer["loaded"]),
                (201, &true.into()),
                "{answer:#}"
            );
            break;
        }
        let (status, answer) = create(&environment).await;
        if status == 201 {
            assert_eq!(answer["loaded"], true, "nothing was written: {answer:#}");
            continue;
        }
        assert_eq!(
            (status, &answer["error"]),
            (409, &"sale_exists".into()),
            "{answer:#}"
        );
        let route = format!("GET {SALE}");
        let (_, stands) = call(&environment, &route, &name, json!(null)).await;
        if stands["loaded"] == false {
            completed += 1;
            let (status, preflight) = call(
                &environment,
                &format!("GET {SALE}/preflight"),
                &name,
                json!(null),
            )
            .await;
            assert_eq!(
                (status, &preflight["ready"]),
                (200, &false.into()),
                "{preflight:#}"
            );
            let (status, loaded) =
                call(&environment, &format!("POST {SALE}/load"), &name, json!({})).await;
            assert_eq!(
                (status, &loaded["loaded"]),
                (200, &true.into()),
                "{loaded:#}"
            );
        }
        let secret = Ledger::draw_secret(&ledger, &id).await.unwrap().unwrap();
        let digest = domain::draw::commitment(&domain::draw::secret_bytes(&secret).unwrap());
        assert_eq!(
            stands["commitment"], digest,
            "the secret that was committed to"
        );
        let gate = gate::Gate::connect(&environment).unwrap();
        for (_, address) in ledger.gates(&id).await.unwrap().unwrap().iter() {
            assert!(gate.is_open(address).await.unwrap(), "{point:?}");
            assert_eq!(gate.look(&address.tag).await.unwrap().left, 5, "{point:?}");
        }
    }
    assert!(completed >= 8, "{completed}");
}

/// A comparison that knows nothing of a change, at any moment of it: however far
/// apart it finds gate and ledger, it raises no gate that the change has lowered or
/// is about to raise.
async fn compared_while_resized(units: u32) {
    let mut met = 0;
    for point in points() {
        let world = World::open(&[6, 5, 4]).await;
        let sale = world.sale.to_string();
        let compares = async {
            for (bucket, address) in world.gates.iter() {
                let seen = world.gate.records(&address.tag).await.unwrap();
                let row = world.ledger.bucket(&world.sale, bucket).await;
                let spare = i64::from(row.unwrap().unwrap().spare);
                let gap = i64::try_from(seen.view.left).unwrap() - spare;
                for seconds in [0, 3] {
                    let now = world.now() + SignedDuration::from_secs(seconds);
                    let corrected = world.gate.correct(&address.tag, &seen.view, gap, now);
                    corrected.await.unwrap();
                }
            }
        };
        let resizes = async |environment| resize(&environment, &sale, units).await;
        let ((status, answer), compared) =
            testing::interrupted_at(&world.environment, point, compares, resizes).await;
        assert_eq!(status, 200, "{point:?}: {answer:#}");
        if compared.is_none() {
            break;
        }
        met += 1;
        assert!(left(&world).await <= u64::from(units), "{point:?}");
        compare(&world).await;
        assert_eq!(left(&world).await, u64::from(units), "{point:?}");
    }
    assert!(met >= 16, "{met}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comparison_amid_a_change_to_fewer_units_raises_nothing() {
    compared_while_resized(6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comparison_amid_a_change_to_more_units_raises_nothing() {
    compared_while_resized(24).await;
}

/// A sale that opens in a while.
async fn opening_in(a_while: SignedDuration) -> World {
    let opens_at = (Clock::system().now() + a_while).to_string();
    World::new(gates::shared(), &[3, 3], json!({"opens_at": opens_at})).await
}

async fn load(environment: &Environment, sale: &str) -> (u16, Value) {
    call(environment, &format!("POST {SALE}/load"), sale, Value::Null).await
}

/// Two loadings at once, and a claim as soon as the newer one is complete: the
/// older one does not fill the gates again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_loadings_at_once_are_the_newer_one() {
    let mut met = 0;
    for point in points() {
        let world = opening_in(SignedDuration::from_hours(1)).await;
        let sale = world.sale.to_string();
        let newer = async {
            let (status, answer) = load(&world.environment, &sale).await;
            assert_eq!(
                (status, &answer["loaded"]),
                (200, &true.into()),
                "{answer:#}"
            );
            let gates = world.ledger.gates(&world.sale).await.unwrap().unwrap();
            for (_, address) in gates.iter() {
                assert_eq!(world.gate.take(address, 1).await.unwrap(), 1);
            }
            gates
        };
        let older = async |environment| load(&environment, &sale).await;
        let ((status, answer), interrupted) =
            testing::interrupted_at(&world.environment, point, newer, older).await;
        let Some(gates) = interrupted else {
            assert_eq!(status, 200);
            break;
        };
        met += 1;
        let stands = world.ledger.sale(&world.sale).await.unwrap().unwrap();
        if status == 200 {
            // It had not begun, or was complete before.
            continue;
        }
        assert_eq!(
            (status, &answer["error"]),
            (409, &"conflict".into()),
            "{point:?}"
        );
        assert!(stands.loaded, "{point:?}");
        for (BucketId(bucket), address) in gates.iter() {
            assert!(world.gate.is_open(address).await.unwrap(), "{point:?}");
            let left = world.gate.look(&address.tag).await.unwrap().left;
            assert_eq!(left, 2, "{point:?}, bucket {bucket}");
        }
    }
    assert!(met >= 8, "{met}");
}

/// A copy of the sale that is a second old may already let claims in, by a clock that
/// is five seconds ahead; and the merchant's call may meet one that is as far behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_opens_in_a_moment_is_not_taken_apart() {
    let world = opening_in(SignedDuration::from_secs(9)).await;
    let sale = world.sale.to_string();
    let behind = world.later(SignedDuration::from_secs(-5));
    let changed = resize(&behind, &sale, 4).await;
    let loaded = load(&behind, &sale).await;
    for (status, answer) in [changed, loaded] {
        assert_eq!(
            (status, &answer["error"]),
            (409, &"sale_started".into()),
            "{answer:#}"
        );
    }
    assert_eq!(left(&world).await, 6);
}

/// A merchant who backs out of a change that stopped half-way, when too much is
/// sold by then: the sale says how many units its buckets sell, and goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_is_refused_leaves_a_sale_that_says_what_it_sells() {
    let mut between = 0;
    for point in points() {
        let world = World::open(&[2, 2]).await;
        let sale = world.sale.to_string();
        let pay_by = world.now() + SignedDuration::from_mins(30);
        for (bucket, shopper) in [(0, "u_1"), (0, "u_2"), (1, "u_3")] {
            let hold = world.claim(bucket, shopper, pay_by).await;
            world.order(&hold).await;
        }
        let stopped = testing::stopped_at(&world.environment, point, async |environment| {
            resize(&environment, &sale, 8).await
        });
        if stopped.await.is_some() {
            break;
        }
        let (status, answer) = resize(&world.environment, &sale, 2).await;
        assert_eq!((status, &answer["error"]), (409, &"units_in_use".into()));
        let route = format!("GET {SALE}");
        let (_, stands) = call(&world.environment, &route, &sale, Value::Null).await;
        let sells = capacity(&world).await;
        assert_eq!(stands["units"], sells, "{point:?}");
        between += u32::from(![4, 8].contains(&sells));
    }
    assert!(between > 0);
}

/// The gates are away: every order has the time that it was given all the same,
/// and can be paid until then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_time_needs_no_gate() {
    let servers = gates::start();
    let world = World::new(&servers, &[3, 3], json!({})).await;
    let mut orders = Vec::new();
    for (bucket, shopper) in [(0, "u_1"), (0, "u_2"), (1, "u_3")] {
        let pay_by = world.now() + SignedDuration::from_secs(30);
        let hold = world.claim(bucket, shopper, pay_by).await;
        orders.push(world.order(&hold).await);
    }
    servers.kill(0);
    let route = format!("POST {SALE}/extend-pay-window");
    let seconds = json!({"seconds": 600});
    let (status, answer) = call(&world.environment, &route, world.sale.as_str(), seconds).await;
    assert_eq!(
        (status, &answer["extended"]),
        (200, &3.into()),
        "{answer:#}"
    );
    for order in orders {
        let stands = world.find(&order.claim).await.unwrap();
        assert!(stands.pay_by > order.pay_by + SignedDuration::from_mins(9));
    }
}

/// Its switches and numbers are those that it ended with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_has_ended_changes_no_more() {
    let world = World::open(&[3]).await;
    let sale = world.sale.to_string();
    for (route, body, expected) in [
        ("POST {}/end", Value::Null, 200),
        ("POST {}/end", Value::Null, 200),
        ("POST {}/resume", Value::Null, 200),
        ("POST {}/pause", Value::Null, 410),
        ("POST {}/waitlist-only", json!({"on": true}), 410),
        ("PATCH {}", json!({"units": 4}), 410),
        ("POST {}/extend-pay-window", json!({"seconds": 60}), 200),
    ] {
        let route = route.replace("{}", SALE);
        let (status, answer) = call(&world.environment, &route, &sale, body).await;
        assert_eq!(status, expected, "{route}: {answer:#}");
    }
}

/// The controller only comes to it near its opening; its merchant need not wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_is_ended_before_its_opening_is_over() {
    let world = opening_in(SignedDuration::from_hours(1)).await;
    let sale = world.sale.to_string();
    for (route, body, expected) in [
        ("POST {}/end", Value::Null, 200),
        ("POST {}/load", Value::Null, 410),
        ("POST {}/pause", Value::Null, 410),
        ("PATCH {}", json!({"units": 4}), 410),
    ] {
        let route = route.replace("{}", SALE);
        let (status, answer) = call(&world.environment, &route, &sale, body).await;
        assert_eq!(status, expected, "{route}: {answer:#}");
    }
    let route = format!("GET {SALE}");
    let (_, seen) = call(&world.environment, &route, &sale, Value::Null).await;
    assert_eq!(seen["state"], "ENDED");
    let route = format!("GET {SALE}/preflight");
    let (_, preflight) = call(&world.environment, &route, &sale, Value::Null).await;
    assert_eq!(preflight["ready"], false);
}

/// Two changes before the opening, the newer one to fewer buckets, at any moment
/// of the older one: its gates are published, or those of the change that
/// stands; never buckets that the sale does not have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_changes_at_once_the_gates_are_those_of_the_sale() {
    let mut met = 0;
    for point in points() {
        let world = opening_in(SignedDuration::from_hours(1)).await;
        let name = world.sale.to_string();
        let route = format!("PATCH {SALE}");
        let change = async |environment: &Environment, units: u32, buckets: u32| {
            let body = json!({"units": units, "buckets": buckets});
            call(environment, &route, &name, body).await
        };
        let newer = change(&world.environment, 4, 2);
        let older = async |environment| change(&environment, 10, 5).await;
        let (_, newer) = testing::interrupted_at(&world.environment, point, newer, older).await;
        if newer.is_none() {
            break;
        }
        met += 1;
        let stands = world.ledger.sale(&world.sale).await.unwrap().unwrap();
        if stands.loaded {
            let gates = world.ledger.gates(&world.sale).await.unwrap().unwrap();
            assert_eq!(
                gates.addresses.len(),
                usize::from(stands.config.buckets),
                "{point:?}"
            );
            let lives = gates.addresses.iter().map(|address| address.epoch);
            assert_eq!(lives.max(), Some(stands.load), "{point:?}");
        }
    }
    assert!(met >= 20, "{met}");
}

/// Nobody is told "sold out" because of a change that is refused: no gate is
/// asked for a unit.
#[tokio::test]
async fn a_change_that_is_refused_touches_no_gate() {
    let servers = gates::start();
    let world = World::new(&servers, &[3, 3], json!({})).await;
    for (bucket, shopper) in [(0, "u_1"), (1, "u_2")] {
        let pay_by = world.now() + SignedDuration::from_mins(5);
        let hold = world.claim(bucket, shopper, pay_by).await;
        world.order(&hold).await;
    }
    let scripts = || -> String {
        let mut server = servers.connect(0).unwrap();
        let stats: String = redis::cmd("INFO")
            .arg("commandstats")
            .query(&mut server)
            .unwrap();
        let scripts = stats.lines().filter(|line| line.contains("_eval"));
        scripts.collect()
    };
    let before = scripts();
    let (status, answer) = resize(&world.environment, world.sale.as_str(), 1).await;
    assert_eq!(
        (status, &answer["error"]),
        (409, &"units_in_use".into()),
        "{answer:#}"
    );
    assert_eq!(scripts(), before);
    let (status, answer) = resize(&world.environment, world.sale.as_str(), 2).await;
    assert_eq!(status, 200, "{answer:#}");
    assert_ne!(scripts(), before);
}

/// A bucket that lives anew while units are taken out of it: the ledger keeps
/// what its gate gives out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fewer_units_while_a_bucket_recovers_promise_none_too_many() {
    let mut met = 0;
    for point in points() {
        let world = World::open(&[6]).await;
        let sale = world.sale.to_string();
        let recovers = async {
            let row = world
                .ledger
                .bucket(&world.sale, BucketId(0))
                .await
                .unwrap()
                .unwrap();
            let begun = world
                .ledger
                .begin_life(&world.sale, BucketId(0), row.epoch, row.epoch)
                .await;
            let epoch = begun.unwrap().expect("a new life");
            let address = domain::slot::GateAddress {
                epoch,
                ..world.address(0).clone()
            };
            let row = world
                .ledger
                .bucket(&world.sale, BucketId(0))
                .await
                .unwrap()
                .unwrap();
            let truth = gate::upkeep::Truth {
                left: row.spare,
                ..Default::default()
            };
            world.gate.load(&address, &truth).await.unwrap();
        };
        let lower = async |environment| resize(&environment, &sale, 2).await;
        let (_, recovered) =
            testing::interrupted_at(&world.environment, point, recovers, lower).await;
        if recovered.is_none() {
            break;
        }
        met += 1;
        let row = world
            .ledger
            .bucket(&world.sale, BucketId(0))
            .await
            .unwrap()
            .unwrap();
        assert!(
            world.left(0).await <= u64::from(row.spare),
            "{point:?}: {row:?}"
        );
    }
    assert!(met >= 10, "{met}");
}
