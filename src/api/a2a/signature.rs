//! Signature: a card signed with the server's own key, so that whoever keeps the public half knows that
//! nobody has changed the card on its way.
//!
//! A detached JWS (RFC 7515) over the canonical JSON (RFC 8785) of the card without its signatures and
//! without what is empty, as the protocol and its SDKs have it. The public half is served as a key set.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::kernel::digest;
use crate::wire::a2a::CardSignature;

/// Signs cards.
pub struct Signer {
    key: Key,
    /// The thumbprint of the public key (RFC 7638).
    id: String,
    /// The public key.
    public: Value,
}

enum Key {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// Why a key signs no cards.
#[derive(Debug, thiserror::Error)]
#[error("expected a private key on P-256 or Ed25519, as PKCS#8 in PEM")]
pub struct NoKey;

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Signer {
    /// The signer with the private key in `pem`.
    pub fn read(pem: &[u8]) -> Result<Self, NoKey> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_| NoKey)?;
        let der = der.secret_pkcs8_der();
        let random = SystemRandom::new();
        let p256 = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random);
        let key = match p256 {
            Ok(key) => Key::P256(key),
            // Without its public half, as OpenSSL writes it, there is nothing to check it against.
            Err(_) => {
                Key::Ed25519(Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map_err(|_| NoKey)?)
            }
        };
        let public = match &key {
            Key::P256(key) => {
                // An uncompressed point: a byte that says so, then both coordinates.
                let point = key.public_key().as_ref();
                let (x, y) = point.get(1..).unwrap_or_default().split_at(32);
                json!({"crv": "P-256", "kty": "EC", "x": encoded(x), "y": encoded(y)})
            }
            Key::Ed25519(key) => {
                json!({"crv": "Ed25519", "kty": "OKP", "x": encoded(key.public_key().as_ref())})
            }
        };
        let id = encoded(&Sha256::digest(digest::canonical(&public)));
        Ok(Self { key, id, public })
    }

    fn algorithm(&self) -> &'static str {
        match self.key {
            Key::P256(_) => "ES256",
            Key::Ed25519(_) => "EdDSA",
        }
    }

    /// The public key, in a set of its own.
    pub(super) fn keys(&self) -> Value {
        let mut key = self.public.clone();
        key["kid"] = json!(self.id);
        key["alg"] = json!(self.algorithm());
        key["use"] = json!("sig");
        json!({"keys": [key]})
    }

    /// The signature of a card. `keys` is where the public key is.
    pub(super) fn sign(&self, card: &Value, keys: &str) -> Option<CardSignature> {
        let header = json!({"alg": self.algorithm(), "typ": "JOSE", "kid": self.id, "jku": keys});
        let header = encoded(header.to_string().as_bytes());
        let payload = encoded(&digest::canonical(&payload(card)));
        let signed = format!("{header}.{payload}");
        let signature = match &self.key {
            Key::P256(key) => {
                encoded(key.sign(&SystemRandom::new(), signed.as_bytes()).ok()?.as_ref())
            }
            Key::Ed25519(key) => encoded(key.sign(signed.as_bytes()).as_ref()),
        };
        Some(CardSignature { protected: header, signature })
    }
}

/// What of a card is signed: all but the signatures, and nothing that is empty.
fn payload(card: &Value) -> Value {
    let mut card = card.clone();
    if let Some(fields) = card.as_object_mut() {
        fields.shift_remove("signatures");
    }
    filled(card).unwrap_or_else(|| json!({}))
}

/// A value without what is empty in it; nothing if nothing is left.
fn filled(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        Value::Array(items) => {
            let items: Vec<_> = items.into_iter().filter_map(filled).collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        Value::Object(fields) => {
            let fields =
                fields.into_iter().filter_map(|(name, value)| Some((name, filled(value)?)));
            let fields: Map<_, _> = fields.collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(value),
    }
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example key of RFC 8037, appendix A, whose thumbprint the RFC tells.
    const RFC_8037: &str = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n\
        -----END PRIVATE KEY-----\n";

    #[test]
    fn the_thumbprint_of_a_known_key_is_the_known_one() {
        let signer = Signer::read(RFC_8037.as_bytes()).unwrap();
        assert_eq!(signer.id, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
        assert_eq!(signer.keys()["keys"][0]["x"], "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
    }

    #[test]
    fn what_is_no_key_is_said_so() {
        for pem in ["", "key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            assert!(Signer::read(pem.as_bytes()).is_err(), "{pem}");
        }
    }

    #[test]
    fn what_is_empty_is_not_signed() {
        let card = json!({"name": "a", "tags": [], "security": [{"schemes": {"bearer": {"list": []}}}],
            "streaming": false, "signatures": [{"protected": "x"}], "description": ""});
        assert_eq!(payload(&card), json!({"name": "a", "streaming": false}));
    }
}
