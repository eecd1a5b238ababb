//! How agents join, and how their tokens are replaced.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use chrono::TimeDelta;
use plural_app::agent_poll::PollAsked;
use plural_app::ctx::Clock;
use plural_app::deploy_token::TokenStatus;
use plural_core::access::Actor;
use plural_core::{Error, PageArgs};
use plural_store::DatabaseOptions;
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret;

use crate::clock::Wrong;
use crate::door::{Door, by_id};
use crate::git::FakeGit;

each_database!(
    a_join_token_is_good_for_one_agent,
    a_join_token_that_ended_or_was_replaced_is_refused,
    the_next_token_takes_the_place_of_the_one_before_when_it_is_used,
    whatever_is_repeated_means_the_same,
    no_token_becomes_another_clusters,
    a_token_replaced_by_hand_ends_every_other,
    a_token_is_due_when_it_is_old_or_somebody_asks,
    a_token_that_is_not_due_is_not_replaced,
    a_refused_replacement_leaves_a_line,
    a_console_that_lags_replaces_nothing_that_is_not_due,
    two_consoles_accept_the_same_tokens,
);

/// A token as an agent draws it.
fn drawn(seed: u8) -> String {
    format!(
        "deploy-{}",
        hex::encode((0..32).map(|n| seed.wrapping_mul(31).wrapping_add(n)).collect::<Vec<u8>>())
    )
}

fn is_refused<T>(answer: &plural_core::Result<T>) -> bool {
    matches!(answer, Err(Error::Unauthenticated))
}

async fn join_token(door: &Door, cluster: &plural_core::cluster::Cluster) -> String {
    let made = door.app.cluster_join_token(&door.admin, &by_id(cluster), None).await.unwrap();
    made.join_token.expose_secret().to_owned()
}

async fn join(door: &Door, with: &str, token: &str) -> plural_core::Result<()> {
    door.app.agent_join(&door.app.agent_join_authenticate(with)?, token).await
}

async fn tell(door: &Door, with: &str, next: &str) -> plural_core::Result<TokenStatus> {
    door.app.agent_token_rotate(&door.app.agent_authenticate(with)?, next).await
}

/// Has the cluster's token replaced before its time.
async fn ask(door: &Door, cluster: &plural_core::cluster::Cluster) {
    door.app.cluster_token_renew(&door.admin, &by_id(cluster)).await.unwrap();
}

async fn a_join_token_is_good_for_one_agent(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let with = join_token(&door, &made.cluster).await;
    // It opens nothing but the join, wherever it is shown.
    assert!(is_refused(&door.app.agent_authenticate(&with)));
    assert!(is_refused(&door.app.actor_authenticate(&with).await));
    // And a deploy token does not join.
    assert!(is_refused(&door.app.agent_join_authenticate(made.deploy_token.expose_secret())));

    let (first, second) = (drawn(1), drawn(2));
    join(&door, &with, &first).await.unwrap();
    let agent = door.app.agent_authenticate(&first).unwrap();
    assert_eq!(agent.cluster_id(), made.cluster.id);
    assert!(
        is_refused(&door.app.agent_authenticate(made.deploy_token.expose_secret())),
        "the one before ends"
    );
    // Its answer may have been lost.
    join(&door, &with, &first).await.unwrap();
    assert!(agent.is_current(), "the same again changes nothing");
    for other in [&second, &drawn(3)] {
        let refused = join(&door, &with, other).await.unwrap_err();
        assert!(matches!(refused, Error::Forbidden { .. }), "{refused}");
        assert!(refused.to_string().contains("bootstrap blue --rejoin"), "{refused}");
        assert!(is_refused(&door.app.agent_authenticate(other)));
    }
    // Not even with the token that it was used for, once that was replaced.
    ask(&door, &made.cluster).await;
    tell(&door, &first, &second).await.unwrap();
    tell(&door, &second, &second).await.unwrap();
    assert!(join(&door, &with, &first).await.is_err());
    assert!(door.app.agent_authenticate(&second).unwrap().is_current());

    let rows = door.app.audit_list(&door.admin, &PageArgs::default()).await.unwrap().into_nodes();
    let by_agent: Vec<&str> = rows
        .iter()
        .filter(|row| row.entry.actor == format!("cluster:{}", made.cluster.id))
        .map(|row| &*row.entry.action)
        .collect();
    assert_eq!(by_agent, ["cluster.join", "cluster.token.next", "cluster.token.renew"]);
    let shown = format!("{rows:?}");
    assert!(![&with, &first, &second].iter().any(|token| shown.contains(&token[8..])));
}

async fn a_join_token_that_ended_or_was_replaced_is_refused(database: TestDatabase) {
    let clock = Arc::new(Wrong::default());
    let door = Door::open_by(
        Arc::new(database),
        &DatabaseOptions::new(""),
        Arc::new(FakeGit::default()),
        Arc::clone(&clock) as Arc<dyn Clock>,
    )
    .await;
    let made = door.cluster("blue").await;
    let (replaced, with) = (join_token(&door, &made.cluster).await, join_token(&door, &made.cluster).await);
    assert!(is_refused(&join(&door, &replaced, &drawn(1)).await));
    clock.0.store(24 * 3600 + 1, Ordering::Relaxed);
    let refused = join(&door, &with, &drawn(1)).await.unwrap_err();
    assert!(
        refused.to_string().contains("expired before") && refused.to_string().contains("--rejoin"),
        "{refused}"
    );
    assert!(door.app.agent_authenticate(made.deploy_token.expose_secret()).is_ok(), "who is in stays in");
    // One that was used in time can be repeated after its end.
    clock.0.store(0, Ordering::Relaxed);
    join(&door, &with, &drawn(1)).await.unwrap();
    clock.0.store(24 * 3600 + 1, Ordering::Relaxed);
    join(&door, &with, &drawn(1)).await.unwrap();
    for seconds in [0, -1, 59, 30 * 24 * 3600 + 1, i64::MAX / 1000] {
        let asked = door
            .app
            .cluster_join_token(&door.admin, &by_id(&made.cluster), Some(TimeDelta::seconds(seconds)))
            .await;
        assert!(matches!(asked, Err(Error::Invalid { .. })), "{seconds}");
    }
}

async fn the_next_token_takes_the_place_of_the_one_before_when_it_is_used(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let old = made.deploy_token.expose_secret();
    let next = drawn(1);
    ask(&door, &made.cluster).await;
    let agent = door.app.agent_authenticate(old).unwrap();
    assert_eq!(tell(&door, old, &next).await.unwrap(), TokenStatus::Next);
    let fresh = door.app.agent_authenticate(&next).unwrap();
    assert!(agent.is_current() && fresh.is_current(), "both are accepted");
    assert_eq!(door.app.agent_poll(&fresh, &PollAsked::at(None)).await.unwrap().services.len(), 0);
    // Not by being used for anything else: only when the agent says so is it known to have it.
    assert!(agent.is_current());
    assert_eq!(tell(&door, &next, &next).await.unwrap(), TokenStatus::Current);
    assert!(!agent.is_current() && is_refused(&door.app.agent_authenticate(old)));
    assert!(fresh.is_current(), "its streams go on");
}

async fn whatever_is_repeated_means_the_same(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let old = made.deploy_token.expose_secret();
    let next = drawn(1);
    ask(&door, &made.cluster).await;
    for _ in 0..3 {
        assert_eq!(tell(&door, old, old).await.unwrap(), TokenStatus::Current);
        assert_eq!(tell(&door, old, &next).await.unwrap(), TokenStatus::Next);
    }
    for _ in 0..3 {
        assert_eq!(tell(&door, &next, &next).await.unwrap(), TokenStatus::Current);
    }
    let rows = door.app.audit_list(&door.admin, &PageArgs::default()).await.unwrap().into_nodes();
    let is_change = |action: &str| ["cluster.token.next", "cluster.token.renew"].contains(&action);
    let changes = rows.iter().filter(|row| is_change(&row.entry.action)).count();
    assert_eq!(changes, 2, "nothing is written twice");
    // At most two: another next one takes the place of the one that was not used.
    let (second, third) = (drawn(2), drawn(3));
    ask(&door, &made.cluster).await;
    tell(&door, &next, &second).await.unwrap();
    tell(&door, &next, &third).await.unwrap();
    assert!(is_refused(&door.app.agent_authenticate(&second)));
    assert!(door.app.agent_authenticate(&next).is_ok() && door.app.agent_authenticate(&third).is_ok());
}

async fn no_token_becomes_another_clusters(database: TestDatabase) {
    let door = Door::new(database).await;
    let (blue, red) = (door.cluster("blue").await, door.cluster("red").await);
    let (blue_token, red_token) = (blue.deploy_token.expose_secret(), red.deploy_token.expose_secret());
    let next = drawn(1);
    ask(&door, &blue.cluster).await;
    ask(&door, &red.cluster).await;
    tell(&door, blue_token, &next).await.unwrap();
    let with = join_token(&door, &red.cluster).await;
    // Neither the one in use nor the next one of another cluster, by rotation or by a join.
    for taken in [blue_token, &next] {
        let refused = tell(&door, red_token, taken).await.unwrap_err();
        assert!(
            matches!(&refused, Error::Conflict { .. }) && refused.to_string().contains("another cluster's"),
            "{refused:?}"
        );
        assert!(matches!(join(&door, &with, taken).await, Err(Error::Conflict { .. })));
        assert_eq!(door.app.agent_authenticate(taken).unwrap().cluster_id(), blue.cluster.id);
    }
    assert_eq!(door.app.agent_authenticate(red_token).unwrap().cluster_id(), red.cluster.id);
    // What is no token of 256 bits is not taken.
    for weak in
        ["", "deploy-", "deploy-1234", &"deploy-".repeat(40), &format!("deploy-{}", "a".repeat(64)), &with]
    {
        assert!(matches!(tell(&door, red_token, weak).await, Err(Error::Invalid { .. })), "{weak:?}");
    }
    // The join token was not used up by what was refused.
    join(&door, &with, &drawn(9)).await.unwrap();
    assert_eq!(door.app.agent_authenticate(&drawn(9)).unwrap().cluster_id(), red.cluster.id);
}

async fn a_token_replaced_by_hand_ends_every_other(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let with = join_token(&door, &made.cluster).await;
    let next = drawn(1);
    ask(&door, &made.cluster).await;
    tell(&door, made.deploy_token.expose_secret(), &next).await.unwrap();
    let fresh = door.app.agent_authenticate(&next).unwrap();
    let rotated = door.app.cluster_token_rotate(&door.admin, &by_id(&made.cluster)).await.unwrap();
    assert!(!fresh.is_current());
    for ended in [made.deploy_token.expose_secret(), &next] {
        assert!(is_refused(&door.app.agent_authenticate(ended)));
    }
    assert!(is_refused(&join(&door, &with, &drawn(2)).await), "somebody may have it who should not");
    assert!(door.app.agent_authenticate(rotated.deploy_token.expose_secret()).is_ok());
    // A cluster that is gone takes its tokens along.
    let with = join_token(&door, &made.cluster).await;
    door.app.cluster_detach(&door.admin, &by_id(&made.cluster)).await.unwrap();
    door.app.agent_poll(&fresh, &PollAsked::at(None)).await.unwrap_err();
    let gone = join(&door, &with, &drawn(3)).await.unwrap_err();
    assert!(matches!(gone, Error::Unauthenticated | Error::NotFound { .. }), "{gone}");
}

async fn a_token_is_due_when_it_is_old_or_somebody_asks(database: TestDatabase) {
    let clock = Arc::new(Wrong::default());
    let door = Door::open_by(
        Arc::new(database),
        &DatabaseOptions::new(""),
        Arc::new(FakeGit::default()),
        Arc::clone(&clock) as Arc<dyn Clock>,
    )
    .await;
    let made = door.cluster("blue").await;
    let old = made.deploy_token.expose_secret().to_owned();
    let is_due = async |token: &str| {
        let agent = door.app.agent_authenticate(token).unwrap();
        let cursor = door.app.agent_poll(&agent, &PollAsked::at(None)).await.unwrap();
        // Asked from memory, too.
        let again = door.app.agent_poll(&agent, &PollAsked::at(Some(&cursor.cursor))).await.unwrap();
        assert_eq!(cursor.rotate_token, again.rotate_token);
        again.rotate_token
    };
    assert!(!is_due(&old).await);
    clock.0.store(31 * 24 * 3600, Ordering::Relaxed);
    assert!(is_due(&old).await, "one that was there before anybody counted days, too");
    let next = drawn(1);
    tell(&door, &old, &next).await.unwrap();
    assert!(is_due(&old).await, "until the next one is used");
    tell(&door, &next, &next).await.unwrap();
    assert!(!is_due(&next).await);
    door.app.cluster_token_renew(&door.admin, &by_id(&made.cluster)).await.unwrap();
    assert!(is_due(&next).await);
    tell(&door, &next, &drawn(2)).await.unwrap();
    tell(&door, &drawn(2), &drawn(2)).await.unwrap();
    assert!(!is_due(&drawn(2)).await);
}

/// A copy of a token would lock the agent out at once otherwise.
async fn a_token_that_is_not_due_is_not_replaced(database: TestDatabase) {
    let source = Arc::new(database);
    let door = Door::open(Arc::clone(&source)).await;
    let made = door.cluster("blue").await;
    let old = made.deploy_token.expose_secret();
    let refused = tell(&door, old, &drawn(1)).await.unwrap_err();
    assert!(matches!(refused, Error::Conflict { .. }), "{refused:?}");
    assert!(refused.to_string().contains("not due"), "{refused}");
    assert!(is_refused(&door.app.agent_authenticate(&drawn(1))));
    // What changes nothing is still answered: an agent that starts asks which of its tokens is in use.
    assert_eq!(tell(&door, old, old).await.unwrap(), TokenStatus::Current);

    // Another console was asked, and this one has not heard of it yet.
    let other = Door::open(source).await;
    ask(&other, &made.cluster).await;
    assert_eq!(tell(&door, old, &drawn(1)).await.unwrap(), TokenStatus::Next);
    // What was begun is finished, also by an agent that was killed in between and begins anew.
    assert_eq!(tell(&door, old, &drawn(2)).await.unwrap(), TokenStatus::Next);
    assert_eq!(tell(&door, old, &drawn(2)).await.unwrap(), TokenStatus::Next);
    assert_eq!(tell(&door, &drawn(2), &drawn(2)).await.unwrap(), TokenStatus::Current);
    assert_eq!(tell(&door, &drawn(2), &drawn(2)).await.unwrap(), TokenStatus::Current);
    assert!(matches!(tell(&door, &drawn(2), &drawn(3)).await, Err(Error::Conflict { .. })));
    // One that joined has a new token.
    let with = join_token(&door, &made.cluster).await;
    ask(&door, &made.cluster).await;
    join(&door, &with, &drawn(4)).await.unwrap();
    assert!(matches!(tell(&door, &drawn(4), &drawn(5)).await, Err(Error::Conflict { .. })));
}

async fn a_refused_replacement_leaves_a_line(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let made = door.cluster("blue").await;
    door.start();
    let old = made.deploy_token.expose_secret();
    for seed in 1..4 {
        assert!(matches!(tell(&door, old, &drawn(seed)).await, Err(Error::Conflict { .. })));
    }
    // An agent that asks which of its tokens is in use changes nothing.
    assert_eq!(tell(&door, old, old).await.unwrap(), TokenStatus::Current);
    // What is counted is stored when a console stops, at the latest.
    door.stop().await;
    let rows = door.app.audit_list(&door.admin, &PageArgs::default()).await.unwrap().into_nodes();
    let refused: Vec<_> =
        rows.iter().map(|row| &row.entry).filter(|entry| entry.action == "cluster.token.refused").collect();
    assert_eq!(refused.iter().map(|entry| entry.times).sum::<u32>(), 3, "{rows:?}");
    for entry in refused {
        assert_eq!(entry.actor, format!("cluster:{}", made.cluster.id));
        assert_eq!((entry.target.id, entry.target.name.as_str()), (Some(made.cluster.id.uuid()), "blue"));
    }
    let shown = format!("{rows:?}");
    assert!(![old, &drawn(1)].iter().any(|token| shown.contains(&token[8..])));
}

/// What it remembers says that somebody asked, and that the next token is one that was not used yet.
async fn a_console_that_lags_replaces_nothing_that_is_not_due(database: TestDatabase) {
    let source = Arc::new(database);
    let door = Door::open(Arc::clone(&source)).await;
    let made = door.cluster("blue").await;
    ask(&door, &made.cluster).await;
    tell(&door, made.deploy_token.expose_secret(), &drawn(1)).await.unwrap();
    let other = Door::open(source).await;
    tell(&door, &drawn(1), &drawn(1)).await.unwrap();
    // Who has a copy of the new token goes to the console that has not heard of that.
    let refused = tell(&other, &drawn(1), &drawn(2)).await.unwrap_err();
    assert!(matches!(&refused, Error::Conflict { .. }), "{refused:?}");
    assert!(refused.to_string().contains("not due"), "{refused}");
    for console in [&door, &other] {
        assert!(is_refused(&console.app.agent_authenticate(&drawn(2))));
        assert!(console.app.agent_authenticate(&drawn(1)).unwrap().is_current());
    }
    // It has heard of it by now. Once somebody asks, it does what it is told, and what was begun is finished anywhere.
    assert!(is_refused(&other.app.agent_authenticate(made.deploy_token.expose_secret())));
    ask(&door, &made.cluster).await;
    assert_eq!(tell(&other, &drawn(1), &drawn(2)).await.unwrap(), TokenStatus::Next);
    assert_eq!(tell(&other, &drawn(2), &drawn(2)).await.unwrap(), TokenStatus::Current);
}

async fn two_consoles_accept_the_same_tokens(database: TestDatabase) {
    let source = Arc::new(database);
    let one = Door::open(Arc::clone(&source)).await;
    let made = one.cluster("blue").await;
    let with = join_token(&one, &made.cluster).await;
    ask(&one, &made.cluster).await;
    tell(&one, made.deploy_token.expose_secret(), &drawn(1)).await.unwrap();
    // One that starts has all of it, and what it changes the other hears of through the feed.
    let mut other = Door::open(source).await;
    other.start();
    assert!(other.app.agent_authenticate(made.deploy_token.expose_secret()).is_ok());
    assert!(other.app.agent_authenticate(&drawn(1)).is_ok());
    tell(&one, &drawn(1), &drawn(1)).await.unwrap();
    crate::door::eventually(async || {
        is_refused(&other.app.agent_authenticate(made.deploy_token.expose_secret())).then_some(())
    })
    .await;
    join(&one, &with, &drawn(2)).await.unwrap();
    crate::door::eventually(async || other.app.agent_authenticate(&drawn(2)).is_ok().then_some(())).await;
    assert!(is_refused(&other.app.agent_authenticate(&drawn(1))));
    let nobody = other.app.ctx(Actor::Nobody);
    assert!(other.app.cluster_join_token(&nobody, &by_id(&made.cluster), None).await.is_err());
    other.stop().await;
}
