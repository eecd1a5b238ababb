//! `plural apply`.

use std::collections::BTreeSet;

use plural_wire::Client;
use serde_json::{Value, json};

use super::{
    args::{ApplyArgs, ApplyFormat},
    console::Console,
    kind::Kind,
    plan::{self, Planned, Step},
    print, read,
    resolve::{self, shown},
    set::Set,
    thing::{self, Live},
    waiting,
};
use crate::{error::CliError, output, plain::one_line, terminal::Terminal};

pub(crate) async fn run(
    args: ApplyArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    if args.prune && args.selector.is_none() {
        return Err(CliError::usage(
            "--prune needs -l KEY=VALUE: it deletes what applying files with that label made",
        ));
    }
    let files = read::files(&args.files.files, args.files.recursive, terminal)?;
    files.problems.check()?;
    let mut console = Console::new(client);
    let (wishes, warnings) = resolve::resolve(files, &mut console).await?;
    for warning in warnings {
        terminal.say(format_args!("warning: {warning}"));
    }
    let mut planned = plan::plan(wishes, args.selector.as_ref(), &mut console).await?;
    let mut set = match &args.selector {
        Some(selector) => Some(Set::load(selector, &console).await?),
        None => None,
    };
    let leftovers = match &mut set {
        Some(set) if args.prune => {
            let kept: Vec<String> =
                planned.iter().filter_map(|one| Some(one.live.as_ref()?.id.clone())).collect();
            set.leftovers(&kept, &mut console).await?
        }
        _ => Vec::new(),
    };
    if planned.iter().all(|one| one.step == Step::Skip) && leftovers.is_empty() {
        return Err(CliError::new(match &args.selector {
            Some(selector) => format!("no document has the labels {selector}"),
            None => "there are no documents in the files".to_owned(),
        }));
    }
    if args.dry_run {
        return dry(&planned, &leftovers, &args, &mut console, terminal).await;
    }
    if !leftovers.is_empty() {
        terminal.say("to be deleted, because an earlier apply with this label made it and no document describes it any more:");
        for (kind, live) in &leftovers {
            terminal.say(format_args!(
                "  {}{}",
                resolve::shown(*kind, &live.key, &live.key),
                what_goes(*kind)
            ));
        }
        terminal.confirm(&format!("{} things are deleted", leftovers.len()), args.confirm.yes)?;
    }
    let mut run = Run { args: &args, failed: BTreeSet::new(), results: Vec::new() };
    for at in 0..planned.len() {
        run.one(at, &mut planned, set.as_mut(), &mut console, terminal).await?;
    }
    if run.failed.is_empty() {
        for (kind, live) in &leftovers {
            run.prune(*kind, live, set.as_mut(), &mut console, terminal).await?;
        }
    } else if !leftovers.is_empty() {
        terminal.say("nothing was pruned, because not everything was applied");
    }
    let recorded = match &set {
        Some(set) => set.save(args.record_project.as_deref(), &mut console).await,
        None => Ok(()),
    };
    run.print(&planned, &mut console, terminal).await?;
    recorded.map_err(|error| {
        CliError::new(format!("what was made could not be recorded: {error}"))
            .hint("what this run made will not be pruned later; --record-project names a project that you may write")
    })?;
    let Run { failed, .. } = run;
    if !failed.is_empty() {
        return Err(CliError::new(format!(
            "{} of {} documents were not applied",
            failed.len(),
            planned.len()
        ))
        .hint("run the same command again once the cause is gone: what is as it should be stays"));
    }
    if args.wait.wait {
        for one in planned.iter().filter(|one| one.step != Step::Skip) {
            waiting::until_ready(
                one.wish.document.kind,
                &one.wish.desired.key,
                args.wait.timeout,
                client,
                terminal,
            )
            .await?;
        }
    }
    Ok(())
}

/// What deleting one takes along.
pub(super) fn what_goes(kind: Kind) -> &'static str {
    match kind {
        Kind::ServiceDeployment => ", with its objects in the cluster",
        Kind::GlobalService => ", and its instances as its cascade says",
        Kind::ManagedNamespace => ", and its namespaces as its cascade says",
        Kind::Cluster => ", with the objects of all its services",
        Kind::InfrastructureStack => ", and what it made is destroyed before",
        Kind::Project
        | Kind::GitRepository
        | Kind::HelmRepository
        | Kind::StackDefinition
        | Kind::ServiceContext
        | Kind::SyncWindow => "",
    }
}

/// A run of `plural apply`.
struct Run<'a> {
    args: &'a ApplyArgs,
    failed: BTreeSet<usize>,
    /// Name, action, and the place of its document.
    results: Vec<(String, &'static str, Option<usize>)>,
}

impl Run<'_> {
    async fn one(
        &mut self,
        at: usize,
        planned: &mut [Planned],
        set: Option<&mut Set>,
        console: &mut Console<'_>,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), CliError> {
        let Some(one) = planned.get_mut(at) else { return Ok(()) };
        let name = one.wish.name();
        if one.step == Step::Skip {
            return Ok(());
        }
        if let Some(need) = one.wish.needs.iter().find(|need| self.failed.contains(need)).copied() {
            self.failed.insert(at);
            let need = planned.get(need).map(|need| need.wish.name()).unwrap_or_default();
            terminal.say(format_args!("{name} was not applied, because {need} was not"));
            return Ok(());
        }
        let (kind, desired) = (one.wish.document.kind, &one.wish.desired);
        let done = match (&mut one.live, one.step) {
            (None, _) => thing::make(kind, desired, console).await.map(|id| {
                if let Some(set) = set {
                    set.made(kind, &id, &desired.key);
                }
                "created"
            }),
            (Some(_), Step::Nothing | Step::Skip) => Ok("unchanged"),
            (Some(live), _) => thing::change(kind, live, &one.merged, desired, console)
                .await
                .map(|is_other| if is_other { "configured" } else { "unchanged" }),
        };
        match done {
            Ok(action) => {
                if (kind, action) == (Kind::Cluster, "created") {
                    let key = &desired.key;
                    terminal.say(format_args!(
                        "{name}: `plural cd clusters bootstrap {key}` shows how its agent joins"
                    ));
                }
                self.tell(name, action, Some(at), terminal)
            }
            Err(error) => {
                self.failed.insert(at);
                terminal
                    .say(format_args!("error: {}: {name} was not applied: {error}", one.wish.document.place));
                Ok(())
            }
        }
    }

    async fn prune(
        &mut self,
        kind: Kind,
        live: &Live,
        set: Option<&mut Set>,
        console: &mut Console<'_>,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), CliError> {
        let name = shown(kind, &live.key, &live.key);
        if live.leaving {
            return Ok(());
        }
        match thing::remove(kind, live, false, console).await {
            Ok(()) => {
                if self.args.wait.wait {
                    let timeout = self.args.wait.timeout;
                    waiting::until_gone(kind, &live.key, &name, timeout, console, terminal).await?;
                }
                // What goes by and by stays recorded until it is gone.
                let gone = thing::read(kind, &live.key, console).await?.is_none();
                if let Some(set) = set.filter(|_| gone) {
                    set.gone(&live.id);
                }
                self.tell(name, "pruned", None, terminal)
            }
            Err(error) => {
                self.failed.insert(usize::MAX);
                terminal.say(format_args!("error: {name} was not pruned: {error}"));
                Ok(())
            }
        }
    }

    /// Tells at once what was done: who breaks off sees how far it came.
    fn tell(
        &mut self,
        name: String,
        action: &'static str,
        at: Option<usize>,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), CliError> {
        match self.args.output {
            None => writeln!(terminal.out, "{} {action}", one_line(&name))?,
            Some(ApplyFormat::Name) => writeln!(terminal.out, "{}", one_line(&name))?,
            Some(ApplyFormat::Json | ApplyFormat::Yaml) => {}
        }
        self.results.push((name, action, at));
        Ok(())
    }

    async fn print(
        &self,
        planned: &[Planned],
        console: &mut Console<'_>,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), CliError> {
        let Some(format @ (ApplyFormat::Json | ApplyFormat::Yaml)) = self.args.output else { return Ok(()) };
        let names = plan::names(planned);
        let mut items = Vec::new();
        for (_, action, at) in &self.results {
            let Some(one) = at.and_then(|at| planned.get(at)) else { continue };
            let document = &one.wish.document;
            let state = super::state::normal(document.kind.info().fields, &one.merged);
            let mut item = print::document(document.kind, &document.name, &state, &names, console).await?;
            item["status"] = json!({"action": action});
            items.push(item);
        }
        list(&items, format == ApplyFormat::Json, terminal)
    }
}

/// Prints documents as one list, which `plural apply` reads again.
pub(super) fn list(items: &[Value], is_json: bool, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    if is_json { output::json(&list, terminal) } else { output::yaml(&list, terminal) }
}

async fn dry(
    planned: &[Planned],
    leftovers: &[(Kind, Live)],
    args: &ApplyArgs,
    console: &mut Console<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let mut run = Run { args, failed: BTreeSet::new(), results: Vec::new() };
    for (at, one) in planned.iter().enumerate() {
        let action = match one.step {
            Step::Create => "created (dry run)",
            Step::Change => "configured (dry run)",
            Step::Compare => "unchanged, but for secret values that the console does not tell (dry run)",
            Step::Nothing => "unchanged (dry run)",
            Step::Skip => continue,
        };
        run.tell(one.wish.name(), action, Some(at), terminal)?;
    }
    for (kind, live) in leftovers {
        run.tell(shown(*kind, &live.key, &live.key), "pruned (dry run)", None, terminal)?;
    }
    run.print(planned, console, terminal).await
}
