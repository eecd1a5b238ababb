//! The web console in a real browser: Chromium without a screen, driven by `ui/tests/walk.mjs`.
//!
//! One backend is enough: pages ask the API, which its own tests ask on both.

use std::path::{Path, PathBuf};

use plural_testkit::run_case;
use rustix::process::Signal;
use serde_json::Value;

use crate::{demo::watched, program::Home};

/// `ui/` with its packages. Nothing, said on stderr, where nobody built it.
///
/// # Panics
/// When `CI` is set and they are missing.
fn built() -> Option<PathBuf> {
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

/// What the walk saw; it has no problems.
async fn walk(ui: &Path, arguments: &[&str]) -> anyhow::Result<Value> {
    let done = tokio::process::Command::new("node")
        .current_dir(ui)
        .arg("tests/walk.mjs")
        .args(arguments)
        .kill_on_drop(true)
        .output()
        .await?;
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let seen: Value = serde_json::from_str(out.trim()).map_err(|e| anyhow::anyhow!("{e}: {out}{err}"))?;
    assert_eq!(seen["problems"], serde_json::json!([]), "{err}");
    assert!(done.status.success(), "{err}");
    Ok(seen)
}

#[test]
fn its_pages_are_accessible_and_obey_the_policy_with_no_few_and_many_rows() {
    let Some(ui) = built() else { return };
    run_case(async {
        let seen = walk(&ui, &["world"]).await?;
        // Nine pages with 0 and 3 rows in light and dark, with 3 000 also on a phone; the others once, four of them on a phone.
        assert_eq!(seen["pages"], 107);
        anyhow::Ok(())
    });
}

#[test]
fn a_person_reads_why_a_service_fails_pauses_another_and_signs_out() {
    let Some(ui) = built() else { return };
    run_case(async {
        let home = Home::new()?;
        let demo = watched(home.plural(&["demo", "--json"])).await?;
        let seen = walk(&ui, &["console", demo.ready["link"].as_str().unwrap()]).await?;
        assert!(seen["why"].as_str().is_some_and(|why| why.contains("Why it fails")), "{seen}");
        demo.end(Signal::TERM).await?;
        home.nothing_is_left().await;
        anyhow::Ok(())
    });
}
