//! What a console and an agent write to their logs, as a program reads it.
//!
//! One backend is enough: lines are written in one way, whatever is behind them.

use std::process::Stdio;

use plural_testkit::{TestCluster, eventually, run_case};
use tokio::io::AsyncReadExt as _;

use crate::{
    program::{AgentProcess, ConsoleProcess, Home, PLURAL},
    world::{EMAIL, PASSWORD, PATIENCE},
};

#[test]
fn a_line_has_one_message_and_no_colours() {
    run_case(async {
        let home = Home::new()?;
        let mut console = ConsoleProcess::start(&home, None, "info").await?;
        let cluster = TestCluster::kubesim().await?;
        let mut agent = AgentProcess::start(&home, &console.url(), "deploy-nobody", &cluster, "info").await?;
        let log = eventually(PATIENCE, || {
            let log = agent.log();
            async move { if log.contains("token (") { Ok(log) } else { Err(log) } }
        })
        .await;
        let both = format!("{log}{}", console.log());
        for line in both.lines().filter(|line| line.starts_with('{')) {
            assert_eq!(line.matches("\"message\":").count(), 1, "{line}");
        }
        // The steps of the schema are told in one line.
        let migrations = both.lines().filter(|line| line.contains("igrat")).count();
        assert!(migrations <= 1, "{both}");
        assert!(both.contains("schema of this release"), "{both}");
        agent.stop();
        console.stop();

        // Text that is read by a pipe has no colours.
        let mut text = tokio::process::Command::new(PLURAL)
            .args(["console", "--log-format", "text", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(home.path().join("another"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut err = text.stderr.take().unwrap();
        let mut read = Vec::new();
        while !String::from_utf8_lossy(&read).contains("the console listens") {
            assert_ne!(err.read_buf(&mut read).await?, 0, "{}", String::from_utf8_lossy(&read));
        }
        text.kill().await?;
        assert!(!read.contains(&0x1b), "{}", String::from_utf8_lossy(&read));
        anyhow::Ok(())
    });
}

/// `bootstrap | head` shows a token to nobody: the cluster must not stay registered with it.
#[test]
fn manifests_that_nobody_reads_register_no_cluster() {
    run_case(async {
        let home = Home::new()?;
        let mut console = ConsoleProcess::start(&home, None, "info").await?;
        let login = ["login", "--url", &console.url(), "--email", EMAIL, "--password-stdin"];
        let mut login = home.plural(&login);
        login.stdin(Stdio::piped());
        let mut child = login.spawn()?;
        let mut stdin = child.stdin.take().unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stdin, PASSWORD.as_bytes()).await?;
        drop(stdin);
        assert!(child.wait().await?.success());

        let mut bootstrap =
            home.plural(&["cd", "clusters", "bootstrap", "red", "--image", "example.com/plural:1"]);
        let mut child = bootstrap.spawn()?;
        drop(child.stdout.take());
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).await?;
        assert_eq!(child.wait().await?.code(), Some(1), "{err}");
        assert!(err.contains("cluster red is not registered"), "{err}");
        let listed = home.run(&["cd", "clusters", "list", "-o", "name"]).await?;
        assert_eq!((listed.code, listed.out.as_str()), (Some(0), ""), "{}", listed.err);
        console.stop();
        anyhow::Ok(())
    });
}
