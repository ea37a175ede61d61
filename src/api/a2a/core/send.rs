//! Send: a message is new work, or the answer that a task waits for.
//!
//! - A message to a waiting task answers it; a bad answer leaves it waiting and says why.
//! - A message with a context and no task answers the context's one waiting task, if there is one.
//! - The same message to the same task again is one answer; a message never starts a run twice by
//!   being like another.

use std::time::Duration;

use crate::api::a2a::core::stream::Translator;
use crate::api::a2a::core::{Caller, Core, TaskStream, push, whole};
use crate::api::a2a::errors::{Outcome, Problem};
use crate::api::a2a::mapping::{self, Objection};
use crate::api::a2a::reading;
use crate::engine::{AnswerRequest, EngineError, Onlooker, RunView, StartRequest, Until, Watch};
use crate::failpoint;
use crate::kernel::{Principal, Question, Refusal, SessionId, binding};
use crate::ports::{Head, HeadStatus};
use crate::wire::a2a::{Message, SendMessage, SendMessageResponse, Task, TaskState};

/// A caller that waits for a task to rest is told how it stands after this long; it goes on (E5).
const BLOCKING_MAX: Duration = Duration::from_mins(10);

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
        Ok(SendMessageResponse::task(whole(&view, history, &onlooker)))
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
        if call.configuration.task_push_notification_config.is_some() {
            self.offers_push()?;
        }
        failpoint::hit("api.before_command");
        let message = &call.message;
        if !message.task_id.is_empty() {
            let view = self.view(caller, &message.task_id).await;
            let view = self.noting(view, &message.task_id, caller).await?;
            if !message.context_id.is_empty() && message.context_id != view.head.session.as_str() {
                let remedy = "the task belongs to another context; leave it out or name its own";
                return Err(Problem::invalid("message.contextId", remedy));
            }
            self.hook_on(caller, call, &view).await?;
            return self.answer(caller, view, message).await;
        }
        // The same message again is known before anything that waits is looked at (K9).
        if let Some(run) = self.engine.begun_with(&start_key(caller, message), &caller.who).await? {
            let view = self.view(caller, run.as_str()).await?;
            return self.as_it_stands(caller, view).await;
        }
        let resumes = !self.no_resume.iter().any(|name| name == caller.workflow());
        if resumes
            && !message.context_id.is_empty()
            && let Some(view) = {
                let waiting = self.waiting_in_context(caller, message).await;
                self.noting(waiting, "", caller).await?
            }
        {
            self.hook_on(caller, call, &view).await?;
            return self.answer(caller, view, message).await;
        }
        self.begin(caller, call).await
    }

    /// Sets up the webhook that comes with a message to a task.
    async fn hook_on(&self, caller: &Caller, call: &SendMessage, view: &RunView) -> Outcome<()> {
        let Some(config) = &call.configuration.task_push_notification_config else { return Ok(()) };
        let hook = push::hook(caller, config, || view.head.run.to_string())?;
        self.engine.put_hook(&view.head.run, hook, &caller.who).await?;
        Ok(())
    }

    async fn begin(&self, caller: &Caller, call: &SendMessage) -> Outcome<Taken> {
        let (workflow, message) = (&caller.agent.workflow, &call.message);
        let config = call.configuration.task_push_notification_config.iter();
        // The task has no id yet that its webhook could be named by.
        let hooks = config.map(|config| push::hook(caller, config, || "push".into()));
        let request = StartRequest {
            workflow: workflow.name.clone(),
            session: message.context_id.clone(),
            input: reading::body(message, workflow.input.as_ref()),
            key: start_key(caller, message),
            // Whether the context waits for this was seen to above.
            afresh: true,
            hooks: hooks.collect::<Outcome<_>>()?,
            ..StartRequest::default()
        };
        let begun = self.engine.start(request, &caller.who).await?;
        let by = Onlooker::starter(&self.engine, &begun.run, &caller.who);
        let state = TaskState::Submitted;
        Ok(Taken {
            id: begun.run.to_string(),
            first: None,
            translator: Translator::new(&begun.watch, workflow, state, by),
            watch: Some(begun.watch.until(Until::Asked)),
        })
    }

    /// A message to a task: an answer, or one that came before.
    async fn answer(&self, caller: &Caller, view: RunView, message: &Message) -> Outcome<Taken> {
        let key = reading::key(message);
        if knows(&view, &key, &caller.who) {
            return self.as_it_stands(caller, view).await;
        }
        let id = view.head.run.to_string();
        match &view.head.status {
            HeadStatus::Waiting(_) if !view.head.questions.is_empty() => {}
            HeadStatus::Running | HeadStatus::Waiting(_) => {
                return Err(Problem::unsupported(format!(
                    "task `{id}` is working and asks nothing; wait until it does, or begin another"
                )));
            }
            HeadStatus::Completed | HeadStatus::Failed(_) | HeadStatus::Cancelled(_) => {
                return Err(Problem::unsupported(format!(
                    "task `{id}` is over; begin another in the same context"
                )));
            }
        }
        let (head, workflow) = (&view.head, &view.run.workflow);
        let answers = match reading::answers(head, workflow, message, &caller.who) {
            Ok(answers) => answers,
            Err(problem) => {
                let run = Some(view.head.run.clone());
                let code = problem.code();
                self.engine.note_refused_as("", run, code, &caller.who).await;
                self.refuse_again(caller, &view, code)?;
                return Ok(self.standing(caller, &view, Some(&problem)));
            }
        };
        let request = AnswerRequest { session: String::new(), run: id.clone(), answers, key };
        match self.engine.answer(request, &caller.who).await {
            Ok(begun) => {
                let onlooker = self.onlooker(caller, &view.head);
                let mut first = whole(&view, None, &onlooker);
                first.status.state = TaskState::Working;
                first.status.message = None;
                let state = TaskState::Working;
                let mut translator = Translator::new(&begun.watch, workflow, state, onlooker);
                translator.version = view.head.version;
                let watch = Some(begun.watch.until(Until::Asked));
                Ok(Taken { id, first: Some(first), watch, translator })
            }
            Err(EngineError::Refused(
                refusal @ (Refusal::WrongAnswer { .. }
                | Refusal::StaleDigest { .. }
                | Refusal::DigestNeeded { .. }
                | Refusal::AskedAnew { .. }
                | Refusal::UnknownRequest(_)
                | Refusal::NotAdmitted { .. }
                | Refusal::NotAssured { .. }
                | Refusal::Role { .. }
                | Refusal::HandedOver { .. }
                | Refusal::ForeignRequest { .. }),
            )) => Ok(self.standing(caller, &view, Some(&refusal.into()))),
            Err(error) => Err(error.into()),
        }
    }

    /// What a message to a task comes to; where it is not taken, that is noted with what it named (K1).
    async fn noting<T>(&self, outcome: Outcome<T>, task: &str, caller: &Caller) -> Outcome<T> {
        if let Err(problem) = &outcome {
            self.engine.note_refused_as(task, None, problem.code(), &caller.who).await;
        }
        outcome
    }

    /// Words alone bring the question again, with its code; a caller that does not read it is told no after
    /// a few times (K9).
    fn refuse_again(&self, caller: &Caller, view: &RunView, code: &str) -> Outcome<()> {
        let asked = view.head.questions.iter().map(|one| one.ordinal).max().unwrap_or_default();
        let is_unbound = code == (Refusal::Unbound { open: Vec::new() }).code();
        if !is_unbound || self.engine.is_told_again(&view.head.run, asked, &caller.who) {
            return Ok(());
        }
        let open: Vec<_> = view.head.open().collect();
        Err(EngineError::from(Refusal::StillUnbound { open: binding::names(&open) }).into())
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
        task.status = mapping::status(&view.head, objection.as_ref(), &barred);
        Taken {
            id: task.id.clone(),
            first: Some(task),
            watch: None,
            translator: Translator::over(view, onlooker),
        }
    }

    /// The task of a context that a message without one is for: the one that it answered before,
    /// or the one that waits.
    async fn waiting_in_context(
        &self,
        caller: &Caller,
        message: &Message,
    ) -> Outcome<Option<RunView>> {
        let session = SessionId::parse(&message.context_id)
            .map_err(|bad| Problem::invalid("message.contextId", bad))?;
        let (key, who) = (reading::key(message), &caller.who);
        if let Some(run) = self.engine.answered_with(&session, &key, who).await? {
            return Ok(Some(self.view(caller, run.as_str()).await?));
        }
        let heads = self.engine.asking_in(&session, who).await?;
        let mut waiting: Vec<&Head> =
            heads.iter().filter(|head| head.workflow == caller.workflow()).collect();
        if let Some(answers) = reading::answers_by_id(message) {
            let is_meant = |head: &&Head| {
                let ids = head.questions.iter().map(|question| question.id(&head.run).to_string());
                ids.into_iter().any(|id| answers.iter().any(|(answered, ..)| *answered == id))
            };
            waiting.retain(is_meant);
        }
        match waiting.as_slice() {
            [] if reading::answers_by_id(message).is_some() => {
                let remedy = "the context has no open request of that id";
                Err(Problem::invalid("message.parts", remedy))
            }
            [] => Ok(None),
            [one] => Ok(Some(self.view(caller, one.run.as_str()).await?)),
            several => {
                let tasks: Vec<_> = several.iter().map(|head| head.run.as_str()).collect();
                let remedy = format!("several tasks of the context wait: {}", tasks.join(", "));
                Err(Problem::invalid("message.taskId", remedy))
            }
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

/// Whether a run has taken an answer under this key from this caller.
fn knows(view: &RunView, key: &str, who: &Principal) -> bool {
    view.run.said_by(&who.id).any(|said| said.key == key)
}

/// A task with no more of its history than was asked for.
fn cut(mut task: Task, history: Option<usize>) -> Task {
    if let Some(limit) = history {
        task.history.drain(..task.history.len().saturating_sub(limit));
    }
    task
}
