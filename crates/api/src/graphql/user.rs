//! Users, and signing in.

use async_graphql::{Context, Enum, ID, InputObject, Object, Result, SimpleObject};
use chrono::{DateTime, Utc};
use plural_app::records::Search;
use plural_app::user::{NewPassword, UserSelector};
use plural_core::PageArgs;
use plural_core::access::Actor;
use plural_core::ids::{MachineAccountId, UserId};
use plural_core::policy::Role;
use plural_core::user::{NewUser, UserChange};
use secrecy::{ExposeSecret, SecretString};

use super::{
    access_token::AccessTokenConnection,
    binding::{PolicyBinding, bindings_of},
    error::{IntoGraphql, Nullable, nullable, parse, parse_option, unsupported},
    group::Group,
    limited::limited,
    page::{connection, page_args},
    persona::Persona,
    project::Project,
    record::{by_id, one, page_of},
    request::request,
};

/// A person or a machine account.
pub(crate) struct User {
    #[expect(clippy::struct_field_names, reason = "what this is the shape of")]
    user: plural_core::user::User,
    session: Option<SecretString>,
    remaining: Option<AccessTokenConnection>,
}

impl From<plural_core::user::User> for User {
    fn from(user: plural_core::user::User) -> Self {
        Self { user, session: None, remaining: None }
    }
}

connection!(UserConnection, UserEdge, User);

/// What a user may do everywhere.
#[derive(SimpleObject)]
pub(crate) struct UserRoles {
    /// Everything.
    admin: Option<bool>,
}

/// A person or a machine account.
#[Object]
impl User {
    /// Id.
    async fn id(&self) -> ID {
        self.user.id.to_string().into()
    }

    /// Name for people.
    async fn name(&self) -> &str {
        self.user.name.as_str()
    }

    /// Unique e-mail address.
    async fn email(&self) -> &str {
        self.user.email.as_str()
    }

    /// What the user may do everywhere.
    async fn roles(&self) -> Option<UserRoles> {
        Some(UserRoles { admin: Some(self.user.admin) })
    }

    /// Whether it is a service account: a machine that a project owns.
    async fn service_account(&self) -> Option<bool> {
        Some(self.user.machine_of.is_some())
    }

    /// Of a service account, the project that owns it.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.user.machine_of)).await
    }

    /// Of a service account, the policy that says who may assume it.
    async fn assume_policy_id(&self) -> Option<String> {
        self.user.machine_of.map(|_| self.user.id.to_string())
    }

    /// Of a service account, who may assume it besides administrators of its project.
    async fn assume_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(async {
            if self.user.machine_of.is_none() {
                return Ok(None);
            }
            let policy = MachineAccountId::from_uuid(self.user.id.uuid()).into();
            bindings_of(ctx, policy, Role::Assume).await
        })
        .await
    }

    /// Groups that the user is a member of.
    async fn groups(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<Group>>> {
        nullable(async {
            let request = request(ctx);
            let look_up =
                async |ids: Vec<_>| request.app.users_groups(&request.op, &ids).await.into_graphql(ctx);
            let groups = request.batches.memberships.get(self.user.id, look_up).await?.unwrap_or_default();
            Ok(limited(ctx, groups.into_iter().map(Group::from)))
        })
        .await
    }

    /// What the user is shown of the web console; told of yourself only. It says nothing of what the user may do.
    async fn personas(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<Persona>>> {
        nullable(async {
            let request = request(ctx);
            if !matches!(request.op.actor(), Actor::User(user) if user.id == self.user.id) {
                return Ok(None);
            }
            let own = request.app.personas_own(&request.op).await.into_graphql(ctx)?;
            Ok(limited(ctx, own.into_iter().map(Persona::from)))
        })
        .await
    }

    /// The session's bearer token; told only by `signIn`, once.
    async fn jwt(&self) -> Option<&str> {
        self.session.as_ref().map(ExposeSecret::expose_secret)
    }

    /// The first of the tokens that a change of the password left valid; told only by that change.
    async fn remaining_tokens(&self) -> Option<&AccessTokenConnection> {
        self.remaining.as_ref()
    }

    /// Since when the user may not sign in; absent for one who may.
    async fn suspended_at(&self) -> Option<DateTime<Utc>> {
        self.user.suspended_at
    }

    /// Signing in with the password wants a code as well. For the user and for administrators.
    async fn second_factor(&self, ctx: &Context<'_>) -> Nullable<bool> {
        nullable(async {
            let request = request(ctx);
            match request.app.second_factor_is_on(&request.op, self.user.id).await {
                Ok(is_on) => Ok(Some(is_on)),
                Err(plural_core::Error::Forbidden { .. } | plural_core::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error).into_graphql(ctx),
            }
        })
        .await
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.user.created_at)
    }

    /// When it was last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.user.updated_at)
    }
}

/// A user changed; with a new password, together with the tokens that it left valid.
async fn updated(ctx: &Context<'_>, id: UserId, Parsed { change, password, proof }: Parsed) -> Result<User> {
    let request = request(ctx);
    let tells = password.is_some();
    let op = request.app.proven(&request.op, proof).await.into_graphql(ctx)?;
    let user = User::from(request.app.user_update(&op, id, &change, password).await.into_graphql(ctx)?);
    if !tells {
        return Ok(user);
    }
    let left = request.app.token_list_of(&request.op, id, &PageArgs::default()).await.into_graphql(ctx)?;
    Ok(User { remaining: Some(left.into()), ..user })
}

/// What a user may do everywhere.
#[derive(Debug, InputObject)]
pub(crate) struct UserRoleAttributes {
    /// Everything.
    admin: Option<bool>,
}

impl UserRoleAttributes {
    /// Whether everything is asked for.
    pub(crate) fn is_admin(&self) -> bool {
        self.admin == Some(true)
    }
}

/// What a user is given; what is absent stays as it is.
#[derive(InputObject)]
pub(crate) struct UserAttributes {
    /// Name for people.
    name: Option<String>,
    /// Unique e-mail address.
    email: Option<String>,
    /// A password to sign in with.
    password: Option<String>,
    /// What the user may do everywhere.
    roles: Option<UserRoleAttributes>,
    /// Refused: there is no page to choose.
    homepage: Option<Homepage>,
    /// Refused: the console sends no mail.
    email_settings: Option<EmailSettingsAttributes>,
    /// Refused: the console signs no commits.
    signing_private_key: Option<String>,
}

/// The page that a user sees first in the original console.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum Homepage {
    /// Clusters.
    Clusters,
    /// Workbenches.
    Workbenches,
    /// Flows.
    Flows,
}

/// Mail that a user gets.
#[derive(Debug, InputObject)]
pub(crate) struct EmailSettingsAttributes {
    /// A summary, now and then.
    digest: Option<bool>,
}

/// How it is proven who sets a password, and what becomes of the tokens.
#[derive(Debug, Default)]
struct Proof {
    current_password: Option<String>,
    end_tokens: Option<bool>,
}

struct Parsed {
    change: UserChange,
    password: Option<NewPassword>,
    /// The caller's own password, where no other is set with it.
    proof: Option<SecretString>,
}

impl UserAttributes {
    fn parse(self, proof: Proof) -> plural_core::Result<Parsed> {
        let Self { name, email, password, roles, homepage, email_settings, signing_private_key } = self;
        unsupported(
            "attributes.homepage",
            homepage.is_some(),
            "is not supported: this console has no page to choose. Leave it out",
        )?;
        unsupported(
            "attributes.emailSettings",
            email_settings.is_some_and(|settings| settings.digest == Some(true)),
            "is not supported: this console sends no mail. Leave it out",
        )?;
        unsupported(
            "attributes.signingPrivateKey",
            signing_private_key.is_some_and(|key| !key.is_empty()),
            "is not supported: this console makes no commits to sign. Leave it out",
        )?;
        let Proof { current_password, end_tokens } = proof;
        let mut current = current_password.map(SecretString::from);
        if end_tokens == Some(true) && password.is_none() {
            return Err(plural_core::Error::invalid(
                "endTokens",
                "needs a new password (attributes.password)",
            ));
        }
        Ok(Parsed {
            change: UserChange {
                email: parse_option("attributes.email", email.as_deref())?,
                name: parse_option("attributes.name", name.as_deref())?,
                admin: roles.and_then(|roles| roles.admin),
            },
            password: password.map(|text| NewPassword {
                text: SecretString::from(text),
                current: current.take(),
                end_tokens: end_tokens.unwrap_or_default(),
            }),
            proof: current,
        })
    }
}

impl Parsed {
    fn into_new(self) -> plural_core::Result<(NewUser, Option<NewPassword>)> {
        let UserChange { email, name, admin } = self.change;
        let missing = |field| plural_core::Error::invalid(field, "must be given for a new user");
        let email = email.ok_or_else(|| missing("attributes.email"))?;
        let name = name.ok_or_else(|| missing("attributes.name"))?;
        Ok((NewUser { email, name, admin: admin.unwrap_or(false) }, self.password))
    }
}

/// Reading users.
#[derive(Default)]
pub(crate) struct UserQuery;

/// Reading users.
#[Object]
impl UserQuery {
    /// Who you are.
    async fn me(&self, ctx: &Context<'_>) -> Nullable<User> {
        nullable(async {
            let request = request(ctx);
            Ok(Some(request.app.user_me(&request.op).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// One user, by e-mail address.
    async fn user(&self, ctx: &Context<'_>, email: String) -> Nullable<User> {
        one::<plural_core::user::User, _>(ctx, parse("email", &email).map(UserSelector::Email)).await
    }

    /// All users.
    async fn users(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only with this in their name or address.")] q: Option<String>,
    ) -> Nullable<UserConnection> {
        page_of::<plural_core::user::User, _>(ctx, Ok(Search { q }), page_args(after, first, before, last))
            .await
    }
}

/// Changing users.
#[derive(Default)]
pub(crate) struct UserMutation;

/// Changing users.
#[Object]
impl UserMutation {
    /// Opens a session. The one operation that needs no credential.
    async fn sign_in(
        &self,
        ctx: &Context<'_>,
        email: String,
        password: String,
        #[graphql(desc = "Of an authenticator app, or a recovery code, where the user has a second factor.")]
        code: Option<String>,
    ) -> Nullable<User> {
        nullable(async {
            let request = request(ctx);
            let password = SecretString::from(password);
            let session =
                request.app.session_create_with(&request.op, &email, password, code.as_deref()).await;
            let session = session.into_graphql(ctx)?.text;
            // The rest of the answer is what the new session may see of its user.
            let actor = request.app.actor_authenticate(session.expose_secret()).await.into_graphql(ctx)?;
            let op = request.app.ctx(actor).with_request_id(request.op.request_id());
            let user = request.app.user_me(&op).await.into_graphql(ctx)?;
            Ok(Some(User { session: Some(session), ..user.into() }))
        })
        .await
    }

    /// Makes a user. With a password it needs yours, or a session of a moment ago.
    async fn create_user(
        &self,
        ctx: &Context<'_>,
        attributes: UserAttributes,
        #[graphql(desc = "Your own password.")] current_password: Option<String>,
    ) -> Nullable<User> {
        nullable(async {
            let request = request(ctx);
            let proof = Proof { current_password, end_tokens: None };
            let mut parsed = attributes.parse(proof).into_graphql(ctx)?;
            let op = request.app.proven(&request.op, parsed.proof.take()).await.into_graphql(ctx)?;
            let (new, password) = parsed.into_new().into_graphql(ctx)?;
            Ok(Some(request.app.user_create(&op, &new, password).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Changes a user; yourself when no id is given. A new password needs your own current one, or a session of a moment ago. It
    /// ends all sessions of the user.
    async fn update_user(
        &self,
        ctx: &Context<'_>,
        id: Option<ID>,
        attributes: UserAttributes,
        #[graphql(desc = "Your own password, as it is now.")] current_password: Option<String>,
        #[graphql(desc = "Ends the user's access tokens too, with the new password.")] end_tokens: Option<
            bool,
        >,
    ) -> Nullable<User> {
        nullable(async {
            let request = request(ctx);
            let id = match id {
                Some(id) => super::error::id(&id).into_graphql(ctx)?,
                None => request.app.user_me(&request.op).await.into_graphql(ctx)?.id,
            };
            let proof = Proof { current_password, end_tokens };
            let parsed = attributes.parse(proof).into_graphql(ctx)?;
            Ok(Some(updated(ctx, id, parsed).await?))
        })
        .await
    }

    /// Makes the user of this e-mail address, or changes the one there is.
    async fn upsert_user(
        &self,
        ctx: &Context<'_>,
        attributes: UserAttributes,
        #[graphql(
            desc = "Your own password; needed with a password, unless your session is of a moment ago."
        )]
        current_password: Option<String>,
        #[graphql(desc = "Ends the user's access tokens too, with the new password.")] end_tokens: Option<
            bool,
        >,
    ) -> Nullable<User> {
        nullable(async {
            let request = request(ctx);
            let mut parsed = attributes.parse(Proof { current_password, end_tokens }).into_graphql(ctx)?;
            let user = match &parsed.change.email {
                Some(email) => {
                    let by = UserSelector::Email(email.clone());
                    match request.app.get::<plural_core::user::User>(&request.op, &by).await {
                        Ok(user) => Some(user),
                        Err(plural_core::Error::NotFound { .. }) => None,
                        Err(error) => return Err(error).into_graphql(ctx),
                    }
                }
                None => None,
            };
            if let Some(user) = user {
                return Ok(Some(updated(ctx, user.id, parsed).await?));
            }
            let op = request.app.proven(&request.op, parsed.proof.take()).await.into_graphql(ctx)?;
            let (new, password) = parsed.into_new().into_graphql(ctx)?;
            Ok(Some(request.app.user_create(&op, &new, password).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Suspends a user: their sessions and tokens end, and they get no other until `resumeUser`.
    async fn suspend_user(&self, ctx: &Context<'_>, id: ID) -> Nullable<User> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&id).into_graphql(ctx)?;
            Ok(Some(request.app.user_suspend(&request.op, id).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Lets a suspended user sign in again. The tokens that they had do not come back.
    async fn resume_user(&self, ctx: &Context<'_>, id: ID) -> Nullable<User> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&id).into_graphql(ctx)?;
            Ok(Some(request.app.user_resume(&request.op, id).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Deletes a user with its tokens, memberships and bindings; the last administrator stays.
    async fn delete_user(&self, ctx: &Context<'_>, id: ID) -> Nullable<User> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&id).into_graphql(ctx)?;
            Ok(Some(request.app.user_delete(&request.op, id).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
