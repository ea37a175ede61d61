//! Difference: what was done to our tables, in words, and what undoes it. It reads the lines in which `schema` has what
//! they are; it asks nobody.

/// One line of a shape: whose it is, and how that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line<'a> {
    what: What<'a>,
    how: &'a str,
}

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What<'a> {
    Table(&'a str),
    /// By table and column.
    Column(&'a str),
    Function(&'a str),
    /// A trigger, a rule or a policy: which of them, its name, and on which table.
    Hook(&'a str, &'a str, &'a str),
    /// A unique index, and on which table.
    Index(&'a str, &'a str),
    /// A constraint in its own words, and of which table.
    Constraint(&'a str, &'a str),
    /// A table whose rows are taken for another's, which is named first.
    Part(&'a str, &'a str),
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Self {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
        let (what, how) = match first {
            _ if name.contains('.') => (What::Column(name), rest),
            _ if name.ends_with("()") => (What::Function(name.trim_end_matches("()")), rest),
            "p" | "u" | "t" => (What::Table(name), rest),
            "trigger" | "rule" | "policy" => {
                let (called, how) = more.split_once(' ').unwrap_or((more, ""));
                (What::Hook(first, called, name), how)
            }
            "CREATE" => {
                let called = rest.split("INDEX ").nth(1).and_then(|rest| rest.split(' ').next());
                (What::Index(called.unwrap_or(rest), name), rest)
            }
            "is" => (What::Part(rest.trim_start_matches("is a part of "), name), rest),
            _ => (What::Constraint(rest, name), rest),
        };
        Self { what, how }
    }

    /// What is told first: without its table everything that hangs on it is gone, too.
    fn rank(&self) -> u8 {
        match self.what {
            What::Table(_) => 0,
            What::Column(_) => 1,
            What::Function(_)
            | What::Hook(..)
            | What::Index(..)
            | What::Constraint(..)
            | What::Part(..) => 2,
        }
    }

    fn words(&self) -> String {
        match self.what {
            What::Table(name) => format!("the table `{name}`"),
            What::Column(name) => format!("the column `{name}`"),
            What::Function(name) => format!("the function `{name}`"),
            What::Hook(kind, name, table) => format!("the {kind} `{name}` on `{table}`"),
            What::Index(name, table) => format!("the unique index `{name}` on `{table}`"),
            What::Constraint(own, table) => format!("`{own}` of `{table}`"),
            What::Part(whole, part) => format!("the part `{part}` of `{whole}`"),
        }
    }

    /// That it is gone.
    fn is_missing(&self) -> String {
        let words = self.words();
        match self.what {
            What::Column(_) => format!("{words} (`{}`) is missing", self.how),
            What::Table(_)
            | What::Function(_)
            | What::Hook(..)
            | What::Index(..)
            | What::Constraint(..)
            | What::Part(..) => format!("{words} is missing"),
        }
    }

    /// That nobody made it here.
    fn is_new(&self) -> String {
        let words = self.words();
        match self.what {
            What::Hook(kind, name, table) => {
                format!("{words} is new (`drop {kind} {name} on holdpoint.{table}`)")
            }
            What::Index(name, _) => format!("{words} is new (`drop index holdpoint.{name}`)"),
            What::Table(_)
            | What::Column(_)
            | What::Function(_)
            | What::Constraint(..)
            | What::Part(..) => format!("{words} is new"),
        }
    }

    /// That it is otherwise than it was made.
    fn is_not(&self, made: &Self) -> String {
        let words = self.words();
        match self.what {
            What::Table(name) => otherwise(name, self.how),
            What::Column(_) => format!("{words} is `{}`, and was made `{}`", self.how, made.how),
            What::Function(_)
            | What::Hook(..)
            | What::Index(..)
            | What::Constraint(..)
            | What::Part(..) => format!("{words} is not the one that was made"),
        }
    }
}

/// What became of a table, and what undoes it: all of ours are logged, and have no row security.
fn otherwise(table: &str, how: &str) -> String {
    let (what, undo) = if how.starts_with('u') {
        ("is unlogged", "set logged")
    } else if how.contains(" row security") {
        ("has row security", "disable row level security")
    } else {
        ("forces row security", "no force row level security")
    };
    format!("`{table}` {what} (`alter table holdpoint.{table} {undo}`)")
}

/// What one has and the other has not.
fn only<'a>(one: &'a str, other: &str) -> Vec<Line<'a>> {
    let is_there = |line: &str| other.lines().any(|known| known == line);
    one.lines().filter(|line| !is_there(line)).map(Line::of).collect()
}

/// The first difference between how tables were made and how they are, in words.
pub(super) fn difference(made: &str, is: &str) -> String {
    let (lost, new) = (only(made, is), only(is, made));
    let first_lost = lost.iter().min_by_key(|line| line.rank());
    let first_new = new.iter().min_by_key(|line| line.rank());
    match (first_lost, first_new) {
        (Some(lost), Some(added)) if added.rank() < lost.rank() => added.is_new(),
        (Some(lost), first) => match new.iter().find(|line| line.what == lost.what) {
            Some(now) => now.is_not(lost),
            None => match first.filter(|first| first.rank() == 0 && lost.rank() == 0) {
                // It may be the same under another name.
                Some(first) => format!("{}, and {}", lost.is_missing(), first.is_new()),
                None => lost.is_missing(),
            },
        },
        (None, Some(new)) => new.is_new(),
        (None, None) => "they are in another order".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADE: &str =
        "desks CREATE UNIQUE INDEX desks_pkey ON holdpoint.desks USING btree (desk, run)
desks PRIMARY KEY (desk, run)
desks p
desks.run bytea not null
entries PRIMARY KEY (run, last)
entries p
append() v 0123
runs p
runs.holder bigint
runs.hooks bigint not null default 0";

    fn with(line: &str, now: &str) -> String {
        MADE.lines()
            .map(|known| if known == line { now } else { known })
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn what_was_done_to_the_tables_is_told_in_words_and_with_what_undoes_it() {
        for (line, now, told) in [
            (
                "entries p",
                "entries u",
                "`entries` is unlogged (`alter table holdpoint.entries set logged`)",
            ),
            (
                "runs p",
                "runs p row security",
                "`runs` has row security (`alter table holdpoint.runs disable row level security`)",
            ),
            (
                "runs p",
                "runs p forced",
                "`runs` forces row security (`alter table holdpoint.runs no force row level security`)",
            ),
            (
                "runs.holder bigint",
                "runs.holder integer",
                "the column `runs.holder` is `integer`, and was made `bigint`",
            ),
            (
                "append() v 0123",
                "append() v 4567",
                "the function `append` is not the one that was made",
            ),
            (
                "runs.hooks bigint not null default 0",
                "",
                "the column `runs.hooks` (`bigint not null default 0`) is missing",
            ),
            (
                "entries PRIMARY KEY (run, last)",
                "",
                "`PRIMARY KEY (run, last)` of `entries` is missing",
            ),
        ] {
            let is = with(line, now)
                .lines()
                .filter(|line| !line.is_empty())
                .collect::<Vec<_>>()
                .join("\n");
            assert_eq!(difference(MADE, &is), told);
        }
    }

    #[test]
    fn what_was_added_to_the_tables_is_told_with_what_takes_it_away() {
        for (more, told) in [
            ("runs.mine text", "the column `runs.mine` is new"),
            (
                "more is a part of holdpoint.entries",
                "the part `more` of `holdpoint.entries` is new",
            ),
            (
                "entries trigger t O",
                "the trigger `t` on `entries` is new (`drop trigger t on holdpoint.entries`)",
            ),
            (
                "runs policy p",
                "the policy `p` on `runs` is new (`drop policy p on holdpoint.runs`)",
            ),
            (
                "desks CREATE UNIQUE INDEX u ON holdpoint.desks USING btree (run)",
                "the unique index `u` on `desks` is new (`drop index holdpoint.u`)",
            ),
        ] {
            assert_eq!(difference(MADE, &format!("{MADE}\n{more}")), told);
        }
    }

    #[test]
    fn of_a_table_that_is_gone_the_table_is_told_and_not_what_hung_on_it() {
        let left = MADE.lines().filter(|line| !line.starts_with("desks"));
        let gone = left.collect::<Vec<_>>().join("\n");
        assert_eq!(difference(MADE, &gone), "the table `desks` is missing");
        let renamed = MADE.replace("desks", "aside");
        assert_eq!(
            difference(MADE, &renamed),
            "the table `desks` is missing, and the table `aside` is new"
        );
    }
}
