//! Flow: from one request to the next, within the list that somebody came from: its filters are kept, what they put off is
//! passed over, and what is for others to decide is not offered.

use crate::api::console::fields::Fields;
use crate::api::console::page::Trouble;
use crate::api::console::visit::Visit;
use crate::engine::{InboxFilter, OpenRequest};
use crate::kernel::{Kind, RequestId};

/// Requests that are looked through for a neighbour.
const NEAR: usize = 200;
/// The filters of a list, as they stand in addresses.
const FILTERS: [&str; 4] = ["q", "workflow", "kind", "session"];
/// What a list's filters are called in the address of a request that was opened from it.
pub(super) const LIST: &str = "list";

/// The list that somebody came from, by its filters; nothing where they came from elsewhere.
pub(super) fn list(visit: &Visit) -> Option<String> {
    let given = visit.fields.get(LIST).or_else(|| visit.query.get(LIST))?;
    // Only what a list of ours could say is said again.
    Some(spelled(&Fields::parse(given.as_bytes())))
}

/// The filters of a list, as an address says them.
pub(super) fn spelled(query: &Fields) -> String {
    let mut kept = url::form_urlencoded::Serializer::new(String::new());
    for name in FILTERS {
        if let Some(value) = query.given(name) {
            kept.append_pair(name, value);
        }
    }
    kept.finish()
}

/// The address of a request that is opened from a list.
pub(super) fn address(id: &RequestId, list: Option<&str>) -> String {
    let Some(list) = list else { return format!("/console/requests/{id}") };
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair(LIST, list);
    format!("/console/requests/{id}?{}", query.finish())
}

/// What a list's filters mean.
pub(super) fn filter(query: &Fields) -> InboxFilter {
    InboxFilter {
        session: query.given("session").map(str::to_owned),
        workflow: query.given("workflow").map(str::to_owned),
        kind: query.given("kind").and_then(Kind::parse),
        named: query.given("type").map(str::to_owned),
        ..InboxFilter::default()
    }
}

/// Whether a request speaks of what was searched for.
pub(super) fn speaks_of(row: &OpenRequest, wanted: &str) -> bool {
    let question = &row.question;
    let agent = question.agent.as_deref().unwrap_or_default();
    let texts = [&question.prompt, &question.step, &row.workflow, &row.owner, agent];
    texts.iter().any(|text| text.to_lowercase().contains(wanted))
        || row.session.as_str().contains(wanted)
        || row.id().to_string().contains(wanted)
        || question.context.to_string().to_lowercase().contains(wanted)
        // Of what is decided, what is shown to whoever looks.
        || question.shown().to_string().to_lowercase().contains(wanted)
}

/// Where a request stands in the list that somebody came from.
#[derive(Debug, Default)]
pub(super) struct Near {
    /// The list, by its filters; nothing where they came from elsewhere.
    pub(super) list: Option<String>,
    pub(super) before: Option<RequestId>,
    pub(super) after: Option<RequestId>,
}

/// The neighbours of a request, of those that somebody can decide and has not put off.
pub(super) async fn near(visit: &Visit, id: &RequestId) -> Near {
    let Some(list) = list(visit) else { return Near::default() };
    let ids = theirs(visit, &list, Some(id)).await.unwrap_or_default();
    let place = ids.iter().position(|one| one == id);
    let at = |place: Option<usize>| place.and_then(|place| ids.get(place)).cloned();
    let before = at(place.and_then(|place| place.checked_sub(1)));
    // Behind the last comes the first: what was passed over comes round again.
    let after = at(place.map(|place| place + 1)).or_else(|| at(Some(0)));
    Near { list: Some(list), before, after: after.filter(|after| after != id) }
}

/// The request that follows one that was decided or put off: the one that was meant, if it is still there.
pub(super) async fn next(visit: &Visit, list: &str, id: &RequestId) -> Option<RequestId> {
    let meant = visit.fields.get("next").and_then(|next| RequestId::parse(next).ok());
    let mut ids = theirs(visit, list, None).await.unwrap_or_default();
    ids.retain(|one| one != id);
    match meant.filter(|meant| ids.contains(meant)) {
        Some(meant) => Some(meant),
        None => ids.into_iter().next(),
    }
}

/// The requests of a list that somebody can decide and has not put off, and `also` this one.
async fn theirs(
    visit: &Visit,
    list: &str,
    also: Option<&RequestId>,
) -> Result<Vec<RequestId>, Trouble> {
    let query = Fields::parse(list.as_bytes());
    let wanted = query.given("q").map(str::to_lowercase);
    let page = visit.engine().inbox(&visit.who, &filter(&query), None, NEAR).await?;
    let is_meant = |row: &&OpenRequest| {
        let is_searched = wanted.as_ref().is_none_or(|wanted| speaks_of(row, wanted));
        is_searched && (Some(&row.id()) == also || is_theirs(visit, row))
    };
    Ok(page.rows.iter().filter(is_meant).map(OpenRequest::id).collect())
}

fn is_theirs(visit: &Visit, row: &OpenRequest) -> bool {
    let (question, who) = (&row.question, visit.who.id.as_str());
    let mut votes = question.votes.iter();
    let has_spoken = votes.any(|vote| vote.by == who && vote.stage == question.stage);
    let is_later = visit.memory.later(&row.id(), visit.now).is_some();
    !has_spoken && !is_later && visit.engine().admits(row, &visit.who)
}
