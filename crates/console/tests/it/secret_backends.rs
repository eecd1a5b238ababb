//! A console whose projects keep secret values in Vault, as far as a stand-in is that which was written from its public description, or in
//! Secrets of a simulated cluster.
//!
//! One backend is enough: creating, reading and deleting a Secret are among what the conformance suite compares.

use std::{fs, time::Duration};

use plural_console::{ConsoleConfig, RunningConsole, StartError};
use plural_testkit::{TestCluster, TestDatabase, TransitServer, each_database, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api_server::{Person, TestServer};

each_database!(values_move_to_vault_and_to_kubernetes_and_back);

const PATIENCE: Duration = Duration::from_mins(2);
const STORAGE: &str = "backend waiting problem kept { backend values }";
const VALUE: &str = "hunter2-hunter2";

/// Backends, and what gets the console into them.
struct Places {
    vault: TransitServer,
    cluster: TestCluster,
    folder: TempDir,
}

impl Places {
    async fn new() -> Self {
        let cluster = TestCluster::kubesim().await.unwrap();
        let places =
            Self { vault: TransitServer::start().unwrap(), cluster, folder: tempfile::tempdir().unwrap() };
        places.write("jwt", &places.vault.jwt());
        let cluster = places.cluster.as_kubesim().unwrap();
        places.write("token", cluster.admin_token());
        places.write("ca.crt", cluster.ca_pem());
        places
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn settings(&self) -> Vec<String> {
        let folder = self.folder.path().display();
        let server = self.cluster.server();
        vec![
            self.vault.kv_place(&format!("auth=kubernetes&role=plural&token_file={folder}/jwt")),
            format!("kubernetes:default?server={server}&token_file={folder}/token&ca={folder}/ca.crt"),
        ]
    }

    fn secrets(&self) -> usize {
        self.cluster.as_kubesim().unwrap().count("", "secrets")
    }
}

async fn storage(admin: &Person, project: &str) -> Value {
    let query = format!("query ($id: ID!) {{ project(id: $id) {{ secretStorage {{ {STORAGE} }} }} }}");
    admin.data(&query, json!({"id": project})).await["project"]["secretStorage"].clone()
}

/// Values, wherever they are.
fn count(storage: &Value) -> i64 {
    storage["kept"].as_array().unwrap().iter().map(|kept| kept["values"].as_i64().unwrap()).sum()
}

fn moves() -> String {
    format!(
        "mutation ($id: ID!, $to: SecretBackend!) {{ moveProjectSecrets(projectId: $id, backend: $to) {{ {STORAGE} }} }}"
    )
}

/// Moves, and waits until everything is there.
async fn moved(admin: &Person, project: &str, to: &str) -> Value {
    let begun = admin.data(&moves(), json!({"id": project, "to": to})).await["moveProjectSecrets"].clone();
    assert_eq!(begun["backend"], to);
    eventually(PATIENCE, async || {
        let storage = storage(admin, project).await;
        let is_there = storage["waiting"] == 0;
        if is_there { Ok(storage) } else { Err(storage.to_string()) }
    })
    .await
}

async fn read(admin: &Person, service: &Value) -> Value {
    let query = "query ($id: ID!) { serviceDeployment(id: $id) { configuration { name value } } }";
    let told = admin.data(query, json!({"id": service})).await;
    let all = told["serviceDeployment"]["configuration"].as_array().unwrap();
    all.iter().find(|one| one["name"] == "password").unwrap()["value"].clone()
}

async fn values_move_to_vault_and_to_kubernetes_and_back(database: TestDatabase) {
    let places = Places::new().await;
    let settings = places.settings();
    let t = TestServer::on_with(&database, |config| config.secret_backend = settings).await;
    let cluster = t.admin.cluster("blue").await;
    let repository = t.admin.repository("/nowhere/app").await;
    let service = t.admin.service(&cluster, &repository, "web").await["id"].clone();
    let update = "mutation ($id: ID!, $a: ServiceUpdateAttributes!) { updateServiceDeployment(id: $id, attributes: $a) { id } }";
    let secret = json!([{"name": "password", "value": VALUE}]);
    t.admin.data(update, json!({"id": service, "a": {"configuration": secret}})).await;
    let before = storage(&t.admin, &t.project).await;
    assert_eq!((&before["backend"], &before["waiting"]), (&json!("DATABASE"), &json!(0)));

    // Nobody moves to a backend that does not work, and nobody is told its own words.
    places.vault.forbid(true);
    let refused = t.admin.ask(&moves(), json!({"id": t.project, "to": "VAULT"})).await.body.to_string();
    assert!(refused.contains("the secret backend vault refuses this console"), "{refused}");
    assert!(!refused.contains("permission denied"), "{refused}");
    assert_eq!(storage(&t.admin, &t.project).await, before);
    places.vault.forbid(false);

    // Who administers the project sees where its values are. Where they go, the installation's administrators say.
    assert_eq!(storage(&t.owner, &t.project).await, before);
    let refused = t.owner.ask(&moves(), json!({"id": t.project, "to": "VAULT"})).await.body;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "FORBIDDEN");

    let others = places.secrets();
    for to in ["VAULT", "KUBERNETES", "DATABASE"] {
        let values = count(&storage(&t.admin, &t.project).await);
        let there = moved(&t.admin, &t.project, to).await;
        assert_eq!(there["kept"], json!([{"backend": to, "values": values}]), "all of them");
        assert_eq!(read(&t.admin, &service).await, VALUE, "in {to}");
        let held = "query ($id: ID!) { project(id: $id) { secretHoldings { holdsNone holdings { kind backend } } } }";
        let held = t.admin.data(held, json!({"id": t.project})).await["project"]["secretHoldings"].clone();
        assert_eq!(held["holdsNone"], false, "wherever they are, the console opens them");
        let of = |kind: &str| {
            let all = held["holdings"].as_array().unwrap();
            all.iter().find(|holding| holding["kind"] == kind).map(|holding| holding["backend"].clone())
        };
        assert_eq!((of("CONFIGURATION"), of("SEEDS")), (Some(json!(to)), Some(json!(to))));
        // What is written from then on goes there at once.
        let secret = json!([{"name": "password", "value": VALUE}, {"name": "in", "value": to}]);
        t.admin.data(update, json!({"id": service, "a": {"configuration": secret}})).await;
        let now = storage(&t.admin, &t.project).await;
        assert_eq!(now["kept"], json!([{"backend": to, "values": values + 1}]));
    }
    let kept = places.vault.kept();
    assert!(!kept.is_empty() && places.secrets() > others, "{kept:?}");
    for (path, data) in kept {
        assert!(path.starts_with(&format!("plural/{}/", t.project)), "{path}");
        assert!(!data.to_string().contains("hunter"), "{data}");
    }
    t.stop().await;
}

#[tokio::test]
async fn a_place_that_is_none_is_told_at_the_start_and_a_backend_that_is_not_named_when_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = ConsoleConfig::local(folder.path().join("data"));
    config.secret_backend = vec!["vault-kv://user:word@vault.example.com/secret/plural".to_owned()];
    let told = match RunningConsole::start(config, None).await {
        Err(error @ StartError::SecretBackend { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it started"),
    };
    assert!(told.contains("--secret-backend") && !told.contains("user:word"), "{told}");

    let t = TestServer::start().await;
    let refused = t.admin.ask(&moves(), json!({"id": t.project, "to": "VAULT"})).await.body;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "CONFLICT");
    assert!(refused.to_string().contains("--secret-backend"), "{refused}");
    t.stop().await;
}
