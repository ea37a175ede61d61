//! A disk that is nearly full: the process is well and says so, it is not ready and says that it goes on by itself,
//! and the log has it once.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use holdpoint::api::{Doorkeeper, Shown, pages};
use holdpoint::kernel::{Millis, Principal, Refusal};
use holdpoint::store::StoreConfig;
use tower::ServiceExt as _;

use crate::support::kit::{Bed, config, open_with};
use crate::support::log::Log;
use crate::support::{Actors, Ground, someone};

/// Lets everybody in.
#[derive(Debug)]
struct Anybody;

impl Doorkeeper for Anybody {
    fn admit(&self, _: Shown<'_>, _: &'static str) -> Result<Principal, Refusal> {
        Ok(someone())
    }

    fn wants_key(&self) -> bool {
        false
    }

    fn pass(&self, _: &str, _: Millis) -> Result<String, Refusal> {
        Err(Refusal::Unauthenticated)
    }

    fn admit_pass(&self, _: &str, _: Millis, _: &'static str) -> Result<Principal, Refusal> {
        Ok(someone())
    }
}

#[tokio::test]
async fn e7_a_nearly_full_disk_is_no_illness_and_is_logged_once() {
    let bed = Bed::sled().await;
    bed.journal().close().await;
    let room = rustix::fs::statvfs(bed.path()).unwrap();
    let reserve_bytes = room.f_bavail * room.f_frsize * 2;
    let store = open_with(&StoreConfig { reserve_bytes, ..config(bed.path()) }).await.unwrap();
    let ground = Ground { journal: store.journal(), ..Ground::new(Actors::default()) };
    let engine = ground.engine(&[]).await;
    let router = pages::router(engine, Arc::new(Anybody), Arc::new(String::new));
    let page = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 1 << 16).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    };
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _quiet = tracing::subscriber::set_default(subscriber);
    for _ in 0..3 {
        assert_eq!(page("/healthz").await, (StatusCode::OK, "ok\n".into()));
        let (status, why) = page("/readyz").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(why.contains("free some space, and it goes on by itself"), "{why}");
        assert!(!why.contains("restart"), "{why}");
    }
    let told = log.told();
    assert_eq!(told.matches("the disk is nearly full").count(), 1, "{told}");
}
