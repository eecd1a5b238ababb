//! What a container is given: folders for its volumes, and variables.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Container, EnvVar, KeyToPath, Pod, Secret},
};
use kube::{Api, Client, ResourceExt as _};

/// What keeps a container from starting, in Kubernetes' word and in more.
pub(super) struct Waits(pub(super) String);

type Data = BTreeMap<String, Vec<u8>>;

/// Where the paths of a container are here: mounts and the folders behind them, the longest first.
pub(super) struct Paths(Vec<(String, PathBuf)>);

impl Paths {
    /// Of the mounts of a container whose volumes are in `volumes`.
    pub(super) fn of(container: &Container, volumes: &Path) -> Self {
        let mounts = container.volume_mounts.iter().flatten();
        let mut paths: Vec<(String, PathBuf)> = mounts
            .map(|mount| {
                let folder = volumes.join(&mount.name);
                let folder =
                    mount.sub_path.as_ref().map_or_else(|| folder.clone(), |below| folder.join(below));
                (mount.mount_path.trim_end_matches('/').to_owned(), folder)
            })
            .collect();
        paths.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Self(paths)
    }

    /// `text` with each path of a mount replaced by the folder behind it.
    pub(super) fn here(&self, text: &str) -> String {
        let mut out = String::new();
        let (mut rest, mut at_start) = (text, true);
        while let Some(first) = rest.chars().next() {
            let mount = self.0.iter().find(|(path, _)| {
                at_start
                    && rest
                        .strip_prefix(path.as_str())
                        .is_some_and(|after| after.is_empty() || after.starts_with(['/', ':', ',', ' ']))
            });
            if let Some((path, folder)) = mount {
                out.push_str(&folder.display().to_string());
                rest = rest.get(path.len()..).unwrap_or_default();
                at_start = false;
            } else {
                out.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
                at_start = matches!(first, '=' | ':' | ',' | ' ');
            }
        }
        out
    }

    /// The folder behind a mount.
    pub(super) fn folder(&self, mount: &str) -> Option<&Path> {
        self.0.iter().find(|(path, _)| path == mount).map(|(_, folder)| folder.as_path())
    }
}

/// Makes the folders of a Pod's volumes.
pub(super) async fn volumes(client: &Client, pod: &Pod, folder: &Path) -> anyhow::Result<Result<(), Waits>> {
    let namespace = pod.namespace().unwrap_or_default();
    for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        let place = folder.join(&volume.name);
        fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
        let (data, items, optional) = if let Some(source) = &volume.secret {
            let name = source.secret_name.clone().unwrap_or_default();
            (secret(client, &namespace, &name).await?, source.items.as_ref(), source.optional)
        } else if let Some(source) = &volume.config_map {
            (config_map(client, &namespace, &source.name).await?, source.items.as_ref(), source.optional)
        } else if volume.empty_dir.is_some() {
            continue;
        } else {
            anyhow::bail!("volume {} is of a kind that this node does not have", volume.name);
        };
        let Some(data) = data else {
            if optional == Some(true) {
                continue;
            }
            return Ok(Err(Waits(format!("volume {}: its Secret or ConfigMap is not there", volume.name))));
        };
        for (key, value) in data {
            let Some(path) = path_of(&key, items) else { continue };
            let file = place.join(path);
            if let Some(above) = file.parent() {
                fs::create_dir_all(above)?;
            }
            fs::write(&file, value).with_context(|| format!("cannot write {}", file.display()))?;
        }
    }
    Ok(Ok(()))
}

fn path_of(key: &str, items: Option<&Vec<KeyToPath>>) -> Option<String> {
    match items {
        None => Some(key.to_owned()),
        Some(items) => items.iter().find(|item| item.key == key).map(|item| item.path.clone()),
    }
}

/// The variables of a container, in order.
pub(super) async fn variables(
    client: &Client,
    pod: &Pod,
    container: &Container,
) -> anyhow::Result<Result<Vec<(String, String)>, Waits>> {
    let namespace = pod.namespace().unwrap_or_default();
    let mut found = Vec::new();
    for from in container.env_from.iter().flatten() {
        let (data, name, optional) = if let Some(source) = &from.secret_ref {
            (secret(client, &namespace, &source.name).await?, &source.name, source.optional)
        } else if let Some(source) = &from.config_map_ref {
            (config_map(client, &namespace, &source.name).await?, &source.name, source.optional)
        } else {
            continue;
        };
        match data {
            Some(data) => {
                let prefix = from.prefix.clone().unwrap_or_default();
                for (key, value) in data {
                    found.push((format!("{prefix}{key}"), text(value)?));
                }
            }
            None if optional == Some(true) => {}
            None => return Ok(Err(Waits(format!("{name} is not there")))),
        }
    }
    for variable in container.env.iter().flatten() {
        match value(client, pod, &namespace, variable).await? {
            Ok(Some(value)) => found.push((variable.name.clone(), value)),
            Ok(None) => {}
            Err(waits) => return Ok(Err(waits)),
        }
    }
    Ok(Ok(found))
}

async fn value(
    client: &Client,
    pod: &Pod,
    namespace: &str,
    variable: &EnvVar,
) -> anyhow::Result<Result<Option<String>, Waits>> {
    let Some(from) = &variable.value_from else {
        return Ok(Ok(Some(variable.value.clone().unwrap_or_default())));
    };
    let (data, name, key, optional) = if let Some(source) = &from.secret_key_ref {
        (secret(client, namespace, &source.name).await?, &source.name, &source.key, source.optional)
    } else if let Some(source) = &from.config_map_key_ref {
        (config_map(client, namespace, &source.name).await?, &source.name, &source.key, source.optional)
    } else if let Some(source) = &from.field_ref {
        return Ok(Ok(Some(field(pod, &source.field_path)?)));
    } else {
        anyhow::bail!("variable {} comes from what this node does not have", variable.name);
    };
    match data.and_then(|mut data| data.remove(key)) {
        Some(value) => Ok(Ok(Some(text(value)?))),
        None if optional == Some(true) => Ok(Ok(None)),
        None => Ok(Err(Waits(format!("couldn't find key {key} in {namespace}/{name}")))),
    }
}

fn field(pod: &Pod, path: &str) -> anyhow::Result<String> {
    let node = || pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let value = match path {
        "metadata.name" => pod.metadata.name.clone(),
        "metadata.namespace" => pod.metadata.namespace.clone(),
        "metadata.uid" => pod.metadata.uid.clone(),
        "spec.nodeName" => node(),
        "spec.serviceAccountName" => pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone()),
        other => anyhow::bail!("this node does not know the field {other}"),
    };
    Ok(value.unwrap_or_default())
}

fn text(value: Vec<u8>) -> anyhow::Result<String> {
    String::from_utf8(value).context("the value of a variable is not text")
}

async fn secret(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Option<Data>> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = secrets.get_opt(name).await.with_context(|| format!("cannot read Secret {name}"))?;
    let bytes = |(key, ByteString(value)): (String, ByteString)| (key, value);
    Ok(found.map(|secret| secret.data.unwrap_or_default().into_iter().map(bytes).collect()))
}

async fn config_map(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Option<Data>> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let found = maps.get_opt(name).await.with_context(|| format!("cannot read ConfigMap {name}"))?;
    let bytes = |(key, value): (String, String)| (key, value.into_bytes());
    Ok(found.map(|map| map.data.unwrap_or_default().into_iter().map(bytes).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_mounts_become_folders() {
        let paths =
            Paths(vec![("/plural/bin".into(), "/here/bin".into()), ("/tmp".into(), "/here/tmp".into())]);
        for (text, expected) in [
            ("/plural/bin", "/here/bin"),
            ("/plural/bin/plural", "/here/bin/plural"),
            ("/plural/binary", "/plural/binary"),
            ("--dir=/plural/bin", "--dir=/here/bin"),
            ("/plural/bin:/usr/bin:/tmp", "/here/bin:/usr/bin:/here/tmp"),
            ("http://plural/bin", "http://plural/bin"),
            ("/var/tmp", "/var/tmp"),
            ("", ""),
        ] {
            assert_eq!(paths.here(text), expected);
        }
    }
}
