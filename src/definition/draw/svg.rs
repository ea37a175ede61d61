//! SVG: a graph as a self-contained picture, readable on light and on dark.

use crate::definition::draw::graph::{ASKS, Edge, Graph, Node, Shape};
use crate::definition::draw::layout::{self, Rect, Route};

/// A larger graph is nothing that a person takes in at a glance, and its layout takes long.
const NODES_MAX: usize = 200;
const EDGES_MAX: usize = 1_000;

const STYLE: &str = "\
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:14px;\
fill:#1f2328;text-anchor:middle}
.note{font-size:11.5px;fill:#57606a}
.asks{fill:#9a6700}
.back{fill:#ffffff}
.agent{fill:#eef4ff;stroke:#4a6fb5;stroke-width:1.5}
.person{fill:#fff4d6;stroke:#b7791f;stroke-width:1.5}
.terminal{fill:#f0f1f3;stroke:#8b949e;stroke-width:1.5}
.edge{fill:none;stroke:#6e7781;stroke-width:1.5}
.dashed{stroke:#b7791f;stroke-dasharray:5 4}
.head{fill:#6e7781}
.label{font-size:11.5px;fill:#57606a;paint-order:stroke;stroke:#ffffff;stroke-width:4px}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.note{fill:#9da7b1}.asks{fill:#d6a13a}.back{fill:#0d1117}.agent{fill:#16243d;stroke:#6e95dd}
.person{fill:#3a2d0c;stroke:#d6a13a}.terminal{fill:#21262d;stroke:#8b949e}.edge{stroke:#8b949e}
.dashed{stroke:#d6a13a}.head{fill:#8b949e}.label{fill:#9da7b1;stroke:#0d1117}}
";

/// The graph as an SVG picture.
pub(super) fn svg(graph: &Graph) -> String {
    if graph.nodes.len() > NODES_MAX || graph.edges.len() > EDGES_MAX {
        return too_large(graph);
    }
    let layout = layout::of(graph);
    let title = escaped(&graph.title);
    let mut lines = vec![
        head(layout.width, layout.height),
        format!("<title>{title}</title>"),
        format!("<style>{STYLE}</style>"),
        "<defs><marker id=\"head\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" \
         markerHeight=\"7\" orient=\"auto-start-reverse\"><path class=\"head\" \
         d=\"M0 0L10 5L0 10z\"/></marker></defs>"
            .to_owned(),
        "<rect class=\"back\" width=\"100%\" height=\"100%\"/>".to_owned(),
    ];
    let edges = graph.edges.iter().zip(&layout.routes);
    lines.extend(edges.clone().map(|(edge, route)| arrow(edge, route)));
    lines.extend(graph.nodes.iter().zip(&layout.boxes).map(|(node, rect)| shape(node, rect)));
    lines.extend(edges.filter_map(|(edge, route)| label(edge, route)));
    lines.push("</svg>".to_owned());
    lines.join("\n") + "\n"
}

fn head(width: i32, height: i32) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width}\" \
         height=\"{height}\" viewBox=\"0 0 {width} {height}\">"
    )
}

fn too_large(graph: &Graph) -> String {
    let (nodes, edges) = (graph.nodes.len(), graph.edges.len());
    let words =
        format!("{nodes} nodes and {edges} arrows are too many to draw here; take the DOT form");
    let text = format!("<text x=\"12\" y=\"28\">{}</text>", escaped(&words));
    format!("{}\n{text}\n</svg>\n", head(640, 48))
}

/// Smooth between the rows, straight through them.
fn arrow(edge: &Edge, route: &Route) -> String {
    let mut path = String::new();
    for ((x0, y0), (x1, y1)) in &route.points {
        let start = if path.is_empty() { 'M' } else { 'L' };
        let bend = i32::midpoint(*y0, *y1);
        path = format!("{path}{start}{x0} {y0}C{x0} {bend} {x1} {bend} {x1} {y1}");
    }
    let class = if edge.is_dashed { "edge dashed" } else { "edge" };
    let up = edge.is_mutual || route.is_reversed;
    let down = edge.is_mutual || !route.is_reversed;
    let start = if up { " marker-start=\"url(#head)\"" } else { "" };
    let end = if down { " marker-end=\"url(#head)\"" } else { "" };
    format!("<path class=\"{class}\" d=\"{path}\"{start}{end}/>")
}

fn label(edge: &Edge, route: &Route) -> Option<String> {
    let ((x0, y0), (x1, y1)) = *route.points.first()?;
    if edge.label.is_empty() {
        return None;
    }
    let (x, y) = (i32::midpoint(x0, x1), i32::midpoint(y0, y1) + 4);
    Some(format!("<text class=\"label\" x=\"{x}\" y=\"{y}\">{}</text>", escaped(&edge.label)))
}

fn shape(node: &Node, rect: &Rect) -> String {
    let Rect { x, y, width, height } = *rect;
    let outline = match node.shape {
        Shape::Terminal => rounded("terminal", rect, height / 2),
        Shape::Agent => rounded("agent", rect, 8),
        Shape::Person => {
            let (left, right, middle) = (x + 12, x + width - 12, y + height / 2);
            let (far, bottom) = (x + width, y + height);
            format!(
                "<path class=\"person\" d=\"M{left} {y}H{right}L{far} {middle}L{right} {bottom}H{left}L{x} {middle}z\"/>"
            )
        }
    };
    let (centre, middle) = (x + width / 2, y + height / 2);
    let label_y = if node.note.is_empty() { middle + 5 } else { middle - 2 };
    let label = format!("<text x=\"{centre}\" y=\"{label_y}\">{}</text>", escaped(&node.label));
    if node.note.is_empty() {
        return format!("{outline}{label}");
    }
    let (note_y, note) = (middle + 15, escaped(&node.note));
    let class = if node.note.contains(ASKS) { "note asks" } else { "note" };
    format!("{outline}{label}<text class=\"{class}\" x=\"{centre}\" y=\"{note_y}\">{note}</text>")
}

fn rounded(class: &str, rect: &Rect, radius: i32) -> String {
    let Rect { x, y, width, height } = *rect;
    format!(
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{radius}\"/>"
    )
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    // Control characters have no place in XML.
    text.replace('"', "&quot;").chars().filter(|c| !c.is_control()).collect()
}
