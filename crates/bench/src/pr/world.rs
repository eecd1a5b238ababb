//! A repository at the host, and a console that opens pull requests there and has a service of it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Instant,
};

use anyhow::Context as _;
use plural_testkit::{GitRemote, GiteaRepository, OwnedFolder};
use plural_wire::{CreatePullRequest, PrPhase, PreviewPullRequest};
use serde_json::json;
use tokio::process::Command;

use crate::{git::house::House, idle::program};

/// The service, and its folder.
const SERVICE: &str = "apps";
/// What the host signs with.
const SECRET: &str = "a-secret-of-the-benches-alone";
/// Files of a folder.
const FOLDER: usize = 100;
/// Makes a file, and changes one that is there.
const AUTOMATION: &str = "\
name: add-app
role: SERVICE
title: Add {{ context.name }}
message: Adds {{ context.name }}
branchPrefix: plural/app
configuration:
  - name: name
    type: STRING
    validation: {regex: '^[a-z0-9-]+$'}
creates:
  templates:
    - source: templates/app.yaml
      destination: apps/{{ context.name }}.yaml
      external: false
updates:
  yamlOverlays:
    - file: index.yaml
      templated: true
      listMerge: APPEND
      yaml: |
        resources:
          - apps/{{ context.name }}.yaml
";

pub(super) struct World<'a> {
    house: House,
    repository: &'a GiteaRepository<'a>,
    automation: String,
    folder: OwnedFolder,
}

impl<'a> World<'a> {
    pub(super) async fn start(repository: &'a GiteaRepository<'a>, files: usize) -> anyhow::Result<Self> {
        let source = GitRemote::new()?;
        source.push_files(tree(files))?;
        repository.push_from(&source)?;
        let folder = OwnedFolder::new("bench")?;
        // The host is on this machine, and without TLS.
        let house = House::start_with(&below(folder.path(), "console")?, |console| {
            console.flag("reach", "local").arg("--allow-credentials-over-http")
        })
        .await?;
        let mut world = Self { house, repository, automation: String::new(), folder };
        world.connect().await?;
        let known = world.house.api.repository(&repository.clone_url()).await?;
        world.house.service(&known, SERVICE, SERVICE).await?;
        world.house.until_known(1, None, &[SERVICE.to_owned()]).await?;
        Ok(world)
    }

    /// Connection, webhook and automation, as a person makes them.
    async fn connect(&mut self) -> anyhow::Result<()> {
        let folder = self.folder("files")?;
        let write = |name: &str, text: &str| -> anyhow::Result<String> {
            let path = folder.join(name);
            fs::write(&path, text)?;
            Ok(path.display().to_string())
        };
        let identifier = self.repository.name();
        let token = write("token.txt", &self.repository.token())?;
        let secret = write("secret.txt", SECRET)?;
        let automation = write("automation.yaml", &format!("{AUTOMATION}identifier: {identifier}\n"))?;
        let (api, owner) = (self.repository.api_url(), self.repository.owner());
        let session = self.house.api.access_token().await?;
        let (url, home) = (self.house.url.as_str(), folder.as_path());
        let plural = async |line: String| plural(home, (url, session.as_str()), &line).await;
        plural(format!(
            "cd scm-connections create host --type gitea --repository {owner}/* --api-url {api} --token-file {token}"
        ))
        .await?;
        let hook = plural(format!(
            "cd scm-webhooks create --connection host --owner {owner} --secret-file {secret} -o jsonpath={{.externalId}}"
        ))
        .await?;
        self.repository.tell(&format!("{url}/ext/v1/webhooks/gitea/{}", hook.trim()), SECRET)?;
        let made = plural(format!(
            "pr automations create --file {automation} --connection host -o jsonpath={{.id}}"
        ))
        .await?;
        made.trim().clone_into(&mut self.automation);
        Ok(())
    }

    /// An empty folder of this name.
    pub(super) fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        below(self.folder.path(), name)
    }

    /// Looks at what a pull request would change.
    pub(super) async fn preview(&self, name: &str) -> anyhow::Result<()> {
        let asked = PreviewPullRequest {
            id: self.automation.clone(),
            identifier: None,
            context: Some(json!({"name": name}).to_string()),
        };
        let seen = self.house.api.client().send(&asked).await?;
        anyhow::ensure!(seen.files.len() == 2, "a preview of other files: {seen:?}");
        Ok(())
    }

    /// Opens a pull request; its number at the host.
    pub(super) async fn open(&self, name: &str) -> anyhow::Result<u64> {
        let asked = CreatePullRequest {
            id: self.automation.clone(),
            identifier: None,
            branch: None,
            context: Some(json!({"name": name}).to_string()),
            wait: Some(true),
            idempotency_key: None,
            secrets: None,
        };
        let made = self.house.api.client().send(&asked).await?;
        anyhow::ensure!(made.phase == Some(PrPhase::Opened), "it is not open: {made:?}");
        let number = made.url.rsplit('/').next().and_then(|number| number.parse().ok());
        number.with_context(|| format!("{} is no address of a pull request", made.url))
    }

    /// The artifact that the service has.
    pub(super) fn artifact(&self) -> anyhow::Result<String> {
        let known = self.house.known().get(SERVICE).context("the service is not known")?;
        Ok(known.digest.clone())
    }

    /// Has the host merge a pull request: when it was asked to, and when it had.
    pub(super) fn merge(&self, number: u64) -> anyhow::Result<(Instant, Instant)> {
        let began = self.repository.merge(number)?;
        Ok((began, Instant::now()))
    }

    /// Waits until the service has another artifact than this one.
    pub(super) async fn until_moved(&mut self, artifact: &str) -> anyhow::Result<()> {
        self.house.until_moved(SERVICE, artifact).await
    }
}

/// The files: those that are looked at, and so many in all.
fn tree(files: usize) -> Vec<(String, String)> {
    let map = |name: &str, data: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  {data}\n")
    };
    let mut all = vec![
        ("templates/app.yaml".to_owned(), map("{{ context.name }}", "made: here")),
        ("apps/first.yaml".to_owned(), map("first", "made: before")),
        ("index.yaml".to_owned(), "resources:\n  - apps/first.yaml\n".to_owned()),
    ];
    for file in all.len()..files {
        let path = format!("other/{:04}/{file:06}.yaml", file / FOLDER);
        all.push((path, map(&format!("file-{file}"), "kept: as-it-is")));
    }
    all
}

fn below(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

/// Runs `plural` as somebody, which has to succeed; what it printed.
async fn plural(home: &Path, (url, token): (&str, &str), line: &str) -> anyhow::Result<String> {
    let done = Command::new(program()?)
        .args(line.split(' '))
        .env_clear()
        .env("HOME", home)
        .env("PLURAL_CONSOLE_URL", url)
        .env("PLURAL_CONSOLE_TOKEN", token)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .context("cannot run plural")?;
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    anyhow::ensure!(done.status.success(), "plural {line}: {out}{err}");
    Ok(out.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_as_many_files_as_it_says_and_each_once() {
        let files = tree(1000);
        let paths: std::collections::BTreeSet<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!((files.len(), paths.len()), (1000, 1000));
        assert!(
            ["templates/app.yaml", "index.yaml", "apps/first.yaml"].iter().all(|path| paths.contains(path))
        );
    }
}
