//! What the gates of a sale show, all buckets together.

use domain::Sale;
use domain::admission::Gates as Seen;
use domain::draw::arrival;
use domain::slot::Gates;
use futures::future::join_all;

use domain::BucketId;
use domain::slot::GateAddress;

use crate::ControllerFunction;

impl ControllerFunction {
    /// Adds up the views of all buckets. A bucket that does not answer makes
    /// the sum incomplete, and then nothing is decided by it.
    pub(crate) async fn look(&self, sale: &Sale, gates: &Gates) -> Seen {
        let views = gates
            .iter()
            .map(|(bucket, address)| async move { (bucket, self.gate.look(&address.tag).await) });
        let mut seen = Seen {
            complete: true,
            ..Seen::default()
        };
        let mut answered = Vec::new();
        for (bucket, view) in join_all(views).await {
            match view {
                Ok(view) => {
                    answered.push(bucket);
                    seen.free += view.left;
                    seen.taken += view.taken;
                    seen.due += view.due;
                    seen.entries += view.entries;
                    if view.late > 0 {
                        let place = arrival(view.late, bucket, sale.config.buckets);
                        seen.late = seen.late.max(place);
                    }
                }
                Err(error) => {
                    tracing::warn!(sale = %sale.id, %bucket, %error, "a bucket can't be seen");
                    seen.complete = false;
                }
            }
        }
        seen.dark = answered.is_empty();
        if sale.gates_away.is_some() {
            let asked = answered.into_iter();
            let asked = asked.filter_map(|bucket| Some((bucket, gates.of(bucket)?)));
            let open = asked.map(|(bucket, address)| self.takes_claims(sale, bucket, address));
            seen.open = join_all(open).await.contains(&true);
        }
        seen
    }

    /// Whether a claim at this gate can be answered yes.
    async fn takes_claims(&self, sale: &Sale, bucket: BucketId, address: &GateAddress) -> bool {
        if !matches!(self.gate.is_open(address).await, Ok(true)) {
            return false;
        }
        let row = self.ledger.bucket(&sale.id, bucket).await;
        matches!(row, Ok(Some(row)) if row.closed < address.epoch)
    }
}
