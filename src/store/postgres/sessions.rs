//! Sessions: how one is kept as it now is, if it is still as whoever changes it knew it.

use tokio_postgres::types::Type;

use crate::ports::{AppendError, Fault, SessionRow};
use crate::store::codec;
use crate::store::keys;
use crate::store::postgres::PostgresJournal;

impl PostgresJournal {
    pub(super) async fn write_session(
        &self,
        knew: Option<SessionRow>,
        row: SessionRow,
    ) -> Result<(), AppendError> {
        let known = self.read_session(&row.session).await?;
        if known.as_ref().is_some_and(|(known, _)| known.owner != row.owner) {
            return Err(AppendError::SessionTaken);
        }
        if known.as_ref().map(|(known, _)| known) != knew.as_ref() {
            return Err(AppendError::SessionMoved);
        }
        let id = row.session.as_str().as_bytes();
        let owner = row.owner.as_bytes();
        let body = codec::seal_session(&keys::session(&row.session), &row, None);
        let body = body.map_err(Fault::from)?;
        let mut params =
            vec![(&id as _, Type::BYTEA), (&owner as _, Type::BYTEA), (&body as _, Type::BYTEA)];
        let changed = match &known {
            None => {
                let sql =
                    "insert into holdpoint.sessions (session, owner, body) values ($1, $2, $3)
                    on conflict do nothing";
                self.connections.tell(sql, &params).await?
            }
            Some((_, was)) => {
                let sql = "update holdpoint.sessions set body = $3
                    where session = $1 and owner = $2 and body = $4";
                params.push((was as _, Type::BYTEA));
                self.connections.tell(sql, &params).await?
            }
        };
        // Somebody has changed it since it was read.
        if changed > 0 { Ok(()) } else { Err(AppendError::SessionMoved) }
    }
}
