//! The scenarios of the adapters against a real host, in a repository that is there for that alone. `docs/git-hosts.md` has the settings,
//! which are environment variables. What the host says that it cannot do is told; anything else that goes wrong ends the program with 1.

use std::{
    env,
    error::Error,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use plural_git::Mirrors;
use plural_reach::{Guard, Reach};
use plural_scm::{
    BranchName, Cause, Change, CommitId, Connection, Credentials, FilePath, GitHost, HostKind, MergeMethod,
    NewCommit, NewPullRequest, Onto, Options, PullRequestEdit, PullRequestState, Repository, Scope, Status,
    StatusState, Verdict, WebhookSpec, connect,
};
use secrecy::SecretString;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Where it is played.
struct Ground {
    host: Arc<dyn GitHost>,
    /// The same host through somebody else's account.
    other: Option<Arc<dyn GitHost>>,
    repository: Repository,
    /// Begins the names of what this run makes.
    prefix: String,
    base: BranchName,
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let mirrors = tempfile::tempdir()?;
    let options = Options {
        mirrors: Some(Mirrors::open(plural_git::Options {
            guard: Guard::new(Reach::Local),
            credentials_over_http: true,
            ..plural_git::Options::new(mirrors.path())
        })?),
        reach: Reach::Local,
        credentials_over_http: true,
        ..Options::default()
    };
    let own = connection("SCM")?.ok_or("SCM_TOKEN is not set: see docs/git-hosts.md")?;
    let host = connect(&own, &options)?;
    let other = connection("SCM_OTHER")?.map(|other| connect(&other, &options)).transpose()?;
    let repository = Repository::parse(&setting("SCM_REPOSITORY").ok_or("SCM_REPOSITORY is not set")?)?;
    let base = host.default_branch(&repository).await?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let ground = Ground { host, other, repository, prefix: format!("plural-ground-{seconds}"), base };
    println!("{} of {}, on top of {}", ground.prefix, ground.repository, ground.base);
    let outcome = play(&ground).await;
    for name in ["life", "closed", "bad"] {
        let branch = ground.branch(name)?;
        let at = match ground.host.head(&ground.repository, &branch).await {
            Ok(at) => at,
            Err(error) if error.cause == Cause::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        // One that is gone is no error, so twice is as good as once.
        for _ in 0..2 {
            ground.host.delete_branch(&ground.repository, &branch, &at).await?;
        }
    }
    outcome?;
    println!("all is as it should be");
    Ok(())
}

fn setting(name: &str) -> Option<String> {
    env::var(name).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The connection of one account; nothing without its token.
fn connection(account: &str) -> Outcome<Option<Connection>> {
    let of = |name: &str| setting(&format!("{account}_{name}"));
    let Some(token) = of("TOKEN").map(SecretString::from) else { return Ok(None) };
    let kind = match setting("SCM_KIND").as_deref() {
        Some("github") => HostKind::GitHub,
        Some("gitea") => HostKind::Gitea,
        Some("gitlab") => HostKind::GitLab,
        Some("bitbucket-cloud") => HostKind::BitbucketCloud,
        Some("bitbucket-data-center") => HostKind::BitbucketDataCenter,
        Some("azure-devops") => HostKind::AzureDevOps,
        _ => return Err("SCM_KIND names no kind of host: see docs/git-hosts.md".into()),
    };
    let credentials = match of("USERNAME") {
        Some(username) => Credentials::Basic { username, password: token },
        None => Credentials::Token(token),
    };
    Ok(Some(Connection {
        id: account.to_owned(),
        kind,
        api_url: setting("SCM_API_URL"),
        credentials,
        signing_key: None,
        user: of("USER"),
        ca_pem: None,
        proxy: None,
    }))
}

impl Ground {
    fn branch(&self, name: &str) -> Outcome<BranchName> {
        Ok(BranchName::parse(&format!("{}/{name}", self.prefix))?)
    }

    fn path(&self, name: &str) -> Outcome<FilePath> {
        Ok(FilePath::parse(&format!("{}/{name}", self.prefix))?)
    }

    fn write(&self, name: &str, content: &str) -> Outcome<Change> {
        Ok(Change::Write {
            path: self.path(name)?,
            content: Bytes::from(content.to_owned()),
            executable: None,
        })
    }

    async fn on_new_branch(&self, name: &str, changes: Vec<Change>) -> Outcome<NewCommit> {
        let onto = Onto::NewBranch { branch: self.branch(name)?, base: self.base.clone() };
        let parent = self.host.head(&self.repository, &self.base).await?;
        Ok(commit(onto, parent, changes))
    }

    fn to_base(&self, name: &str) -> Outcome<NewPullRequest> {
        Ok(NewPullRequest {
            head: self.branch(name)?,
            base: self.base.clone(),
            title: format!("{} {name}", self.prefix),
            body: "Made by an example program.".to_owned(),
        })
    }
}

fn commit(onto: Onto, parent: CommitId, changes: Vec<Change>) -> NewCommit {
    NewCommit { onto, parent, message: "Play".to_owned(), author: None, changes }
}

/// Does a step; nothing where the host cannot.
async fn step<T>(name: &str, work: impl Future<Output = plural_scm::Result<T>>) -> Outcome<Option<T>> {
    match work.await {
        Ok(done) => {
            println!("ok           {name}");
            Ok(Some(done))
        }
        Err(error) if error.cause == Cause::Unsupported => {
            println!("unsupported  {name}: {error}");
            Ok(None)
        }
        Err(error) => Err(format!("{name}: {error}").into()),
    }
}

fn check(is: bool, what: &str) -> Outcome<()> {
    if is { Ok(()) } else { Err(format!("not so: {what}").into()) }
}

/// It was refused for one of these reasons.
fn refused<T>(name: &str, result: plural_scm::Result<T>, causes: &[Cause]) -> Outcome<()> {
    match result {
        Err(error) if causes.contains(&error.cause) => {
            println!("ok           {name}");
            Ok(())
        }
        Err(error) => Err(format!("{name}: refused as {:?}: {error}", error.cause).into()),
        Ok(_) => Err(format!("{name}: not refused").into()),
    }
}

async fn play(ground: &Ground) -> Outcome<()> {
    let head = commits(ground).await?;
    let (number, head) = pull_request(ground, head).await?;
    talk(ground, number, &head).await?;
    ends(ground, number, &head).await?;
    webhook(ground).await
}

/// Files of a new branch; its head.
async fn commits(ground: &Ground) -> Outcome<CommitId> {
    let (host, repository) = (&ground.host, &ground.repository);
    let changes = vec![
        ground.write("values.yaml", "replicas: 1\n")?,
        ground.write("a b/ü%20.yaml", "odd: true\n")?,
        ground.write("old.yaml", "x: 1\n")?,
    ];
    let new = ground.on_new_branch("life", changes).await?;
    let first = host.commit(repository, &new).await?;
    check(first.parent == new.parent, "a commit is on top of its parent")?;
    println!("ok           commit of several files on a new branch");
    let conflict = [Cause::Conflict];
    refused("a branch that is there is a conflict", host.commit(repository, &new).await, &conflict)?;
    let changes = vec![
        ground.write("values.yaml", "replicas: 2\n")?,
        Change::Delete { path: ground.path("old.yaml")? },
    ];
    let more = commit(Onto::Branch(ground.branch("life")?), first.commit.clone(), changes);
    let second = host.commit(repository, &more).await?;
    refused("a branch that moved is told", host.commit(repository, &more).await, &[Cause::Moved])?;
    let gone = Change::Delete { path: ground.path("missing.yaml")? };
    let bad = ground.on_new_branch("bad", vec![gone]).await?;
    refused("a missing file is not removed", host.commit(repository, &bad).await, &conflict)?;
    let head = host.head(repository, &ground.branch("life")?).await?;
    check(head == second.commit, "the branch is at its last commit")?;
    let read = host.read(repository, &head, &ground.path("a b/ü%20.yaml")?).await?;
    check(read.as_ref() == b"odd: true\n", "a file is read as it was written")?;
    let tree = host.tree(repository, &head).await?;
    let has = |name: &str| tree.items.iter().any(|entry| entry.path == format!("{}/{name}", ground.prefix));
    check(has("values.yaml") && has("a b/ü%20.yaml") && !has("old.yaml"), "the tree has what was written")?;
    println!("ok           files and the tree are read");
    Ok(head)
}

/// A pull request that is opened, edited and listed; its number, and its head.
async fn pull_request(ground: &Ground, head: CommitId) -> Outcome<(u64, CommitId)> {
    let (host, repository) = (&ground.host, &ground.repository);
    let opened = host.open(repository, &ground.to_base("life")?).await?;
    let number = opened.pull_request.number;
    check(!opened.existed && opened.pull_request.head_commit == head.as_str(), "it is opened at its head")?;
    let again = host.open(repository, &ground.to_base("life")?).await?;
    check(again.existed && again.pull_request.number == number, "a second one is the first")?;
    let edit = PullRequestEdit { title: Some(format!("{} edited", ground.prefix)), body: None };
    let edited = host.update(repository, number, &edit).await?;
    check(
        edited.title.ends_with("edited") && !edited.body.is_empty(),
        "an edit keeps what it does not name",
    )?;
    let listed = host.pull_requests(repository, true).await?;
    check(listed.items.iter().any(|pull| pull.number == number), "it is listed")?;
    let files = host.files(repository, number).await?;
    check(files.items.len() == 2, "it changes two files")?;
    println!("ok           a pull request is opened once, edited, listed, and tells its files");
    Ok((number, head))
}

/// Comments, labels, statuses, reviews.
async fn talk(ground: &Ground, number: u64, head: &CommitId) -> Outcome<()> {
    let (host, repository) = (&ground.host, &ground.repository);
    for text in ["first", "second"] {
        step("a comment is written and edited", host.comment(repository, number, "ground", text)).await?;
    }
    step("labels", host.add_labels(repository, number, &["plural".to_owned()])).await?;
    let status = Status {
        context: "plural/ground".to_owned(),
        state: StatusState::Success,
        description: "x".repeat(1000),
        url: Some("https://example.com/".to_owned()),
    };
    step("a commit's status", host.set_status(repository, head, &status)).await?;
    let own = host.approve(repository, number, head, "").await;
    refused("its own pull request is not approved", own, &[Cause::Refused, Cause::Conflict])?;
    if let Some(other) = &ground.other {
        step("somebody else approves", other.approve(repository, number, head, "fine")).await?;
        let reviews = host.reviews(repository, number).await?.items;
        check(reviews.iter().any(|review| review.verdict == Verdict::Approved), "the approval is read")?;
    }
    Ok(())
}

/// A merge at the head only, and a close.
async fn ends(ground: &Ground, number: u64, head: &CommitId) -> Outcome<()> {
    let (host, repository) = (&ground.host, &ground.repository);
    let more = vec![ground.write("more.yaml", "c: d\n")?];
    let newer = host
        .commit(repository, &commit(Onto::Branch(ground.branch("life")?), head.clone(), more))
        .await?
        .commit;
    let late = host.merge(repository, number, head, MergeMethod::Merge).await;
    refused("another head is not merged", late, &[Cause::Moved])?;
    for _ in 0..2 {
        let merged = host.merge(repository, number, &newer, MergeMethod::Merge).await?;
        check(merged.state == PullRequestState::Merged && merged.merge_commit.is_some(), "it is merged")?;
    }
    refused("a merged one is not closed", host.close(repository, number).await, &[Cause::Conflict])?;
    let new = ground.on_new_branch("closed", vec![ground.write("closed.yaml", "e: f\n")?]).await?;
    host.commit(repository, &new).await?;
    let second = host.open(repository, &ground.to_base("closed")?).await?.pull_request.number;
    for _ in 0..2 {
        let closed = host.close(repository, second).await?;
        check(closed.state == PullRequestState::Closed, "it is closed")?;
    }
    println!("ok           one is merged at its head, another is closed");
    Ok(())
}

async fn webhook(ground: &Ground) -> Outcome<()> {
    let Some(url) = setting("SCM_WEBHOOK_URL") else { return Ok(()) };
    for secret in ["one", "two"] {
        let spec = WebhookSpec { url: url.clone(), secret: format!("{secret}-{}", ground.prefix).into() };
        let scope = Scope::Repository(ground.repository.clone());
        step("a webhook is made, and given another secret", ground.host.ensure_webhook(&scope, &spec))
            .await?;
    }
    let scope = Scope::Repository(ground.repository.clone());
    step("it is removed", ground.host.remove_webhook(&scope, &url)).await?;
    Ok(())
}
