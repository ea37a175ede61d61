//! Onlooker: somebody who looks at the open questions of a run, and which of them are theirs to answer.
//! Doors show the others as what they are: something that waits for somebody else. Nothing is decided
//! here; the kernel says who may answer (K8).

use crate::engine::{Engine, OpenRequest};
use crate::kernel::{Admission, Asker, Principal, Question, Refusal, RunId, bars};
use crate::ports::Head;

/// Who looks, and at whose run.
#[derive(Debug, Clone)]
pub struct Onlooker {
    engine: Engine,
    who: Principal,
    run: RunId,
    owner: String,
    requesters: Vec<String>,
}

impl Onlooker {
    /// Somebody who looks at the run of that head.
    pub fn new(engine: &Engine, head: &Head, who: &Principal) -> Self {
        let (engine, who, run) = (engine.clone(), who.clone(), head.run.clone());
        Self { engine, who, run, owner: head.owner.clone(), requesters: head.requesters() }
    }

    /// Somebody who looks at an open request.
    pub fn at(engine: &Engine, open: &OpenRequest, who: &Principal) -> Self {
        let (engine, who, run) = (engine.clone(), who.clone(), open.run.clone());
        Self { engine, who, run, owner: open.owner.clone(), requesters: open.requesters.clone() }
    }

    /// Whoever has begun a run, which nobody else has forked or asked for.
    pub fn starter(engine: &Engine, run: &RunId, who: &Principal) -> Self {
        let (engine, run, owner) = (engine.clone(), run.clone(), who.id.clone());
        Self { engine, who: who.clone(), run, requesters: vec![owner.clone()], owner }
    }

    /// Why they cannot answer that as it stands now; nothing where they can.
    pub fn barred(&self, question: &Question) -> Option<Refusal> {
        self.engine.bars(&self.run, question, (&self.owner, &self.requesters), &self.who)
    }
}

impl Engine {
    /// Whether a request admits `who` as it stands now, and what they show lets them answer (K8).
    pub fn admits(&self, request: &OpenRequest, who: &Principal) -> bool {
        let OpenRequest { run, workflow, owner, requesters, question, .. } = request;
        who.covers(workflow) && self.bars(run, question, (owner, requesters), who).is_none()
    }

    fn bars(
        &self,
        run: &RunId,
        question: &Question,
        (owner, requesters): (&str, &[String]),
        who: &Principal,
    ) -> Option<Refusal> {
        let (operator, now) = (self.operator(), self.inner.clock.now());
        let admission = Admission { by: Asker { owner, requesters }, operator: &operator, now };
        bars(&admission, (run, question), who)
    }
}
