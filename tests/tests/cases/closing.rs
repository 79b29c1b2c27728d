//! C08, C09: the books of a sale are closed from what the merchant's reports say.

use books::{BucketReport, SaleReport, close};
use domain::{Currency, Money};
use reconcile::report::Kind;
use serde_json::{Value, json};
use tests::books::Books;
use tests::{Shop, eventually, now};

/// What closing these reports comes to.
fn closed(books: &Books) -> books::Closing {
    let sale: SaleReport = serde_json::from_value(books.report.clone()).unwrap();
    let buckets: Vec<BucketReport> = books
        .buckets
        .iter()
        .map(|report| serde_json::from_value(report.clone()).unwrap())
        .collect();
    close(&sale, &buckets, now()).unwrap()
}

/// One order is paid, and one by too little: that goes back.
#[tokio::test(flavor = "multi_thread")]
async fn c08_c09_a_sales_books_are_closed_from_its_reports() {
    let shop = Shop::open().await;
    let price = json!({"amount": 10_005, "currency": "KWD"});
    let sale = shop
        .sale(json!({"units": 2, "buckets": 2, "price": price}))
        .await;
    let crowd = sale.crowd(2).await;
    sale.opened().await;
    crowd[0].buy().await;
    let claim = crowd[1].hold().await;
    let payment = crowd[1].begin_payment(&claim).await.expect(201).json;
    let little = json!({"amount": 10_000, "currency": "KWD"});
    let event = crowd[1].confirm(&payment, "succeed", Some(little)).await;
    event.deliver(&crowd[1]).await.expect(200);
    let books = eventually("what was captured wrongly went back", 15, async || {
        let books = sale.books().await;
        let back = books.refunds().all(|refund| refund["status"] == "REFUNDED");
        (back && books.refunds().count() == 1).then_some(books)
    })
    .await;

    let closing = closed(&books);
    assert_eq!(closing.differences, []);
    let kwd: Currency = "KWD".parse().unwrap();
    let sums = &closing.sums;
    for (sum, count, amount) in [
        (&sums.captured, 2, 20_005),
        (&sums.returned, 1, 10_000),
        (&sums.paid, 1, 10_005),
    ] {
        assert_eq!((sum.count, sum.amounts[&kwd]), (count, amount));
    }

    // The control: the same reports without what the provider lists of the paid one.
    let mut robbed = books.clone();
    let payments = robbed.buckets.iter_mut();
    let payments = payments.map(|of| of["payments"].as_array_mut().unwrap());
    payments.for_each(|all: &mut Vec<Value>| all.retain(|one| one["amount"] == 10_000));
    let [missing] = &*closed(&robbed).differences else {
        panic!("{:?}", closed(&robbed))
    };
    let expected = Money {
        amount: 10_005,
        currency: kwd,
    };
    assert_eq!(
        (missing.kind, missing.expected, missing.found),
        (Kind::PaidWithoutCapture, Some(expected), None)
    );
}
