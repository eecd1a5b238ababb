//! The Job of a run, from its input to its report.

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use plural_core::ids::StackRunId;
use plural_core::run_call::{HEARTBEAT_SECONDS, InputStep, OutputReport, RunInput, RunReport, StepReport};
use plural_core::stack::StackTool;
use plural_core::stack_run::{RunKind, RunPhase, StepStatus};
use plural_core::stack_spec::Stage;
use plural_kit::ShutdownSignal;
use rustix::process::Signal;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::AsyncWrite;

use crate::{
    artifact,
    beat::Beat,
    child::{self, Cmd, Ended, Limits},
    console::Console,
    end::End,
    environment::{Environment, STATE_USER},
    findings,
    log::{self, Echoes, StepLog, Transcript},
    mask::{Collected, Secrets},
    outputs,
    workspace::Workspace,
};

/// The variable with the credential. No command of a run has it in its environment.
pub const TOKEN_VARIABLE: &str = "PLURAL_RUN_TOKEN";
/// The variable with the URL of a proxy. Commands get it in the variables that tools know.
pub const PROXY_VARIABLE: &str = "PLURAL_CONSOLE_PROXY";
/// Time limit of a command if the stack sets none.
const USUAL_TIMEOUT: Duration = Duration::from_hours(1);
/// Limit of a reported error, in characters.
const LONGEST_ERROR: usize = 4_000;

/// Where all output is copied to.
pub type Echo = Box<dyn AsyncWrite + Send + Unpin>;

/// Configuration of a harness.
#[derive(Debug, Clone)]
pub struct HarnessConfig {
    /// The console's URL.
    pub console_url: String,
    /// The run.
    pub run: StackRunId,
    /// The credential of this Job.
    pub token: SecretString,
    /// Certificate authority of the console, if the system does not have it.
    pub ca_pem: Option<Vec<u8>>,
    /// The console may be on another machine without TLS.
    pub insecure_http: bool,
    /// The proxy to the console, if there is one.
    pub proxy: Option<ConsoleProxy>,
    /// The folder for all its work; created if it does not exist.
    pub folder: PathBuf,
    /// Intervals and time limits.
    pub pace: Pace,
}

/// A proxy to the console.
#[derive(Debug, Clone)]
pub struct ConsoleProxy {
    /// Its URL, which may contain a password.
    pub url: SecretString,
    /// Hosts that are reached without it, separated by commas.
    pub except: String,
}

/// Intervals and time limits.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Interval of heartbeats.
    pub beat: Duration,
    /// How long a call is retried. The log of a command that still runs is retried without limit.
    pub patience: Duration,
    /// Backoff between two retries: first, and longest.
    pub retry: (Duration, Duration),
    /// Time limit of a call to the console.
    pub request: Duration,
    /// How long a tool may take to stop.
    pub grace: Duration,
    /// How long a line of a log waits to be sent with others.
    pub gather: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            beat: Duration::from_secs(HEARTBEAT_SECONDS),
            patience: Duration::from_mins(10),
            retry: (Duration::from_millis(250), Duration::from_secs(5)),
            request: Duration::from_mins(1),
            grace: Duration::from_mins(1),
            gather: Duration::from_millis(100),
        }
    }
}

/// How a Job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All steps succeeded, and the console knows it.
    Done,
    /// A step failed, or the report did not reach the console.
    Failed,
    /// The console no longer accepts this Job.
    Refused,
}

impl Outcome {
    /// The exit code of the program.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Done => ExitCode::SUCCESS,
            Self::Failed => ExitCode::FAILURE,
            Self::Refused => ExitCode::from(2),
        }
    }
}

/// Carries out a run as the console says, and reports the result. All output is copied to `echo`.
pub async fn run(config: HarnessConfig, echo: Echo, shutdown: ShutdownSignal) -> Outcome {
    let echo: Echoes = Arc::new(tokio::sync::Mutex::new(echo));
    let console = match Console::new(&config) {
        Ok(console) => Arc::new(console),
        Err(error) => {
            log::write(&echo, format!("error: {error}\n").as_bytes()).await;
            return Outcome::Refused;
        }
    };
    let watched = Arc::clone(&console);
    let signals = tokio::spawn(async move {
        shutdown.requested().await;
        watched.ask_to_stop(End::Terminated);
    });
    let (report, end) = match console.input().await {
        Ok(input) => {
            let beat = Beat::start(Arc::clone(&console), config.pace.beat);
            let finished = finished(&config, &console, &echo, input).await;
            drop(beat);
            finished
        }
        Err(end) => (None, Err(end)),
    };
    signals.abort();
    let outcome = match &end {
        Ok(()) => Outcome::Done,
        Err(End::Refused(_) | End::Unknown) => Outcome::Refused,
        Err(End::Failed(_) | End::Cancelled | End::Terminated | End::Away(_)) => Outcome::Failed,
    };
    let told = match report {
        Some(report) => format!("error: {}\n", report.error.unwrap_or_default()),
        None => end.as_ref().map_or_else(|end| format!("error: {}\n", end.words()), |()| String::new()),
    };
    if end.is_err() {
        log::write(&echo, told.as_bytes()).await;
    }
    outcome
}

/// Does the work and reports it; returns the report, and the error that ended it.
async fn finished(
    config: &HarnessConfig,
    console: &Arc<Console>,
    echo: &Echoes,
    input: RunInput,
) -> (Option<RunReport>, Result<(), End>) {
    let mut changed = Changed { changed: false, outputs: None };
    let secrets = match secrets(config, console.state_token(), &input) {
        Ok(secrets) => secrets,
        Err(why) => {
            let error = Some(why.clone());
            let report = RunReport {
                succeeded: false,
                cancelled: false,
                error,
                changed: false,
                outputs: None,
                interrupted: false,
            };
            let end = console.done(&report).await.err().unwrap_or(End::Failed(why));
            return (Some(report), Err(end));
        }
    };
    let worked = match Job::prepare(config, console, echo, &secrets, input).await {
        Ok(job) => job.work(&mut changed).await,
        Err(end) => Err(end),
    };
    let Changed { changed, outputs } = changed;
    let error = worked.as_ref().err().map(|end| {
        let words = secrets.hidden(&end.words());
        words.chars().take(LONGEST_ERROR).collect::<String>()
    });
    let cancelled = matches!(worked, Err(End::Cancelled));
    let interrupted = matches!(worked, Err(End::Terminated));
    let mut report = RunReport { succeeded: worked.is_ok(), cancelled, error, changed, outputs, interrupted };
    let mut reported = match worked {
        // The console no longer accepts this Job.
        Err(End::Unknown) => Ok(()),
        Ok(()) | Err(_) => console.done(&report).await,
    };
    if let Err(End::Refused(why)) = &reported
        && report.outputs.take().is_some()
    {
        // There are too many outputs, or too large ones. The apply has succeeded in any case, and that has to be reported.
        let told = secrets.hidden(&format!("the console does not take the outputs: {why}\n"));
        log::write(echo, told.as_bytes()).await;
        reported = console.done(&report).await;
    }
    let end = match (worked, reported) {
        (Err(end), _) | (Ok(()), Err(end)) => Err(end),
        (Ok(()), Ok(())) => Ok(()),
    };
    // A failed report replaces the error.
    let was_told = report.error.is_some();
    (was_told.then_some(report), end)
}

/// All values that no log may show.
fn secrets(
    config: &HarnessConfig,
    state_token: &SecretString,
    input: &RunInput,
) -> Result<Arc<Secrets>, String> {
    let mut collected = Collected::default();
    for token in [config.token.expose_secret(), state_token.expose_secret()] {
        collected.value(token);
        // In the form of basic authentication.
        collected.value(&format!("{STATE_USER}:{token}"));
    }
    if let Some(token) = &input.actor_token {
        collected.value(token);
    }
    if let Some(password) = config.proxy.as_ref().and_then(password_of) {
        collected.value(&password);
    }
    for variable in input.environment.iter().filter(|variable| variable.secret) {
        collected.value(&variable.value);
    }
    input.files.values().for_each(|content| collected.file(content));
    collected.build().map(Arc::new)
}

/// The password in the URL of a proxy.
fn password_of(proxy: &ConsoleProxy) -> Option<String> {
    let (_, rest) = proxy.url.expose_secret().split_once("://")?;
    let (login, _) = rest.split_once('/').map_or(rest, |(authority, _)| authority).rsplit_once('@')?;
    let (_, password) = login.split_once(':')?;
    Some(password.to_owned()).filter(|password| !password.is_empty())
}

/// What a Job may have changed.
struct Changed {
    changed: bool,
    outputs: Option<Vec<OutputReport>>,
}

/// A Job with everything that its commands need.
pub(crate) struct Job {
    pub(crate) console: Arc<Console>,
    pub(crate) input: RunInput,
    pub(crate) space: Workspace,
    pub(crate) secrets: Arc<Secrets>,
    environment: Environment,
    echo: Echoes,
    pace: Pace,
}

impl Job {
    async fn prepare(
        config: &HarnessConfig,
        console: &Arc<Console>,
        echo: &Echoes,
        secrets: &Arc<Secrets>,
        input: RunInput,
    ) -> Result<Self, End> {
        let root = std::path::absolute(&config.folder)
            .map_err(|error| End::failed(format!("the folder {}: {error}", config.folder.display())))?;
        Workspace::prepare(&root).map_err(End::Failed)?;
        let source = artifact::fetch(console, &input.artifact_digest, &root).await?;
        let space = Workspace::fill(&root, &source, &input).map_err(End::Failed)?;
        let mut environment = Environment::of(&input, (console.base(), console.state_token()), &root);
        if let Some(pem) = &config.ca_pem {
            environment.trust(pem);
        }
        if let Some(file) = &space.outputs {
            environment.take_outputs(file);
        }
        // Code from a fork must not get its password.
        if let Some(proxy) = config.proxy.as_ref().filter(|_| !input.spec.is_checked_only()) {
            environment.detour(proxy);
        }
        Ok(Self {
            console: Arc::clone(console),
            input,
            space,
            secrets: Arc::clone(secrets),
            environment,
            echo: Arc::clone(echo),
            pace: config.pace.clone(),
        })
    }

    async fn work(&self, changed: &mut Changed) -> Result<(), End> {
        match self.input.phase {
            RunPhase::Plan => self.plan().await,
            RunPhase::Apply => {
                let applied = self.apply(changed).await;
                if !changed.changed {
                    return applied;
                }
                match (self.rescue().await, applied) {
                    (None, applied) => applied,
                    (Some(told), Ok(())) => Err(End::Failed(told)),
                    (Some(told), Err(End::Failed(why))) => Err(End::Failed(format!("{why}; {told}"))),
                    // The kind of the end matters more than its text.
                    (Some(told), Err(end)) => {
                        self.say(&format!("{told}\n")).await;
                        Err(end)
                    }
                }
            }
        }
    }

    async fn plan(&self) -> Result<(), End> {
        if let Some(exec) = &self.input.spec.exec {
            for step in &self.input.steps {
                self.step(step, None).await?;
            }
            return self.hand_in_commands(exec).await;
        }
        let is_planning = |step: &&InputStep| {
            step.stage == Stage::Plan && (!step.custom || self.input.tool == StackTool::Custom)
        };
        let last = self.input.steps.iter().rfind(is_planning).map(|step| step.index);
        let program = self.input.steps.iter().find(|step| step.stage == Stage::Plan && !step.custom);
        let program = program.map(|step| step.cmd.as_str());
        let wants_text = !self.input.tool.has_state();
        let mut text = None;
        let mut json = None;
        let mut is_configured = false;
        for step in &self.input.steps {
            if findings::is_scan(step) {
                self.lay_out_plan(json.as_ref())?;
            }
            if !is_configured {
                is_configured = self.configure(step).await?;
            }
            let wanted =
                (wants_text && is_planning(&step)).then(|| text.take().unwrap_or_else(Transcript::new));
            if let Some(printed) = self.step(step, wanted).await? {
                text = Some(printed);
            }
            if findings::is_scan(step) {
                self.hand_in_scan().await?;
            }
            if last == Some(step.index) {
                json = self.hand_in_plan(program, text.take().map(Transcript::finish)).await?;
                self.hand_in_cost(json.as_ref()).await?;
            }
        }
        match last {
            Some(_) => Ok(()),
            None => self.hand_in_plan(None, None).await.map(drop),
        }
    }

    async fn apply(&self, changed: &mut Changed) -> Result<(), End> {
        self.fetch_plan().await?;
        let mut is_configured = false;
        let mut is_checked = false;
        let mut program = None;
        for step in &self.input.steps {
            // Commands that a user gave have no plan that was made with these providers.
            if step.stage != Stage::Init && !is_checked && self.input.spec.exec.is_none() {
                self.check_lock()?;
                is_checked = true;
            }
            if !is_configured {
                is_configured = self.configure(step).await?;
            }
            if matches!(step.stage, Stage::Apply | Stage::Destroy) {
                if !step.custom {
                    self.check_plan()?;
                }
                changed.changed = true;
                if !step.custom {
                    program = Some(step.cmd.as_str());
                }
            }
            self.step(step, None).await?;
        }
        match (&self.space.outputs, program) {
            (Some(file), _) => changed.outputs = Some(outputs::read(file)?),
            (None, Some(program)) => match self.outputs(program).await {
                Ok(outputs) => changed.outputs = outputs,
                // The apply has succeeded in any case.
                Err(end) => self.say(&format!("the outputs could not be read: {}\n", end.words())).await,
            },
            (None, None) => {}
        }
        if let Some(found) = &mut changed.outputs {
            outputs::guard(found, &self.input.environment);
        }
        Ok(())
    }

    /// Sets Pulumi's variables before the first command that needs them; returns whether that is done.
    async fn configure(&self, step: &InputStep) -> Result<bool, End> {
        if self.input.tool != StackTool::Pulumi || step.custom || step.stage == Stage::Init {
            return Ok(false);
        }
        self.configure_pulumi(&step.cmd).await?;
        Ok(true)
    }

    /// Runs one command of the run.
    async fn step(&self, step: &InputStep, text: Option<Transcript>) -> Result<Option<Transcript>, End> {
        if let Some(end) = self.console.asked_to_stop() {
            return Err(end);
        }
        let report = |status, exit_code| StepReport { status, exit_code };
        self.console.step(step, &report(StepStatus::Running, None)).await?;
        let log = StepLog::start((&self.console, step.index), &self.secrets, &self.echo, self.pace.gather);
        let mut log = match text {
            Some(text) => log.with_transcript(text),
            None => log,
        };
        let ran = self.command(step, &mut log).await;
        // The log of given commands has only their own output.
        if let Err(End::Failed(why)) = &ran
            && self.input.kind != RunKind::Commands
        {
            log.push(format!("{why}\n").as_bytes()).await;
        }
        let text = log.finish().await?;
        match ran {
            Ok(code) => {
                self.console.step(step, &report(StepStatus::Successful, Some(code))).await?;
                Ok(text)
            }
            Err(end) => Err(end),
        }
    }

    /// Runs it, and returns an exit code of success. A failure is already reported.
    async fn command(&self, step: &InputStep, log: &mut StepLog) -> Result<i32, End> {
        let InputStep { index: _, stage, name, cmd, args, custom, dir } = step;
        let folder = match dir {
            Some(dir) => self.space.work.join(dir),
            None => self.space.work.clone(),
        };
        let folder = folder.as_path();
        let (code, why) = match self.environment.find(cmd, folder) {
            None => (
                None,
                End::failed(format!(
                    "there is no program `{cmd}` in this image: set configuration.image (or version, tag) of the stack to \
                     an image that has it"
                )),
            ),
            Some(program) => {
                let plan = self.space.plan.to_string_lossy();
                let mut args: Vec<String> = args.iter().map(|arg| arg.replace("$PLAN", &plan)).collect();
                if let Some(path) = self.space.extra_vars.as_ref().filter(|_| !custom) {
                    // First, so that the stack's own arguments take precedence.
                    let first = ["--extra-vars".to_owned(), format!("@{}", path.display())];
                    args = first.into_iter().chain(args).collect();
                }
                let limits = Limits { asks: asks(self.input.tool, *custom), ..self.limits() };
                let cmd = Cmd { program, args, folder, environment: &self.environment, limits };
                let ended = child::logged(&cmd, log, &mut self.console.stop()).await;
                let seconds = limits.timeout.as_secs();
                match ended {
                    Ok(Ended::Code(0)) => return Ok(0),
                    // From `-detailed-exitcode`: there are changes.
                    Ok(Ended::Code(2)) if is_detailed(step) => return Ok(2),
                    Ok(Ended::Code(code)) => (
                        Some(code),
                        End::failed(format!("the step {name} ended with exit code {code}: its log says why")),
                    ),
                    Ok(Ended::Signal(signal)) => {
                        (None, End::failed(format!("the step {name} was ended by signal {signal}")))
                    }
                    Ok(Ended::TimedOut) => {
                        let told =
                            format!("the step {name} took longer than {seconds} seconds, and was ended");
                        (None, End::Failed(told))
                    }
                    Ok(Ended::Stopped(end)) => (None, end),
                    Err(error) => {
                        (None, End::failed(format!("the step {name} ({stage:?}) cannot be started: {error}")))
                    }
                }
            }
        };
        let report = StepReport { status: StepStatus::Failed, exit_code: code };
        if why != End::Unknown {
            // The reason of the failure is repeated at the end.
            let _ = self.console.step(step, &report).await;
        }
        Err(why)
    }

    fn limits(&self) -> Limits {
        let timeout = match self.input.spec.timeout_seconds {
            0 => USUAL_TIMEOUT,
            seconds => Duration::from_secs(seconds),
        };
        Limits { timeout, asks: Signal::INT, grace: self.pace.grace }
    }

    /// Runs the tool with a query of the harness, and returns its standard output.
    pub(crate) async fn own(
        &self,
        program: &str,
        args: &[&str],
        input: Option<&str>,
        most: usize,
    ) -> Result<Vec<u8>, End> {
        self.own_within(program, args, input, most, self.limits().timeout).await
    }

    /// The same, with a time limit.
    pub(crate) async fn own_within(
        &self,
        program: &str,
        args: &[&str],
        input: Option<&str>,
        most: usize,
        timeout: Duration,
    ) -> Result<Vec<u8>, End> {
        let Some(path) = self.environment.find(program, &self.space.work) else {
            return Err(End::failed(format!("there is no program `{program}` in this image any more")));
        };
        let cmd = Cmd {
            program: path,
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            folder: &self.space.work,
            environment: &self.environment,
            limits: Limits { timeout, ..self.limits() },
        };
        let printed = child::captured(&cmd, input, most, &mut self.console.stop()).await;
        printed.map_err(|why| self.console.asked_to_stop().unwrap_or(End::Failed(why)))
    }

    /// Whether the image has this program.
    pub(crate) fn has_program(&self, program: &str) -> bool {
        self.environment.find(program, &self.space.work).is_some()
    }

    /// Prints a line of the harness among the tool's output, with secrets masked.
    pub(crate) async fn say(&self, text: &str) {
        log::write(&self.echo, self.secrets.hidden(text).as_bytes()).await;
    }
}

/// The signal for a graceful stop of a tool. The whole process group gets it: Terraform's providers ignore SIGINT and stop on SIGTERM,
/// while Ansible stops its workers gracefully only on SIGINT.
fn asks(tool: StackTool, custom: bool) -> Signal {
    if custom {
        return Signal::TERM;
    }
    match tool {
        StackTool::Custom => Signal::TERM,
        StackTool::Terraform | StackTool::Terragrunt | StackTool::Ansible | StackTool::Pulumi => Signal::INT,
    }
}

fn is_detailed(step: &InputStep) -> bool {
    step.stage == Stage::Plan && !step.custom && step.args.iter().any(|arg| arg == "-detailed-exitcode")
}
