//! `plural cd contexts …`.

use chrono::{DateTime, Utc};
use plural_wire::{
    Client, ConfigAttributes, ContextImport, ContextImportAttributes, DeleteServiceContext,
    GetServiceContext, ListServiceContexts, ListServicesUsing, PAGE_SIZE, SaveServiceContext, ServiceContext,
    ServiceContextAttributes, all_pages,
};
use serde_json::Value;

use crate::{
    args::{ContextCommand, ContextDeleteArgs, ContextGetArgs, ContextListArgs, ContextSaveArgs},
    configuration::configuration_of,
    documents::Kind,
    error::CliError,
    file,
    format::Format,
    key,
    output::{self, Row, or_dash},
    services::{NAMED, check_unused},
    stacks,
    terminal::Terminal,
};

const NOTHING: &str = "no contexts found; `plural cd contexts save NAME --file FILE` makes one";

impl Row for ServiceContext {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["CONTEXT", "PROJECT", "KEYS", "SECRETS", "OUTPUTS", "ID"], 5);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("servicecontext/{}", self.name)
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        let keys: Vec<&str> =
            self.configuration.iter().flat_map(|map| map.keys()).map(String::as_str).collect();
        vec![
            or_dash(Some(&self.name)),
            or_dash(self.project.as_ref().map(|project| project.name.as_str())),
            or_dash(Some(&keys.join(", "))),
            or_dash(Some(&self.secret_names.join(", "))),
            or_dash(Some(&taken(&self.imports))),
            self.id.clone(),
        ]
    }
}

/// The outputs of stacks that a context takes, by the names that templates read.
fn taken(imports: &[ContextImport]) -> String {
    let one = |import: &ContextImport| {
        let stack = import.stack.as_ref().map_or("?", |stack| stack.name.as_str());
        format!("{}={stack}/{}", import.name, import.output)
    };
    imports.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// An output of a stack, as the command line names it.
async fn import_of(
    text: &str,
    sensitive: bool,
    client: &Client,
) -> Result<ContextImportAttributes, CliError> {
    let (name, place) = match text.split_once('=') {
        Some((name, place)) => (Some(name.to_owned()), place),
        None => (None, text),
    };
    let Some((stack, output)) =
        place.rsplit_once('/').filter(|(stack, output)| !stack.is_empty() && !output.is_empty())
    else {
        return Err(CliError::usage(format!("{text:?} names no output of a stack"))
            .hint("write STACK/OUTPUT, or NAME=STACK/OUTPUT"));
    };
    let stack_id = stacks::find(stack, client).await?.id;
    Ok(ContextImportAttributes { name, output: output.to_owned(), sensitive: Some(sensitive), stack_id })
}

pub(crate) async fn run(
    command: ContextCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        ContextCommand::List(args) => list(args, client, terminal).await,
        ContextCommand::Get(args) => get(args, client, terminal).await,
        ContextCommand::Save(args) => save(args, client, terminal).await,
        ContextCommand::Delete(args) => delete(args, client, terminal).await,
    }
}

/// The context of this name.
pub(crate) async fn find(client: &Client, name: &str) -> Result<ServiceContext, CliError> {
    let name = Kind::ServiceContext.bare(name);
    client.send(&GetServiceContext { name: name.to_owned() }).await.map_err(|error| {
        let hint = "`plural cd contexts list` shows those you may see";
        CliError::absent(error, || CliError::missing(format_args!("context {name:?}"), hint))
    })
}

async fn list(args: ContextListArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let all: Vec<ServiceContext> =
        all_pages(client, |after| ListServiceContexts { after, first: PAGE_SIZE }).await?;
    output::list(&all, &args.output, NOTHING, terminal)
}

async fn get(args: ContextGetArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let context = find(client, &args.name).await?;
    match &args.output.output {
        Format::Table | Format::Wide => {
            let document = context.configuration.clone().unwrap_or_default();
            output::yaml(&document, terminal)?;
            if !context.secret_names.is_empty() {
                terminal.say(format_args!("and secret values: {}", context.secret_names.join(", ")));
            }
            if !context.imports.is_empty() {
                terminal.say(format_args!("and outputs of stacks: {}", taken(&context.imports)));
            }
            Ok(())
        }
        other => output::item(&context, other, terminal),
    }
}

async fn save(args: ContextSaveArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let ContextSaveArgs { name, file, secrets_file, imports, sensitive_imports, no_imports, project, output } =
        args;
    let name = Kind::ServiceContext.bare(&name).to_owned();
    let names_imports = !imports.is_empty() || !sensitive_imports.is_empty() || no_imports;
    if file.is_none() && secrets_file.is_none() && !names_imports {
        return Err(CliError::usage(
            "a context is saved from --file, --secrets-file, --import, or several of them",
        )
        .hint("see the examples of `plural cd contexts save --help`"));
    }
    let configuration = match &file {
        Some(path) => Some(Value::from(file::mapping("the document", path, terminal)?).to_string()),
        None => None,
    };
    let secrets: Option<Vec<ConfigAttributes>> = match &secrets_file {
        Some(path) => Some(configuration_of(file::mapping("secret values", path, terminal)?)?),
        None => None,
    };
    let project_id = key::project_id(client, project.as_deref()).await?;
    let mut taken = Vec::with_capacity(imports.len() + sensitive_imports.len());
    for (all, is_sensitive) in [(&imports, false), (&sensitive_imports, true)] {
        for text in all {
            taken.push(import_of(text, is_sensitive, client).await?);
        }
    }
    let imports = names_imports.then_some(taken);
    let attributes = ServiceContextAttributes { configuration, imports, project_id, secrets };
    let context = client.send(&SaveServiceContext { name, attributes }).await?;
    output::item(&context, &output.output, terminal)
}

async fn delete(
    args: ContextDeleteArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let context = find(client, &args.name).await?;
    let using = ListServicesUsing { first: NAMED, repository_id: None, context_id: Some(context.id.clone()) };
    check_unused(&format!("context {}", context.name), &using, client).await?;
    terminal.confirm(&format!("delete context {}", context.name), args.confirm.yes)?;
    client.send(&DeleteServiceContext { id: context.id }).await?;
    terminal.say(format_args!("context {} deleted", context.name));
    Ok(())
}
