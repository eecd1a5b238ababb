//! Stacks and their state.

use serde_json::{Value, json};

use crate::{run::Person, server::Server};

const ID: &str = "0190b8a2-7c11-7def-8000-0123456789ab";
const LOCK: &str = "6b0f5c4e-1f0e-7a5e-9b0a-0123456789ab";

fn version(id: &str, serial: i64, rejected: Option<&str>) -> Value {
    json!({
        "id": id, "serial": serial, "lineage": "a", "digest": "00", "size": 180, "resources": 2, "rejected": rejected,
        "acceptedAt": null, "author": "ada@example.com", "requestId": "r", "fence": 1, "insertedAt": null,
    })
}

fn stack(resources: &Value) -> Value {
    let mut state = version("0190b8a2-7c11-7def-8000-000000000042", 42, None);
    state["resources"] = resources.clone();
    json!({
        "id": ID, "name": "network", "type": "TERRAFORM", "protect": false, "paused": false, "status": null, "insertedAt": null,
        "project": {"id": ID, "name": "shop"}, "stateVersion": state,
        "lock": {
            "id": LOCK, "operation": "OperationTypeApply", "who": "ada@box", "author": "ada@example.com", "fence": 7,
            "insertedAt": null,
        },
    })
}

/// The same with all that is known of it.
fn details(stack: &Value) -> Value {
    let mut known = stack.clone();
    for (field, value) in [
        ("approval", json!(true)),
        ("requiredApprovals", json!(2)),
        ("forbidSelfApproval", json!(true)),
        ("commandApproval", json!(true)),
        (
            "environment",
            json!([{"name": "REGION", "value": "eu", "secret": false}, {"name": "TOKEN", "value": "", "secret": true}]),
        ),
        ("files", json!([{"path": "key.pem"}])),
    ] {
        known[field] = value;
    }
    known
}

async fn server(resources: Value) -> Server {
    let versions = json!({"stateVersions": [
        version("0190b8a2-7c11-7def-8000-000000000043", 41, Some("its serial is lower than that of the state")),
        version("0190b8a2-7c11-7def-8000-000000000042", 42, None),
        version("0190b8a2-7c11-7def-8000-000000000041", 41, None),
    ]});
    let stack = stack(&resources);
    Server::start()
        .await
        .data("GetInfrastructureStack", "infrastructureStack", &stack)
        .data("GetStackDetails", "infrastructureStack", &details(&stack))
        .data("UpdateStack", "updateStack", &stack)
        .data("CreateStack", "createStack", &stack)
        .data("ListStackStateVersions", "infrastructureStack", &versions)
        .data("RestoreStackState", "restoreStackState", &stack)
        .data("ForceUnlockStack", "forceUnlockStack", &stack)
        .data("DeleteStack", "deleteStack", &json!({"id": ID}))
}

#[tokio::test]
async fn a_backend_is_written_without_a_secret() {
    let server = server(json!(2)).await;
    let person = Person::of(&server.url);
    let shown = person.run("cd stacks gen-backend network").await;
    let address = format!("\"{}/v1/stacks/{ID}/state\"", server.url);
    assert_eq!(shown.out.matches(&address).count(), 3, "{}", shown.out);
    assert!(shown.out.contains("TF_HTTP_PASSWORD") && !shown.out.contains("console-test"), "{}", shown.out);
    let path = person.home().join("plural_backend_override.tf");
    let command = format!("cd stacks gen-backend stack/network --file {}", path.display());
    let written = person.run(&command).await;
    assert_eq!((written.code, written.out.as_str()), (0, ""), "{written:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), shown.out);
    let again = person.run(&command).await;
    assert!(again.code == 1 && again.err.contains("cannot write"), "what is there stays: {again:?}");
    assert_eq!(server.asked("GetInfrastructureStack")[1], json!({"id": null, "name": "network"}));
}

#[tokio::test]
async fn a_deletion_says_what_it_forgets() {
    let full = server(json!(2)).await;
    let refused = Person::of(&full.url).run("cd stacks delete network").await;
    assert!(refused.code == 2 && refused.err.contains("2 resources"), "{refused:?}");
    assert!(full.asked("DeleteStack").is_empty());
    let asked = Person::of(&full.url).answering("y\n").run("cd stacks delete network").await;
    assert!(asked.code == 0 && asked.err.contains("stays where it is"), "{asked:?}");
    let forget = "0190b8a2-7c11-7def-8000-000000000042";
    assert_eq!(full.asked("DeleteStack"), [json!({"id": ID, "forget": forget, "leaveDependents": null})]);

    let empty = server(json!(0)).await;
    let done = Person::of(&empty.url).run("cd stacks delete network --yes").await;
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(empty.asked("DeleteStack"), [json!({"id": ID, "forget": null, "leaveDependents": null})]);
}

#[tokio::test]
async fn versions_are_named_by_serial_or_id() {
    let server = server(json!(2)).await;
    let person = Person::of(&server.url);
    // Of two with a serial, the one that was taken.
    for (named, meant) in [("41", "000000000041"), ("0190b8a2-7c11-7def-8000-000000000043", "000000000043")] {
        let done = person.run(&format!("cd stacks state accept network {named} --yes")).await;
        assert_eq!(done.code, 0, "{done:?}");
        let asked = server.asked("RestoreStackState");
        let version = format!("0190b8a2-7c11-7def-8000-{meant}");
        assert_eq!(asked.last(), Some(&json!({"stackId": ID, "version": version})));
    }
    let missing = person.run("cd stacks state restore network 7 --yes").await;
    assert!(missing.code == 1 && missing.err.contains("state list"), "{missing:?}");
    let listed = person.run("cd stacks state list network -o json").await;
    assert!(listed.out.contains("its serial is lower"), "{}", listed.out);
}

#[tokio::test]
async fn a_lock_is_ended_after_a_question_that_says_whose_it_is() {
    let server = server(json!(2)).await;
    let declined = Person::of(&server.url).answering("n\n").run("cd stacks state unlock network").await;
    assert!(declined.code == 1 && declined.err.contains("ada@box"), "{declined:?}");
    assert!(server.asked("ForceUnlockStack").is_empty());
    let done = Person::of(&server.url).run("cd stacks state unlock network --yes").await;
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(server.asked("ForceUnlockStack"), [json!({"stackId": ID, "lock": LOCK})]);
    let described = Person::of(&server.url).run("cd stacks describe network").await;
    assert!(
        described.out.contains("serial 42, 2 resources") && described.out.contains(LOCK),
        "{}",
        described.out
    );
}

#[tokio::test]
async fn who_has_to_agree_is_told() {
    let mut known = details(&stack(&json!(2)));
    known["git"] = json!({"ref": "main", "folder": "network"});
    let server = Server::start().await.data("GetStackDetails", "infrastructureStack", &known);
    let described = Person::of(&server.url).run("cd stacks describe network").await;
    let expected = "by 2 people, other than who made the change; all commands that somebody runs wait, too\n";
    assert!(described.out.contains(expected), "{}", described.out);
}

#[tokio::test]
async fn a_stack_is_made_of_what_is_typed_and_of_files() {
    let server = server(json!(0)).await;
    let person = Person::of(&server.url);
    let write = |name: &str, text: &str| {
        let path = person.home().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (token, key) = (write("token", "hunter2\n"), write("key", "secret key\n"));
    let variables = write("variables.yaml", "region: eu\nzones: [a, b]\n");
    let settings = write(
        "settings.yaml",
        "configuration: {hooks: [{cmd: tflint, afterStage: INIT}]}\napproval: false\n",
    );
    let line = format!(
        "cd stacks create network --ref main --folder net --approval --approvers 2 --approval-expiry 24h --terraform \
         --env REGION=eu --secret-env TOKEN=@{token} --file-content key.pem=@{key} --variables @{variables} \
         --job-namespace runs --job-service-account tofu --job-limit memory=1Gi --settings {settings}"
    );
    let done = person.run(&line).await;
    assert_eq!(done.code, 0, "{done:?}");
    assert!(!format!("{done:?}").contains("hunter2"), "{done:?}");
    let attributes = json!({
        "name": "network", "type": "TERRAFORM", "git": {"ref": "main", "folder": "net"}, "approval": true,
        "requiredApprovals": 2, "approvalExpiry": "86400s", "variables": {"region": "eu", "zones": ["a", "b"]},
        "configuration": {"hooks": [{"cmd": "tflint", "afterStage": "INIT"}], "terraform": {"tofu": false}},
        "environment": [
            {"name": "REGION", "value": "eu", "secret": false}, {"name": "TOKEN", "value": "hunter2", "secret": true},
        ],
        "files": [{"path": "key.pem", "content": "secret key\n"}],
        "jobSpec": {"namespace": "runs", "serviceAccount": "tofu", "resources": {"limits": {"memory": "1Gi"}}},
    });
    assert_eq!(server.asked("CreateStack"), [json!({"attributes": attributes})]);

    // What runs here has its state here, if the tool has one that the console can keep.
    let repository = json!({"id": "r", "url": "https://git.example.com/a.git", "authMethod": null, "signedCommits": false});
    let server = server.data("GetGitRepository", "gitRepository", &repository);
    for (kind, keeps) in [("terraform", json!(true)), ("ansible", Value::Null)] {
        let line = format!(
            "cd stacks create net --type {kind} --repository https://git.example.com/a.git --ref main"
        );
        let done = person.run(&line).await;
        assert_eq!(done.code, 0, "{done:?}");
        let asked = server.asked("CreateStack").last().unwrap()["attributes"].clone();
        assert_eq!((&asked["manageState"], &asked["repositoryId"]), (&keeps, &json!("r")), "{kind}");
    }

    // A value is not typed where others read it, and not repeated.
    let typed = person.run("cd stacks create network --secret-env TOKEN=hunter2").await;
    assert_eq!(typed.code, 2, "{typed:?}");
    let custom = [
        "cd",
        "stacks",
        "create",
        "dns",
        "--type",
        "custom",
        "--plan-command",
        "./dns diff",
        "--apply-command",
        "./dns push",
    ];
    assert_eq!(person.run_words(&custom).await.code, 0);
    let step = |stage: &str, command: &str| json!({"stage": stage, "cmd": "sh", "args": ["-c", command]});
    let commands = json!([step("PLAN", "./dns diff"), step("APPLY", "./dns push")]);
    assert_eq!(server.asked("CreateStack").last().unwrap()["attributes"]["commands"], commands);
}

#[tokio::test]
async fn tags_are_given_and_looked_for() {
    let mut tagged = stack(&json!(0));
    tagged["tags"] = json!([{"name": "stage", "value": "prod"}, {"name": "team", "value": "shop"}]);
    let page = json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": [{"node": tagged}]});
    let server = Server::start()
        .await
        .data("ListInfrastructureStacks", "infrastructureStacks", &page)
        .data("GetStackDetails", "infrastructureStack", &details(&tagged))
        .data("CreateStack", "createStack", &tagged)
        .data("UpdateStack", "updateStack", &tagged);
    let person = Person::of(&server.url);
    let listed = person.run("cd stacks list --tag stage=prod --tag team=shop -o wide").await;
    assert!(listed.code == 0 && listed.out.contains("stage=prod,team=shop"), "{listed:?}");
    assert_eq!(
        server.asked("ListInfrastructureStacks")[0]["tagQuery"],
        json!({"op": "AND", "tags": tagged["tags"]})
    );
    let described = person.run("cd stacks describe network").await;
    assert!(described.out.contains("stage=prod\n") && described.out.contains("team=shop\n"), "{described:?}");

    let made = person.run("cd stacks create network --tag stage=prod --tag team=shop").await;
    assert_eq!(made.code, 0, "{made:?}");
    assert_eq!(server.asked("CreateStack")[0]["attributes"]["tags"], tagged["tags"]);
    for (options, tags) in
        [("--tag stage=dev", json!([{"name": "stage", "value": "dev"}])), ("--tag-none", json!([]))]
    {
        let done = person.run(&format!("cd stacks update network {options}")).await;
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(server.asked("UpdateStack").last().unwrap()["attributes"], json!({"tags": tags}));
    }
    assert_eq!(person.run("cd stacks update network --tag stage").await.code, 2);
}

#[tokio::test]
async fn an_update_says_how_the_code_is_followed() {
    let mut known = details(&stack(&json!(0)));
    known["git"] = json!({"ref": "main", "folder": "network"});
    known["interval"] = json!("300s");
    known["connection"] = json!({"id": ID, "name": "github"});
    let connection = json!({
        "id": ID, "name": "github", "type": "GITHUB", "default": false, "repositories": ["acme/*"], "hasToken": true,
        "hasSigningKey": false, "hasSshKey": false, "hasProxy": false,
    });
    let server = Server::start()
        .await
        .data("GetStackDetails", "infrastructureStack", &known)
        .data("GetScmConnection", "scmConnection", &connection)
        .data("UpdateStack", "updateStack", &known);
    let person = Person::of(&server.url);
    for (options, attributes) in [
        ("--interval 5m --connection github", json!({"interval": "5m", "connectionId": ID})),
        ("--interval= --connection=", json!({"interval": "", "connectionId": ""})),
    ] {
        let done = person.run(&format!("cd stacks update network {options}")).await;
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(server.asked("UpdateStack").last().unwrap()["attributes"], attributes);
    }
    assert_eq!(server.asked("GetScmConnection"), [json!({"id": null, "name": "github"})]);
    let described = person.run("cd stacks describe network").await.out;
    assert!(described.contains("every 300s\n") && described.contains("github\n"), "{described}");
}

#[tokio::test]
async fn an_update_keeps_what_it_does_not_name() {
    let server = server(json!(0)).await;
    let piped = Person::of(&server.url).piping("hunter2\n");
    let done = piped.run("cd stacks update network --env ZONE=a --secret-env KEY --unset-env REGION").await;
    assert_eq!(done.code, 0, "{done:?}");
    let environment = json!([
        {"name": "KEY", "value": "hunter2", "secret": true},
        // Without its value, which nobody is shown.
        {"name": "TOKEN", "secret": true},
        {"name": "ZONE", "value": "a", "secret": false},
    ]);
    assert_eq!(server.asked("UpdateStack"), [json!({"id": ID, "attributes": {"environment": environment}})]);
    let person = Person::of(&server.url);
    for (line, told) in [
        ("cd stacks update network", "nothing to change"),
        ("cd stacks update network --unset-env NOTHING", "no variable"),
        ("cd stacks update network --unset-file nothing", "no file"),
        ("cd stacks update network --folder net", "without --ref"),
        ("cd stacks update network --job-limit disk=1", "neither cpu nor memory"),
    ] {
        let refused = person.run(line).await;
        assert!(refused.code == 2 && refused.err.contains(told), "{line}: {refused:?}");
    }
    assert_eq!(server.asked("UpdateStack").len(), 1);
}

#[tokio::test]
async fn a_stack_that_runs_here_is_destroyed_and_one_that_does_not_is_forgotten() {
    let state = stack(&json!(2));
    let mut sourced = state.clone();
    sourced["git"] = json!({"ref": "main", "folder": ""});
    let server = Server::start()
        .await
        .data("GetInfrastructureStack", "infrastructureStack", &sourced)
        .data("DeleteStack", "deleteStack", &json!({"id": ID}))
        .data("DetachStack", "detachStack", &json!({"id": ID}))
        .data("RestoreStack", "restoreStack", &sourced);
    let asked = Person::of(&server.url).answering("y\n").run("cd stacks delete network").await;
    assert!(
        asked.code == 0 && asked.err.contains("Destroy what the state") && asked.err.contains("2 resources"),
        "{asked:?}"
    );
    assert_eq!(server.asked("DeleteStack"), [json!({"id": ID, "forget": null, "leaveDependents": null})]);
    assert_eq!(Person::of(&server.url).run("cd stacks restore network").await.code, 0);
    let detached = Person::of(&server.url).answering("y\n").run("cd stacks detach network").await;
    assert!(detached.code == 0 && detached.err.contains("stays where it is"), "{detached:?}");
    let forget = "0190b8a2-7c11-7def-8000-000000000042";
    let first = json!({"id": ID, "forget": forget, "leaveDependents": null});
    assert_eq!(server.asked("DetachStack"), std::slice::from_ref(&first));
    // What needs it does not keep it.
    let left =
        Person::of(&server.url).answering("y\n").run("cd stacks detach network --leave-dependents").await;
    assert!(left.code == 0 && left.err.contains("is left without it"), "{left:?}");
    let second = json!({"id": ID, "forget": forget, "leaveDependents": true});
    assert_eq!(server.asked("DetachStack"), [first, second]);
}

#[tokio::test]
async fn a_stack_takes_outputs_of_others() {
    let server = server(json!(0)).await;
    let person = Person::of(&server.url);
    let done = person.run("cd stacks update network --depends-on network:vpc,subnets=nets").await;
    assert_eq!(done.code, 0, "{done:?}");
    let outputs = json!([{"output": "vpc", "variable": "vpc"}, {"output": "subnets", "variable": "nets"}]);
    let given = |dependencies: Value| json!({"id": ID, "attributes": {"dependencies": dependencies}});
    let first = given(json!([{"stackId": ID, "outputs": outputs}]));
    assert_eq!(server.asked("UpdateStack"), std::slice::from_ref(&first));
    assert_eq!(person.run("cd stacks update network --depends-on-none").await.code, 0);
    assert_eq!(server.asked("UpdateStack"), [first, given(json!([]))]);
    for (wrong, told) in
        [(":vpc", "must name a stack"), ("net:=a", "OUTPUT=VARIABLE"), ("net:a=", "OUTPUT=VARIABLE")]
    {
        let refused = person.run(&format!("cd stacks update network --depends-on {wrong}")).await;
        assert!(refused.code == 2 && refused.err.contains(told), "{wrong}: {refused:?}");
    }
    assert_eq!(server.asked("UpdateStack").len(), 2);
}
