//! `holdpoint check`: whether workflow files are right, and where they are not.

use std::path::PathBuf;

use serde_json::json;

use crate::app::counted;
use crate::app::offline::{self, Checked, Problem};
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::term::{line, plain};

/// Check workflow files: every problem with its line and remedy
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint check                    # the files in ./workflows
  holdpoint check flows/*.yaml --json
  holdpoint check --policy policy.yaml # the same, and the operator's policy against them

Ends with 1 if anything is wrong. A warning is nothing wrong: it says where words, or something that was
not shown, come to a deed without anybody's yes.")]
pub(super) struct Args {
    /// Files and folders; the configured folder if left out
    pub paths: Vec<PathBuf>,
}

/// Checks.
pub(super) fn perform(args: &Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let checked = offline::check(&ctx.config, &args.paths);
    let wrong = checked.iter().filter(|file| !file.problems.is_empty()).count();
    if ctx.json {
        let files: Vec<_> = checked.iter().map(as_json).collect();
        ctx.term.line(&json!({"files": files}).to_string())?;
    } else {
        tell(&checked, ctx)?;
        ctx.term.note(&format!(
            "{} checked, {wrong} with problems",
            counted(checked.len() as u64, "file")
        ));
    }
    Ok(if wrong == 0 { Exit::Done } else { Exit::Failed })
}

fn tell(checked: &[Checked], ctx: &Ctx) -> Result<(), Trouble> {
    let paint = ctx.term.paint;
    for file in checked {
        for problem in &file.problems {
            ctx.term.line(&format!("{}\n", plain(problem.shown.trim_end())))?;
        }
        for warning in &file.warnings {
            let shown = format!("warning: {}\n", plain(warning.shown.trim_end()));
            ctx.term.note(&ctx.term.paint_error.warn(&shown));
        }
        for note in &file.notes {
            let path = line(&file.path.display().to_string(), 400);
            ctx.term.note(&ctx.term.paint_error.warn(&line(&format!("{path}: {note}"), 600)));
        }
        if file.problems.is_empty() {
            let name = line(file.workflow.as_deref().unwrap_or("the policy"), 64);
            let path = line(&file.path.display().to_string(), 400);
            ctx.term.line(&format!("{}  {path}  {}", paint.good("ok"), paint.dim(&name)))?;
        }
    }
    Ok(())
}

fn as_json(file: &Checked) -> serde_json::Value {
    let told = |problem: &Problem| {
        json!({
            "line": problem.line,
            "column": problem.column,
            "code": problem.code,
            "message": problem.message,
            "hint": problem.hint,
        })
    };
    json!({
        "path": file.path.display().to_string(),
        "workflow": file.workflow,
        "problems": file.problems.iter().map(told).collect::<Vec<_>>(),
        "warnings": file.warnings.iter().map(told).collect::<Vec<_>>(),
        "notes": file.notes,
    })
}
