//! The commands against a real console with a real git repository.

use plural_console::{ConsoleConfig, RunningConsole};
use plural_testkit::GitRemote;
use serde_json::Value;

use crate::run::Person;

pub(crate) struct Whole {
    pub(crate) console: RunningConsole,
    _folder: tempfile::TempDir,
    pub(crate) person: Person,
}

/// A console, and its administrator logged in by `plural login`.
pub(crate) async fn whole() -> Whole {
    let folder = tempfile::tempdir().unwrap();
    let mut config = ConsoleConfig::local(folder.path().join("data"));
    config.admin_email = "ada@example.com".into();
    config.admin_password = Some("correct horse battery".to_owned().into());
    config.allow_local_repositories = true;
    let console = RunningConsole::start(config, None).await.unwrap();
    let person = Person::new().piping("correct horse battery\n");
    let line = format!("login --url {} --email ada@example.com --password-stdin", console.url);
    let done = person.run(&line).await;
    assert_eq!(done.code, 0, "{}", done.err);
    Whole { console, _folder: folder, person }
}

impl Whole {
    pub(crate) async fn ok(&self, line: &str) -> String {
        let done = self.person.run(line).await;
        assert_eq!(done.code, 0, "{line}\n{}", done.err);
        done.out
    }

    pub(crate) async fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("{line} -o json")).await).unwrap()
    }

    pub(crate) async fn fails(&self, line: &str) -> String {
        let done = self.person.run(line).await;
        assert_eq!((done.code, done.out.as_str()), (1, ""), "{line}\n{}", done.err);
        done.err
    }
}

#[tokio::test]
async fn from_login_to_a_service_and_back() {
    let w = whole().await;
    let remote = GitRemote::new().unwrap();
    let sha = remote
        .push_files([("web/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")])
        .unwrap();
    let url = remote.path().display().to_string();

    assert_eq!(w.ok("cd clusters create blue --tag stage=prod -o name").await, "cluster/blue\n");
    w.ok("cd clusters create green --tag stage=test").await;
    assert_eq!(w.ok("cd clusters list --tag stage=prod -o name").await, "cluster/blue\n");
    let blue = w.json("cd clusters describe @blue").await;
    let by_id = format!("cd clusters describe {} -o name", blue["id"].as_str().unwrap());
    assert_eq!(w.ok(&by_id).await, "cluster/blue\n");

    let repository = w.json(&format!("cd repositories create {url} --wait")).await;
    assert_eq!(repository["health"], "PULLABLE");
    let line =
        format!("cd services create blue/web --namespace shop --repository {url} --ref main --folder web");
    assert_eq!(w.ok(&format!("{line} --conf replicas=3 -o name")).await, "service/blue/web\n");
    assert_eq!(w.ok("cd services list blue -o name").await, "service/blue/web\n");
    assert_eq!(w.ok("cd services list green -o name").await, "");
    let kicked = w.json("cd services kick blue/web").await;
    assert_eq!(kicked["name"], "web");
    let found = plural_testkit::eventually(std::time::Duration::from_mins(1), async || {
        let found = w.json("cd services describe blue/web").await;
        (!found["sha"].is_null()).then_some(found)
    })
    .await;
    assert_eq!(found["sha"], sha.as_str());
    assert_eq!(found["configuration"][0]["name"], "replicas");
    let updated = w.json("cd services update blue/web --dry-run --protect").await;
    assert_eq!((&updated["git"]["folder"], &updated["protect"]), (&"web".into(), &true.into()));

    let refused = w.fails("cd services delete blue/web --yes").await;
    assert!(refused.starts_with("error: ") && refused.contains("protect"), "{refused}");
    // What keeps it is told before anything is asked.
    let in_use = w.fails(&format!("cd repositories delete {url}")).await;
    assert!(in_use.contains("is used by blue/web\nhint: "), "{in_use}");
    assert_eq!(found["author"], "Test");
    let text = w.ok("cd services describe blue/web").await;
    assert!(text.lines().any(|line| line.starts_with("Author:") && line.ends_with(" Test")), "{text}");
    w.ok("cd services update blue/web --protect=false").await;
    w.ok("cd services delete blue/web --soft --yes").await;
    let gone = w.fails("cd services describe blue/web").await;
    assert!(
        gone.starts_with("error: service \"blue/web\" not found (or you have no access)\nhint: "),
        "{gone}"
    );
    w.ok(&format!("cd repositories delete {url} --yes")).await;
    w.ok("cd clusters delete green --yes --wait --timeout 30s").await;
    let gone = w.fails("cd clusters describe green").await;
    assert!(gone.starts_with("error: cluster \"green\" not found"), "{gone}");
    w.console.stop().await.unwrap();
}

/// Values of contexts, what services wait for, and what canaries are told: each once, as a person types it.
#[tokio::test]
async fn contexts_dependencies_and_canaries() {
    let w = whole().await;
    let remote = GitRemote::new().unwrap();
    remote.push_files([("web/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")]).unwrap();
    let url = remote.path().display().to_string();
    w.ok("cd clusters create blue --tag stage=prod").await;
    w.ok("cd clusters tag blue region=eu stage-").await;
    let tags = w.json("cd clusters describe blue").await["tags"].clone();
    assert_eq!(tags, serde_json::json!([{"name": "region", "value": "eu"}]));
    w.ok(&format!("cd repositories create {url} --wait")).await;

    let file = |name: &str, text: &str| {
        let path = w.person.home().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (document, secrets) =
        (file("network.yaml", "region: eu\n"), file("secrets.yaml", "token: hunter2\n"));
    let line = format!("cd contexts save network --file {document} --secrets-file {secrets}");
    let saved = w.ok(&line).await;
    assert!(saved.contains("region") && saved.contains("token") && !saved.contains("hunter2"), "{saved}");
    assert_eq!(w.ok("cd contexts list -o name").await, "servicecontext/network\n");
    assert_eq!(w.ok("cd contexts get network").await, "region: eu\n");
    assert!(!w.json("cd contexts get network").await.to_string().contains("hunter2"));

    let create = format!("cd services create blue/web --repository {url} --ref main --folder web");
    w.ok(&format!("{create} --namespace shop --depends-on base --context network")).await;
    let web = w.json("cd services describe blue/web").await;
    assert_eq!(
        (&web["dependencies"][0]["name"], &web["contexts"][0]["name"]),
        (&"base".into(), &"network".into())
    );
    let text = w.ok("cd services describe blue/web").await;
    assert!(text.contains("Depends on:") && text.contains("blue/base"), "{text}");
    assert_eq!(w.json("cd services list blue").await[0]["repository"]["signedCommits"], false);
    let used = w.fails("cd contexts delete network").await;
    assert!(used.contains("context network is used by blue/web"), "{used}");
    let unknown = w.fails("cd services update blue/web --context nowhere").await;
    assert!(unknown.contains("context \"nowhere\" not found"), "{unknown}");

    for stack in ["net", "db"] {
        w.ok(&format!("cd stacks create {stack}")).await;
    }
    w.ok("cd services update blue/web --import net --import db").await;
    let web = w.json("cd services describe blue/web").await;
    assert_eq!(
        (&web["imports"][0]["stack"]["name"], &web["imports"][1]["stack"]["name"]),
        (&"net".into(), &"db".into()),
        "{web}"
    );
    assert!(w.ok("cd services describe blue/web").await.contains("net, db"));
    let used = w.fails("cd stacks detach net --yes").await;
    assert!(used.contains("blue/web"), "{used}");
    let unknown = w.fails("cd services update blue/web --import nowhere").await;
    assert!(unknown.contains("stack \"nowhere\" not found"), "{unknown}");
    w.ok("cd services update blue/web --no-imports").await;

    // A context takes outputs as well, under names of its own.
    let saved =
        w.ok("cd contexts save network --import host=net/address --import-sensitive db/password").await;
    assert!(saved.contains("host=net/address, password=db/password"), "{saved}");
    let network = w.json("cd contexts get network").await;
    assert_eq!(
        (
            &network["imports"][0]["stack"]["name"],
            &network["imports"][0]["sensitive"],
            &network["imports"][1]["sensitive"]
        ),
        (&"net".into(), &false.into(), &true.into()),
        "{network}"
    );
    let used = w.fails("cd stacks detach net --yes").await;
    assert!(used.contains("contexts take outputs of the stack: network"), "{used}");
    let unclear = w.person.run("cd contexts save network --import net").await;
    assert_eq!(unclear.code, 2, "{}", unclear.err);
    assert!(unclear.err.contains("names no output of a stack"), "{}", unclear.err);
    assert!(unclear.err.contains("STACK/OUTPUT"), "{}", unclear.err);
    let twice = w.fails("cd contexts save network --import host=net/a --import host=net/b").await;
    assert!(twice.contains("two outputs are taken as \"host\""), "{twice}");
    w.ok("cd contexts save network --no-imports").await;
    assert_eq!(w.json("cd contexts get network").await["imports"], serde_json::json!([]));
    assert_eq!(w.json("cd services describe blue/web").await["imports"], serde_json::json!([]));

    // Windows of everything at once, each with what it is of.
    let window = ["cd", "sync-windows", "create", "deny", "--schedule", "0 22 29 2 *", "--duration", "1h"];
    for of in [["--project", "default"], ["--cluster", "blue"], ["--service", "blue/web"]] {
        let done = w.person.run_words(&[&window[..], &of[..]].concat()).await;
        assert_eq!(done.code, 0, "{}", done.err);
    }
    let windows = w.ok("cd sync-windows list").await;
    for of in ["project default", "cluster blue", "service blue/web"] {
        assert!(windows.contains(of), "{of}: {windows}");
    }
    assert_eq!(w.ok("cd sync-windows list --cluster blue -o name").await.lines().count(), 1);

    // What was never applied has no canary that could be told anything.
    for word in ["proceed", "rollback"] {
        let told = w.fails(&format!("cd services canary {word} blue/web")).await;
        assert!(told.contains("the service's source has not been fetched yet"), "{word}: {told}");
    }

    w.ok("cd services update blue/web --no-dependencies --no-contexts").await;
    let web = w.json("cd services describe blue/web").await;
    assert_eq!((&web["dependencies"], &web["contexts"]), (&serde_json::json!([]), &serde_json::json!([])));
    w.ok("cd contexts delete network --yes").await;
    assert_eq!(w.ok("cd contexts list -o name").await, "");
    w.console.stop().await.unwrap();
}

#[tokio::test]
async fn bad_input_is_told_with_its_field() {
    let w = whole().await;
    let told = w.fails("cd clusters create blue --handle Not_OK").await;
    assert!(told.starts_with("error: --handle: \"Not_OK\" may hold only lower-case letters"), "{told}");
    w.ok("cd clusters create blue").await;
    let told = w.fails("cd clusters create blue").await;
    assert!(told.contains("blue") || told.contains("handle"), "{told}");
    let told = w.fails("cd repositories create ext::sh").await;
    assert!(told.starts_with("error: --url: must be https://"), "{told}");
    let told = w.fails("cd services create blue/web --repository nowhere --ref main --folder x").await;
    assert!(
        told.starts_with("error: repository \"nowhere\" not found (or you have no access)\nhint: "),
        "{told}"
    );
    let file = w.person.home().join("monitoring.yaml");
    let template = "repositoryId: 0190b8a2-7c11-7def-8000-0123456789ab\n    git: {ref: main, folder: x}";
    std::fs::write(&file, format!("template:\n    namespace: a\n    {template}\n")).unwrap();
    let told = w.fails(&format!("cd global-services create monitoring -f {}", file.display())).await;
    assert!(told.contains("repositoryId names nothing that exists (or you have no access)"), "{told}");
    let told = w.fails("cd clusters create red --project nowhere").await;
    assert!(told.starts_with("error: project \"nowhere\" not found"), "{told}");
    let told = w.fails("cd clusters list --profile nowhere").await;
    assert!(told.contains("there are: default"), "{told}");
}

#[tokio::test]
async fn bootstrap_tells_a_join_token_that_the_console_accepts() {
    let w = whole().await;
    let join_token = |text: &str| {
        let token = text.lines().find_map(|line| line.trim().strip_prefix("join-token: "));
        token.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let text = w.ok("cd clusters bootstrap Blue --image example.com/plural:1").await;
    let token = join_token(&text);
    assert!(token.starts_with("join-") && !text.contains("deploy-token:"), "{text}");
    assert!(text.contains(&format!("value: {}", w.console.url)), "{text}");
    let app = w.console.app();
    assert!(app.agent_join_authenticate(&token).is_ok());
    assert!(app.actor_authenticate(&token).await.is_err(), "it joins, and does nothing else");
    let again = w.fails("cd clusters bootstrap Blue --image example.com/plural:1").await;
    assert!(again.contains("registered already") && again.contains("--rejoin"), "{again}");
    assert!(!again.contains(&token), "{again}");
    // By its name of earlier releases, too.
    let text = w.ok("cd clusters bootstrap Blue --image example.com/plural:1 --new-token").await;
    assert!(app.agent_join_authenticate(&token).is_err(), "the join token before ends at once");
    assert!(app.agent_join_authenticate(&join_token(&text)).is_ok());
}

#[tokio::test]
async fn tokens_and_passwords_as_a_person_changes_them() {
    let w = whole().await;
    let made = w.ok("tokens create --valid-for 30m").await;
    assert!(w.console.app().actor_authenticate(made.trim()).await.is_ok());
    // The saved login is no fresh session: what outlasts it needs the password.
    let told = w.fails("tokens create").await;
    assert!(told.contains("currentPassword") && told.contains("--password-stdin"), "{told}");
    let listed = w.ok("tokens list").await;
    assert!(listed.contains("session") && listed.contains("never"), "{listed}");
    let told = w.fails("tokens revoke 0190b8a2-7c11-7def-8000-0123456789ab --yes").await;
    assert!(told.contains("plural tokens list"), "{told}");
}

#[tokio::test]
async fn a_console_that_is_away_is_told_as_such() {
    let w = whole().await;
    let url = w.console.url.clone();
    w.console.stop().await.unwrap();
    let done = w.person.run("cd clusters list").await;
    assert_eq!(done.code, 1);
    assert!(
        done.err.starts_with(&format!("error: nothing answers at {url}: connection refused\nhint: ")),
        "{}",
        done.err
    );
}
