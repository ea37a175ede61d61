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
mod apart;
mod approvers;
mod aside;
mod asking;
mod attempt;
pub mod binding;
pub mod brought;
mod budget;
mod canonical;
mod choice;
mod claims;
mod command;
mod condition;
mod context_window;
mod criteria;
mod cut;
mod cut_off;
mod decide;
pub mod deed;
pub mod digest;
mod done;
mod draft;
mod editing;
mod ending;
mod entities;
mod event;
pub mod evidence;
mod evolve;
pub mod expression;
mod failure;
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
mod keys;
mod leaves;
mod limits;
mod listing;
mod look_alike;
mod lost;
mod message;
mod named;
mod naming;
mod nested;
mod number;
mod offer;
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
mod refused;
pub mod release;
mod renewal;
mod repeat;
mod replay;
mod reply;
mod retry;
mod rules;
mod run;
mod said;
pub mod saved;
pub mod schema;
mod sealing;
pub mod secret;
mod session_memory;
mod short;
mod sieve;
mod sought;
mod spelling;
mod spending;
mod spent;
mod spoken;
mod started;
pub mod strict;
mod templates;
mod terms;
#[cfg(test)]
mod tests;
mod texts;
mod time;
mod tool;
mod trace;
mod turn;
mod unfollowed;
pub mod unseen;
pub mod veil;
mod verb;
mod weight;
pub mod workflow;

pub use act::REPLY;
pub use advance::{Declined, apply, start};
pub use apart::{Apart, Veil};
pub use approvers::{Admission, Asker, Standing, waits_for, wants};
pub use aside::Aside;
pub use choice::Choice;
pub use claims::{Claim, Claimed, Delegated, Delegation, Holder, Span};
pub use command::{Answer, AttemptFault, Command, Decision, Reply, ToolFault};
pub use decide::decide;
pub use deed::Deed;
pub use done::Done;
pub use event::{Closing, Event, Recorded};
pub use evolve::{Corruption, begin, evolve};
pub use failure::{Failure, Failures, NotDone, Undone};
pub use family::{FAMILY_RUNS_MAX, may_pass, noes};
pub use fold_question::UNANSWERED;
pub use grant::Grant;
pub use halts::{BY_FILE, EndedBy, Halt, Halts, Scope, Still, legible, steers};
pub use id::{
    BadId, RequestId, RunId, SESSION_ID_BYTES_MAX, SessionId, Tail, Version, parse_checkpoint,
};
pub use judging::JUDGE_MS_DEFAULT;
pub use keys::{KEYS_MAX, Keys, MARKS_MAX, may_have_said, unkeyed};
pub use limits::{Bound, CONVERSATION_BYTES_MAX, QUESTIONS_MAX, Remembers, WhenCut, WhenFull};
pub use listing::{LISTED_MAX, Listing};
pub use message::{Audience, Message, Speaker, ToolCall, readable};
pub use named::{Named, RequestType};
pub use naming::Naming;
pub use offer::{ASK_TOOL, AgentInput, HANDOFF_PREFIX, ToolOffer};
pub use operator::{Environment, Membership, Operator, Say, Voice};
pub use permission::{Act, bars};
pub use places::{CLAIM_MS_MAX, DELEGATION_MS_MAX};
pub use plan::{Effect, first_reply, input_of, may_repeat, plan};
pub use policy::InForceRule;
pub use principal::{Assurance, Credential, Known, Principal, Role, Roles, Seen};
pub use question::{Closed, Ending, Leg, Origin, Question, Subject, WhyNot};
pub use reading::{Verdict, house_schemas};
pub use redone::{Past, carried_out};
pub use refusal::Refusal;
pub use refused::{No, Refused};
pub use replay::{Replay, replay};
pub use reply::REPLY_BYTES_MAX;
pub use retry::retry_point;
pub use rules::{ANY, InForce, Policy, Rule};
pub use run::{Heard, Last, Progress, Renewal, Run, Status};
pub use said::{Said, Vote};
pub use sealing::{Belongs, seed};
pub use session_memory::{EARLIER_MESSAGES_MAX, EARLIER_RUNS_MAX, Earlier};
pub use short::shortened;
pub use spending::{Budget, Budgets, Extensions, OnExceeded, Spent, Usage};
pub use spent::unspent;
pub use started::{Descent, Follows, Started};
pub use templates::has_variables;
pub use terms::{Excluded, Kind, Level, OnTimeout, Stage};
pub use time::{Millis, duration_ms};
pub use trace::Trace;
pub use turn::{
    CallWaits, Judgement, Judging, OpenCall, Purpose, ToolStep, Turn, TurnKind, Unfinished,
};
pub use veil::Hidden;
pub use verb::Verb;
pub use weight::weight;
pub use workflow::Workflow;
