//! `plural login` and `plural cd logout`: what is sent, what is kept on disk.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::{
    answers::{ID, clusters},
    run::Person,
    server::Server,
};

#[tokio::test]
async fn login_signs_in_creates_a_token_and_remembers_it() {
    let server = Server::start()
        .await
        .data("SignIn", "signIn", &json!({"id": ID, "email": "ada@example.com", "jwt": "session.token.x"}))
        .data("CreateAccessToken", "createAccessToken", &json!({"id": ID, "token": "console-new"}))
        .data("Me", "me", &json!({"id": ID, "name": "Ada", "email": "ada@example.com"}))
        .data("ListClusters", "clusters", &clusters(&["blue"]));
    let person = Person::new().piping("hunter2\n");
    let line = format!("login --url {} --email ada@example.com --password-stdin", server.url);
    let done = person.run(&line).await;
    let text = done.text().replace(&server.url, "URL");
    insta::assert_snapshot!("login", text);
    assert_eq!(server.asked("SignIn"), [json!({"email": "ada@example.com", "password": "hunter2"})]);
    let file = person.home().join(".plural/profiles.yml");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    // The next command needs nothing more, and the token goes to no other console.
    let done = person.run("cd clusters list -o name").await;
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (0, "cluster/blue\n", ""));
    let done = person.run("cd clusters list --url http://127.0.0.1:9").await;
    assert_eq!(done.code, 1);
    assert!(
        done.err.starts_with("error: not logged in to http://127.0.0.1:9\nhint: log in with"),
        "{}",
        done.err
    );

    let credentials: Vec<Option<String>> = server.credentials().into_iter().map(|(_, value)| value).collect();
    let expected =
        [None, Some("Bearer session.token.x"), Some("Token console-new"), Some("Token console-new")];
    assert_eq!(credentials, expected.map(|value| value.map(str::to_owned)));
}

#[tokio::test]
async fn a_login_says_which_one_it_takes_the_place_of() {
    let server = Server::start()
        .await
        .data("SignIn", "signIn", &json!({"id": ID, "email": "ada@example.com", "jwt": "session.token.x"}))
        .data("CreateAccessToken", "createAccessToken", &json!({"id": ID, "token": "console-new"}))
        .data("Me", "me", &json!({"id": ID, "name": "Ada", "email": "ada@example.com"}))
        .data("SignIn", "signIn", &json!({"id": ID, "email": "eve@example.com", "jwt": "session.token.y"}))
        .data("CreateAccessToken", "createAccessToken", &json!({"id": ID, "token": "console-newer"}))
        .data("Me", "me", &json!({"id": ID, "name": "Eve", "email": "eve@example.com"}));
    let person = Person::new().piping("hunter2\n");
    let first =
        person.run(&format!("login --url {} --email ada@example.com --password-stdin", server.url)).await;
    assert!(!first.err.contains("takes the place"), "{}", first.text());
    let second =
        person.run(&format!("login --url {} --email eve@example.com --password-stdin", server.url)).await;
    assert!(second.err.contains("it takes the place of a login to"), "{}", second.text());
    assert!(second.err.contains("--profile NAME"), "{}", second.text());
}

#[tokio::test]
async fn an_empty_token_is_not_somebody_elses_login() {
    let server = Server::start().await;
    let done = Person::of(&server.url).with("PLURAL_CONSOLE_TOKEN", "").run("cd clusters list").await;
    assert_eq!(done.code, 1, "{}", done.text());
    assert!(done.err.starts_with("error: PLURAL_CONSOLE_TOKEN is empty\nhint: "), "{}", done.text());
}

#[tokio::test]
async fn a_wrong_password_is_said_and_nothing_is_saved() {
    let server = Server::start().await.error("SignIn", "UNAUTHENTICATED", "unauthenticated");
    let person = Person::new().piping("wrong");
    let done =
        person.run(&format!("login --url {} --email a@example.com --password-stdin", server.url)).await;
    assert_eq!((done.code, done.out.as_str()), (1, ""));
    assert!(
        done.err.starts_with("error: the e-mail address or the password is wrong\nhint: "),
        "{}",
        done.err
    );
    assert!(!person.home().join(".plural").exists());
}

#[tokio::test]
async fn without_any_login_the_next_step_is_told() {
    let done = Person::new().run("cd clusters list").await;
    insta::assert_snapshot!("no_login", done.text());
    let done = Person::new().run("login --email a@example.com").await;
    assert_eq!(done.code, 2, "{}", done.err);
}

#[tokio::test]
async fn logging_out_revokes_the_token_that_login_made_and_no_other() {
    let server = Server::start()
        .await
        .data("SignIn", "signIn", &json!({"id": ID, "email": "ada@example.com", "jwt": "session.token.x"}))
        .data("CreateAccessToken", "createAccessToken", &json!({"id": ID, "token": "console-new"}))
        .data("Me", "me", &json!({"id": ID, "name": "Ada", "email": "ada@example.com"}))
        .data("DeleteAccessToken", "deleteAccessToken", &json!({"id": ID}));
    let person = Person::new().piping("hunter2\n");
    let login = format!("login --url {} --email ada@example.com --password-stdin", server.url);
    assert_eq!(person.run(&login).await.code, 0);
    let done = person.run("logout").await;
    let told =
        format!("logged out of {}: profile \"default\" is removed and its token revoked\n", server.url);
    assert_eq!((done.code, done.err), (0, told));
    assert_eq!(server.asked("DeleteAccessToken"), [json!({"token": "console-new"})]);
    let file = std::fs::read_to_string(person.home().join(".plural/profiles.yml")).unwrap();
    assert!(!file.contains("console-new"), "{file}");
    assert_eq!(person.run("cd clusters list").await.code, 1);
    assert_eq!(person.run("logout").await.err, "not logged in\n");

    // A token that was made elsewhere may be in use elsewhere.
    let person = Person::new().piping("console-mine\n");
    assert_eq!(person.run(&format!("login --url {} --token-stdin", server.url)).await.code, 0);
    let done = person.run("logout").await;
    assert_eq!(done.code, 0);
    assert!(done.err.contains("its token stays valid"), "{}", done.err);
    assert_eq!(server.asked("DeleteAccessToken").len(), 1);
}

#[tokio::test]
async fn a_login_that_cannot_be_revoked_is_kept_unless_told_otherwise() {
    let server = Server::start()
        .await
        .data("SignIn", "signIn", &json!({"id": ID, "email": "ada@example.com", "jwt": "session.token.x"}))
        .data("CreateAccessToken", "createAccessToken", &json!({"id": ID, "token": "console-new"}))
        .data("Me", "me", &json!({"id": ID, "name": "Ada", "email": "ada@example.com"}))
        .error("DeleteAccessToken", "INTERNAL", "internal error");
    let person = Person::new().piping("hunter2\n");
    let login = format!("login --url {} --email ada@example.com --password-stdin", server.url);
    assert_eq!(person.run(&login).await.code, 0);
    let done = person.run("logout").await;
    assert_eq!(done.code, 1);
    assert!(done.err.contains("was not revoked") && done.err.contains("--local"), "{}", done.err);
    // The file of its authority may be gone by then.
    let file = person.home().join(".plural/profiles.yml");
    let profiles = std::fs::read_to_string(&file).unwrap();
    let url = profiles.lines().find(|line| line.trim().starts_with("url:")).unwrap();
    let indent = &url[..url.len() - url.trim_start().len()];
    std::fs::write(&file, profiles.replace(url, &format!("{url}\n{indent}ca_file: /nowhere/ca.pem")))
        .unwrap();
    let done = person.run("logout").await;
    assert_eq!(done.code, 1);
    assert!(done.err.contains("/nowhere/ca.pem") && done.err.contains("--local"), "{}", done.err);
    let done = person.run("logout --local").await;
    assert_eq!(done.code, 0, "{}", done.err);
    assert_eq!(person.run("cd clusters list").await.code, 1);
}
