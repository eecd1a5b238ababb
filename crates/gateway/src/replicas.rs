//! How replicas of a console reach each other.
//!
//! Each listens with a certificate that it makes at its start; its digest is in the database beside its address, so that the
//! others know whom they talk to. Who calls says so in a header, signed with a key that is derived from one that all
//! replicas keep sealed in their database.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderName, HeaderValue, header},
};
use hmac::{Hmac, KeyInit, Mac};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use plural_app::App;
use plural_app::replica::{Replica, ReplicaAddress};
use plural_core::ids::{ClusterId, ReplicaId};
use rustls::{
    CertificateError, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::WebPkiSupportedAlgorithms,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime},
};
use secrecy::{ExposeSecret, SecretBox};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// What a caller says of itself: `REPLICA;MILLISECONDS;SIGNATURE`.
const CALLER: HeaderName = HeaderName::from_static("x-plural-replica");
/// How old what it says may be, and how far two clocks may be apart.
const VALID: Duration = Duration::from_mins(1);
/// How long a replica may take to accept a call.
const CONNECT: Duration = Duration::from_secs(3);
/// How long it is believed where an agent's stream is.
const BELIEVED: Duration = Duration::from_secs(1);
/// Of so many clusters; then all is forgotten.
const REMEMBERED: usize = 10_000;
/// Idle connections to one replica.
const IDLE: usize = 64;
/// A connection that nobody used for so long is about to be closed by the other side.
const USABLE: Duration = Duration::from_secs(5);
/// The name that no certificate needs to have: its digest is what counts.
const NAME: &str = "replica";

/// What a replica shows to others: a certificate that is made at its start and in no file.
pub struct ReplicaIdentity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl std::fmt::Debug for ReplicaIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplicaIdentity").finish_non_exhaustive()
    }
}

impl ReplicaIdentity {
    /// A new one.
    ///
    /// # Errors
    /// When no certificate can be made.
    pub fn new() -> Result<Self, rcgen::Error> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Ok(Self { certificate: made.cert.der().clone(), key })
    }

    /// The certificate and its key, for a listener.
    pub fn tls(&self) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        (self.certificate.clone(), PrivateKeyDer::Pkcs8(self.key.clone_key()))
    }

    /// Where other replicas reach a listener that is bound to `bound`: at `told` when it names a host, with or without
    /// a port. `None` when neither names one.
    pub fn address(&self, bound: SocketAddr, told: Option<&str>) -> Option<ReplicaAddress> {
        let authority = match told {
            Some(told) if told.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) => {
                told.to_owned()
            }
            Some(host) => format!("{host}:{}", bound.port()),
            None if bound.ip().is_unspecified() => return None,
            None => bound.to_string(),
        };
        Some(ReplicaAddress { authority, certificate: Sha256::digest(&self.certificate).into() })
    }
}

/// Why a replica was not reached. It ends in one line of the log, so a cause is a part of the message and no source.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// It takes no calls, or its address is none.
    #[error("it has no usable address")]
    Address,
    /// It does not accept the connection.
    #[error("it does not accept the connection: {0}")]
    Connect(std::io::Error),
    /// It is slow.
    #[error("it did not accept the connection in time")]
    Late,
    /// What it speaks is not HTTP.
    #[error("the connection failed: {0}")]
    Http(hyper::Error),
}

/// A connection that nobody uses, and since when.
type Idle = (SendRequest<Body>, Instant);

/// The other replicas, as far as they are called.
pub(crate) struct Peers {
    key: SecretBox<[u8; 32]>,
    holders: Mutex<HashMap<ClusterId, (Option<Replica>, Instant)>>,
    idle: Mutex<HashMap<ReplicaId, Vec<Idle>>>,
}

impl Peers {
    pub(crate) fn new(app: &App) -> Self {
        let key = mac(app.proxy_seed(), &[b"calls between replicas, 1"]);
        Self { key: SecretBox::new(Box::new(key)), holders: Mutex::default(), idle: Mutex::default() }
    }

    /// Another replica that holds the stream of a cluster's agent. A database that does not answer is as good as none.
    pub(crate) async fn holder(&self, app: &App, cluster: ClusterId) -> Option<Replica> {
        if let Some((known, at)) = self.holders.lock().get(&cluster)
            && at.elapsed() < BELIEVED
        {
            return known.clone();
        }
        let found = match app.agent_stream_holder(cluster).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(error = error.log_text(), "cannot look for the replica of an agent");
                return None;
            }
        };
        let mut holders = self.holders.lock();
        if holders.len() >= REMEMBERED {
            holders.clear();
        }
        holders.insert(cluster, (found.clone(), Instant::now()));
        found
    }

    /// It was not there.
    pub(crate) fn forget(&self, cluster: ClusterId) {
        self.holders.lock().remove(&cluster);
    }

    /// A connection that was used before and is open, if there is one.
    pub(crate) fn idle(&self, replica: ReplicaId) -> Option<SendRequest<Body>> {
        let mut idle = self.idle.lock();
        let known = idle.get_mut(&replica)?;
        while let Some((connection, since)) = known.pop() {
            if since.elapsed() < USABLE && connection.is_ready() {
                return Some(connection);
            }
        }
        idle.remove(&replica);
        None
    }

    /// Keeps a connection for the next request.
    pub(crate) fn give_back(&self, replica: ReplicaId, connection: SendRequest<Body>) {
        if connection.is_closed() {
            return;
        }
        let mut idle = self.idle.lock();
        let known = idle.entry(replica).or_default();
        known.retain(|(_, since)| since.elapsed() < USABLE);
        if known.len() < IDLE {
            known.push((connection, Instant::now()));
        }
    }

    /// A new connection, and what drives it.
    pub(crate) async fn connect(
        &self,
        replica: &Replica,
    ) -> Result<(SendRequest<Body>, impl Future<Output = ()> + Send + use<>), CallError> {
        let ReplicaAddress { authority, certificate } = replica.address.as_ref().ok_or(CallError::Address)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            Pinned { digest: *certificate, algorithms: provider.signature_verification_algorithms };
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| CallError::Address)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        let name = ServerName::try_from(NAME).map_err(|_| CallError::Address)?;
        let connected = async {
            let stream = TcpStream::connect(authority.as_str()).await?;
            stream.set_nodelay(true)?;
            TlsConnector::from(Arc::new(config)).connect(name, stream).await
        };
        let stream = tokio::time::timeout(CONNECT, connected)
            .await
            .map_err(|_| CallError::Late)?
            .map_err(CallError::Connect)?;
        let (send, connection) = handshake(TokioIo::new(stream)).await.map_err(CallError::Http)?;
        let drive = async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(error = %error, "a connection to another replica ended with an error");
            }
        };
        Ok((send, drive))
    }

    /// Says in the request who passes it on to `replica`.
    pub(crate) fn sign(&self, app: &App, replica: &Replica, request: &mut Request) {
        let (from, at) = (app.replica_id().to_string(), app.now().timestamp_millis().to_string());
        let signature = hex::encode(self.signature(replica.id, &from, &at, request));
        if let Ok(value) = HeaderValue::from_str(&format!("{from};{at};{signature}")) {
            request.headers_mut().insert(CALLER, value);
        }
        if let Some(address) = &replica.address
            && let Ok(value) = HeaderValue::from_str(&address.authority)
        {
            request.headers_mut().insert(header::HOST, value);
        }
    }

    /// Whether another replica passed this request on to this one; takes out what it said of itself.
    pub(crate) fn is_of_a_replica(&self, app: &App, request: &mut Request) -> bool {
        let Some(told) = request.headers_mut().remove(CALLER) else { return false };
        let verdict = || {
            let mut parts = told.to_str().ok()?.split(';');
            let (from, at, signature) = (parts.next()?, parts.next()?, hex::decode(parts.next()?).ok()?);
            let age = app.now().timestamp_millis().abs_diff(at.parse().ok()?);
            let expected = self.signature(app.replica_id(), from, at, request);
            let is_good = bool::from(expected.ct_eq(signature.as_slice()));
            Some(is_good && u128::from(age) <= VALID.as_millis())
        };
        verdict().unwrap_or_default()
    }

    fn signature(&self, to: ReplicaId, from: &str, at: &str, request: &Request) -> [u8; 32] {
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let to = to.to_string();
        let parts = [to.as_str(), from, at, request.method().as_str(), target];
        let parts = parts.map(str::as_bytes);
        mac(self.key.expose_secret(), &parts)
    }
}

/// HMAC-SHA-256 over parts, none of which holds a line's end.
fn mac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    // A key is filled up with zeros to a block.
    let mut block = [0; 64];
    block[..32].copy_from_slice(key);
    let mut mac = <Hmac<Sha256> as KeyInit>::new(&block.into());
    for part in parts {
        mac.update(part);
        mac.update(b"\n");
    }
    mac.finalize().into_bytes().into()
}

/// Believes one certificate.
#[derive(Debug)]
struct Pinned {
    digest: [u8; 32],
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let shown: [u8; 32] = Sha256::digest(end_entity).into();
        if shown == self.digest {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_that_others_are_told() {
        let identity = ReplicaIdentity::new().unwrap();
        for (bound, told, expected) in [
            ("10.0.0.7:9000", None, Some("10.0.0.7:9000")),
            ("10.0.0.7:9000", Some("console-1.internal"), Some("console-1.internal:9000")),
            ("10.0.0.7:9000", Some("console-1.internal:443"), Some("console-1.internal:443")),
            ("0.0.0.0:9000", Some("console-1.internal"), Some("console-1.internal:9000")),
            ("0.0.0.0:9000", None, None),
            ("[::]:9000", None, None),
        ] {
            let address = identity.address(bound.parse().unwrap(), told);
            assert_eq!(address.map(|address| address.authority).as_deref(), expected, "{bound} {told:?}");
        }
    }
}
