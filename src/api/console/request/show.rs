//! Show: the page of a request: what is asked, what would happen, what was said before, the form.

use maud::{Markup, html};

use crate::api::console::page;
use crate::api::console::request::{Case, Draft, Ended, form, places, reading};
use crate::api::console::visit::Visit;
use crate::api::console::{consequences, conversation, flow, listing, text, value};
use crate::kernel::{Act, Admission, Closing, Origin, Question, Refusal, Subject, bars, halt};

/// Messages before the question that are shown with it.
const RECENT: usize = 6;

/// The page's content.
pub(super) async fn body(visit: &Visit, case: &Case, draft: &Draft) -> Markup {
    let question = &case.question;
    let state = match &case.ended {
        Some(_) => "closed".to_owned(),
        // The form is there again when it goes on.
        None if question.still.is_some() => format!("halted {}", question.digest),
        None => question.digest.clone(),
    };
    let is_apart = matches!(question.subject.as_deref(), Some(Subject::Shown(_)));
    let end = if is_apart {
        html! {}
    } else {
        reading::end(visit, case)
    };
    let near = flow::near(visit, &case.id).await;
    let list = near.list.clone().unwrap_or_default();
    html! {
        nav.trail.near aria-label="Trail" {
            span { a href={ "/console/inbox?" (list) } { "Inbox" } " / " span.mono { (case.id) } }
            @if let Some(before) = &near.before { a href=(flow::address(before, near.list.as_deref())) rel="prev" data-key="k" { "Previous" } }
            @if let Some(after) = &near.after { a href=(flow::address(after, near.list.as_deref())) rel="next" data-key="j" { "Next" } }
        }
        @if let Some(done) = &draft.done {
            p.done role="status" { (done.how) a href=(done.address) { (text::shown(&done.asked)) } (text::shown(&done.said)) }
        }
        article #request .request data-swap data-keep=(state) {
            p.meta #about data-swap {
                (listing::kind(question.kind))
                @if let Some(named) = &question.named { span.type { (text::shown(&named.title)) } }
                span { (to_run(visit, case, &html! { (case.run.workflow.name) })) " · step " (text::shown(&question.step)) }
                span { "asked " (text::ago(question.asked_at, visit.now)) }
                @if case.ended.is_none() { (text::due(question, visit.now)) }
            }
            h1.prompt { (text::ticked(&question.prompt)) }
            (author(question))
            (refused(question))
            (subject(visit, case))
            div #standing data-swap {
                (asked_of(case))
                @if case.ended.is_none() { (places::told(visit, case)) }
            }
            @if let Some(notice) = &draft.notice { p.notice role="alert" { (text::shown(notice)) } }
            @if let Some(ended) = &case.ended {
                (closed(visit, case, ended).await)
            }
            div.desk {
                (consequences::panel(case, draft.editing.is_some(), &end))
                div.beside { (before(visit, case)) (fine_print(visit, case)) }
                @if case.ended.is_none() {
                    (answering(visit, case, draft, &near))
                }
            }
        }
    }
}

/// The form, or why there is none.
fn answering(visit: &Visit, case: &Case, draft: &Draft, near: &flow::Near) -> Markup {
    html! {
        @match barred(visit, case) {
            None => {
                section.panel.form aria-label="Your answer" { (form::form(visit, case, draft, near)) }
                (places::panel(visit, case, near))
            }
            Some(Refusal::HandedOver { to, .. }) => {
                section.panel aria-label="Who decides" {
                    p { strong { (to) } " holds your place; take it back to decide yourself." }
                }
                (places::panel(visit, case, near))
            }
            Some(halted @ Refusal::Halted { .. }) => {
                section.panel aria-label="Why nothing is decided" {
                    p { (text::shown(&page::sentence(&halted.to_string()))) }
                }
                (places::panel(visit, case, near))
            }
            Some(Refusal::NotAdmitted { waits_for, .. }) => {
                section.panel aria-label="Who decides" {
                    p { "This is for " strong { (waits_for) } " to decide." }
                }
            }
            Some(why) => {
                section.panel aria-label="Who decides" { p { (text::shown(&page::sentence(&why.to_string()))) } }
            }
        }
    }
}

/// Why whoever looks at it cannot answer it, or nobody can; nothing where they can (K8).
fn barred(visit: &Visit, case: &Case) -> Option<Refusal> {
    let operator = visit.engine().operator();
    let admission = Admission { by: case.run.asker(), operator: &operator, now: visit.now };
    let barred = bars(&admission, (&case.run.id, &case.question), &visit.who);
    let halts = visit.engine().halts_listed();
    barred.or_else(|| halt::of_decision(&halts, &case.run, &case.question))
}

/// Whether whoever looks at it may take the question back.
fn may_withdraw(visit: &Visit, case: &Case) -> bool {
    let run = &case.run;
    visit.who.may_see(&run.owner, &run.workflow.name)
        && visit.who.may(Act::Withdraw, &run.owner).is_ok()
}

/// Whether whoever looks at a question may see its run, too: being asked gives no right to that (K8).
pub(super) fn sees_run(visit: &Visit, case: &Case) -> bool {
    visit.who.may_see(&case.run.owner, &case.run.workflow.name)
}

/// Words that lead to the run, for whoever may see it.
fn to_run(visit: &Visit, case: &Case, words: &Markup) -> Markup {
    html! {
        @if sees_run(visit, case) { a href={ "/console/runs/" (case.run.id) } { (words) } } @else { (words) }
    }
}

/// What is decided, before anything else: exactly this is gone on with after a yes (K3). What a gate's
/// call or a step will do is told with what would happen.
fn subject(visit: &Visit, case: &Case) -> Markup {
    html! {
        @if let Some(Subject::Shown(subject)) = case.question.subject.as_deref() {
            section.panel.subject aria-label="What you decide" {
                h2 { "What you decide" }
                (value::value(subject))
                (reading::end(visit, case))
            }
        }
    }
}

/// What was said to the same in other runs of the family: whoever says yes takes it up again (K11).
fn refused(question: &Question) -> Markup {
    html! {
        @for refused in &question.refused {
            p.notice { "Refused before: " (text::shown(&refused.words())) "." }
        }
        @for done in question.already_done() {
            p.notice { "Done already, where this was forked from: " (text::ticked(done)) ". A yes may do it once more." }
        }
        @if let Some(told) = question.asked_anew() {
            p.notice { "Asked anew: " (text::shown(told)) "." }
        }
    }
}

/// Who is asked now, and what they have said so far.
fn asked_of(case: &Case) -> Markup {
    let question = &case.question;
    html! {
        @if case.ended.is_none() && !question.to.is_empty() {
            p.byline {
                "Asked of " strong { (question.to.join(", ")) }
                @if let Some(at) = question.deadline.filter(|_| question.still.is_none()) { " until " (text::time(at)) }
                @if !question.asked_before.is_empty() {
                    " · before, of " (question.asked_before.join(", ")) " alone, who did not answer in time"
                }
                @if question.need() > 1 { " · " (question.need()) " must agree" }
                @for vote in question.standing_votes() {
                    " · " (vote.by) " said " (vote.verb)
                    @if let Some(whose) = &vote.instead_of { " in the place of " (whose) }
                }
                @let standing = question.standing(question.stage);
                @if standing.missing > 0 && question.need() > 1 {
                    " · " (standing.missing) " more of " (standing.silent.join(", ")) " must say the same"
                }
            }
        }
    }
}

/// Whose words the question is.
fn author(question: &Question) -> Markup {
    let is_agents = matches!(question.origin, Origin::ToolCall(_) | Origin::Directive);
    html! {
        @match (&question.agent, is_agents) {
            (Some(agent), true) => {
                p.byline { span.mark { "Agent’s words" } " The question, its facts and its options were written by the agent " strong { (agent) } "." }
            }
            (Some(agent), false) => { p.byline { "Asked by the workflow, for the agent " strong { (agent) } "." } }
            (None, _) => { p.byline { "Asked by the workflow." } }
        }
    }
}

/// How it ended, and what can be done now.
async fn closed(visit: &Visit, case: &Case, ended: &Ended) -> Markup {
    let list = flow::list(visit).unwrap_or_default();
    let next = flow::next(visit, &list, &case.id).await;
    let receipt = match ended {
        Ended::Answered { sequence, .. } => {
            visit.engine().receipt(case.run.id.as_str(), *sequence, "", &visit.who).await.ok()
        }
        Ended::Closed { .. } | Ended::RunOver => None,
    };
    html! {
        div.closed role="status" {
            @match ended {
                Ended::Answered { by, door, value, at, .. } => {
                    p.lead { strong { @if *by == visit.who.id { "You" } @else { (by) } } " answered this " (text::ago(*at, visit.now)) " · " (door) }
                    (value::answer(value))
                }
                Ended::Closed { closing, by, at } => {
                    p.lead { (how(*closing, by)) " " (text::ago(*at, visit.now)) "." }
                }
                Ended::RunOver => { p.lead { "Its run was over before anybody answered." } }
            }
            @if let Some(receipt) = &receipt {
                p.receipt {
                    "Receipt " code { (receipt.hash) } ", "
                    @if receipt.head.is_some() { "proven by a signed head" } @else { "to be proven by the next signed head" }
                    ": " a href={ "/console/requests/" (case.id) "/receipt" } download={ "receipt-" (receipt.run) "-" (receipt.sequence) ".json" } { "download" }
                }
            }
            div.buttons {
                @if sees_run(visit, case) { a.button href={ "/console/runs/" (case.run.id) } { "See the run" } }
                @if let Some(next) = next {
                    a.button.primary href=(flow::address(&next, Some(&list))) data-key="j" { "Next in the inbox" }
                }
            }
        }
    }
}

fn how(closing: Closing, by: &str) -> String {
    match closing {
        Closing::Rejected => "Nobody answered in time, which is a no;".into(),
        Closing::Passed => "Nobody answered in time, and the run went on without;".into(),
        Closing::Withdrawn => format!("{by} took this question back"),
        Closing::Moot => "The step that asked was stopped;".into(),
    }
}

/// What was said before.
fn before(visit: &Visit, case: &Case) -> Markup {
    let said = case.run.conversation.get(..case.question.messages);
    let said = said.unwrap_or(&case.run.conversation);
    let mut said: Vec<_> = said.iter().filter_map(|message| message.cleaned()).collect();
    // The question itself is said too; it stands at the top of the page already.
    said.pop_if(|last| last.text == case.question.prompt);
    let skipped = said.len().saturating_sub(RECENT);
    html! {
        section.panel.said aria-label="What was said before" {
            h2 { "What was said before" }
            p.quiet { "Written by callers and agents; nobody has checked it." }
            @if said.is_empty() { p.quiet { "Nothing yet." } }
            @for message in said.iter().skip(skipped) { (conversation::bubble(message)) }
            @if skipped > 0 {
                p { (to_run(visit, case, &html! { (skipped) " earlier messages" })) }
            }
        }
    }
}

/// Where it belongs, for whoever wants to know exactly.
fn fine_print(visit: &Visit, case: &Case) -> Markup {
    html! {
        details.panel.fine #fine-print {
            summary { "Details" }
            dl.facts {
                div { dt { "Request" } dd.mono { (case.id) } }
                div { dt { "Run" } dd.mono { (to_run(visit, case, &html! { (case.run.id) })) } }
                div { dt { "Session" } dd.mono {
                    @if sees_run(visit, case) { a href={ "/console/sessions/" (listing::encoded(case.run.session.as_str())) } { (text::shown(case.run.session.as_str())) } }
                    @else { (text::shown(case.run.session.as_str())) }
                } }
                div { dt { "Owner" } dd { (case.run.owner) } }
                div { dt { "Asked" } dd { (text::time(case.question.asked_at)) } }
                div { dt { "Digest of what is shown" } dd.mono { (case.question.digest) } }
            }
            @if case.ended.is_none() && may_withdraw(visit, case) {
                form method="post" action={ "/console/requests/" (case.id) "/withdraw" } {
                    input type="hidden" name="key" value=(visit.engine().fresh_key());
                    p.quiet { "Taking a question back is not an answer: the run is told that there will be none." }
                    button.danger type="submit" { "Take the question back" }
                }
            }
        }
    }
}
