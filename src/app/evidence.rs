//! Evidence: what commands ask of a store that is to be checked, or of a bundle: the line between them and the
//! rooms below. Nothing is decided here, and nothing is opened that is not there.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::app::heads::Heads;
use crate::app::looked::Looked;
use crate::app::offline::{note, refuse_half, seen, whole};
use crate::app::{AppError, Config};
use crate::kernel::RunId;
use crate::kernel::evidence::bundle::{Bundle, Verdict};
use crate::kernel::evidence::decided::{Cancelled, Decided};
use crate::kernel::evidence::leaf::{Place, Pruned};
use crate::kernel::evidence::note::{SignedHead, VerifyKey};
use crate::kernel::evidence::receipt::{Receipt, Standing};
use crate::ports::evidence::{Lain, ORIGIN};
use crate::ports::{Journal, Note};
use crate::store::{self, verify};

pub use crate::store::verify::Verified;

/// What something is held against, as it was given.
#[derive(Debug, Clone, Default)]
pub struct Against {
    /// The public key.
    pub key: Option<String>,
    /// A signed head that was kept elsewhere.
    pub since: Option<String>,
}

impl Against {
    fn read(&self) -> Result<verify::Against, AppError> {
        let key = self.key.as_deref().map(|text| {
            let wrong = "expected a public key as `name+id+key`, or a file that has one: `audit.pub` in the data \
                         directory does. The name has no blank and no `+`; the key is base64, which may have `+`";
            VerifyKey::parse(text).ok_or_else(|| AppError::Evidence(format!("--key: {wrong}")))
        });
        let since = self.since.as_deref().map(|note| {
            // Whoever copied it may have brought a line end more.
            SignedHead::parse(note.trim_end())
                .map_err(|what| AppError::Evidence(format!("--since: {what}")))
        });
        Ok(verify::Against { key: key.transpose()?, since: since.transpose()?, kept_in: None })
    }
}

/// Looks at a whole store; `progress` is told how many runs are done, and `resume` is the file that has which of them
/// were looked at before.
pub async fn verify(
    config: &Config,
    against: &Against,
    resume: Option<&Path>,
    progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<Verified, AppError> {
    let mut against = against.read()?;
    // Whoever looks changes nothing (E8): an opening would take it over.
    if config.store.is_none() && store::is_older(&config.data) {
        return Err(AppError::Older(config.data.clone()));
    }
    let looked = resume.map(Looked::open).transpose().map_err(|error| {
        let path = resume.map(Path::display).map(|path| path.to_string()).unwrap_or_default();
        AppError::Evidence(format!("--resume: `{path}`: {error}"))
    })?;
    let looked: &dyn verify::Memory = match &looked {
        Some(looked) => looked,
        None => &verify::Forgetful,
    };
    let journal = seen(config).await?;
    refuse_half(config, &*journal).await?;
    if against.since.is_none() {
        (against.since, against.kept_in) = kept_head(config, &*journal).await?.unzip();
    }
    let verified = verify::go_on(&*journal, &against, looked, progress).await;
    journal.close().await;
    Ok(verified?)
}

/// The last head of a store's log that lies beside the key that signs it, where the settings name that: a store that was put
/// back has an older one of its own, and agrees with it. With the file that it lies in: nobody brought it.
pub(super) async fn kept_head(
    config: &Config,
    journal: &dyn Journal,
) -> Result<Option<(SignedHead, PathBuf)>, AppError> {
    // One that was just imported has no log yet, and is another all the same.
    let origin = journal.remembered(ORIGIN).await?.unwrap_or_default();
    let audit = &config.audit;
    let heads = Heads::beside(audit.key.as_deref(), audit.key_before.as_deref());
    if audit.signer.is_some()
        && let Some((other, _)) = heads.other_than(&origin)?
    {
        return Err(AppError::Evidence(format!(
            "the key of `audit_signer` has signed the log `{other}` and never this one, `{origin}`: this is another store, or one \
             that was imported; `--since` with a head of the log that is meant compares them"
        )));
    }
    let kept = heads.kept(&origin)?.into_iter();
    let kept = kept.filter_map(|(note, file)| Some((SignedHead::parse(&note).ok()?, file)));
    Ok(kept.max_by_key(|(kept, _)| kept.head.size))
}

/// What a bundle came to.
#[derive(Debug, Clone)]
pub struct Bundled {
    /// The run.
    pub run: String,
    /// Its events.
    pub events: u64,
    /// Up to which version an earlier build wrote them.
    pub unchained: u64,
    /// Leaves that are proven.
    pub proven: usize,
    /// Leaves that are not yet.
    pub unproven: usize,
    /// Events after the last proven leaf.
    pub unproven_events: u64,
    /// Whether the run is over.
    pub is_over: bool,
    /// Hidden values that are left out: secrets, and what would tell them.
    pub left_out: usize,
    /// Who decided what, the first first; nothing of a bundle that does not hold.
    pub decided: Vec<Decided>,
    /// Who cancelled the run, if somebody did.
    pub cancelled: Option<Cancelled>,
    /// Whose signature was seen; none without a key.
    pub signer: Option<String>,
    /// Whether that key is the one that the bundle itself names.
    pub is_own_key: bool,
    /// What does not hold.
    pub finding: Option<String>,
}

/// Checks a bundle, with nothing but a public key.
pub fn verify_bundle(text: &str, against: &Against) -> Result<Bundled, AppError> {
    let verify::Against { key, since, .. } = against.read()?;
    if since.is_some() {
        let what = "--since holds a store against a head that was kept; a bundle has one head, and proves nothing of others";
        return Err(AppError::Evidence(what.into()));
    }
    let mut bundled = Bundled {
        run: String::new(),
        events: 0,
        unchained: 0,
        proven: 0,
        unproven: 0,
        unproven_events: 0,
        is_over: false,
        left_out: 0,
        decided: Vec::new(),
        cancelled: None,
        signer: None,
        is_own_key: false,
        finding: None,
    };
    let bundle = match Bundle::read(text) {
        Ok(bundle) => bundle,
        Err(finding) => return Ok(Bundled { finding: Some(finding.to_string()), ..bundled }),
    };
    bundled.run = bundle.run.to_string();
    // Without a key of one's own: the one that the bundle names, which finds accidents and no forger.
    let own = bundle.key.as_deref().filter(|_| key.is_none()).and_then(VerifyKey::parse);
    let is_own = own.is_some();
    let key = key.or(own);
    bundled.is_own_key = is_own;
    match bundle.check(key.as_ref()) {
        Ok(verdict) => {
            let Verdict { events, unchained, proven, unproven, unproven_events, .. } = verdict;
            let (left_out, signer) = (verdict.left_out, verdict.signer.map(|key| key.text()));
            let (is_over, decided) = (verdict.is_over, verdict.decided);
            let bundled =
                Bundled { events, unchained, proven, unproven, is_over, decided, ..bundled };
            let cancelled = verdict.cancelled;
            Ok(Bundled { unproven_events, left_out, cancelled, signer, ..bundled })
        }
        Err(finding) => Ok(Bundled { finding: Some(finding.to_string()), ..bundled }),
    }
}

/// What a receipt came to.
#[derive(Debug, Clone)]
pub struct Receipted {
    /// What it speaks of.
    pub place: String,
    /// Whether a signed head holds it.
    pub is_proven: bool,
    /// Whose signature was seen; none without a key, or a head.
    pub signer: Option<String>,
    /// Whether that key is the one that the receipt itself names.
    pub is_own_key: bool,
    /// What does not hold.
    pub finding: Option<String>,
}

/// Checks a receipt alone, with nothing but a public key; nothing where the text is none.
pub fn verify_receipt(text: &str, against: &Against) -> Result<Option<Receipted>, AppError> {
    let Some(receipt) = Receipt::read(text) else { return Ok(None) };
    let verify::Against { key, since, .. } = against.read()?;
    if since.is_some() {
        let what = "--since holds a store against a head that was kept; a receipt has one head, and proves nothing of others";
        return Err(AppError::Evidence(what.into()));
    }
    let own = receipt.key.as_deref().filter(|_| key.is_none()).and_then(VerifyKey::parse);
    let is_own_key = own.is_some();
    let key = key.or(own);
    let none = Standing { is_proven: false, signer: None };
    let (Standing { is_proven, signer }, finding) = match receipt.check(key.as_ref()) {
        Ok(standing) => (standing, None),
        Err(finding) => (none, Some(finding.to_string())),
    };
    let signer = signer.map(|key| key.text());
    Ok(Some(Receipted { place: receipt.place(), is_proven, signer, is_own_key, finding }))
}

/// Whether a bundle has what its run keeps secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrets {
    /// Hashes stand in their places.
    LeftOut,
    /// They are in it, beside their hashes.
    Included,
}

/// Writes one run with all that proves it; false if there is no such run, and then nothing is noted of it. One that was
/// pruned is told to have been.
pub async fn export_run(
    config: &Config,
    run: &str,
    secrets: Secrets,
    mut to: Box<dyn Write + Send>,
) -> Result<bool, AppError> {
    let run = RunId::parse(run).map_err(|_| AppError::UnknownRun(run.to_owned()))?;
    let journal = whole(config).await?;
    let bundle = verify::bundle(&*journal, &run).await;
    if let Ok(Some(_)) = &bundle {
        // Before the first byte, as of every export.
        let with = Some(secrets == Secrets::Included);
        note(&*journal, Note::Exported { run: Some(run.clone()), secrets: with }).await;
    }
    let tombstone = journal.evidence().leaf(&Place::Tombstone(run.clone())).await;
    journal.close().await;
    let Some(bundle) = bundle? else {
        let Some(Lain { index, .. }) = tombstone? else { return Ok(false) };
        let pruned = Pruned { run, leaf: index };
        return Err(AppError::Evidence(format!("--run: {pruned}")));
    };
    let bundle = match secrets {
        Secrets::LeftOut => bundle.redacted(),
        Secrets::Included => bundle,
    };
    let text = serde_json::to_string_pretty(&bundle)
        .map_err(|error| AppError::Internal(error.to_string()))?;
    let written = to.write_all(text.as_bytes()).and_then(|()| to.write_all(b"\n"));
    let written = written.and_then(|()| to.flush());
    written.map_err(|error| AppError::Evidence(format!("the file cannot be written: {error}")))?;
    Ok(true)
}
