//! Receipt: what whoever decided is given to show afterwards: the leaf of their decision at once, and its proof
//! as soon as a signed head holds it (J13). Nothing waits for it.

use crate::engine::{Begun, Engine, EngineError};
use crate::kernel::evidence::Hash;
use crate::kernel::evidence::handover::Handover;
use crate::kernel::evidence::leaf::{Leaf, Place, Pruned};
use crate::kernel::evidence::tree::leaf_hash;
use crate::kernel::{Principal, Refusal, RunId, Version};
use crate::ports::LastHead;

/// What a decision can be proven by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The run.
    pub run: RunId,
    /// The version of the first event of the append that has the decision.
    pub sequence: Version,
    /// The leaf: what is hashed.
    pub leaf: String,
    /// Its hash.
    pub hash: Hash,
    /// Its place in the log; none as long as it has none.
    pub index: Option<u64>,
    /// The hashes that lead from it to the root of the head.
    pub proof: Vec<Hash>,
    /// The signed head that holds it; none as long as there is none.
    pub head: Option<String>,
    /// The key that the head is signed with.
    pub key: Option<String>,
    /// The keys that have signed before it, and their word on which came next.
    pub keys: Vec<Handover>,
}

impl Receipt {
    fn of(leaf: &Leaf, run: RunId, sequence: Version, index: Option<u64>) -> Self {
        let leaf = leaf.text();
        let hash = leaf_hash(leaf.as_bytes());
        let (proof, keys) = (Vec::new(), Vec::new());
        Self { run, sequence, leaf, hash, index, proof, head: None, key: None, keys }
    }
}

impl Engine {
    /// The receipt of what was decided by an answer, where it decided something. What was decided just now is known
    /// by its append; an answer that is sent again is looked up. Its proof comes later.
    pub async fn receipt_now(&self, begun: &Begun) -> Option<Receipt> {
        if let Some(leaf) = &begun.decided {
            return Some(Receipt::of(leaf, begun.run.clone(), begun.after + 1, None));
        }
        let found = self.receipt_after(&begun.run, begun.after).await;
        found.unwrap_or_else(|error| {
            // The answer is taken; whoever gave it can ask for the receipt.
            tracing::warn!(run.id = %begun.run, %error, "a receipt could not be read");
            None
        })
    }

    /// The same of what was decided right after a place of a run's journal, whenever that was: it says the same
    /// each time. For doors that show the run, or somebody's own word.
    pub async fn receipt_after(
        &self,
        run: &RunId,
        after: Version,
    ) -> Result<Option<Receipt>, EngineError> {
        let first = after + 1;
        let place = Place::Entry(run.clone(), first);
        let lain = self.inner.journal.evidence().leaf(&place).await?;
        let leaf = lain.map(|lain| lain.leaf).filter(Leaf::decides);
        Ok(leaf.map(|leaf| Receipt::of(&leaf, run.clone(), first, None)))
    }

    /// The receipt of what lies at a place of a run's journal. For whoever may see the run, and for whoever
    /// names the leaf: they had it with the decision, and nobody else can.
    pub async fn receipt(
        &self,
        run: &str,
        sequence: Version,
        named: &str,
        who: &Principal,
    ) -> Result<Receipt, EngineError> {
        let unknown = || EngineError::from(Refusal::UnknownRun(run.to_owned()));
        let id = RunId::parse(run).map_err(|_| unknown())?;
        let sees = match self.head(run, who).await {
            Ok(_) => true,
            // What somebody said is theirs to prove, though the run is not theirs to see.
            Err(EngineError::Refused(_)) => {
                self.own_word(&id, sequence.saturating_sub(1), who).await?.is_some()
            }
            Err(error) => return Err(error),
        };
        let evidence = self.inner.journal.evidence();
        let first = evidence.first_of(&id, sequence).await?;
        let lain = match first {
            Some(first) => evidence.leaf(&Place::Entry(id.clone(), first)).await?,
            None => None,
        };
        let found =
            first.zip(lain).map(|(first, lain)| Receipt::of(&lain.leaf, id, first, lain.index));
        let Some(mut receipt) = found.filter(|found| sees || found.hash.to_string() == named)
        else {
            if !sees {
                let pruned = self.pruned(run, who).await?;
                return Err(pruned.map_or_else(unknown, EngineError::from));
            }
            let remedy =
                "nothing was decided there: expected the sequence of an answer, a vote or an end";
            return Err(Refusal::invalid("sequence", remedy).into());
        };
        let Some(last) = LastHead::of(&*self.inner.journal).await? else { return Ok(receipt) };
        let size = last.head().map_or(0, |signed| signed.head.size);
        if let Some(index) = receipt.index
            && let Some(proof) = evidence.inclusion(index, size).await?
        {
            (receipt.proof, receipt.head, receipt.key) = (proof, Some(last.note), Some(last.key));
            receipt.keys = LastHead::handed(&*self.inner.journal).await?;
        }
        Ok(receipt)
    }

    /// That a run was forgotten, and where its tombstone lies, for whoever is shown what belongs to no run.
    async fn pruned(&self, run: &str, who: &Principal) -> Result<Option<Refusal>, EngineError> {
        let Some(id) = RunId::parse(run).ok().filter(|_| who.sees_store()) else {
            return Ok(None);
        };
        let tombstone = self.inner.journal.evidence().leaf(&Place::Tombstone(id.clone())).await?;
        Ok(tombstone.map(|lain| Refusal::PrunedRun(Pruned { run: id, leaf: lain.index })))
    }
}
