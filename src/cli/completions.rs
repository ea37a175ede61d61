//! `holdpoint completions`: what a shell needs to complete the others.

use clap_complete::Shell;

use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint completions bash > ~/.local/share/bash-completion/completions/holdpoint
  holdpoint completions zsh > ~/.zfunc/_holdpoint
  holdpoint completions fish > ~/.config/fish/completions/holdpoint.fish")]
pub(super) struct Args {
    /// The shell
    pub shell: Shell,
}

/// Prints those of this command line.
pub(super) fn perform(args: &Args, mut command: clap::Command, ctx: &Ctx) -> Result<Exit, Trouble> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "holdpoint", &mut script);
    ctx.term.write(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
