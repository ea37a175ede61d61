//! Auth: who is let in. Without keys everybody is the owner of the machine; with keys nobody is
//! anybody without one.
//!
//! A browser keeps a pass in place of a key: `name.chance.until.code`, where the code binds the name, the
//! time and the key's hash to a secret of this data directory. It opens nothing after its time, nor
//! once its person has signed out, nor once the key is gone or another, and a stolen keys file makes none.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::sync::watch;

use crate::api::{Doorkeeper, Shown, console};
use crate::app::keys::{Key, KeyKind, Keys, KeysError, shared};
use crate::app::void::Void;
use crate::kernel::{Assurance, Credential, Known, Millis, Principal, Refusal};
use crate::ports::{Clock, Guard};

/// The secret that passes are made with, in the data directory. Without it everybody signs in again.
pub(super) const FILE: &str = "console.key";
/// The one that they were made with until the store moved into a database: whoever has signed in here stays so.
const BEFORE: &str = "console.key.before";
/// Nothing that was made with it is good for longer.
const BEFORE_IS_OVER: Duration = Duration::from_secs(console::PASS_SECONDS);
/// What whoever speaks for others is told where nobody has a key.
const NO_SERVICES: &str =
    "x-holdpoint-on-behalf-of: this server has no keys, and so knows no services; leave it out";

/// Lets in the command that this process runs, whatever it says of itself: it is the terminal's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Embedded;

impl Doorkeeper for Embedded {
    fn admit(&self, _shown: Shown<'_>, _door: &'static str) -> Result<Principal, Refusal> {
        Ok(Principal::local("cli"))
    }

    fn wants_key(&self) -> bool {
        false
    }

    fn pass(&self, _bearer: &str, _until: Millis) -> Result<String, Refusal> {
        Err(Refusal::Unauthenticated)
    }

    fn admit_pass(
        &self,
        _pass: &str,
        _now: Millis,
        _door: &'static str,
    ) -> Result<Principal, Refusal> {
        Ok(Principal::local("cli"))
    }
}

/// Lets in whoever shows a key, or a pass that stands for one; while there are no keys at all, everybody, as
/// `local`. The keys may change while it stands there.
pub(super) struct Keyed {
    /// None while nobody has made any.
    keys: RwLock<Option<Arc<Keys>>>,
    /// Whether there are some: asked with every call.
    wants_key: AtomicBool,
    /// Made when there are keys.
    secret: OnceLock<[u8; 32]>,
    /// What no pass is made with any more, though some were.
    before: OnceLock<[u8; 32]>,
    /// The same, of servers over a database whose signing key was changed, while the one before is named.
    handed: OnceLock<[u8; 32]>,
    /// The people whom the settings name.
    people: BTreeSet<String>,
    data: PathBuf,
    void: Void,
    /// By which keys and passes are over.
    clock: Arc<dyn Clock>,
    changes: watch::Sender<()>,
    trouble: RwLock<Option<String>>,
    /// When the keys were last seen to be those that are kept, by ticks.
    confirmed: AtomicU64,
    is_doubted: AtomicBool,
    guard: RwLock<Guard>,
}

/// For how long keys that others may change are believed without a look.
const BELIEVED_MS: u64 = 2_000;

impl std::fmt::Debug for Keyed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyed").field("wants_key", &self.wants_key).finish_non_exhaustive()
    }
}

impl Keyed {
    /// Asks for `keys`; the secret of its passes is kept in `data`. `people` are those whom the settings
    /// name.
    pub(super) fn open(
        keys: Option<Keys>,
        people: BTreeSet<String>,
        data: &Path,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let door = Self {
            keys: RwLock::new(None),
            wants_key: AtomicBool::new(false),
            secret: OnceLock::new(),
            before: OnceLock::new(),
            handed: OnceLock::new(),
            people,
            data: data.to_path_buf(),
            void: Void::open(data)?,
            clock,
            changes: watch::Sender::new(()),
            trouble: RwLock::new(None),
            confirmed: AtomicU64::new(0),
            is_doubted: AtomicBool::new(false),
            guard: RwLock::new(shared::guard(None)),
        };
        if let Some(keys) = keys {
            door.take(keys)?;
        }
        Ok(door)
    }

    /// Asks for these keys from now on, and has open streams look again whose they are.
    pub(super) fn take(&self, keys: Keys) -> io::Result<()> {
        // Keys are asked for though passes cannot be made: nobody is let in by a full disk.
        let kept = match self.secret.get() {
            Some(_) => Ok(()),
            None => secret(&self.data.join(FILE)).map(|secret| {
                if let Some(before) = secret_before(&self.data) {
                    self.before.get_or_init(|| before);
                }
                self.secret.get_or_init(|| secret);
            }),
        };
        *write(&self.keys) = Some(Arc::new(keys));
        self.wants_key.store(true, Ordering::Release);
        self.changes.send_replace(());
        kept
    }

    /// Takes passes that were made with this, too, where there is something; the first one stays.
    pub(super) fn take_also(&self, secret: Option<[u8; 32]>) {
        if let Some(secret) = secret {
            self.handed.get_or_init(|| secret);
        }
    }

    /// Refuses keys that nobody could tell from the people whom the settings name.
    pub(super) fn check(&self, keys: Keys) -> Result<Keys, KeysError> {
        match keys.service_named(&self.people) {
            Some(name) => Err(KeysError::ServiceNamed(name.to_owned())),
            None => Ok(keys),
        }
    }

    /// The keys were those that are kept, in these words, when it was this late, by ticks.
    pub(super) fn confirm(&self, ticks: u64, text: Option<&str>) {
        *write(&self.guard) = shared::guard(text);
        self.confirmed.store(ticks, Ordering::Release);
        self.is_doubted.store(false, Ordering::Release);
    }

    /// They have changed since.
    pub(super) fn doubt(&self) {
        self.is_doubted.store(true, Ordering::Release);
    }

    /// That what is kept is still what it was when they were last seen.
    pub(super) fn guard(&self) -> Guard {
        read(&self.guard).clone()
    }

    /// Whether that was just now, and nobody doubts it.
    pub(super) fn is_confirmed(&self) -> bool {
        let since = self.ticks().saturating_sub(self.confirmed.load(Ordering::Acquire));
        since < BELIEVED_MS && !self.is_doubted.load(Ordering::Acquire)
    }

    /// How late it is, by what only goes on.
    pub(super) fn ticks(&self) -> u64 {
        self.clock.ticks()
    }

    /// The key of that name and mark, if it is in force.
    pub(super) fn key(&self, name: &str, mark: Option<u64>) -> Option<Key> {
        let now = self.clock.now();
        let is_it = |key: &&Key| {
            key.name == name && mark.is_none_or(|mark| mark == key.mark()) && !key.is_over(now)
        };
        self.keys()?.list().iter().find(is_it).cloned()
    }

    /// Whether these keys, and the settings, know somebody whom a service speaks for.
    pub(super) fn knows_in(&self, keys: &Keys, person: &str) -> bool {
        keys.knows(person, self.people.contains(person), self.now())
    }

    /// The time by which keys are over.
    pub(super) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// The keys in force.
    pub(super) fn keys(&self) -> Option<Arc<Keys>> {
        read(&self.keys).clone()
    }

    /// Has open streams look again whose they are: the time of a key has come.
    pub(super) fn look_again(&self) {
        self.changes.send_replace(());
    }

    /// Says what is wrong with the keys file, or that nothing is.
    pub(super) fn troubled(&self, trouble: Option<String>) {
        *write(&self.trouble) = trouble;
    }

    /// Whether a pass has this code by what they are made with, or were before.
    fn has_made(&self, code: &[u8], (key, until, chance): (&Key, Millis, &str)) -> bool {
        let secrets = [self.secret.get(), self.before.get(), self.handed.get()];
        secrets.into_iter().flatten().any(|secret| {
            let made = code_by(secret, key, until, chance);
            made.is_some_and(|made| made.verify_slice(code).is_ok())
        })
    }
}

/// What binds a pass to its key and its time.
fn code_by(secret: &[u8; 32], key: &Key, until: Millis, chance: &str) -> Option<Hmac<Sha256>> {
    let mut code = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    code.update(format!("{}.{chance}.{}.{}", key.name, until.0, key.sha256).as_bytes());
    Some(code)
}

/// Whoever panicked beside it has left it whole: what is kept here is replaced, never changed.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

impl Doorkeeper for Keyed {
    fn admit(&self, shown: Shown<'_>, door: &'static str) -> Result<Principal, Refusal> {
        let Some(keys) = self.keys() else {
            return match shown.on_behalf_of {
                None => Ok(Principal::local(door)),
                // What is not heeded is not passed over either: it would be `local` who has said it.
                Some(_) => Err(Refusal::Forbidden(NO_SERVICES)),
            };
        };
        keys.principal(shown, &self.people, self.clock.now(), door)
    }

    fn wants_key(&self) -> bool {
        self.wants_key.load(Ordering::Acquire)
    }

    fn pass(&self, bearer: &str, until: Millis) -> Result<String, Refusal> {
        let keys = self.keys().ok_or(Refusal::Unauthenticated)?;
        let key = keys.find(bearer).ok_or(Refusal::Unauthenticated)?;
        // A pass is a person's who sits before a browser: a service has none.
        if key.kind == KeyKind::Service {
            let why =
                "This key is a service's. The console is for people: sign in with a person's key.";
            return Err(Refusal::Forbidden(why));
        }
        if key.is_over(self.clock.now()) {
            return Err(Refusal::KeyExpired(key.name.clone()));
        }
        // Two browsers of one person must not have the same: signing out of one is not of both.
        let mut chance = [0; 8];
        getrandom::fill(&mut chance).map_err(|_| Refusal::Unauthenticated)?;
        let chance = hex(&chance);
        let secret = self.secret.get().ok_or(Refusal::Unauthenticated)?;
        let code = code_by(secret, key, until, &chance).ok_or(Refusal::Unauthenticated)?;
        let name = &key.name;
        Ok(format!("{name}.{chance}.{}.{}", until.0, hex(&code.finalize().into_bytes())))
    }

    fn admit_pass(
        &self,
        pass: &str,
        now: Millis,
        door: &'static str,
    ) -> Result<Principal, Refusal> {
        let Some(keys) = self.keys() else { return Ok(Principal::local(door)) };
        let admitted = || {
            // Names may have dots in them; what follows has none.
            let mut parts = pass.rsplitn(4, '.');
            let (code, until) = (parts.next()?, Millis(parts.next()?.parse().ok()?));
            let (chance, name) = (parts.next()?, parts.next()?);
            let key = keys.list().iter().find(|key| key.name == name)?;
            self.has_made(&unhex(code)?, (key, until, chance)).then_some(())?;
            let credential = Credential::Pass(key.name.clone());
            let known = Known::new(Assurance::Proven, credential);
            let workflows = key.workflows.clone();
            let who = Principal::new(key.identity(), key.roles, door);
            let is_good = key.kind == KeyKind::Person && !key.is_over(now) && now < until;
            let mark = Some(key.mark());
            (is_good && !self.void.has(code)).then_some(Principal { workflows, known, mark, ..who })
        };
        admitted().ok_or(Refusal::Unauthenticated)
    }

    fn still_admits_pass(&self, pass: &str) -> bool {
        self.admit_pass(pass, self.clock.now(), "open").is_ok()
    }

    fn void_pass(&self, pass: &str, now: Millis) {
        // Only one that is good is worth a place on the list.
        if self.keys().is_none() || self.admit_pass(pass, now, "console").is_err() {
            return;
        }
        let mut parts = pass.rsplitn(3, '.');
        let until = |part: Option<&str>| part.and_then(|until| until.parse().ok()).map(Millis);
        if let (Some(code), Some(until)) = (parts.next(), until(parts.next())) {
            self.void.add(code, until, now);
            self.changes.send_replace(());
        }
    }

    fn is_constant(&self) -> bool {
        false
    }

    fn changes(&self) -> Option<watch::Receiver<()>> {
        Some(self.changes.subscribe())
    }

    fn trouble(&self) -> Option<String> {
        read(&self.trouble).clone()
    }
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// The secret in `path`; a fresh one, where there is none or it is none.
pub(super) fn secret(path: &Path) -> io::Result<[u8; 32]> {
    match fs::read(path) {
        Ok(kept) if kept.len() == 32 => {
            let mut secret = [0; 32];
            secret.copy_from_slice(&kept);
            return Ok(secret);
        }
        Ok(_) => fs::remove_file(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&secret)?;
    file.sync_all()?;
    Ok(secret)
}

/// Keeps what passes were made with so far where the store is about to move: servers over a database make them with what
/// they have in common. It stays in the data directory: whoever reads it in a database could make a pass for anybody.
#[cfg_attr(
    not(any(feature = "postgres", test)),
    expect(dead_code, reason = "there is nowhere to go")
)]
pub(super) fn keep_secret(data: &Path) -> io::Result<()> {
    let (path, kept) = (data.join(FILE), data.join(BEFORE));
    if !path.exists() {
        return Ok(());
    }
    let part = kept.with_added_extension("part");
    // With its rights: it is its owner's alone.
    fs::copy(&path, &part)?;
    fs::rename(&part, &kept)
}

/// What passes were made with before a move, for as long as any of them may be good.
fn secret_before(data: &Path) -> Option<[u8; 32]> {
    let path = data.join(BEFORE);
    let kept = fs::read(&path).ok()?;
    let age = fs::metadata(&path).and_then(|about| about.modified()).ok()?.elapsed();
    if age.is_ok_and(|age| age > BEFORE_IS_OVER) {
        // Where it cannot be removed it is passed over all the same.
        drop(fs::remove_file(&path));
        return None;
    }
    kept.try_into().ok()
}

#[cfg(test)]
#[path = "auth_tests.rs"]
mod tests;
