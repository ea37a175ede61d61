//! Term: the one door to the terminal. Whatever is written or read goes through here.
//!
//! Colours only decorate: every line can be understood without them. Text of models, tools and
//! people is made harmless by [`plain`] or [`line`] before it is written, because an escape sequence
//! in it could otherwise rewrite what the reader sees, and what they approve.

use std::{
    borrow::Cow,
    env,
    io::{self, BufRead, IsTerminal, Read, Write},
    sync::mpsc,
    thread,
};

use anstyle::{AnsiColor, Style};
use rustix::stdio::stdin;
use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use tokio::sync::mpsc as async_mpsc;

use crate::cli::exit::{Exit, Trouble};
use crate::kernel::unseen::is_unseen;

/// A line that a person types or pipes in; an answer may be a pasted document.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(super) enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Puts styles around text, or does not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint {
    on: bool,
}

impl Paint {
    /// With colours, or without.
    pub(super) fn new(on: bool) -> Self {
        Self { on }
    }

    /// An agent's name: always the same colour for the same name.
    pub(super) fn agent(self, name: &str) -> String {
        const COLORS: [AnsiColor; 6] = [
            AnsiColor::Cyan,
            AnsiColor::Magenta,
            AnsiColor::Blue,
            AnsiColor::Green,
            AnsiColor::BrightCyan,
            AnsiColor::BrightMagenta,
        ];
        let sum: usize = name.bytes().map(usize::from).sum();
        self.wrap(COLORS[sum % COLORS.len()].on_default().bold(), name)
    }

    /// What matters less.
    pub(super) fn dim(self, text: &str) -> String {
        self.wrap(Style::new().dimmed(), text)
    }

    /// What matters more.
    pub(super) fn bold(self, text: &str) -> String {
        self.wrap(Style::new().bold(), text)
    }

    /// What a person is asked.
    pub(super) fn ask(self, text: &str) -> String {
        self.wrap(AnsiColor::Yellow.on_default().bold(), text)
    }

    /// What went well.
    pub(super) fn good(self, text: &str) -> String {
        self.wrap(AnsiColor::Green.on_default(), text)
    }

    /// What may go wrong.
    pub(super) fn warn(self, text: &str) -> String {
        self.wrap(AnsiColor::Yellow.on_default(), text)
    }

    /// What went wrong.
    pub(super) fn bad(self, text: &str) -> String {
        self.wrap(AnsiColor::Red.on_default().bold(), text)
    }

    fn wrap(self, style: Style, text: &str) -> String {
        if self.on && !text.is_empty() {
            format!("{}{text}{}", style.render(), style.render_reset())
        } else {
            text.to_owned()
        }
    }
}

/// The terminal, or whatever stands in its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Term {
    /// For stdout.
    pub paint: Paint,
    /// For stderr.
    pub paint_error: Paint,
    /// Whether a person sits on both ends.
    pub is_interactive: bool,
    /// Whether what is written is looked at, and goes into no file and no other program.
    pub is_seen: bool,
    /// How many columns a line has, where lines are looked at; a program gets them whole.
    width: Option<usize>,
}

impl Term {
    /// Looks at what stdin, stdout and stderr are.
    pub(super) fn new(choice: ColorChoice) -> Self {
        let variable = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        let quiet = variable("NO_COLOR") || env::var_os("TERM").is_some_and(|term| term == "dumb");
        let on = |is_terminal: bool| match choice {
            ColorChoice::Auto => is_terminal && !quiet,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        let is_terminal = io::stdout().is_terminal();
        Self {
            paint: Paint::new(on(is_terminal)),
            paint_error: Paint::new(on(io::stderr().is_terminal())),
            is_interactive: is_terminal && io::stdin().is_terminal(),
            is_seen: is_terminal,
            width: if is_terminal { columns() } else { None },
        }
    }

    /// Writes text to stdout, and shows it at once.
    #[expect(clippy::unused_self, reason = "the door is the value, not the stream")]
    pub(super) fn write(self, text: &str) -> Result<(), Trouble> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(())
    }

    /// Writes a line to stdout.
    pub(super) fn line(self, text: &str) -> Result<(), Trouble> {
        self.write(&format!("{text}\n"))
    }

    /// Rows in aligned columns, as wide as the terminal: `spare` columns go first where there is no room, then
    /// the last one is cut. What is cut is told whole elsewhere; `--json` and pipes have all of it.
    pub(super) fn table(self, rows: &[Vec<String>], spare: &[usize]) -> String {
        match self.width {
            Some(width) => table(self.paint, &fitted(rows, spare, width)),
            None => table(self.paint, rows),
        }
    }

    /// Writes a line to stderr. Where nobody listens, nobody misses it.
    #[expect(clippy::unused_self, reason = "the door is the value, not the stream")]
    pub(super) fn note(self, text: &str) {
        drop(writeln!(io::stderr().lock(), "{text}"));
    }

    /// Tells a trouble on stderr, with its remedy.
    pub(super) fn tell(self, trouble: &Trouble, as_json: bool) {
        if trouble.is_silent {
            return;
        }
        if as_json {
            return self.note(&trouble.to_json().to_string());
        }
        let paint = self.paint_error;
        self.note(&format!("{} {}", paint.bad("error:"), plain(&trouble.message)));
        if let Some(hint) = &trouble.hint {
            self.note(&format!("\n{} {}", paint.good("hint:"), plain(hint)));
        }
    }
}

/// While this is held, what is typed is not shown; where nobody types, nothing changes. A program that is ended
/// meanwhile leaves a terminal that shows nothing, as others do that ask for a password: the shell mends it.
#[derive(Debug)]
pub(super) struct Unseen(Option<Termios>);

impl Unseen {
    /// Shows no more of what is typed.
    pub(super) fn new() -> Self {
        let before = termios::tcgetattr(stdin()).ok();
        if let Some(mut quiet) = before.clone() {
            quiet.local_modes.remove(LocalModes::ECHO);
            // The line still ends where Enter is pressed.
            quiet.local_modes.insert(LocalModes::ECHONL);
            termios::tcsetattr(stdin(), OptionalActions::Flush, &quiet).unwrap_or_default();
        }
        Self(before)
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            termios::tcsetattr(stdin(), OptionalActions::Now, before).unwrap_or_default();
        }
    }
}

/// Lines that are typed or piped in, one at a time and only when asked for.
///
/// A thread of its own reads: a blocking read on the runtime would keep the process from ending
/// until somebody presses Enter.
#[derive(Debug)]
pub(super) struct Input {
    wish: mpsc::Sender<()>,
    lines: async_mpsc::Receiver<Option<String>>,
    /// Whether a line is being read that nobody has taken yet.
    is_reading: bool,
}

impl Input {
    /// Gets ready to read stdin; nothing is read yet.
    pub(super) fn new() -> Self {
        let (wish, wishes) = mpsc::channel::<()>();
        let (tx, lines) = async_mpsc::channel(1);
        thread::spawn(move || {
            while wishes.recv().is_ok() {
                if tx.blocking_send(read_line()).is_err() {
                    return;
                }
            }
        });
        Self { wish, lines, is_reading: false }
    }

    /// The next line without its end; nothing where the input is over.
    pub(super) async fn next(&mut self) -> Option<String> {
        // Whoever stopped waiting for a line has left it to the next one: it is not asked for twice.
        if !self.is_reading {
            self.wish.send(()).ok()?;
            self.is_reading = true;
        }
        let line = self.lines.recv().await?;
        self.is_reading = false;
        line
    }
}

/// All of stdin, if it is text and no longer than an input may be: a part of it would be another input.
pub(super) fn read_all(field: &str) -> Result<String, Trouble> {
    let mut bytes = Vec::new();
    io::stdin().lock().take(LINE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let wrong = |what: &str| Trouble::new(Exit::Usage, format!("{field}: {what}"));
    if is_cut(bytes.len()) {
        return Err(wrong(&format!("standard input is too large: at most {LINE_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| wrong("standard input is no text in UTF-8"))
}

fn is_cut(bytes: usize) -> bool {
    u64::try_from(bytes).map_or(true, |bytes| bytes > LINE_BYTES_MAX)
}

fn read_line() -> Option<String> {
    let mut text = String::new();
    match io::stdin().lock().take(LINE_BYTES_MAX + 1).read_line(&mut text) {
        Ok(0) | Err(_) => None,
        // What is left of it would be taken for the next line, and this for an answer that nobody gave.
        Ok(bytes) if is_cut(bytes) => None,
        Ok(_) => Some(text.trim_end_matches(['\r', '\n']).to_owned()),
    }
}

/// Text from elsewhere, made harmless: control characters are spelled out, lines stay lines.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '\r' if rest.peek() == Some(&'\n') => {}
            char if is_unseen(char) => safe.extend(char.escape_default()),
            char => safe.push(char),
        }
    }
    Cow::Owned(safe)
}

/// The same on one line, and not longer than `chars`.
pub(super) fn line(text: &str, chars: usize) -> String {
    let spaced = text.replace("\r\n", " ").replace(['\n', '\t'], " ");
    let safe = plain(&spaced);
    match safe.char_indices().nth(chars) {
        None => safe.into_owned(),
        Some(_) => safe.chars().take(chars.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// How wide the terminal is.
fn columns() -> Option<usize> {
    let size = termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// The least that is left of the last column.
const LAST_CHARS_MIN: usize = 20;
/// Between two columns.
const GAP: usize = 2;

/// Rows that fit `width`: without some of the `spare` columns, and with the last one cut.
fn fitted(rows: &[Vec<String>], spare: &[usize], width: usize) -> Vec<Vec<String>> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let wide = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let mut kept: Vec<usize> = (0..columns).collect();
    let before_last = |kept: &[usize]| {
        let before = kept.split_last().map_or(&[][..], |(_, before)| before);
        before.iter().map(|column| wide(*column).unwrap_or(0) + GAP).sum::<usize>()
    };
    for column in spare {
        let last = kept.last().map_or(0, |last| wide(*last).unwrap_or(0));
        if before_last(&kept) + last.min(LAST_CHARS_MIN) > width {
            kept.retain(|one| one != column);
        }
    }
    let room = width.saturating_sub(before_last(&kept)).max(LAST_CHARS_MIN);
    let cut = |row: &Vec<String>| {
        let mut cells: Vec<String> =
            kept.iter().map(|column| row.get(*column).cloned().unwrap_or_default()).collect();
        if let Some(last) = cells.last_mut() {
            *last = line(last, room);
        }
        cells
    };
    rows.iter().map(cut).collect()
}

/// Rows in aligned columns; the first row is the heading.
pub(super) fn table(paint: Paint, rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let written = cells.collect::<Vec<_>>().join("  ");
        let written = written.trim_end();
        text.push_str(&if index == 0 { paint.dim(written) } else { written.to_owned() });
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_elsewhere_cannot_steer_the_terminal() {
        for (text, safe) in [
            ("plain ünïcode\n\tstays", "plain ünïcode\n\tstays"),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("\u{9b}31mred", "\\u{9b}31mred"),
            ("one\rtwo", "one\\rtwo"),
            ("one\r\ntwo", "one\ntwo"),
            ("a\u{8}b\u{7f}", "a\\u{8}b\\u{7f}"),
            ("pay \u{202e}001", "pay \\u{202e}001"),
        ] {
            assert_eq!(plain(text), safe);
            assert!(!plain(text).contains('\u{1b}'));
        }
    }

    #[test]
    fn a_line_stays_one_line_and_short() {
        assert_eq!(line("a\nb\tc", 10), "a b c");
        assert_eq!(line("abcdef", 4), "abc…");
        assert_eq!(line("abcd", 4), "abcd");
        assert_eq!(line("ää\u{1b}", 100), "ää\\u{1b}");
    }

    #[test]
    fn without_colours_nothing_is_added() {
        let paint = Paint::new(false);
        assert_eq!(paint.bad("x") + &paint.agent("ada") + &paint.dim("y"), "xaday");
        assert_eq!(Paint::new(true).bad(""), "");
        assert!(Paint::new(true).bad("x").contains('\u{1b}'));
    }

    #[test]
    fn a_table_fits_the_terminal_and_loses_what_can_be_spared_first() {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let id = "req_01k9zqaaaaaaaaaaaaaaaaaaaa-0001-80x5jdy6";
        let long = "Shall we send this message to everybody who came to the party last year?";
        let rows = [row(["#", "REQUEST", "KIND", "QUESTION"]), row(["1", id, "approval", long])];
        let text = table(Paint::new(false), &fitted(&rows, &[1], 80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains('…'), "{text}");
        let narrow = table(Paint::new(false), &fitted(&rows, &[1], 60));
        assert!(!narrow.contains(id) && narrow.contains("Shall we send"), "{narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        let wide = table(Paint::new(false), &fitted(&rows, &[1], 200));
        assert!(wide.contains(id) && wide.contains(long), "{wide}");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["RUN".into(), "STATUS".into()], vec!["run_1".into(), "ok".into()]];
        assert_eq!(table(Paint::new(false), &rows), "RUN    STATUS\nrun_1  ok\n");
    }
}
