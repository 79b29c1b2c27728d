//! Draw secrets, read once in each environment, and only after the opening.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::{Code, Problem};
use domain::{Sale, SaleId, draw};
use ledger::Ledger;

/// The secrets of sales that have opened. They never change, and there are
/// few such sales, so none is ever dropped.
pub(crate) struct DrawSecrets {
    ledger: Ledger,
    known: Mutex<HashMap<SaleId, Arc<[u8; 32]>>>,
}

impl DrawSecrets {
    pub(crate) fn new(ledger: Ledger) -> Self {
        Self {
            ledger,
            known: Mutex::default(),
        }
    }

    /// The secret of a sale. The caller has seen that it is open.
    pub(crate) async fn of_opened(&self, sale: &Sale) -> Result<Arc<[u8; 32]>, Problem> {
        if let Some(secret) = self.known().get(&sale.id) {
            return Ok(Arc::clone(secret));
        }
        let text = self.ledger.draw_secret(&sale.id).await?;
        let secret = text
            .and_then(|text| committed(&text, &sale.commitment))
            .map(Arc::new)
            .ok_or_else(|| {
                Problem::new(Code::Internal).because("no draw secret that fits the commitment")
            })?;
        self.known().insert(sale.id.clone(), Arc::clone(&secret));
        Ok(secret)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<SaleId, Arc<[u8; 32]>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for DrawSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DrawSecrets").finish_non_exhaustive()
    }
}

/// The bytes of a secret, if they are those that were committed to: nobody
/// draws with a secret that was chosen later.
fn committed(text: &str, commitment: &str) -> Option<[u8; 32]> {
    token::secret_bytes(text).filter(|secret| draw::commitment(secret) == commitment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_committed_secret_draws() {
        let (text, other) = (token::new_secret().unwrap(), token::new_secret().unwrap());
        let secret = token::secret_bytes(&text).unwrap();
        let commitment = draw::commitment(&secret);
        assert_eq!(committed(&text, &commitment), Some(secret));
        assert_eq!(committed(&other, &commitment), None);
        assert_eq!(committed(&text, ""), None);
        assert_eq!(committed("", &commitment), None);
    }
}
