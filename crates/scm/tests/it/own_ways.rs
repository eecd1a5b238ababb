//! What only one kind of host does.

use bytes::Bytes;
use plural_scm::{
    Cause, Change, CommitId, Connection, Credentials, MergeMethod, NewPullRequest, Options, PullRequestEdit,
    Repository, StatusState, Verdict, connect,
};
use plural_testkit::{ScmDialect, ScmServer};

use crate::support::{World, branch, connection, delete, file, mirrors, options, to_main, write, write_as};

/// A world of Bitbucket Data Center, signed in to by this user's name and slug.
fn by_password(username: &str, slug: Option<&str>) -> World {
    let world = World::new(ScmDialect::BitbucketDataCenter);
    let data = tempfile::tempdir().unwrap();
    let options = Options { mirrors: Some(mirrors(&data)), ..options() };
    let (url, token) = (world.server.api_url(), world.server.token());
    let credentials = Credentials::Basic { username: username.to_owned(), password: token.clone().into() };
    let user = slug.map(str::to_owned);
    let connection =
        Connection { credentials, user, ..connection(ScmDialect::BitbucketDataCenter, url, token) };
    let host = connect(&connection, &options).unwrap();
    World { host, _data: Some(data), ..world }
}

#[tokio::test]
async fn a_user_of_data_center_signs_in_with_a_password() {
    for slug in [None, Some("plural-bot")] {
        let world = by_password("plural-bot", slug);
        let number = world.pull_request("by-password").await.number;
        for text in ["first", "second"] {
            world.host.comment(&world.repository, number, "plan", text).await.unwrap();
        }
        let comments = world.server.comments(number);
        assert_eq!(comments, [("plural-bot".to_owned(), "<!-- plural:plan -->\nsecond".to_owned())]);
        assert!(!format!("{:?}", world.host).contains(&world.server.token()));
    }
}

#[tokio::test]
async fn an_edit_at_data_center_keeps_reviewers() {
    let world = World::new(ScmDialect::BitbucketDataCenter);
    let number = world.pull_request("kept").await.number;
    world.server.review_by_another(number, Verdict::Approved);
    let edit = PullRequestEdit { title: Some("Better".to_owned()), body: None };
    let edited = world.host.update(&world.repository, number, &edit).await.unwrap();
    assert_eq!((edited.title.as_str(), edited.body.as_str()), ("Better", "What it does"));
    let reviews = world.host.reviews(&world.repository, number).await.unwrap().items;
    assert_eq!(reviews.len(), 1, "{reviews:?}");
}

#[tokio::test]
async fn a_token_of_no_user_of_data_center_reads_and_does_not_commit() {
    let world = World::new(ScmDialect::BitbucketDataCenter);
    let new = world.on_new_branch("nobody", vec![write("a", "1")]).await;
    let number = world.pull_request("before").await.number;
    world.server.make_tokens_of_nobody();
    // The connection has asked who it is by now; another one has not.
    let data = tempfile::tempdir().unwrap();
    let options = Options { mirrors: Some(mirrors(&data)), ..options() };
    let (url, token) = (world.server.api_url(), world.server.token());
    let host = connect(&connection(ScmDialect::BitbucketDataCenter, url, token), &options).unwrap();
    assert_eq!(host.pull_request(&world.repository, number).await.unwrap().number, number);
    for error in [
        host.commit(&world.repository, &new).await.map(drop).unwrap_err(),
        host.tree(&world.repository, &new.parent).await.map(drop).unwrap_err(),
        host.comment(&world.repository, number, "plan", "x").await.unwrap_err(),
        host.approve(&world.repository, number, &new.parent, "").await.unwrap_err(),
    ] {
        assert_eq!(error.cause, Cause::Invalid, "{error}");
        assert!(error.message.contains("the token of a user"), "{error}");
    }
}

/// What the table of the docs says of a host, in the row that begins so.
fn documented(row: &str, dialect: ScmDialect) -> String {
    let page = include_str!("../../../../docs/git-hosts.md");
    let cells = |begin: &str| -> Vec<&str> {
        let row = page.lines().find(|line| line.starts_with(begin)).unwrap();
        row.trim_matches('|').split('|').map(str::trim).collect()
    };
    let name = match dialect {
        ScmDialect::GitHub => "GitHub",
        ScmDialect::Gitea => "Gitea, Forgejo",
        ScmDialect::GitLab => "GitLab",
        ScmDialect::BitbucketCloud => "Bitbucket Cloud",
        ScmDialect::BitbucketDataCenter => "Bitbucket Data Center",
        ScmDialect::AzureDevOps => "Azure DevOps",
    };
    let column = cells("| | GitHub").iter().position(|host| *host == name).unwrap();
    cells(&format!("| {row}"))[column].to_owned()
}

/// Whether the host does it.
fn does<T>(done: plural_scm::Result<T>) -> bool {
    match done {
        Ok(_) => true,
        Err(error) if error.cause == Cause::Unsupported => false,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn the_docs_say_which_hosts_do_what() {
    for dialect in [
        ScmDialect::GitHub,
        ScmDialect::Gitea,
        ScmDialect::GitLab,
        ScmDialect::BitbucketCloud,
        ScmDialect::BitbucketDataCenter,
        ScmDialect::AzureDevOps,
    ] {
        let world = World::new(dialect);
        let pull = world.pull_request("labelled").await;
        let labels = ["plural".to_owned()];
        let labelled = does(world.host.add_labels(&world.repository, pull.number, &labels).await);
        assert_eq!(documented("Labels", dialect), if labelled { "yes" } else { "no" }, "{dialect:?}");
        let head = CommitId::parse(&pull.head_commit).unwrap();
        let rebased = world.host.merge(&world.repository, pull.number, &head, MergeMethod::Rebase).await;
        let told = documented("Merge at one head only", dialect);
        assert_eq!(told.starts_with("merge, squash, rebase"), does(rebased), "{dialect:?}: {told}");
        let new = world.on_new_branch("run", vec![write_as("run.sh", "echo 1\n", true)]).await;
        let told = documented("Make files executable", dialect);
        let made = world.host.commit(&world.repository, &new).await;
        assert_eq!(!told.starts_with("no"), does(made), "{dialect:?}: {told}");
    }
}

#[test]
fn data_center_is_not_connected_to_without_a_place_for_mirrors() {
    let server = ScmServer::start(ScmDialect::BitbucketDataCenter).unwrap();
    let connection = connection(ScmDialect::BitbucketDataCenter, server.api_url(), server.token());
    let error = connect(&connection, &options()).unwrap_err();
    assert_eq!(error.cause, Cause::Unsupported, "{error}");
    assert!(error.message.contains("mirrors"), "{error}");
}

#[tokio::test]
async fn a_file_is_not_put_where_a_folder_of_azure_devops_is() {
    let world = World::new(ScmDialect::AzureDevOps);
    let few = vec![write("apps", "a folder is here")];
    let many: Vec<Change> =
        ('a'..='i').map(|name| write(&name.to_string(), "1")).chain(few.clone()).collect();
    for changes in [few, many] {
        let new = world.on_new_branch("bad", changes).await;
        let error = world.host.commit(&world.repository, &new).await.unwrap_err();
        assert_eq!(error.cause, Cause::Conflict, "{error}");
        assert!(error.message.contains("apps"), "{error}");
    }
    let head = world.head("main").await;
    let error = world.host.read(&world.repository, &head, &file("apps")).await.unwrap_err();
    assert_eq!(error.cause, Cause::NotFound, "{error}");
}

#[tokio::test]
async fn many_files_of_azure_devops_are_looked_at_in_one_tree() {
    let world = World::new(ScmDialect::AzureDevOps);
    let mut changes: Vec<Change> = ('a'..='i').map(|name| write(&name.to_string(), "1")).collect();
    changes.push(delete("README.md"));
    changes.push(write("apps/web/values.yaml", "replicas: 5\n"));
    let new = world.on_new_branch("many", changes.clone()).await;
    let done = world.host.commit(&world.repository, &new).await.unwrap();
    assert_eq!(world.text(&done.commit, "apps/web/values.yaml").await, "replicas: 5\n");
    assert_eq!(world.host.tree(&world.repository, &done.commit).await.unwrap().items.len(), 10);
    changes.push(delete("missing.yaml"));
    let new = world.on_new_branch("more", changes).await;
    let error = world.host.commit(&world.repository, &new).await.unwrap_err();
    assert_eq!(error.cause, Cause::Conflict, "{error}");
}

#[tokio::test]
async fn a_text_of_azure_devops_is_whole_or_refused() {
    let world = World::new(ScmDialect::AzureDevOps);
    let change = Change::Write { path: file("a"), content: Bytes::from_static(b"1"), executable: None };
    let new = world.on_new_branch("text", vec![change]).await;
    world.host.commit(&world.repository, &new).await.unwrap();
    let of = |length: usize| NewPullRequest { body: "x".repeat(length), ..to_main("text") };
    let error = world.host.open(&world.repository, &of(4001)).await.unwrap_err();
    assert_eq!(error.cause, Cause::Invalid, "{error}");
    assert_eq!(world.server.pull_requests(), 0);
    for existed in [false, true] {
        let opened = world.host.open(&world.repository, &of(4000)).await.unwrap();
        assert_eq!((opened.existed, opened.pull_request.body.len()), (existed, 4000));
    }
    let number = 1;
    let edit = PullRequestEdit { title: None, body: Some("x".repeat(4001)) };
    let error = world.host.update(&world.repository, number, &edit).await.unwrap_err();
    assert_eq!(error.cause, Cause::Invalid, "{error}");
}

#[tokio::test]
async fn the_head_of_azure_devops_is_the_branchs_own() {
    let world = World::new(ScmDialect::AzureDevOps);
    let number = world.pull_request("behind").await.number;
    world.server.push("behind", "later.yaml", "x: 1\n");
    // The host has not looked for conflicts since.
    let now = world.host.pull_request(&world.repository, number).await.unwrap();
    assert_eq!(now.head_commit, world.head("behind").await.as_str());
}

#[tokio::test]
async fn all_checks_of_a_commit_are_read() {
    // Two whole pages, and one check more.
    for (dialect, count) in [(ScmDialect::GitHub, 201), (ScmDialect::Gitea, 101)] {
        let server = ScmServer::start(dialect).unwrap();
        let host = connect(&connection(dialect, server.api_url(), server.token()), &options()).unwrap();
        let repository = Repository::parse("plural/fleet").unwrap();
        let head = host.head(&repository, &branch("main")).await.unwrap();
        for number in 1..count {
            server.report(head.as_str(), &format!("check-{number}"), "success");
        }
        server.report(head.as_str(), "last", "failure");
        let checks = host.checks(&repository, &head).await.unwrap();
        assert_eq!((checks.items.len(), checks.cut), (count, false), "{dialect:?}");
        let failed: Vec<&str> = checks
            .items
            .iter()
            .filter(|check| check.state == StatusState::Failure)
            .map(|check| check.context.as_str())
            .collect();
        assert_eq!(failed, ["last"], "{dialect:?}");
    }
}

#[tokio::test]
async fn names_with_spaces_are_no_other_repository() {
    let world = World::new(ScmDialect::AzureDevOps);
    let other = Repository::parse("My Project/fleet").unwrap();
    let error = world.host.default_branch(&other).await.unwrap_err();
    assert_eq!(error.cause, Cause::NotFound, "{error}");
}
