//! Door: who is let in. Without keys everybody is the owner of the machine; with keys nobody is
//! anybody without one.
//!
//! A browser keeps a pass in place of a key: `name.until.code`, where the code binds the name, the
//! time and the key's hash to a secret of this data directory. It opens nothing after its time, nor
//! once the key is gone or another, and a stolen keys file makes none.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::api::Doorkeeper;
use crate::app::keys::{Key, Keys};
use crate::kernel::{Millis, Principal, Refusal};

/// The secret that passes are made with, in the data directory. Without it everybody signs in again.
const FILE: &str = "console.key";

/// Lets everybody in as `local`: the server listens on loopback, or is embedded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open;

impl Doorkeeper for Open {
    fn admit(&self, _bearer: Option<&str>, door: &'static str) -> Result<Principal, Refusal> {
        Ok(Principal::local(door))
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
        door: &'static str,
    ) -> Result<Principal, Refusal> {
        Ok(Principal::local(door))
    }
}

/// Lets in the command that this process runs, whatever it says of itself: it is the terminal's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Embedded;

impl Doorkeeper for Embedded {
    fn admit(&self, _bearer: Option<&str>, _door: &'static str) -> Result<Principal, Refusal> {
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

/// Lets in whoever shows a key, or a pass that stands for one.
pub(super) struct Keyed {
    keys: Keys,
    secret: [u8; 32],
}

impl std::fmt::Debug for Keyed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyed").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Keyed {
    /// Asks for `keys`; the secret of its passes is kept in `data`.
    pub(super) fn open(keys: Keys, data: &Path) -> io::Result<Self> {
        Ok(Self { keys, secret: secret(&data.join(FILE))? })
    }

    fn code(&self, key: &Key, until: Millis) -> Option<Hmac<Sha256>> {
        let mut code = Hmac::<Sha256>::new_from_slice(&self.secret).ok()?;
        code.update(format!("{}.{}.{}", key.name, until.0, key.sha256).as_bytes());
        Some(code)
    }
}

impl Doorkeeper for Keyed {
    fn admit(&self, bearer: Option<&str>, door: &'static str) -> Result<Principal, Refusal> {
        let known = bearer.and_then(|secret| self.keys.principal(secret));
        let (name, role) = known.ok_or(Refusal::Unauthenticated)?;
        Ok(Principal::new(name, role, door))
    }

    fn wants_key(&self) -> bool {
        true
    }

    fn pass(&self, bearer: &str, until: Millis) -> Result<String, Refusal> {
        let (name, _) = self.keys.principal(bearer).ok_or(Refusal::Unauthenticated)?;
        let key = self.keys.list().iter().find(|key| key.name == name);
        let code = key.and_then(|key| self.code(key, until)).ok_or(Refusal::Unauthenticated)?;
        Ok(format!("{name}.{}.{}", until.0, hex(&code.finalize().into_bytes())))
    }

    fn admit_pass(
        &self,
        pass: &str,
        now: Millis,
        door: &'static str,
    ) -> Result<Principal, Refusal> {
        let admitted = || {
            // Names may have dots in them; what follows has none.
            let mut parts = pass.rsplitn(3, '.');
            let (code, until, name) = (parts.next()?, parts.next()?, parts.next()?);
            let until = Millis(until.parse().ok()?);
            let key = self.keys.list().iter().find(|key| key.name == name)?;
            self.code(key, until)?.verify_slice(&unhex(code)?).ok()?;
            let principal = Principal::new(name, key.role, door);
            (now < until).then_some(principal)
        };
        admitted().ok_or(Refusal::Unauthenticated)
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
fn secret(path: &Path) -> io::Result<[u8; 32]> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Role;

    #[test]
    fn a_pass_stands_for_its_key_for_its_time_and_for_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        let ada = Keys::add(&path, "ada.l@x.org", Role::User, "").unwrap();
        let bob = Keys::add(&path, "bob", Role::Admin, "").unwrap();
        let door = Keyed::open(Keys::load(&path).unwrap(), folder.path()).unwrap();
        let pass = door.pass(&ada, Millis(1_000)).unwrap();
        assert!(!pass.contains(&ada), "the key is not in it");
        let who = door.admit_pass(&pass, Millis(999), "console").unwrap();
        assert_eq!((who.id.as_str(), who.role), ("ada.l@x.org", Role::User));
        assert!(door.admit_pass(&pass, Millis(1_000), "console").is_err(), "its time is over");
        for forged in [
            pass.replace(".1000.", ".2000."),
            pass.replace("ada.l@x.org", "bob"),
            "bob.2000.".into(),
            "bob.2000.zz".into(),
            String::new(),
            format!("bob.2000.{}", "0".repeat(64)),
        ] {
            assert!(door.admit_pass(&forged, Millis(1), "console").is_err(), "{forged}");
        }
        assert!(door.pass("hp_nothing", Millis(1_000)).is_err());

        // After a restart it is still good, unless the key of that name is another by then.
        let again = || Keyed::open(Keys::load(&path).unwrap(), folder.path()).unwrap();
        assert!(again().admit_pass(&pass, Millis(1), "console").is_ok());
        Keys::remove(&path, "ada.l@x.org").unwrap();
        assert!(again().admit_pass(&pass, Millis(1), "console").is_err());
        Keys::add(&path, "ada.l@x.org", Role::User, "").unwrap();
        assert!(again().admit_pass(&pass, Millis(1), "console").is_err());
        assert!(again().pass(&bob, Millis(5)).is_ok());
    }
}
