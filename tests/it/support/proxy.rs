//! A line to a database that can be cut at the worst moments: before what is to be written has come there, and after it
//! was written, before anybody heard of it; or altogether, in the middle of whatever is said. It counts what it cut: a cut
//! that never happened shows nothing.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};

/// By what is known that something is to be written.
const APPEND: &[u8] = b"holdpoint.append(";
/// As many words as anybody likes.
const ENDLESS: u64 = u64::MAX;

/// What is still to be cut, and what was.
#[derive(Debug)]
pub(crate) struct Knife {
    answers: AtomicU64,
    requests: AtomicU64,
    /// Written, and nobody heard of it.
    pub(crate) unheard: AtomicU64,
    /// Never sent.
    pub(crate) unsent: AtomicU64,
    /// What may still be said before nobody hears anything any more.
    words: AtomicU64,
}

impl Default for Knife {
    fn default() -> Self {
        let [answers, requests, unheard, unsent] = Default::default();
        Self { answers, requests, unheard, unsent, words: AtomicU64::new(ENDLESS) }
    }
}

impl Knife {
    /// So many answers, and as many requests, are to be lost.
    pub(crate) fn cut(&self, times: u64) {
        self.answers.store(times, Ordering::SeqCst);
        self.requests.store(times, Ordering::SeqCst);
    }

    /// After so many words of whoever is connected the database is gone, for everybody.
    pub(crate) fn fall_after(&self, words: u64) {
        self.words.store(words, Ordering::SeqCst);
    }

    /// Whether it is gone.
    pub(crate) fn has_fallen(&self) -> bool {
        self.words.load(Ordering::SeqCst) == 0
    }

    /// It is there again; whether it was gone.
    pub(crate) fn mend(&self) -> bool {
        self.words.swap(ENDLESS, Ordering::SeqCst) == 0
    }

    /// One more word; whether it falls by that.
    fn falls(&self) -> bool {
        if self.words.load(Ordering::SeqCst) == ENDLESS {
            return false;
        }
        !Self::takes(&self.words)
    }

    fn takes(left: &AtomicU64) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
    }
}

/// The line.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    pub(crate) knife: Arc<Knife>,
}

impl Proxy {
    pub(crate) async fn to(socket: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (knife, socket) = (Arc::<Knife>::default(), socket.to_path_buf());
        let held = Arc::clone(&knife);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if held.has_fallen() {
                    continue;
                }
                tokio::spawn(carried(client, socket.clone(), Arc::clone(&held)));
            }
        });
        Self { address, knife }
    }
}

/// Carries one connection to its end.
async fn carried(mut client: TcpStream, socket: PathBuf, knife: Arc<Knife>) {
    let Ok(mut server) = UnixStream::connect(socket).await else { return };
    let is_doomed = AtomicBool::new(false);
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let asking = async {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
            let asked = &bytes[..count];
            if knife.falls() {
                return;
            }
            if asked.windows(APPEND.len()).any(|piece| piece == APPEND) {
                if Knife::takes(&knife.requests) {
                    knife.unsent.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                is_doomed.store(Knife::takes(&knife.answers), Ordering::SeqCst);
            }
            if to_server.write_all(asked).await.is_err() {
                return;
            }
        }
    };
    let answering = async {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
            if is_doomed.load(Ordering::SeqCst) {
                // The server answers when it has committed, and not before.
                knife.unheard.fetch_add(1, Ordering::SeqCst);
                return;
            }
            if to_client.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = asking => {}
        () = answering => {}
    }
}
