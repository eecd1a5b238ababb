//! `plural cd scm-connections` and `scm-webhooks`: secrets come from files and standard input.

use serde_json::{Value, json};

use crate::{answers::ID, run::Person, server::Server};

fn connection() -> Value {
    json!({
        "id": ID, "name": "forge", "type": "GITEA", "default": true, "owner": "acme", "username": null,
        "baseUrl": "https://git.example.com", "apiUrl": null, "repositories": ["acme/*"], "hasToken": true,
        "hasSigningKey": false, "hasSshKey": false, "knownHosts": null, "hasProxy": false, "insertedAt": null, "updatedAt": null, "github": null, "azure": null,
        "bitbucketDatacenter": null, "project": null,
    })
}

#[tokio::test]
async fn secrets_come_from_files_and_one_from_standard_input() {
    let server = Server::start()
        .await
        .data("CreateScmConnection", "createScmConnection", &connection())
        .data("GetScmConnection", "scmConnection", &connection())
        .data("UpdateScmConnection", "updateScmConnection", &connection());
    let person = Person::of(&server.url).piping("s3cret\n");
    let key = person.home().join("key");
    std::fs::write(&key, "KEY\n").unwrap();
    let line = format!(
        "cd scm-connections create forge --type gitea --base-url https://git.example.com --repository acme/* \
         --token-file - --signing-key-file {} -o name",
        key.display()
    );
    let done = person.run(&line).await;
    assert_eq!((done.code, done.out), (0, "scm-connection/forge\n".to_owned()), "{}", done.err);
    let expected = json!({
        "name": "forge", "type": "GITEA", "baseUrl": "https://git.example.com", "repositories": ["acme/*"],
        "token": "s3cret", "signingPrivateKey": "KEY",
    });
    assert_eq!(server.asked("CreateScmConnection")[0]["attributes"], expected);

    let app = format!(
        "cd scm-connections create app --type github --app-id 1 --installation-id 2 --app-key-file {}",
        key.display()
    );
    let done = person.run(&app).await;
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.err.contains("no repository yet"), "{}", done.err);
    let github = json!({"appId": "1", "installationId": "2", "privateKey": "KEY"});
    assert_eq!(server.asked("CreateScmConnection")[1]["attributes"]["github"], github);

    let done = person.run("cd scm-connections update scm-connection/forge --no-proxy --default=false").await;
    assert_eq!(done.code, 0, "{}", done.err);
    assert_eq!(server.asked("GetScmConnection"), [json!({"id": null, "name": "forge"})]);
    let expected = json!({"name": "forge", "type": "GITEA", "proxy": {"url": ""}, "default": false});
    assert_eq!(server.asked("UpdateScmConnection"), [json!({"id": ID, "attributes": expected})]);
}

#[tokio::test]
async fn hosts_that_want_a_project_or_a_user_are_told_them() {
    let server = Server::start().await.data("CreateScmConnection", "createScmConnection", &connection());
    let person = Person::of(&server.url).piping("s3cret\n");
    for line in [
        "cd scm-connections create azure --type azure-devops --azure-organization acme --azure-project Shop \
         --azure-username bot --repository Shop/* --token-file -",
        "cd scm-connections create dc --type bitbucket-datacenter --base-url https://git.example.com --username bot \
         --user-slug bot --repository SHOP/* --token-file -",
    ] {
        let done = person.run(line).await;
        assert_eq!(done.code, 0, "{line}: {}", done.text());
    }
    let azure = json!({
        "name": "azure", "type": "AZURE_DEVOPS", "repositories": ["Shop/*"], "token": "s3cret",
        "azure": {"username": "bot", "organization": "acme", "project": "Shop"},
    });
    let data_center = json!({
        "name": "dc", "type": "BITBUCKET_DATACENTER", "baseUrl": "https://git.example.com", "username": "bot",
        "bitbucketDatacenter": {"userSlug": "bot"}, "repositories": ["SHOP/*"], "token": "s3cret",
    });
    let asked = server.asked("CreateScmConnection");
    assert_eq!((&asked[0]["attributes"], &asked[1]["attributes"]), (&azure, &data_center));
    let done =
        person.run("cd scm-connections create azure --type azure-devops --azure-organization acme").await;
    assert_eq!(done.code, 2, "{}", done.text());
}

#[tokio::test]
async fn an_ssh_key_comes_from_a_file_with_the_keys_of_its_host() {
    let mut plain = connection();
    for (name, value) in [
        ("type", json!("PLAIN")),
        ("baseUrl", json!("ssh://git@git.example.com/srv")),
        ("hasSshKey", json!(true)),
        ("knownHosts", json!("git.example.com ssh-ed25519 AAAA\ngit.example.com ssh-rsa BBBB")),
    ] {
        plain[name] = value;
    }
    let server = Server::start()
        .await
        .data("CreateScmConnection", "createScmConnection", &plain)
        .data("GetScmConnection", "scmConnection", &plain)
        .data("UpdateScmConnection", "updateScmConnection", &plain);
    let person = Person::of(&server.url).piping(" s3cret \n");
    let (key, hosts) = (person.home().join("key"), person.home().join("hosts"));
    std::fs::write(&key, "KEY\n").unwrap();
    std::fs::write(&hosts, "git.example.com ssh-ed25519 AAAA\n").unwrap();
    let (key, hosts) = (key.display(), hosts.display());
    let line = format!(
        "cd scm-connections create forge --type plain --base-url ssh://git@git.example.com/srv --repository acme/* \
         --ssh-key-file {key} --ssh-passphrase-file - --known-hosts {hosts}"
    );
    let done = person.run(&line).await;
    assert_eq!(done.code, 0, "{}", done.text());
    let expected = json!({
        "name": "forge", "type": "PLAIN", "baseUrl": "ssh://git@git.example.com/srv", "repositories": ["acme/*"],
        "sshPrivateKey": "KEY", "sshPassphrase": " s3cret ", "knownHosts": "git.example.com ssh-ed25519 AAAA",
    });
    assert_eq!(server.asked("CreateScmConnection")[0]["attributes"], expected);

    let done = person.run("cd scm-connections describe forge").await;
    assert_eq!(done.code, 0, "{}", done.err);
    for shown in ["SSH key:", "git.example.com ssh-ed25519 AAAA", "git.example.com ssh-rsa BBBB"] {
        assert!(done.out.contains(shown), "{shown}: {}", done.out);
    }

    let line =
        "cd scm-connections update forge --base-url https://git.example.com --no-ssh-key --no-known-hosts";
    let done = person.run(line).await;
    assert_eq!(done.code, 0, "{}", done.text());
    let expected = json!({
        "name": "forge", "type": "PLAIN", "baseUrl": "https://git.example.com", "sshPrivateKey": "", "knownHosts": "",
    });
    assert_eq!(server.asked("UpdateScmConnection"), [json!({"id": ID, "attributes": expected})]);
    let done =
        person.run(&format!("cd scm-connections update forge --no-ssh-key --ssh-key-file {key}")).await;
    assert_eq!(done.code, 2, "{}", done.text());
    let done = person.run("cd scm-connections update forge --ssh-passphrase-file -").await;
    assert_eq!(done.code, 2, "{}", done.text());
}

#[tokio::test]
async fn what_says_nothing_or_too_much_is_refused_before_the_console_is_asked() {
    let server = Server::start().await;
    let person = Person::of(&server.url).piping("s3cret\n");
    let empty = person.home().join("empty");
    std::fs::write(&empty, "\n").unwrap();
    for line in [
        "cd scm-connections create forge".to_owned(),
        "cd scm-connections create forge --type forge".to_owned(),
        "cd scm-connections create forge --type github --app-id 1".to_owned(),
        "cd scm-connections create forge --type github --token-file - --proxy-file -".to_owned(),
        format!("cd scm-connections create forge --type github --token-file {}", empty.display()),
        "cd scm-connections update forge".to_owned(),
        "cd scm-connections update forge --no-token --token-file -".to_owned(),
    ] {
        let done = person.run(&line).await;
        assert_eq!(done.code, 2, "{line}: {}", done.text());
        assert!(!done.text().contains("s3cret"), "{line}");
    }
    assert!(server.asked("CreateScmConnection").is_empty());
}

#[tokio::test]
async fn a_webhook_is_made_for_a_connection() {
    let webhook = json!({
        "id": ID, "name": "gitea/acme", "externalId": "abc", "type": "GITEA", "owner": "acme",
        "url": "https://console.example.com/ext/v1/webhooks/gitea/abc", "insertedAt": null,
        "connection": {"id": ID, "name": "forge"},
    });
    let server = Server::start().await.data("GetScmConnection", "scmConnection", &connection()).data(
        "CreateScmWebhookPointer",
        "createScmWebhookPointer",
        &webhook,
    );
    let person = Person::of(&server.url).piping("0123456789abcdef\n");
    let done =
        person.run("cd scm-webhooks create --connection forge --owner acme --secret-file - -o json").await;
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(
        done.out.contains("/ext/v1/webhooks/gitea/abc") && !done.out.contains("0123456789abcdef"),
        "{}",
        done.out
    );
    let expected = json!({"hmac": "0123456789abcdef", "type": "GITEA", "owner": "acme", "connectionId": ID});
    assert_eq!(server.asked("CreateScmWebhookPointer"), [json!({"attributes": expected})]);
}

#[tokio::test]
async fn a_webhook_is_registered_for_one_thing() {
    let webhook = json!({
        "id": ID, "name": "gitea/acme", "externalId": "abc", "type": "GITEA", "owner": "acme",
        "url": "https://console.example.com/ext/v1/webhooks/gitea/abc", "insertedAt": null,
        "connection": {"id": ID, "name": "forge"},
    });
    let server = Server::start()
        .await
        .data("GetScmConnection", "scmConnection", &connection())
        .data("RegisterScmWebhook", "registerScmWebhook", &webhook)
        .data("UnregisterScmWebhook", "unregisterScmWebhook", &webhook);
    let person = Person::of(&server.url);
    let done = person.run("cd scm-webhooks register forge --repository acme/shop -o json").await;
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.contains("/ext/v1/webhooks/gitea/abc"), "{}", done.out);
    let expected = json!({"connectionId": ID, "repository": "acme/shop", "organization": null});
    assert_eq!(server.asked("RegisterScmWebhook"), [expected]);
    for line in [
        "cd scm-webhooks register forge",
        "cd scm-webhooks register forge --repository acme/shop --organization acme",
        "cd scm-webhooks unregister forge --organization acme",
    ] {
        let done = person.run(line).await;
        assert_eq!(done.code, 2, "{line}: {}", done.text());
    }
    let done = person.run("cd scm-webhooks unregister forge --organization acme --yes").await;
    assert_eq!(done.code, 0, "{}", done.err);
    let expected = json!({"connectionId": ID, "repository": null, "organization": "acme"});
    assert_eq!(server.asked("UnregisterScmWebhook"), [expected]);
}
