//! A device with one passkey that says what a test has it say.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use p256::ecdsa::{Signature, SigningKey, signature::Signer as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::oci_registry::signing_key;

/// The person is there; the device verified them; it tells of a new key.
const PRESENT: u8 = 0x01;
const VERIFIED: u8 = 0x04;
const NEW_KEY: u8 = 0x40;

/// A device with one passkey, on P-256.
#[derive(Debug, Clone)]
pub struct SoftAuthenticator {
    key: SigningKey,
    credential: Vec<u8>,
    user: String,
    /// What it counted last; each answer counts one more.
    pub counter: u32,
    /// Whether it says that it verified its person.
    pub is_verified: bool,
    /// Whose passkey it says that this is, in place of the one whom it is of.
    pub claims: Option<String>,
}

impl SoftAuthenticator {
    /// A device; those of different numbers have different keys, but for 0 and 1.
    pub fn new(number: u8) -> Self {
        Self {
            key: signing_key(number),
            credential: Sha256::digest([number; 16]).to_vec(),
            user: String::new(),
            counter: 0,
            is_verified: true,
            claims: None,
        }
    }

    /// Answers `PublicKeyCredentialCreationOptionsJSON` as a browser at an origin sends it.
    pub fn create(&mut self, options: &Value, origin: &str) -> String {
        options["user"]["id"].as_str().unwrap_or_default().clone_into(&mut self.user);
        let mut data = self.data(options["rp"]["id"].as_str().unwrap_or_default(), NEW_KEY);
        data.extend([0; 16]);
        data.extend([0, 32]);
        data.extend(&self.credential);
        let point = self.key.verifying_key().to_sec1_point(false);
        let (x, y) = point.as_bytes()[1..].split_at(32);
        // COSE: an EC2 key for ES256 on P-256.
        data.extend([0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20]);
        data.extend(x);
        data.extend([0x22, 0x58, 0x20]);
        data.extend(y);
        let mut object = b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58".to_vec();
        object
            .push(u8::try_from(data.len()).unwrap_or_else(|_| unreachable!("the data have a fixed length")));
        object.extend(data);
        let client = client("webauthn.create", options, origin);
        let response = json!({
            "clientDataJSON": URL_SAFE_NO_PAD.encode(client), "attestationObject": URL_SAFE_NO_PAD.encode(object),
            "transports": ["internal"],
        });
        self.answer(&response)
    }

    /// Answers `PublicKeyCredentialRequestOptionsJSON`.
    pub fn get(&mut self, options: &Value, origin: &str) -> String {
        self.counter += 1;
        let data = self.data(options["rpId"].as_str().unwrap_or_default(), 0);
        let client = client("webauthn.get", options, origin);
        let mut signed = data.clone();
        signed.extend(Sha256::digest(&client));
        let signature: Signature = self.key.sign(&signed);
        let response = json!({
            "clientDataJSON": URL_SAFE_NO_PAD.encode(client), "authenticatorData": URL_SAFE_NO_PAD.encode(data),
            "signature": URL_SAFE_NO_PAD.encode(signature.to_der().as_bytes()),
            "userHandle": self.claims.as_deref().unwrap_or(&self.user),
        });
        self.answer(&response)
    }

    /// Whose passkey it has, as it tells it.
    pub fn user(&self) -> &str {
        &self.user
    }

    fn data(&self, id: &str, flags: u8) -> Vec<u8> {
        let mut data = Sha256::digest(id).to_vec();
        data.push(flags | PRESENT | if self.is_verified { VERIFIED } else { 0 });
        data.extend(self.counter.to_be_bytes());
        data
    }

    fn answer(&self, response: &Value) -> String {
        let id = URL_SAFE_NO_PAD.encode(&self.credential);
        let answer = json!({
            "id": id, "rawId": id, "type": "public-key", "clientExtensionResults": {}, "response": response,
        });
        answer.to_string()
    }
}

fn client(kind: &str, options: &Value, origin: &str) -> Vec<u8> {
    let challenge = options["challenge"].as_str().unwrap_or_default();
    // In the order that the standard fixes.
    format!(r#"{{"type":"{kind}","challenge":"{challenge}","origin":"{origin}","crossOrigin":false}}"#)
        .into_bytes()
}
