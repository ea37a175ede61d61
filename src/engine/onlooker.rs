//! Onlooker: somebody who looks at the open questions of a run, and which of them are theirs to answer.
//! Doors show the others as what they are: something that waits for somebody else. Nothing is decided
//! here; the kernel says who may answer (K8).

use std::sync::Arc;

use crate::engine::cell::State;
use crate::engine::commands::check::parse_request;
use crate::engine::whose::Told as _;
use crate::engine::{AuditEntry, Engine, EngineError, OpenRequest, Published};
use crate::kernel::{
    Admission, Asker, Event, Principal, Question, Recorded, Refusal, RunId, Veil, Version, bars,
    halt,
};
use crate::ports::Head;

/// Who looks, and at whose run.
#[derive(Debug, Clone)]
pub struct Onlooker {
    engine: Engine,
    who: Principal,
    run: RunId,
    owner: String,
    requesters: Vec<String>,
    workflow: String,
}

impl Onlooker {
    /// Somebody who looks at the run of that head.
    pub fn new(engine: &Engine, head: &Head, who: &Principal) -> Self {
        let (engine, who, run) = (engine.clone(), who.clone(), head.run.clone());
        let (owner, requesters) = (head.owner.clone(), head.requesters());
        Self { engine, who, run, owner, requesters, workflow: head.workflow.clone() }
    }

    /// Somebody who looks at an open request.
    pub fn at(engine: &Engine, open: &OpenRequest, who: &Principal) -> Self {
        let (engine, who, run) = (engine.clone(), who.clone(), open.run.clone());
        let (owner, requesters) = (open.owner.clone(), open.requesters.clone());
        Self { engine, who, run, owner, requesters, workflow: open.workflow.clone() }
    }

    /// Whoever has begun a run, which nobody else has forked or asked for.
    pub fn starter(engine: &Engine, run: &RunId, workflow: &str, who: &Principal) -> Self {
        let (engine, run, owner) = (engine.clone(), run.clone(), who.id.clone());
        let (requesters, workflow) = (vec![owner.clone()], workflow.to_owned());
        Self { engine, who: who.clone(), run, requesters, owner, workflow }
    }

    /// Why they cannot answer that as it stands now; nothing where they can.
    pub fn barred(&self, question: &Question) -> Option<Refusal> {
        let Self { owner, requesters, workflow, .. } = self;
        self.engine.bars(&self.run, question, Asker { owner, requesters, workflow }, &self.who)
    }

    /// A question as they are shown it: what is for those who decide, where they do.
    pub fn sees(&self, question: &Arc<Question>) -> Arc<Question> {
        if question.is_veiled && self.barred(question).is_none() {
            return question.as_decided();
        }
        Arc::clone(question)
    }

    /// The same of what a run waits for.
    #[must_use]
    pub fn sees_head(&self, mut head: Head) -> Head {
        for question in &mut head.questions {
            *question = self.sees(question);
        }
        head
    }
}

impl Engine {
    /// Whether a request admits `who` as it stands now, and what they show lets them answer (K8).
    pub fn admits(&self, request: &OpenRequest, who: &Principal) -> bool {
        let OpenRequest { run, workflow, owner, requesters, question, .. } = request;
        let by = Asker { owner, requesters, workflow };
        who.covers(workflow) && self.bars(run, question, by, who).is_none()
    }

    /// The word that somebody said right after `after` in a run that they do not know, if that is one of theirs: it is
    /// all of the run that is theirs to see.
    pub async fn own_word(
        &self,
        run: &RunId,
        after: Version,
        who: &Principal,
    ) -> Result<Option<Published>, EngineError> {
        let Some(head) = self.inner.journal.head(run).await? else { return Ok(None) };
        let word = self.inner.journal.read(run, after, 1).await?.into_iter().next();
        let is_own = |recorded: &Recorded| {
            let (Event::Answered { by, .. } | Event::Voted { by, .. }) = &recorded.event else {
                return false;
            };
            *by == who.id && who.covers(&head.workflow)
        };
        let word = word.filter(is_own).map(|recorded| {
            Published::alone(Recorded { event: head.veil.event(recorded.event), ..recorded })
        });
        Ok(word)
    }

    /// A request as whoever may answer it is shown it, with what is for those who decide alone. To whoever else knows
    /// of it that is hidden; to all others it is unknown (D2).
    pub async fn request(
        &self,
        request: &str,
        who: &Principal,
    ) -> Result<OpenRequest, EngineError> {
        let id = parse_request("request_id", request)?;
        let unknown = Refusal::UnknownRequest(id.to_string());
        let (cell, ..) = self.known(&id.run, who, &unknown).await?;
        let state = self.read(&cell).await?;
        let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
        let run = &hot.run;
        let kept = run.questions.get(&id.ordinal).filter(|_| run.request(id.ordinal) == id);
        let kept = kept.map(Arc::clone).ok_or_else(|| self.not_there(unknown.clone()))?;
        let mut open = OpenRequest::of(run, halt::shown(&self.halts_listed(), run, kept));
        let (operator, now) = (self.operator(), self.inner.clock.now());
        if !open.is_known_to(who, &operator, now) {
            return Err(unknown.into());
        }
        if self.admits(&open, who) {
            open.question = open.question.as_decided();
        }
        Ok(open.told_to(who))
    }

    fn bars(
        &self,
        run: &RunId,
        question: &Question,
        by: Asker<'_>,
        who: &Principal,
    ) -> Option<Refusal> {
        let (operator, now) = (self.operator(), self.inner.clock.now());
        let admission = Admission { by, operator: &operator, now };
        bars(&admission, (run, question), who)
    }
}

impl AuditEntry {
    /// As onlookers are shown it: a trail is read by those who decide nothing.
    pub(super) fn veiled(mut self, veil: &Veil) -> Self {
        if !veil.is_nothing() {
            let question = self.question.map(|it| (*veil.question(Arc::new(it))).clone());
            self.question = question;
            // What somebody sent is in their own words.
            let is_said = ["started", "answered", "voted", "signalled"].contains(&self.action);
            let said = |value| {
                if is_said { veil.said(&self.principal, value) } else { veil.value(value) }
            };
            self.value = self.value.map(said);
            self.note = if self.action == "cancelled" {
                veil.words(&self.principal, &self.note).into_owned()
            } else {
                veil.text(&self.note).into_owned()
            };
        }
        self
    }
}
