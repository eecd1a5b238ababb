//! "This user, in these groups, asks this of that cluster": signed by the console, for one request.
//!
//! Not a JWT and not PASETO: both ends are of this repository, so there is one algorithm and no header that
//! could name another, and the claims are protobuf as the rest of the contract. An assertion holds for one
//! method and target, and is counted by its signer: that it was used before is a bit in a window, not a set
//! of ids.

use std::{
    collections::BTreeMap,
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use prost::Message;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use sha2::{Digest, Sha256};

use super::replay::Replay;
use crate::v1::{ProxyClaims, ProxyExtra, ProxyKey, ProxyOpen};

/// What is signed begins with this, so that a signature of ours for anything else is none here.
const PURPOSE: &[u8] = b"plural proxy assertion 1\0";
/// How long an assertion holds: as long as it may be on its way.
const LIFETIME: Duration = Duration::from_secs(30);
/// Groups and extra values in one assertion, at most.
const MOST: usize = 1_000;

/// The console's key for assertions, and this process's count of them.
pub struct AssertionKey {
    pair: Ed25519KeyPair,
    id: String,
    signer: [u8; 8],
    count: AtomicU64,
}

impl fmt::Debug for AssertionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AssertionKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Why an identity assertion was rejected. Told to nobody but the log: whoever may know has a right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AssertionError {
    /// The key cannot be used.
    #[error("the console's key for assertions cannot be used")]
    Key,
    /// Signed with a key that the console never told us.
    #[error("it uses an unknown key")]
    UnknownKey,
    /// Not what was signed.
    #[error("its signature is invalid")]
    Signature,
    /// It is no assertion.
    #[error("it cannot be read")]
    Unreadable,
    /// It is for another cluster.
    #[error("it is meant for another cluster")]
    Audience,
    /// It is for another request.
    #[error("it is meant for another request")]
    Request,
    /// It is too old, or from too far in the future.
    #[error("it has expired")]
    Expired,
    /// It was presented before.
    #[error("it was used before")]
    Replayed,
    /// It names nobody, or somebody that no console may name.
    #[error("it names a user or group that no console may assert")]
    Identity,
}

/// Who asks, as the console knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asserted {
    /// E-mail address.
    pub user: String,
    /// Id.
    pub uid: String,
    /// Names of groups.
    pub groups: Vec<String>,
    /// More, by name.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What an assertion is for.
#[derive(Debug, Clone, Copy)]
pub struct AssertionTerms<'a> {
    /// Id of the cluster.
    pub cluster_id: &'a str,
    /// `GET`.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// The console's clock, milliseconds since the epoch.
    pub now_ms: i64,
}

impl AssertionKey {
    /// The key of a seed. `signer` is random and this process's own: under it, assertions are counted.
    ///
    /// # Errors
    /// When the seed is none.
    pub fn new(seed: &[u8; 32], signer: [u8; 8]) -> Result<Self, AssertionError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| AssertionError::Key)?;
        let id = key_id(pair.public_key().as_ref());
        Ok(Self { pair, id, signer, count: AtomicU64::new(0) })
    }

    /// What agents are told.
    pub fn public(&self) -> ProxyKey {
        ProxyKey { id: self.id.clone(), public_key: self.pair.public_key().as_ref().to_vec() }
    }

    /// Signs an assertion into `open`.
    pub fn assert(&self, who: &Asserted, terms: &AssertionTerms<'_>, open: &mut ProxyOpen) {
        let Asserted { user, uid, groups, extra } = who;
        let claims = ProxyClaims {
            cluster_id: terms.cluster_id.to_owned(),
            user: user.clone(),
            uid: uid.clone(),
            groups: groups.clone(),
            extra: extra
                .iter()
                .map(|(name, values)| ProxyExtra { name: name.clone(), values: values.clone() })
                .collect(),
            request_digest: request_digest(terms.method, terms.target).to_vec(),
            signer: self.signer.to_vec(),
            count: self.count.fetch_add(1, Ordering::Relaxed) + 1,
            expires_ms: terms.now_ms + LIFETIME.as_millis() as i64,
        };
        let mut signed = PURPOSE.to_vec();
        claims.encode_raw(&mut signed);
        let signature = self.pair.sign(&signed);
        signed.drain(..PURPOSE.len());
        open.claims = signed.into();
        open.signature = signature.as_ref().to_vec().into();
        open.key_id.clone_from(&self.id);
    }
}

/// What an agent believes.
#[derive(Debug)]
pub struct Verifier {
    cluster_id: String,
    keys: Vec<ProxyKey>,
    replay: Replay,
}

impl Verifier {
    /// For the agent of a cluster that was told these keys.
    pub fn new(cluster_id: String, keys: Vec<ProxyKey>) -> Self {
        let keys = keys.into_iter().filter(|key| key.id == key_id(&key.public_key)).collect();
        Self { cluster_id, keys, replay: Replay::default() }
    }

    /// Takes the keys of a later welcome; what was used stays used.
    pub fn renew(&mut self, cluster_id: String, keys: Vec<ProxyKey>) {
        let Self { cluster_id, keys, replay: _ } = Self::new(cluster_id, keys);
        self.cluster_id = cluster_id;
        self.keys = keys;
    }

    /// Who asks, if everything about it is right. The same assertion is believed once.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn verify(&mut self, open: &ProxyOpen, now_ms: i64) -> Result<Asserted, AssertionError> {
        let key = self.keys.iter().find(|key| key.id == open.key_id).ok_or(AssertionError::UnknownKey)?;
        let mut signed = Vec::with_capacity(PURPOSE.len() + open.claims.len());
        signed.extend_from_slice(PURPOSE);
        signed.extend_from_slice(&open.claims);
        UnparsedPublicKey::new(&ED25519, &key.public_key)
            .verify(&signed, &open.signature)
            .map_err(|_| AssertionError::Signature)?;
        let claims = ProxyClaims::decode(&*open.claims).map_err(|_| AssertionError::Unreadable)?;
        let ProxyClaims {
            cluster_id,
            user,
            uid,
            groups,
            extra,
            request_digest: digest,
            signer,
            count,
            expires_ms,
        } = claims;
        if cluster_id.is_empty() || cluster_id != self.cluster_id {
            return Err(AssertionError::Audience);
        }
        if digest != request_digest(&open.method, &open.target) {
            return Err(AssertionError::Request);
        }
        let latest = now_ms.saturating_add(2 * LIFETIME.as_millis() as i64);
        if expires_ms <= now_ms || expires_ms > latest {
            return Err(AssertionError::Expired);
        }
        let extras = extra.iter().map(|extra| extra.values.len()).sum::<usize>();
        let everybody = std::iter::once(&user).chain(&groups);
        if user.is_empty()
            || groups.len() + extras > MOST
            || everybody.clone().any(|name| is_reserved(name))
            || everybody.chain(std::iter::once(&uid)).any(|name| name.chars().any(char::is_control))
        {
            return Err(AssertionError::Identity);
        }
        let signer = <[u8; 8]>::try_from(signer).map_err(|_| AssertionError::Unreadable)?;
        if !self.replay.first_time(signer, count, expires_ms, now_ms) {
            return Err(AssertionError::Replayed);
        }
        let extra = extra.into_iter().map(|ProxyExtra { name, values }| (name, values)).collect();
        Ok(Asserted { user, uid, groups, extra })
    }
}

/// Names that belong to Kubernetes.
fn is_reserved(name: &str) -> bool {
    name.trim().to_ascii_lowercase().starts_with("system:")
}

/// What binds an assertion to its request.
pub fn request_digest(method: &str, target: &str) -> [u8; 32] {
    Sha256::new().chain_update(method).chain_update(b"\n").chain_update(target).finalize().into()
}

/// The public half of a seed, for whoever has to tell it.
///
/// # Errors
/// When the seed is none.
pub fn public_key_of(seed: &[u8; 32]) -> Result<ProxyKey, AssertionError> {
    Ok(AssertionKey::new(seed, [0; 8])?.public())
}

fn key_id(public: &[u8]) -> String {
    let mut id = hex::encode(Sha256::digest(public));
    id.truncate(16);
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = "0190b8a2-7c11-7def-8000-0123456789ab";
    const NOW: i64 = 1_700_000_000_000;

    fn terms() -> AssertionTerms<'static> {
        AssertionTerms { cluster_id: CLUSTER, method: "GET", target: "/api/v1/pods?watch=1", now_ms: NOW }
    }

    fn ada() -> Asserted {
        Asserted {
            user: "ada@example.com".into(),
            uid: "1".into(),
            groups: vec!["ops".into()],
            extra: BTreeMap::from([("plural.sh/token".into(), vec!["2".into()])]),
        }
    }

    fn request(terms: &AssertionTerms<'_>) -> ProxyOpen {
        ProxyOpen { method: terms.method.into(), target: terms.target.into(), ..ProxyOpen::default() }
    }

    fn both() -> (AssertionKey, Verifier) {
        let key = AssertionKey::new(&[7; 32], [1; 8]).unwrap();
        let verifier = Verifier::new(CLUSTER.into(), vec![key.public()]);
        (key, verifier)
    }

    fn signed(key: &AssertionKey, who: &Asserted) -> ProxyOpen {
        let mut open = request(&terms());
        key.assert(who, &terms(), &mut open);
        open
    }

    #[test]
    fn the_right_one_is_believed_once() {
        let (key, mut verifier) = both();
        let open = signed(&key, &ada());
        assert_eq!(verifier.verify(&open, NOW), Ok(ada()));
        assert_eq!(verifier.verify(&open, NOW), Err(AssertionError::Replayed));
        assert_eq!(verifier.verify(&signed(&key, &ada()), NOW), Ok(ada()));
        // New keys do not make old assertions new.
        verifier.renew(CLUSTER.into(), vec![key.public()]);
        assert_eq!(verifier.verify(&open, NOW), Err(AssertionError::Replayed));
    }

    #[test]
    fn another_request_cluster_time_or_key_is_refused() {
        let (key, mut verifier) = both();
        let open = signed(&key, &ada());
        let other = ProxyOpen { target: "/api/v1/secrets".into(), ..open.clone() };
        assert_eq!(verifier.verify(&other, NOW), Err(AssertionError::Request));
        let other = ProxyOpen { method: "DELETE".into(), ..open.clone() };
        assert_eq!(verifier.verify(&other, NOW), Err(AssertionError::Request));
        assert_eq!(verifier.verify(&open, NOW + 30_000), Err(AssertionError::Expired));
        assert_eq!(verifier.verify(&open, NOW - 60_000), Err(AssertionError::Expired));
        let mut foreign = Verifier::new("another".into(), vec![key.public()]);
        assert_eq!(foreign.verify(&open, NOW), Err(AssertionError::Audience));
        let mut nameless = Verifier::new(String::new(), vec![key.public()]);
        assert_eq!(nameless.verify(&open, NOW), Err(AssertionError::Audience));
        let stranger = AssertionKey::new(&[8; 32], [1; 8]).unwrap();
        assert_eq!(verifier.verify(&signed(&stranger, &ada()), NOW), Err(AssertionError::UnknownKey));
        let forged = ProxyOpen { key_id: key.public().id, ..signed(&stranger, &ada()) };
        assert_eq!(verifier.verify(&forged, NOW), Err(AssertionError::Signature));
        // None of these used it up.
        assert_eq!(verifier.verify(&open, NOW), Ok(ada()));
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let (key, mut verifier) = both();
        let open = signed(&key, &ada());
        for at in 0..open.claims.len() {
            let mut claims = open.claims.to_vec();
            claims[at] ^= 1;
            let changed = ProxyOpen { claims: claims.into(), ..open.clone() };
            assert_eq!(verifier.verify(&changed, NOW), Err(AssertionError::Signature), "byte {at}");
        }
        for length in 0..open.signature.len() {
            let changed = ProxyOpen { signature: open.signature.slice(..length), ..open.clone() };
            assert_eq!(verifier.verify(&changed, NOW), Err(AssertionError::Signature));
        }
    }

    #[test]
    fn nobody_is_made_part_of_kubernetes() {
        let (key, mut verifier) = both();
        for (user, group) in [
            ("", "ops"),
            ("system:admin", "ops"),
            ("ada@example.com", "system:masters"),
            ("ada@example.com", " System:Masters"),
            ("ada@example.com\r\nImpersonate-Group: x", "ops"),
            ("ada@example.com", "ops\nsystem:masters"),
        ] {
            let who = Asserted { user: user.into(), groups: vec![group.into()], ..ada() };
            let told = verifier.verify(&signed(&key, &who), NOW);
            assert_eq!(told, Err(AssertionError::Identity), "{user:?} {group:?}");
        }
    }

    #[test]
    fn a_key_under_a_wrong_name_is_none() {
        let (key, _) = both();
        let misnamed = ProxyKey { id: "0000000000000000".into(), ..key.public() };
        let mut verifier = Verifier::new(CLUSTER.into(), vec![misnamed]);
        let open = ProxyOpen { key_id: "0000000000000000".into(), ..signed(&key, &ada()) };
        assert_eq!(verifier.verify(&open, NOW), Err(AssertionError::UnknownKey));
    }
}
