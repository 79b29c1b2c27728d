//! Problems: RFC 9457 documents. Which error becomes which status is decided
//! here and nowhere else.
//!
//! Errors of the parts (gate, ledger, queue, provider) say by their type
//! whose fault it was and whether trying again helps; the `From` below turns
//! that into 503 with `Retry-After` or 500. What a client sent wrongly is made
//! by the functions themselves and is never a 500.

use domain::Sale;
use domain::input::FieldError;
use lambda_http::http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Every `"error"` that the API knows, with its status and title.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $status:ident, $title:literal;)*) => {
        /// What went wrong, as the API documents it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
        pub enum Code { $($(#[$doc])* #[serde(rename = $name)] $variant),* }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The value of `"error"`.
            pub fn name(self) -> &'static str { match self { $(Self::$variant => $name),* } }
            /// The HTTP status.
            pub fn status(self) -> StatusCode { match self { $(Self::$variant => StatusCode::$status),* } }
            /// The same words for every occurrence.
            pub fn title(self) -> &'static str { match self { $(Self::$variant => $title),* } }
        }
    };
}

codes! {
    /// The body or the query can't be read.
    MalformedRequest = "malformed_request", BAD_REQUEST, "The request can't be read.";
    /// `Idempotency-Key` is missing or not usable.
    InvalidIdempotencyKey = "invalid_idempotency_key", BAD_REQUEST, "The Idempotency-Key is missing or not valid.";
    /// A webhook whose signature does not fit.
    InvalidSignature = "invalid_signature", BAD_REQUEST, "The signature is not valid.";
    /// No session where one is needed.
    Unauthenticated = "unauthenticated", UNAUTHORIZED, "A session is required.";
    /// The pass is missing, not valid, or another's.
    InvalidPass = "invalid_pass", UNAUTHORIZED, "The sale pass is not valid.";
    /// The entry token is missing, not valid, or another's.
    InvalidEntry = "invalid_entry", UNAUTHORIZED, "The entry token is not valid.";
    /// The store's attestation is missing or not valid.
    InvalidAttestation = "invalid_attestation", UNAUTHORIZED, "The attestation is not valid.";
    /// The session lacks the scope.
    Forbidden = "forbidden", FORBIDDEN, "The session may not do this.";
    /// Too many accounts share an attribute.
    IdentityLimit = "identity_limit", FORBIDDEN, "No further account of this person may take part.";
    /// The ticket is not below the threshold.
    NotAdmitted = "not_admitted", FORBIDDEN, "The ticket is not admitted yet.";
    /// No such thing, or another's.
    NotFound = "not_found", NOT_FOUND, "There is no such resource.";
    /// Nothing is left.
    SoldOut = "sold_out", CONFLICT, "No unit is given out now.";
    /// The customer may not have so many.
    LimitReached = "limit_reached", CONFLICT, "The limit per customer is reached.";
    /// The order's hold has ended.
    Expired = "expired", CONFLICT, "The hold has expired.";
    /// The order is in a state in which this can't be done.
    NotPayable = "not_payable", CONFLICT, "The order can't be paid.";
    /// The order can't be given back any more.
    NotCancellable = "not_cancellable", CONFLICT, "The hold can't be given back.";
    /// The claim is queued, its order is not written yet.
    OrderNotReady = "order_not_ready", CONFLICT, "The order is still being written.";
    /// A sale of this name exists.
    SaleExists = "sale_exists", CONFLICT, "A sale of this name exists already.";
    /// Not in this state of the sale.
    SaleStarted = "sale_started", CONFLICT, "The sale has opened; this can't be changed any more.";
    /// Units can't be lowered below what is held and sold.
    UnitsInUse = "units_in_use", CONFLICT, "More units are held or sold than that.";
    /// Another write came between.
    Conflict = "conflict", CONFLICT, "The sale was changed at the same time.";
    /// The sale is over.
    Ended = "ended", GONE, "The sale has ended.";
    /// The body is larger than any request needs.
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, "The body is too large.";
    /// A field is not what it must be.
    InvalidField = "invalid_field", UNPROCESSABLE_ENTITY, "A field is not valid.";
    /// The key was used with another body.
    IdempotencyKeyReused = "idempotency_key_reused", UNPROCESSABLE_ENTITY, "The Idempotency-Key was used for another request.";
    /// Before the opening.
    NotOpen = "not_open", TOO_EARLY, "The sale has not opened yet.";
    /// Too many requests.
    TooManyRequests = "too_many_requests", TOO_MANY_REQUESTS, "Too many requests.";
    /// A fault of ours.
    Internal = "internal", INTERNAL_SERVER_ERROR, "Something went wrong on our side.";
    /// The sale is paused.
    Paused = "paused", SERVICE_UNAVAILABLE, "The sale is paused.";
    /// The shopper's buckets are frozen or not loaded.
    Frozen = "frozen", SERVICE_UNAVAILABLE, "The counter is being restored.";
    /// A part that is needed does not answer.
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "A part of the system does not answer.";
}

/// One thing that went wrong, ready to be answered.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Which.
    pub code: Code,
    /// What it was this time, for the reader.
    pub detail: Option<String>,
    /// When to try again, in seconds.
    pub retry_after_s: Option<u32>,
    /// Fields that were wrong.
    pub errors: Vec<FieldError>,
    /// Further members, such as a waitlist position.
    pub members: Map<String, Value>,
    /// What the log says and the client does not read.
    pub cause: Option<String>,
}

impl Problem {
    /// A problem of this kind.
    pub fn new(code: Code) -> Self {
        let retry_after_s = (code.status() == StatusCode::SERVICE_UNAVAILABLE
            || code == Code::TooManyRequests)
            .then_some(1);
        Self {
            code,
            detail: None,
            retry_after_s,
            errors: Vec::new(),
            members: Map::new(),
            cause: None,
        }
    }

    /// A token in a header that is missing, or not valid: which of the two is
    /// no secret, and why it is not valid is one.
    pub fn token(code: Code, header: &str, sent: Option<&str>) -> Self {
        let problem = Self::new(code);
        match sent {
            None => problem.detail(format!("The header {header} is required.")),
            Some(_) => problem,
        }
    }

    /// Before a sale's opening, and when that is.
    pub fn not_open(sale: &Sale) -> Self {
        Self::new(Code::NotOpen).member("opens_at", sale.config.opens_at.to_string())
    }

    /// Says what it was this time.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Says when to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Adds a member to the document.
    #[must_use]
    pub fn member(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// Notes the cause for the log.
    #[must_use]
    pub fn because(mut self, cause: impl std::fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// Fields that are not what they must be.
    pub fn fields(errors: Vec<FieldError>) -> Self {
        Self {
            errors,
            ..Self::new(Code::InvalidField)
        }
    }

    /// One field that is not what it must be.
    pub fn field(field: &str, reason: impl std::fmt::Display) -> Self {
        Self::fields(vec![FieldError::new(field, reason)])
    }

    /// Nothing here, or not yours.
    pub fn not_found() -> Self {
        Self::new(Code::NotFound)
    }

    /// The document.
    pub fn body(&self) -> Value {
        let mut body = json!({
            "type": format!("urn:flash-sale:problem:{}", self.code.name()),
            "title": self.code.title(),
            "status": self.code.status().as_u16(),
            "error": self.code.name(),
        });
        if let Some(detail) = &self.detail {
            body["detail"] = detail.clone().into();
        }
        if !self.errors.is_empty() {
            body["errors"] = json!(self.errors);
        }
        for (name, value) in &self.members {
            body[name] = value.clone();
        }
        body
    }
}

impl From<gate::Error> for Problem {
    fn from(error: gate::Error) -> Self {
        let code = match error {
            gate::Error::Frozen | gate::Error::NotReady => Code::Frozen,
            gate::Error::Unavailable(_) => Code::Unavailable,
        };
        Self::new(code).because(error)
    }
}

impl From<ledger::Error> for Problem {
    fn from(error: ledger::Error) -> Self {
        let code = match error {
            ledger::Error::Unavailable(_) => Code::Unavailable,
            ledger::Error::Conflict => Code::Conflict,
            ledger::Error::Broken(_) => Code::Internal,
        };
        Self::new(code).because(error)
    }
}

impl From<queue::Error> for Problem {
    fn from(error: queue::Error) -> Self {
        Self::new(Code::Unavailable).because(error)
    }
}

impl From<payment::Error> for Problem {
    fn from(error: payment::Error) -> Self {
        Self::new(Code::Unavailable).because(error)
    }
}
