//! What a person may be asked, and on what terms; the same in a sequence and in a graph.

use crate::definition::check::people::Whom;
use crate::definition::check::{Asked, Check, question};
use crate::definition::human::{HumanFile, OptionFile};
use crate::definition::patience::OnTimeoutFile;
use crate::definition::people::{ApproversFile, ExcludedFile, StageFile};
use crate::definition::source::under;
use crate::kernel::{Kind, Origin};
use serde_json::Value;

fn passes_by_silence(on_timeout: &OnTimeoutFile) -> bool {
    match on_timeout {
        OnTimeoutFile::Reject | OnTimeoutFile::EscalateTo(_) => false,
        OnTimeoutFile::Continue | OnTimeoutFile::DefaultAnswer(_) => true,
    }
}

impl Check<'_> {
    /// Whether a person's decision holds together.
    pub(super) fn decision(&mut self, pointer: &str, human: &HumanFile) {
        let kind = human.kind.kind();
        let ids: Vec<String> = human.options.iter().map(|option| option.choice().id).collect();
        let options = under(pointer, "options");
        self.unique(&options, ids.iter().map(String::as_str).enumerate());
        if let Some(index) = ids.iter().position(String::is_empty) {
            self.at(&under(&options, index), "field.range", "an option's id must not be empty");
        }
        let has_options = !human.options.is_empty() || human.options_from.is_some();
        self.request_type(pointer, human);
        if kind == Kind::Selection && !has_options && self.answer_schema(human).is_none() {
            let message = "a selection needs `options`, or in a graph `options_from`: what may be \
                           chosen";
            self.at_key(pointer, "question.options", message);
        }
        let schema = under(pointer, "response_schema");
        self.schema(&schema, human.response_schema.as_ref());
        if kind == Kind::Approval && human.response_schema.is_some() {
            let message = "an approval is answered by `approve` or `reject`; leave the schema out";
            self.at_key(&schema, "question.schema", message);
        }
        let asked = Asked {
            pointer,
            kind,
            origin: Origin::HumanStep,
            deadline: human.deadline.as_ref(),
            on_timeout: human.on_timeout.as_ref(),
            remind: human.remind.as_ref(),
        };
        self.patience(&asked);
        self.whom(
            pointer,
            &Whom {
                to: &human.to,
                not: &human.not,
                approvers: human.approvers.as_ref(),
                decides: !kind.may_pass_by_silence() || human.decides == Some(true),
                is_timed: human.deadline.is_some() || human.on_timeout.is_some(),
            },
        );
        if human.binding.is_some() && kind.may_pass_by_silence() && human.decides != Some(true) {
            let message = "`binding` goes with a decision: an approval, or `decides: true`";
            self.at_key(&under(pointer, "binding"), "question.binding", message);
        }
        self.editable(pointer, human);
        if human.decides == Some(true) && human.on_timeout.as_ref().is_some_and(passes_by_silence) {
            let message = "a decision does not pass by silence; `reject` or `escalate_to`";
            self.at_key(&under(pointer, "on_timeout"), "question.silence", message);
        }
        if kind.may_pass_by_silence() && human.options_from.is_none() {
            let mut question = question(&asked);
            question.options = human.options.iter().map(OptionFile::choice).collect();
            question.schema = self.answer_schema(human).cloned();
            self.default_answer(pointer, human.on_timeout.as_ref(), &question);
        }
    }

    /// The schema of the answer: the step's own, or that of its request type.
    pub(super) fn answer_schema<'h>(&'h self, human: &'h HumanFile) -> Option<&'h Value> {
        let named = human.named.as_ref().and_then(|name| self.file.request_types.get(name));
        human.response_schema.as_ref().or_else(|| named?.schema.as_ref())
    }

    /// A step's request type is there, and is of its kind.
    fn request_type(&mut self, pointer: &str, human: &HumanFile) {
        let Some(name) = &human.named else { return };
        let at = under(pointer, "type");
        let known = self.file.request_types.keys();
        if !self.known(&at, ("request type", "request_type.unknown"), name, known) {
            return;
        }
        let Some(named) = self.file.request_types.get(name) else { return };
        if named.kind() != human.kind.kind() {
            let word = named.kind().word();
            let message = format!("`{name}` is of the kind `{word}`, and this step is of another");
            self.at(&at, "request_type.kind", message);
        }
        if named.schema.is_some() && human.response_schema.is_some() {
            let message = format!("`{name}` has a schema of its own; keep one of the two");
            self.at_key(&under(pointer, "response_schema"), "question.schema", message);
        }
    }

    /// Every request type can be asked, and answered.
    pub(super) fn request_types(&mut self) {
        let file = self.file;
        self.names("/request_types", &file.request_types);
        for (name, known) in &file.request_types {
            let pointer = under("/request_types", name);
            if Kind::parse(name).is_some() {
                let message = format!("`{name}` is a kind of question already; take another name");
                self.at_key(&pointer, "name.reserved", message);
            }
            let at = under(&pointer, "schema");
            self.schema(&at, known.schema.as_ref());
            if known.is_unanswerable() {
                let message = "this schema refuses every answer: nobody could go on from it";
                self.at(&at, "request_type.unanswerable", message);
            }
            if known.kind() == Kind::Approval && known.schema.is_some() {
                let message =
                    "an approval is answered by `approve` or `reject`; leave the schema out";
                self.at_key(&at, "question.schema", message);
            }
        }
    }

    /// Whether what is edited can be: a subject, and somebody who passes the version.
    fn editable(&mut self, pointer: &str, human: &HumanFile) {
        let at = under(pointer, "editable");
        let Some(editable) = human.editable() else { return };
        self.schema(&under(&at, "schema"), editable.schema.as_ref());
        if human.kind.kind() != Kind::Approval {
            let message = "only an approval has something to edit; ask for words, or for a form with \
                           `response_schema`, where nothing is approved";
            self.at_key(&at, "question.editable", message);
            return;
        }
        let is_one = |to: &[String]| to.len() < 2 && !to.iter().any(|name| name.contains(':'));
        let bars = |not: &[ExcludedFile]| not.contains(&ExcludedFile::Editor);
        let stages = human.approvers.as_ref().map(ApproversFile::stages).unwrap_or_default();
        let is_stuck =
            |stage: &StageFile| bars(&stage.not) && is_one(&stage.to) && stage.escalate.is_empty();
        let alone = human.approvers.is_none() && bars(&human.not) && is_one(&human.to);
        if alone || stages.iter().any(is_stuck) {
            let message = "whoever is asked alone can edit it, and is then excluded by `not: [editor]`: \
                           nobody could pass their version; ask somebody else as well";
            self.at_key(&at, "approvers.impassable", message);
        }
    }
}
