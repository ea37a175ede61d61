//! Credentials: whether a key that was shown at a door is still one, where servers share their keys. A server that was
//! frozen, or cut off from the database, finds out before it decides on anything.

use std::sync::Arc;

use async_trait::async_trait;

use crate::app::auth::Keyed;
use crate::app::keys::{Key, Keys, shared};
use crate::app::reload::Lookout;
use crate::kernel::{Assurance, Credential, Principal};
use crate::ports::{Credentials, Fault, Journal, Vouched};

/// The keys of a store that several servers share.
#[derive(Debug)]
pub(super) struct SharedKeys {
    door: Arc<Keyed>,
    journal: Arc<dyn Journal>,
    lookout: Arc<Lookout>,
}

impl SharedKeys {
    pub(super) fn new(door: Arc<Keyed>, journal: Arc<dyn Journal>, lookout: Arc<Lookout>) -> Self {
        Self { door, journal, lookout }
    }
}

impl SharedKeys {
    /// Whether whoever shows no key is good: as long as there are none, and the first ends that, wherever it is made. What
    /// is kept and cannot be used here is no leave either.
    async fn vouch_for_local(&self) -> Result<Vouched, Fault> {
        let seen = self.door.guard();
        if self.door.keys().is_some() {
            return Ok(Vouched::Unknown);
        }
        if seen == shared::guard(None) {
            return Ok(Vouched::Good(Some(seen)));
        }
        let text = shared::written(&*self.journal).await?;
        let kept = text.as_deref().map(shared::read).transpose();
        let kept = kept.map_err(|error| Fault::Retriable(error.to_string()))?;
        let are_none = kept.is_none_or(|keys| keys.list().is_empty());
        let guard = || Some(shared::guard(text.as_deref()));
        Ok(if are_none { Vouched::Good(guard()) } else { Vouched::Unknown })
    }

    /// Whether that very key is among these, and whoever a service's speaks for is still somebody.
    fn are_both_known(&self, keys: &Keys, shown: &Key, who: &Principal) -> bool {
        let is_for_another = who.known.assurance == Assurance::Vouched;
        keys.list().contains(shown) && (!is_for_another || self.door.knows_in(keys, &who.id))
    }
}

#[async_trait]
impl Credentials for SharedKeys {
    async fn vouch(&self, who: &Principal) -> Result<Vouched, Fault> {
        // Not only whether this one is good: who there is beside them is what the same words say.
        if !self.door.is_confirmed() {
            self.lookout.confirm().await?;
        }
        let name = match &who.known.credential {
            Credential::Machine => return self.vouch_for_local().await,
            Credential::Key(name) | Credential::Pass(name) | Credential::Service(name) => name,
        };
        // First: keys that come in while this is looked at have another.
        let seen = self.door.guard();
        // The very same: one that was made anew has its name, and another secret.
        let Some(shown) = self.door.key(name, who.mark) else { return Ok(Vouched::Unknown) };
        let is_known = self.door.keys().is_some_and(|keys| self.are_both_known(&keys, &shown, who));
        Ok(if is_known { Vouched::Good(Some(seen)) } else { Vouched::Unknown })
    }

    fn doubt(&self) {
        self.door.doubt();
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::app::keys::NewKey;
    use crate::app::reload::Heed;
    use crate::kernel::{Millis, Role};
    use crate::ports::Clock;
    use crate::store;

    /// A clock that stands until it is moved.
    #[derive(Debug, Default)]
    struct Hands(AtomicU64);

    #[async_trait]
    impl Clock for Hands {
        fn now(&self) -> Millis {
            Millis(self.0.load(Ordering::SeqCst))
        }

        async fn sleep_until(&self, _at: Millis) {
            std::future::pending::<()>().await;
        }

        fn fresh_stem(&self) -> String {
            "0".repeat(26)
        }
    }

    fn shared_keys(door: &Arc<Keyed>, journal: &Arc<dyn Journal>, heed: Heed) -> SharedKeys {
        let (door, journal) = (Arc::clone(door), Arc::clone(journal));
        let lookout = Lookout::new(Arc::clone(&door), Arc::clone(&journal), || None, heed);
        SharedKeys::new(door, journal, Arc::new(lookout))
    }

    fn nobody_told() -> Heed {
        Box::new(|_| ())
    }

    async fn is_good(known: &SharedKeys, who: &Principal) -> bool {
        matches!(known.vouch(who).await, Ok(Vouched::Good(_)))
    }

    #[tokio::test]
    async fn k7_a_key_that_was_removed_while_a_server_stood_still_decides_nothing_when_it_goes_on()
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        Keys::add(&path, "ada", Role::User, "").unwrap();
        Keys::add(&path, "bob", Role::User, "").unwrap();
        let (clock, journal) = (Arc::new(Hands::default()), store::memory().journal());
        let keys = Keys::load(&path).unwrap();
        let door = Keyed::open(
            Some(keys.clone()),
            BTreeSet::new(),
            folder.path(),
            Arc::clone(&clock) as Arc<dyn Clock>,
        );
        let door = Arc::new(door.unwrap());
        let keep = async |keys: &Keys| {
            let (name, text) = shared::record(keys).unwrap();
            journal.remember(name, &text).await.unwrap();
        };
        keep(&keys).await;
        let known = shared_keys(&door, &journal, nobody_told());
        let [ada, bob] = ["ada", "bob"].map(|name| Principal::new(name, Role::User, "grpc"));
        clock.0.store(10_000, Ordering::SeqCst);
        door.confirm(9_000, None);
        Keys::remove(&path, "bob", "").unwrap();
        keep(&Keys::load(&path).unwrap()).await;
        // It was looked at a second ago, and is looked at again within two.
        assert!(is_good(&known, &bob).await);
        clock.0.store(11_000, Ordering::SeqCst);
        assert!(!is_good(&known, &bob).await, "nobody has looked for two seconds");
        assert!(is_good(&known, &ada).await);
        assert!(!is_good(&known, &Principal::new("eve", Role::User, "grpc")).await);
        assert!(!is_good(&known, &Principal::local("console")).await, "there are keys");
    }

    #[tokio::test]
    async fn k7_whoever_shows_no_key_rests_on_there_being_none_when_their_word_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        let (clock, journal) = (Arc::new(Hands::default()), store::memory().journal());
        let open = || {
            let clock = Arc::clone(&clock) as Arc<dyn Clock>;
            let door = Arc::new(Keyed::open(None, BTreeSet::new(), folder.path(), clock).unwrap());
            (shared_keys(&door, &journal, nobody_told()), door)
        };
        let (known, door) = open();
        let (local, none) = (Principal::local("grpc"), Vouched::Good(Some(shared::guard(None))));
        clock.0.store(10_000, Ordering::SeqCst);
        assert_eq!(known.vouch(&local).await.unwrap(), none, "it was looked");
        door.confirm(10_000, None);
        let (name, text) = shared::record(&Keys::default()).unwrap();
        assert_eq!(known.vouch(&local).await.unwrap(), none, "it was seen just now");
        // Somebody makes the first one elsewhere: here nobody has heard of it, and the database is asked.
        Keys::add(&path, "ada", Role::User, "").unwrap();
        let (_, first) = shared::record(&Keys::load(&path).unwrap()).unwrap();
        journal.remember(name, &first).await.unwrap();
        known.doubt();
        assert_eq!(known.vouch(&local).await.unwrap(), Vouched::Unknown);
        assert!(door.keys().is_some(), "and here they are in force at once");
        // What is kept without any in it lets in where there never were any, by those words and no others.
        let (known, door) = open();
        journal.remember(name, &text).await.unwrap();
        door.confirm(10_000, Some(&text));
        let empty = Vouched::Good(Some(shared::guard(Some(&text))));
        assert_eq!(known.vouch(&local).await.unwrap(), empty);
        // Keys that are there and cannot be used here are no leave, though the door has none.
        journal.remember(name, &first).await.unwrap();
        door.confirm(10_000, Some(&first));
        assert_eq!(known.vouch(&local).await.unwrap(), Vouched::Unknown);
        door.take(Keys::load(&path).unwrap()).unwrap();
        assert_eq!(known.vouch(&local).await.unwrap(), Vouched::Unknown);
    }

    #[tokio::test]
    async fn k7_a_key_that_was_made_anew_under_its_name_leaves_the_one_before_nothing_to_decide() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        let first = Keys::add(&path, "ada", Role::User, "").unwrap();
        let (clock, journal) = (Arc::new(Hands::default()), store::memory().journal());
        let keys = Keys::load(&path).unwrap();
        let mark = keys.find(&first).map(Key::mark);
        let open = |keys: &Keys| {
            let clock = Arc::clone(&clock) as Arc<dyn Clock>;
            Arc::new(
                Keyed::open(Some(keys.clone()), BTreeSet::new(), folder.path(), clock).unwrap(),
            )
        };
        let frozen = open(&keys);
        Keys::remove(&path, "ada", "").unwrap();
        let anew = NewKey { again: true, ..NewKey::of("ada", Role::User) };
        let second = Keys::make(&path, &anew, &BTreeSet::new(), "").unwrap();
        let keys = Keys::load(&path).unwrap();
        let (name, text) = shared::record(&keys).unwrap();
        journal.remember(name, &text).await.unwrap();
        let ada = |mark| Principal { mark, ..Principal::new("ada", Role::User, "grpc") };
        let (old, new) = (ada(mark), ada(keys.find(&second).map(Key::mark)));
        assert!(mark.is_some() && old.mark != new.mark);
        clock.0.store(60_000, Ordering::SeqCst);
        let known = shared_keys(&frozen, &journal, nobody_told());
        assert!(!is_good(&known, &old).await, "it was frozen, and has only the old one");
        // What was shown before the new one came in is looked at after it did.
        let awake = open(&keys);
        awake.confirm(60_000, None);
        let known = shared_keys(&awake, &journal, nobody_told());
        assert!(!is_good(&known, &old).await);
        assert!(is_good(&known, &new).await);
    }

    #[tokio::test]
    async fn k8_whoever_is_removed_is_nobody_before_anybody_elses_word_rests_on_that() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        for name in ["bob", "eve"] {
            Keys::add(&path, name, Role::User, "").unwrap();
        }
        let (clock, journal) = (Arc::new(Hands::default()), store::memory().journal());
        let door = Keyed::open(
            Some(Keys::load(&path).unwrap()),
            BTreeSet::new(),
            folder.path(),
            Arc::clone(&clock) as Arc<dyn Clock>,
        );
        let door = Arc::new(door.unwrap());
        let there = Arc::new(Mutex::new(Vec::new()));
        let (told, beside) = (Arc::clone(&there), Arc::clone(&door));
        // Who there is, and what the door says that it rests on when that is told.
        let heed = move |keys: Option<&Keys>| {
            let names = keys.into_iter().flat_map(Keys::list).map(|key| key.name.clone());
            told.lock().unwrap().push((names.collect::<Vec<_>>(), beside.guard()));
        };
        let keep = async |path: &Path| {
            let (name, text) = shared::record(&Keys::load(path).unwrap()).unwrap();
            journal.remember(name, &text).await.unwrap();
            shared::guard(Some(&text))
        };
        let before = keep(&path).await;
        let known = shared_keys(&door, &journal, Box::new(heed));
        let eve = Principal::new("eve", Role::User, "grpc");
        clock.0.store(10_000, Ordering::SeqCst);
        assert_eq!(known.vouch(&eve).await.unwrap(), Vouched::Good(Some(before.clone())));
        Keys::remove(&path, "bob", "").unwrap();
        let after = keep(&path).await;
        // The database has found that they are others than her word was to rest on.
        known.doubt();
        assert_eq!(known.vouch(&eve).await.unwrap(), Vouched::Good(Some(after)));
        assert_eq!(*there.lock().unwrap(), [(vec!["eve".to_owned()], before)]);
        // What cannot be used here is no ground for anything, though those of before are known.
        journal.remember("keys", "keys = 7").await.unwrap();
        known.doubt();
        assert!(matches!(known.vouch(&eve).await, Err(Fault::Retriable(_))));
        assert!(matches!(known.vouch(&eve).await, Err(Fault::Retriable(_))), "nor the second time");
    }
}
