//! The tool without us: the same commands on the same code, by hand.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use plural_testkit::find_program;
use tokio::process::Command;

use super::world::World;
use crate::samples::Samples;

/// How long it took.
pub(super) struct Bare {
    /// To plan, as a person does.
    pub(super) planned: Samples,
    /// And to say what the plan is, as JSON and as text.
    pub(super) all: Samples,
}

/// Plans so often, each time in a new folder, with the state that the stack has.
pub(super) async fn plan(world: &World, stack: &str, code: &str, times: usize) -> anyhow::Result<Bare> {
    let tofu = find_program("tofu")?;
    let home = world.folder("bare")?;
    let mut bare = Bare { planned: Samples::default(), all: Samples::default() };
    for round in 0..times {
        let folder = home.join(round.to_string());
        fs::create_dir(&folder)?;
        fs::write(folder.join("main.tf"), code)?;
        fs::write(folder.join("backend.tf"), "terraform {\n  backend \"http\" {}\n}\n")?;
        let by_hand = ByHand { tofu: &tofu, home: &home, folder: &folder, world, stack };
        let mut planned = by_hand.takes(&["init", "-input=false"]).await?;
        planned += by_hand.takes(&["plan", "-input=false", "-lock=false", "-out=plan"]).await?;
        let mut all = planned + by_hand.takes(&["show", "-json", "plan"]).await?;
        all += by_hand.takes(&["show", "-no-color", "plan"]).await?;
        bare.planned.add(planned);
        bare.all.add(all);
    }
    Ok(bare)
}

struct ByHand<'a> {
    tofu: &'a PathBuf,
    home: &'a Path,
    folder: &'a Path,
    world: &'a World,
    stack: &'a str,
}

impl ByHand<'_> {
    /// How long a command takes, which has to end well.
    async fn takes(&self, args: &[&str]) -> anyhow::Result<Duration> {
        let address = format!("{}/v1/stacks/{}/state", self.world.url, self.stack);
        let mut command = Command::new(self.tofu);
        command
            .args(args)
            .current_dir(self.folder)
            .env_clear()
            .env("PATH", super::world::path()?)
            .env("HOME", self.home)
            .env("TF_IN_AUTOMATION", "1")
            .env("CHECKPOINT_DISABLE", "1")
            .env("TF_HTTP_ADDRESS", address)
            .env("TF_HTTP_USERNAME", "plural")
            .env("TF_HTTP_PASSWORD", &self.world.token)
            .kill_on_drop(true);
        let started = Instant::now();
        let done = command.output().await.context("cannot run tofu")?;
        let took = started.elapsed();
        anyhow::ensure!(
            done.status.success(),
            "tofu {}: {}{}",
            args.join(" "),
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        );
        Ok(took)
    }
}
