//! The doors: each a translation of the same commands. gRPC, A2A, the HTTP bridge, the console, and the
//! operator's pages.
//!
//! Their laws are D1–D3 of `docs/laws.md`. In short: what was begun at one door goes on at every other (D1);
//! unknown and forbidden look the same (D2); an error says what to do and shows nothing of the inside (D3).

pub mod a2a;
mod asked;
mod audit;
pub mod bridge;
mod brought;
pub mod console;
mod convert;
pub mod envelope;
pub(crate) mod form;
pub mod grpc;
mod halts;
pub mod host;
mod listings;
pub mod on_cancel;
pub mod pages;
mod people;
mod receipts;
mod replicas;
mod resources;
mod status;
mod times;
pub mod webhook;
pub mod words;

use http::{HeaderMap, HeaderValue, header};
use tokio::sync::watch;

use crate::kernel::{Millis, Principal, Refusal};

/// What a caller said in a field that is empty where they said nothing.
fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// The header, and the metadata, by which a service says for whom it speaks.
pub const ON_BEHALF_OF: &str = "x-holdpoint-on-behalf-of";
/// The header, and the metadata, that names the run of a call that has done something.
pub const RUN_ID: &str = "x-holdpoint-run-id";

/// What a caller shows of who it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shown<'a> {
    /// Its secret.
    pub bearer: Option<&'a str>,
    /// The person it speaks for, if it says so. One that cannot be read is nobody's name, never none.
    pub on_behalf_of: Option<&'a str>,
}

impl<'a> Shown<'a> {
    /// What the headers of a request show.
    pub fn of(headers: &'a HeaderMap) -> Self {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let mut named = headers.get_all(ON_BEHALF_OF).iter();
        let first = named.next();
        let text = |value: &'a HeaderValue| value.to_str().unwrap_or_default().trim();
        // Two of them are nobody: nobody could say which is meant (K7).
        let on_behalf_of = if named.next().is_some() { Some("") } else { first.map(text) };
        Self { bearer: bearer.and_then(of_scheme), on_behalf_of }
    }
}

/// The secret behind `Bearer`, however that is written (RFC 9110, 11.1).
fn of_scheme(value: &str) -> Option<&str> {
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim_start_matches(' '))
}

/// Whether a member of a call is called like the digest of what was shown, however it is written. Where such a one is not
/// read it is refused, at every door: it was meant for something (K7).
fn is_like_digest(name: &str) -> bool {
    ["digest", "digests"].contains(&name.to_lowercase().as_str())
}

/// Who a caller is, by the secret that it shows.
pub trait Doorkeeper: Send + Sync + std::fmt::Debug {
    /// The principal behind what is `shown`, coming through `door`; a refusal where a key is wanted and
    /// none, or an unknown one, is shown.
    fn admit(&self, shown: Shown<'_>, door: &'static str) -> Result<Principal, Refusal>;

    /// Whether nobody is admitted without a key.
    fn wants_key(&self) -> bool;

    /// A pass that stands for the key in `bearer` until `until`: what a browser keeps instead.
    fn pass(&self, bearer: &str, until: Millis) -> Result<String, Refusal>;

    /// The principal behind a pass at `now`, coming through `door`.
    fn admit_pass(&self, pass: &str, now: Millis, door: &'static str)
    -> Result<Principal, Refusal>;

    /// Whether the principal behind a pass that was admitted still is; one that cannot say admits nobody.
    fn still_admits_pass(&self, _pass: &str) -> bool {
        false
    }

    /// Makes a pass worth nothing from now on: its person has signed out.
    fn void_pass(&self, _pass: &str, _now: Millis) {}

    /// Whether it admits for ever whom it admits once: then there are no `changes`.
    fn is_constant(&self) -> bool {
        true
    }

    /// Told whenever somebody who was admitted may no longer be; nothing, where that never happens.
    fn changes(&self) -> Option<watch::Receiver<()>> {
        None
    }

    /// What is wrong with what it knows people by, if anything is.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// A message's weight on the wire: an input and its envelope, with room to spare.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::of_scheme;

    #[test]
    fn a_scheme_is_known_however_it_is_written_and_another_shows_nothing() {
        for shown in ["Bearer hp_1", "bearer hp_1", "BEARER   hp_1"] {
            assert_eq!(of_scheme(shown), Some("hp_1"), "{shown}");
        }
        for other in ["Basic hp_1", "Bearerhp_1", "hp_1", ""] {
            assert_eq!(of_scheme(other), None, "{other}");
        }
    }
}
