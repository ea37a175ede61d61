//! Attach: terminals that work on one data directory talk to whichever of them has it open. The one that has it
//! listens at a socket in the directory, for its own user alone; the others speak gRPC through that as they would
//! to a server. When it goes, one of them has the directory next, takes up what it was following, and goes on.
//!
//! Whoever only looks shares nothing: a command that came through it would find nobody who drives its run (E8).

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::api::bridge;
use crate::api::on_cancel::OnCancel;
use crate::app::auth::Embedded;
use crate::app::dispatch::Front;
use crate::app::house::agents;
use crate::app::server::{self, Connections};
use crate::app::wiring::{Wiring, render};
use crate::app::{AppError, Config};
use crate::definition;
use crate::engine::{Engine, Reach};
use crate::kernel::Principal;
use crate::store::{self, SOCKET};

/// What may be on its way between an embedded server and its client.
const DUPLEX_BYTES: usize = 1 << 20;
/// How long an embedded server may take to finish what is under way; a person waits for it.
const DRAIN: Duration = Duration::from_secs(2);
/// The same while other terminals work through it; shorter than they try to come back.
const DRAIN_SHARED: Duration = Duration::from_secs(5);
/// How long somebody who has the directory and does not share it is waited for: listings are over in a moment.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is tried again.
const AGAIN: Duration = Duration::from_millis(50);
/// Connections of other terminals at once; a person has a few.
const TERMINALS_MAX: usize = 64;
/// A path that is longer is no address of a socket, and is reached through the directory that is open.
const PATH_BYTES_MAX: usize = 100;

/// The run that a terminal follows: whoever has the directory next takes it up.
#[derive(Debug, Clone, Default)]
pub struct Followed(Arc<Mutex<Option<String>>>);

impl Followed {
    /// Follows this run from now on.
    pub fn set(&self, run: &str) {
        let mut followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if followed.as_deref() != Some(run) {
            *followed = Some(run.to_owned());
        }
    }

    fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A way to the data directory: through this process, or through another that has it.
pub(super) struct Way {
    config: Config,
    reach: Reach,
    followed: Followed,
    /// The server that had the directory when it was first looked for: it is waited for, and nobody takes the
    /// directory from it while it starts anew.
    server: OnceLock<String>,
    /// What was opened here.
    held: Mutex<Option<Arc<Holding>>>,
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Way").field("reach", &self.reach).finish_non_exhaustive()
    }
}

/// A data directory that this process has open.
struct Holding {
    world: Wiring,
    front: Front,
    connections: Arc<Connections>,
    /// Terminals that work through it.
    others: Arc<AtomicUsize>,
    /// Where they come in; gone with this.
    door: Mutex<Option<Door>>,
    /// Takes workflow files as they change, for those who come in later.
    _folder: Option<AbortOnDropHandle<()>>,
}

/// Who listens, and the file that they listen at.
type Door = (AbortOnDropHandle<()>, PathBuf);

/// What carries a connection.
pub(super) enum Line {
    Here(tokio::io::DuplexStream),
    Terminal(UnixStream),
    Server(TcpStream),
}

/// Who is at the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// This process.
    Here,
    /// Another terminal.
    Terminal,
    /// A server, at this address.
    Server(String),
}

impl Way {
    pub(super) fn new(config: Config, reach: Reach, followed: Followed) -> Self {
        Self { config, reach, followed, server: OnceLock::new(), held: Mutex::new(None) }
    }

    /// The engine of this process, where it has the directory.
    pub(super) fn engine(&self) -> Option<Engine> {
        self.holding().map(|holding| holding.world.engine.clone())
    }

    /// Whether a server has the directory.
    pub(super) fn is_served(&self) -> bool {
        self.server.get().is_some()
    }

    fn holding(&self) -> Option<Arc<Holding>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens the directory, or reaches whoever has it.
    pub(super) async fn line(&self) -> Result<(Line, End), AppError> {
        if let Some(address) = self.server.get() {
            let stream = TcpStream::connect(address)
                .await
                .map_err(|source| AppError::Gone { server: address.clone(), source })?;
            return Ok((Line::Server(stream), End::Server(address.clone())));
        }
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(holding) = self.holding() {
                return Ok((holding.line(), End::Here));
            }
            // One whose process was killed answers nobody, and the directory is free.
            if self.config.store.is_none()
                && let Ok(stream) = dial(&self.config.data).await
            {
                return Ok((Line::Terminal(stream), End::Terminal));
            }
            let held = match Wiring::open(&self.config, self.reach).await {
                Ok(world) => {
                    let holding = Arc::new(Holding::new(world, &self.config, self.reach).await?);
                    let engine = holding.world.engine.clone();
                    *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(holding);
                    self.take_up(&engine).await;
                    continue;
                }
                Err(AppError::Store(held @ store::OpenError::Held { .. })) => held,
                // Its store is elsewhere, and whoever serves that is not.
                Err(AppError::Store(error)) if error.server().is_some() => error,
                Err(error) => return Err(error),
            };
            if let Some(address) = held.server()
                && let Ok(stream) = TcpStream::connect(address).await
            {
                let address = self.server.get_or_init(|| address.to_owned());
                return Ok((Line::Server(stream), End::Server(address.clone())));
            }
            if Instant::now() >= until {
                return Err(held.into());
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Goes on with what is followed here: whoever drove it is gone.
    async fn take_up(&self, engine: &Engine) {
        let Some(run) = self.followed.get().filter(|_| self.reach == Reach::Own) else { return };
        if let Err(error) = engine.take_up(&run, &Principal::local("cli")).await {
            tracing::warn!(run.id = run, %error, "the run could not be taken up");
        }
    }

    /// Lets go of the directory; what is under way here is finished first.
    pub(super) async fn close(&self) {
        let holding = self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(holding) = holding {
            holding.close().await;
        }
    }
}

impl Holding {
    async fn new(mut world: Wiring, config: &Config, reach: Reach) -> Result<Self, AppError> {
        let a2a = agents(config, &world, None)?;
        let silence = Duration::from_secs(config.silence_seconds);
        let doors = (a2a, bridge::Settings { sticky: false, silence, on_cancel: OnCancel::Run });
        let draw = definition::draw::mermaid;
        let front = server::doors(&world.engine, Arc::new(Embedded), draw, render(), doors).await?;
        let connections = Arc::new(Connections::default());
        let others = Arc::new(AtomicUsize::new(0));
        let door = match reach {
            Reach::Own => {
                share(&config.data, &front, (&connections, &others)).unwrap_or_else(|error| {
                    // Alone it works as well; others are told to wait.
                    tracing::warn!(%error, "other terminals cannot come in here");
                    None
                })
            }
            Reach::Everything | Reach::Nothing => None,
        };
        let folder = if reach == Reach::Own { world.watch_folder() } else { None };
        let door = Mutex::new(door);
        Ok(Self { world, front, connections, others, door, _folder: folder })
    }

    fn line(&self) -> Line {
        let (near, far) = tokio::io::duplex(DUPLEX_BYTES);
        tokio::spawn(self.connections.connection(far, self.front.clone(), self.front.silence));
        Line::Here(near)
    }

    async fn close(&self) {
        let is_shared = self.others.load(Ordering::Acquire) > 0;
        // Nobody comes in any more; those who are here finish what they can.
        let door = self.door.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((listening, path)) = door {
            drop(listening);
            drop(fs::remove_file(path));
        }
        self.world.shut_down(if is_shared { DRAIN_SHARED } else { DRAIN }).await;
    }
}

/// Listens for other terminals of the same user. Whoever has the directory may put the socket of one who is gone
/// away.
fn share(
    data: &Path,
    front: &Front,
    (connections, others): (&Arc<Connections>, &Arc<AtomicUsize>),
) -> io::Result<Option<Door>> {
    let path = data.join(SOCKET);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = Address::of(data)?.bind()?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    let (front, connections) = (front.clone(), Arc::clone(connections));
    let others = Arc::clone(others);
    let listening = async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            let is_mine = stream
                .peer_cred()
                .is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw());
            if !is_mine || others.load(Ordering::Acquire) >= TERMINALS_MAX {
                continue;
            }
            others.fetch_add(1, Ordering::AcqRel);
            let connection = connections.connection(stream, front.clone(), front.silence);
            let others = Arc::clone(&others);
            tokio::spawn(async move {
                connection.await;
                others.fetch_sub(1, Ordering::AcqRel);
            });
        }
    };
    Ok(Some((AbortOnDropHandle::new(tokio::spawn(listening)), path)))
}

/// Reaches the terminal that has the directory, if one has.
async fn dial(data: &Path) -> io::Result<UnixStream> {
    let address = Address::of(data)?;
    let stream = UnixStream::connect(&address.path).await?;
    // A socket that somebody else put there is nobody's.
    if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(stream)
}

/// Where the socket of a directory is, in as few letters as an address may have.
struct Address {
    path: PathBuf,
    /// Held, not read: the path may lead through it.
    _folder: Option<fs::File>,
}

impl Address {
    fn of(data: &Path) -> io::Result<Self> {
        let path = data.join(SOCKET);
        if path.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self { path, _folder: None });
        }
        let folder = fs::File::open(data)?;
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(SOCKET);
        Ok(Self { path, _folder: Some(folder) })
    }

    fn bind(&self) -> io::Result<UnixListener> {
        UnixListener::bind(&self.path)
    }
}

impl AsyncRead for Line {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Here(line) => Pin::new(line).poll_read(context, buffer),
            Self::Terminal(line) => Pin::new(line).poll_read(context, buffer),
            Self::Server(line) => Pin::new(line).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Here(line) => Pin::new(line).poll_write(context, bytes),
            Self::Terminal(line) => Pin::new(line).poll_write(context, bytes),
            Self::Server(line) => Pin::new(line).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Here(line) => Pin::new(line).poll_flush(context),
            Self::Terminal(line) => Pin::new(line).poll_flush(context),
            Self::Server(line) => Pin::new(line).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Here(line) => Pin::new(line).poll_shutdown(context),
            Self::Terminal(line) => Pin::new(line).poll_shutdown(context),
            Self::Server(line) => Pin::new(line).poll_shutdown(context),
        }
    }
}
