//! A queue that takes what nobody can read, and keeps it; and notes what is to be
//! shown again.

use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::{Router, routing::post};
use md5::{Digest, Md5};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The dead-letter queue.
#[derive(Clone)]
pub(crate) struct DeadLetters {
    pub(crate) url: String,
    sent: Arc<Mutex<Vec<Value>>>,
    shown: Arc<Mutex<Vec<Value>>>,
}

impl DeadLetters {
    /// One that stores, or one that refuses everything.
    pub(crate) async fn start(stores: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let letters = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            sent: Arc::default(),
            shown: Arc::default(),
        };
        let sent = Arc::clone(&letters.sent);
        let shown = Arc::clone(&letters.shown);
        let send = move |body: Bytes| async move {
            if !stores {
                let error = json!({"__type": "com.amazonaws.sqs#QueueDoesNotExist"});
                return (StatusCode::BAD_REQUEST, error.to_string());
            }
            let message: Value = serde_json::from_slice(&body).unwrap();
            if message.get("VisibilityTimeout").is_some() {
                shown.lock().unwrap().push(message);
                return (StatusCode::OK, "{}".to_owned());
            }
            let digest = Md5::digest(message["MessageBody"].as_str().unwrap());
            let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            sent.lock().unwrap().push(message);
            let answer = json!({"MessageId": "dead-1", "MD5OfMessageBody": digest});
            (StatusCode::OK, answer.to_string())
        };
        let router = Router::new().fallback(post(send));
        tokio::spawn(async move { axum::serve(listener, router).await });
        letters
    }

    /// Receipts of messages that are to be shown again, and after how many seconds.
    pub(crate) fn shown_again(&self) -> Vec<(String, u64)> {
        let shown = self.shown.lock().unwrap();
        let mut shown: Vec<_> = shown
            .iter()
            .map(|change| {
                let receipt = change["ReceiptHandle"].as_str().unwrap().to_owned();
                (receipt, change["VisibilityTimeout"].as_u64().unwrap())
            })
            .collect();
        shown.sort();
        shown
    }

    /// The bodies that it has.
    pub(crate) fn bodies(&self) -> Vec<String> {
        let sent = self.sent.lock().unwrap();
        sent.iter()
            .map(|message| message["MessageBody"].as_str().unwrap().to_owned())
            .collect()
    }
}
