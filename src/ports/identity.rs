//! Identity: which store this is. It has an epoch, drawn by chance, that is part of what people decide on:
//! a store that was put back from a backup, or made from an export, is another one.

use serde::{Deserialize, Serialize};

use crate::kernel::Millis;
use crate::ports::{Fault, Journal, Replicas};

/// Under which name a store keeps it.
pub const NAME: &str = "identity";
/// How often a change is tried anew because another came first.
const CHANGE_TRIES: usize = 8;

/// Which store this is.
#[expect(clippy::struct_excessive_bools, reason = "each is a word of its own in what is stored")]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    /// Drawn by chance; empty where none was drawn yet.
    pub epoch: String,
    /// Whether it is another than the one that its first runs began in.
    pub is_renewed: bool,
    /// Whether there may be runs that have not been told of it.
    pub is_renewing: bool,
    /// Whether nothing is done before an operator says so.
    pub is_held: bool,
    /// Whether it is being made from an export, or was when that was cut off: what is there is not all there was.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_importing: bool,
    /// Whether it is held because it was found to lack what it had acknowledged (J10).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_rewound: bool,
    /// Where it is held because another database with its history took writes: both of them, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub twins: Option<String>,
    /// When it became that, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renewed_at: Option<Millis>,
    /// When an operator who had looked last let it go on, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released_at: Option<Millis>,
    /// Which file it is being made from, by its checksum: with that one, and no other, it can be taken up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub importing: Option<String>,
    /// The move that brings it here, until that is over: then `is_importing` says so to whoever knows nothing of moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moving: Option<Moving>,
}

/// A move of a store on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moving {
    /// Which one: what it leaves where the store was has the same.
    pub token: String,
    /// Whether everything is there. Which of the two stores is in charge is then said where it was.
    #[serde(default)]
    pub is_whole: bool,
}

/// What is said of a store that a move has not come to its end in.
pub const HALF_MOVED: &str = "a move into this store did not come to its end; run `holdpoint store move --to` with its address \
     where the data directory is: it goes on, or begins anew. Until then the data directory is in charge";

/// What is said of a store whose import was cut off.
pub const HALF_IMPORTED: &str = "an import into this store did not come to its end, and part of it is missing; run `holdpoint import` \
     with the same file again, which goes on where it broke off, or delete what is there";

impl Identity {
    /// That of a new store.
    pub fn fresh(epoch: String) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// That of a store that was put back, or made from another.
    pub fn renewed(epoch: String) -> Self {
        let (is_renewed, is_renewing, is_held) = (true, true, true);
        Self { epoch, is_renewed, is_renewing, is_held, ..Self::default() }
    }

    /// The same, which became that now.
    #[must_use]
    pub fn at(self, now: Millis) -> Self {
        Self { renewed_at: Some(now), ..self }
    }

    /// Whether it became another after this: an epoch of before, with all that was so then, comes back with a backup of then.
    pub fn is_renewed_since(&self, then: Millis) -> bool {
        self.is_renewed && self.renewed_at.is_some_and(|at| at > then)
    }

    /// The same store after it was found to have gone back in time: another one, and held (J10).
    #[must_use]
    pub fn rewound(&self, epoch: String) -> Self {
        let is_importing = self.is_importing;
        Self { is_importing, is_rewound: true, ..Self::renewed(epoch) }
    }

    /// The same store after two databases with its history took writes: another one, and held as one that went back is, for
    /// each lacks what was decided at the other. None where it is held so already, and where it is being brought here and
    /// nobody serves it.
    #[must_use]
    pub fn doubled(&self, epoch: String, places: &str) -> Option<Self> {
        let is_so = (self.is_held && self.is_rewound) || self.is_importing;
        (!is_so).then(|| Self { twins: Some(places.to_owned()), ..self.rewound(epoch) })
    }

    /// That two databases with its history took writes, where it is held for that.
    pub fn why_doubled(&self) -> Option<String> {
        let places = self.twins.as_ref().filter(|_| self.is_held)?;
        Some(format!("two databases with one history took writes: {places}"))
    }

    /// The same once an operator has looked, as of now.
    #[must_use]
    pub fn released(&self, now: Millis) -> Self {
        let released_at = Some(now);
        Self { is_held: false, is_rewound: false, twins: None, released_at, ..self.clone() }
    }

    /// The same while a move brings it elsewhere.
    #[must_use]
    pub fn moving(&self, token: &str, is_whole: bool) -> Self {
        let moving = Some(Moving { token: token.to_owned(), is_whole });
        Self { is_importing: true, moving, ..self.clone() }
    }

    /// The same once that is over.
    #[must_use]
    pub fn moved(&self) -> Self {
        Self { is_importing: false, moving: None, ..self.clone() }
    }

    /// From what a store keeps of it.
    pub fn read(text: &str) -> Result<Self, Fault> {
        serde_json::from_str(text)
            .map_err(|error| Fault::Corrupt(format!("the store's identity: {error}")))
    }

    /// What a store keeps of it.
    pub fn text(&self) -> Result<String, Fault> {
        serde_json::to_string(self)
            .map_err(|error| Fault::Permanent(format!("the store's identity: {error}")))
    }

    /// Refuses a store whose import was cut off: half of what people were asked and said would stand for all of it.
    pub fn refuse_half(&self) -> Result<(), Fault> {
        match (&self.moving, self.is_importing) {
            (Some(_), _) => Err(Fault::Permanent(HALF_MOVED.into())),
            (None, true) => Err(Fault::Permanent(HALF_IMPORTED.into())),
            (None, false) => Ok(()),
        }
    }

    /// What a store says it is.
    pub async fn of(journal: &dyn Journal) -> Result<Option<Self>, Fault> {
        let Some(text) = journal.remembered(NAME).await? else { return Ok(None) };
        Self::read(&text).map(Some)
    }

    /// Has a store that several write to keep it, if none was kept yet; whether it did.
    pub async fn keep_first(&self, replicas: &dyn Replicas) -> Result<bool, Fault> {
        replicas.remember_if(NAME, None, &self.text()?).await
    }

    /// Changes what a store that several write to says it is: `change` of what it says now, which is none where
    /// nothing is to be changed. What it says then.
    pub async fn change(
        (journal, replicas): (&dyn Journal, &dyn Replicas),
        change: impl Fn(&Self) -> Option<Self> + Send + Sync,
    ) -> Result<Self, Fault> {
        let bad = |error| Fault::Corrupt(format!("the store's identity: {error}"));
        for _ in 0..CHANGE_TRIES {
            let text = journal.remembered(NAME).await?;
            let known: Self = text
                .as_deref()
                .map(serde_json::from_str)
                .transpose()
                .map_err(bad)?
                .unwrap_or_default();
            let Some(next) = change(&known) else { return Ok(known) };
            let said = serde_json::to_string(&next).map_err(bad)?;
            if replicas.remember_if(NAME, text.as_deref(), &said).await? {
                return Ok(next);
            }
        }
        Err(Fault::Retriable("others change what the store says it is; try again".into()))
    }

    /// Has a store keep it, durable when this returns.
    pub async fn keep(&self, journal: &dyn Journal) -> Result<(), Fault> {
        journal.remember(NAME, &self.text()?).await
    }
}
