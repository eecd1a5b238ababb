//! `plural cd helm-repositories …`.

use chrono::{DateTime, Utc};
use plural_wire::{
    Client, DeleteHelmRepository, GitHealth, HelmAuthAttributes, HelmAuthProvider, HelmBasicAuthAttributes,
    HelmBearerAuthAttributes, HelmRepository, HelmRepositoryAttributes, ListHelmRepositories, PAGE_SIZE,
    Secret, UpsertHelmRepository, all_pages,
};

use crate::{
    args::{HelmRepositoryCommand, HelmRepositoryDeleteArgs, HelmRepositoryListArgs, HelmRepositorySetArgs},
    documents::Kind,
    error::CliError,
    file, key,
    output::{self, Row, or_dash},
    terminal::Terminal,
};

const NOTHING: &str = "no chart repositories found; `plural cd helm-repositories set URL` registers one";

impl Row for HelmRepository {
    const HEADINGS: (&'static [&'static str], usize) = (&["URL", "AUTH", "STATUS", "ID", "ERROR"], 3);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("helmrepository/{}", self.id)
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        let auth = self.provider.map(|provider| match provider {
            HelmAuthProvider::Basic => "basic",
            HelmAuthProvider::Bearer => "bearer",
            HelmAuthProvider::Aws => "aws",
            HelmAuthProvider::Azure => "azure",
            HelmAuthProvider::Gcp => "gcp",
            HelmAuthProvider::Unknown => "unknown",
        });
        let health = match self.health {
            Some(GitHealth::Pullable) => "Pullable",
            Some(GitHealth::Failed) => "Failed",
            Some(GitHealth::Unknown) => "Unknown",
            None => "Unused",
        };
        vec![
            or_dash(Some(&self.url)),
            or_dash(auth),
            health.into(),
            self.id.clone(),
            or_dash(self.error.as_deref()),
        ]
    }
}

pub(crate) async fn run(
    command: HelmRepositoryCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        HelmRepositoryCommand::List(args) => list(args, client, terminal).await,
        HelmRepositoryCommand::Set(args) => set(args, client, terminal).await,
        HelmRepositoryCommand::Delete(args) => delete(args, client, terminal).await,
    }
}

async fn list(
    args: HelmRepositoryListArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let all: Vec<HelmRepository> =
        all_pages(client, |after| ListHelmRepositories { after, first: PAGE_SIZE }).await?;
    output::list(&all, &args.output, NOTHING, terminal)
}

async fn set(
    args: HelmRepositorySetArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let HelmRepositorySetArgs {
        repository,
        project,
        username,
        bearer,
        password_stdin,
        ca_certificate,
        output,
    } = args;
    let secret = if username.is_none() && !bearer {
        None
    } else if password_stdin {
        Some(terminal.line()?)
    } else {
        Some(match terminal.var("PLURAL_HELM_PASSWORD") {
            Some(password) => password,
            None => terminal.ask_secret("Password or token").map_err(|error| {
                error.hint("pipe it in with --password-stdin, or set PLURAL_HELM_PASSWORD")
            })?,
        })
    };
    let auth = secret.map(Secret::new).map(|secret| match username {
        Some(username) => HelmAuthAttributes {
            basic: Some(HelmBasicAuthAttributes { username, password: secret }),
            ..HelmAuthAttributes::default()
        },
        None => HelmAuthAttributes {
            bearer: Some(HelmBearerAuthAttributes { token: secret }),
            ..HelmAuthAttributes::default()
        },
    });
    let ca_certificate = match &ca_certificate {
        None => None,
        Some(path) => Some(file::text("the certificates", path)?),
    };
    let project_id = match project.as_deref() {
        None => None,
        Some("") => Some(String::new()),
        Some(project) => Some(key::project(client, project).await?.id),
    };
    let attributes = HelmRepositoryAttributes { project_id, auth, ca_certificate, provider: None };
    let gives = attributes.auth.is_some();
    let repository =
        client.send(&UpsertHelmRepository { url: url(&repository, client).await?, attributes }).await?;
    if let Some(error) = repository.error.as_deref().filter(|_| !gives && repository.provider.is_none()) {
        terminal.say(format_args!("{}", or_dash(Some(error))));
    }
    output::item(&repository, &output.output, terminal)
}

/// The address that a person names, or means by what `-o name` prints.
async fn url(text: &str, client: &Client) -> Result<String, CliError> {
    let bare = Kind::HelmRepository.bare(text);
    if bare.len() == text.len() || bare.contains("://") {
        return Ok(bare.to_owned());
    }
    let all = all_pages(client, |after| ListHelmRepositories { after, first: PAGE_SIZE }).await?;
    match all.iter().find(|one| one.id == bare) {
        Some(one) => Ok(one.url.clone()),
        None => key::address_called(bare, all.iter().map(|one| one.url.as_str())),
    }
}

async fn delete(
    args: HelmRepositoryDeleteArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let url = url(&args.repository, client).await?;
    terminal.confirm(&format!("delete the credentials of {url}"), args.confirm.yes)?;
    client.send(&DeleteHelmRepository { url: url.clone() }).await?;
    terminal.say(format_args!("helm repository {url} deleted"));
    Ok(())
}
