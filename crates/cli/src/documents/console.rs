//! The console as documents see it: things found by natural keys (an address, a handle, `CLUSTER/NAME`) instead of ids.

use std::collections::HashMap;

use plural_wire::{
    Client, ClientError, Connection, FindGroup, FindUser, Operation, PAGE_SIZE, ReadCluster, ReadClusters,
    ReadContext, ReadContexts, ReadGitRepositories, ReadGitRepository, ReadGlobalService, ReadGlobalServices,
    ReadHelmRepositories, ReadHelmRepository, ReadManagedNamespace, ReadManagedNamespaces, ReadProject,
    ReadProjects, ReadService, ReadServices, ReadStack, ReadStackDefinition, ReadStackDefinitions,
    ReadStacks,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::kind::Kind;
use crate::error::CliError;

/// The console, and what was looked up in it.
pub(super) struct Console<'c> {
    pub(super) client: &'c Client,
    ids: HashMap<(Kind, String), String>,
    keys: HashMap<(Kind, String), String>,
    lists: HashMap<Kind, Vec<String>>,
}

/// The answer, or nothing where there is no such thing for the caller.
pub(super) fn there(answer: Result<Value, ClientError>) -> Result<Option<Value>, CliError> {
    match answer {
        Ok(Value::Null) => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A text of an answer.
pub(super) fn text(answer: &Value, name: &str) -> Option<String> {
    answer.get(name).and_then(Value::as_str).map(str::to_owned)
}

impl<'c> Console<'c> {
    pub(super) fn new(client: &'c Client) -> Self {
        Self { client, ids: HashMap::new(), keys: HashMap::new(), lists: HashMap::new() }
    }

    pub(super) async fn send<O: Operation<Data = Value>>(&self, operation: O) -> Result<Value, CliError> {
        Ok(self.client.send(&operation).await?)
    }

    /// Remembers what was made or found.
    pub(super) fn learn(&mut self, kind: Kind, key: &str, id: &str) {
        self.ids.insert((kind, key.to_owned()), id.to_owned());
        self.keys.insert((kind, id.to_owned()), key.to_owned());
    }

    /// The id of what a key names.
    pub(super) async fn id(&mut self, kind: Kind, key: &str) -> Result<Option<String>, CliError> {
        if let Some(id) = self.ids.get(&(kind, key.to_owned())) {
            return Ok(Some(id.clone()));
        }
        let client = self.client;
        let name = json!({"name": key});
        let found = there(match kind {
            Kind::Project => client.send(&ReadProject(name)).await,
            Kind::Cluster => client.send(&ReadCluster(json!({"handle": key}))).await,
            Kind::GitRepository => client.send(&ReadGitRepository(json!({"url": key}))).await,
            Kind::HelmRepository => client.send(&ReadHelmRepository(json!({"url": key}))).await,
            Kind::StackDefinition => client.send(&ReadStackDefinition(name)).await,
            Kind::InfrastructureStack => client.send(&ReadStack(name)).await,
            Kind::ServiceContext => client.send(&ReadContext(name)).await,
            Kind::GlobalService => client.send(&ReadGlobalService(name)).await,
            Kind::ManagedNamespace => client.send(&ReadManagedNamespace(name)).await,
            Kind::ServiceDeployment => {
                let (cluster, name) = key.split_once('/').unwrap_or_default();
                client.send(&ReadService(json!({"cluster": cluster, "name": name}))).await
            }
            // Nothing refers to one.
            Kind::SyncWindow => return Ok(None),
        })?;
        let id = found.as_ref().and_then(|found| text(found, "id"));
        if let Some(id) = &id {
            self.learn(kind, key, id);
        }
        Ok(id)
    }

    /// The id of what is referred to; it was looked up, or made, before.
    pub(super) async fn known_id(&mut self, kind: Kind, key: &str) -> Result<String, CliError> {
        self.id(kind, key).await?.ok_or_else(|| {
            CliError::missing(
                format_args!("{} {key}", kind.info().name),
                "apply it first, or add it to the files",
            )
        })
    }

    /// The key of what has this id; nothing where the caller may not see it.
    pub(super) async fn key(&mut self, kind: Kind, id: &str) -> Result<Option<String>, CliError> {
        if let Some(key) = self.keys.get(&(kind, id.to_owned())) {
            return Ok(Some(key.clone()));
        }
        let client = self.client;
        let by_id = json!({"id": id});
        let found = match kind {
            Kind::Project => there(client.send(&ReadProject(by_id)).await)?,
            Kind::Cluster => there(client.send(&ReadCluster(by_id)).await)?,
            Kind::GitRepository => there(client.send(&ReadGitRepository(by_id)).await)?,
            Kind::ServiceDeployment => there(client.send(&ReadService(by_id)).await)?,
            Kind::StackDefinition => there(client.send(&ReadStackDefinition(by_id)).await)?,
            Kind::InfrastructureStack => there(client.send(&ReadStack(by_id)).await)?,
            Kind::HelmRepository
            | Kind::ServiceContext
            | Kind::GlobalService
            | Kind::ManagedNamespace
            | Kind::SyncWindow => None,
        };
        let key = found.as_ref().and_then(|found| key_of(kind, found));
        if let Some(key) = &key {
            self.learn(kind, key, id);
        }
        Ok(key)
    }

    /// The keys of all of a kind that the caller may see, sorted.
    pub(super) async fn all(&mut self, kind: Kind) -> Result<Vec<String>, CliError> {
        if let Some(all) = self.lists.get(&kind) {
            return Ok(all.clone());
        }
        let found = match kind {
            Kind::Project => self.pages(ReadProjects).await?,
            Kind::Cluster => self.pages(ReadClusters).await?,
            Kind::GitRepository => self.pages(ReadGitRepositories).await?,
            Kind::HelmRepository => self.pages(ReadHelmRepositories).await?,
            Kind::StackDefinition => self.pages(ReadStackDefinitions).await?,
            Kind::InfrastructureStack => self.pages(ReadStacks).await?,
            Kind::ServiceContext => self.pages(ReadContexts).await?,
            Kind::ServiceDeployment => self.pages(ReadServices).await?,
            Kind::GlobalService => self.pages(ReadGlobalServices).await?,
            Kind::ManagedNamespace => self.pages(ReadManagedNamespaces).await?,
            Kind::SyncWindow => Vec::new(),
        };
        let mut keys = Vec::new();
        for one in &found {
            if let (Some(key), Some(id)) = (key_of(kind, one), text(one, "id")) {
                self.learn(kind, &key, &id);
                keys.push(key);
            }
        }
        keys.sort();
        self.lists.insert(kind, keys.clone());
        Ok(keys)
    }

    async fn pages<O>(&self, page: fn(Value) -> O) -> Result<Vec<Value>, CliError>
    where
        O: Operation<Data = Connection<Value>>,
    {
        let ask = |after: Option<String>| page(json!({"after": after, "first": PAGE_SIZE}));
        Ok(plural_wire::all_pages(self.client, ask).await?)
    }

    /// The key of what a reference's name means in the console.
    pub(super) async fn named(&mut self, kind: Kind, name: &str) -> Result<Option<String>, CliError> {
        let all = match kind {
            // They have addresses, not names: documents of them are called after these.
            Kind::GitRepository | Kind::HelmRepository => self.all(kind).await?,
            Kind::ServiceDeployment => {
                let Some((cluster, name)) = name.split_once('.') else { return Ok(None) };
                let key = format!("{cluster}/{name}");
                return Ok(self.id(kind, &key).await?.map(|_| key));
            }
            _ => return Ok(self.id(kind, name).await?.map(|_| name.to_owned())),
        };
        let named: Vec<&String> =
            all.iter().filter(|key| document_names(key).contains(&name.to_owned())).collect();
        match named.as_slice() {
            [] => Ok(None),
            [key] => Ok(Some((*key).clone())),
            [one, other, ..] => Err(CliError::new(format!(
                "{name} could be {one} or {other}: name it {} or {}",
                unique_name(one),
                unique_name(other)
            ))),
        }
    }

    /// What a document of this thing is called where nobody chose a name.
    pub(super) async fn document_name(&mut self, kind: Kind, key: &str) -> Result<String, CliError> {
        match kind {
            Kind::GitRepository | Kind::HelmRepository => {
                let [name, unique] = document_names(key);
                let all = self.all(kind).await?;
                let same = all.iter().filter(|other| document_names(other)[0] == name).count();
                Ok(if same > 1 { unique } else { name })
            }
            Kind::ServiceDeployment | Kind::SyncWindow => Ok(key.replace('/', ".")),
            _ => Ok(key.to_owned()),
        }
    }

    /// Attributes of bindings: ids of users and groups for their names.
    pub(super) async fn bindings(&mut self, list: Option<&Value>) -> Result<Value, CliError> {
        let mut all = Vec::new();
        for binding in list.and_then(Value::as_array).into_iter().flatten() {
            let (found, field, what) = match (text(binding, "userEmail"), text(binding, "groupName")) {
                (Some(email), _) => {
                    (there(self.client.send(&FindUser(json!({"email": email}))).await)?, "userId", email)
                }
                (None, Some(name)) => {
                    (there(self.client.send(&FindGroup(json!({"name": name}))).await)?, "groupId", name)
                }
                (None, None) => continue,
            };
            let id = found.as_ref().and_then(|found| text(found, "id"));
            let id = id
                .ok_or_else(|| CliError::missing(format_args!("user or group {what:?}"), "check its name"))?;
            all.push(json!({field: id}));
        }
        Ok(Value::Array(all))
    }
}

fn key_of(kind: Kind, found: &Value) -> Option<String> {
    match kind {
        Kind::Cluster => text(found, "handle").or_else(|| text(found, "name")),
        Kind::GitRepository | Kind::HelmRepository => text(found, "url"),
        Kind::ServiceDeployment => {
            let cluster = found.get("cluster")?;
            Some(format!("{}/{}", text(cluster, "handle")?, text(found, "name")?))
        }
        _ => text(found, "name"),
    }
}

/// What a document of this address may be called: by its host and path, and the same with a part of a digest.
pub(crate) fn document_names(url: &str) -> [String; 2] {
    let place = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = place.rsplit_once('@').map_or(place, |(_, rest)| rest);
    let place = place.trim_end_matches('/').trim_end_matches(".git");
    let mut name = String::new();
    for letter in place.to_lowercase().chars() {
        if letter.is_ascii_alphanumeric() {
            name.push(letter);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    // Kubernetes' names have at most 253 characters; the end of an address says more than its beginning.
    let name = name.trim_end_matches('-');
    let name = name[name.len().saturating_sub(200)..].trim_start_matches('-').to_owned();
    let digest = hex::encode(Sha256::digest(url.as_bytes()));
    let unique = format!("{name}-{}", &digest[..8]);
    [name, unique]
}

fn unique_name(url: &str) -> String {
    let [_, unique] = document_names(url);
    unique
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_names() {
        let name = |url: &str| document_names(url)[0].clone();
        assert_eq!(name("https://git.example.com/team/Deploy.git"), "git-example-com-team-deploy");
        assert_eq!(name("git@git.example.com:team/deploy.git"), "git-example-com-team-deploy");
        assert_eq!(name("/srv/git/a"), "srv-git-a");
        let unique = |url: &str| unique_name(url);
        assert_ne!(unique("https://git.example.com/a"), unique("git@git.example.com:a"));
    }
}
