//! Words: what an entry of the store's own log says beyond who, where and its one word. What is noted is the parent's.

use std::cmp::Ordering;

use super::Note;
use crate::kernel::RunId;

impl Note {
    /// The rest of it, in words.
    pub fn words(&self) -> String {
        match self {
            Self::AnswerRefused { request, code, .. } if request.is_empty() => code.clone(),
            Self::AnswerRefused { request, code, .. } => format!("{request}: {code}"),
            Self::KeyRefused { peer, .. } => format!("from {peer}"),
            Self::HaltRefused { what, code, .. } => format!("{what}: {code}"),
            Self::ReleaseRefused { halt, code, .. } => {
                let what = if halt.is_empty() { "the store" } else { halt };
                format!("{what}: {code}")
            }
            Self::Crowded => "more refusals at once than are told apart".into(),
            Self::KeysChanged { came, went, changed, ended } => {
                let told =
                    [("came", came), ("went", went), ("changed", changed), ("expired", ended)];
                let told = told.iter().filter(|(_, names)| !names.is_empty());
                let told: Vec<_> =
                    told.map(|(how, names)| format!("{how}: {}", names.join(", "))).collect();
                told.join("; ")
            }
            Self::PolicyChanged { what } => what.join("; "),
            Self::Forked { from, version, run, .. } => {
                format!("{from} up to version {version}, as {run}")
            }
            Self::Imported { runs, events } => {
                format!("{runs} runs, {events} events")
            }
            Self::Pruned { runs, .. } => format!("{runs} runs"),
            Self::ConsentBroken { request, what, why, .. } if request.is_empty() => {
                format!("{what}: {why}")
            }
            Self::ConsentBroken { request, what, why, .. } => format!("{request} {what}: {why}"),
            Self::ServerStarted { address, version, environment, four_eyes, keys } => {
                let environment = environment.as_deref().unwrap_or("not said");
                let eyes = if *four_eyes { ", four eyes" } else { "" };
                format!("{address}, build {version}, environment {environment}, keys: {keys}{eyes}")
            }
            Self::HeadForgotten { origin, leaves, root, .. } => {
                let head = format!("the head of {leaves} leaves of {origin}, root {root}");
                format!("{head}: the log is signed from what it holds")
            }
            Self::HaltReleased { halt, what, reason, .. } if reason.is_empty() => {
                format!("{halt}: {what}")
            }
            Self::Halted { halt, what, reason, .. }
            | Self::HaltReleased { halt, what, reason, .. } => {
                format!("{halt}: {what}: {reason}")
            }
            Self::Renewed { epoch, runs } => format!("{runs} runs, epoch {epoch}"),
            Self::Rewound { run, had, has, deeds } => rewound(run.as_ref(), (*had, *has), deeds),
            Self::Exported { run, secrets } => {
                let what = run.as_ref().map_or_else(|| "the store".into(), ToString::to_string);
                match secrets {
                    Some(true) => format!("{what}, with what is secret"),
                    Some(false) => format!("{what}, without what is secret"),
                    None => String::new(),
                }
            }
            Self::ServerStopped { address } => address.clone(),
            Self::Released { .. } | Self::Restored => String::new(),
            Self::Lost => "could not be noted while the store took no writes".into(),
            Self::Forgotten => "older entries are kept no more".into(),
            Self::Unknown => "noted by a later build".into(),
        }
    }
}

fn rewound(run: Option<&RunId>, (had, has): (u64, u64), deeds: &[String]) -> String {
    let of = run.map_or_else(|| "the store".to_owned(), ToString::to_string);
    let another = format!("{of} tells another history up to {had} than it did");
    let told = match had.cmp(&has) {
        Ordering::Equal => another,
        Ordering::Less => format!("{another}, and ends at {has}"),
        Ordering::Greater => format!("{of} was known up to {had}, and ends at {has}"),
    };
    if deeds.is_empty() {
        return told;
    }
    format!("{told}; begun in what is missing: {}", deeds.join(", "))
}
