//! Mermaid and DOT: a graph as text that other tools lay out.

use crate::definition::draw::graph::{Edge, Graph, Node, Shape};

/// The graph as a Mermaid flowchart.
pub(super) fn mermaid(graph: &Graph) -> String {
    let mut lines = vec!["flowchart TD".to_owned()];
    for (index, node) in graph.nodes.iter().enumerate() {
        let text = mermaid_text(node);
        lines.push(match node.shape {
            Shape::Terminal => format!("    n{index}([{}])", node.label),
            Shape::Agent => format!("    n{index}[\"{text}\"]"),
            Shape::Person => format!("    n{index}{{{{\"{text}\"}}}}"),
        });
    }
    for Edge { from, to, label, is_mutual, is_dashed } in &graph.edges {
        let arrow = match (is_mutual, is_dashed) {
            (false, false) => "-->",
            (false, true) => "-.->",
            (true, false) => "<-->",
            (true, true) => "<-.->",
        };
        let label = if label.is_empty() { String::new() } else { format!("|{}|", escaped(label)) };
        lines.push(format!("    n{from} {arrow}{label} n{to}"));
    }
    let people: Vec<String> = (graph.nodes.iter().enumerate())
        .filter(|(_, node)| node.shape == Shape::Person)
        .map(|(index, _)| format!("n{index}"))
        .collect();
    if !people.is_empty() {
        lines.push("    classDef person fill:#fff4d6,stroke:#b7791f,color:#1f2328".into());
        lines.push(format!("    class {} person", people.join(",")));
    }
    lines.join("\n") + "\n"
}

fn mermaid_text(node: &Node) -> String {
    if node.note.is_empty() {
        return escaped(&node.label);
    }
    format!("{}<br/>{}", escaped(&node.label), escaped(&node.note))
}

/// Mermaid reads `#code;` as a character; letters, digits and spaces are safe as they are.
fn escaped(text: &str) -> String {
    let each = |c: char| match c {
        c if c.is_alphanumeric() || " _-.,".contains(c) => c.to_string(),
        c => format!("#{};", u32::from(c)),
    };
    text.chars().map(each).collect()
}

/// The graph as Graphviz DOT.
pub(super) fn dot(graph: &Graph) -> String {
    let mut lines = vec![
        format!("digraph {} {{", quoted(&graph.title)),
        "  rankdir=TB;".to_owned(),
        "  node [fontname=\"sans-serif\", fillcolor=\"#f6f8fa\"];".to_owned(),
        "  edge [fontname=\"sans-serif\", fontsize=10];".to_owned(),
    ];
    for (index, node) in graph.nodes.iter().enumerate() {
        let break_ = if node.note.is_empty() { "" } else { "\n" };
        let label = quoted(&format!("{}{break_}{}", node.label, node.note));
        let look = match node.shape {
            Shape::Terminal => "shape=oval",
            Shape::Agent => "shape=box, style=\"rounded,filled\"",
            Shape::Person => "shape=hexagon, style=filled, fillcolor=\"#fff4d6\"",
        };
        lines.push(format!("  n{index} [label={label}, {look}];"));
    }
    for edge in &graph.edges {
        let mut looks = Vec::new();
        if !edge.label.is_empty() {
            looks.push(format!("label={}", quoted(&edge.label)));
        }
        if edge.is_mutual {
            looks.push("dir=both".to_owned());
        }
        if edge.is_dashed {
            looks.push("style=dashed".to_owned());
        }
        let looks =
            if looks.is_empty() { String::new() } else { format!(" [{}]", looks.join(", ")) };
        lines.push(format!("  n{} -> n{}{looks};", edge.from, edge.to));
    }
    lines.push("}".to_owned());
    lines.join("\n") + "\n"
}

fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{text}\"")
}
