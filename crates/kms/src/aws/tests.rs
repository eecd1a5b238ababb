//! Against a stand-in that was written from AWS's public descriptions: no AWS runs here.

use std::fs;

use plural_testkit::AwsKmsServer;
use secrecy::SecretBox;

use super::*;
use crate::tests::{refused, unavailable};

fn data_key() -> ClearKey {
    SecretBox::new(Box::new([7; 32]))
}

struct Lab {
    server: AwsKmsServer,
    folder: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        Self { server: AwsKmsServer::start().unwrap(), folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, format!("{text}\n")).unwrap();
        path.display().to_string()
    }

    fn open(&self, options: &str, variables: &[(&str, &str)]) -> AwsKey {
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let variables: Arc<Variables> = Arc::new(move |name: &str| {
            variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        });
        AwsKey::open(&Place::of(&self.server.place(options)), &variables).unwrap()
    }

    fn by_web_identity(&self) -> AwsKey {
        let file = self.file("web-identity", &self.server.web_identity());
        self.open(&self.server.web_identity_options(&file), &[])
    }

    fn by_container(&self) -> AwsKey {
        let file = self.file("container", &self.server.container_token());
        self.open(
            "auth=container&container_uri=AT/container",
            &[("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &file)],
        )
    }

    fn by_user(&self) -> AwsKey {
        let (id, secret) = self.server.user();
        self.open("", &[("AWS_ACCESS_KEY_ID", &id), ("AWS_SECRET_ACCESS_KEY", &secret)])
    }
}

#[tokio::test]
async fn a_data_key_opens_for_what_it_was_wrapped_for_however_one_logs_in() {
    let lab = Lab::new();
    for key in [lab.by_web_identity(), lab.by_container(), lab.by_user()] {
        let wrapped = key.wrap("a", &data_key()).await.unwrap();
        assert_eq!(wrapped.version, Some(lab.server.key()));
        assert_eq!(key.unwrap("a", &wrapped.bytes).await.unwrap().expose_secret(), &[7; 32]);
        assert!(refused(key.unwrap("b", &wrapped.bytes).await).contains("InvalidCiphertextException"));
        assert!(refused(key.unwrap("a", b"other").await).contains("not wrapped by a key of AWS"));
        assert_eq!(key.name(), format!("aws-kms:{}", AwsKmsServer::alias()));
    }
    assert_eq!(lab.server.logins(), 2, "once each");
}

#[tokio::test]
async fn an_alias_that_leads_to_another_key_is_a_new_version_and_what_the_old_one_wrapped_opens() {
    let lab = Lab::new();
    let key = lab.by_web_identity();
    let old = key.wrap("a", &data_key()).await.unwrap();
    assert_eq!(key.version().await.unwrap(), old.version);
    lab.server.rotate();
    let version = key.version().await.unwrap();
    assert!(version.is_some() && version != old.version);
    assert_eq!(key.wrap("a", &data_key()).await.unwrap().version, version);
    assert!(key.unwrap("a", &old.bytes).await.is_ok());
    lab.server.disable_old_keys();
    assert!(refused(key.unwrap("a", &old.bytes).await).contains("DisabledException"));
    // Who may not describe the key uses it all the same.
    lab.server.forbid_describing(true);
    assert_eq!(key.version().await.unwrap(), None);
}

#[tokio::test]
async fn a_key_of_another_account_is_not_asked() {
    let lab = Lab::new();
    let key = lab.by_user();
    let wrapped = key.wrap("a", &data_key()).await.unwrap();
    let requests = lab.server.requests();
    let text = String::from_utf8(wrapped.bytes).unwrap();
    for (from, to) in [("111122223333", "444455556666"), ("eu-central-1", "eu-west-1"), (":key/", ":alias/")]
    {
        let told = refused(key.unwrap("a", text.replace(from, to).as_bytes()).await);
        assert!(told.contains("another key"), "{told}");
    }
    assert_eq!(lab.server.requests(), requests);
}

#[tokio::test]
async fn a_session_is_replaced_before_it_is_over_and_when_it_is_refused() {
    let lab = Lab::new();
    for (key, others) in [(lab.by_web_identity(), 0), (lab.by_container(), 3)] {
        key.wrap("a", &data_key()).await.unwrap();
        key.wrap("a", &data_key()).await.unwrap();
        assert_eq!(lab.server.logins(), others + 1);
        lab.server.end_sessions();
        key.wrap("a", &data_key()).await.unwrap();
        assert_eq!(lab.server.logins(), others + 2);
        key.credentials.grow_old().await;
        key.wrap("a", &data_key()).await.unwrap();
        assert_eq!(lab.server.logins(), others + 3);
    }
    // While nobody gives another one, the one that there is goes on.
    let key = lab.by_web_identity();
    key.wrap("a", &data_key()).await.unwrap();
    key.credentials.grow_old().await;
    lab.server.let_nobody_in(true);
    key.wrap("a", &data_key()).await.unwrap();
    lab.server.end_sessions();
    assert!(unavailable(key.wrap("a", &data_key()).await).contains("503"));
    // A user's keys are not replaced.
    let key = lab.by_user();
    lab.server.end_sessions();
    assert!(refused(key.wrap("a", &data_key()).await).contains("ExpiredTokenException"));
}

#[tokio::test]
async fn bad_moments_pass_and_bad_days_are_said() {
    let lab = Lab::new();
    let key = lab.by_user();
    let wrapped = key.wrap("a", &data_key()).await.unwrap();
    lab.server.throttle_next(2);
    assert!(key.unwrap("a", &wrapped.bytes).await.is_ok());
    lab.server.throttle_next(3);
    assert!(unavailable(key.unwrap("a", &wrapped.bytes).await).contains("ThrottlingException"));
    lab.server.away(true);
    assert!(unavailable(key.unwrap("a", &wrapped.bytes).await).contains("500"));
    lab.server.away(false);
    lab.server.disable(true);
    assert!(refused(key.unwrap("a", &wrapped.bytes).await).contains("is disabled"));
    assert!(refused(key.wrap("a", &data_key()).await).contains("is disabled"));
}

#[tokio::test]
async fn what_is_wrong_with_credentials_is_said_and_no_secret_with_it() {
    let lab = Lab::new();
    let (id, _) = lab.server.user();
    let key = lab.open("", &[("AWS_ACCESS_KEY_ID", &id), ("AWS_SECRET_ACCESS_KEY", "another secret")]);
    let told = refused(key.wrap("a", &data_key()).await);
    assert!(told.contains("InvalidSignatureException: the secret key is another one"), "{told}");
    assert!(!told.contains("another secret") && !told.contains("Canonical"), "{told}");

    let file = lab.file("wrong", "not-the-token");
    let told = refused(lab.open(&lab.server.web_identity_options(&file), &[]).wrap("a", &data_key()).await);
    assert!(
        told.contains("STS does not give") && told.contains("ExpiredTokenException: Token expired"),
        "{told}"
    );
    assert!(!told.contains("not-the-token"), "{told}");

    let key = lab.open(
        "auth=container&container_uri=AT/container",
        &[("AWS_CONTAINER_AUTHORIZATION_TOKEN", "not-the-token")],
    );
    let told = refused(key.wrap("a", &data_key()).await);
    assert!(
        told.contains("the container's endpoint gives no credentials") && !told.contains("not-the-token"),
        "{told}"
    );
}
