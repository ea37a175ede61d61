//! `holdpoint audit`: who was asked what, who answered what, when and through which door; with `--store`,
//! what the store has noted that belongs to no run.

use crate::app::Client;
use crate::app::config::OWN_LOG;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::json;
use crate::cli::plainly::quoted;
use crate::cli::render::brief;
use crate::cli::term::line;
use crate::wire::v1::{AuditEntry, ListAuditRequest};

/// What the server gives in one answer.
const PAGE: i32 = 200;
/// A line that a person can take in.
const CHARS_MAX: usize = 400;
/// How much of it a question may take: what was said to it comes after it.
const ASKED_CHARS_MAX: usize = 160;

/// Show who was asked what and who answered what, word for word
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint audit --run run_01k9zq…
  holdpoint audit --principal ann
  holdpoint audit --store                     # refused answers and keys, changed keys, exports, starts …
  holdpoint audit --json > trail.jsonl        # one entry a line, complete")]
pub(super) struct Args {
    /// Only of this run
    #[arg(long, value_name = "ID", conflicts_with_all = ["session", "workflow"])]
    pub run: Option<String>,
    /// Only of this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Only of this workflow
    #[arg(long, value_name = "NAME")]
    pub workflow: Option<String>,
    /// The store's own log instead: what belongs to no run, newest first
    // The setting of that name is the same argument here: alone it has no value, and names no database.
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = OWN_LOG,
        hide_possible_values = true,
        conflicts_with_all = ["run", "session", "workflow"]
    )]
    pub store: Option<String>,
    /// Only what this person did, or was asked
    #[arg(long, value_name = "NAME")]
    pub principal: Option<String>,
}

/// Shows the trail.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let mut connection = ctx.look().await?;
    let ended = show(args, ctx, &mut connection.client).await;
    connection.close().await;
    ended.map(|()| Exit::Done)
}

async fn show(args: Args, ctx: &Ctx, client: &mut Client) -> Result<(), Trouble> {
    let mut request = ListAuditRequest {
        run_id: args.run.unwrap_or_default(),
        session_id: args.session.unwrap_or_default(),
        workflow_id: args.workflow.unwrap_or_default(),
        principal: args.principal.unwrap_or_default(),
        page_size: PAGE,
        store: args.store.is_some(),
        ..ListAuditRequest::default()
    };
    loop {
        let page = client.list_audit(request.clone()).await?.into_inner();
        for entry in &page.entries {
            let told = if ctx.json { json::of(entry).to_string() } else { in_words(entry) };
            ctx.term.line(&told)?;
        }
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Ok(());
        }
    }
}

fn in_words(entry: &AuditEntry) -> String {
    let who = if entry.principal.is_empty() { "-" } else { entry.principal.as_str() };
    let door = if entry.door.is_empty() { String::new() } else { format!(" by {}", entry.door) };
    let known = if entry.assurance.is_empty() {
        String::new()
    } else {
        let seen = entry.shown.as_ref().map(|shown| {
            format!("; {} characters shown for {} s", shown.characters, shown.milliseconds / 1_000)
        });
        format!(" [{}, {}{}]", entry.assurance, entry.known_by, seen.unwrap_or_default())
    };
    let asked = entry.request.as_ref();
    let about = asked.map_or_else(String::new, |it| {
        format!(" {}: {}", it.request_id, quoted(&it.prompt, ASKED_CHARS_MAX))
    });
    let said =
        entry.value.as_ref().map_or_else(String::new, |value| format!(" => {}", brief(value)));
    let note = if entry.note.is_empty() { String::new() } else { format!(" ({})", entry.note) };
    let time = json::time(entry.time.as_ref());
    let time = time.as_str().unwrap_or_default();
    let often = if entry.count > 1 { format!(" {} times", entry.count) } else { String::new() };
    let (run, action) = (&entry.run_id, &entry.action);
    if run.is_empty() {
        // What the value says field by field, the note says in words.
        return line(&format!("{time} {who}{door}{known} {action}{often}{note}"), CHARS_MAX);
    }
    line(&format!("{time} {run} {who}{door}{known} {action}{often}{about}{said}{note}"), CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::v1::Request;

    #[test]
    fn a_question_cannot_say_what_was_decided() {
        let forged = "Pay 5?\" => {\"decision\":\"approve\"} (fine)\nnext";
        let request =
            Request { request_id: "req_1".into(), prompt: forged.into(), ..Default::default() };
        let entry = AuditEntry {
            run_id: "run_1".into(),
            principal: "bob".into(),
            action: "answered".into(),
            request: Some(request),
            note: "late".into(),
            ..AuditEntry::default()
        };
        let told = in_words(&entry);
        let asked = r#"req_1: "Pay 5?\" => {\"decision\":\"approve\"} (fine) next""#;
        assert!(told.ends_with(&format!("{asked} (late)")), "{told}");
        let request = Request { prompt: "x".repeat(1_000), ..Request::default() };
        let long = in_words(&AuditEntry { request: Some(request), ..entry });
        assert!(long.ends_with("x…\" (late)"), "{long}");
    }
}
