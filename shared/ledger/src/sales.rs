//! Sales, their secrets, gates and rounds.

use domain::slot::Gates;
use domain::{BucketId, Sale, SaleId};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::table::from_item;
use crate::{Error, Ledger, Transaction, key};

/// Buckets that are read at the same time.
const CONCURRENCY: usize = 16;

/// One raising of the threshold, as it is reported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Its number, from 1.
    pub round: u32,
    /// When it was opened.
    #[serde(with = "domain::order::millis")]
    pub at: Timestamp,
    /// Tickets below it may claim.
    pub threshold: f64,
    /// Places in line that it admits.
    pub admitted: u64,
    /// Units that it offers.
    pub offered: u64,
}

#[derive(Serialize, Deserialize)]
struct Secret {
    secret: String,
}

/// A sale's place in the list of all.
#[derive(Serialize, Deserialize)]
struct Listed {
    sale: SaleId,
    /// Whether controller and sweeper look after it.
    open: bool,
    /// How often something came up that somebody has to look after: who takes
    /// the sale out of the list must have looked at all of it.
    #[serde(default)]
    wakes: u64,
    /// Whether all of it was proved once nobody looks after it any more.
    #[serde(default)]
    reconciled: bool,
}

/// A sale that is still to be reconciled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreconciled {
    /// Which.
    pub sale: SaleId,
    /// Nobody looks after it any more: what it comes to now is the end.
    pub closed: bool,
    /// How often it was woken, when it was read.
    wakes: u64,
}

/// Has a sale looked after, even if it was over and settled: a refund is owed
/// from now on, or an order was written after the end.
pub(crate) fn wake(writes: &mut Transaction, sale: &SaleId) {
    writes
        .update(
            &key::listed(sale),
            "SET #open = :open, sale = :sale, reconciled = :not ADD wakes :one",
        )
        .name("#open", "open")
        .text(":sale", sale.as_str())
        .flag(":open", true)
        .flag(":not", false)
        .number(":one", 1);
}

/// The condition that nothing woke a sale since so many times were seen. A row of
/// before it was counted has no number.
fn same_wakes(seen: u64) -> String {
    if seen == 0 {
        "(attribute_not_exists(wakes) OR wakes = :seen)".to_owned()
    } else {
        "wakes = :seen".to_owned()
    }
}

/// Whether the answer to one of these questions is yes, several asked at a time.
pub(crate) async fn any(
    questions: impl Iterator<Item = impl Future<Output = Result<bool, Error>>>,
) -> Result<bool, Error> {
    let mut answers = stream::iter(questions).buffer_unordered(CONCURRENCY);
    while let Some(answer) = answers.next().await {
        if answer? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Ledger {
    /// Writes a new sale, its sealed secret (hex) and its place in the list.
    ///
    /// # Errors
    /// [`Error::Conflict`] if a sale of this name exists.
    pub async fn create_sale(&self, sale: &Sale, secret: &str) -> Result<(), Error> {
        let mut writes = Transaction::new();
        writes.put(&key::sale(&sale.id), sale)?.only_new();
        writes
            .put(
                &key::secret(&sale.id),
                &Secret {
                    secret: secret.to_owned(),
                },
            )?
            .only_new();
        let listed = Listed {
            sale: sale.id.clone(),
            open: true,
            wakes: 0,
            reconciled: false,
        };
        writes.put(&key::listed(&sale.id), &listed)?.only_new();
        self.table.write_or_conflict(&writes).await
    }

    /// Reads a sale to decide something.
    ///
    /// # Errors
    /// No answer.
    pub async fn sale(&self, sale: &SaleId) -> Result<Option<Sale>, Error> {
        self.table.get(&key::sale(sale)).await
    }

    /// Reads a sale to show it: it may be a moment old.
    ///
    /// # Errors
    /// No answer.
    pub async fn sale_recent(&self, sale: &SaleId) -> Result<Option<Sale>, Error> {
        self.table.get_recent(&key::sale(sale)).await
    }

    /// Writes a changed sale, if nobody changed it since it was read; a round
    /// that was opened is written with it.
    ///
    /// # Errors
    /// [`Error::Conflict`] if someone did.
    pub async fn save_sale(&self, sale: &Sale, round: Option<&Round>) -> Result<Sale, Error> {
        let next = Sale {
            version: sale.version + 1,
            ..sale.clone()
        };
        let mut writes = Transaction::new();
        writes
            .put(&key::sale(&sale.id), &next)?
            .only_if("version = :read")
            .number(":read", sale.version);
        if let Some(round) = round {
            writes
                .put(&key::round(&sale.id, round.round), round)?
                .only_new();
        }
        self.table.write_or_conflict(&writes).await?;
        Ok(next)
    }

    /// Reads, changes and writes a sale until no other write comes between.
    ///
    /// # Errors
    /// No such sale is `Ok(None)`; an error of `change` is the outcome inside.
    pub async fn change_sale<E>(
        &self,
        sale: &SaleId,
        change: impl Fn(&mut Sale) -> Result<(), E>,
    ) -> Result<Option<Result<Sale, E>>, Error> {
        for _ in 0..20 {
            let Some(read) = self.sale(sale).await? else {
                return Ok(None);
            };
            let mut changed = read.clone();
            if let Err(refused) = change(&mut changed) {
                return Ok(Some(Err(refused)));
            }
            if changed == read {
                return Ok(Some(Ok(read)));
            }
            match self.save_sale(&changed, None).await {
                Err(Error::Conflict) => {}
                saved => return saved.map(|sale| Some(Ok(sale))),
            }
        }
        Err(Error::Conflict)
    }

    /// The draw secret in hex. Only what computes tickets or proves them
    /// reads it, and only after the opening.
    ///
    /// # Errors
    /// No answer.
    pub async fn draw_secret(&self, sale: &SaleId) -> Result<Option<String>, Error> {
        Ok(self
            .table
            .get::<Secret>(&key::secret(sale))
            .await?
            .map(|row| row.secret))
    }

    /// Where the gates of a sale are.
    ///
    /// # Errors
    /// No answer.
    pub async fn gates(&self, sale: &SaleId) -> Result<Option<Gates>, Error> {
        self.table.get(&key::gates(sale)).await
    }

    /// Publishes where the gates are, as this loading made them.
    ///
    /// # Errors
    /// [`Error::Conflict`] if a newer loading has begun: its gates are the sale's.
    pub async fn save_gates(&self, sale: &SaleId, gates: &Gates, load: u64) -> Result<(), Error> {
        let mut writes = Transaction::new();
        writes.put(&key::gates(sale), gates)?;
        writes
            .check(&key::sale(sale))
            .only_if("#load = :load")
            .name("#load", "load")
            .number(":load", load);
        self.table.write_or_conflict(&writes).await
    }

    /// Names of all sales, or of those that are not settled yet.
    ///
    /// # Errors
    /// No answer.
    pub async fn sales(&self, open_only: bool) -> Result<Vec<SaleId>, Error> {
        let rows = self.table.query(key::SALES_PARTITION, "").await?;
        let rows = rows
            .into_iter()
            .map(from_item::<Listed>)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(rows
            .into_iter()
            .filter(|row| row.open || !open_only)
            .map(|row| row.sale)
            .collect())
    }

    /// Notes that a sale is over and nothing of it is left to do: nobody
    /// looks at it any more by itself. `false` if something is, whatever its
    /// gates say: a replica that was promoted may not know of a hold.
    ///
    /// # Errors
    /// No answer.
    pub async fn close_sale(&self, sale: &Sale) -> Result<bool, Error> {
        let key = key::listed(&sale.id);
        let listed: Option<Listed> = self.table.get(&key).await?;
        let seen = listed.map_or(0, |listed| listed.wakes);
        if self.owes_refunds(&sale.id, sale.config.buckets).await? {
            return Ok(false);
        }
        let live = (0..sale.config.buckets)
            .map(BucketId)
            .map(|bucket| async move {
                // Of a sale that was never loaded a bucket may not exist.
                if !sale.loaded && self.bucket(&sale.id, bucket).await?.is_none() {
                    return Ok(false);
                }
                let whole = self.whole_bucket(&sale.id, bucket).await?;
                Ok(whole.orders.iter().any(|order| order.deadline().is_some()))
            });
        if any(live).await? {
            return Ok(false);
        }
        let mut writes = Transaction::new();
        writes
            .update(&key, "SET #open = :closed")
            .only_if(&same_wakes(seen))
            .name("#open", "open")
            .flag(":closed", false)
            .number(":seen", seen);
        Ok(self.table.write(&writes).await?.is_ok())
    }

    /// Has a sale looked after whose end has passed, if it has: for whoever wrote
    /// orders, after writing them. A message may come long after the end, of a
    /// claim that no gate knows; once the end is seen here, the closing may have
    /// looked before the order was there.
    ///
    /// # Errors
    /// No answer: doing it again is safe.
    pub async fn wake_if_ended(&self, id: &SaleId) -> Result<(), Error> {
        let ended = self.sale(id).await?.and_then(|sale| sale.ended_at);
        if ended.is_none() {
            return Ok(());
        }
        let mut writes = Transaction::new();
        wake(&mut writes, id);
        self.table.write_or_conflict(&writes).await
    }

    /// Sales that somebody looks after, and those that nobody looks after any
    /// more and that were not reconciled since.
    ///
    /// # Errors
    /// No answer.
    pub async fn unreconciled(&self) -> Result<Vec<Unreconciled>, Error> {
        let rows = self.table.query(key::SALES_PARTITION, "").await?;
        let rows = rows
            .into_iter()
            .map(from_item::<Listed>)
            .collect::<Result<Vec<_>, _>>()?;
        let rows = rows.into_iter().filter(|row| row.open || !row.reconciled);
        let unreconciled = rows.map(|row| Unreconciled {
            sale: row.sale,
            closed: !row.open,
            wakes: row.wakes,
        });
        Ok(unreconciled.collect())
    }

    /// Notes that a closed sale was reconciled to its end. `false` if something
    /// came up since it was read.
    ///
    /// # Errors
    /// No answer.
    pub async fn reconciled(&self, sale: &Unreconciled) -> Result<bool, Error> {
        let mut writes = Transaction::new();
        writes
            .update(&key::listed(&sale.sale), "SET reconciled = :yes")
            .only_if(&format!("#open = :closed AND {}", same_wakes(sale.wakes)))
            .name("#open", "open")
            .flag(":yes", true)
            .flag(":closed", false)
            .number(":seen", sale.wakes);
        Ok(self.table.write(&writes).await?.is_ok())
    }

    /// All rounds of a sale, in order.
    ///
    /// # Errors
    /// No answer.
    pub async fn rounds(&self, sale: &SaleId) -> Result<Vec<Round>, Error> {
        let rows = self
            .table
            .query(&key::sale_partition(sale), key::ROUND_PREFIX)
            .await?;
        rows.into_iter().map(from_item).collect()
    }
}
