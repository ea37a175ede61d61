//! Beside: a data directory whose server has its store in a database. What is the machine's own lies there still, and so
//! does the file that says where the server can be talked to, and which database has the store: a command that is led to
//! the directory is led on, and nobody takes it for one that is free.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The file, as one that holds its store itself has it, too.
const FILE: &str = "server.json";

#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    pid: u32,
    address: String,
    /// What one that has the store itself does not say.
    store: String,
}

/// The database that a directory lies beside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside {
    /// Where that is, without a password.
    pub place: String,
    /// Where the server can be talked to; none where it has ended.
    pub server: Option<String>,
}

/// Says for as long as it lives that the server does. What was said stays: the directory has no store of its own afterwards
/// either.
#[derive(Debug)]
pub struct Announced {
    /// Held, not read: the lock goes with it.
    _file: File,
}

/// Tells other processes where the server of this directory can be talked to, and where its store is; none where another
/// server that lives has said so already. What is said is that one's: in its place it would end with this one, and nobody
/// would find the first any more.
pub fn announce(dir: &Path, address: &str, place: &str) -> io::Result<Option<Announced>> {
    if said(dir).is_some_and(|beside| beside.server.is_some()) {
        return Ok(None);
    }
    let pid = std::process::id();
    let fresh = dir.join(format!("{FILE}.{pid}"));
    let holder = Holder { pid, address: address.to_owned(), store: place.to_owned() };
    let mut file = File::create(&fresh)?;
    // Before it has its name: whoever finds it finds it held.
    file.lock()?;
    file.write_all(&serde_json::to_vec(&holder)?)?;
    file.write_all(b"\n")?;
    fs::rename(&fresh, dir.join(FILE))?;
    Ok(Some(Announced { _file: file }))
}

/// Which database a directory says that it lies beside, if it does.
pub(super) fn said(dir: &Path) -> Option<Beside> {
    let path = dir.join(FILE);
    let holder: Holder = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
    let is_alive = File::open(&path)
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)));
    Some(Beside { place: holder.store, server: is_alive.then_some(holder.address) })
}

/// Where a server over that directory, or beside it, has said that it can be talked to; whether one that has the store there
/// still lives is found out by asking.
pub fn server_of(dir: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Server {
        address: String,
    }
    if let Some(beside) = said(dir) {
        return beside.server;
    }
    let server: Server = serde_json::from_slice(&fs::read(dir.join(FILE)).ok()?).ok()?;
    Some(server.address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{OpenError, StoreConfig, open};

    #[tokio::test]
    async fn a_directory_beside_a_database_is_never_opened_as_a_fresh_store() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let announced = announce(dir, "127.0.0.1:4653", "one:5432/db").unwrap();
        let refused = open(&StoreConfig::new(dir)).await.unwrap_err();
        assert_eq!(refused.server(), Some("127.0.0.1:4653"), "{refused}");
        let told = refused.to_string();
        assert!(told.contains("one:5432/db") && told.contains("127.0.0.1:4653"), "{told}");
        // Whoever serves it has ended: where the store is has not changed by that.
        drop(announced);
        let refused = open(&StoreConfig::new(dir)).await.unwrap_err();
        assert!(matches!(&refused, OpenError::Beside { server: None, .. }), "{refused:?}");
        let told = refused.to_string();
        assert!(told.contains("one:5432/db") && told.contains("HOLDPOINT_STORE"), "{told}");
        assert!(!dir.join("format").exists(), "nothing was begun there");
    }

    #[test]
    fn a_second_server_beside_one_directory_leaves_what_the_first_has_said() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let found = || said(dir).and_then(|beside| beside.server);
        let first = announce(dir, "127.0.0.1:4653", "one:5432/db").unwrap();
        let second = announce(dir, "127.0.0.1:4654", "one:5432/db").unwrap();
        assert!(first.is_some() && second.is_none());
        assert_eq!(found().as_deref(), Some("127.0.0.1:4653"));
        drop(second);
        assert_eq!(found().as_deref(), Some("127.0.0.1:4653"), "the first is still found");
        drop(first);
        assert_eq!(found(), None);
        let second = announce(dir, "127.0.0.1:4654", "one:5432/db").unwrap();
        assert!(second.is_some());
        assert_eq!(found().as_deref(), Some("127.0.0.1:4654"), "it is free to be said");
    }

    #[tokio::test]
    async fn a_store_of_ones_own_is_opened_again_once_the_server_beside_it_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        open(&StoreConfig::new(dir)).await.unwrap().journal().close().await;
        let announced = announce(dir, "127.0.0.1:4653", "one:5432/db").unwrap();
        let refused = open(&StoreConfig::new(dir)).await.unwrap_err();
        assert!(matches!(refused, OpenError::Beside { server: Some(_), .. }), "{refused:?}");
        drop(announced);
        assert_eq!(crate::store::beside(dir), None);
        open(&StoreConfig::new(dir)).await.unwrap().journal().close().await;
    }
}
