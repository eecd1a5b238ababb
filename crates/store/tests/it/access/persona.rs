//! Personas: who may do what.

use plural_app::persona::PersonaSelector;
use plural_app::records::Search;
use plural_core::PageArgs;
use plural_core::ids::PersonaId;
use plural_core::persona::{NewPersona, Persona, PersonaChange, PersonaConfiguration};

use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<Persona>", "udddda", w, c => async { w.door.app.get::<Persona>(c, &PersonaSelector::Id(persona(w).await)).await }),
        case!("get_many::<Persona>", "udddda", w, c => async { let id = persona(w).await; found(w.door.app.get_many::<Persona>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<Persona>", "udddda", w, c => w.door.app.list::<Persona>(c, &Search::default(), &PageArgs::default())),
        case!("persona_create", "udddda", w, c => w.door.app.persona_create(c, &new())),
        case!("persona_update", "udddda", w, c => async { w.door.app.persona_update(c, persona(w).await, &PersonaChange::default()).await }),
        case!("persona_delete", "udddda", w, c => async { w.door.app.persona_delete(c, persona(w).await).await }),
        case!("personas_own", "uaaaaa", w, c => w.door.app.personas_own(c)),
    ]
}

fn new() -> NewPersona {
    NewPersona {
        name: fresh("p").parse().unwrap(),
        description: None,
        role: None,
        configuration: PersonaConfiguration::default(),
        subjects: Vec::new(),
    }
}

async fn persona(w: &World<'_>) -> PersonaId {
    w.door.app.persona_create(&w.door.admin, &new()).await.unwrap().id
}
