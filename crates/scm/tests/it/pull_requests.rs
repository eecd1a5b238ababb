//! The life of a pull request.

use plural_scm::{
    Cause, CommitId, FileStatus, MergeMethod, Onto, PullRequestEdit, PullRequestState, Scope, Status,
    StatusState, WebhookSpec,
};

use crate::{
    each_host,
    support::{World, branch, commit, to_main, write},
};

each_host!(
    opening_twice_gives_the_one_that_is_open,
    it_is_read_edited_closed_and_opened_anew,
    it_is_merged_at_its_head_only,
    it_is_merged_as_it_is_asked_for,
    files_and_lists_are_read_over_pages,
    labels_are_made_and_added,
    a_comment_is_edited_and_a_quoted_marker_is_not,
    statuses_and_approval_reach_the_host,
    a_webhook_is_made_once,
    a_webhook_is_removed_where_it_is,
);

async fn opening_twice_gives_the_one_that_is_open(world: World) {
    let first = world.pull_request("one").await;
    let again = world.host.open(&world.repository, &to_main("one")).await.unwrap();
    assert!(again.existed);
    assert_eq!(again.pull_request.number, first.number);
    assert_eq!(world.server.pull_requests(), 1);
    let error = world.host.open(&world.repository, &to_main("no-such-branch")).await.unwrap_err();
    assert!(matches!(error.cause, Cause::Conflict | Cause::NotFound), "{error}");
}

async fn it_is_read_edited_closed_and_opened_anew(world: World) {
    let opened = world.pull_request("edit").await;
    assert_eq!((opened.title.as_str(), opened.body.as_str()), ("Update", "What it does"));
    assert_eq!((opened.head.as_str(), opened.base.as_str()), ("edit", "main"));
    assert_eq!(opened.head_commit, world.head("edit").await.as_str());
    assert_eq!((opened.state, opened.fork), (PullRequestState::Open, false));
    let edit = PullRequestEdit { title: Some("Better".to_owned()), body: None };
    let edited = world.host.update(&world.repository, opened.number, &edit).await.unwrap();
    assert_eq!((edited.title.as_str(), edited.body.as_str()), ("Better", "What it does"));
    for _ in 0..2 {
        let closed = world.host.close(&world.repository, opened.number).await.unwrap();
        assert_eq!(closed.state, PullRequestState::Closed);
    }
    let anew = world.host.open(&world.repository, &to_main("edit")).await.unwrap();
    assert!(!anew.existed);
    assert_ne!(anew.pull_request.number, opened.number);
    let error = world.host.pull_request(&world.repository, 99).await.unwrap_err();
    assert_eq!(error.cause, Cause::NotFound, "{error}");
}

async fn it_is_merged_at_its_head_only(world: World) {
    let pull = world.pull_request("merge").await;
    let head = CommitId::parse(&pull.head_commit).unwrap();
    let onto = Onto::Branch(branch("merge"));
    let more = commit(onto, head.clone(), vec![write("more.yaml", "c: d\n")]);
    let newer = world.host.commit(&world.repository, &more).await.unwrap().commit;
    let merge = |at: CommitId| {
        let world = &world;
        async move { world.host.merge(&world.repository, pull.number, &at, MergeMethod::Squash).await }
    };
    let error = merge(head.clone()).await.unwrap_err();
    assert_eq!(error.cause, Cause::Moved, "{error}");
    for _ in 0..2 {
        let merged = merge(newer.clone()).await.unwrap();
        assert_eq!(merged.state, PullRequestState::Merged);
        assert_eq!(merged.merge_commit.as_deref(), Some(world.head("main").await.as_str()));
    }
    assert_eq!(merge(head).await.unwrap_err().cause, Cause::Moved);
    assert_eq!(world.text(&world.head("main").await, "more.yaml").await, "c: d\n");
    let error = world.host.close(&world.repository, pull.number).await.unwrap_err();
    assert_eq!(error.cause, Cause::Conflict, "{error}");
}

async fn it_is_merged_as_it_is_asked_for(world: World) {
    for (method, name) in
        [(MergeMethod::Merge, "merge"), (MergeMethod::Squash, "squash"), (MergeMethod::Rebase, "rebase")]
    {
        let path = format!("{name}.yaml");
        let new = world.on_new_branch(name, vec![write(&path, "a: b\n")]).await;
        world.host.commit(&world.repository, &new).await.unwrap();
        let pull = world.host.open(&world.repository, &to_main(name)).await.unwrap().pull_request;
        let head = CommitId::parse(&pull.head_commit).unwrap();
        let merged = world.host.merge(&world.repository, pull.number, &head, method).await;
        if method == MergeMethod::Rebase && !world.server.rebases() {
            let error = merged.unwrap_err();
            assert_eq!(error.cause, Cause::Unsupported, "{error}");
            let now = world.host.pull_request(&world.repository, pull.number).await.unwrap();
            assert_eq!(now.state, PullRequestState::Open, "it is not merged in another way");
            continue;
        }
        assert_eq!(merged.unwrap().state, PullRequestState::Merged, "{name}");
        assert_eq!(world.text(&world.head("main").await, &path).await, "a: b\n");
        if let Some(told) = world.server.merged_as(pull.number) {
            assert_eq!(told, name);
        }
    }
}

async fn files_and_lists_are_read_over_pages(world: World) {
    world.server.set_page(2);
    let changes = vec![write("apps/web/values.yaml", "replicas: 9\n"), write("a", "1"), write("b", "2")];
    let new = world.on_new_branch("files", changes).await;
    world.host.commit(&world.repository, &new).await.unwrap();
    let number = world.host.open(&world.repository, &to_main("files")).await.unwrap().pull_request.number;
    let files = world.host.files(&world.repository, number).await.unwrap();
    assert!(!files.cut);
    let mut found: Vec<(&str, FileStatus)> =
        files.items.iter().map(|file| (file.path.as_str(), file.status)).collect();
    found.sort_by_key(|(path, _)| *path);
    assert_eq!(
        found,
        [("a", FileStatus::Added), ("apps/web/values.yaml", FileStatus::Modified), ("b", FileStatus::Added)]
    );
    for name in ["p1", "p2", "p3", "p4"] {
        world.pull_request(name).await;
    }
    world.host.close(&world.repository, number).await.unwrap();
    let open = world.host.pull_requests(&world.repository, true).await.unwrap();
    assert_eq!((open.items.len(), open.cut), (4, false));
    let all = world.host.pull_requests(&world.repository, false).await.unwrap();
    assert_eq!((all.items.len(), all.cut), (5, false));
}

async fn labels_are_made_and_added(world: World) {
    let pull = world.pull_request("labels").await;
    if !world.server.has_labels() {
        let labels = ["plural".to_owned()];
        let error = world.host.add_labels(&world.repository, pull.number, &labels).await.unwrap_err();
        assert_eq!(error.cause, Cause::Unsupported, "{error}");
        return;
    }
    for labels in [["plural", "fleet"], ["fleet", "green"]] {
        let labels = labels.map(str::to_owned);
        world.host.add_labels(&world.repository, pull.number, &labels).await.unwrap();
    }
    let now = world.host.pull_request(&world.repository, pull.number).await.unwrap();
    let mut labels = now.labels;
    labels.sort();
    assert_eq!(labels, ["fleet", "green", "plural"]);
}

async fn a_comment_is_edited_and_a_quoted_marker_is_not(world: World) {
    let number = world.pull_request("talk").await.number;
    world.server.comment_by_another(number, "<!-- plural:plan -->\nI am the plan");
    for text in ["first", "second"] {
        world.host.comment(&world.repository, number, "plan", text).await.unwrap();
    }
    world.host.comment(&world.repository, number, "other", "third").await.unwrap();
    let comments = world.server.comments(number);
    let own: Vec<&str> =
        comments.iter().filter(|(user, _)| user != "mallory").map(|(_, text)| text.as_str()).collect();
    assert_eq!(own, ["<!-- plural:plan -->\nsecond", "<!-- plural:other -->\nthird"]);
    assert!(comments.iter().any(|(user, text)| user == "mallory" && text.ends_with("I am the plan")));
    let error = world.host.comment(&world.repository, number, "--> x", "").await.unwrap_err();
    assert_eq!(error.cause, Cause::Invalid);
}

async fn statuses_and_approval_reach_the_host(world: World) {
    let pull = world.pull_request("checks").await;
    let head = CommitId::parse(&pull.head_commit).unwrap();
    let status = Status {
        context: "plural/plan".to_owned(),
        state: StatusState::Failure,
        description: "x".repeat(1000),
        url: Some("https://console.example/plans/1".to_owned()),
    };
    for _ in 0..2 {
        world.host.set_status(&world.repository, &head, &status).await.unwrap();
    }
    let told = world.server.statuses(head.as_str());
    assert!(!told.is_empty());
    assert!(told.iter().all(|(context, state)| context == "plural/plan" && state == "failure"), "{told:?}");
    let checks = world.host.checks(&world.repository, &head).await.unwrap();
    let told: Vec<_> = checks.items.iter().map(|check| (check.context.as_str(), check.state)).collect();
    assert_eq!((told, checks.cut), (vec![("plural/plan", StatusState::Failure)], false));
    // The pull request is the connection's own.
    let error = world.host.approve(&world.repository, pull.number, &head, "fine").await.unwrap_err();
    assert_eq!(error.cause, Cause::Refused, "{error}");
    assert!(world.host.reviews(&world.repository, pull.number).await.unwrap().items.is_empty());
}

async fn a_webhook_is_made_once(world: World) {
    for scope in [
        Scope::Repository(world.repository.clone()),
        Scope::Organisation(world.repository.owner().to_owned()),
    ] {
        for secret in ["one", "two"] {
            let url = "https://console.example/ext/v1/webhooks/scm/1".to_owned();
            let spec = WebhookSpec { url, secret: secret.to_owned().into() };
            assert!(!format!("{spec:?}").contains(secret));
            world.host.ensure_webhook(&scope, &spec).await.unwrap();
        }
    }
    let hooks = world.server.webhooks();
    let scopes: Vec<&str> = hooks.iter().map(|(scope, _)| scope.as_str()).collect();
    assert_eq!(scopes, ["repository", "organisation"]);
    assert!(
        hooks.iter().all(|(_, secret)| secret.as_deref().is_none_or(|secret| secret == "two")),
        "{hooks:?}"
    );
    let nobody = Scope::Organisation("../x".to_owned());
    let spec = WebhookSpec { url: String::new(), secret: String::new().into() };
    assert_eq!(world.host.ensure_webhook(&nobody, &spec).await.unwrap_err().cause, Cause::Invalid);
    assert_eq!(world.host.remove_webhook(&nobody, "").await.unwrap_err().cause, Cause::Invalid);
}

async fn a_webhook_is_removed_where_it_is(world: World) {
    let of_repository = Scope::Repository(world.repository.clone());
    let of_owner = Scope::Organisation(world.repository.owner().to_owned());
    let urls = [1, 2].map(|at| format!("https://console.example/ext/v1/webhooks/scm/{at}"));
    for scope in [&of_repository, &of_owner] {
        for url in &urls {
            let spec = WebhookSpec { url: url.clone(), secret: "a secret of it".to_owned().into() };
            world.host.ensure_webhook(scope, &spec).await.unwrap();
        }
    }
    let scopes = || {
        let mut scopes: Vec<String> = world.server.webhooks().into_iter().map(|(scope, _)| scope).collect();
        scopes.sort_unstable();
        scopes
    };
    assert_eq!(scopes(), ["organisation", "organisation", "repository", "repository"]);
    assert!(world.host.remove_webhook(&of_repository, &urls[0]).await.unwrap());
    assert_eq!(scopes(), ["organisation", "organisation", "repository"], "the other address stays");
    assert!(!world.host.remove_webhook(&of_repository, &urls[0]).await.unwrap(), "twice is once");
    assert!(world.host.remove_webhook(&of_owner, &urls[0]).await.unwrap());
    assert!(world.host.remove_webhook(&of_owner, &urls[1]).await.unwrap());
    assert_eq!(scopes(), ["repository"]);
}
