//! Process: the scratch directory, and servers of ours as processes of their own. Whatever is made
//! here is gone when its value is: a process is killed, a directory removed.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, io};

use serde_json::Value;

use crate::bench::database::Databases;
use crate::bench::{BenchError, clock::Stopwatch, workflows};

/// The last words of a server that did not come up; more than that nobody reads.
const LAST_WORDS_CHARS: usize = 2_000;
/// Linux tells times in hundredths of a second, whatever it counts in.
const TICK_MS: u64 = 10;
/// What `statfs` says of a file system that is only memory.
const TMPFS: i128 = 0x0102_1994;

/// A directory of this run alone.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    /// The PostgreSQL that w1 to w3 are measured over, if one was named.
    databases: Option<Databases>,
}

/// Where a server under test keeps what it is told.
#[derive(Debug, Clone)]
pub(super) struct Place {
    data: PathBuf,
    /// The database in its place.
    store: Option<String>,
}

impl Scratch {
    /// Makes one in `place`.
    pub(super) fn make(place: &Path, store: Option<&str>) -> Result<Self, BenchError> {
        let path = place.join(format!("holdpoint-bench-{}", std::process::id()));
        let fail = || BenchError::io(format!("make the scratch directory `{}`", path.display()));
        fs::create_dir(&path).map_err(fail())?;
        let path = path.canonicalize().map_err(fail())?;
        let scratch = Self { path, databases: store.map(Databases::of) };
        workflows::write(&scratch.join("workflows"))
            .map_err(BenchError::io("write the workflows"))?;
        Ok(scratch)
    }

    /// A path in it.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether it is in memory, where syncing costs nothing and proves nothing.
    pub(super) fn is_in_memory(&self) -> bool {
        rustix::fs::statfs(&self.path).is_ok_and(|system| i128::from(system.f_type) == TMPFS)
    }

    /// A store that was not there before: in the PostgreSQL that was named, or else in a directory.
    pub(super) async fn fresh_place(&self, name: &str) -> Result<Place, BenchError> {
        let data = self.fresh_data(name)?;
        let store = match &self.databases {
            Some(databases) => {
                let address = databases.fresh().await?;
                make_tables(&address)?;
                Some(address)
            }
            None => None,
        };
        Ok(Place { data, store })
    }

    /// Takes away what is not in the directory.
    pub(super) async fn leave(&self) {
        if let Some(databases) = &self.databases {
            databases.leave().await;
        }
    }

    /// A data directory that was not there before.
    pub(super) fn fresh_data(&self, name: &str) -> Result<PathBuf, BenchError> {
        let data = self.join(name);
        match fs::remove_dir_all(&data) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(BenchError::io(format!("clear `{}`", data.display()))(error))
            }
            Ok(()) | Err(_) => Ok(data),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A writer that was cut off may still have made a file meanwhile; then once more.
        if fs::remove_dir_all(&self.path).is_err() {
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

/// A server of ours that serves.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    /// Where.
    pub(super) address: String,
    /// Began when the process was started.
    pub(super) since_exec: Stopwatch,
}

impl Server {
    /// Starts the orchestrator on `data`, and waits until it serves.
    pub(super) async fn orchestrator(scratch: &Scratch, data: &Path) -> Result<Self, BenchError> {
        let mut command = ourselves()?;
        command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--data"]).arg(data);
        command.arg("--workflows").arg(scratch.join("workflows"));
        Self::start(command, scratch, "server under test").await
    }

    /// Starts the orchestrator over a store, one of several where that is in a database, and waits until it serves.
    pub(super) async fn at(
        scratch: &Scratch,
        place: &Place,
        number: u16,
    ) -> Result<Self, BenchError> {
        let Some(store) = &place.store else {
            return Self::orchestrator(scratch, &place.data).await;
        };
        let mut command = ourselves()?;
        command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(place.data.join(number.to_string()));
        command.arg("--workflows").arg(scratch.join("workflows")).env("HOLDPOINT_STORE", store);
        fs::create_dir_all(&place.data).map_err(BenchError::io("make a data directory"))?;
        Self::start(command, scratch, "server under test").await
    }

    /// Starts several over one store; one alone where that is a directory.
    pub(super) async fn several(
        scratch: &Scratch,
        place: &Place,
        count: u16,
    ) -> Result<Vec<Self>, BenchError> {
        let mut servers = Vec::new();
        for number in 0..count {
            servers.push(Self::at(scratch, place, number).await?);
        }
        Ok(servers)
    }

    /// Starts the bare gRPC server, and waits until it serves.
    pub(super) async fn echo(scratch: &Scratch) -> Result<Self, BenchError> {
        let mut command = ourselves()?;
        command.args(["bench-echo", "--json"]);
        Self::start(command, scratch, "bare gRPC server").await
    }

    async fn start(
        mut command: Command,
        scratch: &Scratch,
        name: &'static str,
    ) -> Result<Self, BenchError> {
        let fail = || BenchError::io(format!("start the {name}"));
        let log = scratch.join("server.log");
        let stderr = File::create(&log).map_err(fail())?;
        // Not in the caller's directory: a settings file there is not meant for us.
        command.current_dir(scratch.join("workflows"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let since_exec = Stopwatch::start();
        let child = command.spawn().map_err(fail())?;
        let mut server = Self { child, address: String::new(), since_exec };
        let stdout = server.child.stdout.take();
        let first = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            let read = stdout.map(|stdout| BufReader::new(stdout).read_line(&mut line));
            read.transpose().map(|_| line)
        });
        let line = first.await.map_err(|error| fail()(io::Error::other(error)))?.map_err(fail())?;
        let ready: Value = serde_json::from_str(&line).unwrap_or_default();
        match ready.get("listening").and_then(Value::as_str) {
            Some(address) => address.clone_into(&mut server.address),
            None => return Err(BenchError::NotReady(name, last_words(&log))),
        }
        Ok(server)
    }

    /// What the processor has done for it so far.
    pub(super) fn cpu(&self) -> Duration {
        cpu_of(&self.child.id().to_string())
    }

    /// Resident memory in bytes.
    pub(super) fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let kilobytes = status.ok().and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.to_owned();
            line.split_whitespace().next()?.parse::<u64>().ok()
        });
        kilobytes.unwrap_or(0) * 1024
    }
}

/// SIGKILL: no server under test gets to tidy up.
impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What the processor has done for this process so far.
pub(super) fn own_cpu() -> Duration {
    cpu_of("self")
}

/// Nothing where the system does not say.
fn cpu_of(process: &str) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name, in brackets, may hold anything; user and system time are the 12th and 13th after.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * TICK_MS)
}

impl Place {
    /// What the store weighs.
    pub(super) async fn bytes(&self) -> Result<u64, BenchError> {
        match &self.store {
            Some(store) => Databases::bytes(store).await,
            None => bytes_below(&self.data).map_err(BenchError::io("weigh the data directory")),
        }
    }
}

/// The bytes of all files below `path`.
fn bytes_below(path: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.len() };
    }
    Ok(sum)
}

/// This program, with none of the caller's settings.
fn ourselves() -> Result<Command, BenchError> {
    let program = env::current_exe().map_err(BenchError::io("find this program"))?;
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("HOLDPOINT_") {
            command.env_remove(name);
        }
    }
    Ok(command)
}

/// Makes our tables in a database.
fn make_tables(address: &str) -> Result<(), BenchError> {
    let mut command = ourselves()?;
    command.args(["store", "migrate"]).env("HOLDPOINT_STORE", address);
    let made = command.output().map_err(BenchError::io("make the tables"))?;
    if made.status.success() {
        return Ok(());
    }
    Err(BenchError::Database(String::from_utf8_lossy(&made.stderr).into_owned()))
}

/// Makes an API key of a user's in a data directory that no server has open; returns its secret.
pub(super) fn make_key(data: &Path, name: &str) -> Result<String, BenchError> {
    let mut command = ourselves()?;
    command.args(["keys", "add", name, "--role", "user", "--json", "--data"]).arg(data);
    let made = command.output().map_err(BenchError::io("make a key"))?;
    let told: Value = serde_json::from_slice(&made.stdout).unwrap_or_default();
    let secret = told.get("secret").and_then(Value::as_str).map(str::to_owned);
    secret.ok_or(BenchError::Unexpected("make a key"))
}

fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let skipped = text.chars().count().saturating_sub(LAST_WORDS_CHARS);
    text.chars().skip(skipped).collect()
}
