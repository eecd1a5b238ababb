//! Definitions of stacks: who may do what.

use plural_app::records::Search;
use plural_app::stack_definition::StackDefinitionSelector;
use plural_core::PageArgs;
use plural_core::ids::StackDefinitionId;
use plural_core::stack_definition::{NewStackDefinition, StackDefinition};
use plural_core::stack_spec::{StackCommand, StackConfiguration};

use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<StackDefinition>", "uaaaaa", w, c => async { w.door.app.get::<StackDefinition>(c, &StackDefinitionSelector::Id(definition(w).await)).await }),
        case!("get_many::<StackDefinition>", "uaaaaa", w, c => async { let id = definition(w).await; found(w.door.app.get_many::<StackDefinition>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<StackDefinition>", "uaaaaa", w, c => w.door.app.list::<StackDefinition>(c, &Search::default(), &PageArgs::default())),
        case!("stack_definition_create", "udddda", w, c => async { w.door.app.stack_definition_create(c, &new()).await }),
        case!("stack_definition_update", "udddda", w, c => async { w.door.app.stack_definition_update(c, definition(w).await, &new(), None).await }),
        case!("stack_definition_delete", "udddda", w, c => async { w.door.app.stack_definition_delete(c, definition(w).await).await }),
    ]
}

fn new() -> NewStackDefinition {
    NewStackDefinition {
        name: fresh("d").parse().unwrap(),
        description: None,
        configuration: StackConfiguration::default(),
        steps: vec![StackCommand { cmd: "make".to_owned(), args: Vec::new(), stage: None, approve: false }],
        delete_steps: Vec::new(),
    }
}

async fn definition(w: &World<'_>) -> StackDefinitionId {
    w.door.app.stack_definition_create(&w.door.admin, &new()).await.unwrap().id
}
