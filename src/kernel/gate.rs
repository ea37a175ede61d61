//! Gate: which acts of agents become questions, and what a person may say to one. What an act is, is in `act`;
//! what conditions look at, in `condition`; which gates are in force, in `policy`.
//!
//! A gate without conditions always asks. One with conditions asks when any of them holds. Rules
//! over what is known (the call, the agent's words, the run) come first; where none of them holds,
//! a judging agent may be asked. A gate can only add a question, never take one away.
//!
//! - **K10** A standing grant belongs to the gate that asked, the tool, and the bounds that were shown.
//! - **K12** Rules look at what the requester cannot choose.
//! - **K4** A call that was denied, or that nobody allowed in time, has no path to being made.
//! - **K7** Only a clear yes lets a call through.

use serde_json::{Value, json};

use crate::kernel::act::Act;
use crate::kernel::brought;
use crate::kernel::claims::Delegation;
use crate::kernel::condition;
use crate::kernel::deed::Deed;
use crate::kernel::draft::{self, Draft, Next};
use crate::kernel::editing;
use crate::kernel::event::Event;
use crate::kernel::family;
use crate::kernel::grant::Grant;
use crate::kernel::judging::{self, Judge};
use crate::kernel::message::{ToolCall, readable};
use crate::kernel::principal::Footing;
use crate::kernel::question::{Origin, Question};
use crate::kernel::run::Run;
use crate::kernel::said::{Said, Vote};
use crate::kernel::secret;
use crate::kernel::terms::{Kind, Patience, Stage};
use crate::kernel::time::Millis;
use crate::kernel::turn::{Judgement, Turn, Wish};
use crate::kernel::verb::Verb;
use crate::kernel::workflow::{Condition, Gate};

/// What a person may say to a call that waits at a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ruling {
    /// Make it, this once.
    AllowOnce,
    /// Make it, and others of the same tool in this run.
    AllowForRun,
    /// Make it with these arguments.
    Edit(Value),
    /// Do not make it.
    Deny,
}

/// What an accepted answer rules. Whatever is not clearly a yes is a no.
pub(super) fn ruling(value: &Value) -> Ruling {
    match (Verb::of(value), value.get("arguments")) {
        (Some(Verb::AllowOnce), _) => Ruling::AllowOnce,
        (Some(Verb::AllowForRun), _) => Ruling::AllowForRun,
        (Some(Verb::Edit), Some(arguments)) => Ruling::Edit(arguments.clone()),
        (Some(_) | None, _) => Ruling::Deny,
    }
}

impl Wish<'_> {
    /// Why a rule asks although it need not now: it would have, before a start's own gate was passed.
    fn owes(&self, gate: &Gate) -> Option<Vec<String>> {
        self.looked?.owes(&gate.name).cloned()
    }
}

/// What becomes of an act now: the intent to do it, the question whether it may be done, or the turn of
/// somebody who says whether that must be asked (E2, K4).
pub(super) fn passed(run: &Run, wish: Wish<'_>, next: Next, now: Millis) -> Vec<Event> {
    let turn = wish.turn;
    let (mut call, mut granted) = (wish.call.clone(), Vec::new());
    let act = Act::of(run, wish.call);
    let has_passed = |gate: &Gate| wish.looked.is_some_and(|it| it.has_passed(&gate.name));
    let is_looked_at =
        |gate: &&Gate| act.is_concern_of(gate, (turn, wish.call)) && !has_passed(gate);
    let gone = wish.looked.into_iter().flat_map(|looked| looked.gone(run));
    let mut gates: Vec<&Gate> = run.gates().chain(gone).filter(is_looked_at).collect();
    if let Act::Tool(tool) = act
        && !gates.is_empty()
        && call.deed.is_none()
    {
        call.deed = Some(Box::new(Deed::of(&call.tool, tool, &call.arguments)));
    }
    // What was refused before, here or in another run of the family, passes by no grant, and past no
    // condition (K11).
    let refused = !gates.is_empty() && is_refused(run, turn, &call);
    gates.retain(|gate| {
        let must = refused || wish.owes(gate).is_some();
        must || !is_granted((gate, run), &call, now, &mut granted)
    });
    let wish = Wish { call: &call, ..wish };
    if let Some(draft) = stopped_first(run, (wish, refused), act, &gates) {
        let asked = draft::ask(&run.workflow, draft, next.question, now);
        let passed = wish.looked.map(|looked| looked.passed.clone()).unwrap_or_default();
        return vec![Event::Asked(Box::new(Question { passed, ..asked }))];
    }
    if let Some(judge) = gates.iter().find_map(|gate| unheard(gate, wish.judged)) {
        return vec![judging::begins(judge, wish, next.turn, now)];
    }
    act.done(run, turn, call.clone(), granted)
}

/// What becomes of a call that somebody orders to be made again because nobody knows what came of it: nothing, where
/// it is made; a question, where a rule looks at it that it has not passed. Rules may have come into force since.
pub(super) fn again(run: &Run, question: &Question, next: Next, now: Millis) -> Vec<Event> {
    let Origin::LostOutcome(id) = &question.origin else { return Vec::new() };
    let turn = question.turn.and_then(|number| run.turns.get(&number));
    let found =
        turn.and_then(|turn| Some((turn, turn.calls.iter().find(|open| open.call.id == *id)?)));
    let Some((turn, open)) = found else { return Vec::new() };
    let (call, said, looked) = (&open.call, &turn.said, Some(&open.looked));
    let wish = Wish { turn, call, said, judged: &[], looked, is_step: false };
    let mut events = passed(run, wish, next, now);
    events.retain(|event| !matches!(event, Event::ToolCalled { .. }));
    events
}

/// What becomes of an act that was allowed at the gates that had asked: where a grant let it past another, and
/// is over by now, or where one has come into force since, that gate asks in its turn (K10).
pub(super) fn allowed(
    run: &Run,
    (question, call): (&Question, &ToolCall),
    next: Next,
    now: Millis,
) -> Vec<Event> {
    let number = question.turn.unwrap_or_default();
    let Some(turn) = run.turns.get(&number) else { return Vec::new() };
    let act = Act::of(run, call);
    let rules = question.rules();
    let passed = rules.iter().map(|rule| (*rule).to_owned()).chain(question.passed.clone());
    let (passed, mut granted): (Vec<String>, _) = (passed.collect(), Vec::new());
    let all = run.gates().filter(|gate| act.is_concern_of(gate, (turn, call)));
    let mut left: Vec<&Gate> = all.filter(|gate| !passed.contains(&gate.name)).collect();
    left.retain(|gate| !is_granted((gate, run), call, now, &mut granted));
    let wish = Wish { turn, call, said: &turn.said, judged: &[], looked: None, is_step: false };
    if let Some(draft) = stopped(run, (wish, false), act, &left) {
        let asked = draft::ask(&run.workflow, draft, next.question, now);
        return vec![Event::Asked(Box::new(Question { passed, ..asked }))];
    }
    act.done(run, turn, call.clone(), granted)
}

/// Whether exactly this was refused before: in this run, or in another of the family.
fn is_refused(run: &Run, turn: &Turn, call: &ToolCall) -> bool {
    if family::is_call_refused(run, &call.tool, &call.arguments) {
        return true;
    }
    if run.noes.is_empty() {
        return false;
    }
    let question = Question {
        step: turn.step.clone(),
        secrets: secret::of_call(&run.workflow, &call.tool, &call.arguments),
        confided: secret::confided(&run.workflow, &call.tool, &call.arguments),
        ..Question::bare(Kind::ToolApproval, Origin::Gate(Box::new(call.clone())))
    };
    !question.refused_by(&run.noes).is_empty()
}

/// What becomes of a call whose arguments a person changed at a gate (K10): it is a new action, and
/// every gate looks at it. Their own yes stands at the rules that had asked them; any other rule
/// asks, and so does one that wants nobody's own version.
pub(super) fn edited(
    run: &Run,
    (question, call): (&Question, &ToolCall),
    by: (&str, Footing<'_>),
    next: Next,
    now: Millis,
) -> Vec<Event> {
    let turn = question.turn.and_then(|number| run.turns.get(&number));
    let Some(turn) = turn else { return Vec::new() };
    let act = Act::of(run, call);
    let wish = Wish { turn, call, said: &turn.said, judged: &[], looked: None, is_step: false };
    let mut events = passed(run, wish, next, now);
    let asked = match (events.pop(), events.is_empty()) {
        (Some(Event::Asked(asked)), true) => asked,
        (last, _) => {
            events.extend(last);
            return events;
        }
    };
    let Origin::Gate(call) = asked.origin.clone() else { return vec![Event::Asked(asked)] };
    // Nobody's own yes stands for a look that the start asked for.
    if brought::is_brought(&asked) {
        return vec![Event::Asked(asked)];
    }
    if let Some(asked) = editing::left(run, (question, *asked), by, (Verb::AllowOnce, now)) {
        return vec![Event::Asked(Box::new(asked))];
    }
    act.done(run, turn, *call, Vec::new())
}

/// The first judge of a gate that has not spoken yet.
fn unheard<'a>(gate: &'a Gate, judged: &[Judgement]) -> Option<Judge<'a>> {
    gate.when.iter().find_map(|condition| {
        let Condition::Judge { agent, within_ms } = condition else { return None };
        let is_heard = judged.iter().any(|known| known.agent == *agent);
        (!is_heard).then_some(Judge { gate: &gate.name, agent, within_ms: *within_ms })
    })
}

/// The same, where a start's own gates ask before all others, and alone (`brought`).
fn stopped_first(
    run: &Run,
    (wish, refused): (Wish<'_>, bool),
    act: Act<'_>,
    gates: &[&Gate],
) -> Option<Draft> {
    let (own, others): (Vec<&Gate>, Vec<&Gate>) =
        gates.iter().partition(|gate| brought::is_named_so(&gate.name));
    let Some(mut draft) = stopped(run, (wish, refused), act, &own) else {
        return stopped(run, (wish, refused), act, &others);
    };
    let asks = |gate: &&Gate| Some((gate.name.clone(), why(gate, run, (wish, refused))?));
    let then: Vec<_> = others.iter().filter_map(asks).collect();
    brought::tell_then(&mut draft.context, &then);
    Some(draft)
}

/// Why a gate asks; nothing, if it does not. What was refused before is asked about by each of them.
pub(super) fn why(
    gate: &Gate,
    run: &Run,
    (wish, refused): (Wish<'_>, bool),
) -> Option<Vec<String>> {
    let before = || refused.then(|| vec!["refused before".to_owned()]);
    condition::reasons(gate, run, wish).or_else(before).or_else(|| wish.owes(gate))
}

/// The question that a call becomes, if any gate stops it.
fn stopped(
    run: &Run,
    (wish, refused): (Wish<'_>, bool),
    act: Act<'_>,
    gates: &[&Gate],
) -> Option<Draft> {
    let (turn, call) = (wish.turn, wish.call);
    let asks = |gate| why(gate, run, (wish, refused));
    let stops: Vec<_> = gates.iter().filter_map(|gate| Some((gate, asks(gate)?))).collect();
    let (first, _) = stops.first()?;
    let always = refused || stops.iter().any(|(gate, _)| gate.when.is_empty());
    let is_brought = stops.iter().any(|(gate, _)| brought::is_named_so(&gate.name));
    let lasting = (!always && !is_brought).then(|| {
        let grants = stops.iter().map(|(gate, _)| grant(gate, call, &[], ("", Millis(0))));
        grants.map(|grant| grant.words()).collect::<Vec<_>>()
    });
    let names: Vec<_> = stops.iter().map(|(gate, _)| gate.name.clone()).collect();
    let why: Vec<_> = stops.iter().flat_map(|(_, reasons)| reasons.clone()).collect();
    let asked = first.prompt.clone();
    let mut context = json!({
        "tool": call.tool,
        "arguments": call.arguments,
        "gates": names,
        "reasons": why,
    });
    if let Some(deed) = call.deed.as_ref().filter(|deed| deed.is_outside()) {
        context["destination"] = deed.destination.clone().into();
    }
    if let Some(lasting) = lasting {
        // What *allow for this run* would let through, in words: part of what is decided (K10).
        context["allow_for_run"] = lasting.into();
    }
    if !wish.judged.is_empty() {
        let verdict =
            |one: &Judgement| json!({"judge": one.agent, "ask": one.ask, "reason": one.reason});
        context["verdicts"] = wish.judged.iter().map(verdict).collect();
    }
    Some(Draft {
        step: turn.step.clone(),
        agent: (!turn.is_tools()).then(|| turn.agent.clone()),
        turn: Some(turn.number),
        origin: Origin::Gate(Box::new(call.clone())),
        kind: Kind::ToolApproval,
        prompt: asked.unwrap_or_else(|| act.asked(turn, call)),
        context,
        options: Vec::new(),
        schema: Some(if is_brought {
            plain_schema()
        } else {
            schema(&act.parameters(run, turn), !always, !turn.is_tools())
        }),
        patience: terms(stops.iter().map(|(gate, _)| **gate)),
        subject: None,
        decides: true,
        returns: false,
        editable: None,
        named: None,
    })
}

/// The terms of several gates as one: the shortest deadline with what silence means there, the most
/// frequent reminder; and where anybody is named, a stage for each rule that wants other people (K8).
pub(super) fn terms<'a>(gates: impl Iterator<Item = &'a Gate> + Clone) -> Patience {
    let all = gates.clone().map(|gate| &gate.patience);
    let timed = all.clone().filter(|patience| patience.deadline_ms.is_some());
    let first = timed.min_by_key(|patience| patience.deadline_ms);
    let by_digest = all.clone().any(|patience| patience.by_digest);
    let mut stages: Vec<Stage> = Vec::new();
    for gate in gates {
        for stage in own_stages(gate) {
            let same = |known: &&mut Stage| {
                Stage { rules: Vec::new(), within_ms: None, ..(**known).clone() }
                    == Stage { rules: Vec::new(), within_ms: None, ..stage.clone() }
            };
            match stages.iter_mut().find(same) {
                None => stages.push(stage),
                Some(known) => {
                    known.rules.extend(stage.rules);
                    known.within_ms = known.within_ms.into_iter().chain(stage.within_ms).min();
                }
            }
        }
    }
    let is_plain = stages.iter().all(|stage| {
        let names_nobody = stage.to.is_empty() && stage.not.is_empty();
        let is_said = stage.assurance.is_some();
        names_nobody && !is_said && stage.need <= 1 && stage.escalate.is_empty()
    });
    // Whoever is asked first has as long as the strictest of the rules gives anybody.
    if let (Some(stage), Some(patience)) = (stages.first_mut(), first) {
        stage.within_ms = stage.within_ms.into_iter().chain(patience.deadline_ms).min();
    }
    Patience {
        deadline_ms: first.and_then(|patience| patience.deadline_ms),
        on_timeout: first.map(|patience| patience.on_timeout.clone()).unwrap_or_default(),
        remind_ms: all.filter_map(|patience| patience.remind_ms).min(),
        to: Vec::new(),
        not: Vec::new(),
        assurance: None,
        approvers: if is_plain { Vec::new() } else { stages },
        by_digest,
    }
}

/// Whom a gate's question is asked of, stage by stage.
fn own_stages(gate: &Gate) -> Vec<Stage> {
    let patience = &gate.patience;
    let rules = vec![gate.name.clone()];
    if patience.approvers.is_empty() {
        return vec![Stage { rules, ..patience.only_stage() }];
    }
    let with_rules = |stage: &Stage| Stage { rules: rules.clone(), ..stage.clone() };
    patience.approvers.iter().map(with_rules).collect()
}

/// What *allow for this run* lets through at a gate: the same tool, up to the numbers that were shown (K10).
fn grant(gate: &Gate, call: &ToolCall, words: &[Vote], (by, at): (&str, Millis)) -> Grant {
    let bounds = gate.when.iter().filter_map(|condition| match condition {
        Condition::Argument { pointer, over } => {
            let number = call.arguments.pointer(pointer).and_then(Value::as_f64);
            Some((pointer.clone(), number.map_or(*over, |number| number.max(*over))))
        }
        Condition::Keywords(_)
        | Condition::Environment(_)
        | Condition::Uncertain
        | Condition::UncertainBy(_)
        | Condition::FailuresOver(_)
        | Condition::FailuresOf { .. }
        | Condition::Complex(_)
        | Condition::Judge { .. } => None,
    });
    Grant {
        gate: gate.name.clone(),
        tool: call.tool.clone(),
        bounds: bounds.collect(),
        hidden: std::collections::BTreeSet::new(),
        by: by.to_owned(),
        rests_on: words.to_vec(),
        at,
        until: gate.allow_ms.map(|ms| at.plus(ms)),
    }
}

/// What a person granted by *allow for this run*: at each of the gates that had asked, and no other. It rests on the words
/// of all who said so, theirs included.
pub(super) fn grants(run: &Run, question: &Question, call: &ToolCall, said: &Said) -> Vec<Grant> {
    let verb = Verb::AllowForRun.word().to_owned();
    let own = said.vote((verb, question.stage), run.updated_at);
    let mut words: Vec<Vote> = question.votes.iter().cloned().chain([own]).collect();
    // What was said in somebody's place rests on that having been handed over, too.
    let handed = words.iter().filter_map(|word| {
        let owner = word.instead_of.as_ref()?;
        let is_it = |handed: &&Delegation| handed.by == *owner && handed.to == word.by;
        let handed = question.delegations.iter().find(is_it)?;
        let (by, assurance) = (handed.by.clone(), handed.assurance);
        let (service, at, instead_of) = (handed.service.clone(), handed.at, None);
        Some(Vote { by, assurance, service, instead_of, at, ..word.clone() })
    });
    let handed: Vec<_> = handed.collect();
    words.extend(handed);
    let asked = question.rules();
    let gates = run.gates().filter(|gate| asked.contains(gate.name.as_str()));
    // A gate that always asks cannot be passed beforehand.
    let gates = gates.filter(|gate| !gate.when.is_empty());
    gates.map(|gate| grant(gate, call, &words, (&said.by, run.updated_at))).collect()
}

/// Whether a person allowed the call beforehand, and who; a gate that always asks cannot be passed so.
fn is_granted(
    (gate, run): (&Gate, &Run),
    call: &ToolCall,
    now: Millis,
    by: &mut Vec<(String, String)>,
) -> bool {
    // K8: what somebody allowed with a key that is gone is allowed no more.
    let is_theirs =
        |word: &Vote| run.operator.stands_by(&word.by, word.footing(), &run.workflow.name);
    let covers = |grant: &&Grant| {
        let is_within = grant.covers(&gate.name, &call.tool, &call.arguments, now);
        is_within && grant.rests_on.iter().all(is_theirs)
    };
    let grant = run.grants.iter().filter(|_| !gate.when.is_empty()).find(covers);
    by.extend(grant.map(|grant| (gate.name.clone(), grant.by.clone())));
    grant.is_some()
}

/// The schema of an answer; a gate that always asks cannot be passed for the rest of the run, and a
/// call is returned only to an agent, which can make another.
fn schema(arguments: &Value, may_allow_for_run: bool, may_return: bool) -> Value {
    let mut verbs = vec![Verb::AllowOnce, Verb::Deny, Verb::Edit];
    if may_allow_for_run {
        verbs.push(Verb::AllowForRun);
    }
    if may_return {
        verbs.push(Verb::Return);
    }
    let decisions: Vec<_> = verbs.into_iter().map(Verb::word).collect();
    let mut schema = json!({
        "type": "object",
        "properties": {
            "decision": {"enum": decisions},
            "arguments": crate::kernel::schema::within(arguments, "/properties/arguments"),
            "note": {"type": "string"},
        },
        "required": ["decision"],
        "additionalProperties": false,
        "if": {"properties": {"decision": {"const": Verb::Edit.word()}}},
        "then": {"required": ["decision", "arguments"]},
        // Arguments beside another word could mean two things (K7).
        "else": {"properties": {"arguments": false}},
    });
    if may_return {
        schema["allOf"] = json!([Verb::Return.note_rule()]);
    }
    schema
}

/// The same where a start's own gate asks: yes or no, and no words (`brought`).
fn plain_schema() -> Value {
    let decisions = [Verb::AllowOnce, Verb::Deny].map(Verb::word);
    json!({
        "type": "object",
        "properties": {"decision": {"enum": decisions}},
        "required": ["decision"],
        "additionalProperties": false,
    })
}

/// What a person's no tells the agent.
pub(super) fn denial(value: &Value, by: &str) -> Value {
    let note = value.get("note").map(readable).unwrap_or_default();
    let because = if note.is_empty() { String::new() } else { format!(": {note}") };
    if Verb::of(value) == Some(Verb::Return) {
        return Value::String(format!("Returned by {by}{because}. Change it so, and try again."));
    }
    Value::String(format!("Denied by {by}{because}. Do not do it."))
}
