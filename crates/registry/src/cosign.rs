//! Cosign signatures, as they stand under a tag and in a bundle: [`PublicKey`].
//!
//! Written here and not taken from the `sigstore` crate: what is asked is whether one given key signed one
//! digest. That is one ECDSA verification and two JSON documents; the crate brings clients of Fulcio, Rekor
//! and TUF, for signatures without keys.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use p256::ecdsa::{Signature, VerifyingKey, signature::Verifier as _};
use serde_json::Value;

use crate::error::{Error, Result};

/// What cosign writes around a public key of P-256 before its 65 bytes.
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The key that an artifact must be signed with: `cosign.pub`, as `cosign generate-key-pair` makes it (ECDSA, P-256).
#[derive(Debug, Clone)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Reads PEM.
    ///
    /// # Errors
    /// When it is no public key of P-256.
    pub fn from_pem(pem: &str) -> Result<Self> {
        let bad = || {
            Error::invalid(
                "the cosign key is not an ECDSA P-256 public key in PEM form (\"-----BEGIN PUBLIC \
                 KEY-----\")",
            )
        };
        let body = pem
            .trim()
            .strip_prefix("-----BEGIN PUBLIC KEY-----")
            .and_then(|rest| rest.strip_suffix("-----END PUBLIC KEY-----"))
            .ok_or_else(bad)?;
        let body: String = body.split_ascii_whitespace().collect();
        let der = STANDARD.decode(body).map_err(|_| bad())?;
        let point = der.strip_prefix(&P256_PREFIX[..]).ok_or_else(bad)?;
        VerifyingKey::from_sec1_bytes(point).map(Self).map_err(|_| bad())
    }

    /// Whether `signature` (base64 of DER) is this key's over a payload that names `digest` (`sha256:…`).
    pub(crate) fn verifies(&self, payload: &[u8], signature: &str, digest: &str) -> bool {
        let Ok(signature) = STANDARD.decode(signature.trim()) else { return false };
        let Ok(signature) = Signature::from_der(&signature) else { return false };
        self.0.verify(payload, &signature).is_ok() && names(payload, digest)
    }
}

/// What a bundle's statement must be about.
const STATEMENT: &str = "https://in-toto.io/Statement/";
pub(crate) const PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";

impl PublicKey {
    /// Whether a bundle (JSON) holds a signature by this key of a statement about `digest` (`sha256:…`).
    ///
    /// After the bundle format of Sigstore and the envelope of DSSE: what is signed is the statement together with its type.
    pub(crate) fn verifies_bundle(&self, bundle: &[u8], digest: &str) -> bool {
        let Ok(bundle) = serde_json::from_slice::<Value>(bundle) else { return false };
        let Some(envelope) = bundle.get("dsseEnvelope") else { return false };
        let text = |key: &str| envelope.get(key).and_then(Value::as_str);
        let (Some(payload), Some(kind)) = (text("payload"), text("payloadType")) else { return false };
        let Ok(payload) = STANDARD.decode(payload) else { return false };
        let signed = pre_authentication_encoding(kind, &payload);
        let signatures = envelope.get("signatures").and_then(Value::as_array).into_iter().flatten();
        let by_this_key = signatures.take(SIGNATURES).any(|signature| {
            let Some(signature) = signature.get("sig").and_then(Value::as_str) else { return false };
            let Ok(signature) = STANDARD.decode(signature) else { return false };
            Signature::from_der(&signature).is_ok_and(|signature| self.0.verify(&signed, &signature).is_ok())
        });
        by_this_key && states(&payload, digest)
    }
}

/// Signatures of one envelope that are tried.
const SIGNATURES: usize = 16;

/// `DSSEv1 LENGTH TYPE LENGTH PAYLOAD`, by the protocol of DSSE.
fn pre_authentication_encoding(kind: &str, payload: &[u8]) -> Vec<u8> {
    let mut signed = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    signed.extend_from_slice(payload);
    signed
}

/// The statement is cosign's signature, and one of its subjects has this digest.
fn states(payload: &[u8], digest: &str) -> bool {
    let Ok(statement) = serde_json::from_slice::<Value>(payload) else { return false };
    let text = |key: &str| statement.get(key).and_then(Value::as_str).unwrap_or_default();
    let subjects = statement.get("subject").and_then(Value::as_array).into_iter().flatten();
    text("_type").starts_with(STATEMENT)
        && text("predicateType") == PREDICATE
        && subjects
            .filter_map(|subject| subject.pointer("/digest/sha256").and_then(Value::as_str))
            .any(|hex| digest.strip_prefix("sha256:") == Some(hex))
}

/// The payload is cosign's and names this digest: a good signature of something else is none.
fn names(payload: &[u8], digest: &str) -> bool {
    let Ok(payload) = serde_json::from_slice::<Value>(payload) else { return false };
    let text = |pointer: &str| payload.pointer(pointer).and_then(Value::as_str);
    text("/critical/type") == Some("cosign container image signature")
        && text("/critical/image/docker-manifest-digest") == Some(digest)
}

#[cfg(test)]
mod tests {
    use p256::ecdsa::{SigningKey, signature::Signer as _};

    use super::*;

    fn keys() -> (SigningKey, String) {
        let signing = SigningKey::from_slice(&[7; 32]).unwrap();
        let mut der = P256_PREFIX.to_vec();
        der.extend_from_slice(signing.verifying_key().to_sec1_point(false).as_bytes());
        (signing, format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der)))
    }

    #[test]
    fn only_this_keys_signature_of_this_digest_counts() {
        let (signing, pem) = keys();
        let key = PublicKey::from_pem(&pem).unwrap();
        let payload = br#"{"critical":{"identity":{},"image":{"docker-manifest-digest":"sha256:aa"},"type":"cosign container image signature"},"optional":null}"#;
        let sign = |payload: &[u8]| {
            let signature: Signature = signing.sign(payload);
            STANDARD.encode(signature.to_der())
        };
        let signature = sign(payload);
        assert!(key.verifies(payload, &signature, "sha256:aa"));
        assert!(!key.verifies(payload, &signature, "sha256:bb"), "another digest");
        assert!(!key.verifies(b"{}", &sign(b"{}"), "sha256:aa"), "signed, but no payload of cosign");
        let mut other = payload.to_vec();
        other.push(b' ');
        assert!(!key.verifies(&other, &signature, "sha256:aa"), "changed");
        for bad in ["", "%%%", "AAAA"] {
            assert!(!key.verifies(payload, bad, "sha256:aa"));
        }
        for bad in ["", "key", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"] {
            assert!(PublicKey::from_pem(bad).is_err());
        }
    }

    #[test]
    fn a_bundle_counts_when_this_key_signed_its_statement_of_this_digest() {
        let (signing, pem) = keys();
        let key = PublicKey::from_pem(&pem).unwrap();
        let kind = "application/vnd.in-toto+json";
        let bundle = |statement: &Value, sign_as: &str| {
            let payload = statement.to_string();
            let signature: Signature =
                signing.sign(&pre_authentication_encoding(sign_as, payload.as_bytes()));
            serde_json::json!({
                "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
                "verificationMaterial": {"publicKey": {"hint": "x"}},
                "dsseEnvelope": {
                    "payload": STANDARD.encode(&payload), "payloadType": kind,
                    "signatures": [{"sig": "AAAA"}, {"sig": STANDARD.encode(signature.to_der())}],
                },
            })
            .to_string()
        };
        let statement = |predicate: &str| {
            serde_json::json!({
                "_type": "https://in-toto.io/Statement/v1", "predicateType": predicate, "predicate": {},
                "subject": [{"digest": {"sha256": "aa"}}],
            })
        };
        let good = bundle(&statement(PREDICATE), kind);
        assert!(key.verifies_bundle(good.as_bytes(), "sha256:aa"));
        assert!(!key.verifies_bundle(good.as_bytes(), "sha256:bb"), "another digest");
        let other = PublicKey::from_pem(&{
            let other = SigningKey::from_slice(&[8; 32]).unwrap();
            let mut der = P256_PREFIX.to_vec();
            der.extend_from_slice(other.verifying_key().to_sec1_point(false).as_bytes());
            format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
        });
        assert!(!other.unwrap().verifies_bundle(good.as_bytes(), "sha256:aa"), "another key");
        let test_result = bundle(&statement("https://in-toto.io/attestation/test-result/v0.1"), kind);
        assert!(
            !key.verifies_bundle(test_result.as_bytes(), "sha256:aa"),
            "an attestation, but no signature"
        );
        let other_kind = bundle(&statement(PREDICATE), "text/plain");
        assert!(!key.verifies_bundle(other_kind.as_bytes(), "sha256:aa"), "signed as something else");
        for bad in
            ["", "{}", "[]", r#"{"dsseEnvelope":{}}"#, r#"{"dsseEnvelope":{"payload":"","payloadType":""}}"#]
        {
            assert!(!key.verifies_bundle(bad.as_bytes(), "sha256:aa"));
        }
    }
}
