//! Opens files in the format of age (`age-encryption.org/v1`) with X25519 identities, from its public description.
//!
//! Not the crate of that name: it brings translations, post-quantum drafts and a second generation of all primitives. Those that are
//! needed are in the tree already.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD_NO_PAD},
};
use bech32::{Bech32, Hrp, primitives::decode::CheckedHrpstring};
use curve25519_dalek::MontgomeryPoint;
use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, Salt},
    hmac,
};

const VERSION: &str = "age-encryption.org/v1";
const BEGIN: &str = "-----BEGIN AGE ENCRYPTED FILE-----";
const END: &str = "-----END AGE ENCRYPTED FILE-----";
/// What a chunk of the payload is before it is encrypted.
const CHUNK: usize = 64 << 10;
const TAG: usize = 16;
/// Bytes of a header: some thousand recipients.
const LONGEST_HEADER: usize = 1 << 20;

/// Why a file does not open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AgeError {
    #[error("it is no file that age encrypted")]
    Format,
    #[error("it was changed, or is damaged")]
    Damaged,
    #[error("none of the project's identities opens it")]
    NoIdentity,
    #[error(
        "it is encrypted for {0}, and not for a recipient of the kind age1…, which is all that the agent opens"
    )]
    Unsupported(String),
}

/// The secret half of a recipient.
#[derive(Clone)]
pub(crate) struct Identity {
    secret: [u8; 32],
    public: [u8; 32],
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.recipient())
    }
}

impl Identity {
    /// Reads `AGE-SECRET-KEY-1…`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let decoded = CheckedHrpstring::new::<Bech32>(text.trim()).ok()?;
        if decoded.hrp() != Hrp::parse("age-secret-key-").ok()? {
            return None;
        }
        let secret: [u8; 32] = decoded.byte_iter().collect::<Vec<u8>>().try_into().ok()?;
        Some(Self { secret, public: MontgomeryPoint::mul_base_clamped(secret).to_bytes() })
    }

    /// Reads a file of identities as `age-keygen` writes it: one a line, and comments. Answers too how many lines are something else.
    pub(crate) fn parse_all(text: &str) -> (Vec<Self>, usize) {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let all: Vec<Option<Self>> = lines.map(Self::parse).collect();
        let wrong = all.iter().filter(|identity| identity.is_none()).count();
        (all.into_iter().flatten().collect(), wrong)
    }

    /// Its public half, `age1…`.
    pub(crate) fn recipient(&self) -> String {
        let hrp = Hrp::parse("age");
        hrp.ok().and_then(|hrp| bech32::encode::<Bech32>(hrp, &self.public).ok()).unwrap_or_default()
    }
}

/// One recipient's part of the header.
struct Stanza<'a> {
    args: Vec<&'a str>,
    body: Vec<u8>,
}

/// Decrypts a file, armoured or not.
pub(crate) fn open(file: &[u8], identities: &[Identity]) -> Result<Vec<u8>, AgeError> {
    let unarmoured = unarmoured(file)?;
    let file = unarmoured.as_deref().unwrap_or(file);
    let (stanzas, signed, mac, payload) = header(file)?;
    let key = file_key(&stanzas, identities)?;
    let mac_key = hmac::Key::new(hmac::HMAC_SHA256, &hkdf(&[], &key, b"header")?);
    hmac::verify(&mac_key, signed, &mac).map_err(|_| AgeError::Damaged)?;
    let (nonce, chunks) = payload.split_at_checked(16).ok_or(AgeError::Damaged)?;
    decrypt(chunks, &hkdf(nonce, &key, b"payload")?)
}

/// The bytes inside of an armour; nothing where there is none.
fn unarmoured(file: &[u8]) -> Result<Option<Vec<u8>>, AgeError> {
    let Ok(text) = std::str::from_utf8(file) else { return Ok(None) };
    let text = text.trim();
    let Some(inner) = text.strip_prefix(BEGIN) else { return Ok(None) };
    let inner = inner.strip_suffix(END).ok_or(AgeError::Damaged)?;
    let packed: String = inner.split_whitespace().collect();
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
    GeneralPurpose::new(&alphabet::STANDARD, config).decode(packed).map(Some).map_err(|_| AgeError::Damaged)
}

type Header<'a> = (Vec<Stanza<'a>>, &'a [u8], Vec<u8>, &'a [u8]);

/// Recipients, the bytes that the MAC covers, the MAC, and what follows.
fn header(file: &[u8]) -> Result<Header<'_>, AgeError> {
    let mut at = 0;
    let mut line = || -> Result<(&str, usize), AgeError> {
        let rest = &file[at..];
        let end = rest.iter().position(|byte| *byte == b'\n').filter(|end| at + end < LONGEST_HEADER);
        let end = end.ok_or(if at == 0 { AgeError::Format } else { AgeError::Damaged })?;
        let begin = at;
        at += end + 1;
        let wrong = if begin == 0 { AgeError::Format } else { AgeError::Damaged };
        Ok((std::str::from_utf8(&rest[..end]).map_err(|_| wrong)?, begin))
    };
    if line()?.0 != VERSION {
        return Err(AgeError::Format);
    }
    let mut stanzas = Vec::new();
    loop {
        let (text, begin) = line()?;
        if let Some(mac) = text.strip_prefix("--- ") {
            let mac = STANDARD_NO_PAD.decode(mac).map_err(|_| AgeError::Damaged)?;
            return Ok((stanzas, &file[..begin + 3], mac, &file[at..]));
        }
        let args: Vec<&str> = text.strip_prefix("-> ").ok_or(AgeError::Damaged)?.split(' ').collect();
        let mut body = String::new();
        loop {
            let (text, _) = line()?;
            body.push_str(text);
            if text.len() < 64 {
                break;
            }
        }
        let body = STANDARD_NO_PAD.decode(body).map_err(|_| AgeError::Damaged)?;
        stanzas.push(Stanza { args, body });
    }
}

/// The key of the file, from the first recipient that an identity belongs to.
fn file_key(stanzas: &[Stanza<'_>], identities: &[Identity]) -> Result<Vec<u8>, AgeError> {
    let mut others = Vec::new();
    for Stanza { args, body } in stanzas {
        let ["X25519", share] = args[..] else {
            // Random lines are there so that nobody relies on their absence.
            if let Some(kind) = args.first().filter(|kind| !kind.ends_with("-grease")) {
                others.push((*kind).to_owned());
            }
            continue;
        };
        let share: [u8; 32] = STANDARD_NO_PAD
            .decode(share)
            .ok()
            .and_then(|share| share.try_into().ok())
            .ok_or(AgeError::Damaged)?;
        for Identity { secret, public } in identities {
            let shared = MontgomeryPoint(share).mul_clamped(*secret).to_bytes();
            if shared == [0; 32] {
                return Err(AgeError::Damaged);
            }
            let wrap = hkdf(&[share, *public].concat(), &shared, b"age-encryption.org/v1/X25519")?;
            if let Ok(key) = unseal(&wrap, [0; 12], body)
                && key.len() == 16
            {
                return Ok(key);
            }
        }
    }
    let is_supported = stanzas.iter().any(|stanza| stanza.args.first() == Some(&"X25519"));
    others.dedup();
    Err(if is_supported || others.is_empty() {
        AgeError::NoIdentity
    } else {
        AgeError::Unsupported(others.join(", ").chars().take(100).collect())
    })
}

/// The payload: chunks with a counter, the last of which says so.
fn decrypt(chunks: &[u8], key: &[u8; 32]) -> Result<Vec<u8>, AgeError> {
    let mut plain = Vec::with_capacity(chunks.len());
    let all: Vec<&[u8]> = chunks.chunks(CHUNK + TAG).collect();
    if all.is_empty() {
        return Err(AgeError::Damaged);
    }
    for (at, chunk) in all.iter().enumerate() {
        let is_last = at + 1 == all.len();
        let mut nonce = [0; 12];
        nonce[3..11].copy_from_slice(&(at as u64).to_be_bytes());
        nonce[11] = u8::from(is_last);
        let opened = unseal(key, nonce, chunk)?;
        // Only a file without content ends with an empty chunk.
        if opened.is_empty() && all.len() > 1 {
            return Err(AgeError::Damaged);
        }
        plain.extend_from_slice(&opened);
    }
    Ok(plain)
}

fn unseal(key: &[u8; 32], nonce: [u8; 12], sealed: &[u8]) -> Result<Vec<u8>, AgeError> {
    let key = UnboundKey::new(&CHACHA20_POLY1305, key).map_err(|_| AgeError::Damaged)?;
    let mut bytes = sealed.to_vec();
    let nonce = Nonce::assume_unique_for_key(nonce);
    let opened = LessSafeKey::new(key).open_in_place(nonce, Aad::empty(), &mut bytes);
    Ok(opened.map_err(|_| AgeError::Damaged)?.to_vec())
}

fn hkdf(salt: &[u8], key: &[u8], info: &[u8]) -> Result<[u8; 32], AgeError> {
    let mut out = [0; 32];
    let extracted = Salt::new(HKDF_SHA256, salt).extract(key);
    let infos = [info];
    let expanded = extracted.expand(&infos, HKDF_SHA256).map_err(|_| AgeError::Damaged)?;
    expanded.fill(&mut out).map_err(|_| AgeError::Damaged)?;
    Ok(out)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Made with `age-keygen`; of these files only.
    pub(crate) const KEY: &str = include_str!("../../tests/encrypted/project.agekey");
    const OTHER: &str = include_str!("../../tests/encrypted/other.agekey");
    const PLAIN: &[u8] = include_bytes!("../../tests/encrypted/token.txt");
    const SEALED: &[u8] = include_bytes!("../../tests/encrypted/token.txt.age");
    const ARMOURED: &[u8] = include_bytes!("../../tests/encrypted/token.armoured.age");
    const LONG: &[u8] = include_bytes!("../../tests/encrypted/long.age");
    const EMPTY: &[u8] = include_bytes!("../../tests/encrypted/empty.age");
    const WITH_PASSWORD: &[u8] = include_bytes!("../../tests/encrypted/scrypt.age");

    pub(crate) fn identities(text: &str) -> Vec<Identity> {
        let (all, wrong) = Identity::parse_all(text);
        assert_eq!((all.len(), wrong), (1, 0));
        all
    }

    #[test]
    fn files_that_age_made_open() {
        let keys = identities(KEY);
        assert!(KEY.contains(&keys[0].recipient()), "the comment of age-keygen names the recipient");
        assert_eq!(open(SEALED, &keys).unwrap(), PLAIN);
        assert_eq!(open(ARMOURED, &keys).unwrap(), PLAIN);
        assert_eq!(open(EMPTY, &keys).unwrap(), b"");
        // Two chunks and a bit.
        let long = open(LONG, &keys).unwrap();
        assert_eq!(long.len(), 2 * CHUNK + 100);
        assert!(long.iter().all(|byte| *byte == b'a'));
        // One more identity before the right one.
        assert_eq!(open(SEALED, &[identities(OTHER), keys].concat()).unwrap(), PLAIN);
    }

    #[test]
    fn what_was_changed_does_not() {
        let keys = identities(KEY);
        assert_eq!(open(SEALED, &identities(OTHER)), Err(AgeError::NoIdentity));
        assert_eq!(open(SEALED, &[]), Err(AgeError::NoIdentity));
        assert_eq!(open(b"hello", &keys), Err(AgeError::Format));
        assert_eq!(open(b"", &keys), Err(AgeError::Format));
        assert!(matches!(open(WITH_PASSWORD, &keys), Err(AgeError::Unsupported(kind)) if kind == "scrypt"));
        // No byte of a file can be changed, and none cut off.
        for at in 0..SEALED.len() {
            let mut changed = SEALED.to_vec();
            changed[at] ^= 1;
            assert!(open(&changed, &keys).is_err(), "byte {at}");
            assert!(open(&SEALED[..at], &keys).is_err(), "{at} bytes");
        }
        // Nor can whole chunks.
        let payload = LONG.len() - (2 * (CHUNK + TAG) + 100 + TAG);
        assert_eq!(open(&LONG[..payload + CHUNK + TAG], &keys), Err(AgeError::Damaged));
        let swapped = [
            &LONG[..payload],
            &LONG[payload + CHUNK + TAG..payload + 2 * (CHUNK + TAG)],
            &LONG[payload..payload + CHUNK + TAG],
            &LONG[payload + 2 * (CHUNK + TAG)..],
        ];
        assert_eq!(open(&swapped.concat(), &keys), Err(AgeError::Damaged));
    }

    #[test]
    fn only_identities_are_identities() {
        let recipient = identities(KEY)[0].recipient();
        assert!(Identity::parse(&recipient).is_none());
        let line = KEY.lines().find(|line| line.starts_with("AGE-SECRET-KEY-")).unwrap();
        assert!(Identity::parse(&line[..line.len() - 1]).is_none());
        assert!(Identity::parse(&line.replace('Q', "P")).is_none() || !line.contains('Q'));
        assert_eq!(Identity::parse_all("# x\n\nsomething\n").1, 1);
        assert!(!format!("{:?}", identities(KEY)).to_uppercase().contains("SECRET"));
    }
}
