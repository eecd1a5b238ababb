//! Plans: what a sync would do, in full, without doing it.

use plural_core::specs::DiffNormalizer;
use plural_render::Object;
use plural_sync::{Action, Engine, SyncPlan};
use plural_testkit::{TestCluster, each_cluster};
use serde_json::json;

use crate::fixture::{Fixture, config_map, deployment, object, options, secret, target};

each_cluster!(
    a_plan_says_what_would_happen,
    a_plan_shows_no_secret,
    a_plan_compares_what_the_server_would_make,
    a_plan_of_what_is_unchanged_asks_nothing,
    a_sync_records_what_it_changed,
    waves_record_what_they_change_when_they_do,
);

impl Fixture {
    async fn plan(&self, objects: &[Object]) -> anyhow::Result<SyncPlan> {
        let outcome = self.engine.plan(&self.target, objects.to_vec()).await;
        outcome.plan.ok_or_else(|| anyhow::anyhow!("no plan: {:?}", outcome.problems))
    }
}

async fn a_plan_says_what_would_happen(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    f.sync(vec![
        config_map("same", "1"),
        config_map("changes", "1"),
        config_map("goes", "1"),
        config_map("x", "1"),
    ])
    .await;
    let rival = target("rival", &f.namespace);
    f.engine.sync(&rival, vec![config_map("theirs", "1")]).await;
    let wanted = [
        config_map("same", "1"),
        config_map("changes", "2"),
        config_map("new", "1"),
        config_map("theirs", "2"),
        config_map("x", "1"),
        object(
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "bad"}, "spec": {"ports": [{"port": 99_999}]}}),
        ),
    ];
    let plan = f.plan(&wanted).await?;
    let lines: Vec<(Action, &str)> =
        plan.objects.iter().map(|object| (object.action, object.key.name.as_str())).collect();
    assert_eq!(
        lines,
        [
            (Action::Change, "changes"),
            (Action::Create, "new"),
            (Action::Conflict, "theirs"),
            (Action::Blocked, "bad"),
            (Action::Prune, "goes"),
        ]
    );
    assert_eq!(plan.unchanged, 2);
    let field = &plan.objects[0].fields[0];
    assert_eq!(
        (field.path.as_str(), field.before.as_deref(), field.after.as_deref()),
        ("/data/key", Some("\"1\""), Some("\"2\""))
    );
    let new = &plan.objects[1].fields;
    assert_eq!(new.len(), 1, "{new:?}");
    assert_eq!(
        (new[0].path.as_str(), new[0].before.as_deref(), new[0].after.as_deref()),
        ("/data/key", None, Some("\"1\""))
    );
    assert!(plan.objects[2].why.contains("rival"), "{plan:?}");
    assert!(plan.objects[3].why.contains("99999"), "{plan:?}");
    assert_eq!(f.plan(&wanted).await?.digest, plan.digest);
    // Nothing was written, and nothing is wanted that was not wanted before.
    assert_eq!(f.config_map_names().await?, ["changes", "goes", "same", "theirs", "x"]);
    assert_eq!(f.config_maps().get("changes").await?.data["data"]["key"], "1");
    assert!(f.component("new").is_none());
    Ok(())
}

async fn a_plan_shows_no_secret(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    f.sync(vec![secret("s"), secret("t")]).await;
    let mut changed = secret("s");
    changed.value["stringData"]["password"] = "hunter2".into();
    changed.value["stringData"]["more"] = "hunter3".into();
    let mut broken = object(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t"},
        "data": {"password": "not base64: hunter4"}}));
    broken.value["metadata"]["annotations"] = json!({"copy": "hunter5"});
    let plan = f.plan(&[changed, broken, secret("z")]).await?;
    let text = format!("{plan:?}");
    assert!(!text.contains("hunter") && !text.contains("aHVudGVy"), "{text}");
    let paths: Vec<&str> = plan.objects[0].fields.iter().map(|field| field.path.as_str()).collect();
    assert_eq!(paths, ["/data/password", "/data/more"]);
    assert_eq!(plan.objects[1].action, Action::Blocked);
    let new = &plan.objects[2];
    assert_eq!(new.action, Action::Create, "{plan:?}");
    assert!(new.fields.iter().any(|field| field.path == "/data/password" && field.hidden), "{new:?}");
    Ok(())
}

async fn a_plan_compares_what_the_server_would_make(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    f.sync(vec![deployment("web")]).await;
    let api = f.api("apps/v1", "Deployment", "deployments");
    f.meddle(&api, "web", json!({"spec": {"replicas": 5, "paused": true}})).await?;
    let seen = async || f.component("web").is_some_and(|found| !found.synced);
    plural_testkit::eventually(crate::fixture::PATIENCE, seen).await;
    let plan = f.plan(&[deployment("web")]).await?;
    // Defaults are no difference, and what git does not say is not ours to change.
    let fields = &plan.objects[0].fields;
    assert_eq!(fields.len(), 1, "{plan:?}");
    assert_eq!(fields[0].path, "/spec/replicas");
    assert_eq!(fields[0].manager.as_deref(), Some("somebody"));

    f.target.config.diff_normalizers.push(DiffNormalizer {
        json_pointers: vec!["/spec/replicas".to_owned()],
        ..DiffNormalizer::default()
    });
    f.sync(vec![deployment("web")]).await;
    let plan = f.plan(&[deployment("web")]).await?;
    assert!(plan.is_empty(), "{plan:?}");
    Ok(())
}

async fn a_plan_of_what_is_unchanged_asks_nothing(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let objects = [config_map("a", "1"), deployment("web")];
    f.sync(objects.to_vec()).await;
    let engine = Engine::start(f.client.clone(), options(&f.agent_namespace)).await?;
    let plan = engine.plan(&f.target, objects.to_vec()).await.plan.unwrap();
    assert!(plan.is_empty() && plan.unchanged == 2, "{plan:?}");
    Ok(())
}

/// What a record says of fields, a line for each.
fn lines(plan: &SyncPlan) -> Vec<String> {
    let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "-".to_owned());
    let of = |object: &plural_sync::PlannedObject| {
        let name = object.key.name.clone();
        let line = move |field: &plural_sync::FieldChange| {
            format!("{name} {} {} {}", field.path, side(&field.before), side(&field.after))
        };
        object.fields.iter().map(line).collect::<Vec<_>>()
    };
    plan.objects.iter().flat_map(of).collect()
}

async fn a_sync_records_what_it_changed(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let mut ignored = config_map("ignored", "1");
    ignored.value["data"]["other"] = "1".into();
    let first = f.sync(vec![config_map("a", "1"), ignored.clone(), secret("s"), deployment("web")]).await;
    let record = first.plan.unwrap();
    assert_eq!(lines(&record), Vec::<String>::new(), "what is created has no fields");

    f.target.config.diff_normalizers.push(DiffNormalizer {
        name: Some("ignored".to_owned()),
        json_pointers: vec!["/data/other".to_owned()],
        ..DiffNormalizer::default()
    });
    let mut changed_secret = secret("s");
    changed_secret.value["stringData"]["password"] = "hunter2".into();
    let mut web = deployment("web");
    web.value["spec"]["replicas"] = 3.into();
    ignored.value["data"]["key"] = "2".into();
    ignored.value["data"]["other"] = "2".into();
    let mut a = config_map("a", "2");
    a.value["data"]["more"] = "1".into();
    let objects = vec![a, ignored, changed_secret, web, config_map("new", "1")];
    let planned = f.plan(&objects).await?;
    let second = f.sync(objects.clone()).await;
    assert!(second.applied, "{second:?}");
    let record = second.plan.unwrap();
    let told = lines(&record);
    for line in ["a /data/key \"1\" \"2\"", "a /data/more - \"1\"", "ignored /data/key \"1\" \"2\""] {
        assert!(told.iter().any(|told| told == line), "{line}: {told:?}");
    }
    assert!(
        told.iter().any(|told| told.starts_with("web /spec/replicas ") && told.ends_with(" 3")),
        "{told:?}"
    );
    assert!(told.contains(&"s /data/password \"(hidden)\" \"(hidden)\"".to_owned()), "{told:?}");
    // A plan tells the fields of what would be created, too; a record leaves them out.
    let (created, changed): (Vec<String>, Vec<String>) =
        lines(&planned).into_iter().partition(|line| line.starts_with("new "));
    assert_eq!(created, ["new /data/key - \"1\""]);
    assert_eq!(told, changed, "it is what was planned");
    assert!(!format!("{record:?}").contains("hunter"), "{record:?}");
    // What was done is not told again.
    assert!(f.sync(objects.clone()).await.plan.is_none());

    // What somebody changed is told as drift, and no record of a revision.
    f.meddle(&f.config_maps(), "a", json!({"data": {"key": "evil"}})).await?;
    let seen = async || f.component("a").is_some_and(|found| !found.synced);
    plural_testkit::eventually(crate::fixture::PATIENCE, seen).await;
    let repaired = f.sync(objects).await;
    assert_eq!(repaired.drift[0].fields[0].path, "/data/key");
    assert_eq!(lines(&repaired.plan.unwrap()), Vec::<String>::new());
    Ok(())
}

async fn waves_record_what_they_change_when_they_do(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let wave = |object, wave: i32| {
        crate::waves::annotated(object, json!({"argocd.argoproj.io/sync-wave": wave.to_string()}))
    };
    f.sync(vec![wave(config_map("early", "1"), -1), wave(config_map("late", "1"), 1)]).await;
    let halted = [
        wave(config_map("early", "2"), -1),
        wave(crate::waves::stuck("web"), 0),
        wave(config_map("late", "2"), 1),
    ];
    let first = f.sync(halted.to_vec()).await.plan.unwrap();
    assert_eq!(lines(&first), ["early /data/key \"1\" \"2\""]);
    let second = f.sync(halted.to_vec()).await.plan.unwrap();
    assert_eq!(lines(&second), Vec::<String>::new(), "the last wave was not reached");
    let through = [halted[0].clone(), wave(deployment("web"), 0), halted[2].clone()];
    let last = f.complete(&through).await?.plan.unwrap();
    assert!(lines(&last).contains(&"late /data/key \"1\" \"2\"".to_owned()), "{last:?}");
    assert_ne!(last.digest, second.digest, "it is news");
    Ok(())
}
