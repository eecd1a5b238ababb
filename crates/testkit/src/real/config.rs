//! Certificates, tokens and files that the control plane's programs read.

use std::{
    io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::config::{KubeConfigOptions, Kubeconfig};
use rand::{RngExt as _, distr::Alphanumeric};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use serde_json::json;

use crate::folder::OwnedFolder;

/// Everything but reads, once, when it is answered: enough to count writes, little enough to run always.
const AUDIT_POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
rules:
  - level: None
    verbs: [get, list, watch]
  - level: Metadata
    omitManagedFields: true
";

/// What `kubectl logs` shows of every Pod, in the container runtime's format.
const POD_LOG: &str = "\
2026-01-01T00:00:00.000000001Z stdout F first line\n\
2026-01-01T00:00:01.000000001Z stdout F second line\n\
2026-01-01T00:00:02.000000001Z stderr F third line\n";

/// Paths of the files in a control plane's folder.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) ca: PathBuf,
    pub(super) server_certificate: PathBuf,
    pub(super) server_key: PathBuf,
    pub(super) service_account_key: PathBuf,
    pub(super) service_account_public_key: PathBuf,
    pub(super) tokens: PathBuf,
    pub(super) audit_policy: PathBuf,
    pub(super) kwok: PathBuf,
    pub(super) kubeconfig: PathBuf,
    pub(super) plain_kubeconfig: PathBuf,
    /// Of the controllers, each a user of its own, so that the audit log tells them from a test.
    pub(super) controller_manager: PathBuf,
    pub(super) scheduler: PathBuf,
    pub(super) kwok_kubeconfig: PathBuf,
}

/// Write all of them. `server` is the API server's URL, `pods` the folder that commands in Pods run in.
pub(super) fn write(
    folder: &OwnedFolder,
    pods: &OwnedFolder,
    server: &str,
    kwok_port: u16,
) -> anyhow::Result<Files> {
    let mut ca_params = CertificateParams::new(Vec::new())?;
    ca_params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca_params.distinguished_name.push(DnType::CommonName, "plural test control plane");
    let ca = CertifiedIssuer::self_signed(ca_params, KeyPair::generate()?)?;
    let ca_pem = ca.pem();

    let names = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
    let server_pair = issue(&ca, "kube-apiserver", &names)?;
    let kwok_pair = issue(&ca, "kwok", &names)?;
    let service_account = KeyPair::generate()?;

    let mut users = Users { folder, server, ca_pem: &ca_pem, tokens: String::new() };
    let kubeconfig = users.add("kubeconfig", "admin", Rights::All)?;
    let plain_kubeconfig = users.add("kubeconfig-plain", "plain", Rights::None)?;
    let controller_manager =
        users.add("kubeconfig-manager", "system:kube-controller-manager", Rights::All)?;
    let scheduler = users.add("kubeconfig-scheduler", "system:kube-scheduler", Rights::All)?;
    let kwok_kubeconfig = users.add("kubeconfig-kwok", "system:kwok", Rights::All)?;
    let tokens = users.tokens;

    folder.write("kwok.crt", &kwok_pair.0)?;
    folder.write("kwok.key", &kwok_pair.1)?;
    folder.write("pod.log", POD_LOG)?;
    pods.open_to_all()?;
    let is_root = rustix::process::geteuid().is_root();
    let kwok = include_str!("kwok.yaml")
        .replace("WORKSPACE", &pods.path().to_string_lossy())
        .replace("RUNAS", if is_root { "runAsUser: 65534, runAsGroup: 65534" } else { "" })
        .replace("ADDRESS", "127.0.0.1")
        .replace("PORT", &kwok_port.to_string())
        .replace("FOLDER", &folder.path().to_string_lossy());

    Ok(Files {
        ca: folder.write("ca.crt", &ca_pem)?,
        server_certificate: folder.write("apiserver.crt", &server_pair.0)?,
        server_key: folder.write("apiserver.key", &server_pair.1)?,
        service_account_key: folder.write("service-account.key", service_account.serialize_pem())?,
        service_account_public_key: folder.write("service-account.pub", service_account.public_key_pem())?,
        tokens: folder.write("tokens.csv", tokens)?,
        audit_policy: folder.write("audit-policy.yaml", AUDIT_POLICY)?,
        kwok: folder.write("kwok.yaml", kwok)?,
        kubeconfig,
        plain_kubeconfig,
        controller_manager,
        scheduler,
        kwok_kubeconfig,
    })
}

/// A client of a kubeconfig file, for the calling runtime.
pub(crate) async fn client(file: &Path) -> anyhow::Result<kube::Client> {
    let kubeconfig = Kubeconfig::read_from(file)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    kube::Client::try_from(config).context("cannot make a client")
}

fn issue(ca: &CertifiedIssuer<'_, KeyPair>, name: &str, names: &[&str]) -> anyhow::Result<(String, String)> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok((params.signed_by(&key, ca)?.pem(), key.serialize_pem()))
}

fn token() -> String {
    rand::rng().sample_iter(&Alphanumeric).take(32).map(char::from).collect()
}

#[derive(Debug, Clone, Copy)]
enum Rights {
    All,
    None,
}

/// Who may come in, and how.
struct Users<'a> {
    folder: &'a OwnedFolder,
    server: &'a str,
    ca_pem: &'a str,
    /// Lines of the token file.
    tokens: String,
}

impl Users<'_> {
    /// Add a user, and write a kubeconfig for it. JSON is YAML, so kubectl and kube read it alike.
    fn add(&mut self, file: &str, user: &str, rights: Rights) -> io::Result<PathBuf> {
        let token = token();
        let groups = match rights {
            Rights::All => ",\"system:masters\"",
            Rights::None => "",
        };
        self.tokens += &[&token, ",", user, ",", user, groups, "\n"].concat();
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": self.server,
                "certificate-authority-data": STANDARD.encode(self.ca_pem),
            }}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user, "namespace": "default"}}],
        });
        self.folder.write(file, format!("{config:#}\n"))
    }
}
