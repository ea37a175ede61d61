//! Credentials: whether a key that was shown at a door is still one, where servers share their keys. A server that was
//! frozen, or cut off from the database, finds out before it decides on anything.

use std::sync::Arc;

use async_trait::async_trait;

use crate::app::auth::Keyed;
use crate::app::keys::{Key, Keys, shared};
use crate::kernel::{Assurance, Credential, Principal};
use crate::ports::{Credentials, Fault, Journal, Vouched};

/// The keys of a store that several servers share.
#[derive(Debug)]
pub(super) struct SharedKeys {
    door: Arc<Keyed>,
    journal: Arc<dyn Journal>,
}

impl SharedKeys {
    pub(super) fn new(door: Arc<Keyed>, journal: Arc<dyn Journal>) -> Self {
        Self { door, journal }
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
        if self.door.is_confirmed() && seen == shared::guard(None) {
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
        let name = match &who.known.credential {
            Credential::Machine => return self.vouch_for_local().await,
            Credential::Key(name) | Credential::Pass(name) | Credential::Service(name) => name,
        };
        // First: keys that come in while this is looked at have another.
        let seen = self.door.guard();
        let Some(shown) = self.door.key(name, who.mark) else { return Ok(Vouched::Unknown) };
        if self.door.is_confirmed() {
            let is_known =
                self.door.keys().is_some_and(|keys| self.are_both_known(&keys, &shown, who));
            return Ok(if is_known { Vouched::Good(Some(seen)) } else { Vouched::Unknown });
        }
        let text = shared::written(&*self.journal).await?;
        let kept = text.as_deref().map(shared::read).transpose();
        let kept = kept.map_err(|error| Fault::Retriable(error.to_string()))?;
        // The very same: one that was made anew has its name, and another secret.
        if kept.is_some_and(|keys| self.are_both_known(&keys, &shown, who)) {
            return Ok(Vouched::Good(Some(shared::guard(text.as_deref()))));
        }
        Ok(Vouched::Unknown)
    }

    fn doubt(&self) {
        self.door.doubt();
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::app::keys::NewKey;
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
        let known = SharedKeys::new(Arc::clone(&door), Arc::clone(&journal));
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
        let door =
            Keyed::open(None, BTreeSet::new(), folder.path(), Arc::clone(&clock) as Arc<dyn Clock>);
        let door = Arc::new(door.unwrap());
        let known = SharedKeys::new(Arc::clone(&door), Arc::clone(&journal));
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
        // What is kept without any in it lets in, by those words and no others.
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
        let known = SharedKeys::new(frozen, Arc::clone(&journal));
        assert!(!is_good(&known, &old).await, "it was frozen, and has only the old one");
        // What was shown before the new one came in is looked at after it did.
        let awake = open(&keys);
        awake.confirm(60_000, None);
        let known = SharedKeys::new(awake, journal);
        assert!(!is_good(&known, &old).await);
        assert!(is_good(&known, &new).await);
    }
}
