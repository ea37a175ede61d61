//! Bench: what this machine does, beside what it could do. A real server in another process, a
//! real disk, real gRPC; this process is the client.
//!
//! The yardsticks (synced appends, bare gRPC turns) are taken in the same run as the workloads:
//! a machine is noisy, and what counts is the ratio. Nothing in here is used by the product.

mod clients;
mod clock;
mod database;
mod echo;
mod figures;
mod full_inbox;
mod long_conversation;
mod many_questions;
mod many_waiting;
mod model;
mod options;
mod pause_resume;
mod peers;
mod process;
mod report;
mod slow_model;
mod workflows;
mod yardstick;

use std::io;
use std::path::{Path, PathBuf};

pub use echo::serve as serve_echo;
pub use options::Options;
pub use report::{Report, Section};

use options::Workload;
use process::Scratch;

/// Told of the progress, a line at a time.
pub type Progress<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A file or a process did not do what it should.
    #[error("cannot {what}")]
    Io {
        /// What was tried.
        what: String,
        /// Why not.
        source: io::Error,
    },
    /// A server of ours did not come up.
    #[error("the {0} ended before it was ready; its last words:\n{1}")]
    NotReady(&'static str, String),
    /// The PostgreSQL that was named does not do what it should.
    #[error("store: the database cannot be used: {0}")]
    Database(String),
    /// It came up, but cannot be reached.
    #[error("cannot reach the server under test")]
    Unreachable(#[from] tonic::transport::Error),
    /// It refused what it should have taken.
    #[error("the server under test refused a call: {}", .0.message())]
    Refused(#[from] Box<tonic::Status>),
    /// A stream did not hold what it should.
    #[error("the server under test did not {0}")]
    Unexpected(&'static str),
}

impl BenchError {
    fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::Io { what, source }
    }
}

impl From<tonic::Status> for BenchError {
    fn from(status: tonic::Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

/// Measures what `options` name. Everything that is written goes to a directory of its own in
/// `place`, which is gone afterwards, also where the future is dropped half-way. With a `store`, w1 to w3 are measured over
/// databases of their own in that PostgreSQL.
pub async fn run(
    options: &Options,
    place: &Path,
    store: Option<&str>,
    progress: Progress<'_>,
) -> Result<Report, BenchError> {
    let scratch = Scratch::make(place, store)?;
    let report = measured(&scratch, options, progress).await;
    scratch.leave().await;
    report
}

async fn measured(
    scratch: &Scratch,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Report, BenchError> {
    let mut report = Report::new(scratch.is_in_memory());
    report.yardsticks = yardstick::measure(scratch, options, progress).await?;
    for workload in options.workloads() {
        match workload {
            Workload::W1 => report.w1 = pause_resume::measure(scratch, options, progress).await?,
            Workload::W2 => {
                report.w2 = long_conversation::measure(scratch, options, progress).await?;
            }
            Workload::W3 => report.w3 = many_waiting::measure(scratch, options, progress).await?,
            Workload::W4 => report.w4 = full_inbox::measure(scratch, options, progress).await?,
            Workload::W5 => report.w5 = slow_model::measure(scratch, options, progress).await?,
            Workload::W6 => {
                report.w6 = many_questions::measure(scratch, options, progress).await?;
            }
        }
    }
    report.compare();
    Ok(report)
}

/// The directory beside the data directory, where a disk that is used for data is.
pub fn place_beside(data: &Path) -> PathBuf {
    match data.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        Some(_) | None => PathBuf::from("."),
    }
}
