//! Whereabouts: where in a workflow something was said or done, in words: the branch of a `parallel`, the item of a
//! `for_each`, the round of a loop. Read from paths and from the lists that the journal has; nothing is looked up.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::console::text;
use crate::kernel::graph::{Opening, Task};
use crate::kernel::workflow::Pattern;
use crate::kernel::{Event, Recorded, Run, readable};

/// Characters of an item that tell it from its neighbours.
const ITEM_CHARS: usize = 32;
/// The members that items are called by, where they are objects: the first of these that is a text.
const NAMES: [&str; 6] = ["name", "title", "label", "subject", "id", "key"];

/// Where everything in a run was said and done.
pub(super) struct Whereabouts<'a> {
    steps: BTreeMap<u32, &'a str>,
    items: BTreeMap<&'a str, &'a [Value]>,
    blocks: BTreeMap<&'a str, Block<'a>>,
}

/// What a step that has others within it is.
enum Block<'a> {
    Branches,
    Items(&'a str),
    Rounds,
}

impl<'a> Whereabouts<'a> {
    /// Of a run.
    pub(super) fn of(run: &'a Run, journal: &'a [Recorded]) -> Self {
        let mut found =
            Self { steps: BTreeMap::new(), items: BTreeMap::new(), blocks: BTreeMap::new() };
        for recorded in journal {
            if let Event::StepStarted { turn, step, .. } = &recorded.event {
                found.steps.insert(*turn, step);
            } else if let Event::StepOpened { path, opening: Opening::Items(items) } =
                &recorded.event
            {
                found.items.insert(path, items);
            }
        }
        if let Pattern::Graph(program) = &run.workflow.pattern {
            for step in program.all() {
                let block = match &step.task {
                    Task::Parallel { .. } => Block::Branches,
                    Task::ForEach { name, .. } => Block::Items(name),
                    Task::Loop { .. } => Block::Rounds,
                    Task::Agent { .. }
                    | Task::Tool { .. }
                    | Task::If { .. }
                    | Task::Switch { .. }
                    | Task::Wait { .. }
                    | Task::Human(_)
                    | Task::Extract { .. }
                    | Task::Sub { .. }
                    | Task::Group { .. } => continue,
                };
                found.blocks.insert(&step.id, block);
            }
        }
        found
    }

    /// The step of a turn.
    pub(super) fn step(&self, turn: u32) -> Option<&'a str> {
        self.steps.get(&turn).copied()
    }

    /// Where a step stands, in words, if it is one of many: `check · line 2, Dinner`.
    pub(super) fn words(&self, path: &str) -> Option<String> {
        let mut words = Vec::new();
        let mut so_far = String::new();
        let mut branches = false;
        for segment in path.split('/') {
            if !so_far.is_empty() {
                so_far.push('/');
            }
            let (name, index) = indexed(segment);
            if std::mem::take(&mut branches) {
                words.push(name.to_owned());
            }
            so_far.push_str(name);
            match (self.blocks.get(name), index) {
                (Some(Block::Branches), _) => {
                    words.push(name.to_owned());
                    branches = true;
                }
                (Some(Block::Items(called)), Some(index)) => {
                    let items = self.items.get(so_far.as_str()).copied().unwrap_or_default();
                    words.push(name.to_owned());
                    words.push(item(called, index, items));
                }
                // Rounds are counted from one as they are begun.
                (Some(Block::Rounds), Some(index)) => {
                    words.push(name.to_owned());
                    words.push(format!("round {index}"));
                }
                (Some(Block::Items(_) | Block::Rounds) | None, _) => {}
            }
            so_far.push_str(segment.get(name.len()..).unwrap_or_default());
        }
        (!words.is_empty()).then(|| words.join(" · "))
    }
}

/// A segment of a path without its index, and that.
fn indexed(segment: &str) -> (&str, Option<usize>) {
    match segment.strip_suffix(']').and_then(|open| open.rsplit_once('[')) {
        Some((name, index)) => (name, index.parse().ok()),
        None => (segment, None),
    }
}

fn item(called: &str, index: usize, items: &[Value]) -> String {
    let item = items.get(index);
    let name = item.and_then(|item| match item {
        Value::Object(members) => {
            NAMES.iter().find_map(|name| members.get(*name)?.as_str().map(str::to_owned))
        }
        Value::String(_) | Value::Number(_) => Some(readable(item)),
        Value::Null | Value::Bool(_) | Value::Array(_) => None,
    });
    let name = name.map(|name| text::first_words(&name, ITEM_CHARS));
    let name = name.filter(|name| !name.is_empty()).map(|name| format!(", {name}"));
    format!("{called} {}{}", index + 1, name.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_of_many_is_told_by_its_place_and_its_name() {
        let items = [json!({"name": "Lunch"}), json!({"n": 1}), json!("Tea")];
        let found = Whereabouts {
            steps: BTreeMap::new(),
            items: BTreeMap::from([("check", &items[..])]),
            blocks: BTreeMap::from([
                ("check", Block::Items("line")),
                ("both", Block::Branches),
                ("report", Block::Rounds),
            ]),
        };
        let words = |path: &str| found.words(path);
        assert_eq!(words("check[0]/look").as_deref(), Some("check · line 1, Lunch"));
        assert_eq!(words("check[1]/look").as_deref(), Some("check · line 2"));
        assert_eq!(words("check[2]/look").as_deref(), Some("check · line 3, Tea"));
        assert_eq!(words("both/north/call").as_deref(), Some("both · north"));
        assert_eq!(words("report[3]/one").as_deref(), Some("report · round 3"));
        assert_eq!(words("alone"), None);
    }
}
