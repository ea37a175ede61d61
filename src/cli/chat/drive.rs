//! Drive: keys and events into the model, its wishes to the server, and the model onto the screen.

use std::collections::HashMap;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event as Input, KeyEventKind};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::api::on_cancel::OnCancel;
use crate::app::{Client, Hands, counted};
use crate::cli::chat::draw::draw;
use crate::cli::chat::model::{Model, Wish};
use crate::cli::editor::{self, Edited};
use crate::cli::exit::{Exit, Trouble, in_our_words};
use crate::cli::json;
use crate::cli::people::Sight;
use crate::cli::talk;
use crate::cli::{Ctx, quoted};
use crate::wire::v1::{
    CancelRequestRequest, CancelRunRequest, GetRunRequest, GetSessionRequest, GetWorkflowRequest,
    ListSessionsRequest, ListWorkflowsRequest, Request, RunStatus, RunWorkflowRequest,
    SendResponsesRequest, WatchRunRequest, WorkflowEvent,
};

/// Events that wait to be shown; a stream waits with them.
const BACKLOG: usize = 1_024;
/// How long the keyboard is listened to before looking whether anybody still listens here.
const KEY_POLL: Duration = Duration::from_millis(100);
/// How long to wait before a broken stream is taken up again: a server restarts in about that.
const AGAIN: Duration = Duration::from_millis(300);
/// Sessions that are listed.
const SESSIONS: i32 = 20;

/// What comes in.
enum Heard {
    Event(Box<WorkflowEvent>),
    /// The way to the server is broken; it is tried again.
    Broken(String),
    /// It is whole again.
    Back,
}

/// A chat at work.
pub(super) struct Drive {
    client: Client,
    hands: Hands,
    model: Model,
    heard: (mpsc::Sender<Heard>, mpsc::Receiver<Heard>),
    /// Follows the run that is shown.
    follower: Option<JoinHandle<()>>,
    /// The question that is on the screen, and since when.
    sight: Option<(String, Sight)>,
    /// What was written in an editor and could not be sent.
    draft: Option<String>,
}

impl Drive {
    pub(super) fn new((client, hands): (Client, Hands), workflow: String, session: String) -> Self {
        let model = Model { workflow, session, ..Model::default() };
        let heard = mpsc::channel(BACKLOG);
        Self { client, hands, model, heard, follower: None, sight: None, draft: None }
    }

    /// The same, where cancelling does this unless it is said.
    pub(super) fn cancelling(mut self, means: OnCancel) -> Self {
        self.model.on_cancel = means;
        self
    }

    /// Notes since when the question on the screen is there.
    fn look(&mut self) {
        let Some(shown) = self.model.overlay() else { return };
        if self.sight.as_ref().is_none_or(|(id, _)| *id != shown.request_id) {
            self.sight = Some((shown.request_id.clone(), Sight::of(shown)));
        }
    }

    /// Talks until the person leaves.
    pub(super) async fn run(mut self, ctx: &Ctx) -> Result<Exit, Trouble> {
        self.begin().await;
        let mut keys = keyboard();
        let mut terminal = ratatui::try_init()?;
        let ended = loop {
            if let Err(error) = terminal.draw(|frame| draw(frame, &self.model)) {
                break Err(error.into());
            }
            self.look();
            let wish = tokio::select! {
                key = keys.recv() => match key {
                    Some(Input::Key(key)) if key.kind == KeyEventKind::Press => self.model.key(key),
                    Some(Input::Paste(text)) => {
                        self.model.typed.push_str(&text.replace('\n', " "));
                        None
                    }
                    // Resized: it is drawn anew.
                    Some(_) => None,
                    None => Some(Wish::Leave),
                },
                Some(heard) = self.heard.1.recv() => {
                    self.hear(heard);
                    None
                }
            };
            match wish {
                None => {}
                Some(Wish::Leave) => break Ok(()),
                Some(Wish::Edit(request)) => {
                    // The screen and the keyboard are the editor's meanwhile.
                    ratatui::restore();
                    keys.close();
                    while keys.recv().await.is_some() {}
                    self.edit(*request).await;
                    keys = keyboard();
                    terminal = match ratatui::try_init() {
                        Ok(terminal) => terminal,
                        Err(error) => break Err(error.into()),
                    };
                }
                Some(wish) => {
                    if let Err(status) = self.grant(wish).await {
                        self.model.trouble(&in_our_words(status.message()));
                    }
                }
            }
        };
        ratatui::restore();
        if let Some(follower) = self.follower.take() {
            follower.abort();
        }
        ended.and_then(|()| self.farewell(ctx))
    }

    fn farewell(&self, ctx: &Ctx) -> Result<Exit, Trouble> {
        let Model { workflow, session, .. } = &self.model;
        if !session.is_empty() {
            let again = ctx.again();
            ctx.term.line(&format!(
                "take it up again with: holdpoint chat {workflow} --session {}{again}",
                quoted(session)
            ))?;
        }
        let waits = !self.model.pending.is_empty();
        Ok(if waits { Exit::Waiting } else { Exit::Done })
    }

    async fn begin(&mut self) {
        let begun = if self.model.session.is_empty() {
            self.welcome().await
        } else {
            let session = self.model.session.clone();
            self.take_up(&session).await
        };
        if let Err(status) = begun {
            self.model.trouble(&in_our_words(status.message()));
        }
    }

    async fn welcome(&mut self) -> Result<(), tonic::Status> {
        let listed = self.client.list_workflows(ListWorkflowsRequest {}).await?.into_inner();
        if let Some(own) =
            listed.workflows.iter().find(|one| one.workflow_id == self.model.workflow)
        {
            self.model.note(own.description.clone());
            self.model.note("Say what you want. /help lists the commands.");
            return Ok(());
        }
        if !self.model.workflow.is_empty() {
            let unknown = std::mem::take(&mut self.model.workflow);
            self.model.trouble(&format!("there is no workflow `{unknown}`"));
        }
        self.model.note("With whom do you want to talk? /use one of these:");
        for one in listed.workflows {
            self.model.note(format!("  {}: {}", one.workflow_id, one.description));
        }
        Ok(())
    }

    /// Takes up a session: what was said in its newest run, and what it waits for.
    async fn take_up(&mut self, session: &str) -> Result<(), tonic::Status> {
        let request = GetSessionRequest { session_id: session.to_owned() };
        let found = match self.client.get_session(request).await {
            Ok(found) => found.into_inner(),
            Err(status) if status.code() == tonic::Code::NotFound => {
                self.model.begin(session);
                self.model.note("A new session: say what you want.");
                return Ok(());
            }
            Err(status) => return Err(status),
        };
        self.model.begin(session);
        let Some(newest) = found.runs.first() else { return Ok(()) };
        self.model.workflow.clone_from(&newest.workflow_id);
        if let Err(error) = self.hands.take_up(&newest.run_id).await {
            self.model.trouble(&error.to_string());
        }
        let request = GetRunRequest { run_id: newest.run_id.clone(), omit_conversation: false };
        let seen = self.client.get_run(request).await?.into_inner();
        self.model.recall(&seen.conversation);
        let run = seen.run.unwrap_or_default();
        self.model.status = json::status(run.status).to_lowercase();
        self.model.sequence = run.sequence;
        if let Some(mut waiting) = run.workflow_waiting {
            for request in &mut waiting.requests {
                talk::unveil_whole(request, &mut self.client).await;
                request.conversation.clone_from(&seen.conversation);
            }
            self.model.waits(waiting);
        }
        self.follow(&newest.run_id);
        Ok(())
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            // One of a run that is no longer shown comes late.
            Heard::Event(event) if event.run_id != self.model.run => {}
            Heard::Event(event) => self.model.take(*event),
            Heard::Broken(why) => self.model.reach(Some(&why)),
            Heard::Back => self.model.reach(None),
        }
    }

    async fn grant(&mut self, wish: Wish) -> Result<(), tonic::Status> {
        match wish {
            Wish::Say(text) => self.say(text).await,
            Wish::Answer(request, value) => self.answer(*request, &value).await,
            Wish::Withdraw(request_id) => {
                let request = CancelRequestRequest { request_id, ..Default::default() };
                self.client.cancel_request(request).await.map(drop)
            }
            Wish::Stop => {
                let run_id = self.model.run.clone();
                let request = CancelRunRequest { run_id, ..Default::default() };
                self.client.cancel_run(request).await.map(drop)
            }
            Wish::Status => self.status().await,
            Wish::Sessions(Some(session)) => self.take_up(&session).await,
            Wish::Sessions(None) => self.sessions().await,
            Wish::Use(workflow) => {
                self.model.begin("");
                self.model.run.clear();
                self.model.workflow = workflow;
                self.welcome().await
            }
            Wish::Graph => {
                let request = GetWorkflowRequest { workflow_id: self.model.workflow.clone() };
                let drawn = self.client.get_workflow(request).await?.into_inner().mermaid;
                self.model.is_hidden = !self.model.pending.is_empty();
                self.model.note(drawn);
                Ok(())
            }
            Wish::Edit(_) | Wish::Leave => Ok(()),
        }
    }

    /// A version of their own, from their editor; it is sent when they have left that.
    async fn edit(&mut self, request: Request) {
        let subject = match editor::subject(&request) {
            Ok(subject) => subject,
            Err(why) => {
                self.model.objection = why;
                return;
            }
        };
        match editor::edit(&subject, &mut self.draft).await {
            Edited::Nothing(why) => self.model.objection = why,
            Edited::Version(version) => {
                self.draft = None;
                let value = editor::answer(&request, &version, "");
                if let Err(status) = self.answer(request, &value).await {
                    self.model.trouble(&in_our_words(status.message()));
                }
            }
        }
    }

    async fn say(&mut self, text: String) -> Result<(), tonic::Status> {
        let request = RunWorkflowRequest {
            workflow_id: self.model.workflow.clone(),
            session_id: self.model.session.clone(),
            input: Some(Value::String(text).into()),
            ..RunWorkflowRequest::default()
        };
        let mut stream = match self.client.run_workflow(request).await {
            Ok(stream) => stream.into_inner(),
            Err(status) => {
                self.model.unsend();
                return Err(status);
            }
        };
        let Some(first) = stream.message().await? else { return Ok(()) };
        self.model.session.clone_from(&first.session_id);
        let run = first.run_id.clone();
        // From here on the run is watched, pauses and other people's answers included.
        self.model.sequence = 0;
        self.follow(&run);
        Ok(())
    }

    async fn answer(&mut self, request: Request, value: &Value) -> Result<(), tonic::Status> {
        let id = request.request_id.clone();
        let message = SendResponsesRequest {
            session_id: request.session_id,
            run_id: request.run_id,
            responses: HashMap::from([(id.clone(), value.into())]),
            idempotency_key: String::new(),
            digests: HashMap::from([(id.clone(), request.digest)]),
            shown: self.sight.as_ref().filter(|(seen, _)| *seen == id).map(|(_, it)| it.shown()),
        };
        match self.client.send_responses(message).await {
            Ok(_) => self.model.settle(&id),
            Err(status) if status.code() == tonic::Code::InvalidArgument => {
                // Which request it is can be seen; what it takes is what matters.
                let why = status.message();
                let why = why.split_once("does not fit: ").map_or(why, |(_, why)| why);
                why.clone_into(&mut self.model.objection);
            }
            Err(status) if is_unreached(&status) => {
                // The request is as open as before: nobody has heard the answer.
                self.model.unsend();
                "the server does not answer; Enter sends it again"
                    .clone_into(&mut self.model.objection);
            }
            Err(status) => {
                // Somebody was faster, or it is over: what came of it is told by the run.
                self.model.settle(&id);
                return Err(status);
            }
        }
        Ok(())
    }

    async fn status(&mut self) -> Result<(), tonic::Status> {
        if self.model.run.is_empty() {
            self.model.note("nothing has been said yet");
            return Ok(());
        }
        let request = GetRunRequest { run_id: self.model.run.clone(), omit_conversation: true };
        let run = self.client.get_run(request).await?.into_inner().run.unwrap_or_default();
        let waiting = run.workflow_waiting.unwrap_or_default().requests.len() as u64;
        let waiting = counted(waiting, "open request");
        let status = json::status(run.status).to_lowercase();
        self.model.is_hidden = !self.model.pending.is_empty();
        self.model.note(format!(
            "{} is {status} after {} steps, with {waiting}; session {}",
            run.run_id, run.steps, run.session_id
        ));
        Ok(())
    }

    async fn sessions(&mut self) -> Result<(), tonic::Status> {
        let request = ListSessionsRequest { page_size: SESSIONS, ..Default::default() };
        let listed = self.client.list_sessions(request).await?.into_inner().sessions;
        self.model.is_hidden = !self.model.pending.is_empty();
        for session in &listed {
            let waits = session
                .workflow_waiting
                .as_ref()
                .map_or_else(String::new, |waiting| format!("  waits: {}", waiting.workflow_id));
            self.model.note(format!("{}{waits}", session.session_id));
        }
        if listed.is_empty() {
            self.model.note("there are no sessions yet");
        }
        Ok(())
    }

    /// Follows a run from where the model stands; through its pauses, and through broken streams.
    fn follow(&mut self, run: &str) {
        if let Some(follower) = self.follower.take() {
            follower.abort();
        }
        run.clone_into(&mut self.model.run);
        let (mut client, told) = (self.client.clone(), self.heard.0.clone());
        let (run_id, mut after) = (run.to_owned(), self.model.sequence);
        self.follower = Some(tokio::spawn(async move {
            let mut is_broken = false;
            loop {
                let run_id = run_id.clone();
                let request =
                    WatchRunRequest { run_id, after_sequence: after, through_pauses: true };
                let why = match client.watch_run(request).await {
                    Err(status) => status,
                    Ok(stream) => {
                        let mut stream = stream.into_inner();
                        if std::mem::take(&mut is_broken) && told.send(Heard::Back).await.is_err() {
                            return;
                        }
                        loop {
                            match stream.message().await {
                                Ok(Some(mut event)) => {
                                    after = event.sequence;
                                    talk::unveil_event(&mut event, &mut client).await;
                                    if told.send(Heard::Event(Box::new(event))).await.is_err() {
                                        return;
                                    }
                                }
                                // It is over, and everything was told.
                                Ok(None) => return,
                                Err(status) => break status,
                            }
                        }
                    }
                };
                if !is_broken {
                    is_broken = true;
                    let heard = Heard::Broken(why.message().to_owned());
                    if told.send(heard).await.is_err() {
                        return;
                    }
                }
                tokio::time::sleep(AGAIN).await;
            }
        }));
        if self.model.status == json::status(RunStatus::Completed.into()).to_lowercase() {
            // Over already: there is nothing more to follow.
            drop(self.follower.take());
        }
    }
}

/// Whether a call came to nobody, or nobody knows whether it did: saying it again does no harm.
fn is_unreached(status: &tonic::Status) -> bool {
    matches!(
        status.code(),
        tonic::Code::Unavailable | tonic::Code::DeadlineExceeded | tonic::Code::Unknown
    )
}

/// The keyboard, on a thread of its own: reading it blocks.
fn keyboard() -> mpsc::Receiver<Input> {
    let (keys, heard) = mpsc::channel(BACKLOG);
    std::thread::spawn(move || {
        while !keys.is_closed() {
            let typed = match event::poll(KEY_POLL) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            let Ok(typed) = typed else { return };
            if keys.blocking_send(typed).is_err() {
                return;
            }
        }
    });
    heard
}
