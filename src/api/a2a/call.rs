//! Call: what a caller sent by HTTP, read as far as all bindings read it alike: who calls, in which version, with
//! which body. What it wants is for its binding to read.

use axum::body::Bytes;
use axum::http::{HeaderMap, Method, header};
use serde_json::Value;

use crate::api::Shown;
use crate::api::a2a::card::{self, Names};
use crate::api::a2a::core::Caller;
use crate::api::a2a::errors::{Kind, Outcome, Problem};
use crate::api::a2a::{A2a, version};
use crate::kernel::strict::{self, Misread};

/// A call, read as far as all HTTP bindings read it alike.
#[derive(Debug)]
pub(super) struct Call {
    /// The name that the caller called this server by.
    pub(super) host: String,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    /// The workflow that the path names.
    pub(super) agent: Option<String>,
    /// The path below the agent.
    pub(super) path: Vec<String>,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Bytes,
}

impl Call {
    /// Where the caller reaches this server.
    pub(super) fn base(&self, a2a: &A2a) -> Outcome<String> {
        card::base(a2a, Some(&self.host))
    }

    /// The card that only callers with a key get.
    pub(super) fn extended_card(&self, a2a: &A2a, caller: &Caller) -> Outcome<Value> {
        let tenant = Some(caller.tenant.as_str()).filter(|tenant| !tenant.is_empty());
        let path = self.agent.as_deref().or(tenant);
        let card = card::extended(a2a, &caller.agent, path, &self.base(a2a)?, Names::Http)?;
        Ok(card::json(a2a, &card))
    }

    /// Who calls which agent, in a version that is spoken here.
    pub(super) fn caller(&self, a2a: &A2a, tenant: &str) -> Outcome<Caller> {
        let who = a2a.core.admit(Shown::of(&self.headers))?;
        let agent = a2a.core.agent(self.agent.as_deref(), tenant)?;
        let key = self.header("idempotency-key").unwrap_or_default().to_owned();
        let tenant = tenant.to_owned();
        Ok(Caller { who, agent, key, tenant, is_older: false })
    }

    /// Refuses a version that is not spoken here.
    pub(super) fn check_version(&self) -> Outcome<()> {
        version::check(self.version())
    }

    /// The version that the caller names: by header, or else by query.
    pub(super) fn version(&self) -> Option<&str> {
        self.header("a2a-version").or_else(|| self.asked("A2A-Version"))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// A field of the query.
    pub(super) fn asked(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The media type of the body, without its parameters.
    pub(super) fn media_type(&self) -> &str {
        let given = self.header(header::CONTENT_TYPE.as_str()).unwrap_or_default();
        given.split(';').next().unwrap_or_default().trim()
    }

    /// The body as JSON; what says one thing twice is refused.
    pub(super) fn json(&self) -> Outcome<Value> {
        strict::read(&self.body).map_err(|why| match why {
            Misread::NoJson(error) => {
                Problem::new(Kind::Parse, "call.no_json", format!("the body is no JSON: {error}"))
            }
            Misread::Twice(place) => {
                let message = format!("{place}: it is given twice; send it once");
                Problem::new(Kind::InvalidRequest, "call.duplicate_key", message)
            }
        })
    }

    /// The last event that a client that comes back has seen.
    pub(super) fn last_event(&self) -> Option<u64> {
        self.header("last-event-id")?.trim().parse().ok()
    }
}
