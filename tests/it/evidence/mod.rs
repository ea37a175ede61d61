//! What can be shown afterwards to somebody who trusts nobody, the brake, and what is hidden.

pub(crate) mod agreed;
pub(crate) mod aisvs;
pub(crate) mod audit;
pub(crate) mod bundles;
pub(crate) mod forged;
pub(crate) mod forged_heads;
pub(crate) mod forged_log;
pub(crate) mod forged_questions;
pub(crate) mod golden;
pub(crate) mod guessing;
pub(crate) mod halt_wishes;
pub(crate) mod halting;
pub(crate) mod halts_vouched;
pub(crate) mod keys;
pub(crate) mod put_back;
pub(crate) mod redacted;
pub(crate) mod redacted_doors;
pub(crate) mod redacted_seeds;
pub(crate) mod redacted_starts;
pub(crate) mod redacted_words;
pub(crate) mod served;
pub(crate) mod taken_over;
pub(crate) mod waiting;
