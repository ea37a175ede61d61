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
pub(super) type Heard = Box<dyn Fn(&Notification) + Send>;

/// A connection.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) client: Client,
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
    /// Why the last attempt to reach it failed, if it did.
    away: Mutex<Option<String>>,
    /// What is wrong with what it leads to, if anything was when that was last looked at.
    unfit: Mutex<Option<String>>,
    closed: CancellationToken,
}

/// A connection that goes back when it is not needed any more.
#[derive(Debug)]
pub(super) struct Lent<'a> {
    line: Option<Line>,
    from: &'a Connections,
    _permit: SemaphorePermit<'a>,
}

impl Connections {
    pub(super) fn new(config: PostgresConfig) -> Self {
        Self {
            config,
            idle: Mutex::default(),
            permits: Semaphore::new(AT_ONCE),
            away: Mutex::default(),
            unfit: Mutex::default(),
            closed: CancellationToken::new(),
        }
    }

    /// Why the database cannot be reached, or not be trusted with anything, if that was so last time.
    pub(super) fn away(&self) -> Option<String> {
        let away = self.away.lock().unwrap_or_else(PoisonError::into_inner).clone();
        away.or_else(|| self.unfit())
    }

    /// What is wrong with the database, if anything was when it was last looked at.
    pub(super) fn unfit(&self) -> Option<String> {
        self.unfit.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it was reached, as somebody has just found out.
    pub(super) fn found(&self, away: Option<String>) {
        *self.away.lock().unwrap_or_else(PoisonError::into_inner) = away;
    }

    /// Looks, over a connection that is open already, at what every new one is looked at for: settings are changed,
    /// rights taken away and tables altered while somebody is connected, too.
    pub(super) async fn look(&self) -> Result<(), Fault> {
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
        Ok(())
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
        let opened = match self.reach(heard).await {
            Ok(line) => {
                let checked = schema::check(&self.config, &line.client);
                let late = || PostgresError::Away {
                    place: self.config.place(),
                    why: "it takes too long to answer".into(),
                };
                let checked = tokio::time::timeout(PATIENCE, checked).await;
                checked.unwrap_or_else(|_| Err(late())).map(|()| line)
            }
            Err(error) => Err(error),
        };
        self.found(opened.as_ref().err().map(ToString::to_string));
        opened
    }

    /// The same, of a database that may not have our tables yet.
    pub(super) async fn reach(&self, heard: Option<Heard>) -> Result<Line, PostgresError> {
        let place = self.config.place();
        let tls = Tls::new(self.config.roots.as_deref())
            .map_err(|why| PostgresError::Untrusted { place: place.clone(), why })?;
        let connecting = tokio::time::timeout(PATIENCE, self.config.server.connect(tls));
        let connected = connecting
            .await
            .unwrap_or_else(|_| Err(tokio_postgres::Error::__private_api_timeout()));
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
        Ok(Line { client, is_doubtful })
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
                Some(line) if line.client.is_closed() => {}
                Some(line) => break line,
                None => break self.connect(None).await.map_err(|error| away(&error))?,
            }
        };
        Ok(Lent { line: Some(line), from: self, _permit: permit })
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
        self.line = Some(line);
        answer.map_err(Lost::Error)
    }

    /// The same where it is only counted what was changed.
    pub(super) async fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, Lost> {
        let line = self.line.take().ok_or(Lost::Late)?;
        let asked = tokio::time::timeout(PATIENCE, line.client.execute_typed(sql, params)).await;
        let answer = asked.map_err(|_| Lost::Late)?;
        self.line = Some(line);
        answer.map_err(Lost::Error)
    }

    /// Begins a transaction of several steps. Whoever is stopped in the middle of it, and wakes much later or never,
    /// holds nobody up: the server ends it.
    pub(super) async fn begin(&mut self) -> Result<Transaction<'_>, Fault> {
        let begun = self.client()?.transaction().await;
        let begun = begun.map_err(|error| fault(&error))?;
        let bounds =
            "set local idle_in_transaction_session_timeout = '5s'; set local lock_timeout = '5s'";
        begun.batch_execute(bounds).await.map_err(|error| fault(&error))?;
        Ok(begun)
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
            && !line.client.is_closed()
            && !self.from.is_closed()
        {
            self.from.idle.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }
}

/// What a store that does not open is to whoever uses it.
pub(super) fn away(error: &PostgresError) -> Fault {
    // A schema that changed under us is a person's to mend; everything else passes, or is told at the next start.
    if matches!(error, PostgresError::Newer { .. } | PostgresError::Altered { .. }) {
        return Fault::Permanent(error.to_string());
    }
    Fault::Retriable(error.to_string())
}
