//! The small sales that are looked at.

use crate::sale::{Payment, Sale};

/// One unit, two shoppers; nothing but slowness, and stops at any step.
pub fn plain() -> Sale {
    Sale {
        name: "one unit",
        buckets: 1,
        units: [1, 0],
        shopper: vec![0, 1],
        home: vec![0, 0],
        limit: 1,
        calls: 1,
        failovers: 0,
        demoted_keeps_scripts: false,
        stops: 0,
        overlaps: 0,
        sweeps: 1,
        compares: false,
        payment: Payment::AtOnce,
        refusals: 0,
        captures_cancelled: false,
        moves: 0,
        ledger_only: false,
        without: Vec::new(),
        promise: None,
    }
}

/// Two units, three shoppers.
pub fn crowd() -> Sale {
    Sale {
        name: "two units, three shoppers",
        units: [2, 0],
        shopper: vec![0, 1, 2],
        home: vec![0, 0, 0],
        payment: Payment::Never,
        ..plain()
    }
}

/// Repeated calls, messages that come twice, two sweepers at a time.
pub fn twice() -> Sale {
    Sale {
        name: "everything twice",
        calls: 2,
        overlaps: 1,
        sweeps: 2,
        payment: Payment::Never,
        ..plain()
    }
}

/// One shopper with two keys, and the comparison.
pub fn keys() -> Sale {
    Sale {
        name: "two keys of one shopper",
        units: [2, 0],
        shopper: vec![0, 0],
        compares: true,
        ..plain()
    }
}

/// A primary is lost with what it had not replicated.
pub fn failover() -> Sale {
    Sale {
        name: "a failover",
        failovers: 1,
        ..plain()
    }
}

/// The gate answers some and not others, to whom claims are taken without it.
pub fn apart() -> Sale {
    Sale {
        name: "claims without a gate that is there",
        ledger_only: true,
        payment: Payment::Never,
        ..plain()
    }
}

/// The same, with a primary that is lost.
pub fn away() -> Sale {
    Sale {
        name: "claims without a gate that is lost",
        failovers: 1,
        ..apart()
    }
}

/// The same with two buckets, and a key that asks both ways.
pub fn away_from_home() -> Sale {
    Sale {
        name: "a key with and without gates",
        buckets: 2,
        units: [1, 1],
        shopper: vec![0],
        home: vec![0],
        calls: 2,
        limit: 2,
        ..apart()
    }
}

/// Two are lost.
pub fn failovers() -> Sale {
    Sale {
        name: "two failovers",
        failovers: 2,
        payment: Payment::Never,
        ..plain()
    }
}

/// A recovery that stops half-way, or finds the gate silent.
pub fn stopped() -> Sale {
    Sale {
        name: "a recovery that stops",
        failovers: 1,
        stops: 1,
        payment: Payment::Never,
        ..plain()
    }
}

/// A recovery by two workers at a time, or any other message.
pub fn slept() -> Sale {
    Sale {
        name: "two recoveries at a time",
        failovers: 1,
        overlaps: 1,
        payment: Payment::Never,
        ..plain()
    }
}

/// Both.
pub fn slept_and_stopped() -> Sale {
    Sale {
        name: "two recoveries at a time, one stops",
        stops: 1,
        ..slept()
    }
}

/// Two are lost, and the first one comes back with its scripts.
pub fn demoted() -> Sale {
    Sale {
        name: "a primary that comes back",
        demoted_keeps_scripts: true,
        ..failovers()
    }
}

/// An order that is paid, declined, paid late, refunded.
pub fn money() -> Sale {
    Sale {
        name: "money",
        shopper: vec![0],
        home: vec![0],
        payment: Payment::InSteps,
        ..plain()
    }
}

/// The same, and the provider once makes no intent.
pub fn unmade() -> Sale {
    Sale {
        name: "an attempt without an intent",
        refusals: 1,
        ..money()
    }
}

/// Money comes all the same, by an intent that was cancelled.
pub fn captured_late() -> Sale {
    Sale {
        name: "a capture of what was cancelled",
        captures_cancelled: true,
        ..money()
    }
}

/// Two buckets, a home that is empty, marks.
pub fn buckets() -> Sale {
    Sale {
        name: "two buckets",
        buckets: 2,
        units: [1, 1],
        payment: Payment::Never,
        ..plain()
    }
}

/// Two calls of one key overflow at a time, while the unit away from home, that
/// another shopper has, comes back.
pub fn marks() -> Sale {
    Sale {
        name: "two calls and their marks",
        units: [0, 1],
        home: vec![0, 1],
        calls: 2,
        ..buckets()
    }
}

/// Two buckets, of which one loses its primary; a key is sent twice.
pub fn frozen_home() -> Sale {
    Sale {
        name: "a frozen home",
        buckets: 2,
        units: [1, 1],
        shopper: vec![0],
        home: vec![0],
        calls: 2,
        limit: 2,
        failovers: 1,
        payment: Payment::Never,
        ..plain()
    }
}

/// The same, and a shopper has two keys.
pub fn frozen_home_of_two_keys() -> Sale {
    Sale {
        name: "a frozen home, two keys",
        shopper: vec![0, 0],
        home: vec![0, 0],
        calls: 1,
        limit: 1,
        ..frozen_home()
    }
}

/// A unit goes to the other bucket.
pub fn moved() -> Sale {
    Sale {
        name: "a unit moves",
        buckets: 2,
        units: [1, 0],
        shopper: vec![0],
        home: vec![0],
        moves: 1,
        compares: true,
        payment: Payment::Never,
        ..plain()
    }
}

/// The same, while a primary is lost.
pub fn moved_and_failed() -> Sale {
    Sale {
        name: "a unit moves during a failover",
        failovers: 1,
        compares: false,
        ..moved()
    }
}

/// The same, and gates and ledger are compared.
pub fn moved_failed_and_compared() -> Sale {
    Sale {
        name: "a unit moves during a failover, compared",
        failovers: 1,
        ..moved()
    }
}
