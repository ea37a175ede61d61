//! Draw: the model on a screen: what was said, what is asked over it, and what is being typed.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::cli::chat::lines::{input, wrapped};
use crate::cli::chat::model::{By, Model, Said};
use crate::cli::chat::overlay;
use crate::cli::term::plain;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let rows =
        [Constraint::Length(1), Constraint::Min(1), Constraint::Length(3), Constraint::Length(1)];
    let [head, body, typing, foot] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(headline(model), head);
    transcript(frame, model, body);
    let asks = model.overlay();
    let typed = if asks.is_some() { "" } else { model.typed.as_str() };
    input(frame, typing, typed, asks.is_none());
    frame.render_widget(footer(model), foot);
    if let Some(request) = asks {
        overlay::overlay(frame, model, request, body);
    }
}

fn headline(model: &Model) -> Line<'static> {
    let name = if model.workflow.is_empty() { "no workflow" } else { &model.workflow };
    let session = if model.session.is_empty() { "new session" } else { &model.session };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut parts = vec![
        Span::styled(format!(" {} ", plain(name)), bold),
        Span::raw(format!("· {} · {}", plain(session), model.status)),
    ];
    if model.is_away {
        parts.push(Span::styled(" · server away", bold.fg(Color::Red)));
    }
    Line::from(parts)
}

fn footer(model: &Model) -> Line<'static> {
    let text = match (model.overlay(), model.pending.len()) {
        (Some(_), 1) => "Enter answers · Esc hides · /help".to_owned(),
        (Some(_), more) => format!("Enter answers · Esc hides · Tab shows the next of {more}"),
        (None, 0) => "Enter sends · /help · Ctrl-C leaves, and nothing is lost".to_owned(),
        (None, 1) => "1 request waits · Esc shows it".to_owned(),
        (None, more) => format!("{more} requests wait · Esc shows them"),
    };
    Line::styled(format!(" {text}"), Style::new().add_modifier(Modifier::DIM))
}

fn transcript(frame: &mut Frame<'_>, model: &Model, area: Rect) {
    let width = usize::from(area.width.max(1));
    let mut lines: Vec<Line<'_>> = Vec::new();
    for said in &model.said {
        lines.extend(lines_of(said, width));
    }
    if let Some((by, text)) = &model.speaking {
        let by = By::Agent(by.clone());
        lines.extend(lines_of(&Said { by, text: format!("{}…", plain(text)) }, width));
    }
    let height = usize::from(area.height);
    let back = model.scrolled.min(lines.len().saturating_sub(height));
    let end = lines.len().saturating_sub(back);
    let first = end.saturating_sub(height);
    frame.render_widget(Paragraph::new(lines.drain(first..end).collect::<Vec<_>>()), area);
}

/// What was said, in lines that fit.
fn lines_of(said: &Said, width: usize) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let (name, style) = match &said.by {
        By::Person(name) => (format!("{name}: "), bold.fg(Color::Green)),
        By::Agent(name) => (format!("{name}: "), bold.fg(Color::Cyan)),
        By::Note => (String::new(), Style::new().add_modifier(Modifier::DIM)),
        By::Trouble => (String::new(), Style::new().fg(Color::Red)),
    };
    let name = plain(&name).into_owned();
    let text = format!("{name}{}", said.text);
    let mut lines = Vec::new();
    for (index, line) in text.split('\n').flat_map(|line| wrapped(line, width)).enumerate() {
        lines.push(match line.strip_prefix(name.as_str()) {
            Some(rest) if index == 0 && !name.is_empty() => {
                Line::from(vec![Span::styled(name.clone(), style), Span::raw(rest.to_owned())])
            }
            Some(_) if name.is_empty() => Line::styled(line, style),
            Some(_) | None => Line::raw(line),
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::wire::v1::Request;

    fn screen(model: &Model) -> String {
        let mut terminal = Terminal::new(TestBackend::new(60, 20)).unwrap();
        terminal.draw(|frame| draw(frame, model)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_request_is_shown_over_what_was_said_and_hidden_on_demand() {
        let mut model = Model { workflow: "chat".into(), ..Model::default() };
        model.say(By::Agent("host".into()), "Hello.");
        let request = Request { prompt: "And then?".into(), ..Request::default() };
        model.pending.push_back(request);
        let shown = screen(&model);
        for part in ["host: Hello.", "Workflow requests your input", "And then?", "Enter answers"] {
            assert!(shown.contains(part), "{part}\n{shown}");
        }
        model.is_hidden = true;
        let hidden = screen(&model);
        assert!(!hidden.contains("And then?") && hidden.contains("1 request waits"), "{hidden}");
    }
}
