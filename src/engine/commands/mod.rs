//! Commands: what callers may ask of the engine: answer, withdraw, cancel, signal, watch; starting,
//! forking, claims and delegations have files of their own.
//!
//! Every one carries a principal; what is not theirs is unknown to them (D2).

mod awaited;
pub(super) mod check;
mod fork;
mod hooks;
mod places;
mod session;
mod start;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::engine::cell::{Cell, State};
use crate::engine::drive::Extras;
use crate::engine::warm::Aim;
use crate::engine::watch::{Until, Watch};
use crate::engine::{Engine, EngineError};
use crate::kernel::binding::{self, Reference};
use crate::kernel::evidence::leaf::Leaf;
use crate::kernel::workflow::Gate;
use crate::kernel::{Answer, Command, Principal, Refusal, RequestId, RunId, SessionId, Version};
use crate::ports::{Head, Hook};

pub use awaited::{Speech, Taken, Words};
pub(super) use check::parse_session;
use check::{check_key, check_reason, check_value, parse_request, parse_run};
pub(super) use fork::{Failed, is_inherited};

/// Answers in one call; more is no person's doing.
const ANSWERS_MAX: usize = 1_000;

/// Starts a workflow, or answers the session's one open request.
#[derive(Debug, Clone, Default)]
pub struct StartRequest {
    /// The workflow's name.
    pub workflow: String,
    /// The caller's session id; empty for a new one.
    pub session: String,
    /// What the caller says.
    pub input: Value,
    /// Makes the call safe to repeat; empty for none.
    pub key: String,
    /// Whatever the caller wants to find again.
    pub metadata: BTreeMap<String, String>,
    /// A run of its own, even where the session waits for an answer.
    pub afresh: bool,
    /// Gates that it brings: they only add to those of the file.
    pub gates: Vec<Gate>,
    /// Who wants to be told what happens to it.
    pub hooks: Vec<Hook>,
    /// The leg of a run that the caller goes on from: what it says is meant for the pause at its end.
    pub goes_on_from: Option<(RunId, Version)>,
    /// Whether the caller's client says that it sends this again.
    pub is_retry: bool,
}

/// Answers open requests.
#[derive(Debug, Clone, Default)]
pub struct AnswerRequest {
    /// The session, if the caller names it.
    pub session: String,
    /// The run, if the caller names it.
    pub run: String,
    /// The answers by request id, each with the digest of what was shown, if there is one.
    pub answers: Vec<(String, Value, Option<String>)>,
    /// Makes the call safe to repeat; empty for none.
    pub key: String,
}

/// Starts a new run from a checkpoint of another.
#[derive(Debug, Clone, Default)]
pub struct ForkRequest {
    /// The run.
    pub run: String,
    /// The checkpoint; empty for the latest.
    pub checkpoint: String,
    /// The new run's session; empty for the old run's.
    pub session: String,
    /// Makes the call safe to repeat; empty for none.
    pub key: String,
}

/// A command that was taken: its run, and where its events begin.
#[derive(Debug)]
pub struct Begun {
    /// The run.
    pub run: RunId,
    /// Its version before this command.
    pub after: Version,
    /// The leaf of what was decided by it just now, where the store said its link at once (J13).
    pub decided: Option<Leaf>,
    /// Its events, from this command on.
    pub watch: Watch,
}

impl Engine {
    /// Answers open requests, all of them or none. What is refused changes nothing, and is noted (K1).
    pub async fn answer(
        &self,
        request: AnswerRequest,
        who: &Principal,
    ) -> Result<Begun, EngineError> {
        let named = request.answers.first().map(|(id, ..)| id.clone()).unwrap_or_default();
        let outcome = self.answered(request, who).await;
        if let Err(EngineError::Refused(refusal)) = &outcome {
            self.note_refused(&named, refusal, who).await;
        }
        outcome
    }

    async fn answered(
        &self,
        request: AnswerRequest,
        who: &Principal,
    ) -> Result<Begun, EngineError> {
        self.refuse_unless_ready()?;
        check_key(&request.key)?;
        if request.answers.is_empty() {
            return Err(Refusal::invalid(
                "responses",
                "expected at least one answer, by request id",
            )
            .into());
        }
        if request.answers.len() > ANSWERS_MAX {
            let remedy = format!("at most {ANSWERS_MAX} answers in one call");
            return Err(Refusal::TooLarge { field: "responses".into(), remedy }.into());
        }
        let mut answers = Vec::with_capacity(request.answers.len());
        for (id, value, digest) in request.answers {
            check_value(&format!("responses[{id}]"), &value)?;
            let (request, named) = self.named(&id, &request.session, who).await?;
            answers.push(Answer { request, value, digest: digest.or(named) });
        }
        answers.sort_by_key(|answer| answer.request.ordinal);
        let run = answers[0].request.run.clone();
        if answers.iter().any(|answer| answer.request.run != run) {
            let remedy = "expected requests of one run; answer each run's in a call of its own";
            return Err(Refusal::invalid("responses", remedy).into());
        }
        if !request.run.is_empty() && request.run != run.as_str() {
            let request_id = answers[0].request.to_string();
            return Err(Refusal::ForeignRequest { request: request_id, run: request.run }.into());
        }
        // Whom a question admits is the kernel's to say: not only whoever knows the run (K8).
        let unknown = Refusal::UnknownRequest(answers[0].request.to_string());
        // How it stands is looked at where it is decided.
        let (cell, session, knows_run) =
            self.acquainted(self.inner.cells.get(&run), who, &unknown, Aim::Know).await?;
        if !request.session.is_empty() && !session.is_called(&request.session, &who.id) {
            return Err(unknown.into());
        }
        let questions = answers.iter().map(|answer| answer.request.ordinal).collect();
        let (principal, seed) = (who.clone(), self.fresh_seed());
        let command = Command::Answer { answers, key: request.key, principal, seed };
        let done = self.submit(&cell, command, Extras::default()).await?;
        let begun = self.begun(cell, &session, done.after, who);
        let begun = Begun { decided: done.decided, ..begun };
        if knows_run {
            return Ok(begun);
        }
        Ok(Begun { watch: begun.watch.confined(questions), ..begun })
    }

    /// The request that an answer names: by its id, or in its session by its digest or its code (K9); and
    /// the digest, where it is named by that.
    async fn named(
        &self,
        name: &str,
        session: &str,
        who: &Principal,
    ) -> Result<(RequestId, Option<String>), EngineError> {
        match Reference::parse(name) {
            Some(Reference::Request(id)) => Ok((id, None)),
            Some(reference) if !session.is_empty() => {
                let (session, _) = self.meant(session, who).await?;
                let heads = self.asking(&session).await?;
                let open: Vec<_> = heads.iter().flat_map(Head::open).collect();
                let one = binding::find(&reference, &open)?;
                let digest = matches!(reference, Reference::Digest(_)).then(|| name.to_owned());
                Ok((one.question.id(one.run), digest))
            }
            Some(_) | None => Ok((parse_request("responses[]", name)?, None)),
        }
    }

    /// Takes a question back. A repeat with its `key` changes nothing, here and below; empty for none.
    pub async fn withdraw(
        &self,
        request: &str,
        key: &str,
        who: &Principal,
    ) -> Result<RunId, EngineError> {
        check_key(key)?;
        let id = parse_request("request_id", request)?;
        let unknown = Refusal::UnknownRequest(request.to_owned());
        let (cell, _) = self.seen(&id.run, who, &unknown).await?;
        let (request, principal, key) = (id.clone(), who.clone(), key.to_owned());
        let command = Command::Withdraw { request, principal, key };
        self.submit(&cell, command, Extras::default()).await?;
        Ok(id.run)
    }

    /// Stops a run. One that is over stays as it is; whoever ended it with this very call is told so.
    pub async fn cancel(
        &self,
        run: &str,
        reason: &str,
        key: &str,
        who: &Principal,
    ) -> Result<RunId, EngineError> {
        check_key(key)?;
        check_reason(reason)?;
        let (id, cell) = self.seen_run(run, who).await?;
        let (reason, principal, key) = (reason.to_owned(), who.clone(), key.to_owned());
        let command = Command::Cancel { reason, principal, key };
        self.submit(&cell, command, Extras::default()).await?;
        Ok(id)
    }

    /// Takes back that a tool was allowed for the rest of a run.
    pub async fn revoke(
        &self,
        run: &str,
        tool: &str,
        key: &str,
        who: &Principal,
    ) -> Result<RunId, EngineError> {
        check_key(key)?;
        if tool.is_empty() {
            return Err(Refusal::invalid("tool", "expected the tool's name").into());
        }
        let (id, cell) = self.seen_run(run, who).await?;
        let (tool, principal, key) = (tool.to_owned(), who.clone(), key.to_owned());
        let command = Command::Revoke { tool, principal, key };
        self.submit(&cell, command, Extras::default()).await?;
        Ok(id)
    }

    /// Delivers an external event.
    pub async fn signal(
        &self,
        run: &str,
        (name, value): (&str, Value),
        key: &str,
        who: &Principal,
    ) -> Result<RunId, EngineError> {
        check_key(key)?;
        if name.is_empty() {
            return Err(Refusal::invalid("name", "expected the signal's name").into());
        }
        check_value("payload", &value)?;
        // Who may send it is the kernel's to say: not only whoever knows the run (K9).
        let id = parse_run(run)?;
        let (cell, ..) = self.known(&id, who, &Refusal::UnknownRun(run.to_owned())).await?;
        let (name, principal, key) = (name.to_owned(), who.clone(), key.to_owned());
        let command = Command::Signal { name, value, principal, key };
        self.submit(&cell, command, Extras::default()).await?;
        Ok(id)
    }

    /// A run's events after `after`.
    pub async fn watch(
        &self,
        run: &str,
        after: Version,
        until: Until,
        who: &Principal,
    ) -> Result<Watch, EngineError> {
        let id = parse_run(run)?;
        let (cell, session) = self.seen(&id, who, &Refusal::UnknownRun(run.to_owned())).await?;
        Ok(Watch::new(self.clone(), cell, session.told_to(&who.id), after, until))
    }

    pub(super) async fn seen_run(
        &self,
        run: &str,
        who: &Principal,
    ) -> Result<(RunId, Arc<Cell>), EngineError> {
        let id = parse_run(run)?;
        let (cell, _) = self.seen(&id, who, &Refusal::UnknownRun(run.to_owned())).await?;
        Ok((id, cell))
    }

    /// The cell of a run that this principal may see; `unknown` if there is none, or not for them.
    async fn seen(
        &self,
        run: &RunId,
        who: &Principal,
        unknown: &Refusal,
    ) -> Result<(Arc<Cell>, SessionId), EngineError> {
        self.refuse_unseen(run, who, unknown).await?;
        let (cell, session, knows) = self.known(run, who, unknown).await?;
        if !knows {
            return Err(unknown.clone().into());
        }
        Ok((cell, session))
    }

    /// Refuses a run that is not in memory and not theirs as one that is not there: by its head, before
    /// anything of it is read that would take longer (D2).
    async fn refuse_unseen(
        &self,
        run: &RunId,
        who: &Principal,
        unknown: &Refusal,
    ) -> Result<(), EngineError> {
        if self.inner.cells.peek(run).is_some() {
            return Ok(());
        }
        match self.inner.journal.head(run).await? {
            Some(head) if who.may_see(&head.owner, &head.workflow) => Ok(()),
            Some(_) | None => Err(self.not_there(unknown.clone())),
        }
    }

    /// The cell of a run, whoever asks, and whether they know the run and not only what they are asked
    /// in it.
    pub(super) async fn known(
        &self,
        run: &RunId,
        who: &Principal,
        unknown: &Refusal,
    ) -> Result<(Arc<Cell>, SessionId, bool), EngineError> {
        self.acquainted(self.inner.cells.get(run), who, unknown, Aim::Look).await
    }

    /// The same of a cell, as fresh as what it is wanted for asks.
    async fn acquainted(
        &self,
        cell: Arc<Cell>,
        who: &Principal,
        unknown: &Refusal,
        aim: Aim,
    ) -> Result<(Arc<Cell>, SessionId, bool), EngineError> {
        let state = match self.held(&cell, aim, None).await {
            Ok(state) => state,
            Err(EngineError::Refused(Refusal::UnknownRun(_))) => {
                return Err(unknown.clone().into());
            }
            Err(error) => return Err(error),
        };
        let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
        let (session, workflow) = (hot.run.session.clone(), hot.run.workflow.name.as_str());
        // Whatever somebody is asked there: this credential of theirs knows nothing of it.
        if !who.covers(workflow) {
            return Err(unknown.clone().into());
        }
        let knows = who.may_see(&hot.run.owner, workflow);
        drop(state);
        Ok((cell, session, knows))
    }

    fn begun(
        &self,
        cell: Arc<Cell>,
        session: &SessionId,
        after: Version,
        who: &Principal,
    ) -> Begun {
        let (run, session) = (cell.id.clone(), session.told_to(&who.id));
        Begun {
            run,
            after,
            decided: None,
            watch: Watch::new(self.clone(), cell, session, after, Until::FirstRest),
        }
    }
}
