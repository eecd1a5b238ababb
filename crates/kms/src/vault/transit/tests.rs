//! Against a stand-in that was written from Vault's public description: no Vault runs here.

use std::{fs, time::Instant};

use plural_testkit::TransitServer;
use secrecy::SecretBox;

use super::*;

fn data_key() -> ClearKey {
    SecretBox::new(Box::new([7; 32]))
}

struct Lab {
    server: TransitServer,
    folder: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        Self { server: TransitServer::start().unwrap(), folder: tempfile::tempdir().unwrap() }
    }

    /// A file that somebody renews.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, format!("{text}\n")).unwrap();
        path.display().to_string()
    }

    fn by_token(&self) -> Transit {
        let file = self.file("token", &self.server.root());
        open(&self.server.place(&format!("token_file={file}")))
    }

    fn by_kubernetes(&self) -> Transit {
        let file = self.file("jwt", &self.server.jwt());
        open(&self.server.place(&format!("auth=kubernetes&role=plural&token_file={file}")))
    }

    fn by_approle(&self) -> Transit {
        let file = self.file("secret-id", &self.server.secret_id());
        open(&self.server.place(&format!("auth=approle&role_id=plural&secret_id_file={file}")))
    }
}

fn open(place: &str) -> Transit {
    let variables: Arc<Variables> = Arc::new(|_: &str| None);
    Transit::open(&Place::of(place), &variables).unwrap()
}

fn refused<T>(answer: Result<T, KeyError>) -> String {
    match answer {
        Err(KeyError::Refused(why)) => why,
        Err(KeyError::Unavailable(why)) => panic!("not refused, but unavailable: {why}"),
        Ok(_) => panic!("not refused"),
    }
}

#[tokio::test]
async fn a_data_key_opens_for_what_it_was_wrapped_for_however_one_logs_in() {
    let lab = Lab::new();
    for transit in [lab.by_token(), lab.by_kubernetes(), lab.by_approle()] {
        let wrapped = transit.wrap("a", &data_key()).await.unwrap();
        assert_eq!(wrapped.version.as_deref(), Some("1"));
        assert!(wrapped.bytes.starts_with(b"vault:v1:"));
        assert_eq!(transit.unwrap("a", &wrapped.bytes).await.unwrap().expose_secret(), &[7; 32]);
        assert!(refused(transit.unwrap("b", &wrapped.bytes).await).contains("authentication failed"));
        assert!(refused(transit.unwrap("a", b"vault:v1:other").await).contains("authentication failed"));
        assert_eq!(transit.name(), "vault-transit:transit/plural", "the address may change");
    }
    assert_eq!(lab.server.logins(), 2, "once each");
}

#[tokio::test]
async fn a_rotated_key_has_another_version_and_opens_what_the_old_one_wrapped() {
    let lab = Lab::new();
    let transit = lab.by_kubernetes();
    let old = transit.wrap("a", &data_key()).await.unwrap();
    assert_eq!(transit.version().await.unwrap().as_deref(), Some("1"));
    lab.server.rotate();
    assert_eq!(transit.version().await.unwrap().as_deref(), Some("2"));
    assert_eq!(transit.wrap("a", &data_key()).await.unwrap().version.as_deref(), Some("2"));
    assert!(transit.unwrap("a", &old.bytes).await.is_ok());
    lab.server.forget_old_versions();
    assert!(refused(transit.unwrap("a", &old.bytes).await).contains("too old"));
    // Who may not read what there is of the key uses it all the same.
    lab.server.forbid_reading(true);
    assert_eq!(transit.version().await.unwrap(), None);
}

#[tokio::test]
async fn a_token_is_renewed_and_one_that_was_revoked_is_replaced() {
    let lab = Lab::new();
    let transit = lab.by_kubernetes();
    transit.wrap("a", &data_key()).await.unwrap();
    lab.server.revoke_tokens();
    transit.wrap("a", &data_key()).await.unwrap();
    assert_eq!(lab.server.logins(), 2);

    let transit = lab.by_approle();
    transit.wrap("a", &data_key()).await.unwrap();
    let logins = lab.server.logins();
    transit.vault.held.lock().await.token.as_mut().unwrap().renew = Instant::now();
    transit.wrap("a", &data_key()).await.unwrap();
    assert_eq!((lab.server.renewals(), lab.server.logins()), (1, logins));
}

/// A policy that forbids something is no reason to log in with each request, nor are many requests at once.
#[tokio::test]
async fn one_login_answers_all_who_were_forbidden() {
    let lab = Lab::new();
    let transit = lab.by_approle();
    let wrapped = transit.wrap("a", &data_key()).await.unwrap();
    lab.server.forbid(true);
    for _ in 0..5 {
        assert!(refused(transit.unwrap("a", &wrapped.bytes).await).contains("permission denied"));
    }
    assert_eq!(lab.server.logins(), 2, "the first, and one to see whether another token helps");
    lab.server.forbid(false);
    assert!(transit.unwrap("a", &wrapped.bytes).await.is_ok(), "the policy is another by now");

    // A token that is gone is replaced once, however many find it gone.
    transit.vault.held.lock().await.forbidden = None;
    lab.server.revoke_tokens();
    let ask = || transit.unwrap("a", &wrapped.bytes);
    let (one, two, three, four) = tokio::join!(ask(), ask(), ask(), ask());
    assert!([one, two, three, four].iter().all(Result::is_ok));
    assert_eq!(lab.server.logins(), 3);
}

/// What is forbidden in one place keeps nobody else from their own.
#[tokio::test]
async fn a_path_that_is_forbidden_takes_no_token_from_others() {
    let lab = Lab::new();
    let transit = lab.by_approle();
    let wrapped = transit.wrap("a", &data_key()).await.unwrap();
    lab.server.forbid(true);
    assert!(refused(transit.unwrap("a", &wrapped.bytes).await).contains("permission denied"));
    lab.server.forbid(false);
    // The token is revoked before that path may be asked about again.
    lab.server.revoke_tokens();
    let long_ago = Instant::now().checked_sub(super::super::REFUSED);
    transit.vault.held.lock().await.entered = long_ago;
    transit.wrap("a", &data_key()).await.unwrap();
    assert_eq!(lab.server.logins(), 3);

    // One that works is not thrown away for a login that does not.
    transit.vault.held.lock().await.forbidden = None;
    let secret = lab.file("secret-id", "another");
    lab.server.forbid(true);
    refused(transit.unwrap("a", &wrapped.bytes).await);
    lab.server.forbid(false);
    assert!(transit.wrap("a", &data_key()).await.is_ok(), "{secret} is wrong, and the token is good");
}

/// Servers lock out who tries again and again.
#[tokio::test]
async fn a_refused_login_is_not_tried_with_each_request() {
    let lab = Lab::new();
    let jwt = lab.file("jwt", "not the token");
    let transit = open(&lab.server.place(&format!("auth=kubernetes&role=plural&token_file={jwt}")));
    for _ in 0..5 {
        assert!(refused(transit.wrap("a", &data_key()).await).contains("does not let this console in"));
    }
    assert_eq!(lab.server.refusals(), 1);
    // After a while it is.
    lab.file("jwt", &lab.server.jwt());
    transit.vault.held.lock().await.refused.as_mut().unwrap().0 = Instant::now();
    assert!(transit.wrap("a", &data_key()).await.is_ok());
}

#[tokio::test]
async fn what_is_wrong_is_said_and_no_secret_with_it() {
    let lab = Lab::new();
    let transit = lab.by_kubernetes();
    let wrapped = transit.wrap("a", &data_key()).await.unwrap();
    lab.server.forbid(true);
    let told = refused(transit.unwrap("a", &wrapped.bytes).await);
    assert!(told.contains("403") && told.contains("permission denied"), "{told}");
    lab.server.forbid(false);

    // Bad moments pass, bad days are said.
    lab.server.fail_next(2);
    assert!(transit.unwrap("a", &wrapped.bytes).await.is_ok());
    lab.server.away(true);
    match transit.unwrap("a", &wrapped.bytes).await {
        Err(KeyError::Unavailable(why)) => assert!(why.contains("503") && why.contains("sealed"), "{why}"),
        Err(KeyError::Refused(why)) => panic!("{why}"),
        Ok(_) => panic!("it opened"),
    }
    lab.server.away(false);

    let wrong = lab.file("wrong", "not the token");
    let place = lab.server.place(&format!("auth=kubernetes&role=plural&token_file={wrong}"));
    let told = refused(open(&place).wrap("a", &data_key()).await);
    assert!(told.contains("does not let this console in") && !told.contains("not the token"), "{told}");
    let missing = lab.server.place("token_file=/nonexistent/token");
    let told = refused(open(&missing).wrap("a", &data_key()).await);
    assert!(told.contains("/nonexistent/token"), "{told}");
}
