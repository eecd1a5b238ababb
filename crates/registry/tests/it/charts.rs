//! Chart repositories over HTTP.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use plural_registry::{
    Access, Cause, Client, Credentials, Freshness, Kind, Limits, Loaded, Options, Repositories, Result,
    Shelf, Wanted, complete, unpack_chart,
};
use plural_testkit::{WebFolder, git_server::Mood};

use crate::support::{Memory, basic, chart, client, options, publish, sha256};

fn wanted<'a>(access: &'a Access, version: &'a str) -> Wanted<'a> {
    Wanted::chart(access, "web", version, Freshness::Now)
}

#[tokio::test]
async fn a_range_leads_to_the_highest_version_and_its_verified_content() {
    let web = WebFolder::start().unwrap();
    let (old, new) = (chart("web", "1.2.0", "a: 1"), chart("web", "1.10.0", "a: 2"));
    publish(
        &web,
        "charts",
        &[("web", "1.2.0", &old, "web-1.2.0.tgz"), ("web", "1.10.0", &new, "sub/web-1.10.0.tgz")],
    );
    let access = Access::new(&web.url("/charts")).unwrap();
    let client = client();
    let resolved = client.resolve(&wanted(&access, "1.x")).await.unwrap();
    assert_eq!((resolved.version.as_str(), resolved.kind), ("1.10.0", Kind::Chart));
    assert_eq!(resolved.digest, format!("sha256:{}", sha256(&new)));
    let content = client.content(&access, &resolved).await.unwrap();
    let files = unpack_chart(&content, &Limits::default()).unwrap();
    assert_eq!(files["templates/map.yaml"].content, b"a: 2");
    assert_eq!(
        client.resolve(&wanted(&access, "1.2.0")).await.unwrap().digest,
        format!("sha256:{}", sha256(&old))
    );
    assert_eq!(client.resolve(&wanted(&access, "^2")).await.unwrap_err().cause, Cause::NotFound);
}

#[tokio::test]
async fn an_unchanged_index_is_not_sent_again_and_content_is_fetched_once() {
    let web = WebFolder::start().unwrap();
    let archive = chart("web", "1.0.0", "a: 1");
    publish(&web, "charts", &[("web", "1.0.0", &archive, "web-1.0.0.tgz")]);
    web.age("charts/index.yaml", Duration::from_mins(2)).unwrap();
    let access = Access::new(&web.url("/charts")).unwrap();
    let client = client();
    let first = client.resolve(&wanted(&access, "")).await.unwrap();
    let within = Wanted { freshness: Freshness::default(), ..wanted(&access, "") };
    client.resolve(&within).await.unwrap();
    client.resolve(&wanted(&access, "")).await.unwrap();
    let statuses: Vec<u16> = web.seen().iter().map(|seen| seen.status).collect();
    assert_eq!(statuses, [200, 304], "{:?}", web.seen());
    // Many at once are one.
    let all = futures_of(16, || client.content(&access, &first)).await;
    assert!(all.iter().all(|content| content.as_ref().unwrap()[..] == archive[..]));
    let pulls = web.seen().iter().filter(|seen| seen.path.ends_with(".tgz")).count();
    assert_eq!(pulls, 1);
}

#[tokio::test]
async fn passwords_and_tokens() {
    let web = WebFolder::start().unwrap();
    let archive = chart("web", "1.0.0", "a: 1");
    publish(&web, "charts", &[("web", "1.0.0", &archive, "web-1.0.0.tgz")]);
    web.require_basic("ada", "hunter2");
    let client = client();
    let anonymous = Access::new(&web.url("/charts")).unwrap();
    assert_eq!(client.resolve(&wanted(&anonymous, "")).await.unwrap_err().cause, Cause::Unauthorized);
    let access = basic(&web.url("/charts"), "ada", "hunter2");
    let resolved = client.resolve(&wanted(&access, "")).await.unwrap();
    assert!(client.content(&access, &resolved).await.is_ok());
    // What one access may see is not shown to another.
    let within = Wanted { freshness: Freshness::default(), ..wanted(&anonymous, "") };
    assert_eq!(client.resolve(&within).await.unwrap_err().cause, Cause::Unauthorized);
    web.require_bearer("tok");
    let token = Access::new(&web.url("/charts"))
        .unwrap()
        .with_credentials(Credentials::Bearer { token: "tok".to_owned().into() });
    assert!(client.resolve(&wanted(&token, "")).await.is_ok());
    let wrong = basic(&web.url("/charts"), "ada", "wrong-password");
    let error = client.resolve(&wanted(&wrong, "")).await.unwrap_err();
    assert!(error.cause == Cause::Unauthorized && !error.message.contains("wrong-password"), "{error}");
}

#[tokio::test]
async fn a_hung_repository_delays_only_itself() {
    let (hung, well) = (WebFolder::start().unwrap(), WebFolder::start().unwrap());
    hung.set_mood(Mood::Hanging);
    let archive = chart("web", "1.0.0", "a: 1");
    publish(&well, "charts", &[("web", "1.0.0", &archive, "web-1.0.0.tgz")]);
    let client = Arc::new(Client::new(
        Options { timeout: Duration::from_secs(2), ..options() },
        Arc::new(Memory::default()),
    ));
    // More than one host gets at once, of different repositories on it.
    let waiting: Vec<_> = (0..40)
        .map(|n| {
            let (client, url) = (Arc::clone(&client), hung.url(&format!("/{n}")));
            tokio::spawn(async move {
                let access = Access::new(&url).unwrap();
                client.resolve(&wanted(&access, "")).await.unwrap_err().cause
            })
        })
        .collect();
    plural_testkit::eventually(Duration::from_secs(10), || async { hung.seen().len() == 8 }).await;
    let access = Access::new(&well.url("/charts")).unwrap();
    assert!(client.resolve(&wanted(&access, "")).await.is_ok());
    assert!(waiting.iter().any(|task| !task.is_finished()));
    for task in waiting {
        assert_eq!(task.await.unwrap(), Cause::Unavailable);
    }
}

#[tokio::test]
async fn an_index_without_digests_still_fixes_the_content() {
    let web = WebFolder::start().unwrap();
    let archive = chart("web", "1.0.0", "a: 1");
    web.write("web.tgz", &archive).unwrap();
    web.write("index.yaml", "entries:\n  web: [{version: 1.0.0, urls: [web.tgz]}]\n").unwrap();
    let access = Access::new(&web.url("")).unwrap();
    let client = client();
    let resolved = client.resolve(&wanted(&access, "")).await.unwrap();
    assert_eq!(resolved.digest, format!("sha256:{}", sha256(&archive)));
    assert_eq!(client.content(&access, &resolved).await.unwrap()[..], archive[..]);
    let pulls = web.seen().iter().filter(|seen| seen.path.ends_with(".tgz")).count();
    assert_eq!(pulls, 1);
}

struct Anonymous;

#[async_trait]
impl Repositories for Anonymous {
    async fn access(&self, address: &str, _: &str) -> Result<Access> {
        Access::new(address)
    }
}

#[tokio::test]
async fn missing_dependencies_are_got_as_the_lock_pins_them() {
    let web = WebFolder::start().unwrap();
    let charts: Vec<(&str, Vec<u8>)> = ["1.0.0", "1.1.0", "1.2.0"]
        .into_iter()
        .map(|version| (version, chart("redis", version, version)))
        .collect();
    let entries: Vec<_> = charts
        .iter()
        .map(|(version, content)| ("redis", *version, content.as_slice(), format!("redis-{version}.tgz")))
        .collect();
    let entries: Vec<_> = entries.iter().map(|(a, b, c, d)| (*a, *b, *c, d.as_str())).collect();
    publish(&web, "charts", &entries);
    let metadata = format!(
        "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n- {{name: redis, version: 1.x, repository: '{0}'}}\n\
         - {{name: redis, alias: cache, version: 1.x, repository: '{0}'}}\n",
        web.url("/charts")
    );
    let file = |text: &str| plural_registry::File { content: text.as_bytes().to_vec(), executable: false };
    let mut files = plural_registry::Files::from([("app/Chart.yaml".to_owned(), file(&metadata))]);
    let lock = "dependencies:\n- {name: redis, version: 1.1.0}\n- {name: redis, version: 1.1.0}\n";
    let client = client();
    let mut locked = files.clone();
    locked.insert("app/Chart.lock".to_owned(), file(lock));
    completed(&client, &mut locked).await;
    assert_eq!(locked["app/charts/redis-1.1.0.tgz"].content, charts[1].1);
    assert_eq!(completed(&client, &mut files).await, 1);
    assert_eq!(files["app/charts/redis-1.2.0.tgz"].content, charts[2].1);
    assert_eq!(completed(&client, &mut files).await, 0);
}

/// Completes the chart in `app`; answers how many charts were fetched for it.
async fn completed(client: &Client, files: &mut plural_registry::Files) -> usize {
    let (folders, limits) = (["app".to_owned()], Limits::default());
    let mut shelf = Shelf::default();
    let lacks = complete(&Loaded::default(), &mut files.clone(), &folders, &limits, &mut |_| Ok(())).unwrap();
    for lack in &lacks {
        shelf.fetch(client, &Anonymous, lack).await.unwrap();
    }
    let loaded = shelf.load(client, &mut |_| Ok(())).await.unwrap();
    assert_eq!(complete(&loaded, files, &folders, &limits, &mut |_| Ok(())).unwrap(), []);
    lacks.len()
}

#[tokio::test]
async fn a_digest_alone_gives_nobody_the_content_of_another() {
    let (owner, thief) = (WebFolder::start().unwrap(), WebFolder::start().unwrap());
    let private = chart("web", "1.0.0", "a: private");
    publish(&owner, "charts", &[("web", "1.0.0", &private, "web-1.0.0.tgz")]);
    publish(&thief, "charts", &[("web", "1.0.0", &private, "web-1.0.0.tgz")]);
    let other = chart("web", "1.0.0", "a: other");
    thief.write("charts/web-1.0.0.tgz", &other).unwrap();
    let client = client();
    let [mine, theirs] = [&owner, &thief].map(|web| Access::new(&web.url("/charts")).unwrap());
    let resolved = client.resolve(&wanted(&mine, "1.0.0")).await.unwrap();
    assert_eq!(client.content(&mine, &resolved).await.unwrap(), private);
    // The same digest is named by who does not have the content.
    let named = client.resolve(&wanted(&theirs, "1.0.0")).await.unwrap();
    assert_eq!(named.digest, resolved.digest);
    assert_eq!(client.content(&theirs, &named).await.unwrap_err().cause, Cause::Untrusted);
    // And with other credentials, or none, it is asked for again.
    let stranger = basic(&owner.url("/charts"), "eve", "wrong");
    owner.set_mood(Mood::Failing(403));
    assert!(client.content(&stranger, &resolved).await.is_err());
    assert_eq!(client.content(&mine, &resolved).await.unwrap(), private, "known, and not asked for");
}

async fn futures_of<T, F: Future<Output = T>>(count: usize, make: impl Fn() -> F) -> Vec<T> {
    futures::future::join_all((0..count).map(|_| make())).await
}
