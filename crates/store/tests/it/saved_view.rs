//! Saved views that several people change at the same moment.

use std::collections::HashSet;

use plural_app::saved_view::SavedViewFilter;
use plural_core::policy::{BindingSubject, BindingsChange, Role};
use plural_core::saved_view::{NewSavedView, SavedView, SavedViewChange};
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};

use crate::door::{Door, subject};

each_database!(
    a_view_is_changed_before_it_goes_or_is_gone,
    a_view_goes_with_its_owner_or_is_not_saved,
    the_owner_stays_an_administrator,
);

/// How often two race: they meet in between each other's steps now here, now there.
const ROUNDS: u32 = 20;

fn new(bindings: BindingsChange) -> NewSavedView {
    let (name, page) = ("Failing".parse().unwrap(), "services".parse().unwrap());
    NewSavedView { name, page, query: "status=FAILED".into(), bindings }
}

fn shared(with: BindingSubject) -> BindingsChange {
    BindingsChange { read: Some(vec![with]), ..BindingsChange::default() }
}

async fn administrators(door: &Door, view: &SavedView) -> HashSet<BindingSubject> {
    let found = door.app.binding_list(&door.admin, view.id).await.unwrap();
    let bindings = found.into_iter().map(|bound| bound.binding);
    bindings.filter(|binding| binding.role == Role::Admin).map(|binding| binding.subject).collect()
}

/// Those of all users.
async fn views(door: &Door) -> Vec<SavedView> {
    let filter = SavedViewFilter::default();
    let page = door.app.list::<SavedView>(&door.admin, &filter, &PageArgs::default()).await;
    page.unwrap().into_nodes()
}

/// The name and the bindings of a view change while somebody deletes it.
async fn a_view_is_changed_before_it_goes_or_is_gone(database: TestDatabase) {
    let door = Door::new(database).await;
    let reader = door.user("reader").await;
    for _ in 0..ROUNDS {
        let view = door.app.saved_view_create(&door.admin, new(BindingsChange::default())).await.unwrap();
        let change = SavedViewChange {
            name: Some("Failed".parse().unwrap()),
            query: None,
            bindings: shared(subject(&reader)),
        };
        let (changed, deleted, again) = tokio::join!(
            door.app.saved_view_update(&door.admin, view.id, &change),
            door.app.saved_view_delete(&door.admin, view.id),
            door.app.saved_view_delete(&door.admin, view.id),
        );
        assert!(matches!(&changed, Ok(_) | Err(Error::NotFound { .. })), "{changed:?}");
        // Whoever comes second is told that there is nothing left.
        let outcomes = [deleted, again];
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
        let gone = outcomes.iter().any(|outcome| matches!(outcome, Err(Error::NotFound { .. })));
        assert!(gone, "{outcomes:?}");
        assert_eq!(views(&door).await, []);
    }
    door.policies_match_what_they_are_of().await;
}

/// A user who is deleted saves a view, and shares another.
async fn a_view_goes_with_its_owner_or_is_not_saved(database: TestDatabase) {
    let door = Door::new(database).await;
    for round in 0..ROUNDS {
        let owner = door.user(&format!("owner-{round}")).await;
        let ctx = door.as_user(&owner).await;
        let first = door.app.saved_view_create(&ctx, new(BindingsChange::default())).await.unwrap();
        let second = NewSavedView { name: "Second".parse().unwrap(), ..new(BindingsChange::default()) };
        let share = SavedViewChange { bindings: shared(subject(&owner)), ..SavedViewChange::default() };
        let (saved, changed, deleted) = tokio::join!(
            door.app.saved_view_create(&ctx, second),
            door.app.saved_view_update(&ctx, first.id, &share),
            door.app.user_delete(&door.admin, owner.id),
        );
        deleted.unwrap();
        assert!(matches!(&saved, Ok(_) | Err(Error::NotFound { .. })), "{saved:?}");
        // The user may be gone when the binding is written.
        assert!(
            matches!(&changed, Ok(_) | Err(Error::NotFound { .. } | Error::Invalid { .. })),
            "{changed:?}"
        );
        assert_eq!(views(&door).await, []);
    }
    door.policies_match_what_they_are_of().await;
}

async fn the_owner_stays_an_administrator(database: TestDatabase) {
    let door = Door::new(database).await;
    let (owner, other) = (door.user("owner").await, door.user("other").await);
    let ctx = door.as_user(&owner).await;
    let others = BindingsChange { admin: Some(vec![subject(&other)]), ..BindingsChange::default() };
    let view = door.app.saved_view_create(&ctx, new(others.clone())).await.unwrap();
    let both = HashSet::from([subject(&other), subject(&owner)]);
    assert_eq!(administrators(&door, &view).await, both);
    // What others are given, and taken, does not touch it.
    let change = SavedViewChange {
        bindings: BindingsChange { admin: Some(Vec::new()), ..BindingsChange::default() },
        ..SavedViewChange::default()
    };
    door.app.saved_view_update(&ctx, view.id, &change).await.unwrap();
    assert_eq!(administrators(&door, &view).await, HashSet::from([subject(&owner)]));
    let change = SavedViewChange { bindings: others, ..SavedViewChange::default() };
    door.app.saved_view_update(&ctx, view.id, &change).await.unwrap();
    assert_eq!(administrators(&door, &view).await, both);
}
