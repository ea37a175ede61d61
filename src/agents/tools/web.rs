//! Web: one HTTP exchange, guarded and bounded: addresses, redirects, size, time. Knows nothing of
//! tools; says of every trouble whether the request may have been heard.

use std::error::Error as _;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Body, Client, ClientBuilder, Method, Response, StatusCode, redirect};
use rustls::ClientConfig;
use rustls_platform_verifier::ConfigVerifierExt as _;
use url::Url;

use crate::agents::last_look::{Guarded, LastLook};
use crate::agents::tools::guard::{self, AllowPrivate, Private, PublicOnly};
use crate::ports::leave::{self, LATE};

/// Redirects that are followed; a longer way is a loop.
const HOPS_MAX: usize = 5;
/// Time to reach a server at all. A slow one may take its time later.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What is said of a leave that ended after something was sent.
const STOPPED: &str = "a halt stands, or this server may have been taken for dead by the others";

/// What is said of a request that may have been sent without its body.
const HEAD_ONLY: &str = "a halt stands, or this server may have been taken for dead by the others; its body was not sent";

/// A request as it goes out.
#[derive(Debug, Clone)]
pub(in crate::agents) struct Outgoing {
    pub(in crate::agents) method: Method,
    pub(in crate::agents) url: Url,
    /// Headers for the first host alone: they may carry secrets.
    pub(in crate::agents) headers: HeaderMap,
    /// Headers for whoever it is redirected to, too.
    pub(in crate::agents) travelling: HeaderMap,
    pub(in crate::agents) body: Option<Vec<u8>>,
    /// Whether no other host may have it: a person was shown where it goes (K3).
    pub(in crate::agents) stays: bool,
}

/// What came back.
#[derive(Debug)]
pub(in crate::agents) struct Incoming {
    pub(in crate::agents) status: StatusCode,
    /// Whether somebody before had taken the request, and only sent us on to see what came of it.
    pub(in crate::agents) was_taken: bool,
    pub(in crate::agents) is_json: bool,
    pub(in crate::agents) body: Vec<u8>,
}

/// Why nothing came back.
#[derive(Debug, thiserror::Error)]
pub(in crate::agents) enum Trouble {
    #[error("{0}; `allow_private` allows it")]
    Private(String),
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    #[error("the connection was lost: {0}")]
    Lost(String),
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
    #[error("the redirect was not followed: {0}")]
    Redirect(String),
}

impl Trouble {
    fn may_have_been_heard(&self) -> bool {
        match self {
            // Too large: it was done, and the server has said so; only its answer cannot be kept.
            Self::Private(_) | Self::Unreachable(_) | Self::Redirect(_) | Self::TooLarge(_) => {
                false
            }
            Self::Lost(_) => true,
        }
    }
}

/// Clients: one that refuses private addresses, and one for the hosts that a file allows.
#[derive(Debug, Clone)]
pub(in crate::agents) struct Web {
    guarded: Client,
    open: Client,
}

impl Web {
    /// The same clients for all of the process, since they keep no connections: whom the machine trusts is read off
    /// its disk, which took a fifth of a start where each of them read it for itself.
    pub(in crate::agents) fn shared() -> Result<Self, String> {
        static SHARED: OnceLock<Result<Web, String>> = OnceLock::new();
        SHARED.get_or_init(Self::new).clone()
    }

    fn new() -> Result<Self, String> {
        use_ring();
        let mut tls = ClientConfig::with_platform_verifier().map_err(|error| error.to_string())?;
        tls.alpn_protocols = vec!["h2".into(), "http/1.1".into()];
        let builder = || {
            Client::builder()
                .user_agent(concat!("holdpoint/", env!("CARGO_PKG_VERSION")))
                .redirect(redirect::Policy::none())
                .connect_timeout(CONNECT_TIMEOUT)
                // A kept connection may be dead by the time of the next call, and then nobody knows
                // whether that call was heard.
                .pool_max_idle_per_host(0)
                .tls_backend_preconfigured(tls.clone())
                .connector_layer(LastLook)
        };
        let built = |builder: ClientBuilder| builder.build().map_err(|error| error.to_string());
        // A proxy would resolve the name itself, behind the guard's back.
        let guarded = built(builder().no_proxy().dns_resolver(PublicOnly))?;
        Ok(Self { guarded, open: built(builder())? })
    }

    /// The client for a URL, if it may be reached at all.
    pub(in crate::agents) fn client(
        &self,
        url: &Url,
        allow: &AllowPrivate,
    ) -> Result<&Client, Trouble> {
        if allow.allows(url.host_str().unwrap_or_default()) {
            return Ok(&self.open);
        }
        guard::check_literal(url).map_err(|private| Trouble::Private(private.to_string()))?;
        Ok(&self.guarded)
    }

    /// One exchange, redirects included. With a trouble goes whether the request may have been heard.
    pub(in crate::agents) async fn exchange(
        &self,
        mut request: Outgoing,
        allow: &AllowPrivate,
        bytes_max: usize,
    ) -> Result<Incoming, (Trouble, bool)> {
        let (mut was_heard, mut was_taken) = (false, false);
        for hop in 0..=HOPS_MAX {
            if hop > 0 {
                // What was known when this began is old by now; the connection is made by what is true then.
                leave::still_holds().await;
            }
            let of = |trouble: Trouble| {
                let may_have_happened = was_heard || trouble.may_have_been_heard();
                (if was_heard { beyond(trouble) } else { trouble }, may_have_happened)
            };
            let client = self.client(&request.url, allow).map_err(of)?;
            let mut sending = client
                .request(request.method.clone(), request.url.clone())
                .headers(request.headers.clone())
                .headers(request.travelling.clone());
            if let Some(body) = &request.body {
                sending = sending.body(Body::wrap(Guarded::new(body.clone())));
            }
            let sent = sending.send().await;
            let response = sent.map_err(|error| of(unless_late(&request.url, trouble(&error))))?;
            // Whoever sends on has read all of it, and who knows what they did: what is not heard there is no reason to
            // send it here again, followed or not. What changes nothing may be asked for as often as one likes.
            let matters = request.stays || !request.method.is_safe();
            let is_heard = was_heard || matters;
            let next = redirected(&request, &response).map_err(|trouble| (trouble, is_heard))?;
            let Some(next) = next else {
                let mut incoming = taken(response, bytes_max).await.map_err(of)?;
                incoming.was_taken = was_taken;
                return Ok(incoming);
            };
            was_heard = is_heard;
            // By this one says that it is done, and where one may look at it.
            was_taken |= matters && response.status() == StatusCode::SEE_OTHER;
            request = next;
        }
        Err((Trouble::Redirect(format!("there were more than {HOPS_MAX}")), was_heard))
    }
}

/// TLS is rustls with ring, everywhere; who comes first chooses it for the process.
fn use_ring() {
    static CHOSEN: Once = Once::new();
    CHOSEN.call_once(|| {
        // An error means that somebody has chosen before, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
}

/// The same of a request that somebody had read, and had sent on.
fn beyond(trouble: Trouble) -> Trouble {
    let Trouble::Unreachable(why) = trouble else { return trouble };
    let why = if why == LATE { STOPPED } else { why.as_str() };
    Trouble::Lost(format!("it was sent on by a redirect, and came to nobody there: {why}"))
}

/// The same of a request whose leave ended before its body was written. Over HTTP/1 its head waits for the body, and
/// nothing was sent. HTTP/2, which comes with TLS alone, may have sent the head, and who knows what somebody does by that.
fn unless_late(url: &Url, trouble: Trouble) -> Trouble {
    if !matches!(&trouble, Trouble::Lost(why) if why == LATE) {
        return trouble;
    }
    if url.scheme() == "https" {
        Trouble::Lost(HEAD_ONLY.into())
    } else {
        Trouble::Unreachable(LATE.into())
    }
}

/// Where a response sends us: the next request, or nowhere.
fn redirected(request: &Outgoing, response: &Response) -> Result<Option<Outgoing>, Trouble> {
    let status = response.status();
    let keeps_method = matches!(status.as_u16(), 307 | 308);
    if !keeps_method && !matches!(status.as_u16(), 301..=303) {
        return Ok(None);
    }
    let refused = |why: String| Err(Trouble::Redirect(why));
    let location = response.headers().get(LOCATION).and_then(|place| place.to_str().ok());
    let Some(url) = location.and_then(|place| request.url.join(place).ok()) else {
        return refused(format!("status {} names no place", status.as_u16()));
    };
    if !matches!(url.scheme(), "http" | "https") {
        return refused(format!("`{}:` is not HTTP", url.scheme()));
    }
    if request.url.scheme() == "https" && url.scheme() == "http" {
        return refused("it leads from HTTPS to HTTP".into());
    }
    if request.stays && request.url.origin() != url.origin() {
        let host = url.host_str().unwrap_or_default();
        return refused(format!("it leads to `{host}`, and this call goes to one host alone"));
    }
    let mut next = request.clone();
    if request.url.origin() != url.origin() {
        next.headers.clear();
    }
    next.url = url;
    match (keeps_method, status.as_u16(), request.method.is_safe()) {
        (true, ..) | (_, _, true) => Ok(Some(next)),
        (_, 303, _) => {
            (next.method, next.body) = (Method::GET, None);
            next.travelling.remove(CONTENT_TYPE);
            Ok(Some(next))
        }
        // Some would send it again, some would fetch: nobody knows what is meant.
        (..) => refused(format!("status {} to a {}", status.as_u16(), request.method)),
    }
}

async fn taken(mut response: Response, bytes_max: usize) -> Result<Incoming, Trouble> {
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_lowercase();
    let is_json = kind == "application/json" || kind.ends_with("+json");
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| trouble(&error))? {
        if body.len() + chunk.len() > bytes_max {
            return Err(Trouble::TooLarge(bytes_max));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Incoming { status, was_taken: false, is_json, body })
}

/// Whose fault it was, told without the URL: its query may carry secrets.
pub(in crate::agents) fn trouble(error: &reqwest::Error) -> Trouble {
    let mut source = error.source();
    let mut words = Vec::new();
    while let Some(error) = source {
        if let Some(private) = error.downcast_ref::<Private>() {
            return Trouble::Private(private.to_string());
        }
        words.push(error.to_string());
        source = error.source();
    }
    let words = words.pop().unwrap_or_else(|| "no reason is known".into());
    if error.is_connect() || error.is_builder() {
        return Trouble::Unreachable(words);
    }
    Trouble::Lost(words)
}
