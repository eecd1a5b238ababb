//! Tokens of service accounts: signed as the real API server signs them, and what it publishes so that others can verify them.

use std::sync::OnceLock;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::status::ApiError;

/// Who signs, unless a cluster was told another name: what most clusters say.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Signs the tokens of one cluster. The key is made when it is needed.
#[derive(Default)]
pub(crate) struct Signer {
    key: OnceLock<Option<Key>>,
}

struct Key {
    id: String,
    pair: EcdsaKeyPair,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").finish_non_exhaustive()
    }
}

/// Whose token, and what for.
pub(crate) struct Subject<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub audiences: Vec<String>,
    /// Seconds since the epoch.
    pub issued: i64,
    pub expires: i64,
}

impl Signer {
    fn key(&self) -> Result<&Key, ApiError> {
        let key = self.key.get_or_init(|| {
            let random = SystemRandom::new();
            let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
            let made = EcdsaKeyPair::generate_pkcs8(algorithm, &random).ok()?;
            let pair = EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &random).ok()?;
            Some(Key { id: Uuid::new_v4().simple().to_string(), pair })
        });
        key.as_ref().ok_or_else(|| ApiError::new(500, "InternalError", "cannot make a key for tokens"))
    }

    /// A token.
    pub(crate) fn token(&self, subject: &Subject<'_>) -> Result<String, ApiError> {
        let Key { id, pair } = self.key()?;
        let Subject { namespace, name, uid, audiences, issued, expires } = subject;
        let head = json!({"alg": "ES256", "kid": id});
        let claims = json!({
            "aud": audiences,
            "exp": expires,
            "iat": issued,
            "iss": ISSUER,
            "jti": Uuid::new_v4(),
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
            "nbf": issued,
            "sub": format!("system:serviceaccount:{namespace}:{name}"),
        });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&head), part(&claims));
        let signature = pair
            .sign(&SystemRandom::new(), signed.as_bytes())
            .map_err(|_| ApiError::new(500, "InternalError", "cannot sign a token"))?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }

    /// `/.well-known/openid-configuration`.
    pub(crate) fn description(address: &str) -> Value {
        json!({
            "issuer": ISSUER,
            "jwks_uri": format!("https://{address}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    /// `/openid/v1/jwks`.
    pub(crate) fn keys(&self) -> Result<Value, ApiError> {
        let Key { id, pair } = self.key()?;
        // 4, then the two halves of the point.
        let point = pair.public_key().as_ref();
        let (x, y) = point.get(1..).and_then(|halves| halves.split_at_checked(32)).unwrap_or_default();
        Ok(json!({"keys": [{
            "use": "sig", "kty": "EC", "kid": id, "crv": "P-256", "alg": "ES256",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        }]}))
    }
}
