//! Panic hook: what a panic of the tree's says while its file is opened goes to the log and not to the
//! terminal; who opened it is told in our words what is wrong. Every other panic is shown as ever.

use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many files are being opened: sled has threads of its own, so a panic is not always ours to catch.
static OPENING: AtomicUsize = AtomicUsize::new(0);

/// As long as it lives, panics are logged and not shown.
#[derive(Debug)]
pub(super) struct Quiet;

/// A file is being opened.
pub(super) fn quiet_while_opening() -> Quiet {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let shown = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if OPENING.load(Ordering::Acquire) == 0 {
                return shown(info);
            }
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let words = info.payload_as_str().unwrap_or_default();
            tracing::warn!(place, words, "sled gave up opening its file");
        }));
    });
    OPENING.fetch_add(1, Ordering::AcqRel);
    Quiet
}

impl Drop for Quiet {
    fn drop(&mut self) {
        OPENING.fetch_sub(1, Ordering::AcqRel);
    }
}
