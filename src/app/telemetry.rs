//! Telemetry: where log lines go: standard error, as text for people or JSON for collectors.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::app::AppError;
use crate::app::config::{Config, LogFormat};

/// Begins to log. A second call in one process changes nothing.
pub fn begin(config: &Config) -> Result<(), AppError> {
    // What the MCP library tells of every peer is a structure of its own, in full; we tell name and
    // version ourselves. Whoever names the library gets what it says.
    let quiet = if config.log.contains("rmcp") { "" } else { ",rmcp=warn" };
    let filter = EnvFilter::try_new(format!("{}{quiet}", config.log)).map_err(|error| {
        AppError::LogFilter { filter: config.log.clone(), why: error.to_string() }
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        // A line that cannot be written is lost, and nothing else: it would be complained of where it could not be written.
        .log_internal_errors(false);
    let outcome = match config.log_format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    // Only a test binary begins twice.
    outcome.unwrap_or_default();
    Ok(())
}
