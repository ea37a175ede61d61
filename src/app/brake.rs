//! Brake: the file `HALT` in the data directory. Whoever can write there stops everything, without a key and
//! without a door; what the file says is the reason. It is heeded before every deed, decision and start,
//! and looked at all the time. What a halt stops is not decided here.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::engine::Engine;
use crate::ports::brake::Brake;

/// The file's name.
const NAME: &str = "HALT";
/// How often it is looked at where nobody does or decides anything: pages say so, and what stood goes on.
const EVERY: Duration = Duration::from_millis(250);
/// What is read of it.
const BYTES_MAX: u64 = 2_000;

/// The file.
#[derive(Debug)]
pub(super) struct HaltFile(PathBuf);

impl HaltFile {
    /// That of a data directory.
    pub(super) fn in_dir(data: &Path) -> Self {
        Self(data.join(NAME))
    }
}

impl Brake for HaltFile {
    fn pulled(&self) -> Option<String> {
        // Whatever lies there stops everything, even if it cannot be read; so does a directory.
        if self.0.symlink_metadata().is_err() {
            return None;
        }
        let mut bytes = Vec::new();
        // Only of a file: whoever opens a pipe waits for somebody at its other end.
        if self.0.metadata().is_ok_and(|about| about.is_file()) {
            let read =
                File::open(&self.0).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes));
            if read.is_err() {
                bytes.clear();
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        let words: Vec<_> = text.split_whitespace().collect();
        Some(if words.is_empty() { "the file HALT is there".into() } else { words.join(" ") })
    }

    fn place(&self) -> String {
        let path = std::path::absolute(&self.0).unwrap_or_else(|_| self.0.clone());
        format!("{}:{}", machine(), path.display())
    }
}

/// Does as the file says, for as long as the engine runs.
pub(super) async fn heed(engine: Engine) {
    let mut ticks = tokio::time::interval(EVERY);
    loop {
        ticks.tick().await;
        if engine.is_draining() {
            return;
        }
        if let Err(error) = engine.heed_brake().await
            && engine.is_news(&error)
        {
            tracing::error!(%error, "the file HALT could not be heeded");
        }
    }
}

/// What this machine is called; empty where it says nothing.
pub(super) fn machine() -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let machine = machine.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    machine.trim().to_owned()
}
