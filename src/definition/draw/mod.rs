//! Draw: a workflow as a picture, for people: Mermaid, DOT and SVG.
//!
//! All three show the same graph: agents, the points at which people decide, and who follows whom.

mod graph;
mod layout;
mod program;
mod svg;
mod text;

use crate::kernel::Workflow;
use graph::Shape;

/// The workflow as a Mermaid flowchart.
pub fn mermaid(workflow: &Workflow) -> String {
    text::mermaid(&graph::of(workflow))
}

/// The workflow as a Graphviz graph.
pub fn dot(workflow: &Workflow) -> String {
    text::dot(&graph::of(workflow))
}

/// The workflow as a self-contained SVG picture, readable on light and on dark.
pub fn svg(workflow: &Workflow) -> String {
    svg::svg(&graph::of(workflow))
}

/// What a drawing shows, for those who draw it themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// Everybody who takes part, by name, and whether it is a person.
    pub parts: Vec<(String, bool)>,
    /// Who follows whom, and when.
    pub arrows: Vec<(String, String, String)>,
    /// Who begins.
    pub first: Option<String>,
}

/// The workflow without its terminals.
pub fn outline(workflow: &Workflow) -> Outline {
    let graph = graph::of(workflow);
    let name = |index: usize| {
        let node = graph.nodes.get(index).filter(|node| node.shape != Shape::Terminal)?;
        Some(node.label.clone())
    };
    let arrows = graph.edges.iter().flat_map(|edge| {
        let (from, to) = (name(edge.from), name(edge.to));
        let there = from.clone().zip(to.clone());
        let back = to.zip(from).filter(|_| edge.is_mutual);
        there.into_iter().chain(back).map(|(from, to)| (from, to, edge.label.clone()))
    });
    let parts = graph.nodes.iter().filter(|node| node.shape != Shape::Terminal);
    // The first node is where a run begins.
    let first = graph.edges.iter().find(|edge| edge.from == 0).and_then(|edge| name(edge.to));
    Outline {
        parts: parts.map(|node| (node.label.clone(), node.shape == Shape::Person)).collect(),
        arrows: arrows.collect(),
        first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{load_text, shipped};

    fn workflow(name: &str) -> std::sync::Arc<Workflow> {
        let shipped = shipped();
        let found = shipped.iter().find(|one| one.workflow.name == name).unwrap();
        std::sync::Arc::clone(&found.workflow)
    }

    fn sequence() -> std::sync::Arc<Workflow> {
        let file = "\
name: approve
models: {default: {provider: scripted, script: [{say: x}]}}
agents: {writer: {human_input: false}, sender: {human_input: false}}
pattern: sequential
steps:
  - {id: draft, agent: writer}
  - {id: approve, human: {kind: approval, prompt: Send this message?}}
  - {id: send, agent: sender}
";
        load_text("approve.yaml", file, &|_| Err(String::new())).unwrap().workflow
    }

    #[test]
    fn a_sequence_is_drawn_step_by_step_with_its_human_point() {
        let expected = "\
flowchart TD
    n0([start])
    n1[\"draft<br/>by writer\"]
    n2{{\"approve<br/>a person approves\"}}
    n3[\"send<br/>by sender\"]
    n4([end])
    n0 --> n1
    n1 --> n2
    n2 -->|approved| n3
    n3 --> n4
    classDef person fill:#fff4d6,stroke:#b7791f,color:#1f2328
    class n2 person
";
        assert_eq!(mermaid(&sequence()), expected);
    }

    #[test]
    fn an_outline_has_everybody_and_begins_somewhere() {
        let outline = outline(&sequence());
        let parts = [("draft", false), ("approve", true), ("send", false)];
        assert_eq!(outline.parts, parts.map(|(name, is_person)| (name.to_owned(), is_person)));
        assert_eq!(outline.first.as_deref(), Some("draft"));
        let arrows = [("draft", "approve", ""), ("approve", "send", "approved")];
        let told = |(from, to, when): (&str, &str, &str)| (from.into(), to.into(), when.into());
        assert_eq!(outline.arrows, arrows.map(told));
        for loaded in shipped() {
            assert!(super::outline(&loaded.workflow).first.is_some(), "{}", loaded.workflow.name);
        }
    }

    #[test]
    fn handoffs_are_drawn_with_the_users_turn() {
        let dot = dot(&workflow("multi_tier_support"));
        assert!(dot.starts_with("digraph \"multi_tier_support\" {\n"), "{dot}");
        for line in [
            "n1 [label=\"triage\\nspeaks first\", shape=box, style=\"rounded,filled\"];",
            "n5 [label=\"the user\\ntakes a turn\", shape=hexagon, style=filled, fillcolor=\"#fff4d6\"];",
            "n1 -> n2;",
            "n1 -> n5 [dir=both, style=dashed];",
            "n5 -> n6 [label=\"more than 3 messages\"];",
        ] {
            assert!(dot.contains(line), "{line}\n{dot}");
        }
    }

    #[test]
    fn gates_at_tools_are_drawn_where_they_are_called() {
        let drawn = mermaid(&workflow("research_task"));
        let engineer = "engineer<br/>by engineer, asks before write_file, may ask before run_code";
        assert!(drawn.contains(engineer), "{drawn}");
        assert!(drawn.contains("researcher<br/>by researcher\""), "{drawn}");
    }

    #[test]
    fn an_svg_has_a_box_for_everybody_and_no_box_lies_on_another() {
        for loaded in shipped() {
            let svg = svg(&loaded.workflow);
            for name in loaded.workflow.step_ids().iter().map(|(step, _)| step) {
                assert!(svg.contains(&format!(">{name}</text>")), "{name}\n{svg}");
            }
            let boxes = layout::of(&graph::of(&loaded.workflow)).boxes;
            for (index, one) in boxes.iter().enumerate() {
                for other in &boxes[index + 1..] {
                    let apart = one.x + one.width <= other.x
                        || other.x + other.width <= one.x
                        || one.y + one.height <= other.y
                        || other.y + other.height <= one.y;
                    assert!(apart, "{one:?} {other:?}");
                }
            }
        }
    }

    #[test]
    fn a_cycle_of_handoffs_can_be_drawn_and_what_is_written_stays_text() {
        let text = "\
name: loop
models: {m: {provider: scripted, script: [{say: x}]}}
agents: {a: {}, b: {}, c: {}}
pattern: handoff
handoff:
  start: a
  handoffs: {a: [b], b: [c], c: [a]}
  ends: {last_message_contains: '</text><script>\"x\"'}
";
        let loaded = load_text("w", text, &|_| Err(String::new())).unwrap();
        let svg = svg(&loaded.workflow);
        assert!(!svg.contains("<script>"), "{svg}");
        assert!(svg.contains("&lt;script&gt;"), "{svg}");
        assert!(mermaid(&loaded.workflow).contains("n3 --> n1"));
        assert!(dot(&loaded.workflow).contains("\\\"x\\\""));
    }
}
