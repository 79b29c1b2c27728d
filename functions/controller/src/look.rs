//! What the gates of a sale show, all buckets together.

use domain::admission::Gates as Seen;
use domain::draw::arrival;
use domain::slot::{GateAddress, Gates};
use domain::{BucketId, Sale};
use futures::future::{join_all, try_join};

use crate::ControllerFunction;

impl ControllerFunction {
    /// Adds up the views of all buckets. A bucket that does not answer makes
    /// the sum incomplete, and then nothing is decided by it.
    pub(crate) async fn look(&self, sale: &Sale, gates: &Gates) -> Seen {
        let views = gates.iter().map(|(bucket, address)| async move {
            let look = self.gate.look(&address.tag);
            (bucket, try_join(look, self.gate.is_open(address)).await)
        });
        let mut seen = Seen {
            complete: true,
            ..Seen::default()
        };
        let (mut answered, mut open) = (false, Vec::new());
        for (bucket, view) in join_all(views).await {
            match view {
                Ok((view, is_open)) => {
                    answered = true;
                    if is_open {
                        open.push(bucket);
                        seen.free += view.left;
                    } else {
                        seen.frozen = true;
                    }
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
        seen.dark = !answered;
        if sale.gates_away.is_some() {
            let asked = open.into_iter();
            let asked = asked.filter_map(|bucket| Some((bucket, gates.of(bucket)?)));
            let believed = asked.map(|(bucket, address)| self.is_believed(sale, bucket, address));
            seen.open = join_all(believed).await.contains(&true);
        }
        seen
    }

    /// Whether a yes of this gate stands: its life was not closed while it was away.
    async fn is_believed(&self, sale: &Sale, bucket: BucketId, address: &GateAddress) -> bool {
        let row = self.ledger.bucket(&sale.id, bucket).await;
        matches!(row, Ok(Some(row)) if row.closed < address.epoch)
    }
}
