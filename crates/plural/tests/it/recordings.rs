//! Shells that are recorded, by the real kubectl against the real API server.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::Context as _;
use plural_app::cluster::ClusterSelector;
use plural_app::project::ProjectSelector;
use plural_app::recording::{NewRecordingPolicy, RecordingsSelector};
use plural_console::RunningConsole;
use plural_core::PageArgs;
use plural_core::cluster::NewCluster;
use plural_core::ids::RequestId;
use plural_core::project::NewProject;
use plural_core::recording::{Recording, RecordingEnd, Shell, ShellKind};
use plural_testkit::{TestCluster, each_cluster, eventually, one_cluster};
use plural_wire::{Client, ClientOptions, ErrorCode, ListRecordings, Secret};

use crate::{
    kubectl::Running,
    proxy_world::{Kubectl, ProxyWorld, User},
    world::{PATIENCE, console_config},
};

each_cluster!(protocols_that_cannot_be_recorded_are_refused, the_program_lists_keeps_and_plays);

one_cluster!(
    real, "the simulation runs nothing in Pods";
    shells_are_recorded_and_read_by_whom_was_named,
    shells_that_cannot_be_recorded_are_refused,
    a_shell_ends_with_its_recording,
    a_console_that_stops_keeps_the_whole_of_it,
    what_was_recorded_outlives_a_killed_console,
    another_replica_records_what_it_is_passed,
);

/// A user with a Pod to open shells in, and the kubectl that the control plane of the tests comes with.
async fn with_a_pod(w: &ProxyWorld) -> anyhow::Result<(User, Kubectl)> {
    let ada = w.reader("ada").await?;
    w.bind_in_namespace("User", &ada.email, "edit").await?;
    let kubectl = w.kubectl(&ada.token)?.context("there is no kubectl")?;
    let granted = eventually(PATIENCE, async || {
        kubectl.ok(&["auth", "can-i", "create", "pods/exec"]).await.map_err(|error| format!("{error:#}"))
    });
    assert_eq!(granted.await.trim(), "yes");
    kubectl.ok(&["run", "shell", "--image=example.com/shell:1"]).await?;
    kubectl.ok(&["wait", "pod/shell", "--for=condition=Ready", "--timeout=60s"]).await?;
    Ok((ada, kubectl))
}

/// Says that shells are recorded.
async fn record(w: &ProxyWorld, new: NewRecordingPolicy) -> anyhow::Result<()> {
    let policy = NewRecordingPolicy { record: true, ..new };
    w.app().recording_policy_set(&w.as_admin().await?, &ProjectSelector::Default, policy).await?;
    Ok(())
}

/// The recordings of the cluster, the oldest first.
async fn recordings(w: &ProxyWorld) -> anyhow::Result<Vec<Recording>> {
    let of = RecordingsSelector::Cluster(ClusterSelector::Id(w.cluster_id));
    let page = w.app().recording_list(&w.as_admin().await?, &of, &PageArgs::first(100)).await?;
    Ok(page.into_nodes())
}

/// The last one, once it has ended.
async fn ended(w: &ProxyWorld, count: usize) -> Recording {
    eventually(PATIENCE, async || {
        let mut all = recordings(w).await.map_err(|error| format!("{error:#}"))?;
        match all.pop() {
            Some(last) if all.len() + 1 == count && last.end.is_some() => Ok(last),
            last => Err(format!("{} and {last:?}", all.len())),
        }
    })
    .await
}

fn client(w: &ProxyWorld, user: &User) -> anyhow::Result<Client> {
    let options = ClientOptions::new(w.console.url.clone(), Some(Secret::new(user.token.clone())));
    Ok(Client::new(&ClientOptions { ca_pem: Some(w.ca_pem.clone().into_bytes()), ..options })?)
}

async fn cast(client: &Client, id: &str) -> anyhow::Result<String> {
    let mut download = client.recording(id).await?;
    let mut text = Vec::new();
    while let Some(piece) = download.piece().await? {
        text.extend(piece);
    }
    Ok(String::from_utf8(text)?)
}

async fn shells_are_recorded_and_read_by_whom_was_named(cluster: TestCluster) -> anyhow::Result<()> {
    let w = ProxyWorld::new(cluster).await?;
    let (ada, kubectl) = with_a_pod(&w).await?;
    kubectl.ok(&["exec", "shell", "--", "echo", "nobody looks"]).await?;
    let auditor = w.stranger("auditor").await?;
    w.bind_at_console(&[ada.id, auditor.id]).await?;
    record(&w, NewRecordingPolicy { users: vec![auditor.email.clone()], ..Default::default() }).await?;

    assert_eq!(kubectl.ok(&["exec", "shell", "--", "echo", "hello"]).await?, "hello\n");
    let echoed = ended(&w, 1).await;
    // What is typed is not kept unless that is asked for. One line: kwok does not tell that an input has ended.
    let typed = ["exec", "-i", "shell", "--", "sh", "-c", "head -n 1 > there; echo got it; echo aside >&2"];
    kubectl.ok_with(&typed, Some("typed-in\n")).await?;
    let silent = ended(&w, 2).await;
    record(&w, NewRecordingPolicy { input: true, users: vec![auditor.email.clone()], ..Default::default() })
        .await?;
    kubectl.ok_with(&typed, Some("typed-in\n")).await?;
    let loud = ended(&w, 3).await;
    // A terminal. It stays for a while: kwok may lose what a command says that ends at once.
    let line = format!("{} exec -it shell -- sh -c 'tty; sleep 60'", kubectl.program().display());
    let mut command = Command::new("script");
    command.args(["-qec", &format!("stty rows 40 cols 100; {line}"), "/dev/null"]);
    command.env("KUBECONFIG", kubectl.kubeconfig()).env("HOME", kubectl.home()).env("TERM", "xterm");
    command.stdin(Stdio::piped());
    let mut running = Running::start(command)?;
    running.until("/dev/pts/").await.context("exec -it")?;
    drop(running);
    let terminal = ended(&w, 4).await;
    assert_eq!((terminal.shell.tty, terminal.size), (true, Some((100, 40))));

    let reader = client(&w, &auditor)?;
    let all = ListRecordings { id: Some(w.cluster_id.to_string()), handle: None, last: 10 };
    let listed = reader.send(&all).await?.recordings.edges;
    assert_eq!(listed.len(), 4);
    assert_eq!(listed[0].node.id, echoed.id.to_string());
    assert_eq!(listed[0].node.command, ["echo", "hello"]);
    assert_eq!((listed[0].node.actor_name.as_str(), listed[0].node.pod.as_str()), (&*ada.email, "shell"));
    let text = cast(&reader, &echoed.id.to_string()).await?;
    assert!(text.starts_with('{') && text.contains(r#""o","hello\n"]"#), "{text}");
    let silent = cast(&reader, &silent.id.to_string()).await?;
    assert!(silent.contains("got it\\n") && silent.contains("aside\\n"), "{silent}");
    assert!(!silent.contains("typed-in"), "{silent}");
    let loud = cast(&reader, &loud.id.to_string()).await?;
    assert!(loud.contains(r#""i","typed-in\n"]"#), "{loud}");
    let shown = cast(&reader, &terminal.id.to_string()).await?;
    assert!(shown.contains(r#""r","100x40"]"#) && shown.contains("/dev/pts/"), "{shown}");

    // Whoever was in the shell, and whoever may do anything else with the cluster, may not look.
    let refused = cast(&client(&w, &ada)?, &echoed.id.to_string()).await.unwrap_err();
    let refused = refused.downcast::<plural_wire::ClientError>()?;
    assert_eq!(refused.code(), Some(ErrorCode::Forbidden), "{refused}");
    let stranger = w.stranger("eve").await?;
    assert!(cast(&client(&w, &stranger)?, &echoed.id.to_string()).await.is_err());

    // The audit logs: the line of the shell leads to its recording, and each reading is told.
    let cluster = ClusterSelector::Id(w.cluster_id);
    eventually(PATIENCE, async || {
        let ctx = w.as_admin().await.map_err(|error| format!("{error:#}"))?;
        let page = w.app().cluster_audit_list(&ctx, &cluster, &PageArgs::first(100)).await;
        let rows = page.map_err(|error| error.to_string())?.into_nodes();
        let of_it = rows.iter().filter(|row| row.entry.recording_id == Some(echoed.id)).count();
        // Its beginning and its end.
        if of_it == 2 { Ok(()) } else { Err(format!("{rows:?}")) }
    })
    .await;
    let audits = w.app().audit_list(&w.as_admin().await?, &PageArgs::first(100)).await?.into_nodes();
    let read = audits.iter().filter(|row| row.entry.action == "recording.read");
    assert!(read.clone().all(|row| row.entry.actor == auditor.email) && read.count() == 4);
    w.end().await
}

/// What a client of the API says to open a WebSocket, up to the protocol that it speaks on it.
const WEBSOCKET: &str = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// A request by hand: its status and body.
async fn ask_as(
    w: &ProxyWorld,
    token: &str,
    method: &str,
    path: &str,
    extra: &str,
) -> anyhow::Result<(u16, String)> {
    let head = format!(
        "{method} /k8s/blue{path} HTTP/1.1\r\nhost: console\r\nauthorization: Bearer {token}\r\n{extra}\r\n"
    );
    w.http().await?.ask(&head).await
}

async fn protocols_that_cannot_be_recorded_are_refused(cluster: TestCluster) -> anyhow::Result<()> {
    let w = ProxyWorld::new(cluster).await?;
    record(&w, NewRecordingPolicy::default()).await?;
    let ask =
        async |method: &str, path: &str, extra: &str| ask_as(&w, &w.admin.token, method, path, extra).await;
    let exec = "/api/v1/namespaces/default/pods/p/exec?command=sh";
    for (path, extra) in [
        (
            exec,
            "connection: Upgrade\r\nupgrade: SPDY/3.1\r\nx-stream-protocol-version: v4.channel.k8s.io\r\n"
                .to_owned(),
        ),
        (exec, WEBSOCKET.to_owned()),
        (exec, format!("{WEBSOCKET}sec-websocket-protocol: base64.channel.k8s.io\r\n")),
        ("/api/v1/namespaces/default/pods/p/%65xec?command=sh", WEBSOCKET.to_owned()),
        ("/api/v1/namespaces/default/pods/p/attach", WEBSOCKET.to_owned()),
    ] {
        let (status, body) = ask("POST", path, &extra).await?;
        assert!(status == 403 && body.contains("are recorded, for which"), "{path} {extra}: {status} {body}");
    }
    let (status, body) =
        ask("POST", "/api/v1/nodes/n/proxy/run/a/p/c?cmd=id", "connection: close\r\n").await?;
    assert!(status == 403 && body.contains("node API sessions"), "{status} {body}");
    let machine = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/vm";
    let spdy = "connection: Upgrade\r\nupgrade: SPDY/3.1\r\n";
    let kubernetes = format!("{WEBSOCKET}sec-websocket-protocol: v5.channel.k8s.io\r\n");
    let plain = format!("{WEBSOCKET}sec-websocket-protocol: plain.kubevirt.io\r\n");
    for subresource in ["console", "c%6Fnsole", "vnc", "portforward/22/tcp", "usbredir", "vsock?port=1"] {
        for extra in [WEBSOCKET, spdy, kubernetes.as_str(), plain.as_str()] {
            let (status, body) = ask("GET", &format!("{machine}/{subresource}"), extra).await?;
            assert!(
                status == 403 && body.contains("subresources.kubevirt.io"),
                "{subresource}: {status} {body}"
            );
        }
    }
    assert!(recordings(&w).await?.is_empty());
    w.end().await
}

async fn shells_that_cannot_be_recorded_are_refused(cluster: TestCluster) -> anyhow::Result<()> {
    let w = ProxyWorld::new(cluster).await?;
    record(&w, NewRecordingPolicy::default()).await?;
    let (ada, kubectl) = with_a_pod(&w).await?;
    let mut command = kubectl.command();
    command.args(["exec", "shell", "--", "echo", "x"]).env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false");
    let said = crate::proxy_world::run(command, None).await?;
    assert!(said.code != Some(0) && said.err.contains("SPDY does not"), "{said:?}");
    // A Pod that is not there, or that one may not enter: the API server's own words, and no recording.
    let said = kubectl.run(&["exec", "nobody", "--", "echo", "x"], None).await?;
    assert!(said.code != Some(0) && said.err.contains("nobody"), "{said:?}");
    eventually(PATIENCE, async || {
        let left = recordings(&w).await.map_err(|error| format!("{error:#}"))?;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;

    // A client whose connection header says that our own choice of protocol is to be dropped on the way gets it all the
    // same, and what it ran is recorded.
    let path =
        format!("/api/v1/namespaces/{}/pods/shell/exec?command=touch&command=seen&stdout=true", w.namespace);
    let sly = WEBSOCKET.replace("Upgrade\r\nupgrade", "Upgrade, Sec-WebSocket-Protocol\r\nupgrade");
    assert_ne!(sly, WEBSOCKET);
    let (status, body) =
        ask_as(&w, &ada.token, "GET", &path, &format!("{sly}sec-websocket-protocol: v5.channel.k8s.io\r\n"))
            .await?;
    assert_eq!(status, 101, "{body}");
    assert_eq!(ended(&w, 1).await.shell.command, ["touch", "seen"]);

    // Where recordings are kept is away.
    let (there, away) = (w.folder.path().join("console/artifacts"), w.folder.path().join("away"));
    std::fs::rename(&there, &away)?;
    std::fs::write(&there, "in the way")?;
    let said = kubectl.run(&["exec", "shell", "--", "touch", "proof"], None).await?;
    assert!(said.code != Some(0) && said.err.contains("recordings cannot be stored"), "{said:?}");
    std::fs::remove_file(&there)?;
    std::fs::rename(&away, &there)?;
    let said = kubectl.ok(&["exec", "shell", "--", "ls"]).await?;
    assert!(!said.contains("proof"), "it ran: {said}");
    w.end().await
}

async fn a_shell_ends_with_its_recording(cluster: TestCluster) -> anyhow::Result<()> {
    let w = ProxyWorld::new(cluster).await?;
    let (_, kubectl) = with_a_pod(&w).await?;
    record(&w, NewRecordingPolicy { limit_megabytes: Some(1), ..Default::default() }).await?;
    let much = "head -c 20000000 /dev/zero | tr '\\0' x";
    let said = kubectl.run(&["exec", "shell", "--", "sh", "-c", much], None).await?;
    assert_ne!(said.code, Some(0));
    assert!(said.err.contains("the recording reached its size limit"), "{}", said.err);
    let full = ended(&w, 1).await;
    assert_eq!(full.end, Some(RecordingEnd::Full));
    // It goes on for what was on its way.
    assert!((1_000_000..2_200_000).contains(&full.bytes), "{}", full.bytes);
    let system = w.app().ctx(plural_core::access::Actor::System);
    let (_, events) = w.app().recording_read(&system, full.id).await?;
    let events: Vec<bytes::Bytes> = futures::TryStreamExt::try_collect(events).await?;
    let text = String::from_utf8(events.concat())?;
    let kept: usize = text
        .lines()
        .filter_map(|line| serde_json::from_str::<(f64, String, String)>(line).ok())
        .filter(|(_, kind, _)| kind == "o")
        .map(|(.., shown)| shown.len())
        .sum();
    let shown = said.out.bytes().filter(|byte| *byte == b'x').count();
    assert!(shown > 100_000 && shown <= kept, "shown {shown}, kept {kept}");
    w.end().await
}

async fn a_console_that_stops_keeps_the_whole_of_it(cluster: TestCluster) -> anyhow::Result<()> {
    let w = ProxyWorld::new(cluster).await?;
    let (_, kubectl) = with_a_pod(&w).await?;
    record(&w, NewRecordingPolicy::default()).await?;
    let mut command = kubectl.command();
    command.args(["exec", "-i", "shell", "--", "sh", "-c", "echo the last words; sleep 60"]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command)?;
    // Within the two seconds in which nothing is stored.
    running.until("the last words").await?;
    let id = recordings(&w).await?.pop().context("no recording")?.id;
    let ProxyWorld { agent, console, folder, .. } = w;
    console.stop().await?;
    if let Some(agent) = agent {
        agent.stop().await;
    }
    running.ended(Duration::from_secs(30)).await?;
    let console = RunningConsole::start(console_config(folder.path()), None).await?;
    let system = console.app().ctx(plural_core::access::Actor::System);
    let (kept, events) = console.app().recording_read(&system, id).await?;
    assert_eq!(kept.end, Some(RecordingEnd::Ended));
    let events: Vec<bytes::Bytes> = futures::TryStreamExt::try_collect(events).await?;
    let text = String::from_utf8(events.concat())?;
    assert!(text.contains("the last words\\n"), "{text}");
    console.stop().await?;
    Ok(())
}

async fn what_was_recorded_outlives_a_killed_console(cluster: TestCluster) -> anyhow::Result<()> {
    let w = ProxyWorld::new(cluster).await?;
    let (_, kubectl) = with_a_pod(&w).await?;
    record(&w, NewRecordingPolicy::default()).await?;
    let mut command = kubectl.command();
    command.args(["exec", "-i", "shell", "--", "sh", "-c", "echo still here; sleep 60"]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command)?;
    running.until("still here").await?;
    // Its beginning is stored at once, what was shown within two seconds.
    let recording = eventually(PATIENCE, async || {
        let all = recordings(&w).await.map_err(|error| format!("{error:#}"))?;
        all.into_iter().find(|recording| recording.bytes > 60).ok_or_else(|| "nothing yet".to_owned())
    })
    .await;
    let ProxyWorld { agent, console, folder, .. } = w;
    console.kill().await;
    if let Some(agent) = agent {
        agent.stop().await;
    }
    running.ended(Duration::from_secs(30)).await?;

    let console = RunningConsole::start(console_config(folder.path()), None).await?;
    let system = console.app().ctx(plural_core::access::Actor::System);
    let (kept, events) = console.app().recording_read(&system, recording.id).await?;
    assert_eq!(kept.end, None);
    let events: Vec<bytes::Bytes> = futures::TryStreamExt::try_collect(events).await?;
    let text = String::from_utf8(events.concat())?;
    assert!(text.contains("still here\\n"), "{text}");
    console.stop().await?;
    Ok(())
}

async fn another_replica_records_what_it_is_passed(cluster: TestCluster) -> anyhow::Result<()> {
    let Some(w) = ProxyWorld::with_replicas(cluster).await? else { return Ok(()) };
    let (_, kubectl) = with_a_pod(&w).await?;
    record(&w, NewRecordingPolicy::default()).await?;
    assert_eq!(kubectl.ok(&["exec", "shell", "--", "echo", "hello"]).await?, "hello\n");
    assert_eq!(ended(&w, 1).await.shell.command, ["echo", "hello"]);
    w.end().await
}

fn listing() -> Shell {
    Shell {
        kind: ShellKind::Exec,
        namespace: "shop".into(),
        pod: "web-0".into(),
        container: None,
        command: vec!["ls".into(), "-l".into()],
        tty: true,
    }
}

/// No cluster is needed: what is handed to the recorder is what a proxy would hand to it.
async fn the_program_lists_keeps_and_plays(cluster: TestCluster) -> anyhow::Result<()> {
    let w = ProxyWorld::without_agent(cluster).await?;
    let plural = async |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plural"));
        command
            .args(line.split(' '))
            .env_clear()
            .env("HOME", w.folder.path())
            .env("PLURAL_CONSOLE_URL", &w.console.url)
            .env("PLURAL_CONSOLE_TOKEN", &w.admin.token)
            .env("PLURAL_CONSOLE_CA_FILE", w.folder.path().join("tls.crt"))
            .current_dir(w.folder.path());
        crate::proxy_world::run(command, None).await
    };
    let ok = async |line: &str| {
        let said = plural(line).await?;
        anyhow::ensure!(said.code == Some(0), "{line}: {said:?}");
        Ok(said.out)
    };
    let said = ok("cd projects recordings default").await?;
    assert!(said.contains("default   no         no      90 days   64 MB   -"), "{said}");
    let on = format!("cd projects recordings default on --keep-days 7 --user {}", w.admin.email);
    let said = ok(&on).await?;
    assert!(
        said.contains(&format!("default   yes        no      7 days   64 MB   {}", w.admin.email)),
        "{said}"
    );
    let said = plural("cd projects recordings default on --group nobody").await?;
    assert!(said.err.contains("no user or group has the id or name \"nobody\""), "{said:?}");

    let cluster = ClusterSelector::Id(w.cluster_id);
    let grant = w.app().proxy_grant(&w.admin.token, &cluster).await?;
    let (recorder, writer) = w.app().recording_begin(&grant, listing(), RequestId::new()).await?;
    let id = writer.id();
    recorder.output("total 0\r\n".into()).await?;
    drop(recorder);
    assert_eq!(writer.run().await, RecordingEnd::Ended);

    let listed = ok("cd clusters recordings list --project default -o json").await?;
    let listed: serde_json::Value = serde_json::from_str(&listed)?;
    assert_eq!(listed[0]["clusterId"].as_str(), Some(&*w.cluster_id.to_string()), "{listed}");
    let said = ok("cd clusters recordings list blue").await?;
    assert!(said.contains(&format!("{}   shop/web-0   ls -l", w.admin.email)), "{said}");
    let listed: serde_json::Value =
        serde_json::from_str(&ok("cd clusters recordings list blue -o json").await?)?;
    assert_eq!(
        (listed[0]["id"].as_str(), listed[0]["state"].as_str()),
        (Some(&*id.to_string()), Some("ENDED"))
    );
    let cast = ok(&format!("cd clusters recordings get {id}")).await?;
    assert!(cast.starts_with('{') && cast.lines().count() == 3 && cast.contains("total 0"), "{cast}");
    assert_eq!(ok(&format!("cd clusters recordings play {id} --speed 1000")).await?, "total 0\r\n");
    ok(&format!("cd clusters recordings get {id} --file shell.cast")).await?;
    assert_eq!(std::fs::read_to_string(w.folder.path().join("shell.cast"))?, cast);
    assert_eq!(ok("cd clusters recordings play shell.cast").await?, "total 0\r\n");
    // Without its cluster, and without its project.
    let readable = async || -> anyhow::Result<serde_json::Value> {
        Ok(serde_json::from_str(&ok("cd clusters recordings list -o json").await?)?)
    };
    let listed = readable().await?;
    assert_eq!(listed[0]["projectName"].as_str(), Some("default"), "{listed}");
    let system = w.app().ctx(plural_core::access::Actor::System);
    let new = NewProject::named("shop".parse()?);
    let shop = w.app().project_create(&system, &new).await?;
    let new = NewCluster { project_id: Some(shop.id), ..NewCluster::named("red".parse()?) };
    let red = ClusterSelector::Id(w.app().cluster_create(&system, new).await?.cluster.id);
    ok("cd projects recordings shop on").await?;
    let grant = w.app().proxy_grant(&w.admin.token, &red).await?;
    let (recorder, writer) = w.app().recording_begin(&grant, listing(), RequestId::new()).await?;
    let gone = writer.id().to_string();
    drop(recorder);
    assert_eq!(writer.run().await, RecordingEnd::Ended);
    w.app().cluster_detach(&system, &red).await?;
    w.app().project_delete(&system, shop.id).await?;
    let listed = readable().await?;
    let ids: Vec<_> = listed.as_array().context("a list")?.iter().map(|one| one["id"].as_str()).collect();
    assert_eq!(ids, [Some(gone.as_str()), Some(&*id.to_string())], "{listed}");
    for project in ["shop".to_owned(), shop.id.to_string()] {
        let said = ok(&format!("cd clusters recordings list --project {project} -o wide")).await?;
        assert!(said.contains(&gone) && said.contains("shop"), "{said}");
    }
    let said = plural("cd clusters recordings list --project nowhere").await?;
    assert!(said.code == Some(1) && said.err.contains("could not find resource"), "{said:?}");
    let said = plural("cd clusters recordings get 0190b8a2-7c11-7def-8000-0123456789ab").await?;
    assert!(said.code == Some(1) && said.err.contains("could not find resource"), "{said:?}");
    w.end().await
}
