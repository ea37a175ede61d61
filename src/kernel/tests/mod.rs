//! The kernel's laws, told as plays: a workflow, a script, and the text of what comes of it.
//!
//! `script` has the acts, `stage` performs them, and `judge` looks at the laws after every act, so
//! each play is a proof of all of them; `cast` makes the workflows. The other files are one concern
//! each.

mod acts;
mod answers;
mod asking;
mod bounds;
mod brought;
mod brought_drawn;
mod brought_secrets;
mod budgets;
mod cast;
mod conversation;
mod coordinator;
mod earlier;
mod gates;
mod graph;
mod graph_people;
mod halting;
mod handoff;
mod heeding;
mod judge;
mod judging;
mod loose;
mod patience;
mod policies;
mod properties;
mod recovery;
mod redone;
mod renewal;
mod script;
mod sequential;
mod stage;
mod time;
