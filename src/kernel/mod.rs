//! The kernel: the pure heart. No async, no clock, no chance, no I/O.
//!
//! ```text
//! decide : Run × Command × now → Events | Refusal     what a wish means now
//! evolve : Run × Event         → Run | Corruption     what a fact changes
//! plan   : Run                 → Effects              what is owed to the world
//! ```
//!
//! `apply` is `decide`, then `evolve`, then whatever follows of itself, until the run is at rest.
//!
//! # Laws
//!
//! - **K1** A refused command leaves no trace.
//! - **K2** A question has at most one answer. The same answer with the same key again is a no-op
//!   that returns the first outcome; a different one is refused and told who answered.
//! - **K3** What was shown is what happens: it is frozen when it is asked, its digest is over all of it, and
//!   after the yes exactly that is done.
//! - **K4** A rejected, expired or withdrawn action has no path to being performed.
//! - **K5** Every agent that is asked to act receives the whole conversation up to that point, and
//!   before it what was said in its session, unless the file says otherwise.
//! - **K6** A finished run owes nothing and waits for nothing.
//! - **K7** Nothing fails open.
//! - **K8** Only those whom a question admits can answer it.
//! - **K9** A decision names the question that it decides; words alone never decide.
//! - **K10** One yes, one deed: a standing grant belongs to its gate and its bounds.
//! - **K11** A fork inherits history, not permission.
//! - **K12** Rules look at what the requester cannot choose.

mod advance;
mod answer;
mod approvers;
pub mod binding;
mod bound;
mod budget;
mod canonical;
mod command;
mod decide;
pub mod deed;
pub mod digest;
mod earlier;
mod ending;
mod event;
mod evolve;
pub mod expression;
mod family;
mod gate;
pub mod graph;
mod heard;
mod id;
mod judging;
mod listing;
mod loose;
mod message;
mod operator;
pub mod pattern;
mod permission;
pub mod placeholder;
mod places;
mod plan;
mod principal;
mod question;
mod reading;
mod refusal;
mod renewal;
mod repeat;
mod reply;
mod retry;
mod run;
pub mod schema;
mod sealing;
mod spent;
mod started;
#[cfg(test)]
mod tests;
mod time;
mod trace;
mod verb;
mod wording;
pub mod workflow;

pub use advance::{Declined, apply, start};
pub use approvers::{
    Admission, Asker, Excluded, Level, Stage, Standing, Vote, WhyNot, waits_for, wants,
};
pub use bound::{Bound, WhenFull};
pub use budget::{Budget, Budgets, Extensions, OnExceeded, Spent};
pub use command::{Answer, AttemptFault, Command, Reply, ToolFault};
pub use decide::{Decision, decide};
pub use deed::Deed;
pub use earlier::{EARLIER_MESSAGES_MAX, EARLIER_RUNS_MAX, Earlier, Follows, Remembers};
pub use ending::{Closed, Ending, NotDone, Said, Undone};
pub use event::{Closing, Event, Failure, Purpose, Recorded, Usage, Version};
pub use evolve::{Corruption, begin, evolve, replay};
pub use family::{Descent, FAMILY_RUNS_MAX, No, Refused, may_pass, noes};
pub use heard::UNANSWERED;
pub use id::{BadId, RequestId, RunId, SESSION_ID_BYTES_MAX, SessionId, Tail, parse_checkpoint};
pub use judging::{JUDGE_MS_DEFAULT, Judging};
pub use listing::{LISTED_MAX, Listing};
pub use message::{Audience, Message, Speaker, ToolCall, readable};
pub use operator::{Environment, Membership, Operator, Voice};
pub use permission::Act;
pub use places::{
    CLAIM_MS_MAX, Claim, Claimed, DELEGATION_MS_MAX, Delegated, Delegation, Holder, Span,
};
pub use plan::{
    ASK_TOOL, AgentInput, Effect, HANDOFF_PREFIX, ToolOffer, first_reply, input_of, may_repeat,
    plan,
};
pub use principal::{Assurance, Credential, Known, Principal, Role, Roles};
pub use question::{Choice, Kind, Leg, OnTimeout, Origin, Question, Subject};
pub use reading::Verdict;
pub use refusal::{Naming, Refusal};
pub use renewal::Renewal;
pub use repeat::{KEYS_MAX, Keys, unkeyed};
pub use reply::REPLY_BYTES_MAX;
pub use retry::retry_point;
pub use run::{
    CONVERSATION_BYTES_MAX, CallWaits, Grant, Heard, Judgement, Last, OpenCall, QUESTIONS_MAX, Run,
    Status, Turn,
};
pub use sealing::Belongs;
pub use spent::unspent;
pub use started::Started;
pub use time::{Millis, duration_ms};
pub use trace::Trace;
pub use verb::Verb;
pub use wording::has_variables;
pub use workflow::Workflow;
