//! `plural cd clusters kubeconfig` and the credential plugin that what it writes names.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use chrono::{DateTime, TimeDelta, Utc};
use plural_wire::{
    Client, ClientOptions, CreateShortAccessToken, ErrorCode, GetClusterKubernetes, Me, ScopeAttributes,
    Secret,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    args::{CredentialArgs, KubeconfigArgs},
    connect::Connection,
    error::CliError,
    key::is_id,
    output::yaml_text,
    terminal::Terminal,
};

/// How long a token for kubectl holds.
const VALID: TimeDelta = TimeDelta::hours(1);
/// One that ends sooner is replaced.
const ENOUGH: TimeDelta = TimeDelta::minutes(5);

pub(crate) async fn kubeconfig(
    args: KubeconfigArgs,
    connection: &Connection,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let Connection { client, token: _, options: _, ca_pem, ca_file, profile } = connection;
    let cluster = args.cluster.get(client).await?;
    let handle = cluster.handle.clone().unwrap_or_else(|| cluster.id.clone());
    let never_joined = cluster.pinged_at.is_none();
    let console = client.url().trim_end_matches('/');
    let (server, ca_pem) = if console.starts_with("https://") {
        (format!("{console}/k8s/{handle}"), ca_pem.clone())
    } else {
        beside(&cluster.id, client).await?
    };
    let name = args.name.unwrap_or_else(|| format!("plural-{handle}"));
    let entry = Entry {
        name: &name,
        server,
        ca_pem: ca_pem.as_deref(),
        user: user(&name, console, &cluster.id, (ca_file.as_deref(), profile.as_deref())),
    };
    if args.merge {
        let path = merge_target(terminal)?;
        let replaced = merge(&path, &entry)?;
        terminal.say(format_args!("context {name} is in {} and current", path.display()));
        if let Some(server) = replaced {
            terminal.say(format_args!("it takes the place of one for {server}; --name NAME would keep both"));
        }
        if never_joined {
            terminal.say(format_args!(
                "the agent of {handle} has never connected: nothing answers until it does"
            ));
        }
        return Ok(());
    }
    let text = yaml_text(&entry.merged_into(json!({}))?)?;
    if let Some(path) = args.file {
        write_private(&path, &text)?;
        terminal.say(format_args!("hint: `kubectl --kubeconfig {} get namespaces`", path.display()));
    } else {
        terminal.out.write_all(text.as_bytes())?;
        terminal.out.flush()?;
    }
    Ok(())
}

/// Where a console that answers over plain HTTP serves kubectl over TLS, and the authority of its certificate.
async fn beside(cluster: &str, client: &Client) -> Result<(String, Option<Vec<u8>>), CliError> {
    let console = client.url();
    let told = client.send(&GetClusterKubernetes { id: cluster.to_owned() }).await?;
    let server = told.kas_url.filter(|url| url.starts_with("https://")).ok_or_else(|| {
        CliError::new(format!("kubectl only sends credentials over HTTPS, and {console} is plain HTTP"))
            .hint("start the console with --tls-cert and --tls-key, and log in to its https address")
    })?;
    let authority = told.kas_ca_certificate.map(String::into_bytes);
    // Whoever is between us and the console could name an authority of their own.
    if authority.is_some() && !client.is_local() {
        return Err(CliError::new(format!(
            "{console} names the authority of {server} over plain HTTP, where anybody in between could name another one"
        ))
        .hint("log in to the https address itself, with its authority in --ca-file"));
    }
    Ok((server, authority))
}

/// One cluster, its user and its context.
struct Entry<'a> {
    name: &'a str,
    server: String,
    ca_pem: Option<&'a [u8]>,
    user: Value,
}

impl Entry<'_> {
    /// `config` with this entry in it, and its context current. What else it holds stays.
    fn merged_into(&self, config: Value) -> Result<Value, CliError> {
        let Value::Object(mut config) = config else {
            return Err(CliError::new("the kubeconfig is not a mapping"));
        };
        let mut cluster = json!({"server": self.server});
        if let Some(pem) = self.ca_pem {
            cluster["certificate-authority-data"] = json!(STANDARD.encode(pem));
        }
        let name = self.name;
        for (list, key, value) in [
            ("clusters", "cluster", cluster),
            ("users", "user", self.user.clone()),
            ("contexts", "context", json!({"cluster": name, "user": name})),
        ] {
            let entries = config.entry(list).or_insert_with(|| json!([]));
            if entries.is_null() {
                *entries = json!([]);
            }
            let Value::Array(entries) = entries else {
                return Err(CliError::new(format!("{list} of the kubeconfig is not a list")));
            };
            entries.retain(|entry| entry["name"] != name);
            entries.push(json!({"name": name, key: value}));
        }
        config.insert("apiVersion".to_owned(), json!("v1"));
        config.insert("kind".to_owned(), json!("Config"));
        config.insert("current-context".to_owned(), json!(name));
        Ok(Value::Object(config))
    }
}

/// How kubectl gets a token: by asking this program each time it needs one.
fn user(
    name: &str,
    console: &str,
    cluster: &str,
    (ca_file, profile): (Option<&Path>, Option<&str>),
) -> Value {
    let mut args = vec!["cd", "clusters", "credential", "--cluster", cluster, "--url", console];
    let ca_file = ca_file.and_then(|path| std::path::absolute(path).ok());
    let ca_file = ca_file.as_ref().map(|path| path.to_string_lossy().into_owned());
    if let Some(file) = &ca_file {
        args.extend(["--ca-file", file]);
    }
    if let Some(profile) = profile {
        args.extend(["--profile", profile]);
    }
    json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": program(),
        "args": args,
        "interactiveMode": "Never",
        "provideClusterInfo": false,
        "installHint": format!("the kubeconfig of {name} calls `plural` at a path that no longer exists"),
    }})
}

/// This program, as kubectl will find it.
fn program() -> String {
    let own =
        std::env::current_exe().ok().filter(|path| path.file_name().is_some_and(|name| name == "plural"));
    own.map_or_else(|| "plural".to_owned(), |path| path.to_string_lossy().into_owned())
}

/// The first file of `$KUBECONFIG`, else `~/.kube/config`.
fn merge_target(terminal: &Terminal<'_>) -> Result<PathBuf, CliError> {
    let named = terminal.var("KUBECONFIG");
    if let Some(first) = named.as_deref().and_then(|list| list.split(':').find(|path| !path.is_empty())) {
        return Ok(PathBuf::from(first));
    }
    let home = terminal.var("HOME").ok_or_else(|| {
        CliError::new("there is no home folder with a kubeconfig").hint("set KUBECONFIG, or use --file")
    })?;
    Ok(PathBuf::from(home).join(".kube").join("config"))
}

/// Merges an entry into a kubeconfig; the server of the cluster that had its name there, where that was another one.
fn merge(path: &Path, entry: &Entry<'_>) -> Result<Option<String>, CliError> {
    let known = match fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => json!({}),
        Ok(text) => serde_saphyr::from_str(&text)
            // The parser quotes the file, and the file may hold credentials.
            .map_err(|_| CliError::new(format!("{} is not a kubeconfig", path.display())))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => json!({}),
        Err(error) => return Err(CliError::new(format!("cannot read {}: {error}", path.display()))),
    };
    let before =
        known["clusters"].as_array().and_then(|all| all.iter().find(|one| one["name"] == entry.name));
    let before =
        before.and_then(|one| one["cluster"]["server"].as_str()).filter(|server| *server != entry.server);
    let before = before.map(str::to_owned);
    write_private(path, &yaml_text(&entry.merged_into(known)?)?)?;
    Ok(before)
}

/// Replaces a file in one step, readable by its owner alone.
fn write_private(path: &Path, text: &str) -> Result<(), CliError> {
    let fault =
        |error: &dyn std::fmt::Display| CliError::new(format!("cannot write {}: {error}", path.display()));
    // A link is followed, so that it stays one.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| fault(&error))?;
    let mut draft = tempfile::Builder::new()
        .prefix(".plural")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(folder)
        .map_err(|error| fault(&error))?;
    draft.write_all(text.as_bytes()).map_err(|error| fault(&error))?;
    draft.as_file().sync_all().map_err(|error| fault(&error))?;
    draft.persist(path).map_err(|error| fault(&error.error))?;
    Ok(())
}

/// A token that was made for kubectl, kept until it ends.
#[derive(Serialize, Deserialize)]
struct Kept {
    token: Secret,
    expires_at: DateTime<Utc>,
}

/// Prints an `ExecCredential`: a token that holds for an hour at most and reaches one cluster, made from the saved login.
pub(crate) async fn credential(
    args: CredentialArgs,
    connection: &Connection,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let CredentialArgs { cluster } = args;
    if cluster.as_deref().is_some_and(|id| !is_id(id)) {
        return Err(CliError::usage("--cluster takes a cluster's id")
            .hint("`plural cd clusters kubeconfig CLUSTER` writes a kubeconfig with the right one"));
    }
    let Connection { client, token: login, options, .. } = connection;
    let file = terminal
        .home()
        .ok()
        .map(|home| kept_folder(&home).join(kept_name(client.url(), login, cluster.as_deref())));
    let kept = match &file {
        Some(file) => kept(file, options).await,
        None => None,
    };
    let kept = match kept {
        Some(kept) => kept,
        None => make(file.as_deref(), cluster, client, terminal).await?,
    };
    let told = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {
            "token": kept.token.expose(),
            "expirationTimestamp": kept.expires_at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
        },
    });
    writeln!(terminal.out, "{told}")?;
    terminal.out.flush()?;
    Ok(())
}

/// A new token, kept for the next call.
async fn make(
    file: Option<&Path>,
    cluster: Option<String>,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<Kept, CliError> {
    let request = CreateShortAccessToken {
        valid_for_seconds: VALID.num_seconds(),
        scopes: vec![ScopeAttributes::kubernetes(cluster)],
    };
    let made = client.send(&request).await?;
    let (Some(token), Some(expires_at)) = (made.token, made.expires_at) else {
        return Err(CliError::new("the console created no access token"));
    };
    let kept = Kept { token, expires_at };
    if let Some(file) = file
        && let Ok(text) = serde_json::to_string(&kept)
        && let Err(error) = write_private(file, &text)
    {
        // It works without; every call then makes a token.
        terminal.say(error);
    }
    Ok(kept)
}

/// The kept token, when it is still good: kubectl asks again after a refusal, and must not get the same.
async fn kept(file: &Path, options: &ClientOptions) -> Option<Kept> {
    let kept: Kept = serde_json::from_str(&fs::read_to_string(file).ok()?).ok()?;
    if kept.expires_at < Utc::now() + ENOUGH {
        return None;
    }
    let options = ClientOptions { token: Some(kept.token.clone()), ..options.clone() };
    match Client::new(&options).ok()?.send(&Me {}).await {
        Err(error) if error.code() == Some(ErrorCode::Unauthenticated) => None,
        // A console that cannot be asked will say so to kubectl too.
        _ => Some(kept),
    }
}

/// Forgets the tokens that were kept for kubectl under this login, and returns them.
pub(crate) fn take_kept(home: &Path, url: &str, login: &Secret) -> Vec<Secret> {
    let Ok(files) = fs::read_dir(kept_folder(home)) else { return Vec::new() };
    let ours = digest(url, login);
    let mut taken = Vec::new();
    for file in files.flatten() {
        if !file.file_name().to_string_lossy().starts_with(&ours) {
            continue;
        }
        let kept = fs::read_to_string(file.path()).ok();
        let kept = kept.and_then(|text| serde_json::from_str::<Kept>(&text).ok());
        if fs::remove_file(file.path()).is_ok()
            && let Some(kept) = kept
        {
            taken.push(kept.token);
        }
    }
    taken
}

fn kept_folder(home: &Path) -> PathBuf {
    home.join("kubernetes")
}

/// One file for each console, login and cluster. `cluster` is an id: it can be part of a file's name.
fn kept_name(url: &str, login: &Secret, cluster: Option<&str>) -> String {
    let digest = digest(url, login);
    match cluster {
        Some(cluster) => format!("{digest}-{cluster}.json"),
        None => format!("{digest}.json"),
    }
}

fn digest(url: &str, login: &Secret) -> String {
    let digest = Sha256::new().chain_update(url).chain_update([0]).chain_update(login.expose()).finalize();
    hex::encode(&digest[..12])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(name: &'a str, ca_pem: Option<&'a [u8]>) -> Entry<'a> {
        let console = "https://console.example.com";
        Entry {
            name,
            server: format!("{console}/k8s/blue"),
            ca_pem,
            user: user(name, console, "0190b8a2-7c11-7def-8000-0123456789ab", (None, Some("work"))),
        }
    }

    #[test]
    fn a_new_kubeconfig() {
        let made = entry("plural-blue", Some(b"PEM")).merged_into(json!({})).unwrap();
        insta::assert_snapshot!("kubeconfig", yaml_text(&made).unwrap());
    }

    #[test]
    fn what_was_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/config");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(
            &path,
            "apiVersion: v1\nkind: Config\npreferences: {}\ncurrent-context: mine\ncontexts: null\nclusters:\n\
             - name: mine\n  cluster: {server: https://a}\n- name: plural-blue\n  cluster: {server: https://old}\n",
        )
        .unwrap();
        merge(&path, &entry("plural-blue", None)).unwrap();
        merge(&path, &entry("plural-blue", None)).unwrap();
        let merged: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(merged["clusters"].as_array().unwrap().len(), 2);
        assert_eq!(merged["clusters"][0]["name"], "mine");
        assert_eq!(merged["clusters"][1]["cluster"]["server"], "https://console.example.com/k8s/blue");
        assert_eq!(merged["current-context"], "plural-blue");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_broken_kubeconfig_stays_as_it_is_and_is_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(&path, "users: {token: oops").unwrap();
        let error = merge(&path, &entry("plural-blue", None)).unwrap_err();
        assert!(!format!("{error:?}").contains("oops"), "{error:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "users: {token: oops");
    }
}
