//! Removed: keys that this server has known to be removed. A store that went back in time has them again: they are not
//! taken before an operator has let the store go on, and so has looked (K7). What is in the store is not changed here.

use std::collections::HashSet;

use crate::app::keys::key::Retired;
use crate::app::keys::{Key, Keys};

/// What is remembered of them, for as long as a server runs.
#[derive(Debug, Default)]
pub(in crate::app) struct Removed {
    /// Keys that are in force, by their hashes.
    seen: HashSet<String>,
    /// Keys that were, and are no more.
    gone: HashSet<String>,
    /// Who else was said to be gone, by those whom the store named: also before this server was started.
    retired: Vec<Retired>,
    /// The epoch of the store that was last served without being held for having gone back.
    epoch: Option<String>,
}

impl Removed {
    /// Whether somebody has let a store go on that had gone back: then what it has counts again. It has another epoch
    /// then, by which this is known also where it was held and let go on between two looks; none while it is held.
    pub(in crate::app) fn are_looked_at(&mut self, epoch: Option<String>) -> bool {
        let Some(epoch) = epoch else { return false };
        let before = self.epoch.replace(epoch);
        let is_released = before.is_some() && before != self.epoch;
        if is_released {
            self.gone.clear();
            self.retired.clear();
        }
        is_released
    }

    /// What is taken of the keys that a store has now, and the names of those that are not: they were removed.
    pub(in crate::app) fn leave_out(&mut self, mut keys: Keys) -> (Keys, Vec<String>) {
        let back = keys.list().iter().filter(|key| self.is_gone(key));
        let back: Vec<_> = back.map(|key| (key.name.clone(), self.removed_at(key))).collect();
        for (name, removed) in &back {
            // Whose it was is remembered with it: nobody speaks for them either. It is there, so this cannot fail.
            drop(keys.take_out(name, removed));
        }
        let now: HashSet<_> = keys.list().iter().map(|key| key.sha256.clone()).collect();
        self.gone.extend(self.seen.difference(&now).cloned());
        self.seen = now;
        for retired in keys.retired() {
            self.retired.retain(|known| known.name != retired.name);
            self.retired.push(retired.clone());
        }
        (keys, back.into_iter().map(|(name, _)| name).collect())
    }

    fn is_gone(&self, key: &Key) -> bool {
        let is_older =
            |known: &Retired| known.name == key.name && is_before(&key.created, &known.removed);
        self.gone.contains(&key.sha256)
            || !self.seen.contains(&key.sha256) && self.retired.iter().any(is_older)
    }

    fn removed_at(&self, key: &Key) -> String {
        let known = self.retired.iter().find(|known| known.name == key.name);
        known.map_or_else(|| key.created.clone(), |known| known.removed.clone())
    }
}

/// Whether one time is before another; not, where either is none.
fn is_before(one: &str, other: &str) -> bool {
    let read = |text: &str| text.parse::<jiff::Timestamp>().ok();
    read(one).zip(read(other)).is_some_and(|(one, other)| one < other)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Keys of these names, made and hashed so, and who is gone since when.
    fn keys(there: &[(&str, &str, char)], gone: &[(&str, &str)]) -> Keys {
        let there = there.iter().map(|(name, created, hash)| {
            let sha256 = hash.to_string().repeat(64);
            format!(
                "[[key]]\nname = \"{name}\"\nroles = [\"user\"]\nsha256 = \"{sha256}\"\ncreated = \"{created}\"\n"
            )
        });
        let gone = gone.iter().map(|(name, removed)| {
            format!(
                "[[retired]]\nname = \"{name}\"\nperson = \"{name}\"\nremoved = \"{removed}\"\n"
            )
        });
        let text: String = there.chain(gone).collect();
        Keys::read(&text, Path::new("here")).unwrap()
    }

    fn names(keys: &Keys) -> Vec<&str> {
        keys.list().iter().map(|key| key.name.as_str()).collect()
    }

    const ONE: &str = "2026-01-01T00:00:00Z";
    const TWO: &str = "2026-01-02T00:00:00Z";
    const THREE: &str = "2026-01-03T00:00:00Z";

    #[test]
    fn k7_a_key_that_was_removed_and_is_back_is_not_taken_until_somebody_looked() {
        let mut removed = Removed::default();
        let epoch = |name: &str| Some(name.to_owned());
        assert!(!removed.are_looked_at(epoch("first")), "a server has begun");
        let both = || keys(&[("ada", ONE, 'a'), ("bob", ONE, 'b')], &[]);
        assert_eq!(removed.leave_out(both()).1, [""; 0]);
        let (_, back) = removed.leave_out(keys(&[("bob", ONE, 'b')], &[("ada", TWO)]));
        assert_eq!(back, [""; 0]);
        let (left, back) = removed.leave_out(both());
        assert_eq!((names(&left), back), (vec!["bob"], vec!["ada".to_owned()]));
        assert_eq!(left.retired().len(), 1, "nobody speaks for her either");
        assert!(!removed.are_looked_at(None), "it is held");
        assert_eq!(removed.leave_out(both()).1, ["ada"]);
        assert!(!removed.are_looked_at(epoch("first")), "it is the same, and nobody looked");
        assert!(removed.are_looked_at(epoch("second")), "it was held and let go on meanwhile");
        assert_eq!(removed.leave_out(both()).1, [""; 0]);
        assert!(!removed.are_looked_at(epoch("second")));
    }

    #[test]
    fn k7_what_was_removed_before_the_server_was_started_is_known_by_whoever_is_named_as_gone() {
        let mut removed = Removed::default();
        removed.leave_out(keys(&[("bob", ONE, 'b')], &[("ada", TWO)]));
        let (left, back) = removed.leave_out(keys(&[("ada", ONE, 'a'), ("bob", ONE, 'b')], &[]));
        assert_eq!((names(&left), back), (vec!["bob"], vec!["ada".to_owned()]));
        // A new one by that name is another.
        let again = keys(&[("ada", THREE, 'c'), ("bob", ONE, 'b')], &[]);
        assert_eq!(removed.leave_out(again).1, [""; 0]);
    }
}
