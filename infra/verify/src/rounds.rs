//! Thresholds: each follows from the places that it admits, none was taken back,
//! and the first admits as many as it offers units, and some for no-shows.

use crate::{Check, Published, Report};

/// The last threshold, of the public object.
pub(crate) fn threshold(sale: &Published) -> Check {
    let draw = &sale.draw;
    let mut wrong = Vec::new();
    // Without entries there is no line to be a fraction of.
    if draw.entries > 0 && draw.scale != draw.entries {
        wrong.push(format!(
            "tickets are a fraction of {}, and there are {}",
            draw.scale, draw.entries
        ));
    }
    if draw.threshold != expected(sale, draw.admitted) {
        wrong.push(format!(
            "{} places make the threshold {}, not {}",
            draw.admitted,
            expected(sale, draw.admitted),
            draw.threshold
        ));
    }
    let what = format!(
        "the line was drawn at {} of {}: the threshold is {}",
        draw.admitted, draw.entries, draw.threshold
    );
    Check::of(what, wrong)
}

fn expected(sale: &Published, places: u64) -> f64 {
    match places {
        0 => 0.0,
        places => sale.draw.admission().threshold_for(places),
    }
}

/// What the merchant's report says of the same draw.
pub(crate) fn of_report(sale: &Published, report: &Report) -> Vec<Check> {
    vec![
        same_sale(sale, report),
        rounds(sale, report),
        units(sale, report),
    ]
}

fn same_sale(sale: &Published, report: &Report) -> Check {
    let mut wrong = Vec::new();
    for (what, here, there) in [
        ("sale", &sale.sale_id, &report.sale.sale_id),
        ("commitment", &sale.commitment, &report.sale.commitment),
    ] {
        if here != there {
            wrong.push(format!("{what}: {here} is public, {there} is reported"));
        }
    }
    Check::of("the report is of this sale", wrong)
}

fn rounds(sale: &Published, report: &Report) -> Check {
    let mut wrong = Vec::new();
    let (mut admitted, mut threshold) = (0, 0.0);
    for (number, round) in (1..).zip(&report.rounds) {
        let name = round.round;
        if name != number {
            wrong.push(format!("round {name} stands where {number} must"));
        }
        // Where everybody is admitted, a round is the same once more.
        if round.admitted < admitted || round.threshold < threshold {
            wrong.push(format!("round {name} takes places back"));
        }
        if round.threshold != expected(sale, round.admitted) {
            wrong.push(format!(
                "round {name}: {} places make the threshold {}, not {}",
                round.admitted,
                expected(sale, round.admitted),
                round.threshold
            ));
        }
        (admitted, threshold) = (round.admitted, round.threshold);
    }
    // Later ones may ask more, since many of those before them have gone away.
    if let Some(first) = report.rounds.first() {
        let most = (first.offered * (100 + report.sale.no_show_percent)).div_ceil(100);
        if first.admitted > most {
            wrong.push(format!(
                "round 1 offers {} units to {} places",
                first.offered, first.admitted
            ));
        }
    }
    let draw = &sale.draw;
    if (admitted, threshold) != (draw.admitted, draw.threshold) {
        wrong.push(format!(
            "the last round admits {admitted}, and {} is published",
            draw.admitted
        ));
    }
    if report.rounds.len() as u64 != u64::from(draw.round) {
        wrong.push(format!(
            "{} rounds are reported, and {} published",
            report.rounds.len(),
            draw.round
        ));
    }
    let what = format!(
        "{} rounds, none before the last one and each sized by its places",
        report.rounds.len()
    );
    Check::of(what, wrong)
}

fn units(sale: &Published, report: &Report) -> Check {
    let mut wrong = Vec::new();
    if report.units != u64::from(sale.units) {
        wrong.push(format!(
            "{} units are reported, and {} published",
            report.units, sale.units
        ));
    }
    let given = report.held + report.paying + report.paid;
    if given > report.units {
        wrong.push(format!("{given} units were given away"));
    }
    Check::of(
        format!("{given} of {} units were given away", report.units),
        wrong,
    )
}
