//! A host that limits, fails, lies or leads elsewhere.

use std::time::Duration;

use plural_reach::Reach;
use plural_scm::{Cause, Connection, Credentials, Options, Repository, connect};
use plural_testkit::{ScmDialect, ScmMood, ScmServer};

use crate::{
    each_stand_in,
    support::{Server, World, connection, options, to_main, write},
};

each_stand_in!(
    a_limit_says_how_long,
    a_failing_host_is_told_without_the_token,
    half_an_answer_makes_no_second_pull_request,
    an_endless_answer_is_cut,
    a_list_of_large_pages_is_cut,
    a_redirect_to_another_host_is_not_followed,
    a_redirect_to_another_repository_is_not_followed,
);

async fn a_limit_says_how_long(world: World) {
    world.server.set_mood(Some(ScmMood::Limited(42)));
    let error = world.host.pull_request(&world.repository, 1).await.unwrap_err();
    assert_eq!(error.cause, Cause::RateLimited { wait: Duration::from_secs(42) }, "{error}");
    assert!(error.is_transient());
}

async fn a_failing_host_is_told_without_the_token(world: World) {
    for (status, cause) in [
        (400, Cause::Invalid),
        (401, Cause::Refused),
        (403, Cause::Refused),
        (404, Cause::NotFound),
        (409, Cause::Conflict),
        (500, Cause::Temporary),
        (503, Cause::Temporary),
    ] {
        world.server.set_mood(Some(ScmMood::Failing(status)));
        let error = world.host.pull_request(&world.repository, 1).await.unwrap_err();
        assert_eq!(error.cause, cause, "{status} {error}");
        assert!(!format!("{error} {error:?}").contains(&world.server.token()), "{status}");
    }
    assert!(!format!("{:?}", world.host).contains(&world.server.token()));
}

async fn half_an_answer_makes_no_second_pull_request(world: World) {
    let new = world.on_new_branch("half", vec![write("a.yaml", "a: 1\n")]).await;
    world.host.commit(&world.repository, &new).await.unwrap();
    world.server.set_mood(Some(ScmMood::HalfAnswers));
    let error = world.host.open(&world.repository, &to_main("half")).await.unwrap_err();
    assert_eq!(error.cause, Cause::HalfAnswer, "{error}");
    assert_eq!(world.server.pull_requests(), 1);
    world.server.set_mood(None);
    let opened = world.host.open(&world.repository, &to_main("half")).await.unwrap();
    assert!(opened.existed);
    assert_eq!(world.server.pull_requests(), 1);
}

async fn an_endless_answer_is_cut(world: World) {
    world.server.set_mood(Some(ScmMood::Endless));
    let error = world.host.pull_request(&world.repository, 1).await.unwrap_err();
    assert_eq!(error.cause, Cause::TooLarge, "{error}");
}

async fn a_list_of_large_pages_is_cut(world: World) {
    let number = world.pull_request("large").await.number;
    world.server.set_page(1);
    // Each page is smaller than what is read of one.
    for _ in 0..12 {
        world.server.comment_by_another(number, &"x".repeat(900 << 10));
    }
    let error = world.host.comment(&world.repository, number, "plan", "created 1").await.unwrap_err();
    assert_eq!(error.cause, Cause::TooLarge, "{error}");
    assert_eq!(world.server.comments(number).len(), 12);
}

async fn a_redirect_to_another_host_is_not_followed(world: World) {
    let other = ScmServer::start(ScmDialect::GitHub).unwrap();
    world.server.set_mood(Some(ScmMood::Redirecting(format!("{}/user", other.api_url()))));
    let error = world.host.pull_request(&world.repository, 1).await.unwrap_err();
    assert_eq!(error.cause, Cause::Refused, "{error}");
}

async fn a_redirect_to_another_repository_is_not_followed(world: World) {
    let (place, own) = match world.server.dialect() {
        ScmDialect::GitHub | ScmDialect::Gitea => ("repos", "Plural/fleet"),
        ScmDialect::GitLab => ("projects", "plural%2fplatform%2Ffleet"),
        ScmDialect::BitbucketCloud => ("repositories", "plural/Fleet"),
        ScmDialect::BitbucketDataCenter => ("projects", "PLURAL/repos/fleet"),
        ScmDialect::AzureDevOps => ("plural/_apis/git/repositories", "Fleet"),
    };
    let to = |name: &str| ScmMood::Redirecting(format!("{}/{place}/{name}/x", world.server.api_url()));
    for other in ["plural/other", "evil/fleet", "7", "plural%2Fother"] {
        world.server.set_mood(Some(to(other)));
        let error = world.host.pull_request(&world.repository, 1).await.unwrap_err();
        assert_eq!(error.cause, Cause::Refused, "{error}");
        assert!(error.message.contains("leads to another repository"), "{other}: {error}");
    }
    // Within the repository it is followed, here without an end.
    world.server.set_mood(Some(to(own)));
    let error = world.host.pull_request(&world.repository, 1).await.unwrap_err();
    assert!(error.message.contains("redirects more than"), "{error}");
}

#[test]
fn a_connection_that_cannot_be_meant_is_refused() {
    let at = |url: &str, options: &Options| {
        connect(&connection(ScmDialect::Gitea, url.to_owned(), "tok3n".to_owned()), options)
    };
    for bad in ["", "ftp://h/api", "https://ada:pw@h/api", "https://h/api?x", "/api"] {
        let error = at(bad, &options()).unwrap_err();
        assert_eq!(error.cause, Cause::Invalid, "{bad}");
        assert!(!error.message.contains("pw"), "{error}");
    }
    let plain = Options { credentials_over_http: false, ..options() };
    assert_eq!(at("http://git.example/api", &plain).unwrap_err().cause, Cause::Refused);
    let private = Options { reach: Reach::Private, ..options() };
    assert_eq!(at("http://127.0.0.1/api", &private).unwrap_err().cause, Cause::Refused);
    assert_eq!(at("http://169.254.169.254/api", &options()).unwrap_err().cause, Cause::Refused);
    let bad_token = connection(ScmDialect::Gitea, "https://h".to_owned(), "a\nb".to_owned());
    let error = connect(&bad_token, &options()).unwrap_err();
    assert_eq!(error.cause, Cause::Invalid);
    assert!(!format!("{bad_token:?} {error}").contains("a\nb"));
}

#[tokio::test]
async fn an_app_signs_in_once_and_edits_its_own_comment() {
    let server = ScmServer::start(ScmDialect::GitHub).unwrap();
    let (app_id, installation_id, key) = ScmServer::app();
    let api_url = server.api_url();
    let with = |app_id: u64, key: &str| {
        let credentials = Credentials::App { app_id, installation_id, private_key: key.to_owned().into() };
        Connection { credentials, ..connection(ScmDialect::GitHub, api_url.clone(), "unused".to_owned()) }
    };
    let repository = Repository::parse("plural/fleet").unwrap();
    let host = connect(&with(app_id, key), &options()).unwrap();
    for _ in 0..3 {
        host.default_branch(&repository).await.unwrap();
    }
    assert_eq!((server.exchanges(), server.narrowed()), (1, Some(vec!["fleet".to_owned()])));
    // Another repository is another token, which opens that one alone.
    let shop = Repository::parse("plural/shop").unwrap();
    assert_eq!(host.default_branch(&shop).await.unwrap_err().cause, Cause::NotFound);
    assert_eq!((server.exchanges(), server.narrowed()), (2, Some(vec!["shop".to_owned()])));
    host.default_branch(&repository).await.unwrap();
    assert_eq!(server.exchanges(), 2);
    let another = connect(&with(99, key), &options()).unwrap();
    let error = another.default_branch(&repository).await.unwrap_err();
    assert_eq!(error.cause, Cause::Refused, "{error}");
    let error = connect(&with(app_id, "s3cr3t"), &options()).unwrap_err();
    assert_eq!(error.cause, Cause::Invalid);
    assert!(!error.message.contains("s3cr3t"), "{error}");
    let other = host.clone();
    let world = World { server: Server::StandIn(server), host, other, repository, _data: None };
    let number = world.pull_request("app").await.number;
    for text in ["first", "second"] {
        world.host.comment(&world.repository, number, "plan", text).await.unwrap();
    }
    let comments: Vec<String> = world.server.comments(number).into_iter().map(|(_, text)| text).collect();
    assert_eq!(comments, ["<!-- plural:plan -->\nsecond"]);
}

#[tokio::test]
async fn a_token_of_an_app_that_was_taken_back_is_not_sent_again() {
    let server = ScmServer::start(ScmDialect::GitHub).unwrap();
    let (app_id, installation_id, key) = ScmServer::app();
    let credentials = Credentials::App { app_id, installation_id, private_key: key.to_owned().into() };
    let unused = connection(ScmDialect::GitHub, server.api_url(), "unused".to_owned());
    let host = connect(&Connection { credentials, ..unused }, &options()).unwrap();
    let repository = Repository::parse("plural/fleet").unwrap();
    host.default_branch(&repository).await.unwrap();
    for (status, exchanges) in [(500, 1), (401, 2), (403, 3)] {
        server.set_mood(Some(ScmMood::Failing(status)));
        host.default_branch(&repository).await.unwrap_err();
        server.set_mood(None);
        host.default_branch(&repository).await.unwrap();
        assert_eq!(server.exchanges(), exchanges, "{status}");
    }
}
