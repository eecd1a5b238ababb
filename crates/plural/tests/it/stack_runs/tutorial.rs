//! The tutorial of stacks, typed in a shell as its page says, with OpenTofu itself.

use std::{path::Path, process::Stdio};

use plural_testkit::{GitRemote, TestDatabase, eventually, one_database, program_or_report};
use serde_json::json;
use tokio::process::Command;

use super::world::{PATIENCE, World};
use crate::{
    pages::page,
    program::{Done, PLURAL, finish},
    world::EMAIL,
};

one_database!(
    sqlite,
    "what its commands ask is asked on both by the cases of `life`";
    the_tutorial_does_what_it_says
);

const PAGE: &str = "docs/stack-tutorial.md";

/// Texts of the page, and what stands in their place: what a person says when a command asks.
const TYPED: [(&str, &str); 3] = [
    ("stacks approve network", "stacks approve network --yes"),
    ("stacks reject network", "stacks reject network --yes"),
    ("stacks delete network", "stacks delete network --yes"),
];

/// How a command begins, and what its reader does, or waits for, just before.
const BEFORE: [(&str, &str); 5] = [
    ("plural cd stacks logs network", "until plural cd stacks run network; do sleep 0.2; done"),
    ("git commit -am", "sed -i 's|10.0.0.0/16|10.0.0.0/8|' network/main.tf"),
    ("plural cd stacks approve", "until plural cd stacks waiting | grep -q network; do sleep 0.2; done"),
    ("plural cd stacks waiting", "until plural cd stacks waiting | grep -q network; do sleep 0.2; done"),
    ("plural cd stacks reject", "until plural cd stacks waiting | grep -q network; do sleep 0.2; done"),
];

/// How a command begins that does not end with 0, and its exit code; and what others print.
const ENDS: [(&str, i32); 1] = [("plural cd stacks plan network --detailed-exitcode", 2)];
const PRINTS: [(&str, &str); 5] = [
    ("plural cd stacks logs network --follow\n", "10.0.0.0/16 in eu"),
    ("plural cd stacks outputs network network\n", "10.0.0.0/16 in eu"),
    ("plural cd stacks state list network\n", "taken"),
    ("plural cd stacks waiting\n", "network/2"),
    ("plural cd stacks plan network", "10.0.0.0/8 in eu"),
];

async fn the_tutorial_does_what_it_says(database: TestDatabase) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    let world = World::simulated(&database).await?;
    let remote = GitRemote::new()?;
    remote.push_files([("README.md", "infrastructure")])?;
    let address = remote.path().display().to_string();
    let bin = world.home.path().join("bin");
    std::fs::create_dir(&bin)?;
    std::os::unix::fs::symlink(PLURAL, bin.join("plural"))?;
    let folder = world.home.path().join("infra");
    let begun = shell(&world, world.home.path(), &format!("git clone --quiet --branch main {address} infra"));
    let begun = finish(begun).await?;
    anyhow::ensure!(begun.code == Some(0), "{}", begun.err);

    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE))?;
    let (files, commands) = page::read(&text);
    let begins = |command: &str, with: &str| format!("{command}\n").starts_with(with);
    // A page that is written another way must not have fewer of its commands looked at.
    anyhow::ensure!(!files.is_empty() && !commands.is_empty(), "{PAGE} shows no files, or no commands");
    for (text, _) in TYPED {
        anyhow::ensure!(
            commands.iter().any(|command| command.contains(text)),
            "no command of {PAGE} has {text:?}"
        );
    }
    let begun = BEFORE.iter().chain(&PRINTS).map(|(with, _)| *with).chain(ENDS.map(|(with, _)| with));
    for with in begun {
        anyhow::ensure!(
            commands.iter().any(|command| begins(command, with)),
            "no command of {PAGE} begins with {with:?}"
        );
    }
    for file in files {
        let path = folder.join(&file.path);
        std::fs::create_dir_all(path.parent().unwrap())?;
        std::fs::write(path, file.text)?;
    }
    for command in &commands {
        for (_, what) in BEFORE.iter().filter(|(with, _)| begins(command, with)) {
            let Done { code, out, err } = finish(shell(&world, &folder, what)).await?;
            anyhow::ensure!(code == Some(0), "before {command}: {code:?}\n{out}\n{err}");
        }
        let mut typed = command.replace("https://git.example.com/team/infra.git", &address);
        for (from, to) in TYPED {
            typed = typed.replace(from, to);
        }
        let Done { code, out, err } = finish(shell(&world, &folder, &typed)).await?;
        let wanted = ENDS.iter().find(|(with, _)| begins(command, with)).map_or(0, |(_, code)| *code);
        anyhow::ensure!(code == Some(wanted), "$ {typed}\nended with {code:?}\n{out}\n{err}");
        for (_, words) in PRINTS.iter().filter(|(with, _)| begins(command, with)) {
            assert!(out.contains(words), "$ {typed}\nsays nothing of {words:?}:\n{out}\n{err}");
        }
    }
    plural_testkit::note_compared("commands of the tutorial of stacks, run", commands.len(), commands.len());

    // What it destroys is gone, and the stack with it.
    eventually(PATIENCE, async || {
        let asked =
            world.admin.data("{ infrastructureStacks(first: 9) { edges { node { name } } } }", json!({}));
        let found = asked.await.map_err(|error| format!("{error:#}"))?;
        let is_gone = found["infrastructureStacks"]["edges"].as_array().is_some_and(Vec::is_empty);
        if is_gone { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
    world.end();
    Ok(())
}

/// A line of somebody who is signed in, and whom git knows.
fn shell(world: &World, folder: &Path, line: &str) -> Command {
    let home = world.home.path();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut bash = Command::new("bash");
    bash.args(["-c", line])
        .current_dir(folder)
        .env_clear()
        .env("PATH", format!("{}:{path}", home.join("bin").display()))
        .env("HOME", home)
        .env("LC_ALL", "C")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("PLURAL_CONSOLE_URL", world.console.url())
        .env("PLURAL_CONSOLE_TOKEN", &world.admin.token)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    for who in ["AUTHOR", "COMMITTER"] {
        bash.env(format!("GIT_{who}_NAME"), "Ada").env(format!("GIT_{who}_EMAIL"), EMAIL);
    }
    bash
}
