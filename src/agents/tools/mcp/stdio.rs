//! Stdio: an MCP server as a child process. It is given only the environment that its file names,
//! and a message of it may not be larger than the bound.

use std::collections::VecDeque;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::agents::tools::mcp::Server;
use crate::agents::tools::mcp::oversize::Oversize;
use crate::agents::tools::secret;

/// What every program needs; anything else of ours is not theirs to know.
const INHERITED: [&str; 8] =
    ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TZ", "SSL_CERT_FILE"];
/// The last lines that a server wrote to its standard error, for whoever wonders why it is gone.
const LINES_KEPT: usize = 5;
/// A line of it; a longer one is not for reading.
const LINE_BYTES_MAX: usize = 4_096;

/// The last words of a server.
#[derive(Debug, Clone, Default)]
pub(super) struct LastWords(Arc<Mutex<VecDeque<String>>>);

impl LastWords {
    /// What it said, in one line.
    pub(super) fn told(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" / ")
    }

    fn listen(&self, stderr: ChildStderr, server: String) {
        let kept = Arc::clone(&self.0);
        tokio::spawn(async move {
            let mut stderr = BufReader::new(stderr);
            let mut goes_on = false;
            loop {
                let mut line = Vec::new();
                let read =
                    (&mut stderr).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line).await;
                if !matches!(read, Ok(1..)) {
                    return;
                }
                let is_rest = goes_on;
                goes_on = line.len() == LINE_BYTES_MAX && !line.ends_with(b"\n");
                let line = said(&line, is_rest, goes_on);
                tracing::debug!(server, line = line.trim_end(), "mcp server says");
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push_back(line);
                if kept.len() > LINES_KEPT {
                    kept.pop_front();
                }
            }
        });
    }
}

/// A line, or a piece of one that is too long. Where it was cut is marked: what is left of a secret there is hidden by
/// whoever knows it.
fn said(line: &[u8], is_rest: bool, goes_on: bool) -> String {
    let mark = |is_cut| if is_cut { "…" } else { "" };
    format!("{}{}{}", mark(is_rest), String::from_utf8_lossy(line), mark(goes_on))
}

/// A server that was just started.
#[derive(Debug)]
pub(super) struct Started {
    /// Killed when dropped.
    pub(super) child: Child,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) last_words: LastWords,
}

/// Starts a server.
pub(super) fn start(server: &Server) -> Result<Started, String> {
    let mut words = server.command.iter();
    let program = words.next().ok_or("no command is given")?;
    let mut command = Command::new(program);
    command
        .args(words)
        .env_clear()
        .envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        // Not in our group: Ctrl-C is for us, and we close its input when we go.
        .process_group(0);
    for (name, value) in &server.env {
        command.env(name, secret::fill(value)?.reveal());
    }
    let mut child = command.spawn().map_err(|error| format!("`{program}`: {error}"))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let last_words = LastWords::default();
    if let Some(stderr) = child.stderr.take() {
        last_words.listen(stderr, server.name.clone());
    }
    let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
        return Err("it has no standard input and output".into());
    };
    Ok(Started { child, stdin, stdout, last_words })
}

/// A reader of lines that ends at the first one that is too long.
#[derive(Debug)]
pub(super) struct Bounded<R> {
    inner: R,
    line_bytes: usize,
    oversize: Arc<Oversize>,
}

impl<R> Bounded<R> {
    pub(super) fn new(inner: R, oversize: Arc<Oversize>) -> Self {
        Self { inner, line_bytes: 0, oversize }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(ctx, buffer);
        let read = buffer.filled().get(before..).unwrap_or_default();
        match read.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => self.line_bytes = read.len() - end - 1,
            None => self.line_bytes += read.len(),
        }
        if self.line_bytes > self.oversize.bytes_max {
            self.oversize.raise();
            return Poll::Ready(Err(std::io::Error::other("a message is too large")));
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_says_where_it_was_cut() {
        assert_eq!(said(b"all of it\n", false, false), "all of it\n");
        assert_eq!(said(b"the first piece", false, true), "the first piece…");
        assert_eq!(said(b"the last\n", true, false), "…the last\n");
    }
}
