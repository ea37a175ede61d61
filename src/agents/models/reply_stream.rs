//! Reply stream: listens to a reply, passes the words on while they come, and keeps what was heard.
//!
//! Words are passed on in as few pieces as the disk keeps up with: what has arrived while an
//! earlier piece was being made durable goes in one.

use futures::{FutureExt as _, Stream, StreamExt as _};

use crate::agents::models::fault::{Code, ModelFault};
use crate::agents::models::reader::{Heard, Piece, Reader};
use crate::kernel::{AgentInput, Reply};
use crate::ports::DeltaSink;

/// Words are passed on at the latest when there are this many bytes of them.
const PENDING_BYTES_MAX: usize = 4_096;

/// Listens to one attempt of a reply, which may be several tries.
pub(super) struct Ear<'a> {
    deltas: &'a mut dyn DeltaSink,
    veil: Veil,
    asks_structure: bool,
    pending: String,
    has_spoken: bool,
    tape: Vec<Piece>,
    is_taping: bool,
}

/// Whether the words are for people. A structured reply is not: what people see of it is the
/// kernel's to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Veil {
    Undecided,
    Lifted,
    Drawn,
}

impl<'a> Ear<'a> {
    /// An ear for the reply to `input`.
    pub(super) fn new(input: &AgentInput, deltas: &'a mut dyn DeltaSink) -> Self {
        let asks_structure = input.output.is_some();
        Self {
            deltas,
            veil: Veil::Undecided,
            asks_structure,
            pending: String::new(),
            has_spoken: false,
            tape: Vec::new(),
            is_taping: false,
        }
    }

    /// The same, keeping every piece.
    pub(super) fn taping(mut self) -> Self {
        self.is_taping = true;
        self
    }

    /// Whether words have been passed on, so that a further try would say them twice.
    pub(super) fn has_spoken(&self) -> bool {
        self.has_spoken
    }

    /// Forgets what was heard and not passed on: another try begins.
    pub(super) fn begin_again(&mut self) {
        self.pending.clear();
        self.tape.clear();
        self.veil = Veil::Undecided;
    }

    /// Every piece of the try that succeeded.
    pub(super) fn into_tape(self) -> Vec<Piece> {
        self.tape
    }

    /// Listens until the reply is complete. `patience` ends the wait for the model's first word.
    pub(super) async fn listen(
        &mut self,
        mut reader: Box<dyn Reader>,
        pieces: impl Stream<Item = Result<Piece, ModelFault>> + Send,
        patience: impl Future<Output = ()> + Send,
    ) -> Result<Reply, ModelFault> {
        let mut pieces = std::pin::pin!(pieces);
        let mut patience = std::pin::pin!(patience);
        let mut is_alive = false;
        while !reader.is_done() {
            let ready = pieces.next().now_or_never();
            let next = if let Some(next) = ready {
                next
            } else {
                self.flush().await;
                tokio::select! {
                    next = pieces.next() => next,
                    () = &mut patience, if !is_alive => return Err(silent()),
                }
            };
            let Some(piece) = next else { break };
            is_alive |= self.hear(&mut *reader, piece?)?;
            if self.pending.len() >= PENDING_BYTES_MAX {
                self.flush().await;
            }
        }
        self.flush().await;
        // The end of the body mostly lies ready; with it the connection can be used again.
        while let Some(Some(Ok(_))) = pieces.next().now_or_never() {}
        reader.finish()
    }

    /// Plays a tape, each piece on its own.
    pub(super) async fn play(
        &mut self,
        mut reader: Box<dyn Reader>,
        tape: &[Piece],
    ) -> Result<Reply, ModelFault> {
        for piece in tape {
            self.hear(&mut *reader, piece.clone())?;
            self.flush().await;
        }
        reader.finish()
    }

    /// Takes a piece; whether it showed that the model is at work.
    fn hear(&mut self, reader: &mut dyn Reader, piece: Piece) -> Result<bool, ModelFault> {
        let heard = reader.take(&piece)?;
        if self.is_taping {
            self.tape.push(piece);
        }
        match heard {
            Heard::Nothing => Ok(false),
            Heard::Life => Ok(true),
            Heard::Text(text) => {
                self.words(&text);
                Ok(true)
            }
        }
    }

    fn words(&mut self, text: &str) {
        if self.veil == Veil::Undecided {
            let first = text.trim_start().chars().next();
            self.veil = match first {
                None => Veil::Undecided,
                Some('{' | '[' | '`') if self.asks_structure => Veil::Drawn,
                Some(_) => Veil::Lifted,
            };
        }
        if self.veil != Veil::Drawn {
            self.pending.push_str(text);
        }
    }

    async fn flush(&mut self) {
        if self.veil == Veil::Lifted && !self.pending.is_empty() {
            self.has_spoken = true;
            self.deltas.push(std::mem::take(&mut self.pending)).await;
        }
    }
}

/// Not a word in time.
pub(super) fn silent() -> ModelFault {
    ModelFault::new(Code::TimeoutFirstToken, "not a word within `timeouts.first_token`")
}
