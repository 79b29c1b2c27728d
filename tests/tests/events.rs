//! Every event in `events/` is one that its function takes.

#![allow(clippy::unwrap_used)] // a test that can't be set up has failed

use std::path::Path;

use reqwest::Method;
use serde_json::Value;
use tests::Shop;

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_taken_by_its_function() {
    let shop = Shop::quiet().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../events");
    let read = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap()
    };
    // The phone sale, as a merchant sends it.
    let made = shop
        .admin(Method::POST, "/v1/admin/sales", &read("sale.json"))
        .await;
    assert_eq!(made.status, 201, "{:#}", made.json);
    assert_eq!(made.json["buckets"], 40);

    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "sale.json")
        .collect();
    names.sort();
    let mut functions = Vec::new();
    for name in names {
        let function = format!("{}-function", name.split('-').next().unwrap());
        let answer = shop.system.invoke(&function, &read(&name)).await.unwrap();
        // Of a call's answers, none blames us.
        let status = answer["statusCode"].as_u64().unwrap_or(200);
        assert!(status < 500, "{name}: {answer:#}");
        functions.push(function);
    }
    functions.dedup();
    assert_eq!(functions.len(), 11, "{functions:?}");
}
