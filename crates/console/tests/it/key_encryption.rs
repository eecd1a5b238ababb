//! A console whose key-encryption key is in Vault, as far as a stand-in that was written from Vault's public description is one.
//!
//! One backend is enough: the store's own tests of data keys run on both.

use std::{fs, path::Path};

use plural_console::{ConsoleConfig, RunningConsole, StartError};
use plural_testkit::TransitServer;
use serde_json::{Value, json};

use crate::api_server::{Person, TestServer};

const PASSWORD: &str = "correct horse battery";

fn config(folder: &Path, places: &[String]) -> ConsoleConfig {
    let mut config = ConsoleConfig::local(folder.join("data"));
    config.admin_email = "admin@example.com".into();
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

#[tokio::test]
async fn a_key_moves_from_a_file_to_vault_and_is_rotated_there() {
    let vault = TransitServer::start().unwrap();
    // It makes its key in a file.
    let t = TestServer::start_with(|_, config| config.encryption_key_file = None).await;
    let cluster = t.admin.cluster("blue").await;
    let repository = t.admin.repository("/nowhere/app").await;
    let service = t.admin.service(&cluster, &repository, "web").await;
    let update = "mutation ($id: ID!, $a: ServiceUpdateAttributes!) { updateServiceDeployment(id: $id, attributes: $a) { id } }";
    let secret = json!([{"name": "password", "value": "hunter2-hunter2"}]);
    t.admin.data(update, json!({"id": service["id"], "a": {"configuration": secret}})).await;
    let read = async |person: &Person| {
        let query = "query ($id: ID!) { serviceDeployment(id: $id) { configuration { value } } }";
        let told = person.data(query, json!({"id": service["id"]})).await;
        assert_eq!(told["serviceDeployment"]["configuration"][0]["value"], "hunter2-hunter2");
    };
    read(&t.admin).await;
    let TestServer { console, folder: owned, .. } = t;
    console.stop().await.unwrap();
    let folder = owned.path();
    let file = format!("file:{}", folder.join("data/encryption.key").display());
    let token = folder.join("token");
    fs::write(&token, vault.root()).unwrap();
    let place = vault.place(&format!("token_file={}", token.display()));

    // Both are named until the log says that the old one is not needed.
    let console = start(folder, &[place.clone(), file]).await.unwrap();
    assert_eq!(console.app().reseal().await.unwrap().failed, 0);
    let person = admin(&console).await;
    let name = || "vault-transit:transit/plural".to_owned();
    assert!(encrypted_by(&person).await.iter().all(|key| *key == (name(), Some("1".to_owned()))));
    read(&person).await;
    console.stop().await.unwrap();
    fs::remove_file(folder.join("data/encryption.key")).unwrap();

    let console = start(folder, std::slice::from_ref(&place)).await.unwrap();
    assert!(!folder.join("data/encryption.key").exists(), "nobody needs one");
    vault.rotate();
    assert_eq!(console.app().reseal().await.unwrap().failed, 0);
    vault.forget_old_versions();
    let person = admin(&console).await;
    assert!(encrypted_by(&person).await.iter().all(|key| *key == (name(), Some("2".to_owned()))));
    console.stop().await.unwrap();
    let console = start(folder, std::slice::from_ref(&place)).await.unwrap();
    read(&admin(&console).await).await;
    console.stop().await.unwrap();

    // What is wrong is said at the start.
    vault.forbid(true);
    let told = causes(&start(folder, std::slice::from_ref(&place)).await.unwrap_err());
    assert!(told.contains("the encryption key is not the one"), "{told}");
    vault.forbid(false);
    vault.away(true);
    let told = causes(&start(folder, std::slice::from_ref(&place)).await.unwrap_err());
    assert!(told.contains("key management service does not answer"), "{told}");
    vault.away(false);
    let told = causes(&start(folder, &[]).await.unwrap_err());
    assert!(told.contains("the encryption key is not the one"), "{told}");
    let told = causes(&start(folder, &["vault-transit://vault.example.com".to_owned()]).await.unwrap_err());
    assert!(told.contains("--key-encryption"), "{told}");
}
