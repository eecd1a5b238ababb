//! `/v1/api/scm/…`: the same rights, limits and audit as GraphQL, as plain JSON.

use std::fmt::Write as _;

use plural_testkit::{ScmDialect, ScmServer, TestDatabase, each_database};
use serde_json::{Value, json};

use crate::api_server::{Answer, Person, TestServer};

const CONNECTIONS: &str = "/v1/api/scm/connections";
const PULL_REQUESTS: &str = "/v1/api/scm/pullrequests";
const AUTOMATIONS: &str = "/v1/api/scm/prautomations";
const SECRET: &str = "s3cr3t-answer-5d0c7a11";

each_database!(
    a_script_lists_and_opens,
    what_is_not_for_somebody_is_hidden_or_refused,
    whoever_sees_a_thing_is_told_nothing_of_what_they_do_not_see,
);

async fn get(t: &TestServer, by: &Person, path: &str) -> Answer {
    let mut request = by.http().get(t.url(path));
    if let Some(token) = &by.token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    Answer::of(request.send().await.unwrap()).await
}

async fn invoke(by: &Person, id: &str, body: String) -> Answer {
    by.post(&format!("{AUTOMATIONS}/{id}/invoke"), "application/json", body).await
}

fn rows(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body["data"].as_array().unwrap().clone()
}

fn code(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.body["code"].as_str().unwrap_or_default())
}

/// An automation of a connection to a host; their ids.
async fn automation(t: &TestServer, host: &ScmServer, name: &str) -> (String, String) {
    host.push("main", "templates/app.yaml", "name: {{ context.name }}\n");
    let connection = json!({
        "name": format!("{name}-forge"), "type": "GITEA", "projectId": t.project, "apiUrl": host.api_url(), "token": host.token(),
        "repositories": ["plural/*"],
    });
    let connection = t.admin.scm_connection(&connection).await;
    let automation = json!({
        "name": name, "projectId": t.project, "connectionId": connection, "identifier": host.repository(), "role": "SERVICE",
        "title": "Add {{ context.name }}", "message": "Adds {{ context.name }}.",
        "configuration": [
            {"name": "name", "type": "STRING", "validation": {"regex": "^[a-z]+$"}},
            {"name": "key", "type": "PASSWORD", "optional": true},
        ],
        "creates": {"templates": [
            {"source": "templates/app.yaml", "destination": "apps/{{ context.name }}.yaml", "external": false},
        ]},
    });
    let made = t.admin.pr_automation(&automation).await;
    (connection.as_str().unwrap().to_owned(), made.as_str().unwrap().to_owned())
}

async fn a_script_lists_and_opens(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let host = ScmServer::start(ScmDialect::Gitea).unwrap();
    let (connection, automation) = automation(&t, &host, "add-app").await;

    let answer = get(&t, &t.owner, CONNECTIONS).await;
    let found = rows(&answer);
    let [row] = found.as_slice() else { panic!("{answer:?}") };
    assert_eq!((&row["id"], &row["name"]), (&json!(connection), &json!("add-app-forge")));
    assert_eq!((&row["type"], &row["repositories"]), (&json!("GITEA"), &json!(["plural/*"])));
    assert!(!answer.body.to_string().contains(&host.token()), "{answer:?}");
    let answer = get(&t, &t.owner, AUTOMATIONS).await;
    let found = rows(&answer);
    let [row] = found.as_slice() else { panic!("{answer:?}") };
    assert_eq!((&row["id"], &row["role"]), (&json!(automation), &json!("SERVICE")));
    assert_eq!(
        (&row["configuration"][0]["name"], &row["configuration"][0]["type"]),
        (&json!("name"), &json!("STRING"))
    );
    assert_eq!(rows(&get(&t, &t.owner, PULL_REQUESTS).await), [] as [Value; 0]);

    let asked = json!({"context": {"name": "shop", "key": SECRET}, "branch": "add-shop", "idempotencyKey": "build-1"});
    let opened = invoke(&t.owner, &automation, asked.to_string()).await;
    assert_eq!(opened.status, 200, "{opened:?}");
    let opened = opened.body;
    assert_eq!((&opened["phase"], &opened["status"]), (&json!("OPENED"), &json!("OPEN")), "{opened}");
    assert_eq!((&opened["title"], &opened["ref"]), (&json!("Add shop"), &json!("add-shop")), "{opened}");
    assert_eq!((&opened["automationId"], &opened["projectId"]), (&json!(automation), &json!(t.project)));
    assert_eq!(host.file("add-shop", "apps/shop.yaml").as_deref(), Some("name: shop\n"));
    let again = invoke(&t.owner, &automation, asked.to_string()).await;
    assert_eq!((&again.body["id"], host.pull_requests()), (&opened["id"], 1), "{again:?}");

    // GraphQL says the same of it.
    let query = "query ($id: ID!) { pullRequest(id: $id) { id url title ref repository number creator } }";
    let told = t.owner.data(query, json!({"id": opened["id"]})).await["pullRequest"].clone();
    for (name, value) in told.as_object().unwrap() {
        assert_eq!(&opened[name], value, "{name}");
    }

    let more = invoke(&t.owner, &automation, json!({"context": {"name": "cart"}}).to_string()).await;
    assert_eq!(more.status, 200, "{more:?}");
    let mut found = Vec::new();
    let mut address = format!("{PULL_REQUESTS}?first=1&status=OPEN&automationId={automation}");
    loop {
        let page = get(&t, &t.owner, &address).await;
        found.extend(rows(&page).into_iter().map(|row| row["id"].clone()));
        if page.body["pageInfo"]["hasNextPage"] != true {
            break;
        }
        address = format!("{PULL_REQUESTS}?first=1&status=OPEN&automationId={automation}");
        write!(address, "&after={}", page.body["pageInfo"]["endCursor"].as_str().unwrap()).unwrap();
        assert!(found.len() < 5, "{found:?}");
    }
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.contains(&opened["id"]) && found.contains(&more.body["id"]), "{found:?}");
    for (path, expected) in [
        (format!("{PULL_REQUESTS}?status=MERGED"), 0),
        (format!("{PULL_REQUESTS}?q=cart"), 1),
        (format!("{PULL_REQUESTS}?repository={}", host.repository()), 2),
        (format!("{AUTOMATIONS}?role=CLUSTER"), 0),
        (format!("{AUTOMATIONS}?q=add"), 1),
        (format!("{CONNECTIONS}?q=nothing"), 0),
    ] {
        assert_eq!(rows(&get(&t, &t.owner, &path).await).len(), expected, "{path}");
    }
    let query = "{ audits(first: 100) { edges { node { action } } } }";
    let audited = t.admin.data(query, json!({})).await.to_string();
    assert!(audited.contains("pullRequest.create"), "{audited}");
    t.stop().await;
}

async fn whoever_sees_a_thing_is_told_nothing_of_what_they_do_not_see(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let host = ScmServer::start(ScmDialect::Gitea).unwrap();
    let (_, automation) = automation(&t, &host, "add-app").await;
    let only = t.admin.add_user("only@example.com").await;
    let update = "mutation ($id: ID!, $a: PrAutomationAttributes!) { updatePrAutomation(id: $id, attributes: $a) { id } }";
    let bindings = json!({"readBindings": [{"userId": only.id}]});
    t.admin.data(update, json!({"id": automation, "a": bindings})).await;
    let query = "query ($id: ID!) { prAutomation(id: $id) { project { id } } }";
    for (person, project) in [(&only, Value::Null), (&t.reader, json!(t.project))] {
        let found = rows(&get(&t, person, AUTOMATIONS).await);
        let [row] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((&row["id"], &row["projectId"]), (&json!(automation), &project), "{row}");
        let told = person.data(query, json!({"id": automation})).await["prAutomation"].clone();
        assert_eq!(
            told["project"].get("id").unwrap_or(&Value::Null),
            &project,
            "GraphQL says the same: {told}"
        );
    }
    t.stop().await;
}

async fn what_is_not_for_somebody_is_hidden_or_refused(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let host = ScmServer::start(ScmDialect::Gitea).unwrap();
    let (_, automation) = automation(&t, &host, "add-app").await;
    let good = json!({"context": {"name": "shop"}}).to_string();
    let wrong =
        t.nobody.with_token("console-0000000000000000000000000000000000000000000000000000000000000000");
    let cluster = t.admin.cluster("blue").await;
    let agent = t.nobody.with_token(cluster["deployToken"].as_str().unwrap());
    for person in [&t.nobody, &wrong, &agent] {
        for path in [CONNECTIONS, PULL_REQUESTS, AUTOMATIONS] {
            assert_eq!(get(&t, person, path).await.status, 401, "{path}");
        }
        assert_eq!(invoke(person, &automation, good.clone()).await.status, 401);
    }
    // Somebody of no project sees nothing, and is told that there is nothing.
    for path in [CONNECTIONS, PULL_REQUESTS, AUTOMATIONS] {
        assert_eq!(rows(&get(&t, &t.stranger, path).await), [] as [Value; 0], "{path}");
    }
    assert_eq!(code(&invoke(&t.stranger, &automation, good.clone()).await), (404, "NOT_FOUND"));
    assert_eq!(code(&invoke(&t.reader, &automation, good.clone()).await), (403, "FORBIDDEN"));
    for id in ["0190c8a0-0000-7000-8000-000000000000", "add-app", "..%2f..%2fgql", "%00"] {
        assert_eq!(code(&invoke(&t.owner, id, good.clone()).await), (404, "NOT_FOUND"), "{id}");
    }

    for body in [
        String::new(),
        "[]".to_owned(),
        "{\"context\": {\"name\": \"shop\"}".to_owned(),
        json!({"context": {"name": "shop"}, "project": "other"}).to_string(),
        json!({"context": "name=shop"}).to_string(),
        json!({"context": {"name": "a\0"}}).to_string(),
        json!({"context": {"name": "../../x"}}).to_string(),
        json!({"context": {"name": "shop", "more": SECRET}}).to_string(),
        json!({"context": {"name": "shop", "key": SECRET}, "branch": SECRET.repeat(40)}).to_string(),
        json!({"context": {"name": "shop"}, "identifier": "evil/fleet"}).to_string(),
        json!({"context": {"name": "shop"}, "idempotencyKey": " "}).to_string(),
        format!("{{\"context\": {{\"name\": {}1{}}}}}", "[".repeat(100_000), "]".repeat(100_000)),
    ] {
        let refused = invoke(&t.owner, &automation, body.clone()).await;
        let shown: String = body.chars().take(100).collect();
        assert_eq!(code(&refused), (422, "INVALID"), "{shown}: {refused:?}");
        assert!(!refused.body.to_string().contains(SECRET), "{shown}: {refused:?}");
    }
    let large = json!({"context": {"name": "a".repeat(2 << 20)}}).to_string();
    assert_eq!(invoke(&t.owner, &automation, large).await.status, 413);
    // What a form of another page can send.
    let path = format!("{AUTOMATIONS}/{automation}/invoke");
    assert_eq!(t.owner.post(&path, "text/plain", good.clone()).await.status, 415);

    for query in [
        "first=0",
        "first=many",
        "first=1&last=1",
        "after=nonsense",
        "q=%00",
        "q=a&q=b",
        "project=x",
        "status=merged",
    ] {
        let refused = get(&t, &t.owner, &format!("{PULL_REQUESTS}?{query}")).await;
        assert_eq!(code(&refused), (422, "INVALID"), "{query}: {refused:?}");
    }
    let refused = get(&t, &t.owner, &format!("{PULL_REQUESTS}?projectId=x")).await;
    assert_eq!(code(&refused), (404, "NOT_FOUND"), "{refused:?}");
    // A filter of another list.
    assert_eq!(get(&t, &t.owner, &format!("{CONNECTIONS}?status=OPEN")).await.status, 422);
    assert_eq!((host.pull_requests(), host.branches()), (0, vec!["main".to_owned()]));
    assert_eq!(rows(&get(&t, &t.owner, PULL_REQUESTS).await), [] as [Value; 0]);
    t.stop().await;
}
