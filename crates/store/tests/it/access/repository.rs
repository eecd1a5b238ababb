//! Git repositories: who may do what.

use plural_app::OpCtx;
use plural_app::records::Search;
use plural_app::repository::{NewCredentials, RepositorySelector};
use plural_core::repository::{Repository, RepositoryChange};
use plural_core::{PageArgs, Result};

use super::{Case, World, found, new_repository};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<Repository>", "uhaaaa", w, c => w.door.app.get::<Repository>(c, &RepositorySelector::Id(w.repository.id))),
        case!("list::<Repository>", "uhaaaa", w, c => list_repositories(w, c)),
        case!("get_many::<Repository>", "uhaaaa", w, c => async { found(w.door.app.get_many::<Repository>(c, &[w.repository.id]).await?.contains_key(&w.repository.id)) }),
        case!("repository_create", "uhdaaa", w, c => w.door.app.repository_create(c, new_repository(&w.project), NewCredentials::default())),
        case!("repository_update", "uhdaaa", w, c => w.door.app.repository_update(c, w.repository.id, &RepositoryChange::default(), NewCredentials::default())),
        case!("repository_webhook_secret", "uhdaaa", w, c => w.door.app.repository_webhook_secret(c, w.repository.id)),
        case!("repository_webhook_rotate", "uhdaaa", w, c => w.door.app.repository_webhook_rotate(c, w.repository.id)),
        case!("repository_delete", "uhdaaa", w, c => delete_repository(w, c)),
        case!("repository_kick", "uhdaaa", w, c => w.door.app.repository_kick(c, w.repository.id)),
    ]
}

async fn list_repositories(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let page = w.door.app.list::<Repository>(c, &Search::default(), &PageArgs::default()).await?;
    found(page.edges.iter().any(|edge| edge.node.id == w.repository.id))
}

async fn delete_repository(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let new = new_repository(&w.project);
    let repository = w.door.app.repository_create(&w.door.admin, new, NewCredentials::default()).await?;
    w.door.app.repository_delete(c, repository.id).await.map(drop)
}
