//! A plain git server: branches and commits, pushed.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use plural_git::{HostKeys, Mirrors};
use plural_reach::{Guard, Reach};
use plural_scm::{
    Cause, Change, CommitId, EntryKind, GitHost, MergeMethod, Onto, Person, PlainConnection, PullRequestEdit,
    Repository, Scope, Status, StatusState, WebhookSpec, connect_plain,
};
use plural_testkit::{GitRemote, GitServer};

use crate::support::{branch, commit, delete, file, to_main, write};

const TOKEN: &str = "s3cr3t-t0ken";
/// In place of ssh, as no machine of the tests has a server of it: looks at the key, its passphrase and the host's keys, and runs git's own
/// server.
const SSH: &str = r#"#!/bin/sh
for word in "$@"; do
  case $word in
    IdentityFile=*) key=$(echo "${word#IdentityFile=}" | tr -d '"') ;;
    UserKnownHostsFile=*) hosts=$(echo "${word#UserKnownHostsFile=}" | tr -d '"') ;;
  esac
  last=$word
done
if ! grep -q 'ssh-ed25519 of-the-host' "$hosts"; then echo 'Host key verification failed.' >&2; exit 255; fi
if [ "$(cat "$key")" = 'k3y-of-the-tests' ] && [ "$("$SSH_ASKPASS" passphrase)" = 'the phrase' ]; then exec sh -c "$last"; fi
echo 'git@127.0.0.1: Permission denied (publickey).' >&2
exit 255
"#;

struct Plain {
    remote: GitRemote,
    server: GitServer,
    host: Arc<dyn GitHost>,
    repository: Repository,
    _data: tempfile::TempDir,
}

impl Plain {
    fn new(token: &str) -> Self {
        Self::reached(|_, server, data| Self::host(server, token, data))
    }

    /// By ssh, with this key and this key of the host.
    fn by_ssh(key: &str, host: &str) -> Self {
        Self::reached(|remote, _, data| Self::ssh_host(remote, data, key, host))
    }

    fn reached(host: impl FnOnce(&GitRemote, &GitServer, &Path) -> Arc<dyn GitHost>) -> Self {
        let remote = GitRemote::named("plural/fleet.git").unwrap();
        remote
            .commit("main")
            .file("README.md", "# Fleet\n")
            .file("apps/values.yaml", "a: 1\n")
            .push()
            .unwrap();
        remote.commit("main").executable("run.sh", "echo 1\n").push().unwrap();
        let server = GitServer::start(remote.root()).unwrap();
        server.require("git", TOKEN);
        let data = tempfile::tempdir().unwrap();
        let host = host(&remote, &server, data.path());
        let repository = Repository::parse("plural/fleet.git").unwrap();
        Self { remote, server, host, repository, _data: data }
    }

    /// The server, with mirrors in this folder.
    fn host(server: &GitServer, token: &str, data: &Path) -> Arc<dyn GitHost> {
        let mirrors = Mirrors::open(plural_git::Options {
            guard: Guard::new(Reach::Local),
            credentials_over_http: true,
            ..plural_git::Options::new(data)
        });
        let connection = PlainConnection {
            id: "one".to_owned(),
            url: format!("http://{}", server.address()),
            credentials: plural_git::Credentials::basic("git", token),
            host_keys: HostKeys::AcceptNew,
            ca_pem: None,
            proxy: None,
            committer: Person { name: "Plural".to_owned(), email: "plural@example.com".to_owned() },
        };
        connect_plain(connection, mirrors.unwrap())
    }

    fn ssh_host(remote: &GitRemote, data: &Path, key: &str, host: &str) -> Arc<dyn GitHost> {
        let ssh = data.join("ssh");
        fs::write(&ssh, SSH).unwrap();
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
        let mirrors = Mirrors::open(plural_git::Options {
            guard: Guard::new(Reach::Local),
            ssh,
            ..plural_git::Options::new(data.join("mirrors"))
        });
        let connection = PlainConnection {
            id: "one".to_owned(),
            url: format!("ssh://git@127.0.0.1{}", remote.root().display()),
            credentials: plural_git::Credentials::ssh_key(key, Some("the phrase".to_owned())),
            host_keys: HostKeys::Pinned(format!("127.0.0.1 ssh-ed25519 {host}")),
            ca_pem: None,
            proxy: None,
            committer: Person { name: "Plural".to_owned(), email: "plural@example.com".to_owned() },
        };
        connect_plain(connection, mirrors.unwrap())
    }

    async fn new_branch(&self, name: &str, changes: Vec<Change>) -> plural_scm::NewCommit {
        let main = self.host.head(&self.repository, &branch("main")).await.unwrap();
        commit(Onto::NewBranch { branch: branch(name), base: branch("main") }, main, changes)
    }
}

/// One test over http, and one by ssh.
macro_rules! both_ways {
    ($($scenario:ident),+ $(,)?) => {
        mod by_http {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario(super::Plain::new(super::TOKEN)).await;
            })+
        }
        mod by_ssh {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario(super::Plain::by_ssh("k3y-of-the-tests", "of-the-host")).await;
            })+
        }
    };
}

both_ways!(
    a_branch_is_made_changed_and_removed,
    a_branch_is_followed_until_its_base_has_it,
    what_cannot_be_meant_makes_no_branch,
);

#[tokio::test]
async fn who_has_another_key_pushes_nothing() {
    for (key, host, told) in [
        ("an0ther-k3y", "of-the-host", "authentication failed"),
        ("k3y-of-the-tests", "of-another", "host key was not accepted"),
    ] {
        let world = Plain::by_ssh(key, host);
        let error = world.host.head(&world.repository, &branch("main")).await.unwrap_err();
        assert_eq!(error.cause, Cause::Refused, "{error}");
        assert!(error.message.contains(told), "{error}");
        let said = format!("{error} {error:?} {:?}", world.host);
        assert!(!said.contains(key) && !said.contains("the phrase"), "{said}");
    }
}

async fn a_branch_is_made_changed_and_removed(world: Plain) {
    let (host, repository) = (&world.host, &world.repository);
    assert_eq!(host.default_branch(repository).await.unwrap(), branch("main"));
    let changes = vec![
        write("apps/values.yaml", "a: 2\n"),
        write("apps/a \"b\"/ü%20.yaml", "odd: true\n"),
        write("run.sh", "echo 2\n"),
        delete("README.md"),
    ];
    let new = world.new_branch("plural/update-1", changes).await;
    let done = host.commit(repository, &new).await.unwrap();
    assert_eq!(world.remote.resolve("refs/heads/plural/update-1").unwrap(), done.commit.as_str());
    assert_eq!(world.remote.resolve("refs/heads/plural/update-1^").unwrap(), new.parent.as_str());
    let told = host.commit_told(repository, &done.commit).await.unwrap();
    assert_eq!((told.parents, told.message.trim()), (vec![new.parent.clone()], new.message.trim()));
    let shown = world.remote.git(["log", "-1", "--format=%an %ae %cn %s", done.commit.as_str()]).unwrap();
    assert_eq!(shown.trim(), "Ada ada@example.com Plural Update the fleet");
    let tree = host.tree(repository, &done.commit).await.unwrap().items;
    let told: Vec<(&str, EntryKind)> = tree.iter().map(|entry| (entry.path.as_str(), entry.kind)).collect();
    assert_eq!(
        told,
        [
            ("apps/a \"b\"/ü%20.yaml", EntryKind::File),
            ("apps/values.yaml", EntryKind::File),
            ("run.sh", EntryKind::Executable)
        ]
    );
    let read = host.read(repository, &done.commit, &file("apps/values.yaml")).await.unwrap();
    assert_eq!(read.as_ref(), b"a: 2\n");
    let again = host.commit(repository, &new).await.unwrap_err();
    assert_eq!(again.cause, Cause::Conflict, "{again}");
    let onto = Onto::Branch(branch("plural/update-1"));
    let more = commit(onto, done.commit, vec![write("apps/values.yaml", "a: 3\n")]);
    let second = host.commit(repository, &more).await.unwrap();
    let late = host.commit(repository, &more).await.unwrap_err();
    assert_eq!(late.cause, Cause::Moved, "{late}");
    assert_eq!(host.head(repository, &branch("plural/update-1")).await.unwrap(), second.commit);
    for _ in 0..2 {
        host.delete_branch(repository, &branch("plural/update-1"), &second.commit).await.unwrap();
    }
    let gone = host.head(repository, &branch("plural/update-1")).await.unwrap_err();
    assert_eq!(gone.cause, Cause::NotFound, "{gone}");
}

async fn a_branch_is_followed_until_its_base_has_it(world: Plain) {
    let (host, repository, remote) = (&world.host, &world.repository, &world.remote);
    let make = async |name: &str| {
        let path = format!("{name}.yaml");
        let new = world.new_branch(name, vec![write(&path, "a: 1\n")]).await;
        host.commit(repository, &new).await.unwrap().commit
    };
    let follow = async |name: &str, made: &CommitId| {
        host.follow(repository, &branch(name), &branch("main"), made, None).await.unwrap()
    };
    let made = make("forward").await;
    let now = follow("forward", &made).await;
    assert_eq!((now.head.as_ref(), now.is_merged), (Some(&made), false));
    remote.set_ref("refs/heads/main", "refs/heads/forward").unwrap();
    let now = follow("forward", &made).await;
    assert_eq!((now.head.as_ref(), &now.base, now.is_merged), (Some(&made), &made, true));
    remote.delete_ref("refs/heads/forward").unwrap();
    let now = follow("forward", &made).await;
    assert_eq!((now.head, now.is_merged), (None, true));

    // Another commit with the same change, on top of what came meanwhile.
    let made = make("squash").await;
    remote.commit("main").file("other", "1").push().unwrap();
    assert!(!follow("squash", &made).await.is_merged);
    remote.commit("main").file("squash.yaml", "a: 1\n").push().unwrap();
    assert!(follow("squash", &made).await.is_merged);
    // What came onto it since is not in there.
    remote.commit("squash").file("more.yaml", "b: 1\n").push().unwrap();
    let now = follow("squash", &made).await;
    assert!(!now.is_merged && now.head.as_ref() != Some(&made), "{now:?}");

    let made = make("dropped").await;
    // Who takes all of it back merged nothing.
    remote.set_ref("refs/heads/dropped", "refs/heads/main").unwrap();
    assert!(!follow("dropped", &made).await.is_merged);
    remote.delete_ref("refs/heads/dropped").unwrap();
    let now = follow("dropped", &made).await;
    assert_eq!((now.head, now.is_merged), (None, false));
    let error = host.follow(repository, &branch("dropped"), &branch("gone"), &made, None).await.unwrap_err();
    assert_eq!(error.cause, Cause::NotFound, "{error}");
}

/// A console that lost its folder, or another one that took over.
#[tokio::test]
async fn a_branch_that_is_gone_is_not_judged_without_its_commit() {
    let world = Plain::new(TOKEN);
    let (host, repository, remote) = (&world.host, &world.repository, &world.remote);
    let new = world.new_branch("squash", vec![write("squash.yaml", "a: 1\n")]).await;
    let made = host.commit(repository, &new).await.unwrap().commit;
    remote.commit("main").file("squash.yaml", "a: 1\n").push().unwrap();
    remote.delete_ref("refs/heads/squash").unwrap();
    remote.git(["prune", "--expire=now"]).unwrap();
    let data = tempfile::tempdir().unwrap();
    let cold = Plain::host(&world.server, TOKEN, data.path());
    let (name, main) = (branch("squash"), branch("main"));
    let error = cold.follow(repository, &name, &main, &made, None).await.unwrap_err();
    assert_eq!(error.cause, Cause::Conflict, "{error}");
    assert!(error.to_string().contains("cannot be told"), "{error}");
    // Whoever has it still knows.
    assert!(host.follow(repository, &name, &main, &made, None).await.unwrap().is_merged);
}

#[tokio::test]
async fn a_branch_that_was_changed_and_then_merged_is_merged() {
    let world = Plain::new(TOKEN);
    let (host, repository, remote) = (&world.host, &world.repository, &world.remote);
    let new = world.new_branch("amended", vec![write("amended.yaml", "a: 1\n")]).await;
    let made = host.commit(repository, &new).await.unwrap().commit;
    let (name, main) = (branch("amended"), branch("main"));
    // Somebody puts another commit in its place, and merges that.
    remote.set_ref("refs/heads/amended", "refs/heads/main").unwrap();
    let bare = host.follow(repository, &name, &main, &made, None).await.unwrap();
    assert!(bare.is_bare && !bare.is_merged, "{bare:?}");
    remote.commit("amended").file("amended.yaml", "a: 2\n").push().unwrap();
    let now = host.follow(repository, &name, &main, &made, None).await.unwrap();
    assert!(!now.is_bare && !now.is_merged, "{now:?}");
    let last = now.head.unwrap();
    remote.set_ref("refs/heads/main", "refs/heads/amended").unwrap();
    remote.delete_ref("refs/heads/amended").unwrap();
    let now = host.follow(repository, &name, &main, &made, Some(&last)).await.unwrap();
    assert_eq!((now.head, now.is_merged), (None, true));
}

#[tokio::test]
async fn what_it_does_not_have_is_refused() {
    let world = Plain::new(TOKEN);
    let (host, repository) = (&world.host, &world.repository);
    let main = host.head(repository, &branch("main")).await.unwrap();
    let status = Status {
        context: "plural/plan".to_owned(),
        state: StatusState::Success,
        description: String::new(),
        url: None,
    };
    let scope = Scope::Repository(repository.clone());
    let hook = WebhookSpec { url: "https://console.example/1".to_owned(), secret: "s".to_owned().into() };
    let edit = PullRequestEdit::default();
    let page = include_str!("../../../../docs/git-hosts.md");
    for (row, refused) in [
        ("Pull requests", host.open(repository, &to_main("main")).await.map(drop)),
        ("Pull requests", host.pull_request(repository, 1).await.map(drop)),
        ("Pull requests", host.pull_requests(repository, true).await.map(drop)),
        ("Pull requests", host.update(repository, 1, &edit).await.map(drop)),
        ("Pull requests", host.close(repository, 1).await.map(drop)),
        ("Pull requests", host.files(repository, 1).await.map(drop)),
        ("Merge at one head", host.merge(repository, 1, &main, MergeMethod::Merge).await.map(drop)),
        ("Merge at one head", host.merge(repository, 1, &main, MergeMethod::Squash).await.map(drop)),
        ("Merge at one head", host.merge(repository, 1, &main, MergeMethod::Rebase).await.map(drop)),
        ("Reviews", host.reviews(repository, 1).await.map(drop)),
        ("Labels", host.add_labels(repository, 1, &["infra".to_owned()]).await),
        ("One comment", host.comment(repository, 1, "plan", "text").await),
        ("Check run", host.checks(repository, &main).await.map(drop)),
        ("Commit status", host.set_status(repository, &main, &status).await),
        ("Approve", host.approve(repository, 1, &main, "fine").await),
        ("Make, renew and remove webhooks", host.ensure_webhook(&scope, &hook).await),
        ("Make, renew and remove webhooks", host.remove_webhook(&scope, &hook.url).await.map(drop)),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.cause, Cause::Unsupported, "{error}");
        // The table of the docs says so in its last column.
        let line = page.lines().find(|line| line.starts_with(&format!("| {row}"))).unwrap();
        let cell = line.trim_matches('|').rsplit('|').next().unwrap();
        assert!(cell.trim().starts_with("no"), "{line}");
    }
}

async fn what_cannot_be_meant_makes_no_branch(world: Plain) {
    let (host, repository) = (&world.host, &world.repository);
    for changes in [
        vec![write("a", "1"), delete("missing.yaml")],
        vec![write("apps", "a folder is here")],
        vec![write("README.md/x", "a file is here")],
    ] {
        let new = world.new_branch("bad", changes).await;
        let error = host.commit(repository, &new).await.unwrap_err();
        assert_eq!(error.cause, Cause::Conflict, "{error}");
    }
    let mut new = world.new_branch("bad", vec![write("a", "1")]).await;
    new.author = Some(Person { name: "x\ncommitter y".to_owned(), email: "a@b".to_owned() });
    assert_eq!(host.commit(repository, &new).await.unwrap_err().cause, Cause::Invalid);
    world.remote.commit("main").file("more", "1").push().unwrap();
    let error = host.commit(repository, &new).await.unwrap_err();
    assert_eq!(error.cause, Cause::Moved, "{error}");
    assert!(world.remote.resolve("refs/heads/bad").is_err());
    let error = host.open(repository, &to_main("bad")).await.unwrap_err();
    assert_eq!(error.cause, Cause::Unsupported);
}

#[tokio::test]
async fn a_refused_push_is_told_without_the_token() {
    let world = Plain::new(TOKEN);
    let new = world.new_branch("late", vec![write("a", "1")]).await;
    world.server.require("git", "another");
    let error = world.host.commit(&world.repository, &new).await.unwrap_err();
    assert_eq!(error.cause, Cause::Refused, "{error}");
    assert!(!format!("{error} {error:?} {:?}", world.host).contains(TOKEN), "{error}");
    let wrong = Plain::new("wrong");
    let error = wrong.host.head(&wrong.repository, &branch("main")).await.unwrap_err();
    assert_eq!(error.cause, Cause::Refused, "{error}");
}
