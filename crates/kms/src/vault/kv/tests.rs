//! Against a stand-in that was written from Vault's public description: no Vault runs here.

use std::fs;

use plural_core::ids::ProjectId;
use plural_testkit::TransitServer;

use super::*;
use crate::tests::{refused, unavailable};

fn name() -> ObjectName {
    ObjectName { project: ProjectId::new(), id: ProjectId::new().uuid() }
}

fn open(place: &str) -> Kv {
    let variables: Arc<Variables> = Arc::new(|_: &str| None);
    Kv::open(&Place::of(place), &variables).unwrap()
}

struct Lab {
    server: TransitServer,
    folder: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        Self { server: TransitServer::start().unwrap(), folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn by_kubernetes(&self) -> Kv {
        let file = self.file("jwt", &self.server.jwt());
        open(&self.server.kv_place(&format!("auth=kubernetes&role=plural&token_file={file}")))
    }

    fn by_token(&self, place: impl Fn(&TransitServer, &str) -> String) -> Kv {
        let file = self.file("token", &self.server.root());
        open(&place(&self.server, &format!("token_file={file}")))
    }
}

#[tokio::test]
async fn an_object_is_put_once_read_and_gone_with_all_its_versions() {
    let lab = Lab::new();
    let (kv, name) = (lab.by_kubernetes(), name());
    assert_eq!(kv.get(&name).await.unwrap(), None);
    kv.put(&name, b"sealed").await.unwrap();
    assert_eq!(kv.get(&name).await.unwrap().as_deref(), Some(b"sealed".as_slice()));
    let kept: Vec<String> = lab.server.kept().into_keys().collect();
    assert_eq!(kept, [format!("plural/{}/{}", name.project, name.id)]);
    // The same once more is no failure, another content is one.
    kv.put(&name, b"sealed").await.unwrap();
    assert!(refused(kv.put(&name, b"other").await).contains("check-and-set"));
    assert_eq!(kv.get(&name).await.unwrap().as_deref(), Some(b"sealed".as_slice()));
    lab.server.delete_newest();
    assert_eq!(kv.get(&name).await.unwrap(), None, "its newest version was deleted");
    kv.delete(&name).await.unwrap();
    kv.put(&name, b"after").await.unwrap();
    kv.delete(&name).await.unwrap();
    kv.delete(&name).await.unwrap();
    assert!(lab.server.kept().is_empty());
}

#[tokio::test]
async fn bad_days_are_told_and_no_credential_with_them() {
    let lab = Lab::new();
    let (kv, name) = (lab.by_kubernetes(), name());
    kv.put(&name, b"sealed").await.unwrap();
    lab.server.revoke_tokens();
    assert!(kv.get(&name).await.unwrap().is_some(), "it logs in again");
    lab.server.fail_next(2);
    assert!(kv.get(&name).await.unwrap().is_some(), "it asks again");
    lab.server.away(true);
    for told in [unavailable(kv.get(&name).await), unavailable(kv.put(&name, b"x").await)] {
        assert!(told.contains("sealed"), "{told}");
    }
    unavailable(kv.delete(&name).await);
    lab.server.away(false);
    lab.server.forbid(true);
    for told in [refused(kv.get(&name).await), refused(kv.delete(&name).await)] {
        assert!(told.contains("permission denied"), "{told}");
        assert!(!told.contains(&lab.server.jwt()) && !told.contains("hvs."), "{told}");
    }
    lab.server.forbid(false);
    lab.server.overwrite(&serde_json::json!({"other": "shape"}));
    assert!(refused(kv.get(&name).await).contains("not understood"));
}

#[tokio::test]
async fn an_engine_without_versions_is_refused() {
    let lab = Lab::new();
    let old = lab.by_token(TransitServer::old_kv_place);
    assert!(refused(old.put(&name(), b"sealed").await).contains("no KV engine of version 2"));
    let here = lab.by_token(TransitServer::kv_place);
    here.put(&name(), b"sealed").await.unwrap();
}
