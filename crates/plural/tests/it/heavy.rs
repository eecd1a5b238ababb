//! Renders that want more than there is: programs with the memory that the manifests give them, and somebody who is hostile.

use std::{fmt::Write as _, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use plural_testkit::{Backend, GitRemote, SmallMemory, TestCluster, each_cluster, eventually, exclusive};
use plural_wire::{
    GetServicePreview, HelmConfigAttributes, KickService, RenderingAttributes, ServiceDeploymentStatus,
};

use crate::{
    program::{AgentProcess, ConsoleProcess, Home},
    world::{PATIENCE, Person, Registered, attributes, map},
};

each_cluster!(
    attack_30_heavy_charts_end_no_agent_and_hold_nobody_up,
    what_was_rendered_when_an_agent_was_killed_is_quarantined,
);

/// The memory limit of the manifests that `plural cd clusters bootstrap` writes.
const SHIPPED: u64 = 512 << 20;
/// How long all hostile services together may take to end on a busy machine.
const ALL_END: Duration = Duration::from_mins(5);

const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\n";

/// A hostile source: files, and how it is rendered.
struct Hostile {
    name: &'static str,
    files: Vec<(&'static str, String)>,
    lua: Option<&'static str>,
}

fn chart(name: &'static str, template: &str) -> Hostile {
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n";
    let files = vec![("Chart.yaml", CHART.to_owned()), ("templates/t.yaml", format!("{template}\n{object}"))];
    Hostile { name, files, lua: None }
}

fn files(name: &'static str, files: Vec<(&'static str, String)>) -> Hostile {
    Hostile { name, files, lua: None }
}

/// Many ways to hold much, or to take long.
fn hostiles() -> Vec<Hostile> {
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n";
    let mut all = vec![
        chart(
            "append",
            r#"{{- $l := list }}{{- range $i := until 10000 }}{{- $l = append $l (printf "%d%s" $i (repeat 5000000 "x")) }}{{- end }}"#,
        ),
        chart(
            "dicts",
            r#"{{- $d := dict }}{{- range $i := until 5000000 }}{{- $_ := set $d (toString $i) (dict "a" (list 1 2 (dict "b" $i))) }}{{- end }}"#,
        ),
        chart("lists", r"{{- $l := list 1 }}{{- range until 60 }}{{- $l = concat $l $l }}{{- end }}"),
        chart("output", r##"{{- range until 100000 }}{{ repeat 1000000 "# " }}{{- end }}"##),
        chart(
            "steps",
            r"{{- range until 100000 }}{{- range until 100000 }}{{- $x := add 1 2 }}{{- end }}{{- end }}",
        ),
        chart(
            "lookups",
            r#"{{- $l := list }}{{- range $i := until 400 }}{{- $l = append $l (lookup "v1" "ConfigMap" $.Release.Namespace "" | deepCopy) }}{{- end }}"#,
        ),
    ];
    let mut lua = files(
        "lua",
        vec![("Chart.yaml", CHART.to_owned()), ("templates/t.yaml", format!("{object}data: {{a: b}}\n"))],
    );
    lua.lua = Some(
        "local t = {} local s = 'x' for i = 1, 20 do s = s .. s end for i = 1, 1000 do t[i] = s .. i end",
    );
    all.push(lua);
    // Each of these values stands for a hundred, three times over.
    let hundred = |item: &str| vec![item; 100].join(",");
    let anchors =
        format!("{object}a: &a [{}]\nb: &b [{}]\nc: [{}]\n", hundred("x"), hundred("*a"), hundred("*b"));
    let names = ["1.yaml", "2.yaml", "3.yaml", "4.yaml", "5.yaml", "6.yaml", "7.yaml", "8.yaml"];
    all.push(files(
        "anchors",
        names
            .iter()
            .map(|name| (*name, anchors.replace("name: x", &format!("name: x{}", &name[..1]))))
            .collect(),
    ));
    let mut many = String::new();
    for number in 0..3000 {
        let _ = write!(many, "---\n{}", map(&format!("m{number}"), "v"));
    }
    let kustomization = "resources: [many.yaml, big.yaml]\nreplacements:\n- source: {kind: ConfigMap, name: big, fieldPath: data.key}\n  \
                         targets:\n  - select: {kind: ConfigMap}\n    fieldPaths: [data.a, data.b]\n    options: {create: true}\n";
    all.push(files(
        "kustomize",
        vec![
            ("kustomization.yaml", kustomization.to_owned()),
            ("many.yaml", many),
            ("big.yaml", map("big", &"z".repeat(60_000))),
        ],
    ));
    let mut liquid =
        String::from("{% assign s = 'x' %}{% for i in (1..22) %}{% assign s = s | append: s %}{% endfor %}");
    for number in 0..14 {
        let _ = write!(liquid, "{{% assign v{number} = s | append: '' %}}");
    }
    all.push(files("liquid", vec![("a.yaml.liquid", format!("{liquid}{object}"))]));
    all
}

struct Fleet {
    console: ConsoleProcess,
    person: Person,
    registered: Registered,
    remote: GitRemote,
    repository: String,
    namespace: String,
    home: Home,
}

impl Fleet {
    async fn new(cluster: &TestCluster) -> anyhow::Result<Self> {
        let home = Home::new()?;
        let console = ConsoleProcess::start(&home, None, "info").await?;
        let person = Person::administrator(&console.url()).await?;
        let registered = person.cluster("blue").await?;
        let remote = GitRemote::new()?;
        remote.push_files([("good/map.yaml", map("good", "0"))])?;
        let repository = person.repository(&remote.path().display().to_string()).await?;
        let namespace = cluster.namespace().await?;
        Ok(Self { console, person, registered, remote, repository, namespace, home })
    }

    async fn hostile(&self, hostile: &Hostile, name: &str) -> anyhow::Result<String> {
        let mut attributes = attributes(name, &self.namespace, &self.repository, "main", hostile.name);
        attributes.templated = Some(true);
        if let Some(script) = hostile.lua {
            let helm = HelmConfigAttributes {
                lua_script: Some(script.to_owned()),
                ..HelmConfigAttributes::default()
            };
            attributes.rendering = RenderingAttributes { helm: Some(helm), ..RenderingAttributes::default() };
        }
        self.person.service_of(&self.registered, attributes).await
    }

    fn push(&self, hostiles: &[Hostile]) -> anyhow::Result<()> {
        let mut commit = self.remote.commit("main");
        for Hostile { name, files, .. } in hostiles {
            for (path, text) in files {
                commit = commit.file(&format!("{name}/{path}"), text);
            }
        }
        commit.push()?;
        Ok(())
    }
}

async fn attack_30_heavy_charts_end_no_agent_and_hold_nobody_up(cluster: TestCluster) -> anyhow::Result<()> {
    let Some(memory) = SmallMemory::new_or_say(SHIPPED) else { return Ok(()) };
    let _alone = exclusive().await;
    let fleet = Fleet::new(&cluster).await?;
    let hostiles = hostiles();
    fleet.push(&hostiles)?;
    // What the lookups find: 20 MiB.
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client().await?, &fleet.namespace);
    for number in 0..20 {
        let mut found =
            ConfigMap { data: Some([("v".to_owned(), "w".repeat(1 << 20))].into()), ..ConfigMap::default() };
        found.data.as_mut().unwrap().values_mut().for_each(|value| value.truncate(1_000_000));
        found.metadata.name = Some(format!("found-{number}"));
        maps.create(&PostParams::default(), &found).await?;
    }
    let good = fleet.person.service(&fleet.registered, &fleet.namespace, &fleet.repository, "good").await?;
    let console = fleet.console.url();
    let within =
        |program: plural_testkit::process::Program| program.within(&memory).flag("render-seconds", "3");
    let mut agent =
        AgentProcess::start_with(&fleet.home, (&console, &fleet.registered.token), &cluster, "info", within)
            .await?;
    let mut all = Vec::new();
    // Forty of them; where the API server is a real one, which changes nothing here, each kind once.
    let copies = if cluster.backend() == Backend::Kubesim { 4 } else { 1 };
    for copy in 0..copies {
        for hostile in &hostiles {
            let id = fleet.hostile(hostile, &format!("{}-{copy}", hostile.name)).await?;
            all.push((hostile.name, id));
        }
    }
    // The other tenant's commits arrive meanwhile, each within the minute that `stands_at` waits.
    for round in 1..=3 {
        let sha =
            fleet.remote.commit("main").file("good/map.yaml", map("good", &round.to_string())).push()?;
        fleet.person.stands_at(&good, &sha).await;
        agent.is_alive()?;
    }
    // And all the others come to an end: with an error that names the limit, or rendered after all.
    let mut told: Vec<(&str, String)> = Vec::new();
    for (name, id) in &all {
        let ended = eventually(ALL_END, async || {
            let found = fleet.person.details(id).await.map_err(|error| format!("{error:#}"))?;
            match found.service.status {
                ServiceDeploymentStatus::Failed => {
                    Ok(found.errors.first().map(|e| e.message.clone()).unwrap_or_default())
                }
                ServiceDeploymentStatus::Healthy => Ok(String::new()),
                other => Err(format!("{name}: {other:?} {:?}", found.errors)),
            }
        })
        .await;
        told.push((*name, ended));
    }
    eprintln!("{told:#?}\npeak {} MiB", memory.peak()? >> 20);
    agent.is_alive()?;
    assert_eq!(memory.kills()?, 0, "the kernel killed something");
    for (name, words) in [
        ("append", " MiB of memory (limit of one render on this agent"),
        ("output", " MiB of memory (limit of one render on this agent"),
        ("steps", "--render-seconds"),
        // A slow machine meets the limit of time first.
        ("dicts", "limit of one render on this agent"),
        ("lookups", "limit of one render on this agent"),
        ("anchors", "excessive aliasing"),
        ("kustomize", "limit of one render on this agent"),
    ] {
        for (_, message) in told.iter().filter(|(told, _)| *told == name) {
            assert!(message.contains(words), "{name}: {message}");
        }
    }
    agent.stop();
    drop(fleet);
    Ok(())
}

async fn what_was_rendered_when_an_agent_was_killed_is_quarantined(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let _alone = exclusive().await;
    let mut fleet = Fleet::new(&cluster).await?;
    let slow = chart(
        "slow",
        r"{{- range until 100000 }}{{- range until 100000 }}{{- $x := add 1 2 }}{{- end }}{{- end }}",
    );
    let files = slow.files.iter().map(|(path, text)| (format!("slow/{path}"), text.clone()));
    fleet.remote.push_files(files)?;
    let person = &fleet.person;
    let good = person.service(&fleet.registered, &fleet.namespace, &fleet.repository, "good").await?;
    let bad = fleet.hostile(&slow, slow.name).await?;
    let console = fleet.console.url();
    let mut agent =
        AgentProcess::start(&fleet.home, &console, &fleet.registered.token, &cluster, "info").await?;
    let folder = fleet.home.path().join("agent/cache/rendering");
    let note = folder.join(&bad);
    let counted = async |crashes: u32| {
        let line = format!("{bad} {crashes} ");
        eventually(PATIENCE, async || {
            let known = std::fs::read_to_string(folder.join("crashes")).unwrap_or_default();
            if known.contains(&line) { Ok(()) } else { Err(known) }
        })
        .await;
    };
    // A kill between its render among others and the one alone accuses nobody, and is done again.
    let end_in_render = async |agent: &mut AgentProcess| -> anyhow::Result<()> {
        loop {
            eventually(PATIENCE, async || note.exists()).await;
            agent.kill();
            let was_rendering = note.exists();
            agent.restart()?;
            if was_rendering {
                return Ok(());
            }
        }
    };
    for crashes in 1..=3 {
        end_in_render(&mut agent).await?;
        counted(crashes).await;
    }
    let told = person.fails_with(&bad, &["killed 3 times", "quarantined"]).await;
    assert!(told.contains("plural cd services sync"), "{told}");
    // The others go on, and a start alone does not let it go.
    for round in ["1", "2"] {
        let sha = fleet.remote.commit("main").file("good/map.yaml", map("good", round)).push()?;
        person.stands_at(&good, &sha).await;
        assert!(!note.exists());
        agent.kill();
        agent.restart()?;
        counted(3).await;
    }
    // Somebody who asks for it does.
    person.client.send(&KickService { service_id: Some(bad.clone()), cluster: None, name: None }).await?;
    for crashes in 1..=3 {
        end_in_render(&mut agent).await?;
        counted(crashes).await;
    }
    person.fails_with(&bad, &["quarantine"]).await;
    // And so does a source that renders.
    let sha = fleet.remote.commit("main").file("slow/templates/t.yaml", map("slow", "1")).push()?;
    person.stands_at(&bad, &sha).await;
    assert!(!folder.join("crashes").exists());
    agent.stop();
    fleet.console.stop();
    Ok(())
}

#[tokio::test]
async fn attack_30_heavy_previews_end_no_console_and_hold_nobody_up() -> anyhow::Result<()> {
    let Some(memory) = SmallMemory::new_or_say(SHIPPED) else { return Ok(()) };
    let _alone = exclusive().await;
    let home = Home::new()?;
    let console = ConsoleProcess::start_in(&home, "console", "info", |program| {
        program.within(&memory).flag("preview-seconds", "2")
    })
    .await?;
    let person = Person::administrator(&console.url()).await?;
    let registered = person.cluster("blue").await?;
    let remote = GitRemote::new()?;
    remote.push_files([("good/map.yaml", map("good", "0"))])?;
    let repository = person.repository(&remote.path().display().to_string()).await?;
    let mut fleet =
        Fleet { console, person, registered, remote, repository, namespace: "apps".to_owned(), home };
    let mut hostiles = hostiles();
    hostiles.retain(|hostile| ["append", "output", "dicts", "steps"].contains(&hostile.name));
    fleet.push(&hostiles)?;
    let good = fleet.person.service(&fleet.registered, "shop", &fleet.repository, "good").await?;
    let mut asked = tokio::task::JoinSet::new();
    for hostile in &hostiles {
        let id = fleet.hostile(hostile, hostile.name).await?;
        for _ in 0..3 {
            let (client, id, name) = (fleet.person.client.clone(), id.clone(), hostile.name);
            asked.spawn(async move {
                let preview = GetServicePreview { id: Some(id), cluster: None, name: None };
                // Before its source is there, and while too many others wait, it is refused.
                let told = eventually(ALL_END, async || {
                    let made = client.send(&preview).await.map_err(|error| format!("{error:#}"))?;
                    let is_read = made.errors.iter().all(|error| error.source != "source");
                    if is_read { Ok(made) } else { Err(format!("{made:?}")) }
                });
                (name, told.await.errors)
            });
        }
    }
    let preview = GetServicePreview { id: Some(good), cluster: None, name: None };
    for _ in 0..5 {
        eventually(PATIENCE, async || {
            let made = fleet.person.client.send(&preview).await.map_err(|error| format!("{error:#}"))?;
            if made.errors.is_empty() && made.objects.len() == 1 { Ok(()) } else { Err(format!("{made:?}")) }
        })
        .await;
    }
    while let Some(done) = asked.join_next().await {
        let (name, told) = done?;
        assert!(told.iter().any(|error| error.message.contains("limit of one preview")), "{name}: {told:?}");
    }
    assert_eq!(memory.kills()?, 0, "the kernel killed something; peak {} MiB", memory.peak()? >> 20);
    fleet.console.stop();
    Ok(())
}
