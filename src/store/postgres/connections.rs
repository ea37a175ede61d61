//! Connections: how the database is reached. Each new connection is looked at before it is used: what is behind an
//! address today need not be what was behind it yesterday. Nothing is kept in a session, and no statement has a name,
//! so that a pooler between us and the database may give every transaction to another one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Notification, Row, Transaction};
use tokio_util::sync::CancellationToken;

use crate::ports::Fault;
use crate::store::postgres::config::{PostgresConfig, PostgresError};
use crate::store::postgres::faults::{fault, is_unknown, refused};
use crate::store::postgres::hosts::{self, Found, Histories, History};
use crate::store::postgres::schema;
use crate::store::postgres::tls::Tls;

/// Connections that are open at once, for all but appends.
const AT_ONCE: usize = 8;
/// How long a question may take before the connection is given up. No statement of the server's own ends a commit
/// that waits for a standby.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How often what only reads is asked again, of another connection.
const TRIES: usize = 3;

/// A value that goes with a statement.
pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// Who is told what the database notifies of.
pub(super) type Heard = Arc<dyn Fn(&Notification) + Send + Sync>;

/// A connection.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) client: Client,
    history: Option<History>,
    /// The server has said of something it committed that it may be lost.
    is_doubtful: Arc<AtomicBool>,
}

impl Line {
    /// Whether the server has doubted, since this was last asked, what it committed.
    pub(super) fn took_doubt(&self) -> bool {
        self.is_doubtful.swap(false, Ordering::AcqRel)
    }
}

/// Where the database is, and those connections to it that nobody uses.
#[derive(Debug)]
pub(super) struct Connections {
    pub(super) config: PostgresConfig,
    idle: Mutex<Vec<Line>>,
    permits: Semaphore,
    histories: Histories,
    /// Why the last attempt to reach it failed, if it did.
    away: Mutex<Option<String>>,
    /// What is wrong with what it leads to, if anything was when that was last looked at.
    unfit: Mutex<Option<String>>,
    /// What it says of having no room for what is written, if it said so last.
    full: Mutex<Option<String>>,
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
            config,
            idle: Mutex::default(),
            permits: Semaphore::new(AT_ONCE),
            histories: Histories::default(),
            away: Mutex::default(),
            unfit: Mutex::default(),
            full: Mutex::default(),
            closed: CancellationToken::new(),
        }
    }

    /// Why the database cannot be reached, or not be trusted with anything, if that was so last time.
    pub(super) fn away(&self) -> Option<String> {
        let away = self.away.lock().unwrap_or_else(PoisonError::into_inner).clone();
        away.or_else(|| self.unfit()).or_else(|| self.full())
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
        self.unfit.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it was reached, as somebody has just found out.
    pub(super) fn found(&self, away: Option<String>) {
        *self.away.lock().unwrap_or_else(PoisonError::into_inner) = away;
    }

    /// Looks at what every new connection is looked at for: settings are changed, rights taken away and tables altered
    /// while somebody is connected, too. Where there are several hosts, all are asked who of them takes writes now.
    pub(super) async fn look(&self) -> Result<(), Fault> {
        if self.config.server.get_hosts().len() > 1 {
            let looked = self.open(None).await;
            let error = match looked {
                // It was opened to look, and is one more than those that are lent: kept, they would grow with every look.
                Ok(_) => None,
                Err(error) if error.may_pass() => return Err(away(&error)),
                Err(error) => Some(error.to_string()),
            };
            self.judged(error);
            return Ok(());
        }
        let mut lent = self.lend().await?;
        let checked = tokio::time::timeout(PATIENCE, schema::check(&self.config, lent.client()?));
        let error = match checked.await {
            Ok(Ok(())) => None,
            Ok(Err(error @ PostgresError::Away { .. })) => {
                return Err(Fault::Retriable(error.to_string()));
            }
            Ok(Err(error)) => {
                if matches!(error, PostgresError::Standby { .. }) {
                    // Another one takes writes now: whoever connects anew is led there.
                    lent.line = None;
                }
                Some(error.to_string())
            }
            Err(_) => {
                // Its answer may come when nobody waits for it.
                lent.line = None;
                return Err(Lost::Late.into());
            }
        };
        self.judged(error);
        Ok(())
    }

    /// What is wrong with the database, as somebody has just looked.
    fn judged(&self, error: Option<String>) {
        let before = {
            let mut unfit = self.unfit.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *unfit, error.clone())
        };
        match (before, error) {
            (None, Some(error)) => {
                tracing::error!(%error, "the database is not to be trusted with anything any more");
            }
            (Some(_), None) => tracing::info!("the database is as it should be again"),
            (Some(_), Some(_)) | (None, None) => {}
        }
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
        let opened = self.open(heard).await;
        self.found(opened.as_ref().err().map(ToString::to_string));
        opened
    }

    async fn open(&self, heard: Option<Heard>) -> Result<Line, PostgresError> {
        let hosts = self.config.hosts();
        let asking = hosts.iter().map(|host| self.ask_host(host, heard.clone()));
        Ok(hosts::choose(asking, &self.histories).await?.line)
    }

    /// Asks one host whether it is fit to be used.
    async fn ask_host(
        &self,
        host: &PostgresConfig,
        heard: Option<Heard>,
    ) -> Result<Found<Line>, PostgresError> {
        let asked = async {
            let mut line = reach(host, heard).await?;
            schema::check(&self.config, &line.client).await?;
            line.history = schema::history(&line.client).await;
            Ok(Found { history: line.history, line })
        };
        let late = || PostgresError::Away {
            place: host.place(),
            why: "it takes too long to answer".into(),
        };
        tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| Err(late()))
    }

    /// The same, of a database that may not have our tables yet.
    pub(super) async fn reach(&self, heard: Option<Heard>) -> Result<Line, PostgresError> {
        reach(&self.config, heard).await
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
                Err(lost) => return Err(lost.into()),
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
        Ok(lent.execute(sql, params).await?)
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

    /// Begins a transaction of several steps. Whoever is stopped in the middle of it, and wakes much later or never,
    /// holds nobody up: the server ends it.
    pub(super) async fn begin(&mut self) -> Result<Steps<'_>, Fault> {
        let Self { line, is_torn, .. } = self;
        let client = line.as_mut().map(|line| &mut line.client).ok_or(Lost::Late)?;
        let failed = |error: tokio_postgres::Error| fault(&error);
        let transaction = bounded(is_torn, client.transaction()).await.map_err(failed)?;
        let bounds =
            "set local idle_in_transaction_session_timeout = '5s'; set local lock_timeout = '5s'";
        bounded(is_torn, transaction.batch_execute(bounds)).await.map_err(failed)?;
        Ok(Steps { transaction, is_torn })
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

/// A transaction, each step of which is waited for as long as there is patience: a server that is frozen keeps its
/// connections open and says nothing.
pub(super) struct Steps<'a> {
    transaction: Transaction<'a>,
    is_torn: &'a AtomicBool,
}

impl Steps<'_> {
    pub(super) async fn query_typed(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        bounded(self.is_torn, self.transaction.query_typed(sql, params)).await
    }

    pub(super) async fn query_typed_opt(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, tokio_postgres::Error> {
        bounded(self.is_torn, self.transaction.query_typed_opt(sql, params)).await
    }

    pub(super) async fn query_typed_one(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Row, tokio_postgres::Error> {
        bounded(self.is_torn, self.transaction.query_typed_one(sql, params)).await
    }

    pub(super) async fn execute_typed(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<u64, tokio_postgres::Error> {
        bounded(self.is_torn, self.transaction.execute_typed(sql, params)).await
    }

    pub(super) async fn commit(self) -> Result<(), tokio_postgres::Error> {
        bounded(self.is_torn, self.transaction.commit()).await
    }
}

async fn bounded<T>(
    is_torn: &AtomicBool,
    asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, tokio_postgres::Error> {
    answered_within(PATIENCE, is_torn, asked).await
}

/// An answer, for as long as there is patience. Until it is there the connection is nobody else's.
async fn answered_within<T>(
    patience: Duration,
    is_torn: &AtomicBool,
    asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, tokio_postgres::Error> {
    is_torn.store(true, Ordering::Relaxed);
    let answer = tokio::time::timeout(patience, asked).await;
    let answer = answer.map_err(|_| tokio_postgres::Error::__private_api_timeout())?;
    is_torn.store(false, Ordering::Relaxed);
    answer
}

/// Connects to what may be anything. Of a database of several hosts it is whichever takes writes.
async fn reach(config: &PostgresConfig, heard: Option<Heard>) -> Result<Line, PostgresError> {
    let place = config.place();
    let tls = Tls::new(config.roots.as_deref())
        .map_err(|why| PostgresError::Untrusted { place: place.clone(), why })?;
    let connecting = tokio::time::timeout(PATIENCE, config.server.connect(tls));
    let connected =
        connecting.await.unwrap_or_else(|_| Err(tokio_postgres::Error::__private_api_timeout()));
    let (client, mut connection) = connected.map_err(|error| refused(place.clone(), &error))?;
    let is_doubtful = Arc::new(AtomicBool::new(false));
    let doubts = Arc::clone(&is_doubtful);
    tokio::spawn(async move {
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
    });
    Ok(Line { client, history: None, is_doubtful })
}

/// What a store that does not open is to whoever uses it.
pub(super) fn away(error: &PostgresError) -> Fault {
    // A schema that changed under us is a person's to mend; everything else passes, or is told at the next start.
    if matches!(error, PostgresError::Newer { .. } | PostgresError::Altered { .. }) {
        return Fault::Permanent(error.to_string());
    }
    Fault::Retriable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_step_that_is_never_answered_ends_and_its_connection_is_nobody_elses() {
        let is_torn = AtomicBool::new(false);
        let silent = std::future::pending::<Result<(), tokio_postgres::Error>>();
        let ended = answered_within(Duration::from_millis(1), &is_torn, silent).await;
        assert!(ended.is_err() && is_torn.load(Ordering::Relaxed));
        assert!(bounded(&is_torn, async { Ok(()) }).await.is_ok());
        assert!(!is_torn.load(Ordering::Relaxed));
    }
}
