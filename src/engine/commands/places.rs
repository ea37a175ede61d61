//! Places: claiming a request, and handing one's place in it over. Who may is the kernel's to say.

use crate::engine::cell::State;
use crate::engine::commands::check::{check_key, parse_request};
use crate::engine::drive::Extras;
use crate::engine::views::OpenRequest;
use crate::engine::{Engine, EngineError};
use crate::kernel::{Command, Holder, Principal, Refusal, RequestId, Span, halt};

impl Engine {
    /// Says that somebody is looking at a request; without a `span`, no longer. A repeat with its `key`
    /// changes nothing, here and below; empty for none. The request as it then stands, if it is open.
    pub async fn claim(
        &self,
        request: &str,
        span: Option<Span>,
        key: &str,
        who: &Principal,
    ) -> Result<Option<OpenRequest>, EngineError> {
        let id = parse_request("request_id", request)?;
        let (request, principal, key) = (id.clone(), who.clone(), key.to_owned());
        self.placed(id, Command::Claim { request, span, principal, key }, who).await
    }

    /// Hands somebody's own place in a request over; to nobody, takes it back.
    pub async fn delegate(
        &self,
        request: &str,
        to: Option<Holder>,
        key: &str,
        who: &Principal,
    ) -> Result<Option<OpenRequest>, EngineError> {
        let id = parse_request("request_id", request)?;
        let (request, principal, key) = (id.clone(), who.clone(), key.to_owned());
        self.placed(id, Command::Delegate { request, to, principal, key }, who).await
    }

    async fn placed(
        &self,
        id: RequestId,
        command: Command,
        who: &Principal,
    ) -> Result<Option<OpenRequest>, EngineError> {
        self.refuse_unless_ready()?;
        if let Command::Claim { key, .. } | Command::Delegate { key, .. } = &command {
            check_key(key)?;
        }
        // Those who are asked need not know the run: whom a question admits is the kernel's to say (K8).
        let unknown = Refusal::UnknownRequest(id.to_string());
        let (cell, ..) = self.known(&id.run, who, &unknown).await?;
        self.submit(&cell, command, Extras::default()).await?;
        let state = self.read(&cell).await?;
        let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
        let open = hot.run.questions.get(&id.ordinal).cloned();
        let halts = self.halts_listed();
        let shown = |question| halt::shown(&halts, &hot.run, question);
        Ok(open.map(|question| OpenRequest::of(&hot.run, shown(question))))
    }
}
