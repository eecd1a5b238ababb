//! Many stacks of one console, of which none changes.

use std::time::{Duration, Instant};

use plural_testkit::{GitRemote, OwnedFolder};
use plural_wire::{CancelStackRun, StackStatus};
use serde_json::json;

use super::world::{create, newest};
use crate::{
    api::Api,
    idle::{address, console, program},
    report::Figure,
    usage::Usage,
};

/// How long the first runs may take to be there.
const WITHIN: Duration = Duration::from_mins(15);
/// How long the console works on what is no rest yet.
const CALM: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(50);
/// Cores.
const CPU: f64 = 0.05;

fn name(number: usize) -> String {
    format!("stack-{number:04}")
}

pub(super) async fn run(stacks: usize, repositories: usize, seconds: u64) -> anyhow::Result<Vec<Figure>> {
    let plural = program()?;
    let folder = OwnedFolder::new("bench")?;
    let mut console = console(&plural, folder.path())?;
    let url = address(&mut console).await?;
    let api = Api::sign_in(&url, None).await?;
    // Its agent never comes: a run begins nowhere, and is cancelled.
    let (cluster, _) = api.registered("bench-1").await?;
    let rest = Duration::from_secs(seconds);
    eprintln!("a console without stacks rests for {seconds} s");
    tokio::time::sleep(CALM).await;
    let (before, began) = (Usage::of(console.pid())?, Instant::now());
    tokio::time::sleep(rest).await;
    let empty = Usage::of(console.pid())?;
    let without = empty.millicores_since(&before, began.elapsed()) / 1000.0;

    eprintln!("making {stacks} stacks");
    let started = Instant::now();
    let mut remotes = Vec::new();
    for number in 0..repositories {
        let remote = GitRemote::new()?;
        let mine = (number..stacks).step_by(repositories);
        remote
            .push_files(mine.map(|stack| (format!("{}/plan.sh", name(stack)), format!("echo {stack}\n"))))?;
        let id = api.repository(&remote.path().display().to_string()).await?;
        remotes.push((remote, id));
    }
    let mut made = Vec::new();
    for number in 0..stacks {
        let Some((_, repository)) = remotes.get(number % repositories) else { continue };
        let command = |stage: &str| json!({"stage": stage, "cmd": "sh", "args": ["plan.sh"]});
        let attributes = json!({
            "name": name(number), "type": "CUSTOM", "repositoryId": repository, "clusterId": cluster,
            "git": {"ref": "main", "folder": name(number)},
            "configuration": {"image": "example.org/tools", "tag": "1"},
            "commands": [command("PLAN"), command("APPLY")],
        });
        made.push(create(&api, attributes).await?);
    }
    eprintln!("made in {:.0} s; their first runs are cancelled", started.elapsed().as_secs_f64());
    for stack in &made {
        loop {
            console.check()?;
            let run = newest(&api, stack).await?;
            match run.map(|run| (run.status, run.id)) {
                Some((StackStatus::Cancelled, _)) => break,
                Some((StackStatus::Failed, id)) => anyhow::bail!("run {id} failed"),
                Some((StackStatus::Pending, id)) => {
                    api.client().send(&CancelStackRun { id }).await?;
                    break;
                }
                _ => {}
            }
            anyhow::ensure!(started.elapsed() < WITHIN, "a stack has no run within {WITHIN:?}");
            tokio::time::sleep(LOOK).await;
        }
    }
    tokio::time::sleep(CALM).await;
    eprintln!("resting for {seconds} s");
    let (before, began) = (Usage::of(console.pid())?, Instant::now());
    tokio::time::sleep(rest).await;
    let after = Usage::of(console.pid())?;
    let cores = after.millicores_since(&before, began.elapsed()) / 1000.0;
    for stack in [made.first(), made.last()].into_iter().flatten() {
        let run = newest(&api, stack).await?;
        let is_calm = run.is_some_and(|run| run.number == 1 && run.status == StackStatus::Cancelled);
        anyhow::ensure!(is_calm, "a stack that rests made a run");
    }
    console.check()?;
    console.stop();
    let each = (after.resident as f64 - empty.resident as f64) / 1024.0 / stacks as f64;
    Ok(vec![
        Figure::new(format!("{stacks} stacks at rest, CPU of the console"), cores, "cores")
            .at_most(CPU)
            .beside("without stacks", without)
            .beside("repositories", repositories as f64)
            .beside("seconds", seconds as f64),
        Figure::new(format!("{stacks} stacks at rest, memory of the console"), after.mebibytes(), "MiB")
            .beside("without stacks", empty.mebibytes())
            .beside("KiB of each stack", each),
    ])
}
