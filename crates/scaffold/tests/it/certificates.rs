//! Filters that make certificates: what they make verifies as TLS verifies it. Templates see the first moment of 1970.

use std::{sync::Arc, time::Duration};

use plural_scaffold::run;
use rustls::{
    CertificateError, Error, RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    sign::CertifiedKey,
};
use serde_json::json;

use super::{refused, text, with_context};

const DAY: Duration = Duration::from_hours(24);

/// What the template makes: the last certificate is the authority's, the key is the first one's.
struct Made {
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    text: String,
}

fn rendered(template: &str) -> String {
    let automation = json!({"creates": {"templates": [{"source": "in", "destination": "out"}]}});
    let context = json!({"names": ["web.example.com", "*.apps.example.com"], "ips": ["10.0.0.1", "fd00::1"]});
    match run(&with_context(automation, context, &[("in", template)])) {
        Ok(outcome) => text(&outcome, "out").to_owned(),
        Err(error) => panic!("{template}: {error}"),
    }
}

fn made(template: &str) -> Made {
    let text = rendered(template);
    assert_eq!(text, rendered(template), "the same on every run");
    let certificates = CertificateDer::pem_slice_iter(text.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).unwrap();
    Made { certificates, key, text }
}

impl Made {
    fn verify(&self, name: &'static str, at: Duration) -> Result<(), Error> {
        self.verify_by(self.certificates.last().unwrap(), name, at)
    }

    fn verify_by(
        &self,
        root: &CertificateDer<'static>,
        name: &'static str,
        at: Duration,
    ) -> Result<(), Error> {
        let mut roots = RootCertStore::empty();
        roots.add(root.clone()).unwrap();
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()));
        let verifier = verifier.build().unwrap();
        let (name, at) = (ServerName::try_from(name).unwrap(), UnixTime::since_unix_epoch(at));
        verifier.verify_server_cert(&self.certificates[0], &[], &name, &[], at).map(|_| ())
    }

    /// Its names and no other, its days and no more, and its own key.
    fn check(&self, days: u32) {
        for name in ["web.example.com", "a.apps.example.com", "10.0.0.1", "fd00::1"] {
            self.verify(name, DAY).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        for name in ["evil.example.com", "a.b.apps.example.com", "10.0.0.2", "fd00::2"] {
            let refused = self.verify(name, DAY).unwrap_err();
            let is_name = matches!(
                refused,
                Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
                )
            );
            assert!(is_name, "{name}: {refused}");
        }
        self.verify("web.example.com", (DAY * days).saturating_sub(Duration::from_secs(1))).unwrap();
        let late = self.verify("web.example.com", DAY * days + Duration::from_secs(1)).unwrap_err();
        let is_late = matches!(
            late,
            Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. })
        );
        assert!(is_late, "{late}");
        self.check_key();
    }

    fn check_key(&self) {
        let key = default_provider().key_provider.load_private_key(self.key.clone_key()).unwrap();
        CertifiedKey::new(self.certificates.clone(), key).keys_match().unwrap();
    }
}

/// An authority, and a certificate that it signs.
const SIGNED: &str = "{% assign ca = 'authority' | genCA: 365 %}\
    {% assign one = 'web' | genSignedCert: context.ips, context.names, 30, ca %}{{ one.Cert }}{{ one.Key }}{{ ca.Cert }}";

#[test]
fn an_authority_signs_for_names_addresses_and_days() {
    let signed = made(SIGNED);
    assert_eq!(signed.certificates.len(), 2);
    signed.check(30);
    // Another authority of the same name signed nothing of it.
    let other = made(
        "{% assign unused = 'x' | genCA: 1 %}{% assign ca = 'authority' | genCA: 365 %}{{ ca.Key }}{{ ca.Cert }}",
    );
    other.check_key();
    signed.verify_by(&other.certificates[0], "web.example.com", DAY).unwrap_err();
    // An authority is no server.
    let authority = Made { certificates: vec![signed.certificates[1].clone(); 2], ..signed };
    authority.verify("web.example.com", DAY).unwrap_err();
}

#[test]
fn one_that_signs_itself_stands_alone() {
    let own = made(
        "{% assign one = 'web' | genSelfSignedCert: context.ips, context.names, 7 %}{{ one.Cert }}{{ one.Key }}",
    );
    assert_eq!(own.certificates.len(), 1);
    own.check(7);
}

#[test]
fn given_keys_are_those_of_the_certificates() {
    let own = made(
        "{% assign key = 'ecdsa' | genPrivateKey %}\
         {% assign one = 'web' | genSelfSignedCertWithKey: context.ips, context.names, 7, key %}{{ key }}{{ one.Cert }}",
    );
    own.check(7);
    let signed = made(
        "{% assign root = 'ecdsa' | genPrivateKey %}{% assign ca = 'authority' | genCAWithKey: 365, root %}\
         {% assign key = 'ecdsa' | genPrivateKey %}\
         {% assign one = 'web' | genSignedCertWithKey: context.ips, context.names, 30, ca, key %}\
         {{ key }}{{ one.Cert }}{{ ca.Cert }}",
    );
    signed.check(30);
    let authority = made(
        "{% assign root = 'ecdsa' | genPrivateKey %}{% assign ca = 'authority' | genCAWithKey: 365, root %}{{ root }}{{ ca.Cert }}",
    );
    authority.check_key();
}

/// As one that a company has is used: both are in Base64.
#[test]
fn an_authority_of_ones_own_signs() {
    let signed = made(
        "{% assign root = 'ecdsa' | genPrivateKey %}{% assign made = 'authority' | genCAWithKey: 365, root %}\
         {% assign cert = made.Cert | b64enc %}{% assign root = root | b64enc %}{% assign ca = cert | buildCustomCert: root %}\
         {% assign one = 'web' | genSignedCert: context.ips, context.names, 30, ca %}{{ one.Cert }}{{ one.Key }}{{ ca.Cert }}",
    );
    signed.check(30);
    assert_eq!(signed.text.matches("BEGIN CERTIFICATE").count(), 2);
}

#[test]
fn what_is_no_key_certificate_or_address_is_refused() {
    let automation = json!({"creates": {"templates": [{"source": "in", "destination": "out"}]}});
    let context = json!({"names": ["web.example.com"], "ips": ["10.0.0.256"], "none": [], "odd": [1]});
    for template in [
        "{{ 'a' | genCAWithKey: 1, 's3cret' }}",
        "{{ 'a' | genSelfSignedCertWithKey: context.none, context.names, 1, 's3cret' }}",
        "{{ 'a' | genSelfSignedCert: context.ips, context.names, 1 }}",
        "{{ 'a' | genSelfSignedCert: context.none, context.odd, 1 }}",
        "{{ 'a' | genSignedCert: context.none, context.names, 1, 's3cret' }}",
        "{{ 'a' | genSignedCert: context.none, context.names, 1 }}",
        "{{ 's3cret!' | buildCustomCert: 's3cret!' }}",
        "{{ 'czNjcmV0' | buildCustomCert: 'czNjcmV0' }}",
    ] {
        let told = refused(&with_context(automation.clone(), context.clone(), &[("in", template)]));
        assert!(told.contains("the filter "), "{template}: {told}");
    }
}

#[test]
fn how_long_ago_is_told_from_the_time_of_the_request() {
    for (template, expected) in [
        ("{{ '1969-12-31 23:59:00 +0000' | ago }}", "1m0s"),
        ("{{ '1969-12-31' | ago }}", "24h0m0s"),
        ("{{ '1970-01-01 01:00:00 +0100' | ago }}", "0s"),
        ("{{ '1970-01-01 00:00:30 +0000' | ago }}", "-30s"),
    ] {
        assert_eq!(rendered(template), expected, "{template}");
    }
}
