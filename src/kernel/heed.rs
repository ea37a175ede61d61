//! Heed: how a run learns what is secret in it, from what is said in marked places and in the places of secrets, and of
//! whom it is known that they know it: whoever said it there, and whoever answered a question that showed it to them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::kernel::apart::Veil;
use crate::kernel::editing;
use crate::kernel::event::Event;
use crate::kernel::gate::{self, Ruling};
use crate::kernel::graph::Frozen;
use crate::kernel::question::{Origin, Question, Subject};
use crate::kernel::run::Run;
use crate::kernel::secret;
use crate::kernel::sieve::Sieve;
use crate::kernel::veil;

impl Run {
    /// Learns what an event says in marked places. Before it is folded in: by then what it answers is gone.
    pub(super) fn heed_secrets(&mut self, event: &Event) {
        if let Event::Answered { ordinal, value, by, .. }
        | Event::Voted { ordinal, value, by, .. } = event
        {
            self.heed_answer(*ordinal, value, by);
        }
        if !self.workflow.secretive {
            return;
        }
        if let Event::MessageAdded { message, .. } = event {
            for call in &message.calls {
                self.heed_call(&call.tool, &call.arguments, None);
            }
        }
        if let Event::ToolCalled { call, .. } = event {
            self.heed_call(&call.tool, &call.arguments, None);
        }
        if let Event::Asked(question) = event {
            for (tool, arguments) in decided_over(question) {
                self.heed_call(tool, arguments, None);
            }
        }
    }

    fn heed_answer(&mut self, ordinal: u32, value: &Value, by: &str) {
        let Some(question) = self.questions.get(&ordinal).map(Arc::clone) else { return };
        let shown = self.veil.shown_in(&question);
        let mut learnt = given_in_marked(&question, value);
        learnt.join(&self.veil.put_in_place(&question, value));
        // An option that is made of a secret is told by another name, and chosen as itself.
        for option in question.options.iter().filter(|option| self.veil.is_secret(&option.id)) {
            learnt.learn(&Value::from(option.id.as_str()), &BTreeSet::new());
        }
        self.veil.heed(learnt, &[by]);
        // They may say again what they were shown; what was a mask to them would tell by another that they guessed it.
        self.veil.heed(shown, &[by]);
        // What they put in the place of a call's arguments is marked as those were.
        for (tool, _) in decided_over(&question) {
            for said in value.as_object().into_iter().flat_map(|all| all.values()) {
                self.heed_call(tool, said, Some(by));
            }
        }
    }

    /// Whether it knows of something secret once it has heard this answer, by which it may be the first. Of calls that a
    /// definition marks nothing is asked here: what belongs to such a run is hidden from its beginning.
    pub(super) fn knows_by(&self, event: &Event) -> bool {
        let (Event::Answered { ordinal, value, .. } | Event::Voted { ordinal, value, .. }) = event
        else {
            return false;
        };
        let asked = self.questions.get(ordinal);
        let tells = |question: &Arc<Question>| !given_in_marked(question, value).is_nothing();
        !self.veil.is_nothing() || asked.is_some_and(tells)
    }

    fn heed_call(&mut self, tool: &str, arguments: &Value, by: Option<&str>) {
        let places = secret::all_of_call(&self.workflow, tool, arguments);
        let schema = self.workflow.tools.get(tool).and_then(|tool| tool.parameters.as_ref());
        let mut learnt = Veil::default();
        learnt.learn_at(arguments, (schema, &places));
        self.veil.heed(learnt, by.as_slice());
    }

    /// What it is given, by the schema of that.
    pub(super) fn heed_input(&mut self) {
        if let Some(schema) = self.workflow.input.clone().filter(|_| self.workflow.secretive) {
            let places = secret::marked(&schema, &self.input);
            let mut learnt = Veil::default();
            learnt.learn_at(&self.input, (Some(&schema), &places));
            let by = self.requesters.iter().chain([&self.owner]).map(String::as_str);
            self.veil.heed(learnt, &by.collect::<Vec<_>>());
        }
    }
}

impl Veil {
    /// What of it a question shows as it is to whoever answers it.
    pub(super) fn shown_in(&self, question: &Question) -> Self {
        if self.is_nothing() {
            return Self::default();
        }
        let mut bare = veil::bare(question);
        let known = question.context.get("arguments").filter(|_| question.knows_call);
        bare.extend(known.cloned());
        let sieve = Sieve::of(self);
        Self(bare.iter().flat_map(|shown| sieve.told_in(shown)).collect())
    }

    /// What an answer puts in the place of a secret: that is as secret, whether they were shown what stood there or a mask.
    fn put_in_place(&self, question: &Question, value: &Value) -> Self {
        if let Some(Subject::Shown(shown)) = question.subject.as_deref() {
            let version = editing::version(question, value);
            return version.map(|it| self.heed_version(shown, it)).unwrap_or_default();
        }
        match (decided_over(question).next(), gate::ruling(value)) {
            (Some((_, arguments)), Ruling::Edit(others)) => self.heed_version(arguments, &others),
            (
                Some(_) | None,
                Ruling::Edit(_) | Ruling::AllowOnce | Ruling::AllowForRun | Ruling::Deny,
            ) => Self::default(),
        }
    }

    /// What stands in a version where a secret stood in what was shown. A secret in the midst of a text has no place of its
    /// own: of such a text nothing is learnt.
    pub(super) fn heed_version(&self, shown: &Value, version: &Value) -> Self {
        let mut learnt = Self::default();
        replaced(&Sieve::of(self), (shown, version), &mut learnt);
        learnt
    }
}

fn replaced(sieve: &Sieve<'_>, pair: (&Value, &Value), learnt: &mut Veil) {
    match pair {
        (Value::Object(shown), Value::Object(version)) => {
            for (name, version) in version {
                if let Some(shown) = shown.get(name) {
                    replaced(sieve, (shown, version), learnt);
                }
            }
        }
        (Value::Array(shown), Value::Array(version)) => {
            // Items that were added are like the others.
            let others = shown.last().into_iter().cycle();
            for pair in shown.iter().chain(others).zip(version) {
                replaced(sieve, pair, learnt);
            }
        }
        (shown, version) if sieve.is_whole(shown).is_some() => {
            learnt.learn(version, &BTreeSet::new());
        }
        (_, _) => {}
    }
}

/// What an answer says in places that its question marks.
fn given_in_marked(question: &Question, value: &Value) -> Veil {
    let mut learnt = Veil::default();
    for schema in question.schema.iter().chain(&question.editable) {
        let members = value.as_object().into_iter().flat_map(|all| all.values());
        for said in members.chain([value]) {
            learnt.learn_at(said, (Some(schema), &secret::marked(schema, said)));
        }
    }
    learnt
}

/// The tool and the arguments of the call that a question decides over, if it does over one.
pub(super) fn decided_over(question: &Question) -> impl Iterator<Item = (&str, &Value)> {
    let gated = match &question.origin {
        Origin::Gate(call) => Some((call.tool.as_str(), &call.arguments)),
        Origin::HumanStep
        | Origin::UserTurn
        | Origin::Directive
        | Origin::ToolCall(_)
        | Origin::LostOutcome(_)
        | Origin::Budget(_)
        | Origin::Phase(_) => None,
    };
    let frozen = match question.subject.as_deref() {
        Some(Subject::Task(Frozen::Tool { tool, arguments, .. })) => {
            Some((tool.as_str(), arguments))
        }
        Some(_) | None => None,
    };
    gated.into_iter().chain(frozen)
}
