//! Every command of the pages, typed in a shell as the page says, in the order of the page: it has to end as the page shows.
//! `pages/table.rs` has what a page takes for granted, and the commands that are not run, each with the reason.
//!
//! The reference of the command line is not followed: `cli`'s tests parse its examples.
//! One backend is enough: a console with PostgreSQL is asked the same by the tests of each command.

pub(crate) mod page;
mod table;

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use plural_agent::{Agent, AgentConfig, RunningAgent};
use plural_console::{ConsoleConfig, RunningConsole};
use plural_testkit::{
    Backend, GitRemote, GitServer, OciRegistry, OwnedFolder, TestCluster, each_cluster, exclusive,
    oci_registry::SignIn, real::RealCluster,
};
use plural_tunnel::ConsoleOptions;
use tokio::process::Command;

use self::table::{EVERYWHERE, Followed, PAGES};
use crate::{
    charts::chart,
    program::PLURAL,
    pull_requests::gitea,
    world::{EMAIL, PASSWORD, Person, console_config, map},
};

each_cluster!(every_command_of_the_pages_does_what_it_says);

/// How long one page may take on a busy machine.
const LIMIT: Duration = Duration::from_mins(4);

/// Pages that are made from the command line.
const GENERATED: &str = "docs/reference";

async fn every_command_of_the_pages_does_what_it_says(cluster: TestCluster) -> anyhow::Result<()> {
    // Some 150 programs one after the other, with deadlines of their own.
    let _alone = exclusive().await;
    assert_eq!(
        pages_with_commands(),
        PAGES.iter().map(|page| page.page.to_owned()).collect::<std::collections::BTreeSet<_>>()
    );
    // The pages name namespaces and objects of a whole cluster, which other tests of a shared one have, too.
    let own = match cluster.backend() {
        Backend::Kubesim => None,
        Backend::Real => match RealCluster::start_or_report().await? {
            Some(own) => Some(own),
            None => return Ok(()),
        },
    };
    let blue = own.as_ref().map_or(cluster.kubeconfig(), |own| &own.access().kubeconfig);
    let Some(kubectl) = cluster.kubectl_or_report() else { return Ok(()) };
    let Some(reader) = Reader::new(blue, kubectl.get_program().into()).await? else { return Ok(()) };
    let (mut count, mut wrong) = (0, Vec::new());
    // In order: pages use what the pages before them made, such as the project `shop` and the tags of clusters.
    for page in PAGES {
        let (ran, failed) = reader.follows(page).await?;
        count += ran;
        wrong.extend(failed);
    }
    assert!(wrong.is_empty(), "{} of {count} commands:\n{}", wrong.len(), wrong.join("\n"));
    plural_testkit::note_compared("commands of the pages, run", count, count);
    reader.end().await
}

/// The pages that have somebody type something.
fn pages_with_commands() -> std::collections::BTreeSet<String> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join("docs")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && path != root().join(GENERATED) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.push(root().join("README.md"));
    found.retain(|path| !page::read(&std::fs::read_to_string(path).unwrap()).1.is_empty());
    let names = found.iter().map(|path| path.strip_prefix(root()).unwrap().display().to_string());
    names.collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Somebody who follows the pages: a fleet of two clusters, repositories, a registry, and a home with a shell.
struct Reader {
    home: OwnedFolder,
    console: RunningConsole,
    agents: Vec<RunningAgent>,
    /// What stands in the place of names like `@CONSOLE@`.
    names: Vec<(&'static str, String)>,
    kubectl: PathBuf,
    token: String,
    /// The first is that of almost every page.
    remotes: Vec<GitRemote>,
    _servers: (GitServer, GitServer, OciRegistry, TestCluster),
}

impl Reader {
    /// Nothing where a program is missing.
    async fn new(blue: &Path, kubectl: PathBuf) -> anyhow::Result<Option<Self>> {
        let Some(registry) = OciRegistry::start(&SignIn::Open)? else { return Ok(None) };
        let Some(gitea) = gitea() else { return Ok(None) };
        registry.push_chart("charts/redis", "19.0.1", &chart("redis", "19.0.1", "theirs")).await?;
        let home = OwnedFolder::new("pages")?;
        let green = TestCluster::kubesim().await?;
        let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let (ca, key) = (home.path().join("ca.pem"), home.path().join("key.pem"));
        std::fs::write(&ca, pair.cert.pem())?;
        std::fs::write(&key, pair.signing_key.serialize_pem())?;
        let console = RunningConsole::start(
            ConsoleConfig { tls_cert: Some(ca.clone()), tls_key: Some(key), ..console_config(home.path()) },
            None,
        )
        .await?;
        let (person, token) = Person::sign_in(&console.url, Some(&pair.cert.pem()), EMAIL).await?;
        let mut agents = Vec::new();
        for (handle, kubeconfig) in [("blue", blue), ("green", green.kubeconfig())] {
            let deploy = person.cluster(handle).await?.token;
            let options = ConsoleOptions {
                url: console.url.clone(),
                token: deploy,
                ca_pem: Some(pair.cert.pem()),
                deadline: Duration::from_secs(10),
            };
            let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
            let kube =
                kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
            let config = AgentConfig::new(options, kube, home.path().join(format!("agent-{handle}")));
            agents.push(Agent::start(config.in_namespace("plural-agent".to_owned()))?);
        }
        let remotes: Vec<GitRemote> = (0..5).map(|_| GitRemote::new()).collect::<Result<_, _>>()?;
        for remote in &remotes {
            remote.push_files(files())?;
        }
        let server = GitServer::start(remotes[3].root())?;
        server.require("bot", "correct horse");
        let moved = GitServer::start(remotes[4].root())?;
        moved.require("bot", "correct horse");
        // What the tutorial of automations takes for granted: an application, and a file that lists it.
        let fleet = gitea.repository()?;
        fleet.push("main", "apps/web/map.yaml", &map("web", "1"))?;
        fleet.push("main", "apps/web/kustomization.yaml", "resources:\n  - map.yaml\n")?;
        fleet.push("main", "apps/kustomization.yaml", "resources:\n  - web\n")?;
        let repository = person.repository(&remotes[0].path().display().to_string()).await?;
        let local = |of: usize| remotes[of].path().display().to_string();
        let demo = home.path().join("plural-demo/repository");
        let names = vec![
            ("@CONSOLE@", console.url.clone()),
            ("@CA@", ca.display().to_string()),
            ("@REPOSITORY@", local(0)),
            ("@FLEET@", local(1)),
            ("@YOURS@", local(2)),
            ("@PRIVATE@", server.url(&remotes[3])),
            ("@MOVED@", moved.url(&remotes[4])),
            ("@CHART@", format!("oci://{}/charts/redis", registry.address())),
            ("@DEMO@", demo.display().to_string()),
            ("@GITEA@", fleet.api_url()),
            ("@GITEA_TOKEN@", fleet.token()),
            ("@GITEA_OWNER@", fleet.owner().to_owned()),
            ("@GITEA_CLONE@", fleet.clone_url()),
            ("@GITEA_PUSH@", fleet.push_url()),
            ("repositoryId: 0190b8a2-7c11-7def-8000-0123456789ab", format!("repositoryId: {repository}")),
        ];
        let reader = Self {
            kubectl,
            agents,
            console,
            names,
            token,
            remotes,
            _servers: (server, moved, registry, green),
            home,
        };
        reader.moves_in(blue)?;
        Ok(Some(reader))
    }

    /// The home: programs on the PATH, a kubeconfig that names blue, a checkout with an identity.
    fn moves_in(&self, blue: &Path) -> anyhow::Result<()> {
        let home = self.home.path();
        let bin = home.join("bin");
        std::fs::create_dir_all(&bin)?;
        std::os::unix::fs::symlink(PLURAL, bin.join("plural"))?;
        std::os::unix::fs::symlink(&self.kubectl, bin.join("kubectl"))?;
        let remote = &self.remotes[0];
        let run = |program: &str, args: &[&str]| -> anyhow::Result<()> {
            let done = std::process::Command::new(program)
                .args(args)
                .env("KUBECONFIG", home.join("kube"))
                .output()?;
            anyhow::ensure!(done.status.success(), "{program} {args:?}: {done:?}");
            Ok(())
        };
        std::fs::copy(blue, home.join("kube"))?;
        let kubectl = self.kubectl.display().to_string();
        let kubeconfig = Kubeconfig::read_from(home.join("kube"))?;
        let context = kubeconfig.current_context.context("a kubeconfig with a context")?;
        if context != "blue" {
            run(&kubectl, &["config", "rename-context", &context, "blue"])?;
        }
        let demo = home.join("plural-demo/repository").display().to_string();
        run("git", &["clone", "--quiet", "--branch", "main", &remote.path().display().to_string(), &demo])?;
        run("git", &["-C", &demo, "config", "user.email", EMAIL])?;
        run("git", &["-C", &demo, "config", "user.name", "Ada"])?;
        Ok(())
    }

    /// A text of a page as it is typed here.
    fn typed(&self, page: &Followed, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in EVERYWHERE.iter().chain(page.swaps) {
            text = text.replace(from, to);
        }
        for (name, value) in &self.names {
            text = text.replace(name, value);
        }
        text
    }

    /// How many commands of a page were run, and what went wrong with them.
    async fn follows(&self, page: &Followed) -> anyhow::Result<(usize, Vec<String>)> {
        let text = std::fs::read_to_string(root().join(page.page))?;
        let (files, commands) = page::read(&text);
        let folder = self.home.path().join(page.page.rsplit('/').next().unwrap().trim_end_matches(".md"));
        std::fs::create_dir(&folder)?;
        std::fs::write(folder.join("password"), PASSWORD)?;
        for file in &files {
            let path = folder.join(&file.path);
            std::fs::create_dir_all(path.parent().unwrap())?;
            std::fs::write(path, self.typed(page, &file.text))?;
        }
        let mut reasons: Vec<&str> = page.not_run.iter().map(|(begins, _)| *begins).collect();
        let mut run = Vec::new();
        for command in commands {
            match page.not_run.iter().find(|(begins, _)| command.starts_with(begins)) {
                Some((begins, why)) => {
                    assert!(!why.is_empty(), "{}: no reason for {begins}", page.page);
                    reasons.retain(|reason| reason != begins);
                }
                None => run.push(command),
            }
        }
        let script = self.script(page, &run);
        let done = self.shell(&folder, &script).await.with_context(|| page.page.to_owned())?;
        let said = |file: String| std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        let mut wrong: Vec<String> = reasons
            .iter()
            .map(|begins| format!("{}: no command begins with {begins:?}", page.page))
            .collect();
        if said("before.code".to_owned()).trim() != "0" {
            wrong.push(format!(
                "{}: what comes before it failed: {done}{}",
                page.page,
                said("before.err".to_owned())
            ));
        }
        for (at, command) in run.iter().enumerate() {
            // The longest beginning counts.
            let mut fails: Vec<_> =
                page.fails.iter().filter(|(begins, _)| command.starts_with(begins)).collect();
            fails.sort_by_key(|(begins, _)| begins.len());
            let expected = fails.last().map_or(0, |(_, code)| *code);
            let code = said(format!("{at}.code"));
            if code.trim() != expected.to_string() {
                let (out, err) = (said(format!("{at}.out")), said(format!("{at}.err")));
                wrong.push(format!(
                    "{}: $ {command}\nended with {} instead of {expected}\n{out}{err}",
                    page.page,
                    code.trim()
                ));
            }
        }
        Ok((run.len(), wrong))
    }

    /// One shell for the whole page: what a command changes of it, the next one finds. Each begins with the exit code of the one
    /// before it.
    fn script(&self, page: &Followed, commands: &[String]) -> String {
        let here = "$PAGE";
        let mut script = format!(
            "{PRELUDE}\n{{ true; {}\n}} > before.out 2> before.err; echo $? > before.code\nlast=0\n",
            self.typed(page, page.before)
        );
        for (at, command) in commands.iter().enumerate() {
            for (_, what) in page
                .just_before
                .iter()
                .filter(|(begins, _)| self.typed(page, command).starts_with(&self.typed(page, begins)))
            {
                script += &format!("{{ {}\n}} > {here}/{at}.before 2>&1\n", self.typed(page, what));
            }
            script += &format!(
                "(exit $last); {{ {}\n}} > {here}/{at}.out 2> {here}/{at}.err < /dev/null; last=$?; echo $last > {here}/{at}.code\n",
                self.typed(page, command)
            );
        }
        script
    }

    async fn shell(&self, folder: &Path, script: &str) -> anyhow::Result<String> {
        std::fs::write(folder.join("script.sh"), script)?;
        let home = self.home.path();
        let path = std::env::var("PATH").unwrap_or_default();
        let (remote, page) = (&self.remotes[0], folder.display().to_string());
        let mut bash = Command::new("bash");
        bash.arg("script.sh")
            .current_dir(folder)
            .env_clear()
            .env("PATH", format!("{}:{path}", home.join("bin").display()))
            .env("HOME", home)
            .env("TMPDIR", home)
            .env("LC_ALL", "C")
            .env("PAGE", page)
            .env("REMOTE", remote.path())
            .env("KUBECONFIG", home.join("kube"))
            .env("PLURAL_CONSOLE_URL", &self.console.url)
            .env("PLURAL_CONSOLE_TOKEN", &self.token)
            .env("PLURAL_CONSOLE_CA_FILE", home.join("ca.pem"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let done = tokio::time::timeout(LIMIT, bash.output()).await.context("it did not end")??;
        Ok(String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr))
    }

    async fn end(self) -> anyhow::Result<()> {
        for agent in self.agents {
            agent.stop().await;
        }
        Ok(self.console.stop().await?)
    }
}

/// What scripts use: services that are not there any more, and a commit that changes the folder `web`.
const PRELUDE: &str = r#"set +e
gone() {
    for service in "$@"; do
        plural cd services delete "$service" --cascade --yes --wait && continue
        plural cd services describe "$service" && return 1
    done
    return 0
}
another-commit() {
    git clone --quiet --branch main "$REMOTE" another && sed -i 's/replicas: 2/replicas: 4/' another/web/deployment.yaml &&
        git -C another -c user.name=Ada -c user.email=ada@example.com commit --quiet -am 'web: more' &&
        git -C another push --quiet origin main
}
fewer() {
    git clone --quiet --branch main "$REMOTE" fewer && rm fewer/many/[1-5].yaml &&
        git -C fewer -c user.name=Ada -c user.email=ada@example.com commit --quiet -am 'fewer' &&
        git -C fewer push --quiet origin main
}"#;

/// What the repositories of the pages hold.
fn files() -> Vec<(&'static str, String)> {
    let web = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 2\n  selector: {matchLabels: {app: web}}\n  \
               template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers: [{name: web, image: \"example.com/web:1\"}]\n";
    let many = |name: &str| map(&format!("map-{name}"), name);
    vec![
        ("many/1.yaml", many("1")),
        ("many/2.yaml", many("2")),
        ("many/3.yaml", many("3")),
        ("many/4.yaml", many("4")),
        ("many/5.yaml", many("5")),
        ("many/6.yaml", many("6")),
        ("web/deployment.yaml", web.to_owned()),
        ("apps/web/deployment.yaml", web.to_owned()),
        ("db/map.yaml", map("db", "1")),
        ("queue/map.yaml", map("queue", "1")),
        ("api/map.yaml.liquid", map("api", "{{ configuration.greeting }}")),
        ("monitoring/map.yaml", map("monitoring", "1")),
        ("team-a/map.yaml", map("team-a", "1")),
        ("redis/values.yaml", "key: of-git\n".to_owned()),
        ("shop/settings.yaml", map("settings", "from git")),
    ]
}
