//! What the template promises by itself. Each rule is also held against templates
//! that break it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use local::template::{Function, Template};
use local::{own_template, read_template};
use serde_yaml_ng::Value;

use crate::graph::{changed, names, parsed, text_of};

const FILE: &str = "template.yaml";

/// API Gateway gives up after 30 s.
const GATEWAY: Duration = Duration::from_secs(29);

/// A claim is answered within seconds or not at all.
const CLAIM: Duration = Duration::from_secs(5);

/// The template, with one place changed, as the local system reads it.
fn read(from: &str, to: &str) -> Template {
    written(&changed(FILE, from, to))
}

fn written(text: &str) -> Template {
    let file = std::env::temp_dir().join(format!("{}-{}.yaml", std::process::id(), nonce()));
    std::fs::write(&file, text).unwrap();
    let template = read_template(&file).unwrap();
    std::fs::remove_file(file).unwrap();
    template
}

/// A number that no other test has.
pub(crate) fn nonce() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn function<'a>(template: &'a Template, id: &str) -> &'a Function {
    let mut functions = template.functions.iter();
    functions.find(|function| function.id == id).unwrap()
}

#[test]
fn k01_no_stage_comes_into_paths() {
    let in_paths = |text: &str| {
        let template = parsed(text);
        let stage = template["Resources"]["Api"]["Properties"]["StageName"].as_str();
        let Value::Tagged(url) = &template["Outputs"]["ApiUrl"]["Value"] else {
            panic!("the API has no URL")
        };
        let behind_host = url
            .value
            .as_str()
            .unwrap()
            .rsplit("${AWS::URLSuffix}")
            .next();
        // A domain of its own would have a base path.
        let mapped = text.contains("AWS::ApiGatewayV2::ApiMapping") || text.contains("BasePath");
        stage != Some("$default") || behind_host != Some("") || mapped
    };
    assert!(!in_paths(&text_of(FILE)));
    for (from, to) in [
        ("StageName: $default", "StageName: prod"),
        (
            "https://${Api}.execute-api.${AWS::Region}.${AWS::URLSuffix}",
            "https://${Api}.execute-api.${AWS::Region}.${AWS::URLSuffix}/prod",
        ),
        (
            "      CorsConfiguration:",
            "      Domain: {BasePath: [shop]}\n      CorsConfiguration:",
        ),
    ] {
        assert!(in_paths(&changed(FILE, from, to)), "{to}");
    }
}

/// What the API lacks of a limit to its calls and of a trace of each.
fn unbounded(template: &Value) -> Vec<&'static str> {
    let api = &template["Resources"]["Api"]["Properties"];
    let settings = &api["DefaultRouteSettings"];
    let positive = |value: &Value| {
        let name = names(value).into_iter().next().unwrap_or_default();
        template["Parameters"][name]["Default"].as_u64() > Some(0)
    };
    let logs = &api["AccessLogSettings"];
    let format = logs["Format"].as_str().unwrap_or_default();
    let kept = names(&logs["DestinationArn"])
        .into_iter()
        .any(|log| !template["Resources"][log]["Properties"]["RetentionInDays"].is_null());
    let personal = [
        "sourceIp",
        "userAgent",
        "$context.path",
        "claims",
        "principal",
    ];
    let rules = [
        (positive(&settings["ThrottlingRateLimit"]), "a rate"),
        (positive(&settings["ThrottlingBurstLimit"]), "a burst"),
        (kept, "logs that end"),
        (format.contains("$context.status"), "the answer"),
        (
            serde_json::from_str::<serde_json::Value>(format).is_ok(),
            "lines that can be read",
        ),
        (
            !personal.iter().any(|one| format.contains(one)),
            "discretion",
        ),
    ];
    let broken = rules.into_iter().filter(|(kept, _)| !kept);
    broken.map(|(_, rule)| rule).collect()
}

#[test]
fn the_api_is_throttled_and_its_calls_are_logged() {
    assert_eq!(unbounded(&parsed(&text_of(FILE))), [""; 0]);
    for (from, to, lacking) in [
        (
            "ThrottlingRateLimit: !Ref ApiRatePerSecond",
            "ThrottlingRateLimit: !Ref WarmEnvironments",
            "a rate",
        ),
        ("ThrottlingBurstLimit:", "ThrottlingBurst:", "a burst"),
        (
            "DestinationArn: !GetAtt AccessLogs.Arn",
            "DestinationArn: ''",
            "logs that end",
        ),
        ("$context.status", "$context.stage", "the answer"),
        (r#""status":"#, r#""status""#, "lines that can be read"),
        ("$context.routeKey", "$context.path", "discretion"),
    ] {
        let broken = unbounded(&parsed(&changed(FILE, from, to)));
        assert_eq!(broken, [lacking], "{to}");
    }
}

/// Routes whose function may work on after the gateway gave up.
fn impatient(template: &Template) -> Vec<String> {
    assert!(!template.routes.is_empty());
    let routes = template.routes.iter().filter(|route| {
        let timeout = function(template, &route.function).timeout;
        timeout >= GATEWAY || (route.path.contains("claims") && timeout > CLAIM)
    });
    routes.map(|route| route.key()).collect()
}

#[test]
fn k04_no_function_outlives_the_gateways_patience() {
    assert_eq!(impatient(&read_template(&own_template()).unwrap()), [""; 0]);
    for (from, to, route) in [
        ("Timeout: 28", "Timeout: 29", "GET /v1/admin/sales"),
        ("Timeout: 5", "Timeout: 6", "POST /v1/sales/{sale}/claims"),
    ] {
        let late = impatient(&read(from, to));
        assert!(late.iter().any(|one| one == route), "{to}: {late:?}");
    }
}

/// Functions that are stopped before their cashier has answered, and written
/// and read what belongs to it.
fn cut_off(template: &Template) -> Vec<&'static str> {
    let cashiers = [
        ("PaymentFunction", payment::cashier::PATIENCE),
        ("ClaimFunction", claim_function::PROVIDER_MAX),
    ];
    let early = cashiers.into_iter().filter(|(id, patience)| {
        function(template, id).timeout < *patience + Duration::from_millis(1_500)
    });
    early.map(|(id, _)| id).collect()
}

#[test]
fn the_cashier_answers_before_its_function_is_stopped() {
    assert_eq!(cut_off(&read_template(&own_template()).unwrap()), [""; 0]);
    let hurried = read("Timeout: 5\n", "Timeout: 4\n");
    assert_eq!(cut_off(&hurried), ["ClaimFunction"]);
}

#[test]
fn b06_no_schedule_is_below_a_minute_and_runs_meet() {
    let template = read_template(&own_template()).unwrap();
    let scheduled: Vec<_> = template
        .schedules
        .iter()
        .map(|schedule| schedule.function.as_str())
        .collect();
    for name in [
        "ControllerFunction",
        "PublisherFunction",
        "ReconcilerFunction",
        "SweeperFunction",
    ] {
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
        // The next run may begin before this one ends, in a second environment.
        assert!(
            function.concurrency.is_none_or(|many| many >= 2),
            "{}",
            schedule.function
        );
    }
}

/// Functions whose runs may leave a hole until the next: a run loops inside until so
/// long before its end, and a schedule of a minute starts runs up to two apart.
fn holes(template: &Template) -> Vec<&str> {
    const MARGIN: Duration = Duration::from_secs(5);
    let looping = ["ControllerFunction", "PublisherFunction", "SweeperFunction"];
    let short = looping.into_iter().filter(|id| {
        let mut schedules = template.schedules.iter();
        let schedule = schedules.find(|schedule| schedule.function == *id).unwrap();
        function(template, id).timeout < 2 * schedule.every + MARGIN
    });
    short.collect()
}

#[test]
fn b06_a_run_meets_the_next_wherever_in_its_minute_that_starts() {
    assert_eq!(holes(&read_template(&own_template()).unwrap()), [""; 0]);
    for late in ["Timeout: 61", "Timeout: 124"] {
        // The first of them in the file.
        let found = holes(&read("Timeout: 130", late)).len();
        assert_eq!(found, 1, "{late}");
        let all = text_of(FILE).replace("Timeout: 130", late);
        assert_eq!(holes(&written(&all)).len(), 3, "{late}");
    }
}

/// What does not fit between a queue and the function that it feeds.
fn misfits(template: &Template) -> Vec<&'static str> {
    let [event] = template.queue_events.as_slice() else {
        panic!("one queue feeds a function")
    };
    let mut queues = template.queues.iter();
    let queue = queues.find(|queue| queue.id == event.queue).unwrap();
    let function = function(template, &event.function);
    let redrive = queue.redrive.as_ref();
    let rules = [
        ("H01: failures of single messages are told", event.partial),
        (
            "H03: work ends before messages come again",
            queue.visibility >= 6 * function.timeout,
        ),
        (
            "H04: the queue knows how many workers there are",
            event.concurrency.is_some(),
        ),
        (
            "H04: workers that it knows of are there",
            function
                .concurrency
                .is_none_or(|reserved| event.concurrency.is_some_and(|most| reserved >= most)),
        ),
        (
            "H04: a message is tried for a quarter of an hour",
            redrive.is_some_and(|(_, receives)| *receives >= 50),
        ),
        ("a batch is one transaction", event.batch_size <= 10),
        (
            "groups do not disturb each other",
            queue.deduplicate_by_group,
        ),
    ];
    let broken = rules.into_iter().filter(|(_, holds)| !holds);
    broken.map(|(rule, _)| rule).collect()
}

#[test]
fn h01_h03_h04_the_queue_fits_its_function() {
    assert_eq!(misfits(&read_template(&own_template()).unwrap()), [""; 0]);
    for (from, to, rule) in [
        (
            "            FunctionResponseTypes: [ReportBatchItemFailures]\n",
            "",
            "H01",
        ),
        ("VisibilityTimeout: 180", "VisibilityTimeout: 179", "H03"),
        ("      VisibilityTimeout: 180\n", "", "H03"),
        ("      Timeout: 30\n", "      Timeout: 31\n", "H03"),
        (
            "            ScalingConfig:\n              MaximumConcurrency: !Ref OrderConcurrency\n",
            "",
            "H04",
        ),
        (
            "      Timeout: 30\n",
            "      Timeout: 30\n      ReservedConcurrentExecutions: 19\n",
            "H04",
        ),
        ("maxReceiveCount: 50", "maxReceiveCount: 49", "H04"),
    ] {
        let broken = misfits(&read(from, to));
        assert!(
            matches!(*broken, [one] if one.starts_with(rule)),
            "{to}: {broken:?}"
        );
    }
    // A batch that is waited for would have to be added to the visibility: the
    // local system does not know such queues.
    assert!(!text_of(FILE).contains("MaximumBatchingWindowInSeconds"));
}

/// How letters that nobody could deliver stay unseen, or get lost.
fn unseen(template: &Value, watch: &Value) -> Vec<&'static str> {
    let resources = &template["Resources"];
    let queue = &resources["ClaimQueue"]["Properties"];
    let dead = names(&queue["RedrivePolicy"]["deadLetterTargetArn"]);
    let Some(dead) = dead.first() else {
        return vec!["there is nowhere to set them apart"];
    };
    let alarm = &watch["Resources"]["DeadLetters"];
    let properties = &alarm["Properties"];
    let seconds = |queue: &Value| queue["MessageRetentionPeriod"].as_u64();
    let number = |name: &str| properties[name].as_u64().unwrap();
    let watched = &resources["Watch"]["Properties"]["Parameters"]["DeadLetterQueue"];
    let rules = [
        ("they are watched", names(watched) == [dead.clone()].into()),
        (
            "one is enough",
            properties["MetricName"] == "ApproximateNumberOfMessagesVisible"
                && names(&properties["Dimensions"]) == ["DeadLetterQueue".to_owned()].into()
                && properties["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
                && number("Threshold") == 1,
        ),
        (
            "it is told within minutes",
            number("Period") * number("EvaluationPeriods") <= 120,
        ),
        (
            "somebody hears of it, always",
            names(&properties["AlarmActions"]) == ["Topic".to_owned()].into()
                && alarm["Condition"].is_null(),
        ),
        (
            "they are kept longer than others",
            seconds(&resources[dead.as_str()]["Properties"]) > seconds(queue),
        ),
    ];
    let broken = rules.into_iter().filter(|(_, holds)| !holds);
    broken.map(|(rule, _)| rule).collect()
}

#[test]
fn h06_dead_letters_are_kept_and_told() {
    let (own, watch) = (FILE, "infra/watch.yaml");
    let check = |file: &str, from: &str, to: &str| {
        let text = |one: &str| {
            if one == file {
                changed(one, from, to)
            } else {
                text_of(one)
            }
        };
        unseen(&parsed(&text(own)), &parsed(&text(watch)))
    };
    assert_eq!(check("", "", ""), [""; 0]);
    let alarm = |line: &str, to: &str| {
        let text = text_of(watch);
        let (_, rest) = text.split_once("\n  DeadLetters:\n").unwrap();
        let (block, _) = rest.split_once("\n  QueueAge:").unwrap();
        assert!(block.contains(line), "{line}");
        let broken = text.replacen(block, &block.replacen(line, to, 1), 1);
        unseen(&parsed(&text_of(own)), &parsed(&broken))
    };
    for (said, rule) in [
        (
            check(
                own,
                "deadLetterTargetArn: !GetAtt DeadLetterQueue.Arn",
                "deadLetterTargetArn: ''",
            ),
            "there is nowhere to set them apart",
        ),
        (
            check(
                own,
                "DeadLetterQueue: !GetAtt DeadLetterQueue.QueueName",
                "DeadLetterQueue: !GetAtt ClaimQueue.QueueName",
            ),
            "they are watched",
        ),
        (
            check(
                own,
                "MessageRetentionPeriod: 1209600",
                "MessageRetentionPeriod: 345600",
            ),
            "they are kept longer than others",
        ),
        (
            alarm("ApproximateNumberOfMessagesVisible", "NumberOfMessagesSent"),
            "one is enough",
        ),
        (alarm("Threshold: 1", "Threshold: 2"), "one is enough"),
        (
            alarm("Period: 60", "Period: 300"),
            "it is told within minutes",
        ),
        (
            alarm("AlarmActions: [!Ref Topic]", "AlarmActions: []"),
            "somebody hears of it, always",
        ),
    ] {
        assert_eq!(said, [rule]);
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
