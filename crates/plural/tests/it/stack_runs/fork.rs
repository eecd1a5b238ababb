//! Pull requests of forks with OpenTofu itself: the code reads what it can find, and finds nothing until somebody releases its commit.

use plural_testkit::{
    GitRemote, GitServer, ScmDialect, ScmServer, TestDatabase, each_database, one_database, program_or_report,
};
use serde_json::{Value, json};

use super::{life::configuration, world::World};
use crate::world::Person;

each_database!(a_fork_finds_nothing_on_a_simulated_cluster);
one_database!(
    sqlite,
    "the cluster is what is different here: on the real one a command may read its own environment in /proc";
    a_fork_finds_nothing_on_a_real_control_plane
);

/// Tells what it finds beside itself in the way in which OpenTofu tells anything before it plans: by an error that names it. Where it finds
/// nothing, it is valid.
const PROBE: &str = r#"
locals {
  environment = try(file("/proc/self/environ"), "")
  found = join("+", compact([
    length(regexall("OPEN_KEY", local.environment)) > 0 ? "variable" : "",
    length(regexall("TF_HTTP", local.environment)) > 0 ? "credential" : "",
    fileexists("own.txt") ? "stackfile" : "",
    fileexists("plural.auto.tfvars.json") ? "variables" : "",
    fileexists("plural_backend_override.tf") ? "backend" : "",
    fileexists(".terraform/terraform.tfstate") ? "state" : "",
  ]))
  told = local.found == "" ? "nothing" : file("found-${local.found}")
}

output "told" {
  value = local.told
}
"#;
/// Needs no provider but the one that is built in.
const GOOD: &str = "resource \"terraform_data\" \"two\" {\n  input = \"two\"\n}\n";

const PLAN: &str =
    "mutation ($id: ID!, $url: String!) { planStackPullRequest(id: $id, url: $url) { id number } }";
const RELEASE: &str = "mutation ($id: ID!, $url: String!, $sha: String!) {
  releasePullRequestCommit(id: $id, url: $url, sha: $sha) { id number pullRequest { fork checkedOnly } } }";
const PULLS: &str =
    "query ($id: ID) { infrastructureStack(id: $id) { pullRequests { sha fork waitsForRelease } } }";

async fn a_fork_finds_nothing_on_a_simulated_cluster(database: TestDatabase) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    a_fork_finds_nothing(World::simulated(&database).await?).await
}

async fn a_fork_finds_nothing_on_a_real_control_plane(database: TestDatabase) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    let Some(world) = World::real(&database).await? else { return Ok(()) };
    a_fork_finds_nothing(world).await
}

/// A stack whose repository is at a git host, and its host.
struct Hosted {
    world: World,
    host: ScmServer,
    stack: String,
    _git: GitServer,
}

impl Hosted {
    /// Applied, so that there is a state, and with something of each kind that a fork must not find.
    async fn new(mut world: World) -> anyhow::Result<Self> {
        let host = ScmServer::start(ScmDialect::Gitea)?;
        let remote = GitRemote::named("plural/fleet.git")?;
        remote.push_files([("infra/main.tf", configuration("one"))])?;
        let git = GitServer::start(remote.root())?;
        let url = git.url(&remote);
        world.remote = remote;
        let create = "mutation ($a: ScmConnectionAttributes!) { createScmConnection(attributes: $a) { id } }";
        let connection = json!({
            "name": "host", "type": "GITEA", "apiUrl": host.api_url(), "token": host.token(),
            "repositories": ["plural/*"],
        });
        world.admin.data(create, json!({"a": connection})).await?;
        let person = Person::administrator(&world.console.url()).await?;
        world.repository = person.repository(&url).await?;
        let more = json!({
            "manageState": true,
            "environment": [{"name": "OPEN_KEY", "value": "open-value"}, {"name": "KEY", "value": "s3cret-value", "secret": true}],
            "files": [{"path": "own.txt", "content": "s3cret-file"}],
            "variables": {"given": "s3cret-variable"},
        });
        let stack = world.stack("TERRAFORM", "infra", more).await?;
        let run = world.planned(&stack, None).await;
        world.approve(&run).await?;
        world.until(&run, "SUCCESSFUL").await;
        Ok(Self { world, host, stack, _git: git })
    }

    /// A pull request of a fork with this file beside the code: its address, and its head.
    fn opens(&self, name: &str, content: &str) -> anyhow::Result<(String, String)> {
        let number = self.host.open_from(name, true);
        let branch = format!("refs/heads/{name}");
        self.world.remote.set_ref(&branch, "main")?;
        let path = format!("infra/{name}.tf");
        let sha = self.world.remote.commit(name).file(&path, content).push()?;
        self.host.push_commit(name, &sha, &[(path.as_str(), content)]);
        // Git finds a fork's commit by the name of its pull request alone.
        self.world.remote.set_ref(&format!("refs/pull/{number}/head"), &sha)?;
        self.world.remote.delete_ref(&branch)?;
        Ok((format!("http://127.0.0.1/plural/fleet/pulls/{number}"), sha))
    }

    /// The run that one of these makes, as it ends.
    async fn ends(&self, document: &str, variables: Value, status: &str) -> anyhow::Result<Value> {
        let made = self.world.admin.data(document, variables).await?;
        let run = made.as_object().and_then(|made| made.values().next()).cloned().unwrap_or_default();
        Ok(self.world.until(&run, status).await)
    }

    async fn checked(&self, url: &str) -> anyhow::Result<Value> {
        self.ends(PLAN, json!({"id": self.stack, "url": url}), "SUCCESSFUL").await
    }

    async fn released(&self, url: &str, sha: &str, status: &str) -> anyhow::Result<Value> {
        self.ends(RELEASE, json!({"id": self.stack, "url": url, "sha": sha}), status).await
    }
}

async fn a_fork_finds_nothing(world: World) -> anyhow::Result<()> {
    let h = Hosted::new(world).await?;
    let (url, sha) = h.opens("probe", PROBE)?;
    let run = h.checked(&url).await?;
    let steps: Vec<(&Value, String)> = run["steps"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|step| (&step["cmd"], step["args"].to_string()))
        .collect();
    let tofu = json!("tofu");
    let expected = [r#"["init","-input=false","-backend=false"]"#, r#"["validate"]"#];
    assert_eq!(steps, expected.map(|args| (&tofu, args.to_owned())), "{}", h.world.told(&run));
    // OpenTofu itself has read the module, and found nothing that it could have told of.
    let printed = World::printed(&run);
    assert!(printed.contains("The configuration is valid"), "{printed}");
    assert!(!printed.contains("found-") && !printed.contains("s3cret"), "{printed}");
    let pulls = h.world.admin.data(PULLS, json!({"id": h.stack})).await?;
    let waits = json!([{"sha": sha, "fork": true, "waitsForRelease": true}]);
    assert_eq!(pulls["infrastructureStack"]["pullRequests"], waits, "{pulls}");

    // Released, the same commit finds what each plan of the stack has: so the probe would have told.
    let run = h.released(&url, &sha, "FAILED").await?;
    let printed = World::printed(&run);
    assert!(printed.contains("stackfile+variables+backend+state"), "{}", h.world.told(&run));
    assert!(!printed.contains("s3cret"), "{printed}");
    if h.world.place.as_real().is_some() {
        assert!(printed.contains("found-variable+credential+"), "{printed}");
    }

    // One that does what it should is checked and, released, planned; the stack stands as it stood.
    let (url, sha) = h.opens("good", GOOD)?;
    let run = h.checked(&url).await?;
    assert_eq!((&run["kind"], &run["plan"]["add"]), (&json!("DRY_RUN"), &json!(0)), "{run}");
    let run = h.released(&url, &sha, "SUCCESSFUL").await?;
    assert_eq!((&run["sha"], &run["plan"]["add"]), (&json!(sha), &json!(1)), "{run}");
    let known = h.world.known(&h.stack).await?;
    assert_eq!(known["stateVersion"]["resources"], 1, "{known}");
    h.world.end();
    Ok(())
}
