//! Options: what is measured, and for how long. The comments are the text of `--help`.

use std::path::PathBuf;
use std::time::Duration;

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Workload {
    /// Pause and resume, by many clients at once
    #[value(alias = "pause_resume")]
    W1,
    /// A long conversation
    #[value(alias = "long_conversation")]
    W2,
    /// Many waiting sessions, and a restart
    #[value(alias = "many_waiting")]
    W3,
    /// A full inbox
    #[value(alias = "full_inbox")]
    W4,
    /// Many runs at a slow model
    #[value(alias = "slow_model")]
    W5,
    /// Many questions of one run
    #[value(alias = "many_questions")]
    W6,
}

/// What to measure.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The workloads: `w1` pause and resume (or `pause_resume`), `w2` a long conversation (`long_conversation`), `w3` many waiting (`many_waiting`),
    /// `w4` a full inbox (`full_inbox`), `w5` many at a slow model (`slow_model`), `w6` many questions of one run (`many_questions`)
    #[arg(value_name = "WORKLOAD", default_values = ["w1", "w2", "w3", "w4", "w5", "w6"], hide_possible_values = true)]
    workloads: Vec<Workload>,
    /// How many clients at once, for w1
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 16, 64], value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(super) clients: Vec<u16>,
    /// How many connections the clients of w1 and of its yardstick share (default: none, each has its own)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    connections: Option<u16>,
    /// How long each measurement of w1 takes, in seconds
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// How many bytes each run of w1 is told, none of them like another's (default: a short sentence): a store that grows
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) input: Option<u32>,
    /// How many turns w2 has
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [200, 1000], value_parser = clap::value_parser!(u32).range(40..=8000))]
    pub(super) turns: Vec<u32>,
    /// How many sessions wait in w3 and w4; a million takes minutes
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [10_000], value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(super) sessions: Vec<u32>,
    /// How many runs wait for a slow model in w5; each has a connection to it, so `ulimit -Hn`
    /// must be higher
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1_000], value_parser = clap::value_parser!(u32).range(1..=4_000))]
    pub(super) runs: Vec<u32>,
    /// How many people one run asks at once in w6
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [125, 1_000], value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) branches: Vec<u32>,
    /// How many servers share the database that `--store` names; clients and turns go to them in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub(super) replicas: u16,
    /// How often w1, w2 and w6 are measured; the median is told
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(super) passes: u32,
    /// Where the scratch directory is made; it should be on the disk that data is kept on
    /// (default: beside --data)
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
}

impl Options {
    /// How long each measurement of w1 takes.
    pub(super) fn length(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    /// How many connections so many clients of w1 share.
    pub(super) fn connections(&self, clients: u16) -> u16 {
        self.connections.unwrap_or(clients)
    }

    /// What makes no sense of what was asked for, if anything.
    pub fn misplaced(&self, is_shared: bool) -> Option<&'static str> {
        use Workload::{W4, W5, W6};
        if self.replicas > 1 && !is_shared {
            return Some("replicas: several servers share a database; name one with --store");
        }
        let is_embedded = self.workloads.iter().any(|workload| [W4, W5, W6].contains(workload));
        if is_shared && is_embedded {
            return Some("store: only w1, w2 and w3 are measured over a database; name those");
        }
        None
    }

    /// The workloads, each once, in their own order.
    pub(super) fn workloads(&self) -> Vec<Workload> {
        use Workload::{W1, W2, W3, W4, W5, W6};
        [W1, W2, W3, W4, W5, W6]
            .into_iter()
            .filter(|workload| self.workloads.contains(workload))
            .collect()
    }
}
