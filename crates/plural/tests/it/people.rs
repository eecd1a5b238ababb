//! A team is let in from the command line alone: users, groups, projects, roles; and credentials of its repository are replaced.

use plural_testkit::{GitRemote, GitServer, TestDatabase, each_database};
use plural_wire::{Client, ClientOptions, CreateAccessToken, Secret, SignIn};

use crate::{
    program::{ConsoleProcess, Done, Home},
    world::{Person, map},
};

each_database!(
    a_second_user_is_let_in,
    who_may_do_what_is_asked_and_told,
    credentials_of_a_repository_are_replaced,
);

use crate::world::PASSWORD as ADMIN;

const PASSWORD: &str = "a long enough password";

/// `plural …` with a token, and something on standard input.
async fn plural(
    home: &Home,
    console: &ConsoleProcess,
    token: &str,
    words: &[&str],
    input: &str,
) -> anyhow::Result<Done> {
    let mut command = home.plural(words);
    command.env("PLURAL_CONSOLE_URL", console.url()).env("PLURAL_CONSOLE_TOKEN", token);
    let stdin = home.path().join("stdin");
    std::fs::write(&stdin, input)?;
    command.stdin(std::fs::File::open(&stdin)?);
    crate::program::finish(command).await
}

async fn token_of(client: &Client) -> anyhow::Result<String> {
    let made = client.send(&CreateAccessToken {}).await?;
    Ok(made.token.map(|token| token.expose().to_owned()).unwrap_or_default())
}

async fn a_second_user_is_let_in(database: TestDatabase) -> anyhow::Result<()> {
    let home = Home::new()?;
    let console =
        ConsoleProcess::start(&home, database.is_postgres().then(|| database.url()), "info").await?;
    let admin = token_of(&Person::administrator(&console.url()).await?.client).await?;
    let run =
        async |token: &str, words: &[&str], input: &str| plural(&home, &console, token, words, input).await;
    let does = async |words: &[&str], input: &str| -> anyhow::Result<String> {
        let done = run(&admin, words, input).await?;
        anyhow::ensure!(done.code == Some(0), "{words:?}: {done:?}");
        Ok(done.out)
    };
    let whoami = does(&["whoami"], "").await?;
    assert!(whoami.contains("ada@example.com") && whoami.contains("Administrator:   yes"), "{whoami}");
    does(&["cd", "projects", "create", "shop", "--description", "the web shop"], "").await?;
    assert!(does(&["cd", "projects", "list"], "").await?.contains("shop"));
    let short = run(
        &admin,
        &["cd", "users", "create", "grace@example.com", "--name", "Grace", "--stdin"],
        &format!("{ADMIN}\nx\n"),
    )
    .await?;
    assert!(short.code == Some(1) && short.err.contains("password"), "{short:?}");
    let words = ["cd", "users", "create", "grace@example.com", "--name", "Grace", "--stdin"];
    does(&words, &format!("{ADMIN}\n{PASSWORD}\n")).await?;
    let wrong = ["cd", "groups", "create", "shop", "--member", "nobody@example.com"];
    let wrong = run(&admin, &wrong, "").await?;
    assert!(wrong.code == Some(1) && wrong.err.contains("nobody@example.com"), "{wrong:?}");
    assert!(!does(&["cd", "groups", "list"], "").await?.contains("shop"), "nothing was made");
    does(&["cd", "groups", "create", "shop", "--member", "grace@example.com"], "").await?;

    let nobody = Client::new(&ClientOptions::new(console.url(), None))?;
    let asked = SignIn { email: "grace@example.com".to_owned(), password: Secret::new(PASSWORD) };
    let session = nobody.send(&asked).await?.jwt;
    let grace = token_of(&Client::new(&ClientOptions::new(console.url(), session))?).await?;
    let listed = run(&grace, &["cd", "projects", "list", "-o", "name"], "").await?;
    assert_eq!((listed.code, listed.out.as_str()), (Some(0), ""), "{listed:?}");
    let refused =
        run(&grace, &["cd", "access", "grant", "read", "--project", "shop", "--group", "shop"], "").await?;
    assert!(refused.code == Some(1) && refused.err.contains("shop"), "{refused:?}");

    let granted =
        does(&["cd", "access", "grant", "read", "--project", "shop", "--group", "shop"], "").await?;
    assert!(granted.contains("read") && granted.contains("group"), "{granted}");
    // Another role, and another subject, leave this one as it is; granting twice changes nothing.
    for words in [
        ["write", "--user", "grace@example.com"],
        ["read", "--user", "grace@example.com"],
        ["read", "--group", "shop"],
    ] {
        does(&[&["cd", "access", "grant", words[0], "--project", "shop"], &words[1..]].concat(), "").await?;
    }
    let all = does(&["cd", "access", "list", "--project", "shop", "-o", "name"], "").await?;
    assert_eq!(all, "group/shop\nuser/grace@example.com\nuser/grace@example.com\n");
    let listed = run(&grace, &["cd", "projects", "list", "-o", "name"], "").await?;
    assert_eq!(listed.out, "project/shop\n", "{listed:?}");
    for role in ["read", "write"] {
        does(&["cd", "access", "revoke", role, "--project", "shop", "--user", "user/grace@example.com"], "")
            .await?;
    }
    assert_eq!(does(&["cd", "access", "list", "--project", "shop", "-o", "name"], "").await?, "group/shop\n");
    does(&["cd", "groups", "remove", "shop", "grace@example.com"], "").await?;
    let listed = run(&grace, &["cd", "projects", "list", "-o", "name"], "").await?;
    assert_eq!(listed.out, "", "{listed:?}");
    let asked = run(&admin, &["cd", "users", "delete", "grace@example.com"], "").await?;
    assert!(asked.code == Some(2) && asked.err.contains("--yes"), "{asked:?}");
    does(&["cd", "users", "delete", "grace@example.com", "--yes"], "").await?;
    let gone = run(&grace, &["whoami"], "").await?;
    assert_eq!(gone.code, Some(1), "{gone:?}");
    does(&["cd", "groups", "delete", "shop", "--yes"], "").await?;
    does(&["cd", "projects", "delete", "shop", "--yes"], "").await?;
    drop(console);
    Ok(())
}

/// Exit codes are those of kubectl: 0 for yes, 1 for no.
async fn who_may_do_what_is_asked_and_told(database: TestDatabase) -> anyhow::Result<()> {
    let home = Home::new()?;
    let console =
        ConsoleProcess::start(&home, database.is_postgres().then(|| database.url()), "info").await?;
    let admin = token_of(&Person::administrator(&console.url()).await?.client).await?;
    let run = async |token: &str, words: &str, input: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        plural(&home, &console, token, &words, input).await
    };
    let does = async |words: &str| -> anyhow::Result<String> {
        let done = run(&admin, words, "").await?;
        anyhow::ensure!(done.code == Some(0), "{words}: {done:?}");
        Ok(done.out)
    };
    does("cd projects create shop").await?;
    does("cd clusters create blue --project shop").await?;
    let made = "cd users create grace@example.com --name Grace --stdin";
    let made = run(&admin, made, &format!("{ADMIN}\n{PASSWORD}\n")).await?;
    assert_eq!(made.code, Some(0), "{made:?}");
    does("cd groups create ops --member grace@example.com").await?;
    let nobody = Client::new(&ClientOptions::new(console.url(), None))?;
    let asked = SignIn { email: "grace@example.com".to_owned(), password: Secret::new(PASSWORD) };
    let session = nobody.send(&asked).await?.jwt;
    let grace = token_of(&Client::new(&ClientOptions::new(console.url(), session))?).await?;

    // The same words for what is hidden and for what is not there.
    let hidden = run(&grace, "auth can-i get cluster/blue", "").await?;
    let absent = run(&grace, "auth can-i get cluster/red", "").await?;
    assert_eq!((hidden.code, hidden.out.as_str()), (Some(1), "no\n"), "{hidden:?}");
    assert_eq!((absent.code, absent.out, absent.err), (hidden.code, hidden.out, hidden.err));

    // A custom role is made, bound by its name, and allows its actions.
    let role = does("roles create operator --action read --action rollback --description on-call").await?;
    assert!(role.contains("read, rollback"), "{role}");
    does("cd access grant operator --project shop --group ops").await?;
    let listed = does("cd access list --project shop").await?;
    assert!(listed.contains("operator") && listed.contains("ops"), "{listed}");
    let yes = run(&grace, "auth can-i rollback services --in cluster/blue", "").await?;
    assert_eq!((yes.code, yes.out.as_str()), (Some(0), "yes\n"), "{yes:?}");
    let no = run(&grace, "auth can-i delete cluster/blue", "").await?;
    assert_eq!((no.code, no.out.as_str()), (Some(1), "no\n"), "{no:?}");
    assert!(no.err.contains("admin"), "{no:?}");
    let quiet = run(&grace, "auth can-i delete cluster/blue --quiet", "").await?;
    assert_eq!((quiet.code, quiet.out.as_str(), quiet.err.as_str()), (Some(1), "", ""), "{quiet:?}");
    let refused = run(&grace, "cd clusters delete blue --yes", "").await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let why = run(&grace, "auth explain get cluster/blue", "").await?;
    assert!(why.out.contains("operator on project/shop, of the group ops"), "{why:?}");
    let why = run(&grace, "auth explain write cluster/blue", "").await?;
    assert!(why.out.contains("write, admin") && why.out.contains("an administrator"), "{why:?}");
    let refused = run(&grace, "auth who-can get cluster/blue", "").await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let refused = run(&grace, "auth can-i get cluster/blue --as ada@example.com", "").await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");

    let who = does("auth who-can rollback cluster/blue -o json").await?;
    assert!(who.contains("operator") && who.contains("ops"), "{who}");
    let other = does("auth can-i get cluster/blue --as grace@example.com").await?;
    assert_eq!(other, "yes\n");
    let wrong = run(&admin, "auth can-i fly cluster/blue", "").await?;
    assert!(wrong.code == Some(1) && wrong.err.contains("rotate-token"), "{wrong:?}");

    // A role that somebody has stays.
    let refused = run(&admin, "roles delete operator --yes", "").await?;
    assert!(refused.code == Some(1) && refused.err.contains("on project shop for ops"), "{refused:?}");
    does("cd access revoke operator --project shop --group ops").await?;
    does("roles delete operator --yes").await?;
    drop(console);
    Ok(())
}

async fn credentials_of_a_repository_are_replaced(database: TestDatabase) -> anyhow::Result<()> {
    let home = Home::new()?;
    let console =
        ConsoleProcess::start(&home, database.is_postgres().then(|| database.url()), "info").await?;
    let admin = token_of(&Person::administrator(&console.url()).await?.client).await?;
    let run = async |words: &[&str], input: &str| plural(&home, &console, &admin, words, input).await;
    let remote = GitRemote::new()?;
    remote.push_files([("app/a.yaml", map("a", "1"))])?;
    let git = GitServer::start(remote.root())?;
    git.require("bot", "first");
    let url = git.url(&remote);
    let create = ["cd", "repositories", "create", &url, "--username", "bot", "--password-stdin", "--wait"];
    let made = run(&create, "first").await?;
    assert_eq!(made.code, Some(0), "{made:?}");

    // The token expires; another one is given, and nothing that reads from it has to be touched.
    git.require("bot", "second");
    let update = ["cd", "repositories", "update", &url, "--username", "bot", "--password-stdin", "--wait"];
    let wrong = run(&update, "third").await?;
    assert!(wrong.code == Some(1) && wrong.err.contains("repositories update"), "{wrong:?}");
    let list = run(&["cd", "repositories", "list"], "").await?;
    assert!(list.out.contains("Failed") && list.out.contains("REASON"), "{list:?}");
    assert!(!format!("{wrong:?}{list:?}").contains("third"));
    let right = run(&update, "second").await?;
    assert!(right.code == Some(0) && right.out.contains("Pullable"), "{right:?}");
    let nothing = run(&["cd", "repositories", "update", &url], "").await?;
    assert!(nothing.code == Some(2) && nothing.err.contains("nothing to change"), "{nothing:?}");
    drop(console);
    Ok(())
}
