//! Desks in a database: on which each run with open questions lies, so that somebody's are found without a look at
//! others'. A run's row says which, and the function `append` puts them into a table in the order of the inbox, with the
//! head that they follow from. They narrow what is read, and decide nothing.

use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use crate::kernel::Millis;
use crate::ports::{Desk, Fault, Head, Page};
use crate::store::audit::Audit;
use crate::store::index_entries::{NEVER, Waiting};
use crate::store::keys;
use crate::store::pagination;
use crate::store::postgres::PostgresJournal;
use crate::store::postgres::connections::Lost;
use crate::store::postgres::desk_marks::{SAID, mark};
use crate::store::postgres::prepared::time;
use crate::store::postgres::reader::{self, number, page, run, wanted};

/// Each desk's next runs by the index, and of these the next of all.
const WAITING: &str = "select r.run, r.head, p.deadline, p.since
    from (
      select distinct d.deadline, d.since, d.run from unnest($1::bytea[]) as own (desk)
        cross join lateral (
          select x.deadline, x.since, x.run from holdpoint.desks x
            where x.desk = own.desk and (x.deadline, x.since, x.run) > ($2, $3, $4)
            order by x.deadline, x.since, x.run limit $5
        ) d
      order by d.deadline, d.since, d.run limit $5
    ) p
    join holdpoint.runs r on r.run = p.run
    order by p.deadline, p.since, p.run";

fn failed(error: tokio_postgres::Error) -> Fault {
    Lost::Error(error).into()
}

impl PostgresJournal {
    pub(super) async fn read_desks(
        &self,
        desks: &[Desk],
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Head>, Fault> {
        let cursor = pagination::cursor(cursor, |text| {
            let (place, run) = Waiting::read_cursor(text)?;
            Some((place, keys::pack(&run)?.to_vec()))
        });
        let Some(cursor) = cursor else { return Ok(pagination::nothing()) };
        let (deadline, since) = match &cursor {
            Some((place, _)) => (time(place.deadline), time(place.since)),
            None => (-1, -1),
        };
        let run = cursor.map(|(_, run)| run).unwrap_or_default();
        let own: Vec<_> = desks.iter().map(|desk| mark(desk).to_vec()).collect();
        let params = [
            (&own as _, Type::BYTEA_ARRAY),
            (&deadline as _, Type::INT8),
            (&since as _, Type::INT8),
            (&run as _, Type::BYTEA),
            (&wanted(limit) as _, Type::INT8),
        ];
        let rows = self.connections.ask(WAITING, &params).await?;
        let heads = rows.iter().map(|row| {
            let deadline = Some(Millis(number(row, 2)?)).filter(|at| at.0 != u64::MAX);
            let place =
                Waiting { deadline: deadline.unwrap_or(NEVER), since: Millis(number(row, 3)?) };
            Ok((reader::head(row, 0)?.0, place))
        });
        let heads = heads.collect::<Result<Vec<_>, Fault>>()?;
        let page = page(heads, limit, |(head, place)| place.cursor(&head.run));
        let rows = page.rows.into_iter().map(|(head, _)| head).collect();
        Ok(Page { rows, next: page.next })
    }
}

/// Holds what lies on desks against what the rows of runs say; those are held against their heads elsewhere.
pub(super) async fn compare(moment: &Transaction<'_>, audit: &mut Audit) -> Result<(), Fault> {
    let lain = "select desk, deadline, since, run from holdpoint.desks";
    for (has, lacks, what) in [
        (SAID, lain, "it asks somebody on whose desk it does not lie"),
        (lain, SAID, "it lies on a desk of somebody whom it does not ask"),
    ] {
        let sql = format!(
            "select distinct x.run from (({has}) except ({lacks})) as x (desk, deadline, since, run)
              order by x.run limit 1000"
        );
        for row in moment.query_typed(&sql, &[]).await.map_err(failed)? {
            let id = run(&row, 0).map_or_else(|_| "?".to_owned(), |run| run.to_string());
            audit.damage(format!("run `{id}`: {what}"));
        }
    }
    Ok(())
}
