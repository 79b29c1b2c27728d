//! `local up` runs the whole system on one machine; `local routes` lists what
//! the template says; `local identity` is a development identity provider alone.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use local::template::{Access, Template};
use local::{Options, Stripe, System};
use runtime::Settings;
use secrecy::SecretString;
use tokio::net::TcpListener;

/// A flash sale on one machine, nothing in the cloud.
#[derive(Parser)]
struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Runs everything until Ctrl-C.
    Up(Box<Up>),
    /// Lists the routes, queues and schedules of the template.
    Routes {
        /// The template; the workspace's own if none is named.
        #[arg(long)]
        template: Option<PathBuf>,
    },
    /// Issues session tokens for a deployment on an emulator, until it is ended.
    Identity {
        /// Port on 127.0.0.1.
        #[arg(long)]
        port: u16,
        /// The `aud` of its tokens.
        #[arg(long, default_value = "flash-sale")]
        audience: String,
    },
}

#[derive(Args)]
struct Up {
    /// Port of the API on 127.0.0.1; 0 for a free one.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// The template; the workspace's own if none is named.
    #[arg(long)]
    template: Option<PathBuf>,
    /// Value of a parameter of the template, as Name=value; may be repeated.
    #[arg(long = "parameter", value_parser = pair)]
    parameters: Vec<(String, String)>,
    /// Value of a secret of the template, as Name=value; may be repeated.
    #[arg(long = "secret", value_parser = pair)]
    secrets: Vec<(String, String)>,
    /// Where Stripe is, or what stands in for it: payments go through it in
    /// place of the sandbox.
    #[arg(long, value_name = "URL", requires_all = ["stripe_key", "stripe_webhook_secrets"])]
    stripe: Option<String>,
    /// Its secret key.
    #[arg(long, env = "STRIPE_KEY", hide_env_values = true)]
    stripe_key: Option<SecretString>,
    /// What its webhooks are signed with; several are separated by commas.
    #[arg(long, env = "STRIPE_WEBHOOK_SECRETS", hide_env_values = true)]
    stripe_webhook_secrets: Option<SecretString>,
    /// What the gates run on: `redis`, `valkey`, or the path of a server [default:
    /// the first that is installed].
    #[arg(long, env = "GATE_PROGRAM", value_parser = engine)]
    engine: Option<String>,
    /// Primaries of the gates' cluster.
    #[arg(long, default_value_t = 1)]
    primaries: usize,
    /// Replicas of each primary.
    #[arg(long, default_value_t = 1)]
    replicas: usize,
    /// How often scheduled functions are started, in ms.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    schedule_every_ms: u64,
    /// Environments of a function for which the template reserves none.
    #[arg(long, default_value_t = 100)]
    environments_max: usize,
    /// Where page and edge are served in front of this, to be shown.
    #[arg(long, value_name = "URL")]
    front: Option<String>,
    /// Log level: error, warn, info, debug.
    #[arg(long, default_value = "warn")]
    log: String,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write Name=value")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn engine(text: &str) -> Result<String, String> {
    Ok(match text {
        "redis" | "valkey" => format!("{text}-server"),
        "" => return Err("name an engine, or the path of a server".to_owned()),
        path => path.to_owned(),
    })
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Command::parse().action {
        Action::Up(up) => run(*up).await,
        Action::Routes { template } => {
            let path = template.unwrap_or_else(local::own_template);
            print_routes(&local::read_template(&path)?);
            Ok(())
        }
        Action::Identity { port, audience } => {
            let listener = TcpListener::bind(("127.0.0.1", port)).await?;
            local::serve_identity(listener, &audience).await
        }
    }
}

async fn run(up: Up) -> anyhow::Result<()> {
    let level = ("AWS_LAMBDA_LOG_LEVEL".to_owned(), up.log);
    runtime::init_telemetry(&Settings::from_iter([level]));
    let stripe = up.stripe.zip(up.stripe_key);
    let stripe = stripe.zip(up.stripe_webhook_secrets);
    let options = Options {
        stripe: stripe.map(|((url, key), webhook_secrets)| Stripe {
            url,
            key,
            webhook_secrets,
        }),
        port: up.port,
        template: up.template,
        parameters: up.parameters.into_iter().collect(),
        secrets: up
            .secrets
            .into_iter()
            .map(|(name, value)| (name, value.into()))
            .collect(),
        gate_program: up.engine,
        primaries: up.primaries,
        replicas: up.replicas,
        schedule_every: Duration::from_millis(up.schedule_every_ms),
        environments_max: up.environments_max,
        ..Options::default()
    };
    let mut system = System::start(options).await?;
    print_welcome(&system, up.front.as_deref());
    tokio::signal::ctrl_c()
        .await
        .context("Ctrl-C can't be waited for")?;
    println!("\nStopping.");
    system.stop().await;
    Ok(())
}

fn print_routes(template: &Template) {
    for route in &template.routes {
        let access = match &route.access {
            Access::Public => "public".to_owned(),
            Access::Token { scopes } if scopes.is_empty() => "session".to_owned(),
            Access::Token { scopes } => scopes.join(" or "),
        };
        let key = route.key();
        println!("{key:<52} {:<18} {access}", route.function);
    }
    for event in &template.queue_events {
        println!("{:<52} {:<18} queue", event.queue, event.function);
    }
    for schedule in &template.schedules {
        let every = format!("every {} s", schedule.every.as_secs());
        println!("{every:<52} {:<18} schedule", schedule.function);
    }
    for resource in &template.not_run {
        println!("not run locally: {resource}");
    }
}

/// The calls to try; a test runs them, so they stay true.
const TRY: &str = include_str!("../try.sh");

fn print_welcome(system: &System, front: Option<&str>) {
    let base = front.unwrap_or(system.base_url());
    println!("The sale is at {base}");
    if front.is_some() {
        println!("  page        {base}/?sale=<sale>&shopper=<any name>");
    }
    for (name, url) in [
        ("gateway", system.base_url()),
        ("gates", system.gate_url()),
        ("DynamoDB", system.dynamodb_url()),
        ("SQS", system.sqs_url()),
        ("edge store", system.edge_store_url().as_str()),
    ] {
        println!("  {name:<11} {url}");
    }
    println!("\n{}", TRY.replace("${API:-http://127.0.0.1:8080}", base));
    println!("\nPaste it into another terminal, or: API={base} bash infra/local/try.sh");
    println!("Ctrl-C ends the system; nothing is kept.");
}
