//! Projects: who may do what.

use plural_app::OpCtx;
use plural_app::project::ProjectSelector;
use plural_app::records::Search;
use plural_core::policy::{BindingsChange, Role};
use plural_core::project::{NewProject, Project, ProjectChange};
use plural_core::project_limits::ProjectLimits;
use plural_core::secret_backend::SecretBackend;
use plural_core::stack_settings::StackSettings;
use plural_core::{Error, PageArgs, Result};

use super::{Case, World, found, fresh, readable};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<Project>", "uhaaaa", w, c => w.door.app.get::<Project>(c, &ProjectSelector::Id(w.project.id))),
        case!("list::<Project>", "uaaaaa", w, c => list_projects(w, c)),
        case!("project_create", "udddda", w, c => w.door.app.project_create(c, &NewProject::named(fresh("p").parse().unwrap()))),
        case!("project_create", "udddda", w, c => w.door.app.project_create(c, &NewProject { bindings: readable(w), ..NewProject::named(fresh("p").parse().unwrap()) })),
        case!("project_update", "uhdaaa", w, c => w.door.app.project_update(c, w.project.id, &ProjectChange { description: Some("d".into()), ..ProjectChange::default() })),
        case!("project_update", "uhddaa", w, c => bind_project(w, c)),
        case!("project_delete", "uhddaa", w, c => delete_project(w, c)),
        case!("project_make_default", "uhddda", w, c => make_default(w, c)),
        case!("get_many::<Project>", "uhaaaa", w, c => async { found(w.door.app.get_many::<Project>(c, &[w.project.id]).await?.contains_key(&w.project.id)) }),
        case!("project_keys", "uhddaa", w, c => w.door.app.project_keys(c, w.project.id)),
        case!("project_keys_rotate", "uhddaa", w, c => w.door.app.project_keys_rotate(c, w.project.id)),
        case!("secret_storage", "uhddaa", w, c => w.door.app.secret_storage(c, w.project.id)),
        case!("secrets_move", "uhddda", w, c => w.door.app.secrets_move(c, w.project.id, SecretBackend::Database)),
        case!("secret_holdings", "uhddaa", w, c => w.door.app.secret_holdings(c, w.project.id, None)),
        case!("project_stack_rules", "uhaaaa", w, c => w.door.app.project_stack_rules(c, &ProjectSelector::Id(w.project.id))),
        case!("project_stack_rules_set", "uhddaa", w, c => w.door.app.project_stack_rules_set(c, &ProjectSelector::Id(w.project.id), &[])),
        case!("project_stack_settings", "uhaaaa", w, c => w.door.app.project_stack_settings(c, &ProjectSelector::Id(w.project.id))),
        case!("project_stack_settings_set", "uhddaa", w, c => w.door.app.project_stack_settings_set(c, &ProjectSelector::Id(w.project.id), &StackSettings::default())),
        case!("project_limits_set", "uhddaa", w, c => w.door.app.project_limits_set(c, &ProjectSelector::Id(w.project.id), &ProjectLimits::default())),
    ]
}

/// Others of the table take the default project for granted: it comes back.
async fn make_default(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let former = w.door.app.get::<Project>(&w.door.admin, &ProjectSelector::Default).await?;
    let made = w.door.app.project_make_default(c, w.project.id).await?;
    assert!(made.default);
    w.door.app.project_make_default(&w.door.admin, former.id).await.map(drop)
}

async fn delete_project(w: &World<'_>, c: &OpCtx) -> Result<()> {
    // Refused for what is in it only after access was decided.
    match w.door.app.project_delete(c, w.project.id).await {
        Err(Error::Conflict { .. }) => Ok(()),
        other => other.map(drop),
    }
}

async fn list_projects(w: &World<'_>, c: &OpCtx) -> Result<()> {
    w.door.app.list::<Project>(c, &Search::default(), &PageArgs::default()).await.map(drop)
}

/// The project's readers stay those that they are: what the other cases expect depends on them.
async fn bind_project(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let bound = w.door.app.binding_list(&w.door.admin, w.project.id).await?;
    let readers = bound.iter().map(|one| &one.binding).filter(|binding| binding.role == Role::Read);
    let read = Some(readers.map(|binding| binding.subject).collect());
    let bindings = BindingsChange { read, ..BindingsChange::default() };
    let change = ProjectChange { bindings, ..ProjectChange::default() };
    w.door.app.project_update(c, w.project.id, &change).await.map(drop)
}
