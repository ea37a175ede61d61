//! Permission: what a principal may do, by the roles of its credential. The one place that says so: the
//! engine asks it once for each command, and doors never do.
//!
//! What somebody may not even know of is not decided here (D2), nor whom a question admits (K8, which
//! `approvers` says): a role only ever takes away from that.

use crate::kernel::approvers::{self, Admission};
use crate::kernel::command::Command;
use crate::kernel::id::RunId;
use crate::kernel::principal::{Principal, Role};
use crate::kernel::question::Question;
use crate::kernel::refusal::Refusal;
use crate::kernel::run::Run;
use crate::kernel::workflow::Pattern;

/// Something that changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Begin a run.
    Start,
    /// Open a session, label it, hide parts of it.
    Keep,
    /// Have somebody outside told of a run.
    Listen,
    /// Answer a question of the conversation's.
    Answer,
    /// Answer a question that lets something happen.
    Decide,
    /// Take a question back.
    Withdraw,
    /// Stop a run.
    Cancel,
    /// Begin a run from another's checkpoint.
    Fork,
    /// Take back that a tool was allowed.
    Revoke,
    /// Send an external event that the file gives to nobody in particular.
    Signal,
    /// Send an external event that the file has this principal send.
    Report,
}

impl Act {
    /// Every act, for tables and checks.
    pub const ALL: [Self; 11] = [
        Self::Start,
        Self::Keep,
        Self::Listen,
        Self::Answer,
        Self::Decide,
        Self::Withdraw,
        Self::Cancel,
        Self::Fork,
        Self::Revoke,
        Self::Signal,
        Self::Report,
    ];

    /// What it is, after "may not".
    fn words(self) -> &'static str {
        match self {
            Self::Start => "start a run",
            Self::Keep => "open or change a session",
            Self::Listen => "set up who is told of a run",
            Self::Answer => "answer",
            Self::Decide => "decide",
            Self::Withdraw => "take a question back",
            Self::Cancel => "cancel a run",
            Self::Fork => "fork a run",
            Self::Revoke => "revoke what was allowed",
            Self::Signal | Self::Report => "send a signal",
        }
    }

    /// The roles that it takes: on one's own, and on what others began.
    fn takes(self) -> (&'static [Role], &'static [Role]) {
        use Role::{Approver, Operator, Starter, User};
        match self {
            Self::Start => (&[User, Starter], &[User, Starter]),
            Self::Keep | Self::Listen => (&[User, Starter, Operator], &[Operator]),
            // Whoever may go on with a session may say what it asks of them.
            Self::Answer => (&[User, Starter, Approver], &[User, Approver]),
            Self::Decide => (&[User, Approver], &[User, Approver]),
            Self::Withdraw | Self::Cancel | Self::Fork | Self::Revoke | Self::Signal => {
                (&[User, Operator], &[Operator])
            }
            Self::Report => {
                (&[User, Starter, Approver, Operator], &[User, Starter, Approver, Operator])
            }
        }
    }
}

impl Principal {
    /// Whether it may do that to what `owner` began.
    pub fn may(&self, act: Act, owner: &str) -> Result<(), Refusal> {
        let (own, foreign) = act.takes();
        let wanted = if self.id == owner { own } else { foreign };
        if self.roles.has_any(wanted) {
            return Ok(());
        }
        let wanted: Vec<_> = wanted.iter().map(|role| role.word()).collect();
        Err(Refusal::Role {
            who: format!("{} ({})", self.id, self.known.credential),
            act: act.words(),
            wanted: wanted.join("`, `"),
        })
    }
}

/// Refuses a command that its principal may not give. Answers, claims and places are weighed with their
/// questions; what the world reports has no principal.
pub(super) fn refuse(run: &Run, command: &Command) -> Result<(), Refusal> {
    match command {
        Command::Withdraw { principal, .. } => principal.may(Act::Withdraw, &run.owner),
        Command::Revoke { principal, .. } => principal.may(Act::Revoke, &run.owner),
        Command::Cancel { principal, .. } => principal.may(Act::Cancel, &run.owner),
        Command::Signal { name, principal, .. } => refuse_signal(run, name, principal),
        Command::Answer { .. }
        | Command::Claim { .. }
        | Command::Delegate { .. }
        | Command::Delta { .. }
        | Command::Noted { .. }
        | Command::Replied { .. }
        | Command::AttemptFailed { .. }
        | Command::ToolReturned { .. }
        | Command::Recover
        | Command::Renew { .. }
        | Command::Stand { .. }
        | Command::Hold { .. }
        | Command::Recall { .. }
        | Command::Retry
        | Command::Rule
        | Command::Tick => Ok(()),
    }
}

/// In whose place `who` can answer a question of `run` as it stands; a refusal where they cannot: it does
/// not admit them (K8), or their credential is not good for it.
pub(super) fn place_of<'a>(
    admission: &Admission<'_>,
    (run, question): (&RunId, &'a Question),
    who: &'a Principal,
) -> Result<&'a str, Refusal> {
    if let Some(place) = admission.place(question, question.stage, &who.id) {
        refuse_answer(admission, (run, question), who)?;
        return Ok(place);
    }
    let waits_for = approvers::waits_for(question, admission.by);
    let why = admission.why_not(question, &who.id);
    let request = question.id(run).to_string();
    Err(Refusal::NotAdmitted { request, waits_for, who: who.id.clone(), why })
}

/// Why `who` cannot answer a question of `run` as it stands; nothing where they can. Doors show by it
/// what is theirs to answer, and what waits for somebody else.
pub fn bars(
    admission: &Admission<'_>,
    (run, question): (&RunId, &Question),
    who: &Principal,
) -> Option<Refusal> {
    let handed = || refuse_handed_over(admission, (run, question), who);
    place_of(admission, (run, question), who).and_then(|_| handed()).err()
}

/// A place that was handed over is not spoken in by two.
pub(super) fn refuse_handed_over(
    admission: &Admission<'_>,
    (run, question): (&RunId, &Question),
    who: &Principal,
) -> Result<(), Refusal> {
    let handed = question.handed(&who.id, admission.now);
    let Some(handed) = handed.filter(|handed| admission.is_theirs(question, handed)) else {
        return Ok(());
    };
    let request = question.id(run).to_string();
    Err(Refusal::HandedOver { request, to: handed.to.clone(), until: handed.until })
}

/// Refuses an answer of somebody whom the question admits, where their credential is not good for it.
fn refuse_answer(
    admission: &Admission<'_>,
    (run, question): (&RunId, &Question),
    who: &Principal,
) -> Result<(), Refusal> {
    if !question.decides() {
        return who.may(Act::Answer, admission.by.owner);
    }
    who.may(Act::Decide, admission.by.owner)?;
    let wants = approvers::wants(question.current_stage(), admission.operator);
    if who.known.assurance >= wants {
        return Ok(());
    }
    Err(Refusal::NotAssured {
        request: question.id(run).to_string(),
        who: who.id.clone(),
        known: Box::new(who.known.clone()),
        wants,
    })
}

/// A signal is a fact, never consent (K9): it comes from an operator, or from whom every wait of that
/// name in the file has send it; where the file names nobody, from whoever owns the run.
fn refuse_signal(run: &Run, name: &str, who: &Principal) -> Result<(), Refusal> {
    let knows = who.may_see(&run.owner, &run.workflow.name);
    if knows && who.roles.has(Role::Operator) {
        return Ok(());
    }
    let senders = match &run.workflow.pattern {
        Pattern::Graph(program) => program.senders(name),
        Pattern::Sequential { .. } | Pattern::Handoff(_) | Pattern::Coordinator { .. } => {
            Vec::new()
        }
    };
    let sends = |from: &&[String]| {
        if from.is_empty() {
            who.id == run.owner
        } else {
            from.iter().any(|named| run.operator.means(named, &who.id))
        }
    };
    let is_given = senders.iter().any(|from| !from.is_empty());
    if is_given && senders.iter().all(sends) && run.operator.knows(&who.id) {
        return who.may(Act::Report, &run.owner);
    }
    if !knows {
        return Err(Refusal::UnknownRun(run.id.to_string()));
    }
    if is_given {
        let from = senders.concat().join(", ");
        let (name, who) = (name.to_owned(), who.id.clone());
        return Err(Refusal::NotSender { name, from, who });
    }
    who.may(Act::Signal, &run.owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::principal::Roles;

    /// What a role may do, on one's own and on what others began.
    fn may(role: Role) -> (Vec<Act>, Vec<Act>) {
        let who = Principal::new("ada", role, "grpc");
        let on = |owner: &str| {
            let all = Act::ALL.into_iter();
            all.filter(|act| who.may(*act, owner).is_ok()).collect()
        };
        (on("ada"), on("bob"))
    }

    #[test]
    fn each_role_may_do_exactly_this() {
        use Act::{
            Answer, Cancel, Decide, Fork, Keep, Listen, Report, Revoke, Signal, Start, Withdraw,
        };
        let operates = vec![Keep, Listen, Withdraw, Cancel, Fork, Revoke, Signal, Report];
        let table = [
            (Role::User, Act::ALL.to_vec(), vec![Start, Answer, Decide, Report]),
            (Role::Viewer, vec![], vec![]),
            (Role::Starter, vec![Start, Keep, Listen, Answer, Report], vec![Start, Report]),
            (Role::Approver, vec![Answer, Decide, Report], vec![Answer, Decide, Report]),
            (Role::Operator, operates.clone(), operates),
            (Role::Auditor, vec![], vec![]),
            (Role::Admin, vec![], vec![]),
        ];
        assert_eq!(table.len(), Role::ALL.len());
        for (role, own, foreign) in table {
            assert_eq!(may(role), (own, foreign), "{role:?}");
        }
    }

    #[test]
    fn roles_add_up_and_none_takes_away() {
        let roles: Roles = [Role::Starter, Role::Auditor].into_iter().collect();
        let who = Principal::new("ada", roles, "grpc");
        assert_eq!(who.may(Act::Start, "ada"), Ok(()));
        assert!(who.sees_all() && who.may_see("bob", "any"));
        let refused = who.may(Act::Cancel, "ada").unwrap_err();
        assert_eq!(refused.code(), "auth.role");
        assert!(refused.to_string().contains("`user`, `operator`"), "{refused}");
    }

    #[test]
    fn only_some_roles_see_what_others_began() {
        let sees = |role: Role| Principal::new("ada", role, "grpc").reaches("bob");
        let all: Vec<_> = Role::ALL.into_iter().filter(|role| sees(*role)).collect();
        assert_eq!(all, [Role::Operator, Role::Auditor, Role::Admin]);
        assert!(Principal::new("ada", Role::Viewer, "grpc").reaches("ada"));
    }

    #[test]
    fn a_confined_credential_knows_no_other_workflow() {
        let ada = Principal::new("ada", Role::Admin, "grpc");
        let ada = Principal { workflows: vec!["bills".into()], ..ada };
        assert!(ada.may_see("bob", "bills") && !ada.may_see("bob", "wires"));
        assert!(!ada.may_see("ada", "wires"), "not even of its own");
    }
}
