//! `plural cd services files`: what a service is made of.

use std::io::{Seek as _, Write as _};
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::Args;
use plural_wire::{Client, GetServiceFiles, ListServiceFiles, ServiceFile};

use crate::{
    args::ListOutputArgs,
    error::CliError,
    format::Format,
    key::ServiceKey,
    output::{self, Row, or_dash},
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
    output: ListOutputArgs,
}

/// Write the files that a service is made of into a folder
///
/// The same files as `plural cd services files`, binary ones too. A file that is there already is not overwritten.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services tarball blue/web --dir web
  plural cd services tarball @blue/web --dir /tmp/web")]
pub(crate) struct ServiceTarballArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    service: ServiceKey,

    /// The folder; it is made where it is missing
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) async fn tarball(
    args: ServiceTarballArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ServiceTarballArgs { service, dir } = args;
    let id = service.get(client).await?.service.id;
    let mut download = client.tarball(&id).await?;
    let mut archive = tempfile::tempfile()?;
    while let Some(piece) = download.piece().await? {
        archive.write_all(&piece)?;
    }
    archive.rewind()?;
    let cannot =
        |error: std::io::Error| CliError::new(format!("cannot write into {}: {error}", dir.display()));
    std::fs::create_dir_all(&dir).map_err(cannot)?;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    archive.set_overwrite(false);
    archive.set_preserve_mtime(false);
    let mut written = 0_usize;
    for entry in archive.entries().map_err(cannot)? {
        let mut entry = entry.map_err(cannot)?;
        // The console sends nothing else: links could lead out of the folder.
        if !entry.header().entry_type().is_file() || !entry.unpack_in(&dir).map_err(cannot)? {
            return Err(CliError::new(
                "the console sent an archive with something else than files below its folder",
            ));
        }
        written += 1;
    }
    terminal.say(format_args!("{written} files written into {}", dir.display()));
    Ok(())
}

pub(crate) async fn run(
    args: ServiceFilesArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let id = args.service.get(client).await?.service.id;
    let Some(path) = args.path else {
        return listed(&client.send(&ListServiceFiles { id }).await?, &args.output, terminal);
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
    match (is_file, &args.output.output) {
        (true, Format::Table | Format::Wide) => printed(files.pop(), terminal),
        (true, _) => listed(&files, &args.output, terminal),
        (false, _) => {
            for file in &mut files {
                file.content = None;
            }
            listed(&files, &args.output, terminal)
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

impl Row for ServiceFile {
    const HEADINGS: (&'static [&'static str], usize) = (&["BYTES", "PATH"], 2);

    fn id(&self) -> &str {
        &self.path
    }

    fn name(&self) -> String {
        self.path.clone()
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        let binary = if self.binary == Some(true) { "  (no text)" } else { "" };
        vec![self.size.unwrap_or_default().to_string(), format!("{}{binary}", or_dash(Some(&self.path)))]
    }
}

fn listed(files: &[ServiceFile], args: &ListOutputArgs, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    output::list(files, args, "no files found", terminal)?;
    if files.len() >= MOST {
        terminal.say("hint: only the first 2000 files are listed; name a folder to see others");
    }
    Ok(())
}
