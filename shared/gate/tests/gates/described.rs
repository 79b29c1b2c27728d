//! What servers say of themselves.

use gate::Gate;
use jiff::SignedDuration;
use testing::gates;

#[tokio::test]
async fn a_primary_says_what_it_is() {
    let servers = gates::start();
    let environment = gates::environment(&servers);
    let gate = Gate::connect(&environment).unwrap();
    let described = gate.describe().await.unwrap();
    let [primary] = described.as_slice() else {
        panic!("{described:?}")
    };
    assert!(primary.major() >= 7, "{primary:?}");
    assert!(["redis", "valkey"].contains(&primary.engine.as_str()));
    assert_eq!(primary.eviction, "noeviction");
    assert_eq!(primary.replicas, 1);
    let apart = environment
        .clock
        .now()
        .duration_since(gate.time().await.unwrap());
    assert!(apart.abs() < SignedDuration::from_secs(1), "{apart:?}");

    let mut forgetful = redis::cmd("CONFIG");
    forgetful
        .arg("SET")
        .arg("maxmemory-policy")
        .arg("allkeys-lru");
    for index in 0..servers.primaries() {
        let mut connection = servers.connect(index).unwrap();
        forgetful.query::<()>(&mut connection).unwrap();
    }
    let described = gate.describe().await.unwrap();
    assert_eq!(described[0].eviction, "allkeys-lru");
}
