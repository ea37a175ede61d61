//! `holdpoint exit-codes`: what scripts rely on.

use serde_json::json;

use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};

/// List the exit codes that scripts rely on
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint exit-codes

  holdpoint run approve_and_send \"…\"
  case $? in 0) echo done ;; 4) echo waits ;; *) echo trouble ;; esac

    0  it did what was asked; for a run: it completed
    1  it could not
    2  the arguments or the settings make no sense
    3  the run failed or was cancelled
    4  the run waits for an answer, or stands at a halt
    5  there is no such thing, or it is not yours
    6  refused: an answer that does not fit, a run that is over, no right to it
    7  the server does not answer
  130  interrupted with Ctrl-C; a run that was under way goes on")]
pub(super) struct Args {}

/// Lists them.
pub(super) fn perform(args: &Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let Args {} = args;
    if ctx.json {
        let all =
            Exit::ALL.map(|exit| json!({"exit_code": exit.number(), "meaning": exit.meaning()}));
        ctx.term.line(&json!({"exit_codes": all}).to_string())?;
        return Ok(Exit::Done);
    }
    for exit in Exit::ALL {
        ctx.term.line(&format!("{:>3}  {}", exit.number(), exit.meaning()))?;
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;

    #[test]
    fn the_help_and_the_table_say_the_same() {
        let command = Args::augment_args(clap::Command::new("exit-codes"));
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for exit in Exit::ALL {
            let row = format!("{:>5}  {}", exit.number(), exit.meaning());
            assert!(help.contains(&row), "{row}");
        }
    }
}
