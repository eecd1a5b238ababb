//! Stacks and their state: who may do what.

use std::collections::BTreeMap;

use bytes::Bytes;
use plural_app::OpCtx;
use plural_app::stack::{Dependents, StackFilter, StackSelector};
use plural_core::ids::StateVersionId;
use plural_core::policy::BindingsChange;
use plural_core::stack::{NewStack, Stack, StackChange, StackTool};
use plural_core::stack_spec::StackSpec;
use plural_core::stack_state::LockRequest;
use plural_core::{PageArgs, Result};

use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<Stack>", "uhaaaa", w, c => async { w.door.app.get::<Stack>(c, &StackSelector::Id(stack(w).await.id)).await }),
        case!("get_many::<Stack>", "uhaaaa", w, c => async { let id = stack(w).await.id; found(w.door.app.get_many::<Stack>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<Stack>", "uaaaaa", w, c => w.door.app.list::<Stack>(c, &StackFilter::default(), &PageArgs::default())),
        case!("stack_tags", "uhaaaa", w, c => count_tags(w, c)),
        case!("stack_create", "uhdaaa", w, c => w.door.app.stack_create(c, new(w))),
        case!("stack_update", "uhdaaa", w, c => async { w.door.app.stack_update(c, stack(w).await.id, &StackChange::default()).await }),
        case!("stack_delete", "uhddaa", w, c => async { w.door.app.stack_delete(c, stack(w).await.id, None, Dependents::Refuse).await }),
        case!("stack_dependents", "uhaaaa", w, c => async { w.door.app.stack_dependents(c, stack(w).await.id).await }),
        case!("stack_graph", "uaaaaa", w, c => w.door.app.stack_graph(c)),
        case!("stack_drift", "uhaaaa", w, c => async { w.door.app.stack_drift(c, stack(w).await.id, &PageArgs::default().request().unwrap()).await }),
        case!("stack_state_versions", "uhaaaa", w, c => async { w.door.app.stack_state_versions(c, stack(w).await.id).await }),
        case!("stack_state_listed", "uhaaaa", w, c => async { w.door.app.stack_state_listed(c, written(w).await.0.id, None).await }),
        case!("stack_state_diff", "uhaaaa", w, c => async { let (stack, both) = written(w).await; w.door.app.stack_state_diff(c, stack.id, both).await }),
        case!("stack_state_head", "uhdaaa", w, c => async { w.door.app.stack_state_head(c, stack(w).await.id, None).await }),
        case!("stack_state_read", "uhdaaa", w, c => async { let (stack, (first, _)) = written(w).await; w.door.app.stack_state_read(c, stack.id, first).await }),
        case!("stack_state_may_write", "uhdaaa", w, c => async { w.door.app.stack_state_may_write(c, stack(w).await.id).await }),
        case!("stack_state_write", "uhdaaa", w, c => async { w.door.app.stack_state_write(c, stack(w).await.id, None, state(1)).await }),
        case!("stack_state_restore", "uhdaaa", w, c => async { let (stack, (first, _)) = written(w).await; w.door.app.stack_state_restore(c, stack.id, first).await }),
        case!("stack_state_lock", "uhdaaa", w, c => async { w.door.app.stack_state_lock(c, stack(w).await.id, &lock()).await }),
        case!("stack_state_unlock", "uhdaaa", w, c => async { w.door.app.stack_state_unlock(c, stack(w).await.id, None).await }),
        case!("stack_state_force_unlock", "uhdaaa", w, c => async { w.door.app.stack_state_force_unlock(c, locked(w).await.id, "one").await }),
    ]
}

fn new(w: &World<'_>) -> NewStack {
    NewStack {
        name: fresh("s").parse().unwrap(),
        tool: StackTool::Terraform,
        project_id: Some(w.project.id),
        protect: false,
        tags: BTreeMap::new(),
        source: None,
        follow: plural_core::stack::StackFollow::default(),
        spec: StackSpec::default(),
        environment: Vec::new(),
        files: BTreeMap::new(),
        bindings: BindingsChange::default(),
    }
}

async fn count_tags(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let tag = (fresh("team"), "a".to_owned());
    let new = NewStack { tags: BTreeMap::from([tag.clone()]), ..new(w) };
    w.door.app.stack_create(&w.door.admin, new).await?;
    let filter = StackFilter { tags: BTreeMap::from([tag.clone()]), ..StackFilter::default() };
    let counts = w.door.app.stack_tags(c, &filter).await?;
    found(counts == [(tag, 1)])
}

pub(super) async fn stack(w: &World<'_>) -> Stack {
    w.door.app.stack_create(&w.door.admin, new(w)).await.unwrap()
}

fn state(serial: u64) -> Bytes {
    format!(r#"{{"version": 4, "serial": {serial}, "lineage": "a", "resources": []}}"#).into()
}

/// A stack with two states.
async fn written(w: &World<'_>) -> (Stack, (StateVersionId, StateVersionId)) {
    let (app, admin) = (&w.door.app, &w.door.admin);
    let stack = stack(w).await;
    for serial in [1, 2] {
        app.stack_state_write(admin, stack.id, None, state(serial)).await.unwrap();
    }
    let versions = app.stack_state_versions(admin, stack.id).await.unwrap();
    (stack, (versions[1].id, versions[0].id))
}

fn lock() -> LockRequest {
    LockRequest::parse(br#"{"ID": "one"}"#).unwrap()
}

async fn locked(w: &World<'_>) -> Stack {
    let stack = stack(w).await;
    w.door.app.stack_state_lock(&w.door.admin, stack.id, &lock()).await.unwrap();
    stack
}
