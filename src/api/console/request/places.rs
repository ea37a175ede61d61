//! Places: who is looking at a question, whose place somebody holds, and the buttons that change that.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use maud::{Markup, html};

use crate::api::console::flow::{self, Near};
use crate::api::console::page::{self, Trouble};
use crate::api::console::request::{Case, Draft, load, shown};
use crate::api::console::text;
use crate::api::console::visit::Visit;
use crate::engine::EngineError;
use crate::kernel::{Holder, Refusal, Span, duration_ms};

/// How long the button claims for: time enough to read.
const CLAIM_MS: u64 = 10 * 60 * 1_000;

/// Claims a question, or lets it go.
pub(in crate::api::console) async fn claim(
    visit: &Visit,
    id: &str,
) -> Result<Response<Body>, Trouble> {
    let key = visit.fields.get("key").unwrap_or_default();
    let span = visit.fields.get("release").is_none().then_some(Span::ForMs(CLAIM_MS));
    let claimed = visit.engine().claim(id, span, key, &visit.who).await;
    done(visit, id, claimed.map(|_| ())).await
}

/// Hands a place over, or takes it back.
pub(in crate::api::console) async fn delegate(
    visit: &Visit,
    id: &str,
) -> Result<Response<Body>, Trouble> {
    let key = visit.fields.get("key").unwrap_or_default();
    let to = if visit.fields.get("take_back").is_some() {
        None
    } else {
        let length = visit.fields.given("for").and_then(|text| duration_ms(text.trim()));
        let Some(ms) = length.filter(|ms| *ms > 0) else {
            let remedy = "expected a length of time such as `2h` or `3d`";
            let refused = Err(Refusal::invalid("for", remedy).into());
            return done(visit, id, refused).await;
        };
        let who = visit.fields.given("to").unwrap_or_default().trim().to_owned();
        Some(Holder { who, span: Span::ForMs(ms) })
    };
    let handed = visit.engine().delegate(id, to, key, &visit.who).await;
    done(visit, id, handed.map(|_| ())).await
}

/// The page again: as it now stands, or with the reason.
async fn done(
    visit: &Visit,
    id: &str,
    outcome: Result<(), EngineError>,
) -> Result<Response<Body>, Trouble> {
    let refusal = match outcome {
        Ok(()) => return Ok(page::redirect(&format!("/console/requests/{id}"))),
        Err(EngineError::Refused(
            refusal @ (Refusal::Invalid { .. }
            | Refusal::TooLarge { .. }
            | Refusal::NotDelegable { .. }
            | Refusal::NotDelegated { .. }
            | Refusal::NotClaimed { .. }),
        )) => refusal,
        Err(error) => return Err(error.into()),
    };
    let case = load(visit, id).await?;
    let notice = Some(page::sentence(&refusal.to_string()));
    let draft = Draft { notice, ..Draft::default() };
    Ok(shown(visit, &case, &draft, StatusCode::UNPROCESSABLE_ENTITY).await)
}

/// Who is looking at it, and who holds whose place, in words.
pub(super) fn told(visit: &Visit, case: &Case) -> Markup {
    let question = &case.question;
    let handed = question.delegations.iter().filter(|handed| handed.stands(visit.now));
    html! {
        @if let Some(claim) = question.claimed(visit.now) {
            p.byline.claimed { "Claimed by " strong { (claim.by) } " until " (text::time(claim.until)) "." }
        }
        @for one in handed {
            p.byline { strong { (one.to) } " speaks in the place of " strong { (one.by) } " until " (text::time(one.until)) "." }
        }
    }
}

/// What whoever is asked can do with their place.
pub(super) fn panel(visit: &Visit, case: &Case, near: &Near) -> Markup {
    let (question, who) = (&case.question, visit.who.id.as_str());
    let action = |deed: &str| format!("/console/requests/{}/{deed}", case.id);
    let key = || visit.engine().fresh_key();
    let is_own = question.claimed(visit.now).is_some_and(|claim| claim.by == who);
    let has_places = question.decides() || !question.to.is_empty();
    html! {
        details.panel.places #places {
            summary { "Not now, or not you?" }
            form method="post" action=(action("later")) {
                @if let Some(list) = &near.list { input type="hidden" name=(flow::LIST) value=(list); }
                @if let Some(next) = &near.after { input type="hidden" name="next" value=(next); }
                @if visit.memory.later(&case.id, visit.now).is_some() {
                    p.quiet { "You put this off; it is not in your list for now." }
                    button type="submit" { "Put it back into my list" }
                } @else {
                    p.quiet { "Out of your list for a while, in this browser alone. It is asked all the same, and its deadline stands." }
                    div.buttons {
                        button type="submit" name="for" value="1h" { "Later: in an hour" }
                        button type="submit" name="for" value="4h" { "In four hours" }
                        button type="submit" name="for" value="1d" { "Tomorrow" }
                    }
                }
            }
            form method="post" action=(action("claim")) {
                input type="hidden" name="key" value=(key());
                @if is_own {
                    p.quiet { "Others see that you are looking at this." }
                    button type="submit" name="release" value="yes" { "Let it go" }
                } @else {
                    p.quiet { "Others see that you are looking at this, and can decide all the same." }
                    button type="submit" { "Claim it for ten minutes" }
                }
            }
            @if has_places {
                form method="post" action=(action("delegate")) {
                    input type="hidden" name="key" value=(key());
                    @if question.handed(who, visit.now).is_some() {
                        button type="submit" name="take_back" value="yes" { "Take my place back" }
                    } @else {
                        p.quiet { "Hand your place to somebody else: what they say counts as yours would." }
                        div.field { label for="delegate-to" { "To whom" } input #delegate-to name="to" autocomplete="off"; }
                        div.field { label for="delegate-for" { "For how long" } input #delegate-for name="for" value="1d"; }
                        button type="submit" { "Hand my place over" }
                    }
                }
            }
        }
    }
}
