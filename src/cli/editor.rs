//! Editor: a person's own version of what they decide, written in their own editor. An editor that fails, and one
//! that brings back nothing or what it was given, sends nothing: that is said, and the question stays open.
//!
//! What is shown of the changes, and whether they are sent, is asked by whoever called.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::{Value, json as literal};

use crate::api::words::{Piece, changes};
use crate::app::SystemClock;
use crate::cli::answer;
use crate::cli::json;
use crate::cli::render::whole;
use crate::cli::term::{Paint, plain};
use crate::kernel::Verb;
use crate::ports::Clock as _;
use crate::wire::v1::Request;

/// The editor where the environment names none.
const DEFAULT: &str = "vi";

/// What came of editing.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Edited {
    /// Another version.
    Version(Value),
    /// Nothing to send, and why.
    Nothing(String),
}

/// What of a request can be edited: what is decided, where its answer may bring another version; of a call
/// that waits at a gate, its arguments. Why not, where nobody can: what is not shown cannot be edited.
pub(super) fn subject(request: &Request) -> Result<Value, String> {
    let subject = json::optional(request.subject.as_ref());
    if !answer::takes_call(request) && request.veiled {
        return Err(
            "something in it is hidden from you, and would be lost: give the whole answer as                     JSON, {\"decision\": \"edit\", \"subject\": …}"
                .into(),
        );
    }
    if !answer::takes_call(request) {
        return Ok(subject);
    }
    let schema = json::optional(request.response_schema.as_ref());
    if hides(&schema["properties"]["arguments"]) {
        return Err(
            "this call has fields that are shown to nobody, and would be lost: give the whole \
                    answer as JSON, {\"decision\": \"edit\", \"arguments\": …}"
                .into(),
        );
    }
    Ok(subject.get("arguments").cloned().unwrap_or_default())
}

/// Whether something in a schema is nobody's to read.
fn hides(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            let is_secret = schema["writeOnly"] == true || schema["format"] == "password";
            is_secret || members.values().any(hides)
        }
        Value::Array(items) => items.iter().any(hides),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The answer that brings a version.
pub(super) fn answer(request: &Request, version: &Value, note: &str) -> Value {
    let of_what = if answer::takes_call(request) { "arguments" } else { "subject" };
    let mut answer = literal!({"decision": Verb::Edit.word()});
    answer[of_what] = version.clone();
    if !note.trim().is_empty() {
        answer["note"] = note.trim().into();
    }
    answer
}

/// Has a person edit `subject`. `draft` is what they wrote before and is taken up, if there is any.
pub(super) async fn edit(subject: &Value, draft: &mut Option<String>) -> Edited {
    let nothing = |why: String| Edited::Nothing(format!("{why}; nothing was sent"));
    let text = draft.clone().unwrap_or_else(|| whole(subject));
    let file = match Draft::new(&text, subject.is_string()) {
        Ok(file) => file,
        Err(error) => return nothing(format!("the text could not be given to an editor: {error}")),
    };
    let Some(editor) = named() else {
        return nothing(
            "no editor is named, and nobody sits at a terminal: set VISUAL or EDITOR".into(),
        );
    };
    // As other programs do: what is named may have arguments of its own.
    let mut command = tokio::process::Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(&file.path);
    match command.status().await {
        Ok(status) if status.success() => {}
        Ok(status) => return nothing(format!("the editor `{editor}` failed ({status})")),
        Err(error) => {
            return nothing(format!("the editor `{editor}` could not be started: {error}"));
        }
    }
    let written = match fs::read_to_string(&file.path) {
        Ok(written) => written,
        Err(error) => return nothing(format!("what the editor left cannot be read: {error}")),
    };
    let came = came(subject, &written);
    *draft = match &came {
        // What is no JSON yet is taken up where they left it.
        Edited::Nothing(_) if !written.trim().is_empty() => Some(written),
        Edited::Nothing(_) | Edited::Version(_) => None,
    };
    match came {
        Edited::Nothing(why) => nothing(why),
        Edited::Version(version) => Edited::Version(version),
    }
}

/// Which editor a person has; the usual one for whoever sits at a terminal and named none.
fn named() -> Option<String> {
    let set = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| env::var(name).ok());
    let is_terminal = || io::stdin().is_terminal() && io::stdout().is_terminal();
    set.into_iter()
        .find(|name| !name.trim().is_empty())
        .or_else(|| is_terminal().then(|| DEFAULT.into()))
}

/// What an editor brought back.
fn came(subject: &Value, written: &str) -> Edited {
    if written.trim().is_empty() {
        return Edited::Nothing("nothing came back from the editor".into());
    }
    let version = match subject {
        // Editors end the last line of a file: where it had no end, that is not the person's.
        Value::String(text) if !text.ends_with('\n') => {
            Value::from(written.strip_suffix('\n').unwrap_or(written))
        }
        Value::String(_) => Value::from(written),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            match serde_json::from_str(written) {
                Ok(value) => value,
                Err(error) => {
                    return Edited::Nothing(format!("what came back is no JSON: {error}"));
                }
            }
        }
    };
    if version == *subject {
        return Edited::Nothing("nothing was changed".into());
    }
    Edited::Version(version)
}

/// What was changed, word by word.
pub(super) fn compared(paint: Paint, before: &Value, after: &Value) -> String {
    let (before, after) = (whole(before), whole(after));
    let mut told = String::new();
    for piece in changes(&before, &after) {
        match piece {
            Piece::Same(text) => told.push_str(&plain(text)),
            Piece::Gone(text) => told.push_str(&paint.bad(&format!("[-{}-]", plain(text)))),
            Piece::New(text) => told.push_str(&paint.good(&format!("{{+{}+}}", plain(text)))),
        }
    }
    told
}

/// A file that only its owner can read, and that is gone with this.
struct Draft {
    folder: PathBuf,
    path: PathBuf,
}

impl Draft {
    fn new(text: &str, is_text: bool) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let name = SystemClock.fresh_stem();
        let folder = env::temp_dir().join(format!("holdpoint-edit-{name}"));
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let path = folder.join(if is_text { "draft.txt" } else { "draft.json" });
        let draft = Self { folder, path };
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft.path)?;
        file.write_all(text.as_bytes())?;
        Ok(draft)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let remove = |folder: &Path| fs::remove_dir_all(folder);
        drop(remove(&self.folder));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_editor_brings_back_is_taken_letter_for_letter_or_not_at_all() {
        let text = json!("Dear Ada,\n  hello");
        let version = |written: &str| came(&text, written);
        assert_eq!(version("Dear Bob,\n  hello\n"), Edited::Version(json!("Dear Bob,\n  hello")));
        assert_eq!(version("  two\n\n"), Edited::Version(json!("  two\n")));
        for nothing in ["", " \n", "Dear Ada,\n  hello", "Dear Ada,\n  hello\n"] {
            assert!(matches!(version(nothing), Edited::Nothing(_)), "{nothing:?}");
        }
        let ended = came(&json!("one\n"), "two\n");
        assert_eq!(ended, Edited::Version(json!("two\n")));
        let value = json!({"amount": 10});
        assert_eq!(came(&value, "{\"amount\": 12}\n"), Edited::Version(json!({"amount": 12})));
        assert!(
            matches!(came(&value, "{\"amount\": "), Edited::Nothing(why) if why.contains("no JSON"))
        );
        assert!(matches!(came(&value, "{ \"amount\": 10 }"), Edited::Nothing(_)), "the same value");
    }

    #[test]
    fn changes_are_shown_word_by_word() {
        let told = compared(Paint::new(false), &json!("Pay 10 now"), &json!("Pay 12 now"));
        assert_eq!(told, "Pay [-10-]{+12+} now");
    }
}
