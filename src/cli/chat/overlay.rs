//! Overlay: what is asked, over what was said. Nothing of a question is ever left out: what does not fit
//! is scrolled to, and how much there is stands at the edge.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Padding, Paragraph};
use serde_json::Value;

use crate::app::counted;
use crate::cli::answer;
use crate::cli::chat::lines::{input, wrapped};
use crate::cli::chat::model::Model;
use crate::cli::filling::Filling;
use crate::cli::render::{self, subject};
use crate::cli::term::plain;
use crate::wire::v1::{Message, Request};

/// Messages before a question that are shown with it, where there is room.
const RECENT: usize = 4;
const TITLE: &str = " Workflow requests your input ";
/// Rows that are not text: the frame, and what is typed.
const FRAME: u16 = 5;

/// Draws a question over the body of the screen.
pub(super) fn overlay(frame: &mut Frame<'_>, model: &Model, request: &Request, body: Rect) {
    let width = body.width.saturating_sub(4).min(100);
    let inner = usize::from(width.saturating_sub(4)).max(1);
    let fit = |lines: Vec<(String, Style)>| -> Vec<Line<'static>> {
        let pieces = |(text, style): (String, Style)| {
            let cut = wrapped(&text, inner).into_iter();
            cut.map(move |piece| Line::styled(piece, style)).collect::<Vec<_>>()
        };
        lines.into_iter().flat_map(pieces).collect()
    };
    let room = usize::from(body.height.saturating_sub(FRAME)).max(1);
    let asked = fit(asked(model, request));
    let mut lines = fit(said(request));
    // What was said is on the screen behind it too: it gives way first.
    let excess = (lines.len() + asked.len()).saturating_sub(room).min(lines.len());
    lines.drain(..excess);
    lines.extend(asked);
    let below = lines.len().saturating_sub(room);
    let from = model.peeked.get().min(below);
    model.peeked.set(from);
    let height = u16::try_from(lines.len().min(room)).unwrap_or(u16::MAX).saturating_add(FRAME);
    let height = height.min(body.height);
    let area = Rect {
        x: body.x + (body.width - width) / 2,
        y: body.y + body.height.saturating_sub(height),
        width,
        height,
    };
    frame.render_widget(Clear, area);
    let title = match model.pending.len() {
        1 => TITLE.to_owned(),
        more => format!("{TITLE}· 1 of {more} "),
    };
    let mut block = Block::bordered()
        .title(title)
        .border_style(Style::new().fg(Color::Yellow))
        .padding(Padding::horizontal(1));
    if below > 0 {
        let left = below - from;
        let above = counted(from as u64, "line");
        let more = format!(" {above} above, {left} below: PageUp, PageDown ");
        block = block.title_bottom(Line::styled(more, Style::new().fg(Color::Yellow)));
    }
    let [text, typing] =
        Layout::vertical([Constraint::Min(1), Constraint::Length(3)]).areas(block.inner(area));
    frame.render_widget(block, area);
    let shown: Vec<_> = lines.into_iter().skip(from).take(room).collect();
    frame.render_widget(Paragraph::new(shown), text);
    let asks = model.form().map(|form| (form.heading(), form.is_hidden(&model.typed)));
    match asks {
        // Whichever part of the form is in view, what the line is for stands at it.
        Some((heading, is_hidden)) => {
            let name = heading.map_or_else(|| "send it?".to_owned(), |(name, _)| name);
            let dots = "•".repeat(model.typed.chars().count());
            let typed = if is_hidden { &dots } else { &model.typed };
            input(frame, typing, typed, true);
            let title = Paragraph::new(format!(" {name} "));
            let width = u16::try_from(name.chars().count()).unwrap_or(u16::MAX).saturating_add(2);
            let place = Rect { x: typing.x + 1, height: 1, width, ..typing };
            frame.render_widget(title, place.intersection(typing));
        }
        None => input(frame, typing, &model.typed, true),
    }
}

/// The last words before it. What nobody said, and what was said last and is asked, is the question
/// itself, which follows.
fn said(request: &Request) -> Vec<(String, Style)> {
    let dim = Style::new().add_modifier(Modifier::DIM);
    let is_said = |one: &&Message| {
        let is_spoken = one.role == "user" || one.role == "assistant";
        is_spoken && !one.text.is_empty() && !one.author_name.is_empty()
    };
    let mut said: Vec<_> = request.conversation.iter().filter(is_said).collect();
    said.pop_if(|last| last.text == request.prompt);
    let skipped = said.len().saturating_sub(RECENT);
    let lines = said.into_iter().skip(skipped).flat_map(|message| {
        let text = format!("{}: {}", message.author_name, message.text);
        plain(&text).lines().map(|line| (line.to_owned(), dim)).collect::<Vec<_>>()
    });
    lines.collect()
}

/// The question, its facts, what may be chosen, and how to answer.
fn asked(model: &Model, request: &Request) -> Vec<(String, Style)> {
    let dim = Style::new().add_modifier(Modifier::DIM);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    // What is decided stands before what is asked about it.
    let subject = subject(request).map(|subject| plain(&subject).into_owned()).unwrap_or_default();
    let mut lines: Vec<_> = subject.lines().map(|line| (line.to_owned(), Style::new())).collect();
    let prompt = plain(&request.prompt).into_owned();
    lines.extend(prompt.lines().map(|line| (line.to_owned(), bold)));
    if let Some(context) = render::facts(request) {
        let mut told = Vec::new();
        facts(&context, 0, &mut told);
        lines.extend(told.into_iter().map(|line| (line, Style::new())));
    }
    for (place, option) in (1..).zip(&request.options) {
        let is_chosen = model.typed.trim() == format!("{place}");
        let style =
            if is_chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        let dot = if option.description.is_empty() { "" } else { " · " };
        let text = format!("{place}. {}{dot}{}", option.label, option.description);
        lines.push((plain(&text).into_owned(), style));
    }
    let form = model.forms.get(&request.request_id);
    let usage = match form {
        Some(form) => {
            lines.extend(fields(form));
            form.usage()
        }
        None => answer::usage(request).replace("; exit leaves the run waiting", ""),
    };
    lines.push((format!("({usage})"), dim));
    let objection = plain(&model.objection).into_owned();
    lines.extend(objection.lines().map(|line| (line.to_owned(), Style::new().fg(Color::Red))));
    lines
}

/// A form: what is filled in, and the field that is asked for.
fn fields(form: &Filling) -> Vec<(String, Style)> {
    let told = form.told().into_iter().map(|line| (line, Style::new()));
    let asks = form.heading().map(|(name, takes)| {
        (format!("{name}: {takes}"), Style::new().add_modifier(Modifier::BOLD))
    });
    told.chain(asks).collect()
}

/// Facts, a line each. A text that could be taken for something else is quoted.
fn facts(value: &Value, depth: usize, told: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    let mut put = |name: &str, value: &Value| match value {
        Value::Object(members) if !members.is_empty() => {
            told.push(format!("{indent}{name}"));
            facts(value, depth + 1, told);
        }
        Value::Array(items) if !items.is_empty() => {
            told.push(format!("{indent}{name}"));
            facts(value, depth + 1, told);
        }
        Value::String(text) => told.push(format!("{indent}{name} {}", spelled(text))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            told.push(format!("{indent}{name} {value}"));
        }
    };
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                put(&format!("{}:", plain(&name.replace('\n', "\\n"))), value);
            }
        }
        Value::Array(items) => {
            for (place, value) in (1..).zip(items) {
                put(&format!("{place}."), value);
            }
        }
        Value::String(text) => told.extend(plain(text).lines().map(str::to_owned)),
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) => told.push(value.to_string()),
    }
}

fn spelled(text: &str) -> String {
    let is_plain = !text.is_empty()
        && text.trim() == text
        && !text.contains('\n')
        && serde_json::from_str::<Value>(text).is_err();
    let shown = if is_plain { text.to_owned() } else { Value::from(text).to_string() };
    plain(&shown).into_owned()
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    use super::*;
    use crate::wire::v1::Option as Choice;

    fn screen(model: &Model) -> String {
        let mut terminal = Terminal::new(TestBackend::new(60, 16)).unwrap();
        let request = model.pending.front().unwrap();
        terminal.draw(|frame| overlay(frame, model, request, frame.area())).unwrap();
        terminal.backend().to_string()
    }

    fn asking(context: &Value) -> Model {
        let said = |text: &str| Message {
            role: "assistant".into(),
            author_name: "clerk".into(),
            text: text.into(),
            ..Message::default()
        };
        let request = Request {
            prompt: "May it?".into(),
            context: Some(context.into()),
            conversation: vec![said("First."), said("Second."), said("May it?")],
            options: vec![Choice { id: "a".into(), label: "A".into(), ..Choice::default() }],
            ..Request::default()
        };
        Model { pending: [request].into(), ..Model::default() }
    }

    #[test]
    fn facts_are_lines_and_nothing_in_them_can_pass_for_something_else() {
        let value = json!({
            "to": "Ada", "count": 3, "text": "3", "lines": "one\ntwo", "list": ["x", {"y": true}],
            "hidden": "a\u{200b}b",
        });
        let mut told = Vec::new();
        facts(&value, 0, &mut told);
        for line in [
            "to: Ada",
            "count: 3",
            "text: \"3\"",
            "lines: \"one\\ntwo\"",
            "list:",
            "  1. x",
            "  2.",
            "    y: true",
            "hidden: a\\u{200b}b",
        ] {
            assert!(told.iter().any(|one| one == line), "{line}: {told:?}");
        }
    }

    #[test]
    fn a_short_question_comes_with_what_was_said_and_is_not_said_twice() {
        let shown = screen(&asking(&json!({"to": "Ada"})));
        assert!(shown.contains("clerk: First.") && shown.contains("clerk: Second."), "{shown}");
        assert_eq!(shown.matches("May it?").count(), 1, "{shown}");
        assert!(!shown.contains("PageDown"), "{shown}");
    }

    #[test]
    fn a_long_question_is_scrolled_to_its_end() {
        let many: Vec<_> = (1..=30).map(|line| format!("fact {line}")).collect();
        let model = asking(&json!({"many": many}));
        let shown = screen(&model);
        assert!(shown.contains("May it?") && shown.contains("fact 1"), "{shown}");
        assert!(!shown.contains("clerk:"), "what was said gives way: {shown}");
        assert!(shown.contains("0 lines above, 23 below"), "{shown}");
        model.peeked.set(1_000);
        let shown = screen(&model);
        assert!(shown.contains("fact 30") && shown.contains("1. A"), "{shown}");
        assert!(shown.contains("23 lines above, 0 below"), "{shown}");
    }
}
