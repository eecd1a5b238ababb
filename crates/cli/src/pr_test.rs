//! `plural pr test`, `template` and `contracts`: automations that make pull requests, run here by the code of the console.

use std::{
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use clap::{Args, ValueEnum};
use plural_core::form::check_questions;
use plural_scaffold::{
    Outcome, Request, ScaffoldError,
    automation::Automation,
    document::{Contracts, Document, documents},
    files::{Entry, File, Files},
};
use serde_json::{Map, Value};

use crate::{
    error::CliError,
    file,
    pr_files::{Folders, absolute, bytes, within, write},
    pr_told,
    terminal::Terminal,
};

/// What random filters draw from here: the same on each run, so that what is committed can be compared.
const SEED: &str = "plural pr";

/// Run an automation with answers, on the files of a folder
///
/// Does what a console does, but writes the files instead of opening a pull request. Names of clusters, projects, groups, users and flows
/// are accepted as they are. If an automation fails, nothing is written and the exit code is 1.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural pr test automation.yaml --context answers.yaml --diff
  plural pr test automation.yaml --context answers.yaml --templates ../scaffolds --dir repository
  plural pr test contracts.yaml --validate --junit report.xml")]
pub(crate) struct TestArgs {
    /// File with a PrAutomation, or with PrContracts
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// File with the answers: names and values, in YAML or JSON; - is standard input
    #[arg(long, value_name = "FILE")]
    context: Option<PathBuf>,

    /// Folder with the external templates
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,

    /// Archive (.tgz) of the chart that the automation vendors
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,

    #[command(flatten)]
    how: HowArgs,
}

/// Run an automation whose file contains its answers
///
/// The file is a PrTemplate: what it changes is in its spec, and the answers are in its context.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural pr template template.yaml
  plural pr template template.yaml --templates ../scaffolds --diff")]
pub(crate) struct TemplateArgs {
    /// File with a PrTemplate
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Folder with the external templates
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,

    #[command(flatten)]
    how: HowArgs,
}

/// Run automations with the answers of a file of contracts
///
/// Paths in it are relative to its workdir, and that is relative to --dir. With --validate nothing is written, and the exit code
/// is 1 if a file is not what the automations make of it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural pr contracts test/contracts.yaml
  plural pr contracts test/contracts.yaml --validate --junit report.xml")]
pub(crate) struct ContractsArgs {
    /// File with PrContracts
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    how: HowArgs,
}

/// Where, and how it is told
#[derive(Debug, Args)]
struct HowArgs {
    /// Folder whose files are changed
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,

    /// Show what would change, and write nothing
    #[arg(long)]
    diff: bool,

    /// Write nothing, and fail if something would change
    #[arg(long)]
    validate: bool,

    /// Write a report in the format of JUnit
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t = PrFormat::Text, value_name = "FORMAT")]
    output: PrFormat,
}

impl HowArgs {
    /// Whether differences are printed, in place of writing the files.
    fn is_told(&self) -> bool {
        self.diff || self.validate
    }

    fn prints_a_patch(&self) -> bool {
        self.is_told() && self.output == PrFormat::Text
    }
}

impl TestArgs {
    /// Whether it prints a patch.
    pub(crate) fn prints_a_patch(&self) -> bool {
        self.how.prints_a_patch()
    }
}

impl TemplateArgs {
    /// Whether it prints a patch.
    pub(crate) fn prints_a_patch(&self) -> bool {
        self.how.prints_a_patch()
    }
}

impl ContractsArgs {
    /// Whether it prints a patch.
    pub(crate) fn prints_a_patch(&self) -> bool {
        self.how.prints_a_patch()
    }
}

/// How to print what automations did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PrFormat {
    /// Lines for a person.
    Text,
    /// One JSON object.
    Json,
}

/// An automation that is to be run.
struct Job {
    name: String,
    file: String,
    request: Request,
    /// What a person should know before.
    warnings: Vec<String>,
}

/// What an automation did.
pub(crate) struct Tried {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) warnings: Vec<String>,
    pub(crate) done: Result<Outcome, ScaffoldError>,
    /// What was there of each file that it changed.
    pub(crate) before: Files,
}

/// Where the answers, the templates and the chart of an automation are.
#[derive(Default)]
struct Inputs<'i> {
    context: Option<&'i Path>,
    templates: Option<&'i Path>,
    chart: Option<&'i Path>,
}

pub(crate) fn test(
    TestArgs { file, context, templates, chart, how }: TestArgs,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let found = read(&file)?;
    if let Some(contracts) = contracts_of(&found) {
        if context.is_some() || templates.is_some() || chart.is_some() {
            return Err(CliError::usage(format!(
                "{} holds contracts, which name the answers, the templates and the chart themselves",
                file.display()
            )));
        }
        return run_contracts(contracts, &how, terminal);
    }
    let inputs =
        Inputs { context: context.as_deref(), templates: templates.as_deref(), chart: chart.as_deref() };
    run_one(&file, found, &inputs, &how, terminal)
}

pub(crate) fn template(
    TemplateArgs { file, templates, how }: TemplateArgs,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let inputs = Inputs { templates: templates.as_deref(), ..Inputs::default() };
    run_one(&file, read(&file)?, &inputs, &how, terminal)
}

pub(crate) fn contracts(
    ContractsArgs { file, how }: ContractsArgs,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match contracts_of(&read(&file)?) {
        Some(contracts) => run_contracts(contracts, &how, terminal),
        None => Err(CliError::usage(format!("{} holds no PrContracts", file.display()))
            .hint("`plural pr test` runs an automation with answers")),
    }
}

fn read(path: &Path) -> Result<Vec<Document>, CliError> {
    let text = file::text("the document", path)?;
    documents(&text).map_err(|why| CliError::usage(format!("{}: {why}", path.display())))
}

fn contracts_of(found: &[Document]) -> Option<Contracts> {
    found.iter().find_map(|document| match document {
        Document::Contracts(contracts) => Some(contracts.clone()),
        Document::Automation { .. } => None,
    })
}

fn run_one(
    path: &Path,
    found: Vec<Document>,
    inputs: &Inputs<'_>,
    how: &HowArgs,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let folders = Folders::default();
    let dir = absolute(&how.dir)?;
    let tree = folders.load(&dir)?;
    let job = job(path, found, inputs, &folders, terminal)?;
    run_all(Workdir { dir, disk: tree.clone(), tree }, vec![job], how, terminal)
}

fn run_contracts(contracts: Contracts, how: &HowArgs, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let Contracts { workdir, templates, automations } = contracts;
    let base = absolute(&how.dir)?;
    let dir = within(&base, &base.join(workdir.unwrap_or_default()))?;
    let copied = match templates {
        Some(copy) => Some((within(&base, &base.join(copy.from))?, within(&base, &base.join(copy.to))?)),
        None => None,
    };
    let disk = Folders::default().load(&dir)?;
    let folders = Folders { copied };
    let tree = folders.load(&dir)?;
    let mut jobs = Vec::new();
    for contract in &automations {
        let at = |path: Option<&String>| path.map(|path| within(&base, &dir.join(path))).transpose();
        let context = at(contract.context.as_ref())?;
        let external = at(contract.external_dir.as_ref())?;
        let chart = at(contract.chart.as_ref())?;
        let path = within(&base, &dir.join(&contract.file))?;
        let inputs =
            Inputs { context: context.as_deref(), templates: external.as_deref(), chart: chart.as_deref() };
        jobs.push(job(&path, read(&path)?, &inputs, &folders, terminal)?);
    }
    run_all(Workdir { dir, disk, tree }, jobs, how, terminal)
}

/// The one automation of a file, with all that it needs.
fn job(
    path: &Path,
    found: Vec<Document>,
    inputs: &Inputs<'_>,
    folders: &Folders,
    terminal: &mut Terminal<'_>,
) -> Result<Job, CliError> {
    let mut automations = found.into_iter().filter_map(|document| match document {
        Document::Automation { name, automation, context, left_out } => {
            Some((name, *automation, context, left_out))
        }
        Document::Contracts(_) => None,
    });
    let (Some((name, automation, own, left_out)), None) = (automations.next(), automations.next()) else {
        return Err(CliError::usage(format!("{} must hold one automation", path.display()))
            .hint("put each into a file of its own"));
    };
    check_questions(&automation.configuration, |_| Ok(()))
        .map_err(|error| CliError::usage(format!("{}: {error}", path.display())))?;
    let mut warnings: Vec<String> =
        left_out.iter().map(|part| format!("{part} is done by a console alone: left out")).collect();
    let given = match inputs.context {
        Some(path) => file::mapping("names and values of answers", path, terminal)?,
        None => own,
    };
    let (answers, context) = parted(&automation, given);
    if !automation.configuration.is_empty() {
        for name in context.keys() {
            warnings.push(format!("{name} is not asked by the automation: only a pipeline may give it"));
        }
    }
    let external = match inputs.templates {
        Some(folder) => folders.load(&absolute(folder)?)?,
        None => Files::default(),
    };
    let chart = match inputs.chart {
        Some(path) => Some(File { bytes: bytes("the chart", path)?, executable: false }),
        None => None,
    };
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let request = Request {
        automation,
        answers,
        context,
        external,
        chart,
        clock_ms: i64::try_from(clock).unwrap_or(i64::MAX),
        seed: SEED.to_owned(),
        ..Request::default()
    };
    Ok(Job { name, file: path.display().to_string(), request, warnings })
}

/// Answers to what is asked, and the rest.
fn parted(automation: &Automation, given: Map<String, Value>) -> (Map<String, Value>, Map<String, Value>) {
    let is_asked = |name: &str| automation.configuration.iter().any(|question| question.name == name);
    given.into_iter().partition(|(name, _)| is_asked(name))
}

/// The folder whose files are changed.
struct Workdir {
    dir: PathBuf,
    /// What it holds.
    disk: Files,
    /// The same with what is copied there.
    tree: Files,
}

/// Runs all of them, each on what those before it made.
fn run_all(
    workdir: Workdir,
    jobs: Vec<Job>,
    how: &HowArgs,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let Workdir { dir, disk, mut tree } = workdir;
    let mut tried = Vec::with_capacity(jobs.len());
    for Job { name, file, mut request, warnings } in jobs {
        request.tree = tree.clone();
        let done = plural_scaffold::run(&request);
        let mut before = Files::default();
        if let Ok(outcome) = &done {
            for (path, entry) in &outcome.changes {
                if let Some(old) = tree.get(path).cloned() {
                    put(&mut before, path, old)?;
                }
                match entry {
                    Some(entry) => put(&mut tree, path, entry.clone())?,
                    None => {
                        tree.remove(path);
                    }
                }
            }
        }
        tried.push(Tried { name, file, warnings, done, before });
    }
    let changes = tree.changes_since(&disk);
    let failed = tried.iter().filter(|tried| tried.done.is_err()).count();
    let is_told = how.is_told();
    match how.output {
        PrFormat::Text => pr_told::text(&tried, &changes, &disk, is_told, terminal)?,
        PrFormat::Json => pr_told::json(&tried, &disk, &changes, terminal)?,
    }
    if let Some(report) = &how.junit {
        let text = pr_told::junit(&tried, &disk, &changes, how.validate);
        std::fs::write(report, text)
            .map_err(|error| CliError::new(format!("cannot write {}: {error}", report.display())))?;
    }
    if failed > 0 {
        return Err(CliError::new(format!("{failed} of {} automations failed", tried.len())));
    }
    if how.validate && !changes.is_empty() {
        let told = format!("{} files are not what the automations make of them", changes.len());
        return Err(
            CliError::new(told).hint("run it without --validate, look at the changes and commit them")
        );
    }
    if is_told { Ok(()) } else { write(&dir, &changes) }
}

fn put(files: &mut Files, path: &str, entry: Entry) -> Result<(), CliError> {
    files.insert(path, entry).map_err(CliError::new)
}
