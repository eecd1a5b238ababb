//! Metrics of a console: who reads them, and what a caller can make of them.

use std::collections::BTreeSet;

use plural_testkit::eventually;

use crate::program::{ConsoleProcess, Home, LIMIT, answer, page};

/// Labels and values of a page, one series a line.
fn series(page: &str) -> Vec<&str> {
    let body = page.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    body.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect()
}

fn values<'a>(series: &[&'a str], label: &str) -> BTreeSet<&'a str> {
    let mark = format!("{label}=\"");
    let value = |line: &&'a str| Some(line.split_once(mark.as_str())?.1.split_once('"')?.0);
    series.iter().filter_map(value).collect()
}

/// A caller sends any token as a method, any path, and (through a cluster) gets any status.
#[tokio::test]
async fn no_caller_makes_series() -> anyhow::Result<()> {
    let home = Home::new()?;
    let console = ConsoleProcess::start(&home, None, "info").await?;
    let address = console.address().to_string();
    // One of each first, so that what follows can only add what a caller chose.
    for path in ["/gql", "/healthz", "/k8s/none/api", "/nowhere", "/ext/v1/webhooks/github"] {
        answer(&address, &format!("BREW {path} HTTP/1.1\r\n")).await?;
        answer(&address, &format!("GET {path} HTTP/1.1\r\n")).await?;
    }
    let before = console.metrics().await?;
    let before: BTreeSet<String> = series(&before).iter().map(|line| name(line)).collect();
    for number in 0..60 {
        for line in [
            format!("INVENTED{number} /gql HTTP/1.1\r\n"),
            format!("get{number} /healthz HTTP/1.1\r\n"),
            format!("{} /k8s/none/api HTTP/1.1\r\n", "X".repeat(number + 1)),
            format!("!#$%&'*+-.^_`|~{number} /nowhere HTTP/1.1\r\n"),
            format!("GET /k8s/cluster-{number}/api/v1/pods HTTP/1.1\r\n"),
            format!("GET /nowhere/{number} HTTP/1.1\r\n"),
            format!("POST /ext/v1/webhooks/invented{number}/{number} HTTP/1.1\r\ncontent-length: 0\r\n"),
            format!(
                "GET /healthz?{number} HTTP/1.1\r\nx-forwarded-for: 10.0.0.{number}\r\nuser-agent: {number}\r\n"
            ),
        ] {
            let told = answer(&address, &line).await?;
            assert!(told.starts_with("HTTP/1.1 "), "{line}: {told}");
        }
    }
    let page = console.metrics().await?;
    let after = series(&page);
    let methods = values(&after, "method");
    assert!(methods.contains("other") && methods.contains("GET"), "{methods:?}");
    assert!(methods.iter().all(|method| ["GET", "POST", "other"].contains(method)), "{methods:?}");
    // A few of its own: jobs that ran meanwhile.
    let new: Vec<String> =
        after.iter().map(|line| name(line)).filter(|name| !before.contains(name)).collect();
    let of_requests: Vec<&String> = new.iter().filter(|name| name.contains("_request_")).collect();
    // The POST of a webhook was not among the first: one histogram, which is seven lines or so.
    assert!(of_requests.len() <= 12, "{of_requests:?}");
    Ok(())
}

/// A series without its value.
fn name(line: &str) -> String {
    line.rsplit_once(' ').map_or(line, |(name, _)| name).to_owned()
}

/// What runs by itself is seen before it ran, so that an alert knows what is missing.
#[tokio::test]
async fn loops_and_kinds_of_jobs_are_listed() -> anyhow::Result<()> {
    let home = Home::new()?;
    let console = ConsoleProcess::start(&home, None, "info").await?;
    eventually(LIMIT, || async {
        let page = console.metrics().await.map_err(|error| format!("{error:#}"))?;
        let series = series(&page);
        let (loops, kinds) = (values(&series, "loop"), values(&series, "kind"));
        let missing: Vec<&str> = [
            "prune_feed",
            "prune_audit",
            "prune_jobs",
            "open_windows",
            "reseal",
            "keep_secrets",
            "share_mirrors",
            "tend_stack_runs",
            "clock_stacks",
            "poll_pull_requests",
            "poll_stack_pulls",
            "forget_pr_secrets",
            "merge_in_windows",
            "prune_stack_runs",
            "prune_fleet_previews",
        ]
        .into_iter()
        .filter(|name| !loops.contains(name))
        .chain(
            [
                "renew_services",
                "renew_project",
                "reseal",
                "move_secrets",
                "prepare_stack_run",
                "end_stack_run",
                "follow_upstream",
                "follow_definition",
                "follow_gone",
                "hear_scm_webhook",
                "open_pull_request",
                "look_fleet_plan",
                "look_fleet_preview",
                "plan_previewed_stack",
                "end_fleet_plan",
                "tell_fleet_plan",
                "plan_fleet_of_pull",
                "follow_fleet_base",
                "renew_fleet_plan",
                "hear_pull_request",
                "read_pull_request",
                "follow_merge",
                "plan_pull_request",
                "tell_pull_request",
                "govern_pull_request",
            ]
            .into_iter()
            .filter(|kind| !kinds.contains(kind)),
        )
        .collect();
        let none_is_dead = series.contains(&"plural_jobs{kind=\"reseal\",state=\"dead\"} 0");
        if missing.is_empty() && none_is_dead { Ok(()) } else { Err(format!("{missing:?} {page}")) }
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn metrics_are_for_who_has_the_token_or_their_address() -> anyhow::Result<()> {
    let home = Home::new()?;
    let console = ConsoleProcess::start_in(&home, "console", "info", |program| {
        program.flag("metrics-listen", "127.0.0.1:0")
    })
    .await?;
    let address = console.address().to_string();
    for head in [
        "",
        "authorization: Bearer \r\n",
        "authorization: Bearer wrong\r\n",
        "authorization: Basic b2YtdGhlLXRlc3RzLWFsb25l\r\n",
        "authorization: of-the-tests-alone\r\n",
        "authorization: bearer of-the-tests-alon\r\n",
        "cookie: token=of-the-tests-alone\r\n",
    ] {
        let told = answer(&address, &format!("GET /metrics HTTP/1.1\r\n{head}")).await?;
        assert!(told.starts_with("HTTP/1.1 401") && !told.contains("plural_"), "{head:?}: {told}");
    }
    let told = console.metrics().await?;
    assert!(told.starts_with("HTTP/1.1 200") && told.contains("plural_database_statement_seconds"), "{told}");

    let own = eventually(LIMIT, || async {
        let log = console.log();
        let told = log.lines().find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(line.get("metrics.address")?.as_str()?.to_owned())
        });
        told.ok_or(log)
    })
    .await;
    let told = page(&own, "/metrics").await?;
    assert!(told.starts_with("HTTP/1.1 200") && told.contains("plural_database_statement_seconds"), "{told}");
    // Known from the start, so that an alert on it has something to watch.
    eventually(LIMIT, || async {
        let told = page(&own, "/metrics").await?;
        anyhow::ensure!(told.lines().any(|line| line == "plural_cluster_audit_waiting 0"), "{told}");
        anyhow::Ok(())
    })
    .await;
    // Nothing else is there.
    for path in ["/gql", "/healthz", "/k8s/x/api", "/"] {
        assert!(page(&own, path).await?.starts_with("HTTP/1.1 404"), "{path}");
    }
    Ok(())
}
