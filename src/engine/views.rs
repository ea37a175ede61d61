//! Views: what callers may look at: runs, sessions, checkpoints, the inbox.

use std::sync::Arc;

use serde_json::Value;

use crate::engine::cell::State;
use crate::engine::commands::Failed;
use crate::engine::narrate::Waiting;
use crate::engine::whose::Told;
use crate::engine::{Engine, EngineError};
use crate::kernel::{
    Admission, Asker, Event, Kind, Millis, Operator, Principal, Question, Refusal, RequestId, Run,
    RunId, SessionId, Version, evolve, replay,
};
use crate::ports::{Head, HeadStatus, Page, RunFilter, SessionRow};

/// Rows of one page at most: a page is held in memory and sent as one message.
const PAGE_MAX: usize = 1_000;
/// Rows of a page where the caller does not say.
const PAGE_DEFAULT: usize = 100;
/// Heads looked through for one page of a filtered listing before the caller gets a cursor.
const SCAN: usize = 512;

/// A run, looked at whole.
#[derive(Debug)]
pub struct RunView {
    /// Where it stands.
    pub head: Head,
    /// The run itself.
    pub run: Run,
}

/// A session and what it waits for.
#[derive(Debug)]
pub struct SessionView {
    /// The session.
    pub row: SessionRow,
    /// Its newest runs.
    pub runs: Vec<Head>,
}

/// A point that a run can be forked from.
#[derive(Debug)]
pub struct CheckpointView {
    /// The run.
    pub run: RunId,
    /// The version it was saved at.
    pub version: Version,
    /// When.
    pub at: Millis,
    /// What the run waited for; nothing where it failed.
    pub waiting: Option<Waiting>,
    /// How long the conversation was.
    pub messages: usize,
}

/// An open request, with where it belongs.
#[derive(Debug, Clone)]
pub struct OpenRequest {
    /// The run.
    pub run: RunId,
    /// Its session.
    pub session: SessionId,
    /// The workflow's name.
    pub workflow: String,
    /// Whose run it is.
    pub owner: String,
    /// Who asked for what is decided.
    pub requesters: Vec<String>,
    /// What is asked.
    pub question: Arc<Question>,
}

impl OpenRequest {
    /// A question of a run, as onlookers are shown it.
    pub(in crate::engine) fn of(run: &Run, question: Arc<Question>) -> Self {
        Self {
            run: run.id.clone(),
            session: run.session.clone(),
            workflow: run.workflow.name.clone(),
            owner: run.owner.clone(),
            requesters: run.requesters.clone(),
            question: run.veil.question(question),
        }
    }

    /// Whether it admits `who` as it stands (K8).
    pub fn admits(&self, who: &Principal, operator: &Operator, now: Millis) -> bool {
        self.admits_named(&who.id, operator, now)
    }

    /// Whether it admits whoever is called `name` as it stands.
    fn admits_named(&self, name: &str, operator: &Operator, now: Millis) -> bool {
        let (owner, requesters) = (self.owner.as_str(), self.requesters.as_slice());
        let by = Asker { owner, requesters, workflow: &self.workflow };
        Admission { by, operator, now }.admits(&self.question, name)
    }

    /// Whether `who` may know of it: whoever it admits, and whoever knows the run.
    pub fn is_known_to(&self, who: &Principal, operator: &Operator, now: Millis) -> bool {
        let is_theirs = who.reaches(&self.owner) || self.admits(who, operator, now);
        who.covers(&self.workflow) && is_theirs
    }

    /// Its id.
    pub fn id(&self) -> RequestId {
        self.question.id(&self.run)
    }
}

/// Which requests are listed.
#[derive(Debug, Clone, Default)]
pub struct InboxFilter {
    /// Of this session.
    pub session: Option<String>,
    /// Of this workflow.
    pub workflow: Option<String>,
    /// Of this kind.
    pub kind: Option<Kind>,
    /// Of this request type.
    pub named: Option<String>,
    /// What admits whoever is called that, as it stands.
    pub principal: Option<String>,
    /// With a deadline before this time.
    pub deadline_before: Option<Millis>,
    /// Asked before this time.
    pub asked_before: Option<Millis>,
}

impl InboxFilter {
    /// Whether a request passes for `who`, as the operator knows people at this time.
    pub fn accepts(
        &self,
        request: &OpenRequest,
        who: &Principal,
        operator: &Operator,
        now: Millis,
    ) -> bool {
        let question = &request.question;
        let is_due = |before: Millis| question.deadline.is_some_and(|deadline| deadline < before);
        let is_asked = |who: &String| request.admits_named(who, operator, now);
        let is_in = |session: &String| request.session.is_called(session, &who.id);
        self.session.as_ref().is_none_or(is_in)
            && self.workflow.as_ref().is_none_or(|workflow| *workflow == request.workflow)
            && self.kind.is_none_or(|kind| kind == question.kind)
            && self.named.as_ref().is_none_or(|name| {
                question.named.as_deref().is_some_and(|named| named.name == *name)
            })
            && self.principal.as_ref().is_none_or(is_asked)
            && self.deadline_before.is_none_or(is_due)
            && self.asked_before.is_none_or(|before| question.asked_at < before)
    }
}

impl Engine {
    /// A run, whole.
    pub async fn run(&self, run: &str, who: &Principal) -> Result<RunView, EngineError> {
        let (_, cell) = self.seen_run(run, who).await?;
        let state = self.read(&cell).await?;
        let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
        let run = self.stilled_run(&hot.run);
        Ok(RunView { head: Head::of(&run), run }.told_to(who))
    }

    /// Where a run stands, without its conversation.
    pub async fn head(&self, run: &str, who: &Principal) -> Result<Head, EngineError> {
        let (_, cell) = self.seen_run(run, who).await?;
        let state = self.read(&cell).await?;
        let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
        Ok(self.stilled_head(&hot.run).told_to(who))
    }

    /// Runs, newest first.
    pub async fn runs(
        &self,
        mut filter: RunFilter,
        cursor: &str,
        limit: i32,
        who: &Principal,
    ) -> Result<Page<Head>, EngineError> {
        if !who.sees_all() {
            filter.owner = Some(who.id.clone());
        }
        if let Some(session) = &filter.session {
            filter.session = Some(self.session_listed(session.as_str(), who).await?);
        }
        let mut cursor = token(cursor, |token| RunId::parse(token).is_ok())?.map(str::to_owned);
        loop {
            let page =
                self.inner.journal.heads(&filter, cursor.as_deref(), page_size(limit)?).await?;
            let rows = page.rows.into_iter().filter(|head| who.covers(&head.workflow)).collect();
            let rows = self.stilled(self.as_asked(rows).await?).await.into_iter();
            let rows: Vec<_> = rows.map(|head| head.told_to(who)).collect();
            // A page may be short, and is empty only at the end.
            if !rows.is_empty() || page.next.is_none() {
                return Ok(Page { rows, next: page.next });
            }
            cursor = page.next;
        }
    }

    /// A session.
    pub async fn session(
        &self,
        session: &str,
        who: &Principal,
    ) -> Result<SessionView, EngineError> {
        if session.is_empty() {
            let remedy = "expected a session's id; ListSessions names them";
            return Err(Refusal::invalid("session_id", remedy).into());
        }
        let row = self.row_of(session, who).await?;
        Ok(self.session_view(row).await?.told_to(who))
    }

    /// The sessions of a principal; of everybody, for whoever sees all.
    pub async fn sessions(
        &self,
        cursor: &str,
        limit: i32,
        who: &Principal,
    ) -> Result<Page<SessionView>, EngineError> {
        let owner = (!who.sees_all()).then_some(who.id.as_str());
        let cursor = token(cursor, |token| SessionId::parse(token).is_ok())?;
        let page = self.inner.journal.sessions(owner, cursor, page_size(limit)?).await?;
        let mut rows = Vec::with_capacity(page.rows.len());
        for row in page.rows {
            if self.knows_session(&row, who).await? {
                rows.push(self.session_view(row).await?.told_to(who));
            }
        }
        Ok(Page { rows, next: page.next })
    }

    async fn session_view(&self, row: SessionRow) -> Result<SessionView, EngineError> {
        let filter = RunFilter { session: Some(row.session.clone()), ..RunFilter::default() };
        let runs = self.inner.journal.heads(&filter, None, PAGE_DEFAULT).await?.rows;
        let runs = self.as_asked(runs).await?;
        Ok(SessionView { row, runs: self.stilled(runs).await })
    }

    /// What a session began with, as its caller said it: the input of the first of the runs that are shown.
    /// Nothing where that run is gone.
    pub async fn opening(&self, view: &SessionView) -> Result<Option<Value>, EngineError> {
        let Some(first) = view.runs.last() else { return Ok(None) };
        let begun = self.inner.journal.read(&first.run, 0, 1).await?;
        let event = begun.into_iter().next().map(|recorded| recorded.event);
        let Some(Event::Started(started)) = event else { return Ok(None) };
        Ok(Some(first.veil.said(&started.owner, started.input)))
    }

    /// The inbox: what waits for people, soonest deadline first.
    pub async fn inbox(
        &self,
        who: &Principal,
        filter: &InboxFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<OpenRequest>, EngineError> {
        let mut rows = Vec::new();
        let mut cursor = cursor.map(str::to_owned);
        // Whoever sees everything and asks for somebody's is shown what lies on that one's desks.
        let of = if who.sees_all() { filter.principal.as_deref() } else { Some(who.id.as_str()) };
        loop {
            let page = match of {
                None => self.inner.journal.waiting(cursor.as_deref(), limit.min(SCAN)).await?,
                Some(of) => self.waiting_of(of, cursor.as_deref(), limit.min(SCAN)).await?,
            };
            let operator = self.operator();
            let asked = self.as_asked(page.rows).await?;
            let open = self.stilled(asked).await.into_iter().flat_map(open_requests);
            let now = self.inner.clock.now();
            let visible = open.filter(|row| row.is_known_to(who, &operator, now));
            let wanted = visible.filter(|row| filter.accepts(row, who, &operator, now));
            rows.extend(wanted.map(|row| row.told_to(who)));
            cursor = page.next;
            if cursor.is_none() || rows.len() >= limit {
                return Ok(Page { rows, next: cursor });
            }
        }
    }

    /// The inbox, for a caller that counts its pages.
    pub async fn inbox_page(
        &self,
        who: &Principal,
        filter: &InboxFilter,
        cursor: &str,
        limit: i32,
    ) -> Result<Page<OpenRequest>, EngineError> {
        let cursor = token(cursor, is_inbox_token)?;
        self.inbox(who, filter, cursor, page_size(limit)?).await
    }

    /// The points that a run can be forked from, each with what it waited for then; the last of a run
    /// that failed is where the failed step is tried again.
    pub async fn checkpoints(
        &self,
        run: &str,
        who: &Principal,
    ) -> Result<Vec<CheckpointView>, EngineError> {
        let (id, cell) = self.seen_run(run, who).await?;
        let (version, workflow, mut marks, failed, veil) = {
            let state = self.read(&cell).await?;
            let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
            let run = &hot.run;
            let (workflow, marks) = (Arc::clone(&run.workflow), run.checkpoints.clone());
            (run.version, workflow, marks, Failed::of(run), run.veil.clone())
        };
        let journal = self.read_all(&id, version).await?;
        let retry = failed.and_then(|failed| failed.retry_point(&id, &journal, self));
        let ended_at = journal.last().map_or(Millis(0), |last| last.at);
        marks.extend(retry.map(|at| (at - 1, ended_at)));
        let mut views = Vec::with_capacity(marks.len());
        let mut folded: Option<Run> = None;
        for recorded in &journal {
            match &mut folded {
                None => {
                    let mut begun = replay(&id, Arc::clone(&workflow), [recorded])?;
                    begun.veil.join(&veil);
                    folded = Some(begun);
                }
                Some(run) => evolve(run, &recorded.event, recorded.at)?,
            }
            let Some(run) = &folded else { continue };
            let is_after = |(mark, _): &&(Version, Millis)| mark + 1 == recorded.version;
            if let Some((mark, at)) = marks.iter().find(is_after) {
                views.push(CheckpointView {
                    run: id.clone(),
                    version: *mark,
                    at: *at,
                    waiting: Waiting::of(run).map(|waiting| waiting.told_to(who)),
                    messages: run.conversation.len(),
                });
            }
        }
        Ok(views)
    }

    /// How many runs are in memory, for the metrics.
    pub fn runs_in_memory(&self) -> usize {
        self.inner.cells.count()
    }
}

impl RunView {
    /// The run's result.
    pub fn output(&self) -> Option<&Value> {
        self.run.output.as_ref()
    }
}

impl Waiting {
    /// What a head waits for, if it does.
    pub fn of_head(head: &Head) -> Option<Self> {
        let HeadStatus::Waiting(since) = head.status else { return None };
        Some(Self {
            run: head.run.clone(),
            session: head.session.clone(),
            workflow: head.workflow.clone(),
            since,
            open: head.questions.len(),
            questions: head.clone().sealed().questions,
        })
    }
}

fn open_requests(head: Head) -> Vec<OpenRequest> {
    let head = head.sealed().veiled();
    let requesters = head.requesters();
    let Head { run, session, workflow, owner, questions, .. } = head;
    questions
        .into_iter()
        .map(|question| OpenRequest {
            run: run.clone(),
            session: session.clone(),
            workflow: workflow.clone(),
            owner: owner.clone(),
            requesters: requesters.clone(),
            question,
        })
        .collect()
}

fn some(cursor: &str) -> Option<&str> {
    (!cursor.is_empty()).then_some(cursor)
}

/// Whether a token is one of the inbox: two times in hexadecimal, and a run.
fn is_inbox_token(token: &str) -> bool {
    let Some((times, stem)) = token.split_at_checked(32) else { return false };
    times.bytes().all(|byte| byte.is_ascii_hexdigit())
        && RunId::parse(&format!("run_{stem}")).is_ok()
}

/// A page token, where its form is known: an unknown one would look like the end of the list.
pub(super) fn token(cursor: &str, is_one: impl Fn(&str) -> bool) -> Result<Option<&str>, Refusal> {
    match some(cursor) {
        Some(token) if !is_one(token) => {
            Err(Refusal::invalid("page_token", "expected a next_page_token of this listing"))
        }
        token => Ok(token),
    }
}

pub(super) fn page_size(limit: i32) -> Result<usize, Refusal> {
    match usize::try_from(limit) {
        Ok(0) => Ok(PAGE_DEFAULT),
        Ok(size) if size <= PAGE_MAX => Ok(size),
        Ok(_) | Err(_) => Err(Refusal::invalid(
            "page_size",
            format!("expected 0 to {PAGE_MAX}; 0 means {PAGE_DEFAULT}"),
        )),
    }
}

impl Told for RunView {
    fn told_to(mut self, who: &Principal) -> Self {
        self.head = self.head.told_to(who);
        self.run.session = self.head.session.clone();
        if !self.run.veil.is_nothing() {
            let veil = self.run.veil.clone();
            veil.over(&mut self.run);
        }
        self
    }
}

impl Told for OpenRequest {
    fn told_to(mut self, who: &Principal) -> Self {
        self.session = self.session.told_to(&who.id);
        self
    }
}

impl Told for SessionView {
    fn told_to(self, who: &Principal) -> Self {
        let runs = self.runs.into_iter().map(|head| head.told_to(who)).collect();
        Self { row: self.row.told_to(who), runs }
    }
}
