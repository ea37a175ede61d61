//! Signer: who signs the heads of the log of leaves: a key in a file of ours, or a command that has the key where
//! this process cannot reach it. What it signs is not looked at here, and what a command gives is not believed.

use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustix::process::{Pid, Signal, kill_process_group};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use crate::app::heads::Heads;
use crate::app::{AppError, Config};
use crate::engine::{Engine, EngineError, Signing};
use crate::kernel::Millis;
use crate::kernel::evidence::handover::{self, Handover};
use crate::kernel::evidence::note::VerifyKey;
use crate::ports::Fault;
use crate::ports::evidence::{Signer, Signs};
use crate::ports::{Journal, LastHead};

/// How long a command may take; a person waits for the proof, and nobody for the decision.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is read of what a command says: a signature, and blanks around it.
const SAID_BYTES_MAX: u64 = 4 << 10;
/// A key file has a few lines; anything near this size is some other file.
const KEY_BYTES_MAX: u64 = 16 << 10;
/// What an Ed25519 key begins with in PKCS#8, before its seed (RFC 8410); and where the seed lies in one that was drawn.
const PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
const SEED: std::ops::Range<usize> = 16..48;
/// What only the owner may do.
const OTHERS: u32 = 0o077;

/// Whose key signs a log, as far as the settings say.
#[derive(Debug)]
pub(super) enum Signatory {
    /// One that this process has.
    Here(Arc<dyn Signer>),
    /// One that was named to whoever signed last, and is not named here: nothing is signed with any other.
    Elsewhere(VerifyKey),
}

/// Whoever signs the log of a store, as the settings say; a key is made where there is none yet.
pub(super) async fn signatory(
    config: &Config,
    journal: &dyn Journal,
) -> Result<Signatory, AppError> {
    if config.audit.key.is_none()
        && config.audit.key_before.is_none()
        && config.audit.signer_before.is_none()
        && let Some(last) = LastHead::of(journal).await?
        && let Some(key) = VerifyKey::parse(&last.key)
        && own(&config.data.join("audit.key")) != Some(key.key)
    {
        return Ok(Signatory::Elsewhere(key));
    }
    signer(config, journal).await.map(Signatory::Here)
}

/// The public half of a key in a file, if there is one.
fn own(path: &Path) -> Option<[u8; 32]> {
    private(path).ok()?.public_key().as_ref().try_into().ok()
}

/// Refuses what is wrong with the keys that the settings name, whatever has been signed: before a store is opened for them.
pub(super) fn refuse_wrong(config: &Config) -> Result<(), AppError> {
    before(config)?;
    if config.audit.key.is_some() || config.audit.signer.is_some() {
        named(config)?;
    }
    Ok(())
}

/// Where the key lies that signs.
fn place(config: &Config) -> PathBuf {
    config.audit.key.clone().unwrap_or_else(|| config.data.join("audit.key"))
}

/// Whoever signs, as the settings say; none where the key is yet to be made.
fn named(config: &Config) -> Result<Option<Arc<dyn Signer>>, AppError> {
    let path = place(config);
    let heads = Heads::beside(config.audit.key.as_deref(), config.audit.key_before.as_deref());
    if let Some(command) = &config.audit.signer {
        if config.audit.key.is_none() {
            return Err(AppError::NoAuditKey);
        }
        let wrong = |why: String| AppError::SignerKey { path: path.clone(), why };
        let text = read(&path).map_err(wrong)?;
        let key = str::from_utf8(&text).ok().and_then(VerifyKey::parse);
        let key =
            key.ok_or_else(|| wrong("expected `name+id+key` in one line, and no more".into()))?;
        let command = Ask { setting: "audit_signer", command: command.clone() };
        return Ok(Some(Arc::new(Outside { command, key, heads })));
    }
    if !path.exists() {
        return Ok(None);
    }
    let wrong = |why: String| AppError::AuditKey { setting: "audit_key", path: path.clone(), why };
    Ok(Some(Arc::new(Own { pair: private(&path).map_err(wrong)?, heads })))
}

async fn signer(config: &Config, journal: &dyn Journal) -> Result<Arc<dyn Signer>, AppError> {
    if let Some(named) = named(config)? {
        return Ok(named);
    }
    let path = place(config);
    let wrong = |why: &str| {
        let (path, why) = (path.clone(), why.to_owned());
        AppError::AuditKey { setting: "audit_key", path, why }
    };
    // A name that leads nowhere is a slip of the pen, where another key has signed and is not told of as the one before.
    let is_said = config.audit.key_before.is_some() || config.audit.signer_before.is_some();
    if config.audit.key.is_some() && !is_said && LastHead::of(journal).await?.is_some() {
        return Err(wrong(
            "there is no such file, and heads of this log are signed already; name the key that signs them, or the one before \
             with `audit_key_before`",
        ));
    }
    make(&path).map_err(|why| wrong(&why))?;
    tracing::info!(path = %path.display(), "made the key that the log's heads are signed with");
    named(config)?.ok_or_else(|| wrong("it is gone as soon as it was made"))
}

/// Whoever signed before, where the settings say so: to sign which key comes next, and what the console's passes were made
/// with; no head.
pub(super) fn before(config: &Config) -> Result<Option<Arc<dyn Signs>>, AppError> {
    if let Some(path) = config.audit.key_before.clone() {
        let setting = "audit_key_before";
        let pair = private(&path).map_err(|why| AppError::AuditKey { setting, path, why })?;
        return Ok(Some(Arc::new(Own { pair, heads: Heads::default() })));
    }
    let ask = |command: &String| Ask { setting: "audit_signer_before", command: command.clone() };
    Ok(config.audit.signer_before.as_ref().map(|command| Arc::new(ask(command)) as Arc<dyn Signs>))
}

/// The key that heads can be checked with. Where another server's signs the log that is shared: a key that was named here
/// could sign nothing that holds together with it, and is refused; one that was only made here stays unused.
fn agreed<'a>(config: &Config, signs: &'a Signing) -> Result<&'a VerifyKey, AppError> {
    match signs {
        Signing::Ours(key) => Ok(key),
        Signing::Theirs(key) if config.audit.key.is_some() || config.audit.signer.is_some() => {
            Err(AppError::OtherAuditKey { theirs: key.text() })
        }
        Signing::Theirs(key) => {
            tracing::warn!(
                key = key.text(),
                "another server's key signs the log of this store, and this one signs nothing: give all of them the same \
                 with --audit-key"
            );
            Ok(key)
        }
    }
}

/// Has an engine sign the heads of its log, where the key that signs them is known here.
pub(super) async fn attest(
    config: &Config,
    engine: &Engine,
    journal: &dyn Journal,
) -> Result<(), AppError> {
    let key = match signatory(config, journal).await? {
        Signatory::Here(signer) => {
            let signs = engine.attest_with(signer, before(config)?).await;
            let signs = signs.map_err(|error| {
                if let EngineError::Fault(fault) = error {
                    AppError::Fault(fault)
                } else {
                    AppError::Unsettled(error)
                }
            })?;
            agreed(config, &signs)?.clone()
        }
        Signatory::Elsewhere(key) => {
            tracing::warn!(
                key = key.text(),
                "heads of this log are signed with a key that is not named here: nothing is signed until `audit_key` names it, \
                 on the command line or in holdpoint.toml"
            );
            engine.leave_unsigned("`audit_key` does not name the key that they are signed with");
            key
        }
    };
    hand_out(&config.data, &key);
    for path in outlived(config, &key, &LastHead::handed(journal).await?) {
        tracing::warn!(
            path = %path.display(),
            "the key in this file signs no more: take it from here. It is needed only where a backup from before it was changed is put \
             back: keep it away from everything else for as long as you keep such backups, and destroy it, and its copies, then. Whoever has \
             it can sign that a key of their own came after it, and a check with its public half would follow that"
        );
    }
    Ok(())
}

/// The files in the data directory whose key has given way to another, and that no setting names.
fn outlived(config: &Config, now: &VerifyKey, handed: &[Handover]) -> Vec<PathBuf> {
    if handed.is_empty() {
        return Vec::new();
    }
    let whole = |path: &Path| path.canonicalize().ok();
    let named =
        [&config.audit.key, &config.audit.key_before].map(|it| it.as_deref().and_then(whole));
    let files = std::fs::read_dir(&config.data).into_iter().flatten().filter_map(Result::ok);
    let files = files.filter(|file| file.file_type().is_ok_and(|kind| kind.is_file()));
    let mut found: Vec<_> = files
        .map(|file| file.path())
        .filter(|path| !named.contains(&whole(path)))
        // Whoever else can read it: it is a key all the same.
        .filter(|path| {
            let pair = read(path).and_then(|pem| pair(&pem));
            let key = pair.ok().and_then(|pair| pair.public_key().as_ref().try_into().ok());
            key.is_some_and(|key| handover::is_outlived(&key, now, handed))
        })
        .collect();
    found.sort();
    found
}

/// The private key in a file that nobody else can read.
fn private(path: &Path) -> Result<Ed25519KeyPair, String> {
    let about = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if about.permissions().mode() & OTHERS != 0 {
        return Err("others can read it; make a new one, or `chmod 600` it".into());
    }
    pair(&read(path)?)
}

/// The key that a file has.
fn pair(pem: &[u8]) -> Result<Ed25519KeyPair, String> {
    let der = PrivatePkcs8KeyDer::from_pem_slice(pem);
    let pair = der
        .ok()
        .and_then(|der| Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der()).ok());
    pair.ok_or_else(|| "expected an Ed25519 key, as PKCS#8 in PEM".into())
}

/// Writes the public half beside the data, for whoever is to be given it.
fn hand_out(data: &Path, key: &VerifyKey) {
    let (path, text) = (data.join("audit.pub"), format!("{}\n", key.text()));
    if std::fs::read_to_string(&path).is_ok_and(|known| known == text) {
        return;
    }
    if let Err(error) = std::fs::write(&path, text) {
        tracing::warn!(%error, path = %path.display(), "the public key could not be written");
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let about = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if about.len() > KEY_BYTES_MAX {
        return Err(format!("it has more than {KEY_BYTES_MAX} bytes; it is no key"));
    }
    std::fs::read(path).map_err(|error| error.to_string())
}

/// Makes a key that only its owner can read.
fn make(path: &PathBuf) -> Result<(), String> {
    let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
    let made = made.map_err(|_| "the system has no random numbers".to_owned())?;
    // As it is drawn it has its public half with it, which OpenSSL does not read: that follows from the seed.
    let seed = made.as_ref().get(SEED).ok_or("a key has no seed")?;
    let text = STANDARD.encode([&PKCS8[..], seed].concat());
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    let pem =
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"));
    // Whole or not at all: half a key would keep every later start from going on.
    let fresh = path.with_added_extension("new");
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh);
    let written = file.and_then(|mut file| {
        file.write_all(pem.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, path)?;
        // Its name, too: a key that is gone after a power cut would be another one.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        std::fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    });
    written.map_err(|error| error.to_string())
}

/// A key of ours.
struct Own {
    pair: Ed25519KeyPair,
    heads: Heads,
}

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Own(…)")
    }
}

impl Signer for Own {
    fn key(&self, origin: &str) -> VerifyKey {
        // Ed25519 keys have 32 bytes.
        let key = self.pair.public_key().as_ref().try_into().unwrap_or_default();
        VerifyKey { name: origin.to_owned(), key }
    }

    fn last(&self, origin: &str) -> Result<Vec<String>, Fault> {
        self.heads.last(origin)
    }

    fn kept_since(&self, origin: &str, seen: Option<Millis>) -> Result<Vec<String>, Fault> {
        self.heads.kept_since(origin, seen)
    }

    fn other(&self, _origin: &str) -> Result<Option<(String, String)>, Fault> {
        // It is named after its log.
        Ok(None)
    }

    fn keep_last(&self, origin: &str, note: &str) -> Result<(), Fault> {
        self.heads.keep(origin, note)
    }

    fn forget_last(&self, origin: &str) -> Result<(), Fault> {
        self.heads.forget(origin)
    }
}

#[async_trait]
impl Signs for Own {
    async fn sign(&self, text: &str) -> Result<Vec<u8>, Fault> {
        Ok(self.pair.sign(text.as_bytes()).as_ref().to_vec())
    }
}

/// A command that signs, and the key that it signs with.
#[derive(Debug)]
struct Outside {
    command: Ask,
    key: VerifyKey,
    heads: Heads,
}

impl Signer for Outside {
    fn key(&self, _origin: &str) -> VerifyKey {
        self.key.clone()
    }

    fn last(&self, origin: &str) -> Result<Vec<String>, Fault> {
        // Its name says nothing of the log, as that of a key of ours does: a log that was written anew, under an origin of
        // its own, would be taken for the one that it stands in for.
        if let Some((other, _)) = self.heads.other_than(origin)? {
            return Err(Fault::Permanent(format!(
                "the key of `audit_signer` has signed the log `{other}` and never this one, `{origin}`: where this is another \
                 store, or was imported, `holdpoint release --forget-head` has it signed from here on"
            )));
        }
        self.heads.last(origin)
    }

    fn kept_since(&self, origin: &str, seen: Option<Millis>) -> Result<Vec<String>, Fault> {
        self.heads.kept_since(origin, seen)
    }

    fn other(&self, origin: &str) -> Result<Option<(String, String)>, Fault> {
        self.heads.other_than(origin)
    }

    fn keep_last(&self, origin: &str, note: &str) -> Result<(), Fault> {
        self.heads.keep(origin, note)
    }

    fn forget_last(&self, origin: &str) -> Result<(), Fault> {
        self.heads.forget(origin)
    }
}

#[async_trait]
impl Signs for Outside {
    async fn sign(&self, text: &str) -> Result<Vec<u8>, Fault> {
        self.command.sign(text).await
    }
}

/// A command and all that it started: they end with it, and with whoever waits no longer.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        let id = self.0.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(id) = id {
            // Where all of them have ended there is nobody left to tell.
            kill_process_group(id, Signal::KILL).unwrap_or_default();
        }
    }
}

/// A command: the text on its standard input, the signature in base64 on its output.
#[derive(Debug)]
struct Ask {
    setting: &'static str,
    command: String,
}

#[async_trait]
impl Signs for Ask {
    async fn sign(&self, text: &str) -> Result<Vec<u8>, Fault> {
        let setting = self.setting;
        let Ok(signature) = tokio::time::timeout(PATIENCE, self.ask(text)).await else {
            let seconds = PATIENCE.as_secs();
            let why = format!("{setting}: no signature within {seconds} seconds");
            return Err(Fault::Retriable(why));
        };
        signature.map_err(|why| Fault::Retriable(format!("{setting}: {why}")))
    }
}

impl Ask {
    async fn ask(&self, text: &str) -> Result<Vec<u8>, String> {
        let mut command = Command::new("sh");
        let command = command.arg("-c").arg(&self.command).kill_on_drop(true).process_group(0);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        if let Some(mut to) = child.stdin.take() {
            // One that reads nothing says what it says; its signature is looked at.
            to.write_all(text.as_bytes()).await.unwrap_or_default();
        }
        let mut group = Group(child.id());
        let mut said = Vec::new();
        if let Some(from) = child.stdout.take() {
            let read = from.take(SAID_BYTES_MAX + 1).read_to_end(&mut said).await;
            read.map_err(|error| error.to_string())?;
        }
        if said.len() as u64 > SAID_BYTES_MAX {
            return Err(format!(
                "it says more than {SAID_BYTES_MAX} bytes, and a signature has 88"
            ));
        }
        let ended = child.wait().await.map_err(|error| error.to_string())?;
        // Its number may be another's from now on.
        group.0 = None;
        if !ended.success() {
            return Err(format!("it ended with {ended}"));
        }
        let given = String::from_utf8_lossy(&said).split_whitespace().collect::<String>();
        STANDARD.decode(given).map_err(|_| "what it says is no base64".into())
    }
}
