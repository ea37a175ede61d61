//! Live: a WebSocket for user interfaces. Events out, decisions in, replay from the last event seen.
//!
//! Every message is a JSON object with a `type`. What a client asks for is a command like any other;
//! what it is told comes from the journal, so a client that comes back says where it was (E1).

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::stream::{BoxStream, SelectAll, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::api::MESSAGE_BYTES_MAX;
use crate::api::Shown;
use crate::api::bridge::errors::{Outcome, Problem};
use crate::api::bridge::{Bridge, question_json, reading};
use crate::api::brought;
use crate::api::receipts;
use crate::engine::{
    AnswerRequest, Begun, Engine, EngineError, InboxChange, InboxFilter, InboxWatch, Onlooker,
    Published, StartRequest, Until, Watch,
};
use crate::kernel::{Event, Principal, Refusal, RunId, SessionId, strict};
use crate::ports::trace;

/// Runs that one socket follows at once; a page shows a few.
const WATCHES_MAX: usize = 64;
/// How long a client may take to read one message before it is cut off; it can come back and say
/// where it was.
const PATIENCE: Duration = Duration::from_secs(30);
/// Proxies cut silence after a minute or so.
const PING: Duration = Duration::from_secs(20);
/// What a client that can set no headers says to speak this, and to show its key.
const PROTOCOL: &str = "holdpoint.v1";
const BEARER: &str = "bearer.";
/// The door, as the trail names it.
const DOOR: &str = "websocket";
/// What a client is told whose key has been taken away.
const NO_KEY: CloseFrame =
    CloseFrame { code: close_code::POLICY, reason: Utf8Bytes::from_static("auth.missing") };

/// `GET /v1/ws`
pub(super) async fn open(
    State(bridge): State<Bridge>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    headers: HeaderMap,
) -> Outcome<Response> {
    let who = bridge.doorkeeper.admit(shown(&headers), DOOR)?;
    refuse_foreign_page(&headers)?;
    let upgrade = upgrade.map_err(|_| {
        let remedy = "expected a WebSocket's handshake";
        Problem::new(StatusCode::UPGRADE_REQUIRED, "call.no_websocket", remedy).at("upgrade")
    })?;
    let upgrade = upgrade
        .protocols([PROTOCOL])
        .max_message_size(MESSAGE_BYTES_MAX)
        .max_frame_size(MESSAGE_BYTES_MAX);
    // What is started over it belongs to the trace of whoever opened it.
    let from = trace::current();
    let serve = move |socket| {
        trace::within(from, async move { Live::new(bridge, (who, headers), socket).serve().await })
    };
    Ok(upgrade.on_upgrade(serve).into_response())
}

/// Who calls: its key is shown by one of the protocols that a browser may name, or by header.
fn shown(headers: &HeaderMap) -> Shown<'_> {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let named = text(header::SEC_WEBSOCKET_PROTOCOL).unwrap_or_default();
    let by_protocol = named.split(',').find_map(|name| name.trim().strip_prefix(BEARER));
    let shown = Shown::of(headers);
    Shown { bearer: by_protocol.or(shown.bearer), ..shown }
}

/// A browser lets any page open a socket to anywhere: one from another origin is nobody's wish.
fn refuse_foreign_page(headers: &HeaderMap) -> Outcome<()> {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(origin) = text(header::ORIGIN) else { return Ok(()) };
    let host = origin.split_once("://").map(|(_, host)| host);
    if host.is_some() && host == text(header::HOST) {
        return Ok(());
    }
    let remedy = "origin: a page of another origin may not open a socket here";
    Err(Problem::new(StatusCode::FORBIDDEN, "origin.foreign", remedy).at("origin"))
}

/// Notes that something was heard: a client that lives answers pings.
fn note<T>(heard_at: &mut Instant, heard: T) -> T {
    *heard_at = Instant::now();
    heard
}

/// Returns when who is admitted may have changed.
async fn changed(changes: &mut Option<watch::Receiver<()>>) {
    let has_changed = match changes {
        Some(changes) => changes.changed().await.is_ok(),
        None => false,
    };
    if !has_changed {
        // Nor ever will.
        std::future::pending::<()>().await;
    }
}

/// What one socket follows.
type Told = BoxStream<'static, Value>;

struct Live {
    bridge: Bridge,
    who: Principal,
    /// What the caller came with.
    headers: HeaderMap,
    socket: WebSocket,
    told: SelectAll<Told>,
}

impl Live {
    fn new(bridge: Bridge, (who, headers): (Principal, HeaderMap), socket: WebSocket) -> Self {
        Self { bridge, who, headers, socket, told: SelectAll::new() }
    }

    fn is_admitted(&self) -> bool {
        self.bridge.doorkeeper.admit(shown(&self.headers), DOOR).is_ok()
    }

    async fn serve(mut self) {
        let silence = self.bridge.settings.silence;
        // Asked at least twice before it is given up.
        let mut ping = tokio::time::interval(PING.min(silence / 2));
        let mut heard_at = Instant::now();
        let mut changes = self.bridge.doorkeeper.changes();
        // It may have changed while the socket was opened.
        if !self.is_admitted() {
            return;
        }
        loop {
            let message = tokio::select! {
                heard = self.socket.recv() => match note(&mut heard_at, heard) {
                    Some(Ok(Message::Text(text))) => self.heard(&text).await,
                    Some(Ok(Message::Binary(_))) => {
                        let problem = Problem::invalid("message", "expected JSON in text messages");
                        refused(&Value::Null, &problem)
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                },
                Some(told) = self.told.next(), if !self.told.is_empty() => told,
                () = changed(&mut changes) => {
                    if !self.is_admitted() {
                        self.send(Message::Close(Some(NO_KEY))).await;
                        return;
                    }
                    continue;
                }
                _ = ping.tick() => {
                    if heard_at.elapsed() >= silence || !self.send(Message::Ping(Vec::new().into())).await {
                        return;
                    }
                    continue;
                }
            };
            if !self.send(Message::Text(message.to_string().into())).await {
                return;
            }
        }
    }

    /// Sends, unless the client does not read; whether it did.
    async fn send(&mut self, message: Message) -> bool {
        let sent = tokio::time::timeout(PATIENCE, self.socket.send(message)).await;
        matches!(sent, Ok(Ok(())))
    }

    /// Does what a message asks; returns the word that goes back.
    async fn heard(&mut self, text: &str) -> Value {
        let call = match strict::read(text.as_bytes()) {
            Ok(call) => call,
            Err(why) => return refused(&Value::Null, &Problem::misread("message", why)),
        };
        let id = call["id"].clone();
        match self.perform(&call).await {
            Ok(mut done) => {
                done["type"] = json!("ack");
                done["id"] = id;
                done
            }
            Err(problem) => refused(&id, &problem),
        }
    }

    async fn perform(&mut self, call: &Value) -> Outcome<Value> {
        let given = |field: &str| Ok::<_, Problem>(reading::text(call, field)?.map(str::to_owned));
        let text = |field: &str| given(field).map(Option::unwrap_or_default);
        let engine = self.bridge.engine.clone();
        match call["type"].as_str().unwrap_or_default() {
            "watch" => {
                self.check_room()?;
                let (after, run) = (place(call)?, text("run_id")?);
                let watch = engine.watch(&run, after, Until::Over, &self.who).await?;
                let head = engine.head(&run, &self.who).await?;
                self.told.push(events(watch, Onlooker::new(&engine, &head, &self.who)));
                Ok(json!({"run_id": run}))
            }
            "watch_requests" => {
                self.check_room()?;
                let filter = InboxFilter {
                    session: given("conversation")?.as_deref().map(reading::session),
                    workflow: given("workflow_id")?,
                    kind: None,
                    named: given("request_type")?,
                    ..InboxFilter::default()
                };
                let who = Arc::new((engine.clone(), self.who.clone()));
                self.told.push(requests(engine.watch_inbox(self.who.clone(), filter), &who));
                Ok(json!({}))
            }
            "start" => {
                let start = self.start_of(call)?;
                let begun = engine.start(start, &self.who).await;
                self.follow(begun.map_err(|error| Problem::from(error).for_input())?).await
            }
            "answer" => {
                let mut answers = reading::responses(&call["responses"], "message")?;
                reading::with_digests(&mut answers, call)?;
                let answer = AnswerRequest {
                    session: reading::session(&text("conversation")?),
                    run: String::new(),
                    answers,
                    key: text("idempotency_key")?,
                };
                self.follow(engine.answer(answer, &self.who).await?).await
            }
            "cancel" => {
                let (run, key) = (text("run_id")?, text("idempotency_key")?);
                let run = engine.cancel(&run, &text("reason")?, &key, &self.who).await?;
                Ok(json!({"run_id": run.to_string()}))
            }
            "withdraw" => {
                let key = text("idempotency_key")?;
                let run = engine.withdraw(&text("request_id")?, &key, &self.who).await?;
                Ok(json!({"run_id": run.to_string()}))
            }
            _ => Err(Problem::invalid(
                "type",
                "expected `watch`, `watch_requests`, `start`, `answer`, `cancel` or `withdraw`",
            )),
        }
    }

    /// What a message that starts a workflow asks for.
    fn start_of(&self, call: &Value) -> Outcome<StartRequest> {
        let text = |field: &str| Ok::<_, Problem>(reading::text(call, field)?.unwrap_or_default());
        let mut metadata = reading::metadata(call)?;
        let workflow = text("workflow_id")?.to_owned();
        let of = (workflow.as_str(), &self.who);
        let gates = brought::gates(&self.bridge.engine, of, brought::field(call)?, &mut metadata)?;
        Ok(StartRequest {
            gates,
            workflow,
            session: reading::session(text("conversation")?),
            input: call["input"].clone(),
            key: text("idempotency_key")?.to_owned(),
            metadata,
            ..StartRequest::default()
        })
    }

    /// Says which run it is; who wants to see more of it watches it.
    async fn follow(&mut self, begun: Begun) -> Outcome<Value> {
        let receipt = self.bridge.engine.receipt_now(&begun).await;
        let mut told = self.followed(begun).await?;
        if let Some(receipt) = receipt {
            told["receipt"] = receipts::brief(&receipt);
        }
        Ok(told)
    }

    async fn followed(&mut self, begun: Begun) -> Outcome<Value> {
        let head = match self.bridge.engine.head(begun.run.as_str(), &self.who).await {
            // Somebody who was asked, and does not know the run (K8).
            Err(EngineError::Refused(Refusal::UnknownRun(_))) => {
                return Ok(json!({"run_id": begun.run.to_string()}));
            }
            head => head?,
        };
        Ok(json!({
            "run_id": begun.run.to_string(),
            "conversation": head.session.to_string(),
            "after": begun.watch.after(),
        }))
    }

    fn check_room(&self) -> Outcome<()> {
        if self.told.len() < WATCHES_MAX {
            return Ok(());
        }
        let remedy = format!("a socket follows at most {WATCHES_MAX} things; open another");
        Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "field.too_large", remedy).at("type"))
    }
}

/// After which event a watch begins; at the first, where nothing is said.
fn place(call: &Value) -> Outcome<u64> {
    let after = &call["after"];
    if after.is_null() {
        return Ok(0);
    }
    let remedy = "expected the sequence number of an event, or nothing";
    after.as_u64().ok_or_else(|| Problem::invalid("after", remedy))
}

fn refused(id: &Value, problem: &Problem) -> Value {
    let mut told = problem.body();
    told["type"] = json!("error");
    told["id"] = id.clone();
    told
}

/// A run's events, to its end, through its pauses.
fn events(watch: Watch, onlooker: Onlooker) -> Told {
    let run = watch.run_id().to_string();
    let onlooker = Arc::new(onlooker);
    let stream = futures::stream::unfold(Some(Box::new(watch)), move |watch| {
        let (run, onlooker) = (run.clone(), Arc::clone(&onlooker));
        async move {
            let mut watch = watch?;
            match watch.next().await {
                Ok(Some(published)) => {
                    let told = event((watch.run_id(), watch.session_id()), &published, &onlooker);
                    Some((told, Some(watch)))
                }
                Ok(None) => Some((json!({"type": "end", "run_id": run}), None)),
                Err(error) => {
                    let mut told = refused(&Value::Null, &error.into());
                    told["run_id"] = json!(run);
                    Some((told, None))
                }
            }
        }
    });
    stream.boxed()
}

/// The requests that are open, and every change of them.
fn requests(watch: InboxWatch, who: &Arc<(Engine, Principal)>) -> Told {
    let who = Arc::clone(who);
    let next = |mut watch: Box<InboxWatch>, who: Arc<(Engine, Principal)>| async move {
        match watch.next().await {
            Ok(InboxChange::Opened(open)) => {
                let onlooker = Onlooker::at(&who.0, &open, &who.1);
                let told = json!({
                    "type": "request_opened",
                    "run_id": open.run.to_string(),
                    "conversation": open.session.to_string(),
                    "workflow_id": open.workflow,
                    "request": question_json::request_for(&open.run, &open.question, &onlooker),
                });
                Some((told, Some(watch)))
            }
            Ok(InboxChange::Closed { request, how, by, .. }) => {
                let request = request.to_string();
                let told =
                    json!({"type": "request_closed", "request_id": request, "how": how, "by": by});
                Some((told, Some(watch)))
            }
            Ok(InboxChange::CaughtUp) => Some((json!({"type": "caught_up"}), Some(watch))),
            Err(error) => Some((refused(&Value::Null, &error.into()), None)),
        }
    };
    let stream = futures::stream::unfold(Some(Box::new(watch)), move |watch| {
        let who = Arc::clone(&who);
        async move { next(watch?, who).await }
    });
    stream.boxed()
}

/// An event, with what a listener needs to show it.
fn event(
    (run, session): (&RunId, &SessionId),
    published: &Published,
    onlooker: &Onlooker,
) -> Value {
    let mut told = json!({
        "type": "event",
        "run_id": run.to_string(),
        "conversation": session.to_string(),
        "sequence": published.sequence,
        "time": question_json::time(Some(published.at)),
        "name": name(&published.event),
        "step": published.step,
        "event": published.event,
    });
    if let Some(asked) = &published.asked {
        told["request"] = question_json::request_for(run, &asked.question, onlooker);
        told["request"]["conversation"] = question_json::conversation(&asked.recent);
    }
    if let Some(waiting) = &published.waiting {
        told["workflow_waiting"] = question_json::waiting(waiting, Some(onlooker));
    }
    told
}

/// The event's name, the same that gRPC's stream has for it.
fn name(event: &Event) -> &'static str {
    match event {
        Event::Started(_) => "started",
        Event::StepStarted { .. } => "executor_invoked",
        Event::Delta { .. } => "delta",
        Event::MessageAdded { .. } => "message",
        Event::ToolCalled { .. } => "tool_call",
        Event::ToolReturned { .. } => "tool_result",
        Event::HandedOff { .. } => "handoff",
        Event::StepCompleted { .. } => "executor_completed",
        Event::StepFailed { .. } => "executor_failed",
        Event::Asked(_) => "request_info",
        Event::Answered { .. } => "response_received",
        Event::Closed { .. } => "request_closed",
        Event::Revoked { .. } => "grant_revoked",
        Event::StepOpened { .. } => "step_opened",
        Event::StepOutcome { .. } => "step_worked",
        Event::StepClosed { .. } => "step_settled",
        Event::Signalled { .. } => "signal_received",
        Event::Noted { .. } => "noted",
        Event::Voted { .. } => "vote_received",
        Event::Claimed(_) => "request_claimed",
        Event::Delegated(_) => "request_delegated",
        Event::Reminded { .. } => "request_reminded",
        Event::Stood { .. } => "stood",
        Event::Held { .. } => "held",
        Event::Escalated { .. } => "request_escalated",
        Event::CheckpointSaved => "checkpoint_saved",
        Event::Parked => "status",
        Event::Output { .. } => "output",
        Event::Warned(_) | Event::Renewed { .. } | Event::Ruled(_) => "warning",
        Event::Completed => "completed",
        Event::Failed(_) => "failed",
        Event::Cancelled { .. } => "cancelled",
    }
}
