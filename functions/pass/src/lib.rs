//! The pass function: one pass for a shopper and a sale, after the identity
//! checks; and the keys with which anyone can verify it.

mod request;

use api::{Cache, Call, Code, HttpFunction, Problem, Reply};
use domain::identity::IdentityKind;
use domain::{Sale, ShopperId};
use jiff::{SignedDuration, Timestamp};
use ledger::passes::{Identity, Pass, PassOutcome};
use ledger::{Ledger, SaleCache};
use runtime::{Clock, Environment};
use serde::Serialize;
use token::{Attestation, AttestationKey, EdgeKeys, Grant, IdentityKey, Keys, Signer};

use crate::request::PassRequest;

/// Passes and hashes are kept for so long after a sale has closed.
const KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);

/// How long the public keys may be kept; a new one is announced for longer
/// than that before it signs.
const JWKS_AGE_S: u32 = 300;

/// The pass function.
#[derive(Debug)]
pub struct PassFunction {
    ledger: Ledger,
    sales: SaleCache,
    clock: Clock,
    keys: Keys,
    signer: Signer,
    edge: EdgeKeys,
    identity: IdentityKey,
    attestation: AttestationKey,
}

impl HttpFunction for PassFunction {
    async fn start(environment: &Environment) -> anyhow::Result<Self> {
        let settings = &environment.settings;
        let ledger = Ledger::connect(environment)?;
        Ok(Self {
            sales: SaleCache::new(ledger.clone(), environment.clock),
            ledger,
            clock: environment.clock,
            keys: Keys::load(settings)?,
            signer: Signer::load(settings)?,
            edge: EdgeKeys::load(settings)?,
            identity: IdentityKey::load(settings)?,
            attestation: AttestationKey::load(settings)?,
        })
    }

    async fn handle(&self, call: Call) -> Result<Reply, Problem> {
        match call.route() {
            "POST /v1/sales/{sale}/passes" => self.create(&call).await,
            "GET /.well-known/jwks.json" => {
                Ok(Reply::ok(&self.keys.jwks())?.cached(Cache::Public(JWKS_AGE_S)))
            }
            _ => Err(Problem::not_found()),
        }
    }
}

#[derive(Serialize)]
struct PassView {
    pass: String,
    pass_id: String,
    sale_id: String,
    valid_from: String,
    valid_until: String,
}

impl PassFunction {
    async fn create(&self, call: &Call) -> Result<Reply, Problem> {
        let shopper = call.shopper()?;
        let sale_id = call.sale()?;
        let request = PassRequest::read(call.fields()?)?;
        let sale = self.sales.get(&sale_id).await?;
        let sale = sale.ok_or_else(Problem::not_found)?;
        let now = self.clock.now();
        if sale.has_ended(now) {
            return Err(Problem::new(Code::Ended));
        }
        // Most repeats are told apart by a read, which costs a fraction of
        // the transaction that would find out too.
        let (pass, new) = match self.ledger.pass(&sale_id, &shopper).await? {
            Some(pass) => (pass, false),
            None => self.issue(&sale, &shopper, &request, now).await?,
        };
        Reply::created(new, &self.view(&sale, &shopper, &pass, now)?)
    }

    /// The shopper's pass, and whether it is new.
    async fn issue(
        &self,
        sale: &Sale,
        shopper: &ShopperId,
        request: &PassRequest,
        now: Timestamp,
    ) -> Result<(Pass, bool), Problem> {
        let identities = self.identities(sale, shopper, request, now)?;
        let pass = Pass {
            pass_id: token::new_pass_id().map_err(broken)?,
            device: request.device.to_string(),
            issued_at: now,
            valid_from: sale.config.opens_at.at,
            valid_until: sale.config.closes_at.at,
            expires_at: (sale.config.closes_at.at + KEPT).as_second(),
        };
        let outcome = self
            .ledger
            .issue_pass(&sale.id, shopper, &pass, &identities)
            .await?;
        match outcome {
            PassOutcome::Issued => Ok((pass, true)),
            PassOutcome::Existing(pass) => Ok((pass, false)),
            // Which kind it was stays between us and the log: who knows the
            // rules can work around them.
            PassOutcome::IdentityLimit(kind) => {
                Err(Problem::new(Code::IdentityLimit).because(kind.name()))
            }
        }
    }

    /// What this account shares with others, as far as the sale limits it.
    fn identities(
        &self,
        sale: &Sale,
        shopper: &ShopperId,
        request: &PassRequest,
        now: Timestamp,
    ) -> Result<Vec<Identity>, Problem> {
        let invalid = || Problem::new(Code::InvalidAttestation);
        let attestation = match &request.attestation {
            None => None,
            Some(token) => Some(
                Attestation::verify(&self.attestation, token, &sale.id, shopper, now)
                    .map_err(|_| invalid())?,
            ),
        };
        let limits = sale.config.identity_limits.iter();
        let identities = limits.map(|(&kind, &limit)| {
            let text = match kind {
                IdentityKind::Device => Some(request.device.as_str()),
                _ => attestation.as_ref().and_then(|facts| facts.fact(kind)),
            };
            let hash = text.and_then(|text| self.identity.hash(&sale.id, kind, text));
            Some(Identity {
                kind,
                hash: hash?,
                limit,
            })
        });
        // A kind that the sale limits and the store says nothing of is not
        // unlimited.
        identities.collect::<Option<_>>().ok_or_else(invalid)
    }

    /// The pass under the sale's times as they are now: one that was issued
    /// before the merchant moved the sale is good again when it is asked for.
    fn view(
        &self,
        sale: &Sale,
        shopper: &ShopperId,
        pass: &Pass,
        now: Timestamp,
    ) -> Result<PassView, Problem> {
        let (opens_at, closes_at) = (sale.config.opens_at, sale.config.closes_at.at);
        let grant = Grant {
            sale: &sale.id,
            shopper,
            pass_id: &pass.pass_id,
            device: &pass.device,
            valid_from: opens_at.at,
            valid_until: closes_at,
        };
        Ok(PassView {
            pass: self.signer.pass(&self.edge, &grant, now).map_err(broken)?,
            pass_id: pass.pass_id.to_string(),
            sale_id: sale.id.to_string(),
            valid_from: opens_at.to_string(),
            valid_until: opens_at.same_offset(closes_at).to_string(),
        })
    }
}

fn broken(error: token::Broken) -> Problem {
    Problem::new(Code::Internal).because(error)
}
