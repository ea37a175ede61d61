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
//! Its laws are K1–K12 of `docs/laws.md`. In short: a refusal leaves no trace (K1); a question is decided
//! once (K2); what was shown is what happens (K3); a no is final (K4); whoever acts has heard everything (K5);
//! what is over is over (K6); nothing fails open (K7); the right person (K8), the right question (K9), one yes
//! for one deed (K10); a fork inherits no permission (K11); rules look at what the requester cannot choose (K12).

mod act;
mod advance;
mod answer;
mod approvers;
mod aside;
mod asking;
pub mod binding;
pub mod brought;
mod budget;
mod canonical;
mod choice;
mod command;
mod condition;
mod context_window;
mod cut;
mod cut_off;
mod decide;
pub mod deed;
pub mod digest;
mod done;
mod editing;
mod ending;
mod entities;
mod event;
pub mod evidence;
mod evolve;
pub mod expression;
mod family;
mod fold_question;
mod following;
mod gate;
mod grant;
pub mod graph;
pub mod halt;
mod halts;
mod heed;
mod id;
mod judging;
mod leaves;
mod listing;
mod lost;
mod message;
mod named;
mod naming;
mod nested;
mod number;
mod operator;
pub mod oversight;
pub mod pattern;
mod permission;
pub mod placeholder;
mod places;
mod plan;
pub mod policy;
mod principal;
mod question;
mod reading;
mod redone;
mod refusal;
pub mod release;
mod renewal;
mod repeat;
mod replay;
mod reply;
mod retry;
mod run;
pub mod saved;
pub mod schema;
mod sealing;
pub mod secret;
mod session_memory;
mod short;
mod sieve;
mod sought;
mod spelling;
mod spent;
mod spoken;
mod started;
pub mod strict;
mod templates;
#[cfg(test)]
mod tests;
mod texts;
mod time;
mod trace;
mod unfollowed;
pub mod veil;
mod verb;
pub mod workflow;

pub use act::{ANY, REPLY};
pub use advance::{Declined, apply, start};
pub use approvers::{
    Admission, Asker, Excluded, Level, Stage, Standing, Vote, WhyNot, waits_for, wants,
};
pub use aside::Aside;
pub use budget::{Budget, Budgets, Extensions, OnExceeded, Spent};
pub use choice::Choice;
pub use command::{Answer, AttemptFault, Command, Reply, ToolFault};
pub use condition::Failures;
pub use context_window::{Bound, WhenFull};
pub use cut::{Unfinished, WhenCut};
pub use decide::{Decision, decide};
pub use deed::Deed;
pub use done::Done;
pub use ending::{Closed, Ending, NotDone, Said, Undone};
pub use event::{Closing, Event, Failure, Purpose, Recorded, Usage, Version};
pub use evolve::{Corruption, begin, evolve};
pub use family::{Descent, FAMILY_RUNS_MAX, No, Refused, may_pass, noes};
pub use fold_question::UNANSWERED;
pub use grant::Grant;
pub use halts::{BY_FILE, EndedBy, Halt, Halts, Scope, Still, legible, steers};
pub use id::{BadId, RequestId, RunId, SESSION_ID_BYTES_MAX, SessionId, Tail, parse_checkpoint};
pub use judging::{JUDGE_MS_DEFAULT, Judging};
pub use listing::{LISTED_MAX, Listing};
pub use message::{Audience, Message, Speaker, ToolCall, readable};
pub use named::{Named, RequestType};
pub use naming::Naming;
pub use operator::{Environment, Membership, Operator, Voice};
pub use permission::{Act, bars};
pub use places::{
    CLAIM_MS_MAX, Claim, Claimed, DELEGATION_MS_MAX, Delegated, Delegation, Holder, Span,
};
pub use plan::{
    ASK_TOOL, AgentInput, Effect, HANDOFF_PREFIX, ToolOffer, first_reply, input_of, may_repeat,
    plan,
};
pub use policy::{InForce, InForceRule, Policy, Rule};
pub use principal::{Assurance, Credential, Known, Principal, Role, Roles, Seen};
pub use question::{Kind, Leg, OnTimeout, Origin, Question, Subject};
pub use reading::{Verdict, house_schemas};
pub use redone::{Past, carried_out};
pub use refusal::Refusal;
pub use renewal::Renewal;
pub use repeat::{KEYS_MAX, Keys, MARKS_MAX, may_have_said, unkeyed};
pub use replay::{Replay, replay};
pub use reply::REPLY_BYTES_MAX;
pub use retry::retry_point;
pub use run::{
    CONVERSATION_BYTES_MAX, CallWaits, Heard, Judgement, Last, OpenCall, QUESTIONS_MAX, Run,
    Status, Turn,
};
pub use sealing::Belongs;
pub use session_memory::{EARLIER_MESSAGES_MAX, EARLIER_RUNS_MAX, Earlier, Follows, Remembers};
pub use short::shortened;
pub use spent::unspent;
pub use started::Started;
pub use templates::has_variables;
pub use time::{Millis, duration_ms};
pub use trace::Trace;
pub use veil::{Apart, Hidden, Veil};
pub use verb::Verb;
pub use workflow::Workflow;
