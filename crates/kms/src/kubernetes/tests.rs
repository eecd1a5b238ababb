//! Against the simulated API server, with TLS and its tokens.
//!
//! One backend is enough: creating, reading and deleting a Secret are among what the conformance suite compares.

use std::fs;

use plural_core::ids::ProjectId;
use plural_testkit::TestCluster;

use super::*;
use crate::tests::{refused, unavailable};

const NAMESPACE: &str = "plural-secrets";

struct Lab {
    cluster: TestCluster,
    folder: tempfile::TempDir,
}

impl Lab {
    async fn new() -> Self {
        let lab =
            Self { cluster: TestCluster::kubesim().await.unwrap(), folder: tempfile::tempdir().unwrap() };
        lab.write("token", lab.cluster.as_kubesim().unwrap().admin_token());
        lab.write("ca.crt", lab.cluster.as_kubesim().unwrap().ca_pem());
        lab
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn secrets(&self, namespace: &str) -> Secrets {
        let folder = self.folder.path().display();
        let server = self.cluster.as_kubesim().unwrap().url();
        let place =
            format!("kubernetes:{namespace}?server={server}&token_file={folder}/token&ca={folder}/ca.crt");
        let variables: Arc<Variables> = Arc::new(|_: &str| None);
        Secrets::open(&Place::of(&place), &variables).unwrap()
    }
}

fn name() -> ObjectName {
    ObjectName { project: ProjectId::new(), id: ProjectId::new().uuid() }
}

#[tokio::test]
async fn an_object_is_a_secret_that_nobody_changes() {
    let lab = Lab::new().await;
    let (secrets, name) = (lab.secrets("default"), name());
    assert_eq!(secrets.get(&name).await.unwrap(), None);
    secrets.put(&name, b"sealed").await.unwrap();
    assert_eq!(secrets.get(&name).await.unwrap().as_deref(), Some(b"sealed".as_slice()));
    secrets.put(&name, b"sealed").await.unwrap();
    assert!(refused(secrets.put(&name, b"other").await).contains("already exists"));
    secrets.delete(&name).await.unwrap();
    secrets.delete(&name).await.unwrap();
    assert_eq!(secrets.get(&name).await.unwrap(), None);
    let large = vec![7; LARGEST];
    secrets.put(&name, &large).await.unwrap();
    assert_eq!(secrets.get(&name).await.unwrap(), Some(large));
}

#[tokio::test]
async fn bad_days_are_told_and_no_credential_with_them() {
    let lab = Lab::new().await;
    let name = name();
    let told = refused(lab.secrets(NAMESPACE).put(&name, b"sealed").await);
    assert!(told.contains("404") && told.contains(NAMESPACE), "{told}");
    let secrets = lab.secrets("default");
    lab.cluster.as_kubesim().unwrap().set_available(false);
    unavailable(secrets.get(&name).await);
    lab.cluster.as_kubesim().unwrap().set_available(true);
    secrets.put(&name, b"sealed").await.unwrap();
    // The kubelet renews the token.
    lab.write("token", "a-wrong-token");
    let told = refused(secrets.get(&name).await);
    assert!(told.contains("401") && !told.contains("a-wrong-token"), "{told}");
    lab.write("token", lab.cluster.as_kubesim().unwrap().admin_token());
    assert!(secrets.get(&name).await.unwrap().is_some());
}

#[test]
fn places_are_checked_before_anything_is_asked() {
    let told = |place: &str| {
        let variables: Arc<Variables> = Arc::new(|_: &str| None);
        Secrets::open(&Place::of(place), &variables).err().expect(place).to_string()
    };
    for (place, reason) in [
        ("kubernetes:", "kubernetes:NAMESPACE"),
        ("kubernetes:../default", "kubernetes:NAMESPACE"),
        ("kubernetes:plural", "\"server\""),
        ("kubernetes:plural?server=http://api.example.com", "without TLS"),
        ("kubernetes:plural?server=https://169.254.169.254", "metadata address"),
        ("kubernetes:plural?server=https://api.example.com/path", "without a path"),
        ("kubernetes:plural?color=red", "no option \"color\""),
    ] {
        assert!(told(place).contains(reason), "{place}: {}", told(place));
    }
}
