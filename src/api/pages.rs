//! Pages: what an operator's tools ask over plain HTTP: is it alive, is it ready, how is it doing.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Response, StatusCode};
use axum::response::{IntoResponse as _, Redirect};
use axum::routing::get;

use crate::api::{Doorkeeper, status};
use crate::engine::{AttestTrouble, Engine};
use crate::kernel::oversight::Open;

/// Renders the metrics, as Prometheus reads them.
pub type Render = Arc<dyn Fn() -> String + Send + Sync>;

const FAILED: (StatusCode, &str) = (
    StatusCode::SERVICE_UNAVAILABLE,
    "the store takes no writes: look at the log and the disk, then restart\n",
);

const NO_ROOM: (StatusCode, &str) = (
    StatusCode::SERVICE_UNAVAILABLE,
    "the disk is nearly full: nothing new is taken; free some space, and it goes on by itself\n",
);

const KEYS_BROKEN: &str = "ready, but the keys cannot be used: those of before are in force, and over a database nothing is decided by them; the log \
    says why\n";

const POLICY_BROKEN: &str =
    "ready, but the policy file is refused: the policy of before is in force; the log says why\n";

const HELD: &str = "ready, but held: the store was put back or imported, and does nothing until `holdpoint release`\n";

const REWOUND: (StatusCode, &str) = (
    StatusCode::SERVICE_UNAVAILABLE,
    "held: the store has gone back in time: it lacks what it had acknowledged, and nothing is done until `holdpoint release`; \
     the log and the audit say what is missing\n",
);

const UNSIGNED: &str = "ready, but the log's heads are not being signed: proofs wait, decisions go on; the log says why\n";

const NOT_BESIDE: &str = "ready, but the last signed head is not kept beside its key, where a store that is put back in silence is \
    found out; the log says why\n";

/// From when on it is told that the machine's clock is wrong: it decides nothing, and leads whoever reads its log astray.
const ASTRAY_MS: u64 = 2_000;

#[derive(Clone)]
struct Pages {
    engine: Engine,
    doorkeeper: Arc<dyn Doorkeeper>,
    render: Render,
}

/// `/healthz`, `/readyz` and `/metrics`; and `/`, which leads people to where they can look.
pub fn router(engine: Engine, doorkeeper: Arc<dyn Doorkeeper>, render: Render) -> Router {
    Router::new()
        .route("/", get(|| async { Redirect::to("/console") }))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics_page))
        .with_state(Pages { engine, doorkeeper, render })
}

/// Whatever else is asked for: each kind of caller is told in its own way that it is not there.
pub async fn nothing(headers: HeaderMap) -> Response<Body> {
    let is_grpc = headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    if is_grpc {
        return status::no_such_method().into_http();
    }
    let where_to = "nothing is here; /console is, and gRPC, /healthz, /readyz and /metrics\n";
    (StatusCode::NOT_FOUND, where_to).into_response()
}

/// Well while the store takes writes: one that has failed stays so until the process starts anew.
async fn healthz(State(pages): State<Pages>) -> (StatusCode, &'static str) {
    if pages.engine.is_healthy() { (StatusCode::OK, "ok\n") } else { FAILED }
}

/// Ready while it is well, has room, its store is in reach, and no shutdown has begun. What is not as it should be and stops nobody else
/// is told with it; so is what somebody has stopped.
async fn readyz(State(pages): State<Pages>) -> (StatusCode, String) {
    if let Some(why) = pages.engine.away().filter(|_| !pages.engine.is_draining()) {
        return (StatusCode::SERVICE_UNAVAILABLE, format!("waiting: {why}\n"));
    }
    let (status, told) = readiness(&pages);
    let mut told = match pages.engine.why_doubled() {
        Some(why) if told == REWOUND.1 => {
            format!("held: {why}; nothing is done until `holdpoint release`\n")
        }
        Some(_) | None => told.to_owned(),
    };
    for halt in &pages.engine.halts_listed().0 {
        let (what, by, reason) = (halt.scope.words(), halt.by_whom(), &halt.reason);
        told = format!("{told}halted: {what} (by {by}: {reason})\n");
    }
    let sharing = pages.engine.replicas_known();
    if sharing > 0 {
        told = format!("{told}servers that share the store: {sharing}\n");
    }
    let ahead = pages.engine.clock_astray();
    if ahead.unsigned_abs() >= ASTRAY_MS {
        let (seconds, word) =
            (ahead.unsigned_abs() / 1_000, if ahead > 0 { "ahead of" } else { "behind" });
        told = format!(
            "{told}this machine's clock is {seconds} s {word} the database's, which counts\n"
        );
    }
    let broken = pages.engine.library().broken();
    if status != StatusCode::OK || broken.is_empty() {
        return (status, told);
    }
    let files: Vec<_> = broken.iter().map(|one| one.file.as_str()).collect();
    let files = files.join(", ");
    let more = "workflow files that cannot be used";
    (status, format!("{told}{more}: {files}; `holdpoint workflows` says why\n"))
}

fn readiness(pages: &Pages) -> (StatusCode, &'static str) {
    if pages.engine.is_draining() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    } else if !pages.engine.is_healthy() {
        FAILED
    } else if !pages.engine.has_room() {
        NO_ROOM
    } else if pages.engine.is_rewound() {
        REWOUND
    } else if pages.doorkeeper.trouble().is_some() {
        // Those whose keys are known are served.
        (StatusCode::OK, KEYS_BROKEN)
    } else if pages.engine.policy_trouble().is_some() {
        (StatusCode::OK, POLICY_BROKEN)
    } else if pages.engine.is_held() {
        (StatusCode::OK, HELD)
    } else {
        let told = match pages.engine.attest_trouble() {
            Some(AttestTrouble::Unsigned(_)) => UNSIGNED,
            Some(AttestTrouble::NotBeside(_)) => NOT_BESIDE,
            None => "ready\n",
        };
        (StatusCode::OK, told)
    }
}

async fn metrics_page(State(pages): State<Pages>) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a gauge of a few thousand")]
    metrics::gauge!("holdpoint_runs_in_memory").set(pages.engine.runs_in_memory() as f64);
    #[expect(clippy::cast_precision_loss, reason = "a gauge of a few thousand")]
    metrics::gauge!("holdpoint_deeds_under_way").set(pages.engine.under_way() as f64);
    #[expect(clippy::cast_precision_loss, reason = "a gauge of a few")]
    metrics::gauge!("holdpoint_halts").set(pages.engine.halts_listed().0.len() as f64);
    let (leaves, signed) = pages.engine.attested().await;
    #[expect(clippy::cast_precision_loss, reason = "a gauge that is looked at, not counted with")]
    for (name, count) in
        [("holdpoint_leaves", leaves), ("holdpoint_leaves_unsigned", leaves.saturating_sub(signed))]
    {
        metrics::gauge!(name).set(count as f64);
    }
    // A store that cannot be read says so elsewhere; what was last known stands.
    if let Ok(open) = pages.engine.open_by_age().await {
        #[expect(clippy::cast_precision_loss, reason = "a gauge of a few thousand")]
        for (age, count) in Open::AGES.into_iter().zip(open.ages) {
            metrics::gauge!("holdpoint_requests_open", "age" => age).set(count as f64);
        }
        #[expect(clippy::cast_precision_loss, reason = "a gauge of a few thousand")]
        metrics::gauge!("holdpoint_requests_overdue").set(open.overdue as f64);
    }
    let is_there = pages.engine.away().is_none();
    let is_well = pages.engine.is_healthy() && pages.engine.has_room();
    let is_ready = is_well && is_there && !pages.engine.is_rewound();
    #[expect(clippy::cast_precision_loss, reason = "a gauge of a few")]
    metrics::gauge!("holdpoint_replicas").set(pages.engine.replicas_known() as f64);
    #[expect(clippy::cast_precision_loss, reason = "a gauge that is looked at")]
    metrics::gauge!("holdpoint_clock_ahead_ms").set(pages.engine.clock_astray() as f64);
    metrics::gauge!("holdpoint_ready").set(if is_ready { 1.0 } else { 0.0 });
    (pages.render)()
}
