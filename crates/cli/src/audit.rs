//! `plural audit …`: what was done, and that nobody changed what is told of it.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use clap::{Args, Subcommand, ValueEnum};
use plural_core::audit_chain::{AuditChain, AuditCheckpoint as Signed};
use plural_wire::{
    AuditCheckpoint, AuditLine, AuditProblem, AuditProblemKind, AuditVerifyAttributes, Client, GetAuditKey,
    ListAuditCheckpoints, ListAudits, ListLastAudits, PAGE_SIZE, VerifyAudit, all_pages,
};
use serde::Serialize;

use crate::{
    args::{ConnectionArgs, ListOutputArgs, OutputArgs},
    audit_file,
    error::CliError,
    format::Format,
    key::parse_duration,
    output::{self, Row, age, or_dash},
    terminal::Terminal,
};

/// Between two looks for new lines.
const WATCH: Duration = Duration::from_secs(2);
/// Bytes of a checkpoint's file that are read.
const MOST_BYTES: u64 = 4 << 20;

/// The audit log, for installation administrators: list, export, verify, checkpoints
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(subcommand)]
    pub(crate) command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    List(AuditListArgs),
    Export(AuditExportArgs),
    Verify(AuditVerifyArgs),
    Checkpoints(AuditCheckpointsArgs),
}

/// List who did what to what
///
/// The newest lines come last. Lines of proxied requests are those of `plural audit export`, and of each cluster.
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural audit list
  plural audit list --actor ada@example.com --since 24h
  plural audit list --action 'cluster.*' --all -o json
  plural audit list --watch"
)]
pub(crate) struct AuditListArgs {
    /// Only of this actor: e-mail address as it was then, or a user's id
    #[arg(long, value_name = "ACTOR")]
    pub(crate) actor: Option<String>,

    /// Only of this action: cluster.create, or cluster.* for all that begin so
    #[arg(long, value_name = "ACTION")]
    pub(crate) action: Option<String>,

    /// Only about this kind of thing: cluster, service, user, …
    #[arg(long, value_name = "NOUN")]
    pub(crate) noun: Option<String>,

    /// Only about this thing: its id, or its name as it was then
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<String>,

    /// Only of this request
    #[arg(long, value_name = "ID")]
    pub(crate) request: Option<String>,

    /// Only from then on: a time (2026-01-31T08:00:00Z), or how long ago (90m, 24h)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) since: Option<DateTime<Utc>>,

    /// Only before then
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) until: Option<DateTime<Utc>>,

    /// How many, the newest
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=500), value_name = "N")]
    pub(crate) last: i64,

    /// All that match, oldest first
    #[arg(long, conflicts_with_all = ["last", "watch"])]
    pub(crate) all: bool,

    /// Go on with new lines as they come
    #[arg(short, long)]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// How lines are written to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Lines of JSON with the proof, for `plural audit verify --file`
    Json,
    /// A table of what was done and asked, without the proof
    Csv,
}

/// Write the audit log with its proof: lines of JSON that can be checked without the console
///
/// Batches of the chain, each with its lines: SHA-256 of a line is its digest. That you read it is told in the audit log.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural audit export --file audit.jsonl
  plural audit export --after 1200 --file audit-more.jsonl
  plural audit export --format csv > audit.csv")]
pub(crate) struct AuditExportArgs {
    /// Behind this batch, which was exported before
    #[arg(long, value_name = "BATCH", default_value_t = 0)]
    pub(crate) after: u64,

    /// How
    #[arg(long, value_enum, default_value_t = ExportFormat::Json, value_name = "FORMAT")]
    pub(crate) format: ExportFormat,

    /// Write it to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// Check that nothing of the audit log was edited, removed, inserted, reordered, cut or written anew
///
/// The console checks its chain and compares it with the checkpoints in its blob store. With --checkpoints it is compared with
/// those that you kept elsewhere: only they find a chain that somebody with the console's own key wrote anew. With --file
/// an exported log is checked here, and no console is asked. The exit code is 1 when something is wrong.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural audit verify
  plural audit verify --checkpoints /mnt/worm/plural-checkpoints
  plural audit verify --file audit.jsonl --key 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=")]
pub(crate) struct AuditVerifyArgs {
    /// File with checkpoints, one a line, or a folder of such files; may be given several times. A file that the console streamed its
    /// log to holds checkpoints, too
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) checkpoints: Vec<PathBuf>,

    /// Check this exported file, and ask no console; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// The public key that the log must have, as `plural audit checkpoints --key` printed it
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// List checkpoints of the audit log, or print its public key
///
/// Keep them where nobody who can reach the console's database can: `plural audit verify --checkpoints` compares with them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural audit checkpoints
  plural audit checkpoints --text --last 1 >> checkpoints.jsonl
  plural audit checkpoints --key")]
pub(crate) struct AuditCheckpointsArgs {
    /// How many, the newest
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=1000), value_name = "N")]
    pub(crate) last: i64,

    /// Print them as signed text, one a line: what is kept elsewhere
    #[arg(long, conflicts_with = "key")]
    pub(crate) text: bool,

    /// Print the public key instead
    #[arg(long)]
    pub(crate) key: bool,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

pub(crate) fn parse_time(text: &str) -> Result<DateTime<Utc>, String> {
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Ok(at.to_utc());
    }
    let ago = parse_duration(text)
        .map_err(|_| "it must be a time as 2026-01-31T08:00:00Z, or how long ago as 24h".to_owned())?;
    let ago = TimeDelta::from_std(ago).map_err(|_| "that is too long ago".to_owned())?;
    Utc::now().checked_sub_signed(ago).ok_or_else(|| "that is too long ago".to_owned())
}

impl Row for AuditLine {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["AGE", "WHO", "ACTION", "TARGET", "NAME", "TIMES", "ADDRESS", "REQUEST", "AT", "ID"], 7);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("audit/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let at = self.inserted_at.map(|at| at.to_rfc3339_opts(SecondsFormat::Millis, true));
        let name = Some(self.target_name.as_str()).filter(|name| !name.is_empty());
        vec![
            age(self.inserted_at, now),
            or_dash(Some(&self.actor_name)),
            or_dash(Some(&self.action)),
            or_dash(Some(&self.noun)),
            or_dash(name.or(self.target_id.as_deref())),
            self.times.unwrap_or(1).to_string(),
            or_dash(self.address.as_deref()),
            or_dash(Some(&self.request_id)),
            or_dash(at.as_deref()),
            or_dash(Some(&self.id)),
        ]
    }
}

impl Row for AuditCheckpoint {
    const HEADINGS: (&'static [&'static str], usize) = (&["BATCH", "AGE", "DIGEST", "KEY"], 3);

    fn id(&self) -> &str {
        &self.digest
    }

    fn name(&self) -> String {
        format!("checkpoint/{:.0}", self.sequence)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        vec![
            format!("{:.0}", self.sequence),
            age(self.signed_at, now),
            or_dash(Some(&self.digest)),
            or_dash(Some(&self.key)),
        ]
    }
}

/// What `verify` found, as programs read it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Verdict {
    pub(crate) whole: bool,
    pub(crate) batches: u64,
    pub(crate) lines: u64,
    pub(crate) unchained: u64,
    /// Checkpoints that it was compared with.
    pub(crate) checkpoints: u64,
    /// The last batch.
    pub(crate) sequence: u64,
    pub(crate) digest: String,
    pub(crate) problems: Vec<Wrong>,
    pub(crate) more_problems: u64,
}

/// One problem.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wrong {
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) batch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<String>,
    pub(crate) message: String,
}

pub(crate) async fn run(
    command: AuditCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        AuditCommand::List(args) => list(args, client, terminal).await,
        AuditCommand::Export(args) => export(args, client, terminal).await,
        AuditCommand::Verify(args) => verify(args, client, terminal).await,
        AuditCommand::Checkpoints(args) => checkpoints(args, client, terminal).await,
    }
}

async fn list(args: AuditListArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    const NOTHING: &str = "no line of the audit log matches";
    let AuditListArgs { actor, action, noun, target, request, since, until, last, all, watch, output } = args;
    let page = |after: Option<String>| ListAudits {
        actor: actor.clone(),
        action: action.clone(),
        noun: noun.clone(),
        target: target.clone(),
        request_id: request.clone(),
        since,
        until,
        after,
        first: PAGE_SIZE,
    };
    if all {
        let found = all_pages(client, page).await?;
        return output::list(&found, &output, NOTHING, terminal);
    }
    let newest = client
        .send(&ListLastAudits {
            actor: actor.clone(),
            action: action.clone(),
            noun: noun.clone(),
            target: target.clone(),
            request_id: request.clone(),
            since,
            until,
            last,
        })
        .await?;
    let mut after = newest.page_info.end_cursor.clone();
    let found: Vec<AuditLine> = newest.edges.into_iter().map(|edge| edge.node).collect();
    output::list(&found, &output, NOTHING, terminal)?;
    let more = ListOutputArgs { no_headers: true, ..output };
    if !watch {
        return Ok(());
    }
    loop {
        terminal.out.flush()?;
        tokio::time::sleep(WATCH).await;
        loop {
            let next = client.send(&page(after.clone())).await?;
            let is_last = !next.page_info.has_next_page;
            after = next.page_info.end_cursor.clone().or(after);
            let lines: Vec<AuditLine> = next.edges.into_iter().map(|edge| edge.node).collect();
            if !lines.is_empty() {
                output::list(&lines, &more, NOTHING, terminal)?;
            }
            if is_last {
                break;
            }
        }
    }
}

async fn export(args: AuditExportArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let AuditExportArgs { after, format, file } = args;
    let mut download = client.audit_export(after).await?;
    let mut target = match &file {
        None => None,
        Some(path) => Some(
            std::fs::File::create(path)
                .map_err(|error| CliError::new(format!("cannot write {}: {error}", path.display())))?,
        ),
    };
    let mut csv = audit_file::Csv::default();
    let mut waiting: Vec<u8> = Vec::new();
    let mut out = |bytes: &[u8], terminal: &mut Terminal<'_>| -> Result<(), CliError> {
        match &mut target {
            None => terminal.out.write_all(bytes)?,
            Some(file) => std::io::Write::write_all(file, bytes)?,
        }
        Ok(())
    };
    if format == ExportFormat::Csv {
        out(audit_file::Csv::HEADINGS.as_bytes(), terminal)?;
    }
    while let Some(piece) = download.piece().await? {
        if format == ExportFormat::Json {
            out(&piece, terminal)?;
            continue;
        }
        waiting.extend_from_slice(&piece);
        while let Some(end) = waiting.iter().position(|byte| *byte == b'\n') {
            let rest = waiting.split_off(end + 1);
            let line = std::mem::replace(&mut waiting, rest);
            if let Some(row) = csv.row(&line) {
                out(row.as_bytes(), terminal)?;
            }
        }
    }
    if let Some(path) = file {
        terminal.say(format_args!("wrote {}", path.display()));
    }
    Ok(())
}

/// Checks an exported log here.
pub(crate) fn verify_file(args: AuditVerifyArgs, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let AuditVerifyArgs { checkpoints, file, key, output } = args;
    let kept = all_checkpoints(&checkpoints)?;
    let file = file.unwrap_or_default();
    // What is on standard input has no name.
    let verdict = if file.as_os_str() == "-" {
        audit_file::verify(&mut terminal.input, kept, key.as_deref())?
    } else {
        let opened = std::fs::File::open(&file)
            .map_err(|error| CliError::new(format!("cannot read {}: {error}", file.display())))?;
        audit_file::verify(&mut BufReader::new(opened), kept, key.as_deref())?
    };
    say(&verdict, &output.output, terminal)
}

fn all_checkpoints(paths: &[PathBuf]) -> Result<Vec<Signed>, CliError> {
    let mut kept = Vec::new();
    for path in paths {
        read_checkpoints(path, &mut kept)?;
    }
    if !paths.is_empty() && kept.is_empty() {
        return Err(CliError::new("there is no checkpoint in what --checkpoints names")
            .hint("`plural audit checkpoints --text` prints them"));
    }
    Ok(kept)
}

async fn verify(args: AuditVerifyArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let AuditVerifyArgs { checkpoints, file: _, key, output } = args;
    let kept = all_checkpoints(&checkpoints)?;
    if let Some(expected) = &key {
        let actual = client.send(&GetAuditKey {}).await?;
        if actual.trim() != expected.trim() {
            return Err(CliError::new(format!(
                "the console's audit log has the key {actual}, not {expected}"
            ))
            .hint("it is another console, or somebody replaced the key"));
        }
    }
    let texts: Vec<String> = kept.iter().map(Signed::text).collect();
    let mut verdict = Verdict {
        whole: true,
        batches: 0,
        lines: 0,
        unchained: 0,
        checkpoints: kept.len() as u64,
        sequence: 0,
        digest: String::new(),
        problems: Vec::new(),
        more_problems: 0,
    };
    let mut seen = HashSet::new();
    loop {
        let attributes = AuditVerifyAttributes {
            after: Some(verdict.sequence as f64),
            batches: Some(50),
            checkpoints: Some(texts.clone()),
            blob_store: Some(true),
        };
        let part = client.send(&VerifyAudit { attributes: Some(attributes) }).await?;
        verdict.batches += part.batches as u64;
        verdict.lines += part.lines as u64;
        verdict.unchained = part.unchained as u64;
        verdict.checkpoints = verdict.checkpoints.max(kept.len() as u64 + part.kept_outside as u64);
        verdict.more_problems += part.more_problems as u64;
        let before = verdict.sequence;
        verdict.sequence = part.sequence as u64;
        verdict.digest = part.digest;
        for problem in part.problems {
            // A checkpoint of another key is told with every part.
            if seen.insert(problem.message.clone()) {
                verdict.problems.push(wrong(problem));
            }
        }
        if !part.more || verdict.sequence <= before {
            break;
        }
    }
    verdict.whole = verdict.problems.is_empty();
    say(&verdict, &output.output, terminal)
}

fn wrong(problem: AuditProblem) -> Wrong {
    let AuditProblem { kind, log, sequence, line_id, message } = problem;
    let kind: AuditProblemKind = kind;
    Wrong {
        kind: kind.as_str().to_owned(),
        log: log.map(|log| log.as_str().to_owned()),
        batch: sequence.map(|sequence| sequence as u64),
        line: line_id,
        message,
    }
}

fn say(verdict: &Verdict, format: &Format, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    if matches!(format, Format::Table | Format::Wide | Format::Name) {
        let Verdict { batches, lines, unchained, checkpoints, sequence, digest, problems, .. } = verdict;
        for problem in problems {
            writeln!(terminal.out, "{}: {}", problem.kind, problem.message)?;
        }
        writeln!(
            terminal.out,
            "checked {lines} lines in {batches} batches, up to batch {sequence} ({digest})"
        )?;
        writeln!(
            terminal.out,
            "compared with {checkpoints} checkpoints that were kept outside of the database"
        )?;
        if *unchained > 0 {
            writeln!(
                terminal.out,
                "{unchained} lines are too new to be in the chain: nothing is said of them"
            )?;
        }
    } else {
        output::program_one(verdict, format, terminal)?;
    }
    if verdict.whole {
        return Ok(());
    }
    let count = verdict.problems.len() as u64 + verdict.more_problems;
    Err(CliError::new(format!("the audit log is not as it was written: {count} problems"))
        .hint("docs/audit.md says what each means and what to do"))
}

/// The checkpoints in a file, or in the files of a folder. Lines that are none are left out: a streamed log has checkpoints
/// among its lines.
fn read_checkpoints(path: &Path, into: &mut Vec<Signed>) -> Result<(), CliError> {
    let cannot = |error: std::io::Error| CliError::new(format!("cannot read {}: {error}", path.display()));
    if std::fs::metadata(path).map_err(cannot)?.is_dir() {
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(path).map_err(cannot)? {
            files.push(entry.map_err(cannot)?.path());
        }
        files.sort();
        for file in files.into_iter().filter(|file| file.is_file()) {
            read_checkpoints(&file, into)?;
        }
        return Ok(());
    }
    let mut reader = BufReader::new(std::fs::File::open(path).map_err(cannot)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut reader).take(MOST_BYTES).read_until(b'\n', &mut line).map_err(cannot)? == 0 {
            break;
        }
        let text = std::str::from_utf8(&line).unwrap_or_default().trim();
        if text.contains("\"checkpoint\"")
            && let Ok(checkpoint) = Signed::parse(text)
        {
            into.push(checkpoint);
        }
    }
    // The last of each key says all that those before it do; what was cut between them, too.
    into.sort_by(|one, other| (&one.key, one.sequence).cmp(&(&other.key, other.sequence)));
    into.dedup();
    let most = into.len().saturating_sub(MOST);
    into.drain(..most);
    Ok(())
}

/// Checkpoints that are compared with.
const MOST: usize = 100;

async fn checkpoints(
    args: AuditCheckpointsArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let AuditCheckpointsArgs { last, text, key, output } = args;
    if key {
        let key = client.send(&GetAuditKey {}).await?;
        AuditChain::parse_key(&key).map_err(|error| CliError::new(error.to_string()))?;
        writeln!(terminal.out, "{key}")?;
        return Ok(());
    }
    let found = client.send(&ListAuditCheckpoints { last: Some(last) }).await?;
    if text {
        for checkpoint in found.iter().rev() {
            writeln!(terminal.out, "{}", checkpoint.text)?;
        }
        return Ok(());
    }
    output::list(&found, &output, "there is no checkpoint yet: the first follows the first lines", terminal)
}
