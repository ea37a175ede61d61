//! Follow: one attempt with a remote agent: hand over or take up again, and wait until the task
//! rests. Streams while that works, asks again and again while it does not.

use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;

use crate::agents::a2a::call::{Call, CallError, Events};
use crate::agents::a2a::client::{A2aClient, Opened};
use crate::agents::a2a::fault::{Code, RemoteFault};
use crate::agents::a2a::from_a2a::{self, Parts, State, Task, Told};
use crate::agents::a2a::memo::Memo;
use crate::agents::a2a::settings::Settings;
use crate::agents::a2a::to_a2a::{self, Answer};
use crate::kernel::{AgentInput, AttemptFault, Millis, Reply};
use crate::ports::{Clock, DeltaSink, leave};

/// The first pause between two looks; doubles up to the longest.
const PAUSE_MS: u64 = 200;
/// The longest pause: how late a pause is noticed where nothing streams.
pub(super) const PAUSE_MS_MAX: u64 = 5_000;
/// A stream that is silent for this long may be dead; the task itself is asked then.
const SILENCE: Duration = Duration::from_secs(30);

/// Why an attempt ends.
enum End {
    /// The remote's doing.
    Remote(RemoteFault),
    /// Ours: nothing can be kept any more, or nobody wants it.
    Own(AttemptFault),
}

impl From<RemoteFault> for End {
    fn from(fault: RemoteFault) -> Self {
        Self::Remote(fault)
    }
}

/// How a task came to rest, or that it did not yet.
enum Rest {
    Task(Box<Task>),
    Message(Parts),
    /// It does, and must be asked what came of it.
    Unseen,
    NotYet,
}

/// One attempt.
pub(super) struct Following<'a> {
    pub(super) clock: &'a dyn Clock,
    pub(super) settings: &'a Settings,
    pub(super) input: &'a AgentInput,
    pub(super) notes: &'a mut dyn DeltaSink,
    pub(super) memo: Option<Memo>,
}

impl Following<'_> {
    /// The reply, as the remote gives it.
    pub(super) async fn reply(&mut self, line: &A2aClient) -> Result<Reply, AttemptFault> {
        match self.attempt(line).await {
            Ok(reply) => Ok(reply),
            Err(End::Remote(fault)) => Err(fault.of_model(&self.input.model)),
            Err(End::Own(fault)) => Err(fault),
        }
    }

    async fn attempt(&mut self, line: &A2aClient) -> Result<Reply, End> {
        let rest = match self.memo.clone() {
            None => {
                let parts = to_a2a::opening(self.input);
                let message = to_a2a::message(&self.input.key, None, &parts);
                self.send(line, &message).await?
            }
            Some(memo) => self.take_up(line, memo).await?,
        };
        match rest {
            Rest::Message(parts) => Ok(to_a2a::result(&parts, &Parts::default(), self.input)?),
            Rest::Task(task) => self.ended(line, *task).await,
            Rest::Unseen | Rest::NotYet => {
                let task = self.wait(line).await?;
                self.ended(line, task).await
            }
        }
    }

    /// A later try, or a later reply of the same turn: an answer goes on its way, or the task is
    /// followed from where it is.
    async fn take_up(&mut self, line: &A2aClient, memo: Memo) -> Result<Rest, End> {
        let (call, parts) = match to_a2a::answer(self.input) {
            Answer::None => return Ok(Rest::NotYet),
            Answer::Given { call, parts } => (call, parts),
            Answer::Refused { call, why } => {
                self.note(Memo { answered: Some(call), ..memo.clone() }).await?;
                // It must not go on; whether it hears that or not, we do not.
                if let Err(no) = line.call(Call::Cancel(&memo.task), &memo.task).await {
                    tracing::warn!(?no, "a remote task could not be stopped");
                }
                let message = format!("what it asked was not answered: {why}");
                return Err(RemoteFault::new(Code::Unanswered, message).into());
            }
        };
        if memo.answered.as_deref() == Some(call.as_str()) {
            // Perhaps it was sent before the crash: it was not, if the same is still asked.
            let task = self.look(line, &memo.task).await?;
            if memo.asked.as_deref() != Some(task.fingerprint.as_str()) {
                return Ok(if task.state.is_moving() { Rest::NotYet } else { rest(task) });
            }
        } else {
            let since = self.clock.now();
            self.note(Memo { answered: Some(call), since, ..memo.clone() }).await?;
        }
        let task = Some((memo.task.as_str(), memo.context.as_str()));
        let message = to_a2a::message(&self.input.key, task, &parts);
        self.send(line, &message).await
    }

    /// Sends a message; notes the task that comes of it before anything is waited for.
    async fn send(&mut self, line: &A2aClient, message: &Value) -> Result<Rest, End> {
        let key = self.input.key.clone();
        let give_up = self.clock.now().plus(self.settings.contact_ms);
        let mut pause = PAUSE_MS;
        loop {
            if !leave::may_begin().await {
                return Err(RemoteFault::new(Code::NotBegun, leave::LATE).into());
            }
            let outcome = if line.interface.streams {
                line.open(Call::Stream(message), &key).await
            } else {
                line.call(Call::Send(message), &key).await.map(Opened::Whole)
            };
            match outcome {
                Ok(Opened::Whole(value)) => return self.heard(from_a2a::told(&value)?).await,
                Ok(Opened::Stream(events)) => match self.listen(events, self.patience()).await {
                    Ok(rest) if self.memo.is_some() || !matches!(rest, Rest::NotYet) => {
                        return Ok(rest);
                    }
                    // Nothing came before it broke: the same again, under the same key.
                    Ok(_) | Err(End::Remote(RemoteFault { code: Code::Unreachable, .. })) => {}
                    Err(end) => return Err(end),
                },
                // It is no longer waiting for this: how it stands says the rest.
                Err(CallError::Unsupported(_)) if self.memo.is_some() => return Ok(Rest::NotYet),
                Err(CallError::Ill(why)) if self.clock.now() >= give_up => {
                    return Err(RemoteFault::new(Code::Unreachable, why).into());
                }
                Err(CallError::Ill(_)) => {}
                Err(CallError::NotFound) if self.memo.is_some() => return Err(lost().into()),
                Err(no) => return Err(no.into_fault().into()),
            }
            if self.clock.now() >= give_up {
                let message = "its answers break off before they begin";
                return Err(RemoteFault::new(Code::Unreachable, message).into());
            }
            self.pause(pause).await;
            pause = (pause * 2).min(PAUSE_MS_MAX);
        }
    }

    /// Waits for a known task to rest.
    async fn wait(&mut self, line: &A2aClient) -> Result<Task, End> {
        let Some(memo) = self.memo.clone() else {
            return Err(from_a2a::bad("it began no task, and said nothing").into());
        };
        let give_up = memo.since.plus(self.settings.total_ms);
        let mut pause = PAUSE_MS;
        loop {
            let task = self.look(line, &memo.task).await?;
            if !task.state.is_moving() {
                return Ok(task);
            }
            if self.clock.now() >= give_up {
                let message = "it does not come to rest within `timeouts.total`";
                return Err(RemoteFault::new(Code::Timeout, message).into());
            }
            if line.interface.streams
                && let Ok(Opened::Stream(events)) =
                    line.open(Call::Subscribe(&memo.task), &memo.task).await
            {
                match self.listen(events, give_up).await? {
                    Rest::Task(task) => return Ok(*task),
                    Rest::Message(_) | Rest::Unseen | Rest::NotYet => {}
                }
                // What it says at the end of a stream is asked for again, whole.
                let task = self.look(line, &memo.task).await?;
                if !task.state.is_moving() {
                    return Ok(task);
                }
            }
            self.pause(pause).await;
            pause = (pause * 2).min(PAUSE_MS_MAX);
        }
    }

    /// How a task stands; patient with a server that is away.
    async fn look(&mut self, line: &A2aClient, task: &str) -> Result<Task, RemoteFault> {
        let give_up = self.clock.now().plus(self.settings.contact_ms);
        let mut pause = PAUSE_MS;
        loop {
            match line.call(Call::Get(task), task).await {
                Ok(value) => {
                    let found = from_a2a::task(&value)?;
                    if found.id == task {
                        return Ok(found);
                    }
                    return Err(from_a2a::bad("it was asked for one task and sent another"));
                }
                Err(CallError::NotFound) => return Err(lost()),
                Err(CallError::Ill(why)) if self.clock.now() >= give_up => {
                    return Err(RemoteFault::new(Code::Unreachable, why));
                }
                Err(CallError::Ill(_)) => {}
                Err(no @ (CallError::Unsupported(_) | CallError::Fault(_))) => {
                    return Err(no.into_fault());
                }
            }
            self.pause(pause).await;
            pause = (pause * 2).min(PAUSE_MS_MAX);
        }
    }

    /// Until when the task may be at work.
    fn patience(&self) -> Millis {
        let since = self.memo.as_ref().map_or_else(|| self.clock.now(), |memo| memo.since);
        since.plus(self.settings.total_ms)
    }

    /// Listens until the task rests, nothing more comes, or it has talked for long enough.
    async fn listen(&mut self, mut events: Events, give_up: Millis) -> Result<Rest, End> {
        loop {
            let left = Duration::from_millis(give_up.0.saturating_sub(self.clock.now().0));
            let wait = left.min(SILENCE);
            if wait.is_zero() {
                return Ok(Rest::NotYet);
            }
            let Ok(Some(event)) = tokio::time::timeout(wait, events.next()).await else {
                return Ok(Rest::NotYet);
            };
            let value = match event {
                Ok(value) => value,
                Err(CallError::Ill(_)) => return Ok(Rest::NotYet),
                Err(no) => return Err(no.into_fault().into()),
            };
            match self.heard(from_a2a::told(&value)?).await? {
                Rest::NotYet => {}
                rested @ (Rest::Task(_) | Rest::Message(_) | Rest::Unseen) => return Ok(rested),
            }
        }
    }

    async fn heard(&mut self, told: Told) -> Result<Rest, End> {
        match told {
            Told::Message(parts) => Ok(Rest::Message(parts)),
            Told::Task(task) => {
                self.is_ours(&task).await?;
                Ok(if task.state.is_moving() { Rest::NotYet } else { rest(*task) })
            }
            Told::Artifact(text) => {
                if self.input.output.is_none() && !text.is_empty() {
                    self.notes.push(text).await;
                }
                Ok(Rest::NotYet)
            }
            Told::Status(state) => Ok(if state.is_moving() { Rest::NotYet } else { Rest::Unseen }),
        }
    }

    /// Notes the task, if it is new; refuses another in its place.
    async fn is_ours(&mut self, task: &Task) -> Result<(), End> {
        match &self.memo {
            Some(memo) if memo.task == task.id => Ok(()),
            Some(_) => Err(from_a2a::bad("it went on with another task than ours").into()),
            None => {
                self.note(Memo {
                    task: task.id.clone(),
                    context: task.context.clone(),
                    since: self.clock.now(),
                    asked: None,
                    answered: None,
                })
                .await
            }
        }
    }

    /// What a task at rest means.
    async fn ended(&mut self, line: &A2aClient, task: Task) -> Result<Reply, End> {
        let words = || match task.said.text() {
            words if words.is_empty() => "it does not say why".to_owned(),
            words => words,
        };
        let fault = |code, what: &str| {
            let message = format!("its task `{}` {what}: {}", task.id, words());
            Err(End::from(RemoteFault::new(code, message)))
        };
        match task.state {
            State::Completed => Ok(to_a2a::result(&task.results, &task.said, self.input)?),
            State::Failed => fault(Code::Failed, "failed"),
            State::Canceled => fault(Code::Canceled, "was canceled"),
            State::Rejected => fault(Code::Rejected, "was rejected"),
            State::InputRequired | State::AuthRequired => {
                if let Some(memo) = self.memo.clone() {
                    let asked = Some(task.fingerprint.clone());
                    self.note(Memo { asked, ..memo }).await?;
                }
                Ok(to_a2a::question(&line.interface.name, &task)?)
            }
            State::Working => Err(from_a2a::bad("it rests and works at once").into()),
        }
    }

    async fn note(&mut self, memo: Memo) -> Result<(), End> {
        self.notes.note(memo.value()).await.map_err(End::Own)?;
        self.memo = Some(memo);
        Ok(())
    }

    /// Lets some time pass.
    pub(super) async fn pause(&mut self, ms: u64) {
        self.clock.pause(ms).await;
    }
}

fn rest(task: Task) -> Rest {
    Rest::Task(Box::new(task))
}

fn lost() -> RemoteFault {
    RemoteFault::new(Code::TaskLost, "it no longer knows the task that it began")
}
