//! Posture: what the operator's settings and keys come to, in a form that can be kept and compared, so
//! that a change is noted whether the server ran while it was made or not. Knows no secrets: of a key it
//! keeps a fingerprint.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::app::Config;
use crate::app::keys::Keys;
use crate::app::offline;
use crate::engine::{Engine, EngineError};
use crate::kernel::{Environment, Millis, Operator, digest};
use crate::ports::{Fault, Journal, Note, Noting};

/// Under which name the store keeps it.
const NAME: &str = "posture";
/// How long another server is given to note what this one has seen, too.
const OTHERS: Duration = Duration::from_secs(5);
/// Hexadecimal digits of a fingerprint: enough to tell a key from the one before it.
const FINGERPRINT_CHARS: usize = 16;

/// Whether this store was ever served with keys. Whoever takes the last one away, on purpose or not, lets nobody in: that
/// everybody may come in is said by a store that never asked.
pub(super) async fn had_keys(journal: &dyn Journal) -> Result<bool, Fault> {
    let kept = journal.remembered(NAME).await?;
    let kept = kept.and_then(|text| serde_json::from_str::<Posture>(&text).ok());
    Ok(kept.is_some_and(|posture| posture.has_asked()))
}

/// Notes what a command has made of the keys of a database. Nobody need live there to see it, and what is noted is where
/// the change is: a copy that lacks the one lacks the other. Of a store that nobody has served yet, whoever does first
/// notes them all.
pub(super) async fn note_keys(journal: &dyn Journal, keys: &Keys) -> Result<(), Fault> {
    let kept = journal.remembered(NAME).await?;
    let Some(before) = kept.and_then(|text| serde_json::from_str::<Posture>(&text).ok()) else {
        return Ok(());
    };
    let now = offline::time_of(journal).await?;
    let (keys, ended) = prints(keys, now);
    let asked = before.has_asked() || !keys.is_empty();
    let after = Posture { keys, ended, asked, ..before.clone() };
    for note in after.since(&before) {
        journal.note(Noting::once(now, note)).await?;
    }
    journal.remember(NAME, &serde_json::to_string(&after).unwrap_or_default()).await
}

/// The fingerprints of keys, by name, and those whose time has come.
fn prints(keys: &Keys, now: Millis) -> (BTreeMap<String, String>, BTreeSet<String>) {
    let ended = keys.list().iter().filter(|key| key.is_over(now)).map(|key| key.name.clone());
    let mut fingerprints: BTreeMap<String, String> = BTreeMap::new();
    for key in keys.list() {
        // Everything that is kept of it counts, its rights too.
        let mut print = digest::of_bytes(&serde_json::to_vec(key).unwrap_or_default());
        print.truncate(FINGERPRINT_CHARS);
        fingerprints.entry(key.name.clone()).or_default().push_str(&print);
    }
    (fingerprints, ended.collect())
}

/// What was in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Posture {
    environment: Option<String>,
    /// Whether no setting says it, so that it goes by whether there are keys; absent before it was written down.
    unsaid: bool,
    four_eyes: bool,
    /// Whoever is part of something, and of what.
    people: BTreeMap<String, Vec<String>>,
    /// Fingerprints by name.
    keys: BTreeMap<String, String>,
    /// Keys whose time has come.
    ended: BTreeSet<String>,
    /// Whether there ever was a key; absent before it was written down.
    asked: bool,
}

impl Posture {
    /// What is in force at `now`.
    pub(super) fn of(
        config: &Config,
        operator: &Operator,
        keys: Option<&Keys>,
        now: Millis,
    ) -> Self {
        let environment = match &operator.environment {
            Environment::Named(name) => Some(name.clone()),
            Environment::Unsaid => None,
        };
        // What the settings say, whoever of them has a key that is good just now: keys are told of as keys.
        let people = config.people.iter().map(|(name, person)| {
            let groups = person.groups.iter().map(|group| format!("group:{group}"));
            let titles = person.roles.iter().map(|title| format!("role:{title}"));
            (name.clone(), groups.chain(titles).collect::<Vec<_>>())
        });
        let (keys, ended) = keys.map(|keys| prints(keys, now)).unwrap_or_default();
        let asked = !keys.is_empty();
        Self {
            environment,
            unsaid: config.environment.is_none(),
            four_eyes: operator.four_eyes,
            people: people.filter(|(_, parts)| !parts.is_empty()).collect(),
            keys,
            ended,
            asked,
        }
    }

    fn has_asked(&self) -> bool {
        self.asked || !self.keys.is_empty()
    }

    /// How many names have keys, what the environment is, and whether four eyes are wanted.
    pub(super) fn summary(&self) -> (u64, Option<String>, bool) {
        (self.keys.len() as u64, self.environment.clone(), self.four_eyes)
    }

    /// What is not as it was.
    fn since(&self, before: &Self) -> Vec<Note> {
        let mut notes = Vec::new();
        let (came, went, changed) = differences(&before.keys, &self.keys);
        let ended: Vec<String> = self.ended.difference(&before.ended).cloned().collect();
        if before.keys != self.keys || !ended.is_empty() {
            notes.push(Note::KeysChanged { came, went, changed, ended });
        }
        let mut what = Vec::new();
        if before.environment != self.environment {
            what.push(self.elsewhere(before));
        }
        if before.four_eyes != self.four_eyes {
            what.push(format!("four_eyes: {} -> {}", before.four_eyes, self.four_eyes));
        }
        let (came, went, changed) = differences(&before.people, &self.people);
        for name in went {
            what.push(format!("people.{name}: gone"));
        }
        for name in came.into_iter().chain(changed) {
            let parts = self.people.get(&name).map(|parts| parts.join(" ")).unwrap_or_default();
            what.push(format!("people.{name}: {parts}"));
        }
        if !what.is_empty() {
            notes.push(Note::PolicyChanged { what });
        }
        notes
    }

    /// Where the server works, in the place of where it did. Where no setting said it, then or now, only the keys
    /// have come or gone: it is told what that comes to for decisions, and not as if somebody had changed a setting.
    fn elsewhere(&self, before: &Self) -> String {
        if before.unsaid && self.unsaid {
            let means = self.environment.as_ref().map_or_else(
                || "with keys it is taken for none, and gates that look at it ask".to_owned(),
                |name| format!("without keys it is taken for {name}"),
            );
            return format!("environment: not said, as before; {means}");
        }
        let word = |posture: &Self| match &posture.environment {
            Some(name) if posture.unsaid => format!("not said (taken for {name})"),
            Some(name) => name.clone(),
            None => "not said".into(),
        };
        format!("environment: {} -> {}", word(before), word(self))
    }

    /// Notes what is not as it was when somebody last looked, before anything is served, and keeps how it is now.
    pub(super) async fn keep_first(self, engine: &Engine) -> Result<(), EngineError> {
        let before = engine.remembered(NAME).await?;
        self.note_since(before, engine).await
    }

    /// The same while it is served. Of several servers that see it at once one does; the others see to it that it was
    /// done.
    async fn keep(self, engine: &Engine) -> Result<(), EngineError> {
        let before = engine.remembered(NAME).await?;
        if !engine.is_ours_first(NAME) {
            tokio::time::sleep(OTHERS).await;
            if engine.remembered(NAME).await? != before {
                return Ok(());
            }
        }
        self.note_since(before, engine).await
    }

    async fn note_since(
        mut self,
        before: Option<String>,
        engine: &Engine,
    ) -> Result<(), EngineError> {
        let known = before.and_then(|text| serde_json::from_str::<Self>(&text).ok());
        self.asked |= known.as_ref().is_some_and(Self::has_asked);
        if known.as_ref() == Some(&self) {
            return Ok(());
        }
        // In a new store all keys have come.
        let nobody = || Self { keys: BTreeMap::new(), ended: BTreeSet::new(), ..self.clone() };
        for note in self.since(&known.unwrap_or_else(nobody)) {
            engine.note(note).await;
        }
        let text = serde_json::to_string(&self).unwrap_or_default();
        engine.remember(NAME, &text).await
    }
}

/// Notes whatever is seen to be in force, for as long as it is served. What is seen while something is noted is noted
/// together.
pub(super) async fn keeping(engine: Engine, mut seen: watch::Receiver<Posture>) {
    while seen.changed().await.is_ok() {
        let posture = seen.borrow_and_update().clone();
        told(posture.keep(&engine).await);
    }
}

/// A store that cannot keep it has said so elsewhere.
pub(super) fn told(kept: Result<(), EngineError>) {
    if let Err(error) = kept {
        tracing::warn!(%error, "what the operator changed could not be noted");
    }
}

/// Names that came, names that went, and names that stand for something else.
fn differences<T: PartialEq>(
    before: &BTreeMap<String, T>,
    now: &BTreeMap<String, T>,
) -> (Vec<String>, Vec<String>, Vec<String>) {
    let came = now.keys().filter(|name| !before.contains_key(*name)).cloned().collect();
    let went = before.keys().filter(|name| !now.contains_key(*name)).cloned().collect();
    let is_other = |(name, is): &(&String, &T)| before.get(*name).is_some_and(|was| was != *is);
    let changed = now.iter().filter(is_other).map(|(name, _)| name.clone()).collect();
    (came, went, changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(rows: &[(&str, &str)]) -> BTreeMap<String, String> {
        rows.iter().map(|(name, print)| ((*name).into(), (*print).into())).collect()
    }

    #[test]
    fn what_changed_is_told_by_name() {
        let before = Posture {
            environment: Some("production".into()),
            unsaid: false,
            four_eyes: true,
            people: [("ada".to_owned(), vec!["group:finance".to_owned()])].into(),
            keys: map(&[("ada", "1"), ("bob", "2")]),
            ended: BTreeSet::new(),
            asked: true,
        };
        let now = Posture {
            environment: None,
            unsaid: true,
            four_eyes: false,
            people: [("ada".to_owned(), vec!["role:director".to_owned()])].into(),
            keys: map(&[("ada", "9"), ("eve", "3")]),
            ended: ["eve".to_owned()].into(),
            asked: true,
        };
        let told: Vec<_> = now.since(&before).iter().map(Note::words).collect();
        assert_eq!(
            told,
            [
                "came: eve; went: bob; changed: ada; expired: eve",
                "environment: production -> not said; four_eyes: true -> false; \
                 people.ada: role:director",
            ]
        );
        assert_eq!(now.since(&now), []);
    }

    #[test]
    fn keys_that_come_or_go_say_what_that_means_where_nobody_says_the_environment() {
        let open =
            Posture { environment: Some("development".into()), unsaid: true, ..Posture::default() };
        let keyed = Posture {
            environment: None,
            unsaid: true,
            keys: map(&[("ada", "1")]),
            ..Posture::default()
        };
        let told = |now: &Posture, before: &Posture| {
            now.since(before).iter().map(|note| note.clone().bounded().words()).collect::<Vec<_>>()
        };
        assert_eq!(
            told(&keyed, &open),
            [
                "came: ada",
                "environment: not said, as before; with keys it is taken for none, and gates that \
                 look at it ask",
            ]
        );
        assert_eq!(
            told(&open, &keyed),
            [
                "went: ada",
                "environment: not said, as before; without keys it is taken for development"
            ]
        );
        let said = Posture { environment: Some("production".into()), ..Posture::default() };
        assert_eq!(
            told(&said, &open),
            ["environment: not said (taken for development) -> production"]
        );
    }
}
