//! The access rules of `core` as conditions: which bindings concern an actor, which rows it may see.

use std::collections::HashMap;

use plural_core::access::{Actor, Scope, Visibility};
use plural_core::{Binding, ClusterId, PolicyId, ProjectId, Result, ServiceId};
use sea_orm::sea_query::{Condition, Expr, ExprTrait, Query, SelectStatement};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};

use crate::error::db;
use crate::{binding, cluster, service};

/// The chain of a thing: what it is and what it is in.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Chain {
    pub(crate) project: Option<ProjectId>,
    pub(crate) cluster: Option<ClusterId>,
    pub(crate) service: Option<ServiceId>,
}

/// The bindings along a chain that concern `actor`. Others need not be read: they decide nothing for it.
pub(crate) async fn scope(connection: &impl ConnectionTrait, actor: &Actor, chain: Chain) -> Result<Scope> {
    use binding::row::Column;
    let Actor::User(user) = actor else { return Ok(Scope::Chain(Vec::new())) };
    if user.admin {
        return Ok(Scope::Chain(Vec::new()));
    }
    let Chain { project, cluster, service } = chain;
    let mut target = Condition::any();
    if let Some(id) = project {
        target = target.add(Column::ProjectId.eq(id.uuid()));
    }
    if let Some(id) = cluster {
        target = target.add(Column::ClusterId.eq(id.uuid()));
    }
    if let Some(id) = service {
        target = target.add(Column::ServiceId.eq(id.uuid()));
    }
    let bindings = binding::row::Entity::find()
        .filter(target)
        .filter(subject(user.id.uuid(), user.groups.iter().map(|id| id.uuid()).collect()))
        .all(connection)
        .await
        .map_err(db("reading bindings"))?
        .into_iter()
        .map(Binding::try_from)
        .collect::<Result<_>>()?;
    Ok(Scope::Chain(bindings))
}

/// [`scope`] of many chains, in one statement.
pub(crate) async fn scopes(
    connection: &impl ConnectionTrait,
    actor: &Actor,
    chains: &[Chain],
) -> Result<Vec<Scope>> {
    use binding::row::Column;
    let user = match actor {
        Actor::User(user) if !user.admin && !chains.is_empty() => user,
        _ => return Ok(chains.iter().map(|_| Scope::Chain(Vec::new())).collect()),
    };
    let mut bindings: Vec<Binding> = Vec::new();
    for chunk in chains.chunks(250) {
        let target = Condition::any()
            .add(Column::ProjectId.is_in(chunk.iter().filter_map(|c| c.project.map(ProjectId::uuid))))
            .add(Column::ClusterId.is_in(chunk.iter().filter_map(|c| c.cluster.map(ClusterId::uuid))))
            .add(Column::ServiceId.is_in(chunk.iter().filter_map(|c| c.service.map(ServiceId::uuid))));
        let rows = binding::row::Entity::find()
            .filter(target)
            .filter(subject(user.id.uuid(), user.groups.iter().map(|id| id.uuid()).collect()))
            .all(connection)
            .await
            .map_err(db("reading bindings"))?;
        for row in rows {
            bindings.push(row.try_into()?);
        }
    }
    let mut on: HashMap<PolicyId, Vec<Binding>> = HashMap::new();
    for binding in bindings {
        on.entry(binding.policy).or_default().push(binding);
    }
    Ok(chains
        .iter()
        .map(|Chain { project, cluster, service }| {
            let policies: [Option<PolicyId>; 3] =
                [project.map(Into::into), cluster.map(Into::into), service.map(Into::into)];
            Scope::Chain(policies.iter().flatten().filter_map(|id| on.get(id)).flatten().copied().collect())
        })
        .collect())
}

/// Projects that may be seen.
pub(crate) fn projects(visibility: &Visibility, id: impl ColumnTrait) -> Condition {
    match bound(visibility) {
        None => Condition::all(),
        Some(bound) => Condition::all().add(id.in_subquery(bound(binding::row::Column::ProjectId))),
    }
}

/// Clusters that may be seen.
pub(crate) fn clusters(visibility: &Visibility) -> Condition {
    use cluster::row::Column;
    match bound(visibility) {
        None => Condition::all(),
        Some(bound) => Condition::any()
            .add(Column::Id.in_subquery(bound(binding::row::Column::ClusterId)))
            .add(Column::ProjectId.in_subquery(bound(binding::row::Column::ProjectId))),
    }
}

/// Services that may be seen.
pub(crate) fn services(visibility: &Visibility) -> Condition {
    use service::row::Column;
    match bound(visibility) {
        None => Condition::all(),
        Some(bound) => {
            let mut clusters = Query::select();
            clusters
                .column((cluster::row::Entity, cluster::row::Column::Id))
                .from(cluster::row::Entity)
                .and_where(
                    Expr::col((cluster::row::Entity, cluster::row::Column::ProjectId))
                        .in_subquery(bound(binding::row::Column::ProjectId)),
                );
            Condition::any()
                .add(Column::Id.in_subquery(bound(binding::row::Column::ServiceId)))
                .add(Column::ClusterId.in_subquery(bound(binding::row::Column::ClusterId)))
                .add(Column::ClusterId.in_subquery(clusters))
        }
    }
}

/// Makes `SELECT column FROM bindings WHERE subject …`; `None` when everything may be seen.
fn bound(visibility: &Visibility) -> Option<impl Fn(binding::row::Column) -> SelectStatement + use<>> {
    let (user, groups) = match visibility {
        Visibility::All => return None,
        Visibility::Bound { user, groups } => {
            (user.uuid(), groups.iter().map(|id| id.uuid()).collect::<Vec<_>>())
        }
    };
    Some(move |column| {
        let mut select = Query::select();
        select
            .column((binding::row::Entity, column))
            .from(binding::row::Entity)
            .cond_where(subject(user, groups.clone()))
            .and_where(Expr::col((binding::row::Entity, column)).is_not_null());
        select
    })
}

fn subject(user: uuid::Uuid, groups: Vec<uuid::Uuid>) -> Condition {
    use binding::row::Column;
    Condition::any().add(Column::UserId.eq(user)).add(Column::GroupId.is_in(groups))
}
