//! `plural demo` as a person and a script see it.
//!
//! One backend is enough: where `demo` keeps its database, PostgreSQL is one more setting; what it does is asked on
//! SQLite.

use std::{collections::BTreeSet, path::Path, process::Command as Git};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use plural_testkit::{
    GitRemote, TestCluster, TestDatabase, each_cluster, eventually, program_or_report, run_case,
};
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use crate::{
    program::{Done, Home, LIMIT, finish, signal},
    world::{PATIENCE, map},
};

fn events(out: &str) -> Vec<Value> {
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect()
}

/// Checks that an event has exactly the documented fields, and returns its name.
fn shape(event: &Value) -> String {
    let name = event["event"].as_str().unwrap().to_owned();
    let fields: BTreeSet<&str> = event.as_object().unwrap().keys().map(String::as_str).collect();
    let documented: BTreeSet<&str> = match name.as_str() {
        // With the sample repository, on simulated clusters.
        "ready" if fields.contains("stack") => {
            ["event", "url", "link", "user", "password", "token", "clusters", "git", "stack"].into()
        }
        "ready" => ["event", "url", "link", "user", "password", "token", "clusters", "git"].into(),
        "applied" => ["event", "cluster", "service", "commit", "ms"].into(),
        "failed" => ["event", "cluster", "service", "message"].into(),
        other => panic!("an event that is not documented: {other}"),
    };
    assert_eq!(fields, documented, "{event}");
    name
}

fn applied(events: &[Value], service: &str) -> BTreeSet<(String, String)> {
    let of_it = events.iter().filter(|event| event["event"] == "applied" && event["service"] == service);
    let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
    of_it.map(|event| (text(event, "cluster"), text(event, "commit"))).collect()
}

fn assert_code(done: &Done, code: i32) {
    assert_eq!(done.code, Some(code), "out: {}\nerr: {}", done.out, done.err);
}

#[test]
fn once_shows_a_commit_on_two_clusters() {
    run_case(async {
        let home = Home::new()?;
        let done = home.run(&["demo", "--once"]).await?;
        assert_code(&done, 0);
        // First deployment and the change, of `web`, on both.
        for cluster in ["demo-1", "demo-2"] {
            let lines: Vec<&str> = done
                .out
                .lines()
                .filter(|line| line.contains(&format!(" web applied on {cluster} in ")))
                .collect();
            assert_eq!(lines.len(), 2, "{}", done.out);
            assert!(lines.iter().all(|line| line.ends_with(" ms")), "{}", done.out);
            assert_ne!(lines[0].split(' ').next(), lines[1].split(' ').next(), "two commits");
        }
        assert!(done.err.contains("verified: the change is in 2 clusters"), "{}", done.err);
        home.nothing_is_left().await;
        anyhow::Ok(())
    });
}

#[test]
fn json_is_what_is_documented() {
    run_case(async {
        let home = Home::new()?;
        let done = home.run(&["demo", "--once", "--json", "--clusters", "5"]).await?;
        assert_code(&done, 0);
        assert_eq!(done.err, "", "a program reads events only");
        let events = events(&done.out);
        for event in &events {
            assert_eq!(shape(event), "applied", "{event}");
            assert_eq!(event["commit"].as_str().unwrap().len(), 40);
            assert!(event["ms"].as_u64().is_some());
        }
        let clusters: BTreeSet<String> = applied(&events, "web").into_iter().map(|pair| pair.0).collect();
        assert_eq!(
            clusters.into_iter().collect::<Vec<_>>(),
            ["demo-1", "demo-2", "demo-3", "demo-4", "demo-5"]
        );
        assert_eq!(
            applied(&events, "web").len(),
            10,
            "two commits on five clusters, each told once: {events:?}"
        );
        home.nothing_is_left().await;
        anyhow::Ok(())
    });
}

each_cluster!(a_persons_cluster_and_repository_stay_as_they_were);

/// Everything in a repository that could change: its files, refs, HEAD, objects and index.
fn picture(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                found.push((entry.path().display().to_string(), std::fs::read(entry.path()).unwrap()));
            }
        }
    }
    found.sort();
    found
}

async fn a_persons_cluster_and_repository_stay_as_they_were(cluster: TestCluster) -> anyhow::Result<()> {
    let home = Home::new()?;
    let remote = GitRemote::new()?;
    // Another namespace than other tests', and one that the demo has to make.
    let mark = format!("mine-{:08x}", rand::random::<u32>());
    remote.push_files([("app/a.yaml", map(&mark, "1")), ("app/b.yaml", map("b", "1"))])?;
    let checkout = home.path().join("checkout");
    let cloned =
        Git::new("git").args(["clone", "--quiet"]).arg(remote.path()).arg(&checkout).status()?.success();
    assert!(cloned);
    std::fs::write(checkout.join("app/draft.yaml"), "not committed: [")?;
    let before = (picture(&checkout), picture(&remote.path()));
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let git = checkout.display().to_string();
    let arguments =
        ["demo", "--kubeconfig", &kubeconfig, "--git", &git, "--folder", "app", "--once", "--json"];
    let client = cluster.client().await?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let had_agents = namespaces.get_opt("plural-system").await?.is_some();

    let done = home.run(&arguments).await?;
    assert_code(&done, 0);
    let events = events(&done.out);
    assert!(events.iter().all(|event| shape(event) == "applied"), "{}", done.out);
    assert_eq!(applied(&events, "demo").len(), 2, "the commit and the change: {}", done.out);
    assert_eq!((picture(&checkout), picture(&remote.path())), before, "nothing is written or pushed");

    // It was there, and is gone.
    assert!(cluster.writes("demo")?.iter().any(|write| write.name == mark && write.code < 300));
    let maps: Api<ConfigMap> = Api::namespaced(client, "demo");
    assert!(maps.get_opt(&mark).await?.is_none());
    eventually(PATIENCE, async || {
        let left = namespaces.get_opt("demo").await.map_err(|error| error.to_string())?;
        let agents = namespaces.get_opt("plural-system").await.map_err(|error| error.to_string())?;
        match (left, agents) {
            (None, None) => Ok(()),
            (None, Some(_)) if had_agents => Ok(()),
            left => Err(format!("{left:?}")),
        }
    })
    .await;
    home.nothing_is_left().await;
    Ok(())
}

/// A demo that goes on, and what it told when it was ready.
pub(crate) struct Watched {
    child: tokio::process::Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    pub(crate) ready: Value,
}

pub(crate) async fn watched(mut command: tokio::process::Command) -> anyhow::Result<Watched> {
    let mut child = command.spawn()?;
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = async {
        while let Some(line) = lines.next_line().await? {
            let event: Value = serde_json::from_str(&line)?;
            if shape(&event) == "ready" {
                return Ok(event);
            }
        }
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).await?;
        anyhow::bail!("it ended before it was ready: {err}")
    };
    let ready = tokio::time::timeout(LIMIT, ready).await??;
    Ok(Watched { child, lines, ready })
}

impl Watched {
    async fn applied(&mut self, commit: &str) -> anyhow::Result<Value> {
        let wait = async {
            loop {
                let line = self.lines.next_line().await?.ok_or_else(|| anyhow::anyhow!("it ended"))?;
                let event: Value = serde_json::from_str(&line)?;
                shape(&event);
                if event["commit"] == commit {
                    return anyhow::Ok(event);
                }
            }
        };
        tokio::time::timeout(LIMIT, wait).await?
    }

    pub(crate) async fn end(mut self, by: Signal) -> anyhow::Result<()> {
        signal(self.child.id().unwrap(), by);
        let status = tokio::time::timeout(LIMIT, self.child.wait()).await??;
        assert_eq!(status.code(), Some(0), "{status:?}");
        Ok(())
    }
}

fn commit(repository: &str, file: &str, content: &str) -> anyhow::Result<String> {
    std::fs::write(Path::new(repository).join(file), content)?;
    let git = |arguments: &[&str]| -> anyhow::Result<String> {
        let output = Git::new("git")
            .current_dir(repository)
            .args(["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"])
            .args(arguments)
            .output()?;
        anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    git(&["add", "--all"])?;
    git(&["commit", "--quiet", "--message", "a change"])?;
    git(&["rev-parse", "HEAD"])
}

#[test]
fn it_goes_on_until_a_signal_and_resumes_on_its_data() {
    run_case(async {
        let home = Home::new()?;
        let data = home.path().join("data").display().to_string();
        let arguments = ["demo", "--json", "--data", &data];
        let mut first = watched(home.plural(&arguments)).await?;
        let ready = first.ready.clone();
        assert_eq!(ready["clusters"].as_array().unwrap().len(), 2);
        for cluster in ready["clusters"].as_array().unwrap() {
            assert!(Path::new(cluster["kubeconfig"].as_str().unwrap()).exists());
            assert_eq!(cluster.as_object().unwrap().keys().collect::<Vec<_>>(), ["handle", "kubeconfig"]);
        }
        let repository = ready["git"].as_str().unwrap().to_owned();
        let sha = commit(&repository, "team/more.yaml", &map("more", "1"))?;
        let told = first.applied(&sha).await?;
        assert_eq!(told["service"], "team");
        first.end(Signal::TERM).await?;
        home.nothing_is_left().await;

        // The clusters are new and empty, everything else is as it was.
        let mut second = watched(home.plural(&arguments)).await?;
        for same in ["user", "password", "token", "git"] {
            assert_eq!(second.ready[same], ready[same], "{same}");
        }
        let person = plural_wire::Client::new(&plural_wire::ClientOptions::new(
            second.ready["url"].as_str().unwrap(),
            Some(plural_wire::Secret::new(ready["token"].as_str().unwrap())),
        ))?;
        assert_eq!(person.send(&plural_wire::Me {}).await?.email, ready["user"]);
        let sha = commit(&repository, "team/more.yaml", &map("more", "2"))?;
        second.applied(&sha).await?;
        second.end(Signal::INT).await?;
        home.nothing_is_left().await;
        anyhow::Ok(())
    });
}

#[test]
fn its_link_opens_the_console_signed_in_and_what_is_broken_says_why() {
    run_case(async {
        let home = Home::new()?;
        let demo = watched(home.plural(&["demo", "--json"])).await?;
        let link = demo.ready["link"].as_str().unwrap().to_owned();
        let (origin, code) = link.split_once("/#link=").unwrap();
        let port = demo.ready["url"].as_str().unwrap().rsplit_once(':').unwrap().1;
        assert_eq!(origin, format!("http://localhost:{port}"));
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .tls_certs_only([])
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        let url = demo.ready["url"].as_str().unwrap();
        let open = async |from: &str| {
            let request = http.post(format!("{url}/auth/link")).header("origin", from);
            let form = "application/x-www-form-urlencoded";
            request.header("content-type", form).body(format!("code={code}&then=%2Fclusters")).send().await
        };
        assert_eq!(open("http://localhost.evil.test").await?.status(), 403);
        let opened = open(origin).await?;
        assert_eq!(opened.status(), 303);
        assert_eq!(opened.headers()["location"], "/clusters");
        let cookie = opened.headers()["set-cookie"].to_str()?.split(';').next().unwrap().to_owned();
        assert!(cookie.starts_with("plural-session=console-"), "{cookie}");
        assert_eq!(open(origin).await?.status(), 401, "once");

        let ask = async |query: &str| {
            let body = serde_json::json!({"query": query}).to_string();
            let request = http.post(format!("{url}/gql")).header("origin", origin).header("cookie", &cookie);
            let request = request.header("x-plural-csrf", "1").header("content-type", "application/json");
            let answer = request.body(body).send().await?.error_for_status()?;
            anyhow::Ok(serde_json::from_str::<Value>(&answer.text().await?)?)
        };
        assert_eq!(ask("{ me { email } }").await?["data"]["me"]["email"], demo.ready["user"]);
        let services = "{ serviceDeployments(first: 20) { edges { node { name status errors { source message } \
                        cluster { handle } } } } }";
        eventually(PATIENCE, async || {
            let answer = ask(services).await.map_err(|error| error.to_string())?;
            let edges = answer["data"]["serviceDeployments"]["edges"].as_array().ok_or("nothing")?;
            let of = |name: &'static str| {
                edges.iter().map(|edge| &edge["node"]).filter(move |node| node["name"] == name)
            };
            let is_told = |node: &Value| {
                let errors = node["errors"].as_array().unwrap().iter();
                node["status"] == "FAILED"
                    && errors
                        .clone()
                        .any(|error| error["message"].as_str().unwrap().contains("broken/config.yaml"))
            };
            let is_good = of("web").all(|node| node["status"] == "HEALTHY") && of("broken").all(is_told);
            if is_good && of("web").count() == 2 && of("broken").count() == 2 {
                Ok(())
            } else {
                Err(answer.to_string())
            }
        })
        .await;
        demo.end(Signal::INT).await?;
        home.nothing_is_left().await;
        anyhow::Ok(())
    });
}

/// What a person with the command line asks of a demo.
async fn person(home: &Home, ready: &Value, arguments: &[&str]) -> anyhow::Result<Done> {
    let mut command = home.plural(arguments);
    command.env("PLURAL_CONSOLE_URL", ready["url"].as_str().unwrap());
    command.env("PLURAL_CONSOLE_TOKEN", ready["token"].as_str().unwrap());
    finish(command).await
}

#[test]
fn it_listens_where_it_did_and_a_deleted_cluster_comes_back() {
    run_case(async {
        let home = Home::new()?;
        let data = home.path().join("data").display().to_string();
        let arguments = ["demo", "--json", "--data", &data];
        let first = watched(home.plural(&arguments)).await?;
        let ready = first.ready.clone();
        let kubeconfig = home.path().join("through").display().to_string();
        let told =
            person(&home, &ready, &["cd", "clusters", "kubeconfig", "demo-1", "--file", &kubeconfig]).await?;
        assert_code(&told, 0);
        let names = namespaces(Path::new(&kubeconfig), &ready).await?;
        assert!(names.contains(&"web".to_owned()), "{names:?}");
        logs(&home, &ready).await?;
        let told = person(&home, &ready, &["cd", "clusters", "delete", "demo-2", "--yes"]).await?;
        assert_code(&told, 0);
        first.end(Signal::INT).await?;
        // A person commits without any configuration of git.
        let repository = ready["git"].as_str().unwrap();
        let mut git = Git::new("git");
        git.current_dir(repository).env("HOME", home.path()).env("GIT_CONFIG_NOSYSTEM", "1");
        assert!(git.args(["commit", "--quiet", "--allow-empty", "--message", "mine"]).status()?.success());

        let second = watched(home.plural(&arguments)).await?;
        assert_eq!(second.ready["url"], ready["url"], "what was saved goes on working");
        assert_eq!(second.ready["clusters"].as_array().unwrap().len(), 2);
        let listed = person(&home, &second.ready, &["cd", "clusters", "list", "-o", "name"]).await?;
        assert_eq!(listed.out, "cluster/demo-1\ncluster/demo-2\n", "{}", listed.err);
        let names = namespaces(Path::new(&kubeconfig), &second.ready).await?;
        assert!(names.contains(&"web".to_owned()), "{names:?}");
        second.end(Signal::INT).await?;

        // Other programs have both addresses by now: it listens elsewhere, and says so.
        let address = ready["url"].as_str().unwrap().trim_start_matches("http://");
        let config = kube::config::Kubeconfig::read_from(&kubeconfig)?;
        let server = config.clusters[0].cluster.clone().unwrap().server.unwrap();
        let tls = server.trim_start_matches("https://").split('/').next().unwrap();
        let taken = [std::net::TcpListener::bind(address)?, std::net::TcpListener::bind(tls)?];
        let third = watched(home.plural(&arguments)).await?;
        assert_ne!(third.ready["url"], ready["url"]);
        third.end(Signal::INT).await?;
        // An address that was asked for is not replaced, and its flag is named.
        for (flag, address) in [("--listen", address), ("--tls-listen", tls)] {
            let done = home.run(&["demo", "--once", "--data", &data, flag, address]).await?;
            assert_code(&done, 1);
            assert!(done.err.contains(&format!("cannot listen on {address}")), "{}", done.err);
            assert!(done.err.contains(flag), "{}", done.err);
        }
        drop(taken);
        home.nothing_is_left().await;
        anyhow::Ok(())
    });
}

/// What containers print, of all Pods of a service and of some.
async fn logs(home: &Home, ready: &Value) -> anyhow::Result<()> {
    // The agent reports Pods a moment after they are there.
    eventually(PATIENCE, async || {
        let all = person(home, ready, &["logs", "demo-1/web"]).await.map_err(|error| error.to_string())?;
        let pods: BTreeSet<&str> = all.out.lines().filter_map(|line| line.split(" web | ").next()).collect();
        let both = pods.len() == 2 && pods.iter().all(|pod| pod.starts_with("web-"));
        if all.code == Some(0) && both { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await;
    let one = person(home, ready, &["logs", "demo-1/web", "--object", "deploy/web", "--tail", "1"]).await?;
    assert_code(&one, 0);
    assert_eq!(one.out.lines().count(), 2, "{}", one.out);
    for (arguments, words) in [
        (&["logs", "demo-1/web", "--container", "nowhere"][..], "has a container named \"nowhere\""),
        (&["logs", "demo-1/web", "--object", "svc/web"], "no Pods below"),
        (&["logs", "demo-1/team"], "no Pods below"),
        (&["logs", "demo-1/nowhere"], "not found"),
    ] {
        let told = person(home, ready, arguments).await?;
        assert_code(&told, 1);
        assert!(told.err.contains(words), "{arguments:?}: {}", told.err);
    }
    Ok(())
}

/// The namespaces of the cluster that a kubeconfig file reaches through the console, as the demo's administrator.
async fn namespaces(kubeconfig: &Path, ready: &Value) -> anyhow::Result<Vec<String>> {
    // Another test may have installed the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let cluster = config.clusters[0].cluster.clone().unwrap();
    let authority = STANDARD.decode(cluster.certificate_authority_data.unwrap())?;
    let server = cluster.server.unwrap();
    assert!(server.starts_with("https://127.0.0.1:") && server.ends_with("/k8s/demo-1"), "{server}");
    let client = reqwest::Client::builder()
        .tls_certs_only([reqwest::Certificate::from_pem(&authority)?])
        .no_proxy()
        .build()?;
    let request = client.get(format!("{server}/api/v1/namespaces"));
    let answer = request.bearer_auth(ready["token"].as_str().unwrap()).send().await?;
    assert_eq!(answer.status(), 200);
    let list: Value = serde_json::from_str(&answer.text().await?)?;
    let names = list["items"].as_array().unwrap().iter();
    Ok(names.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect())
}

#[test]
fn postgres_does_the_same() {
    let Some(database) = TestDatabase::postgres_or_report() else { return };
    run_case(async {
        let home = Home::new()?;
        let mut command = home.plural(&["demo", "--once", "--json"]);
        command.env("DATABASE_URL", database.url());
        let done = finish(command).await?;
        assert_code(&done, 0);
        assert_eq!(applied(&events(&done.out), "web").len(), 4, "{}", done.out);
        home.nothing_is_left().await;
        anyhow::Ok(())
    });
}

#[test]
fn a_broken_repository_fails_with_its_reason() {
    run_case(async {
        let remote = GitRemote::new()?;
        remote.push_files([
            ("good/a.yaml", map("a", "1")),
            ("bad/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: [a\n".to_owned()),
        ])?;
        let git = remote.path().display().to_string();
        let home = Home::new()?;
        for (folder, reasons) in
            [("absent", ["absent", "does not exist"]), ("bad", ["bad/a.yaml:", "did not find expected"])]
        {
            // Long before the default timeout, since waiting mends neither.
            let arguments = ["demo", "--git", &git, "--folder", folder, "--once"];
            let done = home.run(&arguments).await?;
            assert_code(&done, 1);
            let last = done.err.lines().last().unwrap_or_default();
            assert!(last.starts_with("error: the first deployment cannot succeed: "), "{}", done.err);
            assert!(reasons.iter().all(|reason| last.contains(reason)), "{}", done.err);
        }
        let done = home.run(&["demo", "--git", "/nowhere/at-all", "--once"]).await?;
        assert_code(&done, 1);
        assert!(done.err.contains("/nowhere/at-all"), "{}", done.err);
        let done = home.run(&["demo", "--git", &git, "--ref", "absent", "--once"]).await?;
        assert_code(&done, 1);
        assert!(done.err.contains("absent"), "{}", done.err);
        let done = home.run(&["demo", "--kubeconfig", "/nowhere/kubeconfig", "--once"]).await?;
        assert_code(&done, 1);
        assert!(done.err.contains("/nowhere/kubeconfig"), "{}", done.err);
        home.nothing_is_left().await;
        anyhow::Ok(())
    });
}

/// The plan is there without anybody asking, and is applied when a person approves it: with OpenTofu where it is in the PATH, else
/// with commands of a shell.
#[test]
fn its_stack_waits_for_an_approval() {
    run_case(async {
        for with_tofu in [false, true] {
            let tofu = if with_tofu { program_or_report("tofu") } else { None };
            if with_tofu && tofu.is_none() {
                continue;
            }
            let home = Home::new()?;
            let mut demo = home.plural(&["demo", "--json"]);
            let folders = tofu.iter().filter_map(|tofu| tofu.parent()).map(Path::to_owned);
            demo.env("PATH", std::env::join_paths(folders.chain(["/usr/bin".into(), "/bin".into()]))?);
            let demo = watched(demo).await?;
            assert_eq!(demo.ready["stack"], "demo-infra");
            let plural = async |line: &str| {
                let mut command = home.plural(&line.split(' ').collect::<Vec<_>>());
                command.env("PLURAL_CONSOLE_URL", demo.ready["url"].as_str().unwrap());
                command.env("PLURAL_CONSOLE_TOKEN", demo.ready["token"].as_str().unwrap());
                finish(command).await
            };
            eventually(PATIENCE, async || {
                let done = plural("cd stacks waiting").await.map_err(|error| error.to_string())?;
                if done.out.contains("demo-infra") {
                    Ok(())
                } else {
                    Err(format!("{}{}", done.out, done.err))
                }
            })
            .await;
            let approved = plural("cd stacks approve demo-infra --yes").await?;
            assert_code(&approved, 0);
            let made = if with_tofu { "2 added" } else { "made a network and a database for hello" };
            eventually(PATIENCE, async || {
                let done = plural("cd stacks logs demo-infra").await.map_err(|error| error.to_string())?;
                if done.out.contains(made) { Ok(()) } else { Err(format!("{}{}", done.out, done.err)) }
            })
            .await;
            demo.end(Signal::TERM).await?;
            home.nothing_is_left().await;
        }
        anyhow::Ok(())
    });
}
