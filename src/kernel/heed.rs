//! Heed: how a run learns what is secret in it, from what is said in marked places, and of whom it is known that they
//! know it: whoever said it there, and whoever decided over a call that has it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::kernel::editing;
use crate::kernel::event::Event;
use crate::kernel::graph::Frozen;
use crate::kernel::question::{Origin, Question, Subject};
use crate::kernel::run::Run;
use crate::kernel::secret;
use crate::kernel::veil::Veil;

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
        let mut learnt = given_in_marked(&question, value);
        if let Some(Subject::Shown(shown)) = question.subject.as_deref() {
            // What they put in the place of a secret that they were shown as a mask is secret as that was.
            if let Some(version) = editing::version(&question, value) {
                learnt.join(&self.veil.heed_version(shown, version));
            }
        }
        // An option that is made of a secret is told by another name, and chosen as itself.
        for option in question.options.iter().filter(|option| self.veil.is_secret(&option.id)) {
            learnt.learn(&Value::from(option.id.as_str()), &BTreeSet::new());
        }
        self.veil.heed(learnt, &[by]);
        // What they put in the place of a call's arguments is marked as those were, which they were shown.
        for (tool, arguments) in decided_over(&question) {
            self.heed_call(tool, arguments, Some(by));
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
fn decided_over(question: &Question) -> impl Iterator<Item = (&str, &Value)> {
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
