//! `plural cd services files`: what a service is made of.

use clap::Args;
use plural_wire::{Client, GetServiceFiles, ListServiceFiles, ServiceFile};

use crate::{
    args::OutputArgs,
    error::CliError,
    key::ServiceKey,
    output::{self, Format, columns, or_dash},
    terminal::Terminal,
};

/// Files of one answer, at most.
const MOST: usize = 2_000;

/// Show the files that a service is made of
///
/// These are the files that its agent renders, as they were put together from its sources. Without a path, or with one of a folder,
/// they are listed; a file is printed as it is. Configuration, values and contexts are no part of them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services files blue/web
  plural cd services files blue/web web/templates
  plural cd services files blue/web web/values.yaml")]
pub(crate) struct ServiceFilesArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    service: ServiceKey,

    /// A file, or a folder
    #[arg(value_name = "PATH")]
    path: Option<String>,

    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) async fn run(
    args: ServiceFilesArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let id = args.service.get(client).await?.service.id;
    let Some(path) = args.path else {
        return listed(&client.send(&ListServiceFiles { id }).await?, args.output.output, terminal);
    };
    let path = path.trim_matches('/').to_owned();
    let mut files = client.send(&GetServiceFiles { id, path: path.clone() }).await.map_err(|error| {
        if error.is_not_found() {
            CliError::new(format!("the service has no file or folder {path:?}"))
                .hint("`plural cd services files SERVICE` lists its files")
        } else {
            error.into()
        }
    })?;
    let is_file = matches!(&files[..], [file] if file.path == path);
    match (is_file, args.output.output) {
        (true, Format::Table | Format::Wide) => printed(files.pop(), terminal),
        (true, format) => listed(&files, format, terminal),
        (false, format) => {
            for file in &mut files {
                file.content = None;
            }
            listed(&files, format, terminal)
        }
    }
}

/// A file as it is.
fn printed(file: Option<ServiceFile>, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let Some(ServiceFile { path, size, binary, left_out, content }) = file else { return Ok(()) };
    if binary == Some(true) {
        return Err(CliError::new(format!("{path} is not text: {} bytes", size.unwrap_or_default())));
    }
    if left_out == Some(true) {
        return Err(CliError::new(format!(
            "{path} is too large to be shown: {} bytes",
            size.unwrap_or_default()
        )));
    }
    write!(terminal.out, "{}", content.unwrap_or_default())?;
    Ok(())
}

fn listed(files: &[ServiceFile], format: Format, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    match format {
        Format::Json => output::json(&files, terminal)?,
        Format::Yaml => output::yaml(&files, terminal)?,
        Format::Name => {
            for file in files {
                writeln!(terminal.out, "{}", or_dash(Some(&file.path)))?;
            }
        }
        Format::Table | Format::Wide => {
            let mut rows = vec![vec!["BYTES".to_owned(), "PATH".to_owned()]];
            rows.extend(files.iter().map(|file| {
                let binary = if file.binary == Some(true) { "  (no text)" } else { "" };
                let size = file.size.unwrap_or_default().to_string();
                vec![size, format!("{}{binary}", or_dash(Some(&file.path)))]
            }));
            write!(terminal.out, "{}", columns(&rows, 2))?;
        }
    }
    if files.len() >= MOST {
        terminal.say("hint: only the first 2000 files are listed; name a folder to see others");
    }
    Ok(())
}
