//! Commands whose effect outlasts the login want the password, and only where it would help.

use serde_json::{Value, json};

use crate::{run::Person, server::Server};

const ID: &str = "0190b8a2-7c11-7def-8000-0123456789ab";

/// A command, its request, and what a person is told before they are asked.
const COMMANDS: [(&str, &str, &str); 3] = [
    ("tokens create", "CreateLastingAccessToken", "a token that outlasts this login needs your password"),
    (
        "cd service-accounts token deployer@example.com",
        "CreateServiceAccountToken",
        "a token that outlasts this login needs your password",
    ),
    (
        "cd federated-credentials create deployer@example.com --issuer https://ci.example.com --audience plural --subject job",
        "CreateFederatedCredential",
        "a federated credential outlasts this login: it needs your password",
    ),
];

/// A console that refuses `operation` so.
async fn refusing(operation: &str, message: &str) -> Server {
    let account = json!({"id": ID, "name": "deployer", "email": "deployer@example.com", "insertedAt": null,
        "project": null, "assumeBindings": []});
    let page: Value =
        json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": [{"node": account}]});
    let server = Server::start().await.data("ListServiceAccounts", "serviceAccounts", &page);
    server.error(operation, "FORBIDDEN", message)
}

#[tokio::test]
async fn the_password_is_asked_for_where_it_would_help() {
    for (command, operation, why) in COMMANDS {
        let wanted = format!("{operation} needs proof (currentPassword)");
        let server = refusing(operation, &wanted).await;
        // Nobody is there to ask: the way that a program takes is said.
        let told = Person::of(&server.url).run(command).await;
        assert_eq!((told.code, told.out.as_str()), (1, ""), "{command}");
        assert!(told.err.contains("hint: add --password-stdin"), "{command}: {}", told.err);
        assert!(!told.err.contains(why), "{command}: {}", told.err);
        // Somebody is there. This test has no terminal to type a password at: it ends there, and nothing is sent again.
        let asked = Person::of(&server.url).answering("").run(command).await;
        assert_eq!(asked.code, 1, "{command}");
        assert!(asked.err.contains(why), "{command}: {}", asked.err);
        assert_eq!(server.asked(operation).len(), 2, "{command}");
        // The password that is given goes along at once.
        let given = format!("{command} --password-stdin");
        let piped = Person::of(&server.url).piping("hunter2\n").run(&given).await;
        assert_eq!(piped.code, 1, "{command}: a wrong one is refused");
        assert!(!piped.err.contains("hunter2") && !piped.err.contains("hint:"), "{command}: {}", piped.err);
        let sent = server.asked(operation);
        assert_eq!((sent.len(), &sent[2]["currentPassword"]), (3, &json!("hunter2")), "{command}");
        assert!(sent[..2].iter().all(|one| one["currentPassword"].is_null()), "{command}");
    }
}

#[tokio::test]
async fn who_lacks_a_right_is_not_asked_for_the_password() {
    for (command, operation, why) in COMMANDS {
        let server = refusing(operation, "you may not do that; ask an administrator").await;
        for person in [Person::of(&server.url), Person::of(&server.url).answering("")] {
            let told = person.run(command).await;
            assert_eq!(told.code, 1, "{command}");
            assert!(told.err.contains("ask an administrator"), "{command}: {}", told.err);
            assert!(
                !told.err.contains(why) && !told.err.contains("--password-stdin"),
                "{command}: {}",
                told.err
            );
        }
        assert_eq!(server.asked(operation).len(), 2, "{command}: nothing is sent twice");
    }
}
