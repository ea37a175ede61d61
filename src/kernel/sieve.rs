//! Sieve: finds what is secret in texts and values, and puts something else there: a mask for whoever looks, a hash
//! for what is stored and handed out, and the secret itself where it is read back. What is secret is `veil`'s to
//! know; where it stands, in whatever spelling, `sought`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::Value;

use crate::kernel::apart::{Apart, Veil};
use crate::kernel::choice::Choice;
use crate::kernel::evidence::Hash;
use crate::kernel::leaves::{Touch, texts_in, walk, words};
use crate::kernel::number;
use crate::kernel::secret;
use crate::kernel::sought::{Found, GUESSED_CHARS, Look, Sought};
use crate::kernel::spelling;
use crate::kernel::texts::Visitor;
use crate::kernel::verb::Verb;

/// What stands in the place of a secret among other words.
const MASK: &str = "•••";
/// Around a hash in the place of a secret.
const OPENS: &str = "⟦sha256:";
const CLOSES: char = '⟧';

/// What has more words than this, and in it something that could be guessed, is hidden whole from whoever looks: a mask in
/// a list of guesses would tell which of them is right.
const WORDS_MAX: usize = 64;

/// What is looked for.
pub(super) struct Sieve<'a> {
    /// Whole values, by their JSON.
    whole: &'a BTreeSet<String>,
    /// Those of them that are not looked for.
    unsought: BTreeSet<String>,
    /// Texts, by what they begin with.
    within: BTreeMap<char, Vec<Sought>>,
    /// How many they are.
    count: usize,
    /// Texts without the blanks around them.
    trimmed: BTreeSet<String>,
    /// Numbers, however they are written.
    numbers: BTreeSet<String>,
    /// Texts and numbers that somebody may be guessing at.
    guarded: BTreeSet<String>,
}

/// Where secrets stand in a text, and whether one of them could be guessed.
struct Places {
    spans: Vec<Range<usize>>,
    is_guessed: bool,
}

impl<'a> Sieve<'a> {
    /// What a run knows to be secret.
    pub(super) fn of(veil: &'a Veil) -> Self {
        Self::in_words_of(veil, None)
    }

    /// What is looked for in somebody's own words, where they are. What they are not known to know they cannot tell, and
    /// are not told either: it is not looked for. A long one may be guessed as well, where most of it is known.
    pub(super) fn in_words_of(veil: &'a Veil, who: Option<&str>) -> Self {
        let givers = who.map(|_| veil.givers()).unwrap_or_default();
        let is_theirs = |names: &BTreeSet<String>| who.is_some_and(|who| names.contains(who));
        let unsought = givers.iter().filter(|(_, names)| !is_theirs(names));
        let unsought: BTreeSet<_> = unsought.map(|(json, _)| json.clone()).collect();
        let mut sieve = Self {
            whole: &veil.0,
            unsought,
            within: BTreeMap::new(),
            count: 0,
            trimmed: BTreeSet::new(),
            numbers: BTreeSet::new(),
            guarded: BTreeSet::new(),
        };
        let sought = veil.0.iter().filter(|json| !sieve.unsought.contains(*json));
        let known: Vec<_> = sought.filter_map(|json| Some((json, said(json)?))).collect();
        let texts: Vec<_> = known.iter().filter(|(json, _)| json.starts_with('"')).collect();
        // Other spellings of a text are found by the text.
        let spelled = texts.iter().flat_map(|(_, text)| spelling::spellings(text));
        let spelled: BTreeSet<_> = spelled.collect();
        for (json, text) in &known {
            let number = number::plain(text);
            let is_open = !givers.contains_key(*json);
            if is_open && text.chars().count() < GUESSED_CHARS {
                sieve.guarded.extend([text.trim().to_owned()].into_iter().chain(number.clone()));
            }
            sieve.numbers.extend(number);
        }
        for (json, text) in texts {
            let make = if givers.contains_key(*json) { Sought::known } else { Sought::new };
            sieve.trimmed.extend(Some(text.trim().to_owned()).filter(|text| !text.is_empty()));
            if !spelled.contains(text) {
                sieve.seek(make(text));
                sieve.seek(make(text.trim()));
            }
        }
        sieve
    }

    fn seek(&mut self, sought: Sought) {
        let Some(first) = sought.first() else { return };
        let others = self.within.entry(first).or_default();
        if !others.contains(&sought) {
            others.push(sought);
            self.count += 1;
        }
    }

    /// Where secrets stand in a text; nothing, where it takes too long to look.
    fn places(&self, text: &str) -> Option<Places> {
        let mut look = Look::through(text, self.count);
        let (mut spans, mut at, mut is_guessed) = (Vec::new(), 0, false);
        while let Some(rest) = text.get(at..)
            && let Some(first) = rest.chars().next()
        {
            // How long something hidden is says nothing of anything else.
            let bytes = masks(rest);
            let found = if bytes > 0 { None } else { self.found_at(&mut look, at, first) };
            if look.is_given_up() {
                return None;
            }
            at = if let Some(found) = found {
                spans.push(at..found.end);
                is_guessed |= found.is_guessed;
                found.end
            } else {
                at + bytes.max(first.len_utf8())
            };
        }
        Some(Places { spans, is_guessed })
    }

    /// A text with something else in the place of each secret in it; none if there is none. One that takes too long to
    /// look through is secret as a whole.
    fn sift(&self, text: &str, put: &mut dyn FnMut(&str) -> String) -> Option<String> {
        let Some(Places { spans, .. }) = self.places(text) else { return Some(put(text)) };
        if spans.is_empty() {
            return None;
        }
        let (mut sifted, mut from) = (String::new(), 0);
        for span in spans {
            sifted.push_str(text.get(from..span.start).unwrap_or_default());
            from = span.end;
            sifted.push_str(&put(text.get(span).unwrap_or_default()));
        }
        sifted.push_str(text.get(from..).unwrap_or_default());
        Some(sifted)
    }

    /// What of it stands in a value, as the veil has it. All of it must: of what was cut nobody reads the rest.
    pub(super) fn told_in(&self, value: &Value) -> BTreeSet<String> {
        let (mut texts, mut told) = (Vec::new(), BTreeSet::new());
        texts_in(value, &mut texts);
        for text in &texts {
            self.tell(text, &mut told);
        }
        let spelled: Vec<_> = told.iter().flat_map(|text| spelling::spellings(text)).collect();
        told.extend(spelled);
        let is_number = |text: &str| number::plain(text).is_some_and(|it| told.contains(&it));
        let is_told = |text: String| told.contains(text.trim()) || is_number(&text);
        self.whole.iter().filter(|json| said(json).is_some_and(is_told)).cloned().collect()
    }

    fn tell(&self, text: &str, told: &mut BTreeSet<String>) {
        let (mut look, mut from) = (Look::through(text, self.count), 0);
        for (at, first) in text.char_indices() {
            from = from.max(at + text.get(at..).map_or(0, masks));
            if at < from {
                continue;
            }
            let begun = if spelling::opens(first) { look.escapes(at) } else { vec![first] };
            let sought = begun.iter().filter_map(|first| self.within.get(first)).flatten();
            let there = sought.filter(|one| one.is_at(&mut look, at));
            told.extend(there.map(|one| one.text().to_owned()));
            let number = look.number_at(at).map(|(_, number)| number);
            told.extend(number.filter(|number| self.numbers.contains(number)));
        }
        if look.is_given_up() {
            let all = self.within.values().flatten().map(Sought::text);
            told.extend(all.filter(|one| text.contains(one)).map(str::to_owned));
        }
    }

    /// Whether a text has something in it that somebody may have guessed.
    fn is_guessed(&self, text: &str) -> bool {
        let is_one = |it: &str| self.guarded.contains(it);
        is_one(text.trim())
            || number::plain(text).is_some_and(|it| is_one(&it))
            || self.places(text).is_none_or(|places| places.is_guessed)
    }

    /// Whether a value may be a list of guesses, one of which is right.
    fn is_guessed_in(&self, value: &Value) -> bool {
        let mut texts = Vec::new();
        texts_in(value, &mut texts);
        let count: usize = texts.iter().map(|text| words(text)).sum();
        count > WORDS_MAX && texts.iter().any(|text| self.is_guessed(text))
    }

    /// Where the longest secret, or part of one, ends that begins at a place; `first` stands there.
    fn found_at(&self, look: &mut Look<'_>, at: usize, first: char) -> Option<Found> {
        let begun = if spelling::opens(first) {
            let said = look.escapes(at);
            let sought = said.iter().filter_map(|first| self.within.get(first)).flatten();
            sought.filter_map(|one| one.end(look, at)).max()
        } else {
            let sought = self.within.get(&first).into_iter().flatten();
            sought.filter_map(|one| one.end(look, at)).max()
        };
        let begun = begun.max(self.number_at(look, at));
        if !look.is_rest_at(at) {
            return begun;
        }
        let all = self.within.values().flatten();
        begun.max(all.filter_map(|one| one.end_of_rest(look, at)).max())
    }

    /// A number that is one of those, written otherwise.
    fn number_at(&self, look: &Look<'_>, at: usize) -> Option<Found> {
        if self.numbers.is_empty() {
            return None;
        }
        let (end, number) = look.number_at(at)?;
        let is_guessed = self.guarded.contains(&number);
        self.numbers.contains(&number).then_some(Found { end, is_guessed })
    }

    /// Whether a text is one, as a whole.
    fn is_text(&self, text: &str) -> bool {
        let json = Value::from(text).to_string();
        let is_known = self.whole.contains(&json) && !self.unsought.contains(&json);
        let is_number = || number::plain(text).is_some_and(|it| self.numbers.contains(&it));
        is_known || self.trimmed.contains(text.trim()) || is_number()
    }

    /// The secret that a value is, as a whole.
    pub(super) fn is_whole(&self, value: &Value) -> Option<String> {
        let is_one = match value {
            Value::String(text) => self.is_text(text),
            // A number that was given as a text is the same secret.
            Value::Number(number) => self.is_text(&number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
        };
        is_one.then(|| value.to_string())
    }
}

/// What a secret says, by its JSON; none where that is of who knows one.
fn said(json: &str) -> Option<String> {
    match serde_json::from_str(json).ok()? {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// What stands in the place of what has this hash.
pub(super) fn mark(hash: Hash) -> String {
    format!("{OPENS}{hash}{CLOSES}")
}

/// The bytes of the mask that a text begins with; none, if it does not.
fn masks(text: &str) -> usize {
    let Some(rest) = text.strip_prefix(secret::MASK_OPENS) else { return 0 };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let is_one = rest.get(digits..).is_some_and(|rest| rest.starts_with(secret::MASK_CLOSES));
    let bytes = secret::MASK_OPENS.len() + digits + secret::MASK_CLOSES.len();
    if digits > 0 && is_one { bytes } else { 0 }
}

/// Puts masks in the places of secrets.
pub(super) struct Masking<'a>(pub(super) &'a Sieve<'a>);

/// Puts a mask in the place of everything.
struct Covering;

impl Touch for Covering {
    fn leaf(&mut self, leaf: &mut Value) {
        if leaf.is_string() || leaf.is_number() {
            *leaf = secret::mask(leaf);
        }
    }

    fn name(&mut self, _name: &str) -> Option<String> {
        Some(MASK.to_owned())
    }
}

impl Masking<'_> {
    fn masked(&self, text: &str) -> Option<String> {
        if self.0.is_text(text) || (words(text) > WORDS_MAX && self.0.is_guessed(text)) {
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
        if self.0.is_guessed_in(value) {
            walk(value, &mut Covering);
        } else {
            walk(value, self);
        }
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
        mark(apart.hash())
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
        if sieve.is_text(name) {
            return Some(Self::put(apart, &Value::from(name).to_string(), fresh));
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
