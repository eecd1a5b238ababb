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

/// The variable that holds the credential. No command of a run finds it in its environment.
pub const TOKEN_VARIABLE: &str = "PLURAL_RUN_TOKEN";
/// The variable that holds the address of a proxy. Commands are told of it as tools know such.
pub const PROXY_VARIABLE: &str = "PLURAL_CONSOLE_PROXY";
/// How long a command may take where the stack does not say it.
const USUAL_TIMEOUT: Duration = Duration::from_hours(1);
/// Letters of an error that is reported.
const LONGEST_ERROR: usize = 4_000;

/// Where everything is printed besides.
pub type Echo = Box<dyn AsyncWrite + Send + Unpin>;

/// What a harness is started with.
#[derive(Debug, Clone)]
pub struct HarnessConfig {
    /// The console's address.
    pub console_url: String,
    /// The run.
    pub run: StackRunId,
    /// The credential of this Job.
    pub token: SecretString,
    /// Certificate authority of the console, where the system does not know it.
    pub ca_pem: Option<Vec<u8>>,
    /// The console may be elsewhere and have no TLS.
    pub insecure_http: bool,
    /// The proxy that leads to the console, where one does.
    pub proxy: Option<ConsoleProxy>,
    /// The folder in which all is done; made if it is not there.
    pub folder: PathBuf,
    /// How long things take.
    pub pace: Pace,
}

/// A proxy that leads to the console.
#[derive(Debug, Clone)]
pub struct ConsoleProxy {
    /// Its address, perhaps with a password.
    pub url: SecretString,
    /// Hosts that are reached without it, between commas.
    pub except: String,
}

/// How long things take.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Between two signs of life.
    pub beat: Duration,
    /// How long a call is tried again. The log of a command that still runs is tried without an end.
    pub patience: Duration,
    /// Between two tries: at first, and at most.
    pub retry: (Duration, Duration),
    /// How long the console may take for an answer.
    pub request: Duration,
    /// How long a tool that was asked to stop may take.
    pub grace: Duration,
    /// How long a line of a log waits for others.
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
    /// All steps ended well, and the console knows it.
    Done,
    /// They did not, or the console could not be told.
    Failed,
    /// The console lets this Job do nothing, or nothing more.
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

/// Does what the console says of this run, and tells it how that ended. What it prints goes to `echo`, too.
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

/// Does all of it, and reports; answers what was reported, and what ended it.
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
        // Nobody listens to this Job any more.
        Err(End::Unknown) => Ok(()),
        Ok(()) | Err(_) => console.done(&report).await,
    };
    if let Err(End::Refused(why)) = &reported
        && report.outputs.take().is_some()
    {
        // There are too many, or too large ones. It is applied all the same, and that is to be known.
        let told = secrets.hidden(&format!("the console does not take the outputs: {why}\n"));
        log::write(echo, told.as_bytes()).await;
        reported = console.done(&report).await;
    }
    let end = match (worked, reported) {
        (Err(end), _) | (Ok(()), Err(end)) => Err(end),
        (Ok(()), Ok(())) => Ok(()),
    };
    // What went wrong with the report itself is said instead.
    let was_told = report.error.is_some();
    (was_told.then_some(report), end)
}

/// All that no log may show.
fn secrets(
    config: &HarnessConfig,
    state_token: &SecretString,
    input: &RunInput,
) -> Result<Arc<Secrets>, String> {
    let mut collected = Collected::default();
    for token in [config.token.expose_secret(), state_token.expose_secret()] {
        collected.value(token);
        // As basic authentication writes it.
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

/// The password of a proxy, as its address has it.
fn password_of(proxy: &ConsoleProxy) -> Option<String> {
    let (_, rest) = proxy.url.expose_secret().split_once("://")?;
    let (login, _) = rest.split_once('/').map_or(rest, |(authority, _)| authority).rsplit_once('@')?;
    let (_, password) = login.split_once(':')?;
    Some(password.to_owned()).filter(|password| !password.is_empty())
}

/// What a Job may have done.
struct Changed {
    changed: bool,
    outputs: Option<Vec<OutputReport>>,
}

/// A Job with all that its commands need.
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
        // Its password is not for what a fork wrote.
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
                    // The way it ends is more than what is said of it.
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
            // Commands that somebody gave have no plan that was made with these providers.
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
                // It is applied all the same.
                Err(end) => self.say(&format!("the outputs could not be read: {}\n", end.words())).await,
            },
            (None, None) => {}
        }
        if let Some(found) = &mut changed.outputs {
            outputs::guard(found, &self.input.environment);
        }
        Ok(())
    }

    /// Tells Pulumi its variables before the first command that needs them; whether it is done.
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
        // What commands of somebody's own print is all that their log has.
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

    /// Runs it, and answers a good exit code. What is bad was reported.
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
                    // First, so that what the stack says in its own arguments counts more.
                    let first = ["--extra-vars".to_owned(), format!("@{}", path.display())];
                    args = first.into_iter().chain(args).collect();
                }
                let limits = Limits { asks: asks(self.input.tool, *custom), ..self.limits() };
                let cmd = Cmd { program, args, folder, environment: &self.environment, limits };
                let ended = child::logged(&cmd, log, &mut self.console.stop()).await;
                let seconds = limits.timeout.as_secs();
                match ended {
                    Ok(Ended::Code(0)) => return Ok(0),
                    // Of `-detailed-exitcode`: there are changes.
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
            // Why it failed is told once more at the end.
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

    /// Asks the tool something of our own, and answers what it prints to standard output.
    pub(crate) async fn own(
        &self,
        program: &str,
        args: &[&str],
        input: Option<&str>,
        most: usize,
    ) -> Result<Vec<u8>, End> {
        self.own_within(program, args, input, most, self.limits().timeout).await
    }

    /// The same, and it may take so long.
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

    /// Prints a line of our own beside those of the tool, without secrets.
    pub(crate) async fn say(&self, text: &str) {
        log::write(&self.echo, self.secrets.hidden(text).as_bytes()).await;
    }
}

/// What a tool takes for a wish to end in good order. The whole group gets it: Terraform's providers ignore SIGINT and end at SIGTERM,
/// and Ansible ends its workers in good order only at SIGINT.
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
