//! `plural tokens …`, `plural password`.

use chrono::{DateTime, Utc};
use plural_wire::{
    ChangePassword, Client, CreateLastingAccessToken, DeleteAccessToken, ListAccessTokens, ListedAccessToken,
    PAGE_SIZE, ScopeAttributes, Secret, UserAttributes, all_pages,
};

use crate::{
    args::{PasswordArgs, TokenCommand, TokenCreateArgs, TokenListArgs, TokenRevokeArgs},
    error::CliError,
    key::{self, is_id},
    output::{self, Row, age, or_dash},
    proof::{Proof, send_proven},
    terminal::Terminal,
};

impl Row for ListedAccessToken {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["ID", "HINT", "KIND", "REACHES", "EXPIRES", "AGE", "MADE WITH"], 6);

    fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }

    fn name(&self) -> String {
        format!("accesstoken/{}", Row::id(self))
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let expires = self.expires_at.map(|at| at.format("%Y-%m-%d %H:%M").to_string());
        vec![
            Row::id(self).to_owned(),
            or_dash(self.hint.as_deref()),
            if self.session == Some(true) { "session" } else { "token" }.to_owned(),
            or_dash(Some(&self.scopes.join(","))),
            expires.unwrap_or_else(|| "never".to_owned()),
            age(self.inserted_at, now),
            or_dash(self.made_with.as_deref()),
        ]
    }
}

pub(crate) async fn run(
    command: TokenCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        TokenCommand::List(TokenListArgs { output }) => {
            let tokens = all_pages(client, |after| ListAccessTokens { after, first: PAGE_SIZE }).await?;
            output::list(&tokens, &output, "you have no access tokens", terminal)
        }
        TokenCommand::Create(args) => create(args, client, terminal).await,
        TokenCommand::Revoke(args) => revoke(args, client, terminal).await,
    }
}

async fn create(args: TokenCreateArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let TokenCreateArgs { valid_for, clusters, all_clusters, password_stdin } = args;
    let mut scopes = Vec::new();
    if all_clusters {
        scopes.push(ScopeAttributes::kubernetes(None));
    }
    for cluster in clusters {
        scopes.push(ScopeAttributes::kubernetes(Some(cluster.get(client).await?.id)));
    }
    let seconds = |time: std::time::Duration| {
        i32::try_from(time.as_secs()).map(i64::from).map_err(|_| {
            CliError::usage("--valid-for is longer than 68 years: omit it for a token that does not expire")
        })
    };
    let proof = Proof {
        stdin: password_stdin,
        why: "a token that outlasts this login needs your password",
        hint: "add --password-stdin and pipe your password in, or --valid-for with a time within that of your login",
    };
    let request = CreateLastingAccessToken {
        valid_for_seconds: valid_for.map(seconds).transpose()?,
        scopes: (!scopes.is_empty()).then_some(scopes),
        current_password: None,
    };
    let made =
        send_proven(request, |request| &mut request.current_password, &proof, client, terminal).await?;
    let token = made.token.ok_or_else(|| CliError::new("the console created no access token"))?;
    match made.expires_at {
        Some(at) => terminal.say(format_args!("valid until {}", at.to_rfc3339())),
        None => terminal.say("valid until it is revoked"),
    }
    if let Some(id) = made.id {
        terminal.say(format_args!("hint: `plural tokens revoke {id}` revokes it"));
    }
    writeln!(terminal.out, "{}", token.expose())?;
    terminal.out.flush()?;
    Ok(())
}

async fn revoke(args: TokenRevokeArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let TokenRevokeArgs { id, confirm } = args;
    let id = key::bare_id("accesstoken", &id).to_owned();
    if !is_id(&id) {
        return Err(CliError::usage("a token is named by its id, not by its text")
            .hint("`plural tokens list` shows the ids"));
    }
    terminal.confirm(&format!("revoke token {id} and those that were made with it"), confirm.yes)?;
    client.send(&DeleteAccessToken { token: Secret::new(&id) }).await.map_err(|error| {
        CliError::absent(error, || {
            CliError::missing(format!("token {id}"), "`plural tokens list` shows yours")
        })
    })?;
    terminal.say(format_args!("token {id} revoked"));
    Ok(())
}

pub(crate) async fn password(
    args: PasswordArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let PasswordArgs { connection: _, end_tokens, stdin, output } = args;
    let (current, new) = if stdin {
        (terminal.line()?, terminal.line()?)
    } else {
        let current = terminal.ask_secret("Current password")?;
        let new = terminal.ask_secret("New password")?;
        if terminal.ask_secret("New password, again")? != new {
            return Err(CliError::new("the two new passwords differ: nothing was changed"));
        }
        (current, new)
    };
    let changed = client
        .send(&ChangePassword {
            attributes: UserAttributes { password: Some(Secret::new(new)), ..UserAttributes::default() },
            current_password: Secret::new(current),
            end_tokens,
        })
        .await?;
    terminal.say(format_args!("the password of {} is changed; all sessions ended", changed.email));
    let left = changed.remaining_tokens;
    let more = left.page_info.has_next_page;
    let left: Vec<ListedAccessToken> = left.edges.into_iter().map(|edge| edge.node).collect();
    if left.is_empty() {
        terminal.say("all access tokens are revoked: log in again with `plural login`");
        return Ok(());
    }
    terminal.say("these access tokens stay valid; `plural tokens revoke ID` ends one, --end-tokens all:");
    output::list(&left, &output, "", terminal)?;
    if more {
        terminal.say("there are more: `plural tokens list`");
    }
    Ok(())
}
