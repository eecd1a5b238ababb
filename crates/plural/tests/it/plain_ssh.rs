//! Pull requests of plain git over ssh, by the command line: the key, its passphrase and the keys of the host reach ssh, and nobody else.
//!
//! There is no ssh server on a machine of the tests. The console's `PATH` begins with an `ssh` that looks at what it is given as a server
//! would, and then runs git's own server.

use std::{env, fs, os::unix::fs::PermissionsExt as _, path::Path};

use plural_testkit::{GitRemote, TestDatabase, each_database};
use serde_json::{Value, json};

use crate::{
    asker::Asker,
    program::{ConsoleProcess, Done, Home, finish},
    secrets::files,
};

each_database!(a_branch_is_pushed_with_a_key);

const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0IGtleSBvZiB0aGUgdGVzdHM\n-----END OPENSSH PRIVATE KEY-----\n";
const PHRASE: &str = "a phrase of the tests";
const HOST: &str = "127.0.0.1 ssh-ed25519 b2YgdGhlIHNlcnZlcg";

/// Lets in who has the key with its passphrase, and only where the host's own key is expected.
const SSH: &str = r#"#!/bin/sh
for word in "$@"; do
  case $word in
    IdentityFile=*) key=$(echo "${word#IdentityFile=}" | tr -d '"') ;;
    UserKnownHostsFile=*) hosts=$(echo "${word#UserKnownHostsFile=}" | tr -d '"') ;;
    StrictHostKeyChecking=*) strict=${word#StrictHostKeyChecking=} ;;
  esac
  last=$word
done
if [ "$strict" = yes ] && ! grep -q b2YgdGhlIHNlcnZlcg "$hosts"; then
  echo 'Host key verification failed.' >&2
  exit 255
fi
if ! grep -q c2VjcmV0IGtleSBvZiB0aGUgdGVzdHM "$key" || [ "$("$SSH_ASKPASS" 'Enter passphrase')" != 'a phrase of the tests' ]; then
  echo 'git@127.0.0.1: Permission denied (publickey).' >&2
  exit 255
fi
exec sh -c "$last"
"#;

const AUTOMATION: &str = "\
apiVersion: deployments.plural.sh/v1alpha1
kind: PrAutomation
metadata:
  name: add-app
spec:
  scmConnectionRef: {name: plain}
  identifier: plural/fleet.git
  title: Add {{ context.name }}
  message: Adds it.
  configuration:
    - name: name
      type: STRING
  creates:
    templates:
      - source: templates/app.yaml
        destination: apps/{{ context.name }}.yaml
        external: false
";

/// A program of this text in a folder.
fn program(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join(name), text)?;
    Ok(fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755))?)
}

struct World {
    console: ConsoleProcess,
    admin: Asker,
    home: Home,
}

impl World {
    /// Runs `plural` as the administrator.
    async fn run(&self, line: &str) -> anyhow::Result<Done> {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = self.home.plural(&words);
        command.env("PLURAL_CONSOLE_URL", self.console.url()).env("PLURAL_CONSOLE_TOKEN", &self.admin.token);
        finish(command).await
    }

    /// The same, which has to succeed; what it wrote to standard output.
    async fn plural(&self, line: &str) -> anyhow::Result<String> {
        let Done { code, out, err } = self.run(line).await?;
        anyhow::ensure!(code == Some(0), "plural {line}: {code:?}\n{out}\n{err}");
        Ok(out)
    }

    /// What is said of a branch that is not made.
    async fn refused(&self, branch: &str) -> anyhow::Result<String> {
        let line = format!("pr create add-app --set name={branch} --branch {branch}");
        let Done { code, out, err } = self.run(&line).await?;
        anyhow::ensure!(code != Some(0), "plural {line}: {out}");
        Ok(format!("{out}{err}"))
    }
}

async fn a_branch_is_pushed_with_a_key(database: TestDatabase) -> anyhow::Result<()> {
    let remote = GitRemote::named("plural/fleet.git")?;
    remote.push_files([("templates/app.yaml", "name: {{ context.name }}\n")])?;
    let home = Home::new()?;
    let bin = home.path().join("bin");
    program(&bin, "ssh", SSH)?;
    let mut paths = vec![bin];
    paths.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let path = env::join_paths(paths)?;
    let console = ConsoleProcess::start_in(&home, "console", "info", |program| {
        let program = program.env("PATH", &path);
        if database.is_postgres() { program.env("DATABASE_URL", database.url()) } else { program }
    })
    .await?;
    let admin = Asker::administrator(&console.url()).await?;
    let mut world = World { console, admin, home };
    let write = |name: &str, text: &str| fs::write(world.home.path().join(name), text);
    write("deploy", KEY)?;
    write("phrase", PHRASE)?;
    write("known_hosts", HOST)?;
    write("other", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3RoZXI\n-----END OPENSSH PRIVATE KEY-----\n")?;
    write("other_hosts", "127.0.0.1 ssh-ed25519 b3RoZXI\n")?;
    write("automation.yaml", AUTOMATION)?;

    let base = format!("ssh://git@127.0.0.1{}", remote.root().display());
    let unlocked = "--ssh-key-file deploy --ssh-passphrase-file phrase";
    world
        .plural(&format!(
            "cd scm-connections create plain --type plain --base-url {base} --repository plural/* {unlocked} \
             --known-hosts known_hosts"
        ))
        .await?;
    let told: Value =
        serde_json::from_str(&world.plural("cd scm-connections describe plain -o json").await?)?;
    assert_eq!((&told["hasSshKey"], &told["knownHosts"]), (&json!(true), &json!(HOST)), "{told}");
    world.plural("pr automations create --file automation.yaml").await?;

    // The branch is read, made and pushed by ssh.
    let line = "pr create add-app --set name=shop --branch shop -o json";
    let made: Value = serde_json::from_str(&world.plural(line).await?)?;
    assert_eq!((&made["phase"], &made["ref"]), (&json!("OPENED"), &json!("shop")), "{made}");
    assert_eq!(remote.resolve("refs/heads/shop^")?, remote.resolve("refs/heads/main")?);
    assert_eq!(remote.git(["show", "refs/heads/shop:apps/shop.yaml"])?, "name: shop");

    // Another key is not let in, another host is not spoken to.
    world.plural("cd scm-connections update plain --ssh-key-file other").await?;
    let told = world.refused("late").await?;
    assert!(told.contains("authentication failed"), "{told}");
    let hosts = format!("cd scm-connections update plain --known-hosts other_hosts {unlocked}");
    world.plural(&hosts).await?;
    let told = world.refused("later").await?;
    assert!(told.contains("host key was not accepted"), "{told}");
    for branch in ["late", "later"] {
        assert!(remote.resolve(&format!("refs/heads/{branch}")).is_err(), "{branch}");
    }
    // Without any, the key that is seen first is kept.
    world.plural(&format!("cd scm-connections update plain --no-known-hosts {unlocked}")).await?;
    world.plural("pr create add-app --set name=last --branch last").await?;
    remote.resolve("refs/heads/last")?;

    world.console.stop();
    // The key and its passphrase are sealed where they are kept, and told to no log.
    for path in files(&world.home.path().join("console")) {
        let content = fs::read(&path)?;
        for secret in ["c2VjcmV0IGtleSBvZiB0aGUgdGVzdHM", PHRASE] {
            let is_there = content.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!is_there, "{}", path.display());
        }
    }
    Ok(())
}
