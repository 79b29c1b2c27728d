//! The real template, and what is not known of it once it is changed.

use std::time::Duration;

use super::*;

const REAL: &str = include_str!("../../../../template.yaml");

fn values() -> Values {
    let outputs = [
        ("Url".to_owned(), "redis://gates".to_owned()),
        ("PasswordSecret".to_owned(), String::new()),
        ("ReplicationGroupId".to_owned(), "gates".to_owned()),
    ];
    Values {
        parameters: [("SessionIssuer".to_owned(), "https://issuer".to_owned())].into(),
        queue_url: "http://127.0.0.1:9324".to_owned(),
        stacks: [
            ("Gates".to_owned(), outputs.into()),
            ("Network".to_owned(), BTreeMap::new()),
            ("Watch".to_owned(), BTreeMap::new()),
        ]
        .into(),
    }
}

fn with(parameters: &[(&str, &str)]) -> Values {
    let mut values = values();
    let given = parameters
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    values.parameters.extend(given);
    values
}

fn refused(text: &str, values: &Values) -> String {
    format!("{:#}", Template::parse(text, values).unwrap_err())
}

fn function<'a>(template: &'a Template, id: &str) -> &'a Function {
    let mut functions = template.functions.iter();
    functions.find(|function| function.id == id).unwrap()
}

#[test]
fn the_real_template_is_understood_as_a_whole() {
    let template = Template::parse(REAL, &values()).unwrap();
    let claim = function(&template, "ClaimFunction");
    assert_eq!(claim.binary, "claim-function");
    assert_eq!(claim.timeout, Duration::from_secs(5));
    assert_eq!(claim.concurrency, None);
    assert_eq!(claim.variables["TABLE_NAME"], "ledger");
    assert_eq!(
        claim.variables["QUEUE_URL"],
        "http://127.0.0.1:9324/000000000000/claim-queue.fifo"
    );
    assert_eq!(claim.variables["GATE_ACKS"], "1");
    assert_eq!(claim.variables["GATE_URL"], "redis://gates");
    // A stack that has no password gives none.
    let secret = |setting: &str, id: &str| (setting.to_owned(), id.to_owned());
    assert_eq!(
        claim.secrets,
        [
            secret("EDGE_KEY", "EdgeKey"),
            secret("PASS_KEYS", "PassKeys"),
            secret("WEBHOOK_SECRETS", "WebhookSecrets")
        ]
        .into()
    );
    let right = |action: &str, resource: &str| Right {
        action: action.to_owned(),
        resource: format!("arn:aws:{resource}"),
    };
    let ledger = "dynamodb:us-east-1:000000000000:table/ledger";
    assert_eq!(
        claim.rights,
        [
            right("dynamodb:BatchGetItem", ledger),
            right("dynamodb:GetItem", ledger),
            right("dynamodb:PutItem", ledger),
            right("dynamodb:UpdateItem", ledger),
            right(
                "sqs:SendMessage",
                "sqs:us-east-1:000000000000:claim-queue.fifo"
            ),
        ]
        .into()
    );
    let left = claim
        .variables
        .keys()
        .find(|name| name.ends_with("_SECRET"));
    assert_eq!(left, None);
    assert_eq!(function(&template, "SweeperFunction").concurrency, Some(3));

    let route = |key: &str| {
        let route = template.routes.iter().find(|route| route.key() == key);
        route.unwrap_or_else(|| panic!("no {key}"))
    };
    assert_eq!(
        route("POST /v1/sales/{sale}/claims").access,
        Access::Token { scopes: vec![] }
    );
    assert_eq!(
        route("POST /v1/admin/sales").access,
        Access::Token {
            scopes: vec!["sales.admin".to_owned()]
        }
    );
    assert_eq!(route("GET /v1/sales/{sale}").access, Access::Public);

    let authorizer = template.authorizer.unwrap();
    assert_eq!(authorizer.issuer, "https://issuer");
    assert_eq!(authorizer.audience, ["flash-sale"]);
    assert_eq!(template.cors.unwrap().max_age, Some(600));

    let [event] = &template.queue_events[..] else {
        panic!("one queue feeds one function");
    };
    assert_eq!((event.queue.as_str(), event.batch_size), ("ClaimQueue", 10));
    assert_eq!((event.concurrency, event.partial), (Some(20), true));
    let queue = template
        .queues
        .iter()
        .find(|queue| queue.id == "ClaimQueue");
    let queue = queue.unwrap();
    assert_eq!(queue.redrive, Some(("DeadLetterQueue".to_owned(), 50)));
    assert_eq!(queue.visibility, Duration::from_secs(180));
    assert!(queue.deduplicate_by_group);

    assert!(
        template
            .schedules
            .iter()
            .all(|schedule| schedule.every == Duration::from_secs(60))
    );
    assert_eq!(template.tables[0].name, "ledger");
    assert_eq!(
        template.tables[0].definition["KeySchema"][0]["AttributeName"],
        "pk"
    );
    assert!(template.secrets.contains(&Secret {
        id: "PassKeys".to_owned(),
        length: 64,
        punctuation: false,
    }));
}

#[test]
fn parameters_choose_what_is_there() {
    let reserved = with(&[("ShopperConcurrency", "40"), ("OrderConcurrency", "3")]);
    let template = Template::parse(REAL, &reserved).unwrap();
    let claim = function(&template, "ClaimFunction");
    assert_eq!(claim.concurrency, Some(40));
    assert_eq!(template.queue_events[0].concurrency, Some(3));

    let error = refused(REAL, &with(&[("OrderConcurrency", "many")]));
    assert!(error.contains("OrderConcurrency"), "{error}");
    let error = refused(REAL, &with(&[("GateUrl", "redis://x")]));
    assert!(error.contains("no parameter GateUrl"), "{error}");
    let mut unset = values();
    unset.parameters.clear();
    let error = refused(REAL, &unset);
    assert!(error.contains("SessionIssuer has no value"), "{error}");
}

#[test]
fn a_resource_is_there_if_its_condition_holds() {
    let choice = "!If [IsLoud, !Join ['+', !Ref Many], !Ref AWS::NoValue]";
    let text = "
Parameters:
  Many: {Type: CommaDelimitedList, Default: 'a, b'}
  Loud: {Type: String, Default: ''}
Conditions:
  IsLoud: !Not [!Equals [!Ref Loud, '']]
Resources:
  Alarm: {Type: AWS::CloudWatch::Alarm, Condition: IsLoud}
  Rows:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: CHOICE
";
    let read = |loud: &str| {
        let values = Values {
            parameters: [("Loud".to_owned(), loud.to_owned())].into(),
            ..Values::default()
        };
        Template::parse(&text.replace("CHOICE", choice), &values).unwrap()
    };
    let (quiet, loud) = (read(""), read("yes"));
    assert!(quiet.not_run.is_empty());
    assert_eq!(loud.not_run, ["Alarm (AWS::CloudWatch::Alarm)"]);
    assert_eq!(quiet.tables[0].definition.get("BillingMode"), None);
    assert_eq!(loud.tables[0].definition["BillingMode"], "a+b");
    // Nothing can be made of what is not there.
    let absent = text.replace("CHOICE", "!GetAtt Alarm.Arn");
    let error = refused(&absent, &Values::default());
    assert!(error.contains("no resource Alarm"), "{error}");
}

#[test]
fn nothing_that_matters_is_left_out_silently() {
    for (from, to, named) in [
        ("Type: ScheduleV2", "Type: Kinesis", "Kinesis"),
        ("Timeout: 5", "Timeout: 5\n      SnapStart: {}", "SnapStart"),
        ("rate(1 minute)", "cron(0 * * * ? *)", "cron(0"),
        ("BatchSize: 10", "FilterCriteria: {}", "FilterCriteria"),
        (
            "GATE_ACKS: !Ref GateAcks",
            "GATE_ACKS: !Cidr [a, b, c]",
            "GATE_ACKS: the runner does not know the function !Cidr",
        ),
        (
            "GATE_ACKS: !Ref GateAcks",
            "GATE_ACKS: !GetAtt Gates.Outputs.Acks",
            "Gates.Outputs.Acks",
        ),
        (
            "PASS_KEYS_SECRET: !Ref PassKeys",
            "PASS_KEYS_SECRET: !Ref Ledger",
            "PASS_KEYS_SECRET",
        ),
        (
            "Resources:\n",
            "Resources:\n  More:\n    Type: AWS::Scheduler::Schedule\n",
            "AWS::Scheduler::Schedule",
        ),
        (
            "Resources:\n",
            "Resources:\n  More:\n    Type: AWS::CloudFormation::Stack\n",
            "the stack More",
        ),
        (
            "    DeletionPolicy: Retain",
            "    Condition: Never",
            "no condition Never",
        ),
        (
            "    DeletionPolicy: Retain",
            "    CreationPolicy: {}",
            "CreationPolicy",
        ),
        ("!Equals [!Ref ShopperConcurrency, 0]", "!Or [a, b]", "!Or"),
        ("Resources:\n", "Mappings: {}\nResources:\n", "Mappings"),
        ("Globals:\n", "Globals:\n  HttpApi: {}\n", "HttpApi"),
        (
            "{ExcludePunctuation: true, PasswordLength: 64}",
            "{IncludeSpace: true}",
            "IncludeSpace",
        ),
        ("StageName: $default", "StageName: live", "$default"),
        ("FifoQueue: true", "FifoQueue: false", "FIFO"),
        ("MaxAge: 600", "MaxAges: 600", "MaxAges"),
    ] {
        assert!(REAL.contains(from), "{from}");
        let error = refused(&REAL.replacen(from, to, 1), &values());
        assert!(error.contains(named), "{named}: {error}");
    }
}

#[test]
fn a_function_may_read_the_secrets_that_it_names_and_no_others() {
    let first = |from: &str, to: &str| refused(&REAL.replacen(from, to, 1), &values());
    // The variable comes first, then the policy.
    let unread = first("                - !Ref PassKeys\n", "");
    assert!(unread.contains("PassFunction"), "{unread}");
    assert!(
        unread.contains("secret:pass-keys, and no policy"),
        "{unread}"
    );
    let unnamed = first("          PASS_KEYS_SECRET: !Ref PassKeys\n", "");
    assert!(unnamed.contains("PassFunction"), "{unnamed}");
    assert!(
        unnamed.contains("secret:pass-keys be read, and no variable"),
        "{unnamed}"
    );
}

#[test]
fn a_policy_says_by_name_what_a_function_may_do() {
    for (from, to, named) in [
        ("dynamodb:GetItem", "'dynamodb:*'", "dynamodb:*"),
        (
            "Resource: !GetAtt Ledger.Arn",
            "Resource: '*'",
            "GetItem on *",
        ),
        (
            "Resource: !GetAtt Ledger.Arn",
            "NotResource: a",
            "NotResource",
        ),
        ("- Effect: Allow", "- Effect: Deny", "Deny"),
        (
            "Policies:\n",
            "Policies:\n        - AmazonDynamoDBFullAccess\n",
            "expected struct Policy",
        ),
        ("Timeout: 10", "Timeout: 10\n      Role: a", "Role"),
    ] {
        assert!(REAL.contains(from), "{from}");
        let error = refused(&REAL.replacen(from, to, 1), &values());
        assert!(error.contains("PassFunction"), "{error}");
        assert!(error.contains(named), "{named}: {error}");
    }
}

#[test]
fn resources_of_the_cloud_alone_are_listed() {
    let text = REAL.replacen(
        "Resources:\n",
        "Resources:\n  Late:\n    Type: AWS::CloudWatch::Alarm\n",
        1,
    );
    let template = Template::parse(&text, &values()).unwrap();
    for listed in [
        "Late (AWS::CloudWatch::Alarm)",
        "Logs (AWS::Logs::LogGroup)",
        "Orders (AWS::Events::EventBus)",
        "Outbox (AWS::Pipes::Pipe)",
        "OutboxRole (AWS::IAM::Role)",
    ] {
        assert!(template.not_run.contains(&listed.to_owned()), "{listed}");
    }
}
