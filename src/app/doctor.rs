//! Doctor: what is looked at when somebody asks whether all is well: settings, workflows, keys, store. It mends nothing.

use crate::app::brake::HaltFile;
use crate::app::evidence::kept_head;
use crate::app::keys::Keys;
use crate::app::offline::{check, checked_policy, half, place, seen};
use crate::app::{AppError, Config, counted, keyring, people, policy};
use crate::definition;
use crate::engine::halts_kept;
use crate::kernel::{BY_FILE, Refusal};
use crate::ports::brake::Brake as _;
use crate::ports::identity::Identity;
use crate::ports::{Journal, StoreReport};
use crate::store;
use crate::store::verify::{self, Verified};

/// How one part of the installation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub subject: String,
    /// Whether it is as it should be.
    pub is_ok: bool,
    /// What was found, and the remedy where it is not ok.
    pub detail: String,
}

/// Looks at everything: settings, workflows, keys, store.
pub async fn look(config: &Config) -> Result<Vec<Finding>, AppError> {
    let mut findings = vec![workflows_finding(config)];
    if !config.shares_keys() {
        findings.push(keys_finding(config));
    }
    let is_named = config.store.is_some();
    if !is_named && !store::is_there(&config.data) {
        findings.push(Finding {
            subject: "store".into(),
            is_ok: true,
            detail: format!("none yet in `{}`; the first run makes one", config.data.display()),
        });
        return Ok(findings);
    }
    if !is_named && store::is_older(&config.data) {
        let older = AppError::Older(config.data.clone());
        let what = older.hint().unwrap_or_default();
        let detail = format!("{older}; {what}");
        findings.push(Finding { subject: "store".into(), is_ok: true, detail });
        return Ok(findings);
    }
    let finding = match seen(config).await {
        Err(AppError::Store(error)) => {
            Finding { subject: "store".into(), is_ok: false, detail: error.to_string() }
        }
        #[cfg(feature = "postgres")]
        Err(AppError::Postgres(error)) => {
            Finding { subject: "store".into(), is_ok: false, detail: error.to_string() }
        }
        Err(error) => return Err(error),
        Ok(journal) => {
            let known = Identity::of(&*journal).await?;
            if let Some(half) = known.and_then(|known| half(config, &known)) {
                let remedy = half.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
                let detail = format!("{half}{remedy}");
                findings.push(Finding { subject: "import".into(), is_ok: false, detail });
            }
            if config.shares_keys() {
                let keys = keyring::in_force(config, &*journal).await?;
                let detail = keys.map_or_else(
                    || "none: a server over it serves loopback only, everybody is `local`".into(),
                    |keys| format!("{} in the database", keys.list().len()),
                );
                findings.push(Finding { subject: "keys".into(), is_ok: true, detail });
            }
            keys_lost(config, &*journal, &mut findings).await?;
            if let Err(gone @ AppError::PolicyGone(_)) =
                policy::refuse_lost(config, &*journal).await
            {
                let remedy = gone.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
                let detail = format!("{gone}{remedy}");
                findings.push(Finding { subject: "policy".into(), is_ok: false, detail });
            }
            findings.extend(held_finding(&*journal).await?);
            findings.extend(halts_finding(config, &*journal).await?);
            let (since, kept_in) = kept_head(config, &*journal).await?.unzip();
            let against = verify::Against { since, kept_in, ..verify::Against::default() };
            let verified = verify::verify(&*journal, &against, &|_| {}).await;
            journal.close().await;
            let verified = verified?;
            findings.push(evidence_finding(&verified));
            findings.extend(tables_finding(&verified.report));
            findings.extend(rights_finding(&verified.report));
            store_finding(&verified.report, &place(config))
        }
    };
    findings.push(finding);
    Ok(findings)
}

fn workflows_finding(config: &Config) -> Finding {
    let checked = if config.workflows.is_dir() {
        check(config, &[])
    } else {
        checked_policy(config).into_iter().collect()
    };
    let problems: Vec<_> =
        checked.iter().flat_map(|file| &file.problems).map(|found| found.shown.clone()).collect();
    let shipped = definition::shipped().len();
    Finding {
        subject: "workflows".into(),
        is_ok: problems.is_empty(),
        detail: if problems.is_empty() {
            format!("{} in `{}`, {shipped} built in", checked.len(), config.workflows.display())
        } else {
            problems.join("\n")
        },
    }
}

fn keys_finding(config: &Config) -> Finding {
    if let Some(place) = keyring::left_for(config) {
        let path = config.keys_path();
        let whose = if path.exists() {
            format!("those in `{}` count no more: ", path.display())
        } else {
            String::new()
        };
        let detail = format!(
            "{whose}the store is in the database at {place}, and its keys with it; `--store` has them"
        );
        return Finding { subject: "keys".into(), is_ok: true, detail };
    }
    let checked = Keys::for_server(config);
    let checked =
        checked.and_then(|keys| people::refuse_confusion(config, keys.as_ref()).map(|()| keys));
    let (is_ok, detail) = match checked {
        Ok(None) => (true, "none: the server serves loopback only, everybody is `local`".into()),
        Ok(Some(keys)) => {
            (true, format!("{} in `{}`", keys.list().len(), config.keys_path().display()))
        }
        Err(error) => (false, error.to_string()),
    };
    Finding { subject: "keys".into(), is_ok, detail }
}

/// Says of keys that were asked for and are gone what `serve` says: without them it lets nobody in.
async fn keys_lost(
    config: &Config,
    journal: &dyn Journal,
    findings: &mut [Finding],
) -> Result<(), AppError> {
    let told = findings.iter_mut().find(|finding| finding.subject == "keys" && finding.is_ok);
    let Some(told) = told.filter(|_| keyring::left_for(config).is_none()) else { return Ok(()) };
    match keyring::at_the_door(config, journal).await {
        Err(gone @ (AppError::KeysGone | AppError::OwnKeysGone(_))) => {
            let remedy = gone.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
            (told.is_ok, told.detail) = (false, format!("{gone}{remedy}"));
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(other) => Err(other),
    }
}

/// What is halted, if anything is: nothing is wrong with that, and it is why nothing moves.
async fn halts_finding(
    config: &Config,
    journal: &dyn Journal,
) -> Result<Option<Finding>, AppError> {
    let kept = halts_kept(journal).await?;
    let words = |what: &str, by: &str, why: &str| format!("{what}, by {by}: {why}");
    let told = kept.0.iter().map(|halt| words(&halt.scope.words(), &halt.by_whom(), &halt.reason));
    let mut told: Vec<_> = told.collect();
    // It is kept once somebody has heeded it.
    let pulled = HaltFile::in_dir(&config.data).pulled();
    let pulled = pulled.filter(|_| kept.0.iter().all(|halt| halt.by != BY_FILE));
    told.extend(pulled.map(|why| words("everything", "the file HALT", &why)));
    if told.is_empty() {
        return Ok(None);
    }
    let remedy =
        "nothing of it is done or decided until that is taken back; `holdpoint halt` lists it";
    told.push(remedy.into());
    Ok(Some(Finding { subject: "halts".into(), is_ok: true, detail: told.join("\n") }))
}

/// Says of a store that waits for its operator that it does: as a halt it may be meant, and nothing is done meanwhile.
async fn held_finding(journal: &dyn Journal) -> Result<Option<Finding>, AppError> {
    let known = Identity::of(journal).await?.filter(|known| known.is_held);
    Ok(known.map(|known| {
        let why = if known.is_rewound { Refusal::Rewound } else { Refusal::Held };
        Finding { subject: "held".into(), is_ok: true, detail: why.to_string() }
    }))
}

/// What does not hold of the chain and the log of leaves; what is damaged is the store's to tell.
fn evidence_finding(verified: &Verified) -> Finding {
    let wrong: Vec<_> = verified.findings.iter().filter(|one| one.place != "the store").collect();
    let told = wrong.iter().map(ToString::to_string).chain([verified.words()]);
    let detail = told.collect::<Vec<_>>().join("\n");
    Finding { subject: "evidence".into(), is_ok: wrong.is_empty(), detail }
}

/// What a database says of its tables: which schema they are, and what they lack that nobody is refused for.
fn tables_finding(report: &StoreReport) -> Option<Finding> {
    let detail = report.tables.join("\n");
    let finding = Finding { subject: "tables".into(), is_ok: true, detail };
    (!report.tables.is_empty()).then_some(finding)
}

/// What whoever looks may not do, and a server with the same user must: such a one serves nothing, though the store is whole.
fn rights_finding(report: &StoreReport) -> Option<Finding> {
    let detail = report.lacks.clone()?;
    Some(Finding { subject: "rights".into(), is_ok: false, detail })
}

fn store_finding(report: &StoreReport, place: &str) -> Finding {
    let mut detail = format!(
        "{} in {}, {}, {}, {} KB on disk, format {}, in {place}",
        counted(report.runs, "run"),
        counted(report.sessions, "session"),
        counted(report.events, "event"),
        counted(report.open_questions, "open request"),
        report.bytes / 1000,
        report.format
    );
    for damage in &report.damage {
        detail.push('\n');
        detail.push_str(damage);
    }
    Finding { subject: "store".into(), is_ok: report.damage.is_empty(), detail }
}
