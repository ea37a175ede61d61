//! Push: webhooks of a task: kept with it, read back, taken away. Carrying them out is the outbox's.

use crate::api::a2a::core::{Caller, Core};
use crate::api::a2a::errors::{Kind, Outcome, Problem};
use crate::engine::RunView;
use crate::ports::{Hook, HookRow};
use crate::wire::a2a::{
    GetPushConfig, ListPushConfigs, ListPushConfigsResponse, PushAuthentication, PushConfig,
};

/// A webhook's id is a key in the store.
const ID_BYTES_MAX: usize = 120;
/// Tokens and credentials go into headers.
const SECRET_BYTES_MAX: usize = 4_096;

impl Core {
    /// Keeps a webhook of a task, in place of one with the same id.
    pub(in crate::api::a2a) async fn create_push(
        &self,
        caller: &Caller,
        config: &PushConfig,
    ) -> Outcome<PushConfig> {
        self.offers_push()?;
        let view = self.view(caller, &config.task_id).await?;
        let hook = hook(caller, config)?.of(&view.head.run);
        let row = self.engine.put_hook(&view.head.run, hook, &caller.who).await?;
        Ok(config_of(caller, row))
    }

    /// One webhook of a task.
    pub(in crate::api::a2a) async fn get_push(
        &self,
        caller: &Caller,
        call: &GetPushConfig,
    ) -> Outcome<PushConfig> {
        let rows = self.pushes(caller, &call.task_id).await?.1;
        let found = rows.into_iter().find(|row| row.hook.id == call.id);
        found.map(|row| config_of(caller, row)).ok_or_else(|| {
            let message = format!("task `{}` has no webhook `{}`", call.task_id, short(&call.id));
            Problem::new(Kind::TaskNotFound, "push.unknown", message)
        })
    }

    /// All webhooks of a task; there are few enough for one page.
    pub(in crate::api::a2a) async fn list_pushes(
        &self,
        caller: &Caller,
        call: &ListPushConfigs,
    ) -> Outcome<ListPushConfigsResponse> {
        if call.page_size < 0 {
            return Err(Problem::invalid("pageSize", "expected 0 or more"));
        }
        if !call.page_token.is_empty() {
            return Err(Problem::invalid("pageToken", "there is one page only"));
        }
        let rows = self.pushes(caller, &call.task_id).await?.1;
        let configs = rows.into_iter().map(|row| config_of(caller, row)).collect();
        Ok(ListPushConfigsResponse { configs, next_page_token: String::new() })
    }

    /// Takes a webhook away; one that is not there is no matter.
    pub(in crate::api::a2a) async fn delete_push(
        &self,
        caller: &Caller,
        call: &GetPushConfig,
    ) -> Outcome<()> {
        let (view, _) = self.pushes(caller, &call.task_id).await?;
        Ok(self.engine.remove_hook(&view.head.run, &call.id, &caller.who).await?)
    }

    async fn pushes(&self, caller: &Caller, task: &str) -> Outcome<(RunView, Vec<HookRow>)> {
        self.offers_push()?;
        let view = self.view(caller, task).await?;
        let rows = self.engine.hooks(&view.head.run, &caller.who).await?;
        Ok((view, rows))
    }
}

/// A webhook as it is kept. Without an id of its own it gets its task's.
pub(super) fn hook(caller: &Caller, config: &PushConfig) -> Outcome<Hook> {
    let id = config.id.clone();
    if id.len() > ID_BYTES_MAX || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
        let remedy = format!("expected at most {ID_BYTES_MAX} visible characters");
        return Err(Problem::invalid("id", remedy));
    }
    if config.url.is_empty() {
        return Err(Problem::invalid("url", "expected the webhook's address"));
    }
    let (scheme, credentials) = match &config.authentication {
        Some(PushAuthentication { scheme, credentials }) => (scheme.clone(), credentials.clone()),
        None => Default::default(),
    };
    for (field, text) in [
        ("token", &config.token),
        ("authentication.scheme", &scheme),
        ("authentication.credentials", &credentials),
    ] {
        let is_plain = text.chars().all(|c| c == ' ' || c.is_ascii_graphic());
        if text.len() > SECRET_BYTES_MAX || !is_plain {
            let remedy = format!("expected at most {SECRET_BYTES_MAX} visible characters");
            return Err(Problem::invalid(field, remedy));
        }
    }
    let (url, token, is_older) = (config.url.clone(), config.token.clone(), caller.is_older);
    Ok(Hook { id, url, token, scheme, credentials, is_older })
}

fn config_of(caller: &Caller, row: HookRow) -> PushConfig {
    let Hook { id, url, token, scheme, credentials, is_older: _ } = row.hook;
    PushConfig {
        tenant: caller.tenant.clone(),
        id,
        task_id: row.run.to_string(),
        url,
        token,
        authentication: (!scheme.is_empty()).then_some(PushAuthentication { scheme, credentials }),
    }
}

fn short(id: &str) -> String {
    id.chars().take(80).collect()
}
