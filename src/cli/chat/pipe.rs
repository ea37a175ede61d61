//! Pipe: the chat without a screen: every line is said to the workflow, or answers what it asks. In a
//! session that waits, the first line is the answer: the server takes it so.

use crate::app::Client;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::talk::Talk;
use crate::cli::term::Input;
use crate::wire::v1::RunWorkflowRequest;

/// Talks until the lines are over.
pub(super) async fn talk(
    ctx: &Ctx,
    client: &mut Client,
    workflow: &str,
    session: &str,
) -> Result<Exit, Trouble> {
    if workflow.is_empty() {
        return Err(Trouble::new(Exit::Usage, "there is no workflow to talk with")
            .hint("holdpoint chat WORKFLOW; `holdpoint workflows` lists them"));
    }
    let mut input = Input::new();
    let mut session = session.to_owned();
    loop {
        let said = tokio::select! {
            said = input.next() => said,
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
        };
        let Some(said) = said else { return Ok(Exit::Done) };
        if said.trim().is_empty() {
            continue;
        }
        let request = RunWorkflowRequest {
            workflow_id: workflow.to_owned(),
            session_id: session.clone(),
            input: Some(serde_json::Value::String(said.trim().to_owned()).into()),
            ..RunWorkflowRequest::default()
        };
        let stream = client.run_workflow(request).await?.into_inner();
        let talk = Talk::with(ctx, client, input);
        let (ended, lines, talked_in) = talk.followed(stream).await;
        match (ended?, lines) {
            (Exit::Done | Exit::RunFailed, Some(lines)) => input = lines,
            (exit, _) => return Ok(exit),
        }
        session = talked_in;
    }
}
