//! Guard: which addresses a tool may reach. What is not on the public internet is refused, after
//! the name was resolved and at every redirect, unless the file allows it.
//!
//! Nobody who talks a model into a URL, and no server that redirects, gets at what only this
//! machine can reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde::Deserialize;

/// Addresses beyond the public internet that a file allows.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(in crate::agents) enum AllowPrivate {
    /// All of them, or none.
    All(bool),
    /// These hosts.
    Hosts(Vec<String>),
}

impl Default for AllowPrivate {
    fn default() -> Self {
        Self::All(false)
    }
}

impl AllowPrivate {
    /// Whether this host may be anywhere.
    pub(in crate::agents) fn allows(&self, host: &str) -> bool {
        match self {
            Self::All(all) => *all,
            Self::Hosts(hosts) => hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host)),
        }
    }
}

/// A place that a file writes out.
#[derive(Debug)]
pub(in crate::agents) struct Place {
    /// Where it is written: a JSON pointer.
    pub(in crate::agents) at: String,
    /// Where it leads.
    pub(in crate::agents) url: url::Url,
    /// What the file allows there.
    pub(in crate::agents) allow: AllowPrivate,
}

impl Place {
    /// Whether the file allows it, wherever it is.
    pub(in crate::agents) fn is_allowed(&self) -> bool {
        self.allow.allows(self.url.host_str().unwrap_or_default())
    }

    /// Whether its name is one of this machine.
    pub(in crate::agents) fn is_here(&self) -> bool {
        let name = self.url.domain().map(|name| name.trim_end_matches('.').to_ascii_lowercase());
        name.is_some_and(|name| name == "localhost" || name.ends_with(".localhost"))
    }
}

/// A host that is not on the public internet.
#[derive(Debug, thiserror::Error)]
#[error("`{host}` is at {address}, which is not on the public internet")]
pub(in crate::agents) struct Private {
    pub(in crate::agents) host: String,
    pub(in crate::agents) address: IpAddr,
}

/// Resolves names, and refuses those of which any address is not public: a name that resolves to
/// both kinds is a trap.
#[derive(Debug)]
pub(in crate::agents) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            match found.iter().find(|address| !is_public(address.ip())) {
                Some(private) => Err(Private { host, address: private.ip() }.into()),
                None => Ok(Box::new(found.into_iter()) as Addrs),
            }
        })
    }
}

/// Refuses a host that is written as an address: such a one is never resolved.
pub(in crate::agents) fn check_literal(url: &url::Url) -> Result<(), Private> {
    let address = match url.host() {
        Some(url::Host::Ipv4(address)) => IpAddr::V4(address),
        Some(url::Host::Ipv6(address)) => IpAddr::V6(address),
        Some(url::Host::Domain(_)) | None => return Ok(()),
    };
    if is_public(address) {
        return Ok(());
    }
    Err(Private { host: url.host_str().unwrap_or_default().to_owned(), address })
}

/// Whether an address is one that anybody on the internet could reach.
pub(in crate::agents) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_protocol = a == 192 && b == 0 && c == 0;
    let is_benchmark = a == 198 && (b == 18 || b == 19);
    let is_reserved = a == 0 || a >= 240;
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || is_shared
        || is_protocol
        || is_benchmark
        || is_reserved)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    // An address that carries another one goes where that one goes.
    if let Some(inner) = carried(address) {
        return is_public_v4(inner);
    }
    let [first, second, ..] = address.segments();
    let is_documentation = first == 0x2001 && second == 0xdb8;
    let is_tunnel = first == 0x2001 && second == 0;
    // Only 2000::/3 is given out to the public.
    first & 0xe000 == 0x2000 && !is_documentation && !is_tunnel
}

/// The IPv4 address in an IPv4-mapped, NAT64 or 6to4 one.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let at = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(at(high, low))
        }
        [0x2002, high, low, ..] => Some(at(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_this_machine_can_reach_is_not_public() {
        for private in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fd00::1",
            "fec0::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in ["1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn a_host_in_any_spelling_of_an_address_is_seen_through() {
        for url in ["http://2130706433/", "http://0x7f.1/", "http://127.1/", "http://[::1]/"] {
            assert!(check_literal(&url::Url::parse(url).unwrap()).is_err(), "{url}");
        }
        check_literal(&url::Url::parse("http://example.com/").unwrap()).unwrap();
    }

    #[tokio::test]
    async fn a_name_of_a_private_address_is_not_resolved() {
        let name: Name = "localhost".parse().unwrap();
        let refused = PublicOnly.resolve(name).await.err().unwrap();
        assert!(refused.downcast_ref::<Private>().is_some(), "{refused}");
    }

    #[test]
    fn a_list_allows_its_hosts_and_no_others() {
        let some = AllowPrivate::Hosts(vec!["intranet.local".into()]);
        assert!(some.allows("Intranet.Local"));
        assert!(!some.allows("localhost"));
        assert!(AllowPrivate::All(true).allows("localhost"));
        assert!(!AllowPrivate::default().allows("localhost"));
    }
}
