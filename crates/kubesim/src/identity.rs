//! Certificates: one authority per process of clusters, one server certificate for the loopback addresses.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

/// The authority's certificate and the acceptor for connections.
#[derive(Clone)]
pub(crate) struct Identity {
    /// PEM of the authority.
    pub ca_pem: Arc<str>,
    /// TLS with the server certificate.
    pub acceptor: TlsAcceptor,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// Why no certificate could be made.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The generator refused.
    #[error("cannot make a certificate for the simulated clusters")]
    Generate(#[from] rcgen::Error),
    /// TLS refused the certificate.
    #[error("cannot use the certificate of the simulated clusters")]
    Tls(#[from] rustls::Error),
}

impl Identity {
    /// A fresh authority and server certificate.
    ///
    /// # Errors
    /// If key generation fails.
    pub(crate) fn generate() -> Result<Self, IdentityError> {
        let ca_key = KeyPair::generate()?;
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        ca.distinguished_name.push(DnType::CommonName, "kubesim");
        let ca_cert = ca.self_signed(&ca_key)?;
        let issuer = Issuer::new(ca, ca_key);
        let key = KeyPair::generate()?;
        let names = ["localhost", "127.0.0.1", "kubernetes", "kubernetes.default.svc"].map(ToOwned::to_owned);
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name.push(DnType::CommonName, "kubesim");
        let cert = params.signed_by(&key, &issuer)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], private)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { ca_pem: ca_cert.pem().into(), acceptor: TlsAcceptor::from(Arc::new(config)) })
    }
}
