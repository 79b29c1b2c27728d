//! One shopper until the yes: pass, entry, waiting in line, claim.
//!
//! Hundreds of thousands of these live at a time, so a shopper is a few words
//! and what it was given; whatever only a winner needs is boxed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::ClaimId;
use domain::order::ClaimStatus;
use domain::sale::SaleState;
use rand::RngExt;
use rand::rngs::SmallRng;
use runtime::Clock;
use tokio::time::{sleep, sleep_until};

use crate::client::{Answer, Lane, Request};
use crate::config::Mode;
use crate::edge::{POLL, Status};
use crate::record::{Call, ClaimCall, lock};
use crate::roles::{self, Role};
use crate::wire;
use crate::world::{Ending, World, count};
use crate::{audit, buyer};

/// People tap within this time of an opening that they wait for.
const REACTION: Duration = Duration::from_secs(1);

/// Late shoppers come within this time after the window.
const LATENESS: Duration = Duration::from_secs(5);

/// Whom the gates refused asks again within this time in the next round.
const SPREAD_MAX: Duration = Duration::from_secs(60);

/// Somebody who wants a unit.
pub(crate) struct Shopper {
    pub(crate) world: Arc<World>,
    pub(crate) number: u32,
    pub(crate) role: Role,
    pub(crate) rng: SmallRng,
    pub(crate) session: String,
    pub(crate) pass: String,
    /// The entry: its ticket and token. A race begins without.
    place: Option<(f64, String)>,
    /// Attempts so far; each has an idempotency key.
    attempt: u32,
    /// The round in which it was last told "sold out", and how often it was.
    refused: Option<(u32, u32)>,
}

/// Counts a shopper as waiting for as long as it lives.
struct InLine<'a>(&'a World);

impl<'a> InLine<'a> {
    fn of(world: &'a World) -> Self {
        count(&world.tally.in_line);
        Self(world)
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.tally.in_line.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How an attempt to claim ended.
enum Claimed {
    Yes(Yes),
    SoldOut,
    NotAdmitted,
    Over(Ending),
}

/// A yes.
#[derive(Debug, Clone)]
pub(crate) struct Yes {
    pub(crate) claim: ClaimId,
    /// No replica has acknowledged it yet: the ledger decides.
    pub(crate) confirming: bool,
    /// The key under which it was given.
    pub(crate) key: String,
}

/// Lives through the sale.
pub(crate) async fn live(world: Arc<World>, number: u32, session: String) -> Ending {
    let crowd = &world.config.crowd;
    let (role, rng) = roles::of(crowd.seed, number, &crowd.shares);
    let mut shopper = Shopper {
        world,
        number,
        role,
        rng,
        session,
        pass: String::new(),
        place: None,
        attempt: 0,
        refused: None,
    };
    match shopper.until_in_line().await {
        Err(ending) => ending,
        Ok(()) => shopper.in_line().await,
    }
}

impl Shopper {
    /// Pass and entry.
    async fn until_in_line(&mut self) -> Result<(), Ending> {
        self.obtain_pass().await?;
        let timing = self.world.timing;
        if self.world.config.crowd.mode == Mode::Race {
            let reaction = self.up_to(REACTION);
            sleep_until(timing.opens + reaction).await;
            return Ok(());
        }
        // The last tenth of the window is left for the way to the server.
        let tap = if self.role.late {
            timing.window + self.up_to(LATENESS)
        } else {
            self.up_to(timing.window.mul_f64(0.9))
        };
        sleep_until(timing.opens + tap).await;
        self.enter().await
    }

    async fn obtain_pass(&mut self) -> Result<(), Ending> {
        let timing = self.world.timing;
        let shoppers = f64::from(self.world.config.crowd.shoppers);
        let place = f64::from(self.number) / shoppers;
        sleep_until(timing.opens - timing.passes.mul_f64(1.0 - place)).await;
        loop {
            let world = self.world.clone();
            let request = || {
                Request::new(Call::Pass, format!("/v1/sales/{}/passes", world.sale))
                    .token(&self.session)
                    .body(format!(r#"{{"device":"device-{}"}}"#, self.number))
            };
            let answer = self.tap(Lane::Crowd, request).await;
            if answer.is_success() {
                let pass: wire::Pass = answer.read().ok_or(Ending::Refused)?;
                self.pass = pass.pass;
                count(&world.tally.passes);
                return Ok(());
            }
            self.wait_or_leave(&answer).await?;
        }
    }

    async fn enter(&mut self) -> Result<(), Ending> {
        loop {
            let world = self.world.clone();
            let request = || {
                Request::new(Call::Entry, format!("/v1/sales/{}/entries", world.sale))
                    .token(&self.session)
                    .header("sale-pass", &self.pass)
                    .body("{}")
            };
            let answer = self.tap(Lane::Crowd, request).await;
            if answer.is_success() {
                let entry: wire::Entry = answer.read().ok_or(Ending::Refused)?;
                count(&world.tally.entries);
                if entry.ticket >= 1.0 {
                    count(&world.tally.late);
                }
                lock(&world.told).tickets.push(entry.ticket);
                self.place = Some((entry.ticket, entry.entry_token));
                return Ok(());
            }
            self.wait_or_leave(&answer).await?;
        }
    }

    /// Sends a call; those who tap twice send it twice at once and take the
    /// answer that helps.
    async fn tap<'a>(&self, lane: Lane, request: impl Fn() -> Request<'a>) -> Answer {
        let client = &self.world.client;
        if !self.role.double_tap {
            return client.send(lane, request()).await;
        }
        let twice =
            futures::future::join(client.send(lane, request()), client.send(lane, request()));
        let (one, other) = Box::pin(twice).await;
        if one.is_success() { one } else { other }
    }

    /// Before there is a place in line: tries again later, or leaves.
    async fn wait_or_leave(&mut self, answer: &Answer) -> Result<(), Ending> {
        if answer.status == 410 {
            return Err(Ending::NeverInLine);
        }
        let Some(wait) = answer.wait(&mut self.rng) else {
            return Err(Ending::Refused);
        };
        if self.world.over(self.world.edge.last()).is_some() {
            return Err(Ending::NeverInLine);
        }
        sleep(wait).await;
        Ok(())
    }

    /// Polls the status, claims when it is its turn.
    async fn in_line(&mut self) -> Ending {
        let world = self.world.clone();
        let mut place = InLine::of(&world);
        loop {
            let status = world.edge.poll();
            if let Some(ending) = world.over(status) {
                return ending;
            }
            if self.may_claim(status) {
                let spread = self.spread();
                sleep(spread).await;
                let round = world.edge.last().round;
                match self.claim().await {
                    Claimed::Yes(yes) => {
                        drop(place);
                        if let Some((ticket, _)) = self.place {
                            lock(&world.told).served.push(ticket);
                        }
                        // Only winners need the room.
                        if let Some(ending) = Box::pin(buyer::buy(self, yes)).await {
                            return ending;
                        }
                        // The yes was taken back: in line again.
                        place = InLine::of(&world);
                        self.refuse(round);
                    }
                    Claimed::SoldOut => self.refuse(round),
                    Claimed::NotAdmitted => {}
                    Claimed::Over(ending) => return ending,
                }
            }
            if let Some((ticket, _)) = self.place {
                world.edge.turn(ticket, self.number).await;
            }
            let poll = POLL.mul_f64(self.rng.random_range(0.8..1.2));
            sleep(poll).await;
        }
    }

    /// Whether the page claims by itself now.
    fn may_claim(&self, status: Status) -> bool {
        if status.paused {
            return false;
        }
        let Some((ticket, _)) = &self.place else {
            // A race before its waitlist: even "all claimed" is asked, since
            // that answer gives the place in line.
            return matches!(status.state, SaleState::Live | SaleState::AllClaimed);
        };
        if *ticket >= status.threshold || status.state != SaleState::Live {
            return false;
        }
        self.refused.is_none_or(|(round, _)| round != status.round)
    }

    fn refuse(&mut self, round: u32) {
        let before = self.refused.map_or(0, |(_, times)| times);
        self.refused = Some((round, before + 1));
    }

    /// When within the spread this shopper claims: by its ticket, so that
    /// nobody gains by trying. Low digits are even also among the few whose
    /// tickets lie close together in a late round. Who was refused leaves the units
    /// that come back to others for longer each time: a thousand who ask at each
    /// unit would keep winners from paying.
    fn spread(&mut self) -> Duration {
        let spread = self.world.config.crowd.claim_spread_s;
        if let Some((_, times)) = self.refused {
            let longest = Duration::from_secs(u64::from(spread.max(1)) << times.min(6));
            return self.up_to(longest.min(SPREAD_MAX));
        }
        let spread = f64::from(spread);
        match &self.place {
            Some((ticket, _)) => Duration::from_secs_f64(spread * (ticket * 1e6).fract().abs()),
            None => Duration::ZERO,
        }
    }

    /// One attempt under a new key, repeated under the same key until there
    /// is an answer.
    async fn claim(&mut self) -> Claimed {
        self.attempt += 1;
        let key = self.key(self.attempt);
        loop {
            let answers = if self.role.double_tap {
                let twice = futures::future::join(self.send_claim(&key), self.send_claim(&key));
                let (one, other) = Box::pin(twice).await;
                vec![one, other]
            } else {
                vec![self.send_claim(&key).await]
            };
            if let Some(yes) = self.note_yes(&key, &answers) {
                count(&self.world.tally.yes);
                return Claimed::Yes(yes);
            }
            // Two taps that both failed: the second came last.
            let Some(answer) = answers.into_iter().next_back() else {
                continue;
            };
            if answer.is("sold_out") {
                self.take_place(answer);
                return Claimed::SoldOut;
            }
            if answer.is("not_admitted") {
                return Claimed::NotAdmitted;
            }
            if answer.status == 410 {
                return Claimed::Over(Ending::StillWanting);
            }
            let Some(wait) = answer.wait(&mut self.rng) else {
                return Claimed::Over(Ending::Refused);
            };
            if let Some(ending) = self.world.over(self.world.edge.last()) {
                return Claimed::Over(ending);
            }
            sleep(wait).await;
        }
    }

    /// The key of an attempt: new for each, the same for its repetitions.
    pub(crate) fn key(&self, attempt: u32) -> String {
        format!("shopper-{}-attempt-{attempt}", self.number)
    }

    /// Sends a claim once.
    pub(crate) async fn send_claim(&self, key: &str) -> Answer {
        let path = format!("/v1/sales/{}/claims", self.world.sale);
        let mut request = Request::new(Call::Claim, path)
            .token(&self.session)
            .header("sale-pass", &self.pass)
            .header("idempotency-key", key)
            .body("{}");
        if let Some((_, token)) = &self.place {
            request = request.header("sale-entry", token);
        }
        let lane = match (&self.place, self.refused) {
            (Some(_), None) => Lane::Winner,
            _ => Lane::Crowd,
        };
        let sent = Clock::system().now();
        let answer = self.world.client.send(lane, request).await;
        lock(&self.world.claim_calls).push(ClaimCall {
            shopper: self.number,
            sent,
            took: answer.took,
            status: answer.status,
        });
        answer
    }

    /// Keeps what the answers to one key promised, for the audit: a yes must
    /// be in the ledger, and one key is one claim.
    pub(crate) fn note_yes(&self, key: &str, answers: &[Answer]) -> Option<Yes> {
        let mut first: Option<Yes> = None;
        for answer in answers.iter().filter(|answer| answer.is_success()) {
            let Some(claim) = answer.read::<wire::Claim>() else {
                continue;
            };
            let promise = match (answer.status, claim.status) {
                (202, _) | (_, ClaimStatus::Confirming) => audit::Promise::Confirming,
                (201, _) | (_, ClaimStatus::Claimed | ClaimStatus::Ordered | ClaimStatus::Paid) => {
                    audit::Promise::Yes
                }
                // A repetition that says how the claim ended.
                (_, ClaimStatus::Expired | ClaimStatus::Cancelled | ClaimStatus::Voided) => {
                    continue;
                }
            };
            let mut told = lock(&self.world.told);
            told.promised(claim.claim_id.clone(), promise);
            match &first {
                Some(yes) if yes.claim.digest() != claim.claim_id.digest() => {
                    told.contradictions.push(format!(
                        "the key {key} was answered with {} and with {}",
                        yes.claim, claim.claim_id
                    ));
                }
                Some(_) => {}
                None => {
                    first = Some(Yes {
                        claim: claim.claim_id,
                        confirming: promise == audit::Promise::Confirming,
                        key: key.to_owned(),
                    });
                }
            }
        }
        first
    }

    /// "Sold out" in a race gives a place in line.
    fn take_place(&mut self, answer: Answer) {
        if let (None, Some(ticket), Some(token)) = (
            &self.place,
            answer.problem.ticket,
            answer.problem.entry_token,
        ) {
            self.place = Some((ticket, token));
            count(&self.world.tally.entries);
        }
    }

    /// A wait of up to so long.
    pub(crate) fn up_to(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.rng.random_range(0.0..1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;
    use crate::config::{Config, Crowd, Progress, Target};
    use crate::world::Timing;

    #[test]
    fn hundreds_of_thousands_fit_in_memory() {
        let base_url = "http://127.0.0.1:9".to_owned();
        let client = Client::new(&base_url, 4).unwrap();
        let config = Config {
            target: Target {
                token_url: base_url.clone(),
                stripe: crate::config::Stripe::default(),
                admin_token: String::new(),
                base_url,
            },
            crowd: Crowd::default(),
            progress: Progress::Quiet,
        };
        let timing = Timing {
            opens_at: jiff::Timestamp::UNIX_EPOCH,
            opens: tokio::time::Instant::now(),
            window: Duration::ZERO,
            passes: Duration::ZERO,
        };
        let world = World::new(config, "s".parse().unwrap(), timing, client);
        let size = size_of_val(&live(Arc::new(world), 0, String::new()));
        assert!(size <= 4_096, "{size} bytes");
    }
}
