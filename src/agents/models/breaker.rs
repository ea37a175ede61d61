//! Breaker: a server that fails again and again is left alone for a while.
//!
//! ```text
//! closed ──(FAULTS_MAX in a row)──► open ──(REST_MS later)──► probing ──well──► closed
//!                                    ▲                            └────ill────► open
//! ```
//!
//! One circuit for each address, shared by all runs: what one has found out, the others need not.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::kernel::Millis;

/// One bad moment is none; a retry or two of one attempt must not open the circuit for all.
const FAULTS_MAX: u32 = 5;
/// Long enough for a restart, short enough that nobody looks for us.
const REST_MS: u64 = 15_000;
/// Addresses come from workflow files; more than these are not kept in mind.
const ADDRESSES_MAX: usize = 1_024;

/// The circuits of all addresses.
#[derive(Debug, Default)]
pub(super) struct Breakers {
    states: Mutex<HashMap<String, State>>,
}

/// A circuit that is not simply well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Failing { faults: u32 },
    Open { until: Millis },
    Probing,
}

impl Breakers {
    /// Asks to pass; how long to wait otherwise.
    pub(super) fn enter(&self, address: &str, now: Millis) -> Result<Passage<'_>, u64> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let passage = |is_probe| Passage { breakers: self, address: address.to_owned(), is_probe };
        match states.get_mut(address) {
            None | Some(State::Failing { .. }) => Ok(passage(false)),
            Some(State::Probing) => Err(REST_MS),
            Some(State::Open { until }) if *until > now => Err(until.since(now)),
            Some(state) => {
                *state = State::Probing;
                Ok(passage(true))
            }
        }
    }

    /// The server at `address` failed once more.
    pub(super) fn ill(&self, address: &str, now: Millis) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if states.len() >= ADDRESSES_MAX && !states.contains_key(address) {
            return;
        }
        let open = State::Open { until: now.plus(REST_MS) };
        let next = match states.get(address) {
            None => State::Failing { faults: 1 },
            Some(State::Failing { faults }) if faults + 1 < FAULTS_MAX => {
                State::Failing { faults: faults + 1 }
            }
            Some(State::Failing { .. } | State::Open { .. } | State::Probing) => open,
        };
        states.insert(address.to_owned(), next);
    }

    fn well(&self, address: &str) {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).remove(address);
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
        self.breakers.well(&self.address);
    }

    /// The server failed.
    pub(super) fn ill(mut self, now: Millis) {
        self.is_probe = false;
        self.breakers.ill(&self.address, now);
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        if !self.is_probe {
            return;
        }
        let mut states = self.breakers.states.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state @ State::Probing) = states.get_mut(&self.address) {
            *state = State::Open { until: Millis(0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "http://model";

    fn fail(breakers: &Breakers, times: u32, now: Millis) {
        for _ in 0..times {
            breakers.enter(AT, now).unwrap().ill(now);
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
        assert_eq!(breakers.enter(AT, now).unwrap_err(), REST_MS);
        assert!(breakers.enter("http://other", now).is_ok());

        let later = now.plus(REST_MS);
        let probe = breakers.enter(AT, later).unwrap();
        assert!(breakers.enter(AT, later).is_err(), "one probe at a time");
        probe.ill(later);
        assert_eq!(breakers.enter(AT, later).unwrap_err(), REST_MS);
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
