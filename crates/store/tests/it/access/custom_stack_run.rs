//! Commands of stacks under a name: who may do what.

use plural_app::custom_stack_run::CustomStackRunFilter;
use plural_core::PageArgs;
use plural_core::custom_stack_run::{CustomStackRun, CustomStackRunChange, NewCustomStackRun};

use super::stack_run::{ls, sourced};
use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<CustomStackRun>", "uhaaaa", w, c => async { w.door.app.get::<CustomStackRun>(c, &custom(w).await.id).await }),
        case!("get_many::<CustomStackRun>", "uhaaaa", w, c => async { let id = custom(w).await.id; found(w.door.app.get_many::<CustomStackRun>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<CustomStackRun>", "uaaaaa", w, c => w.door.app.list::<CustomStackRun>(c, &CustomStackRunFilter::default(), &PageArgs::default())),
        case!("custom_stack_run_create", "uhdaaa", w, c => w.door.app.custom_stack_run_create(c, new(w))),
        case!("custom_stack_run_update", "uhdaaa", w, c => async { w.door.app.custom_stack_run_update(c, custom(w).await.id, &CustomStackRunChange::default()).await }),
        case!("custom_stack_run_delete", "uhdaaa", w, c => async { w.door.app.custom_stack_run_delete(c, custom(w).await.id).await }),
        case!("custom_stack_run_start", "uhddaa", w, c => async { let stack = sourced(w).await.id; w.door.app.custom_stack_run_start(c, custom(w).await.id, Some(stack), &serde_json::Map::new()).await }),
    ]
}

fn new(w: &World<'_>) -> NewCustomStackRun {
    NewCustomStackRun {
        name: fresh("c").parse().unwrap(),
        documentation: String::new(),
        stack_id: None,
        project_id: Some(w.project.id),
        commands: vec![ls()],
        questions: Vec::new(),
    }
}

async fn custom(w: &World<'_>) -> CustomStackRun {
    w.door.app.custom_stack_run_create(&w.door.admin, new(w)).await.unwrap()
}
