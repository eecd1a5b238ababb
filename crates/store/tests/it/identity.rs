//! Users, groups, tokens, logins, projects, the audit log.

use chrono::TimeDelta;
use plural_app::group::GroupSelector;
use plural_app::project::ProjectSelector;
use plural_app::records::Search;
use plural_app::token::TokenRequest;
use plural_app::user::{NewPassword, UserSelector};
use plural_core::access::Actor;
use plural_core::group::{Group, NewGroup};
use plural_core::project::{NewProject, Project, ProjectChange};
use plural_core::user::{NewUser, User, UserChange};
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret;

use crate::door::{Door, by_id};

each_database!(
    the_first_administrator_is_made_once_and_signs_in,
    wrong_passwords_unknown_users_and_wrong_tokens_look_the_same,
    guessing_a_password_has_to_wait,
    a_new_password_ends_sessions_but_not_tokens,
    tokens_end_when_revoked_or_expired,
    a_short_token_ends_with_the_one_that_it_was_made_with,
    an_installation_keeps_an_administrator,
    names_are_unique,
    members_come_and_go,
    projects_change_and_go_when_empty,
    pages_walk_both_ways,
    every_write_leaves_a_line_without_secrets,
    a_second_console_on_the_same_database_finds_everything,
);

async fn the_first_administrator_is_made_once_and_signs_in(database: TestDatabase) {
    let door = Door::new(database).await;
    let again = door.app.install(&"x@example.com".parse().unwrap(), None).await.unwrap();
    assert!(again.is_none());
    let session =
        door.app.session_create(&door.nobody(), "Root@Example.com", "first password".into()).await.unwrap();
    let actor = door.app.actor_authenticate(session.text.expose_secret()).await.unwrap();
    assert!(matches!(&actor, Actor::User(user) if user.admin && user.email == "root@example.com"));
    assert!(session.token.expires_at.is_some());
    let me = door.app.user_me(&door.app.ctx(actor)).await.unwrap();
    assert!(me.admin);
}

async fn wrong_passwords_unknown_users_and_wrong_tokens_look_the_same(database: TestDatabase) {
    let door = Door::new(database).await;
    let nobody = door.nobody();
    for (email, password) in
        [("root@example.com", "wrong password"), ("nobody@example.com", "first password"), ("x", "y")]
    {
        let error = door.app.session_create(&nobody, email, password.into()).await.unwrap_err();
        assert!(matches!(error, Error::Unauthenticated), "{error}");
    }
    for token in
        ["", "console-", "console-0000", "deploy-", "deploy-0000", "Bearer x", &"console-a".repeat(100)]
    {
        let error = door.app.actor_authenticate(token).await.unwrap_err();
        assert!(matches!(error, Error::Unauthenticated), "{token}: {error}");
    }
}

async fn guessing_a_password_has_to_wait(database: TestDatabase) {
    let door = Door::new(database).await;
    for _ in 0..5 {
        door.app.session_create(&door.nobody(), "root@example.com", "guess guess".into()).await.unwrap_err();
    }
    let error = door
        .app
        .session_create(&door.nobody(), "root@example.com", "first password".into())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("too many wrong passwords"), "{error}");
    let elsewhere = door.nobody().with_peer(Some("192.0.2.7".parse().unwrap()));
    let session = door.app.session_create(&elsewhere, "root@example.com", "first password".into()).await;
    assert!(session.is_ok(), "others' guesses do not keep the owner out");
}

async fn a_new_password_ends_sessions_but_not_tokens(database: TestDatabase) {
    let door = Door::new(database).await;
    let session =
        door.app.session_create(&door.nobody(), "root@example.com", "first password".into()).await.unwrap();
    let token = door.app.token_create(&door.admin, None, None).await.unwrap();
    let me = door.app.user_me(&door.admin).await.unwrap();
    door.app
        .user_update(
            &door.admin,
            me.id,
            &UserChange::default(),
            Some(NewPassword::new("second password".into())),
        )
        .await
        .unwrap();
    assert!(door.app.actor_authenticate(session.text.expose_secret()).await.is_err());
    assert!(door.app.actor_authenticate(token.text.expose_secret()).await.is_ok());
}

async fn tokens_end_when_revoked_or_expired(database: TestDatabase) {
    let door = Door::new(database).await;
    let short = door.app.token_create(&door.admin, None, Some(TimeDelta::microseconds(1))).await.unwrap();
    assert!(door.app.actor_authenticate(short.text.expose_secret()).await.is_err());
    assert!(door.app.token_create(&door.admin, None, Some(TimeDelta::zero())).await.is_err());

    let token = door.app.token_create(&door.admin, None, None).await.unwrap();
    let text = token.text.expose_secret().to_owned();
    assert!(text.starts_with("console-"));
    assert!(door.app.actor_authenticate(&text).await.is_ok());
    assert_eq!(door.app.token_get(&door.admin, token.token.id).await.unwrap().id, token.token.id);
    door.app.token_delete(&door.admin, &text).await.unwrap();
    assert!(door.app.actor_authenticate(&text).await.is_err());
    let error = door.app.token_delete(&door.admin, &text).await.unwrap_err();
    assert_eq!(error.to_string(), "could not find resource");
    // The next one removes the expired one on the way.
    door.app.token_create(&door.admin, None, None).await.unwrap();
    let tokens = door.app.token_list(&door.admin, &PageArgs::default()).await.unwrap().into_nodes();
    assert!(tokens.iter().all(|token| token.expires_at.is_none()));
}

async fn a_short_token_ends_with_the_one_that_it_was_made_with(database: TestDatabase) {
    let door = Door::new(database).await;
    let valid = async |text: &str| door.app.actor_authenticate(text).await.is_ok();
    let login = door.app.token_create(&door.admin, None, None).await.unwrap();
    let login = login.text.expose_secret();
    let person = door.app.ctx(door.app.actor_authenticate(login).await.unwrap());
    let hour = Some(TimeDelta::hours(1));
    let short = door.app.token_create(&person, None, hour).await.unwrap();
    let short = short.text.expose_secret();
    // One made with the short one, too; and one that is meant to stay, which stays.
    let program = door.app.ctx(door.app.actor_authenticate(short).await.unwrap());
    let shorter = door.app.token_create(&program, None, hour).await.unwrap();
    let refused = door.app.token_create(&person, None, None).await.unwrap_err();
    assert!(refused.to_string().contains("currentPassword"), "{refused}");
    let wish = TokenRequest { password: Some("first password".into()), ..TokenRequest::default() };
    let stays = door.app.token_create_as(&person, None, wish).await.unwrap();
    assert!(valid(short).await && valid(shorter.text.expose_secret()).await);

    // Nor does one live longer than the one that it was made with.
    assert!(door.app.token_create(&program, None, Some(TimeDelta::hours(2))).await.is_err());
    let longer = door.app.token_create(&program, None, hour).await.unwrap().token;
    let by = program.actor().clone();
    let plural_core::access::Actor::User(by) = by else { unreachable!() };
    let parent = door.app.token_get(&person, by.token.unwrap().id).await.unwrap();
    assert_eq!(longer.expires_at, parent.expires_at);

    door.app.token_delete(&person, login).await.unwrap();
    assert!(!valid(login).await && !valid(short).await && !valid(shorter.text.expose_secret()).await);
    assert!(valid(stays.text.expose_secret()).await);
}

async fn an_installation_keeps_an_administrator(database: TestDatabase) {
    let door = Door::new(database).await;
    let me = door.app.user_me(&door.admin).await.unwrap();
    let demote = UserChange { admin: Some(false), ..UserChange::default() };
    let error = door.app.user_update(&door.admin, me.id, &demote, None).await.unwrap_err();
    assert!(error.to_string().contains("last administrator"), "{error}");
    assert!(door.app.user_delete(&door.admin, me.id).await.is_err());
    let other = NewUser { email: "b@example.com".parse().unwrap(), name: "b".parse().unwrap(), admin: true };
    door.app.user_create(&door.admin, &other, None).await.unwrap();
    assert!(!door.app.user_update(&door.admin, me.id, &demote, None).await.unwrap().admin);
}

async fn names_are_unique(database: TestDatabase) {
    let door = Door::new(database).await;
    door.user("ada").await;
    let again =
        NewUser { email: "ada@example.com".parse().unwrap(), name: "x".parse().unwrap(), admin: false };
    let error = door.app.user_create(&door.admin, &again, None).await.unwrap_err();
    assert!(error.to_string().contains("user with this address already exists"), "{error}");
    let group = NewGroup { name: "devs".parse().unwrap(), description: None, global: false };
    door.app.group_create(&door.admin, &group).await.unwrap();
    let error = door.app.group_create(&door.admin, &group).await.unwrap_err();
    assert!(error.to_string().contains("group with this name already exists"), "{error}");
    let project = NewProject::named("default".parse().unwrap());
    let error = door.app.project_create(&door.admin, &project).await.unwrap_err();
    assert!(error.to_string().contains("project with this name already exists"), "{error}");
    door.cluster("blue").await;
    let error = door
        .app
        .cluster_create(&door.admin, plural_core::cluster::NewCluster::named("Blue".parse().unwrap()))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("cluster with this handle already exists"), "{error}");
}

async fn members_come_and_go(database: TestDatabase) {
    let door = Door::new(database).await;
    let ada = door.user("ada").await;
    let group = NewGroup { name: "devs".parse().unwrap(), description: Some("d".into()), global: false };
    let group = door.app.group_create(&door.admin, &group).await.unwrap();
    let first = door.app.group_member_create(&door.admin, group.id, ada.id).await.unwrap();
    let second = door.app.group_member_create(&door.admin, group.id, ada.id).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(door.app.group_members(&door.admin, group.id).await.unwrap(), vec![ada.clone()]);
    assert_eq!(door.app.user_groups(&door.admin, ada.id).await.unwrap(), vec![group.clone()]);
    let token = door.app.token_create(&door.admin, Some(ada.id), None).await.unwrap();
    let Actor::User(actor) = door.app.actor_authenticate(token.text.expose_secret()).await.unwrap() else {
        panic!("a user")
    };
    assert!(actor.groups.contains(&group.id));
    door.app.group_member_delete(&door.admin, group.id, ada.id).await.unwrap();
    assert!(door.app.group_member_delete(&door.admin, group.id, ada.id).await.is_err());
    assert!(door.app.group_members(&door.admin, group.id).await.unwrap().is_empty());
    door.app.group_delete(&door.admin, group.id).await.unwrap();
    assert!(door.app.get::<Group>(&door.admin, &GroupSelector::Id(group.id)).await.is_err());
    door.app.user_delete(&door.admin, ada.id).await.unwrap();
    assert!(door.app.get::<User>(&door.admin, &UserSelector::Id(ada.id)).await.is_err());
    assert!(door.app.actor_authenticate(token.text.expose_secret()).await.is_err());
}

async fn projects_change_and_go_when_empty(database: TestDatabase) {
    let door = Door::new(database).await;
    let project = door.project("team").await;
    let change = ProjectChange { description: Some("ours".into()), ..ProjectChange::default() };
    let changed = door.app.project_update(&door.admin, project.id, &change).await.unwrap();
    assert_eq!((changed.name.as_str(), changed.description.as_deref()), ("team", Some("ours")));
    let default = door.default_project().await;
    assert!(default.default);
    assert!(door.app.project_delete(&door.admin, default.id).await.is_err());
    let cluster = plural_core::cluster::NewCluster {
        project_id: Some(project.id),
        ..plural_core::cluster::NewCluster::named("blue".parse().unwrap())
    };
    let cluster = door.app.cluster_create(&door.admin, cluster).await.unwrap().cluster;
    let error = door.app.project_delete(&door.admin, project.id).await.unwrap_err();
    assert!(error.to_string().contains("still has clusters"), "{error}");
    door.app.cluster_detach(&door.admin, &by_id(&cluster)).await.unwrap();
    door.app.project_delete(&door.admin, project.id).await.unwrap();
    let error = door.app.get::<Project>(&door.admin, &ProjectSelector::Id(project.id)).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }));
}

async fn pages_walk_both_ways(database: TestDatabase) {
    let door = Door::new(database).await;
    for i in 0..7 {
        door.user(&format!("user-{i}")).await;
    }
    let list = async |page: PageArgs| {
        door.app.list::<User>(&door.admin, &Search { q: Some("USER-".into()) }, &page).await.unwrap()
    };
    let mut seen = Vec::new();
    let mut args = PageArgs::first(3);
    loop {
        let page = list(args).await;
        args =
            PageArgs { first: Some(3), after: page.end_cursor().map(str::to_owned), ..PageArgs::default() };
        let more = page.has_next_page;
        seen.extend(page.into_nodes().into_iter().map(|user| user.name.to_string()));
        if !more {
            break;
        }
    }
    let expected: Vec<String> = (0..7).map(|i| format!("user-{i}")).collect();
    assert_eq!(seen, expected);
    let last = list(PageArgs { last: Some(2), ..PageArgs::default() }).await;
    assert!(last.has_previous_page && !last.has_next_page);
    let before = last.start_cursor().map(str::to_owned);
    let names = |page: plural_core::Page<plural_core::user::User>| {
        page.into_nodes().into_iter().map(|user| user.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(last), ["user-5", "user-6"]);
    let page = list(PageArgs { last: Some(2), before, ..PageArgs::default() }).await;
    assert_eq!(names(page), ["user-3", "user-4"]);
    // Signs that mean something in a pattern mean themselves here.
    assert!(
        door.app
            .list::<User>(&door.admin, &Search { q: Some("user_".into()) }, &PageArgs::default())
            .await
            .unwrap()
            .edges
            .is_empty()
    );
    assert!(
        door.app
            .list::<User>(&door.admin, &Search { q: Some("%".into()) }, &PageArgs::default())
            .await
            .unwrap()
            .edges
            .is_empty()
    );
}

async fn every_write_leaves_a_line_without_secrets(database: TestDatabase) {
    let door = Door::new(database).await;
    let ada = door.user("ada").await;
    let token = door.app.token_create(&door.admin, Some(ada.id), None).await.unwrap();
    let cluster = door.cluster("blue").await;
    door.app.cluster_detach(&door.admin, &by_id(&cluster.cluster)).await.unwrap();
    let rows = door.app.audit_list(&door.admin, &PageArgs::default()).await.unwrap().into_nodes();
    let lines: Vec<(String, String)> =
        rows.iter().map(|row| (row.entry.action.to_string(), row.entry.actor.clone())).collect();
    let by_root = |action: &str| (action.to_owned(), "root@example.com".to_owned());
    assert_eq!(
        lines,
        [
            ("installation.create".to_owned(), "system".to_owned()),
            by_root("user.create"),
            by_root("token.create"),
            by_root("cluster.create"),
            by_root("cluster.detach"),
        ]
    );
    let shown = format!("{rows:?}");
    assert!(!shown.contains(token.text.expose_secret()));
    assert!(!shown.contains(cluster.deploy_token.expose_secret()));
    // A write that fails leaves none.
    let before = rows.len();
    let error = door.app.project_delete(&door.admin, door.default_project().await.id).await;
    assert!(error.is_err());
    let after = door.app.audit_list(&door.admin, &PageArgs::default()).await.unwrap().edges.len();
    assert_eq!(before, after);
}

/// A door that nobody uses is still a door: keeps the helper honest.
async fn a_second_console_on_the_same_database_finds_everything(database: TestDatabase) {
    let door = Door::new(database).await;
    let cluster = door.cluster("blue").await;
    let second = Door::open(std::sync::Arc::clone(&door.source)).await;
    let agent = second.app.agent_authenticate(cluster.deploy_token.expose_secret()).unwrap();
    assert_eq!(agent.cluster_id(), cluster.cluster.id);
}
