//! Credentials of git and chart repositories belong to one destination: whoever changes any part of it, they arrive
//! nowhere else unless they are given again.

use std::time::Duration;

use plural_testkit::{Thief, eventually};
use serde_json::{Value, json};

use crate::api_server::{Answer, Person, TestServer};

const PATIENCE: Duration = Duration::from_mins(1);
/// Of the repository's owner.
const SECRET: &str = "canary-of-the-owner";
/// Of whoever changes it.
const OWN: &str = "canary-of-his-own";

const UPDATE: &str = "mutation ($id: ID!, $a: GitAttributes!) {
    updateGitRepository(id: $id, attributes: $a) { id url authMethod health error }
  }";

/// Home of the repositories, and where somebody would like their credentials to go.
struct Scene {
    t: TestServer,
    /// May write in the default project.
    writer: Person,
    home: Thief,
    thief: Thief,
}

impl Scene {
    async fn start() -> Self {
        let t = TestServer::start().await;
        let writer = t.admin.add_user("writer@example.com").await;
        let rbac = json!({
            "readBindings": [{"userId": t.reader.id}, {"userId": writer.id}],
            "writeBindings": [{"userId": writer.id}],
            "adminBindings": [{"userId": t.owner.id}],
        });
        t.admin
            .data(
                "mutation ($rbac: RbacAttributes!, $id: ID) { updateRbac(rbac: $rbac, projectId: $id) }",
                json!({"rbac": rbac, "id": t.project}),
            )
            .await;
        Self { t, writer, home: Thief::start().unwrap(), thief: Thief::start().unwrap() }
    }

    fn home_url(&self, name: &str) -> String {
        format!("https://127.0.0.1:{}/team/{name}.git", self.home.address().port())
    }

    /// A repository at home whose credentials have arrived there.
    async fn repository(&self, name: &str) -> String {
        let url = self.home_url(name);
        let attributes = json!({
            "url": url, "username": name, "password": SECRET, "caCertificate": self.home.ca_pem(),
        });
        let made = self
            .t
            .admin
            .data(
                "mutation ($a: GitAttributes!) { createGitRepository(attributes: $a) { id authMethod } }",
                json!({"a": attributes}),
            )
            .await;
        assert_eq!(made["createGitRepository"]["authMethod"], "BASIC");
        eventually(PATIENCE, async || self.home.has(&format!("{name}:{SECRET}")).then_some(())).await;
        made["createGitRepository"]["id"].as_str().unwrap().to_owned()
    }

    /// What somebody could change to have the credentials sent to himself: a name, and the requests one after the other.
    fn changes(&self, name: &str) -> Vec<(&'static str, Vec<Value>)> {
        let (home, port) = (self.home_url(name), self.thief.address().port());
        let home_port = self.home.address().port();
        let ca = self.thief.ca_pem();
        let proxy = json!({"url": format!("http://127.0.0.1:{port}")});
        let path = format!("team/{name}.git");
        vec![
            ("port", vec![json!({"url": format!("https://127.0.0.1:{port}/{path}"), "caCertificate": ca})]),
            (
                "port, then certificates",
                vec![
                    json!({"url": format!("https://127.0.0.1:{port}/{path}")}),
                    json!({"url": format!("https://127.0.0.1:{port}/{path}"), "caCertificate": ca}),
                ],
            ),
            ("host", vec![json!({"url": format!("https://localhost:{port}/{path}"), "caCertificate": ca})]),
            (
                "host alone",
                vec![
                    json!({"url": format!("https://localhost:{home_port}/{path}")}),
                    json!({"url": format!("https://localhost:{port}/{path}"), "caCertificate": ca}),
                ],
            ),
            ("scheme and port", vec![json!({"url": format!("http://127.0.0.1:{port}/{path}")})]),
            (
                "scheme and proxy",
                vec![json!({"url": format!("http://127.0.0.1:{home_port}/{path}"), "proxy": proxy})],
            ),
            (
                "scheme, then proxy",
                vec![
                    json!({"url": format!("http://127.0.0.1:{home_port}/{path}")}),
                    json!({"url": format!("http://127.0.0.1:{home_port}/{path}"), "proxy": proxy}),
                ],
            ),
            ("proxy and certificates", vec![json!({"url": home, "proxy": proxy, "caCertificate": ca})]),
            (
                "certificates, then proxy",
                vec![json!({"url": home, "caCertificate": ca}), json!({"url": home, "proxy": proxy})],
            ),
            (
                "proxy, then certificates",
                vec![json!({"url": home, "proxy": proxy}), json!({"url": home, "caCertificate": ca})],
            ),
            (
                "socks proxy",
                vec![json!({"url": home, "proxy": {"url": format!("socks5h://127.0.0.1:{port}")}})],
            ),
            (
                "host keys, then all",
                vec![
                    json!({"url": home, "knownHosts": "127.0.0.1 ssh-ed25519 AAAA"}),
                    json!({"url": home, "knownHosts": "", "proxy": proxy, "caCertificate": ca}),
                ],
            ),
            (
                "a user name without a password",
                vec![json!({"url": format!("http://127.0.0.1:{port}/{path}"), "username": name})],
            ),
        ]
    }
}

fn repository_of(answer: &Answer) -> &Value {
    &answer.body["data"]["updateGitRepository"]
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_changes_a_git_repository_does_not_get_its_credentials() {
    let scene = Scene::start().await;
    let roles = [("admin", &scene.t.admin), ("owner", &scene.t.owner), ("writer", &scene.writer)];
    for (role, person) in roles {
        for at in 0..scene.changes("x").len() {
            let name = format!("{role}-{at}");
            let id = scene.repository(&name).await;
            let (what, requests) = scene.changes(&name).swap_remove(at);
            for (step, attributes) in requests.iter().enumerate() {
                let before = scene.thief.connections();
                let answer = person.ask(UPDATE, json!({"id": id, "a": attributes})).await;
                assert_eq!(answer.outcome(), "OK", "{role}: {what}: {answer:?}");
                if step == 0 {
                    let told = repository_of(&answer);
                    assert_eq!(told["authMethod"], Value::Null, "{role}: {what}");
                    let error = told["error"].as_str().unwrap();
                    assert!(error.contains("removed") && error.contains("set them again"), "{error}");
                }
                // Where the change leads to the thief, he is asked, and would have been given them.
                if step + 1 == requests.len() {
                    eventually(PATIENCE, async || (scene.thief.connections() > before).then_some(())).await;
                }
            }
            let stolen = scene.thief.credentials();
            assert!(!stolen.iter().any(|value| value.contains(SECRET)), "{role}: {what}: {stolen:?}");
        }
    }
    // Who gives credentials with the change has these sent, and no others.
    let id = scene.repository("again").await;
    let url = format!("https://127.0.0.1:{}/x.git", scene.thief.address().port());
    let attributes =
        json!({"url": url, "caCertificate": scene.thief.ca_pem(), "username": "me", "password": OWN});
    let answer = scene.writer.ask(UPDATE, json!({"id": id, "a": attributes})).await;
    assert_eq!(repository_of(&answer)["authMethod"], "BASIC", "{answer:?}");
    eventually(PATIENCE, async || scene.thief.has(&format!("me:{OWN}")).then_some(())).await;
    assert!(!scene.thief.has(SECRET), "{:?}", scene.thief.credentials());
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_stay_where_their_destination_stays() {
    let scene = Scene::start().await;
    let id = scene.repository("stays").await;
    let port = scene.home.address().port();
    for (attributes, is_fetched) in [
        json!({"url": format!("https://127.0.0.1:{port}/team/elsewhere.git")}),
        json!({"url": format!("HTTPS://127.0.0.1:{port}/team/elsewhere")}),
        json!({"url": format!("https://127.1:{port}/team/elsewhere")}),
        // What clients send of what was left out.
        json!({"url": scene.home_url("stays"), "password": "", "proxy": {"url": ""}, "knownHosts": ""}),
        json!({"url": scene.home_url("stays"), "caCertificate": scene.home.ca_pem()}),
        json!({"url": scene.home_url("stays"), "verify": {"allowedSigners": "ada ssh-ed25519 AAAA"}}),
    ]
    .into_iter()
    // Where the address or the certificates are the same in other words, nothing changes and nothing is fetched.
    .zip([true, true, false, true, false, true])
    {
        let before = scene.home.credentials().len();
        let answer = scene.writer.ask(UPDATE, json!({"id": id, "a": attributes})).await;
        assert_eq!(repository_of(&answer)["authMethod"], "BASIC", "{attributes}: {answer:?}");
        if is_fetched {
            eventually(PATIENCE, async || (scene.home.credentials().len() > before).then_some(())).await;
        }
    }
    assert!(scene.home.credentials().iter().all(|value| value.contains(SECRET)));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_write_changes_nothing() {
    let scene = Scene::start().await;
    let id = scene.repository("kept").await;
    for (person, outcome) in
        [(&scene.t.reader, "FORBIDDEN"), (&scene.t.stranger, "NOT_FOUND"), (&scene.t.nobody, "401")]
    {
        for (what, requests) in scene.changes("kept") {
            for attributes in requests {
                let mut given = attributes.clone();
                given["password"] = OWN.into();
                for attributes in [attributes, given] {
                    let answer = person.ask(UPDATE, json!({"id": id, "a": attributes})).await;
                    assert_eq!(answer.outcome(), outcome, "{what}: {answer:?}");
                }
            }
        }
    }
    let told = scene
        .t
        .admin
        .data("query ($id: ID!) { gitRepository(id: $id) { authMethod url } }", json!({"id": id}));
    assert_eq!(told.await["gitRepository"], json!({"authMethod": "BASIC", "url": scene.home_url("kept")}));
    assert_eq!(scene.thief.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_with_two_meanings_are_refused() {
    let scene = Scene::start().await;
    let id = scene.repository("meant").await;
    let (home, thief) = (scene.home.address(), scene.thief.address());
    for url in [
        format!("https://{home}@{thief}/team/meant.git"),
        format!("https://{home}\\@{thief}/team/meant.git"),
        format!("https://{home}%40{thief}/team/meant.git"),
        format!("https://{home}#@{thief}/team/meant.git"),
        format!("https://{home}?@{thief}/team/meant.git"),
        format!("https://{home}/team/../other/meant.git"),
        format!("https://{home}/team/%2e%2e/other/meant.git"),
        format!("https://{home}/team/%2e./other/meant.git"),
        format!("https://{home}/team%2f..%2fother/meant.git"),
        format!("https://{home}/team/meant.git%0a"),
        format!("https://{home}/team/%252e%252e/meant.git"),
        format!("https://user:pw@{home}/team/meant.git"),
        "https://[::1/x".to_owned(),
        "https://1.2.3.4.5/x".to_owned(),
    ] {
        let answer = scene.writer.ask(UPDATE, json!({"id": id, "a": {"url": url}})).await;
        assert_eq!(answer.outcome(), "INVALID", "{url}: {answer:?}");
    }
    assert_eq!(scene.thief.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_over_http_are_for_the_operator_to_allow() {
    let thief = Thief::start().unwrap();
    let t = TestServer::with(|config| config.allow_credentials_over_http = false).await;
    let create = "mutation ($a: GitAttributes!) { createGitRepository(attributes: $a) { id } }";
    let plain = format!("http://{}/x.git", thief.address());
    let refused = t.admin.ask(create, json!({"a": {"url": plain, "password": SECRET}})).await;
    assert_eq!(refused.outcome(), "INVALID", "{refused:?}");
    assert!(refused.message().contains("--allow-credentials-over-http"), "{refused:?}");
    let made = t.admin.data(create, json!({"a": {"url": plain}})).await;
    let attributes = json!({"url": plain, "username": "me", "password": SECRET});
    let id = &made["createGitRepository"]["id"];
    assert_eq!(t.admin.ask(UPDATE, json!({"id": id, "a": attributes})).await.outcome(), "INVALID");
    let upsert = "mutation ($u: String!, $a: HelmRepositoryAttributes) {
        upsertHelmRepository(url: $u, attributes: $a) { id }
      }";
    let auth = json!({"auth": {"bearer": {"token": SECRET}}});
    for url in [
        format!("http://{}", thief.address()),
        format!("oci+http://{}", thief.address()),
        format!("oci://{}", thief.address()),
        format!("oci://localhost:{}", thief.address().port()),
    ] {
        assert_eq!(t.admin.ask(upsert, json!({"u": url, "a": auth})).await.outcome(), "INVALID", "{url}");
    }
    eventually(PATIENCE, async || (thief.connections() > 0).then_some(())).await;
    assert!(thief.credentials().is_empty(), "{:?}", thief.credentials());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_changes_a_chart_repository_does_not_get_its_credentials() {
    const UPSERT: &str = "mutation ($u: String!, $a: HelmRepositoryAttributes) {
        upsertHelmRepository(url: $u, attributes: $a) { id url provider health error }
      }";
    let scene = Scene::start().await;
    let t = &scene.t;
    let cluster = t.admin.cluster("blue").await;
    let ca = scene.thief.ca_pem();
    let proxy = json!({"url": format!("http://127.0.0.1:{}", scene.thief.address().port())});
    let changes = [
        vec![json!({"caCertificate": ca, "auth": {"proxy": proxy}})],
        vec![json!({"caCertificate": ca}), json!({"auth": {"proxy": proxy}})],
        vec![json!({"auth": {"proxy": proxy}}), json!({"caCertificate": ca})],
        vec![json!({"caCertificate": ""}), json!({"caCertificate": ca, "auth": {"proxy": proxy}})],
    ];
    for (at, requests) in changes.iter().enumerate() {
        let url = format!("https://127.0.0.1:{}/charts-{at}", scene.home.address().port());
        let token = format!("{SECRET}-{at}");
        let mine = json!({"auth": {"bearer": {"token": token}}, "caCertificate": scene.home.ca_pem()});
        t.admin.data(UPSERT, json!({"u": url, "a": mine})).await;
        for (person, outcome) in
            [(&t.owner, "FORBIDDEN"), (&scene.writer, "FORBIDDEN"), (&t.reader, "FORBIDDEN")]
        {
            let answer = person.ask(UPSERT, json!({"u": url, "a": requests[0]})).await;
            assert_eq!(answer.outcome(), outcome, "{answer:?}");
        }
        let service =
            json!({"name": format!("web-{at}"), "namespace": "shop", "helm": {"url": url, "chart": "web"}});
        let create = "mutation ($id: ID, $a: ServiceDeploymentAttributes!) {
            createServiceDeployment(clusterId: $id, attributes: $a) { id }
          }";
        t.admin.data(create, json!({"id": cluster["id"], "a": service})).await;
        eventually(PATIENCE, async || scene.home.has(&token).then_some(())).await;
        for (step, attributes) in requests.iter().enumerate() {
            let told = t.admin.data(UPSERT, json!({"u": url, "a": attributes})).await;
            let told = &told["upsertHelmRepository"];
            assert_eq!(told["provider"], Value::Null, "{told}");
            if step == 0 {
                assert!(told["error"].as_str().unwrap().contains("removed"), "{told}");
            }
            if step + 1 == requests.len() {
                // Not a new connection: one that is open for another of its repositories will do.
                let path = format!("/charts-{at}/");
                eventually(PATIENCE, async || scene.thief.was_asked(&path).then_some(())).await;
            }
        }
        assert!(!scene.thief.has(SECRET), "{at}: {:?}", scene.thief.credentials());
        // Who gives a credential again, gives it for where the repository is reached now.
        let given = json!({"auth": {"bearer": {"token": OWN}}});
        let told = t.admin.data(UPSERT, json!({"u": url, "a": given})).await;
        assert_eq!(told["upsertHelmRepository"]["provider"], "BEARER");
        eventually(PATIENCE, async || scene.thief.has(OWN).then_some(())).await;
        assert!(!scene.thief.has(SECRET), "{:?}", scene.thief.credentials());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_39_git_goes_no_further_than_the_operator_says() {
    let thief = Thief::start().unwrap();
    // As an operator who set nothing.
    let t = TestServer::with(|config| config.reach = None).await;
    let port = thief.address().port();
    let create = "mutation ($a: GitAttributes!) { createGitRepository(attributes: $a) { id } }";
    let proxy = json!({"url": format!("http://localhost:{port}")});
    for attributes in [
        json!({"url": format!("http://127.0.0.1:{port}/x.git")}),
        json!({"url": format!("https://127.0.0.1:{port}/x.git")}),
        json!({"url": format!("http://localhost:{port}/x.git")}),
        json!({"url": format!("http://2130706433:{port}/hex.git")}),
        json!({"url": format!("http://0x7f.1:{port}/short.git")}),
        json!({"url": format!("http://[::ffff:127.0.0.1]:{port}/x.git")}),
        json!({"url": format!("ssh://git@127.0.0.1:{port}/x.git")}),
        json!({"url": format!("ssh://git@[::1]:{port}/x.git")}),
        json!({"url": "git@localhost:x.git"}),
        json!({"url": "http://169.254.169.254/latest/meta-data"}),
        json!({"url": "https://[fd00:ec2::254]/latest"}),
        json!({"url": "https://git.invalid/x.git", "proxy": proxy}),
        json!({"url": "https://git.invalid/y.git", "proxy": {"url": format!("socks5h://[::1]:{port}")}}),
        json!({"url": "http://169.254.169.254/proxied", "proxy": {"url": "http://192.0.2.1:3128"}}),
    ] {
        let made = t.admin.data(create, json!({"a": attributes})).await;
        let id = &made["createGitRepository"]["id"];
        let look = "query ($id: ID!) { gitRepository(id: $id) { health error } }";
        let told = eventually(PATIENCE, async || {
            let told = t.admin.data(look, json!({"id": id})).await["gitRepository"].clone();
            (told["health"] == "FAILED").then_some(told)
        })
        .await;
        let error = told["error"].as_str().unwrap();
        assert!(error.contains("does not connect to") && error.contains("--reach"), "{attributes}: {error}");
    }
    assert_eq!(thief.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_a_projects_charts_are_for_its_services_only() {
    const UPSERT: &str = "mutation ($u: String!, $a: HelmRepositoryAttributes) {
        upsertHelmRepository(url: $u, attributes: $a) { project { id } provider }
      }";
    let home = Thief::start().unwrap();
    let t = TestServer::start().await;
    let project = "mutation ($a: ProjectAttributes!) { createProject(attributes: $a) { id } }";
    let other = t.admin.data(project, json!({"a": {"name": "other"}})).await["createProject"]["id"].clone();
    let mine = t.admin.cluster("blue").await;
    let cluster = "mutation ($a: ClusterAttributes!) { createCluster(attributes: $a) { id } }";
    let attributes = json!({"name": "green", "projectId": other});
    let theirs = t.admin.data(cluster, json!({"a": attributes})).await["createCluster"].clone();
    let url = format!("http://{}/charts", home.address());
    let auth = json!({"bearer": {"token": SECRET}});
    let made = t.admin.data(UPSERT, json!({"u": url, "a": {"projectId": t.project, "auth": auth}})).await;
    assert_eq!(made["upsertHelmRepository"], json!({"project": {"id": t.project}, "provider": "BEARER"}));
    let service = async |cluster: &Value, name: &str| {
        let helm = json!({"url": format!("{url}/{name}"), "chart": "web"});
        let attributes = json!({"name": name, "namespace": "shop", "helm": helm});
        let create = "mutation ($id: ID, $a: ServiceDeploymentAttributes!) {
            createServiceDeployment(clusterId: $id, attributes: $a) { id }
          }";
        t.admin.data(create, json!({"id": cluster["id"], "a": attributes})).await;
    };
    service(&mine, "mine").await;
    eventually(PATIENCE, async || home.has(SECRET).then_some(())).await;
    service(&theirs, "theirs").await;
    eventually(PATIENCE, async || home.was_asked("/charts/theirs").then_some(())).await;
    // An administrator gives them to everybody.
    assert!(
        home.credentials().iter().all(|value| value.starts_with("/charts/mine")),
        "{:?}",
        home.credentials()
    );
    let made = t.admin.data(UPSERT, json!({"u": url, "a": {"projectId": ""}})).await;
    assert_eq!(made["upsertHelmRepository"], json!({"project": null, "provider": "BEARER"}));
    let theirs =
        async || home.credentials().iter().any(|value| value.starts_with("/charts/theirs")).then_some(());
    eventually(PATIENCE, theirs).await;
}
