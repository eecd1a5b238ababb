use crate::run::Person;

/// Every help text, one golden file each.
#[tokio::test]
async fn help_texts() {
    let person = Person::new();
    for line in [
        "--help",
        "login --help",
        "tokens --help",
        "tokens list --help",
        "tokens create --help",
        "tokens revoke --help",
        "password --help",
        "cd --help",
        "cd login --help",
        "cd clusters --help",
        "cd clusters list --help",
        "cd clusters create --help",
        "cd clusters describe --help",
        "cd clusters deprecations --help",
        "cd clusters tag --help",
        "cd clusters update --help",
        "cd clusters get-credentials --help",
        "cd clusters delete --help",
        "cd clusters bootstrap --help",
        "cd clusters rotate-token --help",
        "cd repositories --help",
        "cd repositories list --help",
        "cd repositories get --help",
        "cd repositories create --help",
        "cd repositories delete --help",
        "cd services --help",
        "cd services list --help",
        "cd services create --help",
        "cd services update --help",
        "cd services describe --help",
        "cd services tree --help",
        "cd services failures --help",
        "cd services revisions --help",
        "cd services events --help",
        "cd services rollback --help",
        "cd services release --help",
        "cd services pause --help",
        "cd services resume --help",
        "cd services rotate-seed --help",
        "cd services clone --help",
        "cd services detach --help",
        "cd services kick --help",
        "cd services files --help",
        "cd services tarball --help",
        "cd services render --help",
        "cd services plan --help",
        "cd services diff --help",
        "cd services sync --help",
        "cd services approve-prune --help",
        "cd services drift --help",
        "cd services ignore --help",
        "cd services take-over --help",
        "cd services delete --help",
        "cd projects --help",
        "cd projects describe --help",
        "cd projects limits --help",
        "cd services canary --help",
        "cd services canary proceed --help",
        "cd services canary rollback --help",
        "cd contexts --help",
        "cd contexts list --help",
        "cd contexts get --help",
        "cd contexts save --help",
        "cd contexts delete --help",
        "cd helm-repositories --help",
        "cd sync-windows --help",
        "cd jobs --help",
        "cd jobs retry --help",
        "logout --help",
        "cd global-services --help",
        "cd global-services list --help",
        "cd global-services create --help",
        "cd global-services update --help",
        "cd global-services describe --help",
        "cd global-services rollout --help",
        "cd global-services delete --help",
        "cd managed-namespaces --help",
        "cd managed-namespaces list --help",
        "cd managed-namespaces get --help",
        "cd managed-namespaces create --help",
        "cd managed-namespaces update --help",
        "cd managed-namespaces delete --help",
        "version --help",
        "completion --help",
    ] {
        let name = line.trim_end_matches("--help").trim().replace(' ', "_");
        insta::assert_snapshot!(
            format!("help_{}", if name.is_empty() { "plural" } else { &name }),
            person.run(line).await.text()
        );
    }
}

#[tokio::test]
async fn a_command_line_that_makes_no_sense_ends_with_2_on_stderr() {
    let person = Person::new();
    for line in [
        "frobnicate",
        "cd clusters list -o xml",
        "cd services describe web",
        "cd clusters list --tag stage",
        "cd services update blue/web --timeout 5m",
        "cd services create blue/web --wait --timeout 5parsecs",
        "login --token-stdin --email a@example.com",
    ] {
        let done = person.run(line).await;
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{line}");
        assert!(done.err.starts_with("error: "), "{line}: {}", done.err);
    }
    insta::assert_snapshot!("usage_service_key", person.run("cd services describe web").await.text());
}

/// What ends something that does not come back asks first, and a script says `--yes`.
#[test]
fn what_does_not_come_back_is_asked_about() {
    const ENDS: [&str; 25] = [
        "close",
        "merge",
        "release",
        "approve",
        "cancel",
        "reject",
        "trigger",
        "restore",
        "rotate",
        "secret-backend",
        "uninvite",
        "rotate-seed",
        "approve-prune",
        "delete",
        "detach",
        "disable",
        "end-tokens",
        "revoke",
        "rotate-token",
        "suspend",
        "unlock",
        "unregister",
        "untie",
        "apply",
        "upgrade",
    ];
    // What is taken away here is given back by the command beside it.
    const UNDONE: [&str; 3] = ["cd access revoke", "cd services release", "cd stacks restore"];
    fn leaves<'a>(command: &'a clap::Command, path: &str, found: &mut Vec<(String, &'a clap::Command)>) {
        let mut children = command.get_subcommands().filter(|child| child.get_name() != "help").peekable();
        if children.peek().is_none() {
            found.push((path.to_owned(), command));
        }
        for child in children {
            leaves(child, format!("{path} {}", child.get_name()).trim_start(), found);
        }
    }
    let program = plural_cli::command();
    let mut found = Vec::new();
    leaves(&program, "", &mut found);
    let asks =
        |command: &clap::Command| command.get_arguments().any(|argument| argument.get_long() == Some("yes"));
    let ends = |path: &str| ENDS.iter().any(|end| path.rsplit(' ').next() == Some(end));
    let wrong: Vec<_> = found
        .iter()
        .filter(|(path, command)| asks(command) != (ends(path) && !UNDONE.contains(&path.as_str())))
        .map(|(path, _)| path.as_str())
        .collect();
    assert!(wrong.is_empty(), "these ask, or do not, unlike the others: {wrong:?}");
    assert!(found.iter().filter(|(_, command)| asks(command)).count() > 20);
}

#[tokio::test]
async fn version_and_completion() {
    let person = Person::new();
    let done = person.run("version").await;
    assert_eq!(done.out, format!("plural {}\n", env!("CARGO_PKG_VERSION")));
    let done = person.run("version -o json").await;
    let json: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    for shell in ["bash", "zsh", "fish"] {
        let done = person.run(&format!("completion {shell}")).await;
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{shell}");
        assert!(done.out.contains("bootstrap"), "{shell}");
    }
}
