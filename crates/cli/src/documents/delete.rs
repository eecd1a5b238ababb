//! `plural delete`.

use plural_wire::Client;

use super::{
    apply::what_goes,
    args::DeleteArgs,
    console::Console,
    kind::Kind,
    read, resolve,
    thing::{self, Live},
    waiting,
};
use crate::{error::CliError, key::ServiceKey, plain::one_line, terminal::Terminal};

struct Doomed {
    kind: Kind,
    name: String,
    live: Live,
    detach: bool,
}

pub(crate) async fn run(
    args: DeleteArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let files = read::files(&args.files.files, args.files.recursive, terminal)?;
    files.problems.check()?;
    let mut console = Console::new(client);
    let (wishes, _) = resolve::resolve(files, &mut console).await?;
    let mut doomed = Vec::new();
    let mut missing = 0;
    // Whoever was applied last goes first.
    for wish in wishes.into_iter().rev() {
        if args.selector.as_ref().is_some_and(|selector| !selector.takes(&wish.document.labels)) {
            continue;
        }
        let (kind, name) = (wish.document.kind, wish.name());
        let detach = wish.document.spec.get("detach").is_some_and(|detach| detach == true);
        match thing::read(kind, &wish.desired.key, &mut console).await? {
            Some(live) => doomed.push(Doomed { kind, name, live, detach }),
            None if args.ignore_not_found => {}
            None => {
                missing += 1;
                terminal.say(format_args!("{name} is not there"));
            }
        }
    }
    if !doomed.is_empty() {
        if !args.confirm.yes {
            terminal.say("to be deleted:");
            for one in &doomed {
                terminal.say(format_args!("  {}{}", one.name, goes(one, client).await?));
            }
        }
        terminal.confirm(&format!("{} things are deleted", doomed.len()), args.confirm.yes)?;
    }
    let mut failed = 0;
    for Doomed { kind, name, live, detach } in &doomed {
        if !live.leaving
            && let Err(error) = thing::remove(*kind, live, *detach, &mut console).await
        {
            failed += 1;
            let others = doomed.iter().any(|one| one.kind > *kind);
            let hint = if others && !args.wait.wait {
                "; what uses it may still be on its way out: run again, or add --wait"
            } else {
                ""
            };
            terminal.say(format_args!("error: {name} was not deleted: {error}{hint}"));
            continue;
        }
        if args.wait.wait {
            waiting::until_gone(*kind, &live.key, name, args.wait.timeout, &mut console, terminal).await?;
        }
        let is_there = !args.wait.wait && thing::read(*kind, &live.key, &mut console).await?.is_some();
        let word = if is_there { "is being deleted" } else { "deleted" };
        writeln!(terminal.out, "{} {word}", one_line(name))?;
    }
    match (failed, missing) {
        (0, 0) => Ok(()),
        (0, _) => Err(CliError::new(format!("{missing} of them were not there"))
            .hint("--ignore-not-found takes that as done")),
        _ => Err(CliError::new(format!("{failed} of {} things were not deleted", doomed.len()))),
    }
}

/// What goes with it, in words.
async fn goes(one: &Doomed, client: &Client) -> Result<String, CliError> {
    if one.kind == Kind::InfrastructureStack && one.detach {
        return Ok("; what it made stays where it is".to_owned());
    }
    if one.kind != Kind::ServiceDeployment {
        return Ok(what_goes(one.kind).to_owned());
    }
    let details = ServiceKey::Id(one.live.id.clone()).get(client).await?;
    let count = details.components.len();
    Ok(if one.detach {
        format!("; its {count} objects stay in the cluster")
    } else {
        format!(", with its {count} objects in the cluster")
    })
}
