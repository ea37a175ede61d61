//! Recorded: real exchanges written to a file, and played back from it without a network.
//!
//! One line of JSON for each exchange: the digest of the request, and the reply as it came over
//! the wire, event by event. The same request gets the same reply, whatever happened to the process
//! in between; of two recordings of one request the later counts. Keys travel in headers and are
//! not in here.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agents::models::dialect::Dialect;
use crate::agents::models::fault::{Code, ModelFault};
use crate::agents::models::reader::Piece;
use crate::agents::models::settings::{Settings, Wrong};
use crate::kernel::{AgentInput, Reply, Usage, digest};

/// The form of a line; a reader that does not know it says so.
const FORMAT: u32 = 1;
/// A recording is for a test: this is a thousand exchanges of a long conversation.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Recordings kept in memory; tests use one.
const FILES_MAX: usize = 16;

/// Whether exchanges are written or played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// The server is asked, and the exchange is written.
    Record,
    /// The file answers.
    Replay,
}

/// The settings of a recorded model.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) file: PathBuf,
    pub(super) mode: Mode,
    pub(super) dialect: Dialect,
    pub(super) settings: Settings,
}

impl Recorded {
    /// Reads the settings: `{file, mode, of: {provider, …}}`.
    pub(super) fn read(settings: &Value) -> Result<Self, Wrong> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Given {
            file: PathBuf,
            mode: Mode,
            of: serde_json::Map<String, Value>,
        }
        let given = Given::deserialize(settings)
            .map_err(|error| (String::new(), format!("the settings of `recorded`: {error}")))?;
        let mut of = given.of;
        let provider = of.remove("provider").unwrap_or_default();
        let dialect = provider.as_str().and_then(Dialect::of_provider).ok_or_else(|| {
            let remedy = "expected a provider whose exchanges can be recorded: openai_chat, \
                          openai_responses or anthropic";
            ("/of/provider".to_owned(), remedy.to_owned())
        })?;
        let settings = Settings::read(dialect, &Value::Object(of))
            .map_err(|(at, remedy)| (format!("/of{at}"), remedy))?;
        Ok(Self { file: given.file, mode: given.mode, dialect, settings })
    }
}

/// One line.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    format: u32,
    /// The digest of the request.
    request: String,
    provider: String,
    /// Whose reply it is: for people.
    agent: String,
    #[serde(default, skip_serializing_if = "Usage::is_nothing")]
    usage: Usage,
    reply: Vec<Value>,
}

/// All recordings of this process.
#[derive(Debug, Default)]
pub(super) struct Recordings {
    files: Mutex<HashMap<PathBuf, Known>>,
}

/// A recording, as it was when it was read.
#[derive(Debug, Clone)]
struct Known {
    state: (u64, Option<SystemTime>),
    replies: Arc<HashMap<String, Vec<Piece>>>,
}

/// The digest of a request in a dialect.
pub(super) fn digest_of(dialect: Dialect, request: &Value) -> String {
    digest::of(&json!({"provider": dialect.word(), "request": request}))
}

impl Recordings {
    /// Whether the file can be played.
    pub(super) fn check(&self, file: &Path) -> Result<(), ModelFault> {
        self.load(file).map(|_| ())
    }

    /// The reply that was recorded for a request.
    pub(super) fn find(
        &self,
        file: &Path,
        digest: &str,
        input: &AgentInput,
    ) -> Result<Vec<Piece>, ModelFault> {
        let replies = self.load(file)?;
        replies.get(digest).cloned().ok_or_else(|| {
            let short: String = digest.chars().take(12).collect();
            let message = format!(
                "what `{}` asks for now was not recorded (request `{short}…`); instructions, tools, \
                 settings and conversation must be those of the recording: record it again with \
                 `mode: record`",
                input.agent
            );
            ModelFault::new(Code::NotRecorded, message)
        })
    }

    /// Writes an exchange.
    pub(super) fn write(
        &self,
        recorded: &Recorded,
        digest: String,
        input: &AgentInput,
        (reply, tape): (&Reply, &[Piece]),
    ) -> Result<(), ModelFault> {
        let line = Line {
            format: FORMAT,
            request: digest,
            provider: recorded.dialect.word().to_owned(),
            agent: input.agent.clone(),
            usage: reply.usage,
            reply: tape.iter().map(written).collect(),
        };
        let failed = |error: &dyn std::fmt::Display| {
            ModelFault::new(Code::Recording, format!("the recording cannot be written: {error}"))
        };
        let mut text = serde_json::to_string(&line).map_err(|error| failed(&error))?;
        text.push('\n');
        // One writer at a time, and one write a line: two runs may record at once.
        let _files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let file = OpenOptions::new().create(true).append(true).open(&recorded.file);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| failed(&error))
    }

    fn load(&self, path: &Path) -> Result<Arc<HashMap<String, Vec<Piece>>>, ModelFault> {
        let failed = |what: String| {
            let message = format!("the recording `{}` {what}", path.display());
            ModelFault::new(Code::Recording, message)
        };
        let file = File::open(path).map_err(|error| failed(format!("cannot be read: {error}")))?;
        let meta = file.metadata().map_err(|error| failed(format!("cannot be read: {error}")))?;
        let state = (meta.len(), meta.modified().ok());
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = files.get(path).filter(|known| known.state == state) {
            return Ok(Arc::clone(&known.replies));
        }
        if meta.len() > FILE_BYTES_MAX {
            return Err(failed(format!("has more than {FILE_BYTES_MAX} bytes")));
        }
        let mut replies = HashMap::new();
        for (number, line) in (1..).zip(BufReader::new(file.take(FILE_BYTES_MAX)).lines()) {
            let line = line.map_err(|error| failed(format!("line {number}: {error}")))?;
            let (digest, reply) =
                read(&line).map_err(|error| failed(format!("line {number}: {error}")))?;
            replies.insert(digest, reply);
        }
        let replies = Arc::new(replies);
        if files.len() >= FILES_MAX {
            files.clear();
        }
        files.insert(path.to_owned(), Known { state, replies: Arc::clone(&replies) });
        Ok(replies)
    }
}

fn read(line: &str) -> Result<(String, Vec<Piece>), String> {
    let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if line.format != FORMAT {
        return Err(format!("format {} is not known here; record it again", line.format));
    }
    let pieces: Option<Vec<Piece>> = line.reply.iter().map(piece).collect();
    Ok((line.request, pieces.ok_or("a piece is neither an event nor a whole reply")?))
}

fn written(piece: &Piece) -> Value {
    match piece {
        Piece::Event { name, data } if name.is_empty() => json!({"data": data}),
        Piece::Event { name, data } => json!({"event": name, "data": data}),
        Piece::Whole(body) => json!({"whole": body}),
    }
}

fn piece(value: &Value) -> Option<Piece> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    match (text("data"), text("whole")) {
        (Some(data), None) => Some(Piece::Event { name: text("event").unwrap_or_default(), data }),
        (None, Some(body)) => Some(Piece::Whole(body)),
        (Some(_), Some(_)) | (None, None) => None,
    }
}
