//! Connections: how the database is reached. Each new connection is looked at before it is used: what is behind an
//! address today need not be what was behind it yesterday. Nothing is kept in a session, and no statement has a name,
//! so that a pooler between us and the database may give every transaction to another one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, Notification, Row};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::ports::Fault;
use crate::store::postgres::config::PostgresConfig;
use crate::store::postgres::error::PostgresError;
use crate::store::postgres::faults::{fault, is_unknown, not_let_in};
use crate::store::postgres::hosts::{Histories, History};
use crate::store::postgres::slots::{Purpose, Slot, Slots};
use crate::store::postgres::steps::Steps;
pub(super) use crate::store::postgres::steps::{PATIENCE, Param};
use crate::store::postgres::tls::Tls;

/// Connections that are lent at once, for all but appends.
const AT_ONCE: usize = 8;
/// How long one that was given up counts while it is not answered: its place is taken for as long, and then another's.
const FORSAKEN: Duration = Duration::from_mins(2);
/// How often what only reads is asked again, of another connection.
const TRIES: usize = 3;

/// Who is told what the database notifies of.
pub(super) type Heard = Arc<dyn Fn(&Notification) + Send + Sync>;

/// A connection.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) client: Client,
    pub(super) history: Option<History>,
    /// The server has said of something it committed that it may be lost.
    is_doubtful: Arc<AtomicBool>,
    /// Says so when nobody has it any more.
    _had: DropGuard,
}

impl Line {
    /// Whether the server has doubted, since this was last asked, what it committed.
    pub(super) fn took_doubt(&self) -> bool {
        self.is_doubtful.swap(false, Ordering::AcqRel)
    }
}

/// Of each host, what it told of its history and until when the last lived there.
type LivesAt = BTreeMap<usize, (Option<History>, Option<i64>)>;

/// Where the database is, and those connections to it that nobody uses.
#[derive(Debug)]
pub(super) struct Connections {
    pub(super) config: PostgresConfig,
    idle: Mutex<Vec<Line>>,
    permits: Semaphore,
    /// How many there are at most, whatever became of them.
    pub(super) slots: Slots,
    pub(super) histories: Arc<Histories>,
    /// Why the last attempt to reach it failed, if it did.
    away: Mutex<Option<String>>,
    /// Whether any came through.
    was_reached: AtomicBool,
    /// What is wrong with what it leads to, if anything was when that was last looked at.
    pub(super) unfit: Mutex<Option<String>>,
    /// Which hosts take writes with nothing to say which of them is meant, if any did when all were last heard.
    pub(super) doubled: Mutex<Option<String>>,
    /// Until when the last lived, by host, at those that were over before the one that is used began, and take writes.
    pub(super) lives_at: Mutex<LivesAt>,
    /// Earlier ones that answered late, and have nothing that the one that is used lacks.
    pub(super) compared: Mutex<BTreeSet<History>>,
    /// Held by the look that waits for those that are slow to answer: there is one.
    pub(super) looking: Arc<Semaphore>,
    /// What it says of having no room for what is written, if it said so last.
    full: Mutex<Option<String>>,
    /// What no sign of life came through for, if the last one did not and that is known.
    stuck: Mutex<Option<String>>,
    closed: CancellationToken,
}

/// A connection that goes back when it is not needed any more.
#[derive(Debug)]
pub(super) struct Lent<'a> {
    line: Option<Line>,
    /// Whether somebody left, or gave up, before something was answered: the answer may come to another question.
    is_torn: AtomicBool,
    from: &'a Connections,
    _permit: SemaphorePermit<'a>,
}

impl Connections {
    pub(super) fn new(config: PostgresConfig) -> Self {
        Self {
            slots: config.slots(),
            histories: config.histories(),
            config,
            idle: Mutex::default(),
            permits: Semaphore::new(AT_ONCE),
            away: Mutex::default(),
            was_reached: AtomicBool::new(false),
            unfit: Mutex::default(),
            doubled: Mutex::default(),
            lives_at: Mutex::default(),
            compared: Mutex::default(),
            looking: Arc::new(Semaphore::new(1)),
            full: Mutex::default(),
            stuck: Mutex::default(),
            closed: CancellationToken::new(),
        }
    }

    /// Why the database cannot be reached, or not be trusted with anything, if that was so last time.
    pub(super) fn away(&self) -> Option<String> {
        let away = self.away.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // What is known to hold everything up is told before what it leads to.
        self.stuck().or(away).or_else(|| self.unfit()).or_else(|| self.full())
    }

    /// What the last sign of life did not come through for, where it did not and that is known.
    pub(super) fn stuck(&self) -> Option<String> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What a sign of life did not come through for, or that one did.
    pub(super) fn beaten(&self, stuck: Option<String>) {
        *self.stuck.lock().unwrap_or_else(PoisonError::into_inner) = stuck;
    }

    /// What the database says of having no room, if it said so last.
    pub(super) fn full(&self) -> Option<String> {
        self.full.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it had room for what was written, as somebody has just found out.
    pub(super) fn had_room(&self, why_not: Option<String>) {
        let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*full, &why_not) {
            (None, Some(why)) => {
                tracing::error!(why, "the database has no room for what is written");
            }
            (Some(_), None) => tracing::info!("the database has room again"),
            (Some(_), Some(_)) | (None, None) => {}
        }
        *full = why_not;
    }

    /// Whether a connection is still one to what others use, too.
    pub(super) fn is_good(&self, line: &Line) -> bool {
        !line.client.is_closed() && !self.histories.is_past(line.history)
    }

    /// What is wrong with the database, if anything was when it was last looked at.
    pub(super) fn unfit(&self) -> Option<String> {
        let unfit = || self.unfit.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.doubled().or_else(unfit)
    }

    /// Whether something was wrong with what it leads to when that was last looked at.
    pub(super) fn is_distrusted(&self) -> bool {
        self.unfit.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// What was wrong with it has passed, or is something else: where it could not be used for that, that is told no more.
    pub(super) fn renew(&self, before: Option<&str>, now: Option<&String>) {
        let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        let is_for_that = |away: &String| before.is_some_and(|before| away.contains(before));
        if away.as_ref().is_some_and(is_for_that) {
            *away = now.cloned();
        }
    }

    /// Whether any connection came through.
    pub(super) fn was_reached(&self) -> bool {
        self.was_reached.load(Ordering::Relaxed)
    }

    /// Whether it was reached, as somebody has just found out. That it went is told here, before all that fails for it; of
    /// one that was never reached whoever waits for it tells. While there are two of it, it is neither there nor away: one
    /// question is asked over what is open, and another of both.
    pub(super) fn found(&self, why_not: Option<String>) {
        if self.doubled().is_some() {
            *self.away.lock().unwrap_or_else(PoisonError::into_inner) = None;
            return;
        }
        let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        let was_reached = match &why_not {
            Some(_) => self.was_reached(),
            None => self.was_reached.swap(true, Ordering::Relaxed),
        };
        match (&*away, &why_not) {
            (None, Some(why)) if was_reached => {
                tracing::error!(why, "the database is away, or cannot be used; it is waited for");
            }
            (Some(_), None) if was_reached => tracing::info!("the database is there again"),
            (None | Some(_), Some(_) | None) => {}
        }
        *away = why_not;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Returns once nobody is given one any more.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// From now on nobody is given one.
    pub(super) fn close(&self) {
        self.closed.cancel();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Opens a connection, and looks at what it leads to.
    pub(super) async fn connect(&self, heard: Option<Heard>) -> Result<Line, PostgresError> {
        let opened = self.open(heard, Purpose::Work).await;
        match &opened {
            Err(error) if error.is_doubled() => self.tell_doubled(Some(error.to_string())),
            Ok(_) | Err(_) => self.found(opened.as_ref().err().map(ToString::to_string)),
        }
        // Whoever writes over what is open writes into the same tables.
        if let Err(error) = &opened
            && error.is_of_tables()
            && self.was_reached()
        {
            self.judged(Some(error.to_string()));
        }
        opened
    }

    /// The same, and says nothing of it to whoever asks whether the database is away.
    pub(super) async fn open(
        &self,
        heard: Option<Heard>,
        purpose: Purpose,
    ) -> Result<Line, PostgresError> {
        let mut answers = self.ask_all(heard.as_ref(), Some(purpose), self.patience());
        answers.wait(&self.histories).await;
        let at = self.choose(&mut answers).await?;
        Ok(answers.into_line(at))
    }

    /// The same, of a database that may not have our tables yet.
    pub(super) async fn reach(&self) -> Result<Line, PostgresError> {
        let mut answers = self.ask_all(None, None, self.patience());
        answers.wait(&self.histories).await;
        let earlier = answers.earlier();
        self.refuse_parted(earlier).await?;
        let at = answers.choose(&self.histories)?;
        Ok(answers.into_line(at))
    }

    /// A connection, new or old.
    pub(super) async fn lend(&self) -> Result<Lent<'_>, Fault> {
        let closed = || Fault::Retriable("the store is closed".into());
        let permit = self.permits.acquire().await.map_err(|_| closed())?;
        if self.is_closed() {
            return Err(closed());
        }
        let line = loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                Some(line) if !self.is_good(&line) => {}
                Some(line) => break line,
                None => break self.connect(None).await.map_err(|error| away(&error))?,
            }
        };
        let is_torn = AtomicBool::new(false);
        Ok(Lent { line: Some(line), is_torn, from: self, _permit: permit })
    }

    fn give_back(&self, line: Line) {
        if self.is_good(&line) && !self.is_closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }

    /// Asks something that changes nothing, or changes the same once more; of another connection where one is lost.
    pub(super) async fn ask(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Fault> {
        let mut tries = 1;
        loop {
            let mut lent = self.lend().await?;
            match lent.query(sql, params).await {
                Ok(rows) => return Ok(rows),
                Err(Lost::Error(error)) if is_unknown(&error) && tries < TRIES => tries += 1,
                Err(lost) => return Err(self.told_of_tables(&mut lent, lost).await),
            }
        }
    }

    /// The same where one row is wanted, if it is there.
    pub(super) async fn ask_one(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, Fault> {
        Ok(self.ask(sql, params).await?.pop())
    }

    /// Does something once; how many rows it changed.
    pub(super) async fn tell(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Fault> {
        let mut lent = self.lend().await?;
        match lent.execute(sql, params).await {
            Ok(changed) => Ok(changed),
            Err(lost) => Err(self.told_of_tables(&mut lent, lost).await),
        }
    }
}

/// Why a question has no answer.
#[derive(Debug)]
pub(super) enum Lost {
    /// The database, or the way there, says so.
    Error(tokio_postgres::Error),
    /// It took too long.
    Late,
}

impl From<Lost> for Fault {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Error(error) => fault(&error),
            Lost::Late => Self::Retriable("the database takes too long to answer".into()),
        }
    }
}

impl Lent<'_> {
    /// Asks, for as long as there is patience; a connection that is late is given up, for its answer may come when
    /// nobody waits for it.
    pub(super) async fn query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Lost> {
        let line = self.line.take().ok_or(Lost::Late)?;
        let asked = tokio::time::timeout(PATIENCE, line.client.query_typed(sql, params)).await;
        let answer = asked.map_err(|_| Lost::Late)?;
        self.answered(line)?;
        answer.map_err(Lost::Error)
    }

    /// The same where it is only counted what was changed.
    pub(super) async fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, Lost> {
        let line = self.line.take().ok_or(Lost::Late)?;
        let asked = tokio::time::timeout(PATIENCE, line.client.execute_typed(sql, params)).await;
        let answer = asked.map_err(|_| Lost::Late)?;
        self.answered(line)?;
        answer.map_err(Lost::Error)
    }

    /// What is answered by a server whose place another has taken meanwhile is not believed.
    fn answered(&mut self, line: Line) -> Result<(), Lost> {
        if self.from.histories.is_past(line.history) {
            return Err(Lost::Late);
        }
        self.line = Some(line);
        Ok(())
    }

    /// Lets the connection go: nobody is to use it any more.
    pub(super) fn give_up(&mut self) {
        self.line = None;
    }

    /// Begins a transaction of several steps.
    pub(super) async fn begin(&mut self) -> Result<Steps<'_>, Fault> {
        let Self { line, is_torn, .. } = self;
        let client = line.as_mut().map(|line| &mut line.client).ok_or(Lost::Late)?;
        Steps::begin(client, is_torn).await
    }

    /// The connection itself.
    pub(super) fn client(&mut self) -> Result<&mut Client, Fault> {
        let line = self.line.as_mut();
        line.map(|line| &mut line.client).ok_or_else(|| Lost::Late.into())
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(line) = self.line.take()
            && !self.is_torn.load(Ordering::Relaxed)
        {
            self.from.give_back(line);
        }
    }
}

/// Connects to a host, which may be anything. Its place is taken until it has ended, which one that was given up does when
/// the database has answered.
pub(super) async fn reach(
    config: &PostgresConfig,
    heard: Option<Heard>,
    slot: Option<Slot>,
) -> Result<Line, PostgresError> {
    let tls = Tls::new(config.roots.as_deref())
        .map_err(|why| PostgresError::Untrusted { place: config.place(), why })?;
    let connecting = tokio::time::timeout(PATIENCE, config.server.connect(tls));
    let connected =
        connecting.await.unwrap_or_else(|_| Err(tokio_postgres::Error::__private_api_timeout()));
    let (client, mut connection) = connected.map_err(|error| not_let_in(config, &error))?;
    let is_doubtful = Arc::new(AtomicBool::new(false));
    let doubts = Arc::clone(&is_doubtful);
    let had = CancellationToken::new();
    let given_up = had.clone();
    let spoken = async move {
        let mut messages = futures::stream::poll_fn(|cx| connection.poll_message(cx));
        while let Some(Ok(message)) = messages.next().await {
            match message {
                AsyncMessage::Notice(notice) => {
                    let doubt = [SqlState::WARNING, SqlState::ADMIN_SHUTDOWN];
                    if doubt.contains(notice.code()) {
                        doubts.store(true, Ordering::Release);
                    }
                }
                AsyncMessage::Notification(told) => {
                    if let Some(heard) = &heard {
                        heard(&told);
                    }
                }
                _ => {}
            }
        }
    };
    tokio::spawn(async move {
        // Through something in between that keeps it open, one that leads nowhere would keep its place for ever.
        let forsaken = async {
            given_up.cancelled().await;
            tokio::time::timeout(FORSAKEN, std::future::pending::<()>()).await.unwrap_or_default();
        };
        tokio::select! {
            biased;
            () = spoken => {}
            () = forsaken => {}
        }
        drop(slot);
    });
    Ok(Line { client, history: None, is_doubtful, _had: had.drop_guard() })
}

/// What a store that does not open is to whoever uses it.
pub(super) fn away(error: &PostgresError) -> Fault {
    // A schema that changed under us is a person's to mend; everything else passes, or is told at the next start.
    if matches!(error, PostgresError::Newer { .. } | PostgresError::Altered { .. }) {
        return Fault::Permanent(error.to_string());
    }
    Fault::Retriable(error.to_string())
}
