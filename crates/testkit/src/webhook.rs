//! What an API server calls: an admission or conversion webhook over TLS, on loopback. Only a real API server calls it.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse as _, Response},
    routing::post,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::StatusCode;
use parking_lot::Mutex;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::background::Background;

/// What a webhook says to a request: the fields of its `response` besides `uid`, or the reason for which it fails.
pub type Answer = Box<dyn Fn(&Value) -> Result<Value, String> + Send + Sync>;

/// A webhook. Stops on drop.
pub struct Webhook {
    background: Background,
    ca_pem: String,
    answer: Arc<Mutex<Answer>>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("background", &self.background).finish_non_exhaustive()
    }
}

impl Webhook {
    /// A webhook that answers so to each `request` of a review.
    ///
    /// # Errors
    /// When no certificate can be made or no port can be bound.
    pub fn start(
        answer: impl Fn(&Value) -> Result<Value, String> + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![pair.cert.der().clone()], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let answer: Arc<Mutex<Answer>> = Arc::new(Mutex::new(Box::new(answer)));
        let router = Router::new().route("/", post(review)).with_state(Arc::clone(&answer));
        let background = Background::start("webhook", move |listener| async move {
            drop(axum::serve(Tls { listener, acceptor }, router).await);
        })?;
        Ok(Self { background, ca_pem: pair.cert.pem(), answer })
    }

    /// Answers so from now on.
    pub fn answers(&self, answer: impl Fn(&Value) -> Result<Value, String> + Send + Sync + 'static) {
        *self.answer.lock() = Box::new(answer);
    }

    /// The `clientConfig` by which an API server finds it.
    pub fn client_config(&self) -> Value {
        json!({
            "url": format!("https://{}/", self.background.address()),
            "caBundle": STANDARD.encode(&self.ca_pem),
        })
    }

    /// An answer that admits an object after changing it by a JSON patch.
    pub fn patched(patch: &Value) -> Value {
        json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string())})
    }
}

async fn review(State(answer): State<Arc<Mutex<Answer>>>, Json(review): Json<Value>) -> Response {
    let request = &review["request"];
    let said = answer.lock()(request);
    match said {
        Ok(mut response) => {
            response["uid"] = request["uid"].clone();
            let body = json!({
                "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response,
            });
            Json(body).into_response()
        }
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, why).into_response(),
    }
}

/// Connections after their handshake.
struct Tls {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.listener.accept().await else {
                tokio::task::yield_now().await;
                continue;
            };
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
