//! Pull requests at Gitea itself, by the command line: from a connection to what a merge changes in a cluster.
//!
//! The console is told by webhook alone: it looks at repositories by itself once a day here.
//! One backend is enough: plans of commits run against both in `fleet_plans`, and a sync of a service in its own tests.

use std::{fs, sync::OnceLock, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use plural_testkit::{
    Gitea, GiteaDoor, GiteaRepository, TestCluster, TestDatabase, Unanswered, each_database, eventually,
    one_database,
};
use serde_json::{Value, json};

use crate::{
    asker::Asker,
    program::{AgentProcess, ConsoleProcess, Done, Home, finish},
    world::{Person, map},
};

each_database!(a_form_becomes_a_change_of_a_service);
one_database!(
    sqlite,
    "what is recorded in which step is the same on both, and the store's own tests ask both";
    a_console_killed_in_any_phase_opens_one
);

/// How long one step may take on a busy machine; a job that a killed console had is taken up again within it.
const PATIENCE: Duration = Duration::from_mins(2);
/// What Gitea signs with.
const SECRET: &str = "a-secret-of-the-tests-alone";
const READ: &str = "query ($id: ID!) { pullRequest(id: $id) { phase error status url ref } }";
const GENERATED: &str =
    "{ prInstances { edges { node { id state revision outdated path answers change { id } } } } }";

/// Makes a file, and changes one.
const AUTOMATION: &str = "\
apiVersion: deployments.plural.sh/v1alpha1
kind: PrAutomation
metadata:
  name: add-map
spec:
  role: SERVICE
  scmConnectionRef: {name: gitea}
  identifier: IDENTIFIER
  title: Add {{ context.name }}
  message: 'Plural Service: blue/maps'
  branchPrefix: plural/map
  labels: [maps]
  configuration:
    - name: name
      type: STRING
      validation: {regex: '^[a-z]+$'}
  creates:
    templates:
      - source: templates/map.yaml
        destination: maps/{{ context.name }}.yaml
        external: false
  updates:
    regexReplacements:
      - file: maps/newest.yaml
        regex: 'key: .*'
        replacement: 'key: \"{{ context.name }}\"'
";

/// Where a console is killed: what it asked of Gitea last, and whether that was done.
const PHASES: [(&str, Unanswered); 8] = [
    ("head", Unanswered { method: "GET", path: "/branches/main", is_done: true }),
    ("tree", Unanswered { method: "GET", path: "/git/trees/", is_done: true }),
    ("branch", Unanswered { method: "GET", path: "/branches/plural", is_done: true }),
    // Branch, commit and push are one request here.
    ("commit", Unanswered { method: "POST", path: "/contents", is_done: false }),
    ("push", Unanswered { method: "POST", path: "/contents", is_done: true }),
    ("open", Unanswered { method: "POST", path: "/pulls", is_done: false }),
    ("opened", Unanswered { method: "POST", path: "/pulls", is_done: true }),
    // It is open, and not recorded.
    ("record", Unanswered { method: "POST", path: "/labels", is_done: true }),
];

/// A console that reaches a repository of Gitea.
struct World {
    console: ConsoleProcess,
    admin: Asker,
    repository: GiteaRepository<'static>,
    home: Home,
}

/// One server for all tests; nothing, said on stderr, where it is missing.
pub(crate) fn gitea() -> Option<&'static Gitea> {
    static GITEA: OnceLock<Option<Gitea>> = OnceLock::new();
    if !Gitea::is_here_or_report() {
        return None;
    }
    GITEA.get_or_init(|| Gitea::start().unwrap()).as_ref()
}

impl World {
    /// With the automation, whose connection has its API at this address.
    async fn new(database: &TestDatabase, gitea: &'static Gitea, api: &str) -> anyhow::Result<Self> {
        let repository = gitea.repository()?;
        repository.push("main", "maps/newest.yaml", &map("newest", "none"))?;
        repository.push("main", "templates/map.yaml", &map("{{ context.name }}", "made"))?;
        let home = Home::new()?;
        let console = ConsoleProcess::start_in(&home, "console", "info", |program| {
            let program = program.without_flag("poll-seconds").flag("poll-seconds", "86400");
            if database.is_postgres() { program.env("DATABASE_URL", database.url()) } else { program }
        })
        .await?;
        let admin = Asker::administrator(&console.url()).await?;
        let world = Self { console, admin, repository, home };
        let write = |name: &str, text: &str| fs::write(world.home.path().join(name), text);
        write("token.txt", &gitea.token())?;
        write("secret.txt", SECRET)?;
        write("automation.yaml", &AUTOMATION.replace("IDENTIFIER", &world.repository.name()))?;
        let owner = world.repository.owner();
        world
            .plural(&format!(
                "cd scm-connections create gitea --type gitea --api-url {api} --repository {owner}/* --token-file token.txt"
            ))
            .await?;
        let external = world
            .plural(&format!(
                "cd scm-webhooks create --connection gitea --owner {owner} --secret-file secret.txt -o jsonpath={{.externalId}}"
            ))
            .await?;
        let hook = format!("{}/ext/v1/webhooks/gitea/{}", world.console.url(), external.trim());
        world.repository.tell(&hook, SECRET)?;
        world.plural("pr automations create --file automation.yaml").await?;
        Ok(world)
    }

    /// Runs `plural` as the administrator, which has to succeed; what it wrote to standard output.
    async fn plural(&self, line: &str) -> anyhow::Result<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = self.home.plural(&words);
        command.env("PLURAL_CONSOLE_URL", self.console.url()).env("PLURAL_CONSOLE_TOKEN", &self.admin.token);
        let Done { code, out, err } = finish(command).await?;
        anyhow::ensure!(code == Some(0), "plural {line}: {code:?}\n{out}\n{err}");
        Ok(out)
    }

    /// The pull requests at Gitea: number, title, branch, state.
    fn opened(&self) -> anyhow::Result<Vec<(u64, String, String, String)>> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let told = self.repository.all_pull_requests()?;
        let one = |pull: &Value| {
            let number = pull["number"].as_u64().unwrap_or_default();
            (number, text(&pull["title"]), text(&pull["head"]["ref"]), text(&pull["state"]))
        };
        Ok(told.iter().map(one).collect())
    }

    /// The comment about services on a pull request, once it says this. There is one, whatever becomes of it.
    async fn comment(&self, number: u64, says: &str) -> String {
        eventually(PATIENCE, async || {
            let all = self.repository.comments(number).map_err(|error| format!("{error:#}"))?;
            assert!(all.len() < 2, "{all:?}");
            let found = all.first().filter(|(_, text)| text.contains(says)).map(|(_, text)| text.clone());
            found.ok_or_else(|| format!("nothing says {says:?}: {all:?}"))
        })
        .await
    }

    /// The only thing that pull requests generated, once it is so.
    async fn generated(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(PATIENCE, async || {
            let asked = self.admin.data(GENERATED, json!({})).await;
            let all = asked.map_err(|error| format!("{error:#}"))?["prInstances"]["edges"].take();
            match all.as_array().map(Vec::as_slice) {
                Some([one]) if is_so(&one["node"]) => Ok(one["node"].clone()),
                _ => Err(all.to_string()),
            }
        })
        .await
    }
}

async fn a_form_becomes_a_change_of_a_service(database: TestDatabase) -> anyhow::Result<()> {
    let Some(gitea) = gitea() else { return Ok(()) };
    let mut world = World::new(&database, gitea, &gitea.api_url()).await?;
    let person = Person::administrator(&world.console.url()).await?;
    let blue = person.cluster("blue").await?;
    let cluster = TestCluster::kubesim().await?;
    let namespace = cluster.namespace().await?;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client().await?, &namespace);
    let repository = person.repository(&world.repository.clone_url()).await?;
    let service = person.service(&blue, &namespace, &repository, "maps").await?;
    let mut agent =
        AgentProcess::start(&world.home, &world.console.url(), &blue.token, &cluster, "info").await?;
    person.stands_at(&service, &world.repository.head("main")?).await;

    // The difference before there is anything at the host.
    let paths = world.plural("pr preview add-map --set name=web -o name").await?;
    assert_eq!(paths.lines().collect::<Vec<_>>(), ["maps/newest.yaml", "maps/web.yaml"]);
    let patch = world.plural("pr preview add-map --set name=web").await?;
    for line in ["+++ b/maps/web.yaml", "-  key: \"none\"", "+  key: \"web\"", "+  name: web"] {
        assert!(patch.lines().any(|found| found == line), "{line}: {patch}");
    }
    assert_eq!((world.opened()?, world.repository.branches()?), (vec![], vec!["main".to_owned()]));

    // Open, with those files and no others.
    let made: Value = serde_json::from_str(&world.plural("pr create add-map --set name=web -o json").await?)?;
    let branch = made["ref"].as_str().unwrap_or_default();
    assert_eq!((&made["phase"], &made["status"]), (&json!("OPENED"), &json!("OPEN")), "{made}");
    let opened = world.opened()?;
    let [(number, title, head, state)] = opened.as_slice() else { panic!("{opened:?}") };
    assert_eq!((title.as_str(), head.as_str(), state.as_str()), ("Add web", branch, "open"));
    let mut changed = world.repository.changed_files(*number)?;
    changed.sort();
    let expected = [("maps/newest.yaml", "changed"), ("maps/web.yaml", "added")];
    assert_eq!(changed, expected.map(|(path, how)| (path.to_owned(), how.to_owned())));
    assert_eq!(world.repository.file(branch, "maps/web.yaml")?, Some(map("web", "made")));
    assert_eq!(world.repository.file(branch, "maps/newest.yaml")?, Some(map("newest", "web")));
    assert_eq!(world.repository.file("main", "maps/web.yaml")?, None);
    let listed = world.plural("pr list --status open").await?;
    assert!(listed.contains("Add web"), "{listed}");

    // Whoever reviews it is told what it would do, in counts.
    let comment = world.comment(*number, "| blue | 1 | 1 | 1 | 0 | 0 |").await;
    assert!(comment.contains("### Services at") && comment.contains("ConfigMap"), "{comment}");
    assert!(!comment.contains("made") && !comment.contains("newest"), "{comment}");
    let head = world.repository.head(branch)?;
    eventually(PATIENCE, async || {
        let all = world.repository.statuses(&head).map_err(|error| format!("{error:#}"))?;
        let is_told = all.iter().any(|(check, state)| check == "plural/services" && state == "success");
        if is_told { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await;
    assert!(maps.get_opt("web").await?.is_none(), "nothing is applied");

    // Merged there, it comes to the cluster.
    world.repository.merge(*number)?;
    person.stands_at(&service, &world.repository.head("main")?).await;
    let key = async |name: &str| anyhow::Ok(maps.get(name).await?.data.unwrap_or_default().remove("key"));
    assert_eq!((key("web").await?.as_deref(), key("newest").await?.as_deref()), (Some("made"), Some("web")));
    let known = world.generated(|one| one["state"] == "ACTIVE").await;
    assert_eq!((&known["revision"], &known["outdated"]), (&json!(1), &json!(false)), "{known}");
    assert_eq!(known["answers"], json!({"name": "web"}));

    // The next version asks for more, and makes more of it. Meanwhile somebody wrote into the file.
    let sized = |name: &str, size: &str| format!("{}  size: \"{size}\"\n", map(name, "made"));
    world.repository.push(
        "main",
        "templates/sized.yaml",
        &sized("{{ context.name }}", "{{ context.size }}"),
    )?;
    world.repository.push("main", "maps/web.yaml", &format!("# by hand\n{}", map("web", "made")))?;
    let next = AUTOMATION
        .replace("IDENTIFIER", &world.repository.name())
        .replace("templates/map.yaml", "templates/sized.yaml")
        .replace("  creates:\n", "    - name: size\n      type: STRING\n  creates:\n");
    fs::write(world.home.path().join("next.yaml"), next)?;
    assert_eq!(world.plural("pr outdated -o name").await?, "");
    world.plural("pr automations update add-map --file next.yaml").await?;
    let id = known["id"].as_str().unwrap_or_default();
    assert_eq!(world.plural("pr outdated -o name").await?.trim(), format!("pr-instance/{id}"));

    // It comes there by a pull request, with what was written by hand.
    let made: Value =
        serde_json::from_str(&world.plural(&format!("pr upgrade {id} --set size=large -o json")).await?)?;
    assert_eq!((&made["phase"], &made["title"]), (&json!("OPENED"), &json!("Upgrade: Add web")), "{made}");
    let branch = made["ref"].as_str().unwrap_or_default();
    let opened = world.opened()?;
    let number = opened.iter().find(|(_, _, head, _)| head == branch).map(|(number, ..)| *number);
    let number = number.unwrap_or_else(|| panic!("{opened:?}"));
    assert_eq!(world.repository.changed_files(number)?, [("maps/web.yaml".to_owned(), "changed".to_owned())]);
    let upgraded = format!("# by hand\n{}", sized("web", "large"));
    assert_eq!(world.repository.file(branch, "maps/web.yaml")?, Some(upgraded));
    let comment = world.comment(number, "| blue | 1 | 0 | 1 | 0 | 0 |").await;
    assert!(!comment.contains("large"), "{comment}");
    let known = world.generated(|one| one["change"]["id"] == made["id"]).await;
    assert_eq!((&known["revision"], &known["outdated"]), (&json!(1), &json!(true)), "{known}");

    // Merged, it is in the cluster and in the ledger.
    world.repository.merge(number)?;
    person.stands_at(&service, &world.repository.head("main")?).await;
    let size = maps.get("web").await?.data.unwrap_or_default().remove("size");
    assert_eq!(size.as_deref(), Some("large"));
    let known = world.generated(|one| one["revision"] == 2).await;
    assert_eq!((&known["state"], &known["outdated"]), (&json!("ACTIVE"), &json!(false)), "{known}");
    assert_eq!(known["answers"], json!({"name": "web", "size": "large"}));
    assert_eq!(world.plural("pr outdated -o name").await?, "");
    agent.stop();
    world.console.stop();
    Ok(())
}

async fn a_console_killed_in_any_phase_opens_one(database: TestDatabase) -> anyhow::Result<()> {
    let Some(gitea) = gitea() else { return Ok(()) };
    let door = GiteaDoor::start(gitea)?;
    let mut world = World::new(&database, gitea, &door.api_url()).await?;
    for (before, (name, request)) in PHASES.into_iter().enumerate() {
        // A tree that is known already is not asked for.
        world.repository.push("main", "notes.txt", name)?;
        door.hold(Some(request));
        let begun = world.plural(&format!("pr create add-map --set name={name} --no-wait -o json")).await?;
        let begun: Value = serde_json::from_str(&begun)?;
        assert_eq!(begun["phase"], "PENDING", "{name}: {begun}");
        eventually(PATIENCE, async || {
            let log = world.console.log();
            if door.is_held() { Ok(()) } else { Err(format!("{name} is not asked: {log}")) }
        })
        .await;
        world.console.kill();
        door.hold(None);
        world.console.restart().await?;
        let now = eventually(PATIENCE, async || {
            let asked = world.admin.data(READ, json!({"id": begun["id"]})).await;
            let now = asked.map_err(|error| format!("{name}: {error:#}"))?["pullRequest"].take();
            if now["phase"] == "OPENED" { Ok(now) } else { Err(format!("{name}: {now}")) }
        })
        .await;
        // One for each that was asked for, and no branch that nobody knows.
        let branch = now["ref"].as_str().unwrap_or_default();
        let opened = world.opened()?;
        assert_eq!(opened.len(), before + 1, "{name}: {opened:?}");
        let of_branch: Vec<_> = opened.iter().filter(|(_, _, head, _)| head == branch).collect();
        assert_eq!(of_branch.len(), 1, "{name}: {opened:?}");
        assert_eq!(of_branch[0].1, format!("Add {name}"));
        assert_eq!(
            now["url"].as_str().unwrap_or_default().rsplit('/').next(),
            Some(of_branch[0].0.to_string().as_str())
        );
        assert_eq!(
            world.repository.branches()?.len(),
            before + 2,
            "{name}: {:?}",
            world.repository.branches()?
        );
        assert_eq!(world.repository.file(branch, &format!("maps/{name}.yaml"))?, Some(map(name, "made")));
    }
    world.console.stop();
    Ok(())
}
