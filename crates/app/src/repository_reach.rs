//! How a repository is reached besides signing in, and whose commits are taken from it: proxy, certificates, host keys,
//! signers. Kept sealed, because a proxy's address may hold a password.

use std::net::Ipv6Addr;

use percent_encoding::percent_decode_str;
use plural_core::address::Address;
use plural_core::data_key::KeyOwner;
use plural_core::ids::RepositoryId;
use plural_core::{Error, Result};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::ports::git::GitReach;
use crate::seal::Sealed;

/// Longer texts are no certificates, host keys or signers of one repository.
const LONGEST: usize = 256 << 10;

/// What a person gives of it. What is absent stays as it is, an empty text ends it.
#[derive(Debug, Clone, Default)]
pub struct NewReach {
    /// HTTP(S) or SOCKS proxy, with user information where it wants that.
    pub proxy: Option<SecretString>,
    /// Certificate authorities, PEM.
    pub ca_pem: Option<String>,
    /// SSH host keys, as in `known_hosts`.
    pub known_hosts: Option<String>,
    /// Whose SSH signatures on commits are accepted, as in git's `allowedSignersFile`.
    pub allowed_signers: Option<String>,
    /// Whose OpenPGP signatures are, as armoured public keys.
    pub openpgp_keys: Option<String>,
}

impl NewReach {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { proxy, ca_pem, known_hosts, allowed_signers, openpgp_keys } = self;
        proxy.is_none()
            && [ca_pem, known_hosts, allowed_signers, openpgp_keys].iter().all(|text| text.is_none())
    }

    /// What is wrong with it.
    fn check(&self) -> Result<()> {
        let Self { proxy, ca_pem, known_hosts, allowed_signers, openpgp_keys } = self;
        let proxy = proxy.as_ref().map(ExposeSecret::expose_secret);
        let is_good = |proxy: &str| is_proxy(proxy, &["http", "https", "socks5", "socks5h"]);
        if proxy.is_some_and(|proxy| !proxy.is_empty() && !is_good(proxy)) {
            return Err(Error::invalid(
                "attributes.proxy.url",
                "must be an http, https, socks5 or socks5h address of a host and a port, without a path; in its user and \
                 password, \"@\", \"/\", \"?\", \"#\" and \"\\\" are written as escapes, such as %40, and there are no control \
                 characters",
            ));
        }
        for (field, text, must_hold, what) in [
            (
                "attributes.caCertificate",
                ca_pem,
                "-----BEGIN CERTIFICATE-----",
                "must be certificates in PEM form",
            ),
            (
                "attributes.knownHosts",
                known_hosts,
                " ",
                "must be lines of host, kind and key, as ssh-keyscan prints",
            ),
            (
                "attributes.verify.allowedSigners",
                allowed_signers,
                " ",
                "must be lines of name, kind and key, as in git's gpg.ssh.allowedSignersFile",
            ),
            (
                "attributes.verify.openpgpKeys",
                openpgp_keys,
                "-----BEGIN PGP PUBLIC KEY BLOCK-----",
                "must be public keys as `gpg --armor --export` prints",
            ),
        ] {
            let Some(text) = text.as_deref().filter(|text| !text.is_empty()) else { continue };
            if text.len() > LONGEST {
                return Err(Error::invalid(field, "is longer than 256 KiB"));
            }
            if !text.contains(must_hold) || text.contains('\0') {
                return Err(Error::invalid(field, what));
            }
        }
        Ok(())
    }
}

/// Whether it is an address of a proxy in which every program finds the same host: `http://a#@b` is not. Whoever uses it
/// later refuses no more than this, so that what is wrong with it is said when it is given.
pub(crate) fn is_proxy(text: &str, schemes: &[&str]) -> bool {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let (login, place) = rest.split_once('@').unwrap_or(("", rest));
    let authority = place.strip_suffix('/').unwrap_or(place);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        Some(_) | None => (authority, ""),
    };
    schemes.contains(&scheme)
        && !text.contains(|c: char| c.is_control() || c.is_whitespace())
        && !login.contains(['/', '?', '#', '\\'])
        && !percent_decode_str(login).decode_utf8_lossy().contains(char::is_control)
        && is_host(host)
        && is_port(port)
        && format!("https://{place}")
            .parse::<Address>()
            .is_ok_and(|address| matches!(address.path(), "" | "/"))
}

/// As it is written: a parser could make another one of it.
fn is_host(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(v6) => v6.parse::<Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && !host.starts_with(['-', '.'])
                && !host.ends_with('.')
                && host.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        }
    }
}

fn is_port(port: &str) -> bool {
    port.is_empty() || (!port.starts_with('+') && port.parse::<u16>().is_ok_and(|port| port > 0))
}

/// What is inside.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    proxy: Option<String>,
    ca_pem: Option<String>,
    known_hosts: Option<String>,
    allowed_signers: Option<String>,
    openpgp_keys: Option<String>,
}

impl App {
    /// What was kept with what is given in its place, and whether commits must be signed. Nothing where nothing is given.
    pub(crate) async fn repository_reach_sealed(
        &self,
        (owner, id): (KeyOwner, RepositoryId),
        known: Option<&Sealed>,
        new: &NewReach,
    ) -> Result<Option<(Sealed, bool)>> {
        if new.is_empty() {
            return Ok(None);
        }
        new.check()?;
        let mut kept = self.repository_reach_kept(id, known).await?;
        let NewReach { proxy, ca_pem, known_hosts, allowed_signers, openpgp_keys } = new;
        let proxy = proxy.as_ref().map(|proxy| proxy.expose_secret().to_owned());
        for (kept, new) in [
            (&mut kept.proxy, &proxy),
            (&mut kept.ca_pem, ca_pem),
            (&mut kept.known_hosts, known_hosts),
            (&mut kept.allowed_signers, allowed_signers),
            (&mut kept.openpgp_keys, openpgp_keys),
        ] {
            if let Some(new) = new {
                *kept = Some(new.clone()).filter(|text| !text.trim().is_empty());
            }
        }
        let signed = kept.allowed_signers.is_some() || kept.openpgp_keys.is_some();
        let json = serde_json::to_vec(&kept)
            .map_err(|cause| Error::internal("writing how a repository is reached", cause))?;
        Ok(Some((self.sealer.seal(owner, &seal_context(id), &json).await?, signed)))
    }

    pub(crate) async fn repository_reach(
        &self,
        id: RepositoryId,
        sealed: Option<&Sealed>,
    ) -> Result<GitReach> {
        let Kept { proxy, ca_pem, known_hosts, allowed_signers, openpgp_keys } =
            self.repository_reach_kept(id, sealed).await?;
        let proxy = proxy.map(SecretString::from);
        Ok(GitReach { proxy, ca_pem, known_hosts, allowed_signers, openpgp_keys })
    }

    /// Whether a repository is reached the same way before and after a change that may have given another one.
    pub(crate) async fn is_same_reach(
        &self,
        id: RepositoryId,
        before: Option<&Sealed>,
        given: Option<&Sealed>,
    ) -> Result<bool> {
        let Some(given) = given else { return Ok(true) };
        Ok(self.repository_reach_kept(id, before).await?
            == self.repository_reach_kept(id, Some(given)).await?)
    }

    async fn repository_reach_kept(&self, id: RepositoryId, sealed: Option<&Sealed>) -> Result<Kept> {
        let Some(sealed) = sealed else { return Ok(Kept::default()) };
        let json = self.sealer.open(&seal_context(id), sealed).await?;
        // The parser's own message could quote the proxy's password.
        serde_json::from_slice(&json)
            .map_err(|_| Error::internal("reading how a repository is reached", "it is not what was sealed"))
    }
}

fn seal_context(id: RepositoryId) -> String {
    format!("repository:{id}:reach")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_used_is_kept() {
        let some = |text: &str| Some(text.to_owned());
        for good in [
            NewReach { proxy: Some("http://me:secret@proxy.example.com:3128".into()), ..NewReach::default() },
            NewReach { proxy: Some("socks5h://me:p%40ss@[::1]:3128/".into()), ..NewReach::default() },
            NewReach { proxy: Some("".into()), ca_pem: some(""), ..NewReach::default() },
            NewReach { known_hosts: some("git.example.com ssh-ed25519 AAAA"), ..NewReach::default() },
            NewReach { allowed_signers: some("ada ssh-ed25519 AAAA"), ..NewReach::default() },
        ] {
            good.check().unwrap();
        }
        for (bad, field) in [
            (NewReach { proxy: Some("file:///etc/passwd".into()), ..NewReach::default() }, "proxy"),
            (NewReach { ca_pem: some("no certificate"), ..NewReach::default() }, "caCertificate"),
            (NewReach { known_hosts: some("x"), ..NewReach::default() }, "knownHosts"),
            (NewReach { openpgp_keys: some("no key"), ..NewReach::default() }, "openpgpKeys"),
            (
                NewReach { allowed_signers: Some("a ".repeat(LONGEST)), ..NewReach::default() },
                "allowedSigners",
            ),
        ] {
            let error = bad.check().unwrap_err().to_string();
            assert!(!error.contains("/etc/passwd"), "{error}");
            assert!(error.contains(field), "{error}");
        }
        for proxy in [
            "http://169.254.169.254:80#@proxy.example:3128",
            "http://169.254.169.254:80?@proxy.example:3128",
            "http://169.254.169.254:80/@proxy.example:3128",
            "http://169.254.169.254:80\\@proxy.example:3128",
            "http://169.254.169.254@me@proxy.example:3128",
            "http://proxy.example:3128/path",
            "http://proxy.example:3128#x",
            "http://proxy.example:3128x",
            "http://proxy.example.:3128",
            "http://127.0.0.1.:3128",
            "http://-proxy.example:3128",
            "http://.proxy.example:3128",
            "http://[::1%25eth0]:3128",
            "http://proxy.example:+3128",
            "http://proxy.example:0",
            "http://me:secret%0Ax@proxy.example:3128",
            "http://me%00:secret@proxy.example:3128",
            "http://me:secret%C2%85@proxy.example:3128",
            "http://proxy.example:3128\n",
            "http://",
        ] {
            let bad = NewReach { proxy: Some(proxy.into()), ..NewReach::default() };
            assert!(bad.check().is_err(), "{proxy:?}");
        }
    }
}
