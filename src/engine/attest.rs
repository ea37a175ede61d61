//! Attest: gives leaves their places in the store-wide log and has its heads signed, after what they speak of is
//! durable and never in its way (J13). A signer that hangs, dies or signs rubbish delays proofs, loudly; nothing
//! that is not signed is called so.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::engine::attest_trouble::{AttestTrouble, not_beside};
use crate::engine::signing::Signing;
use crate::engine::{Engine, EngineError};
use crate::kernel::evidence::handover::Handover;
use crate::kernel::evidence::note::{self, SignedHead, VerifyKey};
use crate::kernel::evidence::tree::TreeHead;
use crate::ports::evidence::{Signer, Signs};
use crate::ports::{Fault, LastHead, Note};

/// Leaves that get their places in one step: some hundred KiB of the write-ahead log.
const SEQUENCED_AT_ONCE: usize = 1_000;
/// How often leaves get their places.
const PAUSE_MS: u64 = 1_000;
/// The same where many come: those that wait for a short time never reach the tree on disk as leaves that wait. Nobody
/// sees how long that is: a receipt goes with its answer, and its proof waits for a signed head, for seconds.
const PAUSE_BUSY_MS: u64 = 250;
/// Leaves at once that are many.
const BUSY: u64 = 64;
/// How long a server that stops waits for its last head: supervisors kill whoever takes long.
const LAST_MS: u64 = 3_000;
/// Leaves that a log has by the time of its first head: more of them were there before its key.
const FEW: u64 = 100;
/// Leaves after which a head is signed though its time has not come: a proof is never far behind.
const LEAVES_MAX: u64 = 10_000;

/// Whose a head is to sign.
enum Whose {
    /// This process's.
    Ours,
    /// Nobody's: who shares the store has signed as much.
    Signed,
    /// That of a process with another key.
    AnotherKeys,
}

/// What is known of the log and its heads.
#[derive(Debug, Default)]
pub(super) struct Attesting {
    pub(super) signer: OnceLock<(Arc<dyn Signer>, String, VerifyKey)>,
    /// How many leaves the last signed head holds.
    signed: AtomicU64,
    /// How many the log has.
    size: AtomicU64,
    /// What is wrong with the signing of heads.
    pub(super) trouble: Mutex<Option<AttestTrouble>>,
    /// One at a time.
    pub(super) writing: tokio::sync::Mutex<()>,
}

impl Engine {
    /// Has heads signed by `signer` from now on; the first one stays. Says with which key they can be checked.
    /// Where another key signed before, `before` has that one say so, if it can: else the chain of keys is broken there.
    pub async fn attest_with(
        &self,
        signer: Arc<dyn Signer>,
        before: Option<Arc<dyn Signs>>,
    ) -> Result<Signing, EngineError> {
        let journal = &self.inner.journal;
        let origin = self.origin().await?;
        let key = signer.key(&origin);
        let last = LastHead::of(&**journal).await?;
        let text = key.text();
        // A key that has signed more than the log holds hands on to none: the next would sign what was put in its place.
        if before.is_some()
            && let Err(fault) =
                self.goes_on((&*signer, &origin), journal.evidence().tree().await?).await
        {
            tracing::error!(%fault, "the key is not changed, and heads of the log are not signed");
            self.leave_unsigned(&fault.to_string());
            self.hold_if_put_back((&*signer, &origin)).await?;
            return Ok(Signing::Ours(key));
        }
        let signs = self.signs(last.as_ref(), (&origin, &text), before.as_deref()).await?;
        if let Some(theirs) = signs {
            return Ok(Signing::Theirs(theirs));
        }
        if let Some(known) = last.as_ref().filter(|last| last.key != text) {
            // It stands in the log, under the new key, what the old one was.
            // Name and id; what follows is base64, which has the same sign.
            let named = |key: &str| key.splitn(3, '+').take(2).collect::<Vec<_>>().join("+");
            let what = ["audit_key", "before it"].iter().zip([&text, &known.key]);
            let what = what.map(|(word, key)| format!("{word}: {}", named(key))).collect();
            self.note(Note::PolicyChanged { what }).await;
            let change = Handover::text(&origin, &known.key, &text);
            let is_given = before.is_some();
            let signature = match before {
                Some(before) => before.sign(&change).await.ok(),
                None => None,
            };
            let signature = signature.as_deref();
            let change = Handover::new(&origin, (&known.key, &text), signature);
            if change.signature.is_empty() && is_given {
                tracing::warn!(
                    "`audit_key_before` or `audit_signer_before` is not the key that heads were signed with before: whoever has only that one \
                     needs the new one; name the right file, and start again"
                );
            } else if change.signature.is_empty() {
                tracing::warn!(
                    "heads are signed with another key than before, which that one has not signed: whoever has only \
                     the one before needs the new one; `audit_key_before` names the one before, or \
                     `audit_signer_before` what signs with it, at a later start, too"
                );
            }
            LastHead::hand_on(&**journal, change).await?;
            // What the one before has signed is known beside this one from the first moment.
            if let Err(fault) = signer.keep_last(&origin, &known.note) {
                self.trouble(Some(not_beside(&fault)));
            }
        } else if let Some(before) = before {
            self.hand_on_late(&origin, &text, &*before).await?;
        }
        let signed = last.as_ref().and_then(|last| last.head().ok());
        let signed = signed.map_or(0, |signed| signed.head.size);
        let state = &self.inner.attesting;
        state.signed.store(signed, Ordering::Release);
        state.size.store(signed, Ordering::Release);
        let (signer, origin, key) = state.signer.get_or_init(|| (signer, origin, key));
        self.hold_if_put_back((&**signer, origin)).await?;
        let ours = last.filter(|last| last.key == text);
        if let Some(trouble) = self.foreseen(ours.as_ref()).await {
            self.trouble(Some(trouble));
        }
        Ok(Signing::Ours(key.clone()))
    }

    /// What will keep the next head from being signed, or from being kept beside the key: told before there is one.
    pub(super) async fn foreseen(&self, last: Option<&LastHead>) -> Option<AttestTrouble> {
        let (signer, origin, _) = self.inner.attesting.signer.get()?;
        let tree = match self.inner.journal.evidence().tree().await {
            Ok(tree) if tree.size > 0 => tree,
            Ok(_) | Err(_) => return None,
        };
        if let Err(fault) = self.goes_on((&**signer, origin), tree).await {
            tracing::error!(%fault, "heads of the log are not signed: proofs wait");
            return Some(AttestTrouble::Unsigned(fault.to_string()));
        }
        signer.keep_last(origin, &last?.note).err().map(|fault| not_beside(&fault))
    }

    /// Gives leaves their places as they come, and has a head signed at least every `every_ms` where anything is
    /// new; until the server stops.
    pub async fn run_attesting(&self, every_ms: u64) {
        let clock = &self.inner.clock;
        let mut next = clock.now().plus(every_ms);
        let mut pause_ms = PAUSE_MS;
        loop {
            let pause = clock.pause(pause_ms);
            pause_ms = PAUSE_MS;
            tokio::select! {
                biased;
                () = pause => {}
                () = self.inner.stop.cancelled() => return,
                () = self.inner.broken.cancelled() => return,
            }
            let state = &self.inner.attesting;
            let now = clock.now();
            // A clock that went back must not put the next head off.
            let is_due = now >= next || next.since(now) > every_ms;
            // One of those who share a store gives leaves their places for all of them; whoever has the key signs.
            let is_ours = self.is_ours_first("attest");
            let signs = self.is_shared() && is_due && state.signer.get().is_some();
            if !is_ours && !signs {
                continue;
            }
            let _writing = state.writing.lock().await;
            let before = state.size.load(Ordering::Acquire);
            let evidence = self.inner.journal.evidence();
            let placed = if is_ours { self.sequence().await } else { evidence.tree().await };
            let head = match placed {
                Ok(head) => head,
                Err(fault) => {
                    if self.is_news(&fault) {
                        tracing::warn!(%fault, "leaves could not be given their places; it is tried again");
                    }
                    continue;
                }
            };
            if is_ours && head.size.saturating_sub(before) >= BUSY {
                pause_ms = PAUSE_BUSY_MS;
            }
            if signs {
                next = now.plus(every_ms);
                if let Err(fault) = self.heed_signed().await {
                    if self.is_news(&fault) {
                        tracing::warn!(%fault, "what others have signed could not be read; it is tried again");
                    }
                    continue;
                }
            }
            let unsigned = head.size.saturating_sub(state.signed.load(Ordering::Acquire));
            if unsigned == 0 && signs {
                self.look_at_trouble().await;
            }
            if unsigned > 0 && (is_due || unsigned >= LEAVES_MAX) {
                self.sign(head).await;
                next = clock.now().plus(every_ms);
            }
        }
    }

    /// Takes in what others who share the store have signed. Whoever has the key keeps it beside that, too: whichever of
    /// them signs next, it goes on from there.
    async fn heed_signed(&self) -> Result<(), Fault> {
        let last = LastHead::of(&*self.inner.journal).await?;
        let signed = last.as_ref().and_then(|last| last.head().ok());
        let signed = signed.map_or(0, |signed| signed.head.size);
        let state = &self.inner.attesting;
        let known = state.signed.fetch_max(signed, Ordering::AcqRel);
        if let (Some(last), Some((signer, origin, key))) = (last, state.signer.get())
            && signed > known
            && last.key == key.text()
        {
            let tree = self.inner.journal.evidence().tree().await?;
            self.goes_on((&**signer, origin), tree).await?;
            signer.keep_last(origin, &last.note)?;
        }
        Ok(())
    }

    /// Everything that waits gets its place, and the head is signed: before the store closes, or because
    /// somebody asks for a proof now.
    pub async fn attest(&self) {
        // Where nobody signs, somebody only looks (E8).
        if !self.is_healthy() || self.inner.attesting.signer.get().is_none() {
            return;
        }
        let _writing = self.inner.attesting.writing.lock().await;
        match self.sequence().await {
            Ok(head) if head.size > self.inner.attesting.signed.load(Ordering::Acquire) => {
                self.sign(head).await;
            }
            Ok(_) => {}
            // As where several servers that share a store stop at the same moment.
            Err(Fault::Retriable(why)) => {
                tracing::info!(why, "leaves wait for another server, or for the next start");
            }
            Err(fault) => {
                tracing::warn!(%fault, "leaves wait for their places until the next start");
            }
        }
    }

    /// The same, for as long as a server that stops can wait: what is left is done at the next start.
    pub(super) async fn attest_last(&self) {
        let clock = &self.inner.clock;
        tokio::select! {
            biased;
            () = self.attest() => {}
            () = clock.pause(LAST_MS) => {
                tracing::warn!("the last head is not signed: the signer takes too long");
            }
        }
    }

    /// How many leaves the log has, and how many of them are signed.
    pub async fn attested(&self) -> (u64, u64) {
        let state = &self.inner.attesting;
        // Others give places and sign, too; and where no key is named here, only the store knows what one has signed. Where
        // it cannot be asked, what was last known stands.
        if (self.is_shared() || state.signer.get().is_none())
            && self.heed_signed().await.is_ok()
            && let Ok(head) = self.inner.journal.evidence().tree().await
        {
            state.size.fetch_max(head.size, Ordering::AcqRel);
        }
        (state.size.load(Ordering::Acquire), state.signed.load(Ordering::Acquire))
    }

    async fn sequence(&self) -> Result<TreeHead, Fault> {
        let evidence = self.inner.journal.evidence();
        loop {
            let sequenced = evidence.sequence(SEQUENCED_AT_ONCE).await?;
            self.inner.attesting.size.store(sequenced.head.size, Ordering::Release);
            if sequenced.added < SEQUENCED_AT_ONCE {
                return Ok(sequenced.head);
            }
        }
    }

    /// Has a head signed, keeps it, and hands it to whoever listens.
    async fn sign(&self, head: TreeHead) {
        let state = &self.inner.attesting;
        let Some((signer, origin, key)) = state.signer.get() else { return };
        let body = note::body(origin, head);
        let given = match self.whose(head).await {
            Ok(Whose::Ours) => signer.sign(&body).await,
            Ok(Whose::Signed) => {
                // What they signed is as good; it is kept beside this key, too.
                if let Err(fault) = self.heed_signed().await {
                    self.unsigned(head, &fault);
                }
                return;
            }
            Ok(Whose::AnotherKeys) => Err(Fault::Permanent(
                "another key signs this log now; give this server that one".into(),
            )),
            Err(fault) => Err(fault),
        };
        let signed = given.and_then(|signature| {
            // Nothing is called signed before that was seen.
            if key.signed(&body, &signature) {
                let note = note::signed(&body, key, &signature);
                return Ok(LastHead { key: key.text(), note });
            }
            Err(Fault::Permanent("what the signer gave is no signature of this head".into()))
        });
        let kept = match signed {
            // In the store first: what lies beside the key is never ahead of it.
            Ok(last) => last.keep(&*self.inner.journal).await.map(|()| last.note),
            Err(fault) => Err(fault),
        };
        let trouble = match kept {
            Ok(note) => {
                state.signed.store(head.size, Ordering::Release);
                metrics::counter!("holdpoint_heads_signed_total").increment(1);
                let beside = signer.keep_last(origin, &note);
                self.publish(note, head.size);
                beside.err().map(|fault| not_beside(&fault))
            }
            Err(fault) => {
                self.unsigned(head, &fault);
                return;
            }
        };
        self.trouble(trouble);
    }

    /// Says that a head is not signed, and why.
    fn unsigned(&self, head: TreeHead, fault: &Fault) {
        metrics::counter!("holdpoint_heads_unsigned_total").increment(1);
        tracing::error!(%fault, leaves = head.size, "the log's head is not signed: proofs wait");
        self.trouble(Some(AttestTrouble::Unsigned(fault.to_string())));
    }

    /// Whose a head is to sign. It must hold what was signed before it: whoever can write to the disk
    /// and has no key would else have the next head sign what they wrote there.
    async fn whose(&self, head: TreeHead) -> Result<Whose, Fault> {
        let Some((signer, origin, key)) = self.inner.attesting.signer.get() else {
            return Ok(Whose::AnotherKeys);
        };
        if !self.still_signs(key).await? {
            return Ok(Whose::AnotherKeys);
        }
        self.goes_on((&**signer, origin), head).await?;
        // Looked at after the head was read: who shares the store may have gone on from there.
        let last = LastHead::of(&*self.inner.journal).await?;
        let last = last.filter(|last| last.key == key.text()).and_then(|last| last.head().ok());
        let is_signed = last.is_some_and(|last| last.head.size >= head.size);
        Ok(if is_signed { Whose::Signed } else { Whose::Ours })
    }

    /// An error where a head does not hold what was signed before it, as the store has that and as it lies beside the key.
    async fn goes_on(
        &self,
        (signer, origin): (&dyn Signer, &str),
        head: TreeHead,
    ) -> Result<(), Fault> {
        let kept = LastHead::of(&*self.inner.journal).await?;
        // That of another key is checked with that one; that the key is another was said when it was changed.
        let kept = kept.map(|last| (VerifyKey::parse(&last.key), last.note));
        let beside = signer.last(origin)?;
        if kept.is_none() && beside.is_empty() && self.is_shared() && head.size > FEW {
            tracing::warn!(
                leaves = head.size,
                "the first head of this log is signed: it is believed as it is. Where it was signed before, on another \
                 machine, take along what lies beside the key there (its `.heads`)"
            );
        }
        let beside = beside.into_iter().map(|note| (None, note));
        for (key, note) in kept.into_iter().chain(beside) {
            let before = SignedHead::parse(&note);
            let before =
                before.map_err(|what| Fault::Corrupt(format!("the head before: {what}")))?;
            if key.is_some_and(|key| !before.is_signed_by(&key)) {
                return Err(Fault::Corrupt("the head before has no signature of its key".into()));
            }
            // Of the log as it is now, and not as it was when `head` was read: others who share it sign meanwhile.
            let root = self.inner.journal.evidence().root(before.head.size).await?;
            if root != Some(before.head.root) {
                let size = before.head.size;
                return Err(Fault::Corrupt(format!(
                    "the log does not hold what was signed before, up to leaf {size}: it was written over, cut off or put \
                     back; `holdpoint verify --audit-key` with this key's file names the place. Nothing is signed until what was is back, or until \
                     `holdpoint release --forget-head` (after `holdpoint restored`) gives up what lies beside the key"
                )));
            }
        }
        Ok(())
    }

    /// A listener that does not take it hears of the next one, which holds everything in this one.
    fn publish(&self, note: String, size: u64) {
        let notifier = Arc::clone(&self.inner.notifier);
        let now = self.inner.clock.now();
        tokio::spawn(async move {
            if let Err(undelivered) = notifier.publish(&note, size, now).await {
                let problem = undelivered.problem;
                tracing::warn!(
                    problem,
                    leaves = size,
                    "a signed head was not taken by the listener"
                );
            }
        });
    }
}
