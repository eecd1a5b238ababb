//! Against a stand-in that was written from Azure's public descriptions: no Azure runs here.

use std::fs;

use plural_testkit::AzureVaultServer;

use super::*;
use crate::tests::{refused, unavailable};

fn data_key() -> ClearKey {
    SecretBox::new(Box::new([7; 32]))
}

struct Lab {
    server: AzureVaultServer,
    folder: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        Self { server: AzureVaultServer::start().unwrap(), folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, format!("{text}\n")).unwrap();
        path.display().to_string()
    }

    fn open(&self, options: &str, secret: Option<String>) -> AzureKey {
        let variables: Arc<Variables> =
            Arc::new(move |name: &str| secret.clone().filter(|_| name == "AZURE_CLIENT_SECRET"));
        AzureKey::open(&Place::of(&self.server.place(options)), &variables).unwrap()
    }

    fn by_workload_identity(&self) -> AzureKey {
        self.open(&format!("token_file={}", self.file("token", &self.server.federated_token())), None)
    }

    fn by_secret_file(&self) -> AzureKey {
        self.open(&format!("secret_file={}", self.file("secret", &self.server.secret())), None)
    }

    fn by_secret(&self) -> AzureKey {
        self.open("", Some(self.server.secret()))
    }
}

#[tokio::test]
async fn a_data_key_opens_for_what_it_was_wrapped_for_however_one_logs_in() {
    let lab = Lab::new();
    for key in [lab.by_workload_identity(), lab.by_secret_file(), lab.by_secret()] {
        let wrapped = key.wrap("a", &data_key()).await.unwrap();
        assert_eq!(wrapped.version, Some(lab.server.version()));
        assert_eq!(key.unwrap("a", &wrapped.bytes).await.unwrap().expose_secret(), &[7; 32]);
        assert!(refused(key.unwrap("b", &wrapped.bytes).await).contains("authentication failed"));
        assert!(refused(key.unwrap("a", b"other").await).contains("not wrapped by a key of Azure"));
        assert_eq!(key.name(), AzureVaultServer::name());
    }
    assert_eq!(lab.server.logins(), 3, "once each");
}

#[tokio::test]
async fn a_rotated_key_has_another_version_and_opens_what_the_old_one_wrapped() {
    let lab = Lab::new();
    let key = lab.by_secret();
    let old = key.wrap("a", &data_key()).await.unwrap();
    assert_eq!(key.version().await.unwrap(), old.version);
    lab.server.rotate();
    let version = key.version().await.unwrap();
    assert!(version.is_some() && version != old.version);
    assert_eq!(key.wrap("a", &data_key()).await.unwrap().version, version);
    assert!(key.unwrap("a", &old.bytes).await.is_ok());
    lab.server.disable_old_versions();
    assert!(refused(key.unwrap("a", &old.bytes).await).contains("not allowed on a disabled key"));
}

#[tokio::test]
async fn what_was_changed_does_not_open_wherever_it_was_changed() {
    let lab = Lab::new();
    let key = lab.by_secret();
    let wrapped = key.wrap("a", &data_key()).await.unwrap();
    let Sealed { version, key: between, data: sealed } = serde_json::from_slice(&wrapped.bytes).unwrap();
    let stored = |version: &str, key: &str, sealed: &str| {
        let stored = Sealed { version: version.into(), key: key.into(), data: sealed.into() };
        serde_json::to_vec(&stored).unwrap()
    };
    let mut other = decoded(&sealed).unwrap();
    for place in 0..other.len() {
        other[place] ^= 1;
        let told =
            refused(key.unwrap("a", &stored(&version, &between, &URL_SAFE_NO_PAD.encode(&other))).await);
        assert!(told.contains("authentication failed"), "{place}: {told}");
        other[place] ^= 1;
    }
    assert!(
        refused(key.unwrap("a", &stored("../../secrets/x", &between, &sealed)).await).contains("not wrapped")
    );
    assert!(refused(key.unwrap("a", &stored("0123", &between, &sealed)).await).contains("404"));
    assert!(
        refused(key.unwrap("a", &stored(&version, "AAAA", &sealed)).await).contains("parameter is incorrect")
    );
    assert!(refused(key.unwrap("a", &stored(&version, &between, "AAAA")).await).contains("not wrapped"));
    lab.server.tamper(true);
    assert!(refused(key.unwrap("a", &wrapped.bytes).await).contains("authentication failed"));
}

#[tokio::test]
async fn a_token_is_replaced_before_it_is_over_and_when_it_is_refused() {
    let lab = Lab::new();
    let key = lab.by_workload_identity();
    key.wrap("a", &data_key()).await.unwrap();
    key.wrap("a", &data_key()).await.unwrap();
    assert_eq!(lab.server.logins(), 1);
    lab.server.end_tokens();
    key.wrap("a", &data_key()).await.unwrap();
    assert_eq!(lab.server.logins(), 2);
    key.credentials.grow_old().await;
    key.wrap("a", &data_key()).await.unwrap();
    assert_eq!(lab.server.logins(), 3);
}

#[tokio::test]
async fn bad_moments_pass_and_bad_days_are_said() {
    let lab = Lab::new();
    let key = lab.by_secret();
    let wrapped = key.wrap("a", &data_key()).await.unwrap();
    lab.server.throttle_next(2);
    assert!(key.unwrap("a", &wrapped.bytes).await.is_ok());
    lab.server.throttle_next(3);
    assert!(unavailable(key.unwrap("a", &wrapped.bytes).await).contains("429"));
    lab.server.away(true);
    assert!(unavailable(key.unwrap("a", &wrapped.bytes).await).contains("503"));
    lab.server.away(false);
    lab.server.disable(true);
    assert!(refused(key.unwrap("a", &wrapped.bytes).await).contains("not allowed on a disabled key"));
    lab.server.disable(false);
    lab.server.be_elliptic(true);
    assert!(refused(key.version().await).contains("only RSA keys wrap"));
}

#[tokio::test]
async fn what_is_wrong_with_credentials_is_said_and_no_secret_with_it() {
    let lab = Lab::new();
    let key = lab.open("", Some("another secret".to_owned()));
    let told = refused(key.wrap("a", &data_key()).await);
    assert!(
        told.contains("Entra ID gives this console no token") && told.contains("AADSTS7000215"),
        "{told}"
    );
    assert!(!told.contains("another secret"), "{told}");
    let key = lab.open("token_file=/nonexistent/token", None);
    assert!(refused(key.wrap("a", &data_key()).await).contains("/nonexistent/token"));
}
