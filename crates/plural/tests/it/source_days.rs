//! Bad input in git: the service says what is wrong and where, and the others go on.
//!
//! One backend is enough: the console says what is wrong; the cluster only takes what is right.

use std::net::{Ipv4Addr, TcpListener};

use plural_app::repository::NewCredentials;
use plural_console::ConsoleConfig;
use plural_core::project::NewProject;
use plural_core::repository::NewRepository;
use plural_testkit::{GitRemote, GitServer, TestCluster, WebFolder, eventually, git_server::Mood, run_case};
use plural_wire::{GetGitRepository, GitHealth, KickService, ServiceDeploymentStatus};
use serde_json::json;

use crate::{
    charts::{Api, chart},
    world::{EMAIL, PATIENCE, Person, World, attributes, map},
};

async fn world() -> anyhow::Result<World> {
    World::new(TestCluster::kubesim().await?).await
}

#[test]
fn each_kind_of_bad_source_is_told_where_it_is_and_the_others_go_on() {
    run_case(async {
        let w = world().await?;
        let first = w.remote.push_files([
            ("good/a.yaml", map("good", "1")),
            ("malformed/ok.yaml", map("beside", "1")),
            (
                "malformed/deep/broken.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: [broken\n".into(),
            ),
            ("unknown/thing.yaml", "apiVersion: example.com/v1\nkind: Gadget\nmetadata:\n  name: g\n".into()),
            ("unknown/ok.yaml", map("known", "1")),
            ("nameless/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n".into()),
            ("template/a.yaml.liquid", "kind: {{ configuration.missing | nosuchfilter }}\n".into()),
        ])?;
        w.remote.commit("main").symlink("outside/passwd.yaml", "../../../../etc/passwd").push()?;
        w.remote.commit("main").symlink("outside2/passwd.yaml", "/etc/passwd").push()?;
        let good = w.service("good").await?;
        let mut bad = Vec::new();
        for (folder, needles) in [
            ("malformed", ["malformed/deep/broken.yaml:5", "did not find expected"]),
            ("unknown", ["Gadget", "example.com"]),
            ("absent", ["absent", "does not exist"]),
            ("nameless", ["nameless/a.yaml:", "name"]),
            ("template", ["template/a.yaml.liquid:", "nosuchfilter"]),
            ("outside", ["outside/passwd.yaml", "outside"]),
            ("outside2", ["outside2/passwd.yaml", "/etc/passwd"]),
        ] {
            bad.push((w.service(folder).await?, folder, needles));
        }
        let missing = attributes("missing-ref", &w.namespace, &w.repository, "no-such-branch", "good");
        bad.push((
            w.person.service_of(&w.registered, missing).await?,
            "missing-ref",
            ["no-such-branch", "not found"],
        ));
        for (id, folder, needles) in &bad {
            let message = w.person.fails_with(id, needles).await;
            assert!(!message.contains("root:"), "{folder} shows a file of this machine: {message}");
        }
        w.person.stands_at(&good, &w.remote.resolve("main")?).await;
        assert_ne!(w.remote.resolve("main")?, first);
        // Of a malformed folder nothing is applied; of one with an unknown kind, the rest is.
        assert_eq!(w.map_names().await?, ["good", "known"]);

        // What is put right is right, with nothing but a commit.
        let sha = w
            .remote
            .commit("main")
            .file("malformed/deep/broken.yaml", map("mended", "1"))
            .file("absent/a.yaml", map("absent", "1"))
            .remove("unknown/thing.yaml")
            .push()?;
        for (id, folder, _) in &bad {
            if ["malformed", "absent", "unknown"].contains(folder) {
                w.person.stands_at(id, &sha).await;
            }
        }
        assert_eq!(w.map_names().await?, ["absent", "beside", "good", "known", "mended"]);
        assert_eq!(w.writes_of("good")?, 1, "commits elsewhere are no work for it");
        assert_eq!(w.writes_of("known")?, 1);
        w.end().await
    });
}

#[test]
fn a_commit_that_breaks_a_service_leaves_what_runs() {
    run_case(async {
        let w = world().await?;
        let sha = w.remote.push_files([("app/a.yaml", map("a", "1")), ("app/b.yaml", map("b", "1"))])?;
        let id = w.service("app").await?;
        w.person.stands_at(&id, &sha).await;
        for broken in ["a: b: c\n", "\u{0}", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: B_AD}\n"] {
            w.remote.push_files([("app/b.yaml", broken)])?;
            w.person.fails_with(&id, &["b"]).await;
            assert_eq!(w.map_names().await?, ["a", "b"], "nothing is pruned by {broken:?}");
        }
        // The whole folder goes: that is no order to delete everything.
        w.remote.commit("main").remove("app").push()?;
        w.person.is_told(&id, &["app", "does not exist"]).await;
        assert_eq!(w.map_names().await?, ["a", "b"]);
        let sha = w.remote.push_files([("app/a.yaml", map("a", "1")), ("app/b.yaml", map("b", "2"))])?;
        w.person.stands_at(&id, &sha).await;
        w.until_value("b", "2").await;
        assert_eq!(w.writes_of("a")?, 1, "it never changed");
        w.end().await
    });
}

#[test]
fn a_huge_file_is_refused_by_its_name_and_size() {
    run_case(async {
        let w = world().await?;
        let sha = w
            .remote
            .commit("main")
            .file("huge/model.bin", vec![b'x'; 200 << 20])
            .file("huge/a.yaml", map("huge", "1"))
            .file("good/a.yaml", map("good", "1"))
            .push()?;
        let (good, huge) = (w.service("good").await?, w.service("huge").await?);
        w.person.fails_with(&huge, &["huge/model.bin", "over the limit of"]).await;
        w.person.stands_at(&good, &sha).await;
        assert_eq!(w.map_names().await?, ["good"]);
        let sha = w.remote.commit("main").remove("huge/model.bin").push()?;
        w.person.stands_at(&huge, &sha).await;
        w.end().await
    });
}

#[test]
fn a_repository_that_hangs_holds_up_no_other() {
    run_case(async {
        let short = |config: &mut ConsoleConfig| config.git_timeout_seconds = 3;
        let mut w = World::with_config(TestCluster::kubesim().await?, short).await?;
        w.start_agent().await?;
        let (slow, lively) = (GitRemote::new()?, GitRemote::new()?);
        let (slow_server, lively_server) = (GitServer::start(slow.root())?, GitServer::start(lively.root())?);
        let sha = slow.push_files([("slow/a.yaml", map("slow", "1"))])?;
        lively.push_files([("lively/a.yaml", map("lively", "0"))])?;
        let slow_repository = w.person.repository(&slow_server.url(&slow)).await?;
        let lively_repository = w.person.repository(&lively_server.url(&lively)).await?;
        let slow_service = w.person.service(&w.registered, &w.namespace, &slow_repository, "slow").await?;
        let service = w.person.service(&w.registered, &w.namespace, &lively_repository, "lively").await?;
        w.person.stands_at(&slow_service, &sha).await;

        slow_server.set_mood(Mood::Hanging);
        let asked = slow_server.requests();
        let kick = KickService { service_id: Some(slow_service.clone()), cluster: None, name: None };
        w.person.client.send(&kick).await?;
        eventually(PATIENCE, async || slow_server.requests() > asked).await;
        for round in ["1", "2", "3"] {
            let sha = lively.push_files([("lively/a.yaml", map("lively", round))])?;
            w.person.stands_at(&service, &sha).await;
        }
        // It is told, and what runs goes on running: a warning, not a failure.
        let told = w.person.is_told(&slow_service, &["timed out", "check that the host is up"]).await;
        assert_eq!(told.service.status, ServiceDeploymentStatus::Healthy, "{told:?}");
        let asked = GetGitRepository { id: Some(slow_repository), url: None };
        let found = w.person.client.send(&asked).await?;
        assert_eq!(found.health, Some(GitHealth::Failed));
        assert!(found.error.as_deref().unwrap_or_default().contains("timed out"), "{found:?}");

        slow_server.set_mood(Mood::Well);
        let sha = slow.push_files([("slow/a.yaml", map("slow", "2"))])?;
        w.person.stands_at(&slow_service, &sha).await;
        assert_eq!(w.person.client.send(&asked).await?.health, Some(GitHealth::Pullable));
        assert_eq!(w.value("slow").await?.as_deref(), Some("2"));
        w.end().await
    });
}

#[test]
fn a_server_that_fails_or_refuses_is_told_as_such() {
    run_case(async {
        let w = world().await?;
        let remote = GitRemote::new()?;
        let server = GitServer::start(remote.root())?;
        let sha = remote.push_files([("app/a.yaml", map("a", "1"))])?;
        server.set_mood(Mood::Failing(503));
        let repository = w.person.repository(&server.url(&remote)).await?;
        let id = w.person.service(&w.registered, &w.namespace, &repository, "app").await?;
        let told = w.person.fails_with(&id, &["cannot fetch", "cannot be reached"]).await;
        // What a server of the own network answers is for the operator alone.
        assert!(!told.replace(&server.url(&remote), "URL").contains("503"), "{told}");
        server.require("ada", "a password that nobody gave");
        server.set_mood(Mood::Well);
        w.person.fails_with(&id, &["authentication failed", "check the credentials"]).await;
        let other = GitServer::start(remote.root())?;
        let gone = format!("{}-gone", other.url(&remote));
        let repository = w.person.repository(&gone).await?;
        let missing = w
            .person
            .service_of(&w.registered, attributes("gone", &w.namespace, &repository, "main", "app"))
            .await?;
        w.person.fails_with(&missing, &["repository not found", "check the URL"]).await;
        drop(sha);
        w.end().await
    });
}

#[test]
fn attack_30_crawling_repositories_hold_up_no_other_project() {
    run_case(async {
        let w = world().await?;
        let app = w.console.app();
        let (_, token) = Person::sign_in(&w.console.url, None, EMAIL).await?;
        let ctx = app.ctx(app.actor_authenticate(&token).await?);
        let new = NewProject::named("hostile".parse()?);
        let hostile = app.project_create(&ctx, &new).await?;
        // Ever the same repository under many names, at a server that sends just enough not to be silent.
        let (slow, lively) = (GitRemote::new()?, GitRemote::new()?);
        let (slow_server, lively_server) = (GitServer::start(slow.root())?, GitServer::start(lively.root())?);
        slow.push_files([("a.yaml", map("a", &"x".repeat(100_000)))])?;
        slow_server.set_mood(Mood::Slow(260));
        let url = slow_server.url(&slow);
        let name = slow.name();
        for number in 0..64 {
            let other = format!("crawling-{number}.git");
            std::os::unix::fs::symlink(slow.path(), slow.root().join(&other))?;
            // The other half is at another host.
            let mut url = url.replace(name, &other);
            if number % 2 == 1 {
                url = url.replace("127.0.0.1", "localhost");
            }
            let new = NewRepository {
                url: url.parse()?,
                project_id: Some(hostile.id),
                web: plural_core::web_address::WebAddress::default(),
            };
            app.repository_create(&ctx, new, NewCredentials::default()).await?;
        }
        eventually(PATIENCE, async || slow_server.requests() >= 8).await;
        // Of the same host as they, and new: as badly off as one can be.
        lively.push_files([("lively/a.yaml", map("lively", "0"))])?;
        let repository = w.person.repository(&lively_server.url(&lively)).await?;
        let service = w.person.service(&w.registered, &w.namespace, &repository, "lively").await?;
        for round in ["1", "2", "3"] {
            let sha = lively.push_files([("lively/a.yaml", map("lively", round))])?;
            w.person.stands_at(&service, &sha).await;
        }
        w.end().await
    });
}

#[test]
fn attack_30_hanging_charts_hold_up_no_other_project() {
    run_case(async {
        let w = world().await?;
        let api = Api::new(&w).await?;
        let project =
            api.ask("mutation { createProject(attributes: {name: \"hostile\"}) { id } }", json!({})).await?;
        let cluster =
            "mutation ($p: ID) { createCluster(attributes: {name: \"hostile\", projectId: $p}) { id } }";
        let cluster = api.ask(cluster, json!({"p": project["createProject"]["id"]})).await?;
        let create = "mutation ($c: ID, $a: ServiceDeploymentAttributes!) {
            createServiceDeployment(clusterId: $c, attributes: $a) { id }
        }";
        // Hosts that take every connection and never answer: the system does, nobody accepts.
        let mut hosts = Vec::new();
        for number in 2..66 {
            hosts.push(TcpListener::bind((Ipv4Addr::new(127, 0, 0, number), 0))?);
        }
        for number in 0..300 {
            let host = hosts[number % hosts.len()].local_addr()?;
            let helm =
                json!({"url": format!("http://{host}/charts-{number}"), "chart": "web", "version": "1.0.0"});
            let attributes = json!({"name": format!("web-{number}"), "namespace": "web", "helm": helm});
            api.ask(create, json!({"c": cluster["createCluster"]["id"], "a": attributes})).await?;
        }
        // More of them hang than may be looked at at once.
        let web = WebFolder::start()?;
        web.write("charts/index.yaml", INDEX)?;
        web.write("charts/lively-1.0.0.tgz", chart("lively", "1.0.0", "lively"))?;
        let helm = json!({"url": web.url("/charts"), "chart": "lively", "version": "1.0.0"});
        api.service(&w, "lively", json!({"helm": helm})).await?;
        w.until_value("lively", "lively").await;
        w.end().await
    });
}

const INDEX: &str =
    "apiVersion: v1\nentries:\n  lively:\n  - {name: lively, version: 1.0.0, urls: [lively-1.0.0.tgz]}\n";
