//! Failpoints: named places at which a debug build can be told to die, for the kill harness.
//!
//! `HOLDPOINT_FAILPOINT="store.after_flush:3"` kills the process, as `kill -9` would, at the third
//! passage of that name. A leaf: it imports nothing of ours, so that every floor may call it. In a
//! release build `hit` is empty.

/// Passes the place called `name`; dies here if the environment says so.
#[cfg(debug_assertions)]
pub fn hit(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static ARMED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);

    let armed =
        ARMED.get_or_init(|| std::env::var("HOLDPOINT_FAILPOINT").ok().and_then(|s| read(&s)));
    let Some((armed_name, passage)) = armed else { return };
    if armed_name == name && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *passage {
        die();
    }
}

/// Passes the place called `name`.
#[cfg(not(debug_assertions))]
#[inline(always)]
#[expect(clippy::inline_always, reason = "nothing must be left of it")]
pub fn hit(_name: &str) {}

#[cfg(debug_assertions)]
fn read(setting: &str) -> Option<(String, u64)> {
    let (name, passage) = setting.rsplit_once(':')?;
    Some((name.to_owned(), passage.parse().ok()?))
}

#[cfg(debug_assertions)]
fn die() {
    use rustix::process::{Signal, getpid, kill_process};

    // The signal needs no handler and runs none: no destructor, no flush. Should it fail, `abort`
    // is the next best death.
    if kill_process(getpid(), Signal::KILL).is_err() {
        std::process::abort();
    }
    loop {
        std::thread::park();
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_a_name_and_a_passage() {
        assert_eq!(read("store.after_flush:3"), Some(("store.after_flush".to_owned(), 3)));
        assert_eq!(read("store.after_flush"), None);
        assert_eq!(read("store.after_flush:soon"), None);
    }
}
