//! Conversations: sessions, as OpenAI's clients and DevUI's page keep them, and what was said in them.

use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::api::bridge::Bridge;
use crate::api::bridge::errors::{Outcome, Problem};
use crate::api::bridge::http::{Call, Reply};
use crate::api::bridge::id::{Dialect, ResponseId};
use crate::api::bridge::{item, question_json, reading};
use crate::engine::{Onlooker, RunView, SessionView, Waiting};
use crate::kernel::{Message, Principal, Speaker};
use crate::ports::SessionRow;

/// Rows of a page where the caller does not say, and at most; as OpenAI has it.
const PAGE_DEFAULT: u64 = 20;
const PAGE_MAX: u64 = 1_000;
/// Sessions looked through for one page of a filtered listing.
const SCAN: i32 = 1_000;

/// `POST /v1/conversations`
pub(super) async fn create(State(bridge): State<Bridge>, call: Call) -> Outcome<Reply> {
    let body = call.json()?;
    if body.get("items").is_some_and(|items| items.as_array().is_some_and(|list| !list.is_empty()))
    {
        let remedy = "a conversation begins empty; say it with `POST /v1/responses`";
        return Err(Problem::invalid("items", remedy));
    }
    let row = bridge.engine.open_session(reading::metadata(&body)?, &call.who).await?;
    Ok(Reply::Json(bridge.conversation(&row, None, &call.who)))
}

/// `GET /v1/conversations`
pub(super) async fn list(State(bridge): State<Bridge>, call: Call) -> Outcome<Reply> {
    let limit = usize::try_from(page_size(&call)?).unwrap_or_default();
    let entity = call.asked("entity_id").filter(|id| !id.is_empty());
    let mut cursor = call.asked("after").unwrap_or_default().to_owned();
    let mut rows = Vec::new();
    let mut has_more = false;
    loop {
        let page = bridge.engine.sessions(&cursor, SCAN, &call.who).await?;
        for view in page.rows.iter().filter(|view| is_shown(view, entity)) {
            if rows.len() == limit {
                has_more = true;
                break;
            }
            rows.push(bridge.conversation(&view.row, Some(view), &call.who));
        }
        match page.next {
            Some(next) if !has_more => cursor = next,
            Some(_) | None => break,
        }
    }
    Ok(Reply::Json(listing(&rows, has_more)))
}

/// `GET /v1/conversations/{id}`
pub(super) async fn retrieve(
    State(bridge): State<Bridge>,
    Path(id): Path<String>,
    call: Call,
) -> Outcome<Reply> {
    let view = bridge.session_view(&bridge.named(&id, &call.who).await, &call.who).await?;
    Ok(Reply::Json(bridge.conversation(&view.row, Some(&view), &call.who)))
}

/// `POST /v1/conversations/{id}`
pub(super) async fn update(
    State(bridge): State<Bridge>,
    Path(id): Path<String>,
    call: Call,
) -> Outcome<Reply> {
    let metadata = reading::metadata(&call.json()?)?;
    let id = bridge.named(&id, &call.who).await;
    bridge.session_view(&id, &call.who).await?;
    let change = |row: &mut SessionRow| row.metadata.clone_from(&metadata);
    bridge.engine.change_session(&id, &call.who, change).await?;
    let view = bridge.session_view(&id, &call.who).await?;
    Ok(Reply::Json(bridge.conversation(&view.row, Some(&view), &call.who)))
}

/// `DELETE /v1/conversations/{id}`: it is shown no more; what happened stays in the journals.
pub(super) async fn delete(
    State(bridge): State<Bridge>,
    Path(id): Path<String>,
    call: Call,
) -> Outcome<Reply> {
    let own = bridge.named(&id, &call.who).await;
    bridge.session_view(&own, &call.who).await?;
    let session = own.clone();
    let change = |row: &mut SessionRow| row.hidden.extend([own.clone()]);
    bridge.engine.change_session(&session, &call.who, change).await?;
    Ok(Reply::Json(json!({"id": id, "object": "conversation.deleted", "deleted": true})))
}

/// `GET /v1/conversations/{id}/items`
pub(super) async fn items(
    State(bridge): State<Bridge>,
    Path(id): Path<String>,
    call: Call,
) -> Outcome<Reply> {
    let mut items = bridge.items_of(&bridge.named(&id, &call.who).await, &call.who).await?;
    // Newest first where the caller does not say, as OpenAI has it; DevUI's page says.
    match call.asked("order") {
        Some("asc") => {}
        None | Some("desc" | "") => items.reverse(),
        Some(_) => return Err(Problem::invalid("order", "expected `asc` or `desc`")),
    }
    if let Some(after) = call.asked("after").filter(|after| !after.is_empty()) {
        let place = items.iter().position(|item| item["id"] == after);
        let place = place.ok_or_else(|| Problem::invalid("after", "expected an item's id"))?;
        items.drain(..=place);
    }
    let limit = usize::try_from(page_size(&call)?).unwrap_or_default();
    let has_more = items.len() > limit;
    items.truncate(limit);
    Ok(Reply::Json(listing(&items, has_more)))
}

/// `POST /v1/conversations/{id}/items`: what is said is said to a workflow, which answers.
pub(super) async fn add_items(Path(_): Path<String>, _: Call) -> Problem {
    let remedy = "nothing is put into a conversation unsaid; say it with `POST /v1/responses`";
    Problem::invalid("items", remedy)
}

/// `GET /v1/conversations/{id}/items/{item_id}`
pub(super) async fn item(
    State(bridge): State<Bridge>,
    Path((id, wanted)): Path<(String, String)>,
    call: Call,
) -> Outcome<Reply> {
    let items = bridge.items_of(&bridge.named(&id, &call.who).await, &call.who).await?;
    let found = items.into_iter().find(|item| item["id"] == wanted.as_str());
    let unknown = || Problem::unknown("item.unknown", "item", &wanted, "item_id");
    Ok(Reply::Json(found.ok_or_else(unknown)?))
}

fn listing(rows: &[Value], has_more: bool) -> Value {
    let mut list = crate::api::bridge::responses::list(rows);
    list["has_more"] = json!(has_more);
    list
}

fn page_size(call: &Call) -> Outcome<u64> {
    match call.number("limit")?.unwrap_or(PAGE_DEFAULT) {
        0 => Ok(PAGE_DEFAULT),
        size if size <= PAGE_MAX => Ok(size),
        _ => Err(Problem::invalid("limit", format!("expected at most {PAGE_MAX}"))),
    }
}

/// Whether a listing shows a session: not hidden, and of the workflow that was asked for.
fn is_shown(view: &SessionView, entity: Option<&str>) -> bool {
    let is_of = |entity: &str| {
        view.row.metadata.get("entity_id").is_some_and(|known| known == entity)
            || view.runs.iter().any(|head| head.workflow == entity)
    };
    !is_hidden(&view.row) && entity.is_none_or(is_of)
}

fn is_hidden(row: &SessionRow) -> bool {
    row.hidden.contains(row.session.as_str())
}

impl Bridge {
    fn conversation(&self, row: &SessionRow, view: Option<&SessionView>, who: &Principal) -> Value {
        let waiting = view.into_iter().flat_map(|view| &view.runs).find_map(|head| {
            let waiting = Waiting::of_head(head)?;
            Some(question_json::waiting(&waiting, Some(&Onlooker::new(&self.engine, head, who))))
        });
        json!({
            "id": row.session.to_string(),
            "object": "conversation",
            "created_at": question_json::seconds(row.started_at),
            "metadata": row.metadata,
            "workflow_waiting": waiting,
        })
    }

    /// The session that a path names.
    async fn named(&self, id: &str, who: &Principal) -> String {
        self.meant(&reading::session(id), who).await
    }

    /// The session that a caller means by an id, where it may have put `conv_` before one of its own choice:
    /// some of OpenAI's clients take no other. A session of the whole name goes first.
    pub(super) async fn meant(&self, named: &str, who: &Principal) -> String {
        if let Some(bare) = named.strip_prefix(reading::CONVERSATION)
            && self.engine.session_row(named, who).await.is_err()
            && self.engine.session_row(bare, who).await.is_ok()
        {
            return bare.to_owned();
        }
        named.to_owned()
    }

    /// A session that the caller may see and has not hidden.
    pub(super) async fn session_view(&self, id: &str, who: &Principal) -> Outcome<SessionView> {
        let unknown = || Problem::unknown("session.unknown", "conversation", id, "conversation");
        let view = self.engine.session(id, who).await.map_err(|error| {
            let problem = Problem::from(error);
            if problem.code() == "session.unknown" { unknown() } else { problem }
        })?;
        if is_hidden(&view.row) { Err(unknown()) } else { Ok(view) }
    }

    /// Refuses a session that its owner has hidden: what is said there, nobody would see.
    pub(super) async fn refuse_hidden(&self, id: &str, who: &Principal) -> Outcome<()> {
        match self.engine.session_row(id, who).await {
            Ok(row) if is_hidden(&row) => {
                Err(Problem::unknown("session.unknown", "conversation", id, "conversation"))
            }
            // One that is not there yet begins with what is said; the engine refuses the others.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Everything that was said, asked, answered and saved in a session, oldest first.
    async fn items_of(&self, id: &str, who: &Principal) -> Outcome<Vec<Value>> {
        let view = self.session_view(id, who).await?;
        let mut items = Vec::new();
        // The newest runs of a session are listed first.
        for head in view.runs.iter().rev() {
            let run = self.engine.run(head.run.as_str(), who).await?;
            items.extend(said(&run));
            for checkpoint in self.engine.checkpoints(head.run.as_str(), who).await? {
                let id = checkpoint.run.checkpoint(checkpoint.version);
                items.push(json!({
                    "id": format!("checkpoint_{id}"),
                    "type": "checkpoint",
                    "checkpoint_id": id,
                    "workflow_name": head.workflow,
                    "timestamp": question_json::time(Some(checkpoint.at)),
                    "metadata": {"message_count": checkpoint.messages},
                    "workflow_waiting": checkpoint.waiting.as_ref().map(|it| question_json::waiting(it, None)),
                }));
            }
        }
        Ok(items)
    }
}

/// What was said in a run, and what it asks now.
fn said(view: &RunView) -> Vec<Value> {
    let run = &view.run;
    let spoken = (1_usize..).zip(&run.conversation);
    let mut items: Vec<_> =
        spoken.filter_map(|(n, message)| message_item(&run.id.message(n), message)).collect();
    let leg = ResponseId { run: run.id.clone(), after: run.version, dialect: Dialect::OpenAi };
    for (index, question) in run.questions.values().enumerate() {
        items.push(item::question(&leg.item("fc", index), &run.id, question, &[]));
    }
    items
}

fn message_item(id: &str, message: &Message) -> Option<Value> {
    let message = message.cleaned()?;
    match message.role {
        Speaker::Assistant => {
            Some(item::message(id, &message.author, "completed", Some(&message.text)))
        }
        Speaker::User => Some(json!({
            "type": "message",
            "id": id,
            "role": "user",
            "status": "completed",
            "content": [{"type": "input_text", "text": message.text}],
            "author_name": message.author,
        })),
        Speaker::Tool | Speaker::System => None,
    }
}
