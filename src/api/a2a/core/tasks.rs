//! Tasks: get, list, cancel. What is not the caller's is not there.

use jiff::Timestamp;

use crate::api::a2a::core::{Caller, Core};
use crate::api::a2a::errors::{Kind, Outcome, Problem};
use crate::api::a2a::{mapping, reading};
use crate::engine::EngineError;
use crate::kernel::{Millis, Refusal, SessionId};
use crate::ports::{Head, RunFilter};
use crate::wire::a2a::{CancelTask, GetTask, ListTasks, ListTasksResponse, Task, TaskState};

/// Tasks of a page where the caller does not say, and at most: the protocol's own figures.
const PAGE_DEFAULT: usize = 50;
const PAGE_MAX: usize = 100;
/// Runs that one listing is made from, the newest: it is sorted by when they changed, which no
/// index holds, and a head weighs about a kilobyte.
const SCAN_MAX: usize = 10_000;
/// Heads read at a time.
const SCAN_PAGE: i32 = 1_000;

impl Core {
    /// One task.
    pub(in crate::api::a2a) async fn get(&self, caller: &Caller, call: &GetTask) -> Outcome<Task> {
        let history = reading::history_length(call.history_length)?;
        self.task(caller, &call.id, history).await
    }

    /// Stops a task. One that is over cannot be stopped any more.
    pub(in crate::api::a2a) async fn cancel(
        &self,
        caller: &Caller,
        call: &CancelTask,
    ) -> Outcome<Task> {
        // What is not the caller's is not there, whatever is asked of it.
        self.view(caller, &call.id).await?;
        let over = |view: &crate::engine::RunView| {
            let message = format!("task `{}` is {}", call.id, view.head.status.word());
            Problem::new(Kind::TaskNotCancelable, "run.over", message.to_lowercase())
        };
        match self.engine.cancel(&call.id, "", &caller.key, &caller.who).await {
            Ok(_) => self.task(caller, &call.id, None).await,
            Err(EngineError::Refused(Refusal::RunOver { .. })) => {
                Err(over(&self.view(caller, &call.id).await?))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The caller's tasks with this agent, what changed last first.
    pub(in crate::api::a2a) async fn list(
        &self,
        caller: &Caller,
        call: &ListTasks,
    ) -> Outcome<ListTasksResponse> {
        let size = page_size(call.page_size)?;
        let history = reading::history_length(call.history_length)?;
        let after = call.status_timestamp_after.as_deref().filter(|text| !text.is_empty());
        let after = after.map(timestamp).transpose()?;
        let mut heads = self.heads(caller, call).await?;
        heads.retain(|head| after.is_none_or(|after| mapping::since(head) >= after));
        heads.sort_by(|one, other| place(other).cmp(&place(one)));
        let total = heads.len();
        if !call.page_token.is_empty() {
            let (at, run) = cursor(&call.page_token)?;
            heads.retain(|head| place(head) < (at, run));
        }
        let has_more = heads.len() > size;
        heads.truncate(size);
        let next = heads.last().filter(|_| has_more).map(|last| {
            let (at, run) = place(last);
            format!("{}.{run}", at.0)
        });
        let artifacts = call.include_artifacts.unwrap_or_default();
        let mut tasks = Vec::with_capacity(heads.len());
        for head in &heads {
            tasks.push(self.listed(caller, head, history.unwrap_or_default(), artifacts).await?);
        }
        Ok(ListTasksResponse {
            tasks,
            next_page_token: next.unwrap_or_default(),
            page_size: i32::try_from(size).unwrap_or(i32::MAX),
            total_size: i32::try_from(total).unwrap_or(i32::MAX),
        })
    }

    /// The heads that a listing is made from.
    async fn heads(&self, caller: &Caller, call: &ListTasks) -> Outcome<Vec<Head>> {
        let session = match call.context_id.as_str() {
            "" => None,
            given => match SessionId::parse(given) {
                Ok(session) => Some(session),
                Err(bad) => return Err(Problem::invalid("contextId", bad)),
            },
        };
        let statuses: &[&str] = match call.status {
            TaskState::Unspecified => &[""],
            // A run that waits for the clock or an external event is at work, too.
            TaskState::Working => &["RUNNING", "WAITING"],
            TaskState::InputRequired | TaskState::AuthRequired => &["WAITING"],
            TaskState::Completed => &["COMPLETED"],
            TaskState::Failed => &["FAILED"],
            TaskState::Canceled => &["CANCELLED"],
            // A run is never in one of these.
            TaskState::Submitted | TaskState::Rejected => &[],
        };
        let mut heads = Vec::new();
        for status in statuses {
            let filter = RunFilter {
                session: session.clone(),
                owner: None,
                workflow: Some(caller.workflow().to_owned()),
                status: (!status.is_empty()).then(|| (*status).to_owned()),
            };
            heads.extend(self.scanned(caller, &filter).await?);
        }
        heads.retain(|head| {
            let onlooker = self.onlooker(caller, head);
            let state = || mapping::state(head, &|one| onlooker.barred(one));
            call.status == TaskState::Unspecified || state() == call.status
        });
        Ok(heads)
    }

    async fn scanned(&self, caller: &Caller, filter: &RunFilter) -> Outcome<Vec<Head>> {
        let mut heads = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.engine.runs(filter.clone(), &cursor, SCAN_PAGE, &caller.who).await?;
            heads.extend(page.rows);
            match page.next {
                Some(next) if heads.len() < SCAN_MAX => cursor = next,
                Some(_) | None => return Ok(heads),
            }
        }
    }

    async fn listed(
        &self,
        caller: &Caller,
        head: &Head,
        history: usize,
        artifacts: bool,
    ) -> Outcome<Task> {
        if history == 0 && !artifacts {
            let onlooker = self.onlooker(caller, head);
            let seen = onlooker.sees_head(head.clone());
            return Ok(mapping::task(&seen, &|one| onlooker.barred(one)));
        }
        let mut task = self.task(caller, head.run.as_str(), Some(history)).await?;
        if !artifacts {
            task.artifacts.clear();
        }
        Ok(task)
    }
}

fn page_size(given: Option<i32>) -> Outcome<usize> {
    let size = given.map_or(Ok(PAGE_DEFAULT), usize::try_from);
    let size = size.ok().filter(|size| (1..=PAGE_MAX).contains(size));
    size.ok_or_else(|| Problem::invalid("pageSize", format!("expected 1 to {PAGE_MAX}")))
}

fn place(head: &Head) -> (Millis, &str) {
    (mapping::since(head), head.run.as_str())
}

fn cursor(token: &str) -> Outcome<(Millis, &str)> {
    let parts = token.split_once('.');
    let parsed = parts.and_then(|(at, run)| Some((Millis(at.parse().ok()?), run)));
    parsed.ok_or_else(|| Problem::invalid("pageToken", "expected the token of the page before"))
}

fn timestamp(text: &str) -> Outcome<Millis> {
    let time: Option<Timestamp> = text.parse().ok();
    let ms = time.and_then(|time| u64::try_from(time.as_millisecond()).ok());
    ms.map(Millis).ok_or_else(|| {
        Problem::invalid("statusTimestampAfter", "expected a time such as 2026-01-31T12:00:00Z")
    })
}
