//! Retry: what happens when an attempt fails, as it is written in YAML, and what that means. Whether another
//! attempt is made is not decided here.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::definition::time::LengthOfTime;
use crate::kernel::duration_ms;
use crate::kernel::workflow::Retry;

/// What happens when an attempt fails.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryFile {
    /// Tries in all, the first included; 3 unless given.
    #[schemars(range(min = 1, max = 100))]
    pub(super) attempts: Option<u32>,
    /// The pause before the second try, doubled with every further one; 500ms unless given.
    pub(super) backoff: Option<LengthOfTime>,
    /// The pause never grows beyond this; 1m unless given.
    pub(super) backoff_max: Option<LengthOfTime>,
}

impl RetryFile {
    pub(super) fn compile(&self) -> Retry {
        let defaults = Retry::default();
        let ms = |time: &Option<LengthOfTime>| time.as_ref().and_then(|time| duration_ms(&time.0));
        Retry {
            attempts: self.attempts.unwrap_or(defaults.attempts),
            backoff_ms: ms(&self.backoff).unwrap_or(defaults.backoff_ms),
            backoff_ms_max: ms(&self.backoff_max).unwrap_or(defaults.backoff_ms_max),
        }
    }
}
