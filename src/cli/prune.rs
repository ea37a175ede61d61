//! `holdpoint prune`: forgets runs that have long been over.

use serde_json::json;

use crate::app::counted;
use crate::app::offline;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};

/// Forget runs that were over long ago
///
/// A session goes with its last run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint prune --older-than 30d
  holdpoint prune --older-than 12h --json

Runs that wait or move are never touched, nor is any run of a session that has one: they may
remember it. There is no way back; `holdpoint export` first.")]
pub(super) struct Args {
    /// How long ago they must have ended: `90m`, `12h`, `30d`, `8w`
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub older_than: u64,
}

/// Prunes.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let pruned = offline::prune(&ctx.config, args.older_than).await?;
    let text = if ctx.json {
        json!({"pruned": pruned, "store": offline::bare_place(&ctx.config)}).to_string()
    } else {
        let place = offline::place(&ctx.config);
        let verb = if pruned == 1 { "is" } else { "are" };
        format!("{} {verb} forgotten in {place}", counted(pruned, "run"))
    };
    ctx.term.line(&text)?;
    Ok(Exit::Done)
}

/// An age in milliseconds. A bare number is refused: nobody should lose runs to a wrong unit.
fn age(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|char: char| !char.is_ascii_digit());
    let minutes: u64 = match text.strip_prefix(digits) {
        Some("m") => 1,
        Some("h") => 60,
        Some("d") => 24 * 60,
        Some("w") => 7 * 24 * 60,
        Some(_) | None => return Err("write a number and a unit: `90m`, `12h`, `30d`, `8w`".into()),
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|count| count.checked_mul(minutes * 60_000))
        .ok_or_else(|| "this is not an age".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_needs_its_unit() {
        assert_eq!(age("90m"), Ok(5_400_000));
        assert_eq!(age("30d"), Ok(30 * 86_400_000));
        for wrong in ["30", "d", "", "-1d", "1.5h", "30 d", "99999999999999999w", "1y"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
