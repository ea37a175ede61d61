//! `holdpoint inbox`: everything that waits for somebody.

use serde_json::json as literal;

use crate::app::config::Origin;
use crate::app::{Connection, SystemClock};
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::json;
use crate::cli::numbers::{at_least_one, length};
use crate::cli::people;
use crate::cli::render::{self, moment as moment_of, question};
use crate::cli::respond;
use crate::cli::suggest;
use crate::cli::talk::{self, Interaction, Talk};
use crate::cli::term::line;
use crate::cli::{READ_AS_LOCAL, halt, handles};
use crate::ports::Clock as _;
use crate::wire::v1::watch_requests_response::Change;
use crate::wire::v1::{ListRequestsRequest, Request, RequestKind, WatchRequestsRequest};

/// What a person can look through at once.
pub(super) const LIMIT: usize = 50;
/// What the server gives in one answer.
pub(super) const PAGE: usize = 100;

/// Show everything that waits for an answer
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint inbox
  holdpoint inbox 1                               # the first of the last inbox, whole
  holdpoint inbox req_01k9zq…-2                   # one of them, whole
  holdpoint inbox --workflow event_planning --kind approval
  holdpoint inbox --type expense_report
  holdpoint inbox --watch --json")]
pub(super) struct Args {
    /// Show this one whole: what is decided, its facts, who is asked
    #[arg(value_name = "REQUEST", conflicts_with_all = ["watch", "session", "workflow", "kind", "request_type", "to", "due", "waiting"])]
    pub request_id: Option<String>,
    /// Stay, and show every change
    #[arg(long)]
    pub watch: bool,
    /// Only of this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Only of this workflow
    #[arg(long, value_name = "NAME")]
    pub workflow: Option<String>,
    /// Only of this kind
    #[arg(long, value_name = "KIND", conflicts_with = "watch", value_parser = kind)]
    pub kind: Option<RequestKind>,
    /// Only of this request type, by the name that its workflow's file gives it
    #[arg(long = "type", value_name = "NAME")]
    pub request_type: Option<String>,
    /// Only what this person may answer: by name, by a group or role, or as the run's owner
    #[arg(long, value_name = "NAME")]
    pub to: Option<String>,
    /// Only with a deadline within this time, such as `2h`
    #[arg(long, value_name = "TIME", conflicts_with = "watch", value_parser = length)]
    pub due: Option<u64>,
    /// Only what has waited for this long, such as `1d`
    #[arg(long, value_name = "TIME", conflicts_with = "watch", value_parser = length)]
    pub waiting: Option<u64>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = LIMIT, value_parser = at_least_one)]
    pub limit: usize,
}

impl Args {
    /// Whether only some of what waits is asked for.
    fn narrows(&self) -> bool {
        let words = [&self.session, &self.workflow, &self.request_type, &self.to];
        words.iter().any(|word| word.is_some())
            || self.kind.is_some()
            || self.due.is_some()
            || self.waiting.is_some()
    }
}

fn now_ms() -> u64 {
    SystemClock.now().0
}

fn moment(ms: u64) -> prost_types::Timestamp {
    let seconds = i64::try_from(ms / 1_000).unwrap_or(i64::MAX);
    prost_types::Timestamp { seconds, nanos: 0 }
}

/// Shows the inbox.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let mut connection = ctx.look().await?;
    let ended = if let Some(name) = &args.request_id {
        show(name, ctx, &mut connection).await
    } else if args.watch {
        watch(args, ctx, &mut connection).await
    } else {
        list(args, ctx, &mut connection).await
    };
    connection.close().await;
    ended.map(|()| Exit::Done)
}

/// Shows one question whole, and how it is answered.
async fn show(name: &str, ctx: &Ctx, connection: &mut Connection) -> Result<(), Trouble> {
    let name = &handles::request(&ctx.config, name)?;
    let found = respond::listed(name, &mut connection.client).await?;
    let mut request = found.ok_or_else(|| respond::not_open(name))?;
    talk::unveil_for(true, &mut request, ctx, &mut connection.client).await;
    if ctx.json {
        let mut shown = json::of(&request);
        (shown["halts"], shown["store_held"]) = halt::standing(&mut connection.client).await;
        return ctx.term.line(&shown.to_string());
    }
    halt::tell_standing(ctx, &mut connection.client).await;
    let quiet = Interaction { interactive: false, no_input: true };
    Talk::new(ctx, &mut connection.client, quiet).asked_alone(&request).await.map(drop)
}

async fn list(args: Args, ctx: &Ctx, connection: &mut Connection) -> Result<(), Trouble> {
    let mut requests: Vec<Request> = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = ListRequestsRequest {
            session_id: args.session.clone().unwrap_or_default(),
            workflow_id: args.workflow.clone().unwrap_or_default(),
            kind: args.kind.unwrap_or_default().into(),
            page_size: page_size(args.limit - requests.len().min(args.limit)),
            page_token,
            principal: args.to.clone().unwrap_or_default(),
            deadline_before: args.due.map(|ms| moment(now_ms().saturating_add(ms))),
            asked_before: args.waiting.map(|ms| moment(now_ms().saturating_sub(ms))),
            r#type: args.request_type.clone().unwrap_or_default(),
        };
        let page = connection.client.list_requests(request).await?.into_inner();
        requests.extend(page.requests);
        page_token = page.next_page_token;
        if page_token.is_empty() || requests.len() >= args.limit {
            break;
        }
    }
    requests.truncate(args.limit);
    if ctx.json {
        let (all, more) = (json::all(&requests), !page_token.is_empty());
        let (halts, held) = halt::standing(&mut connection.client).await;
        let shown = literal!({"requests": all, "more": more, "halts": halts, "store_held": held});
        return ctx.term.line(&shown.to_string());
    }
    let has_numbers = handles::keep(&ctx.config, &requests);
    if requests.is_empty() {
        let place = line(&connection.place, 400);
        let what = if args.narrows() { "nothing of that kind waits" } else { "nothing waits" };
        ctx.term.line(&format!("{what} in {place}"))?;
        if let Some(name) = &args.request_type
            && let Some(hint) = suggest::request_type(name, &mut connection.client).await
        {
            ctx.term.note(&hint);
        }
        if let Some(name) = &args.workflow
            && let Some(hint) = suggest::listed_workflow(name, &mut connection.client).await
        {
            ctx.term.note(&hint);
        }
        tell_whose(ctx, connection);
        halt::tell_standing(ctx, &mut connection.client).await;
        return Ok(());
    }
    let heading = ["#", "REQUEST", "KIND", "WORKFLOW", "UNTIL", "QUESTION"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend((1..).zip(&requests).map(row));
    // By its number a request is found without its id.
    let spare: &[usize] = if has_numbers { &[1, 3] } else { &[3] };
    if !has_numbers {
        for row in &mut rows {
            row[0].clear();
        }
    }
    ctx.term.write(&ctx.term.table(&rows, spare))?;
    tell_how(ctx, &requests, has_numbers);
    tell_whose(ctx, connection);
    halt::tell_standing(ctx, &mut connection.client).await;
    if !page_token.is_empty() {
        ctx.term.note("there are more; --limit shows them");
    }
    Ok(())
}

async fn watch(args: Args, ctx: &Ctx, connection: &mut Connection) -> Result<(), Trouble> {
    let request = WatchRequestsRequest {
        session_id: args.session.unwrap_or_default(),
        workflow_id: args.workflow.unwrap_or_default(),
        principal: args.to.unwrap_or_default(),
        r#type: args.request_type.unwrap_or_default(),
        ..WatchRequestsRequest::default()
    };
    let mut stream = connection.client.watch_requests(request).await?.into_inner();
    while let Some(next) = stream.message().await? {
        let Some(change) = next.change else { continue };
        let text = match &change {
            Change::Opened(request) if ctx.json => {
                literal!({"type": "opened", "opened": json::of(request)}).to_string()
            }
            Change::Closed(closed) if ctx.json => {
                literal!({"type": "closed", "closed": json::of(closed)}).to_string()
            }
            Change::CaughtUp(_) if ctx.json => literal!({"type": "caught_up"}).to_string(),
            Change::Opened(request) => question(ctx.term.paint, request).trim_end().to_owned(),
            Change::Closed(closed) => {
                let text = format!("{} {} {}", closed.request_id, closed.how, closed.principal);
                ctx.term.paint.dim(&line(&text, 160))
            }
            Change::CaughtUp(_) if ctx.looks_at_database() => {
                ctx.term.paint.dim("that is all; what changes is told by a server (--server)")
            }
            Change::CaughtUp(_) if connection.embedded => {
                ctx.term.paint.dim("that is all: nothing changes while no server works here")
            }
            Change::CaughtUp(_) => ctx.term.paint.dim("that is all for now; what changes follows"),
        };
        ctx.term.line(&text)?;
        if connection.embedded && matches!(change, Change::CaughtUp(_)) {
            break;
        }
    }
    Ok(())
}

/// Says how one of them is shown whole, and how one is answered. What lies in a database is answered at servers alone.
fn tell_how(ctx: &Ctx, requests: &[Request], has_numbers: bool) {
    let mut again = ctx.again();
    if ctx.config.origin("store") == Origin::Flag {
        // Whoever gave the address knows it; it may have a password in it.
        again.push_str(" --store URL");
    }
    let theirs = requests.iter().position(|request| request.admits_you != Some(false));
    let theirs = theirs.filter(|_| !ctx.looks_at_database());
    ctx.term.note(&how(theirs, has_numbers, &again));
}

/// How one is shown whole, and how the first that is for whoever reads this is answered, if one is.
fn how(theirs: Option<usize>, has_numbers: bool, again: &str) -> String {
    let called = |place: usize| {
        if has_numbers { (place + 1).to_string() } else { "REQUEST".to_owned() }
    };
    let one = called(theirs.unwrap_or(0));
    let answered = theirs.map(|_| format!(", holdpoint respond {one}{again} asks it"));
    format!("holdpoint inbox {one}{again} shows one whole{}", answered.unwrap_or_default())
}

/// Says whose inbox it is, where that is not plain: without a server everybody at this machine is `local`,
/// whatever key they have.
fn tell_whose(ctx: &Ctx, connection: &Connection) {
    if ctx.looks_at_database() {
        // Who has shown a key was told before anything else.
        if ctx.config.api_key.is_none() {
            ctx.term.note(READ_AS_LOCAL);
        }
        return;
    }
    let has_people = ctx.config.keys_path().exists() || !ctx.config.people.is_empty();
    if connection.embedded && has_people {
        ctx.term.note(
            "no server works here, so you are `local`: what others are asked is for them to answer, with \
             their keys, at `holdpoint serve`",
        );
    }
}

fn row((number, request): (usize, &Request)) -> Vec<String> {
    let standing = people::standing(request, people::now());
    let prompt = match people::title(request) {
        Some(title) => format!("{title}: {}", request.prompt),
        None => request.prompt.clone(),
    };
    // Enough to tell it from its neighbours, never enough to decide on.
    let excerpt = render::subject(request).map(|subject| format!("\"{}\"", line(&subject, 60)));
    let asked = people::others(request).into_iter().chain([prompt]).chain(excerpt);
    let asked = asked.chain(people::escalated(request)).chain(standing).collect::<Vec<_>>();
    vec![
        number.to_string(),
        line(&request.request_id, 64),
        json::kind(request.kind),
        line(&request.workflow_id, 32),
        until(request),
        line(&asked.join(" · "), 160),
    ]
}

/// Until when it can be answered, or that it cannot be now.
fn until(request: &Request) -> String {
    let deadline = request.deadline.as_ref().and_then(json::timestamp);
    match request.stands_with_ms_left {
        Some(left) => format!("halted, {} left", people::length(left)),
        None if request.halted => "halted".to_owned(),
        None => deadline.map(moment_of).unwrap_or_default(),
    }
}

/// The size of the next page, when `left` are still wanted.
pub(super) fn page_size(left: usize) -> i32 {
    i32::try_from(left.clamp(1, PAGE)).unwrap_or(1)
}

fn kind(word: &str) -> Result<RequestKind, String> {
    RequestKind::from_str_name(&format!("REQUEST_KIND_{}", word.to_uppercase()))
        .filter(|kind| *kind != RequestKind::Unspecified)
        .ok_or_else(|| {
            "clarification, selection, approval, plan_review, tool_approval or outcome_check".into()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_offered_to_what_is_for_whoever_reads_and_to_nothing_else() {
        assert_eq!(
            how(Some(0), true, " --data d"),
            "holdpoint inbox 1 --data d shows one whole, holdpoint respond 1 --data d asks it"
        );
        assert!(how(Some(2), true, "").ends_with("holdpoint respond 3 asks it"));
        assert!(how(Some(2), false, "").ends_with("holdpoint respond REQUEST asks it"));
        assert_eq!(how(None, true, ""), "holdpoint inbox 1 shows one whole");
    }

    #[test]
    fn a_question_that_is_halted_says_so_with_a_deadline_and_without() {
        let open = Request::default();
        assert_eq!(until(&open), "");
        let halted = Request { halted: true, ..open };
        assert_eq!(until(&halted), "halted");
        let late = Request { stands_with_ms_left: Some(7_200_000), ..halted };
        assert!(until(&late).starts_with("halted, ") && until(&late).ends_with(" left"));
    }
}
