//! What open pages are told of: the writes that say it, and how it is read.

use chrono::TimeDelta;
use plural_app::delta::{Delta, DeltaFilter, DeltaStore as _};
use plural_core::component::ComponentState;
use plural_core::policy::BindingsChange;
use plural_core::service_error::ServiceError;
use plural_core::user::{NewUser, UserChange};
use plural_testkit::{TestDatabase, each_database};

use crate::agent::{component, deployed, report, reported};
use crate::door::{Door, eventually, service_id, subject};

each_database!(
    reports_that_say_something_new_are_told,
    old_rows_go_and_who_is_far_behind_reads_everything,
    whose_rights_may_have_changed_reads_again,
);

async fn reports_that_say_something_new_are_told(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, spec, _) = deployed(&door, "blue").await;
    let mut before = door.database.deltas_head().await.unwrap();
    let delta = Delta::Service { cluster_id: service.cluster_id, service_id: service.id };
    let mut number = 0;
    let failed = || ServiceError {
        source: "sync".into(),
        message: "no".into(),
        warning: false,
        terminal: false,
        location: None,
    };
    let states = [
        (Some(ComponentState::Pending), false, true),
        (Some(ComponentState::Running), false, true),
        (Some(ComponentState::Running), false, false),
        (Some(ComponentState::Running), true, true),
        (None, true, false),
        (None, false, true),
    ];
    for (state, fails, is_news) in states {
        number += 1;
        let said = reported(&spec, |said| {
            said.components = state.map(|state| vec![component("web", state)]);
            said.errors = if fails { vec![failed()] } else { Vec::new() };
        });
        door.app.agent_report(&agent, report(number, vec![said])).await.unwrap();
        if is_news {
            let read = eventually(async || {
                let read = door.database.deltas_read(before).await.map_err(|error| error.log_text())?;
                if read.deltas.is_empty() { Err(format!("{read:?}")) } else { Ok(read) }
            })
            .await;
            assert_eq!(read.deltas, [delta], "report {number}");
            before = read.position;
        }
    }
    // The one that said nothing new was stored before the last one, and was told of by nobody.
    let read = door.database.deltas_read(before).await.unwrap();
    assert_eq!(read.deltas, []);
    door.stop().await;
}

async fn old_rows_go_and_who_is_far_behind_reads_everything(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let first = door.service(&made.cluster, &repository, "first").await;
    let begun = door.app.deltas_subscribe(&door.admin, DeltaFilter::Clusters { id: None }, None).await;
    let mut begun = begun.unwrap();
    let cursor = door.app.deltas_take(&door.admin, &mut begun).await.unwrap().unwrap().cursor;
    drop(begun);
    let all = DeltaFilter::Services { id: None, cluster: None };

    // What a cursor leads over is told by id. Other databases of the server may hold it back for a moment.
    let by = service_id(&first);
    door.app.service_kick(&door.admin, &by).await.unwrap();
    let told = eventually(async || {
        let mut here = door.app.deltas_subscribe(&door.admin, all, Some(&cursor)).await.unwrap();
        let told = door.app.deltas_take(&door.admin, &mut here).await.unwrap().unwrap();
        if told.changed.is_empty() { Err(format!("{told:?}")) } else { Ok(told) }
    })
    .await;
    assert_eq!((told.changed.as_slice(), told.read_again), (&[first.id.uuid()][..], false));

    // Who may see everything is told without a look at the database, also of what is gone.
    door.app.service_detach(&door.admin, &by).await.unwrap();
    let told = eventually(async || {
        let mut here = door.app.deltas_subscribe(&door.admin, all, Some(&cursor)).await.unwrap();
        let statements = door.database.statements();
        let told = door.app.deltas_take(&door.admin, &mut here).await.unwrap().unwrap();
        assert_eq!(door.database.statements(), statements);
        if told.deleted.is_empty() { Err(format!("{told:?}")) } else { Ok(told) }
    })
    .await;
    assert!(told.changed.is_empty() && told.deleted == [first.id.uuid()], "{told:?}");
    let second = door.service(&made.cluster, &repository, "second").await;
    let by = service_id(&second);

    // Those that are old are gone, and reading goes on behind them.
    let head = door.database.deltas_head().await.unwrap();
    let later = door.app.now() + TimeDelta::hours(1);
    assert!(door.database.deltas_prune(later).await.unwrap() > 0);
    assert_eq!(door.database.deltas_prune(later).await.unwrap(), 0);
    assert_eq!(door.database.deltas_read(0).await.unwrap().deltas, []);
    door.app.service_kick(&door.admin, &by).await.unwrap();
    let read = eventually(async || {
        let read = door.database.deltas_read(head).await.map_err(|error| error.log_text())?;
        if read.deltas.is_empty() { Err(format!("{read:?}")) } else { Ok(read) }
    })
    .await;
    assert!(
        matches!(read.deltas[0], Delta::Service { service_id, .. } if service_id == second.id),
        "{read:?}"
    );
    assert!(!read.skipped && read.position > head);
}

async fn whose_rights_may_have_changed_reads_again(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let reader = door.user("reader").await;
    let ctx = door.as_user(&reader).await;
    let all = DeltaFilter::Clusters { id: None };
    let mut begun = door.app.deltas_subscribe(&ctx, all, None).await.unwrap();
    let first = door.app.deltas_take(&ctx, &mut begun).await.unwrap().unwrap();
    assert!(!first.read_again);
    drop(begun);

    let read = BindingsChange { read: Some(vec![subject(&reader)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, made.cluster.id, read).await.unwrap();
    eventually(async || {
        let mut here = door.app.deltas_subscribe(&ctx, all, Some(&first.cursor)).await.unwrap();
        let told = door.app.deltas_take(&ctx, &mut here).await.unwrap().unwrap();
        if told.read_again { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;
    // Who sees everything sees no other things than before.
    let mut here = door.app.deltas_subscribe(&door.admin, all, Some(&first.cursor)).await.unwrap();
    let told = door.app.deltas_take(&door.admin, &mut here).await.unwrap().unwrap();
    assert!(!told.read_again && told.deleted.is_empty(), "{told:?}");
    // Nothing reads on for those who listen here: whoever comes next begins at the head.
    drop(here);

    // Until they do not any more.
    let new =
        NewUser { email: "chief@example.com".parse().unwrap(), name: "chief".parse().unwrap(), admin: true };
    let chief = door.app.user_create(&door.admin, &new, None).await.unwrap();
    let ctx = door.as_user(&chief).await;
    let mut begun = door.app.deltas_subscribe(&ctx, all, None).await.unwrap();
    let first = door.app.deltas_take(&ctx, &mut begun).await.unwrap().unwrap();
    drop(begun);
    let demote = UserChange { admin: Some(false), ..UserChange::default() };
    let chief = door.app.user_update(&door.admin, chief.id, &demote, None).await.unwrap();
    let ctx = door.as_user(&chief).await;
    eventually(async || {
        let mut here = door.app.deltas_subscribe(&ctx, all, Some(&first.cursor)).await.unwrap();
        let told = door.app.deltas_take(&ctx, &mut here).await.unwrap().unwrap();
        if told.read_again { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;
}
