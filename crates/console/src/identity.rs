//! Identity providers as the use cases need them: OpenID Connect by `openidconnect`, over our own HTTP client.
//!
//! # Guarantees
//! - The client connects to what [`Guard`] lets through, follows no redirect, and reads no answer beyond its limits.
//! - ID tokens count with an asymmetric signature of one of the issuer's keys only: never unsigned, and never signed with the client
//!   secret or with a public key taken for a secret.
//! - No error holds a code, a token or what a provider answered.

mod http;
mod keys;
mod slots;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use openidconnect::{
    AccessTokenHash, AdditionalClaims, AdditionalProviderMetadata, AuthType, AuthenticationFlow,
    AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret, CsrfToken, EmptyExtraTokenFields,
    EndpointMaybeSet, EndpointNotSet, EndpointSet, IdTokenClaims, IdTokenFields, IssuerUrl, Nonce,
    OAuth2TokenResponse as _, PkceCodeVerifier, ProviderMetadata, RedirectUrl, RefreshToken,
    RequestTokenError, Scope, SignatureVerificationError, StandardErrorResponse, StandardTokenResponse,
    SubjectIdentifier, TokenResponse as _, UserInfoClaims,
    core::{
        CoreAuthDisplay, CoreAuthPrompt, CoreClaimName, CoreClaimType, CoreClientAuthMethod,
        CoreErrorResponseType, CoreGenderClaim, CoreGrantType, CoreJsonWebKey, CoreJsonWebKeySet,
        CoreJweContentEncryptionAlgorithm, CoreJweKeyManagementAlgorithm, CoreJwsSigningAlgorithm,
        CoreResponseMode, CoreResponseType, CoreRevocableToken, CoreRevocationErrorResponse,
        CoreSubjectIdentifierType, CoreTokenIntrospectionResponse, CoreTokenType,
    },
};
use plural_app::ports::identity::{
    AuthorizationRequest, CodeExchange, IdentityPort, ProviderAccess, ProviderAnswer, ProviderError,
};
use plural_core::identity_provider::ProviderClaims;
use plural_reach::Guard;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::{
    http::{Caller, Http, HttpError},
    slots::{Dated, Slots},
};

/// How old a provider's description and keys may be.
const FRESH: Duration = Duration::from_mins(5);
/// Keys that are younger are not asked for again because one is missing.
const YOUNG: Duration = Duration::from_secs(5);
/// Descriptions that are remembered.
const REMEMBERED: usize = 100;
/// How far a provider's clock may be ahead.
const AHEAD: TimeDelta = TimeDelta::minutes(2);
/// Groups that are looked at of one person.
const MOST_GROUPS: usize = 10_000;
/// Bytes of a text of a provider.
const LONGEST: usize = 512;

/// Signatures that count: with a key that only the provider has.
const SIGNATURES: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// What of a provider's description the crate does not know.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
struct MoreMetadata {
    #[serde(default)]
    end_session_endpoint: Option<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: Option<bool>,
}

impl AdditionalProviderMetadata for MoreMetadata {}

/// Claims that have no field of their own: groups, under whatever name.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
struct MoreClaims {
    #[serde(flatten)]
    rest: serde_json::Map<String, Value>,
}

impl AdditionalClaims for MoreClaims {}

type Metadata = ProviderMetadata<
    MoreMetadata,
    CoreAuthDisplay,
    CoreClientAuthMethod,
    CoreClaimName,
    CoreClaimType,
    CoreGrantType,
    CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm,
    CoreJsonWebKey,
    CoreResponseMode,
    CoreResponseType,
    CoreSubjectIdentifierType,
>;

type Tokens = StandardTokenResponse<
    IdTokenFields<
        MoreClaims,
        EmptyExtraTokenFields,
        CoreGenderClaim,
        CoreJweContentEncryptionAlgorithm,
        CoreJwsSigningAlgorithm,
    >,
    CoreTokenType,
>;

type Client = openidconnect::Client<
    MoreClaims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    Tokens,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

type Claims = IdTokenClaims<MoreClaims, CoreGenderClaim>;

/// The adapter.
pub(crate) struct Identities {
    http: Arc<Http>,
    known: Slots<Arc<Metadata>>,
    /// Keys of issuers of tokens that are exchanged.
    keys: Slots<Arc<CoreJsonWebKeySet>>,
}

/// A provider's description with its keys.
type Known = Dated<Arc<Metadata>>;

impl Identities {
    pub(crate) fn new(guard: Guard) -> Result<Self, HttpError> {
        Ok(Self { http: Arc::new(Http::new(guard)?), known: Slots::default(), keys: Slots::default() })
    }

    fn caller(&self, access: &ProviderAccess) -> Caller {
        Caller { http: Arc::clone(&self.http), plain: is_plain(access) }
    }

    /// A provider's description with its keys, at most `lasts` old. It is asked by one at a time.
    async fn metadata(&self, access: &ProviderAccess, lasts: Duration) -> Result<Known, ProviderError> {
        self.known.get(&access.issuer, lasts, Duration::ZERO, self.described(access)).await
    }

    async fn described(&self, access: &ProviderAccess) -> Result<Arc<Metadata>, ProviderError> {
        let unavailable = |error: &dyn std::error::Error| {
            let told = format!("cannot read the description of {}: {}", access.issuer, chain(error));
            ProviderError::Unavailable(told)
        };
        let issuer = IssuerUrl::new(access.issuer.clone()).map_err(|error| unavailable(&error))?;
        let (plain, call) = (is_plain(access), self.caller(access));
        let metadata: Metadata =
            ProviderMetadata::discover_async(issuer, &call).await.map_err(|error| unavailable(&error))?;
        for url in [Some(metadata.authorization_endpoint().url().as_str()), end_session(&metadata)] {
            if url.is_some_and(|url| !is_page(url, plain)) {
                let told = format!("{} describes pages that are not at https://", access.issuer);
                return Err(ProviderError::Unavailable(told));
            }
        }
        Ok(Arc::new(metadata))
    }

    /// What the tokens of a provider say of somebody.
    async fn answer(
        &self,
        access: &ProviderAccess,
        known: &Known,
        tokens: &Tokens,
        nonce: Option<&Nonce>,
    ) -> Result<(Option<Claims>, Vec<serde_json::Map<String, Value>>), ProviderError> {
        let client = client(access, &known.what)?;
        let claims = match verified(access, &client, tokens, nonce) {
            Err(Unverified::Key) if known.read.elapsed() > YOUNG => {
                // It may have another key by now.
                let known = self.metadata(access, Duration::ZERO).await?;
                let client = self::client(access, &known.what)?;
                verified(access, &client, tokens, nonce).map_err(ProviderError::from)?
            }
            verified => verified.map_err(ProviderError::from)?,
        };
        let mut said = Vec::new();
        if let Some(claims) = &claims {
            said.push(claims.additional_claims().rest.clone());
        }
        Ok((claims, said))
    }

    /// What the provider says of the bearer of an access token, where the ID token does not say it all.
    async fn user_info(
        &self,
        access: &ProviderAccess,
        known: &Known,
        tokens: &Tokens,
        subject: &str,
    ) -> Result<Option<UserInfoClaims<MoreClaims, CoreGenderClaim>>, ProviderError> {
        if known.what.userinfo_endpoint().is_none() {
            return Ok(None);
        }
        let client = client(access, &known.what)?;
        let subject = SubjectIdentifier::new(subject.to_owned());
        let request = client
            .user_info(tokens.access_token().clone(), Some(subject))
            .map_err(|error| ProviderError::Unavailable(chain(&error)))?;
        let call = self.caller(access);
        let claims = request.request_async(&call).await;
        claims.map(Some).map_err(|_| {
            ProviderError::Unavailable(format!("{} did not say who has its access token", access.issuer))
        })
    }

    /// Whether `claims` lack something that the provider was to say.
    fn lacks(access: &ProviderAccess, claims: &Claims) -> bool {
        let groups = &claims.additional_claims().rest;
        claims.email().is_none()
            || access.groups_claim.as_ref().is_some_and(|claim| groups.get(claim).is_none())
    }

    async fn exchanged(
        &self,
        access: &ProviderAccess,
        known: &Known,
        tokens: Tokens,
        nonce: &Nonce,
    ) -> Result<ProviderAnswer, ProviderError> {
        let (claims, mut said) = self.answer(access, known, &tokens, Some(nonce)).await?;
        let claims = claims.ok_or_else(|| ProviderError::Refused("it sent no ID token".to_owned()))?;
        let subject = claims.subject().to_string();
        if subject.is_empty() || subject.len() > LONGEST {
            return Err(ProviderError::Refused("its subject is none".to_owned()));
        }
        let mut email = claims.email().map(|email| email.to_string());
        let mut email_verified = claims.email_verified().unwrap_or_default();
        let mut name = name(claims.name());
        if Self::lacks(access, &claims)
            && let Some(info) = self.user_info(access, known, &tokens, &subject).await?
        {
            // Address and its verification come from one place.
            if email.is_none() {
                email = info.email().map(|email| email.to_string());
                email_verified = info.email_verified().unwrap_or_default();
            }
            name = name.or_else(|| self::name(info.name()));
            said.push(info.additional_claims().rest.clone());
        }
        let groups = access.groups_claim.as_ref().map(|claim| groups(claim, &said));
        let refresh = tokens.refresh_token().map(|token| SecretString::from(token.secret().clone()));
        Ok(ProviderAnswer {
            claims: ProviderClaims { subject, email, email_verified, name, groups },
            refresh,
        })
    }
}

#[async_trait]
impl IdentityPort for Identities {
    async fn authorization_url(
        &self,
        access: &ProviderAccess,
        request: &AuthorizationRequest,
    ) -> Result<String, ProviderError> {
        let AuthorizationRequest { redirect, state, nonce, challenge } = request;
        let known = self.metadata(access, FRESH).await?;
        let client = client(access, &known.what)?.set_redirect_uri(redirect_url(redirect)?);
        let (state, nonce) = (CsrfToken::new(state.clone()), Nonce::new(nonce.clone()));
        let flow = AuthenticationFlow::<CoreResponseType>::AuthorizationCode;
        let mut asked = client.authorize_url(flow, move || state, move || nonce);
        for scope in &access.scopes {
            asked = asked.add_scope(Scope::new(scope.clone()));
        }
        let (url, ..) = asked
            .add_extra_param("code_challenge", challenge.clone())
            .add_extra_param("code_challenge_method", "S256")
            .url();
        Ok(url.into())
    }

    async fn exchange(
        &self,
        access: &ProviderAccess,
        exchange: &CodeExchange,
    ) -> Result<ProviderAnswer, ProviderError> {
        let CodeExchange { redirect, code, verifier, nonce } = exchange;
        let known = self.metadata(access, FRESH).await?;
        let client = client(access, &known.what)?.set_redirect_uri(redirect_url(redirect)?);
        let call = self.caller(access);
        let tokens = client
            .exchange_code(AuthorizationCode::new(code.expose_secret().to_owned()))
            .map_err(|error| ProviderError::Unavailable(chain(&error)))?
            .set_pkce_verifier(PkceCodeVerifier::new(verifier.expose_secret().to_owned()))
            .request_async(&call)
            .await
            .map_err(|error| of_request(&error))?;
        self.exchanged(access, &known, tokens, &Nonce::new(nonce.clone())).await
    }

    async fn refresh(
        &self,
        access: &ProviderAccess,
        refresh: &SecretString,
        subject: &str,
    ) -> Result<ProviderAnswer, ProviderError> {
        let known = self.metadata(access, FRESH).await?;
        let client = client(access, &known.what)?;
        let call = self.caller(access);
        let token = RefreshToken::new(refresh.expose_secret().to_owned());
        let tokens = client
            .exchange_refresh_token(&token)
            .map_err(|error| ProviderError::Unavailable(chain(&error)))?
            .request_async(&call)
            .await
            .map_err(|error| of_renewal(&error))?;
        let (claims, mut said) = self.answer(access, &known, &tokens, None).await?;
        if claims.as_ref().is_some_and(|claims| claims.subject().as_str() != subject) {
            return Err(ProviderError::Ended("it renewed the login of somebody else".to_owned()));
        }
        let mut known_groups = claims.is_some();
        let has_groups = |claim: &String| said.iter().any(|said| said.contains_key(claim));
        if access.groups_claim.as_ref().is_some_and(|claim| !has_groups(claim))
            && let Some(info) = self.user_info(access, &known, &tokens, subject).await?
        {
            said.push(info.additional_claims().rest.clone());
            known_groups = true;
        }
        let groups = access.groups_claim.as_ref().filter(|_| known_groups).map(|claim| groups(claim, &said));
        let refresh = tokens.refresh_token().map(|token| SecretString::from(token.secret().clone()));
        let claims = ProviderClaims {
            subject: subject.to_owned(),
            email: None,
            email_verified: false,
            name: None,
            groups,
        };
        Ok(ProviderAnswer { claims, refresh })
    }

    async fn token_claims(
        &self,
        issuer: &str,
        audience: &str,
        token: &SecretString,
    ) -> Result<serde_json::Map<String, Value>, ProviderError> {
        let keys = self.keys(issuer, FRESH).await?;
        match keys::verified(issuer, audience, token, &keys.what) {
            Err(Unverified::Key) if keys.read.elapsed() > YOUNG => {
                // It may have another key by now.
                let keys = self.keys(issuer, Duration::ZERO).await?;
                keys::verified(issuer, audience, token, &keys.what).map_err(ProviderError::from)
            }
            verified => verified.map_err(ProviderError::from),
        }
    }

    fn token_claims_by(
        &self,
        issuer: &str,
        audience: &str,
        token: &SecretString,
        key: &str,
    ) -> Result<serde_json::Map<String, Value>, ProviderError> {
        let key: CoreJsonWebKey = serde_json::from_str(key)
            .map_err(|_| ProviderError::Refused("the key that is known is none".to_owned()))?;
        keys::verified(issuer, audience, token, &CoreJsonWebKeySet::new(vec![key]))
            .map_err(ProviderError::from)
    }

    async fn names_issuer(&self, access: &ProviderAccess) -> Result<bool, ProviderError> {
        let known = self.metadata(access, FRESH).await?;
        let more = known.what.additional_metadata();
        Ok(more.authorization_response_iss_parameter_supported.unwrap_or_default())
    }

    async fn logout_url(&self, access: &ProviderAccess, back: &str) -> Result<Option<String>, ProviderError> {
        let known = self.metadata(access, FRESH).await?;
        let Some(page) = end_session(&known.what) else { return Ok(None) };
        let wrong = |_| ProviderError::Unavailable("its page to sign out has no address".to_owned());
        let mut url = reqwest::Url::parse(page).map_err(wrong)?;
        url.query_pairs_mut()
            .append_pair("client_id", &access.client_id)
            .append_pair("post_logout_redirect_uri", back);
        Ok(Some(url.into()))
    }
}

/// Why an ID token does not count.
enum Unverified {
    /// None of the keys that we know signed it.
    Key,
    Other(String),
}

impl From<Unverified> for ProviderError {
    fn from(unverified: Unverified) -> Self {
        match unverified {
            Unverified::Key => Self::Refused("its ID token is signed with none of its keys".to_owned()),
            Unverified::Other(why) => Self::Refused(why),
        }
    }
}

/// The claims of the ID token, if there is one.
fn verified(
    access: &ProviderAccess,
    client: &Client,
    tokens: &Tokens,
    nonce: Option<&Nonce>,
) -> Result<Option<Claims>, Unverified> {
    let Some(id_token) = tokens.id_token() else { return Ok(None) };
    let latest = Utc::now() + AHEAD;
    let in_time = move |at: DateTime<Utc>| {
        if at > latest { Err("it is from the future".to_owned()) } else { Ok(()) }
    };
    let verifier =
        client.id_token_verifier().set_allowed_algs(SIGNATURES).set_issue_time_verifier_fn(in_time);
    let claims = match nonce {
        Some(nonce) => id_token.claims(&verifier, nonce),
        // A renewed one need not hold it.
        None => id_token.claims(&verifier, |_: Option<&Nonce>| Ok(())),
    };
    let claims = claims.map_err(|error| match &error {
        ClaimsVerificationError::SignatureVerification(
            SignatureVerificationError::NoMatchingKey | SignatureVerificationError::CryptoError(_),
        ) => Unverified::Key,
        _ => Unverified::Other(format!("its ID token does not count: {}", chain(&error))),
    })?;
    let other = |why: &str| Err(Unverified::Other(format!("its ID token does not count: {why}")));
    if claims.authorized_party().is_some_and(|party| party.as_str() != access.client_id) {
        return other("it is for another client");
    }
    let begins = claims.additional_claims().rest.get("nbf").and_then(Value::as_f64);
    if begins.is_some_and(|at| at > latest.timestamp() as f64) {
        return other("it counts from a time in the future");
    }
    if let Some(expected) = claims.access_token_hash() {
        let actual = id_token.signing_alg().ok().zip(id_token.signing_key(&verifier).ok()).and_then(
            |(algorithm, key)| AccessTokenHash::from_token(tokens.access_token(), algorithm, key).ok(),
        );
        if actual.as_ref() != Some(expected) {
            return other("it is of another access token");
        }
    }
    Ok(Some(claims.clone()))
}

fn client(access: &ProviderAccess, metadata: &Metadata) -> Result<Client, ProviderError> {
    if metadata.token_endpoint().is_none() {
        return Err(ProviderError::Unavailable(format!("{} gives no tokens", access.issuer)));
    }
    let secret = access.secret.as_ref().map(|secret| ClientSecret::new(secret.expose_secret().to_owned()));
    let client =
        Client::from_provider_metadata(metadata.clone(), ClientId::new(access.client_id.clone()), secret);
    let methods = metadata.token_endpoint_auth_methods_supported();
    let basic = methods.is_none_or(|methods| methods.contains(&CoreClientAuthMethod::ClientSecretBasic));
    Ok(if basic { client } else { client.set_auth_type(AuthType::RequestBody) })
}

fn redirect_url(url: &str) -> Result<RedirectUrl, ProviderError> {
    RedirectUrl::new(url.to_owned())
        .map_err(|_| ProviderError::Unavailable("the console's public URL is none".to_owned()))
}

/// A provider on this machine, which may be asked without TLS.
fn is_plain(access: &ProviderAccess) -> bool {
    access.issuer.starts_with("http://")
}

fn end_session(metadata: &Metadata) -> Option<&str> {
    metadata.additional_metadata().end_session_endpoint.as_deref()
}

fn is_page(url: &str, plain: bool) -> bool {
    reqwest::Url::parse(url).is_ok_and(|url| url.scheme() == "https" || (plain && url.scheme() == "http"))
}

fn name(name: Option<&openidconnect::LocalizedClaim<openidconnect::EndUserName>>) -> Option<String> {
    let text = name?.get(None)?.to_string();
    (!text.is_empty() && text.len() <= LONGEST).then_some(text)
}

/// The groups of a claim: a list of texts, or one text.
fn groups(claim: &str, said: &[serde_json::Map<String, Value>]) -> Vec<String> {
    let texts = said.iter().filter_map(|said| said.get(claim)).flat_map(|value| match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => {
            values.iter().take(MOST_GROUPS).filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    });
    texts.filter(|text| text.len() <= LONGEST).collect()
}

type Requested = RequestTokenError<HttpError, StandardErrorResponse<CoreErrorResponseType>>;

/// Why a code got no tokens.
fn of_request(error: &Requested) -> ProviderError {
    match error {
        RequestTokenError::ServerResponse(response) => {
            ProviderError::Refused(format!("it refused the code: {}", word(response.error())))
        }
        other => of_answer(other),
    }
}

/// Why a refresh token got no tokens.
fn of_renewal(error: &Requested) -> ProviderError {
    match error {
        RequestTokenError::ServerResponse(response) => match response.error() {
            CoreErrorResponseType::InvalidGrant => ProviderError::Ended("invalid_grant".to_owned()),
            other => ProviderError::Unavailable(format!("it did not renew the login: {}", word(other))),
        },
        other => of_answer(other),
    }
}

fn of_answer(error: &Requested) -> ProviderError {
    match error {
        RequestTokenError::Request(error) => ProviderError::Unavailable(chain(error)),
        // What it answered may hold tokens.
        RequestTokenError::Parse(..) | RequestTokenError::Other(_) | RequestTokenError::ServerResponse(_) => {
            ProviderError::Unavailable("it answered a request for tokens with something else".to_owned())
        }
    }
}

/// A word of the protocol; one that a provider made up could be anything.
fn word(error: &CoreErrorResponseType) -> &str {
    match error {
        CoreErrorResponseType::Extension(_) => "an error of its own",
        known => known.as_ref(),
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
