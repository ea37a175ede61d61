//! World: configuration → store → engine. What `serve` and the embedded commands share.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::agents::Registry;
use crate::api::pages::Render;
use crate::app::clock::SystemClock;
use crate::app::config::Origin;
use crate::app::courier::Post;
use crate::app::otlp::{self, Traces};
use crate::app::{AppError, Config, discovery, private};
use crate::definition;
use crate::engine::{Engine, Library};
use crate::ports::trace::Tracer;
use crate::ports::{Agents, Clock, Journal, Tools};
use crate::store::{self, Store, StoreConfig};

/// Everything that runs, without a door.
#[derive(Debug)]
pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) store: Store,
    /// The workflows' files, by the workflows' names.
    pub(super) sources: BTreeMap<String, String>,
    /// Where traces are sent, if they are.
    traces: Option<Arc<Traces>>,
}

impl World {
    /// Opens the data directory, loads the workflows, and sets the engine going.
    pub(super) async fn open(config: &Config) -> Result<Self, AppError> {
        let traces = otlp::from_environment()?.map(Arc::new);
        let courier = Arc::new(Post::new(config)?);
        private::mend(&config.data);
        let store = store::open(&StoreConfig::new(&config.data)).await?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let registry = Registry::new(Arc::clone(&clock));
        let registry = match &config.record_inputs {
            None => registry,
            Some(path) => registry
                .recording(path)
                .map_err(|source| AppError::Record { path: path.clone(), source })?,
        };
        let registry = Arc::new(registry);
        let journal = store.journal();
        let (library, sources) = library(config, &*journal, &registry).await?;
        let agents: Arc<dyn Agents> = Arc::clone(&registry) as Arc<dyn Agents>;
        let tools: Arc<dyn Tools> = registry;
        let engine = Engine::with_courier(journal, clock, (agents, tools), library, courier);
        if let Some(traces) = &traces {
            engine.trace_with(Arc::clone(traces) as Arc<dyn Tracer>);
        }
        let (recovering, timing, carrying) = (engine.clone(), engine.clone(), engine.clone());
        tokio::spawn(async move {
            if let Err(error) = recovering.recover().await {
                tracing::error!(%error, "runs could not be taken up again");
            }
        });
        tokio::spawn(async move { timing.run_timers().await });
        tokio::spawn(async move { carrying.run_outbox().await });
        Ok(Self { engine, store, sources, traces })
    }

    /// Lets what is under way finish for as long as `patience`, and sends what was traced.
    pub(super) async fn shut_down(&self, patience: Duration) {
        self.engine.shut_down(patience).await;
        if let Some(traces) = self.traces.clone() {
            traces.close().await;
        }
    }
}

/// The shipped workflows and those of the folder; a file of one's own goes before a shipped one
/// of the same name. A wrong file stops the start: nobody wants to find out later.
async fn library(
    config: &Config,
    journal: &dyn Journal,
    registry: &Registry,
) -> Result<(Library, BTreeMap<String, String>), AppError> {
    // The folder that is looked for unasked need not be there; one that was named must be.
    let is_absent = !config.workflows.exists() && config.origin("workflows") == Origin::Default;
    let (own, problems) =
        if is_absent { Default::default() } else { definition::load_dir(&config.workflows) };
    if !problems.is_empty() {
        return Err(AppError::Workflows(problems));
    }
    let library = Library::default();
    let mut sources = BTreeMap::new();
    for loaded in definition::shipped().into_iter().chain(own) {
        if let Err((field, remedy)) = registry.check(&loaded.workflow) {
            let problem = loaded.problem(&field, "provider.invalid", remedy);
            return Err(AppError::Workflows(vec![problem]));
        }
        let entry = discovery::entry(&config.data, registry, &loaded).await;
        let entry = entry.map_err(|problem| AppError::Workflows(vec![problem]))?;
        library.add(journal, entry).await?;
        sources.insert(loaded.workflow.name.clone(), loaded.source);
    }
    Ok((library, sources))
}

/// Renders the metrics of this process.
pub(super) fn render() -> Render {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    let handle = RECORDER.get_or_init(|| {
        let handle = PrometheusBuilder::new().install_recorder().ok();
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
    metrics::describe_gauge!("holdpoint_runs_in_memory", "Runs held in memory");
    metrics::describe_gauge!("holdpoint_ready", "1 while the store takes writes, else 0");
}
