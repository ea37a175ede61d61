//! Replicas: the servers that share the store: who they are, since when they live, what each of them drives. For whoever
//! sees everything.

use axum::body::Body;
use axum::http::Response;
use maud::{Markup, html};

use crate::api::console::page::{Trouble, View};
use crate::api::console::visit::Visit;
use crate::api::console::{listing, text};
use crate::ports::Replica;

/// The page.
pub(super) async fn page(visit: &Visit) -> Result<Response<Body>, Trouble> {
    let listed = visit.engine().replicas_listed(&visit.who).await?;
    let own = visit.engine().replica_id();
    let body = html! {
        div.head { h1 { "Replicas" } p.quiet {
            "The servers that share the store: any of them takes any decision, and one of them drives a run while it moves."
        } }
        div #replicas data-swap {
            @if own.is_none() {
                (listing::nothing("This server has its store alone.", "Servers that share one database are listed here."))
            } @else { (table(&listed, own.as_deref(), visit)) }
        }
    };
    Ok(View::new("Replicas", "audit", body).respond(visit).await)
}

fn table(listed: &[Replica], own: Option<&str>, visit: &Visit) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Replicas" { table.audit {
            thead { tr {
                th scope="col" { "Name" } th scope="col" { "Address" } th scope="col" { "Version" }
                th scope="col" { "Since" } th scope="col" { "Last heartbeat" } th scope="col" { "Runs it drives" }
                th scope="col" { "State" }
            } }
            tbody { @for replica in listed { tr {
                td { (text::shown(&replica.who.name)) @if own == Some(replica.incarnation.0.to_string().as_str()) { " (this one)" } }
                td.mono { (text::shown(&replica.who.address)) }
                td { (text::shown(&replica.who.program)) }
                td { (text::time(replica.since)) }
                td { (text::ago(replica.beaten, visit.now)) }
                td { (replica.drives) }
                td { @if replica.is_draining { "draining" } @else { "serving" } }
            } } }
        } }
    }
}
