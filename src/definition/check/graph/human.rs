//! Human steps of a graph: what may be asked, and on what terms.

use crate::definition::check::Check;
use crate::definition::check::graph::type_of;
use crate::definition::graph::NodeFile;
use crate::definition::human::{HumanFile, OptionFile, OptionsFromFile};
use crate::definition::source::under;
use crate::kernel::Kind;
use crate::kernel::expression::{Known, Type};
use crate::kernel::graph::{Ask, OptionsFrom, Task};

impl<'a> Check<'a> {
    /// A decision is no step that a run can do without: what comes after it would be done without a yes (K7).
    pub(super) fn cannot_be_let_go(&mut self, pointer: &str, node: &NodeFile) {
        if node.critical == Some(false) && node.human.as_ref().is_some_and(HumanFile::decides) {
            let message = "a decision cannot be let go: what comes after it would be done without a yes; \
                           leave `critical` out, or put what it guards into a block with it";
            self.at_key(&under(pointer, "critical"), "question.critical", message);
        }
    }

    /// A person's decision, and what an answer looks like.
    pub(super) fn asked_human(
        &mut self,
        pointer: &str,
        human: &'a HumanFile,
        known: &Known,
    ) -> Option<(Task, Type)> {
        let kind = human.kind.kind();
        self.decision(pointer, human);
        if human.editable().is_some() && human.show.is_null() {
            let message =
                "say with `show` what is edited: in a graph several steps may have spoken";
            self.at_key(&under(pointer, "editable"), "question.editable", message);
        }
        if !human.options.is_empty() && human.options_from.is_some() {
            let message = "what may be chosen is known beforehand or found in the run; keep one";
            self.at_key(&under(pointer, "options_from"), "question.options", message);
        }
        let from = human.options_from.as_ref();
        let options_from = match from {
            Some(from) => Some(self.options_from(&under(pointer, "options_from"), from, known)?),
            None => None,
        };
        let ask = Ask {
            kind,
            named: human.named.clone(),
            prompt: self.template(&under(pointer, "prompt"), &human.prompt, known)?,
            context: self.form(&under(pointer, "context"), &human.context, known).0,
            options: human.options.iter().map(OptionFile::choice).collect(),
            options_from,
            response_schema: human.response_schema.clone(),
            show: self.form(&under(pointer, "show"), &human.show, known).0,
            decides: human.decides == Some(true),
            editable: human.editable(),
            patience: human.patience(),
        };
        let came = match kind {
            Kind::Approval => Type::Object {
                fields: [
                    ("decision".to_owned(), Type::Text),
                    ("note".to_owned(), Type::Text),
                    ("subject".to_owned(), Type::Any),
                    ("edited_by".to_owned(), Type::Text),
                ]
                .into(),
                open: true,
            },
            Kind::Clarification
            | Kind::Selection
            | Kind::PlanReview
            | Kind::ToolApproval
            | Kind::OutcomeCheck => type_of(self.answer_schema(human), Type::Text),
        };
        Some((Task::Human(Box::new(ask)), came))
    }

    fn options_from(
        &mut self,
        pointer: &str,
        from: &OptionsFromFile,
        known: &Known,
    ) -> Option<OptionsFrom> {
        let at = under(pointer, "items");
        let (items, came) = self.expression(&at, &from.items, known)?;
        let mut known = known.clone();
        known.variables.insert("option".into(), self.item_of(&at, &came));
        let mut template = |field: &str, text: &Option<String>| {
            let text = text.as_ref()?;
            self.template(&under(pointer, field), text, &known)
        };
        let label = template("label", &from.label);
        let description = template("description", &from.description);
        let id = template("id", &Some(from.id.clone()))?;
        Some(OptionsFrom { items, id, label, description })
    }

    /// The type of a list's items; a problem, where it cannot be a list.
    pub(super) fn item_of(&mut self, pointer: &str, list: &Type) -> Type {
        match list {
            Type::List(item) => (**item).clone(),
            Type::Any => Type::Any,
            other @ (Type::Null | Type::Bool | Type::Number | Type::Text | Type::Object { .. }) => {
                let message = format!("expected a list, not {}", other.word());
                self.at(pointer, "expression.type", message);
                Type::Any
            }
        }
    }
}
