//! A real OCI registry: the distribution project's, built from its Go module, with its storage in a temporary folder.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    net::TcpStream,
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::get,
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use http::header;
use p256::ecdsa::{Signature, SigningKey, signature::Signer as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    background::Background,
    folder::OwnedFolder,
    port::free_port,
    process::{Program, Running},
    programs::program_or_report,
};

/// How long it may take to start.
const READY_WITHIN: Duration = Duration::from_secs(20);
const CHART_CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART_LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const PROVENANCE_LAYER: &str = "application/vnd.cncf.helm.chart.provenance.v1.prov";
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const SIGNATURE_LAYER: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const ISSUER: &str = "testkit";
const SERVICE: &str = "registry";

/// How clients sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignIn {
    /// Not at all.
    Open,
    /// By this name and password, sent to the registry with each request.
    Password {
        /// User name.
        user: String,
        /// Password.
        password: String,
    },
    /// By this name and password, sent to a token service on another port, as the large public registries do it.
    Token {
        /// User name.
        user: String,
        /// Password.
        password: String,
    },
}

/// A registry on a loopback port. Stops on drop.
#[derive(Debug)]
pub struct OciRegistry {
    address: String,
    key: SigningKey,
    sign_in: SignIn,
    tokens: Option<(Background, Arc<TokenService>)>,
    client: reqwest::Client,
    // Before the folder, which it writes to.
    running: Running,
    _folder: OwnedFolder,
}

#[derive(Debug)]
struct TokenService {
    key: SigningKey,
    authorization: String,
    seen: Mutex<Vec<Option<String>>>,
}

impl OciRegistry {
    /// Start one; nothing where its program is missing, which is said (and with `CI` set is a failure).
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(sign_in: &SignIn) -> anyhow::Result<Option<Self>> {
        let Some(program) = program_or_report("registry") else { return Ok(None) };
        // Another process may take the port between our look and the program's bind.
        let mut attempts = 0;
        loop {
            attempts += 1;
            match Self::try_start(&program, sign_in.clone()) {
                Ok(registry) => return Ok(Some(registry)),
                Err(e) if attempts == 3 => return Err(e),
                Err(_) => {}
            }
        }
    }

    fn try_start(program: &Path, sign_in: SignIn) -> anyhow::Result<Self> {
        let folder = OwnedFolder::new("registry")?;
        let path = |name: &str| folder.path().join(name);
        let port = free_port()?;
        let address = format!("127.0.0.1:{port}");
        let key = SigningKey::from_slice(&[42; 32]).context("a key of the testkit is none")?;
        let mut config = json!({
            "version": "0.1",
            "log": {"level": "warn", "accesslog": {"disabled": true}},
            "storage": {"filesystem": {"rootdirectory": path("storage")}, "delete": {"enabled": true}},
            "http": {"addr": address, "relativeurls": true},
        });
        let mut tokens = None;
        match &sign_in {
            SignIn::Open => {}
            SignIn::Password { user, password } => {
                let hash = bcrypt::hash_with_salt(password, 4, [7; 16])
                    .map_err(anyhow::Error::msg)?
                    .format_for_version(bcrypt::Version::TwoY);
                fs::write(path("htpasswd"), format!("{user}:{hash}\n"))?;
                config["auth"] = json!({"htpasswd": {"realm": "test", "path": path("htpasswd")}});
            }
            SignIn::Token { user, password } => {
                let service = Arc::new(TokenService {
                    key: key.clone(),
                    authorization: basic(user, password),
                    seen: Mutex::default(),
                });
                let router = Router::new().route("/token", get(token)).with_state(Arc::clone(&service));
                let background = Background::start("token-service", move |listener| async move {
                    drop(axum::serve(listener, router).await);
                })?;
                fs::write(path("jwks.json"), json!({"keys": [jwk(&key)]}).to_string())?;
                config["auth"] = json!({"token": {
                    "realm": format!("http://{}/token", background.address()),
                    "service": SERVICE,
                    "issuer": ISSUER,
                    "jwks": path("jwks.json"),
                    "signingalgorithms": ["ES256"],
                }});
                tokens = Some((background, service));
            }
        }
        // JSON is YAML.
        fs::write(path("config.yml"), config.to_string())?;
        let mut running = Program::new(program, folder.path())
            .arg("serve")
            .arg(path("config.yml"))
            .env("OTEL_TRACES_EXPORTER", "none")
            .start()?;
        let started = Instant::now();
        while TcpStream::connect(&address).is_err() {
            running.check()?;
            anyhow::ensure!(
                started.elapsed() < READY_WITHIN,
                "the registry does not listen:\n{}",
                running.log_tail()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        // Losing the race to another caller that installs one is fine: they are the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?;
        Ok(Self { address, key, sign_in, tokens, client, running, _folder: folder })
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// `oci://127.0.0.1:PORT/PATH`.
    pub fn url(&self, path: &str) -> String {
        format!("oci://{}/{path}", self.address)
    }

    /// The `Authorization` headers that the token service has seen.
    pub fn token_requests(&self) -> Vec<Option<String>> {
        self.tokens.as_ref().map(|(_, service)| service.seen.lock().clone()).unwrap_or_default()
    }

    /// A token that lets its bearer pull from a repository.
    ///
    /// # Errors
    /// When the clock is before 1970.
    pub fn pull_token(&self, repository: &str) -> anyhow::Result<String> {
        jwt(&self.key, &format!("repository:{repository}:pull"))
    }

    /// Stop it: connections are refused from now on.
    pub fn stop(&mut self) {
        self.running.stop();
    }

    /// Push a packed chart as `helm push` does; gives the manifest's digest.
    ///
    /// # Errors
    /// When the registry refuses it.
    pub async fn push_chart(&self, repository: &str, tag: &str, archive: &[u8]) -> anyhow::Result<String> {
        self.push_chart_with(repository, tag, archive, None).await
    }

    /// Push a packed chart together with its provenance file; gives the manifest's digest.
    ///
    /// # Errors
    /// When the registry refuses it.
    pub async fn push_chart_with(
        &self,
        repository: &str,
        tag: &str,
        archive: &[u8],
        provenance: Option<&[u8]>,
    ) -> anyhow::Result<String> {
        let name = repository.rsplit('/').next().unwrap_or_default();
        let config = json!({"apiVersion": "v2", "name": name, "version": tag.replace('_', "+")}).to_string();
        let layer = self.push_blob(repository, archive).await?;
        let mut layers = vec![descriptor(CHART_LAYER, &layer, archive.len())];
        if let Some(provenance) = provenance {
            let layer = self.push_blob(repository, provenance).await?;
            layers.push(descriptor(PROVENANCE_LAYER, &layer, provenance.len()));
        }
        self.push_manifest(repository, tag, (CHART_CONFIG, config.as_bytes()), &layers).await
    }

    /// Push one layer of any kind as an artifact; gives the manifest's digest.
    ///
    /// # Errors
    /// When the registry refuses it.
    pub async fn push_artifact(
        &self,
        repository: &str,
        tag: &str,
        media_type: &str,
        layer: &[u8],
    ) -> anyhow::Result<String> {
        let digest = self.push_blob(repository, layer).await?;
        let config = ("application/vnd.oci.empty.v1+json", &b"{}"[..]);
        self.push_manifest(repository, tag, config, &[descriptor(media_type, &digest, layer.len())]).await
    }

    /// Sign a digest as `cosign sign --key` does, under the tag that cosign uses.
    ///
    /// # Errors
    /// When the registry refuses it.
    pub async fn sign(&self, repository: &str, digest: &str, key: &SigningKey) -> anyhow::Result<()> {
        self.sign_as(repository, digest, digest, key).await
    }

    /// Sign a digest, and put the signature where that of `place` belongs.
    ///
    /// # Errors
    /// When the registry refuses it.
    pub async fn sign_as(
        &self,
        repository: &str,
        digest: &str,
        place: &str,
        key: &SigningKey,
    ) -> anyhow::Result<()> {
        let payload = json!({
            "critical": {
                "identity": {"docker-reference": format!("{}/{repository}", self.address)},
                "image": {"docker-manifest-digest": digest},
                "type": "cosign container image signature",
            },
            "optional": null,
        })
        .to_string();
        let signature: Signature = key.sign(payload.as_bytes());
        let blob = self.push_blob(repository, payload.as_bytes()).await?;
        let mut layer = descriptor(SIGNATURE_LAYER, &blob, payload.len());
        layer["annotations"] =
            json!({"dev.cosignproject.cosign/signature": STANDARD.encode(signature.to_der().as_bytes())});
        let tag = format!("{}.sig", place.replace(':', "-"));
        let config = ("application/vnd.oci.image.config.v1+json", &b"{}"[..]);
        self.push_manifest(repository, &tag, config, &[layer]).await?;
        Ok(())
    }

    /// Sign a digest as `cosign sign --key` does with bundles, listed under the tag that stands in for a list of referrers.
    ///
    /// # Errors
    /// When the registry refuses it.
    pub async fn sign_with_bundle(
        &self,
        repository: &str,
        digest: &str,
        key: &SigningKey,
    ) -> anyhow::Result<()> {
        let kind = "application/vnd.in-toto+json";
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"digest": {"sha256": digest.trim_start_matches("sha256:")}}],
            "predicateType": "https://sigstore.dev/cosign/sign/v1",
            "predicate": {},
        })
        .to_string();
        let signed = format!("DSSEv1 {} {kind} {} {statement}", kind.len(), statement.len());
        let signature: Signature = key.sign(signed.as_bytes());
        let bundle = json!({
            "mediaType": BUNDLE,
            "verificationMaterial": {"publicKey": {"hint": "test"}},
            "dsseEnvelope": {
                "payload": STANDARD.encode(&statement),
                "payloadType": kind,
                "signatures": [{"sig": STANDARD.encode(signature.to_der().as_bytes())}],
            },
        })
        .to_string();
        let blob = self.push_blob(repository, bundle.as_bytes()).await?;
        let layers = [descriptor(BUNDLE, &blob, bundle.len())];
        let config = ("application/vnd.oci.empty.v1+json", &b"{}"[..]);
        let (manifest, size) = self.put_manifest(repository, None, config, &layers).await?;
        let mut listed = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest, size);
        listed["artifactType"] = json!(BUNDLE);
        let kind = "application/vnd.oci.image.index.v1+json";
        let index = json!({"schemaVersion": 2, "mediaType": kind, "manifests": [listed]}).to_string();
        let tag = digest.replace(':', "-");
        let url = format!("http://{}/v2/{repository}/manifests/{tag}", self.address);
        self.send(repository, self.client.put(url).header(header::CONTENT_TYPE, kind).body(index)).await?;
        Ok(())
    }

    async fn push_manifest(
        &self,
        repository: &str,
        tag: &str,
        config: (&str, &[u8]),
        layers: &[Value],
    ) -> anyhow::Result<String> {
        Ok(self.put_manifest(repository, Some(tag), config, layers).await?.0)
    }

    /// Digest and size of what was put, under a tag or under its digest alone.
    async fn put_manifest(
        &self,
        repository: &str,
        tag: Option<&str>,
        config: (&str, &[u8]),
        layers: &[Value],
    ) -> anyhow::Result<(String, usize)> {
        let (kind, content) = config;
        let digest = self.push_blob(repository, content).await?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor(kind, &digest, content.len()),
            "layers": layers,
        })
        .to_string();
        let (digest, size) = (sha256(manifest.as_bytes()), manifest.len());
        let reference = tag.unwrap_or(&digest);
        let url = format!("http://{}/v2/{repository}/manifests/{reference}", self.address);
        let request = self
            .client
            .put(url)
            .header(header::CONTENT_TYPE, "application/vnd.oci.image.manifest.v1+json")
            .body(manifest);
        self.send(repository, request).await?;
        Ok((digest, size))
    }

    async fn push_blob(&self, repository: &str, content: &[u8]) -> anyhow::Result<String> {
        let digest = sha256(content);
        let url = format!("http://{}/v2/{repository}/blobs/uploads/", self.address);
        let started = self.send(repository, self.client.post(url)).await?;
        let target =
            started.headers().get(header::LOCATION).context("the registry starts no upload")?.to_str()?;
        let target = started.url().join(target)?;
        let joint = if target.query().is_some() { '&' } else { '?' };
        let request = self.client.put(format!("{target}{joint}digest={digest}")).body(content.to_vec());
        self.send(repository, request).await?;
        Ok(digest)
    }

    async fn send(
        &self,
        repository: &str,
        request: reqwest::RequestBuilder,
    ) -> anyhow::Result<reqwest::Response> {
        let request = match &self.sign_in {
            SignIn::Open => request,
            SignIn::Password { user, password } => {
                request.header(header::AUTHORIZATION, basic(user, password))
            }
            SignIn::Token { .. } => {
                let scope = format!("repository:{repository}:pull,push");
                request.bearer_auth(jwt(&self.key, &scope)?)
            }
        };
        let response = request.send().await?;
        let status = response.status();
        anyhow::ensure!(status.is_success(), "the registry answers {status}: {}", response.text().await?);
        Ok(response)
    }
}

/// The PEM of a key's public half, as `cosign.pub` has it.
pub fn public_key_pem(key: &SigningKey) -> String {
    // Written out: the prefix says "EC public key on P-256", the rest is the point.
    const PREFIX: &str = "3059301306072a8648ce3d020106082a8648ce3d030107034200";
    let mut der: Vec<u8> = (0..PREFIX.len())
        .step_by(2)
        .filter_map(|at| u8::from_str_radix(&PREFIX[at..at + 2], 16).ok())
        .collect();
    der.extend_from_slice(key.verifying_key().to_sec1_point(false).as_bytes());
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
}

/// A key for [`OciRegistry::sign`]; another number is another key.
pub fn signing_key(number: u8) -> SigningKey {
    SigningKey::from_slice(&[number.max(1); 32]).unwrap_or_else(|_| unreachable!("small numbers are keys"))
}

/// A `.tar.gz` of these files, always the same bytes for the same files.
pub fn tar_gz<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in files.into_iter().collect::<BTreeMap<_, _>>() {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        drop(builder.append_data(&mut header, path, content.as_bytes()));
    }
    let tar = builder.into_inner().unwrap_or_default();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    drop(gzip.write_all(&tar));
    gzip.finish().unwrap_or_default()
}

async fn token(
    State(service): State<Arc<TokenService>>,
    request: axum::extract::Request,
) -> (StatusCode, Json<Value>) {
    let given = authorization(request.headers());
    service.seen.lock().push(given.clone());
    // Without a user it is for everybody.
    let open = service.authorization == basic("", "");
    if !open && given.as_deref() != Some(&service.authorization) {
        return (StatusCode::UNAUTHORIZED, Json(json!({"details": "incorrect username or password"})));
    }
    let query = request.uri().query().unwrap_or_default();
    let scope = query.split('&').find_map(|part| part.strip_prefix("scope=")).unwrap_or_default();
    let scope = scope.replace("%3A", ":").replace("%2F", "/").replace("%2C", ",");
    match jwt(&service.key, &scope) {
        Ok(token) => (StatusCode::OK, Json(json!({"token": token, "expires_in": 300}))),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({}))),
    }
}

fn authorization(headers: &HeaderMap) -> Option<String> {
    headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// A token for `repository:NAME:ACTIONS`.
fn jwt(key: &SigningKey, scope: &str) -> anyhow::Result<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut parts = scope.splitn(3, ':');
    let access = match (parts.next(), parts.next(), parts.next()) {
        (Some(kind), Some(name), Some(actions)) => {
            json!([{"type": kind, "name": name, "actions": actions.split(',').collect::<Vec<_>>()}])
        }
        _ => json!([]),
    };
    let claims = json!({
        "iss": ISSUER, "sub": "robot", "aud": SERVICE, "jti": format!("{now}"),
        "iat": now, "nbf": now - 10, "exp": now + 300, "access": access,
    });
    let head = json!({"alg": "ES256", "typ": "JWT", "kid": "testkit"});
    let text = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(head.to_string()),
        URL_SAFE_NO_PAD.encode(claims.to_string())
    );
    let signature: Signature = key.sign(text.as_bytes());
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature.to_bytes())))
}

fn jwk(key: &SigningKey) -> Value {
    let point = key.verifying_key().to_sec1_point(false);
    let (x, y) = point.as_bytes()[1..].split_at(32);
    json!({
        "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "testkit",
        "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
    })
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

fn descriptor(media_type: &str, digest: &str, size: usize) -> Value {
    json!({"mediaType": media_type, "digest": digest, "size": size})
}

fn sha256(content: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(content)))
}
