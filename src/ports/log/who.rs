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
        let (_, _, known) = self.by();
        known
    }

    /// Who did it, and at which door; empty where nobody is known.
    pub fn who(&self) -> (&str, &str) {
        let (who, door, _) = self.by();
        (who, door)
    }

    fn by(&self) -> (&str, &str, Option<&Known>) {
        match self {
            Self::AnswerRefused { who, door, known, .. }
            | Self::HaltRefused { who, door, known, .. }
            | Self::ReleaseRefused { who, door, known, .. }
            | Self::HeadForgotten { who, door, known, .. }
            | Self::Forked { who, door, known, .. }
            | Self::Halted { who, door, known, .. }
            | Self::HaltReleased { who, door, known, .. }
            | Self::Released { who, door, known, .. } => (who, door, known.as_deref()),
            Self::KeyRefused { door, .. } => ("", door, None),
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
            | Self::Unknown => ("", "", None),
        }
    }
}
