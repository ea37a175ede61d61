//! Memory: what a browser remembers for the person at it: which questions they have opened, and which they put off.
//! It is kept in cookies of the browser's own, for one person, and only says what pages offer: whether an answer is taken
//! is decided without it.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, header};

use crate::kernel::{Millis, Question, RequestId, digest};

/// Questions that were opened: the newest of them.
const OPENED: &str = "holdpoint_opened";
/// Questions that were put off, and until when.
const LATER: &str = "holdpoint_later";
/// Entries of each: more would not fit into a cookie.
const ENTRIES_MAX: usize = 60;
/// Digits of a digest that tell whether something else is asked by now.
const DIGEST_CHARS: usize = 12;
/// How long either is kept: a working week.
const SECONDS: u32 = 7 * 86_400;

/// What a browser remembers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Memory {
    /// Whose memory it is: another person at the same browser has none.
    whose: String,
    opened: Vec<(String, String)>,
    later: Vec<(String, Millis)>,
}

impl Memory {
    /// What the browser of `who` shows of it.
    pub(super) fn of(headers: &HeaderMap, who: &str) -> Self {
        let mut whose = digest::of_bytes(who.as_bytes());
        whose.truncate(8);
        let entries = |name: &str| -> Vec<(String, String)> {
            let value = cookie(headers, name).unwrap_or_default();
            let own = value.strip_prefix(whose.as_str()).and_then(|rest| rest.strip_prefix('.'));
            let pairs = own.unwrap_or_default().split('~').filter_map(|pair| pair.split_once('.'));
            pairs.take(ENTRIES_MAX).map(|(id, said)| (id.to_owned(), said.to_owned())).collect()
        };
        let until = |(id, until): (String, String)| {
            u64::from_str_radix(&until, 16).ok().map(|seconds| (id, Millis(seconds * 1_000)))
        };
        let later = entries(LATER).into_iter().filter_map(until).collect();
        Self { opened: entries(OPENED), later, whose }
    }

    /// Whether exactly this was opened.
    pub(super) fn has_opened(&self, id: &RequestId, question: &Question) -> bool {
        let (id, digest) = entry(id, question);
        self.opened.iter().any(|(known, shown)| *known == id && *shown == digest)
    }

    /// Until when a question was put off, where that is not over.
    pub(super) fn later(&self, id: &RequestId, now: Millis) -> Option<Millis> {
        let id = short(id);
        let until = self.later.iter().find(|(known, _)| *known == id).map(|(_, until)| *until);
        until.filter(|until| *until > now)
    }

    /// The same browser, once it has opened a question.
    pub(super) fn open(
        &self,
        id: &RequestId,
        question: &Question,
        response: Response<Body>,
    ) -> Response<Body> {
        if self.has_opened(id, question) {
            return response;
        }
        let one = entry(id, question);
        let others = self.opened.iter().filter(|(known, _)| *known != one.0).cloned();
        let entries: Vec<_> = [one.clone()].into_iter().chain(others).collect();
        self.kept(OPENED, entries, response)
    }

    /// The same browser, once it has put a question off until then; or no longer.
    pub(super) fn put_off(
        &self,
        id: &RequestId,
        (until, now): (Option<Millis>, Millis),
        response: Response<Body>,
    ) -> Response<Body> {
        let id = short(id);
        let others = self.later.iter().filter(|(known, at)| *known != id && *at > now).cloned();
        let own = until.map(|until| (id.clone(), until));
        let spelled = |(id, until): (String, Millis)| (id, format!("{:x}", until.0 / 1_000));
        self.kept(LATER, own.into_iter().chain(others).map(spelled).collect(), response)
    }

    fn kept(
        &self,
        name: &str,
        entries: Vec<(String, String)>,
        mut response: Response<Body>,
    ) -> Response<Body> {
        let entries = entries.into_iter().take(ENTRIES_MAX);
        let entries: Vec<_> = entries.map(|(id, said)| format!("{id}.{said}")).collect();
        let (whose, entries) = (&self.whose, entries.join("~"));
        let cookie = format!(
            "{name}={whose}.{entries}; Path=/console; Max-Age={SECONDS}; HttpOnly; SameSite=Strict"
        );
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
        response
    }
}

fn short(id: &RequestId) -> String {
    let id = id.to_string();
    id.strip_prefix("req_").map_or_else(|| id.clone(), str::to_owned)
}

fn entry(id: &RequestId, question: &Question) -> (String, String) {
    (short(id), question.digest.chars().take(DIGEST_CHARS).collect())
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';'));
    pairs.find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Kind, Origin};

    fn id(n: u32) -> RequestId {
        RequestId::parse(&format!("req_01k9zq3v7m8n4p5r6s7t8v9w0x-{n:04}-80x5jdy6")).unwrap()
    }

    fn question(digest: &str) -> Question {
        let mut question = Question::bare(Kind::Approval, Origin::HumanStep);
        question.digest = digest.repeat(64);
        question
    }

    fn told(response: &Response<Body>) -> HeaderMap {
        let set = response.headers().get(header::SET_COOKIE).unwrap().to_str().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, set.split(';').next().unwrap().parse().unwrap());
        headers
    }

    #[test]
    fn a_browser_remembers_what_was_opened_for_one_person_alone() {
        let none = Memory::of(&HeaderMap::new(), "ada");
        let headers = told(&none.open(&id(1), &question("a"), Response::default()));
        let ada = Memory::of(&headers, "ada");
        assert!(ada.has_opened(&id(1), &question("a")));
        assert!(!ada.has_opened(&id(1), &question("b")), "something else is asked by now");
        assert!(!ada.has_opened(&id(2), &question("a")));
        assert!(!Memory::of(&headers, "bob").has_opened(&id(1), &question("a")));
        let same = ada.open(&id(1), &question("a"), Response::default());
        assert!(same.headers().is_empty(), "nothing new to remember");
    }

    #[test]
    fn what_was_put_off_comes_back_by_itself_and_a_cookie_stays_small() {
        let mut memory = Memory::of(&HeaderMap::new(), "ada");
        for n in 1..=200 {
            let until = (Some(Millis(1_000_000)), Millis(0));
            memory = Memory::of(&told(&memory.put_off(&id(n), until, Response::default())), "ada");
        }
        assert_eq!(memory.later(&id(200), Millis(999_000)), Some(Millis(1_000_000)));
        assert_eq!(memory.later(&id(200), Millis(1_000_000)), None);
        assert_eq!(memory.later(&id(1), Millis(0)), None, "the oldest are forgotten");
        let response = memory.put_off(&id(200), (None, Millis(0)), Response::default());
        let cookie = response.headers().get(header::SET_COOKIE).unwrap();
        assert!(cookie.len() < 4_000, "{}", cookie.len());
        assert_eq!(Memory::of(&told(&response), "ada").later(&id(200), Millis(0)), None);
    }

    #[test]
    fn a_cookie_that_is_none_remembers_nothing() {
        for wrong in ["holdpoint_opened=x", "holdpoint_later=....~~~.zz", "holdpoint_opened="] {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, wrong.parse().unwrap());
            assert!(Memory::of(&headers, "ada").opened.is_empty(), "{wrong}");
        }
    }
}
