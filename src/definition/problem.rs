//! Problem: one way in which a file is wrong: where, what was expected, and what may help.

use std::fmt;

/// A shorter name is no help when it is this far from what was written.
const DISTANCE_MAX: usize = 3;
/// A longer source line is cut here: it is shown for orientation only.
const SHOWN_CHARS_MAX: usize = 160;

/// One way in which a file is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problem {
    /// The file, as it was named.
    pub file: String,
    /// The line, counted from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// The column, in characters, counted from 1; 0 where the file as a whole is meant.
    pub column: usize,
    /// A stable code for programs, tests and docs.
    pub code: &'static str,
    /// What is wrong and what was expected.
    pub message: String,
    /// What may help.
    pub hint: Option<String>,
    /// The line itself, for showing; empty where there is none.
    pub excerpt: String,
}

impl Problem {
    /// A problem of a file as a whole.
    pub fn of_file(file: &str, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: 0,
            column: 0,
            code,
            message: message.into(),
            hint: None,
            excerpt: String::new(),
        }
    }

    /// The same problem, with what may help.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same problem, with the known name that is nearest to what was written, if one is near.
    #[must_use]
    pub(super) fn did_you_mean<'a>(
        self,
        written: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        match nearest(written, known) {
            Some(name) => self.hint(format!("did you mean `{name}`?")),
            None => self,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: [{}] {}", self.file, self.code, self.message)?;
        } else {
            write!(
                f,
                "{}:{}:{}: [{}] {}",
                self.file, self.line, self.column, self.code, self.message
            )?;
        }
        if !self.excerpt.is_empty() {
            let number = self.line.to_string();
            let gutter = " ".repeat(number.len());
            let shown: String = self.excerpt.chars().take(SHOWN_CHARS_MAX).collect();
            let indent = " ".repeat(self.column.saturating_sub(1).min(SHOWN_CHARS_MAX));
            write!(f, "\n {number} | {shown}\n {gutter} | {indent}^")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n hint: {hint}")?;
        }
        Ok(())
    }
}

/// The known name that is nearest to what was written, if one is near enough to be meant.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_within(written, known, DISTANCE_MAX.min(written.chars().count() / 2))
}

/// The same, for so many letters that must change at most.
pub fn nearest_within<'a>(
    written: &str,
    known: impl IntoIterator<Item = &'a str>,
    bound: usize,
) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (distance(written, name), name))
        .filter(|(far, _)| *far <= bound)
        .min()
        .map(|(_, name)| name)
}

/// How many letters must change to make one text of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (at, against) in other.iter().enumerate() {
            let change = diagonal + usize::from(letter != *against);
            diagonal = row[at + 1];
            row[at + 1] = change.min(row[at] + 1).min(row[at + 1] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_shows_its_line_and_points_at_the_column() {
        let problem = Problem {
            line: 12,
            column: 10,
            excerpt: "  agent: venu".into(),
            ..Problem::of_file("party.yaml", "agent.unknown", "there is no agent `venu`")
        }
        .did_you_mean("venu", ["budget", "venue"]);
        assert_eq!(
            problem.to_string(),
            "party.yaml:12:10: [agent.unknown] there is no agent `venu`\n \
             12 |   agent: venu\n    \
                |          ^\n \
             hint: did you mean `venue`?"
        );
    }

    #[test]
    fn only_near_names_are_suggested() {
        assert_eq!(nearest("instuctions", ["instructions", "tools"]), Some("instructions"));
        assert_eq!(nearest("x", ["tools", "y"]), None);
        assert_eq!(nearest("deadlin", ["deadline", "on_timeout"]), Some("deadline"));
    }
}
