//! The web console in a real browser: Chromium without a screen, driven by `ui/tests/walk.mjs`, for the tour by `ui/tests/tour.mjs`
//! and, for the pages of a cluster's Kubernetes, by `ui/tests/kubernetes.mjs`; for pull requests by `ui/tests/pr_day.mjs`.
//!
//! One backend is enough: pages ask the API, which its own tests ask on both. The first day of a user is walked on both.

mod first_day;
mod pull_requests;

use std::{
    future::Future,
    path::{Path, PathBuf},
    time::Duration,
};

use plural_testkit::run_case_within;
use rustix::process::Signal;
use serde_json::Value;
use tokio::process::Command;

use crate::{demo::watched, program::Home};

/// `ui/` with its packages. Nothing, said on stderr, where nobody built it.
///
/// # Panics
/// When `CI` is set and they are missing.
pub(crate) fn built() -> Option<PathBuf> {
    let ui = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui");
    let parts = ["node_modules/playwright-core", "dist/index.html"].map(|part| ui.join(part));
    if let Some(missing) = parts.iter().find(|part| !part.exists()) {
        let told = format!("skipped: {} is missing; `cargo xtask ui` makes it", missing.display());
        assert!(std::env::var_os("CI").is_none(), "{told}");
        eprintln!("{told}");
        return None;
    }
    Some(ui)
}

/// What a walk saw; it has no problems.
async fn walk(ui: &Path, program: &str, arguments: &[&str]) -> anyhow::Result<Value> {
    seen(node(ui, program, arguments)).await
}

/// A walk takes a minute or two on an idle machine, and many times that beside other browsers: each step of it has a limit of its own.
pub(crate) fn run_walk(walk: impl Future<Output = anyhow::Result<()>>) {
    run_case_within(Duration::from_mins(20), walk);
}

/// A program of `ui/tests`.
pub(crate) fn node(ui: &Path, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("node");
    command
        .current_dir(ui)
        .arg(program)
        .args(arguments)
        // Of a step that failed, a picture stays here.
        .env("PICTURES", env!("CARGO_TARGET_TMPDIR"))
        .kill_on_drop(true);
    command
}

/// What it saw; it has no problems.
pub(crate) async fn seen(mut command: Command) -> anyhow::Result<Value> {
    let done = command.output().await?;
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let seen: Value = serde_json::from_str(out.trim()).map_err(|e| anyhow::anyhow!("{e}: {out}{err}"))?;
    assert_eq!(seen["problems"], serde_json::json!([]), "{err}");
    assert!(done.status.success(), "{err}");
    Ok(seen)
}

/// One part of the pages, on a made world; how many pages it has at least. Which they are stands in
/// `ui/tests/gallery/pages.mjs`, to which each new page is added.
fn pages_pass(part: &str, least: u64) {
    let Some(ui) = built() else { return };
    run_walk(async {
        let seen = walk(&ui, "tests/walk.mjs", &["world", part]).await?;
        assert!(seen["pages"].as_u64() >= Some(least), "{seen}");
        anyhow::Ok(())
    });
}

#[test]
fn pages_without_rows_are_accessible_and_obey_the_policy_in_light_and_dark() {
    pages_pass("none", 22);
}

#[test]
fn pages_with_few_rows_are_accessible_and_obey_the_policy_in_light_and_dark() {
    pages_pass("few", 22);
}

#[test]
fn pages_with_many_rows_are_accessible_and_obey_the_policy_in_light_and_dark() {
    pages_pass("many", 22);
}

#[test]
fn pages_with_many_rows_are_accessible_on_a_phone() {
    pages_pass("phone", 19);
}

/// They are made of the same parts as the pages above, so once is enough.
#[test]
fn tabs_are_accessible_and_obey_the_policy() {
    pages_pass("tabs", 20);
}

#[test]
fn stacks_are_planned_read_and_approved_in_light_and_dark_and_on_a_phone() {
    pages_pass("stacks", 36);
}

/// As the tabs.
#[test]
fn settings_are_accessible_and_obey_the_policy() {
    pages_pass("settings", 32);
}

#[test]
fn it_is_used_by_keyboard() {
    pages_pass("hands", 0);
}

#[test]
fn it_survives_answers_that_fail_and_connections_that_end() {
    pages_pass("faults", 0);
}

/// One part of the tour for new users, on a made world; how many steps it has.
fn tour_passes(part: &str, steps: u64) {
    let Some(ui) = built() else { return };
    run_walk(async {
        assert_eq!(walk(&ui, "tests/tour.mjs", &[part]).await?["steps"], steps);
        anyhow::Ok(())
    });
}

#[test]
fn the_tour_is_taken_by_keyboard() {
    tour_passes("keys", 8);
}

#[test]
fn the_tour_is_taken_by_mouse_in_dark() {
    tour_passes("mouse", 8);
}

#[test]
fn the_tour_is_taken_on_a_phone() {
    tour_passes("phone", 8);
}

/// It says how to connect a cluster and to deploy a service, because there is none to show.
#[test]
fn the_tour_of_an_empty_fleet_has_other_steps() {
    tour_passes("none", 7);
}

#[test]
fn a_person_reads_why_a_service_fails_pauses_another_and_signs_out() {
    let Some(ui) = built() else { return };
    run_walk(async {
        let home = Home::new()?;
        let demo = watched(home.plural(&["demo", "--json"])).await?;
        let link = demo.ready["link"].as_str().unwrap();
        let seen = walk(&ui, "tests/walk.mjs", &["console", link]).await?;
        assert!(seen["why"].as_str().is_some_and(|why| why.contains("Why it fails")), "{seen}");
        demo.end(Signal::TERM).await?;
        home.nothing_is_left().await;
        anyhow::Ok(())
    });
}

/// The steps of `ui/tests/kubernetes.mjs` with a cluster of a demo, and what they saw.
async fn walk_through_kubernetes(ui: &Path, steps: &[&str]) -> anyhow::Result<Value> {
    let home = Home::new()?;
    let demo = watched(home.plural(&["demo", "--json"])).await?;
    let [url, user, password] = ["url", "user", "password"].map(|field| demo.ready[field].as_str().unwrap());
    let cluster = demo.ready["clusters"][0]["handle"].as_str().unwrap();
    let arguments = [["walk", url, user, password, cluster].as_slice(), steps].concat();
    let seen = walk(ui, "tests/kubernetes.mjs", &arguments).await?;
    demo.end(Signal::TERM).await?;
    home.nothing_is_left().await;
    Ok(seen)
}

/// Each of these steps is gone, in a demo of its own.
fn steps_pass(steps: &[&str]) {
    let Some(ui) = built() else { return };
    run_walk(async {
        let seen = walk_through_kubernetes(&ui, steps).await?;
        assert_eq!(seen["steps"], serde_json::json!(steps), "{seen}");
        anyhow::Ok(())
    });
}

#[test]
fn objects_of_a_cluster_are_found_and_edited() {
    steps_pass(&["lists", "tooOld", "secrets", "edits", "numbers"]);
}

#[test]
fn objects_of_a_cluster_are_acted_on_followed_and_refused() {
    steps_pass(&["acts", "logs", "terminal", "refusals", "nodes"]);
}

/// Seventeen pages in one look.
fn looks_pass(look: &str) {
    let Some(ui) = built() else { return };
    run_walk(async {
        assert_eq!(walk_through_kubernetes(&ui, &[look]).await?["pages"], 17);
        anyhow::Ok(())
    });
}

#[test]
fn pages_of_a_cluster_are_accessible_and_obey_the_policy_in_light() {
    looks_pass("light");
}

#[test]
fn pages_of_a_cluster_are_accessible_and_obey_the_policy_in_dark() {
    looks_pass("dark");
}

#[test]
fn pages_of_a_cluster_are_accessible_on_a_phone() {
    looks_pass("phone");
}
