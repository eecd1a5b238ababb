//! The command lines of the original, word for word, against a real console with a real git repository.

use plural_testkit::GitRemote;

use crate::{run::Person, whole::whole};

#[tokio::test]
async fn the_originals_commands_are_understood() {
    let w = whole().await;
    let remote = GitRemote::new().unwrap();
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    remote
        .push_files([("web/a.yaml", manifest), ("web/overlay/kustomization.yaml", "resources: []\n")])
        .unwrap();
    let git = remote.path().display().to_string();

    w.ok("cd clusters create blue --handle blue").await;
    w.ok("cd clusters create green --handle green").await;
    assert_eq!(w.json("cd clusters describe @blue").await["handle"], "blue");
    assert_eq!(w.json("cd clusters update @green --handle teal").await["handle"], "teal");
    let told = w.fails("cd clusters get-credentials @blue").await;
    assert!(told.contains("only sends credentials over HTTPS"), "{told}");

    let image = "--image example.com/plural:1";
    let text = w.ok(&format!("cd clusters bootstrap --name edge --handle edge --tag a=b {image}")).await;
    assert!(text.contains("kind: Deployment"), "{text}");
    w.ok(&format!("cd bootstrap --name second {image}")).await;
    w.ok(&format!("cd clusters install third {image}")).await;
    assert_eq!(w.json("cd clusters describe @edge").await["tags"][0]["value"], "b");
    let again = w.ok(&format!("cd clusters reinstall @edge {image}")).await;
    assert!(again.contains("join-token: ") && again != text);
    let told = w.fails(&format!("cd clusters reinstall @nowhere {image}")).await;
    assert!(told.contains("\"nowhere\""), "a name that is none makes no cluster: {told}");
    assert!(!w.ok("cd clusters list").await.contains("nowhere"));

    let repository = w.json(&format!("cd repositories create --url {git} --wait")).await;
    let id = repository["id"].as_str().unwrap();
    assert_eq!(w.json(&format!("cd repositories get {git}")).await["id"], id);
    // Beside a repository, `--url` is the console, as everywhere.
    let told = w.fails("cd repositories create https://git.example.com/b --url http://127.0.0.1:9").await;
    assert!(told.contains("http://127.0.0.1:9"), "{told}");
    let line =
        format!("cd repositories create --url https://git.example.com/b --console-url {}", w.console.url);
    w.ok(&line).await;
    let line = format!("cd --url {} repositories create --url https://git.example.com/c", w.console.url);
    w.ok(&line).await;

    let create = format!(
        "cd services create @blue --name web --namespace shop --version 0.0.2 --repo-id {id} --git-ref main --git-folder web \
         --conf a=b"
    );
    assert_eq!(w.json(&create).await["namespace"], "shop");
    let create = format!(
        "cd services create @blue --name overlay --namespace shop --repo-id {id} --git-ref main --git-folder web \
         --kustomize-folder overlay --dry-run"
    );
    w.ok(&create).await;
    let overlay = w.json("cd services describe @blue/overlay").await;
    assert_eq!((&overlay["dryRun"], &overlay["kustomize"]["path"]), (&true.into(), &"overlay".into()));
    assert!(w.ok("cd services list @blue").await.contains("web"));
    w.ok("cd services update @blue/web --git-ref main --templated").await;
    w.ok("cd services kick @blue/web").await;
    w.ok("cd services describe @blue/web").await;
    let copy = w.json("cd services clone @teal @blue/web --name copy --namespace shop2 --conf a=c").await;
    assert_eq!((&copy["name"], &copy["namespace"]), (&"copy".into(), &"shop2".into()));
    assert_eq!(w.json("cd services describe @teal/copy").await["cluster"]["handle"], "teal");
    w.ok("cd services clone blue/web teal/another").await;

    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("web");
    let line = format!("cd services tarball @blue/web --dir {}", dir.display());
    plural_testkit::eventually(std::time::Duration::from_mins(1), async || {
        // Until its source was fetched there is none.
        (w.person.run(&line).await.code == 0).then_some(())
    })
    .await;
    assert_eq!(std::fs::read_to_string(dir.join("web/a.yaml")).unwrap(), manifest);
    std::fs::write(dir.join("web/a.yaml"), "mine").unwrap();
    w.fails(&line).await;
    assert_eq!(std::fs::read_to_string(dir.join("web/a.yaml")).unwrap(), "mine", "nothing is overwritten");

    let file = folder.path().join("network.yaml");
    std::fs::write(&file, "region: eu\n").unwrap();
    w.ok(&format!("cd contexts upsert network --config-file {}", file.display())).await;
    assert!(w.ok("cd contexts get network").await.contains("region: eu"));
    w.ok("cd services delete @blue/web --yes").await;
    w.ok("cd clusters delete @blue --soft --yes").await;
}

#[tokio::test]
async fn cd_login_saves_a_login_and_takes_no_token_as_a_word() {
    let w = whole().await;
    let made = w.ok("tokens create --valid-for 30m").await;
    let person = Person::new().piping(&made);
    let done = person.run(&format!("cd login --url {} --token-stdin", w.console.url)).await;
    assert_eq!(done.code, 0, "{}", done.err);
    let done = person.run("cd clusters list").await;
    assert_eq!(done.code, 0, "{}", done.err);
    let done = Person::new().run(&format!("cd login --url {} --token console-hunter2", w.console.url)).await;
    assert_eq!(done.code, 2, "{}", done.err);
    assert!(done.err.contains("--token-stdin") && !done.err.contains("hunter2"), "{}", done.err);
    // A repository has an address in either way.
    let done = person.run("cd repositories create").await;
    assert_eq!(done.code, 2, "{}", done.err);
}
