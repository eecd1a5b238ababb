//! A cluster as an issuer of tokens: what its agent reports of its API server. The console opens no connection to a cluster, so this is
//! all that it knows of the cluster's keys, and it counts for tokens of that cluster alone.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use chrono::TimeDelta;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::ids::{ClusterId, ProjectId};

/// A cluster whose agent was not heard of for so long signs nothing that counts. A day: a console or a line that is down for hours must
/// not stop what runs in clusters, and a cluster that is gone, or whose keys nobody can take back any more, must not go on for long.
pub const SILENT: TimeDelta = TimeDelta::hours(24);
/// Keys that one cluster may have: one that signs, and those before it.
pub const MOST_KEYS: usize = 10;
/// Bytes of an issuer, a key's id and a member of a key.
const LONGEST: usize = 1_500;
/// Characters of a modulus: 2048 to 4096 bits. What is longer only costs time: nothing here verifies by it.
const MODULUS: RangeInclusive<usize> = 342..=684;
/// Bytes of all keys together as they are reported.
pub const LONGEST_SET: usize = 32 * 1024;

/// Who signs the tokens of a cluster's service accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterIssuer {
    /// As `iss` says it.
    pub issuer: String,
    /// Public keys, as JSON Web Keys with nothing but what verifies a signature, by their id.
    pub keys: BTreeMap<String, String>,
}

/// What an agent says of its cluster's issuer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum IssuerReport {
    /// Nothing: what was known stays.
    #[default]
    Untold,
    /// The cluster signs nothing that counts.
    Nobody,
    /// This.
    Signs(ClusterIssuer),
}

/// One key of a cluster that reports an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterKey {
    /// Whose.
    pub cluster: ClusterId,
    /// Whose cluster that is.
    pub project: ProjectId,
    /// A JSON Web Key.
    pub key: String,
}

/// Members of a key of a type that verify a signature.
fn public_members(kind: &str) -> Option<&'static [&'static str]> {
    match kind {
        "RSA" => Some(&["n", "e"]),
        "EC" => Some(&["crv", "x", "y"]),
        "OKP" => Some(&["crv", "x"]),
        // A symmetric key verifies what everybody who knows it signs.
        _ => None,
    }
}

impl ClusterIssuer {
    /// What an agent reports, as far as it counts. Keys that verify no signature of an issuer are left out; an issuer that is none, or
    /// has none left, signs nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is too long, or not in the form of keys.
    pub fn reported(issuer: &str, keys: &str) -> Result<Option<Self>> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Map<String, Value>>,
        }
        if issuer.is_empty() {
            return Ok(None);
        }
        let told = |what: &'static str| Error::invalid("cluster.issuer", what);
        let is_address = issuer.starts_with("https://") || issuer.starts_with("http://");
        if !is_address || issuer.len() > 512 || issuer.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(told("is no address"));
        }
        if keys.len() > LONGEST_SET {
            return Err(told("has too many bytes of keys"));
        }
        let set: Set =
            serde_json::from_str(keys).map_err(|_| told("has no keys in the form of a key set"))?;
        let keys: BTreeMap<String, String> = set.keys.iter().filter_map(public_key).take(MOST_KEYS).collect();
        Ok((!keys.is_empty()).then(|| Self { issuer: issuer.to_owned(), keys }))
    }
}

/// A key and its id, with nothing but what verifies a signature.
fn public_key(key: &Map<String, Value>) -> Option<(String, String)> {
    let text = |name: &str| {
        let text = key.get(name)?.as_str()?;
        let is_good = !text.is_empty() && text.len() <= LONGEST && !text.chars().any(char::is_control);
        is_good.then(|| text.to_owned())
    };
    let (kind, id) = (text("kty")?, text("kid")?);
    if key.get("use").is_some_and(|used| used != "sig") || id.len() > 256 {
        return None;
    }
    let mut public = Map::new();
    for member in public_members(&kind)? {
        public.insert((*member).to_owned(), text(member)?.into());
    }
    if kind == "RSA" && public.get("n").and_then(Value::as_str).is_none_or(|n| !MODULUS.contains(&n.len())) {
        return None;
    }
    public.insert("kty".to_owned(), kind.into());
    public.insert("kid".to_owned(), id.clone().into());
    public.insert("use".to_owned(), "sig".into());
    if let Some(algorithm) = text("alg") {
        public.insert("alg".to_owned(), algorithm.into());
    }
    Some((id, Value::Object(public).to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

    fn modulus() -> String {
        "a".repeat(*MODULUS.start())
    }

    fn kept(keys: &[Value]) -> Vec<String> {
        let reported = ClusterIssuer::reported(ISSUER, &json!({"keys": keys}).to_string()).unwrap();
        reported.map(|issuer| issuer.keys.into_keys().collect()).unwrap_or_default()
    }

    #[test]
    fn only_public_keys_of_signatures_are_kept() {
        let rsa = |id: &str| json!({"kty": "RSA", "kid": id, "use": "sig", "alg": "RS256", "n": modulus(), "e": "AQAB"});
        let ec = json!({"kty": "EC", "kid": "ec", "crv": "P-256", "x": "x", "y": "y"});
        assert_eq!(kept(&[rsa("a"), ec.clone()]), ["a", "ec"]);
        for bad in [
            json!({"kty": "oct", "kid": "a", "k": "c2VjcmV0"}),
            json!({"kty": "RSA", "kid": "a", "n": "short", "e": "AQAB"}),
            json!({"kty": "RSA", "kid": "a", "n": "a".repeat(*MODULUS.end() + 1), "e": "AQAB"}),
            json!({"kty": "RSA", "kid": "a", "use": "enc", "n": modulus(), "e": "AQAB"}),
            json!({"kty": "RSA", "n": modulus(), "e": "AQAB"}),
            json!({"kty": "EC", "kid": "a", "crv": "P-256", "x": "x"}),
            json!({"kty": "EC", "kid": "a", "crv": "P-256", "x": "x", "y": "y".repeat(LONGEST + 1)}),
            json!({"kid": "a"}),
        ] {
            assert_eq!(kept(&[bad.clone(), ec.clone()]), ["ec"], "{bad}");
            assert!(kept(&[bad]).is_empty());
        }
        let many: Vec<Value> = (0..40).map(|number| rsa(&format!("{number:03}"))).collect();
        assert_eq!(kept(&many).len(), MOST_KEYS);
    }

    #[test]
    fn nothing_private_is_kept() {
        let key = json!({"kty": "EC", "kid": "a", "crv": "P-256", "x": "x", "y": "y", "d": "private", "k": "secret"});
        let set = json!({"keys": [key]}).to_string();
        let issuer = ClusterIssuer::reported(ISSUER, &set).unwrap().unwrap();
        let kept: Value = serde_json::from_str(&issuer.keys["a"]).unwrap();
        assert_eq!(kept, json!({"kty": "EC", "kid": "a", "use": "sig", "crv": "P-256", "x": "x", "y": "y"}));
    }

    #[test]
    fn what_is_no_issuer_is_refused() {
        let set = json!({"keys": []}).to_string();
        for issuer in
            ["kubernetes/serviceaccount", "https://a b", "ftp://a", &format!("https://{}", "a".repeat(600))]
        {
            assert!(ClusterIssuer::reported(issuer, &set).is_err(), "{issuer}");
        }
        for keys in ["", "[]", "{}", "{\"keys\": 1}", "{\"keys\": [1]}"] {
            assert!(ClusterIssuer::reported(ISSUER, keys).is_err(), "{keys}");
        }
        let long = format!("{{\"keys\": [], \"x\": \"{}\"}}", "x".repeat(LONGEST_SET));
        assert!(ClusterIssuer::reported(ISSUER, &long).is_err());
        assert_eq!(ClusterIssuer::reported(ISSUER, &set).unwrap(), None);
        assert_eq!(ClusterIssuer::reported("", "").unwrap(), None);
    }
}
