//! Sessions: opened before anything is said in them, labelled, and hidden from view.

use std::collections::BTreeMap;

use crate::engine::commands::check::check_metadata;
use crate::engine::commands::start::SESSION_RUNS_MAX;
use crate::engine::whose::Told as _;
use crate::engine::{Engine, EngineError};
use crate::kernel::{Act, Principal, Refusal, SessionId};
use crate::ports::{AppendError, Fault, RunFilter, SessionRow};

/// Ids that one session hides: each is kept with it and read with it. Past it, hide all of it.
const HIDDEN_MAX: usize = 1_000;
/// How often a change is made anew over another's. Each round one of those at it succeeds.
const CHANGE_TRIES: usize = 32;

impl Engine {
    /// Opens a session that has no run yet.
    pub async fn open_session(
        &self,
        metadata: BTreeMap<String, String>,
        who: &Principal,
    ) -> Result<SessionRow, EngineError> {
        self.refuse_unless_ready()?;
        who.may(Act::Keep, &who.id)?;
        check_metadata(&metadata)?;
        let session = SessionId::fresh(&self.inner.clock.fresh_stem());
        let row = SessionRow::new(session, who.id.clone(), self.inner.clock.now());
        let row = SessionRow { metadata, ..row };
        // Drawn here: it is called so by everybody.
        if !self.put_session(None, &row).await? {
            return Err(Fault::Retriable("the session's id was taken; try again".into()).into());
        }
        Ok(row)
    }

    /// Changes what is kept with a session; where somebody else changes it meanwhile, over what they
    /// left.
    pub async fn change_session(
        &self,
        session: &str,
        who: &Principal,
        change: impl Fn(&mut SessionRow) + Send + Sync,
    ) -> Result<SessionRow, EngineError> {
        self.refuse_unless_ready()?;
        for _ in 0..CHANGE_TRIES {
            let knew = self.row_of(session, who).await?;
            who.may(Act::Keep, &knew.owner)?;
            let mut row = knew.clone();
            change(&mut row);
            check_metadata(&row.metadata)?;
            if row.hidden.len() > HIDDEN_MAX {
                let remedy =
                    format!("a session hides at most {HIDDEN_MAX} of its parts; hide it whole");
                return Err(Refusal::TooLarge { field: "response_id".into(), remedy }.into());
            }
            if self.put_session(Some(knew), &row).await? {
                return Ok(row.told_to(who));
            }
        }
        let why = "the session is changed by too many at once; try again";
        Err(Fault::Retriable(why.into()).into())
    }

    /// A session without its runs.
    pub async fn session_row(
        &self,
        session: &str,
        who: &Principal,
    ) -> Result<SessionRow, EngineError> {
        Ok(self.row_of(session, who).await?.told_to(who))
    }

    /// The same, as it is stored.
    pub(in crate::engine) async fn row_of(
        &self,
        session: &str,
        who: &Principal,
    ) -> Result<SessionRow, EngineError> {
        let (_, row) = self.meant(session, who).await?;
        row.ok_or_else(|| Refusal::UnknownSession(session.to_owned()).into())
    }

    /// Whether a session is known to this principal (D2). One that has runs of another workflow than its
    /// credential is good for is not: what was said there would be told in what it starts.
    pub(in crate::engine) async fn knows_session(
        &self,
        row: &SessionRow,
        who: &Principal,
    ) -> Result<bool, EngineError> {
        if who.workflows.is_empty() || !who.reaches(&row.owner) {
            return Ok(who.reaches(&row.owner));
        }
        let filter = RunFilter { session: Some(row.session.clone()), ..RunFilter::default() };
        let heads = self.all_heads(&filter).await?;
        // K7: of more than are looked at nobody can say so.
        let is_whole = heads.len() < SESSION_RUNS_MAX;
        Ok(is_whole && heads.iter().all(|head| who.covers(&head.workflow)))
    }

    /// Whether it was kept; not, if it is no longer as it was known.
    async fn put_session(
        &self,
        knew: Option<SessionRow>,
        row: &SessionRow,
    ) -> Result<bool, EngineError> {
        match self.inner.journal.put_session(knew, row.clone()).await {
            Ok(()) => Ok(true),
            Err(AppendError::SessionMoved) => Ok(false),
            Err(AppendError::Fault(fault)) => Err(fault.into()),
            Err(AppendError::Unknown(why)) => Err(Fault::Retriable(why).into()),
            Err(
                AppendError::SessionTaken
                | AppendError::Moved { .. }
                | AppendError::Superseded
                | AppendError::Held { .. }
                | AppendError::GuardMoved(_)
                | AppendError::KeyTaken(_),
            ) => Err(Refusal::UnknownSession(row.session.to_string()).into()),
        }
    }
}
