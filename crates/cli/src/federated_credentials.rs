//! `plural cd federated-credentials …`.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    Client, CreateFederatedCredential, DeleteFederatedCredential, FederatedCredential,
    FederatedCredentialAttributes, ListFederatedCredentials,
};
use serde_json::{Map, Value};

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs},
    error::CliError,
    key::{self, ClusterKey, parse_pair},
    output::{self, Row, age, or_dash},
    proof::{Proof, send_proven},
    service_accounts,
    terminal::Terminal,
};

const NOTHING: &str = "no federated credentials; `plural cd federated-credentials create ACCOUNT` makes one";

/// Tokens of CI systems and clusters that stand for a service account: list, create, delete
#[derive(Debug, Args)]
#[command(visible_alias = "federated-credential", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct FederatedCredentialsArgs {
    #[command(subcommand)]
    pub(crate) command: FederatedCredentialCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FederatedCredentialCommand {
    List(FederatedCredentialListArgs),
    Create(FederatedCredentialCreateArgs),
    Delete(FederatedCredentialDeleteArgs),
}

/// List the federated credentials of a service account
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd federated-credentials list deployer@shop.example.com"
)]
pub(crate) struct FederatedCredentialListArgs {
    /// The service account: its e-mail address or id
    #[arg(value_name = "ACCOUNT")]
    pub(crate) account: String,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Let tokens of an issuer, or of a cluster, stand for a service account
///
/// A job that has such a token logs in with `plural login --id-token-stdin`, without any secret of its own, for an hour. The console
/// asks the issuer for its keys; a cluster's keys are those that its agent reports, and count for that cluster alone. Issuer, audience
/// and subject are compared from end to end; in the subject and in claims, `*` stands for any run of characters.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd federated-credentials create deployer@shop.example.com --issuer https://token.actions.githubusercontent.com \\
    --subject repo:acme/shop:ref:refs/heads/main
  plural cd federated-credentials create deployer@shop.example.com --issuer https://gitlab.example.com \\
    --subject 'project_path:acme/shop:*' --claim ref_protected=true
  plural cd federated-credentials create deployer@shop.example.com --cluster blue --namespace ci --service-account deployer")]
pub(crate) struct FederatedCredentialCreateArgs {
    /// The service account: its e-mail address or id
    #[arg(value_name = "ACCOUNT")]
    pub(crate) account: String,

    /// Who signs the tokens, exactly as their `iss` says it
    #[arg(long, required_unless_present = "cluster", conflicts_with = "cluster", value_name = "URL")]
    pub(crate) issuer: Option<String>,

    /// The cluster whose service accounts have the tokens: its handle or id
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) cluster: Option<ClusterKey>,

    /// Namespace of the cluster's service account
    #[arg(long, requires_all = ["cluster", "service_account"], conflicts_with = "subject", value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,

    /// Name of the cluster's service account
    #[arg(long, requires_all = ["cluster", "namespace"], value_name = "NAME")]
    pub(crate) service_account: Option<String>,

    /// What `sub` must be; --namespace and --service-account say it for a service account of a cluster
    #[arg(long, required_unless_present = "namespace", value_name = "PATTERN")]
    pub(crate) subject: Option<String>,

    /// What `aud` must be, and nothing besides [default: the console's address]
    #[arg(long, value_name = "AUDIENCE")]
    pub(crate) audience: Option<String>,

    /// Another claim and what it must be; may be given several times
    #[arg(long = "claim", value_parser = parse_pair, value_name = "NAME=PATTERN")]
    pub(crate) claims: Vec<(String, String)>,

    /// What the token of the account reaches: `k8s:*`, `k8s:CLUSTER_ID`; may be given several times [default: all that the account
    /// does]
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,

    /// Read your password from standard input instead of asking
    #[arg(long)]
    pub(crate) password_stdin: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a federated credential
///
/// The tokens that were given for it end.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd federated-credentials delete 0190b8a2-7c11-7def-8000-0123456789ab --yes")]
pub(crate) struct FederatedCredentialDeleteArgs {
    /// Its id, as `plural cd federated-credentials list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

impl Row for FederatedCredential {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["ISSUER", "SUBJECT", "AUDIENCE", "CLAIMS", "REACHES", "AGE", "ID"], 7);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("federatedcredential/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let claims: Vec<String> = self
            .claims_like
            .iter()
            .flatten()
            .filter(|(claim, _)| *claim != "sub")
            .map(|(claim, wanted)| format!("{claim}={}", wanted.as_str().unwrap_or_default()))
            .collect();
        // Clusters often call themselves alike.
        let issuer = match &self.cluster {
            Some(cluster) => format!("cluster/{}", cluster.handle.as_ref().unwrap_or(&cluster.id)),
            None => self.issuer.clone(),
        };
        vec![
            or_dash(Some(&issuer)),
            or_dash(self.subject.as_deref()),
            or_dash(Some(&self.audience)),
            or_dash(Some(&claims.join(","))),
            or_dash(Some(&self.scopes.join(","))),
            age(self.inserted_at, now),
            self.id.clone(),
        ]
    }
}

/// What an API server calls a service account in its tokens.
fn of_cluster(namespace: &str, account: &str) -> Result<String, CliError> {
    // A colon or a star would name others, too.
    let is_name = |text: &str| {
        !text.is_empty()
            && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.'))
    };
    if !is_name(namespace) || !is_name(account) {
        return Err(CliError::usage(
            "--namespace and --service-account must be names as Kubernetes has them",
        ));
    }
    Ok(format!("system:serviceaccount:{namespace}:{account}"))
}

pub(crate) async fn run(
    command: FederatedCredentialCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        FederatedCredentialCommand::List(FederatedCredentialListArgs { account, output }) => {
            let user_id = service_accounts::find(&account, client).await?.id;
            let found = client.send(&ListFederatedCredentials { user_id }).await?;
            output::list(&found, &output, NOTHING, terminal)
        }
        FederatedCredentialCommand::Create(args) => {
            let FederatedCredentialCreateArgs {
                account,
                issuer,
                cluster,
                namespace,
                service_account,
                subject,
                audience,
                claims,
                scopes,
                password_stdin,
                output,
            } = args;
            let cluster_id = match cluster {
                Some(cluster) => Some(cluster.get(client).await?.id),
                None => None,
            };
            let subject = match (namespace, service_account) {
                (Some(namespace), Some(account)) => Some(of_cluster(&namespace, &account)?),
                (None | Some(_), None | Some(_)) => subject,
            };
            let user_id = service_accounts::find(&account, client).await?.id;
            let claims: Map<String, Value> =
                claims.into_iter().map(|(claim, wanted)| (claim, Value::String(wanted))).collect();
            let attributes = FederatedCredentialAttributes {
                issuer,
                cluster_id,
                audience,
                subject,
                claims_like: (!claims.is_empty()).then(|| Value::Object(claims).to_string()),
                scopes: (!scopes.is_empty()).then_some(scopes),
                user_id,
            };
            let proof = Proof {
                stdin: password_stdin,
                why: "a federated credential outlasts this login: it needs your password",
                hint: "add --password-stdin and pipe your password in",
            };
            let request = CreateFederatedCredential { attributes, current_password: None };
            let made =
                send_proven(request, |request| &mut request.current_password, &proof, client, terminal)
                    .await?;
            output::item(&made, &output.output, terminal)
        }
        FederatedCredentialCommand::Delete(FederatedCredentialDeleteArgs { id, confirm }) => {
            let id = key::bare_id("federatedcredential", &id).to_owned();
            terminal.confirm(&format!("delete federated credential {id}"), confirm.yes)?;
            client.send(&DeleteFederatedCredential { id: id.clone() }).await?;
            terminal.say(format_args!("federated credential {id} deleted"));
            Ok(())
        }
    }
}
