//! Draw secrets, read once in each environment, and only after the opening.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{Sale, SaleId, draw};

use crate::{Error, Ledger};

/// The secrets of sales that have opened. They never change, and there are
/// few such sales, so none is ever dropped.
pub struct DrawSecrets {
    ledger: Ledger,
    known: Mutex<HashMap<SaleId, Arc<[u8; 32]>>>,
}

impl DrawSecrets {
    /// None known yet.
    pub fn new(ledger: Ledger) -> Self {
        Self {
            ledger,
            known: Mutex::default(),
        }
    }

    /// The secret of a sale. The caller has seen that it is open.
    ///
    /// # Errors
    /// No answer; [`Error::Broken`] if there is none that fits the commitment.
    pub async fn of_opened(&self, sale: &Sale) -> Result<Arc<[u8; 32]>, Error> {
        if let Some(secret) = self.known().get(&sale.id) {
            return Ok(Arc::clone(secret));
        }
        let text = self.ledger.draw_secret(&sale.id).await?;
        let secret = text
            .and_then(|text| draw::committed_bytes(&text, &sale.commitment))
            .map(Arc::new)
            .ok_or_else(|| Error::Broken("no draw secret that fits the commitment".to_owned()))?;
        self.known().insert(sale.id.clone(), Arc::clone(&secret));
        Ok(secret)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SaleId, Arc<[u8; 32]>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for DrawSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DrawSecrets").finish_non_exhaustive()
    }
}
