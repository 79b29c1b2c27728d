//! Logs and metrics: one JSON object a line on standard output, where Lambda
//! picks it up.

use tracing_subscriber::EnvFilter;

/// Starts logs and metrics of a function under Lambda.
pub fn start(settings: &crate::Settings) {
    init(settings);
    crate::metrics::start(settings);
}

/// Starts logging at the level that Lambda's logging configuration asks for
/// (`AWS_LAMBDA_LOG_LEVEL`), else at `info`. A second call changes nothing.
pub fn init(settings: &crate::Settings) {
    let level = settings.get("AWS_LAMBDA_LOG_LEVEL").unwrap_or("info");
    // The AWS SDK logs requests at debug; they hold keys and personal data.
    let filter = EnvFilter::new(format!("{level},aws=warn,hyper=warn,rustls=warn"));
    let _ = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_env_filter(filter)
        .with_writer(std::io::stdout)
        .try_init();
}
