//! `plural pr governance`: its secret comes from a file or standard input, and nothing that is there is replaced by what is made.

use serde_json::{Value, json};

use crate::{answers::ID, run::Person, server::Server};

const SECRET: &str = "0123456789abcdef";

fn governance() -> Value {
    json!({
        "id": ID, "name": "board", "type": "WEBHOOK", "insertedAt": null, "updatedAt": null,
        "configuration": {"webhook": {"url": "https://board.example.com", "signed": true}},
        "connection": {"id": ID, "name": "approver"}, "project": null,
    })
}

async fn server() -> Server {
    Server::start().await.data("GetPrGovernance", "prGovernance", &governance()).data(
        "UpsertPrGovernance",
        "upsertPrGovernance",
        &governance(),
    )
}

#[tokio::test]
async fn what_is_not_given_stays() {
    let server = server().await;
    let person = Person::of(&server.url).piping(&format!("{SECRET}\n"));
    let told = person.run("pr governance describe board").await;
    assert_eq!(told.code, 0, "{}", told.err);
    for text in ["board", "approver", "https://board.example.com", "WEBHOOK"] {
        assert!(told.out.contains(text), "{text}: {}", told.out);
    }
    let update = async |more: &str, webhook: Value| {
        let before = server.asked("UpsertPrGovernance").len();
        let done = person.run(&format!("pr governance update board {more} -o name")).await;
        assert_eq!((done.code, done.out.as_str()), (0, "pr-governance/board\n"), "{}", done.err);
        let expected = json!({"type": "WEBHOOK", "name": "board", "connectionId": ID, "configuration": {"webhook": webhook}});
        assert_eq!(server.asked("UpsertPrGovernance")[before], json!({"attributes": expected}));
    };
    update("--webhook-url https://new.example.com", json!({"url": "https://new.example.com"})).await;
    update("--secret-file -", json!({"url": "https://board.example.com", "secret": SECRET})).await;
    update("--no-secret", json!({"url": "https://board.example.com", "secret": ""})).await;
}

#[tokio::test]
async fn what_is_there_is_not_made_again_and_what_says_nothing_is_refused() {
    let server = server().await;
    let person = Person::of(&server.url);
    for line in [
        "pr governance create board --connection approver --webhook-url https://other.example.com",
        "pr governance create board --connection approver",
        "pr governance update board",
        "pr governance update board --no-secret --secret-file -",
        "pr automations update add --governance board --no-governance",
    ] {
        let done = person.run(line).await;
        assert_eq!(done.code, 2, "{line}: {}", done.text());
    }
    assert!(server.asked("UpsertPrGovernance").is_empty());
}
