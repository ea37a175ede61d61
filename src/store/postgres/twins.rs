//! Twins: two databases that take writes with one history. Whoever sees them has both say so of themselves, and both are held
//! as one that went back in time is: whichever is left alone lacks what was decided at the other, and a process that is
//! started afterwards could not know. It writes what the store says it is, and nothing else; what follows from that is
//! the engine's.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::ports::Fault;
use crate::ports::identity::{self, Identity};
use crate::store::codec;
use crate::store::keys;
use crate::store::postgres::connections::{Connections, Line, PATIENCE};
use crate::store::postgres::faults::{fault, unread};
use crate::store::postgres::hosts::{Found, History};
use crate::store::postgres::replicas::keepsake;
use crate::store::postgres::schema;

impl Connections {
    /// Holds those that take writes with one history and are both still there, as soon as they are seen: whoever stops one of
    /// them afterwards leaves one that is held. What could not be written is written at the next look.
    pub(super) async fn hold_twins(&self, twins: &[(History, &Found<Line>)]) {
        if self.config.only_looks || twins.is_empty() {
            return;
        }
        let places: Vec<_> = twins.iter().map(|(_, one)| one.place.as_str()).collect();
        let places = places.join(" and ");
        let held = async {
            // Over the same connections: a server that was started anew meanwhile has none of them any more.
            let told = twins.iter().map(|&(history, one)| async move {
                schema::history(&one.line.client).await == Some(history)
            });
            if !futures::future::join_all(told).await.into_iter().all(|is_there| is_there) {
                return;
            }
            let holding = twins.iter().map(|&(_, one)| hold_one(one, &places));
            futures::future::join_all(holding).await;
        };
        if tokio::time::timeout(PATIENCE, held).await.is_err() {
            tracing::warn!(%places, "two databases could not be held in time; it is tried again");
        }
    }
}

/// Holds one of them, and says what came of it.
async fn hold_one(one: &Found<Line>, places: &str) {
    let at = &one.place;
    match hold(&one.line.client, places).await {
        Ok(true) => tracing::error!(
            at,
            "two databases with one history took writes: {places}; nothing is done at either until `holdpoint release`"
        ),
        Ok(false) => {}
        Err(error) => {
            tracing::warn!(at, %error, "one of two databases could not be held; it is tried again");
        }
    }
}

/// Has a database say that it is held; whether it did not before.
async fn hold(client: &Client, places: &str) -> Result<bool, Fault> {
    let (at, name) = (keys::keepsake(identity::NAME), keepsake(identity::NAME));
    let sql = "select body from holdpoint.kept where name = $1 and body is not null";
    let row = client.query_typed_opt(sql, &[(&name, Type::TEXT)]).await;
    let row = row.map_err(|error| fault(&error))?;
    let knew: Option<Vec<u8>> =
        row.map(|row| row.try_get(0)).transpose().map_err(|error| unread(&error))?;
    let known = match &knew {
        Some(body) => Identity::read(&String::from_utf8_lossy(codec::unseal(&at, body)?))?,
        None => Identity::default(),
    };
    let mut drawn = [0; 16];
    getrandom::fill(&mut drawn).map_err(|error| Fault::Retriable(error.to_string()))?;
    let epoch = format!("{:032x}", u128::from_be_bytes(drawn));
    let Some(held) = known.doubled(epoch, places) else { return Ok(false) };
    let body = codec::seal(&at, held.text()?.as_bytes());
    // Where somebody else says something meanwhile, that is looked at the next time.
    let sql = "select holdpoint.keep_if($1, $2, $3, null, 0)";
    let params = [(&name as _, Type::TEXT), (&body as _, Type::BYTEA), (&knew as _, Type::BYTEA)];
    let row = client.query_typed_one(sql, &params).await.map_err(|error| fault(&error))?;
    row.try_get(0).map_err(|error| unread(&error))
}
