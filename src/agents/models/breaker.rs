//! Breaker: a server that fails again and again is left alone for a while.
//!
//! ```text
//! closed ──(FAULTS_MAX in a row)──► open ──(REST_MS later)──► probing ──well──► closed
//!                                    ▲                            └────ill────► open
//! ```
//!
//! One circuit for each address, shared by all runs: what one has found out, the others need not.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::kernel::Millis;

/// One more than all tries of one step at the usual settings (three attempts of three): a single
/// run does not shut the door on itself, and is told the true reason to the end.
const FAULTS_MAX: u32 = 10;
/// Long enough for a restart, short enough that nobody looks for us.
const REST_MS: u64 = 15_000;
/// Addresses come from workflow files; more than these are not kept in mind.
const ADDRESSES_MAX: usize = 1_024;

/// The circuits of all addresses.
#[derive(Debug, Default)]
pub(super) struct Breakers {
    circuits: Mutex<HashMap<String, Circuit>>,
}

/// A circuit that is not simply well, and what was wrong last.
#[derive(Debug)]
struct Circuit {
    state: State,
    why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Failing { faults: u32 },
    Open { until: Millis },
    Probing,
}

impl Breakers {
    /// Asks to pass; otherwise how long to wait, and what was wrong last.
    pub(super) fn enter(&self, address: &str, now: Millis) -> Result<Passage<'_>, (u64, String)> {
        let passage = |is_probe| Passage { breakers: self, address: address.to_owned(), is_probe };
        let mut circuits = self.lock();
        let Some(circuit) = circuits.get_mut(address) else { return Ok(passage(false)) };
        match circuit.state {
            State::Failing { .. } => Ok(passage(false)),
            State::Probing => Err((REST_MS, circuit.why.clone())),
            State::Open { until } if until > now => Err((until.since(now), circuit.why.clone())),
            State::Open { .. } => {
                circuit.state = State::Probing;
                Ok(passage(true))
            }
        }
    }

    /// The server at `address` failed once more.
    pub(super) fn ill(&self, address: &str, now: Millis, why: &str) {
        let mut circuits = self.lock();
        if circuits.len() >= ADDRESSES_MAX && !circuits.contains_key(address) {
            return;
        }
        let state = match circuits.get(address).map(|circuit| circuit.state) {
            None => State::Failing { faults: 1 },
            Some(State::Failing { faults }) if faults + 1 < FAULTS_MAX => {
                State::Failing { faults: faults + 1 }
            }
            Some(State::Failing { .. } | State::Open { .. } | State::Probing) => {
                State::Open { until: now.plus(REST_MS) }
            }
        };
        circuits.insert(address.to_owned(), Circuit { state, why: why.to_owned() });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Circuit>> {
        self.circuits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to ask a server once. Whoever lets go of it without a word learnt nothing: another
/// may probe in its place.
#[derive(Debug)]
pub(super) struct Passage<'a> {
    breakers: &'a Breakers,
    address: String,
    is_probe: bool,
}

impl Passage<'_> {
    /// The server is well: it answered, whatever it said.
    pub(super) fn well(mut self) {
        self.is_probe = false;
        self.breakers.lock().remove(&self.address);
    }

    /// The server failed.
    pub(super) fn ill(mut self, now: Millis, why: &str) {
        self.is_probe = false;
        self.breakers.ill(&self.address, now, why);
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        if !self.is_probe {
            return;
        }
        let mut circuits = self.breakers.lock();
        let circuit = circuits.get_mut(&self.address);
        if let Some(circuit) = circuit.filter(|circuit| circuit.state == State::Probing) {
            circuit.state = State::Open { until: Millis(0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "http://model";

    fn fail(breakers: &Breakers, times: u32, now: Millis) {
        for _ in 0..times {
            breakers.enter(AT, now).unwrap().ill(now, "down");
        }
    }

    #[test]
    fn a_circuit_opens_rests_probes_and_closes() {
        let breakers = Breakers::default();
        let now = Millis(1_000);
        fail(&breakers, FAULTS_MAX - 1, now);
        breakers.enter(AT, now).unwrap().well();
        fail(&breakers, FAULTS_MAX - 1, now);
        assert!(breakers.enter(AT, now).is_ok(), "faults must be in a row");
        fail(&breakers, 1, now);
        assert_eq!(breakers.enter(AT, now).unwrap_err(), (REST_MS, "down".to_owned()));
        assert!(breakers.enter("http://other", now).is_ok());

        let later = now.plus(REST_MS);
        let probe = breakers.enter(AT, later).unwrap();
        assert!(breakers.enter(AT, later).is_err(), "one probe at a time");
        probe.ill(later, "still down");
        assert_eq!(breakers.enter(AT, later).unwrap_err(), (REST_MS, "still down".to_owned()));
        breakers.enter(AT, later.plus(REST_MS)).unwrap().well();
        assert!(breakers.enter(AT, later).is_ok());
    }

    #[test]
    fn a_probe_that_is_abandoned_makes_room_for_another() {
        let breakers = Breakers::default();
        fail(&breakers, FAULTS_MAX, Millis(0));
        let later = Millis(REST_MS);
        drop(breakers.enter(AT, later).unwrap());
        assert!(breakers.enter(AT, later).is_ok());
    }
}
