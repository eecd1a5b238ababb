//! Services that are put together from several sources, as a commit of one of these would have them.

use std::collections::HashMap;

use futures::future::BoxFuture;
use futures::{StreamExt as _, stream};
use plural_core::ids::{ProjectId, ServiceId};

use super::fleet_plans::{BUILDS, Sources, Stop};
use super::sync_sources::{At, Group, composed_digest, composition};
use crate::app::App;
use crate::fleet_plan::FleetTarget;
use crate::ports::charts::ComposeError;
use crate::ports::git::{Built, GitError};

/// Ways to put services together that one plan looks at: each may ask servers for charts.
const MOST_GROUPS: usize = 200;
/// Services of one question.
const AT_ONCE: usize = 500;

/// What one way to put services together gives; nothing where another one of their repositories was not fetched yet.
type Looked = Result<Option<Result<Built, GitError>>, Stop>;

/// What a commit does to services that are put together.
#[derive(Default)]
pub(super) struct Together {
    /// Those that it reaches, each with its artifact at the commit.
    pub(super) reached: Vec<(FleetTarget, Result<Built, GitError>)>,
    /// Those that it does not reach.
    pub(super) untouched: usize,
    /// Those that were not looked at.
    pub(super) unseen: usize,
}

/// Looks at services that are put together. `before` is the commit that the branch is at; without one, what they are at counts.
pub(super) async fn together(
    app: &App,
    project: ProjectId,
    at: &At<'_>,
    before: Option<&str>,
    targets: Vec<FleetTarget>,
) -> Result<Together, Stop> {
    let mut together = Together::default();
    if targets.is_empty() {
        return Ok(together);
    }
    let ids: Vec<ServiceId> = targets.iter().map(|target| target.id).collect();
    let mut targets: HashMap<ServiceId, FleetTarget> =
        targets.into_iter().map(|target| (target.id, target)).collect();
    let mut services = Vec::with_capacity(ids.len());
    for chunk in ids.chunks(AT_ONCE) {
        services.extend(app.store.composed_services(Some(chunk)).await?);
    }
    let mut groups = Group::of(services);
    groups.sort_by_cached_key(Group::key);
    let differ = differ(app, project, at, before, &groups).await?;
    let mut wanted: Vec<Group> = Vec::new();
    for (group, differs) in groups.into_iter().zip(differ) {
        if !differs {
            together.untouched += group.services.len();
        } else if wanted.len() < MOST_GROUPS {
            wanted.push(group);
        } else {
            together.unseen += group.services.len();
        }
    }
    let mut looks: Vec<BoxFuture<'_, Looked>> = Vec::with_capacity(wanted.len());
    for group in &wanted {
        looks.push(Box::pin(look(app, group, at)));
    }
    let found: Vec<Looked> = stream::iter(looks).buffered(BUILDS).collect().await;
    for (group, found) in wanted.iter().zip(found) {
        let Some(built) = found? else {
            together.unseen += group.services.len();
            continue;
        };
        let digest = built.as_ref().ok().map(composed_digest);
        for service in &group.services {
            if digest.is_some() && digest == service.closure_digest {
                together.untouched += 1;
            } else if let Some(target) = targets.remove(&service.id) {
                together.reached.push((target, built.clone()));
            }
        }
    }
    Ok(together)
}

/// Whether something differs that each group reads of the repository, between the commit and the branch.
async fn differ(
    app: &App,
    project: ProjectId,
    at: &At<'_>,
    before: Option<&str>,
    groups: &[Group],
) -> Result<Vec<bool>, Stop> {
    let mut sources = Sources::default();
    let mut places: Vec<Vec<usize>> = Vec::with_capacity(groups.len());
    for group in groups {
        places.push(group.read_at(at).into_iter().map(|spec| sources.add(spec)).collect());
    }
    let Some(before) = before else {
        return Ok(places.iter().map(|read| !read.is_empty()).collect());
    };
    let _turn = app.repositories.turns.build(Some(project)).await;
    let after = app.git.closures(at.access, &at.commit.sha, &sources.specs).await?;
    let before = app.git.closures(at.access, before, &sources.specs).await?;
    let differs = |place: &usize| match (after.get(*place), before.get(*place)) {
        (Some(Ok(after)), Some(Ok(before))) => after != before,
        (Some(Ok(_)), Some(Err(_))) | (Some(Err(_)), Some(Ok(_))) => true,
        // It cannot be read on the branch either: the commit does not change that.
        (Some(Err(_)), Some(Err(_))) | (None, _) | (_, None) => false,
    };
    Ok(places.iter().map(|read| read.iter().any(differs)).collect())
}

async fn look(app: &App, group: &Group, at: &At<'_>) -> Looked {
    let parts = match composition(app, group, at).await? {
        Ok(Some(parts)) => parts,
        Ok(None) => return Ok(None),
        Err(error) => return Ok(Some(Err(error))),
    };
    let turn = app.repositories.turns.look(group.asker()).await;
    let composed = app.composer.compose(&parts).await;
    drop(turn);
    Ok(Some(match composed {
        Ok(composed) => Ok(composed.built),
        Err(ComposeError { error, repository: _ }) => {
            let message = format!("cannot put it together: {}", error.message);
            Err(GitError { message, ..error })
        }
    }))
}
