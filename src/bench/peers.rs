//! Peers: what others do at the same workloads. Facts of another machine, taken once; they are
//! scaled by the yardsticks before anything is said about them, and marked as such.

/// When and where the figures below were taken.
pub(super) const TAKEN: &str = "November 2026, on another machine with two cores";

/// The best row of W1 at some number of clients, all with durable commits.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerW1 {
    pub(super) clients: u16,
    pub(super) name: &'static str,
    pub(super) cycles_per_second: f64,
    /// Bare gRPC turns a second of that machine, at as many clients: the yardstick.
    pub(super) bare_turns: f64,
}

/// Synced 1 KiB appends a second of that machine, one writer: the other yardstick.
pub(super) const APPENDS_ONE: f64 = 12_900.0;

/// W1.
pub(super) const W1: [PeerW1; 3] = [
    PeerW1 {
        clients: 1,
        name: "LangGraph 1.2.20, SQLite, durability=exit",
        cycles_per_second: 192.0,
        bare_turns: 9_400.0,
    },
    PeerW1 {
        clients: 16,
        name: "Restate 1.7.12, Rust SDK, virtual object",
        cycles_per_second: 390.0,
        bare_turns: 29_600.0,
    },
    PeerW1 {
        clients: 64,
        name: "Restate 1.7.12, Rust SDK, virtual object",
        cycles_per_second: 435.0,
        bare_turns: 28_000.0,
    },
];

/// The best figures of W2, each of whoever is best at it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerW2 {
    pub(super) turns: u32,
    pub(super) megabytes: f64,
    pub(super) seconds: f64,
}

/// W2: the least disk is that of DBOS 3.3 on `SQLite`; the least time that of `LangGraph` on it at
/// 200 turns and of Restate at 1,000.
pub(super) const W2: [PeerW2; 2] = [
    PeerW2 { turns: 200, megabytes: 0.6, seconds: 1.3 },
    PeerW2 { turns: 1_000, megabytes: 3.0, seconds: 9.0 },
];

/// The best figures of W3 at 10,000 sessions, each of whoever is best at it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerW3 {
    pub(super) sessions: u32,
    pub(super) create_seconds: f64,
    pub(super) megabytes: f64,
    pub(super) first_answer_seconds: f64,
}

/// W3: created fastest by Agent Framework on files without fsync, smallest in DBOS on `PostgreSQL`,
/// answered soonest by Agent Framework with an index of one's own.
pub(super) const W3: PeerW3 =
    PeerW3 { sessions: 10_000, create_seconds: 41.0, megabytes: 25.0, first_answer_seconds: 0.3 };
