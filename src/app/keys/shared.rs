//! Shared: keys in the store that several servers share: the same hashes in the same form as in a file, under one name.
//! Whoever changes them compares first, so that of two changes at once none is lost.

use std::path::Path;

use crate::app::keys::{Keys, KeysError};
use crate::ports::{Fault, Guard, Journal};

/// Under which name a store keeps them.
const NAME: &str = "keys";
/// How often a change is made anew because another came first.
const TRIES: u32 = 16;
/// What stands in messages where a file's path would.
const PLACE: &str = "the database";

/// Why keys in a store could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum SharedKeysError {
    /// They are not as they should be, or the change is refused.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The store does not work.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// What a store keeps of keys, as it is written there.
pub(in crate::app) async fn written(journal: &dyn Journal) -> Result<Option<String>, Fault> {
    journal.remembered(NAME).await
}

/// The keys that are written so.
pub(in crate::app) fn read(text: &str) -> Result<Keys, KeysError> {
    Keys::read(text, Path::new(PLACE))
}

/// That the keys are still those that were written so.
pub(in crate::app) fn guard(text: Option<&str>) -> Guard {
    Guard::kept(NAME, text)
}

/// The keys that a store keeps; none if nobody has made any.
pub(in crate::app) async fn kept(journal: &dyn Journal) -> Result<Option<Keys>, SharedKeysError> {
    let text = written(journal).await?;
    Ok(text.map(|text| read(&text)).transpose()?)
}

/// How these are kept in a store: under which name, in which words.
#[cfg(feature = "postgres")]
pub(in crate::app) fn record(keys: &Keys) -> Result<(&'static str, String), KeysError> {
    Ok((NAME, keys.text(Path::new(PLACE))?))
}

/// Has a store keep these, if it keeps none yet; whether it did.
pub(in crate::app) async fn bring(
    journal: &dyn Journal,
    keys: &Keys,
) -> Result<bool, SharedKeysError> {
    let replicas = journal.replicas().ok_or_else(alone)?;
    Ok(replicas.remember_if(NAME, None, &keys.text(Path::new(PLACE))?).await?)
}

/// Reads, changes and keeps them in one step.
pub(in crate::app) async fn change(
    journal: &dyn Journal,
    edit: impl Fn(&mut Keys) -> Result<(), KeysError> + Send + Sync,
) -> Result<(), SharedKeysError> {
    let replicas = journal.replicas().ok_or_else(alone)?;
    for _ in 0..TRIES {
        let knew = written(journal).await?;
        let mut keys = match &knew {
            Some(text) => read(text)?,
            None => Keys::default(),
        };
        edit(&mut keys)?;
        let text = keys.text(Path::new(PLACE))?;
        if replicas.remember_if(NAME, knew.as_deref(), &text).await? {
            return Ok(());
        }
    }
    Err(Fault::Retriable("the keys are changed by others all the time; try again".into()).into())
}

fn alone() -> Fault {
    Fault::Permanent("a store that one process has alone keeps its keys in a file".into())
}
