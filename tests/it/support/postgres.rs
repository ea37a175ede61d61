//! A real PostgreSQL for whatever tests need one: one server for all test processes of this tree, in a directory of its
//! own, reached by a socket there; a database for each test. The first that needs it starts it, and it goes some seconds
//! after the last has ended. It is no stand-in for anything: it syncs, as whoever serves demands.

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint::store::{PostgresConfig, Store};
use tokio_postgres::{Client, NoTls};

/// The database that others are made as copies of.
const MADE: &str = "made";
const PORT: u16 = 5432;
/// How a server with a standby is set up.
pub(crate) const REPLICATED: &[&str] =
    &["wal_level=replica", "max_wal_senders=4", "synchronous_standby_names=standby"];

/// Stops the server when nobody has a share in it any more.
const WATCH: &str = r#"
exec 8>"$1.lock" 9>"$1.users"
while sleep 10; do
    flock 8
    if flock -n 9; then
        "${@:3}" "$2/pg_ctl" stop -D "$1/data" -m immediate
        rm -rf "$1"
        exit
    fi
    flock -u 8
done
"#;

/// A server, as one test process knows it.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) dir: PathBuf,
    /// Held for as long as this process lives.
    _share: Option<File>,
}

/// The server that tests share.
pub(crate) fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(shared)
}

fn shared() -> Server {
    let dir = server_dir();
    let file = |what: &str| {
        let path = PathBuf::from(format!("{}.{what}", dir.display()));
        OpenOptions::new().create(true).append(true).open(path).unwrap()
    };
    let share = file("users");
    share.lock_shared().unwrap();
    let lock = file("lock");
    lock.lock().unwrap();
    // What is left of one that was killed is none.
    let answers = UnixStream::connect(dir.join(format!(".s.PGSQL.{PORT}"))).is_ok();
    if !answers || !dir.join("ready").exists() {
        drop(fs::remove_dir_all(&dir));
        start(&dir, &[]);
        let made = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let dir = server_dir();
                client(&dir, "postgres").await.batch_execute("create database made").await.unwrap();
                let config = PostgresConfig::new(&address_in(&dir, MADE)).unwrap();
                holdpoint::store::migrate(&config).await.unwrap();
            });
        });
        made.join().unwrap();
        let mut watch = Command::new("setsid");
        watch.args(["bash", "-c", WATCH, "watch"]).arg(&dir).arg(bin()).args(as_other());
        // It outlives whoever started it, and stops the server when nobody uses it any more.
        drop(watch.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn());
        fs::write(dir.join("ready"), "").unwrap();
    }
    Server { dir, _share: Some(share) }
}

fn server_dir() -> PathBuf {
    let mut tree = DefaultHasher::new();
    env!("CARGO_MANIFEST_DIR").hash(&mut tree);
    place().join(format!("holdpoint-pg-{:08x}", tree.finish() >> 32))
}

/// Memory, where there is plenty: a sync is quick there, and is still done.
fn place() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map(|about| about.f_bavail * about.f_frsize);
    if free.is_ok_and(|free| free > 4 << 30) { memory.into() } else { std::env::temp_dir() }
}

/// Where PostgreSQL's programs are.
pub(crate) fn bin() -> PathBuf {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut places: Vec<_> = installed.map(|entry| entry.path().join("bin")).collect();
    places.sort();
    let brought = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/clients/postgres/bin");
    let found = places.into_iter().rev().find(|bin| bin.join("initdb").exists());
    found.unwrap_or_else(|| {
        assert!(
            brought.join("initdb").exists(),
            "no PostgreSQL is there: `bash tests/clients/install.sh` brings one"
        );
        readable(&brought)
    })
}

/// A copy of what was brought where everybody can read it: a home may be its owner's alone.
fn readable(brought: &Path) -> PathBuf {
    let copy = PathBuf::from(format!("{}-programs", server_dir().display()));
    if !copy.exists() {
        let part = PathBuf::from(format!("{}.{}", copy.display(), std::process::id()));
        ran(Command::new("cp").arg("-r").arg(brought.parent().unwrap()).arg(&part));
        // Of two at once, one is first.
        drop(fs::rename(&part, &copy));
        drop(fs::remove_dir_all(&part));
    }
    copy.join("bin")
}

/// How its programs are run: it refuses to be root's.
pub(crate) fn as_other() -> Vec<String> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let is_there = users.lines().any(|line| line.starts_with("postgres:"));
    let user = if is_there { "postgres" } else { "nobody" };
    let words = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--"];
    let group = fs::read_to_string("/etc/group").unwrap_or_default();
    let group = group.lines().any(|line| line.starts_with(&format!("{user}:")));
    let words = words.map(str::to_owned);
    if group { words.to_vec() } else { words.map(|word| word.replace("nobody", "65534")).to_vec() }
}

/// One of its programs, run as whoever may.
pub(crate) fn program(name: &str) -> Command {
    let (other, path) = (as_other(), bin().join(name));
    let mut command = match other.split_first() {
        None => Command::new(&path),
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(&path);
            command
        }
    };
    command.env("LD_LIBRARY_PATH", bin().join("../lib")).env("LC_ALL", "C");
    command.current_dir("/").stdin(Stdio::null());
    command
}

fn ran(command: &mut Command) {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {told}{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

/// Makes a cluster in a directory and starts its server there, with these settings beside the usual ones.
pub(crate) fn start(dir: &Path, settings: &[&str]) {
    fs::create_dir_all(dir).unwrap();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    let data = dir.join("data");
    let said = ["-A", "trust", "-U", "holdpoint", "-E", "UTF8", "--no-locale", "--no-sync"];
    ran(program("initdb").arg("-D").arg(&data).args(said));
    launch(dir, settings);
}

/// Starts the server of a cluster.
pub(crate) fn launch(dir: &Path, settings: &[&str]) {
    let socket = format!("unix_socket_directories={}", dir.display());
    let usual = [
        socket.as_str(),
        "listen_addresses=",
        "max_connections=300",
        "shared_buffers=64MB",
        "wal_level=minimal",
        "max_wal_senders=0",
    ];
    let told = usual.iter().chain(settings).map(|setting| format!("-c {setting}"));
    let told: Vec<_> = told.collect();
    let mut start = program("pg_ctl");
    start
        .args(["start", "-w", "-s", "-D"])
        .arg(dir.join("data"))
        .arg("-l")
        .arg(dir.join("data/log"));
    start.arg("-o").arg(told.join(" ")).stdout(Stdio::null()).stderr(Stdio::null());
    // It outlives whoever started it.
    start.process_group(0);
    assert!(start.status().unwrap().success(), "{:?}", fs::read_to_string(dir.join("data/log")));
}

/// A server of a test's own, which goes with it.
#[derive(Debug)]
pub(crate) struct Private {
    pub(crate) dir: tempfile::TempDir,
}

impl Private {
    pub(crate) fn start(settings: &[&str]) -> Self {
        let dir = tempfile::Builder::new().prefix("holdpoint-pg").tempdir_in(place()).unwrap();
        start(dir.path(), settings);
        Self { dir }
    }

    pub(crate) fn address(&self, database: &str) -> String {
        address_in(self.dir.path(), database)
    }

    /// A server, and a standby of it that has everything before the server answers. The standby begins as a copy: not
    /// every PostgreSQL brings a program that makes one.
    pub(crate) fn with_standby() -> (Self, Self) {
        let primary = Self::start(&["wal_level=replica"]);
        primary.stop();
        let dir = tempfile::Builder::new().prefix("holdpoint-pg").tempdir_in(place()).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let standby = Self { dir };
        primary.copy_to(standby.dir.path());
        fs::write(standby.dir.path().join("data/standby.signal"), "").unwrap();
        let source = primary.dir.path().display();
        let told = format!(
            "primary_conninfo = 'host={source} port={PORT} user=holdpoint application_name=standby'\n"
        );
        let settings = standby.dir.path().join("data/postgresql.auto.conf");
        let mut file = OpenOptions::new().append(true).open(settings).unwrap();
        std::io::Write::write_all(&mut file, told.as_bytes()).unwrap();
        launch(primary.dir.path(), REPLICATED);
        launch(standby.dir.path(), &["wal_level=replica", "max_wal_senders=4"]);
        (primary, standby)
    }

    /// Another that was made of a copy of it, without a word that it is a standby: from then on both take writes, with one
    /// history.
    pub(crate) fn twin(&self) -> Self {
        self.twin_with(&[])
    }

    /// The same, with these settings.
    pub(crate) fn twin_with(&self, settings: &[&str]) -> Self {
        let dir = tempfile::Builder::new().prefix("holdpoint-pg").tempdir_in(place()).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        self.stop();
        self.copy_to(dir.path());
        launch(self.dir.path(), settings);
        launch(dir.path(), settings);
        Self { dir }
    }

    /// Copies everything that is stored, while nobody serves from it.
    pub(crate) fn copy_to(&self, dir: &Path) {
        let mut copy = Command::new("cp");
        ran(copy.arg("-a").arg(self.dir.path().join("data")).arg(dir.join("data")));
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join(format!(".s.PGSQL.{PORT}"))
    }

    /// To look at what is stored, and into it.
    pub(crate) async fn client(&self) -> Client {
        client(self.dir.path(), "postgres").await
    }

    /// As after the power has gone.
    pub(crate) fn restart(&self, settings: &[&str]) {
        self.stop();
        launch(self.dir.path(), settings);
    }

    /// Becomes a standby of nobody.
    pub(crate) fn stand_by(&self) {
        self.stop();
        fs::write(self.dir.path().join("data/standby.signal"), "").unwrap();
        launch(self.dir.path(), &["wal_level=replica"]);
    }

    /// Is promoted by itself: it takes writes on a later timeline, whatever others do meanwhile.
    pub(crate) fn promote(&self) {
        self.stand_by();
        ran(program("pg_ctl")
            .args(["promote", "-w", "-s", "-D"])
            .arg(self.dir.path().join("data")));
    }

    pub(crate) fn stop(&self) {
        ran(program("pg_ctl")
            .args(["stop", "-s", "-m", "immediate", "-D"])
            .arg(self.dir.path().join("data")));
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let mut stop = program("pg_ctl");
        stop.args(["stop", "-s", "-m", "immediate", "-D"]).arg(self.dir.path().join("data"));
        drop(stop.stdout(Stdio::null()).stderr(Stdio::null()).status());
    }
}

fn address_in(dir: &Path, database: &str) -> String {
    let dir = dir.display().to_string().replace('/', "%2F");
    format!("postgres://holdpoint@{dir}:{PORT}/{database}")
}

async fn client(dir: &Path, database: &str) -> Client {
    let (client, connection) =
        tokio_postgres::connect(&address_in(dir, database), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A database of a test's own, in the server that all share; it goes with the test.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) name: String,
}

impl Database {
    /// With our tables in it.
    pub(crate) async fn made() -> Self {
        Self::copy_of(MADE).await
    }

    /// The same, for whoever cannot wait as others do.
    pub(crate) fn made_at_once() -> Self {
        let making = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(Self::made())
        });
        making.join().unwrap()
    }

    /// With nothing in it.
    pub(crate) async fn empty() -> Self {
        Self::copy_of("template0").await
    }

    async fn copy_of(template: &str) -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let server = tokio::task::spawn_blocking(server).await.unwrap();
        let number = LAST.fetch_add(1, Ordering::SeqCst);
        let name = format!("t_{}_{number}", std::process::id());
        let made = format!("create database {name} template {template}");
        client(&server.dir, "postgres").await.batch_execute(&made).await.unwrap();
        Self { name }
    }

    pub(crate) fn address(&self) -> String {
        address_in(&server().dir, &self.name)
    }

    /// To look at what is stored, and into it.
    pub(crate) async fn client(&self) -> Client {
        client(&server().dir, &self.name).await
    }

    /// Opened, as by one more process.
    pub(crate) async fn open(&self) -> Store {
        let config = PostgresConfig::new(&self.address()).unwrap();
        holdpoint::store::open_postgres(&config).await.unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let gone = format!("drop database {} with (force)", self.name);
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let client = client(&server().dir, "postgres").await;
                drop(client.batch_execute(&gone).await);
            });
        });
        drop(dropping.join());
    }
}
