//! `plural cd saved-views …`.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    Client, CreateSavedView, DeleteSavedView, ListSavedViews, PAGE_SIZE, SavedView, SavedViewAttributes,
    all_pages,
};

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs},
    error::CliError,
    key,
    output::{self, Row, or_dash},
    terminal::Terminal,
};

/// Saved views, pages of the web console with their filters: list, create, delete
#[derive(Debug, Args)]
#[command(visible_alias = "saved-view", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct SavedViewsArgs {
    #[command(subcommand)]
    pub(crate) command: SavedViewCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SavedViewCommand {
    List(SavedViewListArgs),
    Create(SavedViewCreateArgs),
    Delete(SavedViewDeleteArgs),
}

/// List your saved views, and those that are shared with you
///
/// Administrators of the installation see the views of all users; the column OWNER says whose a view is.
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd saved-views list
  plural cd saved-views list --page services -o json"
)]
pub(crate) struct SavedViewListArgs {
    /// Only of this page of the web console
    #[arg(long, value_name = "PAGE")]
    pub(crate) page: Option<String>,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Save a page of the web console with its filters
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd saved-views create failing --page services --query status=FAILED")]
pub(crate) struct SavedViewCreateArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// The page, as its address names it
    #[arg(long, value_name = "PAGE")]
    pub(crate) page: String,

    /// The query of the page's address, without ?
    #[arg(long, value_name = "QUERY", default_value = "")]
    pub(crate) query: String,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a saved view
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd saved-views delete 0190b8a2-7c11-7def-8000-0123456789ab --yes")]
pub(crate) struct SavedViewDeleteArgs {
    /// Its id
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

const NOTHING: &str = "no saved views; `plural cd saved-views create NAME --page PAGE` makes one";

impl Row for SavedView {
    const HEADINGS: (&'static [&'static str], usize) = (&["NAME", "PAGE", "QUERY", "OWNER", "ID"], 5);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("savedview/{}", self.id)
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        vec![
            or_dash(Some(&self.name)),
            or_dash(Some(&self.page)),
            or_dash(Some(&self.query)),
            or_dash(self.owner.as_ref().map(|owner| owner.email.as_str())),
            self.id.clone(),
        ]
    }
}

pub(crate) async fn run(
    command: SavedViewCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        SavedViewCommand::List(SavedViewListArgs { page, output }) => {
            let list = |after| ListSavedViews { after, first: PAGE_SIZE, page: page.clone() };
            let all: Vec<SavedView> = all_pages(client, list).await?;
            output::list(&all, &output, NOTHING, terminal)
        }
        SavedViewCommand::Create(SavedViewCreateArgs { name, page, query, output }) => {
            let attributes =
                SavedViewAttributes { name, page, query, read_bindings: None, write_bindings: None };
            let view = client.send(&CreateSavedView { attributes }).await?;
            output::item(&view, &output.output, terminal)
        }
        SavedViewCommand::Delete(SavedViewDeleteArgs { id, confirm }) => {
            let id = key::bare_id("savedview", &id).to_owned();
            terminal.confirm(&format!("delete saved view {id}"), confirm.yes)?;
            client.send(&DeleteSavedView { id: id.clone() }).await.map_err(|error| {
                let hint = "`plural cd saved-views list` shows those you may see";
                CliError::absent(error, || CliError::missing(format_args!("saved view {id:?}"), hint))
            })?;
            terminal.say(format_args!("saved view {id} deleted"));
            Ok(())
        }
    }
}
