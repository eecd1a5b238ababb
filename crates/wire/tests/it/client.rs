use plural_wire::{
    Client, ClientError, ClientOptions, DeleteCluster, ErrorCode, GetCluster, ListClusters, Me, PAGE_SIZE,
    Secret, all_pages,
};
use serde_json::{Value, json};

use crate::server::Server;

fn me() -> Value {
    json!({"data": {"me": {"id": "1", "name": "Ada", "email": "ada@example.com"}}})
}

fn refusal(code: &str) -> Value {
    json!({"data": null, "errors": [{
        "message": "it is so", "path": ["me"], "extensions": {"code": code, "requestId": "r-1"}
    }]})
}

#[tokio::test]
async fn a_query_carries_name_document_and_token() {
    let server = Server::answering(&[(200, me())]).await;
    let user = server.client(Some("console-secret")).send(&Me {}).await.unwrap();
    assert_eq!(user.email, "ada@example.com");
    let asked = server.asked();
    assert_eq!(asked[0].0.as_deref(), Some("Token console-secret"));
    assert_eq!(asked[0].1["operationName"], "Me");
    assert!(asked[0].1["query"].as_str().unwrap().starts_with("query Me {"));
}

#[tokio::test]
async fn a_query_is_repeated_while_the_console_is_busy() {
    let busy = json!({"message": "starting"});
    let server =
        Server::answering(&[(503, busy.clone()), (200, refusal("UNAVAILABLE")), (429, busy), (200, me())])
            .await;
    server.client(None).send(&Me {}).await.unwrap();
    assert_eq!(server.asked().len(), 4);
}

#[tokio::test]
async fn a_mutation_that_may_have_arrived_is_not_repeated() {
    let server = Server::answering(&[(503, json!({"message": "stopping"}))]).await;
    let error = server.client(None).send(&DeleteCluster { id: "1".into() }).await.unwrap_err();
    assert_eq!(error.to_string(), format!("{} answered HTTP 503: stopping", server.url));
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_missing_login_is_said_in_one_way_however_the_console_says_it() {
    for answer in [
        (401, json!({"message": "unauthenticated"})),
        (200, json!({"data": null, "errors": [{"message": " Unauthenticated "}]})),
        (200, refusal("UNAUTHENTICATED")),
    ] {
        let server = Server::answering(&[answer]).await;
        let error = server.client(Some("console-wrong")).send(&Me {}).await.unwrap_err();
        assert!(matches!(error, ClientError::Unauthenticated { .. }), "{error:?}");
        let hint = error.hint().unwrap();
        assert!(hint.contains(&format!("plural login --url {}", server.url)), "{hint}");
        assert!(!format!("{error:?} {error} {hint}").contains("console-wrong"));
    }
}

#[tokio::test]
async fn a_refusal_keeps_its_code_and_request_id() {
    let server = Server::answering(&[(200, refusal("INTERNAL"))]).await;
    let error = server.client(None).send(&Me {}).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::Internal));
    assert!(error.hint().unwrap().contains("r-1"));
}

#[tokio::test]
async fn null_for_an_object_is_not_found() {
    let server = Server::answering(&[(200, json!({"data": {"cluster": null}}))]).await;
    let ask = GetCluster { id: None, handle: Some("prod".into()) };
    let error = server.client(None).send(&ask).await.unwrap_err();
    assert!(error.is_not_found(), "{error:?}");
}

#[tokio::test]
async fn something_that_is_no_console_is_named_as_such() {
    let server = Server::answering(&[(200, json!([1, 2])), (404, json!("no"))]).await;
    let client = server.client(None);
    let error = client.send(&Me {}).await.unwrap_err();
    assert!(
        error.to_string().starts_with("the answer to Me cannot be read: not a GraphQL answer"),
        "{error}"
    );
    let error = client.send(&Me {}).await.unwrap_err();
    assert!(error.hint().unwrap().contains("does not seem to be a console"));
}

#[tokio::test]
async fn what_is_too_large_is_not_to_be_tried_again() {
    let server = Server::answering(&[(413, json!({"message": "too large"})), (503, json!({}))]).await;
    let client = server.client(None);
    let hint = client.send(&Me {}).await.unwrap_err().hint().unwrap();
    assert!(hint.contains("too large for one request") && !hint.contains("try again"), "{hint}");
    assert!(client.send(&Me {}).await.unwrap_err().hint().unwrap().contains("try again"));
}

#[tokio::test]
async fn refused_and_unknown_hosts_are_told_apart() {
    // A port that was just free: nothing of ours listens there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::new(&ClientOptions::new(&url, None)).unwrap();
    let error = client.send(&Me {}).await.unwrap_err();
    assert!(matches!(error, ClientError::Refused { .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("nothing answers at {url}: connection refused"));

    let options = ClientOptions::new("http://no-such-host.invalid", None);
    let client = Client::new(&ClientOptions { insecure_http: true, ..options }).unwrap();
    let error = client.send(&Me {}).await.unwrap_err();
    assert!(matches!(error, ClientError::Dns { .. }), "{error:?}");
}

#[tokio::test]
async fn a_console_that_speaks_no_tls_is_a_tls_error() {
    let server = Server::answering(&[]).await;
    let url = server.url.replace("http://", "https://");
    let client = Client::new(&ClientOptions::new(&url, Some(Secret::new("console-x")))).unwrap();
    let error = client.send(&Me {}).await.unwrap_err();
    assert!(matches!(error, ClientError::Tls { .. }), "{error:?}");
    assert!(error.to_string().contains("does not speak TLS"), "{error}");
}

fn page(names: &[&str], next: Option<&str>) -> Value {
    let edges: Vec<Value> = names
        .iter()
        .map(|name| {
            json!({"node": {"id": name, "name": name, "handle": name, "distro": "NEWEST", "currentVersion": null,
                "protect": false, "insertedAt": "2026-01-02T03:04:05.678901Z", "pingedAt": null, "deletedAt": null,
                "tags": null, "metadata": {"a": 1}, "project": null}})
        })
        .collect();
    json!({"data": {"clusters": {"pageInfo": {"hasNextPage": next.is_some(), "endCursor": next}, "edges": edges}}})
}

fn list(after: Option<String>) -> ListClusters {
    ListClusters { after, first: PAGE_SIZE, project_id: None, tag_query: None }
}

#[tokio::test]
async fn pages_are_read_to_the_end() {
    let server = Server::answering(&[(200, page(&["a", "b"], Some("2"))), (200, page(&["c"], None))]).await;
    let clusters = all_pages(&server.client(None), list).await.unwrap();
    assert_eq!(clusters.iter().map(|cluster| cluster.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(server.asked()[1].1["variables"]["after"], "2");
}

#[tokio::test]
async fn a_cursor_that_does_not_move_ends_the_listing() {
    let server = Server::answering(&[(200, page(&["a"], Some("2"))), (200, page(&["b"], Some("2")))]).await;
    let error = all_pages(&server.client(None), list).await.unwrap_err();
    assert!(error.to_string().contains("not where"), "{error}");
}

/// A server that is only reached through the proxy: it has no name that anybody could look up.
#[tokio::test]
async fn a_proxy_is_used_where_it_is_named_and_nowhere_else() {
    use plural_wire::ProxyOptions;

    let proxy = Server::answering(&[(200, me()), (200, me())]).await;
    let options = |url: &str, except: Option<&str>| ClientOptions {
        proxy: Some(ProxyOptions {
            url: Secret::new(proxy.url.replace("http://", "http://ada:hunter2@")),
            except: except.map(str::to_owned),
        }),
        insecure_http: true,
        ..ClientOptions::new(url, Some(Secret::new("console-secret")))
    };
    let away = Client::new(&options("http://console.invalid", Some("example.com"))).unwrap();
    assert_eq!(away.send(&Me {}).await.unwrap().email, "ada@example.com");
    assert_eq!(proxy.asked().len(), 1);

    // A host that is excepted is asked for itself, and one on this machine always is.
    let excepted = Client::new(&options("http://console.invalid", Some("example.com,.invalid"))).unwrap();
    let error = excepted.send(&Me {}).await.unwrap_err();
    assert!(matches!(&error, ClientError::Dns { host, .. } if host == "console.invalid"), "{error:?}");
    let here = Server::answering(&[(200, me())]).await;
    Client::new(&options(&here.url, None)).unwrap().send(&Me {}).await.unwrap();
    assert_eq!((here.asked().len(), proxy.asked().len()), (1, 1));

    // What goes wrong names the proxy, and never its password.
    let error = Client::new(&ClientOptions {
        proxy: Some(ProxyOptions { url: Secret::new("http://ada:hunter2@127.0.0.1:9"), except: None }),
        ..ClientOptions::new("https://console.invalid", None)
    });
    let error = error.unwrap().send(&Me {}).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains("through the proxy http://…@127.0.0.1:9"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    for wrong in ["socks5://127.0.0.1:1080", "http://"] {
        let proxy = Some(ProxyOptions { url: Secret::new(wrong), except: None });
        let made =
            Client::new(&ClientOptions { proxy, ..ClientOptions::new("https://console.invalid", None) });
        assert!(matches!(made, Err(ClientError::Proxy { .. })), "{wrong}");
    }
}

#[tokio::test]
async fn plain_http_stays_on_this_machine() {
    for refused in [
        "http://console.example.com",
        "HTTP://console.example.com:8080/path",
        "http://10.0.0.1",
        "http://[2001:db8::1]:8080",
        "http://0.0.0.0:8080",
        "http://localhost.example.com",
        "http://127.0.0.1.example.com",
    ] {
        let options = ClientOptions::new(refused, Some(Secret::new("console-secret")));
        let error = Client::new(&options).unwrap_err();
        assert!(matches!(error, ClientError::PlainHttp { .. }), "{refused}: {error:?}");
        assert!(error.to_string().contains("in clear"), "{error}");
        assert!(error.hint().unwrap().contains("--insecure-http"), "{error:?}");
        Client::new(&ClientOptions { insecure_http: true, ..options }).unwrap();
    }
    for allowed in [
        "http://127.0.0.1:8080",
        "http://127.9.9.9",
        "http://localhost",
        "http://[::1]:8080",
        "http://[::ffff:127.0.0.1]:8080",
        "https://console.example.com",
    ] {
        Client::new(&ClientOptions::new(allowed, None)).unwrap();
    }
}
