//! `holdpoint sessions`: the conversations there are, or one of them.

use serde_json::json as literal;

use crate::app::Client;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::inbox::{LIMIT, page_size};
use crate::cli::json;
use crate::cli::numbers::at_least_one;
use crate::cli::render::{date, question};
use crate::cli::runs;
use crate::cli::term::line;
use crate::wire::v1::{GetSessionRequest, ListSessionsRequest, Session};

/// List sessions, or show one with its runs and what it waits for
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint sessions
  holdpoint sessions party
  holdpoint sessions party --json | jq .session.workflow_waiting")]
pub(super) struct Args {
    /// The session to show
    pub session: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = LIMIT, value_parser = at_least_one)]
    pub limit: usize,
}

/// Lists or shows.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let mut connection = ctx.look().await?;
    let ended = match args.session {
        Some(session_id) => show(session_id, ctx, &mut connection.client).await,
        None => list(args.limit, ctx, &mut connection.client).await,
    };
    connection.close().await;
    ended.map(|()| Exit::Done)
}

async fn show(session_id: String, ctx: &Ctx, client: &mut Client) -> Result<(), Trouble> {
    let found = client.get_session(GetSessionRequest { session_id }).await?.into_inner();
    let Some(session) = found.session else {
        return Err(Trouble::new(Exit::Failed, "the server answered without a session"));
    };
    if ctx.json {
        let all = json::all(&found.runs);
        let shown = literal!({"session": json::of(&session), "runs": all});
        return ctx.term.line(&shown.to_string());
    }
    let name = ctx.term.paint.bold(&line(&session.session_id, 128));
    ctx.term.line(&format!(
        "{name}  of {}, since {}",
        line(&session.owner, 64),
        since(&session)
    ))?;
    ctx.term.write(&runs::rows(ctx.term, &found.runs))?;
    for request in session.workflow_waiting.iter().flat_map(|waiting| &waiting.requests) {
        ctx.term.write(&format!("\n{}", question(ctx.term.paint, request)))?;
    }
    Ok(())
}

async fn list(limit: usize, ctx: &Ctx, client: &mut Client) -> Result<(), Trouble> {
    let mut sessions: Vec<Session> = Vec::new();
    let mut page_token = String::new();
    loop {
        let page_size = page_size(limit - sessions.len().min(limit));
        let request = ListSessionsRequest { page_size, page_token };
        let page = client.list_sessions(request).await?.into_inner();
        sessions.extend(page.sessions);
        page_token = page.next_page_token;
        if page_token.is_empty() || sessions.len() >= limit {
            break;
        }
    }
    sessions.truncate(limit);
    if ctx.json {
        let all = json::all(&sessions);
        return ctx
            .term
            .line(&literal!({"sessions": all, "more": !page_token.is_empty()}).to_string());
    }
    if sessions.is_empty() {
        return ctx.term.line("there are no sessions; `holdpoint run WORKFLOW \"…\"` begins one");
    }
    let mut rows = vec![["SESSION", "OWNER", "SINCE", "WAITS FOR"].map(str::to_owned).to_vec()];
    rows.extend(sessions.iter().map(|session| {
        let waiting = session.workflow_waiting.iter().flat_map(|waiting| &waiting.requests);
        let prompt = waiting.map(|request| line(&request.prompt, 72)).next();
        let (id, owner) = (line(&session.session_id, 128), line(&session.owner, 64));
        vec![id, owner, since(session), prompt.unwrap_or_default()]
    }));
    ctx.term.write(&ctx.term.table(&rows, &[1]))?;
    if !page_token.is_empty() {
        ctx.term.note("there are more; --limit shows them");
    }
    Ok(())
}

fn since(session: &Session) -> String {
    session.started_at.as_ref().and_then(json::timestamp).map(date).unwrap_or_default()
}
