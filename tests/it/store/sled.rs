//! sled behind the store's back, for tests that spoil what lies there or look at how it does.

use std::path::{Path, PathBuf};

use holdpoint::kernel::RunId;
use holdpoint::store::{keys, packing, value_beside};

/// sled itself, behind the store's back. It tells records as they were before they were packed or laid beside it.
pub(crate) struct Raw(sled::Db, PathBuf);

pub(crate) fn raw(dir: &Path) -> Raw {
    let config = sled::Config::new().path(dir.join("store"));
    loop {
        match config.open() {
            Err(sled::Error::Io(_)) => std::thread::yield_now(),
            opened => return Raw(opened.unwrap(), dir.to_path_buf()),
        }
    }
}

impl Raw {
    pub(crate) fn get(&self, key: impl AsRef<[u8]>) -> sled::Result<Option<Vec<u8>>> {
        Ok(self.0.get(&key)?.map(|value| self.whole(key.as_ref(), &value)))
    }

    pub(crate) fn scan_prefix(
        &self,
        prefix: impl AsRef<[u8]>,
    ) -> impl DoubleEndedIterator<Item = sled::Result<(sled::IVec, Vec<u8>)>> {
        self.0.scan_prefix(prefix).map(move |row| {
            let (key, value) = row?;
            let value = self.whole(&key, &value);
            Ok((key, value))
        })
    }

    pub(crate) fn insert(
        &self,
        key: impl AsRef<[u8]>,
        value: impl Into<sled::IVec>,
    ) -> sled::Result<Option<sled::IVec>> {
        self.0.insert(key, value)
    }

    pub(crate) fn remove(&self, key: impl AsRef<[u8]>) -> sled::Result<Option<sled::IVec>> {
        self.0.remove(key)
    }

    /// How many records lie packed in it.
    pub(crate) fn packed(&self) -> usize {
        let rows = self.0.iter().map(Result::unwrap);
        rows.filter(|(key, value)| packing::is_packed(value) && !keys::is_chunk(key)).count()
    }

    /// How many values lie beside it.
    pub(crate) fn beside(&self) -> usize {
        let rows = self.0.iter().map(Result::unwrap);
        rows.filter(|(key, value)| value_beside(&self.1, key, value).unwrap().is_some()).count()
    }

    fn whole(&self, key: &[u8], lies: &[u8]) -> Vec<u8> {
        let is_packed = packing::is_packed(lies) && !keys::is_chunk(key);
        let beside = || value_beside(&self.1, key, lies).unwrap();
        if is_packed { packing::unpack(lies).unwrap() } else { beside().unwrap_or(lies.to_vec()) }
    }

    pub(crate) fn flush(&self) -> sled::Result<usize> {
        self.0.flush()
    }
}

/// Flips a bit in the first record under a prefix, and says whose it was.
pub(crate) fn flip(dir: &Path, prefix: u8) -> RunId {
    let db = raw(dir);
    let (key, value) = db.scan_prefix([prefix]).next().unwrap().unwrap();
    let mut value = value.clone();
    *value.last_mut().unwrap() ^= 1;
    db.insert(&key, value).unwrap();
    db.flush().unwrap();
    keys::unpack(&key[1..=keys::RUN_BYTES]).unwrap()
}
