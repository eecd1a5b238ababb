//! The code of a run, its files and its plan: what is not as the console says it begins nothing.

use std::os::unix::fs::PermissionsExt as _;

use plural_core::run_call::{InputPlan, RunInput};
use plural_core::stack::StackTool;
use plural_core::stack_run::RunPhase;
use plural_core::stack_spec::Stage;
use plural_harness::Outcome;

use crate::fixture::{Fixture, input, packed, shell, tar};

/// Fails at once with this, and no command began.
async fn refused(f: &Fixture, why: &str) {
    assert_eq!(f.run().await, Outcome::Failed);
    let error = f.console.error();
    assert!(error.contains(why), "{error}");
    assert!(f.printed().contains(why), "{}", f.printed());
    assert!(!f.console.done().changed);
    f.console.with(|told| assert!(told.steps.is_empty() && told.logs.is_empty() && told.planned.is_none()));
}

#[tokio::test]
async fn another_artifact_is_not_unpacked() {
    let f = Fixture::new(vec![shell(0, Stage::Plan, "echo began")]).await;
    f.console.with(|told| told.artifact = packed(&tar(&[("app/main.txt", "other\n")])).0);
    refused(&f, "the artifact is not the one of this run").await;
    assert!(!f.folder.path().join("run/source").exists());
}

#[tokio::test]
async fn an_artifact_that_is_none_is_refused() {
    let f = Fixture::new(vec![shell(0, Stage::Plan, "echo began")]).await;
    f.console.with(|told| told.artifact = b"no frame".to_vec());
    refused(&f, "the artifact").await;
}

#[tokio::test]
async fn a_link_in_an_artifact_leads_nowhere() {
    let mut builder = ::tar::Builder::new(Vec::new());
    let mut header = ::tar::Header::new_ustar();
    header.set_entry_type(::tar::EntryType::Symlink);
    header.set_size(0);
    builder.append_link(&mut header, "app", "/etc").unwrap();
    let (artifact, digest) = packed(&builder.into_inner().unwrap());
    let f = Fixture::new(vec![shell(0, Stage::Plan, "echo began")]).await;
    f.console.with(|told| told.artifact = artifact);
    f.change(|input| input.artifact_digest = digest);
    refused(&f, "neither file nor folder").await;
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_named() {
    let f = Fixture::new(vec![shell(0, Stage::Plan, "echo began")]).await;
    f.change(|input| input.spec.workdir = "deeper".to_owned());
    refused(&f, "no folder \"app/deeper\"").await;
    let f = Fixture::new(vec![shell(0, Stage::Plan, "echo began")]).await;
    f.change(|input| input.spec.workdir = "../..".to_owned());
    refused(&f, "leads out").await;
}

#[tokio::test]
async fn a_file_is_written_where_the_tool_runs_and_nowhere_above() {
    let f = Fixture::new(vec![shell(0, Stage::Plan, "cat conf/a.ini >copy")]).await;
    let elsewhere = f.folder.path().join("elsewhere/key");
    f.change(|input| {
        input.files.insert("conf/a.ini".to_owned(), "setting\n".to_owned());
        input.files.insert(elsewhere.to_string_lossy().into_owned(), "key".to_owned());
    });
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    assert_eq!(std::fs::read_to_string(f.work().join("copy")).unwrap(), "setting\n");
    for path in [f.work().join("conf/a.ini"), elsewhere] {
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600,
            "{}",
            path.display()
        );
    }
    let f = Fixture::new(vec![shell(0, Stage::Plan, "echo began")]).await;
    f.change(|input| drop(input.files.insert("../a".to_owned(), String::new())));
    refused(&f, "leads out").await;
}

#[tokio::test]
async fn another_plan_than_the_approved_one_is_not_applied() {
    let steps = vec![shell(1, Stage::Apply, "echo began")];
    let plan = InputPlan {
        digest: "a".to_owned(),
        file_digest: Some(crate::fixture::digest(b"approved")),
        lock_digest: None,
    };
    let input = RunInput { plan: Some(plan), ..input(StackTool::Custom, RunPhase::Apply, steps) };
    let f = Fixture::of(input, &[("app/main.txt", "code\n")]).await;
    f.console.with(|told| told.plan_file = b"altered".to_vec());
    refused(&f, "not the one that was approved").await;
    // Fetched, and as it was approved.
    f.console.with(|told| {
        (told.plan_file, told.ended) = (b"approved".to_vec(), false);
    });
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    assert!(f.console.done().changed);
}
