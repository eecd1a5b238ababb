//! Shells that are recorded, with something secret in whatever passes through them.

use anyhow::Context as _;
use k8s_openapi::api::{core::v1::Pod, rbac::v1::RoleBinding};
use kube::{
    Api,
    api::{AttachParams, PostParams},
};
use plural_testkit::{TestCluster, eventually};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{
    asker::{Asker, held, holds_none},
    world::PATIENCE,
};

/// The command line is a secret as well: no line of an audit log holds it, the database holds it sealed, and only
/// who may read recordings is told (`docs/access.md`).
const NAMED: &str = "namedinashell-4b7d20c1";
const UNKEPT: &str = "typedunrecorded-e81f5a36";
const TYPED: &str = "typedinashell-0c94b7de";
const SHOWN: &str = "shownbyashell-a35e61f8";
const TOLD: &str = "toldasanerror-72f0d9b4";

const PERSON: &str = "shell@example.com";
const AUDITOR: &str = "auditor@example.com";

const RECORDINGS: &str = "query ($id: ID!) { cluster(id: $id) {
    recordings(last: 10) { edges { node { id state } } } } }";
const AUDIT_LOGS: &str = "query ($id: ID!) { cluster(id: $id) {
    auditLogs(last: 100) { edges { node { actorName method path responseCode recordingId } } } } }";
/// Everything that tells of shells.
const LISTS: &str = "query ($cluster: ID!, $project: ID!) {
    cluster(id: $cluster) {
      recordings(last: 10) { edges { node { id actorName namespace pod container command state } } }
      auditLogs(last: 100) { edges { node { actorName method path recordingId } } } }
    project(id: $project) {
      recordingPolicy { record input }
      recordings(last: 10) { edges { node { id command } } } } }";

/// What is planted.
pub(crate) fn secrets() -> Vec<(&'static str, String)> {
    [
        ("command line of a shell", NAMED),
        ("what was typed and not to be recorded", UNKEPT),
        ("what was typed in a shell", TYPED),
        ("what a shell showed", SHOWN),
        ("what a shell told as an error", TOLD),
    ]
    .map(|(name, secret)| (name, secret.to_owned()))
    .into()
}

/// Shells that were open.
pub(crate) struct Shells {
    /// Who was in them.
    person: Asker,
    /// Who may read what was recorded of them.
    auditor: Asker,
    cluster: String,
    project: String,
    /// Ids: one without what was typed, one with it, one of a command.
    recordings: [String; 3],
}

impl Shells {
    /// Opens them in a cluster of this id, through the console at `url`, one after the other, until each is kept.
    pub(crate) async fn open(
        admin: &Asker,
        cluster: &TestCluster,
        id: &str,
        url: &str,
    ) -> anyhow::Result<Self> {
        let (person, auditor) = (admin.user(PERSON).await?, admin.user(AUDITOR).await?);
        let rbac = json!({"readBindings": [{"userId": person.id}, {"userId": auditor.id}]});
        admin.bind("clusterId", id, rbac).await?;
        let project = "query ($id: ID!) { cluster(id: $id) { project { id } } }";
        let project = admin.data(project, json!({"id": id})).await?["cluster"]["project"]["id"].take();
        let record = async |input: bool| {
            let document = "mutation ($id: ID!, $a: RecordingPolicyAttributes!) {
                setRecordingPolicy(projectId: $id, attributes: $a) { record input } }";
            let attributes = json!({"record": true, "input": input, "userReaders": [AUDITOR]});
            admin.data(document, json!({"id": project, "a": attributes})).await
        };

        let namespace = cluster.namespace().await?;
        furnish(cluster, &namespace).await?;
        let mut config = kube::Config::new(format!("{url}/k8s/blue").parse()?);
        config.auth_info.token = Some(person.token.clone().into());
        // There is no TLS on the way, and the machine's own authorities may be missing.
        config.root_cert = Some(Vec::new());
        let pods: Api<Pod> = Api::namespaced(kube::Client::try_from(config)?, &namespace);
        eventually(PATIENCE, async || {
            let pod = pods.get("shell").await.map_err(|error| error.to_string())?;
            let phase = pod.status.and_then(|status| status.phase).unwrap_or_default();
            if phase == "Running" { Ok(()) } else { Err(phase) }
        })
        .await;

        record(false).await?;
        show(&pods, &["sh"], &format!("true {UNKEPT}\n")).await?;
        let unkept = ended(admin, id, 1).await;
        record(true).await?;
        let shown = show(&pods, &["sh"], &format!("true {TYPED}\necho {TOLD} >&2\n")).await?;
        assert!(shown.contains(TOLD), "{shown}");
        let typed = ended(admin, id, 2).await;
        let shown = show(&pods, &["login", &format!("--password={NAMED}")], "").await?;
        assert!(shown.contains(SHOWN), "{shown}");
        let named = ended(admin, id, 3).await;

        // Shells that were not opened: in a Pod that is not there, and by who speaks no WebSocket.
        let nowhere = pods.exec("nowhere", ["login", NAMED], &AttachParams::default()).await;
        let nowhere = nowhere.err().context("there is no such Pod")?;
        let path = format!("/k8s/blue/api/v1/namespaces/{namespace}/pods/shell/exec");
        let (status, plain) =
            person.get(&format!("{path}?command=login&command={NAMED}&stdout=true")).await?;
        assert_eq!(status, 400, "{plain}");
        let told = format!("{nowhere:?}\n{plain}");
        assert!(told.contains("nowhere"), "{told}");
        holds_none("the answer to who gets no shell", told.as_bytes(), &secrets());

        let project = project.as_str().context("the cluster is in no project")?.to_owned();
        Ok(Self { person, auditor, cluster: id.to_owned(), project, recordings: [unkept, typed, named] })
    }

    /// Asks for what was recorded, as everybody: only who may read it gets it, and each reading is told. The others
    /// get this status each.
    pub(crate) async fn look(
        &self,
        admin: &Asker,
        others: &[(&str, &Asker, u16)],
        secrets: &[(&str, String)],
    ) -> anyhow::Result<()> {
        let ids = json!({"cluster": self.cluster, "project": self.project});
        for (name, person, expected) in
            others.iter().copied().chain([("who was in the shells", &self.person, 403)])
        {
            for recording in &self.recordings {
                let (status, told) = person.get(&format!("/ext/v1/recordings/{recording}")).await?;
                assert_eq!(status, expected, "{name}: {told}");
                holds_none(&format!("a recording for {name}"), told.as_bytes(), secrets);
            }
            let told = person.ask(LISTS, ids.clone()).await?.to_string();
            holds_none(&format!("the recordings and the audit log for {name}"), told.as_bytes(), secrets);
        }

        let listed = self.auditor.ask(LISTS, ids).await?.to_string();
        assert!(held(listed.as_bytes(), secrets).is_some(), "there was something to hide: {listed}");
        let mut casts = Vec::new();
        for recording in &self.recordings {
            let (status, cast) = self.auditor.get(&format!("/ext/v1/recordings/{recording}")).await?;
            assert_eq!(status, 200, "{cast}");
            casts.push(cast);
        }
        let [unkept, typed, named] = casts.as_slice() else { anyhow::bail!("{casts:?}") };
        holds_none("a recording without what was typed", unkept.as_bytes(), secrets);
        let told = format!(r#""o","{TOLD}\n"]"#);
        assert!(typed.contains(TYPED) && typed.contains(&told), "{typed}");
        assert!(named.contains(NAMED) && named.contains(SHOWN), "{named}");

        // Lines of the cluster's own audit log wait for others before they are stored.
        let logs = eventually(PATIENCE, async || {
            let told = admin.data(AUDIT_LOGS, json!({"id": self.cluster})).await;
            let told = told.map_err(|error| format!("{error:#}"))?.to_string();
            let is_whole =
                told.contains("/pods/nowhere/exec") && self.recordings.iter().all(|id| told.contains(id));
            if is_whole { Ok(told) } else { Err(told) }
        })
        .await;
        holds_none("the cluster's audit log", logs.as_bytes(), secrets);
        let audits = "{ audits(last: 500) { edges { node { action actorName targetId targetName } } } }";
        let audits = admin.data(audits, json!({})).await?;
        holds_none("the audit log", audits.to_string().as_bytes(), secrets);
        let rows = audits["audits"]["edges"].as_array().context("no audit log")?;
        let read: Vec<_> = rows
            .iter()
            .map(|edge| &edge["node"])
            .filter(|row| row["action"] == "recording.read")
            .map(|row| (row["actorName"].as_str(), row["targetId"].as_str()))
            .collect();
        let expected: Vec<_> = self.recordings.iter().map(|id| (Some(AUDITOR), Some(id.as_str()))).collect();
        assert_eq!(read, expected);
        Ok(())
    }
}

/// A Pod to open shells in, and the right to do so.
async fn furnish(cluster: &TestCluster, namespace: &str) -> anyhow::Result<()> {
    let client = cluster.client().await?;
    let told = format!(r#"{{"login --password={NAMED}": "welcome, {SHOWN}\n"}}"#);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "shell", "annotations": {"kubesim.plural.sh/exec": told}},
        "spec": {"containers": [{"name": "shell", "image": "example.com/shell:1"}]},
    });
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "in-shells"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": PERSON}],
    });
    let bindings: Api<RoleBinding> = Api::namespaced(client, namespace);
    bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
    Ok(())
}

/// Runs a command, with something typed into it if it is not empty; what it showed.
async fn show(pods: &Api<Pod>, command: &[&str], typed: &str) -> anyhow::Result<String> {
    let params = AttachParams::default().stdin(!typed.is_empty());
    let mut shell = pods.exec("shell", command.to_vec(), &params).await?;
    let mut out = shell.stdout().context("no output")?;
    let mut aside = shell.stderr().context("no output for errors")?;
    if let Some(mut stdin) = shell.stdin() {
        stdin.write_all(typed.as_bytes()).await?;
        stdin.shutdown().await?;
    }
    let mut shown = String::new();
    let heard = async {
        out.read_to_string(&mut shown).await?;
        aside.read_to_string(&mut shown).await
    };
    // A connection that breaks off ends neither.
    tokio::time::timeout(PATIENCE, heard).await.context("the shell does not end")??;
    Ok(shown)
}

/// The id of the last recording, once there are so many and it has ended.
async fn ended(admin: &Asker, cluster: &str, count: usize) -> String {
    eventually(PATIENCE, async || {
        let found = admin.data(RECORDINGS, json!({"id": cluster})).await;
        let found = found.map_err(|error| format!("{error:#}"))?;
        let edges = found["cluster"]["recordings"]["edges"].as_array().map_or(&[][..], Vec::as_slice);
        match edges.last() {
            Some(last) if edges.len() == count && last["node"]["state"] == "ENDED" => {
                Ok(last["node"]["id"].as_str().unwrap_or_default().to_owned())
            }
            _ => Err(found.to_string()),
        }
    })
    .await
}
