//! Federated credentials: tokens of CI systems and clusters that stand for a service account.

use std::collections::BTreeMap;

use async_graphql::{Context, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::cluster::ClusterSelector;
use plural_app::federated_credential::IssuerChoice;
use plural_app::machine_account::MachineAccountSelector;
use plural_core::Error;
use plural_core::federated_credential::{FederationTerms, TokenIssuer};
use plural_core::ids::MachineAccountId;
use plural_core::machine_account::MachineAccount;
use plural_core::token::TokenScopes;
use plural_specs::{Json, Map};
use secrecy::SecretString;
use serde_json::Value;

use super::{
    cluster::Cluster,
    error::{IntoGraphql, List, Nullable, exactly_one, id, id_in, items, nullable, parse_option},
    record::by_id,
    request::request,
    user::User,
};

/// Whose tokens stand for a service account.
pub(crate) struct FederatedCredential(plural_core::federated_credential::FederatedCredential);

impl From<plural_core::federated_credential::FederatedCredential> for FederatedCredential {
    fn from(credential: plural_core::federated_credential::FederatedCredential) -> Self {
        Self(credential)
    }
}

/// Whose tokens stand for a service account: who has one exchanges it at `POST /auth/token` for a token of the account.
#[Object]
impl FederatedCredential {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Who signs the tokens, as `iss` says it; empty for a cluster whose agent reports no issuer.
    async fn issuer(&self) -> String {
        self.0.issuer.said().unwrap_or_default().to_owned()
    }

    /// The cluster that signs the tokens, with the keys that its agent reports; absent for an issuer that the console asks for its
    /// keys, and for a cluster that you may not see.
    async fn cluster(&self, ctx: &Context<'_>) -> Nullable<Cluster> {
        nullable(async {
            match &self.0.issuer {
                TokenIssuer::Address(_) => Ok(None),
                TokenIssuer::Cluster { id, reported: _ } => {
                    by_id::<plural_core::cluster::Cluster, _>(ctx, *id).await
                }
            }
        })
        .await
    }

    /// What `aud` must be.
    async fn audience(&self) -> String {
        self.0.terms.audience.clone()
    }

    /// What `sub` must be, from end to end; `*` stands for any run of characters.
    async fn subject(&self) -> Option<String> {
        self.0.terms.claims.get("sub").cloned()
    }

    /// Claims, `sub` among them, and what each must be.
    async fn claims_like(&self) -> Option<Map> {
        let claims = self.0.terms.claims.iter();
        Some(Map(claims.map(|(claim, wanted)| (claim.clone(), Value::String(wanted.clone()))).collect()))
    }

    /// What the account's token reaches: `*`, `k8s:*` or `k8s:CLUSTER_ID`.
    async fn scopes(&self) -> Option<Vec<Option<String>>> {
        Some(self.0.terms.scopes.to_string().split(' ').map(|scope| Some(scope.to_owned())).collect())
    }

    /// The service account.
    async fn user(&self, ctx: &Context<'_>) -> Nullable<User> {
        nullable(async {
            let request = request(ctx);
            let by = MachineAccountSelector::Id(self.0.account);
            let account = request.app.get::<MachineAccount>(&request.op, &by).await.into_graphql(ctx)?;
            Ok(Some(plural_core::user::User::from(account).into()))
        })
        .await
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it was last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// What a federated credential is given; what is absent stays as it is.
#[derive(Debug, InputObject)]
pub(crate) struct FederatedCredentialAttributes {
    /// Who signs the tokens: exactly what their `iss` says. Either this or `clusterId`, and it cannot be changed.
    issuer: Option<String>,
    /// The cluster that signs the tokens of its service accounts: its agent reports issuer and keys.
    cluster_id: Option<ID>,
    /// What `aud` must be, and nothing besides; the console's address when absent.
    audience: Option<String>,
    /// What `sub` must be, from end to end; `*` stands for any run of characters.
    subject: Option<String>,
    /// Further claims and what they must be, as an object of texts; replaces the list.
    claims_like: Option<Json>,
    /// What the account's token reaches, as `k8s:*` or `k8s:CLUSTER_ID`; all that the account does when absent.
    scopes: List<String>,
    /// The service account. It cannot be changed.
    user_id: ID,
}

impl FederatedCredentialAttributes {
    fn issuer(&self) -> plural_core::Result<IssuerChoice> {
        let cluster = id_in("attributes.clusterId", self.cluster_id.as_deref())?;
        match (parse_option("attributes.issuer", self.issuer.as_deref())?, cluster) {
            (Some(issuer), None) => Ok(IssuerChoice::Address(issuer)),
            (None, Some(cluster)) => Ok(IssuerChoice::Cluster(ClusterSelector::Id(cluster))),
            (Some(_), Some(_)) | (None, None) => {
                Err(exactly_one("attributes.issuer and attributes.clusterId"))
            }
        }
    }

    /// Whether they name who signs the tokens of a credential.
    fn names(&self, known: &TokenIssuer) -> plural_core::Result<bool> {
        Ok(match (self.issuer()?, known) {
            (IssuerChoice::Address(issuer), TokenIssuer::Address(known)) => issuer == *known,
            (
                IssuerChoice::Cluster(ClusterSelector::Id(cluster)),
                TokenIssuer::Cluster { id, reported: _ },
            ) => cluster == *id,
            (IssuerChoice::Address(_) | IssuerChoice::Cluster(_), _) => false,
        })
    }

    /// The terms with these attributes; `before` are those of a credential that is changed.
    fn terms(
        &self,
        before: Option<FederationTerms>,
        console: Option<&str>,
    ) -> plural_core::Result<FederationTerms> {
        let claims = match self.claims_like.clone() {
            Some(json) => claims(json)?,
            None => before.as_ref().map(|terms| terms.claims.clone()),
        };
        let mut claims = claims.unwrap_or_default();
        let kept = before.as_ref().and_then(|terms| terms.claims.get("sub").cloned());
        if let Some(subject) = self.subject.clone().or(kept) {
            claims.entry("sub".to_owned()).or_insert_with(|| subject.clone());
            if self.subject.is_some() {
                claims.insert("sub".to_owned(), subject);
            }
        }
        let audience = self.audience.clone().or_else(|| before.as_ref().map(|terms| terms.audience.clone()));
        let scopes = match items(self.scopes.clone()) {
            Some(scopes) => {
                Some(scopes.join(" ").parse::<TokenScopes>().map_err(|e| e.named_in("attributes.scopes"))?)
            }
            None => before.map(|terms| terms.scopes),
        };
        Ok(FederationTerms {
            audience: audience
                .or_else(|| console.map(|url| url.trim_end_matches('/').to_owned()))
                .ok_or_else(|| {
                    Error::invalid(
                        "attributes.audience",
                        "must be given: the console knows no address of its own",
                    )
                })?,
            claims,
            scopes: scopes.unwrap_or_else(TokenScopes::all),
        })
    }
}

fn claims(json: Json) -> plural_core::Result<Option<BTreeMap<String, String>>> {
    let Some(object) = json.object("attributes.claimsLike")? else { return Ok(None) };
    let text = |(claim, value): (String, Value)| match value {
        Value::String(text) => Ok((claim, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(Error::invalid("attributes.claimsLike", "must be an object of texts"))
        }
    };
    object.into_iter().map(text).collect::<plural_core::Result<_>>().map(Some)
}

/// Reading federated credentials.
#[derive(Default)]
pub(crate) struct FederatedCredentialQuery;

/// Reading federated credentials.
#[Object]
impl FederatedCredentialQuery {
    /// One federated credential.
    async fn federated_credential(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] credential: ID,
    ) -> Nullable<FederatedCredential> {
        nullable(async {
            let request = request(ctx);
            let credential = id(&credential).into_graphql(ctx)?;
            let found = request.app.federated_credential(&request.op, credential).await;
            Ok(Some(found.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// The federated credentials of a service account, oldest first: at most 20.
    async fn federated_credentials(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The service account.")] user_id: ID,
    ) -> Nullable<Vec<FederatedCredential>> {
        nullable(async {
            let request = request(ctx);
            let account: MachineAccountId = id(&user_id).into_graphql(ctx)?;
            let found = request.app.federated_credentials(&request.op, account).await.into_graphql(ctx)?;
            Ok(Some(found.into_iter().map(FederatedCredential::from).collect()))
        })
        .await
    }
}

/// Changing federated credentials.
#[derive(Default)]
pub(crate) struct FederatedCredentialMutation;

/// Changing federated credentials.
#[Object]
impl FederatedCredentialMutation {
    /// Lets tokens of an issuer stand for a service account, for those who administer that and may assume it.
    async fn create_federated_credential(
        &self,
        ctx: &Context<'_>,
        attributes: FederatedCredentialAttributes,
        #[graphql(desc = "Your own password; not needed a moment after you signed in.")]
        current_password: Option<String>,
    ) -> Nullable<FederatedCredential> {
        nullable(async {
            let request = request(ctx);
            let account: MachineAccountId = id(&attributes.user_id).into_graphql(ctx)?;
            let issuer = attributes.issuer().into_graphql(ctx)?;
            let terms = attributes.terms(None, request.options.public_url.as_deref()).into_graphql(ctx)?;
            let made = request
                .app
                .federated_credential_create(
                    &request.op,
                    account,
                    issuer,
                    terms,
                    current_password.map(SecretString::from),
                )
                .await;
            Ok(Some(made.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Changes a federated credential.
    async fn update_federated_credential(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] credential: ID,
        attributes: FederatedCredentialAttributes,
        #[graphql(desc = "Your own password; not needed a moment after you signed in.")]
        current_password: Option<String>,
    ) -> Nullable<FederatedCredential> {
        nullable(async {
            let request = request(ctx);
            let credential = id(&credential).into_graphql(ctx)?;
            let known = request.app.federated_credential(&request.op, credential).await.into_graphql(ctx)?;
            let account: MachineAccountId = id(&attributes.user_id).into_graphql(ctx)?;
            if !attributes.names(&known.issuer).into_graphql(ctx)? || known.account != account {
                let told =
                    Error::invalid("attributes", "keeps its issuer and its account: make another credential");
                return Err(told).into_graphql(ctx);
            }
            let changed = request
                .app
                .federated_credential_update(
                    &request.op,
                    credential,
                    |terms| attributes.terms(Some(terms), None),
                    current_password.map(SecretString::from),
                )
                .await;
            Ok(Some(changed.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Deletes a federated credential: the tokens that were given for it end.
    async fn delete_federated_credential(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] credential: ID,
    ) -> Nullable<FederatedCredential> {
        nullable(async {
            let request = request(ctx);
            let credential = id(&credential).into_graphql(ctx)?;
            let gone = request.app.federated_credential_delete(&request.op, credential).await;
            Ok(Some(gone.into_graphql(ctx)?.into()))
        })
        .await
    }
}
