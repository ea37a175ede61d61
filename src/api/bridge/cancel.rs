//! Cancel: what `POST /v1/responses/{id}/cancel` does to a response that waits, and what it would do. Which of
//! the three it is the body says, or else the operator's setting; a run that works can only be stopped.

use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::api::bridge::Bridge;
use crate::api::bridge::errors::{Outcome, Problem};
use crate::api::bridge::http::{Call, Reply};
use crate::api::on_cancel::OnCancel;
use crate::engine::RunView;
use crate::kernel::Principal;

/// `GET /v1/responses/{id}/cancel`: what cancelling it would do; nothing is done.
pub(super) async fn said(
    State(bridge): State<Bridge>,
    Path(id): Path<String>,
    call: Call,
) -> Outcome<Reply> {
    let leg = bridge.leg(&id, &call.who).await?;
    let given = call.asked("cancel").map(|word| Value::String(word.to_owned()));
    let means = meant(&bridge, given.as_ref(), &leg.view)?;
    Ok(Reply::Json(told(means)))
}

/// `POST /v1/responses/{id}/cancel`
pub(super) async fn done(
    State(bridge): State<Bridge>,
    Path(id): Path<String>,
    call: Call,
) -> Outcome<Reply> {
    let body = call.json()?;
    let leg = bridge.leg(&id, &call.who).await?;
    let means = meant(&bridge, body.get("cancel"), &leg.view)?;
    match means {
        OnCancel::Hide => {}
        OnCancel::Withdraw => withdraw(&bridge, &leg.view, (&call.key(), &call.who)).await?,
        OnCancel::Run => {
            bridge.engine.cancel(leg.id.run.as_str(), "", &call.key(), &call.who).await?;
        }
    }
    let leg = bridge.leg(&id, &call.who).await?;
    let mut standing = bridge.standing(leg, &call.who).await?;
    if means == OnCancel::Withdraw {
        // The leg ended in the question; it is open no more.
        standing["workflow_waiting"] = Value::Null;
    }
    standing["cancel"] = told(means);
    Ok(Reply::Json(standing))
}

fn told(means: OnCancel) -> Value {
    json!({"object": "response.cancel", "cancel": means.word(), "does": means.says()})
}

/// What is meant: what the caller says, or else the setting; where nothing is asked there is only the run.
fn meant(bridge: &Bridge, given: Option<&Value>, view: &RunView) -> Outcome<OnCancel> {
    let expected = || Problem::invalid("cancel", format!("expected {}", OnCancel::WORDS));
    let given = match given {
        None | Some(Value::Null) => None,
        Some(word) => Some(word.as_str().and_then(OnCancel::parse).ok_or_else(expected)?),
    };
    let is_asking = !view.run.questions.is_empty();
    match given {
        Some(OnCancel::Withdraw) if !is_asking => Err(Problem::invalid(
            "cancel",
            "nothing is asked that could be taken back; `run` stops the run",
        )),
        Some(means) => Ok(means),
        None if is_asking => Ok(bridge.settings.on_cancel),
        None => Ok(OnCancel::Run),
    }
}

/// Takes back everything that is asked. With the first of them the run may be over, and the rest is then.
async fn withdraw(bridge: &Bridge, view: &RunView, (key, who): (&str, &Principal)) -> Outcome<()> {
    for (place, ordinal) in view.run.questions.keys().enumerate() {
        let request = view.run.request(*ordinal).to_string();
        let key = if key.is_empty() { String::new() } else { format!("{key}/{place}") };
        match bridge.engine.withdraw(&request, &key, who).await {
            Ok(_) => {}
            Err(_) if place > 0 => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
