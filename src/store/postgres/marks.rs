//! Marks: how far this process knows the database to have come. Whatever it writes leaves a number that grows, in the
//! same transaction; a database that has a lower one than it acknowledged has gone back in time (J10), whatever made it
//! do so: a standby that was promoted and had not got everything, or a backup that was put in its place.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::types::Type;

use crate::ports::{Fault, Incarnation, Rewind};
use crate::store::postgres::PostgresJournal;
use crate::store::postgres::prepared::int;
use crate::store::postgres::reader::{get, number};

/// Where a number is left: each has a row of its own, so that none waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// By whatever is appended.
    Appends,
    /// By every sign of life, and by what the store keeps under names.
    Beats,
}

impl Lane {
    pub(super) const ALL: [Self; 2] = [Self::Appends, Self::Beats];

    fn at(self) -> usize {
        match self {
            Self::Appends => 0,
            Self::Beats => 1,
        }
    }

    pub(super) fn number(self) -> i16 {
        match self {
            Self::Appends => 0,
            Self::Beats => 1,
        }
    }
}

/// The numbers of one process.
#[derive(Debug, Default)]
pub(super) struct Marks {
    drawn: [AtomicU64; 2],
    /// What was acknowledged, in this life and in the last ones before it: whoever asks with one life and is answered in
    /// the next has the row of the first.
    lives: Mutex<Vec<Life>>,
}

/// A life, and what was acknowledged in it.
#[derive(Debug, Clone, Copy)]
struct Life {
    who: Incarnation,
    acknowledged: [u64; 2],
    since: Instant,
}

/// Lives that are remembered: who is taken for dead more often within a day has other troubles.
const LIVES_MAX: usize = 16;
/// For how long: their rows are kept for longer.
const REMEMBERED: Duration = Duration::from_hours(24);

impl Marks {
    /// A number for what is about to be written.
    pub(super) fn draw(&self, lane: Lane) -> i64 {
        int(self.drawn[lane.at()].fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// What was written with that number, in that life, is acknowledged.
    pub(super) fn acknowledge(&self, who: Incarnation, lane: Lane, mark: i64) {
        let mark = u64::try_from(mark).unwrap_or(0);
        let mut lives = self.lock();
        let place = lives.iter().position(|life| life.who == who);
        let place = place.unwrap_or_else(|| {
            lives.push(Life { who, acknowledged: [0; 2], since: Instant::now() });
            let more = lives.len().saturating_sub(LIVES_MAX);
            lives.drain(..more);
            lives.len() - 1
        });
        let known = &mut lives[place].acknowledged[lane.at()];
        *known = mark.max(*known);
    }

    /// What was acknowledged, life by life.
    fn acknowledged(&self, me: Incarnation) -> Vec<(Incarnation, [u64; 2])> {
        let mut lives = self.lock();
        lives.retain(|life| life.who == me || life.since.elapsed() < REMEMBERED);
        lives.iter().map(|life| (life.who, life.acknowledged)).collect()
    }

    /// From here on it counts from what is there.
    fn rest(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Life>> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PostgresJournal {
    /// Whether the database lacks what it acknowledged to this process.
    pub(super) async fn read_marks(&self) -> Result<Option<Rewind>, Fault> {
        if let Some(version) = self.links.took_divergence() {
            return Ok(Some(Rewind { had: version, has: version }));
        }
        // From before it is asked.
        let (me, seen) = (self.me(), self.links.seen());
        let known = self.marks.acknowledged(me);
        let lives: Vec<_> = known.iter().map(|(who, _)| int(who.0)).collect();
        let sql = "select incarnation, lane, mark from holdpoint.marks where incarnation = any($1)";
        let rows = self.connections.ask(sql, &[(&lives, Type::INT8_ARRAY)]).await?;
        let mut has: HashMap<_, [u64; 2]> = HashMap::new();
        for row in &rows {
            let lane: i16 = get(row, 1)?;
            if let Some(at) = Lane::ALL.iter().position(|known| known.number() == lane) {
                has.entry(Incarnation(number(row, 0)?)).or_default()[at] = number(row, 2)?;
            }
        }
        let of = |who: &Incarnation| has.get(who).copied().unwrap_or_default();
        let lanes = known.iter().flat_map(|(who, had)| had.iter().copied().zip(of(who)));
        let lacks = lanes.into_iter().find(|(had, has)| has < had);
        // A life that began meanwhile has written nothing yet.
        let Some((had, lacks)) = lacks.filter(|_| me == self.me()) else {
            self.links.found_whole(seen);
            return Ok(None);
        };
        self.lay_marks(me).await?;
        // Told once.
        self.marks.rest();
        Ok(Some(Rewind { had, has: lacks }))
    }

    /// Makes the rows that numbers are left in, where there are none.
    async fn lay_marks(&self, me: Incarnation) -> Result<(), Fault> {
        let sql =
            "insert into holdpoint.marks (incarnation, lane, mark) values ($1, 0, 0), ($1, 1, 0)
            on conflict do nothing";
        self.connections.ask(sql, &[(&int(me.0), Type::INT8)]).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_in_each_lane_alone_and_what_is_acknowledged_never_falls() {
        let (marks, [seven, eight]) = (Marks::default(), [Incarnation(7), Incarnation(8)]);
        let (one, two) = (marks.draw(Lane::Appends), marks.draw(Lane::Appends));
        assert_eq!((one, two, marks.draw(Lane::Beats)), (1, 2, 1));
        marks.acknowledge(seven, Lane::Appends, two);
        marks.acknowledge(seven, Lane::Appends, one);
        assert_eq!(marks.acknowledged(seven), [(seven, [2, 0])]);
        let (three, beat) = (marks.draw(Lane::Appends), marks.draw(Lane::Beats));
        assert_eq!((three, beat), (3, 2), "no number is drawn twice");
        marks.acknowledge(eight, Lane::Beats, beat);
        // It was sent in the life before, and left its mark there.
        marks.acknowledge(seven, Lane::Appends, three);
        assert_eq!(marks.acknowledged(eight), [(seven, [3, 0]), (eight, [0, 2])]);
    }
}
