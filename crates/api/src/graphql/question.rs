//! May I, why, and who else: access, as people ask about it.

use async_graphql::{Context, ID, Object};
use plural_app::question::{AccessAnswer, BoundPlace, Holder, Question};
use plural_core::access::Action;

use super::{
    binding::{group_of, user_of},
    error::{IntoGraphql, List, Nullable, nullable, parse_option},
    group::Group,
    limited::limited,
    request::request,
    user::User,
};

/// Whether somebody may do something, and why.
pub(crate) struct AccessDecision(AccessAnswer);

/// Whether somebody may do something, and why.
#[Object]
impl AccessDecision {
    /// Yes or no.
    async fn allowed(&self) -> bool {
        self.0.allowed
    }

    /// The action that the verb needs, as roles name it.
    async fn action(&self) -> &'static str {
        self.0.action.as_str()
    }

    /// What that action lets do.
    async fn meaning(&self) -> &'static str {
        Action::lets(self.0.action)
    }

    /// Why, for people.
    async fn reason(&self) -> &str {
        &self.0.reason
    }

    /// The binding that allows it, if one does.
    async fn holder(&self) -> Option<AccessHolder> {
        self.0.holder.clone().map(AccessHolder)
    }

    /// What would allow it, for people.
    async fn needed(&self) -> Option<&str> {
        self.0.needed.as_deref()
    }

    /// Who could give that besides administrators of the installation, as far as you may know.
    async fn givers(&self, ctx: &Context<'_>) -> List<AccessHolder> {
        limited(ctx, self.0.givers.iter().cloned().map(AccessHolder))
    }
}

/// A user or a group with a role on something.
pub(crate) struct AccessHolder(Holder);

/// A user or a group with a role on something.
#[Object]
impl AccessHolder {
    /// The role: a built-in one, or the name of one that administrators made.
    async fn role(&self) -> &str {
        &self.0.role
    }

    /// The user, if it is one.
    async fn user(&self) -> Option<User> {
        user_of(&self.0.bound.subject)
    }

    /// The group, if it is one.
    async fn group(&self) -> Option<Group> {
        group_of(&self.0.bound.subject)
    }

    /// What the role is on, as `project/shop`; absent where you may not read that.
    async fn thing(&self) -> Option<String> {
        let BoundPlace { policy, name } = self.0.on.as_ref()?;
        Some(format!("{}/{name}", policy.noun().as_str().replace(' ', "-")))
    }

    /// Id of what the role is on; absent where you may not read that.
    async fn thing_id(&self) -> Option<ID> {
        Some(self.0.on.as_ref()?.policy.id().to_string().into())
    }
}

fn question(
    verb: String,
    thing: &str,
    within: Option<&str>,
    user: Option<&str>,
) -> plural_core::Result<Question> {
    Ok(Question {
        verb,
        thing: thing.parse()?,
        within: within.map(str::parse).transpose()?,
        user: parse_option("email", user)?,
    })
}

/// Asking about access.
#[derive(Default)]
pub(crate) struct QuestionQuery;

/// Asking about access.
#[Object]
impl QuestionQuery {
    /// Whether you may do something, and why; with an address whether that user may, which administrators ask.
    async fn access_decision(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "`get`, `delete`, `rollback`, or the word of an action.")] verb: String,
        #[graphql(desc = "`cluster/blue`, `service/blue/web`, or `clusters` for what has no name yet.")]
        thing: String,
        #[graphql(desc = "For what has no name yet: `project/shop`, `cluster/blue`.")] within: Option<String>,
        #[graphql(desc = "E-mail address of the user to decide about.")] email: Option<String>,
    ) -> Nullable<AccessDecision> {
        nullable(async {
            let request = request(ctx);
            let question = question(verb, &thing, within.as_deref(), email.as_deref()).into_graphql(ctx)?;
            let answer = request.app.access_check(&request.op, &question).await.into_graphql(ctx)?;
            Ok(Some(AccessDecision(answer)))
        })
        .await
    }

    /// Who may do something, besides administrators of the installation; for those who administer the thing.
    async fn access_holders(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "`get`, `delete`, `rollback`, or the word of an action.")] verb: String,
        #[graphql(desc = "`cluster/blue`, `service/blue/web`, or `clusters` for what has no name yet.")]
        thing: String,
        #[graphql(desc = "For what has no name yet: `project/shop`, `cluster/blue`.")] within: Option<String>,
    ) -> Nullable<Vec<Option<AccessHolder>>> {
        nullable(async {
            let request = request(ctx);
            let question = question(verb, &thing, within.as_deref(), None).into_graphql(ctx)?;
            let holders = request.app.access_holders(&request.op, &question).await.into_graphql(ctx)?;
            Ok(limited(ctx, holders.into_iter().map(AccessHolder)))
        })
        .await
    }
}
