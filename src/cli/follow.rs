//! Follow: reads a stream of events to its end, tells each, and remembers where it stands.
//!
//! A stream that breaks is taken up again after the last event that came (E1); the run does not
//! notice (E5).

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt as _;

use crate::app::Client;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::people::Word;
use crate::cli::receipt;
use crate::cli::render::{Audience, Story, journal_line};
use crate::cli::{halt, json};
use crate::wire::v1::workflow_event::Event;
use crate::wire::v1::{
    RunStatus, SendResponsesRequest, WatchRunRequest, WorkflowEvent, WorkflowWaiting,
};

/// A stream that breaks is taken up again this often without a new event: about six seconds in all,
/// the time in which a server restarts.
const RETRIES_MAX: u32 = 6;
const RETRY_FIRST: Duration = Duration::from_millis(100);
/// After how long without an event is asked whether the run stands at a halt: again after twice as long each time, until
/// one was told, since it may come later than the silence.
const SILENCE: Duration = Duration::from_secs(2);
const SILENCE_MAX: Duration = Duration::from_secs(32);

/// Where the stream left the run.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ending {
    /// It is over, and did what it should.
    Completed,
    /// It is over, and did not.
    Failed,
    /// It waits for answers.
    Waiting(WorkflowWaiting),
    /// It stands at a halt, and nobody is there who would wait for its end.
    Halted,
    /// The stream ended, and the run goes on.
    Moving,
    /// The reader left.
    Left,
}

impl Ending {
    /// How a command that only looked on ends.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Completed | Self::Moving => Exit::Done,
            Self::Failed => Exit::RunFailed,
            Self::Waiting(_) | Self::Halted => Exit::Waiting,
            Self::Left => Exit::Interrupted,
        }
    }
}

/// How events are written.
#[derive(Debug)]
pub(super) enum Telling {
    /// As a story.
    Story(Box<Story>),
    /// A line for each.
    Journal,
    /// A JSON document for each.
    Json,
}

impl Telling {
    /// JSON where it was asked for, else a story.
    pub(super) fn story(ctx: &Ctx, audience: Audience) -> Self {
        if ctx.json {
            Self::Json
        } else {
            Self::Story(Box::new(Story::new(ctx.term.paint, audience)))
        }
    }

    /// JSON where it was asked for, else a line for each.
    pub(super) fn journal(ctx: &Ctx) -> Self {
        if ctx.json { Self::Json } else { Self::Journal }
    }

    fn tell(&mut self, ctx: &Ctx, event: &WorkflowEvent) -> Result<(), Trouble> {
        let text = match self {
            Self::Story(story) => story.tell(event),
            Self::Journal => journal_line(ctx.term.paint, event) + "\n",
            Self::Json => json::event(event).to_string() + "\n",
        };
        if text.is_empty() { Ok(()) } else { ctx.term.write(&text) }
    }

    /// Ends a line that is still open.
    pub(super) fn hush(&mut self, ctx: &Ctx) -> Result<(), Trouble> {
        match self {
            Self::Story(story) => ctx.term.write(&story.hush()),
            Self::Journal | Self::Json => Ok(()),
        }
    }
}

/// A run that is followed.
#[derive(Debug)]
pub(super) struct Follow {
    /// The run, once an event has come.
    pub run_id: String,
    /// Its session.
    pub session_id: String,
    /// The last event that came.
    pub sequence: u64,
    /// How events are written.
    pub telling: Telling,
    /// Whether pauses are stayed through.
    pub through_pauses: bool,
    /// Whether a halt ends it, as a question does: where nobody sits, nobody would ever leave.
    pub leaves_at_halts: bool,
    /// The event to stop after.
    pub until: Option<u64>,
    /// The last word that came.
    pub word: Option<Word>,
    /// The hash of the leaf of what was said before the next event, which is told with that one's place.
    pub receipt: Option<String>,
}

impl Follow {
    /// Begins with nothing known.
    pub(super) fn new(telling: Telling) -> Self {
        Self {
            run_id: String::new(),
            session_id: String::new(),
            sequence: 0,
            telling,
            through_pauses: false,
            leaves_at_halts: false,
            until: None,
            word: None,
            receipt: None,
        }
    }

    /// Opens a stream of a run's events, after the last that came.
    pub(super) async fn watch(
        &self,
        client: &mut Client,
    ) -> Result<Streaming<WorkflowEvent>, Status> {
        let request = WatchRunRequest {
            run_id: self.run_id.clone(),
            after_sequence: self.sequence,
            through_pauses: self.through_pauses,
        };
        Ok(client.watch_run(request).await?.into_inner())
    }

    /// Reads to the end of the stream, or until Ctrl-C.
    pub(super) async fn read(
        &mut self,
        ctx: &Ctx,
        client: &mut Client,
        mut stream: Streaming<WorkflowEvent>,
    ) -> Result<Ending, Trouble> {
        let mut ending = Ending::Moving;
        let mut failures = 0;
        // Listening begins here, not at the first wait: no Ctrl-C falls into a gap.
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut is_told = ctx.json && !self.leaves_at_halts;
        let mut silence = SILENCE;
        loop {
            let next = tokio::select! {
                next = stream.message() => next,
                () = tokio::time::sleep(silence), if !is_told && !self.run_id.is_empty() => {
                    silence = (silence * 2).min(SILENCE_MAX);
                    is_told = self.tell_standing(ctx, client).await?;
                    if is_told && self.leaves_at_halts {
                        return Ok(Ending::Halted);
                    }
                    continue;
                }
                _ = interrupt.recv() => {
                    self.telling.hush(ctx)?;
                    return Ok(Ending::Left);
                }
            };
            match next {
                Ok(Some(event)) => {
                    failures = 0;
                    self.take(ctx, &event, &mut ending)?;
                    if self.until.is_some_and(|until| self.sequence >= until) {
                        return Ok(ending);
                    }
                }
                Ok(None) => {
                    self.telling.hush(ctx)?;
                    return Ok(ending);
                }
                Err(status) => stream = self.again(ctx, client, status, &mut failures).await?,
            }
        }
    }

    /// Tells why nothing comes, where the run stands at a halt, and how to leave; whether it does.
    async fn tell_standing(&mut self, ctx: &Ctx, client: &mut Client) -> Result<bool, Trouble> {
        let halts = halt::of_run(client, &self.run_id).await;
        if halts.is_empty() {
            return Ok(false);
        }
        self.telling.hush(ctx)?;
        halt::tell(ctx, &halts);
        if !self.leaves_at_halts {
            let (run, again) = (&self.run_id, ctx.again());
            let leave = format!(
                "it goes on when the halt is taken back; Ctrl-C leaves it, `holdpoint resume {run}{again}` takes it up again"
            );
            ctx.term.note(&ctx.term.paint_error.dim(&leave));
        }
        Ok(true)
    }

    fn take(
        &mut self,
        ctx: &Ctx,
        event: &WorkflowEvent,
        ending: &mut Ending,
    ) -> Result<(), Trouble> {
        self.run_id.clone_from(&event.run_id);
        ctx.followed.set(&event.run_id);
        self.session_id.clone_from(&event.session_id);
        self.sequence = event.sequence;
        match &event.event {
            Some(Event::Status(changed)) => {
                *ending = match (RunStatus::try_from(changed.status), &changed.workflow_waiting) {
                    (Ok(RunStatus::Waiting), Some(waiting)) => Ending::Waiting(waiting.clone()),
                    (Ok(_) | Err(_), _) => Ending::Moving,
                };
            }
            Some(Event::Completed(_)) => *ending = Ending::Completed,
            Some(Event::Failed(_) | Event::Cancelled(_)) => *ending = Ending::Failed,
            Some(Event::ResponseReceived(_)) => self.word = Some(Word::Answer),
            Some(Event::VoteReceived(_)) => self.word = Some(Word::Vote),
            Some(_) | None => {}
        }
        self.telling.tell(ctx, event)?;
        if let Some(hash) = self.receipt.take() {
            receipt::tell(ctx, &event.run_id, event.sequence, &hash);
        }
        Ok(())
    }

    /// Takes the stream up again where it broke, if it broke on the way and not on purpose.
    async fn again(
        &mut self,
        ctx: &Ctx,
        client: &mut Client,
        status: Status,
        failures: &mut u32,
    ) -> Result<Streaming<WorkflowEvent>, Trouble> {
        let mut status = status;
        self.telling.hush(ctx)?;
        if !self.run_id.is_empty() && *failures == 0 && is_broken(&status) {
            let lost = format!("the stream broke; taking it up again after {}", self.sequence);
            ctx.term.note(&ctx.term.paint_error.dim(&lost));
        }
        while !self.run_id.is_empty() && is_broken(&status) && *failures < RETRIES_MAX {
            tokio::time::sleep(RETRY_FIRST * 2_u32.pow(*failures)).await;
            *failures += 1;
            match self.watch(client).await {
                Ok(stream) => return Ok(stream),
                Err(again) => status = again,
            }
        }
        let trouble = Trouble::from(status);
        if self.run_id.is_empty() {
            return Err(trouble);
        }
        let hint = onward(&trouble, (&self.run_id, self.sequence), &ctx.again());
        Err(trouble.hint(hint))
    }
}

/// How to see on what a run does whose stream ended for that reason: a key that is over sees nothing more, and a server that is
/// gone cannot be asked, though others may share its store.
fn onward(trouble: &Trouble, (run, after): (&str, u64), again: &str) -> String {
    let watch = format!("`holdpoint watch {run} --after {after}{again}`");
    if trouble.code.as_deref().is_some_and(|code| code.starts_with("auth.")) {
        return format!(
            "the run goes on; with another key (HOLDPOINT_API_KEY) see it with {watch}"
        );
    }
    if trouble.code.as_deref() == Some("store.rewound") {
        // From where it stood there is nothing to go on from.
        return format!("what is left of the run, if anything is: `holdpoint watch {run}{again}`");
    }
    if trouble.exit == Exit::Unreachable {
        return format!(
            "the run goes on; see it with {watch} when that server is back, or at any other over the same database (--server)"
        );
    }
    format!("the run goes on; see it with {watch}")
}

/// What came of an answer.
#[derive(Debug)]
pub(super) struct Sent {
    /// The hash of the leaf that it can be proven by, where something was decided.
    pub receipt: Option<String>,
    /// What the run does from there on.
    pub stream: Streaming<WorkflowEvent>,
}

/// Sends answers, again where the way broke before anybody said whether they came. The key that they carry sees
/// to it that they are taken once.
pub(super) async fn sent(
    client: &mut Client,
    message: SendResponsesRequest,
) -> Result<Sent, Trouble> {
    let mut failures = 0;
    loop {
        match client.send_responses(message.clone()).await {
            Ok(reply) => {
                let receipt = receipt::hash_of(reply.metadata());
                return Ok(Sent { receipt, stream: reply.into_inner() });
            }
            Err(status) if is_lost(&status) && failures < RETRIES_MAX => {
                tokio::time::sleep(RETRY_FIRST * 2_u32.pow(failures)).await;
                failures += 1;
            }
            Err(status) => return Err(status.into()),
        }
    }
}

/// Whether nobody can say what became of a call: no server has refused it, or one that goes.
fn is_lost(status: &Status) -> bool {
    let reason = status.get_details_error_info().map(|info| info.reason);
    is_broken(status) && reason.is_none_or(|reason| reason == "server.draining")
}

/// Whether a status tells of the way to the server rather than of the run.
fn is_broken(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal => true,
        Code::Ok
        | Code::InvalidArgument
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::DataLoss
        | Code::Unauthenticated => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_lost_a_stream_is_led_where_the_run_can_be_seen() {
        let told = |code: Option<&str>, exit| {
            let trouble = Trouble { code: code.map(Into::into), ..Trouble::new(exit, "over") };
            onward(&trouble, ("run_1", 2), " --server here")
        };
        let expired = told(Some("auth.expired"), Exit::Refused);
        assert!(expired.contains("with another key"), "this one cannot: {expired}");
        let gone = told(None, Exit::Unreachable);
        assert!(gone.contains("any other over the same database"), "that one is dead: {gone}");
        let rewound = told(Some("store.rewound"), Exit::Failed);
        assert!(
            rewound.ends_with(": `holdpoint watch run_1 --server here`"),
            "not from where it failed: {rewound}"
        );
        let plain = told(None, Exit::Failed);
        assert_eq!(
            plain,
            "the run goes on; see it with `holdpoint watch run_1 --after 2 --server here`"
        );
    }
}
