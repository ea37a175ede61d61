//! Report: the figures of a run as tables for people and as JSON for programs.

use serde::Serialize;
use serde_json::Value;

use crate::bench::figures::{Spread, megabytes};
use crate::bench::full_inbox::W4;
use crate::bench::long_conversation::W2;
use crate::bench::many_questions::W6;
use crate::bench::many_waiting::W3;
use crate::bench::pause_resume::W1;
use crate::bench::peers;
use crate::bench::slow_model::W5;
use crate::bench::yardstick::Yardsticks;

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Whether the scratch directory was in memory, where a sync costs nothing.
    pub scratch_in_memory: bool,
    /// What the machine can do.
    pub yardsticks: Yardsticks,
    /// Pause and resume.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub w1: Vec<W1>,
    /// A long conversation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub w2: Vec<W2>,
    /// Many waiting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub w3: Vec<W3>,
    /// A full inbox.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub w4: Vec<W4>,
    /// Many at a slow model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub w5: Vec<W5>,
    /// Many questions of one run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub w6: Vec<W6>,
    /// W1 beside the best peer and beside bare gRPC.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub w1_compared: Vec<Compared>,
    /// Where the peers' figures are from.
    pub peers_taken: &'static str,
}

/// W1 at one number of clients, beside others.
#[derive(Debug, Clone, Serialize)]
pub struct Compared {
    /// Clients at once.
    pub clients: u16,
    /// Cycles, as a share of what bare gRPC turns allow: two turns a cycle.
    pub of_bare_grpc: f64,
    /// The best peer, on its own machine.
    pub peer: &'static str,
    /// Its cycles a second there.
    pub peer_cycles_per_second: f64,
    /// How much faster this machine is, by the yardstick that says more for the peer.
    pub machine: f64,
    /// Our cycles over the peer's, scaled to this machine.
    pub ratio: f64,
}

/// A table for people; its first row is the heading.
#[derive(Debug)]
pub struct Section {
    /// What it shows.
    pub title: String,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

impl Report {
    pub(super) fn new(scratch_in_memory: bool) -> Self {
        Self { scratch_in_memory, peers_taken: peers::TAKEN, ..Self::default() }
    }

    /// Sets W1 beside the peers, where there is a row of as many clients.
    pub(super) fn compare(&mut self) {
        let append = self.yardsticks.append_one.per_second;
        let compared = self.w1.iter().filter_map(|w1| {
            let peer = peers::W1.iter().find(|peer| peer.clients == w1.clients)?;
            let by_turns = w1.bare_turns_per_second / peer.bare_turns;
            let machine = by_turns.max(append / peers::APPENDS_ONE);
            Some(Compared {
                clients: w1.clients,
                of_bare_grpc: w1.of_bare_grpc(),
                peer: peer.name,
                peer_cycles_per_second: peer.cycles_per_second,
                machine,
                ratio: w1.cycles_per_second / (peer.cycles_per_second * machine),
            })
        });
        self.w1_compared = compared.collect();
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// For people.
    pub fn sections(&self) -> Vec<Section> {
        let mut sections = vec![self.yardstick_section()];
        if !self.w1.is_empty() {
            sections.push(self.w1_section());
            sections.push(self.compared_section());
        }
        if !self.w2.is_empty() {
            sections.push(self.w2_section());
        }
        if !self.w3.is_empty() {
            sections.push(self.w3_section());
        }
        if !self.w4.is_empty() {
            sections.push(self.w4_section());
        }
        if !self.w5.is_empty() {
            sections.push(self.w5_section());
        }
        if !self.w6.is_empty() {
            sections.push(self.w6_section());
        }
        sections
    }

    fn yardstick_section(&self) -> Section {
        let mut rows = vec![row(["YARDSTICK", "A SECOND", "P50 MS", "P99 MS"])];
        let appends = [
            ("append 1 KiB + fdatasync, one writer", self.yardsticks.append_one),
            ("the same, 64 writers in group commits", self.yardsticks.append_grouped),
        ];
        let appends = appends.map(|(name, rate)| (name.to_owned(), rate));
        let turns = self.yardsticks.turns.iter();
        let turns =
            turns.map(|turns| (format!("bare gRPC turn, {} clients", turns.clients), turns.rate));
        for (name, rate) in appends.into_iter().chain(turns) {
            let Spread { p50_ms, p99_ms } = rate.spread;
            rows.push(row([name, whole(rate.per_second), fine(p50_ms), fine(p99_ms)]));
        }
        let where_from =
            if self.scratch_in_memory { "; the disk is memory: syncs cost nothing" } else { "" };
        Section { title: format!("This machine{where_from}"), rows }
    }

    fn w1_section(&self) -> Section {
        let heading = [
            "CLIENTS",
            "CYCLES/S",
            "START P50",
            "P99 MS",
            "RESPOND P50",
            "P99 MS",
            "GAP MS",
            "MB ON DISK",
            "SERVER US",
            "CLIENT US",
        ];
        let mut rows = vec![row(heading)];
        rows.extend(self.w1.iter().map(|w1| {
            let (start, respond) = (w1.start, w1.respond);
            let times = [start.p50_ms, start.p99_ms, respond.p50_ms, respond.p99_ms].map(fine);
            let mut cells = vec![w1.clients.to_string(), whole(w1.cycles_per_second)];
            cells.extend(times);
            cells.extend([w1.longest_gap_ms, megabytes(w1.bytes)].map(fine));
            cells.extend([w1.server_cpu_us, w1.client_cpu_us].map(whole));
            cells
        }));
        Section { title: "W1 pause and resume".into(), rows }
    }

    fn compared_section(&self) -> Section {
        let heading =
            ["CLIENTS", "OF BARE GRPC", "RATIO", "BEST PEER THERE", "CYCLES/S", "MACHINE"];
        let mut rows = vec![row(heading)];
        rows.extend(self.w1_compared.iter().map(|one| {
            row([
                one.clients.to_string(),
                format!("{:.0} %", one.of_bare_grpc * 100.0),
                format!("{:.1} x", one.ratio),
                one.peer.into(),
                whole(one.peer_cycles_per_second),
                format!("{:.2} x", one.machine),
            ])
        }));
        let title = format!("W1 beside the best peer ({}; scaled to this one)", peers::TAKEN);
        Section { title, rows }
    }

    fn w2_section(&self) -> Section {
        let heading = ["TURNS", "SECONDS", "FIRST 20 MS", "LAST 20 MS", "MB ON DISK", "BEST PEERS"];
        let mut rows = vec![row(heading)];
        rows.extend(self.w2.iter().map(|w2| {
            let peer = peers::W2.iter().find(|peer| peer.turns == w2.turns);
            let peer =
                peer.map(|peer| format!("{} s, {} MB, elsewhere", peer.seconds, peer.megabytes));
            row([
                w2.turns.to_string(),
                fine(w2.seconds),
                fine(w2.first_20_seconds * 1e3),
                fine(w2.last_20_seconds * 1e3),
                fine(megabytes(w2.bytes)),
                peer.unwrap_or_default(),
            ])
        }));
        let growth = match self.w2.as_slice() {
            [short, .., long] if short.bytes > 0 => {
                let ratio = megabytes(long.bytes) / megabytes(short.bytes);
                format!("; {:.1} x the bytes at {} as at {}", ratio, long.turns, short.turns)
            }
            _ => String::new(),
        };
        Section { title: format!("W2 a long conversation{growth}"), rows }
    }

    fn w3_section(&self) -> Section {
        let heading = [
            "SESSIONS",
            "MADE IN S",
            "MB ON DISK",
            "MB RESIDENT",
            "RESTART S",
            "FIRST ANSWER S",
            "BEST PEERS",
        ];
        let mut rows = vec![row(heading)];
        rows.extend(self.w3.iter().map(|w3| {
            let peer = (w3.sessions == peers::W3.sessions).then(|| {
                let (made, answer) = (peers::W3.create_seconds, peers::W3.first_answer_seconds);
                format!("{made} s, {} MB, {answer} s, elsewhere", peers::W3.megabytes)
            });
            row([
                w3.sessions.to_string(),
                fine(w3.create_seconds),
                fine(megabytes(w3.bytes)),
                fine(megabytes(w3.resident_bytes)),
                fine(w3.restart_seconds),
                fine(w3.first_answer_seconds),
                peer.unwrap_or_default(),
            ])
        }));
        Section { title: "W3 many waiting, then kill -9".into(), rows }
    }

    fn w4_section(&self) -> Section {
        let heading = [
            "OPEN REQUESTS",
            "CONSOLE P50",
            "P99 MS",
            "LISTING P50",
            "P99 MS",
            "OWN 3 FIRST MS",
            "OWN 3 P50",
            "P99 MS",
        ];
        let mut rows = vec![row(heading)];
        rows.extend(self.w4.iter().map(|w4| {
            let (page, listing, own) = (w4.page, w4.listing, w4.own);
            let times = [page.p50_ms, page.p99_ms, listing.p50_ms, listing.p99_ms];
            let mut cells = vec![w4.requests.to_string()];
            cells.extend(times.map(fine));
            cells.extend([w4.own_first_ms, own.p50_ms, own.p99_ms].map(fine));
            cells
        }));
        Section { title: "W4 a full inbox".into(), rows }
    }

    fn w5_section(&self) -> Section {
        let heading =
            ["RUNS", "ALL ASKED S", "MB BEFORE", "MB RESIDENT", "KB A RUN", "ALL COMPLETED S"];
        let mut rows = vec![row(heading)];
        rows.extend(self.w5.iter().map(|w5| {
            row([
                w5.runs.to_string(),
                fine(w5.asked_seconds),
                fine(megabytes(w5.resident_before_bytes)),
                fine(megabytes(w5.resident_bytes)),
                fine(w5.bytes_per_run / 1e3),
                fine(w5.completed_seconds),
            ])
        }));
        Section { title: "W5 many runs at a slow model".into(), rows }
    }

    fn w6_section(&self) -> Section {
        let heading =
            ["BRANCHES", "ALL ASKED S", "ALL ANSWERED S", "ONE ANSWER MS", "P50", "P99 MS"];
        let mut rows = vec![row(heading)];
        rows.extend(self.w6.iter().map(|w6| {
            row([
                w6.branches.to_string(),
                fine(w6.asked_seconds),
                fine(w6.answered_seconds),
                fine(w6.answered_seconds * 1e3 / f64::from(w6.branches)),
                fine(w6.answer.p50_ms),
                fine(w6.answer.p99_ms),
            ])
        }));
        Section { title: "W6 many questions of one run, answered one by one".into(), rows }
    }
}

fn row<const N: usize>(cells: [impl Into<String>; N]) -> Vec<String> {
    cells.into_iter().map(Into::into).collect()
}

fn whole(figure: f64) -> String {
    format!("{figure:.0}")
}

fn fine(figure: f64) -> String {
    if figure < 10.0 { format!("{figure:.2}") } else { format!("{figure:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::yardstick::Rate;

    fn w1(clients: u16, cycles_per_second: f64) -> W1 {
        W1 {
            bare_turns_per_second: 56_000.0,
            clients,
            cycles_per_second,
            start: Spread::default(),
            respond: Spread::default(),
            server_cpu_us: 0.0,
            client_cpu_us: 0.0,
            longest_gap_ms: 0.0,
            bytes: 0,
        }
    }

    #[test]
    fn a_faster_machine_earns_no_praise() {
        let rate = |per_second| Rate { per_second, spread: Spread::default() };
        let mut report = Report::new(false);
        report.yardsticks.append_one = rate(peers::APPENDS_ONE);
        report.w1 = vec![w1(64, 8_700.0)];
        report.compare();
        let compared = &report.w1_compared[0];
        assert!((compared.machine - 2.0).abs() < 1e-9, "{compared:?}");
        assert!((compared.ratio - 10.0).abs() < 1e-9, "{compared:?}");
        assert!((compared.of_bare_grpc - 0.310_714).abs() < 1e-5, "{compared:?}");
    }

    #[test]
    fn a_number_of_clients_without_a_peer_is_not_compared() {
        let mut report = Report { w1: vec![w1(7, 1.0)], ..Report::new(false) };
        report.compare();
        assert!(report.w1_compared.is_empty());
        assert_eq!(report.sections()[1].rows.len(), 2);
    }
}
