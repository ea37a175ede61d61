//! Looks: what a host is asked before it is used, and what is looked at again while it is. A look at several hosts has two
//! parts: those that answer at once say what is used, and nobody is held up by the others; who is behind a slow line is
//! heard beside that, so that another that takes writes there is found.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;

use crate::ports::Fault;
use crate::store::postgres::config::PostgresConfig;
use crate::store::postgres::connections::{
    Connections, Heard, Lent, Line, Lost, PATIENCE, away, reach,
};
use crate::store::postgres::error::PostgresError;
use crate::store::postgres::faults::is_unmade;
use crate::store::postgres::hosts::{Answers, Found, SILENT};
use crate::store::postgres::schema;
use crate::store::postgres::slots::{Purpose, Slots};

/// A host that is asked.
type Asking = BoxFuture<'static, Result<Found<Line>, PostgresError>>;

/// What all hosts have answered.
pub(super) type Lines = Answers<Line, Asking>;

/// How long one that is waited for may take: to let us in, and as long again to say what it is.
const SLOW: Duration = SILENT.saturating_mul(2);

/// A host, and what it is asked with.
struct Host {
    at: usize,
    alone: PostgresConfig,
    /// All of the address.
    whole: PostgresConfig,
    slots: Slots,
}

impl Host {
    /// Asks whether it is fit to be used; without a purpose, whatever is there.
    async fn ask(
        self,
        heard: Option<Heard>,
        purpose: Option<Purpose>,
        patience: Duration,
    ) -> Result<Found<Line>, PostgresError> {
        let place = self.alone.place();
        let crowded = || PostgresError::Unanswered { place: place.clone() };
        let asked = async {
            let slot = match purpose {
                Some(purpose) => Some(self.slots.take(self.at, purpose).await.ok_or_else(crowded)?),
                None => None,
            };
            let mut line = reach(&self.alone, heard, slot).await?;
            if purpose.is_some() {
                schema::check(&self.whole, &line.client).await?;
            }
            line.history = schema::history(&line.client).await;
            Ok(Found { history: line.history, line, host: self.at, place: place.clone() })
        };
        let late = || PostgresError::Away {
            place: place.clone(),
            why: "it takes too long to answer".into(),
        };
        tokio::time::timeout(patience, asked).await.unwrap_or_else(|_| Err(late()))
    }
}

impl Connections {
    fn has_several(&self) -> bool {
        self.config.server.get_hosts().len() > 1
    }

    /// How long a host may take that is asked in order to be used: the first time, for as long as it says something.
    pub(super) fn patience(&self) -> Duration {
        if self.has_several() && !self.histories.is_used() { SLOW } else { PATIENCE }
    }

    /// Asks all hosts at once.
    pub(super) fn ask_all(
        &self,
        heard: Option<&Heard>,
        purpose: Option<Purpose>,
        patience: Duration,
    ) -> Lines {
        let hosts = self.config.hosts().into_iter().enumerate();
        Answers::of(hosts.map(|(at, alone)| -> Asking {
            let (whole, slots) = (self.config.clone(), self.slots.clone());
            let host = Host { at, alone, whole, slots };
            Box::pin(host.ask(heard.cloned(), purpose, patience))
        }))
    }

    /// Uses one of those that have answered; where two take writes with one history, or the one that was promoted last does not
    /// come from the other, both are held.
    pub(super) async fn choose(&self, answers: &mut Lines) -> Result<usize, PostgresError> {
        // Before anything counts as used.
        let earlier = answers.earlier();
        self.refuse_parted(earlier).await?;
        let chosen = answers.choose(&self.histories);
        match &chosen {
            Err(PostgresError::Twins { .. }) => self.hold_twins(&answers.twins()).await,
            // Whoever writes without looking now and then finds out here that there is one again.
            Ok(_) if answers.are_all() && answers.earlier().is_none() => self.tell_doubled(None),
            Ok(_) | Err(_) => {}
        }
        chosen
    }

    /// Looks at what every new connection is looked at for: settings are changed, rights taken away and tables altered
    /// while somebody is connected, too. Where there are several hosts, all are asked who of them takes writes now.
    pub(super) async fn look(self: &Arc<Self>) -> Result<(), Fault> {
        if self.has_several() {
            return self.look_at_all().await;
        }
        let mut lent = self.lend().await?;
        let checked = tokio::time::timeout(PATIENCE, schema::check(&self.config, lent.client()?));
        let error = match checked.await {
            Ok(Ok(())) => None,
            Ok(Err(error)) if error.is_away() => {
                return Err(Fault::Retriable(error.to_string()));
            }
            Ok(Err(error)) => {
                if matches!(error, PostgresError::Standby { .. }) {
                    // Another one takes writes now: whoever connects anew is led there.
                    lent.give_up();
                }
                Some(error.to_string())
            }
            Err(_) => {
                // Its answer may come when nobody waits for it.
                lent.give_up();
                return Err(Lost::Late.into());
            }
        };
        self.judged(error);
        Ok(())
    }

    async fn look_at_all(self: &Arc<Self>) -> Result<(), Fault> {
        let mut answers = self.ask_all(None, Some(Purpose::Work), SLOW);
        let waited = tokio::time::timeout(PATIENCE, answers.wait(&self.histories)).await;
        let looked = match waited {
            Ok(()) => self.choose(&mut answers).await,
            Err(_) => Err(PostgresError::Away {
                place: self.config.place(),
                why: "it takes too long to answer".into(),
            }),
        };
        // They were opened to look, and are more than those that are lent: kept, they would grow with every look.
        self.hear_the_rest(answers);
        match looked {
            Ok(_) => self.judged(None),
            // What is open goes on: nothing more is decided over it, or it would be decided elsewhere as well.
            Err(error) if error.is_doubled() => {}
            Err(error) if error.may_pass() => return Err(away(&error)),
            Err(error) => self.judged(Some(error.to_string())),
        }
        Ok(())
    }

    /// Hears those that are slow, beside everything else, and says then whether there are two that take writes, or somebody
    /// lives at one whose place another has taken. What was last said of that holds until all are heard: of those that answer
    /// at once only one may be left.
    fn hear_the_rest(self: &Arc<Self>, mut answers: Lines) {
        let doubt = answers.doubt().map(|error| error.to_string());
        if doubt.is_some() || (answers.are_all() && answers.earlier().is_none()) {
            self.tell_doubled(doubt);
            return;
        }
        let Ok(permit) = Arc::clone(&self.looking).try_acquire_owned() else { return };
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let _looking = permit;
            tokio::select! {
                () = answers.wait_for_all() => {}
                () = this.closed() => return,
            }
            let mut doubt = answers.doubt();
            if doubt.is_some() {
                this.hold_twins(&answers.twins()).await;
            } else {
                let earlier = answers.earlier();
                doubt = this.find_living(earlier).await;
            }
            this.tell_doubled(doubt.map(|error| error.to_string()));
        });
    }

    /// Which hosts take writes with nothing to say which of them is meant, if any did when all were last heard.
    pub(super) fn doubled(&self) -> Option<String> {
        self.doubled.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same, as somebody has just found out; it is told when it changes. Of what was never reached whoever waits for it
    /// tells.
    pub(super) fn tell_doubled(&self, doubt: Option<String>) {
        let before = {
            let mut doubled = self.doubled.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *doubled, doubt.clone())
        };
        match (before, doubt) {
            (None, Some(why)) if self.was_reached() => {
                tracing::error!(why, "there are two databases; nothing is decided meanwhile");
            }
            (Some(_), None) if self.was_reached() => tracing::info!("there is one database again"),
            (None | Some(_), Some(_) | None) => {}
        }
    }

    /// What a no of the database comes to. Where something of ours is not there, what was done to the tables is told, with what
    /// undoes it, and not which statement came upon it.
    pub(super) async fn told_of_tables(&self, lent: &mut Lent<'_>, lost: Lost) -> Fault {
        let (Lost::Error(error), Ok(client)) = (&lost, lent.client()) else { return lost.into() };
        if !is_unmade(error) {
            return lost.into();
        }
        let checked = tokio::time::timeout(PATIENCE, schema::check(&self.config, client)).await;
        match checked {
            Ok(Err(error)) if error.is_of_tables() => {
                self.judged(Some(error.to_string()));
                // As whoever is about to write is told.
                Fault::Retriable(error.to_string())
            }
            Ok(_) => lost.into(),
            Err(_) => {
                // Its answer may come when nobody waits for it.
                lent.give_up();
                lost.into()
            }
        }
    }

    /// What is wrong with the database, as somebody has just looked.
    pub(super) fn judged(&self, error: Option<String>) {
        let before = {
            let mut unfit = self.unfit.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *unfit, error.clone())
        };
        self.renew(before.as_deref(), error.as_ref());
        match (before, error) {
            (None, Some(error)) => {
                tracing::error!(%error, "the database is not to be trusted with anything any more");
            }
            (Some(before), Some(error)) if before != error => {
                tracing::error!(%error, "the database is still not to be trusted, for another reason");
            }
            (Some(_), None) => tracing::info!("the database is as it should be again"),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }
}
