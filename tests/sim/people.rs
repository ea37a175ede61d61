//! People: how somebody answers at one process of a play, and what they are told.

use holdpoint::engine::{AnswerRequest, Engine, EngineError};
use holdpoint::kernel::{Kind, Principal, Role};
use serde_json::json;

use crate::play::owner;

/// Says yes or no; to a question whether something happened, that it did.
pub(crate) async fn said(
    engine: &Engine,
    request: &str,
    (who, key): (&str, &str),
    yes: bool,
) -> Result<(), String> {
    let run = request.strip_prefix("req_").unwrap_or_default();
    let run = run.split('-').next().unwrap_or_default();
    let head = engine.head(&format!("run_{run}"), &owner()).await;
    let is_check = head.is_ok_and(|head| {
        let open = head.questions.iter().find(|open| open.id(&head.run).to_string() == request);
        open.is_some_and(|open| open.kind == Kind::OutcomeCheck)
    });
    let value = match (is_check, yes) {
        (true, _) => json!({"verb": "happened", "result": "done"}),
        (false, true) => json!("approve"),
        (false, false) => json!("reject"),
    };
    let answers = vec![(request.to_owned(), value, None)];
    let request = AnswerRequest { answers, key: key.into(), ..AnswerRequest::default() };
    let who = match who {
        "local" => owner(),
        who => Principal::new(who, Role::User, "grpc"),
    };
    match engine.answer(request, &who).await {
        Ok(_) => Ok(()),
        Err(EngineError::Refused(refusal)) => Err(format!("refused: {refusal}")),
        Err(error) => Err(format!("away: {error}")),
    }
}
