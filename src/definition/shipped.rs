//! Shipped: the workflows that are built into the binary, as examples that run offline.

use crate::definition::load::{Loaded, load_text};

/// Each shipped file, and its script if it has one beside it: name and text.
const SHIPPED: [(&str, &str, Option<(&str, &str)>); 3] = [
    (
        "workflows/approve_and_send.yaml",
        include_str!("../../workflows/approve_and_send.yaml"),
        None,
    ),
    (
        "workflows/event_planning.yaml",
        include_str!("../../workflows/event_planning.yaml"),
        Some((
            "event_planning.script.yaml",
            include_str!("../../workflows/event_planning.script.yaml"),
        )),
    ),
    (
        "workflows/multi_tier_support.yaml",
        include_str!("../../workflows/multi_tier_support.yaml"),
        Some((
            "multi_tier_support.script.yaml",
            include_str!("../../workflows/multi_tier_support.script.yaml"),
        )),
    ),
];

/// The workflows that are built in, by name.
pub fn shipped() -> Vec<Loaded> {
    let load = |(name, text, script): (&str, &str, Option<(&str, &str)>)| {
        let loaded = load_text(name, text, &|wanted| match script {
            Some((file, text)) if file == wanted => {
                Ok((format!("workflows/{file}"), text.to_owned()))
            }
            Some(_) | None => Err("there is no such file".into()),
        });
        loaded.expect("the shipped workflows are checked by a test")
    };
    SHIPPED.into_iter().map(load).collect()
}
