//! Post: one POST to a listener outside, guarded and bounded. What it says, and when it is tried
//! again, is not known here.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use crate::agents::tools::guard::{self, AllowPrivate};
use crate::agents::tools::web::{Outgoing, Trouble, Web};
use crate::ports::Undelivered;

/// What a listener answers is not read beyond its status.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// A URL that is longer is no address.
const URL_BYTES_MAX: usize = 2_048;
/// What stands for every host.
const EVERY: &str = "*";

/// Posts to listeners.
#[derive(Debug)]
pub struct HttpPoster {
    web: Result<Web, String>,
    allow: AllowPrivate,
}

impl HttpPoster {
    /// A postman who goes to the public internet, and to these hosts; `*` is any.
    pub fn new(allow: &[String]) -> Self {
        let allow = if allow.iter().any(|host| host == EVERY) {
            AllowPrivate::All(true)
        } else {
            AllowPrivate::Hosts(allow.to_vec())
        };
        Self { web: Web::shared(), allow }
    }

    /// What is wrong with an address, as far as it can be seen without asking anybody.
    pub fn check(&self, url: &str) -> Result<(), String> {
        let parsed = (url.len() <= URL_BYTES_MAX).then(|| Url::parse(url).ok()).flatten();
        let is_web = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        let Some(url) = parsed.filter(is_web) else {
            return Err("expected a http:// or https:// URL".into());
        };
        if self.allow.allows(url.host_str().unwrap_or_default()) {
            return Ok(());
        }
        let is_local = url.host_str().is_some_and(|host| {
            host.eq_ignore_ascii_case("localhost")
                || host.to_ascii_lowercase().ends_with(".localhost")
        });
        if is_local {
            return Err("`localhost` is not on the public internet".into());
        }
        guard::check_literal(&url).map_err(|private| private.to_string())
    }

    /// Posts `body`. `is_ours` if the operator named the address, who may name any.
    pub async fn post(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
        is_ours: bool,
    ) -> Result<(), Undelivered> {
        let lasting = |problem: String| Undelivered { problem, is_final: true };
        let passing = |problem: String| Undelivered { problem, is_final: false };
        let web = self.web.as_ref().map_err(|error| passing(error.clone()))?;
        let url = Url::parse(url).map_err(|_| lasting("its address is none".into()))?;
        let mut named = HeaderMap::new();
        for (name, value) in headers {
            let mut value = HeaderValue::from_str(value)
                .map_err(|_| lasting(format!("no header can carry its `{name}`")))?;
            value.set_sensitive(true);
            named.insert(HeaderName::from_static(name), value);
        }
        let request = Outgoing {
            method: reqwest::Method::POST,
            url,
            headers: named,
            travelling: HeaderMap::new(),
            body: Some(body),
            stays: false,
        };
        let any = AllowPrivate::All(true);
        let allow = if is_ours { &any } else { &self.allow };
        match web.exchange(request, allow, ANSWER_BYTES_MAX).await {
            Ok(answer) if answer.status.is_success() => Ok(()),
            Ok(answer) if answer.status.as_u16() == 410 => {
                Err(lasting("it says that it is gone".into()))
            }
            Ok(answer) => {
                Err(passing(format!("it answered with status {}", answer.status.as_u16())))
            }
            // It has answered; how much it had to say does not matter.
            Err((Trouble::TooLarge(_), _)) => Ok(()),
            Err((trouble @ Trouble::Private(_), _)) => Err(lasting(trouble.to_string())),
            Err((
                trouble @ (Trouble::Unreachable(_) | Trouble::Lost(_) | Trouble::Redirect(_)),
                _,
            )) => Err(passing(trouble.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_and_those_that_are_allowed_are_taken() {
        let postman = HttpPoster::new(&["intranet.local".into()]);
        for good in ["https://hooks.example/a", "http://intranet.local:8080/x"] {
            assert_eq!(postman.check(good), Ok(()), "{good}");
        }
        for bad in [
            "http://127.0.0.1/",
            "http://localhost:1/",
            "http://a.localhost/",
            "http://169.254.169.254/latest",
            "http://[::1]/",
            "http://2130706433/",
            "ftp://hooks.example/",
            "hooks.example",
            "",
        ] {
            assert!(postman.check(bad).is_err(), "{bad}");
        }
        assert_eq!(HttpPoster::new(&["*".into()]).check("http://127.0.0.1/"), Ok(()));
    }
}
