//! `holdpoint respond`: answers one question, from a script or from another machine.

use std::collections::HashMap;

use serde_json::Value;

use crate::app::{Client, SystemClock};
use crate::cli::Ctx;
use crate::cli::answer::{self, Meaning};
use crate::cli::editor::{self, Edited};
use crate::cli::exit::{Exit, Trouble};
use crate::cli::follow::{Follow, Telling, sent};
use crate::cli::handles::{self, Handle};
use crate::cli::people::{self, Sight};
use crate::cli::render::Audience;
use crate::cli::run::parse_json;
use crate::cli::talk::{self, Interaction, Talk};
use crate::cli::term::line;
use crate::cli::{halt, json};
use crate::kernel::RequestId;
use crate::ports::Clock as _;
use crate::wire::v1::{GetRunRequest, ListRequestsRequest, Request, SendResponsesRequest, Shown};

/// Answer a question, and follow what comes of it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint respond 1                             # shows the first of the last inbox, and asks
  holdpoint respond 1 approve                     # decides what that inbox showed, or nothing
  holdpoint respond req_01k9zq…-1 \"Pier 66\"
  holdpoint respond req_01k9zq…-2 yes
  holdpoint respond req_01k9zq…-2 no --note \"too expensive\"
  holdpoint respond req_01k9zq…-2 edit            # opens $EDITOR; what you leave there is approved once you say so
  holdpoint respond req_01k9zq…-2 return --note \"name the price\"
  holdpoint respond req_01k9zq…-3 --json-value '{\"guests\": 30}' --json

An option may be given by number, an approval as yes or no, or as return where it may be changed and
asked anew. Whatever is not clearly a yes is refused. A number of the inbox stands for the request as
that inbox showed it: if something else is asked by now, nothing is decided.")]
pub(super) struct Args {
    /// The question, by its id or its number in the last `holdpoint inbox`
    #[arg(value_name = "REQUEST")]
    pub request_id: String,
    /// What you say; left out, the question is shown whole and asked
    #[arg(conflicts_with = "json_value")]
    pub answer: Option<String>,
    /// What you say, as JSON
    #[arg(long, value_name = "JSON")]
    pub json_value: Option<String>,
    /// Why, with a yes or a no
    #[arg(long, value_name = "TEXT", conflicts_with = "json_value")]
    pub note: Option<String>,
    /// The digest of what you were shown: refused if something else is asked by now
    #[arg(long, value_name = "DIGEST")]
    pub digest: Option<String>,
    /// An idempotency key: the same answer with the same key again changes nothing
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

/// Answers.
pub(super) async fn perform(mut args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let handle = handles::meant(&ctx.config, &args.request_id)?;
    if let Some(handle) = &handle {
        args.request_id.clone_from(&handle.request_id);
    }
    let id = RequestId::parse(&args.request_id).map_err(|error| {
        let hint = if is_code(&args.request_id) {
            "a code goes with words in the conversation that it was shown in; here, name the request: \
             `holdpoint inbox` shows what is open"
        } else {
            "`holdpoint inbox` shows what is open"
        };
        Trouble::new(Exit::Usage, error.to_string()).hint(hint)
    })?;
    let mut connection = ctx.connect_to_existing().await?;
    let stays = connection.embedded;
    let ended = answer(args, (id, handle), ctx, (&mut connection.client, stays)).await;
    connection.close().await;
    ended
}

/// The codes that are printed with decisions: a few capital letters.
fn is_code(text: &str) -> bool {
    (4..=8).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

async fn answer(
    args: Args,
    (id, handle): (RequestId, Option<Handle>),
    ctx: &Ctx,
    (client, stays): (&mut Client, bool),
) -> Result<Exit, Trouble> {
    let mut asked = asked(&id, &args.request_id, client).await?;
    let is_look = args.answer.is_none() && args.json_value.is_none();
    if let Some(request) = &mut asked.request {
        talk::unveil_for(is_look, request, ctx, client).await;
    }
    // A number decides what it was shown for, and nothing that is asked by now (K9).
    let bound = handle.map(|handle| handle.digest);
    let Some(given) = given(&args, (asked.request.as_ref(), bound), ctx, client).await? else {
        return Ok(Exit::Waiting);
    };
    let Given { value, digest, shown, unclear } = given;
    let digests = digest.filter(|digest| !digest.is_empty());
    let digests = digests.map(|digest| (args.request_id.clone(), digest));
    let request = SendResponsesRequest {
        session_id: String::new(),
        run_id: String::new(),
        responses: HashMap::from([(args.request_id.clone(), value.into())]),
        idempotency_key: args.key.unwrap_or_else(|| SystemClock.fresh_stem()),
        digests: digests.into_iter().collect(),
        // Told by its id alone, what was shown, and where, is not known here.
        shown,
    };
    ctx.followed.set(id.run.as_str());
    let sent = sent(client, request).await.map_err(|trouble| in_words(trouble, unclear))?;
    if asked.knows_run {
        let quiet = Interaction { interactive: false, no_input: true };
        return Talk::new(ctx, client, quiet).follow_sent(sent).await;
    }
    // The server has taken it. Whoever does not know the run is told of their own word alone, and waits
    // for no more of it, unless the run moves in this process.
    let mut follow = Follow::new(Telling::story(ctx, Audience::Talker));
    follow.until = (!stays).then_some(0);
    follow.receipt = sent.receipt;
    match follow.read(ctx, client, sent.stream).await {
        Err(trouble) if trouble.is_silent => return Err(trouble),
        Ok(_) | Err(_) => {}
    }
    if !ctx.json {
        let now = listed(&args.request_id, client).await.unwrap_or_default();
        let told = people::taken(follow.word, asked.request.as_ref(), now.as_ref());
        ctx.term.line(&told)?;
    }
    Ok(Exit::Done)
}

/// An answer, as it is sent.
struct Given {
    value: Value,
    /// The digest of what it is an answer to, where that is known.
    digest: Option<String>,
    /// What whoever gave it had before them.
    shown: Option<Shown>,
    /// What the question takes, where this is nothing of it.
    unclear: Option<String>,
}

/// What is answered, by what was given with the command or by what somebody says who is asked now; nothing, where that is
/// nothing.
async fn given(
    args: &Args,
    (asked, bound): (Option<&Request>, Option<String>),
    ctx: &Ctx,
    client: &mut Client,
) -> Result<Option<Given>, Trouble> {
    let digest = args.digest.clone();
    let not_there = || not_open(&args.request_id);
    let (mut shown, mut unclear) = (None, None);
    let (value, digest) = match (&args.json_value, &args.answer) {
        (Some(text), _) => (parse_json("--json-value", text)?, digest.or(bound)),
        (None, Some(word)) => match meant(args, asked)? {
            Said::Value(value) => {
                // A line of a list is not what is decided: whoever sits here sees that first.
                let listed = asked.filter(|one| one.decides && bound.is_some());
                if let Some(request) = listed {
                    let Some(sight) = stands(request, word, ctx, client).await? else {
                        return Ok(None);
                    };
                    shown = ctx.term.is_interactive.then(|| sight.shown());
                }
                (value, digest.or(bound))
            }
            // Whether it is theirs to answer at all is told first, and that is the server's to say. It takes nothing that
            // is not clear (K7).
            Said::Unclear { word, why } => {
                unclear = Some(why);
                (word, digest.or(bound))
            }
            Said::Edit => {
                let request = asked.ok_or_else(not_there)?;
                let sight = Sight::of(request);
                let Some(value) = edited(request, args, ctx, client).await? else {
                    return Ok(None);
                };
                shown = Some(sight.shown());
                // What was edited is what was fetched, and nothing that is asked by now (K3).
                (value, digest.or_else(|| Some(request.digest.clone())))
            }
        },
        (None, None) => {
            let request = asked.ok_or_else(not_there)?;
            let sight = Sight::of(request);
            let Some(value) = said(request, ctx, client).await? else { return Ok(None) };
            shown = Some(sight.shown());
            // The answer is to exactly what was shown (K3).
            (value, digest.or_else(|| Some(request.digest.clone())))
        }
    };
    Ok(Some(Given { value, digest, shown, unclear }))
}

/// A no to a word that means nothing, with what can be typed here in place of it.
fn in_words(trouble: Trouble, unclear: Option<String>) -> Trouble {
    match unclear {
        Some(message) if trouble.is_wrong_answer() => Trouble { message, hint: None, ..trouble },
        Some(_) | None => trouble,
    }
}

/// What somebody had before them whose word, given by a number, stands now that they see what it decides; nothing if
/// it does not stand. Where nobody sits here it does.
async fn stands(
    request: &Request,
    word: &str,
    ctx: &Ctx,
    client: &mut Client,
) -> Result<Option<Sight>, Trouble> {
    let sight = Sight::of(request);
    let aloud = Interaction { interactive: false, no_input: false };
    if !Talk::new(ctx, client, aloud).stands(request, word).await? {
        ctx.term.note("nothing was sent");
        return Ok(None);
    }
    Ok(Some(sight))
}

/// What somebody says to a question that they are shown here; nothing if nobody is here who could.
async fn said(request: &Request, ctx: &Ctx, client: &mut Client) -> Result<Option<Value>, Trouble> {
    if ctx.json {
        ctx.term.line(&json::of(request).to_string())?;
        return Ok(None);
    }
    halt::tell_standing(ctx, client).await;
    let talk = Talk::new(ctx, client, Interaction { interactive: false, no_input: false });
    talk.asked_alone(request).await
}

/// Whoever names something that is not open to them is told where to look.
pub(super) fn not_open(request: &str) -> Trouble {
    let request = line(request, 80);
    Trouble::new(Exit::NotFound, format!("no request `{request}` is open to you"))
        .hint("`holdpoint inbox` shows what is open")
}

/// What is known of a question before it is answered.
struct Asked {
    /// As it is open now; nothing if it is not, which the server knows how to say best.
    request: Option<Request>,
    /// Whether the run is known to whoever answers, and not the question alone.
    knows_run: bool,
}

async fn asked(id: &RequestId, name: &str, client: &mut Client) -> Result<Asked, Trouble> {
    let request = GetRunRequest { run_id: id.run.as_str().into(), omit_conversation: true };
    match client.get_run(request).await {
        Ok(found) => {
            let waiting = found.into_inner().run.and_then(|run| run.workflow_waiting);
            let mut open = waiting.into_iter().flat_map(|waiting| waiting.requests);
            Ok(Asked { request: open.find(|one| one.request_id == name), knows_run: true })
        }
        // Whoever is asked need not know the run; what they are asked is in their inbox (K8).
        Err(status) if status.code() == tonic::Code::NotFound => {
            Ok(Asked { request: listed(name, client).await?, knows_run: false })
        }
        Err(status) => Err(status.into()),
    }
}

/// A question, as the inbox of whoever asks has it.
pub(super) async fn listed(name: &str, client: &mut Client) -> Result<Option<Request>, Trouble> {
    let mut page_token = String::new();
    loop {
        let request = ListRequestsRequest { page_size: 1_000, page_token, ..Default::default() };
        let page = client.list_requests(request).await?.into_inner();
        let found = page.requests.into_iter().find(|one| one.request_id == name);
        if found.is_some() || page.next_page_token.is_empty() {
            return Ok(found);
        }
        page_token = page.next_page_token;
    }
}

/// What an answer that was given as a word comes to.
enum Said {
    Value(Value),
    /// A version of their own is to be written first.
    Edit,
    /// Nothing that the question takes, and what it takes.
    Unclear {
        word: Value,
        why: String,
    },
}

/// A version of their own, from their editor, told with what it changes.
async fn edited(
    request: &Request,
    args: &Args,
    ctx: &Ctx,
    client: &mut Client,
) -> Result<Option<Value>, Trouble> {
    let subject = editor::subject(request).map_err(|why| Trouble::new(Exit::Refused, why))?;
    match editor::edit(&subject, &mut None).await {
        Edited::Nothing(why) => Err(Trouble::new(Exit::Refused, why)),
        Edited::Version(version) => {
            if !ctx.json {
                let told = editor::compared(ctx.term.paint, &subject, &version);
                ctx.term.write(&format!("{told}\n"))?;
            }
            // Whoever sits here has seen what they changed, and says so; a script has said so already.
            let aloud = Interaction { interactive: false, no_input: false };
            if ctx.term.is_interactive && !Talk::new(ctx, client, aloud).sends_version().await? {
                ctx.term.note("nothing was sent");
                return Ok(None);
            }
            let note = args.note.as_deref().unwrap_or_default();
            Ok(Some(editor::answer(request, &version, note)))
        }
    }
}

fn meant(args: &Args, asked: Option<&Request>) -> Result<Said, Trouble> {
    let text = args.answer.as_deref().unwrap_or_default();
    let note = args.note.as_deref().unwrap_or_default();
    // A note is taken with what it belongs to, or refused with it: never left out.
    let as_it_is = || match note {
        "" => Value::String(text.into()),
        note => answer::decided(text, note),
    };
    let Some(request) = asked else { return Ok(Said::Value(as_it_is())) };
    let value = match answer::read(request, text) {
        Meaning::Edit => return Ok(Said::Edit),
        Meaning::Unclear(why) => return Ok(Said::Unclear { word: as_it_is(), why }),
        Meaning::Value(value) if !note.is_empty() && answer::is_bare(&value) => {
            Ok(answer::decided(value["decision"].as_str().unwrap_or_default(), note))
        }
        Meaning::Reasoned(word) if !note.is_empty() => Ok(answer::decided(&word, note)),
        Meaning::Reasoned(word) => {
            Err(Trouble::new(Exit::Usage, format!("`{word}` needs what should be different"))
                .hint("--note TEXT says so"))
        }
        Meaning::Reject => Ok(answer::reject(note)),
        Meaning::Deny => Ok(answer::deny(note)),
        Meaning::Value(_) | Meaning::Happened if !note.is_empty() => {
            Err(Trouble::new(Exit::Usage, "--note goes with a yes or a no"))
        }
        Meaning::Value(value) => Ok(value),
        Meaning::Happened => Err(Trouble::new(Exit::Usage, "`happened` needs what came of it")
            .hint("\"happened: what came of it\", or --json-value '{\"verb\": \"happened\", \"result\": …}'")),
    };
    value.map(Said::Value)
}
