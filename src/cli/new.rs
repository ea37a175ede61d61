//! `holdpoint new`: a workflow to begin with, and the script that plays its models. Asks three things where somebody
//! sits here, and writes two files that `check` is content with. It never writes over a file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::app::offline;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::term::{Input, line};

/// A name is typed in commands, and stands in addresses.
const NAME_CHARS_MAX: usize = 64;
/// What is written where nothing is said.
const ABOUT: &str = "Drafts a message, has a person approve it, and sends it.";

/// Write a workflow to begin with, and its script
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint new invoice
  holdpoint new reminder --about \"Writes an invoice\" --to ada,group:finance --editable
  holdpoint new bill && holdpoint dev

Writes NAME.yaml and NAME.script.yaml into the folder of the workflows. At a terminal it asks what
was not given.")]
pub(super) struct Args {
    /// The workflow's name: lower-case letters, digits, `_` and `-`
    pub name: String,
    /// What it does, in a sentence
    #[arg(long, value_name = "TEXT")]
    pub about: Option<String>,
    /// Who decides, separated by commas: people, `group:NAME`, `role:NAME`; whoever starts it if left out
    #[arg(long, value_name = "WHO")]
    pub to: Option<String>,
    /// Whoever decides may change the text first
    #[arg(long)]
    pub editable: bool,
}

/// Asks, and writes.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let is_letter =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    let begins_well = args.name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    if !begins_well || !args.name.bytes().all(is_letter) || args.name.len() > NAME_CHARS_MAX {
        let text = format!("NAME: `{}` is no name of a workflow", line(&args.name, 80));
        let hint =
            "small letters, digits, `_` and `-`, a letter first: `holdpoint new send_invoice`";
        return Err(Trouble::new(Exit::Usage, text).hint(hint));
    }
    let folder = &ctx.config.workflows;
    let paths = ["yaml", "script.yaml"].map(|end| folder.join(format!("{}.{end}", args.name)));
    if let Some(path) = paths.iter().find(|path| path.exists()) {
        return Err(taken(path));
    }
    let wished = asked(args, ctx).await?;
    let to = names(&wished.to)?;
    fs::create_dir_all(folder)?;
    let texts = [workflow(&wished, &to), script(&wished)];
    let mut written: Vec<&PathBuf> = Vec::new();
    for (path, text) in paths.iter().zip(&texts) {
        if let Err(error) = write(path, text) {
            // Half of it would be a broken file that somebody else has to explain.
            for path in written {
                drop(fs::remove_file(path));
            }
            return Err(if error.kind() == io::ErrorKind::AlreadyExists {
                taken(path)
            } else {
                error.into()
            });
        }
        written.push(path);
    }
    tell(ctx, &wished.name, &paths)
}

/// What a workflow is to be.
struct Wished {
    name: String,
    about: String,
    to: String,
    is_editable: bool,
}

/// Asks for what was not given, where somebody sits here.
async fn asked(args: Args, ctx: &Ctx) -> Result<Wished, Trouble> {
    let mut input = (ctx.term.is_interactive && !ctx.json).then(Input::new);
    let mut ask = async |words: &str, default: &str| -> Result<String, Trouble> {
        let Some(input) = &mut input else { return Ok(String::new()) };
        let paint = ctx.term.paint;
        let told = format!("{} {} {} ", paint.bold(words), paint.dim(default), paint.ask(">"));
        ctx.term.write(&told)?;
        let left = || Trouble::new(Exit::Interrupted, "left; nothing was written");
        Ok(input.next().await.ok_or_else(left)?.trim().to_owned())
    };
    let about = match args.about {
        Some(about) => about,
        None => ask("What does it do, in a sentence?", "(Enter: drafts and sends)").await?,
    };
    let to = match args.to {
        Some(to) => to,
        None => ask("Who decides?", "(a name, group:NAME; Enter: whoever starts it)").await?,
    };
    let mut is_editable = args.editable.then_some(true);
    while is_editable.is_none() {
        let said = ask("May they change the text first?", "(y or n; Enter: y)").await?;
        // A word that means nothing is asked again: whether a text may be changed is nothing to guess.
        is_editable = match said.to_lowercase().as_str() {
            "y" | "yes" => Some(true),
            "n" | "no" => Some(false),
            "" => Some(ctx.term.is_interactive && !ctx.json),
            _ => None,
        };
    }
    let is_editable = is_editable.unwrap_or_default();
    let about = if about.is_empty() { ABOUT.to_owned() } else { about };
    Ok(Wished { name: args.name, about, to, is_editable })
}

/// Those who decide, each of whom can be asked.
fn names(to: &str) -> Result<Vec<String>, Trouble> {
    let named: Vec<_> = to.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b".-_@".contains(&byte);
    for name in &named {
        let bare = name.strip_prefix("group:").or_else(|| name.strip_prefix("role:"));
        let bare = bare.unwrap_or(name);
        if bare.is_empty() || !bare.bytes().all(is_letter) {
            let text = format!("--to: `{}` is nobody's name", line(name, 80));
            let hint = "a person's name, `group:NAME` or `role:NAME`, separated by commas";
            return Err(Trouble::new(Exit::Usage, text).hint(hint));
        }
    }
    Ok(named.into_iter().map(str::to_owned).collect())
}

fn workflow(wished: &Wished, to: &[String]) -> String {
    let Wished { name, about, is_editable, .. } = wished;
    // JSON's texts are YAML's, whatever stands in them.
    let described = json!(about);
    let to = match to {
        [] => "        # to: [ada, group:finance]      # who decides; whoever started it, where nobody is named\n"
            .to_owned(),
        some => format!("        to: {}\n", json!(some)),
    };
    let editable = if *is_editable {
        "        editable: true                # whoever decides may change the text; that version goes on\n"
    } else {
        "        # editable: true              # whoever decides may change the text; that version goes on\n"
    };
    format!(
        "# holdpoint run {name} \"Tell the customer that the order has shipped.\"
# holdpoint check              says what is wrong with this file, with its line
# holdpoint dev                takes it as you change it, and shows what happens
name: {name}
description: {described}

# Who speaks. The script beside this file plays it: no key, no cost. A real one instead:
#   default: {{provider: openai_responses, model: gpt-5-mini}}      (docs/models.md)
models:
  default: {{provider: scripted, script: {name}.script.yaml}}

agents:
  writer:
    instructions: Draft the message that the user asks for. Answer with the draft only.
    human_input: false          # asks nobody by itself

# What can be done in the world. This one only says that it was done; an HTTP call instead:
#   provider: http
#   settings: {{method: POST, url: \"https://example.com/messages\"}}      (docs/tools.md)
tools:
  send:
    provider: scripted
    description: Sends a message.
    parameters: {{type: object, properties: {{text: {{type: string}}}}, required: [text]}}
    settings: {{returns: \"Sent: {{{{text}}}}\"}}

pattern: graph
graph:
  steps:
    - id: draft
      agent: writer
    - id: approve
      human:
        kind: approval
        prompt: Send this message?
        show: ${{steps.draft}}          # what is decided; it is shown whole, and frozen
{to}{editable}    - id: send
      tool: send
      # What was approved, letter for letter, and not what an agent makes of it.
      arguments: {{text: \"${{steps.approve.subject}}\"}}
"
    )
}

fn script(wished: &Wished) -> String {
    let name = &wished.name;
    format!(
        "# What the models of {name} say while there are none. The first rule that fits speaks.
rules:
  - agent: writer
    say: \"Dear customer, {{{{first_user}}}}\"
"
    )
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())
}

fn taken(path: &Path) -> Trouble {
    let path = line(&path.display().to_string(), 400);
    Trouble::new(Exit::Refused, format!("`{path}` is there already, and is not written over"))
        .hint("choose another name, or move that file away")
}

/// Says what was written, and what `check` says of it.
fn tell(ctx: &Ctx, name: &str, paths: &[PathBuf; 2]) -> Result<Exit, Trouble> {
    let checked = offline::check(&ctx.config, &paths[..1]);
    let problems: Vec<_> = checked.iter().flat_map(|file| &file.problems).collect();
    if ctx.json {
        let files = paths.each_ref().map(|path| path.display().to_string());
        let text = json!({"workflow": name, "files": files, "is_ok": problems.is_empty()});
        ctx.term.line(&text.to_string())?;
    } else {
        for path in paths {
            ctx.term.line(&format!("wrote {}", line(&path.display().to_string(), 400)))?;
        }
        for problem in &problems {
            ctx.term.note(&problem.shown);
        }
        for note in checked.iter().flat_map(|file| &file.notes) {
            ctx.term.note(&ctx.term.paint_error.warn(&line(note, 600)));
        }
        ctx.term.note(&format!("try it: holdpoint run {name} \"…\", or holdpoint dev"));
    }
    Ok(if problems.is_empty() { Exit::Done } else { Exit::Failed })
}
