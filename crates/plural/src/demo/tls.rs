//! The demo's own certificate, so that kubectl can be tried: it sends credentials over TLS only.

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::write_private;

/// How long a certificate is valid.
const VALID: Duration = Duration::from_hours(365 * 24);
/// One that is older is made anew.
const RENEWED: Duration = Duration::from_hours(300 * 24);

/// Files of a certificate for this machine.
pub(super) struct Certificate {
    pub(super) chain: PathBuf,
    pub(super) key: PathBuf,
    /// The authority that signed it, PEM. Its key is not kept.
    pub(super) authority: String,
}

/// The certificate in `data`, for `listen` beside the loopback addresses; made when there is none that will do. Kubeconfigs
/// hold its authority, so it stays the same from one start to the next.
pub(super) fn certificate(data: &Path, listen: IpAddr) -> anyhow::Result<Certificate> {
    let folder = data.join("tls");
    plural_kit::private_folder(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let (chain, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let (ca, names) = (folder.join("ca.pem"), folder.join("names"));
    let wanted = names_of(listen).join("\n");
    let fresh = fs::metadata(&chain)
        .and_then(|about| about.modified())
        .is_ok_and(|made| SystemTime::now().duration_since(made).is_ok_and(|age| age < RENEWED));
    // `names` is written last: a start that was killed before begins again.
    if !fresh || !key.is_file() || fs::read_to_string(&names).ok().as_ref() != Some(&wanted) {
        let _ = fs::remove_file(&names);
        let (authority, certificate, private) = make(listen).context("cannot make a certificate")?;
        write_private(&ca, &authority)?;
        write_private(&chain, &certificate)?;
        write_private(&key, &private)?;
        write_private(&names, &wanted)?;
    }
    let authority = fs::read_to_string(&ca).with_context(|| format!("cannot read {}", ca.display()))?;
    Ok(Certificate { chain, key, authority })
}

fn names_of(listen: IpAddr) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let own = listen.to_canonical().to_string();
    if !listen.is_unspecified() && !names.contains(&own) {
        names.push(own);
    }
    names
}

/// An authority, a certificate that it signed, and its key: all PEM.
fn make(listen: IpAddr) -> Result<(String, String, String), rcgen::Error> {
    let now = SystemTime::now();
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "plural demo authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    (authority.not_before, authority.not_after) =
        ((now - Duration::from_hours(1)).into(), (now + VALID).into());
    let authority_key = KeyPair::generate()?;
    let signed = authority.self_signed(&authority_key)?;
    let issuer = Issuer::new(authority, authority_key);

    let mut server = CertificateParams::new(names_of(listen))?;
    server.distinguished_name.push(DnType::CommonName, "plural demo");
    server.is_ca = IsCa::ExplicitNoCa;
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    (server.not_before, server.not_after) = ((now - Duration::from_hours(1)).into(), (now + VALID).into());
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &issuer)?;
    Ok((signed.pem(), certificate.pem(), key.serialize_pem()))
}
