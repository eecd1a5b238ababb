//! Private keys: RSA, ECDSA on P-256, Ed25519.

use p256::{
    ecdsa::{Signature, SigningKey, signature::Signer as _},
    elliptic_curve::sec1::ToSec1Point as _,
};
use rsa::{
    RsaPrivateKey, pkcs1v15,
    signature::SignatureEncoding as _,
    traits::{PrivateKeyParts as _, PublicKeyParts as _},
};
use sha2::Sha256;

use super::{der, primes};
use crate::random::Random;

const OID_RSA: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01];
const OID_RSA_SHA256: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x0B];
const OID_EC: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01];
const OID_P256: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07];
const OID_ECDSA_SHA256: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x02];
const OID_ED25519: &[u8] = &[0x2B, 0x65, 0x70];

/// That of all RSA keys.
const PUBLIC_EXPONENT: u64 = 65_537;

/// A key that can sign.
pub(super) enum Key {
    Rsa(Box<RsaPrivateKey>),
    P256(SigningKey),
    Ed25519(Box<ed25519_dalek::SigningKey>),
}

impl Key {
    /// A new RSA key of `128 * N` bits.
    pub(super) fn rsa<const N: usize>(random: &mut Random) -> Result<Self, String> {
        loop {
            let (p, q) = (primes::prime::<N>(random), primes::prime::<N>(random));
            match RsaPrivateKey::from_p_q(p, q, PUBLIC_EXPONENT.into()) {
                Ok(key) => return Ok(Self::Rsa(Box::new(key))),
                // The exponent has no inverse, or both primes are one: once in tens of thousands of times.
                Err(rsa::Error::InvalidPrime | rsa::Error::InvalidExponent) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// A new key on P-256.
    pub(super) fn p256(random: &mut Random) -> Self {
        loop {
            let mut secret = [0; 32];
            random.fill(&mut secret);
            if let Ok(key) = SigningKey::from_slice(&secret) {
                return Self::P256(key);
            }
        }
    }

    /// A new Ed25519 key.
    pub(super) fn ed25519(random: &mut Random) -> Self {
        let mut secret = [0; 32];
        random.fill(&mut secret);
        Self::Ed25519(Box::new(ed25519_dalek::SigningKey::from_bytes(&secret)))
    }

    /// Reads a PEM block.
    pub(super) fn from_pem(text: &str) -> Result<Self, String> {
        let (label, content) = der::from_pem(text).ok_or("no PEM data in input")?;
        match label.as_str() {
            "RSA PRIVATE KEY" => {
                from_pkcs1(&content).ok_or_else(|| "parsing RSA private key from PEM".to_owned())
            }
            "EC PRIVATE KEY" => {
                from_sec1(&content).ok_or_else(|| "parsing EC private key from PEM".to_owned())
            }
            "PRIVATE KEY" => from_pkcs8(&content).ok_or_else(|| "decoding PEM as PKCS#8".to_owned()),
            label if label.ends_with(" PRIVATE KEY") => {
                Err(format!("invalid private key type {}", label.trim_end_matches(" PRIVATE KEY")))
            }
            label => Err(format!("no private key data in PEM block of type {label}")),
        }
    }

    /// As PEM, in the form that Go writes for its kind.
    pub(super) fn to_pem(&self) -> String {
        match self {
            Self::Rsa(key) => der::pem("RSA PRIVATE KEY", &pkcs1(key)),
            Self::P256(key) => der::pem("EC PRIVATE KEY", &sec1(key)),
            Self::Ed25519(key) => {
                let inner = der::value(der::OCTET_STRING, key.as_bytes());
                let content = der::nest(
                    der::SEQUENCE,
                    &[
                        der::unsigned(&[0]),
                        der::nest(der::SEQUENCE, &[der::value(der::OID, OID_ED25519)]),
                        der::value(der::OCTET_STRING, &inner),
                    ],
                );
                der::pem("PRIVATE KEY", &content)
            }
        }
    }

    /// The SubjectPublicKeyInfo, and the bytes of the key inside it.
    pub(super) fn public(&self) -> (Vec<u8>, Vec<u8>) {
        let (algorithm, key) = match self {
            Self::Rsa(key) => (
                der::nest(der::SEQUENCE, &[der::value(der::OID, OID_RSA), vec![5, 0]]),
                der::nest(
                    der::SEQUENCE,
                    &[
                        der::unsigned(&key.n().to_be_bytes_trimmed_vartime()),
                        der::unsigned(&key.e().to_be_bytes_trimmed_vartime()),
                    ],
                ),
            ),
            Self::P256(key) => (
                der::nest(der::SEQUENCE, &[der::value(der::OID, OID_EC), der::value(der::OID, OID_P256)]),
                point(key),
            ),
            Self::Ed25519(key) => (
                der::nest(der::SEQUENCE, &[der::value(der::OID, OID_ED25519)]),
                key.verifying_key().as_bytes().to_vec(),
            ),
        };
        (der::nest(der::SEQUENCE, &[algorithm, der::bits(&key)]), key)
    }

    /// The AlgorithmIdentifier of its signatures.
    pub(super) fn algorithm(&self) -> Vec<u8> {
        match self {
            Self::Rsa(_) => der::nest(der::SEQUENCE, &[der::value(der::OID, OID_RSA_SHA256), vec![5, 0]]),
            Self::P256(_) => der::nest(der::SEQUENCE, &[der::value(der::OID, OID_ECDSA_SHA256)]),
            Self::Ed25519(_) => der::nest(der::SEQUENCE, &[der::value(der::OID, OID_ED25519)]),
        }
    }

    /// Signs.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Self::Rsa(key) => {
                let signer = pkcs1v15::SigningKey::<Sha256>::new((**key).clone());
                signer
                    .try_sign(message)
                    .map(|signature| signature.to_vec())
                    .map_err(|error| error.to_string())
            }
            Self::P256(key) => {
                let signature: Signature = key.try_sign(message).map_err(|error| error.to_string())?;
                Ok(signature.to_der().as_bytes().to_vec())
            }
            Self::Ed25519(key) => Ok(ed25519_dalek::Signer::try_sign(&**key, message)
                .map_err(|e| e.to_string())?
                .to_bytes()
                .to_vec()),
        }
    }
}

fn point(key: &SigningKey) -> Vec<u8> {
    key.verifying_key().as_affine().to_sec1_point(false).as_bytes().to_vec()
}

fn pkcs1(key: &RsaPrivateKey) -> Vec<u8> {
    let number = |value: &rsa::BoxedUint| -> Vec<u8> { der::unsigned(&value.to_be_bytes_trimmed_vartime()) };
    let primes = key.primes();
    let mut parts = vec![der::unsigned(&[0]), number(key.n()), number(key.e()), number(key.d())];
    parts.extend(primes.iter().map(|prime| number(prime)));
    if let (Some(dp), Some(dq), Some(qi)) = (key.dp(), key.dq(), key.qinv()) {
        parts.push(number(dp));
        parts.push(number(dq));
        parts.push(der::unsigned(&qi.retrieve().to_be_bytes_trimmed_vartime()));
    }
    der::nest(der::SEQUENCE, &parts)
}

fn from_pkcs1(content: &[u8]) -> Option<Key> {
    let (mut rest, _) = der::expect(content, der::SEQUENCE)?;
    let mut numbers = Vec::new();
    while numbers.len() < 6 {
        let (number, after) = der::expect(rest, der::INTEGER)?;
        numbers.push(rsa::BoxedUint::from_be_slice_vartime(number));
        rest = after;
    }
    let key = RsaPrivateKey::from_components(
        numbers[1].clone(),
        numbers[2].clone(),
        numbers[3].clone(),
        vec![numbers[4].clone(), numbers[5].clone()],
    );
    key.ok().map(|key| Key::Rsa(Box::new(key)))
}

fn sec1(key: &SigningKey) -> Vec<u8> {
    der::nest(
        der::SEQUENCE,
        &[
            der::unsigned(&[1]),
            der::value(der::OCTET_STRING, &key.to_bytes()),
            der::value(0xA0, &der::value(der::OID, OID_P256)),
            der::value(0xA1, &der::bits(&point(key))),
        ],
    )
}

fn from_sec1(content: &[u8]) -> Option<Key> {
    let (rest, _) = der::expect(content, der::SEQUENCE)?;
    let (_, rest) = der::expect(rest, der::INTEGER)?;
    let (secret, _) = der::expect(rest, der::OCTET_STRING)?;
    SigningKey::from_slice(secret).ok().map(Key::P256)
}

fn from_pkcs8(content: &[u8]) -> Option<Key> {
    let (rest, _) = der::expect(content, der::SEQUENCE)?;
    let (_, rest) = der::expect(rest, der::INTEGER)?;
    let (algorithm, rest) = der::expect(rest, der::SEQUENCE)?;
    let (oid, _) = der::expect(algorithm, der::OID)?;
    let (key, _) = der::expect(rest, der::OCTET_STRING)?;
    match oid {
        OID_RSA => from_pkcs1(key),
        OID_EC => from_sec1(key),
        OID_ED25519 => {
            let (secret, _) = der::expect(key, der::OCTET_STRING)?;
            Some(Key::Ed25519(Box::new(ed25519_dalek::SigningKey::from_bytes(secret.try_into().ok()?))))
        }
        _ => None,
    }
}
