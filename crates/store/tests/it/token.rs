//! What a token is good for, and what it takes to make one that lasts.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use chrono::TimeDelta;
use plural_app::OpCtx;
use plural_app::cluster::ClusterSelector;
use plural_app::ctx::Clock;
use plural_app::records::Search;
use plural_app::token::TokenRequest;
use plural_app::user::NewPassword;
use plural_core::cluster::Cluster;
use plural_core::token::{TokenScope, TokenScopes};
use plural_core::user::{NewUser, User, UserChange};
use plural_core::{Error, PageArgs};
use plural_store::DatabaseOptions;
use plural_testkit::{TestDatabase, each_database};
use secrecy::{ExposeSecret, SecretString};

use crate::clock::Wrong;
use crate::door::{Door, by_id};
use crate::git::FakeGit;

each_database!(
    a_session_proves_who_it_is_for_ten_minutes,
    a_stolen_token_takes_nothing_over,
    a_narrow_token_reaches_its_cluster_and_nothing_else,
    a_join_token_ends_with_the_token_that_it_is_made_with,
    a_new_password_ends_what_it_says,
    no_session_of_an_old_password_is_left,
    no_session_of_a_deleted_user_is_left,
    what_was_proven_holds_when_it_is_written,
    a_demotion_is_not_undone_by_the_demoted,
    attack_25_refusals_cost_the_same_at_every_door,
);

async fn door_with_clock(database: TestDatabase) -> (Door, Arc<Wrong>) {
    let clock = Arc::new(Wrong::default());
    let git = Arc::new(FakeGit::default());
    let options = DatabaseOptions::new("");
    let door = Door::open_by(Arc::new(database), &options, git, Arc::clone(&clock) as Arc<dyn Clock>).await;
    (door, clock)
}

async fn with(door: &Door, token: &SecretString) -> OpCtx {
    door.app.ctx(door.app.actor_authenticate(token.expose_secret()).await.unwrap())
}

async fn signed_in(door: &Door, password: &str) -> OpCtx {
    let session = door.app.session_create(&door.nobody(), "root@example.com", password.into()).await.unwrap();
    with(door, &session.text).await
}

fn lasting(password: Option<&str>) -> TokenRequest {
    TokenRequest { password: password.map(SecretString::from), ..TokenRequest::default() }
}

fn password(new: &str, current: Option<&str>) -> NewPassword {
    NewPassword { current: current.map(SecretString::from), ..NewPassword::new(new.into()) }
}

fn unproven<T: std::fmt::Debug>(answer: plural_core::Result<T>) -> bool {
    match answer {
        Err(error @ Error::Forbidden { .. }) => error.to_string().contains("currentPassword"),
        _ => false,
    }
}

async fn a_session_proves_who_it_is_for_ten_minutes(database: TestDatabase) {
    let (door, clock) = door_with_clock(database).await;
    let person = signed_in(&door, "first password").await;
    let me = door.app.user_me(&person).await.unwrap().id;
    let nothing = UserChange::default();
    door.app.token_create(&person, None, None).await.unwrap();
    clock.0.store(599, Ordering::Relaxed);
    door.app.token_create(&person, None, None).await.unwrap();
    clock.0.store(601, Ordering::Relaxed);
    assert!(unproven(door.app.token_create(&person, None, None).await));
    // Longer than the session, which ends after a day.
    assert!(unproven(door.app.token_create(&person, None, Some(TimeDelta::days(30))).await));
    assert!(unproven(
        door.app.user_update(&person, me, &nothing, Some(password("second password", None))).await
    ));
    // What ends with the session needs nothing more, and ends with it.
    let eight = door.app.token_create(&person, None, Some(TimeDelta::hours(8))).await.unwrap();
    assert!(eight.token.made_with.is_some());
    // A clock that was set back does not make it fresh again.
    clock.0.store(-60, Ordering::Relaxed);
    assert!(unproven(door.app.token_create(&person, None, None).await));
    clock.0.store(601, Ordering::Relaxed);
    let wrong = door.app.token_create_as(&person, None, lasting(Some("a guess"))).await.unwrap_err();
    assert_eq!(wrong.to_string(), "currentPassword: is not your password", "{wrong}");
    let lasts = door.app.token_create_as(&person, None, lasting(Some("first password"))).await.unwrap();
    assert_eq!((lasts.token.made_with, lasts.token.expires_at), (None, None));
    let changed = password("second password", Some("first password"));
    door.app.user_update(&person, me, &nothing, Some(changed)).await.unwrap();
    assert!(
        door.app.actor_authenticate(eight.text.expose_secret()).await.is_err(),
        "it ended with its session"
    );
    assert!(door.app.actor_authenticate(lasts.text.expose_secret()).await.is_ok());
}

async fn a_stolen_token_takes_nothing_over(database: TestDatabase) {
    let (door, _) = door_with_clock(database).await;
    let person = signed_in(&door, "first password").await;
    let me = door.app.user_me(&person).await.unwrap();
    let minute = door.app.token_create(&person, None, Some(TimeDelta::minutes(1))).await.unwrap();
    let lasts = door.app.token_create(&person, None, None).await.unwrap();
    for stolen in [&minute, &lasts] {
        let thief = with(&door, &stolen.text).await;
        for wish in [None, Some(TimeDelta::days(365)), Some(TimeDelta::seconds(i64::from(i32::MAX)))] {
            let made = door.app.token_create(&thief, None, wish).await;
            match stolen.token.expires_at {
                // One that has no end makes others with an end, which go with it.
                None if wish.is_some() => assert_eq!(made.unwrap().token.made_with, Some(stolen.token.id)),
                _ => assert!(unproven(made), "{wish:?}"),
            }
        }
        // Neither the owner's password, nor another's, nor an account of one's own; whoever is named.
        let none = || Some(password("a thief's password", None));
        assert!(unproven(door.app.user_update(&thief, me.id, &UserChange::default(), none()).await));
        let other = door.user(&format!("u{}", stolen.token.hint)).await;
        assert!(unproven(door.app.user_update(&thief, other.id, &UserChange::default(), none()).await));
        let new =
            NewUser { email: "thief@example.com".parse().unwrap(), name: "t".parse().unwrap(), admin: true };
        assert!(unproven(door.app.user_create(&thief, &new, none()).await));
        assert!(unproven(door.app.user_create(&thief, &new, None).await));
        let raised = UserChange { admin: Some(true), ..UserChange::default() };
        assert!(unproven(door.app.user_update(&thief, other.id, &raised, None).await));
        let moved = UserChange { email: Some(new.email.clone()), ..UserChange::default() };
        for whose in [me.id, other.id] {
            assert!(unproven(door.app.user_update(&thief, whose, &moved, None).await));
        }
        let guess = Some(password("a thief's password", Some("guess guess")));
        let refused = door.app.user_update(&thief, me.id, &UserChange::default(), guess).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid { .. }), "{refused}");
    }
    // Short ones are given without more, and are gone with what they were made with, generations down.
    let mut chain = vec![minute.text];
    for _ in 0..3 {
        let ctx = with(&door, chain.last().unwrap()).await;
        let child = door.app.token_create(&ctx, None, Some(TimeDelta::hours(1))).await.unwrap();
        assert_eq!(child.token.expires_at, minute.token.expires_at);
        chain.push(child.text);
    }
    door.app.token_delete(&person, &minute.token.id.to_string()).await.unwrap();
    for token in &chain {
        assert!(door.app.actor_authenticate(token.expose_secret()).await.is_err());
    }
    // A token is no faster way to guess the password than signing in: the tries count together.
    let thief = with(&door, &lasts.text).await;
    for _ in 0..10 {
        let _ = door.app.token_create_as(&thief, None, lasting(Some("guess guess"))).await;
    }
    let late = door.app.token_create_as(&thief, None, lasting(Some("first password"))).await.unwrap_err();
    assert!(matches!(late, Error::Unavailable { .. }), "{late}");
    let late = door.app.session_create(&door.nobody(), "root@example.com", "first password".into()).await;
    assert!(matches!(late, Err(Error::Unavailable { .. })));
}

async fn a_narrow_token_reaches_its_cluster_and_nothing_else(database: TestDatabase) {
    let (door, _) = door_with_clock(database).await;
    let (blue, red) = (door.cluster("blue").await.cluster, door.cluster("red").await.cluster);
    let person = signed_in(&door, "first password").await;
    let wish = |scopes: TokenScopes| TokenRequest {
        valid_for: Some(TimeDelta::hours(1)),
        scopes: Some(scopes),
        password: None,
    };
    let narrow = TokenScopes::new([TokenScope::Kubernetes(blue.id)]).unwrap();
    let made = door.app.token_create_as(&person, None, wish(narrow.clone())).await.unwrap();
    let text = made.text.expose_secret();
    for selector in [by_id(&blue), ClusterSelector::Handle(blue.handle.clone())] {
        assert_eq!(door.app.proxy_grant(text, &selector).await.unwrap().cluster_id, blue.id);
    }
    for selector in [by_id(&red), ClusterSelector::Handle(red.handle.clone())] {
        let refused = door.app.proxy_grant(text, &selector).await.unwrap_err();
        assert!(matches!(refused, Error::Forbidden { .. }), "{refused}");
        assert!(refused.to_string().contains("clusters kubeconfig red"), "{refused}");
    }
    let ctx = with(&door, &made.text).await;
    let page = PageArgs::default();
    assert!(matches!(door.app.user_me(&ctx).await, Err(Error::Forbidden { .. })));
    assert!(matches!(door.app.get::<Cluster>(&ctx, &by_id(&blue)).await, Err(Error::Forbidden { .. })));
    assert!(matches!(door.app.token_list(&ctx, &page).await, Err(Error::Forbidden { .. })));
    assert!(matches!(door.app.audit_list(&ctx, &page).await, Err(Error::Forbidden { .. })));
    // Nor does it make another one, however narrow, or end one.
    for scopes in [narrow, TokenScopes::all()] {
        assert!(door.app.token_create_as(&ctx, None, wish(scopes)).await.is_err());
    }
    assert!(door.app.token_delete(&ctx, text).await.is_err());
    let every = TokenScopes::new([TokenScope::EveryKubernetes]).unwrap();
    let every = door.app.token_create_as(&person, None, wish(every)).await.unwrap();
    for cluster in [&blue, &red] {
        door.app.proxy_grant(every.text.expose_secret(), &by_id(cluster)).await.unwrap();
    }
    assert!(door.app.user_me(&with(&door, &every.text).await).await.is_err());
    let listed = door.app.token_list(&person, &page).await.unwrap().into_nodes();
    let scopes: Vec<String> = listed.iter().map(|token| token.scopes.to_string()).collect();
    assert_eq!(scopes, ["*".to_owned(), format!("k8s:{}", blue.id), "k8s:*".to_owned()]);
}

async fn a_join_token_ends_with_the_token_that_it_is_made_with(database: TestDatabase) {
    let (door, clock) = door_with_clock(database).await;
    let blue = door.cluster("blue").await.cluster;
    let session =
        door.app.session_create(&door.nobody(), "root@example.com", "first password".into()).await.unwrap();
    let end = session.token.expires_at.unwrap();
    let person = with(&door, &session.text).await;
    let lasts = door.app.token_create(&person, None, None).await.unwrap();
    let (minute, month) = (TimeDelta::minutes(1), TimeDelta::days(30));
    let ends = async |ctx: &OpCtx, valid_for: Option<TimeDelta>| {
        door.app.cluster_join_token(ctx, &by_id(&blue), valid_for).await.unwrap().expires_at
    };
    // Who typed the password a moment ago may ask for all of it.
    clock.0.store(599, Ordering::Relaxed);
    assert!(ends(&person, Some(month)).await > end);
    clock.0.store(601, Ordering::Relaxed);
    for valid_for in [None, Some(month)] {
        assert_eq!(ends(&person, valid_for).await, end, "{valid_for:?}");
    }
    assert!(ends(&person, Some(minute)).await < end);
    // A token without an end bounds nothing, a short one does however it came to be.
    assert!(ends(&with(&door, &lasts.text).await, Some(month)).await > end);
    let short = door.app.token_create(&person, None, Some(minute)).await.unwrap();
    let made = ends(&with(&door, &short.text).await, Some(month)).await;
    assert_eq!(Some(made), short.token.expires_at);
}

async fn a_new_password_ends_what_it_says(database: TestDatabase) {
    let (door, _) = door_with_clock(database).await;
    for (end_tokens, left) in [(false, 1), (true, 0)] {
        let now = if end_tokens { "second password" } else { "first password" };
        let person = signed_in(&door, now).await;
        let me = door.app.user_me(&person).await.unwrap().id;
        let token = door.app.token_create(&person, None, None).await.unwrap();
        let new = NewPassword {
            end_tokens,
            ..password(if end_tokens { "third password" } else { "second password" }, None)
        };
        door.app.user_update(&person, me, &UserChange::default(), Some(new)).await.unwrap();
        let remaining = door.app.token_list_of(&person, me, &PageArgs::default()).await.unwrap().into_nodes();
        assert_eq!(remaining.len(), left, "{remaining:?}");
        assert!(remaining.iter().all(|token| !token.session));
        assert_eq!(door.app.actor_authenticate(token.text.expose_secret()).await.is_ok(), !end_tokens);
        // What came with the session before it ended makes nothing that lasts any more.
        for wish in [None, Some(TimeDelta::minutes(1))] {
            let late = door.app.token_create(&person, None, wish).await;
            assert!(matches!(late, Err(Error::Unauthenticated)), "{late:?}");
        }
    }
}

/// Checking a password takes a while, in which it may be replaced.
async fn no_session_of_an_old_password_is_left(database: TestDatabase) {
    let (door, _) = door_with_clock(database).await;
    let passwords = ["first password", "second password", "third password", "fourth password"];
    for (old, new) in passwords.iter().zip(&passwords[1..]) {
        let person = signed_in(&door, old).await;
        let me = door.app.user_me(&person).await.unwrap().id;
        let (nobody, nothing) = (door.nobody(), UserChange::default());
        let (session, changed) = tokio::join!(
            door.app.session_create(&nobody, "root@example.com", (*old).into()),
            door.app.user_update(&person, me, &nothing, Some(password(new, None))),
        );
        changed.unwrap();
        match session {
            Ok(session) => assert!(door.app.actor_authenticate(session.text.expose_secret()).await.is_err()),
            Err(refused) => assert!(matches!(refused, Error::Unauthenticated), "{refused}"),
        }
    }
}

/// Whoever is deleted meanwhile is refused like everybody who is not there.
async fn no_session_of_a_deleted_user_is_left(database: TestDatabase) {
    let (door, _) = door_with_clock(database).await;
    for name in ["ada", "bob", "eve"] {
        let email = format!("{name}@example.com");
        let new = NewUser { email: email.parse().unwrap(), name: name.parse().unwrap(), admin: false };
        let user =
            door.app.user_create(&door.admin, &new, Some(password("a long password", None))).await.unwrap();
        let nobody = door.nobody();
        let (session, deleted) = tokio::join!(
            door.app.session_create(&nobody, &email, "a long password".into()),
            door.app.user_delete(&door.admin, user.id),
        );
        deleted.unwrap();
        match session {
            Ok(session) => assert!(door.app.actor_authenticate(session.text.expose_secret()).await.is_err()),
            Err(refused) => assert!(matches!(refused, Error::Unauthenticated), "{refused}"),
        }
    }
}

/// Between the proof and the write, the password may be replaced and the token revoked.
async fn what_was_proven_holds_when_it_is_written(database: TestDatabase) {
    let (door, _) = door_with_clock(database).await;
    let (me, ada) = (door.app.user_me(&door.admin).await.unwrap().id, door.user("ada").await.id);
    let nothing = UserChange::default();
    let all = async |ctx: &OpCtx| {
        let again = || Some(password("first password", None));
        let raised = UserChange { admin: Some(true), ..UserChange::default() };
        let moved = UserChange { email: Some("thief@example.com".parse().unwrap()), ..UserChange::default() };
        let new =
            NewUser { email: "new@example.com".parse().unwrap(), name: "n".parse().unwrap(), admin: true };
        [
            door.app.user_update(ctx, me, &nothing, again()).await.map(drop),
            door.app.user_update(ctx, ada, &nothing, again()).await.map(drop),
            door.app.user_update(ctx, ada, &raised, None).await.map(drop),
            door.app.user_update(ctx, me, &moved, None).await.map(drop),
            door.app.user_create(ctx, &new, None).await.map(drop),
            door.app.token_create_as(ctx, None, lasting(None)).await.map(drop),
        ]
    };
    let lasts = door.app.token_create(&door.admin, None, None).await.unwrap();
    let program = with(&door, &lasts.text).await;
    // A token that survives the new password, and a session that does not.
    let verified = door.app.proven(&program, Some("first password".into())).await.unwrap();
    let fresh = signed_in(&door, "first password").await;
    door.app.user_update(&door.admin, me, &nothing, Some(password("second password", None))).await.unwrap();
    for late in [all(&verified).await, all(&fresh).await].into_iter().flatten() {
        assert!(matches!(late, Err(Error::Unauthenticated)), "{late:?}");
    }
    // The password of now is good for as long as the token is there.
    let verified = door.app.proven(&program, Some("second password".into())).await.unwrap();
    door.app.token_create_as(&verified, None, lasting(None)).await.unwrap();
    door.app.token_delete(&door.admin, &lasts.token.id.to_string()).await.unwrap();
    for late in all(&verified).await {
        assert!(matches!(late, Err(Error::Unauthenticated)), "{late:?}");
    }
    signed_in(&door, "second password").await;
}

/// Somebody who was an administrator when the request came acts as one no more.
async fn a_demotion_is_not_undone_by_the_demoted(database: TestDatabase) {
    let (door, _) = door_with_clock(database).await;
    let bob = door.user("bob").await.id;
    let boss = |name: &str| NewUser {
        email: format!("{name}@example.com").parse().unwrap(),
        name: name.parse().unwrap(),
        admin: true,
    };
    let power = |admin: bool| UserChange { admin: Some(admin), ..UserChange::default() };
    let nothing = UserChange::default();
    let ada = door.app.user_create(&door.admin, &boss("ada"), None).await.unwrap();
    let ctx = door.as_user(&ada).await;
    door.app.user_update(&door.admin, ada.id, &power(false), None).await.unwrap();
    let new = || Some(password("a long password", None));
    for late in [
        door.app.user_update(&ctx, ada.id, &power(true), None).await.map(drop),
        door.app.user_update(&ctx, bob, &power(true), None).await.map(drop),
        door.app.user_update(&ctx, bob, &nothing, new()).await.map(drop),
        door.app.user_create(&ctx, &boss("eve"), None).await.map(drop),
        door.app.token_create(&ctx, Some(bob), None).await.map(drop),
    ] {
        assert!(matches!(late, Err(Error::Forbidden { .. })), "{late:?}");
    }
    // What needs no administrator is as it was.
    door.app.user_update(&ctx, ada.id, &nothing, new()).await.unwrap();
}

/// Work is counted, not timed: a password is checked once for whoever knocks, whether or not they exist.
async fn attack_25_refusals_cost_the_same_at_every_door(database: TestDatabase) {
    let (door, _) = door_with_clock(database).await;
    // Somebody without a password is as good as nobody here.
    door.user("programs-only").await;
    let costs = async |email: &str, times: usize| {
        let mut costs = Vec::new();
        for _ in 0..times {
            let before = door.app.password_checks();
            let refused =
                door.app.session_create(&door.nobody(), email, "not the password".into()).await.unwrap_err();
            costs.push((door.app.password_checks() - before, refused.to_string()));
        }
        costs
    };
    // Up to where guesses have to wait, and beyond.
    let known = costs("root@example.com", 8).await;
    assert_eq!(known.iter().map(|(cost, _)| cost).sum::<u64>(), 5, "{known:?}");
    let wait = |costs: Vec<(u64, String)>| -> Vec<(u64, bool)> {
        costs.into_iter().map(|(cost, told)| (cost, told.contains("too many"))).collect()
    };
    let known = wait(known);
    for email in ["nobody@example.com", "programs-only@example.com", "ROOT2@example.com"] {
        assert_eq!(wait(costs(email, 8).await), known, "{email}");
    }
    // The current password, asked of whoever holds a token: with a password, and without one.
    let programs = door
        .app
        .list::<User>(&door.admin, &Search { q: Some("programs-only".into()) }, &PageArgs::default())
        .await
        .unwrap();
    let programs = programs.into_nodes().remove(0);
    let token = door.app.token_create(&door.admin, Some(programs.id), None).await.unwrap();
    let root = door.app.token_create(&door.admin, None, None).await.unwrap();
    let peer = Some("192.0.2.1".parse().unwrap());
    for holder in [&token.text, &root.text] {
        let ctx = with(&door, holder).await.with_peer(peer);
        let id = door.app.user_me(&ctx).await.unwrap().id;
        for attempt in 0..2 {
            let before = door.app.password_checks();
            let refused = if attempt == 0 {
                door.app.token_create_as(&ctx, None, lasting(Some("not the password"))).await.map(drop)
            } else {
                let new = Some(password("some new password", Some("not the password")));
                door.app.user_update(&ctx, id, &UserChange::default(), new).await.map(drop)
            };
            assert_eq!(refused.unwrap_err().to_string(), "currentPassword: is not your password");
            assert_eq!(door.app.password_checks() - before, 1);
        }
    }
    // No other door asks for a password: what is refused there costs none, for those who exist and those who do not.
    let before = door.app.password_checks();
    for token in ["console-0", "deploy-0", "join-0", root.token.hint.as_str()] {
        assert!(door.app.actor_authenticate(token).await.is_err());
        assert!(door.app.agent_authenticate(token).is_err());
    }
    assert_eq!(door.app.password_checks(), before);
}
