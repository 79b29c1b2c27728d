//! Ids are text, from the shopper to the key and back.

use domain::ShopperId;
use domain::slot::slot;

use crate::shop::{KEY, OTHER_KEY, Shop, claimed, holds, same, wish};

/// Ids that something on the way could take for a number, a tag or a pattern.
const ODD: [&str; 14] = [
    "9007199254740992",
    "9007199254740993",
    "201605131024011015",
    "1e5",
    "100000",
    "0x10",
    "16",
    "007",
    "7",
    "nan",
    "a{b}:stock",
    "u:%d+ left",
    "with spaces  and ümläuts",
    "'; return 1 --",
];

#[tokio::test]
async fn ids_that_differ_are_two_shoppers() {
    let shop = Shop::open(&[20]).await;
    for odd in ODD {
        let hold = claimed(shop.claim(0, &wish(odd, KEY)).await);
        assert_eq!(hold.shopper.as_str(), odd);
    }
    for odd in ODD {
        let (hold, _) = holds(shop.claim(0, &wish(odd, OTHER_KEY)).await);
        assert_eq!(hold.shopper.as_str(), odd);
        assert_eq!(hold, same(shop.claim(0, &wish(odd, KEY)).await));
    }
    assert_eq!(shop.left(0).await, 20 - ODD.len() as u64);
    let (_, known) = shop.gate.holds(shop.tag(0)).await.unwrap();
    assert_eq!(known.len(), ODD.len());
}

#[test]
fn a_newline_is_in_no_id() {
    for text in ["a\nb", "a\r", "\u{0}", "a\u{7f}", ""] {
        assert!(text.parse::<ShopperId>().is_err(), "{text:?}");
    }
}

#[tokio::test]
async fn deadlines_are_exact_to_the_millisecond() {
    let shop = Shop::open(&[1]).await;
    let hold = claimed(shop.claim(0, &wish("u", KEY)).await);
    let due = |until| shop.gate.due(shop.tag(0), until);
    let before = hold.pay_by - jiff::SignedDuration::from_millis(1);
    assert_eq!(due(before).await.unwrap(), []);
    assert_eq!(due(hold.pay_by).await.unwrap(), [hold.claim]);
}

#[tokio::test]
async fn all_keys_of_a_bucket_are_in_the_slot_of_its_tag() {
    let shop = Shop::open(&[3; 8]).await;
    let mut redis = testing::gates::shared().connect(0).unwrap();
    for bucket in 0..8 {
        let tag = shop.tag(bucket);
        let pass = "pass".parse().unwrap();
        let hurried = crate::shop::Wish {
            rate_per_s: Some(10),
            ..wish("u", KEY)
        };
        let claim = claimed(shop.claim(bucket, &hurried).await).claim;
        shop.bucket(bucket).replicated(&claim).await.unwrap();
        shop.gate.enter(tag, &pass).await.unwrap();
        shop.gate.arrive(tag, &pass).await.unwrap();
        let mut keys: Vec<String> = redis::cmd("KEYS")
            .arg(format!("{{{tag}}}:*"))
            .query(&mut redis)
            .unwrap();
        keys.sort();
        let names: Vec<_> = keys
            .iter()
            .map(|key| key.rsplit(':').next().unwrap())
            .collect();
        assert_eq!(names, ["due", "entries", "late", "look", "rate", "stock"]);
        for key in keys {
            let of_key: u16 = redis::cmd("CLUSTER")
                .arg("KEYSLOT")
                .arg(&key)
                .query(&mut redis)
                .unwrap();
            assert_eq!(of_key, slot(tag), "{key}");
        }
    }
}
