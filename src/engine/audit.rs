//! Audit: who was asked what, who answered what, when and through which door, word for word; what was
//! called on the strength of it, and what came of that. Read from the journals, which are the only
//! truth; what was refused, and so is in no journal, comes from the store's own log (`trail`).

use std::collections::BTreeMap;

use serde_json::Value;

pub use crate::engine::audit_entry::{AuditEntry, AuditFilter};
use crate::engine::trail::Noted;
use crate::engine::views::{page_size, token};
use crate::engine::whose::Told as _;
use crate::engine::{Engine, EngineError};
use crate::kernel::policy;
use crate::kernel::{
    Claimed, Closing, Delegated, Event, Holder, InForce, Origin, Principal, Question, Recorded,
    Refusal, RunId, Started, ToolCall, Verb, readable,
};
use crate::ports::{Head, Page, RunFilter};

/// Journals read for one page: a filter that matches little must not hold a caller for minutes.
const RUNS_PER_PAGE: usize = 200;

impl Engine {
    /// The audit trail: runs newest first, each in the order in which it happened. A page may be
    /// short, even empty, and still have a next one.
    pub async fn audit(
        &self,
        filter: &AuditFilter,
        cursor: &str,
        limit: i32,
        who: &Principal,
    ) -> Result<Page<AuditEntry>, EngineError> {
        let limit = page_size(limit)?;
        if let Some(run) = &filter.run {
            // A run's trail is one page: whoever wants it wants it whole.
            let rows = match self.head(run, who).await {
                Ok(head) => self.entries_of(&head, filter, &self.noted().await?).await?,
                Err(EngineError::Refused(unknown @ Refusal::UnknownRun(_))) => {
                    let own = self.own_words(filter, who).await?;
                    // Whoever has said nothing in it does not know of it (D2).
                    if own.is_empty() {
                        return Err(unknown.into());
                    }
                    own
                }
                Err(error) => return Err(error),
            };
            return Ok(Page { rows, next: None });
        }
        let session = match &filter.session {
            Some(given) => Some(self.session_listed(given, who).await?),
            None => None,
        };
        let heads = RunFilter {
            session,
            owner: (!who.sees_all()).then(|| who.id.clone()),
            workflow: filter.workflow.clone(),
            status: None,
        };
        let mut cursor = token(cursor, |token| RunId::parse(token).is_ok())?.map(str::to_owned);
        let (mut rows, noted) = (Vec::new(), self.noted().await?);
        if cursor.is_none() && !who.sees_all() {
            rows = self.own_words(filter, who).await?;
        }
        for _ in 0..RUNS_PER_PAGE {
            let page = self.inner.journal.heads(&heads, cursor.as_deref(), 1).await?;
            for head in page.rows.into_iter().filter(|head| who.covers(&head.workflow)) {
                rows.extend(self.entries_of(&head.told_to(who), filter, &noted).await?);
            }
            cursor = page.next;
            if cursor.is_none() || rows.len() >= limit {
                break;
            }
        }
        Ok(Page { rows, next: cursor })
    }

    /// What somebody has said in runs of others: that is theirs to see, though the runs are not. Of the
    /// newest runs; with the first page alone, since a page's token names a run.
    async fn own_words(
        &self,
        filter: &AuditFilter,
        who: &Principal,
    ) -> Result<Vec<AuditEntry>, EngineError> {
        let all = RunFilter { workflow: filter.workflow.clone(), ..RunFilter::default() };
        let heads = match &filter.run {
            None => self.inner.journal.heads(&all, None, RUNS_PER_PAGE).await?.rows,
            Some(run) => match RunId::parse(run) {
                Ok(run) => self.inner.journal.head(&run).await?.into_iter().collect(),
                Err(_) => Vec::new(),
            },
        };
        let (noted, mut rows) = (self.noted().await?, Vec::new());
        let is_anothers = |head: &&Head| head.owner != who.id && who.covers(&head.workflow);
        for head in heads.iter().filter(is_anothers) {
            let entries = self.entries_of(head, filter, &noted).await?;
            let is_own = |entry: &AuditEntry| {
                let is_said =
                    ["answered", "voted", "claimed", "released", "delegated", "taken_back"];
                entry.principal == who.id && is_said.contains(&entry.action)
            };
            rows.extend(entries.into_iter().filter(is_own));
        }
        let session = filter.session.as_deref();
        rows.retain(|entry| session.is_none_or(|session| session == entry.session.as_str()));
        Ok(rows)
    }

    async fn entries_of(
        &self,
        head: &Head,
        filter: &AuditFilter,
        noted: &Noted,
    ) -> Result<Vec<AuditEntry>, EngineError> {
        // A run that did nothing in the time that is asked for need not be read.
        let touched = noted.last_of(&head.run).max(head.updated_at);
        let is_early = filter.since.is_some_and(|since| touched < since);
        let is_late = filter.until.is_some_and(|until| head.started_at >= until);
        if is_early || is_late {
            return Ok(Vec::new());
        }
        let journal = self.read_all(&head.run, head.version).await?;
        let from = head.forked_from.clone();
        let (journal, copies) = self.with_their_times(journal, from).await?;
        let mut open = Open::default();
        let entries = journal.iter().filter_map(|recorded| {
            let mut entry = entry(head, recorded, &mut open)?;
            // What a fork copied happened elsewhere, and the trail says so (K11).
            if let Some((origin, _)) = &head.forked_from
                && recorded.version > 1
                && copies.contains(&recorded.version)
            {
                entry.add(&format!("copied from {origin}"));
            }
            Some(entry)
        });
        let entries = noted.among(head, entries.collect()).into_iter();
        let entries = entries.filter(|entry| filter.accepts(entry));
        Ok(entries.map(|entry| entry.veiled(&head.veil)).collect())
    }
}

impl AuditEntry {
    /// Says one thing more of it.
    fn add(&mut self, more: &str) {
        if !self.note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(more);
    }

    /// Whoever does not say no to what was refused before has taken it up again, and the trail says so (K11).
    fn taken_up(&mut self, value: &Value) {
        let is_no = Verb::of(value).is_some_and(Verb::is_no);
        let taken_up = self.question.as_ref().and_then(Question::taken_up);
        if let Some(taken_up) = taken_up.filter(|_| !is_no) {
            self.add(&taken_up);
        }
    }
}

impl AuditFilter {
    fn accepts(&self, entry: &AuditEntry) -> bool {
        let is_about = |who: &String| {
            let asked = entry.question.iter().flat_map(|question| &question.to);
            entry.principal == *who || asked.into_iter().any(|name| name == who)
        };
        self.principal.as_ref().is_none_or(is_about)
            && self.since.is_none_or(|since| entry.at >= since)
            && self.until.is_none_or(|until| entry.at < until)
    }
}

/// What was asked and is not answered: of people by ordinal, of judges by turn.
#[derive(Debug, Default)]
struct Open {
    started: Option<Box<Started>>,
    questions: BTreeMap<u32, Question>,
    judges: BTreeMap<u32, (String, ToolCall)>,
    /// Requests that were decided, by the call that they are about.
    decided: BTreeMap<String, String>,
    /// Calls that a person had to do with, and what they call.
    calls: BTreeMap<String, String>,
}

impl Open {
    /// Remembers which call a decision was about.
    fn decide(&mut self, run: &RunId, question: Option<&Question>) {
        let Some(question) = question else { return };
        if let Origin::Gate(call) = &question.origin {
            self.decided.insert(call.id.clone(), question.id(run).to_string());
        }
    }
}

/// What of a policy is in force, in words.
fn in_force(force: &InForce) -> String {
    if force.is_nothing() {
        return "nothing of a policy is in force".into();
    }
    let gates: Vec<_> = force.gates.iter().map(|gate| gate.name.as_str()).collect();
    let lifts = if force.lifts.is_empty() {
        String::new()
    } else {
        format!(", lifted: {}", force.lifts.join(", "))
    };
    let policy: String = force.policy.chars().take(16).collect();
    format!("policy {policy}: {}{lifts}", gates.join(", "))
}

/// What an event says about people, or about who decides whether they are asked, if it does.
#[expect(clippy::too_many_lines, reason = "one arm for each event, and no logic")]
fn entry(head: &Head, recorded: &Recorded, open: &mut Open) -> Option<AuditEntry> {
    if let Event::Answered { ordinal, .. } = &recorded.event {
        let question = open.questions.get(ordinal).cloned();
        open.decide(&head.run, question.as_ref());
    }
    let Open { started: founded, questions, judges, decided, calls } = open;
    let mut entry = AuditEntry::bare(head, recorded.at, recorded.version);
    if let Some(started) = founded {
        started.renew(&recorded.event);
    }
    match &recorded.event {
        Event::Started(started) => {
            *founded = Some(started.clone());
            entry.action = "started";
            entry.principal.clone_from(&started.owner);
            entry.door.clone_from(&started.door);
            entry.known = started.known.as_deref().cloned();
            entry.value = Some(started.input.clone());
            if !started.gates.is_empty() {
                let names: Vec<_> = started.gates.iter().map(|gate| gate.name.as_str()).collect();
                entry.add(&format!("brings the gates {}", names.join(", ")));
            }
            if let Some(force) = &started.policy {
                entry.add(&in_force(force));
            }
            if let Some((origin, version)) = &started.forked_from {
                entry.add(&format!("forked from {origin} up to version {version}"));
            }
        }
        Event::Asked(question) => {
            let sealed = |started: &Started| started.sealed(&head.run, question, recorded.at);
            let question = founded.as_deref().map_or_else(|| (**question).clone(), sealed);
            questions.insert(question.ordinal, question.clone());
            entry.action = "asked";
            entry.question = Some(question);
        }
        Event::Answered { ordinal, value, by, door, known, instead_of, .. } => {
            entry.action = "answered";
            entry.note = in_place_of(instead_of.as_deref());
            entry.principal.clone_from(by);
            entry.door.clone_from(door);
            entry.known = known.as_deref().cloned();
            entry.value = Some(value.clone());
            entry.question = questions.remove(ordinal);
            let asked = entry.question.as_ref().map(|question| &question.origin);
            if matches!(asked, Some(Origin::LostOutcome(_))) && Verb::of(value) == Some(Verb::Redo)
            {
                entry.add("the call is made again");
            }
            entry.taken_up(value);
        }
        Event::Voted { ordinal, value, by, door, known, instead_of, void, .. } => {
            entry.action = "voted";
            let gone = void.iter().map(|(_, who)| format!("the word of {who} no longer counts"));
            let place = Some(in_place_of(instead_of.as_deref())).filter(|place| !place.is_empty());
            entry.note = place.into_iter().chain(gone).collect::<Vec<_>>().join("; ");
            entry.principal.clone_from(by);
            entry.door.clone_from(door);
            entry.known = known.as_deref().cloned();
            entry.value = Some(value.clone());
            entry.question = questions.get(ordinal).cloned();
            entry.taken_up(value);
        }
        Event::Claimed(Claimed { ordinal, by, door, span, known, .. }) => {
            entry.action = if span.is_some() { "claimed" } else { "released" };
            entry.principal.clone_from(by);
            entry.door.clone_from(door);
            entry.known = known.as_deref().cloned();
            let until = span.map(|span| format!("until {}", span.end(recorded.at).date()));
            entry.note = until.unwrap_or_default();
            entry.question = questions.get(ordinal).cloned();
        }
        Event::Delegated(Delegated { ordinal, by, door, to, known, .. }) => {
            entry.action = if to.is_some() { "delegated" } else { "taken_back" };
            entry.principal.clone_from(by);
            entry.door.clone_from(door);
            entry.known = known.as_deref().cloned();
            let handed =
                |to: &Holder| format!("to {} until {}", to.who, to.span.end(recorded.at).date());
            entry.note = to.as_ref().map(handed).unwrap_or_default();
            entry.question = questions.get(ordinal).cloned();
        }
        Event::Closed { ordinal, closing, by, door, known, .. } => {
            entry.door.clone_from(door);
            entry.known = known.as_deref().cloned();
            entry.action = match closing {
                Closing::Rejected => "expired",
                Closing::Passed => "passed",
                Closing::Withdrawn => "withdrawn",
                Closing::Moot => "moot",
            };
            entry.principal.clone_from(by);
            entry.question = questions.remove(ordinal);
        }
        Event::Stood { since, .. } => {
            entry.action = "stood";
            entry.note = format!("halted since {}", since.date());
        }
        Event::Reminded { ordinal, .. } => {
            entry.action = "reminded";
            entry.question = questions.get(ordinal).cloned();
        }
        Event::Escalated { ordinal, to, deadline } => {
            if let Some(question) = questions.get_mut(ordinal) {
                (question.to, question.deadline) = (to.clone(), *deadline);
            }
            entry.action = "escalated";
            entry.note = to.join(", ");
            entry.question = questions.get(ordinal).cloned();
        }
        Event::Ruled(force) => {
            entry.action = "policy_changed";
            entry.value = Some(policy::told(force));
            entry.note = in_force(force);
        }
        Event::Renewed { only, .. } => {
            (entry.action, entry.note) = if only.is_empty() {
                ("renewed", "the store was put back from a backup or a copy".into())
            } else {
                ("asked_anew", "the same was refused in another run of its family".into())
            };
        }
        Event::Revoked { tool, by, door, known, .. } => {
            entry.action = "grant_revoked";
            entry.principal.clone_from(by);
            entry.door.clone_from(door);
            entry.known = known.as_deref().cloned();
            entry.note.clone_from(tool);
        }
        Event::Signalled { name, value, by, door, known, .. } => {
            entry.action = "signalled";
            entry.principal.clone_from(by);
            entry.door.clone_from(door);
            entry.known = known.as_deref().cloned();
            entry.note.clone_from(name);
            entry.value = (!value.is_null()).then(|| value.clone());
        }
        Event::Cancelled { by, reason, door, known, .. } => {
            entry.action = "cancelled";
            entry.principal.clone_from(by);
            entry.door.clone_from(door);
            entry.known = known.as_deref().cloned();
            entry.note.clone_from(reason);
        }
        Event::Failed(failure) => {
            entry.action = "failed";
            entry.note = format!("{} [{}]", failure.message, failure.code);
        }
        // A deed of which nobody will know whether it was done, but for this.
        Event::Warned(failure) if failure.code == "tool.cut_off" => {
            entry.action = "cut_off";
            entry.note.clone_from(&failure.message);
        }
        Event::Completed => entry.action = "completed",
        // The deed, beside the yes that released it.
        Event::ToolCalled { call, granted, .. } => {
            entry.action = "called";
            entry.value = Some(call.arguments.clone());
            entry.note = match decided.get(&call.id) {
                Some(request) => format!("{}, allowed by {request}", call.tool),
                None => call.tool.clone(),
            };
            for (gate, by) in granted {
                entry.add(&format!("at gate {gate} allowed for the run by {by}"));
            }
            calls.insert(call.id.clone(), call.tool.clone());
        }
        // A call that stands at a halt was not made, whatever is said before this.
        Event::Held { call_id, is_over, .. } => {
            entry.note.clone_from(calls.get(call_id)?);
            entry.action = if *is_over { "made" } else { "held" };
            let told = if *is_over { "the halt has ended" } else { "not made: a halt stands" };
            entry.add(told);
        }
        Event::ToolReturned { call_id, value, failed, .. } => {
            entry.note = calls.remove(call_id)?;
            entry.action = if *failed { "call_failed" } else { "returned" };
            entry.value = Some(value.clone());
        }
        Event::StepStarted { turn, agent, judges: Some(judging), .. } => {
            judges.insert(*turn, (agent.clone(), judging.call.clone()));
            return None;
        }
        Event::StepCompleted { turn, output } => {
            let (agent, call) = judges.remove(turn)?;
            judged(&mut entry, agent, &call, "");
            entry.value = Some(output.clone());
        }
        Event::StepFailed { turn, failure, retry_at: None, .. } => {
            let (agent, call) = judges.remove(turn)?;
            judged(&mut entry, agent, &call, &format!(": {} [{}]", failure.message, failure.code));
        }
        Event::StepStarted { .. }
        | Event::Delta { .. }
        | Event::Noted { .. }
        | Event::MessageAdded { .. }
        | Event::HandedOff { .. }
        | Event::StepFailed { .. }
        | Event::StepOpened { .. }
        | Event::StepClosed { .. }
        | Event::StepOutcome { .. }
        | Event::CheckpointSaved
        | Event::Parked
        | Event::Output { .. }
        | Event::Warned(_) => return None,
    }
    Some(entry)
}

/// In whose place somebody spoke, in words.
fn in_place_of(whose: Option<&str>) -> String {
    whose.map(|whose| format!("in the place of {whose}")).unwrap_or_default()
}

/// A judge said, or failed to say, whether a person must look at a call.
fn judged(entry: &mut AuditEntry, agent: String, call: &ToolCall, wrong: &str) {
    entry.action = "judged";
    entry.principal = agent;
    entry.note = format!("{} {}{wrong}", call.tool, readable(&call.arguments));
}
