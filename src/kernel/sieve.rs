//! Sieve: finds what is secret in texts and values, and puts something else there: a mask for whoever looks, a hash
//! for what is stored and handed out, and the secret itself where it is read back. What is secret is `veil`'s to
//! know; where it stands, in whatever spelling, `sought`'s.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::kernel::choice::Choice;
use crate::kernel::secret;
use crate::kernel::sought::{Look, Sought};
use crate::kernel::spelling;
use crate::kernel::texts::Visitor;
use crate::kernel::veil::{self, Apart, Veil};
use crate::kernel::verb::Verb;

/// What stands in the place of a secret among other words.
const MASK: &str = "•••";
/// Around a hash in the place of a secret.
const OPENS: &str = "⟦sha256:";
const CLOSES: char = '⟧';

/// What is looked for.
pub(super) struct Sieve<'a> {
    /// Whole values, by their JSON.
    whole: &'a BTreeSet<String>,
    /// Texts, by what they begin with.
    within: BTreeMap<char, Vec<Sought>>,
    /// How many they are.
    count: usize,
}

impl<'a> Sieve<'a> {
    /// What a run knows to be secret.
    pub(super) fn of(veil: &'a Veil) -> Self {
        let texts = veil.0.iter().filter_map(|json| serde_json::from_str::<String>(json).ok());
        let texts: BTreeSet<_> = texts.filter(|text| !text.is_empty()).collect();
        // Other spellings of a text are found by the text.
        let spelled: BTreeSet<_> = texts.iter().flat_map(|text| veil::spellings(text)).collect();
        let mut within: BTreeMap<char, Vec<Sought>> = BTreeMap::new();
        let mut count = 0;
        for text in texts.difference(&spelled) {
            if let Some(first) = text.chars().next() {
                within.entry(first).or_default().push(Sought::new(text));
                count += 1;
            }
        }
        Self { whole: &veil.0, within, count }
    }

    /// A text with something else in the place of each secret in it; none if there is none. One that takes too long to
    /// look through is secret as a whole.
    fn sift(&self, text: &str, put: &mut dyn FnMut(&str) -> String) -> Option<String> {
        let mut look = Look::through(text, self.count);
        let (mut sifted, mut from, mut at) = (String::new(), 0, 0);
        while let Some(rest) = text.get(at..)
            && let Some(first) = rest.chars().next()
        {
            // How long something hidden is says nothing of anything else.
            let bytes = masks(rest);
            let found = if bytes > 0 { None } else { self.found_at(&mut look, at, first) };
            if look.is_given_up() {
                return Some(put(text));
            }
            at = if let Some(end) = found {
                sifted.push_str(text.get(from..at).unwrap_or_default());
                sifted.push_str(&put(text.get(at..end).unwrap_or_default()));
                from = end;
                end
            } else {
                at + bytes.max(first.len_utf8())
            };
        }
        if from == 0 {
            return None;
        }
        sifted.push_str(text.get(from..).unwrap_or_default());
        Some(sifted)
    }

    /// Where the longest secret, or part of one, ends that begins at a place; `first` stands there.
    fn found_at(&self, look: &mut Look<'_>, at: usize, first: char) -> Option<usize> {
        let begun = if spelling::opens(first) {
            let said = look.escapes(at);
            let sought = said.iter().filter_map(|first| self.within.get(first)).flatten();
            sought.filter_map(|one| one.end(look, at)).max()
        } else {
            let sought = self.within.get(&first).into_iter().flatten();
            sought.filter_map(|one| one.end(look, at)).max()
        };
        let Some(rest) = look.rest_at(at) else { return begun };
        let all = self.within.values().flatten();
        begun.max(all.filter_map(|one| one.end_of_rest(rest, look, at)).max())
    }

    fn is_whole(&self, value: &Value) -> Option<String> {
        match value {
            Value::String(_) => Some(value.to_string()).filter(|json| self.whole.contains(json)),
            // A number that was given as a text is the same secret.
            Value::Number(_) => Some(value.to_string()).filter(|json| {
                self.whole.contains(json) || self.whole.contains(&format!("\"{json}\""))
            }),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

/// The bytes of the mask that a text begins with; none, if it does not.
fn masks(text: &str) -> usize {
    let Some(rest) = text.strip_prefix(secret::MASK_OPENS) else { return 0 };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let is_one = rest.get(digits..).is_some_and(|rest| rest.starts_with(secret::MASK_CLOSES));
    let bytes = secret::MASK_OPENS.len() + digits + secret::MASK_CLOSES.len();
    if digits > 0 && is_one { bytes } else { 0 }
}

/// Whoever puts something else in the places of what a value is made of.
trait Touch {
    /// A text, a number, a yes or a no.
    fn leaf(&mut self, value: &mut Value);

    /// The name of a member; none where it stays as it is.
    fn name(&mut self, name: &str) -> Option<String>;
}

/// Goes through a value, leaf by leaf and name by name.
fn walk(value: &mut Value, touch: &mut dyn Touch) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, touch)),
        Value::Object(members) => {
            let names: Vec<_> = members.keys().map(|name| touch.name(name)).collect();
            if names.iter().any(Option::is_some) {
                let old = std::mem::take(members);
                for ((name, value), other) in old.into_iter().zip(names) {
                    let name = unused(members, other.unwrap_or(name));
                    members.insert(name, value);
                }
            }
            members.values_mut().for_each(|value| walk(value, touch));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => touch.leaf(value),
    }
}

/// A name that no member has yet: two that are masked are two still.
fn unused(members: &Map<String, Value>, name: String) -> String {
    let mut names = (2_usize..).map(|count| format!("{name} {count}"));
    if !members.contains_key(&name) {
        return name;
    }
    names.find(|name| !members.contains_key(name)).unwrap_or_default()
}

/// Puts masks in the places of secrets.
pub(super) struct Masking<'a>(pub(super) &'a Sieve<'a>);

impl Masking<'_> {
    fn masked(&self, text: &str) -> Option<String> {
        if self.0.whole.contains(&Value::from(text).to_string()) {
            return Some(MASK.to_owned());
        }
        self.0.sift(text, &mut |_| MASK.to_owned())
    }
}

impl Touch for Masking<'_> {
    fn leaf(&mut self, leaf: &mut Value) {
        if self.0.is_whole(leaf).is_some() {
            *leaf = secret::mask(leaf);
        } else if let Value::String(text) = leaf
            && let Some(masked) = self.masked(text)
        {
            *text = masked;
        }
    }

    fn name(&mut self, name: &str) -> Option<String> {
        self.masked(name)
    }
}

impl Visitor for Masking<'_> {
    fn text(&mut self, text: &mut String) {
        if let Some(masked) = self.masked(text) {
            *text = masked;
        }
    }

    fn value(&mut self, value: &mut Value) {
        walk(value, self);
    }

    // What names it in an answer says which it is, and no more.
    fn choice(&mut self, options: &mut [Choice]) {
        let stand_ins: Vec<_> =
            (0..options.len()).map(|at| Choice::stand_in(options, at)).collect();
        for (option, stand_in) in options.iter_mut().zip(stand_ins) {
            let is_word_of_ours = Verb::parse(&option.id).is_some();
            if let Some(masked) = self.masked(&option.id).filter(|_| !is_word_of_ours) {
                if option.label.is_empty() {
                    option.label = masked;
                }
                option.id = stand_in;
            }
            self.text(&mut option.label);
            self.text(&mut option.description);
        }
    }

    fn token(&mut self, _token: &mut String) {}

    // A secret may be cut in two by where a piece ends. The whole text follows.
    fn piece(&mut self, piece: &mut String) {
        piece.clear();
    }
}

/// Puts hashes in the places of secrets, and the secrets apart.
pub(super) struct Hiding<'a> {
    pub(super) sieve: &'a Sieve<'a>,
    /// Whether a secret is known by now.
    pub(super) is_live: bool,
    pub(super) fresh: &'a mut dyn FnMut() -> String,
    /// By their JSON: one that is said twice in an append stands apart once.
    pub(super) apart: BTreeMap<String, Apart>,
}

impl Hiding<'_> {
    fn put(
        apart: &mut BTreeMap<String, Apart>,
        json: &str,
        fresh: &mut dyn FnMut() -> String,
    ) -> String {
        let drawn = || Apart { salt: fresh(), json: json.to_owned() };
        let apart = apart.entry(json.to_owned()).or_insert_with(drawn);
        format!("{OPENS}{}{CLOSES}", apart.hash())
    }

    fn whole(&mut self, text: &mut String) {
        if !text.is_empty() {
            let json = Value::from(text.as_str()).to_string();
            *text = Self::put(&mut self.apart, &json, self.fresh);
        }
    }
}

impl Touch for Hiding<'_> {
    fn leaf(&mut self, leaf: &mut Value) {
        if let Some(json) = self.sieve.is_whole(leaf) {
            *leaf = Self::put(&mut self.apart, &json, self.fresh).into();
        } else if let Value::String(text) = leaf
            && let Some(hidden) = self.name(text)
        {
            *text = hidden;
        }
    }

    fn name(&mut self, name: &str) -> Option<String> {
        let Self { sieve, fresh, apart, .. } = self;
        let json = Value::from(name).to_string();
        if sieve.whole.contains(&json) {
            return Some(Self::put(apart, &json, fresh));
        }
        sieve.sift(name, &mut |found| Self::put(apart, &Value::from(found).to_string(), fresh))
    }
}

impl Visitor for Hiding<'_> {
    fn text(&mut self, text: &mut String) {
        if let Some(hidden) = self.name(text) {
            *text = hidden;
        }
    }

    fn value(&mut self, value: &mut Value) {
        walk(value, self);
    }

    fn choice(&mut self, options: &mut [Choice]) {
        options.iter_mut().flat_map(Choice::texts).for_each(|text| self.text(text));
    }

    // A digest of what holds a short secret tells it to whoever tries all there are.
    fn token(&mut self, token: &mut String) {
        self.whole(token);
    }

    fn piece(&mut self, piece: &mut String) {
        if self.is_live {
            self.whole(piece);
        }
    }
}

/// Puts secrets back in their places.
pub(super) struct Revealing<'a>(pub(super) BTreeMap<String, &'a str>);

impl Revealing<'_> {
    /// A text with every hash in it that is known replaced; none if there is none.
    fn put_back(&self, text: &str) -> Option<String> {
        let (mut whole, mut rest, mut is_changed) = (String::new(), text, false);
        while let Some((before, after)) = rest.split_once(OPENS) {
            let found = after.split_once(CLOSES).and_then(|(hash, after)| {
                let text: String = serde_json::from_str(self.0.get(hash)?).ok()?;
                Some((text, after))
            });
            whole.push_str(before);
            rest = if let Some((text, after)) = found {
                whole.push_str(&text);
                is_changed = true;
                after
            } else {
                whole.push_str(OPENS);
                after
            };
        }
        whole.push_str(rest);
        is_changed.then_some(whole)
    }
}

impl Touch for Revealing<'_> {
    fn leaf(&mut self, leaf: &mut Value) {
        let Value::String(text) = &*leaf else { return };
        let alone = text.strip_prefix(OPENS).and_then(|rest| rest.strip_suffix(CLOSES));
        let alone = alone.and_then(|hash| serde_json::from_str(self.0.get(hash)?).ok());
        if let Some(secret) = alone {
            *leaf = secret;
        } else if let Some(whole) = self.put_back(text) {
            *leaf = whole.into();
        }
    }

    fn name(&mut self, name: &str) -> Option<String> {
        self.put_back(name)
    }
}

impl Visitor for Revealing<'_> {
    fn text(&mut self, text: &mut String) {
        if let Some(whole) = self.put_back(text) {
            *text = whole;
        }
    }

    fn value(&mut self, value: &mut Value) {
        walk(value, self);
    }

    fn choice(&mut self, options: &mut [Choice]) {
        options.iter_mut().flat_map(Choice::texts).for_each(|text| self.text(text));
    }

    fn token(&mut self, token: &mut String) {
        self.text(token);
    }

    fn piece(&mut self, piece: &mut String) {
        self.text(piece);
    }
}
