//! Address: what stands in the address of a database, and what whoever wrote it wrong is told: of what they got wrong, and of
//! nothing else.

use std::path::PathBuf;
use std::str::FromStr;

/// What the operator says of what the server does with what it has acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It has it on several machines before it answers: a synchronous standby is demanded.
    Replicated,
    /// It has it on its own disk.
    Single,
    /// The platform keeps it, in its own way: nothing but `synchronous_commit` is looked at.
    Platform,
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "replicated" => Ok(Self::Replicated),
            "single" => Ok(Self::Single),
            "platform" => Ok(Self::Platform),
            other => Err(format!("`{other}` is none of `replicated`, `single` and `platform`")),
        }
    }
}

/// How an address looks.
pub(super) const FORM: &str = "it is `postgres://USER:PASSWORD@HOST:PORT/DATABASE`";
/// How signs that mean something in it are written where they mean nothing.
pub(super) const ESCAPES: &str =
    "and of `@ : / ? # %` in a password each is written as `%` and two digits, as in `%40` for `@`";
/// What may stand after `?`.
const OPTIONS: &str =
    "there are `sslmode`, `sslrootcert`, `durability`, `application_name` and `options`";

/// What whoever names a host after `?` is told: it would be one more beside those that stand before the `/`.
const HOSTS: &str = "hosts and ports are named before the `/`, as in `postgres://USER@HOST:5432/DATABASE`, and several as in \
     `a:5432,b:5432`; the directory of a socket stands there, too, with `%2F` for each `/`: `%2Frun%2Fpostgresql`";

/// What is ours in an address.
#[derive(Default)]
pub(super) struct Ours {
    pub(super) roots: Option<PathBuf>,
    pub(super) durability: Option<Durability>,
}

/// Takes out of an address what the driver does not know: our own setting, and the words for checking a
/// certificate, which is always done.
pub(super) fn split(address: &str) -> Result<(String, Ours), String> {
    let mut ours = Ours::default();
    let Some((front, query)) = address.split_once('?') else {
        return Ok((address.to_owned(), ours));
    };
    let mut left = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let [name, value] = [name, value]
            .map(|part| percent_encoding::percent_decode_str(part).decode_utf8_lossy());
        match (&*name, &*value) {
            ("host" | "hostaddr" | "port", _) => return Err(format!("{name}: {HOSTS}")),
            ("sslrootcert", "system") => {}
            ("sslrootcert", path) => ours.roots = Some(PathBuf::from(path)),
            ("sslmode", "verify-full" | "verify-ca") => left.push("sslmode=require".to_owned()),
            ("sslmode", "disable" | "prefer" | "require") => left.push(pair.to_owned()),
            ("sslmode", other) => return Err(format!("sslmode: `{other}` is none of {SSL_MODES}")),
            ("durability", word) => {
                let word = word.parse().map_err(|why| format!("durability: {why}"))?;
                ours.durability = Some(word);
            }
            _ => left.push(pair.to_owned()),
        }
    }
    let left = left.join("&");
    let address = if left.is_empty() { front.to_owned() } else { format!("{front}?{left}") };
    Ok((address, ours))
}

/// What `sslmode` may be.
const SSL_MODES: &str = "`disable`, `prefer`, `require` and `verify-full`";

/// What the driver makes of an address.
pub(super) fn read_by_driver(address: &str) -> Result<tokio_postgres::Config, String> {
    tokio_postgres::Config::from_str(address).map_err(|error| {
        let why = std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
        // What such a sign has cut off is read as something else: what is said of that leads nobody to the password.
        if has_signs(address) {
            format!("{why}; {FORM}, {ESCAPES}")
        } else if why.starts_with("unknown option") || why.starts_with("unterminated parameter") {
            format!("{why}; {OPTIONS}")
        } else if why.starts_with("invalid value") {
            format!("{why}; {FORM}")
        } else {
            format!("{why}; {FORM}, {ESCAPES}")
        }
    })
}

/// Whether there is a sign before the last `@` that means something else than a part of a password: one that was not
/// written as `%` and two digits, most likely.
pub(super) fn has_signs(address: &str) -> bool {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let Some((who, _)) = rest.rsplit_once('@') else { return false };
    who.contains(['@', '/', '?', '#']) || who.matches(':').count() > 1
}

/// Whether there is a `%` in the password as it is written: the sign of another, or itself, which is written `%25`.
pub(super) fn has_percent(address: &str) -> bool {
    let front = address.split('?').next().unwrap_or(address);
    let rest = front.split_once("://").map_or(front, |(_, rest)| rest);
    let password = rest.rsplit_once('@').and_then(|(who, _)| who.split_once(':'));
    password.is_some_and(|(_, password)| password.contains('%'))
}
