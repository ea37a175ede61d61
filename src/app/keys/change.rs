//! Change: keys are made and removed, in one step each, by whoever can write their file.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::app::keys::key::check_name;
use crate::app::keys::{
    KEYS_MAX, Key, KeyKind, Keys, KeysError, PREFIX, RESERVED, RETIRED_MAX, Retired, WORKFLOWS_MAX,
    hash,
};
use crate::app::reread;
use crate::kernel::{Role, Roles};

/// A key that is to be made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// What it is called.
    pub name: String,
    /// Whose it is; its name's, if absent.
    pub person: Option<String>,
    /// Whose hand it is in.
    pub kind: KeyKind,
    /// What it is good for.
    pub roles: Roles,
    /// The workflows that it is confined to; all of them, if empty.
    pub workflows: Vec<String>,
    /// When it is good no more, as RFC 3339.
    pub expires: Option<String>,
    /// Whether it is known that there was somebody of that name, and that this is the same.
    pub again: bool,
}

impl NewKey {
    /// A personal key of that name, which is its person's.
    pub fn of(name: &str, roles: impl Into<Roles>) -> Self {
        Self {
            name: name.into(),
            person: None,
            kind: KeyKind::Person,
            roles: roles.into(),
            workflows: Vec::new(),
            expires: None,
            again: false,
        }
    }

    fn identity(&self) -> &str {
        self.person.as_deref().unwrap_or(&self.name)
    }

    /// Draws its secret, if it can be a key at all.
    pub(in crate::app) fn draw(&self) -> Result<String, KeysError> {
        self.check()?;
        draw()
    }

    /// Refuses what no key can be, whatever others there are.
    fn check(&self) -> Result<(), KeysError> {
        for (field, name) in [("name", self.name.as_str()), ("person", self.identity())] {
            check_name(field, name)?;
            if RESERVED.iter().any(|known| name.eq_ignore_ascii_case(known)) {
                return Err(KeysError::Reserved(field));
            }
        }
        if self.kind == KeyKind::Service && self.person.is_some() {
            return Err(KeysError::ServiceOfPerson);
        }
        if self.roles.is_empty() {
            let known = Role::ALL.map(Role::word).join(", ");
            return Err(KeysError::BadTerms(format!("role: expected one of {known}")));
        }
        if self.workflows.len() > WORKFLOWS_MAX || self.workflows.iter().any(String::is_empty) {
            let why = format!("workflow: expected at most {WORKFLOWS_MAX} names of workflows");
            return Err(KeysError::BadTerms(why));
        }
        Ok(())
    }

    /// Refuses a name that is somebody else's, or that nobody could tell from another.
    fn refuse_confusion(&self, keys: &[Key], settings: &BTreeSet<String>) -> Result<(), KeysError> {
        if self.kind == KeyKind::Service && settings.contains(&self.name) {
            return Err(KeysError::ServiceNamed(self.name.clone()));
        }
        let own = [("name", self.name.as_str()), ("person", self.identity())];
        for (field, given) in own {
            let alike = |known: &str| known != given && known.eq_ignore_ascii_case(given);
            let names = keys.iter().flat_map(|key| [key.name.as_str(), key.identity()]);
            if let Some(known) =
                names.chain(settings.iter().map(String::as_str)).find(|known| alike(known))
            {
                let (given, known) = (given.to_owned(), known.to_owned());
                return Err(KeysError::LooksLike { field, given, known });
            }
            for key in keys.iter().filter(|key| key.name == given || key.identity() == given) {
                if key.identity() != self.identity() || key.kind != self.kind {
                    let whose = match key.kind {
                        KeyKind::Person => format!("`{}`", key.identity()),
                        KeyKind::Service => format!("the service `{}`", key.name),
                    };
                    return Err(KeysError::Belongs { field, given: given.to_owned(), whose });
                }
            }
        }
        Ok(())
    }
}

impl Keys {
    /// Makes a personal key that is its person's own, and returns the secret, which is kept nowhere.
    pub fn add(
        path: &Path,
        name: &str,
        roles: impl Into<Roles>,
        created: &str,
    ) -> Result<String, KeysError> {
        Self::make(path, &NewKey::of(name, roles), &BTreeSet::new(), created)
    }

    /// Makes a key, keeps its hash in `path`, and returns the secret, which is kept nowhere.
    /// `settings` are the people whom the operator names.
    pub fn make(
        path: &Path,
        new: &NewKey,
        settings: &BTreeSet<String>,
        created: &str,
    ) -> Result<String, KeysError> {
        let secret = new.draw()?;
        change(path, |keys| keys.put(new, settings, (&secret, created)))?;
        Ok(secret)
    }

    /// Removes the key of that name; whose it was is remembered.
    pub fn remove(path: &Path, name: &str, removed: &str) -> Result<(), KeysError> {
        change(path, |keys| keys.take_out(name, removed))
    }

    /// Puts a key that was drawn among the others.
    pub(in crate::app) fn put(
        &mut self,
        new: &NewKey,
        settings: &BTreeSet<String>,
        (secret, created): (&str, &str),
    ) -> Result<(), KeysError> {
        let Keys { keys, retired } = self;
        if keys.iter().any(|key| key.name == new.name) {
            return Err(KeysError::Taken(new.name.clone()));
        }
        new.refuse_confusion(keys, settings)?;
        if keys.len() >= KEYS_MAX {
            return Err(KeysError::Full);
        }
        let identity = new.identity();
        let was_theirs = |known: &&Retired| known.person.eq_ignore_ascii_case(identity);
        let is_here = keys.iter().any(|key| key.identity() == identity);
        if let Some(known) = retired.iter().rev().find(was_theirs)
            && !is_here
            && !(new.again && known.person == identity)
        {
            let (person, removed) = (known.person.clone(), known.removed.clone());
            return Err(KeysError::Retired { person, removed });
        }
        // By a clock that is behind it would be older than what was said with the one before it.
        let gone = retired.iter().filter(|known| known.person == identity);
        let created =
            gone.fold(created.to_owned(), |created, known| later(created, &known.removed));
        let created = between_seconds(created);
        retired.retain(|known| known.person != identity);
        keys.push(Key {
            name: new.name.clone(),
            person: new.person.clone().filter(|person| *person != new.name),
            kind: new.kind,
            roles: new.roles,
            workflows: new.workflows.clone(),
            expires: new.expires.clone(),
            sha256: hash(secret),
            created,
        });
        Ok(())
    }

    /// Takes the key of that name out; whose it was is remembered.
    pub(in crate::app) fn take_out(&mut self, name: &str, removed: &str) -> Result<(), KeysError> {
        let Keys { keys, retired } = self;
        let Some(index) = keys.iter().position(|key| key.name == name) else {
            return Err(KeysError::Unknown(name.into()));
        };
        let person = keys.remove(index).identity().to_owned();
        retired.retain(|known| known.name != name || known.person != person);
        if retired.len() >= RETIRED_MAX {
            retired.remove(0);
        }
        retired.push(Retired { name: name.into(), person, removed: removed.into() });
        Ok(())
    }
}

/// A time that is no whole second: those are taken for times of keys that were made to the nearest one, and for as much
/// older, so that what was said with the key before would count (`people::say`).
fn between_seconds(time: String) -> String {
    let at = time.parse::<jiff::Timestamp>().ok().filter(|at| at.as_millisecond() % 1_000 == 0);
    let next = at.and_then(|at| jiff::Timestamp::from_millisecond(at.as_millisecond() + 1).ok());
    next.map_or(time, |next| format!("{next:.3}"))
}

/// A time, or the moment after another that it must not be before.
fn later(time: String, before: &str) -> String {
    let read = |text: &str| text.parse::<jiff::Timestamp>().ok();
    let (Some(is), Some(before)) = (read(&time), read(before)) else { return time };
    if is > before {
        return time;
    }
    let after = before.checked_add(jiff::Span::new().milliseconds(1));
    after.map_or(time, |after| format!("{after:.3}"))
}

/// 32 bytes straight from the system: ids of the uuid family carry fixed and timed bits, and a
/// secret should have none.
fn draw() -> Result<String, KeysError> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| KeysError::NoChance(error.to_string()))?;
    Ok(format!("{PREFIX}{}", base64url(&bytes)))
}

/// Base64 with the URL alphabet and no padding: 43 characters for 32 bytes.
pub(super) fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(bytes.len() * 4 / 3 + 1);
    for group in bytes.chunks(3) {
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..=group.len() {
            let index = (bits >> (18 - 6 * digit)) & 63;
            text.push(char::from(ALPHABET[usize::try_from(index).unwrap_or(0)]));
        }
    }
    text
}

/// Reads, changes and replaces the file in one step; two changes at once wait for one another.
fn change(
    path: &Path,
    edit: impl FnOnce(&mut Keys) -> Result<(), KeysError>,
) -> Result<(), KeysError> {
    let failed = |source| KeysError::Io { deed: "write", path: path.into(), source };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    // What is no file of keys may be somebody else's: nothing is put beside it.
    if reread::lies(path) {
        Keys::load(path)?;
    }
    fs::create_dir_all(folder).map_err(failed)?;
    let _lock = lock(path).map_err(failed)?;
    // The directory may have been moved while this waited: what is written here now counts for nobody.
    #[cfg(feature = "postgres")]
    if let Some(place) = crate::store::moving::is_moved(folder) {
        let why = format!(
            "its store has moved to the database at {place} meanwhile: name that with --store"
        );
        return Err(failed(io::Error::other(why)));
    }
    let mut keys = if reread::lies(path) { Keys::load(path)? } else { Keys::default() };
    edit(&mut keys)?;
    let text = keys.text(path)?;
    let fresh = beside(path, "new");
    replace(path, &fresh, folder, &text).map_err(failed)
}

/// Keeps everybody else from changing the keys, for as long as it is had.
pub(in crate::app) fn lock(path: &Path) -> io::Result<File> {
    let lock = private().create(true).truncate(false).open(beside(path, "lock"))?;
    lock.lock()?;
    Ok(lock)
}

fn replace(path: &Path, fresh: &Path, folder: &Path, text: &str) -> io::Result<()> {
    // A leftover of a crash may have other permissions than the ones a new file gets.
    match fs::remove_file(fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = private().create_new(true).open(fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(fresh, path)?;
    File::open(folder)?.sync_all()
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".");
    name.push(suffix);
    path.with_file_name(name)
}
