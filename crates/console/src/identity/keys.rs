//! Keys of issuers whose tokens are exchanged, and what such a token says. An issuer of these need not sign anybody in: of its
//! description only the place of its keys is read.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use openidconnect::{
    ClaimsVerificationError, ClientId, HttpRequest, IdToken, IdTokenVerifier, IssuerUrl, JsonWebKeySetUrl,
    Nonce, SignatureVerificationError,
    core::{CoreGenderClaim, CoreJsonWebKeySet, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm},
};
use plural_app::ports::identity::ProviderError;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    AHEAD, Identities, MoreClaims, SIGNATURES, Unverified, YOUNG, chain, http::Caller, slots::Dated,
};

/// An issuer that did not answer is not asked again within so long.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// What is read of an issuer's description.
#[derive(Deserialize)]
struct Description {
    issuer: String,
    jwks_uri: String,
}

impl Identities {
    /// An issuer's keys, at most `lasts` old. It is asked by one at a time, and after a failure not at once again.
    pub(super) async fn keys(
        &self,
        issuer: &str,
        lasts: Duration,
    ) -> Result<Dated<Arc<CoreJsonWebKeySet>>, ProviderError> {
        self.keys.get(issuer, lasts.max(YOUNG), AFTER_FAILURE, self.read_keys(issuer)).await
    }

    async fn read_keys(&self, issuer: &str) -> Result<Arc<CoreJsonWebKeySet>, ProviderError> {
        let unavailable =
            |why: String| ProviderError::Unavailable(format!("cannot read the keys of {issuer}: {why}"));
        let caller = Caller { http: Arc::clone(&self.http), plain: issuer.starts_with("http://") };
        let place = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let request = openidconnect::http::Request::get(place).body(Vec::new());
        let request: HttpRequest = request.map_err(|error| unavailable(error.to_string()))?;
        let answer =
            self.http.call(caller.plain, request).await.map_err(|error| unavailable(chain(&error)))?;
        if !answer.status().is_success() {
            return Err(unavailable(format!("its description answers {}", answer.status())));
        }
        let described: Description = serde_json::from_slice(answer.body())
            .map_err(|_| unavailable("its description is none".to_owned()))?;
        if described.issuer != issuer {
            return Err(unavailable("its description is of another issuer".to_owned()));
        }
        let place = JsonWebKeySetUrl::new(described.jwks_uri);
        let place = place.map_err(|_| unavailable("its keys have no address".to_owned()))?;
        let set = CoreJsonWebKeySet::fetch_async(&place, &caller).await;
        let set = set.map_err(|error| unavailable(chain(&error)))?;
        Ok(Arc::new(set))
    }
}

/// All that a token says, when one of these keys signed it for this audience alone and it counts now.
pub(super) fn verified(
    issuer: &str,
    audience: &str,
    token: &SecretString,
    keys: &CoreJsonWebKeySet,
) -> Result<Map<String, Value>, Unverified> {
    let other = |why: &str| Unverified::Other(format!("the token does not count: {why}"));
    let text = token.expose_secret();
    let token: IdToken<
        MoreClaims,
        CoreGenderClaim,
        CoreJweContentEncryptionAlgorithm,
        CoreJwsSigningAlgorithm,
    > = text.parse().map_err(|_| other("it is none"))?;
    let latest = Utc::now() + AHEAD;
    let in_time = move |at: DateTime<Utc>| {
        if at > latest { Err("it is from the future".to_owned()) } else { Ok(()) }
    };
    let issuer = IssuerUrl::new(issuer.to_owned()).map_err(|_| other("its issuer has no address"))?;
    let verifier =
        IdTokenVerifier::new_public_client(ClientId::new(audience.to_owned()), issuer, keys.clone())
            .set_allowed_algs(SIGNATURES)
            .set_issue_time_verifier_fn(in_time);
    // Nobody asked for it: there is no nonce.
    token.claims(&verifier, |_: Option<&Nonce>| Ok(())).map_err(|error| match &error {
        ClaimsVerificationError::SignatureVerification(
            SignatureVerificationError::NoMatchingKey | SignatureVerificationError::CryptoError(_),
        ) => Unverified::Key,
        _ => other(&chain(&error)),
    })?;
    // The text whose signature was verified: the crate keeps some claims in fields of its own.
    let claims = text.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let said: Map<String, Value> = claims
        .and_then(|claims| serde_json::from_slice(&claims).ok())
        .ok_or_else(|| other("its claims cannot be read"))?;
    let begins = said.get("nbf").and_then(Value::as_f64);
    if begins.is_some_and(|at| at > latest.timestamp() as f64) {
        return Err(other("it counts from a time in the future"));
    }
    Ok(said)
}
