//! The gates of the sales that this environment serves, prepared once: keys
//! and script names are not worked out again for each claim.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::SaleId;
use domain::slot::Gates;
use gate::{Gate, SaleGates};

/// Sales kept at once.
const SALES_MAX: usize = 100;

type Prepared = (Arc<Gates>, Arc<SaleGates>);

#[derive(Debug, Default)]
pub(crate) struct GatesCache(Mutex<HashMap<SaleId, Prepared>>);

impl GatesCache {
    /// The gates at these addresses; prepared again if an address changed.
    pub(crate) fn prepare(&self, gate: &Gate, sale: &SaleId, gates: &Arc<Gates>) -> Arc<SaleGates> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, prepared)) = held.get(sale)
            && (Arc::ptr_eq(known, gates) || known == gates)
        {
            return Arc::clone(prepared);
        }
        if held.len() >= SALES_MAX {
            held.clear();
        }
        let prepared = Arc::new(SaleGates::new(gate, sale, gates));
        held.insert(sale.clone(), (Arc::clone(gates), Arc::clone(&prepared)));
        prepared
    }
}
