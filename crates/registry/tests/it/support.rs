//! A client with its content in memory, and charts.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use plural_registry::{Access, Client, Content, Credentials, Options, Proxies, Reach, Result};
use plural_testkit::{WebFolder, oci_registry::tar_gz};
use sha2::{Digest as _, Sha256};

#[derive(Default)]
pub(crate) struct Memory(Mutex<HashMap<String, Bytes>>);

#[async_trait]
impl Content for Memory {
    async fn get(&self, digest: &str) -> Result<Option<Bytes>> {
        Ok(self.0.lock().get(digest).cloned())
    }

    async fn put(&self, digest: &str, content: Bytes) -> Result<()> {
        self.0.lock().insert(digest.to_owned(), content);
        Ok(())
    }
}

/// What tests need: this machine is in reach, and nothing takes long.
pub(crate) fn options() -> Options {
    Options {
        reach: Reach::Local,
        // Servers of tests are on this machine, without TLS.
        credentials_over_http: true,
        proxies: Proxies::None,
        timeout: Duration::from_secs(20),
        ..Options::default()
    }
}

pub(crate) fn client() -> Client {
    Client::new(options(), Arc::new(Memory::default()))
}

pub(crate) fn basic(address: &str, user: &str, password: &str) -> Access {
    Access::new(address).unwrap().with_credentials(Credentials::Basic {
        username: user.to_owned(),
        password: password.to_owned().into(),
    })
}

/// A packed chart with one template; another `text` is another content.
pub(crate) fn chart(name: &str, version: &str, text: &str) -> Vec<u8> {
    let metadata = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
    tar_gz([
        (format!("{name}/Chart.yaml").as_str(), metadata.as_str()),
        (format!("{name}/values.yaml").as_str(), "a: b\n"),
        (format!("{name}/templates/map.yaml").as_str(), text),
    ])
}

pub(crate) fn sha256(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

/// Puts charts and their index into a folder: name, version, content, address.
pub(crate) fn publish(web: &WebFolder, folder: &str, charts: &[(&str, &str, &[u8], &str)]) {
    let mut index = "apiVersion: v1\nentries:\n".to_owned();
    let mut names: Vec<&str> = charts.iter().map(|(name, ..)| *name).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        index += &format!("  {name}:\n");
        for (_, version, content, url) in charts.iter().filter(|chart| chart.0 == name) {
            index += &format!(
                "  - {{name: {name}, version: {version}, digest: {}, urls: ['{url}']}}\n",
                sha256(content)
            );
            if !url.contains("://") {
                web.write(&format!("{folder}/{url}"), content).unwrap();
            }
        }
    }
    web.write(&format!("{folder}/index.yaml"), index).unwrap();
}
