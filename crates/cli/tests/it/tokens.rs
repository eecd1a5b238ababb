//! Tokens of people and of agents.

use serde_json::{Value, json};

use crate::{run::Person, server::Server};

const ID: &str = "0190b8a2-7c11-7def-8000-0123456789ab";

fn cluster(handle: &str) -> Value {
    json!({"id": ID, "name": handle, "handle": handle, "distro": "K3S", "currentVersion": "v1.36.2",
        "protect": false, "insertedAt": "2020-01-01T00:00:00Z", "pingedAt": null, "deletedAt": null,
        "metadata": {}, "tags": [], "project": {"id": ID, "name": "default"}})
}

#[tokio::test]
async fn bootstrap_prints_manifests_with_a_join_token_of_a_new_or_known_cluster() {
    let known = json!({"id": ID, "name": "blue", "handle": "blue", "deployToken": null});
    let made = json!({"id": ID, "name": "blue", "handle": "blue", "deployToken": "deploy-abc"});
    let join = |token: &str| json!({"id": ID, "name": "blue", "handle": "blue", "joinToken": token, "joinTokenExpiresAt": "2026-01-02T00:00:00Z"});
    let server = Server::start()
        .await
        .error("GetClusterWithToken", "NOT_FOUND", "could not find resource")
        .data("GetClusterWithToken", "cluster", &known)
        .data("CreateClusterWithToken", "createCluster", &made)
        .data("CreateJoinToken", "createClusterJoinToken", &join("join-abc"))
        .data("CreateJoinToken", "createClusterJoinToken", &join("join-xyz"))
        .data("GetAgentUrl", "cluster", &json!({"agentUrl": "https://console.example.com"}));
    let person = Person::of(&server.url);
    let first = person.run("cd clusters bootstrap blue --image example.com/plural:1").await;
    assert_eq!(first.code, 0, "{}", first.err);
    assert_eq!(first.err, "cluster blue registered\nits agent can join once, until 2026-01-02T00:00:00Z\n");
    assert!(first.out.contains("join-token: join-abc"), "{}", first.out);
    assert!(first.out.contains("value: https://console.example.com"), "{}", first.out);
    // A deploy token is in no manifest: the agent draws its own.
    assert!(!first.out.contains("deploy-abc"), "{}", first.out);
    insta::assert_snapshot!(
        "bootstrap_again",
        person.run("cd clusters bootstrap blue --image example.com/plural:1").await.text()
    );
    let line = "cd clusters bootstrap blue --image example.com/plural:1 --rejoin --valid-for 30m";
    let third = person.run(line).await;
    assert_eq!(third.code, 0, "{}", third.err);
    assert_eq!(third.out, first.out.replace("join-abc", "join-xyz"));
    assert_eq!(server.asked("CreateClusterWithToken").len(), 1);
    let asked = server.asked("CreateJoinToken");
    assert_eq!(asked[0], json!({"id": ID, "validForSeconds": null}));
    assert_eq!(asked[1], json!({"id": ID, "validForSeconds": 1800}));
}

#[tokio::test]
async fn an_agent_is_asked_to_replace_its_token() {
    let server = Server::start().await.data("GetCluster", "cluster", &cluster("blue")).data(
        "RenewDeployToken",
        "renewDeployToken",
        &json!({"id": ID, "name": "blue", "handle": "blue"}),
    );
    let done = Person::of(&server.url).run("cd clusters rotate-token blue --yes").await;
    let told = "the agent of cluster blue is to replace its deploy token\n";
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (0, "", told));
    assert_eq!(server.asked("RenewDeployToken"), [json!({"id": ID})]);
}

#[tokio::test]
async fn tokens_are_made_listed_and_revoked() {
    let token = json!({"id": ID, "hint": "abc123", "session": false, "scopes": ["*"], "madeWith": null,
        "expiresAt": null, "insertedAt": "2026-01-01T00:00:00Z"});
    let page = json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": [{"node": token}]});
    let server = Server::start()
        .await
        .data("GetCluster", "cluster", &cluster("blue"))
        .data("ListAccessTokens", "accessTokens", &page)
        .data("DeleteAccessToken", "deleteAccessToken", &json!({"id": ID}))
        .data(
            "CreateLastingAccessToken",
            "createAccessToken",
            &json!({"id": ID, "token": "console-new", "expiresAt": "2026-01-01T08:00:00Z"}),
        )
        .error(
            "CreateLastingAccessToken",
            "FORBIDDEN",
            "a token that outlasts needs your current password (currentPassword)",
        )
        .data(
            "CreateLastingAccessToken",
            "createAccessToken",
            &json!({"id": ID, "token": "console-lasting", "expiresAt": null}),
        );
    let person = Person::of(&server.url);
    let made = person.run("tokens create --valid-for 8h --cluster blue").await;
    // The token alone is the answer: it can be piped.
    assert_eq!((made.code, made.out.as_str()), (0, "console-new\n"), "{}", made.err);
    let scopes = json!([{"api": "k8s", "identifier": ID}]);
    let expected = json!({"validForSeconds": 28_800, "scopes": scopes, "currentPassword": null});
    assert_eq!(server.asked("CreateLastingAccessToken"), [expected]);

    let refused = person.run("tokens create").await;
    assert_eq!((refused.code, refused.out.as_str()), (1, ""));
    assert!(refused.err.contains("hint: add --password-stdin"), "{}", refused.err);
    let lasting = Person::of(&server.url).piping("hunter2\n").run("tokens create --password-stdin").await;
    assert_eq!((lasting.code, lasting.out.as_str()), (0, "console-lasting\n"), "{}", lasting.err);
    assert!(!lasting.err.contains("hunter2"), "{}", lasting.err);
    assert_eq!(server.asked("CreateLastingAccessToken")[2]["currentPassword"], "hunter2");

    let listed = person.run("tokens list -o name").await;
    assert_eq!(listed.out, format!("accesstoken/{ID}\n"));
    assert_eq!(person.run("tokens revoke console-secret --yes").await.code, 2, "no token on a command line");
    let revoked = person.run(&format!("tokens revoke {ID} --yes")).await;
    assert_eq!((revoked.code, revoked.err), (0, format!("token {ID} revoked\n")));
}

#[tokio::test]
async fn a_new_password_needs_the_old_one_and_tells_what_remains() {
    let token = json!({"id": ID, "hint": "abc123", "session": false, "scopes": ["*"], "madeWith": null,
        "expiresAt": null, "insertedAt": "2026-01-01T00:00:00Z"});
    let changed = |edges: Value| {
        json!({"email": "ada@example.com",
            "remainingTokens": {"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": edges}})
    };
    let server = Server::start()
        .await
        .data("ChangePassword", "updateUser", &changed(json!([{"node": token}])))
        .data("ChangePassword", "updateUser", &changed(json!([])));
    let done =
        Person::of(&server.url).piping("old secret\nnew secret\n").run("password --stdin -o name").await;
    assert_eq!((done.code, done.out), (0, format!("accesstoken/{ID}\n")), "{}", done.err);
    assert!(done.err.contains("stay valid") && !done.err.contains("secret"), "{}", done.err);
    let asked = &server.asked("ChangePassword")[0];
    assert_eq!(
        asked,
        &json!({"attributes": {"password": "new secret"}, "currentPassword": "old secret", "endTokens": false})
    );
    let line = "password --stdin --end-tokens";
    let done = Person::of(&server.url).piping("old secret\nnew secret\n").run(line).await;
    assert_eq!(done.code, 0);
    assert!(done.err.contains("log in again with `plural login`"), "{}", done.err);
    // Nobody is here to ask.
    let done = Person::of(&server.url).run("password").await;
    assert_eq!(done.code, 2, "{}", done.err);
}

#[tokio::test]
async fn an_account_is_untied_from_a_provider_after_a_question() {
    let user = json!({"id": ID, "name": "Grace", "email": "grace@example.com", "suspendedAt": null,
        "insertedAt": "2026-01-01T00:00:00Z", "roles": {"admin": false}, "groups": []});
    let identity = json!({"id": ID, "provider": "acme", "issuer": "https://id.example.com", "subject": "248289761001",
        "lastUsedAt": "2026-01-02T00:00:00Z", "insertedAt": "2026-01-01T00:00:00Z"});
    let server = Server::start()
        .await
        .data("GetUser", "user", &user)
        .data("ListUserIdentities", "userIdentities", &json!([identity]))
        .data("DeleteUserIdentity", "deleteUserIdentity", &identity)
        .data("SuspendUser", "suspendUser", &user);
    let person = Person::of(&server.url);
    let listed = person.run("cd users identities grace@example.com").await;
    assert!(listed.out.contains("acme") && listed.out.contains("248289761001"), "{}", listed.text());
    let json = person.run("cd users identities grace@example.com -o json").await;
    assert_eq!(serde_json::from_str::<Value>(&json.out).unwrap()[0]["subject"], "248289761001");
    let other = person.run("cd users untie grace@example.com --provider other --yes").await;
    assert!(other.code == 1 && other.err.contains("\"other\" not found"), "{}", other.text());
    let line = "cd users untie grace@example.com --provider acme";
    // Nobody is here to ask, or says no.
    let unasked = person.run(line).await;
    assert!(unasked.code == 2 && unasked.err.contains("--yes"), "{}", unasked.text());
    let declined = Person::of(&server.url).answering("n\n").run(line).await;
    assert_eq!(declined.code, 1, "{}", declined.text());
    let suspend = person.run("cd users suspend grace@example.com").await;
    assert!(suspend.code == 2 && suspend.err.contains("--yes"), "{}", suspend.text());
    assert!(server.asked("DeleteUserIdentity").is_empty() && server.asked("SuspendUser").is_empty());
    let done = person.run(&format!("{line} --yes")).await;
    assert_eq!(done.code, 0, "{}", done.text());
    assert_eq!(server.asked("DeleteUserIdentity"), [json!({"userId": ID, "id": ID})]);
}

#[tokio::test]
async fn what_is_shown_once_is_not_lost_by_a_format() {
    let project = json!({"id": ID, "name": "shop", "default": false, "description": null, "limits": null});
    let made = json!({"id": ID, "token": "plrl-abc", "expiresAt": "2026-01-02T00:00:00Z"});
    let server = Server::start().await.data("GetProject", "project", &project);
    let server = server.data("CreateBootstrapToken", "createBootstrapToken", &made);
    let person = Person::of(&server.url);
    let create = "cd registration-tokens create --project shop --valid-for 30m -o";

    let refused = person.run(&format!("{create} name")).await;
    assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{}", refused.err);
    assert!(refused.err.contains("shown only once") && refused.err.contains("-o json"), "{}", refused.err);
    assert!(server.asked("CreateBootstrapToken").is_empty(), "nothing is made for an answer that is lost");

    let token = person.run(&format!("{create} jsonpath={{.token}}")).await;
    assert_eq!((token.code, token.out.as_str()), (0, "plrl-abc"), "{}", token.err);
    assert!(!token.err.contains("plrl-abc"), "a job's log would keep it: {}", token.err);
    for format in ["jsonpath={.id}", "jsonpath={.nothing}", "custom-columns=ID:.id"] {
        let answer = person.run(&format!("{create} {format}")).await;
        assert!(
            !answer.out.contains("plrl-abc") && answer.err.contains("plrl-abc"),
            "{format}: {}",
            answer.err
        );
    }
}
