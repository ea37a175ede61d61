//! Bygone: which runs may be forgotten: those that ended long ago, in sessions in which nothing goes
//! on any more. What a run that still goes or waits remembers does not vanish under its feet.

use std::collections::HashMap;

use crate::kernel::{Millis, RunId, SessionId};
use crate::ports::Fault;
use crate::store::codec;
use crate::store::keys;
use crate::store::sled::reader;
use crate::store::sled::view::View;

/// Sessions whose state is kept in mind: a look through many runs meets few of them at a time.
const SESSIONS_MAX: usize = 10_000;

/// A look through the runs that are over, the longest first. It goes on where it stopped, so that
/// the many that stay are not looked at again for every few that go.
#[derive(Debug, Default)]
pub(super) struct Bygone {
    after: Option<Vec<u8>>,
    goes_on: HashMap<SessionId, bool>,
}

impl Bygone {
    /// The next runs that were over before `before` and may be forgotten, at most `limit`.
    pub(super) fn next(
        &mut self,
        view: View<'_>,
        before: Millis,
        limit: usize,
    ) -> Result<Vec<RunId>, Fault> {
        let mut runs = Vec::new();
        for row in reader::span(view, &[keys::OVER], self.after.clone()) {
            let (key, _) = row?;
            let (at, run) = keys::read_timed(&key).ok_or_else(reader::no_run)?;
            if at >= before || runs.len() >= limit {
                break;
            }
            self.after = Some(key.to_vec());
            if !self.is_needed(view, &run)? {
                runs.push(run);
            }
        }
        Ok(runs)
    }

    /// Whether something goes on in the run's session.
    fn is_needed(&mut self, view: View<'_>, run: &RunId) -> Result<bool, Fault> {
        let Some((session, _)) = state_of(view, run)? else { return Ok(false) };
        if let Some(known) = self.goes_on.get(&session) {
            return Ok(*known);
        }
        let goes_on = goes_on(view, &session)?;
        if self.goes_on.len() >= SESSIONS_MAX {
            self.goes_on.clear();
        }
        self.goes_on.insert(session, goes_on);
        Ok(goes_on)
    }
}

fn goes_on(view: View<'_>, session: &SessionId) -> Result<bool, Fault> {
    // The newest first: if any of them goes on, it is most likely among these.
    for row in reader::span_below(view, &keys::session_runs(session), None) {
        let run = reader::run_of(row)?;
        if state_of(view, &run)?.is_some_and(|(_, is_over)| !is_over) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A run's session, and whether it is over; its questions, which may lie apart, are not read.
fn state_of(view: View<'_>, run: &RunId) -> Result<Option<(SessionId, bool)>, Fault> {
    let Some(key) = keys::pack(run).map(|packed| keys::head(&packed)) else { return Ok(None) };
    let Some(record) = reader::record(view, &key)? else { return Ok(None) };
    let head = codec::unseal_head(&key, &record)?.head;
    Ok(Some((head.session, head.status.is_over())))
}
