//! Wiring: configuration → store → engine. What `serve` and the embedded commands share; how much of it
//! moves is said by a `Reach`.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::task::AbortOnDropHandle;

use crate::agents::Registry;
use crate::api::pages::Render;
use crate::app::clock::{SharedClock, SystemClock};
use crate::app::folder::Folder;
use crate::app::keys::Keys;
use crate::app::notifier::Post;
use crate::app::otlp::{self, Traces};
use crate::app::{AppError, Config, brake, keyring, offline, people, policy, private, signer};
use crate::engine::{Engine, EngineError, Library, Reach};
use crate::ports::trace::Tracer;
use crate::ports::{Agents, Clock, Tools, keep_time};
use crate::store::{self, Store};

/// "File size limit exceeded", on Linux and macOS.
const SIGXFSZ: i32 = 25;

/// Everything that runs, without a door.
#[derive(Debug)]
pub(super) struct Wiring {
    pub(super) engine: Engine,
    pub(super) store: Store,
    /// The time that everything goes by.
    pub(super) clock: Arc<dyn Clock>,
    /// The folder of the workflows, for whoever looks on as it changes.
    folder: Option<Folder>,
    /// Where traces are sent, if they are.
    traces: Option<Arc<Traces>>,
}

/// Who is told of what happens, as the settings say.
struct Outward {
    traces: Option<Arc<Traces>>,
    notifier: Arc<Post>,
}

impl Outward {
    fn of(config: &Config, reach: Reach) -> Result<Self, AppError> {
        let traces = otlp::from_environment()?.map(Arc::new);
        Ok(Self { traces, notifier: Arc::new(Post::new(config, reach)?) })
    }
}

impl Wiring {
    /// Opens the data directory, loads the workflows, and sets as much of the engine going as `reach`
    /// says: where one only looks, nothing (E8).
    pub(super) async fn open(config: &Config, reach: Reach) -> Result<Self, AppError> {
        // What is wrong with the settings is told before anything is opened.
        let outward = Outward::of(config, reach)?;
        if reach != Reach::Nothing {
            signer::refuse_wrong(config)?;
            policy::refuse_unreadable(config)?;
        }
        // Whoever looks makes no directory, and changes none: where there is none there is nothing to see.
        let is_named = config.store.is_some();
        let store = if reach == Reach::Nothing && !is_named && !store::is_there(&config.data) {
            store::memory()
        } else {
            if reach != Reach::Nothing {
                // A file of keys that is none may be somebody else's, and the directory with it.
                if !is_named {
                    Keys::for_server(config)?;
                }
                // A database takes any directory beside it; what others keep in one is not ours to shut.
                match store::refuse_foreign(&config.data) {
                    Ok(()) => private::mend(&config.data),
                    Err(error) if !is_named => return Err(error.into()),
                    Err(_) => {}
                }
                heed_file_sizes();
            }
            crate::app::store::open(config, reach).await?
        };
        Self::wired(config, reach, (store, outward), reach == Reach::Everything).await
    }

    /// The same over a store that is open, for a server.
    #[cfg(feature = "postgres")]
    pub(super) async fn over(config: &Config, store: Store) -> Result<Self, AppError> {
        let outward = Outward::of(config, Reach::Everything)?;
        Self::wired(config, Reach::Everything, (store, outward), false).await
    }

    /// What is found out only with the store closes it before it is told: in one that is shared a life has begun, and
    /// others would take whoever is refused for a server, for seconds.
    async fn wired(
        config: &Config,
        reach: Reach,
        (store, outward): (Store, Outward),
        starts: bool,
    ) -> Result<Self, AppError> {
        let journal = store.journal();
        let wired = Self::stood(config, reach, (store, outward), starts).await;
        if wired.is_err() {
            journal.close().await;
        }
        wired
    }

    async fn stood(
        config: &Config,
        reach: Reach,
        (store, Outward { traces, notifier }): (Store, Outward),
        starts: bool,
    ) -> Result<Self, AppError> {
        let clock = clock_of(&store).await.map_err(AppError::Unsettled)?;
        let registry = Registry::new(Arc::clone(&clock));
        let registry = match &config.record_inputs {
            Some(path) if reach != Reach::Nothing => registry
                .recording(path)
                .map_err(|source| AppError::Record { path: path.clone(), source })?,
            Some(_) | None => registry,
        };
        let registry = Arc::new(registry);
        let journal = store.journal();
        offline::refuse_half(config, &*journal).await?;
        if reach != Reach::Nothing {
            policy::refuse_lost(config, &*journal).await?;
        }
        if reach == Reach::Everything {
            keyring::bring(config, &*journal).await?;
        }
        // A start that is refused has taken nothing up. Whoever serves already has been admitted.
        let keys = if starts {
            keyring::admitting(config, &*journal).await?
        } else {
            keyring::in_force(config, &*journal).await?
        };
        let operator = people::operator(config, keys.as_ref(), clock.now());
        let library = Library::default();
        let mut folder = Folder::new(config, Arc::clone(&registry), reach);
        folder.take(&library, &journal, &operator).await?;
        let agents: Arc<dyn Agents> = Arc::clone(&registry) as Arc<dyn Agents>;
        let tools: Arc<dyn Tools> = registry;
        notifier.goes_by(&clock);
        let engine =
            Engine::with_notifier(journal, Arc::clone(&clock), (agents, tools), library, notifier);
        engine.operate(operator);
        engine.keep_to(reach);
        if reach != Reach::Nothing {
            policy::open(config, &engine)?;
        }
        if let Some(traces) = &traces {
            engine.trace_with(Arc::clone(traces) as Arc<dyn Tracer>);
        }
        engine.brake_by(Arc::new(brake::HaltFile::in_dir(&config.data)));
        engine.settle_in().await.map_err(AppError::Unsettled)?;
        engine.settle_halts().await.map_err(AppError::Unsettled)?;
        if reach != Reach::Nothing {
            signer::attest(config, &engine, &*store.journal()).await?;
            let (attesting, every_ms) = (engine.clone(), config.audit.seconds * 1_000);
            tokio::spawn(async move { attesting.run_attesting(every_ms).await });
        }
        match reach {
            Reach::Everything => {
                let recovering = engine.clone();
                tokio::spawn(async move {
                    recovering.released().await;
                    if let Err(error) = recovering.recover().await {
                        tracing::error!(%error, "runs could not be taken up again");
                    }
                });
                go(&engine);
            }
            Reach::Own => go(&engine),
            Reach::Nothing => {}
        }
        Ok(Self { engine, store, clock, folder: Some(folder), traces })
    }

    /// Takes workflow files as they change, for as long as what is returned lives; once.
    pub(super) fn watch_folder(&mut self) -> Option<AbortOnDropHandle<()>> {
        let (folder, journal) = (self.folder.take()?, self.store.journal());
        let watching = folder.watch(self.engine.clone(), journal);
        Some(AbortOnDropHandle::new(tokio::spawn(watching)))
    }

    /// Lets what is under way finish for as long as there is patience, and sends what was traced.
    pub(super) async fn shut_down(&self, patience: Duration) {
        self.engine.drain(patience).await;
        self.send_traces().await;
        self.store.journal().close().await;
    }

    /// Lets what is being done come home, and leaves the store open for whoever takes it elsewhere.
    #[cfg(feature = "postgres")]
    pub(super) async fn retire(&self, patience: Duration) {
        self.engine.retire(patience).await;
        self.send_traces().await;
    }

    async fn send_traces(&self) {
        if let Some(traces) = self.traces.clone() {
            traces.close().await;
        }
    }
}

/// The time that everything goes by: the machine's, or that of a store which others share. That is asked for here, before
/// anything is looked at that may be over.
async fn clock_of(store: &Store) -> Result<Arc<dyn Clock>, EngineError> {
    let journal = store.journal();
    let Some(replicas) = journal.replicas() else { return Ok(Arc::new(SystemClock)) };
    let clock = SharedClock::over(Arc::new(SystemClock));
    keep_time(&clock, replicas).await?;
    Ok(Arc::new(clock))
}

/// A write past a limit on the size of files fails, as on a full disk. Unheeded, the signal that comes with
/// it would end the process without a word.
fn heed_file_sizes() {
    // The handler stays when the stream of signals goes.
    if let Err(error) = signal(SignalKind::from_raw(SIGXFSZ)) {
        tracing::warn!(%error, "a limit on the size of files would end this process");
    }
}

/// Sets the clock and the post of an engine going.
fn go(engine: &Engine) {
    let (timing, carrying, sharing) = (engine.clone(), engine.clone(), engine.clone());
    tokio::spawn(async move { sharing.run_replica().await });
    tokio::spawn(brake::heed(engine.clone()));
    tokio::spawn(async move {
        timing.released().await;
        timing.run_timers().await;
    });
    tokio::spawn(async move {
        carrying.released().await;
        carrying.run_outbox().await;
    });
}

/// Up to how many seconds decisions are counted together: from ten seconds to a week.
const DECISION_SECONDS: [f64; 8] =
    [10.0, 60.0, 600.0, 3_600.0, 14_400.0, 86_400.0, 259_200.0, 604_800.0];

/// Renders the metrics of this process.
pub(super) fn render() -> Render {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    let handle = RECORDER.get_or_init(|| {
        let decided = Matcher::Full("holdpoint_decision_seconds".into());
        let builder = PrometheusBuilder::new();
        // A minute to a week: bounds of the same words that people use for how long something lies.
        let builder = builder.set_buckets_for_metric(decided, &DECISION_SECONDS).ok();
        let handle = builder.unwrap_or_default().install_recorder().ok();
        describe();
        handle
    });
    let handle = handle.clone();
    Arc::new(move || handle.as_ref().map(PrometheusHandle::render).unwrap_or_default())
}

/// What the figures on `/metrics` mean.
fn describe() {
    metrics::describe_counter!("holdpoint_runs_started_total", "Runs that were started");
    metrics::describe_counter!("holdpoint_runs_over_total", "Runs that ended, by status");
    metrics::describe_counter!("holdpoint_runs_loaded_total", "Runs read back from their journals");
    metrics::describe_counter!("holdpoint_events_total", "Events made durable");
    metrics::describe_counter!("holdpoint_deliveries_total", "Calls of webhooks, by outcome");
    metrics::describe_counter!("holdpoint_spans_lost_total", "Spans no collector took");
    metrics::describe_counter!("holdpoint_decisions_total", "Decisions and votes, by yes or no");
    metrics::describe_counter!("holdpoint_decisions_quick_total", "Decisions quicker than reading");
    metrics::describe_histogram!("holdpoint_decision_seconds", "From the asking to the decision");
    metrics::describe_gauge!(
        "holdpoint_requests_open",
        "Open requests, by age: hour, day, week, older"
    );
    metrics::describe_gauge!("holdpoint_requests_overdue", "Open requests beyond their deadline");
    metrics::describe_counter!("holdpoint_answers_refused_total", "Answers that were not taken");
    metrics::describe_counter!("holdpoint_heads_signed_total", "Heads of the log that were signed");
    metrics::describe_counter!("holdpoint_heads_unsigned_total", "Heads that no signer signed");
    metrics::describe_gauge!("holdpoint_leaves", "Leaves of the log of decisions");
    metrics::describe_gauge!("holdpoint_leaves_unsigned", "Leaves that no signed head holds yet");
    metrics::describe_gauge!(
        "holdpoint_replicas",
        "Servers that share the store; 0 where one has it"
    );
    metrics::describe_gauge!(
        "holdpoint_clock_ahead_ms",
        "By how much this machine's clock is ahead of the database's; 0 where there is none"
    );
    metrics::describe_counter!("holdpoint_replica_reborn_total", "Times it was taken for dead");
    metrics::describe_counter!("holdpoint_store_rewound_total", "Times the store had gone back");
    metrics::describe_counter!(
        "holdpoint_outcomes_superseded_total",
        "Outcomes that the store did not take, as another server drove the run by then; what a server that was taken \
         for dead drops when it wakes is not counted"
    );
    // What nobody has counted yet is 0, and not missing: by that an alert sees the first one.
    for name in [
        "holdpoint_replica_reborn_total",
        "holdpoint_store_rewound_total",
        "holdpoint_outcomes_superseded_total",
        "holdpoint_heads_unsigned_total",
        "holdpoint_spans_lost_total",
        "holdpoint_decisions_quick_total",
    ] {
        metrics::counter!(name).increment(0);
    }
    metrics::describe_gauge!("holdpoint_halts", "Halts that stand");
    metrics::describe_gauge!("holdpoint_runs_in_memory", "Runs held in memory");
    metrics::describe_gauge!("holdpoint_ready", "1 while the store takes writes, else 0");
}
