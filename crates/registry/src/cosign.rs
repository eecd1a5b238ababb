//! Cosign signatures: [`PublicKey`].

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
                "the cosign key is no ECDSA P-256 public key in PEM form (\"-----BEGIN PUBLIC KEY-----\")",
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
}
