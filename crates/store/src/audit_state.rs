//! The digest of a thing's own row, for the line of a change.

use plural_app::access::FoundRow;
use plural_core::Result;
use plural_core::audit::AuditEntry;
use plural_core::audit_chain::AuditDigest;
use sea_orm::{ConnectionTrait, EntityTrait, PrimaryKeyTrait};
use uuid::Uuid;

use crate::error::db;
use crate::{
    cluster, custom_stack_run, global_service, group, managed_namespace, pr_automation, pr_governance,
    pr_instance, project, pull_request, repository, saved_view, scm_connection, scm_webhook, service,
    service_context, stack, user,
};

/// Things of one write whose rows are read again; a write about more of them is told without these digests.
const MOST: usize = 16;

/// The lines with the digest of what each thing is now. Only for changes of people: what the console does by itself follows from
/// what they asked for, and is much.
pub(crate) async fn completed_on(
    connection: &impl ConnectionTrait,
    entries: &[AuditEntry],
) -> Result<Vec<AuditEntry>> {
    let mut completed = entries.to_vec();
    if entries.len() > MOST {
        return Ok(completed);
    }
    for entry in &mut completed {
        if entry.user_id.is_none() || entry.after.is_some() {
            continue;
        }
        if let Some(id) = entry.target.id {
            entry.after = state_on(connection, &entry.target.noun, id).await?;
        }
    }
    Ok(completed)
}

async fn state_on(connection: &impl ConnectionTrait, noun: &str, id: Uuid) -> Result<Option<AuditDigest>> {
    match noun {
        "cluster" => row_on::<cluster::row::Entity>(connection, id).await,
        "custom stack run" => row_on::<custom_stack_run::row::Entity>(connection, id).await,
        "git repository" => row_on::<repository::row::Entity>(connection, id).await,
        "global service" => row_on::<global_service::row::Entity>(connection, id).await,
        "group" => row_on::<group::row::Entity>(connection, id).await,
        "managed namespace" => row_on::<managed_namespace::row::Entity>(connection, id).await,
        "pr automation" => row_on::<pr_automation::row::Entity>(connection, id).await,
        "pr governance" => row_on::<pr_governance::row::Entity>(connection, id).await,
        "pr instance" => row_on::<pr_instance::row::Entity>(connection, id).await,
        "project" => row_on::<project::row::Entity>(connection, id).await,
        "pull request" => row_on::<pull_request::row::Entity>(connection, id).await,
        "saved view" => row_on::<saved_view::row::Entity>(connection, id).await,
        "scm webhook" => row_on::<scm_webhook::row::Entity>(connection, id).await,
        "scm connection" => row_on::<scm_connection::row::Entity>(connection, id).await,
        "service" => row_on::<service::row::Entity>(connection, id).await,
        "service context" => row_on::<service_context::row::Entity>(connection, id).await,
        "stack" => row_on::<stack::row::Entity>(connection, id).await,
        "user" => row_on::<user::row::Entity>(connection, id).await,
        // The rest has no row of its own by this name.
        _ => Ok(None),
    }
}

async fn row_on<E>(connection: &impl ConnectionTrait, id: Uuid) -> Result<Option<AuditDigest>>
where
    E: EntityTrait<PrimaryKey: PrimaryKeyTrait<ValueType = Uuid>, Model: Sync + 'static>,
{
    let row = E::find_by_id(id).one(connection).await.map_err(db("reading what was changed"))?;
    Ok(row.map(|row| FoundRow::new(row).digest()))
}
