//! Key-encryption keys: they open data keys and never leave where they are, be that a file, the environment or a key management
//! service.

use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, KeyInit, Nonce};
use async_trait::async_trait;
use plural_core::Result;
use secrecy::{ExposeSecret, SecretBox};
use sha2::{Digest, Sha256};

use crate::secret::random;

const NONCE: usize = 12;

/// Why a key-encryption key did not do what it was asked for. The text is for the log and for operators, and holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It may work later.
    #[error("{0}")]
    Unavailable(String),
    /// Asking again does not help: another key, no permission, or what it is to open was changed.
    #[error("{0}")]
    Refused(String),
}

/// A data key as a key-encryption key made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKey {
    /// What opens with that key only.
    pub bytes: Vec<u8>,
    /// The version of the key-encryption key, where it has versions.
    pub version: Option<String>,
}

/// A data key in clear.
pub type ClearKey = SecretBox<[u8; 32]>;

/// A key-encryption key. `context` is authenticated: a data key opens for the one that it was wrapped for.
#[async_trait]
pub trait KeyEncryption: Send + Sync + 'static {
    /// What tells it from others, for ever. Stored beside what it wraps; no secret.
    fn name(&self) -> &str;
    /// The key, where this process has it. It opens what releases without data keys sealed.
    fn raw(&self) -> Option<&[u8; 32]> {
        None
    }
    /// Wraps a data key.
    async fn wrap(&self, context: &str, key: &ClearKey) -> Result<WrappedKey, KeyError>;
    /// Opens a data key.
    async fn unwrap(&self, context: &str, wrapped: &[u8]) -> Result<ClearKey, KeyError>;
    /// The version that wraps now, where it has versions. Data keys of another one are wrapped anew.
    async fn version(&self) -> Result<Option<String>, KeyError>;
}

/// A key that this process has in memory, from a file or the environment.
pub struct LocalKey {
    name: String,
    key: SecretBox<[u8; 32]>,
}

impl LocalKey {
    /// This key.
    pub fn new(key: &[u8; 32]) -> Self {
        let name = format!("key:{}", hex::encode(key_id(key)));
        Self { name, key: SecretBox::new(Box::new(*key)) }
    }

    /// These keys, the one that wraps first.
    pub fn all(current: &[u8; 32], previous: &[[u8; 32]]) -> Vec<std::sync::Arc<dyn KeyEncryption>> {
        let all = std::iter::once(current).chain(previous);
        all.map(|key| std::sync::Arc::new(Self::new(key)) as std::sync::Arc<dyn KeyEncryption>).collect()
    }

    fn cipher(&self) -> Aes256Gcm {
        Aes256Gcm::new(&(*self.key.expose_secret()).into())
    }
}

/// What names a key without telling anything of it.
pub(crate) fn key_id(key: &[u8; 32]) -> [u8; 8] {
    let digest = Sha256::new_with_prefix(b"plural key id").chain_update(key).finalize();
    let mut id = [0; 8];
    id.copy_from_slice(&digest[..8]);
    id
}

#[async_trait]
impl KeyEncryption for LocalKey {
    fn name(&self) -> &str {
        &self.name
    }

    fn raw(&self) -> Option<&[u8; 32]> {
        Some(self.key.expose_secret())
    }

    async fn wrap(&self, context: &str, key: &ClearKey) -> Result<WrappedKey, KeyError> {
        let refused = || KeyError::Refused("the machine has no randomness".to_owned());
        let nonce = random::<NONCE>().map_err(|_| refused())?;
        let payload = Payload { msg: key.expose_secret(), aad: context.as_bytes() };
        let mut bytes = nonce.to_vec();
        bytes.extend(self.cipher().encrypt(&Nonce::from(nonce), payload).map_err(|_| refused())?);
        Ok(WrappedKey { bytes, version: None })
    }

    async fn unwrap(&self, context: &str, wrapped: &[u8]) -> Result<ClearKey, KeyError> {
        let refused = || KeyError::Refused(format!("{} does not open it", self.name));
        let (nonce, sealed) = wrapped.split_at_checked(NONCE).ok_or_else(refused)?;
        let nonce = <[u8; NONCE]>::try_from(nonce).map_err(|_| refused())?;
        let payload = Payload { msg: sealed, aad: context.as_bytes() };
        clear(self.cipher().decrypt(&Nonce::from(nonce), payload).map_err(|_| refused())?)
    }

    async fn version(&self) -> Result<Option<String>, KeyError> {
        Ok(None)
    }
}

/// A data key of what a key-encryption key opened.
///
/// # Errors
/// [`KeyError::Refused`] when it is none.
pub fn clear(mut bytes: Vec<u8>) -> Result<ClearKey, KeyError> {
    let key = <[u8; 32]>::try_from(bytes.as_slice());
    // The other copy of the key. `black_box` keeps this from being left out, since nothing reads it.
    bytes.fill(0);
    std::hint::black_box(&bytes);
    let key = key.map_err(|_| KeyError::Refused("what it opens is no key of 32 bytes".to_owned()))?;
    Ok(SecretBox::new(Box::new(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_local_key_opens_what_it_wrapped_for_the_same_context_only() {
        let one = LocalKey::new(&[1; 32]);
        let data = SecretBox::new(Box::new([9; 32]));
        let wrapped = one.wrap("a", &data).await.unwrap();
        assert_eq!(wrapped.version, None);
        assert_eq!(one.unwrap("a", &wrapped.bytes).await.unwrap().expose_secret(), &[9; 32]);
        assert!(matches!(one.unwrap("b", &wrapped.bytes).await, Err(KeyError::Refused(_))));
        assert!(matches!(
            LocalKey::new(&[2; 32]).unwrap("a", &wrapped.bytes).await,
            Err(KeyError::Refused(_))
        ));
        for len in 0..wrapped.bytes.len() {
            assert!(one.unwrap("a", &wrapped.bytes[..len]).await.is_err(), "{len}");
        }
        assert_ne!(one.name(), LocalKey::new(&[2; 32]).name());
        assert_ne!(wrapped.bytes, one.wrap("a", &data).await.unwrap().bytes, "never the same twice");
    }
}
