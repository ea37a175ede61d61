//! Stream: a run's events as A2A tells them. A snapshot first, then every change after it.
//!
//! The snapshot is the run folded up to a version, the tail is the journal after that version, so
//! nothing is lost in between and nothing comes twice (E1), whenever and wherever one subscribes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::a2a::core::{Caller, Core, whole};
use crate::api::a2a::errors::{Outcome, Problem};
use crate::api::a2a::mapping;
use crate::engine::{Onlooker, Published, RunView, Until, Waiting, Watch};
use crate::failpoint;
use crate::kernel::workflow::Pattern;
use crate::kernel::{Event, Message as Said, Purpose, Question, RunId, Version, Workflow};
use crate::wire::a2a::{
    ArtifactUpdate, Content, Message, Part, StatusUpdate, StreamResponse, SubscribeToTask, Task,
    TaskState, TaskStatus,
};

/// What a task tells, until it has nothing more to tell.
#[derive(Debug)]
pub(in crate::api::a2a) struct TaskStream {
    first: Option<Task>,
    watch: Option<Watch>,
    translator: Translator,
}

impl TaskStream {
    pub(super) fn new(first: Option<Task>, watch: Option<Watch>, translator: Translator) -> Self {
        Self { first, watch, translator }
    }

    /// The next event, with its place in the journal; the snapshot has the place it was taken at.
    pub(in crate::api::a2a) async fn next(&mut self) -> Option<Outcome<(Version, StreamResponse)>> {
        if let Some(task) = self.first.take() {
            return Some(Ok((self.translator.version, StreamResponse::Task(Box::new(task)))));
        }
        loop {
            let published = match self.watch.as_mut()?.next().await {
                Ok(Some(published)) => published,
                Ok(None) => return None,
                Err(error) => {
                    self.watch = None;
                    return Some(Err(error.into()));
                }
            };
            failpoint::hit("api.before_event");
            let version = published.sequence;
            if let Some(told) = self.translator.tell(&published) {
                return Some(Ok((version, told)));
            }
        }
    }
}

impl Core {
    /// Follows a task through its pauses until it is over. After `last`, which a client that comes
    /// back remembers, it begins with what came then; else with the task as it stands.
    pub(in crate::api::a2a) async fn subscribe(
        &self,
        caller: &Caller,
        call: &SubscribeToTask,
        last: Option<Version>,
    ) -> Outcome<TaskStream> {
        let view = self.view(caller, &call.id).await?;
        let last = last.filter(|last| *last <= view.head.version);
        if view.head.status.is_over() && last.is_none() {
            return Err(Problem::unsupported(format!(
                "task `{}` is over; GetTask has its result",
                call.id
            )));
        }
        let after = last.unwrap_or(view.head.version);
        let mut watch = self.engine.watch(&call.id, after, Until::Over, &caller.who).await?;
        let onlooker = self.onlooker(caller, &view.head);
        let mut first = last.is_none().then(|| whole(&view, None, &onlooker));
        let mut translator = Translator::at(&watch, &view, onlooker);
        if !translator.results.is_empty() {
            // Its result is being spoken: what was said of it so far belongs to what it is now.
            watch = self.engine.watch(&call.id, 0, Until::Over, &caller.who).await?;
            let so_far = translator.heard_until(after, &mut watch).await?;
            if let Some(task) = first.as_mut().filter(|_| !so_far.is_empty()) {
                task.artifacts = vec![mapping::chunk(vec![Part::of(Content::Text(so_far))])];
            }
        }
        if last.is_some() {
            translator.state = TaskState::Unspecified;
        }
        Ok(TaskStream::new(first, Some(watch), translator))
    }
}

impl Core {
    /// A task, told once, as a stream that ends with it.
    pub(in crate::api::a2a) async fn told_once(
        &self,
        caller: &Caller,
        task: Task,
    ) -> Outcome<TaskStream> {
        let view = self.view(caller, &task.id).await?;
        let translator = Translator::over(&view, self.onlooker(caller, &view.head));
        Ok(TaskStream::new(Some(task), None, translator))
    }
}

/// Turns events into updates.
#[derive(Debug)]
pub(super) struct Translator {
    run: RunId,
    context: String,
    workflow: Arc<Workflow>,
    state: TaskState,
    /// Whom it is told to.
    onlooker: Onlooker,
    /// Where the stream begins.
    pub(super) version: Version,
    /// Turns whose text is the run's result as it is spoken, and the attempt that is streaming.
    results: BTreeMap<u32, Option<u32>>,
}

impl Translator {
    pub(super) fn new(
        watch: &Watch,
        workflow: &Arc<Workflow>,
        state: TaskState,
        onlooker: Onlooker,
    ) -> Self {
        Self {
            run: watch.run_id().clone(),
            context: watch.session_id().to_string(),
            workflow: Arc::clone(workflow),
            state,
            onlooker,
            version: 0,
            results: BTreeMap::new(),
        }
    }

    /// Takes over from where a run stands.
    pub(super) fn at(watch: &Watch, view: &RunView, onlooker: Onlooker) -> Self {
        let run = &view.run;
        let state = mapping::state(&view.head, &|one| onlooker.barred(one));
        let mut translator = Self::new(watch, &run.workflow, state, onlooker);
        translator.version = view.head.version;
        for turn in run.turns.values() {
            translator.turn_began(turn.number, (&turn.step, &turn.agent), turn.purpose);
        }
        translator
    }

    /// Takes in what was told before `after`, without telling it again; what the attempt under way has
    /// said of the result by then.
    async fn heard_until(&mut self, after: Version, watch: &mut Watch) -> Outcome<String> {
        let mut so_far = String::new();
        while watch.after() < after {
            let Some(published) = watch.next().await? else { break };
            let Event::Delta { turn, attempt, text } = &*published.event else { continue };
            let Some(streaming) = self.results.get_mut(turn) else { continue };
            if *streaming != Some(*attempt) {
                so_far.clear();
            }
            *streaming = Some(*attempt);
            so_far.push_str(text);
        }
        Ok(so_far)
    }

    /// For a stream that ends with its snapshot.
    pub(super) fn over(view: &RunView, onlooker: Onlooker) -> Self {
        Self {
            run: view.head.run.clone(),
            context: view.head.session.to_string(),
            workflow: Arc::clone(&view.run.workflow),
            state: mapping::state(&view.head, &|one| onlooker.barred(one)),
            onlooker,
            version: view.head.version,
            results: BTreeMap::new(),
        }
    }

    /// Notes a turn whose words are the result: the last step's, or the one that sums up.
    fn turn_began(&mut self, turn: u32, (step, agent): (&str, &str), purpose: Purpose) {
        let is_last = match &self.workflow.pattern {
            Pattern::Sequential { steps } => steps.last().is_some_and(|last| last.id == step),
            Pattern::Coordinator { .. } => purpose == Purpose::Synthesis,
            Pattern::Handoff(_) | Pattern::Graph(_) => false,
        };
        let is_text = self.workflow.agents.get(agent).is_none_or(|agent| agent.output.is_none());
        if is_last && is_text {
            self.results.entry(turn).or_insert(None);
        }
    }

    fn tell(&mut self, published: &Published) -> Option<StreamResponse> {
        let at = mapping::time(published.at);
        let (run, context) = (self.run.clone(), self.context.clone());
        match &*published.event {
            Event::Started(started) => {
                // A new task: it is told as it was when it came to be.
                let said = Said::said(started.owner.clone(), &started.input);
                let history = mapping::message(&run, &context, 1, &said).into_iter().collect();
                let state = TaskState::Submitted;
                let status = TaskStatus { state, message: None, timestamp: at };
                let (id, artifacts) = (run.to_string(), Vec::new());
                self.state = TaskState::Submitted;
                let task =
                    Task { id, context_id: context, status, artifacts, history, metadata: None };
                Some(StreamResponse::Task(Box::new(task)))
            }
            Event::StepStarted { turn, step, agent, purpose, .. } => {
                self.turn_began(*turn, (step, agent), *purpose);
                self.works(at)
            }
            Event::Answered { .. } | Event::Closed { .. } => self.works(at),
            Event::MessageAdded { turn, message, .. } => {
                if turn.is_some_and(|turn| self.results.contains_key(&turn))
                    || message.author.is_empty()
                {
                    return None;
                }
                let said = mapping::message(&run, &context, published.message_ordinal, message)?;
                let is_agent = said.role == crate::wire::a2a::Role::Agent;
                is_agent.then(|| self.status(TaskState::Working, Some(said), at))
            }
            Event::Delta { turn, attempt, text } => self.piece(*turn, *attempt, text.clone()),
            Event::Output { value } => Some(self.artifact(mapping::artifact(value), false, true)),
            Event::Parked => self.pauses(published.waiting.as_ref()?, at),
            Event::Completed => Some(self.status(TaskState::Completed, None, at)),
            Event::Failed(failure) => {
                let message = mapping::failed(&run, &context, failure);
                Some(self.status(TaskState::Failed, Some(message), at))
            }
            Event::Cancelled { by, reason, .. } => {
                let message = mapping::cancelled(&run, &context, by, reason);
                Some(self.status(TaskState::Canceled, Some(message), at))
            }
            Event::ToolCalled { .. }
            | Event::ToolReturned { .. }
            | Event::HandedOff { .. }
            | Event::StepCompleted { .. }
            | Event::StepFailed { .. }
            | Event::Asked(_)
            | Event::Noted { .. }
            | Event::Voted { .. }
            | Event::Claimed(_)
            | Event::Delegated(_)
            | Event::Reminded { .. }
            | Event::Stood { .. }
            | Event::Held { .. }
            | Event::Escalated { .. }
            | Event::Revoked { .. }
            | Event::Renewed { .. }
            | Event::Ruled(_)
            | Event::StepOpened { .. }
            | Event::StepOutcome { .. }
            | Event::StepClosed { .. }
            | Event::Signalled { .. }
            | Event::CheckpointSaved
            | Event::Warned(_) => None,
        }
    }

    /// It waits: for whoever is told of it, for others, or for nobody.
    fn pauses(&mut self, waiting: &Waiting, at: Option<String>) -> Option<StreamResponse> {
        if waiting.questions.is_empty() {
            // Nobody is asked: it waits for the clock or an external event.
            return self.works(at);
        }
        let barred = |one: &Question| self.onlooker.barred(one);
        let seen: Vec<_> = waiting.questions.iter().map(|one| self.onlooker.sees(one)).collect();
        let open = (seen.as_slice(), waiting.open);
        let message = mapping::pause((&self.run, &self.context), open, None, &barred);
        let state = mapping::asking(&waiting.questions, &barred);
        Some(self.status(state, Some(message), at))
    }

    /// It is under way, if that is news.
    fn works(&mut self, at: Option<String>) -> Option<StreamResponse> {
        (self.state != TaskState::Working).then(|| self.status(TaskState::Working, None, at))
    }

    /// A piece of the result, while it is being spoken. A later attempt begins anew.
    fn piece(&mut self, turn: u32, attempt: u32, text: String) -> Option<StreamResponse> {
        let streaming = self.results.get_mut(&turn)?;
        let append = *streaming == Some(attempt);
        *streaming = Some(attempt);
        let chunk = mapping::chunk(vec![Part::of(Content::Text(text))]);
        Some(self.artifact(chunk, append, false))
    }

    fn status(
        &mut self,
        state: TaskState,
        message: Option<Message>,
        timestamp: Option<String>,
    ) -> StreamResponse {
        self.state = state;
        StreamResponse::StatusUpdate(Box::new(StatusUpdate {
            task_id: self.run.to_string(),
            context_id: self.context.clone(),
            status: TaskStatus { state, message, timestamp },
            metadata: None,
        }))
    }

    fn artifact(
        &self,
        artifact: crate::wire::a2a::Artifact,
        append: bool,
        last_chunk: bool,
    ) -> StreamResponse {
        StreamResponse::ArtifactUpdate(Box::new(ArtifactUpdate {
            task_id: self.run.to_string(),
            context_id: self.context.clone(),
            artifact,
            append,
            last_chunk,
            metadata: None,
        }))
    }
}
