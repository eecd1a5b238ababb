//! Signatures on commits by an SSH key, as `ssh-keygen -Y sign -n git` makes them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::signature::Ed25519KeyPair;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha512};

use crate::error::{Error, Result};

const KIND: &[u8] = b"ssh-ed25519";
const MAGIC: &[u8] = b"SSHSIG";
const NAMESPACE: &[u8] = b"git";
const HASH: &[u8] = b"sha512";
/// Characters of a line.
const LINE: usize = 70;

/// A key that signs.
pub(crate) struct Signer {
    pair: Ed25519KeyPair,
    /// The public key as SSH writes it.
    public: Vec<u8>,
}

impl Signer {
    /// The key in the form that OpenSSH writes.
    pub(crate) fn new(pem: &SecretString) -> Result<Self> {
        // No more is said of it: the words could quote it.
        parse(pem.expose_secret()).ok_or_else(|| {
            Error::invalid(
                "the connection's signing key is none that signs here: give an Ed25519 key as OpenSSH writes it, without a passphrase",
            )
        })
    }

    /// The signature over what a commit is without it.
    pub(crate) fn sign(&self, payload: &[u8]) -> String {
        let digest = Sha512::digest(payload);
        let mut signed = MAGIC.to_vec();
        for part in [NAMESPACE, b"", HASH, digest.as_slice()] {
            push(&mut signed, part);
        }
        let mut signature = Vec::new();
        push(&mut signature, KIND);
        push(&mut signature, self.pair.sign(&signed).as_ref());
        let mut blob = MAGIC.to_vec();
        blob.extend(1_u32.to_be_bytes());
        for part in [self.public.as_slice(), NAMESPACE, b"", HASH, signature.as_slice()] {
            push(&mut blob, part);
        }
        let mut out = "-----BEGIN SSH SIGNATURE-----\n".to_owned();
        for line in STANDARD.encode(blob).as_bytes().chunks(LINE) {
            out.push_str(&String::from_utf8_lossy(line));
            out.push('\n');
        }
        out.push_str("-----END SSH SIGNATURE-----");
        out
    }
}

fn push(out: &mut Vec<u8>, part: &[u8]) {
    out.extend((part.len() as u32).to_be_bytes());
    out.extend_from_slice(part);
}

/// What is left of a text of SSH's wire format.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(head)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let bytes = self.number()?;
        self.take(bytes as usize)
    }
}

fn parse(pem: &str) -> Option<Signer> {
    let body = pem.trim().strip_prefix("-----BEGIN OPENSSH PRIVATE KEY-----")?;
    let body = body.strip_suffix("-----END OPENSSH PRIVATE KEY-----")?;
    let body: String = body.chars().filter(|c| !c.is_whitespace()).collect();
    let bytes = STANDARD.decode(body).ok()?;
    let mut rest = Rest(bytes.strip_prefix(b"openssh-key-v1\0")?);
    let cipher = rest.text()?;
    let (_function, _options) = (rest.text()?, rest.text()?);
    if cipher != b"none" || rest.number()? != 1 {
        return None;
    }
    let public = rest.text()?;
    let mut secret = Rest(rest.text()?);
    // Two numbers that are the same where the passphrase was right.
    secret.take(8)?;
    if secret.text()? != KIND {
        return None;
    }
    let (key, pair) = (secret.text()?, secret.text()?);
    let pair = Ed25519KeyPair::from_seed_and_public_key(pair.get(..32)?, key).ok()?;
    Some(Signer { pair, public: public.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made for this test: `ssh-keygen -t ed25519 -N ''`.
    const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACCXJ9gBuia6bz16hhY7ULQskSucE/USDdoSYi/dl6nUXwAAAJBV1HxMVdR8
TAAAAAtzc2gtZWQyNTUxOQAAACCXJ9gBuia6bz16hhY7ULQskSucE/USDdoSYi/dl6nUXw
AAAEBaV0l7wOnQj0y2dWUjHlS8wAOvAW53OBZkOYhSkAiow5cn2AG6JrpvPXqGFjtQtCyR
K5wT9RIN2hJiL92XqdRfAAAADHBsdXJhbCB0ZXN0cwE=
-----END OPENSSH PRIVATE KEY-----
";
    /// `ssh-keygen -Y sign -n git` over the text below.
    const SIGNATURE: &str = "-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAglyfYAbomum89eoYWO1C0LJErnB
P1Eg3aEmIv3Zep1F8AAAADZ2l0AAAAAAAAAAZzaGE1MTIAAABTAAAAC3NzaC1lZDI1NTE5
AAAAQP71wBBXhMonALDILlonoAKhj5S3lY4RDmw2DVXfpsH27VtyLGzngGQM3nWLw2l5+p
0svlry7jhtWVubeI/YjQw=
-----END SSH SIGNATURE-----";

    #[test]
    fn a_signature_is_the_one_of_openssh() {
        let signer = Signer::new(&KEY.to_owned().into()).unwrap();
        assert_eq!(signer.sign(b"tree 1\nparent 2\n\nmessage"), SIGNATURE);
        assert_ne!(signer.sign(b"tree 1\nparent 2\n\nanother"), SIGNATURE);
    }

    #[test]
    fn what_is_no_such_key_is_refused_without_its_words() {
        let cut = KEY
            .replace("b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ", "b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHI");
        let other = KEY.replace("OPENSSH", "RSA");
        for bad in ["", "s3cr3t", cut.as_str(), other.as_str(), &KEY[..200]] {
            let error = Signer::new(&bad.to_owned().into()).err().unwrap();
            assert!(!error.message.contains("s3cr3t") && !error.message.contains("b3Blb"), "{error}");
        }
    }
}
