//! Sessions: opened before anything is said in them, labelled, and hidden from view.

use std::collections::BTreeMap;

use crate::engine::commands::check::{check_metadata, parse_session};
use crate::engine::{Engine, EngineError};
use crate::kernel::{Principal, Refusal, SessionId};
use crate::ports::{AppendError, SessionRow};

/// Ids that one session hides: each is kept with it and read with it. Past it, hide all of it.
const HIDDEN_MAX: usize = 1_000;

impl Engine {
    /// Opens a session that has no run yet.
    pub async fn open_session(
        &self,
        metadata: BTreeMap<String, String>,
        who: &Principal,
    ) -> Result<SessionRow, EngineError> {
        self.refuse_if_draining()?;
        check_metadata(&metadata)?;
        let session = SessionId::fresh(&self.inner.clock.fresh_stem());
        let row = SessionRow::new(session, who.id.clone(), self.inner.clock.now());
        let row = SessionRow { metadata, ..row };
        self.put_session(&row).await?;
        Ok(row)
    }

    /// Changes what is kept with a session.
    pub async fn change_session(
        &self,
        session: &str,
        who: &Principal,
        change: impl FnOnce(&mut SessionRow) + Send,
    ) -> Result<SessionRow, EngineError> {
        self.refuse_if_draining()?;
        let mut row = self.session_row(session, who).await?;
        change(&mut row);
        check_metadata(&row.metadata)?;
        if row.hidden.len() > HIDDEN_MAX {
            let remedy =
                format!("a session hides at most {HIDDEN_MAX} of its parts; hide it whole");
            return Err(Refusal::TooLarge { field: "response_id".into(), remedy }.into());
        }
        self.put_session(&row).await?;
        Ok(row)
    }

    /// A session without its runs.
    pub async fn session_row(
        &self,
        session: &str,
        who: &Principal,
    ) -> Result<SessionRow, EngineError> {
        let row = self.inner.journal.session(&parse_session(session)?).await?;
        let row = row.filter(|row| who.may_see(&row.owner));
        row.ok_or_else(|| Refusal::UnknownSession(session.to_owned()).into())
    }

    async fn put_session(&self, row: &SessionRow) -> Result<(), EngineError> {
        match self.inner.journal.put_session(row.clone()).await {
            Ok(()) => Ok(()),
            Err(AppendError::Fault(fault)) => Err(fault.into()),
            Err(
                AppendError::SessionTaken
                | AppendError::Moved { .. }
                | AppendError::Superseded
                | AppendError::KeyTaken(_),
            ) => Err(Refusal::UnknownSession(row.session.to_string()).into()),
        }
    }
}
