//! Creating a sale, and changing it before it opens.

use api::{Call, Code, Problem, Reply};
use domain::admission::Admission;
use domain::bucket::UNITS_PER_BUCKET_MAX;
use domain::config::SaleConfig;
use domain::draw::{commitment, secret_bytes};
use domain::input::FieldError;
use domain::{OffsetTime, Sale, SaleId};
use jiff::Timestamp;
use lambda_http::http::StatusCode;
use serde_json::{Map, Value};

use crate::{AdminFunction, started, view};

impl AdminFunction {
    /// Writes the sale with its sealed secret, splits the units into buckets
    /// and loads the gates. Should it stop after the first, the sale exists
    /// and is not loaded: preflight says so, and `load` completes it.
    pub(crate) async fn create(&self, call: &Call) -> Result<Reply, Problem> {
        let mut members = call.object()?;
        let id = take_id(&mut members);
        let config = SaleConfig::read(members);
        let (id, config) = match (id, config) {
            (Ok(id), Ok(config)) => (id, config),
            (id, config) => {
                let errors = id
                    .err()
                    .into_iter()
                    .chain(config.err().into_iter().flatten());
                return Err(Problem::fields(errors.collect()));
            }
        };
        self.opens_later(&config)?;
        self.can_be_paid(&config)?;
        let secret =
            token::new_secret().map_err(|error| Problem::new(Code::Internal).because(error))?;
        let bytes = secret_bytes(&secret)
            .ok_or_else(|| Problem::new(Code::Internal).because("the secret is not hex"))?;
        let sale = Sale::new(id, config, commitment(&bytes));
        match self.ledger.create_sale(&sale, &secret).await {
            Err(ledger::Error::Conflict) => return Err(Problem::new(Code::SaleExists)),
            written => written?,
        }
        let sale = self.load(&sale).await?;
        Reply::json(StatusCode::CREATED, &view::sale(&sale))
    }

    /// Changes the fields that are sent. Once the sale has opened, only its
    /// units can change, and never below what is held and sold.
    pub(crate) async fn change(&self, call: &Call) -> Result<Reply, Problem> {
        let id = call.sale()?;
        let changes = call.object()?;
        let sale = self.sale(&id).await?;
        let config = merged(&sale, &changes)?;
        if sale.has_ended(self.clock.now()) {
            return Err(Problem::new(Code::Ended));
        }
        if sale.has_opened(self.clock.now()) {
            let same = SaleConfig {
                units: config.units,
                ..sale.config.clone()
            };
            if same != config {
                return Err(started().detail("Only units can be changed after the opening."));
            }
            return Reply::ok(&view::sale(&self.resize(&sale, config.units).await?));
        }
        self.opens_later(&config)?;
        self.can_be_paid(&config)?;
        let changed = self
            .change_sale(&id, |sale| {
                if sale.is_about_to_open(self.clock.now()) {
                    return Err(started().detail("It opens in a moment."));
                }
                sale.config = merged(sale, &changes)?;
                sale.free = u64::from(sale.config.units);
                sale.admission = Admission::before(&sale.config);
                sale.loaded = false;
                Ok(())
            })
            .await?;
        Reply::ok(&view::sale(&self.load(&changed).await?))
    }

    fn opens_later(&self, config: &SaleConfig) -> Result<(), Problem> {
        let now: Timestamp = self.clock.now();
        if config.opens_at.at <= now {
            return Err(Problem::field("opens_at", "must be in the future"));
        }
        Ok(())
    }

    /// Whether the provider can take the smallest and the largest order. What
    /// costs nothing it is never asked for.
    fn can_be_paid(&self, config: &SaleConfig) -> Result<(), Problem> {
        let price = config.price;
        let most = price.times(config.limit_per_customer).unwrap_or(price);
        for money in [price, most].into_iter().filter(|money| money.amount > 0) {
            self.provider.takes(money).map_err(|why| {
                let times = if money == price {
                    ""
                } else {
                    "times limit_per_customer "
                };
                Problem::field("price.amount", format_args!("{times}{why}"))
            })?;
        }
        Ok(())
    }
}

fn take_id(members: &mut Map<String, Value>) -> Result<SaleId, FieldError> {
    let wrong = |reason: &str| FieldError::new("sale_id", reason);
    match members.remove("sale_id") {
        None => Err(wrong("is required")),
        Some(Value::String(text)) => text
            .parse()
            .map_err(|error| FieldError::new("sale_id", error)),
        Some(_) => Err(wrong("must be a string")),
    }
}

/// The configuration with these fields replaced, read as strictly as a new
/// one. What follows from a replaced field is worked out anew.
fn merged(sale: &Sale, changes: &Map<String, Value>) -> Result<SaleConfig, Problem> {
    let mut members = sale.config.to_members();
    let units = changes.get("units").and_then(Value::as_u64).unwrap_or(0);
    if units > u64::from(sale.config.buckets) * u64::from(UNITS_PER_BUCKET_MAX) {
        members.remove("buckets");
    }
    if changes.contains_key("opens_at") {
        let length = sale.config.closes_at.at - sale.config.opens_at.at;
        let opens = changes.get("opens_at").and_then(Value::as_str);
        let opens = opens.and_then(|text| text.parse::<OffsetTime>().ok());
        // Too late for any time to follow: the new opening is refused below.
        if let Some(opens) = opens
            && let Ok(closes) = opens.at.checked_add(length)
        {
            let closes = opens.same_offset(closes);
            members.insert("closes_at".into(), closes.to_string().into());
        }
    }
    if changes.contains_key("mode") {
        members.remove("draw_window_ms");
        members.remove("race_rate_per_s");
    }
    members.extend(changes.clone());
    SaleConfig::read(members).map_err(Problem::fields)
}
