//! Against a stand-in that was written from Google's public descriptions: no Google Cloud runs here.

use std::fs;

use plural_testkit::GoogleKmsServer;
use secrecy::SecretBox;

use super::*;
use crate::tests::{refused, unavailable};

fn data_key() -> ClearKey {
    SecretBox::new(Box::new([7; 32]))
}

struct Lab {
    server: GoogleKmsServer,
    folder: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        Self { server: GoogleKmsServer::start().unwrap(), folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self, text: &str) -> String {
        let path = self.folder.path().join("key.json");
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn open(&self, options: &str, variables: Option<String>) -> Result<GoogleKey, BadPlace> {
        let variables: Arc<Variables> = Arc::new(move |name: &str| {
            variables.clone().filter(|_| name == "GOOGLE_APPLICATION_CREDENTIALS")
        });
        GoogleKey::open(&Place::of(&self.server.place(options)), &variables)
    }

    fn by_key(&self) -> GoogleKey {
        self.open("", Some(self.file(&GoogleKmsServer::key_file()))).unwrap()
    }

    fn by_metadata(&self) -> GoogleKey {
        self.open("auth=metadata", None).unwrap()
    }
}

#[tokio::test]
async fn a_data_key_opens_for_what_it_was_wrapped_for_however_one_logs_in() {
    let lab = Lab::new();
    for key in [lab.by_key(), lab.by_metadata()] {
        let wrapped = key.wrap("a", &data_key()).await.unwrap();
        assert_eq!(wrapped.version.as_deref(), Some("1"));
        assert_eq!(key.unwrap("a", &wrapped.bytes).await.unwrap().expose_secret(), &[7; 32]);
        assert!(refused(key.unwrap("b", &wrapped.bytes).await).contains("the ciphertext is invalid"));
        assert!(refused(key.unwrap("a", b"other").await).contains("the ciphertext is invalid"));
        assert_eq!(key.name(), GoogleKmsServer::name());
    }
    assert_eq!(lab.server.logins(), 2, "once each");
}

#[tokio::test]
async fn a_rotated_key_has_another_version_and_opens_what_the_old_one_wrapped() {
    let lab = Lab::new();
    let key = lab.by_key();
    let old = key.wrap("a", &data_key()).await.unwrap();
    assert_eq!(key.version().await.unwrap().as_deref(), Some("1"));
    lab.server.rotate();
    assert_eq!(key.version().await.unwrap().as_deref(), Some("2"));
    assert_eq!(key.wrap("a", &data_key()).await.unwrap().version.as_deref(), Some("2"));
    assert!(key.unwrap("a", &old.bytes).await.is_ok());
    lab.server.disable_old_versions();
    let told = refused(key.unwrap("a", &old.bytes).await);
    assert!(told.contains("FAILED_PRECONDITION") && told.contains("not enabled"), "{told}");
    lab.server.forbid_reading(true);
    assert_eq!(key.version().await.unwrap(), None);
}

#[tokio::test]
async fn what_is_damaged_on_its_way_is_asked_for_once_more_and_then_refused() {
    let lab = Lab::new();
    let key = lab.by_metadata();
    lab.server.damage_next(1);
    let wrapped = key.wrap("a", &data_key()).await.unwrap();
    lab.server.damage_next(1);
    assert_eq!(key.unwrap("a", &wrapped.bytes).await.unwrap().expose_secret(), &[7; 32]);
    lab.server.damage_next(2);
    assert!(refused(key.unwrap("a", &wrapped.bytes).await).contains("what it decrypted was damaged"));
    lab.server.damage_next(2);
    assert!(refused(key.wrap("a", &data_key()).await).contains("what it encrypted was damaged"));
}

#[tokio::test]
async fn a_token_is_replaced_before_it_is_over_and_when_it_is_refused() {
    let lab = Lab::new();
    for (key, others) in [(lab.by_key(), 0), (lab.by_metadata(), 3)] {
        key.wrap("a", &data_key()).await.unwrap();
        key.wrap("a", &data_key()).await.unwrap();
        assert_eq!(lab.server.logins(), others + 1);
        lab.server.end_tokens();
        key.wrap("a", &data_key()).await.unwrap();
        assert_eq!(lab.server.logins(), others + 2);
        key.credentials.grow_old().await;
        key.wrap("a", &data_key()).await.unwrap();
        assert_eq!(lab.server.logins(), others + 3);
    }
}

#[tokio::test]
async fn bad_moments_pass_and_bad_days_are_said() {
    let lab = Lab::new();
    let key = lab.by_key();
    let wrapped = key.wrap("a", &data_key()).await.unwrap();
    lab.server.throttle_next(2);
    assert!(key.unwrap("a", &wrapped.bytes).await.is_ok());
    lab.server.throttle_next(3);
    assert!(unavailable(key.unwrap("a", &wrapped.bytes).await).contains("RESOURCE_EXHAUSTED"));
    lab.server.away(true);
    assert!(unavailable(key.unwrap("a", &wrapped.bytes).await).contains("503"));
    lab.server.away(false);
    lab.server.disable(true);
    assert!(refused(key.unwrap("a", &wrapped.bytes).await).contains("current state is: DISABLED"));
    assert!(refused(key.wrap("a", &data_key()).await).contains("current state is: DISABLED"));
}

#[tokio::test]
async fn what_is_wrong_with_credentials_is_said_and_no_secret_with_it() {
    let lab = Lab::new();
    let file = GoogleKmsServer::key_file();
    // Of another account, the assertion is refused.
    let another = file.replace("plural@", "another@");
    let told = refused(lab.open("", Some(lab.file(&another))).unwrap().wrap("a", &data_key()).await);
    assert!(told.contains("Google gives this console no token") && told.contains("invalid_grant"), "{told}");
    for (text, name) in [
        (file.replace("BEGIN PRIVATE", "BEGIN PUBLIC"), "no private key"),
        (file.replace("service_account", "authorized_user"), "another kind"),
        (file[..file.len() - 1].to_owned(), "no JSON"),
    ] {
        let told = lab.open("", Some(lab.file(&text))).err().expect(name).to_string();
        assert!(told.contains("is no key of a service account") && !told.contains("MII"), "{name}: {told}");
    }
    lab.server.be_no_metadata_service(true);
    let told = refused(lab.by_metadata().wrap("a", &data_key()).await);
    assert!(told.contains("not Google's metadata service"), "{told}");
}
