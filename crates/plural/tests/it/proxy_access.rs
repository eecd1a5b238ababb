//! Who may do what through the proxy, and how fast that ends.
//!
//! One backend is enough: what one console tells another needs PostgreSQL; the cluster only has to be there.

use std::time::Duration;

use chrono::TimeDelta;
use plural_agent::ProxyPolicy;
use plural_core::PageArgs;
use plural_testkit::{TestCluster, each_cluster, eventually, one_cluster};

use crate::{
    kubectl::{Running, forward},
    proxy_attacks::Line,
    proxy_world::{Kubectl, ProxyWorld},
    world::PATIENCE,
};

each_cluster!(
    rbac_decides,
    what_a_client_says_of_itself_changes_nothing,
    a_browsers_session_reaches_a_cluster_from_our_own_pages_only,
    what_is_revoked_closes_what_is_open,
    the_agents_own_policy_cannot_be_widened,
    every_request_is_told_in_the_audit_log,
);

one_cluster!(real, "the simulation runs nothing in Pods"; what_is_revoked_closes_shells_and_forwarded_ports);

mod replicas {
    use plural_testkit::run_case;

    #[test]
    fn attack_15_what_is_revoked_at_one_replica_ends_at_another() {
        run_case(super::attack_15_what_is_revoked_at_one_replica_ends_at_another());
    }
}

/// What Kubernetes promises of a watch that was cut: five seconds.
const SOON: Duration = Duration::from_secs(5);

async fn rbac_decides(cluster: TestCluster) -> anyhow::Result<()> {
    let w = ProxyWorld::new(cluster).await?;
    let ada = w.reader("ada").await?;
    let pods = format!("/api/v1/namespaces/{}/pods", w.namespace);
    let (status, body) = w.get(&ada.token, &pods).await?;
    assert_eq!(status, 403, "{body}");
    assert!(
        body.contains(&format!("User \\\"{}\\\" cannot list resource \\\"pods\\\"", ada.email)),
        "{body}"
    );

    w.bind_in_namespace("User", &ada.email, "view").await?;
    eventually(PATIENCE, async || {
        let told = w.get(&ada.token, &pods).await.map_err(|error| format!("{error:#}"))?;
        if told.0 == 200 { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;
    // There and nowhere else, and to look and nothing else.
    for path in ["/api/v1/namespaces/kube-system/pods", "/api/v1/pods", "/api/v1/nodes"] {
        assert_eq!(w.get(&ada.token, path).await?.0, 403, "{path}");
    }
    let secrets = format!("/api/v1/namespaces/{}/secrets", w.namespace);
    assert_eq!(w.get(&ada.token, &secrets).await?.0, 403);

    // A group of the console is a group of the cluster.
    let bob = w.stranger("bob").await?;
    w.bind_at_console(&[ada.id, bob.id]).await?;
    assert_eq!(w.get(&bob.token, &pods).await?.0, 403);
    let (_, group) = w.group("ops", bob.id).await?;
    w.bind_in_namespace("Group", &group, "view").await?;
    eventually(PATIENCE, async || {
        let told = w.get(&bob.token, &pods).await.map_err(|error| format!("{error:#}"))?;
        if told.0 == 200 { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;

    // Who may not see the cluster at the console does not learn that it is there.
    let stranger = w.stranger("eve").await?;
    let (status, body) = w.get(&stranger.token, &pods).await?;
    assert_eq!(status, 404, "{body}");
    assert_eq!(w.get("console-wrong", &pods).await?.0, 401);
    assert_eq!(w.get(&w.deploy_token, &pods).await?.0, 401);
    w.end().await
}

/// What a page of a pod, a frame, a script or a worker asks for has the cookie, too. It is told what anybody without a
/// credential is told, and nothing goes to the cluster.
async fn a_browsers_session_reaches_a_cluster_from_our_own_pages_only(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let w = ProxyWorld::new(cluster).await?;
    let ada = w.reader("ada").await?;
    let home = w.console.public_url.clone();
    let ask = async |path: &str, headers: &[&str]| {
        let head = format!(
            "GET /k8s/blue{path} HTTP/1.1\r\nhost: console\r\ncookie: a=b; __Host-plural-session={}\r\n\
             connection: close\r\n{}\r\n",
            ada.token,
            headers.iter().flat_map(|header| [*header, "\r\n"]).collect::<String>()
        );
        w.http().await?.ask(&head).await
    };
    let fetch =
        ["x-plural-csrf: 1", "sec-fetch-mode: cors", "sec-fetch-dest: empty", "sec-fetch-site: same-origin"];
    let (status, body) = ask("/version", &fetch).await?;
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("gitVersion"), "{body}");
    // It is the user who asks: Kubernetes decides.
    let (status, body) = ask("/api/v1/namespaces/kube-system/secrets", &fetch).await?;
    assert!(status == 403 && body.contains(&ada.email), "{body}");

    let own = format!("origin: {home}");
    for headers in [
        &[][..],
        &["sec-fetch-mode: navigate", "sec-fetch-dest: document", "sec-fetch-site: same-origin"],
        &["sec-fetch-mode: navigate", "sec-fetch-dest: iframe", "sec-fetch-site: same-origin"],
        &["sec-fetch-mode: no-cors", "sec-fetch-dest: script", "sec-fetch-site: same-origin"],
        &["sec-fetch-mode: same-origin", "sec-fetch-dest: serviceworker", "service-worker: script"],
        // A page of a pod, if there were one: it has our origin and no header of ours, or one that a browser adds.
        &[own.as_str(), "sec-fetch-mode: cors", "sec-fetch-dest: empty", "sec-fetch-site: same-origin"],
        &["x-plural-csrf: 1", "origin: https://evil.test"],
        &["x-plural-csrf: 1", "origin: null"],
        &["x-plural-csrf: 1", "sec-fetch-site: same-site"],
        &["x-plural-csrf: 1", "sec-fetch-dest: document"],
        &["upgrade: websocket", "connection: upgrade", "origin: https://evil.test"],
    ] {
        let (status, body) = ask("/version", headers).await?;
        assert!(status == 403 && body.contains("a browser's session"), "{headers:?}: {status} {body}");
    }
    for path in [
        "/api/v1/namespaces/default/pods/p/proxy/",
        "/api/v1/namespaces/default/services/s:80/proxy/x",
        "/api/v1/nodes/n/proxy/metrics",
        "/api/v1/nodes/n/%70roxy/metrics",
    ] {
        let (status, body) = ask(path, &fetch).await?;
        assert!(status == 403 && body.contains("a browser's session"), "{path}: {status} {body}");
    }
    w.end().await
}

async fn what_a_client_says_of_itself_changes_nothing(cluster: TestCluster) -> anyhow::Result<()> {
    let w = ProxyWorld::new(cluster).await?;
    let ada = w.reader("ada").await?;
    let head = |extra: &str| {
        format!(
            "GET /k8s/blue/api/v1/namespaces/kube-system/secrets HTTP/1.1\r\nhost: console\r\n\
             authorization: Bearer {}\r\nconnection: close\r\n{extra}\r\n",
            ada.token
        )
    };
    for extra in [
        "",
        "Impersonate-User: system:admin\r\nImpersonate-Group: system:masters\r\n",
        "Impersonate-Group: system:masters\r\n",
        "impersonate-uid: 0\r\nImpersonate-Extra-Scopes: all\r\n",
        "X-Remote-User: system:admin\r\nX-Remote-Group: system:masters\r\n",
        "X_Remote_User: system:admin\r\n",
        "X-Forwarded-User: system:admin\r\nForwarded: for=127.0.0.1\r\n",
        "Connection: close, Impersonate-User, Impersonate-Group\r\n",
        "Connection: close, Authorization\r\n",
        "X-Original-URL: /api/v1/namespaces\r\nX-HTTP-Method-Override: DELETE\r\n",
        "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YWRtaW4\r\n",
    ] {
        let (status, body) = w.http().await?.ask(&head(extra)).await?;
        assert_eq!(status, 403, "{extra}: {body}");
        assert!(body.contains(&ada.email), "{extra}: {body}");
    }
    w.end().await
}

async fn what_is_revoked_closes_what_is_open(cluster: TestCluster) -> anyhow::Result<()> {
    Box::pin(everything_revoked(ProxyWorld::new(cluster).await?)).await
}

/// Revoked at the replica that people come to. The other one, which holds the agent's stream, decided what is open,
/// and hears of it when it looks again at what it granted, every two seconds.
async fn attack_15_what_is_revoked_at_one_replica_ends_at_another() -> anyhow::Result<()> {
    let Some(w) = ProxyWorld::with_replicas(TestCluster::kubesim().await?).await? else { return Ok(()) };
    // What it remembers of people who have nothing open ends as soon.
    let other = w.other.as_ref().unwrap();
    let people = [w.stranger("bob").await?, w.stranger("eve").await?, w.stranger("zoe").await?];
    let [token, binding, user] = &people;
    w.bind_at_console(&[token.id, binding.id, user.id]).await?;
    for person in &people {
        let told = w.get_at(other, &person.token, "/version").await?;
        // Whatever the cluster thinks of them, it was asked.
        assert!([200, 403].contains(&told.0), "{told:?}");
    }
    w.app().token_delete(&w.as_admin().await?, &token.token).await?;
    w.bind_at_console(&[token.id, user.id]).await?;
    w.app().user_delete(&w.as_admin().await?, user.id).await?;
    for (person, refused) in [(token, 401), (binding, 404), (user, 401)] {
        eventually(SOON, async || {
            let told =
                w.get_at(other, &person.token, "/version").await.map_err(|error| format!("{error:#}"))?;
            if told.0 == refused { Ok(()) } else { Err(format!("{}: {told:?}", person.email)) }
        })
        .await;
    }
    Box::pin(everything_revoked(w)).await
}

async fn everything_revoked(w: ProxyWorld) -> anyhow::Result<()> {
    let ada = w.reader("ada").await?;
    w.bind_in_namespace("User", &ada.email, "view").await?;
    let path = format!("/api/v1/namespaces/{}/configmaps?watch=1", w.namespace);
    let watch = async |token: &str| -> Line {
        eventually(PATIENCE, async || {
            let line = w.http().await.map_err(|error| format!("{error:#}"))?;
            line.watch(&format!("/k8s/blue{path}"), token).await.map_err(|error| format!("{error:#}"))
        })
        .await
    };

    // A token that is taken away.
    let token = w.token(ada.id, None).await?;
    let (mut ended, mut stays) = (watch(&token).await, watch(&ada.token).await);
    w.app().token_delete(&w.as_admin().await?, &token).await?;
    ended.until_closed(SOON).await?;
    assert_eq!(w.get(&token, "/version").await?.0, 401);

    // A token that ends by itself.
    let mut ended = eventually(PATIENCE, async || {
        // On a busy machine one may end before it is used.
        let token = w.token(ada.id, Some(TimeDelta::seconds(2))).await;
        let token = token.map_err(|error| format!("{error:#}"))?;
        let line = w.http().await.map_err(|error| format!("{error:#}"))?;
        line.watch(&format!("/k8s/blue{path}"), &token).await.map_err(|error| format!("{error:#}"))
    })
    .await;
    ended.until_closed(SOON + Duration::from_secs(2)).await?;

    // A group that is left: who somebody is in the cluster changed.
    let (group, _) = w.group("ops", ada.id).await?;
    stays.until_closed(SOON).await?;
    let mut ended = watch(&ada.token).await;
    w.app().group_member_delete(&w.as_admin().await?, group, ada.id).await?;
    ended.until_closed(SOON).await?;

    // A binding at the console that is taken away.
    let mut ended = watch(&ada.token).await;
    w.bind_at_console(&[]).await?;
    ended.until_closed(SOON).await?;
    assert_eq!(w.get(&ada.token, "/version").await?.0, 404);

    // A user that is suspended. What it had does not come back.
    w.bind_at_console(&[ada.id]).await?;
    let mut ended = watch(&ada.token).await;
    w.app().user_suspend(&w.as_admin().await?, ada.id).await?;
    ended.until_closed(SOON).await?;
    assert_eq!(w.get(&ada.token, "/version").await?.0, 401);
    w.app().user_resume(&w.as_admin().await?, ada.id).await?;
    assert_eq!(w.get(&ada.token, "/version").await?.0, 401);

    // A user that is removed.
    let token = w.token(ada.id, None).await?;
    let mut ended = watch(&token).await;
    w.app().user_delete(&w.as_admin().await?, ada.id).await?;
    ended.until_closed(SOON).await?;
    assert_eq!(w.get(&ada.token, "/version").await?.0, 401);

    // An agent whose token is replaced serves nobody any more.
    let mut ended = {
        w.bind_in_cluster(&w.admin.email, "cluster-admin").await?;
        watch(&w.admin.token).await
    };
    let cluster = plural_app::cluster::ClusterSelector::Id(w.cluster_id);
    w.app().cluster_token_rotate(&w.as_admin().await?, &cluster).await?;
    ended.until_closed(SOON).await?;
    assert_eq!(w.get(&w.admin.token, "/version").await?.0, 503);
    let holder = w.other.as_ref().unwrap_or(&w.console);
    assert!(holder.app().agent_authenticate(&w.deploy_token).is_err());
    w.end().await
}

/// A command that goes on for longer than a revocation takes, by either protocol.
async fn shell(kubectl: &Kubectl, websockets: &str) -> anyhow::Result<Running> {
    let mut command = kubectl.command();
    command.args(["exec", "-i", "shell", "--", "sh", "-c", "echo ready; sleep 60"]);
    command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets).stdin(std::process::Stdio::piped());
    let mut running = Running::start(command)?;
    running.until("ready").await?;
    Ok(running)
}

async fn what_is_revoked_closes_shells_and_forwarded_ports(cluster: TestCluster) -> anyhow::Result<()> {
    let w = ProxyWorld::new(cluster).await?;
    let ada = w.reader("ada").await?;
    w.bind_in_namespace("User", &ada.email, "edit").await?;
    let token = w.token(ada.id, None).await?;
    let (Some(gone), Some(stays)) = (w.kubectl(&token)?, w.kubectl(&ada.token)?) else { return Ok(()) };
    let granted = eventually(PATIENCE, async || {
        gone.ok(&["auth", "can-i", "create", "pods/exec"]).await.map_err(|error| format!("{error:#}"))
    });
    assert_eq!(granted.await.trim(), "yes");
    gone.ok(&["run", "shell", "--image=example.com/shell:1"]).await?;
    gone.ok(&["wait", "pod/shell", "--for=condition=Ready", "--timeout=60s"]).await?;

    // A token that is taken away.
    let mut ended = [
        shell(&gone, "true").await?,
        shell(&gone, "false").await?,
        forward(&gone, "true").await?.0,
        forward(&gone, "false").await?.0,
    ];
    let mut other = shell(&stays, "true").await?;
    w.app().token_delete(&w.as_admin().await?, &token).await?;
    let closed = futures::future::join_all(ended.iter_mut().map(|running| running.ended(SOON))).await;
    closed.into_iter().collect::<anyhow::Result<Vec<()>>>()?;
    // The user's other token still holds.
    assert!(other.ended(Duration::ZERO).await.is_err());

    // A binding at the console that is taken away.
    w.bind_at_console(&[]).await?;
    other.ended(SOON).await?;
    w.end().await
}

async fn the_agents_own_policy_cannot_be_widened(cluster: TestCluster) -> anyhow::Result<()> {
    let policy = ProxyPolicy {
        read_only: true,
        no_secrets: true,
        denied_namespaces: vec!["kube-system".to_owned()],
        ..ProxyPolicy::default()
    };
    let w = ProxyWorld::with_policy(cluster, policy).await?;
    w.bind_in_cluster(&w.admin.email, "cluster-admin").await?;
    let own = format!("/api/v1/namespaces/{}", w.namespace);
    eventually(PATIENCE, async || {
        let told = w.get(&w.admin.token, &format!("{own}/configmaps")).await.map_err(|e| format!("{e:#}"))?;
        if told.0 == 200 { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;
    for path in [
        format!("{own}/secrets"),
        format!("{own}/%73ecrets"),
        "/api/v1/secrets".to_owned(),
        "/api/v1/namespaces/kube-system/configmaps".to_owned(),
        "/api/v1/namespaces/kube%2Dsystem/configmaps".to_owned(),
        "/api/v1/configmaps".to_owned(),
        format!("{own}/services/x/proxy/"),
    ] {
        let (status, body) = w.get(&w.admin.token, &path).await?;
        assert!(status == 403 && body.contains("by its own policy"), "{path}: {status} {body}");
    }
    let head = format!(
        "DELETE /k8s/blue{own}/configmaps HTTP/1.1\r\nhost: c\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
        w.admin.token
    );
    let (status, body) = w.http().await?.ask(&head).await?;
    assert!(status == 403 && body.contains("read-only"), "{status} {body}");
    w.end().await
}

async fn every_request_is_told_in_the_audit_log(cluster: TestCluster) -> anyhow::Result<()> {
    let w = ProxyWorld::new(cluster).await?;
    let ada = w.reader("ada").await?;
    let (_, ops) = w.group("ops", ada.id).await?;
    let path = format!("/api/v1/namespaces/{}/pods/p/exec?command=secret-word&container=c", w.namespace);
    assert_eq!(w.get(&ada.token, &path).await?.0, 403);
    assert_eq!(w.get(&ada.token, "/api//v1").await?.0, 400);
    let cluster = plural_app::cluster::ClusterSelector::Id(w.cluster_id);
    let (denied, smuggled) = eventually(PATIENCE, async || {
        let ctx = w.as_admin().await.map_err(|error| format!("{error:#}"))?;
        let page = w.app().cluster_audit_list(&ctx, &cluster, &PageArgs::first(100)).await;
        let rows: Vec<_> =
            page.map_err(|error| error.to_string())?.edges.into_iter().map(|edge| edge.node.entry).collect();
        let of_ada =
            |code: u16| rows.iter().find(|row| row.actor == ada.email && row.response_code == code).cloned();
        of_ada(403).zip(of_ada(400)).ok_or_else(|| format!("{rows:?}"))
    })
    .await;
    assert_eq!(denied.path, format!("/api/v1/namespaces/{}/pods/p/exec?container=c", w.namespace));
    assert_eq!((denied.method.as_str(), denied.user_id), ("GET", ada.id));
    assert!(denied.duration_ms.is_some() && denied.sent_bytes > 0, "{denied:?}");
    let who = denied.impersonated.as_ref().unwrap();
    assert!(who.user == ada.email && who.groups.contains(&ops), "{who:?}");
    assert_eq!(smuggled.path, "/api//v1");
    // Only the cluster's administrators read it.
    let actor = w.app().actor_authenticate(&ada.token).await?;
    let refused = w.app().cluster_audit_list(&w.app().ctx(actor), &cluster, &PageArgs::first(1)).await;
    assert!(refused.is_err());
    w.end().await
}
