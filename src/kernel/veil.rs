//! Veil: what a run knows to be secret, and what that becomes elsewhere. In a journal the value stands apart, and
//! a hash of it with a salt of its own in its place: what is hashed and handed out can be read without it. At
//! the doors a mask stands there. What is marked is `secret`'s to say; who sees it, the engine's.
//!
//! A secret is known by its value from the moment it is said in a marked place, and hidden wherever it is said
//! again: in a message, a prompt, a result. But whoever does not know it cannot tell it: in their own words it is not
//! looked for where it could be found by trying, or they would be told by a mask which of their guesses was right.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::kernel::aside::Aside;
use crate::kernel::event::Event;
use crate::kernel::failure::Failure;
use crate::kernel::graph::Frozen;
use crate::kernel::message::{Message, ToolCall};
use crate::kernel::question::{Origin, Question, Subject};
use crate::kernel::run::{Run, Status};
use crate::kernel::schema::Mismatch;
use crate::kernel::secret;
use crate::kernel::sieve::{Hiding, Masking, Revealing, Sieve};
use crate::kernel::spelling::spellings;
use crate::kernel::texts::{self, Visitor as _};
use crate::kernel::verb::Verb;
use crate::kernel::workflow::Workflow;

pub use crate::kernel::apart::{Apart, Veil};

/// Events as they are hashed, and what stands apart from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// The events, with hashes in the places of secrets.
    pub events: Vec<Event>,
    /// The secrets.
    pub apart: Vec<Apart>,
}

impl Veil {
    /// Whether nothing is secret.
    pub fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// How much is.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether another knows all that this one does.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// A veil over what lies at these places of a call's arguments.
    fn over_places(arguments: Option<&Value>, places: &[String]) -> Self {
        let mut veil = Self::default();
        for at in places {
            if let Some(secret) = arguments.and_then(|arguments| arguments.pointer(at)) {
                veil.learn(secret, &BTreeSet::new());
            }
        }
        veil
    }

    /// As it is told to a run that goes on from this one.
    pub fn told(self) -> Vec<String> {
        self.0.into_iter().collect()
    }

    /// Knows what another knows.
    pub fn join(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// Knows these, as JSON.
    pub(super) fn knows(&mut self, told: &[String]) {
        self.0.extend(told.iter().cloned());
    }

    /// Knows what was learnt, and who said it or was shown it. Of what was known before and nobody had said in a
    /// marked place (an agent brought it in a call), it stays open who knows it: it is looked for in everybody's words.
    pub(super) fn heed(&mut self, learnt: Self, by: &[&str]) {
        let givers = self.givers();
        let open = |it: &&String| !self.0.contains(*it) || givers.contains_key(*it);
        let named: Vec<_> = learnt.0.iter().filter(open).collect();
        let pairs =
            named.iter().flat_map(|it| by.iter().map(move |who| json!([who, it]).to_string()));
        let pairs: Vec<_> = pairs.collect();
        self.0.extend(pairs);
        self.0.extend(learnt.0);
    }

    /// Who is known to know what, by its JSON.
    pub(super) fn givers(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut givers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let pairs = self.0.iter().filter(|it| it.starts_with('['));
        for (who, it) in pairs.filter_map(|it| serde_json::from_str::<(String, String)>(it).ok()) {
            givers.entry(it).or_default().insert(who);
        }
        givers
    }

    /// Whether a text is one.
    pub(super) fn is_secret(&self, text: &str) -> bool {
        self.0.contains(&Value::from(text).to_string())
    }

    /// Learns a value, and whatever is in it, but for the names that the file itself gives to members. A yes or a no
    /// is not hidden: its place says as much.
    pub(super) fn learn(&mut self, value: &Value, named: &BTreeSet<String>) {
        match value {
            Value::String(text) if text.is_empty() => {}
            Value::String(text) => {
                // As whole values; within others, any spelling is found by the text.
                let spelled = spellings(text).into_iter();
                self.0.extend(spelled.map(|spelling| Value::from(spelling).to_string()));
                self.0.insert(value.to_string());
            }
            Value::Number(number) => {
                self.0.insert(number.to_string());
                self.0.insert(Value::from(number.to_string()).to_string());
                // As a sentence has it: 73.0 is said 73.
                let said = number.as_f64().map(|said| said.to_string());
                self.0.extend(said.map(|said| Value::from(said).to_string()));
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn(item, named)),
            Value::Object(members) => {
                for (name, value) in members {
                    if !named.contains(name) {
                        self.learn(&Value::from(name.as_str()), named);
                    }
                    self.learn(value, named);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    pub(super) fn learn_at(
        &mut self,
        value: &Value,
        (schema, places): (Option<&Value>, &[(String, secret::From)]),
    ) {
        let mut named = BTreeSet::new();
        if let Some(schema) = schema.filter(|_| !places.is_empty()) {
            secret::names(schema, &mut named);
        }
        for (at, _) in places {
            if let Some(secret) = value.pointer(at) {
                self.learn(secret, &named);
            }
        }
    }

    /// The same veil over all but a value and what is in it.
    fn but_for(&self, value: &Value) -> Self {
        let mut known = Self::default();
        known.learn(value, &BTreeSet::new());
        Self(self.0.difference(&known.0).cloned().collect())
    }

    /// A text as it is shown to whoever does not decide.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.masked(None, text)
    }

    /// The same of a text in somebody's own words.
    pub fn words<'a>(&self, who: &str, text: &'a str) -> Cow<'a, str> {
        self.masked(Some(who), text)
    }

    fn masked<'a>(&self, who: Option<&str>, text: &'a str) -> Cow<'a, str> {
        if self.is_nothing() {
            return text.into();
        }
        let mut masked = text.to_owned();
        self.masking_words(who, |mask| mask.text(&mut masked));
        masked.into()
    }

    /// The same of a value.
    #[must_use]
    pub fn value(&self, mut value: Value) -> Value {
        self.masking(|mask| mask.value(&mut value));
        value
    }

    /// The same of a value that somebody has said, in their own words.
    #[must_use]
    pub fn said(&self, who: &str, mut value: Value) -> Value {
        self.masking_words(Some(who), |mask| mask.value(&mut value));
        value
    }

    /// The same of an event.
    #[must_use]
    pub fn event(&self, mut event: Event) -> Event {
        let who = texts::speaker(&event).map(str::to_owned);
        self.masking_words(who.as_deref(), |mask| texts::of_event(&mut event, mask));
        // What the journal keeps for itself is nobody's to be shown: what was secret in earlier runs stands in it, and
        // what nonces are drawn from.
        if let Event::Started(started) = &mut event {
            started.hides.clear();
        }
        if let Some(seed) = event.seed_mut() {
            seed.clear();
        }
        // A key may be made of what was said; whoever sent it has it.
        if let Event::Answered { key, .. } | Event::Voted { key, .. } = &mut event
            && !self.is_nothing()
        {
            key.clear();
        }
        event
    }

    /// The same of why something went wrong.
    pub fn failure(&self, failure: &mut Failure) {
        self.masking(|mask| texts::of_failure(failure, mask));
    }

    /// The same of a question. It says of itself whether anything in it is hidden.
    #[must_use]
    pub fn question(&self, question: Arc<Question>) -> Arc<Question> {
        if self.is_nothing() {
            return question;
        }
        let mut masked = (*question).clone();
        self.masking(|mask| texts::of_question(&mut masked, mask));
        if masked == *question {
            return question;
        }
        masked.is_veiled = true;
        masked.aside = Aside(Some(Arc::new(self.decided(&question))));
        Arc::new(masked)
    }

    /// A question as those who decide are shown it. The call that they decide over they see as its tool marks it, or
    /// they would not know what they let happen (K3); what stands anywhere else (a subject, a prompt, facts, options)
    /// was given in a marked field to somebody else, and is theirs only where this question marks it, too.
    fn decided(&self, question: &Question) -> Question {
        let call = called(question);
        let veil = bare(question).iter().fold(self.clone(), |veil, own| veil.but_for(own));
        let mut shown = question.clone();
        veil.masking(|mask| texts::of_question(&mut shown, mask));
        // What an answer must look like is the file's to say, and whoever answers must know it.
        shown.schema.clone_from(&question.schema);
        if call.is_some() {
            shown.origin = question.origin.clone();
            shown.subject.clone_from(&question.subject);
            // Where it hides something is said of it as it is.
            shown.secrets.clone_from(&question.secrets);
            shown.confided.clone_from(&question.confided);
        }
        if call.is_some() || question.knows_call {
            for place in ["arguments", "destination", "task"] {
                let own = question.context.get(place).cloned();
                if let (Some(own), Some(it)) = (own, shown.context.get_mut(place)) {
                    *it = own;
                }
            }
        }
        // An address that is made of what nobody is to read would be read in its place.
        let arguments = call.or_else(|| question.context.get("arguments"));
        let unread = Self::over_places(arguments, &question.secrets);
        unread.masking(|mask| texts::of_destinations(&mut shown, mask));
        shown.is_veiled = shown != *question;
        shown
    }

    /// The same of messages.
    pub fn messages(&self, messages: &mut [Arc<Message>]) {
        self.masking(|mask| {
            for message in messages {
                let message = Arc::make_mut(message);
                match message.speaks().map(str::to_owned) {
                    Some(who) => {
                        self.masking_words(Some(&who), |mask| texts::of_message(message, mask));
                    }
                    None => texts::of_message(message, mask),
                }
            }
        });
    }

    fn masking(&self, work: impl FnOnce(&mut Masking<'_>)) {
        self.masking_words(None, work);
    }

    /// The same in somebody's own words, where they are.
    fn masking_words(&self, who: Option<&str>, work: impl FnOnce(&mut Masking<'_>)) {
        if !self.is_nothing() {
            work(&mut Masking(&Sieve::in_words_of(self, who)));
        }
    }

    /// A run as it is shown to whoever does not decide.
    pub fn over(&self, run: &mut Run) {
        self.messages(&mut run.conversation);
        for question in run.questions.values_mut() {
            *question = self.question(Arc::clone(question));
        }
        if let Status::Failed(failure) = &mut run.status {
            self.failure(failure);
        }
        for grant in &mut run.grants {
            grant.hide(|number| self.0.contains(&Value::from(number.to_string()).to_string()));
        }
        self.masking_words(Some(&run.owner), |mask| {
            mask.value(&mut run.input);
            run.metadata.values_mut().for_each(|value| mask.text(value));
        });
        self.masking(|mask| {
            run.output.iter_mut().for_each(|output| mask.value(output));
            run.edited.iter_mut().for_each(|(_, edited)| mask.value(edited));
            run.loose.iter_mut().for_each(|(_, call)| texts::of_call(call, mask));
            for turn in run.turns.values_mut() {
                turn.prompt.iter_mut().for_each(|prompt| mask.text(prompt));
                turn.memo.iter_mut().for_each(|memo| mask.value(memo));
                if let Some(step) = turn.tool_step_mut() {
                    step.made.iter_mut().for_each(|call| texts::of_call(call, mask));
                    if let Some(Ok(returned)) = &mut step.returned {
                        mask.value(returned);
                    }
                }
                mask.text(&mut turn.said);
                turn.calls.iter_mut().for_each(|open| texts::of_call(&mut open.call, mask));
            }
        });
    }
}

impl Run {
    /// Whether something in its journal is to stand apart.
    pub(super) fn hides(&self) -> bool {
        self.workflow.secretive || !self.veil.is_nothing()
    }

    /// Events of the run as they are to be hashed, where something in them is to stand apart; `fresh` draws a salt.
    pub fn hidden(
        &self,
        events: &[Arc<Event>],
        fresh: &mut dyn FnMut() -> String,
    ) -> Option<Hidden> {
        if !self.hides() {
            return None;
        }
        let sieve = Sieve::of(&self.veil);
        let is_live = !self.veil.is_nothing();
        let mut apart = BTreeMap::new();
        let mut events: Vec<Event> = events.iter().map(|event| (**event).clone()).collect();
        for event in &mut events {
            // What is handed out tells as little of what somebody guessed as the doors do.
            let who = texts::speaker(event).map(str::to_owned);
            let own = who.map(|who| Sieve::in_words_of(&self.veil, Some(&who)));
            let sieve = own.as_ref().unwrap_or(&sieve);
            let mut hiding = Hiding { sieve, is_live, fresh: &mut *fresh, apart };
            texts::of_event(event, &mut hiding);
            apart = hiding.apart;
        }
        let apart: Vec<_> = apart.into_values().collect();
        (!apart.is_empty()).then_some(Hidden { events, apart })
    }
}

impl Question {
    /// As those who decide are shown it; whether somebody does is for whoever asks to know.
    pub fn as_decided(self: &Arc<Self>) -> Arc<Self> {
        self.aside.0.as_ref().map_or_else(|| Arc::clone(self), Arc::clone)
    }

    /// Whether something in it is a mask to whoever is shown it as it is here. Of what nobody is to read of a call
    /// everybody is told how long it is, those who decide as well.
    pub fn is_masked(&self) -> bool {
        self.is_veiled || !self.secrets.is_empty()
    }
}

/// What of a question whoever decides is shown as it is, though it was confided to somebody else: the call, but for what
/// is nobody's to read, or what the question itself marks for them.
pub(super) fn bare(question: &Question) -> Vec<Value> {
    match (called(question), question.subject.as_deref(), &question.editable) {
        (Some(arguments), _, _) => {
            let mut arguments = arguments.clone();
            secret::replace(&mut arguments, "", &question.secrets, &|_| Value::Null);
            vec![arguments]
        }
        (None, Some(Subject::Shown(shown)), Some(schema)) => {
            let places = secret::marked(schema, shown);
            let own = places.iter().filter(|(_, from)| *from == secret::From::Onlookers);
            own.filter_map(|(at, _)| shown.pointer(at)).cloned().collect()
        }
        (None, _, _) => Vec::new(),
    }
}

/// The arguments of the call that a question decides over, if it does over one. Whoever starts a run chooses whom its own
/// gates ask, and that shows nobody anything (`brought`).
fn called(question: &Question) -> Option<&Value> {
    let arguments = match (&question.origin, question.subject.as_deref()) {
        (_, Some(Subject::Task(Frozen::Tool { arguments, .. }))) => Some(arguments),
        (Origin::Gate(call), None) => Some(&call.arguments),
        (_, _) => None,
    };
    arguments.filter(|_| !question.is_starts_own())
}

/// Takes out of the address of a call what nobody is to read.
pub fn hide_in_address(workflow: &Workflow, call: &mut ToolCall) {
    let places = secret::of_call(workflow, &call.tool, &call.arguments);
    let unread = Veil::over_places(Some(&call.arguments), &places);
    if let Some(deed) = &mut call.deed {
        unread.masking(|mask| mask.text(&mut deed.destination));
    }
}

/// Refuses a version in which a mask stands in the place of what whoever sends it was not shown: it would be what is
/// done (K3).
pub(super) fn refuse_masks(run: &Run, question: &Question, value: &Value) -> Result<(), Mismatch> {
    let is_another = Verb::of(value).is_some_and(Verb::brings_another);
    let hides = !run.veil.is_nothing() || !question.secrets.is_empty();
    if !is_another || !hides || secret::masked_at(&question.decided()).is_some() {
        return Ok(());
    }
    let Some(at) = secret::masked_at(value) else { return Ok(()) };
    let expected =
        "the value itself: `•••` stands for what is hidden from you, and would be sent as it is";
    Err(Mismatch { at, expected: expected.into() })
}

/// Puts what stands apart back into an event.
pub fn reveal(event: &mut Event, apart: &[Apart]) {
    if !apart.is_empty() {
        let known = apart.iter().map(|it| (it.hash().to_string(), it.json.as_str())).collect();
        texts::of_event(event, &mut Revealing(known));
    }
}

#[cfg(test)]
#[path = "veil_tests.rs"]
mod tests;
