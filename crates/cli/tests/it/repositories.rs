//! `plural cd repositories` and `helm-repositories`: secrets come from pipes and files.

use serde_json::json;

use crate::{
    answers::{ID, repository},
    run::Person,
    server::Server,
};

#[tokio::test]
async fn repositories_take_their_secrets_from_pipes_and_files() {
    let server = Server::start()
        .await
        .data("CreateGitRepository", "createGitRepository", &repository())
        .data("GetGitRepository", "gitRepository", &repository())
        .data(
            "ListServicesUsing",
            "serviceDeployments",
            &json!({"pageInfo": {"hasNextPage": false}, "edges": []}),
        )
        .error("DeleteGitRepository", "CONFLICT", "could not delete repository");
    let url = "https://git.example.com/a.git";
    let person = Person::of(&server.url).piping("s3cret\n");
    let done =
        person.run(&format!("cd repositories create {url} --username bot --password-stdin -o name")).await;
    assert_eq!((done.code, done.out), (0, format!("repository/{ID}\n")), "{}", done.err);
    let key = person.home().join("key");
    std::fs::write(&key, "KEY").unwrap();
    let line = format!("cd repos create git@git.example.com:a.git --private-key {} --wait", key.display());
    assert_eq!(person.run(&line).await.code, 0);
    let asked = server.asked("CreateGitRepository");
    assert_eq!(asked[0]["attributes"], json!({"url": url, "username": "bot", "password": "s3cret"}));
    assert_eq!(asked[1]["attributes"], json!({"url": "git@git.example.com:a.git", "privateKey": "KEY"}));

    let done = Person::of(&server.url).run(&format!("cd repositories create {url} --username bot")).await;
    assert_eq!(done.code, 2);
    insta::assert_snapshot!("repository_password", done.text());
    insta::assert_snapshot!(
        "repository_in_use",
        person.run(&format!("cd repositories delete {url} --yes")).await.text()
    );
}

#[tokio::test]
async fn removed_credentials_of_a_chart_repository_are_told() {
    let why = "the stored credentials were removed because the CA certificate changed; set them again";
    let removed = json!({"id": ID, "url": "https://charts.example.com", "provider": null, "health": "FAILED", "error": why});
    let server = Server::start().await.data("UpsertHelmRepository", "upsertHelmRepository", &removed);
    let person = Person::of(&server.url);
    let ca = person.home().join("ca.pem");
    std::fs::write(&ca, "-----BEGIN CERTIFICATE-----").unwrap();
    let line =
        format!("cd helm-repos set https://charts.example.com --ca-certificate {} -o name", ca.display());
    let done = person.run(&line).await;
    assert_eq!((done.code, done.out), (0, format!("helmrepository/{ID}\n")), "{}", done.err);
    assert!(done.err.contains(why), "{}", done.err);
    let asked = server.asked("UpsertHelmRepository");
    assert_eq!(asked[0]["attributes"], json!({"caCertificate": "-----BEGIN CERTIFICATE-----"}));
}
