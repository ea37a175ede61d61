//! Human steps of a graph: what may be asked, and on what terms.

use crate::definition::check::graph::type_of;
use crate::definition::check::{Asked, Check, question};
use crate::definition::file::OptionFile;
use crate::definition::graph::{AskedFile, OptionsFromFile};
use crate::definition::source::under;
use crate::kernel::expression::{Known, Type};
use crate::kernel::graph::{Ask, OptionsFrom, Task};
use crate::kernel::{Kind, Origin};

impl<'a> Check<'a> {
    /// A person's decision, and what an answer looks like.
    pub(super) fn asked_human(
        &mut self,
        pointer: &str,
        human: &'a AskedFile,
        known: &Known,
    ) -> Option<(Task, Type)> {
        let kind = human.kind.kind();
        let ids: Vec<String> = human.options.iter().map(|option| option.choice().id).collect();
        let options = under(pointer, "options");
        self.unique(&options, ids.iter().map(String::as_str).enumerate());
        if let Some(index) = ids.iter().position(String::is_empty) {
            self.at(&under(&options, index), "field.range", "an option's id must not be empty");
        }
        let schema = under(pointer, "response_schema");
        self.schema(&schema, human.response_schema.as_ref());
        let has_options = !human.options.is_empty() || human.options_from.is_some();
        if kind == Kind::Selection && !has_options && human.response_schema.is_none() {
            let message = "a selection needs `options` or `options_from`: what may be chosen";
            self.at_key(pointer, "question.options", message);
        }
        if !human.options.is_empty() && human.options_from.is_some() {
            let message = "what may be chosen is known beforehand or found in the run; keep one";
            self.at_key(&under(pointer, "options_from"), "question.options", message);
        }
        if kind == Kind::Approval && human.response_schema.is_some() {
            let message = "an approval is answered by `approve` or `reject`; leave the schema out";
            self.at_key(&schema, "question.schema", message);
        }
        self.silence(pointer, human, kind);
        let from = human.options_from.as_ref();
        let options_from = match from {
            Some(from) => Some(self.options_from(&under(pointer, "options_from"), from, known)?),
            None => None,
        };
        let ask = Ask {
            kind,
            prompt: self.template(&under(pointer, "prompt"), &human.prompt, known)?,
            context: self.form(&under(pointer, "context"), &human.context, known).0,
            options: human.options.iter().map(OptionFile::choice).collect(),
            options_from,
            response_schema: human.response_schema.clone(),
            patience: crate::definition::compile::patience(
                human.deadline.as_ref(),
                human.on_timeout.as_ref(),
            ),
        };
        let came = match kind {
            Kind::Approval => Type::Object {
                fields: [("decision".to_owned(), Type::Text), ("note".to_owned(), Type::Text)]
                    .into(),
                open: true,
            },
            Kind::Clarification
            | Kind::Selection
            | Kind::PlanReview
            | Kind::ToolApproval
            | Kind::OutcomeCheck => type_of(human.response_schema.as_ref(), Type::Text),
        };
        Some((Task::Human(Box::new(ask)), came))
    }

    fn silence(&mut self, pointer: &str, human: &AskedFile, kind: Kind) {
        let asked = Asked {
            remind: None,
            pointer,
            kind,
            origin: Origin::HumanStep,
            deadline: human.deadline.as_ref(),
            on_timeout: human.on_timeout.as_ref(),
        };
        self.patience(&asked);
        if kind.may_pass_by_silence() && human.options_from.is_none() {
            let mut question = question(&asked);
            question.options = human.options.iter().map(OptionFile::choice).collect();
            question.schema.clone_from(&human.response_schema);
            self.default_answer(pointer, human.on_timeout.as_ref(), &question);
        }
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
