//! Send: a message is new work, or the answer that a task waits for.
//!
//! Which of the two is the engine's decision; here it is told in the words of the protocol.
//!
//! - A message to a waiting task answers it; a bad answer leaves it waiting and says why.
//! - A message with a context and no task answers the context's one waiting task, if there is one.
//! - The same message to the same task again is one answer; a message never starts a run twice by
//!   being like another.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::api::a2a::core::stream::Translator;
use crate::api::a2a::core::{Caller, Core, TaskStream, push, whole};
use crate::api::a2a::errors::{Outcome, Problem};
use crate::api::a2a::mapping::{self, Objection};
use crate::api::a2a::reading;
use crate::api::brought;
use crate::api::receipts;
use crate::engine::{
    EngineError, Onlooker, RunView, Speech, StartRequest, Taken as Took, Until, Watch,
};
use crate::failpoint;
use crate::kernel::{Question, Refusal, RequestId};
use crate::wire::a2a::{Message, SendMessage, SendMessageResponse, Task, TaskState};

/// A caller that waits for a task to rest is told how it stands after this long; it goes on (E5).
const BLOCKING_MAX: Duration = Duration::from_mins(10);

/// Under which name a task tells whoever decided what that can be proven by.
const RECEIPT: &str = "holdpoint.receipt";

/// What a message came to.
#[derive(Debug)]
struct Taken {
    /// The task.
    id: String,
    /// The task before what is now watched; none if it is new.
    first: Option<Task>,
    /// What follows; none if nothing does.
    watch: Option<Watch>,
    translator: Translator,
}

impl Core {
    /// Takes a message, and comes back when the task rests.
    pub(in crate::api::a2a) async fn send(
        &self,
        caller: &Caller,
        call: &SendMessage,
    ) -> Outcome<SendMessageResponse> {
        // Apart: it holds a whole run, and every binding would carry the room for it.
        Box::pin(self.sent(caller, call)).await
    }

    async fn sent(&self, caller: &Caller, call: &SendMessage) -> Outcome<SendMessageResponse> {
        let history = reading::history_length(call.configuration.history_length)?;
        let taken = self.take(caller, call).await?;
        let before = taken.first.as_ref().and_then(|task| task.metadata.as_ref());
        let receipt = before.and_then(|metadata| metadata.get(RECEIPT)).cloned();
        let Some(mut watch) = taken.watch else {
            let standing = taken.first.map(|task| SendMessageResponse::task(cut(task, history)));
            return standing.ok_or_else(|| Problem::no_task(&taken.id));
        };
        if !call.configuration.return_immediately {
            let rest = async {
                while watch.next().await?.is_some() {}
                Ok::<_, EngineError>(())
            };
            if let Ok(ended) = tokio::time::timeout(BLOCKING_MAX, rest).await {
                ended?;
            }
        }
        failpoint::hit("api.before_ack");
        let view = self.view(caller, &taken.id).await?;
        let reply = view.output().and_then(|output| mapping::reply(&view.head, output));
        if let Some(message) = reply {
            return Ok(SendMessageResponse::Message(Box::new(message)));
        }
        let onlooker = self.onlooker(caller, &view.head);
        let mut task = whole(&view, history, &onlooker);
        if let Some(receipt) = receipt {
            task.metadata.get_or_insert_default().insert(RECEIPT.to_owned(), receipt);
        }
        Ok(SendMessageResponse::task(task))
    }

    /// Takes a message, and tells what follows until the task rests.
    pub(in crate::api::a2a) async fn send_streaming(
        &self,
        caller: &Caller,
        call: &SendMessage,
    ) -> Outcome<TaskStream> {
        let history = reading::history_length(call.configuration.history_length)?;
        let taken = self.take(caller, call).await?;
        let first = taken.first.map(|task| cut(task, history));
        Ok(TaskStream::new(first, taken.watch, taken.translator))
    }

    async fn take(&self, caller: &Caller, call: &SendMessage) -> Outcome<Taken> {
        reading::check(call)?;
        let config = call.configuration.task_push_notification_config.as_ref();
        if config.is_some() {
            self.offers_push()?;
        }
        failpoint::hit("api.before_command");
        let (workflow, message) = (&caller.agent.workflow, &call.message);
        if !message.task_id.is_empty() {
            let view = self.view(caller, &message.task_id).await;
            let view = self.noting(view, &message.task_id, caller).await?;
            if !message.context_id.is_empty() && message.context_id != view.head.session.as_str() {
                let remedy = "the task belongs to another context; leave it out or name its own";
                return Err(Problem::invalid("message.contextId", remedy));
            }
        }
        let hooks = config.map(|config| push::hook(caller, config)).transpose()?;
        // About the message, or about the call: clients differ in where they put it.
        let mut given = Vec::new();
        for metadata in [&message.metadata, &call.metadata].into_iter().flatten() {
            brought::refuse_unknown(metadata.keys())?;
            given.extend(metadata.get(brought::ENTRY).cloned().map(brought::read).transpose()?);
        }
        let of = (workflow.name.as_str(), &caller.who);
        let given = given.into_iter().flatten().collect();
        let gates = brought::gates(&self.engine, of, given, &mut BTreeMap::new())?;
        let is_afresh = self.no_resume.contains(&workflow.name);
        let start = StartRequest {
            afresh: is_afresh || (!gates.is_empty() && message.task_id.is_empty()),
            gates,
            workflow: workflow.name.clone(),
            session: message.context_id.clone(),
            input: reading::body(message, workflow.input.as_ref()),
            key: start_key(caller, message),
            hooks: hooks.into_iter().collect(),
            ..StartRequest::default()
        };
        let speech = Speech {
            start,
            run: message.task_id.clone(),
            answers: reading::answers_by_id(message)?,
            key: reading::key(message),
            words: Some(Arc::new(reading::Spoken(message.clone()))),
            shows_before: true,
        };
        match self.engine.answer_or_start(speech, &caller.who).await {
            Ok(took) => self.told_of(caller, took).await,
            Err(EngineError::Refused(refusal)) => Err(untaken(message, refusal)),
            Err(error) => Err(error.into()),
        }
    }

    /// What the engine took a message for, in the protocol's words.
    async fn told_of(&self, caller: &Caller, took: Took) -> Outcome<Taken> {
        match took {
            Took::Began(begun) => {
                let (workflow, state) = (&caller.agent.workflow, TaskState::Submitted);
                let name = &workflow.name;
                let by = Onlooker::starter(&self.engine, &begun.run, name, &caller.who);
                Ok(Taken {
                    id: begun.run.to_string(),
                    first: None,
                    translator: Translator::new(&begun.watch, workflow, state, by),
                    watch: Some(begun.watch.until(Until::Asked)),
                })
            }
            Took::Answered { begun, before } => {
                let Some(view) = before else { return Err(Problem::no_task(begun.run.as_str())) };
                let onlooker = self.onlooker(caller, &view.head);
                let mut first = whole(&view, None, &onlooker);
                first.status.state = TaskState::Working;
                first.status.message = None;
                if let Some(receipt) = self.engine.receipt_now(&begun).await {
                    let receipt = receipts::json(&receipt);
                    first.metadata.get_or_insert_default().insert(RECEIPT.to_owned(), receipt);
                }
                let (workflow, state) = (&view.run.workflow, TaskState::Working);
                let mut translator = Translator::new(&begun.watch, workflow, state, onlooker);
                translator.version = view.head.version;
                let watch = Some(begun.watch.until(Until::Asked));
                Ok(Taken { id: begun.run.to_string(), first: Some(first), watch, translator })
            }
            Took::Repeated(begun) => {
                let view = self.view(caller, begun.run.as_str()).await?;
                self.as_it_stands(caller, view).await
            }
            Took::Declined(run, refusal) => {
                let refusal = self.engine.once_more(refusal, &caller.who);
                if !leaves_waiting(&refusal) {
                    return Err(refusal.into());
                }
                let view = self.view(caller, run.as_str()).await?;
                let refusal = self.told_whose(caller, &view, refusal);
                Ok(self.standing(caller, &view, Some(&objection(refusal))))
            }
            Took::Idle(run) => {
                let view = self.view(caller, run.as_str()).await?;
                let remedy = if view.head.status.is_over() {
                    "is over; begin another in the same context"
                } else {
                    "is working and asks nothing; wait until it does, or begin another"
                };
                Err(Problem::unsupported(format!("task `{run}` {remedy}")))
            }
        }
    }

    /// What a message to a task comes to; where it is not taken, that is noted with what it named (K1).
    async fn noting<T>(&self, outcome: Outcome<T>, task: &str, caller: &Caller) -> Outcome<T> {
        if let Err(problem) = &outcome {
            self.engine.note_refused_as(task, None, problem.code(), &caller.who).await;
        }
        outcome
    }

    /// A code is told to those who may use it; everybody else is told whom the question waits for.
    fn told_whose(&self, caller: &Caller, view: &RunView, refusal: Refusal) -> Refusal {
        let onlooker = self.onlooker(caller, &view.head);
        let mut whose = view.head.questions.iter().map(|question| onlooker.barred(question));
        match (&refusal, whose.next().flatten()) {
            (Refusal::Unbound { .. }, Some(first)) if whose.all(|other| other.is_some()) => first,
            _ => refusal,
        }
    }

    /// The same message again: the task as it stands, and what follows if it moves.
    async fn as_it_stands(&self, caller: &Caller, view: RunView) -> Outcome<Taken> {
        let onlooker = self.onlooker(caller, &view.head);
        if mapping::state(&view.head, &|one| onlooker.barred(one)) != TaskState::Working {
            return Ok(self.standing(caller, &view, None));
        }
        let (id, version) = (view.head.run.to_string(), view.head.version);
        let watch = self.engine.watch(&id, version, Until::Asked, &caller.who).await?;
        let first = Some(whole(&view, None, &onlooker));
        let translator = Translator::at(&watch, &view, onlooker);
        Ok(Taken { id, first, watch: Some(watch), translator })
    }

    /// A task that a message changed nothing about, with why.
    fn standing(&self, caller: &Caller, view: &RunView, problem: Option<&Problem>) -> Taken {
        let objection = problem.map(|problem| Objection {
            code: problem.code().to_owned(),
            message: problem.message().to_owned(),
        });
        let onlooker = self.onlooker(caller, &view.head);
        let barred = |one: &Question| onlooker.barred(one);
        let mut task = whole(view, None, &onlooker);
        let seen = onlooker.sees_head(view.head.clone());
        task.status = mapping::status(&seen, objection.as_ref(), &barred);
        Taken {
            id: task.id.clone(),
            first: Some(task),
            watch: None,
            translator: Translator::over(view, onlooker),
        }
    }
}

/// The key under which a message that begins a task is known again: the caller's own, or, in a context
/// that the caller names, the message's.
fn start_key(caller: &Caller, message: &Message) -> String {
    match (caller.key.as_str(), message.context_id.as_str()) {
        ("", "") => String::new(),
        ("", context) => format!("{}@{context}", reading::key(message)),
        (key, _) => key.to_owned(),
    }
}

/// Whether a task that did not take an answer is shown as it waits, with why; other refusals are errors.
fn leaves_waiting(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::WrongAnswer { .. }
            | Refusal::StaleDigest { .. }
            | Refusal::DigestNeeded { .. }
            | Refusal::AskedAnew { .. }
            | Refusal::UnknownRequest(_)
            | Refusal::UnknownCode { .. }
            | Refusal::Unbound { .. }
            | Refusal::AmbiguousAnswer { .. }
            | Refusal::NotAdmitted { .. }
            | Refusal::NotAssured { .. }
            | Refusal::Role { .. }
            | Refusal::HandedOver { .. }
            | Refusal::ForeignRequest { .. }
    )
}

/// Why a waiting task did not take a message, in the words of this protocol.
fn objection(refusal: Refusal) -> Problem {
    if let Refusal::AmbiguousAnswer { .. } = refusal {
        let remedy = "several requests are open; answer by id in a data part: {\"responses\": {…}}";
        return Problem::invalid("message.parts", remedy);
    }
    refusal.into()
}

/// Why a message was taken by no task, in the words of this protocol.
fn untaken(message: &Message, refusal: Refusal) -> Problem {
    if let (Refusal::UnknownRequest(_), "") = (&refusal, message.task_id.as_str()) {
        return Problem::invalid("message.parts", "the context has no open request of that id");
    }
    let requests: Vec<String> = if let Refusal::AmbiguousAnswer { requests, .. } = &refusal {
        requests.clone()
    } else if let Refusal::Unbound { open } = &refusal {
        open.iter().map(|one| one.request.clone()).collect()
    } else {
        return refusal.into();
    };
    let ids = requests.iter().filter_map(|id| RequestId::parse(id).ok());
    let tasks: BTreeSet<_> = ids.map(|id| id.run.to_string()).collect();
    let tasks: Vec<_> = tasks.into_iter().collect();
    let remedy = format!("several tasks of the context wait: {}", tasks.join(", "));
    Problem::invalid("message.taskId", remedy)
}

/// A task with no more of its history than was asked for.
fn cut(mut task: Task, history: Option<usize>) -> Task {
    if let Some(limit) = history {
        task.history.drain(..task.history.len().saturating_sub(limit));
    }
    task
}
