//! Prune scan: which runs retention may forget: those that ended long ago, in sessions and families in which
//! nothing goes on any more. What a run that still goes or waits remembers, or what was refused in a fork of
//! it, does not vanish under its feet.

use std::collections::HashMap;

use crate::kernel::{Millis, RunId, SessionId};
use crate::ports::{Fault, Head};
use crate::store::codec;
use crate::store::embedded::chunks;
use crate::store::embedded::reader;
use crate::store::embedded::view::View;
use crate::store::keys;

/// Sessions whose state is kept in mind: a look through many runs meets few of them at a time.
const SESSIONS_MAX: usize = 10_000;

/// A look through the runs, the oldest first. It goes on where it stopped, so that the many that stay
/// are not looked at again for every few that go. There is no index of what is over: every run would
/// be written there once, for what is asked once a month.
#[derive(Debug, Default)]
pub(super) struct PruneScan {
    after: Option<Vec<u8>>,
    goes_on: HashMap<SessionId, bool>,
}

impl PruneScan {
    /// The next runs that were over before `before` and may be forgotten, at most `limit`.
    pub(super) fn next(
        &mut self,
        view: View<'_>,
        before: Millis,
        limit: usize,
    ) -> Result<Vec<RunId>, Fault> {
        let mut runs = Vec::new();
        for row in reader::span(view, &[keys::HEAD], self.after.clone()) {
            if runs.len() >= limit {
                break;
            }
            let (key, place) = row?;
            let record = chunks::join(&key, place, |chunk| view.get(chunk))?;
            let head = codec::unseal_head(&key, &record)?.head;
            self.after = Some(key.to_vec());
            let is_old = head.status.is_over() && head.updated_at < before;
            if is_old && !family_goes_on(view, &head)? && !self.goes_on(view, head.session)? {
                runs.push(head.run);
            }
        }
        Ok(runs)
    }

    /// Whether something goes on in a session.
    fn goes_on(&mut self, view: View<'_>, session: SessionId) -> Result<bool, Fault> {
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
    any_goes_on(view, reader::runs_of(view, session, None)?)
}

/// Whether a run of the family goes on: what was refused in one of them counts in the others (K11).
fn family_goes_on(view: View<'_>, head: &Head) -> Result<bool, Fault> {
    let family = head.family.as_ref().unwrap_or(&head.run);
    let forks = reader::forks(view, family)?;
    any_goes_on(view, forks.into_iter().chain([family.clone()]).map(Ok))
}

fn any_goes_on(
    view: View<'_>,
    runs: impl Iterator<Item = Result<RunId, Fault>>,
) -> Result<bool, Fault> {
    for run in runs {
        let Some(key) = keys::pack(&run?).map(|packed| keys::head(&packed)) else { continue };
        let Some(record) = reader::record(view, &key)? else { continue };
        // Its questions, which may lie beside it, are not read.
        if !codec::unseal_head(&key, &record)?.head.status.is_over() {
            return Ok(true);
        }
    }
    Ok(false)
}
