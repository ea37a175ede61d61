//! Condition: what makes an act worth a person's look, and in which words or figures it was found. Judges are
//! conditions too; how one is asked is in `judging`.
//!
//! - **K7** What is malformed is met: it asks.
//! - **K12** Rules look at what the requester cannot choose; and a requester's own, at nothing that is kept from them.

use serde_json::Value;

use crate::kernel::act;
use crate::kernel::brought;
use crate::kernel::criteria::{Complexity, Condition, Doubt, Same};
use crate::kernel::look_alike;
use crate::kernel::message::{Speaker, readable};
use crate::kernel::operator::Environment;
use crate::kernel::run::Run;
use crate::kernel::turn::Wish;
use crate::kernel::workflow::Gate;

/// Words that say that the speaker does not know, by language.
const DOUBTS: [(&str, &[&str]); 4] = [
    (
        "en",
        &[
            "not sure",
            "unsure",
            "uncertain",
            "not certain",
            "maybe",
            "perhaps",
            "i guess",
            "might be",
        ],
    ),
    ("de", &["nicht sicher", "unsicher", "ungewiss", "vielleicht", "vermutlich", "könnte sein"]),
    ("fr", &["pas sûr", "pas certain", "incertain", "peut-être", "je suppose"]),
    ("es", &["no estoy segur", "incierto", "quizás", "quizá", "tal vez", "supongo"]),
];
/// The language that is meant where a file names none.
const LANGUAGE: &str = "en";
/// Words of a sentence that are shown around what was found.
const AROUND: usize = 40;

/// What is said of a word that may be meant to be read as another. The word itself may be a secret.
const MIXED: &str = "a word has letters of two alphabets, and may be meant to be read as another";

impl Doubt {
    /// Languages whose phrases are known.
    pub fn languages() -> impl Iterator<Item = &'static str> {
        DOUBTS.iter().map(|(language, _)| *language)
    }
}

/// Why a gate stops an act; nothing, if it lets it through.
pub(super) fn reasons(gate: &Gate, run: &Run, wish: Wish<'_>) -> Option<Vec<String>> {
    if gate.when.is_empty() {
        return Some(vec![format!("{}: always a person", gate.name)]);
    }
    if brought::would_tell(gate, run) {
        let why = "something is secret here, and a start's conditions do not look at it";
        return Some(vec![format!("{}: {why}", gate.name)]);
    }
    let met: Vec<_> = gate.when.iter().filter_map(|rule| met(rule, run, wish)).collect();
    (!met.is_empty()).then_some(met)
}

/// What a condition found, in words; nothing, if it does not hold.
fn met(condition: &Condition, run: &Run, wish: Wish<'_>) -> Option<String> {
    let Wish { turn, call, judged, .. } = wish;
    if looks_at_the_run(condition, wish) && brought::is_drawn_out(run) {
        let why = "a gate of the run's start has held back part of what this looks at";
        return Some(why.to_owned());
    }
    match condition {
        Condition::Keywords(list) => {
            let said = words(run, wish);
            let (read, lower) = (look_alike::Read::of(&said), said.to_lowercase());
            // As it is written, too: of what nobody sees no word is left, and somebody may look for just that.
            let stands = |word: &&String| read.has(word) || lower.contains(&word.to_lowercase());
            let found = list.iter().find(stands).map(|found| format!("high-risk word `{found}`"));
            found.or_else(|| read.mixes_alphabets.then(|| MIXED.to_owned()))
        }
        Condition::Environment(list) => environment(list, run),
        Condition::Uncertain => doubted(run, wish, &[], &[LANGUAGE.to_owned()]),
        Condition::UncertainBy(doubt) => {
            let is_bare = doubt.phrases.is_empty() && doubt.languages.is_empty();
            let by_words = doubt.confidence_under.is_none() || !is_bare;
            let default = [LANGUAGE.to_owned()];
            let languages = if is_bare { &default[..] } else { &doubt.languages };
            let said = by_words.then(|| doubted(run, wish, &doubt.phrases, languages)).flatten();
            said.or_else(|| doubt.confidence_under.and_then(|least| unsure(wish, least)))
        }
        Condition::FailuresOver(most) => {
            (run.failed_calls > *most).then(|| format!("{} calls have failed", run.failed_calls))
        }
        Condition::FailuresOf { same, count } => {
            let (what, failed) = match same {
                Same::Tool => (format!("`{}`", call.tool), run.failures.of_tool(&call.tool)),
                Same::Step => (format!("step `{}`", turn.step), run.failures.of_step(&turn.step)),
            };
            (failed > *count).then(|| format!("{what} has failed {failed} times, over {count}"))
        }
        Condition::Complex(most) => complex(*most, wish),
        Condition::Argument { pointer, over } => {
            let given = call.arguments.pointer(pointer);
            match given.and_then(|value| Some((value, is_over(value, *over)?))) {
                Some((_, false)) => None,
                Some((value, true)) => Some(format!("`{pointer}` is {value}, over {over}")),
                // Nothing there, or no number: that is not a small number.
                None => Some(format!("`{pointer}` is no number")),
            }
        }
        Condition::Judge { .. } if wish.is_step => Some("no judge looks at a step".into()),
        // K7: where there is no judge but the one whose call it is, a person is asked.
        Condition::Judge { agent, .. } if !run.workflow.agents.contains_key(agent) => {
            Some(format!("there is no judge `{agent}`"))
        }
        Condition::Judge { agent, .. } if *agent == turn.agent => {
            Some(format!("`{agent}` cannot judge its own call"))
        }
        Condition::Judge { agent, .. } => {
            let said = judged.iter().find(|known| known.agent == *agent && known.ask)?;
            Some(format!("judge `{agent}`: {}", said.reason))
        }
    }
}

/// Whether a condition looks at more of the run than the act itself.
fn looks_at_the_run(condition: &Condition, wish: Wish<'_>) -> bool {
    match condition {
        Condition::FailuresOver(_) | Condition::FailuresOf { .. } => true,
        Condition::Keywords(_) | Condition::Uncertain | Condition::UncertainBy(_) => {
            act::looks_around(wish)
        }
        Condition::Environment(_)
        | Condition::Complex(_)
        | Condition::Argument { .. }
        | Condition::Judge { .. } => false,
    }
}

/// The words that are looked at: of a call its name, its arguments and what is said with it; of a handoff, a
/// reply or a step the conversation at that moment as well, from what a person said last.
fn words(run: &Run, wish: Wish<'_>) -> String {
    let Wish { call, said, .. } = wish;
    let mut words = format!("{} {} {said}", call.tool, readable(&call.arguments));
    // As JSON writes it a line's end is two letters: what is looked for is looked for in each text as it is.
    texts(&call.arguments, &mut words);
    if act::looks_around(wish) {
        words.push_str(&act::moment(run));
    }
    words
}

/// Each text in a value, and each name, parted by what stands in no word.
fn texts(value: &Value, into: &mut String) {
    match value {
        Value::String(text) => {
            into.push_str(" | ");
            into.push_str(text);
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, into)),
        Value::Object(fields) => {
            for (name, value) in fields {
                into.push_str(" | ");
                into.push_str(name);
                texts(value, into);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// What is said by the agent: with the call, in the reply, and at that moment.
fn spoken(run: &Run, wish: Wish<'_>) -> String {
    let mut spoken = wish.said.to_owned();
    if act::looks_around(wish) {
        spoken.push(' ');
        spoken.push_str(&readable(&wish.call.arguments));
        let all = run.conversation.iter().rev();
        let to_the_beginning = act::looks_back_to_the_beginning(run);
        let since = all.take_while(|it| to_the_beginning || it.role != Speaker::User);
        let agents = since.filter(|message| message.role != Speaker::User);
        for message in agents.filter_map(|message| message.cleaned()) {
            spoken.push(' ');
            spoken.push_str(&message.text);
        }
    }
    spoken
}

/// The first phrase of doubt in what is said, and where it stands.
fn doubted(run: &Run, wish: Wish<'_>, phrases: &[String], languages: &[String]) -> Option<String> {
    let spoken = spoken(run, wish);
    let said = spoken.to_lowercase();
    let own = phrases.iter().map(|phrase| phrase.to_lowercase());
    let known = DOUBTS.iter().filter(|(language, _)| languages.iter().any(|one| one == language));
    let known = known.flat_map(|(_, phrases)| phrases.iter().map(|phrase| (*phrase).to_owned()));
    let found = own.chain(known).find(|phrase| said.contains(phrase))?;
    let place = said.find(&found).unwrap_or_default();
    let around = around(&spoken, said.get(..place)?.chars().count(), found.chars().count());
    let more = around.trim().to_lowercase() != found;
    let shown = if more { format!(" in `…{}…`", around.trim()) } else { String::new() };
    Some(format!("the agent says `{found}`{shown}"))
}

/// What is said around something that is found in the same in small letters. As it was said: a secret in other letters
/// would not be known for one.
fn around(said: &str, place: usize, chars: usize) -> String {
    let mut small = 0;
    let before = said.chars().take_while(|c| {
        small += c.to_lowercase().count();
        small <= place
    });
    let from = before.count().saturating_sub(AROUND);
    said.chars().skip(from).take(chars + 2 * AROUND).collect()
}

/// Whether the agent's own figure is too low; what is no number is (K7).
fn unsure(wish: Wish<'_>, least: f64) -> Option<String> {
    let arguments = &wish.call.arguments;
    let declared = arguments.get("output").unwrap_or(arguments).get("confidence")?;
    match declared.as_f64() {
        Some(figure) if figure >= least => None,
        Some(figure) => Some(format!("the agent's confidence is {figure}, under {least}")),
        None => Some(format!("the agent's confidence is `{declared}`, which is no number")),
    }
}

/// Whether there is more to decide than a person can leave to an agent, and how much.
fn complex(most: Complexity, wish: Wish<'_>) -> Option<String> {
    let text = format!("{} {}", wish.said, readable(&wish.call.arguments));
    let over = |count: usize, most: Option<u32>, what: &str| {
        let most = most?;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        (count > most).then(|| format!("{count} {what}, over {most}"))
    };
    let steps = longest(&wish.call.arguments, Some("steps"));
    let options = longest(&wish.call.arguments, None).max(listed(&text));
    let found = [
        over(steps, most.steps, "steps in the plan"),
        over(options, most.options, "options"),
        over(amounts(&text), most.amounts, "amounts"),
    ];
    let found: Vec<String> = found.into_iter().flatten().collect();
    (!found.is_empty()).then(|| found.join(", "))
}

/// The length of the longest list in a value; of those under a name, where one is given.
fn longest(value: &Value, name: Option<&str>) -> usize {
    match value {
        Value::Array(items) => {
            let own = if name.is_none() { items.len() } else { 0 };
            items.iter().map(|item| longest(item, name)).max().unwrap_or(0).max(own)
        }
        Value::Object(fields) => {
            let of = |(field, value): (&String, &Value)| {
                let is_it = name == Some(field.as_str());
                let own = value.as_array().filter(|_| is_it).map_or(0, Vec::len);
                longest(value, name).max(own)
            };
            fields.iter().map(of).max().unwrap_or(0)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Lines of a text that are items of a list: `- one`, `2. two`, `c) three`.
fn listed(text: &str) -> usize {
    let is_item = |line: &&str| {
        let line = line.trim_start();
        let mark = line.split_whitespace().next().unwrap_or_default();
        let is_bullet = mark == "-" || mark == "*" || mark == "•";
        let stem = mark.strip_suffix('.').or_else(|| mark.strip_suffix(')')).unwrap_or_default();
        let is_number = (1..=3).contains(&stem.len()) && stem.chars().all(|c| c.is_ascii_digit());
        let is_letter = stem.len() == 1 && stem.chars().all(char::is_alphabetic);
        is_bullet || is_number || is_letter
    };
    text.lines().filter(is_item).count()
}

/// Numbers in a text.
fn amounts(text: &str) -> usize {
    let mut count = 0;
    let mut before = ' ';
    for one in text.chars() {
        let begins = one.is_ascii_digit() && !before.is_alphanumeric() && !".,".contains(before);
        count += usize::from(begins);
        before = one;
    }
    count
}

/// Whether a number is larger than another; none of what is no number. Whole numbers are compared as they are: beyond 2^53
/// two of them are one, as halves are counted.
fn is_over(value: &Value, over: f64) -> Option<bool> {
    let whole = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it ends at the bounds, which no number here reaches"
    )]
    let least = over.floor() as i128;
    match whole {
        Some(whole) => Some(whole > least || over.is_nan()),
        None => value.as_f64().map(|number| number > over || over.is_nan()),
    }
}

/// Whether a rule that asks in some environments asks here. Where the server works is the operator's
/// word (K12): what a requester says of it can add a question, and takes none away.
fn environment(list: &[String], run: &Run) -> Option<String> {
    let among = |here: &str| list.iter().find(|name| name.eq_ignore_ascii_case(here.trim()));
    let said = |name: &&String| name.trim().eq_ignore_ascii_case("environment");
    let claimed = run.metadata.iter().filter(|(name, _)| said(name)).map(|(_, value)| value);
    if let Some(found) = claimed.into_iter().find_map(|here| among(here)) {
        return Some(format!("environment `{found}`"));
    }
    match &run.operator.environment {
        Environment::Named(here) => among(here).map(|found| format!("environment `{found}`")),
        Environment::Unsaid => Some("nobody has said which environment this is".into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn k7_whole_numbers_are_compared_as_they_are_and_what_is_no_number_is_not_small() {
        let most = 9_007_199_254_740_992.0;
        for (given, over, is) in [
            (json!(9_007_199_254_740_993_i64), most, Some(true)),
            (json!(9_007_199_254_740_992_i64), most, Some(false)),
            (json!(u64::MAX), most, Some(true)),
            (json!(-7), -7.5, Some(true)),
            (json!(-8), -7.5, Some(false)),
            (json!(100.5), 100.0, Some(true)),
            (json!(100.0), 100.0, Some(false)),
            (json!(1), f64::NAN, Some(true)),
            (json!(1), f64::INFINITY, Some(false)),
            (json!("1"), 100.0, None),
        ] {
            assert_eq!(is_over(&given, over), is, "{given} over {over}");
        }
    }

    #[test]
    fn lists_and_amounts_are_counted_as_a_person_would() {
        assert_eq!(listed("Choose:\n- sea\n- hills\n  2) town\nNo. that is not one"), 3);
        assert_eq!(amounts("Pay 10,000.50 to A1 and 7 to B, on 2026-01-02"), 5);
        assert_eq!(longest(&json!({"plan": {"steps": [1, 2, 3]}, "x": [1]}), Some("steps")), 3);
        assert_eq!(longest(&json!({"a": {"b": [1, 2]}}), None), 2);
    }

    #[test]
    fn what_json_writes_as_two_letters_hides_no_word() {
        let arguments =
            json!({"a": "drop\ntable", "b": [{"c": "dele\r\nte"}, "re\u{1}move"], "pur\nge": 1});
        let mut words = String::new();
        texts(&arguments, &mut words);
        let read = look_alike::Read::of(&words);
        for word in ["drop table", "delete", "remove", "purge"] {
            assert!(read.has(word), "{word}: {words}");
        }
        let mut apart = String::new();
        texts(&json!({"a": "drop", "b": "table"}), &mut apart);
        assert!(!look_alike::Read::of(&apart).has("drop table"), "of two fields none: {apart}");
    }
}
