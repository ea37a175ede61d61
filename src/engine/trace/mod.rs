//! Trace: the work of a run as others see it from outside: run → step → model call or tool call, and
//! every wait for a person. Told from the journal, so a restart leaves no hole in the tree.
//!
//! A run, a step and a wait have ids that follow from the run's own, so what was told before a crash
//! and what is told after it fit together, whoever tells it. Nothing that was said is in here.

mod place;
mod span_builder;
mod work;

pub(super) use span_builder::SpanBuilder;
pub(super) use work::{Around, at_once};
