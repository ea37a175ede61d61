//! Outbox entries: what both stores know of the outbox: which entries an append makes, and how long the
//! names in it may be.

use crate::ports::{Append, Fault, HookRow, OutboxEntry};

/// Names of channels and hooks are in keys.
const NAME_BYTES_MAX: usize = 128;

/// The entries that an append makes, one for each channel.
pub(super) fn of(append: &Append) -> impl Iterator<Item = OutboxEntry> {
    append.channels.iter().map(|channel| OutboxEntry {
        run: append.run.clone(),
        channel: channel.clone(),
        after: append.expected,
        tip: append.head.version,
        due: append.at,
        tries: 0,
        problem: String::new(),
    })
}

/// The channel of a hook.
pub(super) fn channel_of(hook: &str) -> String {
    format!("push:{hook}")
}

/// Refuses a name that no key can carry.
pub(super) fn check_hook(hook: &HookRow) -> Result<(), Fault> {
    let fits = !hook.hook.id.is_empty()
        && hook.hook.id.len() <= NAME_BYTES_MAX
        && hook.hook.id.bytes().all(|byte| byte.is_ascii_graphic());
    if fits {
        return Ok(());
    }
    Err(Fault::Permanent("a hook's id has 1 to 128 visible characters".into()))
}
