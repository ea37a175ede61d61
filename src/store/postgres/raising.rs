//! Raising: what tables are made with, what those of an earlier build lack, and what follows from what they have. It is done
//! once, by whoever migrates.

use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use crate::ports::Desk;
use crate::store::postgres::desk_marks::{self, mark};
use crate::store::postgres::reader;

/// The tables, as schema 1 has them, which every store was made with or raised from.
pub(super) const MAKE: &str = include_str!("schema.sql");
/// What takes them from one schema to the next: each only adds, so that what is stored stays as it is.
pub(super) const RAISE: [(i32, &str); 3] = [
    (2, include_str!("schema_2.sql")),
    (DESKS, include_str!("schema_3.sql")),
    (4, include_str!("schema_4.sql")),
];
/// The schema from which on it is kept who is asked.
pub(super) const DESKS: i32 = 3;
/// Runs that are laid out at a time.
const AT_ONCE: i64 = 500;

/// Lays out what was asked before there were desks: nobody else writes meanwhile. A head that cannot be read is its
/// owner's to come upon.
pub(super) async fn lay_out(moment: &Transaction<'_>) -> Result<(), tokio_postgres::Error> {
    let sql = "select run, head, owner from holdpoint.runs
        where since is not null and run > $1 order by run limit $2";
    let mut after = Vec::new();
    loop {
        let params = [(&after as _, Type::BYTEA), (&AT_ONCE as _, Type::INT8)];
        let rows = moment.query_typed(sql, &params).await?;
        let Some(last) = rows.last() else { break };
        let next: Vec<u8> = last.try_get(0)?;
        let (mut runs, mut marks) = (Vec::new(), Vec::new());
        for row in &rows {
            let owner: &[u8] = row.try_get(2)?;
            let owners = || mark(&Desk::began(&String::from_utf8_lossy(owner))).to_vec();
            runs.push(row.try_get::<_, Vec<u8>>(0)?);
            marks.push(
                reader::head(row, 0)
                    .ok()
                    .and_then(|(head, _)| desk_marks::of(&head))
                    .unwrap_or_else(owners),
            );
        }
        let put = "update holdpoint.runs r set desks = t.desks
            from unnest($1::bytea[], $2::bytea[]) as t (run, desks) where r.run = t.run";
        let params = [(&runs as _, Type::BYTEA_ARRAY), (&marks as _, Type::BYTEA_ARRAY)];
        moment.execute_typed(put, &params).await?;
        after = next;
    }
    moment.execute_typed(&desk_marks::laying_out(), &[]).await.map(drop)
}
