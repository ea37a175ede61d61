//! Time: a length of time as files write it, and nothing about what it is the length of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A length of time such as `500ms`, `30s`, `2h` or `7d`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("pattern" = "^([0-9]+(ms|s|m|h|d))+$"))]
pub(super) struct LengthOfTime(pub(super) String);
