//! Walkthroughs: the shipped workflows at the terminal, from start to end, held word for word to what
//! `docs/` shows of them. What was seen is left in `target/walkthroughs`, to be copied from there.
//!
//! The pictures beside them are those of the scenes in `tests/console/walk.mjs`.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::screen::Screen;

/// The characters of an id that are another's every time.
const STEM: usize = 26;

/// A shell that a person types into, tall enough for all that is said.
struct Terminal {
    screen: Screen,
    asked: usize,
    _here: TempDir,
}

impl Terminal {
    fn open() -> Self {
        let here = TempDir::new().unwrap();
        let binary = Path::new(env!("CARGO_BIN_EXE_holdpoint"));
        let folder = binary.parent().unwrap().display();
        let shell = format!("env PS1='$ ' PATH={folder}:$PATH sh");
        let screen = Screen::open(here.path(), "shell", (120, 240), &shell);
        screen.looks("a prompt", |shown| shown == "$\n");
        Self { screen, asked: 0, _here: here }
    }

    /// Types a command.
    fn runs(&self, command: &str) {
        self.screen.types(command);
    }

    /// Waits until something is asked, and types an answer.
    fn answers(&mut self, answer: &str) {
        self.asked += 1;
        self.screen.looks(&format!("question {}", self.asked), |shown| {
            shown.matches(") >").count() == self.asked && shown.trim_end().ends_with(") >")
        });
        self.screen.types(answer);
    }

    /// Waits for the shell's prompt.
    fn ends(&self) -> String {
        let shown = self.screen.looks("the end", |shown| shown.ends_with("\n$\n"));
        shown.strip_suffix("$\n").unwrap().to_owned()
    }
}

/// A chat, as large as a page of documentation shows it.
fn chat(here: &TempDir, arguments: &str) -> Screen {
    let binary = env!("CARGO_BIN_EXE_holdpoint");
    let command = format!("{binary} chat {arguments} --data data");
    Screen::open(here.path(), "chat", (96, 26), &command)
}

/// Whether a page shows this, once the ids are nobody's.
fn is_shown(page: &str, name: &str, seen: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let seen = anonymous(seen);
    let kept = root.join("target/walkthroughs");
    fs::create_dir_all(&kept).unwrap();
    let file = kept.join(format!("{name}.txt"));
    fs::write(&file, &seen).unwrap();
    let text = fs::read_to_string(root.join("docs").join(page)).unwrap();
    let is_there = text.contains(&format!("```text\n{seen}```\n"));
    assert!(is_there, "docs/{page} does not show what {} holds:\n{seen}", file.display());
}

/// What ran at the same time came back in whatever order.
fn in_order(text: &str) -> String {
    let is_back = |line: &str| line.starts_with("  came back: ");
    let mut lines: Vec<_> = text.lines().collect();
    for group in lines.chunk_by_mut(|one, other| is_back(one) && is_back(other)) {
        group.sort_unstable();
    }
    lines.join("\n") + "\n"
}

/// The same for every run: ids end after their kind.
fn anonymous(text: &str) -> String {
    let mut told = String::new();
    let mut rest = text;
    loop {
        let found = ["run_", "ses_", "req_"].iter().filter_map(|kind| rest.find(kind)).min();
        let Some(at) = found else { return told + rest };
        let (before, id) = rest.split_at(at + 4);
        told.push_str(before);
        let is_stem = |stem: &str| stem.bytes().all(|byte| byte.is_ascii_alphanumeric());
        rest = match id.split_at_checked(STEM) {
            Some((stem, after)) if is_stem(stem) => {
                told.push('…');
                // A request's ordinal is the same every time, its tail never.
                match after.strip_prefix('-').and_then(|rest| rest.split_once('-')) {
                    Some((ordinal, rest)) if before.ends_with("req_") && ordinal.len() == 4 => {
                        told.extend(["-", ordinal]);
                        rest.get(8..).unwrap_or_default()
                    }
                    Some(_) | None => after,
                }
            }
            Some(_) | None => id,
        };
    }
}

#[test]
fn support_at_the_terminal_is_as_its_page_shows() {
    let mut terminal = Terminal::open();
    terminal.runs(
        "holdpoint run multi_tier_support \"I need help with order 12345. I want a replacement and need to know when it will arrive.\"",
    );
    terminal
        .answers("The item arrived damaged. I'd like a replacement shipped to the same address.");
    terminal.answers("Great! Can you confirm the shipping cost won't be charged again?");
    terminal.answers("Thank you!");
    is_shown("multi_tier_support.md", "multi_tier_support", &terminal.ends());

    let here = TempDir::new().unwrap();
    let chat = chat(&here, "multi_tier_support --session order-12345");
    chat.sees(&["A new session"]);
    chat.types("I need help with order 12345. I want a replacement.");
    chat.sees(&["Workflow requests your input"]);
    chat.types("The item arrived damaged. Same address please.");
    let shown =
        chat.sees(&["· waiting", "delivery: Your package leaves", "Workflow requests your input"]);
    is_shown("multi_tier_support.md", "multi_tier_support-chat", &shown);
}

#[test]
fn planning_an_event_at_the_terminal_is_as_its_page_shows() {
    let mut terminal = Terminal::open();
    terminal.runs("holdpoint run event_planning \"Plan a party for 30 people\"");
    terminal.answers("the moon");
    terminal.answers("2");
    terminal.answers("$4000");
    is_shown("event_planning.md", "event_planning", &terminal.ends());

    let here = TempDir::new().unwrap();
    let chat = chat(&here, "event_planning --session party");
    chat.sees(&["A new session"]);
    chat.types("Plan a party for 30 people");
    let shown = chat.sees(&["· waiting", "Workflow requests your input", "Which venue"]);
    is_shown("event_planning.md", "event_planning-chat", &shown);
}

#[test]
fn a_research_task_at_the_terminal_is_as_its_page_shows() {
    let mut terminal = Terminal::open();
    terminal
        .runs("holdpoint run research_task \"Measure the dust in the data and publish a report.\"");
    terminal.answers("revise");
    terminal.answers("Make it simpler: one step.");
    terminal.answers("approve: Thank you.");
    terminal.answers("approve");
    is_shown("research_task.md", "research_task", &terminal.ends());

    let here = TempDir::new().unwrap();
    let chat = chat(&here, "research_task --session dust");
    chat.sees(&["A new session"]);
    chat.types("Measure the dust in the data and publish a report.");
    chat.sees(&["Workflow requests your input", "Review this plan."]);
    chat.types("approve");
    chat.sees(&["Step 1: Analyse the data"]);
    chat.types("approve");
    chat.sees(&["Step 2: Write the report"]);
    chat.types("approve");
    let shown = chat.sees(&["· waiting", "May engineer call", "report.md", "n, or edit"]);
    is_shown("research_task.md", "research_task-chat", &shown);
}

#[test]
fn onboarding_a_customer_at_the_terminal_is_as_its_page_shows() {
    let mut terminal = Terminal::open();
    terminal.runs("holdpoint run customer_onboarding \"Onboard Acme\" --session acme");
    terminal.answers("2");
    terminal.answers("Platform licence");
    let told = terminal.ends();
    let run = told.split("holdpoint signal ").nth(1).unwrap().split(' ').next().unwrap();
    terminal.runs(&format!("holdpoint signal {run} onboarding_complete"));
    terminal.screen.looks("the signal", |shown| shown.matches("\n$ ").count() == 1);
    terminal.ends();
    terminal.runs(&format!("holdpoint watch {run} | tail -n 3"));
    terminal.screen.sees(&["Onboarding report."]);
    is_shown("customer_onboarding.md", "customer_onboarding", &in_order(&terminal.ends()));

    let here = TempDir::new().unwrap();
    let chat = chat(&here, "customer_onboarding --session acme");
    chat.sees(&["A new session"]);
    chat.types("Onboard Acme");
    let shown = chat.sees(&["· waiting", "Workflow requests your input", "2. Acme Labs"]);
    is_shown("customer_onboarding.md", "customer_onboarding-chat", &shown);
}

#[test]
fn every_picture_in_the_docs_is_there_and_every_one_there_is_shown() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let mut shown: Vec<PathBuf> = Vec::new();
    for page in fs::read_dir(&docs).unwrap().map(|entry| entry.unwrap().path()) {
        if page.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let kind = Path::new(link).extension().unwrap_or_default();
            if kind == "png" || kind == "svg" {
                let path = docs.join(link);
                assert!(path.exists(), "{}: there is no {link}", page.display());
                shown.push(path);
            }
        }
    }
    let (mut count, mut bytes) = (0, 0);
    for folder in ["console", "walkthroughs"] {
        for picture in fs::read_dir(docs.join(folder)).unwrap().map(|entry| entry.unwrap()) {
            assert!(shown.contains(&picture.path()), "no page shows {:?}", picture.path());
            count += 1;
            bytes += picture.metadata().unwrap().len();
        }
    }
    assert!(count > 20, "{count}");
    // Whoever clones the repository takes them all along.
    assert!(bytes < 2 << 20, "the pictures have {bytes} bytes");
}
