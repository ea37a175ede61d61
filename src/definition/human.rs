//! Human: what a person decides at a step, as it is written in YAML, and what that means. Where the step stands is
//! not known here.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::definition::patience::{OnTimeoutFile, patience};
use crate::definition::people::{ApproversFile, AssuranceFile, BindingFile, ExcludedFile};
use crate::definition::time::LengthOfTime;
use crate::kernel::workflow::{Editable, Human, Patience};
use crate::kernel::{Choice, Kind, duration_ms};

/// What a person decides.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HumanFile {
    /// What kind of decision.
    pub(super) kind: KindFile,
    /// Which of the file's `request_types` it is of; its schema is that of the answer.
    #[serde(rename = "type")]
    pub(super) named: Option<String>,
    /// What is asked; in a graph, with `${…}` in it.
    #[schemars(length(min = 1))]
    pub(super) prompt: String,
    /// Facts to decide by; in a graph, with `${…}` in them.
    #[serde(default)]
    pub(super) context: Value,
    /// What is decided, with `${…}` in it: it is shown first, frozen when it is asked, and later steps
    /// of a graph have it as `${steps.ID.subject}`. What was said last unless given.
    #[serde(default)]
    pub(super) show: Value,
    /// With an approval: whoever decides may put a version of their own in the place of what is shown, and
    /// that is what goes on. `true`, or `{schema: …}` with the JSON Schema of a version; of the same shape as
    /// what is shown unless given. With `need` above 1 a version is asked about anew, and what others have
    /// said to the one before counts for nothing.
    pub(super) editable: Option<EditableFile>,
    /// Whether the answer lets something happen although it is no approval: it then must name its
    /// question, and silence is a no. `false` says that words are meant to be enough, and `check` does
    /// not warn.
    pub(super) decides: Option<bool>,
    /// What may be chosen, where it is known beforehand.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub(super) options: Vec<OptionFile>,
    /// In a graph: what may be chosen, where it is found in the run.
    pub(super) options_from: Option<OptionsFromFile>,
    /// The JSON Schema of the answer, where the kind's own is not enough.
    pub(super) response_schema: Option<Value>,
    /// How long it waits for an answer; for ever unless given.
    pub(super) deadline: Option<LengthOfTime>,
    /// What silence means at the deadline; `reject` unless given.
    pub(super) on_timeout: Option<OnTimeoutFile>,
    /// How long after the asking, and then again and again, whoever should answer is reminded.
    pub(super) remind: Option<LengthOfTime>,
    /// Whom it is addressed to: people by name, `group:NAME`, `role:NAME`; whoever owns the session
    /// unless given.
    #[serde(default)]
    #[schemars(length(min = 1, max = 32))]
    pub(super) to: Vec<String>,
    /// Whom it never admits.
    #[serde(default)]
    pub(super) not: Vec<ExcludedFile>,
    /// Who is asked, stage by stage, and how many must agree; in place of `to`.
    pub(super) approvers: Option<ApproversFile>,
    /// How well whoever decides must be known: `proven` (a key of their own, the console) or `vouched`
    /// (a service's word); as the operator says unless given.
    pub(super) assurance: Option<AssuranceFile>,
    /// `digest`: it is answered only with the digest of what was shown; a request id or a printed
    /// code alone is refused. The terminal, the console and the chat send it themselves.
    pub(super) binding: Option<BindingFile>,
}

/// Whether a version may be put in the place of what is shown.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum EditableFile {
    /// Whether it may.
    Is(bool),
    /// It may, and this is what a version looks like.
    As(VersionFile),
}

/// What a version looks like.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct VersionFile {
    /// Its JSON Schema.
    pub(super) schema: Value,
}

/// What kind of decision a person is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum KindFile {
    /// Something that must be known to go on.
    Clarification,
    /// One of several options.
    Selection,
    /// A yes or a no; silence is a no.
    Approval,
}

/// Something that may be chosen: its id, or its id with a label and a description.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum OptionFile {
    /// What the answer says.
    Id(String),
    /// What the answer says, and what a person reads.
    Full(OptionFields),
}

/// An option with what a person reads.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OptionFields {
    /// What the answer says.
    pub(super) id: String,
    /// What a person reads; the id unless given.
    #[serde(default)]
    pub(super) label: String,
    /// More about it.
    #[serde(default)]
    pub(super) description: String,
}

/// Options that are found in the run. An item is called `option` in the texts.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OptionsFromFile {
    /// An expression for the list.
    pub(super) items: String,
    /// What the answer says: `${option.id}`.
    pub(super) id: String,
    /// What a person reads.
    pub(super) label: Option<String>,
    /// More about it.
    pub(super) description: Option<String>,
}

impl HumanFile {
    /// The decision that a checked file means.
    pub(super) fn compile(&self) -> Human {
        Human {
            kind: self.kind.kind(),
            named: self.named.clone(),
            prompt: self.prompt.clone(),
            context: self.context.clone(),
            options: self.options.iter().map(OptionFile::choice).collect(),
            response_schema: self.response_schema.clone(),
            show: self.show.as_str().map(str::to_owned),
            decides: self.decides == Some(true),
            editable: self.editable(),
            patience: self.patience(),
        }
    }

    /// Whether it decides: by its kind, or because the file says so.
    pub(super) fn decides(&self) -> bool {
        !self.kind.kind().may_pass_by_silence() || self.decides == Some(true)
    }

    /// Whether a version may be put in the place of what is shown, and what it looks like.
    pub(super) fn editable(&self) -> Option<Editable> {
        match self.editable.as_ref()? {
            EditableFile::Is(false) => None,
            EditableFile::Is(true) => Some(Editable::default()),
            EditableFile::As(version) => Some(Editable { schema: Some(version.schema.clone()) }),
        }
    }

    /// How long it waits, and what happens then.
    pub(super) fn patience(&self) -> Patience {
        Patience {
            remind_ms: self.remind.as_ref().and_then(|time| duration_ms(&time.0)),
            to: self.to.clone(),
            not: ExcludedFile::compile(&self.not),
            assurance: self.assurance.map(AssuranceFile::compile),
            approvers: ApproversFile::compile(self.approvers.as_ref(), self.assurance),
            by_digest: self.binding.is_some(),
            ..patience(self.deadline.as_ref(), self.on_timeout.as_ref())
        }
    }
}

impl KindFile {
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Clarification => Kind::Clarification,
            Self::Selection => Kind::Selection,
            Self::Approval => Kind::Approval,
        }
    }
}

impl OptionFile {
    pub(super) fn choice(&self) -> Choice {
        match self {
            Self::Id(id) => {
                Choice { id: id.clone(), label: String::new(), description: String::new() }
            }
            Self::Full(full) => Choice {
                id: full.id.clone(),
                label: full.label.clone(),
                description: full.description.clone(),
            },
        }
    }
}
