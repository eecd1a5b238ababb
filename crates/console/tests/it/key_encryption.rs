//! A console whose key-encryption key is in Vault or in a cloud, as far as stand-ins are that which were written from public descriptions.
//!
//! One backend is enough: the store's own tests of data keys run on both.

use std::{fs, path::Path};

use plural_console::{ConsoleConfig, RunningConsole, StartError};
use plural_testkit::{AwsKmsServer, AzureVaultServer, GoogleKmsServer, TransitServer};
use serde_json::{Value, json};

use crate::api_server::{Person, TestServer};

const PASSWORD: &str = "correct horse battery";

fn config(folder: &Path, places: &[String]) -> ConsoleConfig {
    let mut config = ConsoleConfig::local(folder.join("data"));
    config.admin_email = "admin@example.com".into();
    config.admin_password = Some(PASSWORD.to_owned().into());
    config.key_encryption = places.to_vec();
    config
}

async fn start(folder: &Path, places: &[String]) -> Result<RunningConsole, StartError> {
    RunningConsole::start(config(folder, places), None).await
}

async fn admin(console: &RunningConsole) -> Person {
    Person::of(&console.url).sign_in("admin@example.com", PASSWORD).await
}

fn causes(error: &StartError) -> String {
    let all = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// The key-encryption keys of the keys of what belongs to no project, with their versions.
async fn encrypted_by(admin: &Person) -> Vec<(String, Option<String>)> {
    let told = admin.data("{ installationDataKeys { encryptedBy version } }", json!({})).await;
    let keys: Vec<Value> = serde_json::from_value(told["installationDataKeys"].clone()).unwrap();
    let pair = |key: &Value| {
        (key["encryptedBy"].as_str().unwrap().to_owned(), key["version"].as_str().map(str::to_owned))
    };
    keys.iter().map(pair).collect()
}

/// A secret in a database whose key is in a file.
struct Secret {
    folder: tempfile::TempDir,
    service: Value,
}

impl Secret {
    async fn in_a_file() -> Self {
        let t = TestServer::start_with(|_, config| config.encryption_key_file = None).await;
        let cluster = t.admin.cluster("blue").await;
        let repository = t.admin.repository("/nowhere/app").await;
        let service = t.admin.service(&cluster, &repository, "web").await["id"].clone();
        let update = "mutation ($id: ID!, $a: ServiceUpdateAttributes!) { updateServiceDeployment(id: $id, attributes: $a) { id } }";
        let secret = json!([{"name": "password", "value": "hunter2-hunter2"}]);
        t.admin.data(update, json!({"id": service, "a": {"configuration": secret}})).await;
        let TestServer { console, folder, .. } = t;
        console.stop().await.unwrap();
        let secret = Self { folder, service };
        let console = start(secret.folder(), &[]).await.unwrap();
        secret.read(&console).await;
        console.stop().await.unwrap();
        secret
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn key_file(&self) -> std::path::PathBuf {
        self.folder().join("data/encryption.key")
    }

    fn file_place(&self) -> String {
        format!("file:{}", self.key_file().display())
    }

    async fn read(&self, console: &RunningConsole) {
        let query = "query ($id: ID!) { serviceDeployment(id: $id) { configuration { value } } }";
        let told = admin(console).await.data(query, json!({"id": self.service})).await;
        assert_eq!(told["serviceDeployment"]["configuration"][0]["value"], "hunter2-hunter2");
    }

    /// Starts with these places, wraps what another key wrapped, and says what wraps now.
    async fn wrapped_anew(&self, places: &[String]) -> (String, Option<String>) {
        let console = start(self.folder(), places).await.unwrap();
        assert_eq!(console.app().reseal().await.unwrap().failed, 0);
        self.read(&console).await;
        let keys = encrypted_by(&admin(&console).await).await;
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        console.stop().await.unwrap();
        keys[0].clone()
    }

    /// Why a console does not start.
    async fn refusal(&self, place: &str) -> String {
        causes(&start(self.folder(), &[place.to_owned()]).await.unwrap_err())
    }
}

#[tokio::test]
async fn a_key_moves_from_a_file_to_vault_and_is_rotated_there() {
    let vault = TransitServer::start().unwrap();
    let secret = Secret::in_a_file().await;
    let folder = secret.folder();
    let token = folder.join("token");
    fs::write(&token, vault.root()).unwrap();
    let place = vault.place(&format!("token_file={}", token.display()));

    // Both are named until the log says that the old one is not needed.
    let name = || "vault-transit:transit/plural".to_owned();
    let both = [place.clone(), secret.file_place()];
    assert_eq!(secret.wrapped_anew(&both).await, (name(), Some("1".to_owned())));
    fs::remove_file(secret.key_file()).unwrap();
    vault.rotate();
    let only = std::slice::from_ref(&place);
    assert_eq!(secret.wrapped_anew(only).await, (name(), Some("2".to_owned())));
    assert!(!secret.key_file().exists(), "nobody needs one");
    vault.forget_old_versions();
    assert_eq!(secret.wrapped_anew(only).await, (name(), Some("2".to_owned())));

    // What is wrong is said at the start.
    vault.forbid(true);
    let told = secret.refusal(&place).await;
    assert!(told.contains("the encryption key refuses") && told.contains("permission denied"), "{told}");
    vault.forbid(false);
    vault.away(true);
    let told = secret.refusal(&place).await;
    assert!(told.contains("key management service does not answer"), "{told}");
    vault.away(false);
    let told = causes(&start(folder, &[]).await.unwrap_err());
    assert!(told.contains("the encryption key is not the one"), "{told}");
    let told = secret.refusal("vault-transit://vault.example.com").await;
    assert!(told.contains("--key-encryption"), "{told}");
}

/// A cloud, and what happens there.
struct Cloud {
    place: String,
    name: String,
    version: Box<dyn Fn() -> String>,
    rotate: Box<dyn Fn()>,
    disable_old: Box<dyn Fn()>,
    disable: Box<dyn Fn(bool)>,
    away: Box<dyn Fn(bool)>,
    throttle: Box<dyn Fn(usize)>,
    tamper: Box<dyn Fn(bool)>,
    /// What it says of a key that is disabled, and of an answer that somebody changed.
    says: [&'static str; 2],
    /// Credentials, which nobody is told.
    secrets: Vec<String>,
}

/// From the file to the cloud, rotated there, and back to another file.
async fn a_key_goes_there_and_back(secret: &Secret, cloud: &Cloud) {
    let Cloud { place, name, version, says: [disabled, changed], .. } = cloud;
    let now = || (name.clone(), Some(version()));
    // Too many requests at first.
    (cloud.throttle)(2);
    assert_eq!(secret.wrapped_anew(&[place.clone(), secret.file_place()]).await, now());
    fs::remove_file(secret.key_file()).unwrap();
    let only = std::slice::from_ref(place);
    assert_eq!(secret.wrapped_anew(only).await, now());
    assert!(!secret.key_file().exists(), "nobody needs one");

    let before = version();
    (cloud.rotate)();
    assert_ne!(version(), before);
    assert_eq!(secret.wrapped_anew(only).await, now());
    (cloud.disable_old)();
    assert_eq!(secret.wrapped_anew(only).await, now());

    // What is wrong is said at the start, without a credential.
    let mut told = Vec::new();
    (cloud.disable)(true);
    told.push((secret.refusal(place).await, *disabled));
    (cloud.disable)(false);
    (cloud.tamper)(true);
    told.push((secret.refusal(place).await, *changed));
    (cloud.tamper)(false);
    (cloud.away)(true);
    told.push((secret.refusal(place).await, "key management service does not answer"));
    (cloud.away)(false);
    (cloud.throttle)(100);
    told.push((secret.refusal(place).await, "key management service does not answer"));
    (cloud.throttle)(0);
    for (told, expected) in told {
        assert!(told.contains(expected), "{name}: {expected}: {told}");
        assert!(!cloud.secrets.iter().any(|secret| told.contains(secret)), "{told}");
    }

    let new = [9; 32];
    fs::write(secret.key_file(), base64::Engine::encode(&base64::engine::general_purpose::STANDARD, new))
        .unwrap();
    let (by, version) = secret.wrapped_anew(&[secret.file_place(), place.clone()]).await;
    assert!(by.starts_with("key:") && version.is_none(), "{by}");
    (cloud.away)(true);
    assert_eq!(secret.wrapped_anew(&[secret.file_place()]).await, (by, version));
    (cloud.away)(false);
}

#[tokio::test]
async fn a_key_moves_from_a_file_to_aws_and_is_rotated_there_and_back() {
    let server = std::rc::Rc::new(AwsKmsServer::start().unwrap());
    let secret = Secret::in_a_file().await;
    let token = secret.folder().join("token");
    fs::write(&token, server.web_identity()).unwrap();
    let s = || std::rc::Rc::clone(&server);
    let cloud = Cloud {
        place: server.place(&server.web_identity_options(&token.display().to_string())),
        name: format!("aws-kms:{}", AwsKmsServer::alias()),
        version: Box::new({
            let s = s();
            move || s.key()
        }),
        rotate: Box::new({
            let s = s();
            move || s.rotate()
        }),
        disable_old: Box::new({
            let s = s();
            move || s.disable_old_keys()
        }),
        disable: Box::new({
            let s = s();
            move |on| s.disable(on)
        }),
        away: Box::new({
            let s = s();
            move |on| s.away(on)
        }),
        throttle: Box::new({
            let s = s();
            move |requests| s.throttle_next(requests)
        }),
        tamper: Box::new({
            let s = s();
            move |on| s.tamper(on)
        }),
        says: ["DisabledException", "the encryption key is not the one"],
        secrets: vec![server.web_identity()],
    };
    a_key_goes_there_and_back(&secret, &cloud).await;
}

#[tokio::test]
async fn a_key_moves_from_a_file_to_google_cloud_and_is_rotated_there_and_back() {
    let server = std::rc::Rc::new(GoogleKmsServer::start().unwrap());
    let secret = Secret::in_a_file().await;
    let file = secret.folder().join("service-account.json");
    fs::write(&file, GoogleKmsServer::key_file()).unwrap();
    let s = || std::rc::Rc::clone(&server);
    let cloud = Cloud {
        place: server.place(&format!("key_file={}", file.display())),
        name: GoogleKmsServer::name(),
        version: Box::new({
            let s = s();
            move || s.version()
        }),
        rotate: Box::new({
            let s = s();
            move || s.rotate()
        }),
        disable_old: Box::new({
            let s = s();
            move || s.disable_old_versions()
        }),
        disable: Box::new({
            let s = s();
            move |on| s.disable(on)
        }),
        away: Box::new({
            let s = s();
            move |on| s.away(on)
        }),
        throttle: Box::new({
            let s = s();
            move |requests| s.throttle_next(requests)
        }),
        tamper: Box::new({
            let s = s();
            move |on| s.damage_next(if on { 100 } else { 0 })
        }),
        says: ["current state is: DISABLED", "was damaged on its way"],
        secrets: vec!["MIIE".to_owned(), "ya29".to_owned()],
    };
    a_key_goes_there_and_back(&secret, &cloud).await;
}

#[tokio::test]
async fn a_key_moves_from_a_file_to_azure_and_is_rotated_there_and_back() {
    let server = std::rc::Rc::new(AzureVaultServer::start().unwrap());
    let secret = Secret::in_a_file().await;
    let token = secret.folder().join("token");
    fs::write(&token, server.federated_token()).unwrap();
    let s = || std::rc::Rc::clone(&server);
    let cloud = Cloud {
        place: server.place(&format!("token_file={}", token.display())),
        name: AzureVaultServer::name(),
        version: Box::new({
            let s = s();
            move || s.version()
        }),
        rotate: Box::new({
            let s = s();
            move || s.rotate()
        }),
        disable_old: Box::new({
            let s = s();
            move || s.disable_old_versions()
        }),
        disable: Box::new({
            let s = s();
            move |on| s.disable(on)
        }),
        away: Box::new({
            let s = s();
            move |on| s.away(on)
        }),
        throttle: Box::new({
            let s = s();
            move |requests| s.throttle_next(requests)
        }),
        tamper: Box::new({
            let s = s();
            move |on| s.tamper(on)
        }),
        says: ["not allowed on a disabled key", "authentication failed"],
        secrets: vec![server.federated_token(), server.secret()],
    };
    a_key_goes_there_and_back(&secret, &cloud).await;
}

#[tokio::test]
async fn an_empty_database_is_not_begun_with_a_key_that_refuses() {
    let server = AzureVaultServer::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("secret");
    fs::write(&wrong, "a wrong secret").unwrap();
    let place = [server.place(&format!("secret_file={}", wrong.display()))];
    let told = causes(&start(folder.path(), &place).await.unwrap_err());
    assert!(
        told.contains("the encryption key refuses to be used") && told.contains("AADSTS7000215"),
        "{told}"
    );
    assert!(!told.contains("a wrong secret"), "{told}");
    fs::write(&wrong, server.secret()).unwrap();
    let console = start(folder.path(), &place).await.unwrap();
    let keys = encrypted_by(&admin(&console).await).await;
    assert!(keys.iter().all(|(name, _)| *name == AzureVaultServer::name()), "{keys:?}");
    console.stop().await.unwrap();
}
