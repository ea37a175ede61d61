//! Shipped: the workflows that are built into the binary, as examples that run offline.

use crate::definition::load::{Loaded, load_text};

/// A file by its name, and its text.
type Text = (&'static str, &'static str);

const WORKFLOWS: [Text; 5] = [
    ("approve_and_send.yaml", include_str!("../../workflows/approve_and_send.yaml")),
    ("customer_onboarding.yaml", include_str!("../../workflows/customer_onboarding.yaml")),
    ("event_planning.yaml", include_str!("../../workflows/event_planning.yaml")),
    ("multi_tier_support.yaml", include_str!("../../workflows/multi_tier_support.yaml")),
    ("research_task.yaml", include_str!("../../workflows/research_task.yaml")),
];
const SCRIPTS: [Text; 4] = [
    (
        "customer_onboarding.script.yaml",
        include_str!("../../workflows/customer_onboarding.script.yaml"),
    ),
    ("research_task.script.yaml", include_str!("../../workflows/research_task.script.yaml")),
    ("event_planning.script.yaml", include_str!("../../workflows/event_planning.script.yaml")),
    (
        "multi_tier_support.script.yaml",
        include_str!("../../workflows/multi_tier_support.script.yaml"),
    ),
];

/// The workflows that are built in, by name.
pub fn shipped() -> Vec<Loaded> {
    let load = |(name, text): Text| {
        let loaded = load_text(&format!("workflows/{name}"), text, &|wanted| {
            let script = SCRIPTS.into_iter().find(|(name, _)| *name == wanted);
            let (name, text) = script.ok_or("there is no such file")?;
            Ok((format!("workflows/{name}"), text.to_owned()))
        });
        loaded.expect("the shipped workflows are checked by a test")
    };
    WORKFLOWS.into_iter().map(load).collect()
}
