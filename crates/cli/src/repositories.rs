//! `plural cd repositories …`.

use std::path::Path;

use chrono::{DateTime, Utc};
use plural_wire::{
    AuthMethod, Client, ClientError, CreateGitRepository, DeleteGitRepository, GetGitRepository,
    GitAttributes, GitHealth, GitRepository, GitVerifyAttributes, HttpProxyAttributes, ListGitRepositories,
    ListServicesUsing, PAGE_SIZE, Secret, UpdateGitRepository, all_pages,
};

use crate::{
    args::{
        RepositoryAccessArgs, RepositoryCommand, RepositoryCreateArgs, RepositoryDeleteArgs,
        RepositoryListArgs, RepositoryUpdateArgs, WaitArgs,
    },
    error::CliError,
    file,
    format::Format,
    key,
    output::{self, Row, or_dash},
    services::{NAMED, check_unused},
    terminal::Terminal,
    wait::{self, Observed},
    watch::watch,
};

const NOTHING: &str = "no repositories found; `plural cd repositories create URL` registers one";

impl Row for GitRepository {
    const HEADINGS: (&'static [&'static str], usize) = (&["URL", "AUTH", "STATUS", "REASON", "ID"], 4);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("repository/{}", self.id)
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        let auth = self.auth_method.map(|method| match method {
            AuthMethod::Basic => "basic",
            AuthMethod::Ssh => "ssh",
            AuthMethod::Unknown => "unknown",
        });
        let health = match self.health {
            Some(GitHealth::Pullable) => "Pullable",
            Some(GitHealth::Failed) => "Failed",
            Some(GitHealth::Unknown) => "Unknown",
            None => "Pending",
        };
        vec![
            or_dash(Some(&self.url)),
            or_dash(auth),
            health.into(),
            output::cell(self.error.as_deref()),
            self.id.clone(),
        ]
    }
}

pub(crate) async fn run(
    command: RepositoryCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        RepositoryCommand::List(args) => list(args, client, terminal).await,
        RepositoryCommand::Get(args) => {
            let repository = args.repository.get(client).await?;
            output::item(&repository, &args.output.output, terminal)
        }
        RepositoryCommand::Update(args) => update(*args, client, terminal).await,
        RepositoryCommand::Create(args) => create(*args, client, terminal).await,
        RepositoryCommand::Delete(args) => delete(args, client, terminal).await,
    }
}

async fn list(
    args: RepositoryListArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let look = async || -> Result<Vec<GitRepository>, ClientError> {
        all_pages(client, |after| ListGitRepositories { after, first: PAGE_SIZE }).await
    };
    if args.watch {
        return watch(&args.output, NOTHING, terminal, look).await;
    }
    output::list(&look().await?, &args.output, NOTHING, terminal)
}

async fn create(
    args: RepositoryCreateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let url = args.repository.or(args.url).ok_or_else(|| CliError::usage("a repository needs an address"))?;
    let attributes = attributes(url, args.access, terminal)?;
    let project_id = key::project_id(client, args.project.as_deref()).await?;
    let repository = client.send(&CreateGitRepository { attributes, project_id }).await?;
    finish(repository, &args.wait, &args.output.output, client, terminal).await
}

async fn update(
    args: RepositoryUpdateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let current = args.repository.get(client).await?;
    let url = args.new_url.unwrap_or_else(|| current.url.clone());
    let is_empty = url == current.url
        && args.access == RepositoryAccessArgs::default()
        && terminal.var("PLURAL_GIT_PROXY").is_none();
    if is_empty {
        return Err(CliError::usage("nothing to change")
            .hint("see the examples of `plural cd repositories update --help`"));
    }
    let attributes = attributes(url, args.access, terminal)?;
    let repository = client.send(&UpdateGitRepository { id: current.id, attributes }).await?;
    finish(repository, &args.wait, &args.output.output, client, terminal).await
}

/// What is told to the console of a repository.
fn attributes(
    url: String,
    access: RepositoryAccessArgs,
    terminal: &mut Terminal<'_>,
) -> Result<GitAttributes, CliError> {
    let password = match &access.username {
        None => None,
        Some(_) if access.password_stdin => Some(terminal.line()?),
        Some(_) => match terminal.var("PLURAL_GIT_PASSWORD") {
            Some(password) => Some(password),
            None => Some(terminal.ask_secret("Password or access token").map_err(|error| {
                error.hint("pipe it in with --password-stdin, or set PLURAL_GIT_PASSWORD")
            })?),
        },
    };
    let private_key = read("the private key", access.private_key.as_deref())?;
    let allowed_signers = read("the allowed signers", access.allowed_signers.as_deref())?;
    let openpgp_keys = read("the OpenPGP keys", access.openpgp_keys.as_deref())?;
    let is_signed = allowed_signers.is_some() || openpgp_keys.is_some();
    let passphrase = private_key.as_ref().and_then(|_| terminal.var("PLURAL_GIT_PASSPHRASE"));
    Ok(GitAttributes {
        url,
        username: access.username,
        password: password.map(Secret::new),
        private_key: private_key.map(Secret::new),
        passphrase: passphrase.map(Secret::new),
        proxy: terminal
            .var("PLURAL_GIT_PROXY")
            .map(|url| HttpProxyAttributes { url: Secret::new(url), noproxy: None }),
        ca_certificate: read("the certificates", access.git_ca_file.as_deref())?,
        known_hosts: read("the host keys", access.known_hosts.as_deref())?,
        verify: is_signed.then_some(GitVerifyAttributes { allowed_signers, openpgp_keys }),
        ..GitAttributes::default()
    })
}

/// Prints a repository that was made or changed, where that is asked for after it was fetched as it is now.
async fn finish(
    mut repository: GitRepository,
    wait: &WaitArgs,
    format: &Format,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    if wait.wait {
        let ask = GetGitRepository { id: Some(repository.id.clone()), url: None };
        let what = format!("a fetch of {}", repository.url);
        repository = wait::until(&what, wait.timeout, terminal, async || {
            let repository = client.send(&ask).await?;
            Ok(match repository.health {
                Some(GitHealth::Pullable) => Observed::Done(repository),
                Some(GitHealth::Failed) => Observed::Never(
                    CliError::new(match &repository.error {
                        Some(error) => or_dash(Some(error)),
                        None => format!("cannot fetch {}", repository.url),
                    })
                    .hint("check its address and credentials; `plural cd repositories update` changes them"),
                ),
                Some(GitHealth::Unknown) | None => Observed::NotYet("not fetched yet".into()),
            })
        })
        .await?;
    } else if repository.health.is_none() {
        terminal.say(
            "it is fetched soon: `plural cd repositories list` shows how that went, --wait waits for it",
        );
    }
    output::item(&repository, format, terminal)
}

fn read(what: &str, path: Option<&Path>) -> Result<Option<String>, CliError> {
    path.map(|path| file::text(what, path)).transpose()
}

async fn delete(
    args: RepositoryDeleteArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let repository = args.repository.get(client).await?;
    let using =
        ListServicesUsing { first: NAMED, repository_id: Some(repository.id.clone()), context_id: None };
    check_unused(&format!("repository {}", repository.url), &using, client).await?;
    terminal.confirm(&format!("remove repository {} from the console", repository.url), args.confirm.yes)?;
    client.send(&DeleteGitRepository { id: repository.id }).await.map_err(|error| {
        let in_use = error.to_string() == "could not delete repository";
        let error = CliError::from(error);
        if in_use {
            error.hint("services still use it: `plural cd services list -o wide` shows which")
        } else {
            error
        }
    })?;
    terminal.say(format_args!("repository {} deleted", repository.url));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_repositories() {
        let repository = |url: &str, auth_method, health, error: Option<&str>| GitRepository {
            id: "0190b8a2-7c11-7def-8000-0123456789ab".into(),
            url: url.into(),
            auth_method,
            signed_commits: false,
            health,
            error: error.map(str::to_owned),
            pulled_at: None,
        };
        let all = [
            repository(
                "https://git.example.com/a.git",
                Some(AuthMethod::Basic),
                Some(GitHealth::Pullable),
                None,
            ),
            repository(
                "git@git.example.com:b.git",
                Some(AuthMethod::Ssh),
                Some(GitHealth::Failed),
                Some("host\nkey"),
            ),
            repository("/srv/c", None, None, None),
        ];
        insta::assert_snapshot!("repositories_table", output::table(&all, false, DateTime::UNIX_EPOCH));
        insta::assert_snapshot!("repositories_wide", output::table(&all, true, DateTime::UNIX_EPOCH));
    }
}
