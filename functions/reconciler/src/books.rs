//! Rules over all buckets together: where each claim is, and what each customer
//! has.

use std::collections::{HashMap, HashSet};

use domain::{BucketId, ClaimId, OrderStatus, ShopperId};
use jiff::Timestamp;
use ledger::orders::Customer;
use reconcile::report::{Done, Kind, Mismatch};

use crate::bucket::{Held, LATE, Slim};

/// Orders and holds of a whole sale.
#[derive(Debug, Default)]
pub(crate) struct Books {
    orders: HashMap<ClaimId, Slim>,
    holds: Vec<(BucketId, Held)>,
}

impl Books {
    /// Takes what was read of a bucket.
    pub(crate) fn add(&mut self, bucket: BucketId, orders: Vec<Slim>, holds: Vec<Held>) {
        let orders = orders.into_iter().map(|order| (order.claim.clone(), order));
        self.orders.extend(orders);
        self.holds
            .extend(holds.into_iter().map(|held| (bucket, held)));
    }

    /// Everyone who has or had an order.
    pub(crate) fn shoppers(&self) -> impl Iterator<Item = &ShopperId> {
        let shoppers: HashSet<_> = self.orders.values().map(|order| &order.shopper).collect();
        shoppers.into_iter()
    }

    /// Claims that are in no place, or in two. `all_gates`: every gate was read.
    pub(crate) fn claims(
        &self,
        all_gates: bool,
        floor: Option<Timestamp>,
        now: Timestamp,
    ) -> Vec<Mismatch> {
        let mut found = Vec::new();
        // Places of a key that keep a unit from others: bucket, and if it is an
        // order.
        let mut places = HashMap::<&str, Vec<(&ClaimId, bool)>>::new();
        for order in self.orders.values().filter(|of| of.status.holds_units()) {
            let claim = &order.claim;
            places
                .entry(claim.digest())
                .or_default()
                .push((claim, true));
        }
        for (bucket, Held { hold, due }) in &self.holds {
            let claim = &hold.claim;
            let known = self.orders.contains_key(claim);
            if known || (claim.bucket() != *bucket && !all_gates) {
                continue;
            }
            if *due {
                if hold.taken_here > 0 {
                    places
                        .entry(claim.digest())
                        .or_default()
                        .push((claim, false));
                }
                if Some(hold.pay_by).max(floor) < Some(now - LATE) {
                    let kind = Kind::ClaimNotBuried;
                    found.push(Mismatch::of(kind, *bucket, claim, Done::NeedsPerson));
                }
                continue;
            }
            let kind = match hold.taken_here {
                0 => Kind::MarkLost,
                _ => Kind::ClaimLost,
            };
            found.push(Mismatch::of(kind, *bucket, claim, Done::NeedsPerson));
        }
        for of in places.into_values().filter(|of| of.len() > 1) {
            let orders = of.iter().filter(|(_, order)| *order).count();
            // The order function voids the second one, or the sweeper does.
            let (kind, done) = match orders {
                0 | 1 => (Kind::ClaimTwice, Done::Awaited),
                _ => (Kind::OrderTwice, Done::NeedsPerson),
            };
            if let Some((claim, _)) = of.iter().min_by_key(|(claim, _)| claim.bucket()) {
                found.push(Mismatch::of(kind, claim.bucket(), claim, done));
            }
        }
        found
    }

    /// Customers whose rows do not say what their orders do. Named by one of
    /// their claims: who they are is nobody's business here.
    pub(crate) fn customers(
        &self,
        rows: &HashMap<ShopperId, Customer>,
        limit: u32,
    ) -> Vec<Mismatch> {
        let mut theirs = HashMap::<&ShopperId, (i64, Vec<&ClaimId>)>::new();
        for order in self.orders.values() {
            let (units, claims) = theirs.entry(&order.shopper).or_default();
            if order.status.holds_units() {
                *units += i64::from(order.quantity);
            }
            if order.status != OrderStatus::Voided {
                claims.push(&order.claim);
            }
        }
        let nobody = Customer::default();
        let mut found = Vec::new();
        for (shopper, (units, mut claims)) in theirs {
            claims.sort_unstable();
            let row = rows.get(shopper).unwrap_or(&nobody);
            let mut say = |kind, about: &ClaimId, expected, found_| {
                found.push(Mismatch {
                    kind,
                    bucket: Some(about.bucket()),
                    about: Some(about.to_string()),
                    expected,
                    found: found_,
                    done: Done::NeedsPerson,
                });
            };
            // Who only has claims that were taken back has no row.
            let Some(first) = claims.first().copied() else {
                continue;
            };
            if row.units != units {
                say(Kind::CustomerWrong, first, units, row.units);
            }
            if units > i64::from(limit) {
                say(Kind::CustomerOver, first, i64::from(limit), units);
            }
            for claim in claims {
                if !row.claims.contains(claim.digest()) {
                    say(Kind::CustomerLacksClaim, claim, 1, 0);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gate::Hold;
    use jiff::SignedDuration;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn claim(bucket: u16, key: u32) -> ClaimId {
        format!("cl_s_{bucket:03}_{key:032x}").parse().unwrap()
    }

    fn order(bucket: u16, key: u32, shopper: &str, status: OrderStatus) -> Slim {
        Slim {
            claim: claim(bucket, key),
            shopper: shopper.parse().unwrap(),
            quantity: 1,
            status,
        }
    }

    fn held(bucket: u16, key: u32, taken_here: u32, due: bool) -> Held {
        let hold = Hold {
            claim: claim(bucket, key),
            quantity: 1,
            taken_here,
            turn: 0,
            pay_by: NOW,
            shopper: "u".parse().unwrap(),
        };
        Held { hold, due }
    }

    fn books(of: Vec<(u16, Vec<Slim>, Vec<Held>)>) -> Books {
        let mut books = Books::default();
        for (bucket, orders, holds) in of {
            books.add(BucketId(bucket), orders, holds);
        }
        books
    }

    fn kinds(found: &[Mismatch]) -> Vec<(Kind, Done)> {
        found.iter().map(|one| (one.kind, one.done)).collect()
    }

    use OrderStatus::{Cancelled, Expired, Paid, PendingPayment, Voided};

    #[test]
    fn a_claim_that_is_in_one_place_is_right() {
        let right = books(vec![
            (
                0,
                vec![
                    order(0, 1, "a", PendingPayment),
                    order(0, 2, "b", Expired),
                    order(0, 3, "c", Voided),
                ],
                vec![
                    held(0, 1, 1, true),
                    held(0, 2, 1, false),
                    held(0, 3, 1, false),
                    // On its way, and a mark of an order elsewhere.
                    held(0, 4, 1, true),
                    held(1, 5, 0, false),
                ],
            ),
            (1, vec![order(1, 5, "e", Paid)], vec![held(1, 5, 1, false)]),
        ]);
        assert_eq!(right.claims(true, None, NOW), []);
    }

    #[test]
    fn claims_in_no_place_or_in_two_are_named() {
        let person = Done::NeedsPerson;
        for (of, kind, done) in [
            (
                vec![(0, vec![], vec![held(0, 1, 1, false)])],
                Kind::ClaimLost,
                person,
            ),
            (
                vec![(0, vec![], vec![held(1, 1, 0, false)])],
                Kind::MarkLost,
                person,
            ),
            (
                vec![
                    (0, vec![order(0, 1, "a", PendingPayment)], vec![]),
                    (1, vec![order(1, 1, "a", Paid)], vec![]),
                ],
                Kind::OrderTwice,
                person,
            ),
            (
                vec![
                    (0, vec![order(0, 1, "a", PendingPayment)], vec![]),
                    (1, vec![], vec![held(1, 1, 1, true)]),
                ],
                Kind::ClaimTwice,
                Done::Awaited,
            ),
        ] {
            let found = books(of).claims(true, None, NOW);
            assert_eq!(kinds(&found), [(kind, done)]);
        }
        // One of them ended: then it is in one place.
        let ended = books(vec![
            (0, vec![order(0, 1, "a", Cancelled)], vec![]),
            (1, vec![order(1, 1, "a", Paid)], vec![]),
        ]);
        assert_eq!(ended.claims(true, None, NOW), []);
    }

    #[test]
    fn a_deadline_that_nobody_swept_is_named_unless_it_was_extended() {
        let due = books(vec![(0, vec![], vec![held(0, 1, 1, true)])]);
        let later = NOW + LATE + SignedDuration::from_millis(1);
        let found = due.claims(true, None, later);
        assert_eq!(kinds(&found), [(Kind::ClaimNotBuried, Done::NeedsPerson)]);
        assert_eq!(due.claims(true, None, later - LATE), []);
        assert_eq!(due.claims(true, Some(later), later), []);
    }

    #[test]
    fn of_half_a_view_no_mark_is_called_lost() {
        let half = books(vec![(0, vec![], vec![held(1, 1, 0, false)])]);
        assert_eq!(half.claims(false, None, NOW), []);
    }

    fn customer(units: i64, keys: &[u32]) -> Customer {
        let claims = keys.iter().map(|key| claim(0, *key).digest().to_owned());
        Customer {
            units,
            claims: claims.collect(),
        }
    }

    fn customers_of(row: Option<Customer>, limit: u32) -> Vec<Kind> {
        let books = books(vec![(
            0,
            vec![
                order(0, 1, "a", Paid),
                order(0, 2, "a", PendingPayment),
                order(0, 3, "a", Expired),
                order(0, 4, "a", Voided),
                order(0, 5, "b", Voided),
            ],
            vec![],
        )]);
        let rows = row
            .map(|row| ("a".parse().unwrap(), row))
            .into_iter()
            .collect();
        let found = books.customers(&rows, limit);
        found.iter().map(|one| one.kind).collect()
    }

    #[test]
    fn a_customers_row_counts_what_the_customer_has() {
        use Kind::{CustomerLacksClaim, CustomerOver, CustomerWrong};
        assert_eq!(customers_of(Some(customer(2, &[1, 2, 3])), 2), []);
        assert_eq!(
            customers_of(Some(customer(1, &[1, 2, 3])), 2),
            [CustomerWrong]
        );
        assert_eq!(
            customers_of(Some(customer(3, &[1, 2, 3])), 2),
            [CustomerWrong]
        );
        assert_eq!(
            customers_of(Some(customer(2, &[1, 2, 3])), 1),
            [CustomerOver]
        );
        assert_eq!(
            customers_of(Some(customer(2, &[1, 2])), 2),
            [CustomerLacksClaim]
        );
        assert_eq!(customers_of(None, 2).len(), 4);
    }
}
