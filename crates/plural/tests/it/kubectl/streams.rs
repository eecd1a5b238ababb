//! What goes on while it is open: watches, followed logs, commands, terminals, forwarded ports.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use anyhow::Context as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::mpsc,
};

use super::Script;
use crate::{proxy_world::Kubectl, world::PATIENCE};

/// A kubectl that goes on, and what it says, line by line; ended when dropped.
///
/// Its output is read to the end: a kubectl that speaks to nobody ends at its next word.
pub(crate) struct Running {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> anyhow::Result<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let out = BufReader::new(child.stdout.take().context("no output")?);
        let (told, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                // Nobody may listen any more; it may still speak.
                let _ = told.send(line);
            }
        });
        Ok(Self { child, lines })
    }

    /// The next line, without its end.
    pub(crate) async fn line(&mut self) -> anyhow::Result<String> {
        tokio::time::timeout(PATIENCE, self.lines.recv()).await?.context("it ended")
    }

    /// Reads until a line holds this.
    pub(crate) async fn until(&mut self, wanted: &str) -> anyhow::Result<String> {
        loop {
            let line = self.line().await?;
            if line.contains(wanted) {
                return Ok(line);
            }
        }
    }

    /// Reads until it has ended.
    pub(crate) async fn ended(&mut self, patience: std::time::Duration) -> anyhow::Result<()> {
        tokio::time::timeout(patience, async { while self.lines.recv().await.is_some() {} })
            .await
            .context("it still runs")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A watch tells what happens while it is open.
pub(super) async fn watches(s: &mut Script) -> anyhow::Result<()> {
    s.step("get -w");
    let mut command = s.kubectl.command();
    command.args(["get", "configmaps", "-w", "-o", "name"]);
    let mut watch = Running::start(command)?;
    watch.until("configmap/settings").await?;
    s.says("create configmap late", "created").await?;
    watch.until("configmap/late").await?;
    Ok(())
}

pub(super) async fn follows_logs(s: &mut Script) -> anyhow::Result<()> {
    s.step("logs -f");
    let mut command = s.kubectl.command();
    command.args(["logs", "-f", "shell"]);
    assert!(!Running::start(command)?.line().await.context("logs -f")?.is_empty());
    Ok(())
}

/// Commands and their input.
pub(super) async fn inside(s: &mut Script) -> anyhow::Result<()> {
    s.says("exec shell -- echo hello", "hello\n").await?;
    // One line: kwok does not tell a command that its input has ended.
    s.reads("exec -i shell -- head -n 1", Some("from here\n"), "from here\n").await?;
    s.step("exec with much to say");
    let much = s.kubectl.ok(&["exec", "shell", "--", "head", "-c", "20000000", "/dev/zero"]).await?;
    assert_eq!(much.len(), 20_000_000);
    s.step("exec that fails");
    let said = s.kubectl.run(&["exec", "shell", "--", "false"], None).await?;
    assert_ne!(said.code, Some(0), "{said:?}");
    Ok(())
}

/// What is said from when one listens.
pub(super) async fn attached(s: &mut Script) -> anyhow::Result<()> {
    s.step("attach");
    let mut command = s.kubectl.command();
    command.args(["attach", "shell"]);
    Running::start(command)?.until("shell: tick").await.context("attach")?;
    Ok(())
}

/// Commands by the older protocol, and files.
pub(super) async fn inside_by_other_ways(s: &mut Script) -> anyhow::Result<()> {
    s.step("exec by SPDY");
    let mut command = s.kubectl.command();
    command.args(["exec", "shell", "--", "echo", "again"]).env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false");
    assert_eq!(Running::start(command)?.line().await?, "again");
    // Out of the Pod only: kwok does not tell a command that its input has ended, and tar waits for that.
    s.step("cp");
    s.kubectl.ok(&["exec", "shell", "--", "sh", "-c", "echo a file > there"]).await?;
    s.kubectl.ok(&["cp", "shell:there", "back"]).await?;
    assert_eq!(std::fs::read_to_string(s.kubectl.home().join("back"))?, "a file\n");
    Ok(())
}

/// A terminal, as `script` gives one.
pub(super) async fn terminal(s: &mut Script) -> anyhow::Result<()> {
    s.step("exec -it");
    // It stays for a while: kwok may lose what a command says that ends at once.
    let line = format!("{} exec -it shell -- sh -c 'tty; sleep 60'", s.kubectl.program().display());
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]);
    command.env("KUBECONFIG", s.kubectl.kubeconfig()).env("HOME", s.kubectl.home()).env("TERM", "xterm");
    // Its input stays open while it runs: its end would be the terminal's.
    command.stdin(Stdio::piped());
    Running::start(command)?.until("/dev/pts/").await.context("exec -it")?;
    Ok(())
}

/// Ports of a Pod, which all lead to kwok itself, forwarded inside a WebSocket and by SPDY.
pub(super) async fn forwards(s: &mut Script) -> anyhow::Result<()> {
    for (name, websockets) in [("port-forward", "true"), ("port-forward by SPDY", "false")] {
        s.step(name);
        let (_forward, address) = forward(&s.kubectl, websockets).await.context(name)?;
        // One after the other, and several at once: all on one connection of kubectl's.
        for _ in 0..3 {
            answers(&address).await.context(name)?;
        }
        let many = futures::future::join_all((0..8).map(|_| answers(&address))).await;
        many.into_iter().collect::<anyhow::Result<Vec<()>>>().context(name)?;
    }
    Ok(())
}

/// A forwarded port and where it is to be found.
pub(crate) async fn forward(kubectl: &Kubectl, websockets: &str) -> anyhow::Result<(Running, String)> {
    let mut command = kubectl.command();
    command.args(["port-forward", "pod/shell", ":80", "--address=127.0.0.1"]);
    command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
    let mut forward = Running::start(command)?;
    let line = forward.line().await?;
    let address = line.split_whitespace().nth(2).context("no address")?.to_owned();
    Ok((forward, address))
}

async fn answers(address: &str) -> anyhow::Result<()> {
    let mut connection = tokio::net::TcpStream::connect(address).await?;
    connection.write_all(b"GET /no-such-page HTTP/1.0\r\n\r\n").await?;
    // kwok ends a forwarded connection when both of its ends have said all.
    connection.shutdown().await?;
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, connection.read_to_end(&mut answer)).await.context("no end")??;
    let answer = String::from_utf8_lossy(&answer);
    anyhow::ensure!(answer.starts_with("HTTP/1.0 404 Not Found"), "{answer:?}");
    Ok(())
}
