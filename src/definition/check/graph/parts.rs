//! Expressions, templates and gates of a graph's steps, each checked where it stands.

use serde_json::Value;

use crate::definition::check::{Asked, Check};
use crate::definition::graph::{Mode, PhaseGateFile};
use crate::definition::patience::patience;
use crate::definition::people::{ApproversFile, AssuranceFile, ExcludedFile};
use crate::definition::source::under;
use crate::kernel::expression::{Expression, Form, Known, Template, Type, Wrong};
use crate::kernel::graph::{ATTEMPTS_DEFAULT, After, PhaseGate, REDO_DEFAULT, REVISE_DEFAULT};
use crate::kernel::workflow::Patience;
use crate::kernel::{Kind, Origin, duration_ms};

impl Check<'_> {
    /// What is wrong with an expression, at its own character.
    pub(super) fn wrong(&mut self, pointer: &str, text: &str, wrong: &Wrong) {
        let problem =
            self.source.at_char(pointer, (text, wrong.at), wrong.code, wrong.message.clone());
        self.problems.push(problem);
    }

    /// An expression, and its type. It may be written as `${…}` as well.
    pub(in crate::definition::check) fn expression(
        &mut self,
        pointer: &str,
        text: &str,
        known: &Known,
    ) -> Option<(Expression, Type)> {
        let (inner, moved) = bare(text);
        let checked = Expression::parse(inner)
            .and_then(|expression| expression.check(known).map(|came| (expression, came)));
        match checked {
            Ok(found) => Some(found),
            Err(wrong) => {
                self.wrong(pointer, text, &Wrong { at: wrong.at + moved, ..wrong });
                None
            }
        }
    }

    /// An expression that is true or false.
    pub(in crate::definition::check) fn condition(
        &mut self,
        pointer: &str,
        text: &str,
        known: &Known,
    ) -> Option<Expression> {
        let (expression, _) = self.expression(pointer, text, known)?;
        if let Err(wrong) = expression.check_condition(known) {
            self.wrong(pointer, text, &wrong);
        }
        Some(expression)
    }

    /// A text with `${…}` in it.
    pub(in crate::definition::check) fn template(
        &mut self,
        pointer: &str,
        text: &str,
        known: &Known,
    ) -> Option<Template> {
        let checked = Template::parse(text).and_then(|template| {
            template.check(known)?;
            Ok(template)
        });
        checked.map_err(|wrong| self.wrong(pointer, text, &wrong)).ok()
    }

    /// A value with `${…}` in its texts, and its type.
    pub(super) fn form(&mut self, pointer: &str, value: &Value, known: &Known) -> (Form, Type) {
        let checked =
            Form::parse(value).and_then(|form| form.check(known).map(|came| (form, came)));
        checked.unwrap_or_else(|(inner, wrong)| {
            let text = value.pointer(&inner).and_then(Value::as_str).unwrap_or_default().to_owned();
            self.wrong(&format!("{pointer}{inner}"), &text, &wrong);
            (Form::default(), Type::Any)
        })
    }

    /// Where a person looks at a step.
    pub(in crate::definition::check) fn phase_gate(
        &mut self,
        pointer: &str,
        gate: &PhaseGateFile,
        known: &Known,
    ) -> Option<PhaseGate> {
        let modes = gate.mode.all();
        let has = |mode: Mode| modes.contains(&mode);
        let at = under(pointer, "mode");
        if modes.is_empty() {
            self.at(&at, "gate.unbound", "a gate needs a `mode`, such as `before_step`");
        }
        if has(Mode::Never) && modes.len() > 1 {
            let message = "`never` and another mode contradict each other; keep one";
            self.at(&at, "gate.contradiction", message);
        }
        if has(Mode::PlanReview) && (has(Mode::AfterStep) || has(Mode::Both)) {
            let message = "a plan is reviewed when it is done; take `after_step` or `both` out";
            self.at(&at, "gate.contradiction", message);
        }
        let after = if has(Mode::PlanReview) {
            After::Review
        } else if has(Mode::AfterStep) || has(Mode::Both) {
            After::Look
        } else {
            After::Nothing
        };
        let (before, on_error) = (has(Mode::BeforeStep) || has(Mode::Both), has(Mode::OnError));
        if gate.redo.is_some() && after == After::Nothing {
            let message = "`redo` goes with `after_step`, `both` or `plan_review`";
            self.at_key(&under(pointer, "redo"), "gate.contradiction", message);
        }
        if gate.attempts.is_some() && !on_error {
            let message = "`attempts` goes with `on_error`";
            self.at_key(&under(pointer, "attempts"), "gate.contradiction", message);
        }
        if has(Mode::Never) && (gate.prompt.is_some() || gate.deadline.is_some()) {
            let message = "nobody is asked with `never`; take what is asked and until when out";
            self.at(pointer, "gate.contradiction", message);
        }
        let prompt = gate.prompt.as_ref();
        let prompt = prompt.and_then(|text| self.template(&under(pointer, "prompt"), text, known));
        self.patience(&Asked {
            pointer,
            kind: Kind::Approval,
            origin: Origin::HumanStep,
            deadline: gate.deadline.as_ref(),
            on_timeout: gate.on_timeout.as_ref(),
            remind: gate.remind.as_ref(),
        });
        self.whom(pointer, &gate.whom());
        let redo = if after == After::Review { REVISE_DEFAULT } else { REDO_DEFAULT };
        let looks = before || on_error || after != After::Nothing;
        looks.then(|| PhaseGate {
            before,
            after,
            on_error,
            prompt,
            redo: gate.redo.unwrap_or(redo),
            attempts: gate.attempts.unwrap_or(ATTEMPTS_DEFAULT),
            patience: Patience {
                remind_ms: gate.remind.as_ref().and_then(|time| duration_ms(&time.0)),
                to: gate.to.clone(),
                not: ExcludedFile::compile(&gate.not),
                assurance: gate.assurance.map(AssuranceFile::compile),
                approvers: ApproversFile::compile(gate.approvers.as_ref(), gate.assurance),
                by_digest: gate.binding.is_some(),
                ..patience(gate.deadline.as_ref(), gate.on_timeout.as_ref())
            },
        })
    }
}

/// An expression without the `${…}` around it, and how many characters that took away before it.
fn bare(text: &str) -> (&str, usize) {
    let inner = text.trim().strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    match inner {
        Some(inner) if !inner.contains('}') => {
            let before = text.chars().take_while(|c| c.is_whitespace()).count();
            (inner, before + 2)
        }
        Some(_) | None => (text, 0),
    }
}
