//! Tokens of the actors of runs.

use plural_app::secret::TokenHash;
use plural_core::Result;
use plural_core::access::UserActor;
use plural_core::ids::{ProjectId, StackRunId, TokenId, UserId};
use plural_core::stack_run::{RunPhase, RunStatus, StackRun};
use plural_core::token::{PresentedToken, TokenScopes};
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

use super::row::run;
use crate::database::Database;
use crate::error::db;
use crate::{group, user};

/// A Job that applies now.
fn applies() -> Condition {
    Condition::all()
        .add(run::Column::FinishedAt.is_null())
        .add(run::Column::CredentialHash.is_not_null())
        .add(run::Column::Status.eq(RunStatus::Running.as_str()))
        .add(run::Column::Phase.eq(RunPhase::Apply.as_str()))
}

impl Database {
    pub(super) async fn run_actor_begins(
        &self,
        id: StackRunId,
        attempt: u32,
        hash: &TokenHash,
    ) -> Result<bool> {
        let write = self.write().await?;
        let written = run::Entity::update_many()
            .col_expr(run::Column::ActorHash, Expr::value(hash.as_bytes().to_vec()))
            .filter(run::Column::Id.eq(id.uuid()))
            .filter(run::Column::Attempt.eq(i64::from(attempt)))
            .filter(applies())
            .exec(&write.tx)
            .await
            .map_err(db("beginning the token of a run's actor"))?;
        write.commit().await?;
        Ok(written.rows_affected > 0)
    }

    pub(super) async fn run_actor(&self, hash: &TokenHash) -> Result<Option<UserActor>> {
        let found = run::Entity::find()
            .filter(run::Column::ActorHash.eq(hash.as_bytes().to_vec()))
            .filter(applies())
            .one(&self.reader)
            .await
            .map_err(db("looking for whose token of a run's actor it is"))?;
        let Some(found) = found else { return Ok(None) };
        let (id, project) = (found.id, found.project_id);
        let run = StackRun::try_from(found)?;
        let Some(actor) = run.snapshot.spec.actor else { return Ok(None) };
        let user = user::row::Entity::find_by_id(actor.uuid()).one(&self.reader).await;
        let user = user.map_err(db("looking up the actor of a run"))?;
        let Some(user) = user.filter(|user| user.suspended_at.is_none()) else { return Ok(None) };
        let groups = group::ids_of_on(&self.reader, user.id).await?;
        Ok(Some(UserActor {
            id: UserId::from_uuid(user.id),
            email: user.email,
            admin: user.admin,
            groups,
            token: Some(PresentedToken {
                // Of the run itself: it is in no table of tokens.
                id: TokenId::from_uuid(id),
                scopes: TokenScopes::of_run(ProjectId::from_uuid(project)),
                expires_at: None,
                signed_in_at: None,
                assumed_by: Some(format!("run:{}", StackRunId::from_uuid(id))),
            }),
        }))
    }
}
