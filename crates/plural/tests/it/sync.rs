//! Syncs as a person asks for them on the command line, from the console to the cluster and back.

use kube::api::{Patch, PatchParams};
use plural_testkit::{TestCluster, each_cluster, eventually};
use plural_wire::{CreateAccessToken, ServiceDeploymentStatus, ServiceDetails, SyncStep};
use serde_json::json;

use crate::{
    asker::Asker,
    program::{Done, Home},
    world::{PATIENCE, World, map},
};

each_cluster!(
    a_manual_service_waits_for_a_person,
    deletions_wait_for_an_approval,
    drift_is_told_left_taken_over_and_ignored,
    a_service_account_without_rights_is_named,
    limits_of_a_project_hold,
    progress_is_told_wave_by_wave,
);

/// A person's shell.
pub(crate) struct Shell {
    home: Home,
    url: String,
    token: String,
}

impl Shell {
    pub(crate) async fn new(w: &World) -> anyhow::Result<Self> {
        let token = w.person.client.send(&CreateAccessToken {}).await?.token.unwrap();
        Ok(Self { home: Home::new()?, url: w.console.url.clone(), token: token.expose().to_owned() })
    }

    /// `plural cd …` to its end, whatever comes of it.
    pub(crate) async fn run(&self, words: &[&str]) -> anyhow::Result<Done> {
        let mut all = vec!["cd"];
        all.extend(words);
        let mut command = self.home.plural(&all);
        command.env("PLURAL_CONSOLE_URL", &self.url).env("PLURAL_CONSOLE_TOKEN", &self.token);
        let output = command.output().await?;
        Ok(Done {
            code: output.status.code(),
            out: String::from_utf8(output.stdout)?,
            err: String::from_utf8(output.stderr)?,
        })
    }

    /// The same; it has to end well.
    pub(crate) async fn does(&self, words: &[&str]) -> anyhow::Result<String> {
        let done = self.run(words).await?;
        anyhow::ensure!(done.code == Some(0), "{words:?}: {done:?}");
        Ok(done.out)
    }
}

/// A service of the folder `app` made on the command line, its id.
pub(crate) async fn service(w: &World, shell: &Shell, flags: &[&str]) -> anyhow::Result<String> {
    let mut words = vec!["services", "create", "blue/app", "--namespace", &w.namespace, "--repository"];
    words.extend([w.repository.as_str(), "--ref", "main", "--folder", "app", "--create-namespace=false"]);
    words.extend(flags);
    words.extend(["-o", "json"]);
    let made: serde_json::Value = serde_json::from_str(&shell.does(&words).await?)?;
    Ok(made["id"].as_str().unwrap().to_owned())
}

async fn until(w: &World, id: &str, wanted: impl Fn(&ServiceDetails) -> bool) -> ServiceDetails {
    eventually(PATIENCE, async || {
        let found = w.person.details(id).await.map_err(|error| format!("{error:#}"))?;
        if wanted(&found) { Ok(found) } else { Err(format!("{found:?}")) }
    })
    .await
}

fn held_at(found: &ServiceDetails, sha: &str) -> bool {
    found.service.sha.as_deref() == Some(sha)
        && found.service.sync.as_ref().is_some_and(|sync| sync.step == Some(SyncStep::Held))
}

async fn a_manual_service_waits_for_a_person(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let shell = Shell::new(&w).await?;
    let secret = |value: &str| {
        format!("apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\nstringData:\n  password: {value}\n")
    };
    let sha = w.remote.push_files([
        ("app/a.yaml", map("a", "1")),
        ("app/b.yaml", map("b", "1")),
        ("app/s.yaml", secret("hunter2")),
    ])?;
    let id = service(&w, &shell, &["--sync", "manual"]).await?;
    until(&w, &id, |found| held_at(found, &sha)).await;
    assert!(w.map_names().await?.is_empty());
    assert!(shell.does(&["services", "list", "blue"]).await?.contains("waits for `plural cd services sync`"));
    let diff = shell.run(&["services", "diff", "blue/app"]).await?;
    assert_eq!(diff.code, Some(1), "{diff:?}");
    assert!(diff.out.contains(&format!("+ ConfigMap/{}/a\n", w.namespace)), "{diff:?}");

    shell.does(&["services", "sync", "blue/app", "--wait"]).await?;
    assert_eq!(w.map_names().await?, ["a", "b"]);
    let diff = shell.run(&["services", "diff", "blue/app"]).await?;
    assert_eq!((diff.code, diff.out.as_str()), (Some(0), ""), "{diff:?}");
    let last = shell.does(&["services", "plan", "blue/app", "--last"]).await?;
    assert!(last.contains("unchanged"), "{last}");

    // A commit waits, field by field, and what is secret is not told.
    let sha = w.remote.push_files([
        ("app/a.yaml", map("a", "2")),
        ("app/b.yaml", map("b", "2")),
        ("app/s.yaml", secret("correct horse")),
    ])?;
    until(&w, &id, |found| held_at(found, &sha)).await;
    let diff = shell.run(&["services", "diff", "blue/app"]).await?;
    assert_eq!(diff.code, Some(1), "{diff:?}");
    for line in ["-   /data/key: \"1\"", "+   /data/key: \"2\"", "~ Secret/", "(hidden)"] {
        assert!(diff.out.contains(line), "{line}: {diff:?}");
    }
    for value in ["hunter2", "aHVudGVy", "correct horse", "Y29ycmVjd"] {
        assert!(!diff.out.contains(value), "{diff:?}");
    }
    let dry = shell.does(&["services", "sync", "blue/app", "--dry-run", "--object", "configmap/a"]).await?;
    assert!(dry.contains("change    ConfigMap") && !dry.contains("/b"), "{dry}");
    assert_eq!(w.value("a").await?.as_deref(), Some("1"));

    // Chosen objects, then the rest.
    shell.does(&["services", "sync", "blue/app", "--object", "configmap/a", "--wait"]).await?;
    assert_eq!((w.value("a").await?.as_deref(), w.value("b").await?.as_deref()), (Some("2"), Some("1")));
    shell.does(&["services", "sync", "blue/app", "--wait"]).await?;
    assert_eq!(w.value("b").await?.as_deref(), Some("2"));
    w.person.stands_at(&id, &sha).await;

    // What the two syncs changed is recorded of the revision in sum, and what is secret is not.
    let admin = Asker::administrator(&w.console.url).await?;
    let document = "query ($id: ID!) { serviceDeployment(id: $id) { revision { plan { objects {
        action object { name } fields { path before after hidden } fieldsOmitted } } } } }";
    let recorded = eventually(PATIENCE, async || {
        let found = admin.data(document, json!({"id": id})).await.map_err(|error| format!("{error:#}"))?;
        let objects = &found["serviceDeployment"]["revision"]["plan"]["objects"];
        let of = |name: &str| {
            let objects = objects.as_array().into_iter().flatten();
            objects.filter(|one| one["object"]["name"] == name).cloned().collect::<Vec<_>>()
        };
        let changed = |name: &str, field: &serde_json::Value| {
            let found = of(name);
            let [one] = found.as_slice() else { return false };
            let is_all = one["fieldsOmitted"] == 0;
            is_all && one["action"] == "CHANGE" && one["fields"] == json!([field])
        };
        let plain = json!({"path": "/data/key", "before": "\"1\"", "after": "\"2\"", "hidden": false});
        let is_hidden = of("s").iter().any(|one| one["fields"][0]["hidden"] == true);
        if changed("a", &plain) && changed("b", &plain) && is_hidden {
            Ok(found.to_string())
        } else {
            Err(found.to_string())
        }
    })
    .await;
    for value in ["hunter2", "aHVudGVy", "correct horse", "Y29ycmVjd"] {
        assert!(!recorded.contains(value), "{recorded}");
    }

    // What cannot be compared is more than 1.
    w.remote.push_files([("app/a.yaml", "kind: [".to_owned())])?;
    w.person.fails_with(&id, &["a.yaml"]).await;
    let diff = shell.run(&["services", "diff", "blue/app"]).await?;
    assert_eq!(diff.code, Some(2), "{diff:?}");
    assert_eq!(shell.run(&["services", "diff", "blue/none"]).await?.code, Some(2));
    w.end().await
}

async fn deletions_wait_for_an_approval(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let shell = Shell::new(&w).await?;
    let names: Vec<String> = (10..22).map(|number| format!("m{number}")).collect();
    let file =
        |keep: usize| names.iter().take(keep).map(|name| map(name, "1")).collect::<Vec<_>>().join("---\n");
    let sha = w.remote.push_files([("app/all.yaml", file(12))])?;
    let id = service(&w, &shell, &[]).await?;
    w.person.stands_at(&id, &sha).await;

    w.remote.push_files([("app/all.yaml", file(4))])?;
    let found = until(&w, &id, |found| found.service.pending_approval.is_some()).await;
    let pending = found.service.pending_approval.unwrap();
    assert_eq!((pending.count, pending.objects.len()), (8, 8));
    assert!(shell.does(&["services", "list", "blue"]).await?.contains("deletions wait for approval"));
    let described = shell.does(&["services", "describe", "blue/app"]).await?;
    assert!(described.contains(&pending.digest) && described.contains("/m21\n"), "{described}");
    let wrong = shell.run(&["services", "approve-prune", "blue/app", "--yes", "--digest", "abc"]).await?;
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    let asked = shell.run(&["services", "approve-prune", "blue/app"]).await?;
    assert_eq!(asked.code, Some(2), "nobody is here to say yes: {asked:?}");
    assert!(asked.err.contains("/m21\n"), "{asked:?}");
    assert_eq!(w.map_names().await?.len(), 12);
    shell.does(&["services", "approve-prune", "blue/app", "--yes", "--wait"]).await?;
    assert_eq!(w.map_names().await?, ["m10", "m11", "m12", "m13"]);
    let none = shell.run(&["services", "approve-prune", "blue/app", "--yes"]).await?;
    assert!(none.err.contains("is waiting for approval"), "{none:?}");

    // Without prune what left git stays, until somebody asks.
    shell.does(&["services", "update", "blue/app", "--prune=false"]).await?;
    let sha = w.remote.push_files([("app/all.yaml", file(3))])?;
    let found = until(&w, &id, |found| {
        found.service.sha.as_deref() == Some(sha.as_str())
            && found.components.iter().any(|component| component.name == "m13" && !component.synced)
    })
    .await;
    assert_eq!(found.service.status, ServiceDeploymentStatus::Stale, "it is not what git says");
    assert_eq!(w.map_names().await?.len(), 4);
    shell.does(&["services", "sync", "blue/app", "--prune", "--wait"]).await?;
    assert_eq!(w.map_names().await?, ["m10", "m11", "m12"]);

    // A person's own deletion says what goes, and is its approval.
    let asked = shell.run(&["services", "delete", "blue/app"]).await?;
    assert!(asked.code == Some(2) && asked.err.contains("/m12\n"), "{asked:?}");
    shell.does(&["services", "delete", "blue/app", "--yes", "--wait"]).await?;
    assert!(w.map_names().await?.is_empty());
    w.end().await
}

async fn drift_is_told_left_taken_over_and_ignored(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let shell = Shell::new(&w).await?;
    let sha = w.remote.push_files([("app/a.yaml", map("a", "1")), ("app/b.yaml", map("b", "1"))])?;
    let id = service(&w, &shell, &["--self-heal=false"]).await?;
    w.person.stands_at(&id, &sha).await;
    let meddle = async |value: &str| {
        let change = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": value}});
        let somebody = PatchParams::apply("somebody").force();
        w.maps().patch("a", &somebody, &Patch::Apply(&change)).await
    };
    meddle("mine").await?;
    let told = eventually(PATIENCE, async || {
        let told = shell.does(&["services", "drift", "blue/app"]).await.map_err(|error| error.to_string())?;
        if told.contains("left") { Ok(told) } else { Err(told) }
    })
    .await;
    for words in ["ConfigMap/", "/data/key: \"mine\" → \"1\"", "written by somebody"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert_eq!(w.value("a").await?.as_deref(), Some("mine"));

    shell.does(&["services", "take-over", "blue/app", "configmap/a"]).await?;
    w.until_value("a", "1").await;
    meddle("yours").await?;
    eventually(PATIENCE, async || {
        let told = shell.does(&["services", "drift", "blue/app"]).await.map_err(|error| error.to_string())?;
        if told.contains("\"yours\"") { Ok(()) } else { Err(told) }
    })
    .await;
    // Without a field, what was changed last.
    shell.does(&["services", "ignore", "blue/app", "configmap/a"]).await?;
    let found = until(&w, &id, |found| {
        found.service.status == ServiceDeploymentStatus::Healthy
            && found.sync_config.as_ref().is_some_and(|config| config.diff_normalizers.len() == 1)
    })
    .await;
    assert_eq!(found.sync_config.unwrap().diff_normalizers[0].json_pointers, ["/data/key"]);
    let diff = shell.run(&["services", "diff", "blue/app"]).await?;
    assert_eq!(diff.code, Some(0), "{diff:?}");
    let described = shell.does(&["services", "describe", "blue/app"]).await?;
    assert!(
        described.contains("no self-heal") && described.contains("/data/key of ConfigMap"),
        "{described}"
    );
    // Also when everything else is put right.
    shell.does(&["services", "update", "blue/app", "--self-heal", "--wait"]).await?;
    assert_eq!(w.value("a").await?.as_deref(), Some("yours"));
    w.end().await
}

async fn a_service_account_without_rights_is_named(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let shell = Shell::new(&w).await?;
    let sha = w.remote.push_files([("app/a.yaml", map("a", "1"))])?;
    let id = service(&w, &shell, &["--service-account", "deployer"]).await?;
    let user = format!("system:serviceaccount:{}:deployer", w.namespace);
    w.person.fails_with(&id, &[&user, "forbidden"]).await;
    assert!(w.map_names().await?.is_empty());
    let plan = shell.does(&["services", "plan", "blue/app"]).await?;
    assert!(plan.contains("blocked") && plan.contains(&user), "{plan}");
    let described = shell.does(&["services", "describe", "blue/app", "-o", "yaml"]).await?;
    assert!(described.contains("serviceAccount: deployer"), "{described}");
    // Its own rights again.
    shell.does(&["services", "update", "blue/app", "--service-account="]).await?;
    w.person.stands_at(&id, &sha).await;
    w.end().await
}

async fn limits_of_a_project_hold(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let shell = Shell::new(&w).await?;
    let secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\nstringData:\n  password: hunter2\n";
    let sha = w.remote.push_files([("app/a.yaml", map("a", "1"))])?;
    let id = service(&w, &shell, &[]).await?;
    w.person.stands_at(&id, &sha).await;
    let limits = ["projects", "limits", "default", "--namespace", &w.namespace, "--deny-kind", "/Secret"];
    let told = shell.does(&limits).await?;
    assert!(told.contains("/Secret"), "{told}");
    w.remote.push_files([("app/a.yaml", map("a", "2")), ("app/s.yaml", secret.to_owned())])?;
    let told = w.person.fails_with(&id, &["denies the kind /Secret"]).await;
    assert!(told.contains("project default"), "{told}");

    let elsewhere = ["projects", "limits", "default", "--repository", "https://elsewhere.example.com/*"];
    shell.does(&elsewhere).await?;
    w.person.fails_with(&id, &["may not be read from"]).await;
    let mut words = vec!["services", "create", "blue/other", "--repository", &w.repository, "--ref", "main"];
    words.extend(["--folder", "app"]);
    let refused = shell.run(&words).await?;
    assert!(refused.code == Some(1) && refused.err.contains("may not be read from"), "{refused:?}");
    // Who takes the limits off, or looks at a project that has none, hears what that means.
    let limited = shell.run(&["projects", "describe", "default"]).await?;
    assert!(limited.code == Some(0) && !limited.err.contains("warning"), "{limited:?}");
    for words in [&["projects", "limits", "default", "--clear"][..], &["projects", "describe", "default"]] {
        let told = shell.run(words).await?;
        let warned = told.err.contains("has no limits") && told.err.contains("agents' full permissions");
        assert!(told.code == Some(0) && warned, "{told:?}");
    }
    let sha = w.remote.push_files([("app/a.yaml", map("a", "3"))])?;
    w.person.stands_at(&id, &sha).await;
    let marked = shell.run(&["services", "agent-upgrade", "blue/app"]).await?;
    assert!(
        marked.code == Some(0) && marked.err.contains("is the upgrade of its cluster's agent"),
        "{marked:?}"
    );
    let taken = shell.run(&["services", "agent-upgrade", "blue/app", "--off"]).await?;
    assert!(taken.code == Some(0) && taken.err.contains("does not reach"), "{taken:?}");
    w.end().await
}

async fn progress_is_told_wave_by_wave(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let shell = Shell::new(&w).await?;
    let pending = if w.cluster.as_kubesim().is_some() {
        format!("{}: ImagePullBackOff", plural_kubesim::annotations::FAIL)
    } else {
        "test.plural.sh/pod: pending".to_owned()
    };
    let database = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: database\n  annotations: \
         {{deployment.plural.sh/sync-wave: \"-1\"}}\nspec:\n  selector: {{matchLabels: {{app: database}}}}\n  \
         template:\n    metadata:\n      labels: {{app: database}}\n      annotations:\n        {pending}\n    spec:\n      \
         containers: [{{name: database, image: example.com/database}}]\n"
    );
    w.remote.push_files([("app/database.yaml", database.clone()), ("app/a.yaml", map("a", "1"))])?;
    let id = service(&w, &shell, &[]).await?;
    let found =
        until(&w, &id, |found| found.service.sync.as_ref().is_some_and(|sync| !sync.waiting_for.is_empty()))
            .await;
    let sync = found.service.sync.unwrap();
    assert_eq!((sync.step, sync.wave), (Some(SyncStep::Waiting), Some(-1)), "{sync:?}");
    assert_eq!(sync.waiting_for[0].object.name, "database");
    assert!(w.map_names().await?.is_empty(), "the next wave waits");
    let described = shell.does(&["services", "describe", "blue/app"]).await?;
    assert!(described.contains("Waiting for:\n  Deployment.apps/"), "{described}");
    assert!(
        shell.does(&["services", "list", "blue"]).await?.contains("wave -1"),
        "the list says where it is"
    );
    let waited = shell.run(&["services", "kick", "blue/app", "--wait", "--timeout", "3s"]).await?;
    assert!(waited.code == Some(1) && waited.err.contains("waiting for Deployment"), "{waited:?}");
    let sha = w.remote.push_files([("app/database.yaml", database.replace(&pending, "some: text"))])?;
    w.person.stands_at(&id, &sha).await;
    w.end().await
}
