//! Two things at one moment, and stops in between, met on purpose.

use admin_function::AdminFunction;
use api::HttpFunction;
use claim_function::ClaimFunction;
use domain::{BucketId, ClaimId, OrderStatus};
use jiff::SignedDuration;
use order_function::OrderFunction;
use queue::{ClaimCreated, Message};
use reqwest::Method;
use runtime::{Environment, EventFunction, Invocation};
use serde_json::{Value, json};
use testing::{Point, World, interrupted_at, stopped_at};
use tests::Shop;

async fn send<F: HttpFunction>(
    environment: &Environment,
    route: &str,
    parameters: Value,
    change: Value,
) -> (u16, Value) {
    let function = F::start(environment).await.unwrap();
    let event = testing::http_event(route, &parameters, change);
    let request = lambda_http::request::from_str(&event.to_string()).unwrap();
    let response = api::invoke(&function, request).await;
    (
        response.status().as_u16(),
        serde_json::from_slice(response.body()).unwrap_or_default(),
    )
}

fn as_merchant(body: &Value) -> Value {
    let mut change = testing::session("merchant", &["sales.admin"]);
    change["body"] = body.to_string().into();
    change
}

/// A change before the opening that stops after the sale's row: the gates are
/// still those of the old configuration.
#[tokio::test(flavor = "multi_thread")]
async fn a_sale_that_is_not_loaded_sells_nothing() {
    let shop = Shop::open().await;
    let sale = shop
        .sale_in(18_000, json!({"units": 5, "pay_window_s": 2}))
        .await;
    let environment = shop.environment("admin-function");
    let id = sale.id.clone();
    let stopped = stopped_at(&environment, Point::AfterRequest(3), async |environment| {
        let change = as_merchant(&json!({"units": 1}));
        send::<AdminFunction>(
            &environment,
            "PATCH /v1/admin/sales/{sale}",
            json!({"sale": id}),
            change,
        )
        .await
    });
    assert!(stopped.await.is_none());
    let crowd = sale.crowd(5).await;
    sale.opened().await;
    for shopper in &crowd {
        assert_eq!(shopper.claim().await.status, 503);
    }
    // The merchant completes it, though it has opened.
    let load = sale.admin(Method::POST, "/load", &json!({})).await;
    assert_eq!(load.expect(200).json["units"], 1);
    let mut yes = 0;
    for shopper in &crowd {
        yes += u32::from(shopper.claim_patiently().await.status == 201);
    }
    assert_eq!(yes, 1);
}

/// A claim that stopped between its mark at home and the bucket that had the
/// unit, and another request of the shopper that is refused: the question
/// completes the claim, so it must become an order and be told of.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_a_refused_request_completes_is_an_order() {
    let shop = Shop::open().await;
    let sale = shop
        .sale(json!({"units": 3, "buckets": 2, "limit_per_customer": 2}))
        .await;
    let (first, shopper) = (sale.shopper_at(0).await, sale.shopper_at(0).await);
    sale.opened().await;
    let empties = first.claim_with("key-0001", r#"{"quantity": 2}"#).await;
    empties.expect(201);
    let gates = sale.gates().await;
    let name = shopper.name.parse().unwrap();
    let key = "key-0001".parse().unwrap();
    let claim = ClaimId::derive(&sale.sale_id(), BucketId(1), &name, &key);
    let ask = gate::Ask {
        shopper: &name,
        claim: &claim,
        quantity: 1,
        limit: 2,
        pay_by: tests::now() + SignedDuration::from_mins(5),
        rate_per_s: None,
    };
    let home = shop.gate().bucket(gates.of(BucketId(0)).unwrap());
    home.mark(&ask, 0).await.unwrap();

    let refused = shopper.claim_with("key-0002", r#"{"quantity": 2}"#).await;
    assert_eq!(refused.json["error"], "limit_reached", "{:#}", refused.json);
    assert_eq!(refused.json["claim_id"], claim.to_string());
    let named = json!({"order": {"order_id": claim.order()}});
    let order = shopper.ordered(&named).await;
    assert_eq!(order["status"], "PENDING_PAYMENT", "{order:#}");
}

/// A claim that is under way while the merchant ends a sale without holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_in_the_moment_of_the_end_still_ends() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({"units": 1})).await;
    let shopper = sale.shopper("ada").await;
    sale.opened().await;
    let controller = shop.controller().await;
    let end = async {
        sale.turn("end").await;
        controller.tick().await.unwrap();
        controller.tick().await.unwrap();
    };
    let mut change = testing::session("ada", &[]);
    change["headers"] = json!({"sale-pass": shopper.pass, "idempotency-key": "key-0001"});
    let id = sale.id.clone();
    let ((status, claim), met) = interrupted_at(
        &shop.environment("claim-function"),
        Point::AfterRequest(2),
        end,
        async |environment| {
            send::<ClaimFunction>(
                &environment,
                "POST /v1/sales/{sale}/claims",
                json!({"sale": id}),
                change,
            )
            .await
        },
    )
    .await;
    assert!(met.is_some());
    assert_eq!(status, 201, "{claim:#}");
    shopper.ordered(&claim).await;
    let later = shop.sweeper_ahead(SignedDuration::from_mins(10)).await;
    later.sweep().await.unwrap();
    later.keep_up().await.unwrap();
    shop.controller().await.tick().await.unwrap();
    later.sweep().await.unwrap();
    later.keep_up().await.unwrap();
    assert_eq!(sale.count("held").await, 0, "a hold that nobody will end");
}

/// Giving a hold back that stops after the ledger's release.
#[tokio::test(flavor = "multi_thread")]
async fn a_unit_that_was_given_back_returns_with_the_next_sweep() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({"units": 1, "pay_window_s": 600})).await;
    let shopper = sale.shopper("ada").await;
    sale.opened().await;
    let claim = shopper.hold().await;
    let id = claim["claim_id"].clone();
    let environment = shop.environment("claim-function");
    let stopped = stopped_at(&environment, Point::AfterRequest(3), async |environment| {
        send::<ClaimFunction>(
            &environment,
            "DELETE /v1/claims/{claim}",
            json!({"claim": id}),
            testing::session("ada", &[]),
        )
        .await
    });
    assert!(stopped.await.is_none());
    shopper.give_back(&claim).await.expect(200);
    for seconds in [1, 10, 20, 300] {
        let later = SignedDuration::from_secs(seconds);
        let sweeper = shop.sweeper_ahead(later).await;
        sweeper.sweep().await.unwrap();
        sweeper.keep_up().await.unwrap();
    }
    let report = sale.report().await;
    assert_eq!(
        (&report["cancelled"], &report["free"]),
        (&json!(1), &json!(1)),
        "five minutes later; returning: {}",
        report["returning"]
    );
}

/// The pay window is extended between the order function's look at the sale
/// and its write: the order has the old deadline, and does not end by it.
#[tokio::test(flavor = "multi_thread")]
async fn an_extension_holds_for_an_order_that_is_being_written() {
    let world = World::open(&[5]).await;
    let environment = testing::with_variables(
        &world.environment,
        &[
            ("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:9"),
            ("DEAD_LETTER_QUEUE_URL", "http://127.0.0.1:9/1/dead"),
        ],
    );
    let hold = world
        .claim(0, "ada", world.now() + SignedDuration::from_secs(20))
        .await;
    let order = world.unwritten(&hold).await;
    let message = Message::ClaimCreated(ClaimCreated {
        claim: order.claim,
        shopper: order.shopper,
        quantity: 1,
        money: order.money,
        limit: 1,
        claimed_at: order.claimed_at,
        pay_by: order.pay_by,
        epoch: 1,
    });
    let body = serde_json::to_string(&message).unwrap();
    let event = json!({"Records": [{"messageId": "m", "receiptHandle": "r", "body": body, "attributes": {},
        "messageAttributes": {}, "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:eu-west-1:1:c.fifo", "awsRegion": "eu-west-1"}]});
    let name = world.sale.to_string();
    let extend = send::<AdminFunction>(
        &world.environment,
        "POST /v1/admin/sales/{sale}/extend-pay-window",
        json!({"sale": name}),
        as_merchant(&json!({"seconds": 600})),
    );
    let deadline = world.now() + SignedDuration::from_mins(1);
    let (_, met) = interrupted_at(
        &environment,
        Point::AfterRequest(1),
        extend,
        async |environment| {
            let function = OrderFunction::start(&environment).await.unwrap();
            let invocation = Invocation {
                request_id: "r".to_owned(),
                deadline,
            };
            function
                .handle(serde_json::from_value(event).unwrap(), invocation)
                .await
                .unwrap()
        },
    )
    .await;
    assert_eq!(met.unwrap().0, 200);
    let claim: ClaimId = hold.claim;
    let later = world.later(SignedDuration::from_secs(60));
    let sweeper = sweeper_function::SweeperFunction::start(&later).await;
    assert!(sweeper.unwrap().sweep().await.unwrap());
    let stands = world.find(&claim).await.unwrap();
    assert_eq!(stands.status, OrderStatus::PendingPayment);
    let sale = world.ledger.sale(&world.sale).await.unwrap().unwrap();
    assert!(
        stands.pay_by >= sale.pay_by_min.unwrap(),
        "{}",
        stands.pay_by
    );
}

/// Units are lowered while the ledger is slow: between the gates' giving up
/// units and the ledger's, comparisons must not "mend" the difference.
#[tokio::test(flavor = "multi_thread")]
async fn units_on_their_way_out_are_not_put_back() {
    let world = World::open(&[4]).await;
    let name = world.sale.to_string();
    let mut worst = None;
    for request in 1..20 {
        let compare = async {
            for seconds in [1, 4] {
                let later = world.later(SignedDuration::from_secs(seconds));
                let sweeper = sweeper_function::SweeperFunction::start(&later)
                    .await
                    .unwrap();
                sweeper.sweep().await.unwrap();
                sweeper.keep_up().await.unwrap();
            }
        };
        // Whatever an earlier change left is mended, and the units are four again.
        for units in [2, 4] {
            let change = as_merchant(&json!({"units": units}));
            send::<AdminFunction>(
                &world.environment,
                "PATCH /v1/admin/sales/{sale}",
                json!({"sale": name}),
                change,
            )
            .await;
        }
        let units = 2;
        let ((status, _), met) = interrupted_at(
            &world.environment,
            Point::BeforeRequest(request),
            compare,
            async |environment| {
                let change = as_merchant(&json!({"units": units}));
                send::<AdminFunction>(
                    &environment,
                    "PATCH /v1/admin/sales/{sale}",
                    json!({"sale": name}),
                    change,
                )
                .await
            },
        )
        .await;
        if met.is_none() {
            break;
        }
        let (left, allotted) = (world.left(0).await, u64::from(world.allotted(0).await));
        let row = world
            .ledger
            .bucket(&world.sale, domain::BucketId(0))
            .await
            .unwrap()
            .unwrap();
        if left + allotted > u64::from(row.capacity) {
            worst = Some((request, status, left, row));
            break;
        }
    }
    assert!(worst.is_none(), "{worst:?}");
}
