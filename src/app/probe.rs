//! Probe: asks a server how it is, as supervisors and containers do: over plain HTTP, with no key. It looks at
//! no data but where the server says that it listens, and starts nothing.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::app::config::{Origin, masked};
use crate::app::{AppError, Config};
use crate::store;

/// A probe is asked every few seconds, and whoever asks kills what does not answer: it must end before that.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pages of probes are a line, and one for each halt.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// Whether it is alive, and its store takes writes.
    Health,
    /// Whether it takes work.
    Readiness,
}

/// What the server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Whom it was asked of.
    pub server: String,
    /// Whether it is well.
    pub is_well: bool,
    /// In which words.
    pub words: String,
}

/// Whom to ask: the server that is named; else, unless the command line says where it listens, the one that has the data
/// directory, as every other command finds it, and nobody where the command line names that directory and none has it; else
/// the one that these settings would start.
fn whom(config: &Config) -> Result<String, AppError> {
    if let Some(server) = &config.server {
        return Ok(server.clone());
    }
    let is_told = config.origin("listen") == Origin::Flag;
    let found = if is_told { None } else { store::server_of(&config.data) };
    match found {
        Some(address) => Ok(address.parse().map_or_else(|_| format!("http://{address}"), here)),
        // Whoever names a directory asks of that one: another that listens where it might says nothing of it.
        None if !is_told && config.origin("data") == Origin::Flag => {
            let server = format!("the data directory `{}`", config.data.display());
            let source = io::Error::new(io::ErrorKind::NotFound, "no server serves from it");
            Err(AppError::Gone { server, source })
        }
        None => Ok(here(config.listen)),
    }
}

/// Asks a server.
pub async fn ask(config: &Config, probe: Probe) -> Result<Told, AppError> {
    let server = whom(config)?;
    let told = masked(&server);
    let gone = |source| AppError::Gone { server: told.clone(), source };
    let Some(authority) = server.strip_prefix("http://") else {
        return Err(AppError::NoTls(told));
    };
    let authority = authority.trim_end_matches('/');
    let asked = tokio::time::timeout(PATIENCE, get(authority, probe)).await;
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer in five seconds");
    let answer = asked.map_err(late).flatten().map_err(gone)?;
    let (is_well, words) = read(&answer).map_err(gone)?;
    Ok(Told { server: told, is_well, words })
}

/// Where a server that listens there is reached from its own machine: at every address is at none that could be opened.
pub fn here(listen: SocketAddr) -> String {
    let mut address = listen;
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("http://{address}")
}

async fn get(authority: &str, probe: Probe) -> io::Result<String> {
    let has_port = authority.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
    let place = if has_port { authority.to_owned() } else { format!("{authority}:80") };
    let path = match probe {
        Probe::Health => "/healthz",
        Probe::Readiness => "/readyz",
    };
    let mut stream = TcpStream::connect(place).await?;
    let asked = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.write_all(asked.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Whether the answer says that it is well, and in which words.
fn read(answer: &str) -> io::Result<(bool, String)> {
    let strange = || io::Error::other("it answers, but not as Holdpoint does");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(strange)?;
    let mut line = head.split(' ');
    let speaks = line.next().is_some_and(|version| version.starts_with("HTTP/1."));
    match line.next().filter(|_| speaks) {
        Some("200") => Ok((true, body.trim_end().to_owned())),
        Some("503") => Ok((false, body.trim_end().to_owned())),
        Some(_) | None => Err(strange()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_at_every_address_is_opened_at_one() {
        for (listen, opened) in [
            ("0.0.0.0:4653", "http://127.0.0.1:4653"),
            ("[::]:4653", "http://[::1]:4653"),
            ("192.0.2.7:80", "http://192.0.2.7:80"),
        ] {
            assert_eq!(here(listen.parse().unwrap()), opened);
        }
    }

    #[test]
    fn an_answer_is_well_unwell_or_no_answer_of_ours() {
        let well = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n";
        assert_eq!(read(well).unwrap(), (true, "ok".to_owned()));
        let unwell = "HTTP/1.1 503 Service Unavailable\r\n\r\ndraining\n";
        assert_eq!(read(unwell).unwrap(), (false, "draining".to_owned()));
        for strange in ["", "HTTP/1.1 404 Not Found\r\n\r\n", "SSH-2.0\r\n\r\n", "HTTP/1.1 200 OK"]
        {
            assert!(read(strange).is_err(), "{strange}");
        }
    }
}
