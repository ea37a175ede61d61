//! Suggest: what somebody probably meant by a name that there is not. It only adds a hint to a refusal: nothing is
//! ever done under another name than the one that was typed.

use std::collections::BTreeSet;

use crate::app::Client;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::term::line;
use crate::definition::nearest;
use crate::wire::v1::{ListRunsRequest, ListWorkflowsRequest};

/// Runs that are looked through for the one that was meant: the newest, which somebody has before them.
const RUNS: i32 = 100;
/// Fewer letters than these name nothing: every run begins with four that are the same.
const PART_CHARS_MIN: usize = 5;
/// A hint is a line or two, however many names there are.
const HINT_CHARS_MAX: usize = 400;
/// Words that people try first, and what it is called here.
const ELSEWHERE: [(&str, &str); 16] = [
    ("init", "new NAME"),
    ("create", "new NAME"),
    ("approve", "respond REQUEST approve"),
    ("reject", "respond REQUEST reject"),
    ("answer", "respond"),
    ("start", "run"),
    ("exec", "run"),
    ("list", "runs"),
    ("ls", "runs"),
    ("ps", "runs"),
    ("status", "runs"),
    ("server", "serve"),
    ("log", "journal"),
    ("logs", "journal"),
    ("validate", "check"),
    ("tail", "watch"),
];

/// What a command that there is not is called here, for words that are not merely mistyped.
pub(super) fn command(word: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(other, _)| *other == word).map(|(_, ours)| *ours)
}

/// The same refusal, with the workflow that was probably meant.
pub(super) async fn workflow(trouble: Trouble, name: &str, client: &mut Client) -> Trouble {
    if trouble.code.as_deref() != Some("workflow.unknown") {
        return trouble;
    }
    let Ok(listed) = client.list_workflows(ListWorkflowsRequest {}).await else { return trouble };
    let listed = listed.into_inner().workflows;
    let names = listed.iter().map(|workflow| workflow.workflow_id.as_str());
    match meant(name, names) {
        Some(found) => trouble.hint(format!("did you mean `{found}`?")),
        None => trouble,
    }
}

/// The same refusal, with the run that was probably meant.
pub(super) async fn run(trouble: Trouble, id: &str, client: &mut Client) -> Trouble {
    let is_unknown = trouble.code.as_deref() == Some("run.unknown");
    let is_no_id = trouble.exit == Exit::Refused && trouble.message.contains("run_id");
    if !(is_unknown || is_no_id) {
        return trouble;
    }
    let wanted = ListRunsRequest { page_size: RUNS, ..Default::default() };
    let Ok(listed) = client.list_runs(wanted).await else { return trouble };
    let listed = listed.into_inner().runs;
    match meant(id, listed.iter().map(|run| run.run_id.as_str())) {
        Some(found) => trouble.hint(format!("did you mean `{found}`?")),
        None => trouble,
    }
}

/// What is to be said of a request type that no workflow names; nothing where one does, or that is not known.
pub(super) async fn request_type(name: &str, client: &mut Client) -> Option<String> {
    let listed = client.list_workflows(ListWorkflowsRequest {}).await.ok()?.into_inner().workflows;
    let known = listed.iter().flat_map(|workflow| &workflow.request_types).map(String::as_str);
    let known: BTreeSet<_> = known.collect();
    if known.contains(name) {
        return None;
    }
    let remedy = match meant(name, known.iter().copied()) {
        Some(found) => format!("did you mean `{found}`?"),
        None if known.is_empty() => "none names any, under `request_types`".to_owned(),
        None => format!("there are: {}", Vec::from_iter(known).join(", ")),
    };
    Some(line(&format!("no workflow has a request type `{name}`; {remedy}"), HINT_CHARS_MAX))
}

/// What is to be said of a workflow that there is not, where nothing was listed of it; nothing where there is one, or that
/// is not known.
pub(super) async fn listed_workflow(name: &str, client: &mut Client) -> Option<String> {
    let listed = client.list_workflows(ListWorkflowsRequest {}).await.ok()?.into_inner().workflows;
    let names = listed.iter().map(|workflow| workflow.workflow_id.as_str());
    if names.clone().any(|known| known == name) {
        return None;
    }
    let remedy = match meant(name, names) {
        Some(found) => format!("did you mean `{found}`?"),
        None => "`holdpoint workflows` names the ones there are".to_owned(),
    };
    Some(line(&format!("there is no workflow `{name}`; {remedy}"), HINT_CHARS_MAX))
}

/// The one name that begins or ends so, or the nearest.
fn meant<'a>(written: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let written = written.trim_end_matches(['…', '.']);
    let is_part = |name: &&str| {
        written.len() >= PART_CHARS_MIN && (name.starts_with(written) || name.ends_with(written))
    };
    let mut parts = known.clone().filter(is_part);
    match (parts.next(), parts.next()) {
        (Some(one), None) => Some(one),
        (Some(_), Some(_)) => None,
        (None, _) => {
            let lower = written.to_lowercase().replace('-', "_");
            nearest(written, known.clone()).or_else(|| nearest(&lower, known))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_was_meant_is_named_and_nobody_is_guessed() {
        let flows = ["approve_and_send", "event_planning", "event_pricing"];
        for (written, found) in [
            ("aprove_and_send", Some("approve_and_send")),
            ("Approve-And-Send", Some("approve_and_send")),
            ("event_planing", Some("event_planning")),
            ("approve", Some("approve_and_send")),
            ("event", None),
            ("lunch", None),
        ] {
            assert_eq!(meant(written, flows.into_iter()), found, "{written}");
        }
        let runs = ["run_01k9zqaaaaaaaaaaaaaaaaaaaa", "run_01k9zqbbbbbbbbbbbbbbbbbbbb"];
        assert_eq!(meant("run_01k9zqb…", runs.into_iter()), Some(runs[1]));
        assert_eq!(meant("run_01k9zq", runs.into_iter()), None, "either");
        assert_eq!(meant("run", runs.into_iter()), None);
    }

    #[test]
    fn what_others_call_it_is_known() {
        assert_eq!(command("approve"), Some("respond REQUEST approve"));
        assert_eq!(command("frobnicate"), None);
    }
}
