//! Talk: follows a run, asks a person what it asks, and sends what they say, until it ends or they
//! leave. Shared by `run`, `resume`, `respond` and `fork`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tonic::Streaming;

use crate::app::{Client, SystemClock};
use crate::cli::Ctx;
use crate::cli::answer::{self, Meaning};
use crate::cli::editor::{self, Edited};
use crate::cli::elsewhere;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::follow::{Ending, Follow, Sent, Telling, sent};
use crate::cli::halt;
use crate::cli::people::Sight;
use crate::cli::render::{self, Audience};
use crate::cli::term::Input;
use crate::ports::Clock as _;
#[cfg(feature = "chat")]
use crate::wire::v1::workflow_event::Event;
use crate::wire::v1::{
    GetRequestRequest, ListRequestsRequest, Request, SendResponsesRequest, WorkflowEvent,
    WorkflowWaiting,
};

/// The word that leaves a run waiting.
pub(super) const EXIT: &str = "exit";

/// Whether a person is asked, or only told.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(super) struct Interaction {
    /// Ask for answers even where stdin is not a terminal: they are read from it, a line each.
    /// Has no effect with --json
    #[arg(long, short, conflicts_with = "no_input")]
    pub interactive: bool,
    /// Never ask: print the question and end with exit code 4
    #[arg(long)]
    pub no_input: bool,
}

impl Interaction {
    /// Whether to ask.
    pub(super) fn asks(self, ctx: &Ctx) -> bool {
        !ctx.json && (self.interactive || (!self.no_input && ctx.term.is_interactive))
    }
}

/// A conversation with a run.
#[derive(Debug)]
pub(super) struct Talk<'a> {
    pub(super) ctx: &'a Ctx,
    client: &'a mut Client,
    follow: Follow,
    input: Option<Input>,
    /// Whether the terminal is an editor's for now: nothing is told over it, and it is not left alone.
    is_editing: Arc<AtomicBool>,
}

/// What came of a question.
enum Asked {
    Answered(Box<Streaming<WorkflowEvent>>),
    Left,
}

impl<'a> Talk<'a> {
    /// A conversation that has not begun.
    pub(super) fn new(ctx: &'a Ctx, client: &'a mut Client, interaction: Interaction) -> Self {
        let input = interaction.asks(ctx).then(Input::new);
        let mut follow = Follow::new(Telling::story(ctx, Audience::Talker));
        follow.leaves_at_halts = input.is_none();
        Self { ctx, client, follow, input, is_editing: Arc::default() }
    }

    /// A conversation whose lines somebody else has begun to read.
    #[cfg(feature = "chat")]
    pub(super) fn with(ctx: &'a Ctx, client: &'a mut Client, input: Input) -> Self {
        let telling = Telling::story(ctx, Audience::Talker);
        let input = (!ctx.json).then_some(input);
        Self { ctx, client, follow: Follow::new(telling), input, is_editing: Arc::default() }
    }

    /// Follows `stream`; gives the lines back, and the session that was talked in.
    #[cfg(feature = "chat")]
    pub(super) async fn followed(
        mut self,
        stream: Streaming<WorkflowEvent>,
    ) -> (Result<Exit, Trouble>, Option<Input>, String) {
        let ended = self.talk(stream).await;
        (ended, self.input, self.follow.session_id)
    }

    /// Follows what came of an answer that was just given, with its receipt, and talks on.
    pub(super) async fn follow_sent(mut self, sent: Sent) -> Result<Exit, Trouble> {
        self.follow.receipt = sent.receipt;
        self.talk(sent.stream).await
    }

    /// Follows `stream`, and talks until the run is over or somebody leaves.
    pub(super) async fn follow(
        mut self,
        stream: Streaming<WorkflowEvent>,
    ) -> Result<Exit, Trouble> {
        self.talk(stream).await
    }

    async fn talk(&mut self, stream: Streaming<WorkflowEvent>) -> Result<Exit, Trouble> {
        let mut stream = stream;
        loop {
            match self.follow.read(self.ctx, self.client, stream).await? {
                Ending::Waiting(waiting) => match self.ask(&waiting).await? {
                    Asked::Answered(next) => stream = *next,
                    Asked::Left => return Ok(Exit::Waiting),
                },
                Ending::Left => {
                    let id = &self.follow.run_id;
                    let text = if id.is_empty() {
                        "left before the run had a name; `holdpoint runs` shows it".to_owned()
                    } else {
                        format!(
                            "left; take it up again with: holdpoint resume {id}{}",
                            self.ctx.again()
                        )
                    };
                    self.ctx.term.note(&text);
                    return Ok(Exit::Interrupted);
                }
                ending @ (Ending::Completed | Ending::Failed) => return Ok(ending.exit()),
                ending @ Ending::Halted => {
                    let (id, again) = (&self.follow.run_id, self.ctx.again());
                    self.ctx.term.note(&halt::left(id, self.ctx.is_served(), &again));
                    return Ok(ending.exit());
                }
                Ending::Moving => {
                    let trouble = Trouble::new(Exit::Failed, "the stream ended before the run did");
                    let again = self.ctx.again();
                    return Err(trouble.hint(format!(
                        "`holdpoint resume {}{again}` goes on",
                        self.follow.run_id
                    )));
                }
            }
        }
    }

    /// Looks on from event `at` while a run moves, and talks once it asks.
    pub(super) async fn join(mut self, run_id: &str, at: u64) -> Result<Exit, Trouble> {
        run_id.clone_into(&mut self.follow.run_id);
        self.follow.sequence = at;
        let stream = self.follow.watch(self.client).await?;
        self.follow(stream).await
    }

    /// Takes up a run that waits already.
    pub(super) async fn take_up(
        mut self,
        waiting: &WorkflowWaiting,
        at: u64,
    ) -> Result<Exit, Trouble> {
        self.follow.run_id.clone_from(&waiting.run_id);
        self.follow.sequence = at;
        match self.ask(waiting).await? {
            Asked::Answered(stream) => self.follow(*stream).await,
            Asked::Left => Ok(Exit::Waiting),
        }
    }

    /// Asks the first open question; the others come up when the run pauses again.
    async fn ask(&mut self, waiting: &WorkflowWaiting) -> Result<Asked, Trouble> {
        if waiting.requests.is_empty() {
            let again = format!("holdpoint signal {} NAME{}", waiting.run_id, self.ctx.again());
            self.ctx.term.note(&format!(
                "it waits for an event or a timer, and asks nobody; bring an event with: {again}"
            ));
            return Ok(Asked::Left);
        }
        let requests = self.admitting(&waiting.requests).await;
        let theirs = requests.iter().find(|request| request.admits_you != Some(false));
        let (Some(request), true) = (theirs, self.input.is_some()) else {
            self.explain(&requests)?;
            return Ok(Asked::Left);
        };
        self.ctx.term.write(&render::question(self.ctx.term.paint, request))?;
        let sight = Sight::of(request);
        loop {
            let elsewhere = elsewhere::settled(
                (self.client.clone(), self.ctx.term),
                (waiting.run_id.clone(), request.request_id.clone()),
                (self.follow.sequence, Arc::clone(&self.is_editing)),
            );
            let said = tokio::select! {
                said = self.read(request) => said?,
                how = elsewhere => {
                    // What is typed now was meant for this question, and answers no other (K9).
                    self.ctx.term.write("\n")?;
                    self.refuse(&how);
                    self.prompt("Enter goes on").await?;
                    let stream = self.follow.watch(self.client).await?;
                    return Ok(Asked::Answered(Box::new(stream)));
                }
            };
            let Some(value) = said else {
                let again = format!("holdpoint resume {}{}", waiting.run_id, self.ctx.again());
                self.ctx.term.note(&format!("left waiting; take it up again with: {again}"));
                return Ok(Asked::Left);
            };
            match send(self.client, request, &value, sight).await {
                Ok(stream) => return Ok(Asked::Answered(Box::new(stream))),
                Err(trouble) if trouble.is_wrong_answer() => self.refuse(&trouble.message),
                Err(trouble) if trouble.is_settled() => {
                    self.refuse(&trouble.message);
                    let stream = self.follow.watch(self.client).await?;
                    return Ok(Asked::Answered(Box::new(stream)));
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// The same requests, each with whether it admits whoever talks, where that is not plain: who began
    /// a run may not be whom it asks. Where the server does not say, its refusal will.
    async fn admitting(&mut self, requests: &[Request]) -> Vec<Request> {
        let mut requests = requests.to_vec();
        let Some(first) = requests.iter().find(|one| one.decides || !one.to.is_empty()) else {
            return requests;
        };
        let wanted = ListRequestsRequest {
            session_id: first.session_id.clone(),
            page_size: 1_000,
            ..ListRequestsRequest::default()
        };
        if let Ok(page) = self.client.list_requests(wanted).await {
            for known in page.into_inner().requests {
                let mut same = requests.iter_mut();
                if let Some(one) = same.find(|one| one.request_id == known.request_id) {
                    one.admits_you = known.admits_you;
                }
            }
        }
        for request in &mut requests {
            unveil(request, self.ctx, self.client).await;
        }
        requests
    }

    /// Shows one question whole, and asks it where somebody sits here; nothing if they leave, or nobody does.
    pub(super) async fn asked_alone(mut self, request: &Request) -> Result<Option<Value>, Trouble> {
        if self.input.is_none() || request.admits_you == Some(false) {
            self.explain(std::slice::from_ref(request))?;
            return Ok(None);
        }
        self.ctx.term.write(&render::question(self.ctx.term.paint, request))?;
        self.read(request).await
    }

    /// Shows one question whole, and asks whether what somebody said before they saw it stands.
    pub(super) async fn stands(mut self, request: &Request, said: &str) -> Result<bool, Trouble> {
        if self.input.is_none() {
            return Ok(true);
        }
        self.ctx.term.write(&render::question(self.ctx.term.paint, request))?;
        let said = crate::cli::term::line(said, 40);
        let usage = format!("Enter or y says {said} to this, anything else says nothing");
        let typed = self.prompt(&usage).await?;
        Ok(typed.is_some_and(|typed| answer::stands(&typed, &said)))
    }

    /// Reads until something is typed that the question can take; nothing if the person leaves.
    async fn read(&mut self, request: &Request) -> Result<Option<Value>, Trouble> {
        if let Some(form) = answer::form(request) {
            return self.fill(form).await;
        }
        let usage = answer::usage(request);
        let mut draft = None;
        loop {
            let Some(typed) = self.prompt(&usage).await? else { return Ok(None) };
            match typed.trim() {
                "" => continue,
                EXIT => return Ok(None),
                &_ => {}
            }
            let value = match answer::read(request, &typed) {
                Meaning::Value(value) => value,
                Meaning::Deny => match self.prompt("why? Enter for no reason").await? {
                    Some(note) => answer::deny(&note),
                    None => return Ok(None),
                },
                Meaning::Reject => match self.prompt("why? Enter for no reason").await? {
                    Some(note) => answer::reject(&note),
                    None => return Ok(None),
                },
                Meaning::Happened => match self.prompt("what came of it? Enter for nothing").await?
                {
                    Some(came) => answer::happened(&came),
                    None => return Ok(None),
                },
                Meaning::Edit => match self.edited(request, &mut draft).await? {
                    Some(value) => value,
                    None => continue,
                },
                Meaning::Reasoned(word) => match self.prompt("what should be different?").await? {
                    Some(note) if note.trim().is_empty() => continue,
                    Some(note) => answer::decided(&word, &note),
                    None => return Ok(None),
                },
                Meaning::Unclear(why) => {
                    self.refuse(&why);
                    continue;
                }
            };
            return Ok(Some(value));
        }
    }

    /// A version of their own, as they wrote it and after they have seen what they changed; nothing where
    /// nothing is to be sent.
    async fn edited(
        &mut self,
        request: &Request,
        draft: &mut Option<String>,
    ) -> Result<Option<Value>, Trouble> {
        let subject = match editor::subject(request) {
            Ok(subject) => subject,
            Err(why) => {
                self.refuse(&why);
                return Ok(None);
            }
        };
        self.is_editing.store(true, Ordering::Release);
        let edited = editor::edit(&subject, draft).await;
        self.is_editing.store(false, Ordering::Release);
        let version = match edited {
            Edited::Version(version) => version,
            Edited::Nothing(why) => {
                self.refuse(&why);
                return Ok(None);
            }
        };
        let told = editor::compared(self.ctx.term.paint, &subject, &version);
        self.ctx.term.write(&format!("{told}\n"))?;
        if !self.sends_version().await? {
            self.refuse("nothing was sent; edit takes your version up again");
            *draft = Some(render::whole(&version));
            return Ok(None);
        }
        Ok(Some(editor::answer(request, &version, "")))
    }

    /// Whether the version that was just shown is to be sent.
    pub(super) async fn sends_version(&mut self) -> Result<bool, Trouble> {
        let said = self.prompt("send this version? y sends it, anything else does not").await?;
        Ok(answer::is_yes(&said.unwrap_or_default()))
    }

    pub(super) async fn prompt(&mut self, usage: &str) -> Result<Option<String>, Trouble> {
        let paint = self.ctx.term.paint;
        self.ctx.term.write(&format!(
            "{} {} ",
            paint.dim(&format!("({usage})")),
            paint.ask(">")
        ))?;
        let Some(input) = &mut self.input else { return Ok(None) };
        let typed = tokio::select! {
            typed = input.next() => typed,
            _ = tokio::signal::ctrl_c() => None,
        };
        if typed.is_none() || !self.ctx.term.is_interactive {
            // Only Enter on a terminal ends the line that the prompt began.
            self.ctx.term.write("\n")?;
        }
        Ok(typed)
    }

    pub(super) fn refuse(&self, why: &str) {
        let why = format!("  {}", crate::cli::term::plain(why));
        self.ctx.term.note(&self.ctx.term.paint_error.warn(&why));
    }

    /// Shows what is asked, and how it can be answered without a conversation.
    fn explain(&self, requests: &[Request]) -> Result<(), Trouble> {
        if self.ctx.json {
            return Ok(());
        }
        for request in requests {
            self.ctx.term.write(&render::question(self.ctx.term.paint, request))?;
        }
        let again = self.ctx.again();
        // What lies in a database is answered at servers alone.
        let is_answered = !self.ctx.looks_at_database();
        let theirs = requests.iter().filter(|request| request.admits_you != Some(false));
        for request in theirs.filter(|_| is_answered) {
            let (id, takes) = (&request.request_id, answer::takes(request));
            let digest = if request.binding.is_empty() {
                String::new()
            } else {
                format!(" --digest {}", request.digest)
            };
            let respond = format!("holdpoint respond {id} \"…\"{digest}{again}");
            self.ctx.term.note(&format!("answer with: {respond}  ({takes})"));
        }
        Ok(())
    }
}

/// Sends one answer, with the digest of exactly what was shown (K3).
async fn send(
    client: &mut Client,
    request: &Request,
    value: &Value,
    sight: Sight,
) -> Result<Streaming<WorkflowEvent>, Trouble> {
    let id = request.request_id.clone();
    let mut digests = HashMap::new();
    if !request.digest.is_empty() {
        digests.insert(id.clone(), request.digest.clone());
    }
    let message = SendResponsesRequest {
        session_id: request.session_id.clone(),
        run_id: request.run_id.clone(),
        responses: HashMap::from([(id, value.into())]),
        // So that it can be sent again where nobody knows whether it came: it is taken once (K2).
        idempotency_key: SystemClock.fresh_stem(),
        digests,
        shown: Some(sight.shown()),
    };
    sent(client, message).await.map(|sent| sent.stream)
}

/// Puts the whole of a request in the place of what onlookers are shown of it, where somebody sits here who may see
/// it. What is written into a file or to another program is read by others, too.
pub(super) async fn unveil(request: &mut Request, ctx: &Ctx, client: &mut Client) {
    if ctx.term.is_seen {
        unveil_whole(request, client).await;
    } else if request.veiled && request.admits_you == Some(true) && !ctx.json {
        ctx.term.note(
            "what is secret in it is hidden here; what of it is yours to see, a terminal shows, and `holdpoint inbox REQUEST --json`",
        );
    }
}

/// The same, or all of it for a program that looks at this one request.
pub(super) async fn unveil_for(
    is_look: bool,
    request: &mut Request,
    ctx: &Ctx,
    client: &mut Client,
) {
    if ctx.json && is_look {
        unveil_whole(request, client).await;
    } else {
        unveil(request, ctx, client).await;
    }
}

/// The same for whoever asks for this one request, and has asked for all of it.
pub(super) async fn unveil_whole(request: &mut Request, client: &mut Client) {
    if !request.veiled {
        return;
    }
    let wanted = GetRequestRequest { request_id: request.request_id.clone() };
    let whole = client.get_request(wanted).await.ok().and_then(|got| got.into_inner().request);
    if let Some(whole) = whole {
        let conversation = std::mem::take(&mut request.conversation);
        *request = Request { conversation, ..whole };
    }
}

/// The same of what an event asks.
#[cfg(feature = "chat")]
pub(super) async fn unveil_event(event: &mut WorkflowEvent, client: &mut Client) {
    match &mut event.event {
        Some(Event::RequestInfo(request)) => unveil_whole(request, client).await,
        Some(Event::Status(status)) => {
            let waiting = status.workflow_waiting.iter_mut();
            for request in waiting.flat_map(|waiting| &mut waiting.requests) {
                unveil_whole(request, client).await;
            }
        }
        _other => {}
    }
}
