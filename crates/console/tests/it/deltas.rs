//! Subscriptions: what changes is told to whoever may see it, and to nobody else, on every replica, also after a lost
//! connection; whoever may not listen any more is gone.

use plural_testkit::{TestDatabase, each_database, one_database};
use serde_json::{Value, json};

use crate::{
    api_server::{Person, TestServer},
    socket::{Heard, Socket},
    sso_browser::Browser,
};

each_database!(
    what_changes_is_told_to_whoever_may_see_it,
    a_lost_connection_goes_on_where_it_was,
    whoever_may_not_listen_any_more_is_gone,
);
one_database!(postgres, "replicas share PostgreSQL"; what_one_replica_does_another_tells);
one_database!(
    sqlite,
    "what is asked here never reaches the database";
    a_browsers_cookie_counts_for_our_own_page_only,
    attack_26_a_socket_has_limits,
);

const SERVICES: &str = "subscription ($after: String, $id: ID, $cluster: ID) {
    serviceDeploymentDelta(after: $after, id: $id, clusterId: $cluster) { changed deleted readAgain cursor } }";
const CLUSTERS: &str =
    "subscription ($after: String) { clusterDelta(after: $after) { changed deleted readAgain cursor } }";

/// A socket that listens, after its first event, with the cursor of that.
pub(crate) async fn listening(person: &Person, document: &str, variables: Value) -> (Socket, Value, String) {
    let mut socket = Socket::of(person).await;
    socket.subscribe("1", document, variables).await;
    let event = of_root(&socket.event().await);
    let cursor = event["cursor"].as_str().unwrap().to_owned();
    (socket, event, cursor)
}

/// An event, whatever its root field is called.
fn of_root(data: &Value) -> Value {
    data.as_object().unwrap().values().next().unwrap().clone()
}

/// The next event in which this id is told of as changed or gone.
pub(crate) async fn told(socket: &mut Socket, field: &str, id: &Value) -> Value {
    loop {
        let event = of_root(&socket.event().await);
        if event[field].as_array().unwrap().contains(id) {
            return event;
        }
    }
}

/// The next event that names something. One that names nothing says that somebody's rights changed, or that there is much to read.
pub(crate) async fn naming(socket: &mut Socket) -> Value {
    loop {
        let event = of_root(&socket.event().await);
        if event["changed"] != json!([]) || event["deleted"] != json!([]) {
            return event;
        }
    }
}

/// Hears until an event says to read again.
pub(crate) async fn reads_again(socket: &mut Socket) {
    while of_root(&socket.event().await)["readAgain"] != json!(true) {}
}

async fn rename(person: &Person, service: &Value, folder: &str) {
    let document = "mutation ($id: ID!, $a: ServiceUpdateAttributes!) { updateServiceDeployment(id: $id, attributes: $a) { id } }";
    let attributes = json!({"git": {"ref": "main", "folder": folder}});
    person.data(document, json!({"id": service["id"], "a": attributes})).await;
}

async fn bind_reader(t: &TestServer, cluster: &Value, person: &Person) {
    let document = "mutation ($rbac: RbacAttributes!, $id: ID) { updateRbac(rbac: $rbac, clusterId: $id) }";
    let rbac = json!({"readBindings": [{"userId": person.id}]});
    t.admin.data(document, json!({"rbac": rbac, "id": cluster["id"]})).await;
}

async fn what_changes_is_told_to_whoever_may_see_it(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let repository = t.admin.repository("/nowhere").await;
    let hidden = t.admin.cluster("hidden").await;
    let shown = t.admin.cluster("shown").await;
    bind_reader(&t, &shown, &t.stranger).await;

    let (mut reader, first, _) = listening(&t.reader, SERVICES, json!({})).await;
    assert_eq!(first["changed"], json!([]), "nothing has changed since they listen");
    let (mut stranger, ..) = listening(&t.stranger, SERVICES, json!({})).await;
    let (mut one, ..) = listening(&t.reader, SERVICES, json!({"cluster": shown["id"]})).await;
    let (mut clusters, ..) = listening(&t.stranger, CLUSTERS, json!({})).await;

    let secret = t.admin.service(&hidden, &repository, "secret").await;
    told(&mut reader, "changed", &secret["id"]).await;
    let web = t.admin.service(&shown, &repository, "web").await;
    told(&mut reader, "changed", &web["id"]).await;
    // The others hear of the second first: what came before is not theirs, or not what they asked for.
    for socket in [&mut stranger, &mut one] {
        let event = naming(socket).await;
        assert_eq!(event["changed"], json!([web["id"]]), "{event}");
    }

    // Whoever lost the right is told to read again, and hears nothing more; the others go on.
    let document = "mutation ($rbac: RbacAttributes!, $id: ID) { updateRbac(rbac: $rbac, clusterId: $id) }";
    t.admin.data(document, json!({"rbac": {"readBindings": []}, "id": shown["id"]})).await;
    for socket in [&mut stranger, &mut clusters] {
        reads_again(socket).await;
    }
    rename(&t.admin, &web, "other").await;
    told(&mut reader, "changed", &web["id"]).await;
    bind_reader(&t, &hidden, &t.stranger).await;
    rename(&t.admin, &secret, "other").await;
    let event = naming(&mut stranger).await;
    assert_eq!(event["changed"], json!([secret["id"]]), "{event}");

    // A cluster, and what is gone.
    let third = t.admin.cluster("third").await;
    bind_reader(&t, &third, &t.stranger).await;
    let update = "mutation ($id: ID!) { updateCluster(id: $id, attributes: {protect: false}) { id } }";
    t.admin.data(update, json!({"id": third["id"]})).await;
    told(&mut clusters, "changed", &third["id"]).await;
    let detach = "mutation ($id: ID!) { detachServiceDeployment(id: $id) { id } }";
    t.admin.data(detach, json!({"id": secret["id"]})).await;
    for socket in [&mut reader, &mut stranger] {
        told(socket, "deleted", &secret["id"]).await;
    }
    let detach = "mutation ($id: ID!) { detachCluster(id: $id) { id } }";
    t.admin.data(detach, json!({"id": third["id"]})).await;
    told(&mut clusters, "deleted", &third["id"]).await;
    t.stop().await;
}

async fn a_lost_connection_goes_on_where_it_was(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let repository = t.admin.repository("/nowhere").await;
    let cluster = t.admin.cluster("blue").await;
    let web = t.admin.service(&cluster, &repository, "web").await;
    let (lost, _, cursor) = listening(&t.reader, SERVICES, json!({})).await;
    drop(lost);
    let api = t.admin.service(&cluster, &repository, "api").await;
    rename(&t.admin, &web, "other").await;

    let (mut again, event, later) = listening(&t.reader, SERVICES, json!({"after": cursor})).await;
    let mut changed: Vec<&str> =
        event["changed"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    changed.sort_unstable();
    let mut expected = [api["id"].as_str().unwrap(), web["id"].as_str().unwrap()];
    expected.sort_unstable();
    // By id. What was bound in the second of the cursor may be told again, too: then they read again besides.
    assert_eq!(changed.as_slice(), &expected[..]);
    rename(&t.admin, &api, "other").await;
    told(&mut again, "changed", &api["id"]).await;

    // One of another history, and one that is too old: nobody knows what was missed.
    let (rest, at) = later.rsplit_once('.').unwrap();
    let (_, position) = rest.rsplit_once('.').unwrap();
    for old in [format!("elsewhere.{position}.{at}"), format!("{rest}.1")] {
        let (_, event, _) = listening(&t.reader, SERVICES, json!({"after": old})).await;
        assert_eq!((&event["changed"], &event["readAgain"]), (&json!([]), &json!(true)), "{old}");
    }
    let answer = t.reader.ask(SERVICES, json!({"after": "nothing"})).await;
    assert_eq!(answer.outcome(), "INVALID", "{answer:?}");
    t.stop().await;
}

async fn whoever_may_not_listen_any_more_is_gone(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let token = async |person: &Person| {
        let made = person.data("mutation { createAccessToken { id token } }", json!({})).await;
        let made = &made["createAccessToken"];
        (made["id"].clone(), person.with_token(made["token"].as_str().unwrap()))
    };
    let (id, narrow) = token(&t.reader).await;
    let (mut revoked, ..) = listening(&narrow, SERVICES, json!({})).await;
    // One that has begun and listens to nothing ends, too.
    let mut idle = Socket::of(&narrow).await;
    let (mut suspended, ..) = listening(&t.stranger, SERVICES, json!({})).await;
    let (mut stays, ..) = listening(&t.reader, SERVICES, json!({})).await;

    t.reader.data("mutation ($t: String!) { deleteAccessToken(token: $t) { id } }", json!({"t": id})).await;
    assert_eq!(revoked.hear().await, Heard::Closed(4401));
    assert_eq!(idle.hear().await, Heard::Closed(4401));
    let suspend = "mutation ($id: ID!) { suspendUser(id: $id) { id } }";
    t.admin.data(suspend, json!({"id": t.stranger.id})).await;
    assert_eq!(suspended.hear().await, Heard::Closed(4401));
    stays.say(&json!({"type": "ping"})).await;
    assert_eq!(stays.hear().await, Heard::Message(json!({"type": "pong"})));

    // A console that stops says so.
    t.stop().await;
    assert_eq!(stays.hear().await, Heard::Closed(1001));
}

async fn what_one_replica_does_another_tells(database: TestDatabase) {
    let t = TestServer::replicas(&database).await;
    let repository = t.admin.repository("/nowhere").await;
    let cluster = t.admin.cluster("blue").await;
    let mut listeners = Vec::new();
    for replica in 0..3 {
        listeners.push(listening(&t.reader.at(replica), SERVICES, json!({})).await);
    }
    let web = t.admin.at(1).service(&cluster, &repository, "web").await;
    let mut cursors = Vec::new();
    for (socket, ..) in &mut listeners {
        let event = told(socket, "changed", &web["id"]).await;
        cursors.push(event["cursor"].as_str().unwrap().to_owned());
    }
    drop(listeners);
    rename(&t.admin.at(2), &web, "other").await;
    // A cursor of one replica is good at another.
    for (replica, cursor) in cursors.into_iter().enumerate() {
        let at = t.reader.at((replica + 1) % 3);
        let (_, event, _) = listening(&at, SERVICES, json!({"after": cursor})).await;
        assert_eq!(event["changed"], json!([web["id"]]), "{event}");
    }
    t.stop().await;
}

async fn a_browsers_cookie_counts_for_our_own_page_only(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let mut browser = Browser::new(&t);
    let signed_in = browser
        .submit(
            "/auth/sign-in",
            &[
                ("email", "reader@example.com"),
                ("password", "another long password"),
                ("then", "/clusters?q=a"),
            ],
        )
        .await;
    assert_eq!((signed_in.status, signed_in.location()), (303, "/clusters?q=a"), "{signed_in:?}");
    let cookie = browser.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
    let (cookie, home) = (cookie.join("; "), browser.home.clone());
    let evil = home.replace("127.0.0.1", "127.0.0.1.evil.test");
    for origin in [None, Some("null"), Some("https://evil.test"), Some(evil.as_str())] {
        let mut headers = vec![("cookie", cookie.as_str()), ("x-plural-csrf", "1")];
        headers.extend(origin.map(|origin| ("origin", origin)));
        assert_eq!(Socket::open(&home, &headers).await.err(), Some(403), "{origin:?}");
    }
    let mut socket =
        Socket::open(&home, &[("cookie", cookie.as_str()), ("origin", home.as_str())]).await.unwrap();
    socket.begin(json!({})).await;
    socket.subscribe("1", SERVICES, json!({})).await;
    assert_eq!(of_root(&socket.event().await)["changed"], json!([]));

    // Signing out ends it.
    browser.submit("/auth/sign-out", &[]).await;
    assert_eq!(socket.hear().await, Heard::Closed(4401));
    // The cookie is worth nothing any more, and a wrong token never was.
    let headers = [("cookie", cookie.as_str()), ("origin", home.as_str())];
    assert_eq!(Socket::open(&home, &headers).await.err(), Some(401));
    assert_eq!(Socket::open(&home, &[("authorization", "Bearer console-1")]).await.err(), Some(401));
    t.stop().await;
}

async fn attack_26_a_socket_has_limits(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let closes = async |socket: &mut Socket, text: &str, code: u16| {
        socket.text(text).await;
        assert_eq!(socket.hear().await, Heard::Closed(code), "{}", &text[..text.len().min(80)]);
    };
    // Before it has begun, nothing but that is done; and it begins with a token, once.
    let subscribe = json!({"type": "subscribe", "id": "1", "payload": {"query": SERVICES}}).to_string();
    for (text, code) in [
        (subscribe.as_str(), 4401),
        (r#"{"type": "connection_init"}"#, 4401),
        (r#"{"type": "connection_init", "payload": {"token": "console-1"}}"#, 4401),
        ("{}", 4400),
        ("[", 4400),
        (r#"{"type": "start", "id": "1", "payload": {}}"#, 4400),
    ] {
        closes(&mut Socket::open(&t.console.url, &[]).await.unwrap(), text, code).await;
    }
    let mut late = Socket::open(&t.console.url, &[]).await.unwrap();
    late.begin(json!({"Authorization": format!("Bearer {}", t.reader.token.as_ref().unwrap())})).await;
    closes(&mut late, r#"{"type": "connection_init"}"#, 4429).await;

    let mut socket = Socket::of(&t.reader).await;
    for number in 0..100 {
        socket.subscribe(&number.to_string(), SERVICES, json!({})).await;
        socket.event().await;
    }
    let refused = async |socket: &mut Socket, id: &str| match socket.hear().await {
        Heard::Message(message) if message["type"] == "error" && message["id"] == id => {
            message["payload"][0]["message"].as_str().unwrap().to_owned()
        }
        other => panic!("{other:?}"),
    };
    socket.subscribe("more", SERVICES, json!({})).await;
    assert!(refused(&mut socket, "more").await.contains("at most 100"));
    // One that ends makes room.
    socket.say(&json!({"type": "complete", "id": "7"})).await;
    for (document, told) in [
        ("{ me { id } }", "sent by POST"),
        ("mutation { createAccessToken { id } }", "sent by POST"),
        ("subscription { nothing }", "Unknown field"),
        ("subscription { a: clusterDelta { cursor } b: clusterDelta { cursor } }", "at most 1 root"),
        ("subscription {", "expected"),
    ] {
        socket.subscribe("x", document, json!({})).await;
        let message = refused(&mut socket, "x").await;
        assert!(message.contains(told), "{document}: {message}");
    }
    socket.subscribe("x", SERVICES, json!({})).await;
    socket.event().await;
    closes(&mut socket, &subscribe, 4409).await;

    // Nor do many sockets make more of them for one user.
    let mut sockets = Vec::new();
    for _ in 0..3 {
        let mut socket = Socket::of(&t.stranger).await;
        for number in 0..100 {
            socket.subscribe(&number.to_string(), SERVICES, json!({})).await;
            socket.event().await;
        }
        sockets.push(socket);
    }
    let mut more = Socket::of(&t.stranger).await;
    more.subscribe("more", SERVICES, json!({})).await;
    assert!(refused(&mut more, "more").await.contains("at most 300"));
    sockets[0].say(&json!({"type": "complete", "id": "7"})).await;
    // It was heard when what comes after it is answered.
    sockets[0].say(&json!({"type": "ping"})).await;
    assert_eq!(sockets[0].hear().await, Heard::Message(json!({"type": "pong"})));
    more.subscribe("more", SERVICES, json!({})).await;
    more.event().await;

    // A subscription is nothing for a request.
    let body = json!({"query": "subscription { clusterDelta { cursor } }"}).to_string();
    let answer = t.reader.post("/gql", "application/json", body).await;
    assert_eq!(answer.outcome(), "INVALID", "{answer:?}");
    let mut socket = Socket::of(&t.reader).await;
    socket.text(&"x".repeat(200 << 10)).await;
    assert!(matches!(socket.hear().await, Heard::Closed(_)));
    t.stop().await;
}
