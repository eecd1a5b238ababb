//! `plural audit` against a real console: what is listed, exported, and found when somebody changes what was written.

use std::time::Duration;

use plural_testkit::eventually;
use serde_json::Value;

use crate::whole::{Whole, whole};

/// Waits until all that was written so far is in the chain and signed.
async fn chained(w: &Whole) {
    eventually(Duration::from_mins(1), async || {
        let verdict = w.json("audit verify").await;
        (verdict["unchained"] == 0 && verdict["sequence"].as_u64() > Some(0)).then_some(())
    })
    .await;
    w.console.app().audit_checkpoint_now().await.unwrap();
}

#[tokio::test]
async fn the_log_is_listed_exported_and_verified() {
    let w = whole().await;
    w.ok("cd clusters create blue").await;
    w.ok("cd projects create shop").await;
    let listed = w.ok("audit list --action cluster.*").await;
    assert!(
        listed.contains("cluster.create") && listed.contains("blue") && listed.contains("127.0.0.1"),
        "{listed}"
    );
    assert!(!listed.contains("project.create"), "{listed}");
    let all = w.json("audit list --all --actor ada@example.com").await;
    let actions: Vec<&str> =
        all.as_array().unwrap().iter().map(|line| line["action"].as_str().unwrap()).collect();
    for action in ["session.create", "token.use", "cluster.create", "project.create"] {
        assert!(actions.contains(&action), "{action}: {actions:?}");
    }
    assert_eq!(w.ok("audit list --since 2999-01-01T00:00:00Z").await, "");
    chained(&w).await;

    let key = w.ok("audit checkpoints --key").await;
    let key = key.trim();
    let signed = w.ok("audit checkpoints --text --last 1").await;
    assert!(signed.starts_with("{\"kind\":\"checkpoint\"") && signed.contains(key), "{signed}");
    let home = w.person.home().to_owned();
    let (file, kept) = (home.join("audit.jsonl"), home.join("kept"));
    std::fs::create_dir(&kept).unwrap();
    std::fs::write(kept.join("1.json"), &signed).unwrap();
    let (file, kept) = (file.display().to_string(), kept.display().to_string());
    assert!(w.ok(&format!("audit verify --checkpoints {kept} --key {key}")).await.contains("checked"));
    w.ok(&format!("audit export --file {file}")).await;
    let csv = w.ok("audit export --format csv").await;
    assert!(csv.starts_with("batch,kind,at,") && csv.contains(",cluster.create,"), "{csv}");

    // The file is checked without a console: with each thing that can be done to it.
    let verify = format!("audit verify --file {file} --checkpoints {kept} --key {key}");
    assert!(w.ok(&verify).await.contains("compared with 1 checkpoints"));
    let whole_file = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = whole_file.lines().collect();
    let of = |kind: &str| {
        let begin = format!("{{\"kind\":\"{kind}\"");
        lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.starts_with(&begin))
            .map(|(at, _)| at)
            .collect::<Vec<_>>()
    };
    let changes = of("change");
    let neighbours = changes.windows(2).find(|two| two[1] == two[0] + 1).expect("a batch with two lines");
    let id = |at: usize| serde_json::from_str::<Value>(lines[at]).unwrap()["id"].as_str().unwrap().to_owned();
    let attempt = async |changed: Vec<String>, kind: &str, names: Option<String>| {
        std::fs::write(&file, changed.join("\n") + "\n").unwrap();
        let done = w.person.run(&format!("{verify} -o json")).await;
        assert_eq!(done.code, 1, "{kind}: {}", done.out);
        let verdict: Value = serde_json::from_str(&done.out).unwrap();
        let problems = verdict["problems"].as_array().unwrap();
        let found = problems
            .iter()
            .any(|it| it["kind"] == kind && names.as_ref().is_none_or(|name| it["line"] == name.as_str()));
        assert!(found, "{kind}: {verdict}");
    };
    let own = || lines.iter().map(|line| (*line).to_owned()).collect::<Vec<String>>();
    let mut edited = own();
    edited[changes[0]] = edited[changes[0]].replace("\"times\":1", "\"times\":2");
    attempt(edited, "EDITED", Some(id(changes[0]))).await;
    let mut removed = own();
    removed.remove(changes[0]);
    attempt(removed, "REMOVED", Some(id(changes[0]))).await;
    let mut inserted = own();
    let copy = inserted[changes[0]].replace(&id(changes[0]), "0190b8a2-7c11-7def-8000-0123456789ab");
    inserted.insert(changes[0], copy);
    attempt(inserted, "INSERTED", Some("0190b8a2-7c11-7def-8000-0123456789ab".into())).await;
    let mut reordered = own();
    reordered.swap(neighbours[0], neighbours[1]);
    attempt(reordered, "REORDERED", Some(id(neighbours[0]))).await;
    let last = *of("batch").last().unwrap();
    attempt(own()[..last].to_vec(), "CUT", None).await;
    std::fs::write(&file, whole_file).unwrap();
    w.ok(&verify).await;
    let other = w
        .person
        .run(&format!("audit verify --file {file} --key 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="))
        .await;
    assert!(other.code == 1 && other.err.contains("is of the key"), "{}", other.err);
    w.console.stop().await.unwrap();
}
