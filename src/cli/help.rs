//! Help: the commands in groups, by what somebody wants to do. `-h` has what one needs in the first hour, `--help`
//! has all of it. What each command is about is said beside it.

use std::any::TypeId;

use clap::builder::{NonEmptyStringValueParser, StyledStr};
use clap::{Command, CommandFactory as _};

use crate::app::config::HEADING;
use crate::cli::args::Cli;

/// The groups, in the order of the first hour, and what is in them.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Begin", &["new", "dev", "run", "chat", "serve"]),
    ("Decide", &["inbox", "respond", "resume", "claim", "delegate"]),
    ("Look", &["runs", "sessions", "watch", "journal", "audit", "receipt", "checkpoint"]),
    ("Steer", &["cancel", "fork", "signal", "revoke"]),
    ("Write workflows", &["workflows", "check", "graph", "schema"]),
    (
        "Operate",
        &[
            "keys",
            "doctor",
            "export",
            "import",
            "prune",
            "restored",
            "release",
            "halt",
            "health",
            "verify",
            "store",
            "bench",
            "completions",
            "man",
            "exit-codes",
        ],
    ),
];
/// What `-h` shows.
const SHORT: [&str; 10] =
    ["new", "dev", "run", "serve", "inbox", "respond", "resume", "runs", "workflows", "check"];
const TEMPLATE: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{options}{after-help}";

/// Settings that a server alone looks at, by the ids of their flags: they are told with the commands that serve, and
/// with those named beside them.
const SERVING: [(&str, &[&str]); 25] = [
    ("listen", &[]),
    ("a2a_root", &[]),
    ("a2a_v03", &[]),
    ("a2a_push", &[]),
    ("a2a_no_resume", &[]),
    ("a2a_card_key", &[]),
    ("http_sticky", &[]),
    ("on_cancel", &["chat"]),
    ("public_url", &[]),
    ("webhook_url", &[]),
    ("webhook_secret", &[]),
    ("push_allow", &[]),
    ("keys", &["keys", "check", "doctor"]),
    ("policy", &["check"]),
    ("environment", &[]),
    ("four_eyes", &["check"]),
    ("assurance", &[]),
    ("audit_key", &[]),
    ("audit_key_before", &[]),
    ("audit_signer", &[]),
    ("audit_signer_before", &[]),
    ("audit_seconds", &[]),
    ("drain_seconds", &[]),
    ("silence_seconds", &[]),
    ("connections_per_address", &[]),
];
/// The commands that serve.
const SERVERS: [&str; 2] = ["serve", "dev"];

/// The command line, with its help.
pub(super) fn command() -> Command {
    let bare = Cli::command();
    let (short, long) = (listed(&bare, &SHORT), grouped(&bare));
    let mut told = bare.help_template(TEMPLATE).before_help(short).before_long_help(long);
    // From here on every command has the settings of all, and each says those that concern it.
    told.build();
    let told = strict(brief(told, ""));
    told.mut_subcommands(|one| {
        let name = one.get_name().to_owned();
        strict(if SERVERS.contains(&name.as_str()) { one } else { all_brief(one, &name) })
    })
}

/// A command whose help leaves out what only a server looks at. It is understood all the same.
fn brief(command: Command, name: &str) -> Command {
    command.mut_args(|arg| {
        let serving = SERVING.iter().find(|(setting, _)| arg.get_id() == setting);
        let is_out = serving.is_some_and(|(_, others)| !others.contains(&name));
        if is_out { arg.hide_long_help(true) } else { arg }
    })
}

/// A command that takes no empty text behind a flag: one that a script has lost would widen what was meant. Settings say
/// themselves what of them may be empty. And a number that is too small is told as one, and not as a flag.
fn strict(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let takes_value = arg.get_action().takes_values();
        if arg.get_long().is_none() || !takes_value {
            return arg;
        }
        let is_setting = arg.get_help_heading() == Some(HEADING);
        let is_text = arg.get_value_parser().type_id() == TypeId::of::<String>();
        let is_open = is_text && arg.get_possible_values().is_empty();
        let arg = arg.allow_negative_numbers(true);
        if is_setting || !is_open {
            arg
        } else {
            arg.value_parser(NonEmptyStringValueParser::new())
        }
    });
    command.mut_subcommands(strict)
}

/// The same of a command and those below it.
fn all_brief(command: Command, name: &str) -> Command {
    brief(command, name).mut_subcommands(|one| all_brief(one, name))
}

fn grouped(command: &Command) -> StyledStr {
    let told = GROUPS.into_iter().map(|(group, names)| {
        let heading = heading(command, &format!("{group}:"));
        format!("{heading}\n{}", rows(command, names))
    });
    let last =
        heading(command, "Options of every command (`holdpoint serve --help` has a server's):");
    let told: Vec<_> = told.chain([last]).collect();
    StyledStr::from(told.join("\n"))
}

fn listed(command: &Command, names: &[&str]) -> StyledStr {
    let heading = heading(command, "Commands (--help has all of them):");
    StyledStr::from(format!("{heading}\n{}", rows(command, names)))
}

fn heading(command: &Command, words: &str) -> String {
    let style = command.get_styles().get_header();
    format!("{}{words}{}", style.render(), style.render_reset())
}

fn rows(command: &Command, names: &[&str]) -> String {
    let style = command.get_styles().get_literal();
    let found = names.iter().filter_map(|name| command.find_subcommand(name));
    let row = |one: &Command| {
        let about = one.get_about().map(ToString::to_string).unwrap_or_default();
        let name = format!("{:<12}", one.get_name());
        format!("  {}{name}{}  {about}\n", style.render(), style.render_reset())
    };
    found.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_stands_in_one_group_and_fits_a_line() {
        let bare = Cli::command();
        let grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        for one in bare.get_subcommands().filter(|one| !one.is_hide_set()) {
            let times = grouped.iter().filter(|name| **name == one.get_name()).count();
            assert_eq!(times, 1, "{} stands in {times} groups", one.get_name());
        }
        // Tests are built with every feature, so every command is there.
        let is_there = |name: &&str| bare.find_subcommand(name).is_some();
        assert!(grouped.iter().all(is_there), "a group names a command that there is not");
        for row in rows(&bare, &grouped).lines().map(without_colours) {
            assert!(row.chars().count() <= 80, "{row}");
        }
    }

    #[test]
    fn what_a_server_alone_looks_at_is_told_where_one_serves() {
        let bare = Cli::command();
        for (setting, others) in SERVING {
            assert!(bare.get_arguments().any(|arg| arg.get_id() == setting), "{setting}");
            assert!(others.iter().all(|name| bare.find_subcommand(name).is_some()), "{setting}");
        }
        let mut told = command();
        let long = |name: &str, told: &mut Command| {
            told.find_subcommand_mut(name).unwrap().render_long_help().to_string()
        };
        for (name, setting, is_there) in [
            ("respond", "--webhook-url", false),
            ("respond", "--server", true),
            ("serve", "--webhook-url", true),
            ("check", "--policy", true),
            ("check", "--listen", false),
        ] {
            let help = long(name, &mut told);
            assert_eq!(help.contains(setting), is_there, "{name} {setting}: {help}");
        }
        let all = told.render_long_help().to_string();
        assert!(!all.contains("--webhook-url") && all.contains("holdpoint serve --help"), "{all}");
        // Those who sign are told of together.
        assert!(!all.contains("--audit"), "{all}");
        assert!(long("serve", &mut told).contains("--audit-signer-before"));
    }

    /// A row without its colours.
    fn without_colours(row: &str) -> String {
        let mut plain = String::new();
        let mut inside = false;
        for char in row.chars() {
            match (inside, char) {
                (false, '\u{1b}') => inside = true,
                (true, 'm') => inside = false,
                (true, _) => {}
                (false, char) => plain.push(char),
            }
        }
        plain
    }
}
