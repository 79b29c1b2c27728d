//! The gates as a deployment has them: with TLS and a password.

use std::path::PathBuf;
use std::process::{Command, Output};

use runtime::Environment;
use testing::gates;

use crate::shop::{KEY, Shop, claimed, wish};

/// What one environment of a function does at the gates that its variables
/// name.
#[tokio::test]
#[ignore = "started by the test below, as a process"]
async fn as_a_function_does() {
    let environment = Environment::load().await.unwrap();
    let shop = Shop::of(environment, &[5]).await;
    claimed(shop.claim(0, &wish("u", KEY)).await);
    assert_eq!(shop.left(0).await, 4);
}

/// Whom the client trusts is a variable of the process (`SSL_CERT_FILE`), and
/// those can't be changed while it runs.
fn function(url: &str, password: Option<&str>, trusted: Option<PathBuf>) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "secure::as_a_function_does", "--ignored"])
        .env_clear()
        .env("AWS_REGION", "eu-west-1")
        .env("GATE_URL", url)
        .env("GATE_ACK_WAIT_MS", "1000");
    if let Some(password) = password {
        command.env("GATE_PASSWORD", password);
    }
    if let Some(trusted) = trusted {
        command.env("SSL_CERT_FILE", trusted);
    }
    command.output().unwrap()
}

#[test]
fn only_a_function_with_the_password_is_let_in_and_only_over_tls() {
    let servers = gates::start_secure();
    let url = servers.url();
    assert!(url.starts_with("rediss://"), "{url}");
    let (password, trusted) = (servers.password(), servers.certificate());
    assert!(password.is_some() && trusted.is_some());

    // A handshake has half a second, which a busy machine may need.
    let mut good = function(&url, password, trusted.clone());
    for _ in 0..5 {
        if good.status.success() {
            break;
        }
        good = function(&url, password, trusted.clone());
    }
    assert!(good.status.success(), "{good:?}");

    let plain = url.replace("rediss://", "redis://");
    let secret = password.unwrap();
    for (case, refused) in [
        (
            "a wrong password",
            function(&url, Some("wrong"), trusted.clone()),
        ),
        ("no password", function(&url, None, trusted.clone())),
        (
            "an authority that is not trusted",
            function(&url, password, None),
        ),
        ("no TLS", function(&plain, password, trusted)),
    ] {
        let shown = String::from_utf8([refused.stdout, refused.stderr].concat()).unwrap();
        assert!(!refused.status.success(), "{case}: {shown}");
        assert!(shown.contains("Unavailable"), "{case}: {shown}");
        assert!(!shown.contains(secret), "{case}");
    }
}
