//! Difference: what was done to our tables, in words, and what undoes it. It reads the lines in which `schema` has what
//! they are; it asks nobody.

/// What to do where a command is named that undoes it.
const UNDO: &str = "that undoes it, and servers go on by themselves";
/// What to do about everything else. Servers that go on while it is put back would write into it, and those that are started
/// afterwards cannot know that it went back in time.
const RESTORE: &str = "put that back, or restore the database with all servers stopped, and say `holdpoint restored` \
     before they start";

/// The rank of what hangs on a table, or stands beside it.
const HANGING: u8 = 2;

/// What was done to our tables, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) what: String,
    pub(super) remedy: &'static str,
}

impl Difference {
    /// One that the command in its words undoes.
    fn undone(what: String) -> Self {
        Self { what, remedy: UNDO }
    }

    /// One that no command undoes: what was there is gone, or nobody can tell.
    fn restored(what: String) -> Self {
        Self { what, remedy: RESTORE }
    }
}

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
            | What::Part(..) => HANGING,
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

    /// That nobody made it here, and what takes it away.
    fn is_new(&self) -> String {
        let undo = match self.what {
            What::Table(name) => {
                let name = quoted(name);
                format!(
                    "drop table holdpoint.{name}`, or where it is a view `drop view holdpoint.{name}"
                )
            }
            What::Column(name) => {
                let (table, column) = name.split_once('.').unwrap_or((name, ""));
                format!("alter table holdpoint.{} drop column {}", quoted(table), quoted(column))
            }
            What::Function(name) => format!("drop function holdpoint.{}", quoted(name)),
            What::Hook(kind, name, table) => {
                format!("drop {kind} {} on holdpoint.{}", quoted(name), quoted(table))
            }
            What::Index(name, _) => format!("drop index holdpoint.{name}"),
            // A line has what it says, and not what it is called.
            What::Constraint(_, table) => {
                format!("alter table holdpoint.{} drop constraint NAME", quoted(table))
            }
            What::Part(whole, part) => format!("alter table {} no inherit {whole}", quoted(part)),
        };
        format!("{} is new (`{undo}`)", self.words())
    }

    /// That it is otherwise than it was made.
    fn is_not(&self, made: &Self) -> Difference {
        let words = self.words();
        let told = match self.what {
            What::Table(name) => return Difference::undone(otherwise(name, self.how)),
            What::Column(_) => format!("{words} is `{}`, and was made `{}`", self.how, made.how),
            What::Function(_)
            | What::Hook(..)
            | What::Index(..)
            | What::Constraint(..)
            | What::Part(..) => format!("{words} is not the one that was made"),
        };
        Difference::restored(told)
    }

    /// That a table is gone and another came, which may be the same under another name: whoever dropped that would lose
    /// what is in it.
    fn is_missing_beside(&self, new: &Self) -> String {
        let told = format!("{}, and {} is new", self.is_missing(), new.words());
        let (What::Table(lost), What::Table(new)) = (self.what, new.what) else { return told };
        format!(
            "{told} (if that is the same under another name: `alter table holdpoint.{} rename to {lost}`)",
            quoted(new)
        )
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

/// A name as a statement has it.
fn quoted(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_lowercase() || "_0123456789".contains(letter);
    let is_bare =
        name.chars().all(is_plain) && !name.starts_with(|first: char| first.is_ascii_digit());
    if is_bare { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// What one has and the other has not.
fn only<'a>(one: &'a str, other: &str) -> Vec<Line<'a>> {
    let is_there = |line: &str| other.lines().any(|known| known == line);
    one.lines().filter(|line| !is_there(line)).map(Line::of).collect()
}

/// What was added, and what takes it away. A function cannot be dropped while a trigger calls it, or whatever else hangs on a
/// table: that is told with it, and before it.
fn added(first: &Line<'_>, new: &[Line<'_>]) -> String {
    let hangs = |line: &&Line<'_>| matches!(line.what, What::Hook(..) | What::Constraint(..));
    let is_function = |line: &&Line<'_>| matches!(line.what, What::Function(_));
    if first.rank() < HANGING || !new.iter().any(|line| is_function(&line)) {
        return first.is_new();
    }
    let all = new.iter().filter(hangs).chain(new.iter().filter(is_function));
    all.map(Line::is_new).collect::<Vec<_>>().join(", and ")
}

/// The first difference between how tables were made and how they are.
pub(super) fn difference(made: &str, is: &str) -> Difference {
    let (lost, new) = (only(made, is), only(is, made));
    let first_lost = lost.iter().min_by_key(|line| line.rank());
    let first_new = new.iter().min_by_key(|line| line.rank());
    match (first_lost, first_new) {
        (Some(lost), Some(first)) if first.rank() < lost.rank() => {
            Difference::undone(first.is_new())
        }
        (Some(lost), first) => match new.iter().find(|line| line.what == lost.what) {
            Some(now) => now.is_not(lost),
            None => match first.filter(|first| first.rank() == 0 && lost.rank() == 0) {
                Some(first) => Difference::restored(lost.is_missing_beside(first)),
                None => Difference::restored(lost.is_missing()),
            },
        },
        (None, Some(first)) => Difference::undone(added(first, &new)),
        (None, None) => Difference::restored("they are in another order".into()),
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
            let difference = difference(MADE, &is);
            assert_eq!(difference.what, told);
            let names_a_command = told.contains("`alter table");
            assert_eq!(difference.remedy, if names_a_command { UNDO } else { RESTORE }, "{told}");
        }
    }

    #[test]
    fn what_was_added_to_the_tables_is_told_with_what_takes_it_away() {
        for (more, told) in [
            (
                "extra p",
                "the table `extra` is new (`drop table holdpoint.extra`, or where it is a view `drop view holdpoint.extra`)",
            ),
            (
                "Extra p",
                "the table `Extra` is new (`drop table holdpoint.\"Extra\"`, or where it is a view `drop view holdpoint.\"Extra\"`)",
            ),
            (
                "runs.mine text",
                "the column `runs.mine` is new (`alter table holdpoint.runs drop column mine`)",
            ),
            ("mine() v 89ab", "the function `mine` is new (`drop function holdpoint.mine`)"),
            (
                "runs CHECK (hooks > 0)",
                "`CHECK (hooks > 0)` of `runs` is new (`alter table holdpoint.runs drop constraint NAME`)",
            ),
            (
                "more is a part of holdpoint.entries",
                "the part `more` of `holdpoint.entries` is new (`alter table more no inherit holdpoint.entries`)",
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
            let what = told.to_owned();
            let told = difference(MADE, &format!("{MADE}\n{more}"));
            assert_eq!(told, Difference { what, remedy: UNDO });
        }
    }

    #[test]
    fn a_function_is_told_after_whatever_may_call_it_for_it_is_not_dropped_before() {
        for (more, told) in [
            (
                "f() v 89ab\nruns trigger t O",
                "the trigger `t` on `runs` is new (`drop trigger t on holdpoint.runs`), and the function `f` is new (`drop \
                 function holdpoint.f`)",
            ),
            (
                "desks trigger t O\nf() v 89ab\nruns trigger t O",
                "the trigger `t` on `desks` is new (`drop trigger t on holdpoint.desks`), and the trigger `t` on `runs` is new \
                 (`drop trigger t on holdpoint.runs`), and the function `f` is new (`drop function holdpoint.f`)",
            ),
        ] {
            let what = told.to_owned();
            let told = difference(MADE, &format!("{MADE}\n{more}"));
            assert_eq!(told, Difference { what, remedy: UNDO });
        }
        // Without the table that it came with, neither is there.
        let told = difference(MADE, &format!("{MADE}\nextra p\nextra trigger t O\nf() v 89ab"));
        assert_eq!(
            told.what,
            "the table `extra` is new (`drop table holdpoint.extra`, or where it is a view `drop view holdpoint.extra`)"
        );
    }

    #[test]
    fn of_a_table_that_is_gone_the_table_is_told_and_not_what_hung_on_it() {
        let left = MADE.lines().filter(|line| !line.starts_with("desks"));
        let gone = left.collect::<Vec<_>>().join("\n");
        let what = "the table `desks` is missing".to_owned();
        assert_eq!(difference(MADE, &gone), Difference { what, remedy: RESTORE });
    }

    #[test]
    fn a_table_that_may_be_another_under_a_new_name_is_not_told_to_be_dropped() {
        let told = difference(MADE, &MADE.replace("desks", "aside"));
        assert_eq!(
            told.what,
            "the table `desks` is missing, and the table `aside` is new (if that is the same under another name: \
             `alter table holdpoint.aside rename to desks`)"
        );
        assert_eq!(told.remedy, RESTORE);
    }
}
