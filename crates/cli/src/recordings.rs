//! `plural cd clusters recordings …` and `plural cd projects recordings`: what was done in shells.

use std::{io::BufRead, path::PathBuf, time::Duration};

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand, ValueEnum};
use plural_wire::{
    Client, Download, GetRecordingPolicy, ListReadableRecordings, ListRecordings, Recording, RecordingPolicy,
    RecordingPolicyAttributes, RecordingState, SetRecordingPolicy, ShellKind,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    args::{ListOutputArgs, OutputArgs},
    documents::Kind,
    error::CliError,
    key::{self, ClusterKey, is_id, parse_duration},
    output::{self, Row, age, or_dash},
    replay::Replay,
    terminal::Terminal,
};

/// Bytes of one line of a recording.
const LONGEST_LINE: usize = 4 << 20;

/// Recordings of shells: list, get, play
#[derive(Debug, Args)]
#[command(visible_alias = "recording", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct RecordingsArgs {
    #[command(subcommand)]
    pub(crate) command: RecordingCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RecordingCommand {
    List(RecordingListArgs),
    Get(RecordingGetArgs),
    Play(RecordingPlayArgs),
}

/// List shell recordings: all that you may read, or those of a cluster or project
///
/// Recordings outlive their cluster and their project: those of what is gone are listed with all, and by their project. Which clusters' shells are recorded, and who may read that, a project's administrators say with `plural cd projects
/// recordings`.
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd clusters recordings list
  plural cd clusters recordings list blue --last 100 -o json
  plural cd clusters recordings list --project shop -o wide"
)]
pub(crate) struct RecordingListArgs {
    /// The cluster: its handle or id
    #[arg(value_name = "CLUSTER")]
    pub(crate) cluster: Option<ClusterKey>,

    /// All clusters of this project, which may be gone: its name or id
    #[arg(long, value_name = "PROJECT", conflicts_with = "cluster")]
    pub(crate) project: Option<String>,

    /// How many, the newest
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=100), value_name = "N")]
    pub(crate) last: i64,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Write a recording as an asciicast
///
/// That you read it is told in the audit log.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd clusters recordings get 0190b8a2-7c11-7def-8000-0123456789ab > shell.cast
  plural cd clusters recordings get 0190b8a2-7c11-7def-8000-0123456789ab --file shell.cast")]
pub(crate) struct RecordingGetArgs {
    /// The recording's id
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: String,

    /// Write it to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// Show a recording in this terminal, as fast as it was made
///
/// What programs said is passed on as it is, with whatever it does to a terminal. That you read it is told in the audit log.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd clusters recordings play 0190b8a2-7c11-7def-8000-0123456789ab
  plural cd clusters recordings play 0190b8a2-7c11-7def-8000-0123456789ab --speed 4 --pause 2s
  plural cd clusters recordings play ./shell.cast")]
pub(crate) struct RecordingPlayArgs {
    /// The recording's id, or a file
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: String,

    /// How many times faster
    #[arg(long, default_value_t = 1.0, value_parser = parse_speed, value_name = "FACTOR")]
    pub(crate) speed: f64,

    /// No pause is longer than this
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) pause: Option<Duration>,
}

/// Whether shells are recorded
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// Every shell is recorded, or there is none
    On,
    /// No shell is
    Off,
}

/// Configure shell recording for a project
///
/// Without on or off it is shown. It holds for `kubectl exec`, `attach`, `cp` and `debug` through the console, for what is
/// opened from then on; neither whoever opens a shell nor a cluster's agent can keep it from being recorded. A shell that
/// cannot be recorded is refused. What is said replaces what was said before.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd projects recordings shop
  plural cd projects recordings shop on --user ada@example.com --group auditors --keep-days 365
  plural cd projects recordings shop off --group auditors   # what there is can still be read")]
pub(crate) struct ProjectRecordingsArgs {
    /// The project: its name or id
    #[arg(value_name = "PROJECT")]
    pub(crate) project: String,

    /// Whether shells are recorded
    #[arg(value_enum, value_name = "SWITCH")]
    pub(crate) switch: Option<Switch>,

    /// Record what is typed, too: passwords among it
    #[arg(long, requires = "switch")]
    pub(crate) input: bool,

    /// Days that a recording is kept; 90 by default
    #[arg(long, requires = "switch", value_parser = clap::value_parser!(i64).range(1..=3650), value_name = "N")]
    pub(crate) keep_days: Option<i64>,

    /// Megabytes that a recording may take; 64 by default. A shell ends there
    #[arg(long, requires = "switch", value_parser = clap::value_parser!(i64).range(1..=4096), value_name = "N")]
    pub(crate) limit_megabytes: Option<i64>,

    /// User who may read the recordings: e-mail address or id; may be given several times
    #[arg(long = "user", requires = "switch", value_name = "E-MAIL")]
    pub(crate) users: Vec<String>,

    /// Group whose members may: name or id; may be given several times
    #[arg(long = "group", requires = "switch", value_name = "GROUP")]
    pub(crate) groups: Vec<String>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

fn parse_speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (0.01..=10_000.0).contains(&speed) => Ok(speed),
        _ => Err("it must be between 0.01 and 10000".into()),
    }
}

impl Row for Recording {
    const HEADINGS: (&'static [&'static str], usize) = (
        &[
            "ID",
            "AGE",
            "WHO",
            "POD",
            "COMMAND",
            "DURATION",
            "BYTES",
            "STATE",
            "CONTAINER",
            "GOES",
            "CLUSTER",
            "PROJECT",
        ],
        8,
    );

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("recording/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let command =
            if self.kind == ShellKind::Attach { "(attached)".to_owned() } else { self.command.join(" ") };
        let state = match self.state {
            RecordingState::Running => "Running",
            RecordingState::Ended => "Ended",
            RecordingState::Full => "Full",
            RecordingState::Failed => "Failed",
            RecordingState::Broken => "Broken",
            RecordingState::Unknown => "Unknown",
        };
        vec![
            self.id.clone(),
            age(self.inserted_at, now),
            or_dash(Some(&self.actor_name)),
            or_dash(Some(&format!("{}/{}", self.namespace, self.pod))),
            or_dash(Some(&shortened(&command))),
            format!("{:.0}s", self.duration_ms / 1000.0),
            format!("{:.0}", self.bytes),
            state.to_owned(),
            or_dash(self.container.as_deref()),
            or_dash(self.expires_at.map(|at| at.format("%Y-%m-%d").to_string()).as_deref()),
            self.cluster_id.clone(),
            or_dash(Some(self.project_name.as_deref().unwrap_or(&self.project_id))),
        ]
    }
}

/// The beginning of a command that is too long for a table.
fn shortened(command: &str) -> String {
    const SHOWN: usize = 40;
    if command.chars().count() <= SHOWN {
        return command.to_owned();
    }
    command.chars().take(SHOWN - 1).chain(['…']).collect()
}

/// What was said of a project, as a row.
#[derive(Debug, Serialize)]
struct ProjectPolicy {
    project: String,
    #[serde(flatten)]
    policy: RecordingPolicy,
}

impl Row for ProjectPolicy {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["PROJECT", "RECORDED", "INPUT", "KEPT", "LIMIT", "READERS"], 6);

    fn id(&self) -> &str {
        &self.project
    }

    fn name(&self) -> String {
        format!("project/{}", self.project)
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        let RecordingPolicy { record, input, keep_days, limit_megabytes, user_readers, group_readers } =
            &self.policy;
        let yes = |value: &Option<bool>| if *value == Some(true) { "yes" } else { "no" }.to_owned();
        let readers: Vec<&str> = user_readers
            .iter()
            .map(|user| user.email.as_str())
            .chain(group_readers.iter().map(|group| group.name.as_str()))
            .collect();
        vec![
            or_dash(Some(&self.project)),
            yes(record),
            yes(input),
            format!("{} days", keep_days.unwrap_or_default()),
            format!("{} MB", limit_megabytes.unwrap_or_default()),
            or_dash(Some(&readers.join(", "))),
        ]
    }
}

pub(crate) async fn run(
    command: RecordingCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        RecordingCommand::List(args) => list(args, client, terminal).await,
        RecordingCommand::Get(args) => get(args, client, terminal).await,
        RecordingCommand::Play(args) => play(args, client, terminal).await,
    }
}

pub(crate) async fn policy(
    args: ProjectRecordingsArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ProjectRecordingsArgs { project, switch, input, keep_days, limit_megabytes, users, groups, output } =
        args;
    let project = key::project(client, &project).await?;
    let policy = match switch {
        None => {
            let found = client.send(&GetRecordingPolicy { id: project.id }).await?;
            found.recording_policy.ok_or_else(|| CliError::new("the console returned no recording policy"))?
        }
        Some(switch) => {
            let attributes = RecordingPolicyAttributes {
                record: switch == Switch::On,
                input: Some(input),
                keep_days,
                limit_megabytes,
                user_readers: Some(users),
                group_readers: Some(groups),
            };
            client.send(&SetRecordingPolicy { project_id: project.id, attributes }).await?
        }
    };
    output::item(&ProjectPolicy { project: project.name, policy }, &output.output, terminal)
}

async fn list(args: RecordingListArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let RecordingListArgs { cluster, project, last, output } = args;
    let nothing = match (&cluster, &project) {
        (None, None) => "no recording that you may read",
        _ => "no recordings found",
    };
    let found = if let Some(cluster) = cluster {
        let (id, handle) = cluster.variables();
        client.send(&ListRecordings { id, handle, last }).await?.recordings
    } else {
        // Of one that is gone nothing else is known: the console looks for it among recordings.
        let project = project.map(|project| Kind::Project.bare(&project).to_owned());
        let (project_id, project_name) = match project {
            Some(id) if is_id(&id) => (Some(id), None),
            name => (None, name),
        };
        client.send(&ListReadableRecordings { project_id, project_name, last }).await?
    };
    let mut recordings: Vec<Recording> = found.edges.into_iter().map(|edge| edge.node).collect();
    recordings.reverse();
    output::list(&recordings, &output, nothing, terminal)
}

async fn get(args: RecordingGetArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let mut download = open(&args.recording, client).await?;
    match args.file {
        None => {
            while let Some(piece) = download.piece().await? {
                terminal.out.write_all(&piece)?;
            }
            terminal.out.flush()?;
        }
        Some(path) => {
            let cannot =
                |error: std::io::Error| CliError::new(format!("cannot write {}: {error}", path.display()));
            // What was shown may be secret: the file is for its owner alone, and there only when it is whole.
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(std::path::Path::new("."));
            let mut file = tempfile::NamedTempFile::new_in(folder).map_err(cannot)?;
            while let Some(piece) = download.piece().await? {
                std::io::Write::write_all(&mut file, &piece).map_err(cannot)?;
            }
            file.persist(&path).map_err(|error| cannot(error.error))?;
            terminal.say(format_args!("hint: `plural cd clusters recordings play {}`", path.display()));
        }
    }
    Ok(())
}

async fn open(id: &str, client: &Client) -> Result<Download, CliError> {
    let id = key::bare_id("recording", id);
    if !is_id(id) {
        return Err(CliError::usage(format!("{id:?} is not the id of a recording"))
            .hint("`plural cd clusters recordings list` shows them"));
    }
    Ok(client.recording(id).await?)
}

async fn play(args: RecordingPlayArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let RecordingPlayArgs { recording, speed, pause } = args;
    let mut player = Player { speed, pause, at: 0.0, headed: false, replay: Replay::default() };
    if !is_id(key::bare_id("recording", &recording)) {
        let cannot = |error: std::io::Error| {
            CliError::new(format!("cannot read {recording}: {error}"))
                .hint("`plural cd clusters recordings list` shows the ids of recordings")
        };
        let mut file = std::io::BufReader::new(std::fs::File::open(&recording).map_err(cannot)?);
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut limited = std::io::Read::take(&mut file, LONGEST_LINE as u64);
            if limited.read_until(b'\n', &mut line).map_err(cannot)? == 0 {
                return Ok(());
            }
            player.line(&line, terminal).await?;
        }
    }
    let mut download = open(&recording, client).await?;
    let mut waiting: Vec<u8> = Vec::new();
    while let Some(piece) = download.piece().await? {
        waiting.extend_from_slice(&piece);
        while let Some(end) = waiting.iter().position(|byte| *byte == b'\n') {
            let rest = waiting.split_off(end + 1);
            let line = std::mem::replace(&mut waiting, rest);
            player.line(&line, terminal).await?;
        }
        if waiting.len() > LONGEST_LINE {
            return Err(CliError::new("the recording has a line that is too long"));
        }
    }
    Ok(())
}

/// Shows one line of an asciicast after the other.
struct Player {
    speed: f64,
    pause: Option<Duration>,
    /// Seconds of the recording so far.
    at: f64,
    /// The first line was read.
    headed: bool,
    replay: Replay,
}

impl Player {
    async fn line(&mut self, line: &[u8], terminal: &mut Terminal<'_>) -> Result<(), CliError> {
        let bad = || CliError::new("this is not an asciicast of version 2");
        let line: Value = serde_json::from_slice(line).map_err(|_| bad())?;
        if !self.headed {
            self.headed = true;
            return if line["version"] == 2 { Ok(()) } else { Err(bad()) };
        }
        let (Some(at), Some(kind), Some(text)) = (line[0].as_f64(), line[1].as_str(), line[2].as_str())
        else {
            return Err(bad());
        };
        if kind != "o" {
            return Ok(());
        }
        let wait = Duration::try_from_secs_f64((at - self.at) / self.speed).unwrap_or_default();
        self.at = self.at.max(at);
        let wait = self.pause.map_or(wait, |pause| wait.min(pause));
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        terminal.out.write_all(self.replay.shown(text).as_bytes())?;
        Ok(terminal.out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn played(lines: &[&str]) -> Result<String, String> {
        let (mut out, mut err, mut input) = (Vec::new(), Vec::new(), std::io::Cursor::new(Vec::new()));
        let done = {
            let mut terminal = Terminal {
                out: &mut out,
                err: &mut err,
                input: &mut input,
                interactive: false,
                screen: None,
                variable: Box::new(|_| None),
            };
            let mut player = Player {
                speed: 10_000.0,
                pause: Some(Duration::ZERO),
                at: 0.0,
                headed: false,
                replay: Replay::default(),
            };
            let mut done = Ok(());
            for line in lines {
                if done.is_ok() {
                    done = player.line(line.as_bytes(), &mut terminal).await;
                }
            }
            done
        };
        done.map(|()| String::from_utf8(out).unwrap()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn only_what_was_shown_is_shown() {
        let lines = [
            r#"{"version":2,"width":80,"height":24}"#,
            r#"[0.0,"m","the recording begins"]"#,
            r#"[0.1,"r","100x40"]"#,
            r#"[0.2,"i","ls\n"]"#,
            r#"[0.3,"o","a\r\n"]"#,
            r#"[9999.5,"o","\u001b[1mb"]"#,
        ];
        assert_eq!(played(&lines).await.unwrap(), "a\r\n\u{1b}[1mb");
        assert!(played(&[r#"{"version":1}"#]).await.is_err());
        assert!(played(&["text"]).await.is_err());
        assert!(played(&[lines[0], "{}"]).await.is_err());
    }
}
