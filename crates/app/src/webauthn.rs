//! WebAuthn, as far as passkeys need it: the console is the relying party, keys are found by the device that holds them, and the
//! device verifies its person each time. Pure: what a browser keeps and what a store keeps are bytes here.

use plural_core::{Error, Result};
use serde_json::Value;
use url::Url;
use uuid::Uuid;
use webauthn_rp::bin::{Decode as _, Encode as _};
use webauthn_rp::request::auth::AuthenticationVerificationOptions;
use webauthn_rp::request::register::{
    CredProtect, Nickname, PublicKeyCredentialUserEntity, RegistrationVerificationOptions, UserHandle16,
    Username,
};
use webauthn_rp::request::{AsciiDomain, DomainOrigin, ExtensionInfo, PublicKeyCredentialDescriptor, RpId};
use webauthn_rp::response::auth::DiscoverableAuthentication16;
use webauthn_rp::response::auth::error::AuthCeremonyErr;
use webauthn_rp::response::register::{CompressedPubKey, DynamicState, StaticState};
use webauthn_rp::response::{AuthTransports, CredentialId};
use webauthn_rp::{
    AuthenticatedCredential, DiscoverableAuthenticationServerState, DiscoverableCredentialRequestOptions,
    PublicKeyCredentialCreationOptions, Registration, RegistrationServerState,
};

/// A public key with what came with it when it was made.
type PublicKey = StaticState<CompressedPubKey<[u8; 32], [u8; 32], [u8; 48], Vec<u8>>>;

/// A key as a store keeps it. None of it is secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasskeyKey {
    /// What the device calls it.
    pub credential_id: Vec<u8>,
    /// The public key.
    pub public_key: Vec<u8>,
    /// What changes with each use: the device's counter among it.
    pub state: Vec<u8>,
}

/// What a browser is asked, and what is needed to judge its answer.
pub(crate) struct Ceremony {
    /// `PublicKeyCredentialCreationOptionsJSON` or `PublicKeyCredentialRequestOptionsJSON`.
    pub(crate) options: Value,
    /// The challenge, with all that the answer has to fit.
    pub(crate) state: Vec<u8>,
}

/// Why somebody is not signed in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AssertionError {
    /// The device's counter went back: there may be two of it.
    #[error("the counter of the passkey went back")]
    Counter,
    /// Anything else, for the log.
    #[error("{0}")]
    Refused(String),
}

/// The console at one origin.
pub(crate) struct RelyingParty<'a> {
    id: RpId,
    origin: DomainOrigin<'a, 'a>,
}

impl<'a> RelyingParty<'a> {
    /// The one of an origin as browsers write it; none where no browser would use passkeys: they belong to a host name.
    pub(crate) fn of(origin: &'a str) -> Option<Self> {
        let url = Url::parse(origin).ok()?;
        let id = RpId::Domain(AsciiDomain::try_from(url.domain()?.to_owned()).ok()?);
        Some(Self { id, origin: DomainOrigin::try_from(origin).ok()? })
    }

    /// Asks for a new key of a user, on a device that has none of these.
    pub(crate) fn begin_adding(
        &self,
        user: Uuid,
        name: &str,
        shown: &str,
        known: &[Vec<u8>],
    ) -> Result<Ceremony> {
        let id = handle(user);
        // Some devices show the name; one that they may not show is left out.
        let name = Username::try_from(name).or_else(|_| Username::try_from("user"));
        let name = name.map_err(|cause| Error::internal("naming a passkey", cause.to_string()))?;
        let entity =
            PublicKeyCredentialUserEntity { name, id: &id, display_name: Nickname::try_from(shown).ok() };
        let known = known.iter().filter_map(|id| CredentialId::<Vec<u8>>::decode(id.clone()).ok());
        let transports = || AuthTransports::decode(0).ok();
        let known =
            known.filter_map(|id| Some(PublicKeyCredentialDescriptor { id, transports: transports()? }));
        let mut options = PublicKeyCredentialCreationOptions::passkey(&self.id, entity, known.collect());
        // Devices that cannot protect a key further are as good: each use needs a verified person in any case.
        options.extensions.cred_protect =
            CredProtect::UserVerificationRequired(ExtensionInfo::AllowDontEnforceValue);
        let (server, client) = options.start_ceremony().map_err(|cause| asking(&cause))?;
        let options = serde_json::to_value(&client).map_err(|cause| asking(&cause))?;
        Ok(Ceremony { options, state: server.encode().map_err(|cause| asking(&cause))? })
    }

    /// The key that a browser answers with.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an answer that does not fit what was asked.
    pub(crate) fn finish_adding(&self, state: &[u8], answer: &str) -> Result<PasskeyKey> {
        let refused = |cause: &dyn std::fmt::Display| {
            tracing::info!(cause = %cause, "an answer of a browser is no new passkey");
            Error::invalid("answer", "is not the new passkey that was asked for; try again")
        };
        let state = RegistrationServerState::<16>::decode(state).map_err(|cause| refused(&cause))?;
        let answer = Registration::from_json_relaxed(answer.as_bytes()).map_err(|cause| refused(&cause))?;
        let options = RegistrationVerificationOptions::<DomainOrigin<'_, '_>, DomainOrigin<'_, '_>> {
            allowed_origins: std::slice::from_ref(&self.origin),
            error_on_unsolicited_extensions: false,
            ..Default::default()
        };
        let made = state.verify(&self.id, &answer, &options).map_err(|cause| refused(&cause))?;
        let Ok(public_key) = made.static_state().encode();
        let Ok(state) = made.dynamic_state().encode();
        Ok(PasskeyKey { credential_id: made.id().as_ref().to_vec(), public_key, state: state.to_vec() })
    }

    /// Asks for a key of anybody.
    pub(crate) fn begin_sign_in(&self) -> Result<Ceremony> {
        let options = DiscoverableCredentialRequestOptions::passkey(&self.id);
        let (server, client) = options.start_ceremony().map_err(|cause| asking(&cause))?;
        let options = serde_json::to_value(&client).map_err(|cause| asking(&cause))?;
        Ok(Ceremony { options, state: server.encode().map_err(|cause| asking(&cause))? })
    }

    /// Judges an answer by the key of its credential and the user whose that is: the key's state from now on.
    ///
    /// # Errors
    /// [`AssertionError`].
    pub(crate) fn finish_sign_in(
        &self,
        state: &[u8],
        answer: &Assertion,
        user: Uuid,
        key: &PasskeyKey,
    ) -> std::result::Result<Vec<u8>, AssertionError> {
        let refused = |cause: &dyn std::fmt::Display| AssertionError::Refused(cause.to_string());
        let asked = DiscoverableAuthenticationServerState::decode(state).map_err(|cause| refused(&cause))?;
        let public_key = PublicKey::decode(&key.public_key).map_err(|cause| refused(&cause))?;
        let before: [u8; 7] =
            key.state.as_slice().try_into().map_err(|_| refused(&"the key's state is not one"))?;
        let before = DynamicState::decode(before).map_err(|cause| refused(&cause))?;
        let user = handle(user);
        let credential = answer.0.raw_id();
        let mut known = AuthenticatedCredential::new(credential, &user, public_key, before)
            .map_err(|cause| refused(&cause))?;
        let options = AuthenticationVerificationOptions::<DomainOrigin<'_, '_>, DomainOrigin<'_, '_>> {
            allowed_origins: std::slice::from_ref(&self.origin),
            error_on_unsolicited_extensions: false,
            ..Default::default()
        };
        match asked.verify(&self.id, &answer.0, &mut known, &options) {
            Ok(_) => {
                let Ok(after) = known.dynamic_state().encode();
                Ok(after.to_vec())
            }
            Err(AuthCeremonyErr::SignatureCounter) => Err(AssertionError::Counter),
            Err(other) => Err(refused(&other)),
        }
    }
}

/// What a browser answers that signs somebody in; nothing of it is believed yet.
pub(crate) struct Assertion(DiscoverableAuthentication16);

impl Assertion {
    /// Reads one.
    pub(crate) fn read(answer: &str) -> Option<Self> {
        DiscoverableAuthentication16::from_json_relaxed(answer.as_bytes()).ok().map(Self)
    }

    /// Which key it says that it is of.
    pub(crate) fn credential_id(&self) -> &[u8] {
        self.0.raw_id().into_inner()
    }

    /// Whose key it says that it is of.
    pub(crate) fn user(&self) -> Uuid {
        let Ok(bytes) = self.0.response().user_handle().encode();
        Uuid::from_bytes(bytes)
    }
}

fn handle(user: Uuid) -> UserHandle16 {
    let Ok(handle) = UserHandle16::decode(*user.as_bytes());
    handle
}

fn asking(cause: &dyn std::fmt::Display) -> Error {
    Error::internal("asking for a passkey", cause.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passkeys_belong_to_host_names() {
        for origin in
            ["https://console.example.com", "https://console.example.com:8443", "http://localhost:8080"]
        {
            assert!(RelyingParty::of(origin).is_some(), "{origin}");
        }
        for origin in ["https://192.0.2.1", "http://127.0.0.1:8080", "http://[::1]:8080", "x"] {
            assert!(RelyingParty::of(origin).is_none(), "{origin}");
        }
    }

    #[test]
    fn what_is_asked_wants_a_verified_person_and_a_key_that_is_found() {
        let party = RelyingParty::of("https://console.example.com").unwrap();
        let asked = party.begin_adding(Uuid::now_v7(), "ada@example.com", "Ada", &[vec![7; 32]]).unwrap();
        let selection = &asked.options["authenticatorSelection"];
        assert_eq!(selection["userVerification"], "required", "{}", asked.options);
        assert_eq!(selection["residentKey"], "required", "{}", asked.options);
        assert_eq!(asked.options["attestation"], "none");
        assert_eq!(asked.options["extensions"]["enforceCredentialProtectionPolicy"], false);
        assert_eq!(asked.options["rp"]["id"], "console.example.com");
        assert_eq!(asked.options["excludeCredentials"].as_array().map(Vec::len), Some(1));
        let asked = party.begin_sign_in().unwrap();
        assert_eq!(asked.options["userVerification"], "required");
        assert_eq!(asked.options["allowCredentials"].as_array().map(Vec::len), Some(0));
        assert!(asked.state != party.begin_sign_in().unwrap().state, "a challenge of its own");
    }
}
