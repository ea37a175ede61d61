//! Whose: sessions by the words that their owners have for them. The one place that says which session
//! somebody means, and what it is called to whom; the doors pass words through.
//!
//! A word that a caller chose belongs to it: the same word of two owners is two sessions, and nobody
//! learns whether another has it. Their ids (`SessionId::of`) are told whole to everybody but the owner,
//! and are taken from whoever may see them. Ids that were drawn here are the same for all.

use std::sync::Arc;

use crate::engine::commands::parse_session;
use crate::engine::narrate::{Published, Waiting};
use crate::engine::{Engine, EngineError};
use crate::kernel::{Principal, Refusal, SessionId};
use crate::ports::{Head, SessionRow};

impl Engine {
    /// The session that `who` means by a word, and what is kept of it, if it is there.
    pub(super) async fn meant(
        &self,
        given: &str,
        who: &Principal,
    ) -> Result<(SessionId, Option<SessionRow>), EngineError> {
        let named = parse_session(given)?;
        let unknown = || EngineError::from(Refusal::UnknownSession(given.to_owned()));
        if named.is_drawn() {
            // Nobody else makes such ids: one that is not there, or not for them, is unknown alike.
            let row = self.known_row(&named, who).await?.ok_or_else(unknown)?;
            return Ok((named, Some(row)));
        }
        let own = SessionId::of(&named, &who.id);
        if let Some(row) = self.inner.journal.session(&own).await? {
            // Theirs, and perhaps not for the credential that they show.
            let is_known = self.knows_session(&row, who).await?;
            return if is_known { Ok((own, Some(row))) } else { Err(unknown()) };
        }
        if named == own {
            return Ok((own, None));
        }
        // The whole id of somebody's session, or one of a build in which ids were whole.
        match self.inner.journal.session(&named).await? {
            Some(row) if self.knows_session(&row, who).await? => Ok((named, Some(row))),
            Some(row) if row.owner == who.id => Err(unknown()),
            Some(_) | None => Ok((own, None)),
        }
    }

    async fn known_row(
        &self,
        session: &SessionId,
        who: &Principal,
    ) -> Result<Option<SessionRow>, EngineError> {
        match self.inner.journal.session(session).await? {
            Some(row) if self.knows_session(&row, who).await? => Ok(Some(row)),
            Some(_) | None => Ok(None),
        }
    }

    /// The session that `who` means to speak in.
    pub(super) async fn session_for(
        &self,
        given: &str,
        who: &Principal,
    ) -> Result<SessionId, EngineError> {
        let (session, row) = self.meant(given, who).await?;
        // Whoever sees all may have a word that another had in an earlier build.
        let is_others = row.is_some_and(|row| row.owner != who.id);
        Ok(if is_others && session.is_word() { SessionId::of(&session, &who.id) } else { session })
    }

    /// The session that a listing is to be of. One that is unknown has nothing in it.
    pub(super) async fn session_listed(
        &self,
        given: &str,
        who: &Principal,
    ) -> Result<SessionId, EngineError> {
        match self.meant(given, who).await {
            Ok((session, _)) => Ok(session),
            Err(EngineError::Refused(Refusal::UnknownSession(_))) => Ok(parse_session(given)?),
            Err(error) => Err(error),
        }
    }
}

/// Something that is told to somebody, with the session called as they call it.
pub(super) trait Told {
    /// The same, told to `who`.
    #[must_use]
    fn told_to(self, who: &Principal) -> Self;
}

impl Told for Head {
    fn told_to(mut self, who: &Principal) -> Self {
        self.session = self.session.told_to(&who.id);
        self.veiled()
    }
}

impl Told for Waiting {
    fn told_to(mut self, who: &Principal) -> Self {
        self.session = self.session.told_to(&who.id);
        self
    }
}

impl Told for SessionRow {
    fn told_to(mut self, who: &Principal) -> Self {
        let told = self.session.told_to(&who.id);
        if self.hidden.contains(self.session.as_str()) {
            self.hidden.insert(told.to_string());
        }
        self.session = told;
        self
    }
}

impl Published {
    /// The same, with its session called so.
    pub(super) fn in_session(mut told: Arc<Self>, session: &SessionId) -> Arc<Self> {
        let is_called_else = |waiting: &Arc<Waiting>| waiting.session != *session;
        if told.waiting.as_ref().is_some_and(is_called_else)
            && let Some(waiting) = &mut Arc::make_mut(&mut told).waiting
        {
            Arc::make_mut(waiting).session = session.clone();
        }
        told
    }
}
