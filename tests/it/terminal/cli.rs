//! The command line as a black box: what it prints, where, and how it ends.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap()
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Runs the binary in `folder`, away from the settings of whoever runs the tests.
pub(crate) fn holdpoint(folder: &Path, arguments: &[&str], stdin: &str) -> Ended {
    with_env(folder, arguments, stdin, &[])
}

pub(crate) fn with_env(
    folder: &Path,
    arguments: &[&str],
    stdin: &str,
    env: &[(&str, &str)],
) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HOLDPOINT_") {
            command.env_remove(name);
        }
    }
    let mut child = command
        .args(arguments)
        // What a user's programs remember is a test's own.
        .env("XDG_STATE_HOME", std::path::absolute(folder.join("state")).unwrap())
        .envs(env.iter().copied())
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that reads nothing may be gone before it is written to.
    drop(child.stdin.take().unwrap().write_all(stdin.as_bytes()));
    let output = child.wait_with_output().unwrap();
    Ended {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn without_arguments_it_says_what_to_try_first() {
    let ended = holdpoint(folder().path(), &[], "");
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    assert!(ended.out.contains("Try this first:"), "{}", ended.out);
    assert!(ended.out.contains("holdpoint run approve_and_send"), "{}", ended.out);
}

#[test]
fn help_shows_commands_settings_and_examples_and_touches_nothing() {
    let here = folder();
    let ended = holdpoint(here.path(), &["--help"], "");
    assert_eq!(ended.code, 0);
    for word in ["serve", "resume", "respond", "HOLDPOINT_DATA", "127.0.0.1:4653", "--dump-config"]
    {
        assert!(ended.out.contains(word), "{word} is missing: {}", ended.out);
    }
    let brief = holdpoint(here.path(), &["-h"], "");
    assert!(brief.out.lines().count() <= 30, "{}", brief.out);
    assert!(brief.out.lines().all(|line| line.chars().count() <= 100), "{}", brief.out);
    for (word, is_brief) in [("respond", true), ("restored", false), ("HOLDPOINT_LISTEN", false)] {
        assert_eq!(brief.out.contains(word), is_brief, "{word}: {}", brief.out);
    }
    // What only a server looks at is told where one serves.
    assert!(ended.out.lines().count() <= 130, "{}", ended.out.lines().count());
    let respond = holdpoint(here.path(), &["respond", "--help"], "");
    assert!(respond.out.lines().count() <= 110, "{}", respond.out);
    let serve = holdpoint(here.path(), &["help", "serve"], "");
    assert!(serve.out.contains("HOLDPOINT_LISTEN"), "{}", serve.out);
    for group in ["Begin:", "Decide:", "Look:", "Steer:", "Write workflows:", "Operate:"] {
        assert!(ended.out.contains(group), "{group}: {}", ended.out);
    }
    let ended = holdpoint(here.path(), &["help", "exit-codes"], "");
    assert_eq!(ended.code, 0);
    assert!(ended.out.contains("4  the run waits for an answer"), "{}", ended.out);
    let ended = holdpoint(here.path(), &["help", "respond"], "");
    assert!(ended.out.contains("Examples:"), "{}", ended.out);
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0);
}

#[test]
fn a_word_of_another_program_is_answered_with_ours() {
    let ended = holdpoint(folder().path(), &["approve", "1"], "");
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.err.contains("here that is: holdpoint respond REQUEST approve"), "{ended:?}");
    let ended = holdpoint(folder().path(), &["rnus"], "");
    assert!(ended.err.contains("'runs'"), "{ended:?}");
}

#[test]
fn what_makes_no_sense_ends_with_2() {
    let here = folder();
    for arguments in [
        &["nonsense"][..],
        &["run"],
        &["run", "letter"],
        &["run", "letter", "text", "--input-json", "{}"],
        &["run", "letter", "--input-json", "{"],
        &["respond", "req_1"],
        &["respond", "not-an-id", "yes"],
        &["cancel", "req_1", "--reason", "x"],
        &["prune", "--older-than", "30"],
        &["keys", "add", "a b"],
        &["keys", "add", "ada", "--role", "root"],
        &["inbox", "--kind", "party"],
        &["runs", "--status", "asleep"],
        &["--listen", "everywhere", "runs"],
        &["--config", "absent.toml"],
    ] {
        let ended = holdpoint(here.path(), arguments, "");
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{arguments:?}: {}", ended.err);
        assert!(ended.err.contains("error:"), "{arguments:?}: {}", ended.err);
    }
}

#[test]
fn a_hint_names_a_command_that_reaches_the_same_place() {
    let here = folder();
    let told = holdpoint(here.path(), &["respond", "1", "yes", "--data", "mine"], "");
    assert_eq!(told.code, 5, "{told:?}");
    assert!(told.err.contains("`holdpoint inbox --data mine` shows what is open"), "{told:?}");
    let told = holdpoint(here.path(), &["respond", "1", "yes"], "");
    assert!(told.err.contains("`holdpoint inbox` shows what is open"), "{told:?}");
}

#[test]
fn a_policy_file_that_cannot_be_read_is_called_that() {
    let here = folder();
    let words = ["serve", "--listen", "127.0.0.1:0", "--policy", "none.yaml"];
    let told = holdpoint(here.path(), &words, "");
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.err.contains("one problem in the policy file"), "{told:?}");
    assert!(!told.err.contains("in the workflow files"), "{told:?}");
}

#[test]
fn a_wrong_settings_file_is_told_with_its_line() {
    let here = folder();
    fs::write(here.path().join("holdpoint.toml"), "log = \"info\"\nlisen = \"127.0.0.1:1\"\n")
        .unwrap();
    let ended = holdpoint(here.path(), &["workflows"], "");
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains("holdpoint.toml") && ended.err.contains("line 2"), "{}", ended.err);
    assert!(ended.err.contains("unknown field `lisen`"), "{}", ended.err);
    assert!(ended.err.contains("hint:"), "{}", ended.err);
}

#[test]
fn the_dump_tells_who_said_what_and_keeps_secrets() {
    let here = folder();
    fs::write(here.path().join("holdpoint.toml"), "data = \"store\"\n").unwrap();
    let env = [("HOLDPOINT_API_KEY", "hp_very_secret"), ("HOLDPOINT_LOG_FORMAT", "json")];
    let arguments = ["serve", "--listen", "127.0.0.1:9", "--dump-config"];
    let ended = with_env(here.path(), &arguments, "", &env);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    for line in [
        "listen = \"127.0.0.1:9\"  # --listen",
        "data = \"store\"  # `data` in holdpoint.toml",
        "log_format = \"json\"  # HOLDPOINT_LOG_FORMAT",
        "log = \"info\"  # default",
        "api_key = \"********\"  # HOLDPOINT_API_KEY",
    ] {
        assert!(ended.out.lines().any(|it| it == line), "{line} is missing: {}", ended.out);
    }
    assert!(!ended.out.contains("very_secret"));
}

#[test]
fn a_server_that_is_not_there_ends_with_7_in_text_and_in_json() {
    let here = folder();
    let ended = holdpoint(here.path(), &["runs", "--server", "127.0.0.1:1"], "");
    assert_eq!(ended.code, 7);
    assert!(
        ended.err.contains("http://127.0.0.1:1") && ended.err.contains("hint:"),
        "{}",
        ended.err
    );
    let ended = holdpoint(here.path(), &["runs", "--server", "127.0.0.1:1", "--json"], "");
    let told: Value = serde_json::from_str(&ended.err).unwrap();
    assert_eq!((ended.code, &told["error"]["exit_code"]), (7, &Value::from(7)));
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ended = holdpoint(folder().path(), &["completions", shell], "");
        assert_eq!(ended.code, 0);
        assert!(ended.out.contains("checkpoint"), "{shell}");
    }
}

#[test]
fn exit_codes_are_a_table_for_programs_too() {
    let ended = holdpoint(folder().path(), &["exit-codes", "--json"], "");
    let told = ended.json();
    let codes: Vec<_> =
        told["exit_codes"].as_array().unwrap().iter().map(|row| row["exit_code"].clone()).collect();
    assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 130]);
}

#[test]
fn a_key_is_made_listed_and_removed() {
    let here = folder();
    let added = holdpoint(here.path(), &["keys", "add", "ada", "--role", "admin"], "");
    assert_eq!(added.code, 0, "{}", added.err);
    let secret = added.out.trim_end();
    assert!(secret.starts_with("hp_") && secret.len() == 46, "{secret}");

    let file = here.path().join("holdpoint-data/keys.toml");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(&file).unwrap().contains(secret));

    let listed = holdpoint(here.path(), &["keys", "list", "--json"], "").json();
    assert_eq!(listed["keys"][0]["name"], "ada");
    assert_eq!(listed["keys"][0]["roles"], serde_json::json!(["admin"]));
    assert_eq!(
        (&listed["keys"][0]["person"], &listed["keys"][0]["kind"]),
        (&"ada".into(), &"person".into())
    );

    let again = holdpoint(here.path(), &["keys", "add", "ada"], "");
    assert_eq!((again.code, again.out.as_str()), (6, ""));
    assert_eq!(holdpoint(here.path(), &["keys", "remove", "bob"], "").code, 5);
    assert_eq!(holdpoint(here.path(), &["keys", "remove", "ada"], "").code, 0);
    let listed = holdpoint(here.path(), &["keys", "list", "--json"], "").json();
    assert_eq!(listed["keys"], serde_json::json!([]));
}

#[test]
fn keys_go_where_the_settings_say() {
    let here = folder();
    let arguments = ["keys", "add", "ada", "--keys", "mine.toml", "--json"];
    let added = holdpoint(here.path(), &arguments, "").json();
    assert_eq!(added["name"], "ada");
    assert!(here.path().join("mine.toml").exists());
    assert!(!here.path().join("holdpoint-data").exists());
}

#[test]
fn no_command_acts_on_this_machine_while_a_server_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let here = |arguments: &[&str]| holdpoint(folder.path(), arguments, "");
    assert_eq!(here(&["keys", "add", "ada"]).code, 0);
    let exported = folder.path().join("out.jsonl");
    let key_file = folder.path().join("holdpoint-data/keys.toml");
    let before = fs::read_to_string(&key_file).unwrap();
    let local: [&[&str]; 7] = [
        &["prune", "--older-than", "1m"],
        &["export", "out.jsonl"],
        &["import", "in.jsonl"],
        &["doctor"],
        &["keys", "add", "bob"],
        &["keys", "list"],
        &["keys", "remove", "ada"],
    ];
    for arguments in local {
        let flagged = [arguments, &["--server", "127.0.0.1:1"]].concat();
        let by_flag = here(&flagged);
        let env = [("HOLDPOINT_SERVER", "127.0.0.1:1")];
        let by_variable = with_env(folder.path(), arguments, "", &env);
        for (ended, named) in [(by_flag, "--server"), (by_variable, "HOLDPOINT_SERVER")] {
            assert_eq!(ended.code, 2, "{arguments:?}: {}{}", ended.out, ended.err);
            assert!(ended.err.contains(named), "{arguments:?}: {}", ended.err);
            assert!(ended.err.contains("--data"), "the remedy, {arguments:?}: {}", ended.err);
        }
    }
    assert!(!exported.exists());
    assert_eq!(fs::read_to_string(&key_file).unwrap(), before);
    for arguments in [&["check"][..], &["schema"], &["serve"], &["exit-codes"]] {
        let ended = here(&[arguments, &["--server", "127.0.0.1:1"]].concat());
        assert_eq!(ended.code, 2, "{arguments:?}: {}", ended.err);
    }
}
