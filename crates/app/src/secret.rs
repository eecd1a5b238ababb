//! Random tokens, their hashes, passwords.

use std::fmt;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use plural_core::{Error, Result};
use rand::TryRng;
use rand::rngs::SysRng;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// SHA-256 of a token's text: enough for 256 random bits, which nobody can guess from their hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Hash of this token.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// The hash of these bytes, as a store kept them.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes that a store keeps.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash")
    }
}

/// A token that was just made: its text is shown once, its hash is kept.
#[derive(Debug)]
pub struct NewToken {
    /// For its owner, once.
    pub text: SecretString,
    /// For the store.
    pub hash: TokenHash,
    /// The first characters behind the prefix.
    pub hint: String,
}

impl NewToken {
    /// A token of 256 random bits behind `prefix`.
    ///
    /// # Errors
    /// When the machine has no randomness.
    pub fn generate(prefix: &str) -> Result<Self> {
        let body = hex::encode(random::<32>()?);
        let text = format!("{prefix}{body}");
        Ok(Self { hash: TokenHash::of(&text), hint: body[..6].to_owned(), text: SecretString::from(text) })
    }
}

/// Random bytes of the machine.
///
/// # Errors
/// When the machine has none.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    SysRng.try_fill_bytes(&mut bytes).map_err(|cause| Error::internal("drawing random bytes", cause))?;
    Ok(bytes)
}

/// A password for a person to type: 20 letters and digits without look-alikes, over 110 bits.
///
/// # Errors
/// When the machine has no randomness.
pub fn random_password() -> Result<SecretString> {
    const ALPHABET: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz23456789A";
    let text: String = random::<24>()?.iter().map(|b| char::from(ALPHABET[usize::from(b % 32)])).collect();
    Ok(SecretString::from(text))
}

/// Argon2id hash of a password in PHC form. Takes tens of milliseconds and 19 MiB: call it off the
/// request threads.
///
/// # Errors
/// [`Error::Invalid`] for a password shorter than 8 or longer than 1024 bytes.
pub fn hash_password(password: &SecretString) -> Result<String> {
    let bytes = password.expose_secret().as_bytes();
    if !(8..=1024).contains(&bytes.len()) {
        return Err(Error::invalid("password", "must have between 8 and 1024 bytes"));
    }
    let hash: PasswordHash = Argon2::default()
        .hash_password(bytes)
        .map_err(|cause| Error::internal("hashing a password", cause.to_string()))?;
    Ok(hash.to_string())
}

/// Whether `password` is the one that `hash` was made from. Without a hash it takes as long and says
/// no, so that time does not tell which users exist.
pub fn verify_password(password: &SecretString, hash: Option<&str>) -> bool {
    // The hash of a random text that nobody knows.
    const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$cGx1cmFsLW5vYm9keS1oZXJl$\
                          dCbhJ2rUeWUeHFNy4bEDVoUGjnO7T0iB4QtmVSLfFho";
    let Ok(parsed) = PasswordHash::new(hash.unwrap_or(NOBODY)) else { return false };
    let fits = Argon2::default().verify_password(password.expose_secret().as_bytes(), &parsed).is_ok();
    fits && hash.is_some()
}

/// Characters of codes that people type: without vowels, which make words, and without look-alikes.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";

/// A code for people to type: so many random letters.
pub(crate) fn random_letters(count: usize) -> Result<String> {
    let mut code = String::with_capacity(count);
    while code.len() < count {
        for byte in random::<32>()? {
            // 240 is the largest multiple of 20 below 256: every letter is as likely.
            if byte < 240 && code.len() < count {
                code.push(char::from(LETTERS[usize::from(byte % 20)]));
            }
        }
    }
    Ok(code)
}

/// Letters of a code as they were drawn, without what people put between them.
pub(crate) fn typed_letters(code: &str, count: usize) -> String {
    let letters = code.chars().filter(char::is_ascii_alphabetic).take(count * 2);
    letters.map(|c| c.to_ascii_uppercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords() {
        let right = SecretString::from("correct horse");
        let hash = hash_password(&right).unwrap();
        assert!(hash.starts_with("$argon2id$"));
        assert!(verify_password(&right, Some(&hash)));
        assert!(!verify_password(&SecretString::from("wrong horse"), Some(&hash)));
        assert!(!verify_password(&right, None));
        assert!(hash_password(&SecretString::from("short")).is_err());
    }

    #[test]
    fn the_stand_in_hash_is_well_formed() {
        // Otherwise an unknown user would be told apart by time.
        let started = std::time::Instant::now();
        assert!(!verify_password(&SecretString::from("x"), None));
        assert!(started.elapsed() > std::time::Duration::from_millis(1));
    }

    #[test]
    fn tokens_do_not_show() {
        let token = NewToken::generate("console-").unwrap();
        let shown = format!("{token:?}");
        assert!(!shown.contains(token.text.expose_secret()), "{shown}");
        assert_eq!(TokenHash::of(token.text.expose_secret()), token.hash);
        assert_eq!(token.text.expose_secret().len(), "console-".len() + 64);
        assert_eq!(random_password().unwrap().expose_secret().len(), 24);
    }
}
