#[tokio::main]
async fn main() {
    let system = local::System::start(local::Options { schedules: false, ..Default::default() }).await.unwrap();
    for (f, e) in [("AdminFunction","admin-create"),("PassFunction","pass-create"),("EntryFunction","entry-create"),("ClaimFunction","claim-create"),("PaymentFunction","payment-webhook"),("StatusFunction","status-read"),("OrderFunction","order-batch"),("ControllerFunction","controller-schedule"),("SweeperFunction","sweeper-schedule")] {
        let event = std::fs::read(format!("events/{e}.json")).unwrap();
        let event: serde_json::Value = serde_json::from_slice(&event).unwrap();
        let answer = tokio::time::timeout(std::time::Duration::from_secs(8), system.invoke(f, &event)).await;
        println!("{e}: {}", format!("{answer:?}").chars().take(420).collect::<String>());
    }
}
