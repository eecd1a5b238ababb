//! `plural health`: objects in, status and words out, the exit code for scripts.

use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;

use crate::program::{Done, Home};

const STUCK: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, generation: 2}
spec: {replicas: 2}
status:
  observedGeneration: 2
  conditions:
    - {type: Progressing, status: 'False', reason: ProgressDeadlineExceeded, message: took too long}
";

const GOOD: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
";

const SCRIPT: &str = r#"
hs = {status = "Progressing", message = "size is " .. obj.spec.size}
if obj.spec.size > 2 then hs.status = "Healthy" end
return hs
"#;

async fn health(home: &Home, arguments: &[&str], input: &str) -> anyhow::Result<Done> {
    let mut all = vec!["health"];
    all.extend(arguments);
    let mut child =
        home.plural(&all).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await?;
    drop(stdin);
    let output = child.wait_with_output().await?;
    Ok(Done {
        code: output.status.code(),
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
    })
}

#[tokio::test]
async fn objects_are_judged_by_the_agents_rules() -> anyhow::Result<()> {
    let home = Home::new()?;
    let done = health(&home, &["-f", "-"], GOOD).await?;
    assert_eq!(
        (done.code, done.out.as_str()),
        (Some(0), "Healthy     ConfigMap shop/settings\n"),
        "{done:?}"
    );

    let done = health(&home, &["-f", "-"], &format!("{GOOD}---{STUCK}")).await?;
    assert_eq!(done.code, Some(1), "{done:?}");
    let expected = "Healthy     ConfigMap shop/settings\n\
                    Degraded    Deployment shop/web: took too long (ProgressDeadlineExceeded)\n";
    assert_eq!(done.out, expected);

    let done = health(&home, &["-f", "-", "-o", "json"], STUCK).await?;
    let said: serde_json::Value = serde_json::from_str(&done.out)?;
    assert_eq!(
        (said["status"].as_str(), said["state"].as_str()),
        (Some("Degraded"), Some("FAILED")),
        "{done:?}"
    );

    // What `kubectl get -o json` prints for many.
    let list = r#"{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web\u001b[31m"}, "spec": {"type": "LoadBalancer"}}]}"#;
    let done = health(&home, &["-f", "-"], list).await?;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.out, "Progressing Service web [31m: its load balancer has no address yet\n");
    Ok(())
}

#[tokio::test]
async fn a_script_can_be_tried_at_a_desk() -> anyhow::Result<()> {
    let home = Home::new()?;
    let script = home.path().join("health.lua");
    std::fs::write(&script, SCRIPT)?;
    let script = script.to_str().unwrap();
    let widget = |size: &str| {
        format!("apiVersion: example.org/v1\nkind: Widget\nmetadata: {{name: w}}\nspec: {{size: {size}}}\n")
    };
    let done = health(&home, &["-f", "-", "--script", script], &widget("3")).await?;
    assert_eq!((done.code, done.out.as_str()), (Some(0), "Healthy     Widget w: size is 3\n"), "{done:?}");
    let done = health(&home, &["-f", "-", "--script", script, "-o", "yaml"], &widget("1")).await?;
    assert!(done.out.contains("status: Progressing\n"), "{done:?}");
    // A script that breaks says where.
    let done = health(&home, &["-f", "-", "--script", script], &widget("{}")).await?;
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.out.starts_with("Unknown ") && done.out.contains("health.lua:2"), "{done:?}");
    Ok(())
}

#[tokio::test]
async fn what_is_no_object_is_refused() -> anyhow::Result<()> {
    let home = Home::new()?;
    for (input, words) in
        [("", "has no objects"), ("a: b\n", "not a Kubernetes object"), ("a: [\n", "cannot read -")]
    {
        let done = health(&home, &["-f", "-"], input).await?;
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.err.contains(words), "{input:?}: {done:?}");
    }
    assert_eq!(health(&home, &[], "").await?.code, Some(2));
    Ok(())
}
