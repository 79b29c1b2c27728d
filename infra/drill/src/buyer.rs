//! One shopper after the yes: the odd second tap, then paying, or not.

use std::time::Duration;

use domain::order::{ClaimStatus, OrderStatus};
use domain::{ClaimId, OrderId};
use tokio::time::{Instant, sleep};

use crate::client::{Answer, Lane, Request};
use crate::instrument::{Card, Confirmed};
use crate::provider::{self, Delivery};
use crate::record::{Call, lock};
use crate::roles::Intention;
use crate::shopper::{Shopper, Yes};
use crate::wire;
use crate::world::{Ending, count};

/// How soon a page asks for its order again at first, and at last: those who
/// wait longest must not keep the system from what they wait for.
const ORDER_POLL: Duration = Duration::from_millis(500);
const ORDER_POLL_MAX: Duration = Duration::from_secs(8);

/// People fill in a form for up to so long, but at most a fifth of their time.
const THINKING: Duration = Duration::from_secs(3);

/// How long a shopper watches for "paid" after the provider said so.
const WATCHING: Duration = Duration::from_secs(60);

/// The waits of one page that asks again and again.
struct Polling(Duration);

impl Polling {
    fn new() -> Self {
        Self(ORDER_POLL)
    }

    async fn wait(&mut self) {
        sleep(self.0).await;
        self.0 = (self.0 * 2).min(ORDER_POLL_MAX);
    }
}

/// How the sale ended for a winner, or `None` if the yes was taken back.
pub(crate) async fn buy(shopper: &mut Shopper, yes: Yes) -> Option<Ending> {
    let thinking = shopper.thinking();
    if shopper.role.second_key {
        let wait = shopper.up_to(thinking / 3);
        sleep(wait).await;
        shopper.claim_with_second_key(&yes).await;
    }
    if shopper.role.retry_same_key {
        let wait = shopper.up_to(thinking / 3);
        sleep(wait).await;
        shopper.claim_with_same_key(&yes).await;
    }
    if yes.confirming && !shopper.is_confirmed(&yes.claim).await {
        return None;
    }
    match shopper.role.intention {
        Intention::NeverPay => Some(Ending::NeverPaid),
        Intention::GiveBack => Some(shopper.give_back(&yes.claim).await),
        Intention::Pay => shopper.pay(&yes.claim.order(), false).await,
        Intention::DeclineThenPay => shopper.pay(&yes.claim.order(), true).await,
    }
}

impl Shopper {
    fn thinking(&self) -> Duration {
        let window = self.world.config.crowd.waitlist_pay_window_s();
        THINKING.min(Duration::from_secs(u64::from(window)) / 5)
    }

    /// Another key must not give another unit.
    async fn claim_with_second_key(&self, yes: &Yes) {
        let key = format!("{}-other", yes.key);
        let answer = self.send_claim(&key).await;
        let Some(second) = self.note_yes(&key, &[answer]) else {
            return;
        };
        if second.claim != yes.claim {
            lock(&self.world.told).contradictions.push(format!(
                "a second key was answered with {} beside {}",
                second.claim, yes.claim
            ));
        }
    }

    /// The same key must be the same claim.
    async fn claim_with_same_key(&self, yes: &Yes) {
        let answer = self.send_claim(&yes.key).await;
        if let Some(again) = self.note_yes(&yes.key, &[answer])
            && again.claim != yes.claim
        {
            lock(&self.world.told).contradictions.push(format!(
                "the key {} was answered with {} and later with {}",
                yes.key, yes.claim, again.claim
            ));
        }
    }

    /// After "confirming": waits until the ledger has decided.
    async fn is_confirmed(&self, claim: &ClaimId) -> bool {
        let deadline = self.deadline();
        let mut polling = Polling::new();
        while Instant::now() < deadline {
            let request =
                Request::new(Call::ReadClaim, format!("/v1/claims/{claim}")).token(&self.session);
            let answer = self.world.client.send(Lane::Winner, request).await;
            match answer.read::<wire::Claim>().map(|claim| claim.status) {
                Some(ClaimStatus::Ordered | ClaimStatus::Paid | ClaimStatus::Claimed) => {
                    return true;
                }
                Some(ClaimStatus::Voided | ClaimStatus::Expired | ClaimStatus::Cancelled) => {
                    return false;
                }
                Some(ClaimStatus::Confirming) | None => polling.wait().await,
            }
        }
        false
    }

    async fn give_back(&mut self, claim: &ClaimId) -> Ending {
        let wait = self.up_to(self.thinking());
        sleep(wait).await;
        let deadline = self.deadline();
        let mut polling = Polling::new();
        while Instant::now() < deadline {
            let request =
                Request::new(Call::GiveBack, format!("/v1/claims/{claim}")).token(&self.session);
            let answer = self.world.client.send(Lane::Winner, request).await;
            if answer.is_success() {
                lock(&self.world.told).given_back.insert(claim.clone());
                return Ending::GaveBack;
            }
            let not_written = answer.is("order_not_ready");
            match answer.wait(&mut self.rng) {
                Some(wait) => sleep(wait).await,
                None if not_written => polling.wait().await,
                None => return Ending::Lapsed,
            }
        }
        Ending::Lapsed
    }

    /// Pays; with `decline`, the first try fails.
    async fn pay(&mut self, order: &OrderId, decline: bool) -> Option<Ending> {
        let wait = self.up_to(self.thinking());
        sleep(wait).await;
        let world = self.world.clone();
        let place = world.client.checkout().await;
        if decline {
            let Some(intent) = self.intent(order).await else {
                return self.not_payable(order).await;
            };
            if let Some(confirmed) = self.confirm(&intent, Card::Bad).await {
                self.deliver(confirmed);
            }
            self.payable_again(order).await;
        }
        let Some(intent) = self.intent(order).await else {
            return self.not_payable(order).await;
        };
        let Some(confirmed) = self.confirm(&intent, Card::Good).await else {
            return Some(Ending::Lapsed);
        };
        // A provider that delivers its own loses none for us.
        if self.role.lose_webhook && matches!(confirmed, Confirmed::Event(_)) {
            // The sweeper must find the payment by asking the provider.
            self.world.intent_open_until(intent.expires_at);
            return Some(Ending::PaymentUnseen);
        }
        self.deliver(confirmed);
        drop(place);
        Some(self.watch(order).await)
    }

    /// Why an order can't be paid: the ledger may have taken the yes back.
    async fn not_payable(&self, order: &OrderId) -> Option<Ending> {
        let order = self.read_order(order).await.read::<wire::OrderView>();
        match order.map(|order| order.status) {
            Some(OrderStatus::Voided) => None,
            _ => Some(Ending::Lapsed),
        }
    }

    async fn read_order(&self, order: &OrderId) -> Answer {
        let request =
            Request::new(Call::ReadOrder, format!("/v1/orders/{order}")).token(&self.session);
        self.world.client.send(Lane::Winner, request).await
    }

    async fn intent(&mut self, order: &OrderId) -> Option<wire::Intent> {
        let deadline = self.deadline();
        let mut polling = Polling::new();
        while Instant::now() < deadline {
            let path = format!("/v1/orders/{order}/payments");
            let request = Request::new(Call::Pay, path)
                .token(&self.session)
                .body("{}");
            let answer = self.world.client.send(Lane::Winner, request).await;
            if answer.is_success() {
                return answer.read();
            }
            let not_written = answer.is("order_not_ready");
            match answer.wait(&mut self.rng) {
                Some(wait) => sleep(wait).await,
                None if not_written => polling.wait().await,
                None => return None,
            }
        }
        None
    }

    /// Delivers the event, if that is left to us.
    fn deliver(&mut self, confirmed: Confirmed) {
        let Confirmed::Event(event) = confirmed else {
            return;
        };
        let copies = self.world.config.crowd.shares.webhook_copies_max;
        let delivery = Delivery::drawn(&mut self.rng, copies);
        provider::deliver(self.world.clone(), event, delivery);
    }

    /// After a decline: waits until the order is payable again.
    async fn payable_again(&self, order: &OrderId) {
        let deadline = self.deadline();
        let mut polling = Polling::new();
        while Instant::now() < deadline {
            let answer = self.read_order(order).await;
            let status = answer.read::<wire::OrderView>().map(|order| order.status);
            if status.is_some_and(|status| status != OrderStatus::Paying) {
                return;
            }
            polling.wait().await;
        }
    }

    /// Watches for "paid".
    async fn watch(&self, order: &OrderId) -> Ending {
        let deadline = Instant::now() + WATCHING;
        let mut polling = Polling::new();
        while Instant::now() < deadline {
            let answer = self.read_order(order).await;
            match answer.read::<wire::OrderView>().map(|order| order.status) {
                Some(OrderStatus::Paid) => {
                    lock(&self.world.told).paid.insert(order.clone());
                    count(&self.world.tally.paid);
                    return Ending::Paid;
                }
                // The success came too late; the money must go back.
                Some(OrderStatus::Expired | OrderStatus::Cancelled | OrderStatus::Voided) => {
                    return Ending::Lapsed;
                }
                Some(OrderStatus::PendingPayment | OrderStatus::Paying) | None => {
                    polling.wait().await;
                }
            }
        }
        Ending::PaymentUnseen
    }

    /// No step of a purchase is repeated for longer than a hold lives.
    pub(crate) fn deadline(&self) -> Instant {
        let window = self.world.config.crowd.longest_pay_window();
        Instant::now() + window + Duration::from_secs(10)
    }
}
