//! What the template promises by itself.

use std::time::Duration;

use local::{own_template, read_template};
use serde_yaml_ng::Value;

/// API Gateway gives up after 30 s.
const GATEWAY: Duration = Duration::from_secs(29);

#[test]
fn k04_no_function_outlives_the_gateways_patience() {
    let template = read_template(&own_template()).unwrap();
    assert!(!template.routes.is_empty());
    for route in &template.routes {
        let function = template
            .functions
            .iter()
            .find(|function| function.id == route.function);
        let timeout = function.unwrap().timeout;
        assert!(timeout < GATEWAY, "{}: {timeout:?}", route.key());
        if route.path.contains("claims") {
            assert!(
                timeout <= Duration::from_secs(5),
                "{}: {timeout:?}",
                route.key()
            );
        }
    }
}

#[test]
fn b06_no_schedule_is_below_a_minute_and_runs_meet() {
    let template = read_template(&own_template()).unwrap();
    let scheduled: Vec<_> = template
        .schedules
        .iter()
        .map(|schedule| schedule.function.as_str())
        .collect();
    for name in ["ControllerFunction", "SweeperFunction"] {
        assert!(scheduled.contains(&name), "{name} is not scheduled");
    }
    for schedule in &template.schedules {
        assert!(
            schedule.every >= Duration::from_secs(60),
            "{}",
            schedule.function
        );
        let function = template
            .functions
            .iter()
            .find(|function| function.id == schedule.function);
        let function = function.unwrap();
        // It loops inside until shortly before its end, so that the next run
        // begins before: overlapping needs a second environment.
        assert!(function.timeout > schedule.every, "{}", schedule.function);
        assert!(
            function.concurrency.is_none_or(|many| many >= 2),
            "{}",
            schedule.function
        );
    }
}

#[test]
fn h01_h03_h04_the_queue_fits_its_function() {
    let template = read_template(&own_template()).unwrap();
    assert_eq!(template.queue_events.len(), 1);
    for event in &template.queue_events {
        assert!(event.partial, "ReportBatchItemFailures");
        assert!(event.batch_size <= 10);
        assert!(event.concurrency.is_some(), "MaximumConcurrency");
        let queue = template
            .queues
            .iter()
            .find(|queue| queue.id == event.queue)
            .unwrap();
        let function = template
            .functions
            .iter()
            .find(|function| function.id == event.function);
        let function = function.unwrap();
        assert!(
            queue.visibility >= 6 * function.timeout,
            "{:?}",
            queue.visibility
        );
        let (dead_letters, receives) = queue.redrive.as_ref().expect("a dead-letter queue");
        assert!(*receives >= 5, "{receives}");
        assert!(
            template
                .queues
                .iter()
                .any(|queue| &queue.id == dead_letters)
        );
        assert!(queue.deduplicate_by_group);
        if let Some(reserved) = function.concurrency {
            assert!(reserved >= event.concurrency.unwrap());
        }
    }
}

/// Linters look into one template at a time.
#[test]
fn what_is_asked_of_a_nested_stack_is_among_its_outputs() {
    let path = own_template();
    let text = std::fs::read_to_string(&path).unwrap();
    let template: Value = serde_yaml_ng::from_str(&text).unwrap();
    let mut asked = 0;
    for (before, output) in text
        .match_indices(".Outputs.")
        .map(|(at, middle)| (&text[..at], &text[at + middle.len()..]))
    {
        let word = |c: char| !c.is_alphanumeric();
        let stack = before.rsplit(word).next().unwrap();
        let output = output.split(word).next().unwrap();
        let url = &template["Resources"][stack]["Properties"]["TemplateURL"];
        let nested =
            path.with_file_name(url.as_str().unwrap_or_else(|| panic!("no stack {stack}")));
        let nested = std::fs::read_to_string(nested).unwrap();
        let nested: Value = serde_yaml_ng::from_str(&nested).unwrap();
        assert!(
            !nested["Outputs"][output].is_null(),
            "{stack} gives no {output}"
        );
        asked += 1;
    }
    assert!(asked > 10, "{asked}");
}
