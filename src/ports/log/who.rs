//! Who: whose deed an entry of the store's own log tells of, at which door, and how they were known. Where a service spoke for
//! somebody the log has both: a name alone would say that they did it themselves. What is noted is the parent's.

use super::Note;
use crate::kernel::Known;

impl Note {
    /// The same, with how whoever was refused was known.
    #[must_use]
    pub fn known_as(mut self, by: &Known) -> Self {
        if let Self::AnswerRefused { known, .. } = &mut self {
            // What they had been shown differs each time; the same refusal again is counted, not listed.
            *known = Some(Box::new(Known { seen: None, ..by.clone() }));
        }
        self
    }

    /// How whoever did it was known, where that is kept.
    pub fn known(&self) -> Option<&Known> {
        match self {
            Self::AnswerRefused { known, .. }
            | Self::HaltRefused { known, .. }
            | Self::ReleaseRefused { known, .. }
            | Self::HeadForgotten { known, .. }
            | Self::Forked { known, .. }
            | Self::Halted { known, .. }
            | Self::HaltReleased { known, .. }
            | Self::Released { known, .. } => known.as_deref(),
            Self::KeyRefused { .. }
            | Self::Crowded
            | Self::KeysChanged { .. }
            | Self::PolicyChanged { .. }
            | Self::Exported { .. }
            | Self::Imported { .. }
            | Self::Pruned { .. }
            | Self::ConsentBroken { .. }
            | Self::Renewed { .. }
            | Self::Rewound { .. }
            | Self::Restored
            | Self::ServerStarted { .. }
            | Self::ServerStopped { .. }
            | Self::Lost
            | Self::Forgotten
            | Self::Unknown => None,
        }
    }

    /// Who did it, and at which door; empty where nobody is known.
    pub fn who(&self) -> (&str, &str) {
        match self {
            Self::AnswerRefused { who, door, .. }
            | Self::HaltRefused { who, door, .. }
            | Self::ReleaseRefused { who, door, .. }
            | Self::HeadForgotten { who, door, .. }
            | Self::Forked { who, door, .. }
            | Self::Halted { who, door, .. }
            | Self::HaltReleased { who, door, .. }
            | Self::Released { who, door, .. } => (who, door),
            Self::KeyRefused { door, .. } => ("", door),
            Self::Crowded
            | Self::KeysChanged { .. }
            | Self::PolicyChanged { .. }
            | Self::Exported { .. }
            | Self::Imported { .. }
            | Self::Pruned { .. }
            | Self::ConsentBroken { .. }
            | Self::Renewed { .. }
            | Self::Rewound { .. }
            | Self::Restored
            | Self::ServerStarted { .. }
            | Self::ServerStopped { .. }
            | Self::Lost
            | Self::Forgotten
            | Self::Unknown => ("", ""),
        }
    }
}
