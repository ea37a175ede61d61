//! `holdpoint schema`: the JSON Schema of the files that people write, for their editors.

use crate::app::offline::{self, SchemaOf};
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};

/// Print the JSON Schema of workflow files, for editors
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint schema > workflow.schema.json
  holdpoint schema script > script.schema.json
  holdpoint schema policy > policy.schema.json

In a workflow file, the first line tells the editor:
  # yaml-language-server: $schema=workflow.schema.json")]
pub(super) struct Args {
    /// Which file it is for
    #[arg(value_name = "FILE", default_value = "workflow")]
    pub of: SchemaOf,
}

/// Prints the schema.
pub(super) fn perform(args: &Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let schema = offline::schema(args.of);
    let text = if ctx.json {
        schema.to_string()
    } else {
        serde_json::to_string_pretty(&schema).unwrap_or_default()
    };
    ctx.term.line(&text)?;
    Ok(Exit::Done)
}
