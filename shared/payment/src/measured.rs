//! A provider whose calls are measured: how long each took, and whether it
//! was answered.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use domain::{BucketId, IntentId, Money, OrderId, SaleId};
use jiff::Timestamp;
use runtime::{Metric, metrics};

use crate::{
    CancelOutcome, CreateIntent, Error, Event, Intent, NoIntent, Provider, ProviderPayment,
    RefundOutcome, RefundRequest, SandboxProvider, WebhookError,
};

/// This provider, measured.
#[derive(Debug)]
pub(crate) struct Measured(pub(crate) Arc<dyn Provider>);

/// Does one call; its name goes into the line, and is no dimension.
async fn measured<T, E>(
    call: &'static str,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let begun = Instant::now();
    let answer = work.await;
    let took_ms = begun.elapsed().as_micros() as f64 / 1_000.0;
    metrics::overall()
        .word("call", call)
        .value(Metric::ProviderLatency, took_ms)
        .value(Metric::ProviderErrors, f64::from(u8::from(answer.is_err())))
        .write();
    answer
}

#[async_trait]
impl Provider for Measured {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn signature_header(&self) -> &'static str {
        self.0.signature_header()
    }

    fn takes(&self, money: Money) -> Result<(), String> {
        self.0.takes(money)
    }

    fn verify_webhook(
        &self,
        signature: &str,
        body: &[u8],
        now: Timestamp,
    ) -> Result<Event, WebhookError> {
        self.0.verify_webhook(signature, body, now)
    }

    async fn create_intent(&self, request: &CreateIntent) -> Result<Intent, NoIntent> {
        measured("create_intent", self.0.create_intent(request)).await
    }

    async fn intent(&self, intent: &IntentId, order: &OrderId) -> Result<Option<Intent>, Error> {
        measured("intent", self.0.intent(intent, order)).await
    }

    async fn order_of(&self, intent: &IntentId) -> Result<Option<OrderId>, Error> {
        measured("order_of", self.0.order_of(intent)).await
    }

    async fn cancel(&self, intent: &IntentId, order: &OrderId) -> Result<CancelOutcome, Error> {
        measured("cancel", self.0.cancel(intent, order)).await
    }

    async fn refund(&self, request: &RefundRequest) -> Result<RefundOutcome, Error> {
        measured("refund", self.0.refund(request)).await
    }

    async fn list(
        &self,
        sale: &SaleId,
        bucket: BucketId,
        since: Timestamp,
    ) -> Result<Vec<ProviderPayment>, Error> {
        measured("list", self.0.list(sale, bucket, since)).await
    }

    fn as_sandbox(&self) -> Option<&SandboxProvider> {
        self.0.as_sandbox()
    }
}
