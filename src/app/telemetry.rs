//! Telemetry: where log lines go: standard error, as text for people or JSON for collectors.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::app::AppError;
use crate::app::config::{Config, LogFormat};
use crate::definition::nearest_within;

/// The levels of a filter, and what turns it off.
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];
/// Letters by which a word is a level that was mistyped.
const LETTERS_MAX: usize = 2;

/// A word that stands alone is a level, or the name of a part: one that nearly is a level would be taken for a part that
/// there is not, and nothing would be logged.
fn mistyped_level(word: &str) -> Option<(&str, &'static str)> {
    let word = word.trim();
    let is_plain = word.chars().all(|letter| letter.is_ascii_alphabetic());
    let lower = word.to_lowercase();
    if !is_plain || LEVELS.contains(&lower.as_str()) {
        return None;
    }
    let bound = LETTERS_MAX.min(word.len() / 2);
    nearest_within(&lower, LEVELS, bound).map(|level| (word, level))
}

/// Begins to log. A second call in one process changes nothing.
pub fn begin(config: &Config) -> Result<(), AppError> {
    // What the MCP library tells of every peer is a structure of its own, in full; we tell name and
    // version ourselves. Whoever names the library gets what it says.
    let quiet = if config.log.contains("rmcp") { "" } else { ",rmcp=warn" };
    let no_filter = |why| AppError::LogFilter { filter: config.log.clone(), why };
    if let Some((word, level)) = config.log.split(',').find_map(mistyped_level) {
        return Err(no_filter(format!("`{word}` is no level; did you mean `{level}`?")));
    }
    let filter = EnvFilter::try_new(format!("{}{quiet}", config.log))
        .map_err(|error| no_filter(error.to_string()))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_level_is_no_name_of_a_part() {
        for (word, level) in [("warm", "warn"), ("inf", "info"), ("debgu", "debug"), ("of", "off")]
        {
            assert_eq!(mistyped_level(word), Some((word, level)));
        }
        for word in ["info", "WARN", "off", "holdpoint", "hyper", "h2", "tonic", "holdpoint=debug"]
        {
            assert_eq!(mistyped_level(word), None, "{word}");
        }
    }
}
