//! What the demo must remember between two starts on one folder: the secrets that a console tells once.

use std::{
    collections::BTreeMap,
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::write_private;

/// The file `demo.json` of the data folder, mode 0600.
#[derive(Debug)]
pub(super) struct State {
    file: PathBuf,
    kept: Kept,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Kept {
    password: String,
    access_token: Option<String>,
    /// Where the console listened last: saved logins and kubeconfigs name it.
    listened: Option<SocketAddr>,
    /// The same for kubectl.
    listened_tls: Option<SocketAddr>,
    /// Deploy tokens by cluster handle.
    tokens: BTreeMap<String, String>,
}

impl State {
    /// Reads the file, or begins one with a fresh password.
    pub(super) fn open(data: &Path) -> anyhow::Result<Self> {
        let file = data.join("demo.json");
        let kept = match fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text).with_context(|| {
                format!("{} is not the state of a demo; remove it to start again", file.display())
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Kept { password: plural_console::random_password()?, ..Kept::default() }
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
        };
        let state = Self { file, kept };
        state.save()?;
        Ok(state)
    }

    /// The administrator's password.
    pub(super) fn password(&self) -> &str {
        &self.kept.password
    }

    /// The administrator's access token.
    pub(super) fn access_token(&self) -> Option<&str> {
        self.kept.access_token.as_deref()
    }

    pub(super) fn set_access_token(&mut self, token: &str) -> anyhow::Result<()> {
        self.kept.access_token = Some(token.to_owned());
        self.save()
    }

    /// The deploy token of a cluster.
    pub(super) fn token(&self, handle: &str) -> Option<&str> {
        self.kept.tokens.get(handle).map(String::as_str)
    }

    pub(super) fn set_token(&mut self, handle: &str, token: &str) -> anyhow::Result<()> {
        self.kept.tokens.insert(handle.to_owned(), token.to_owned());
        self.save()
    }

    /// Where the console and its address for kubectl listened last.
    pub(super) fn listened(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        (self.kept.listened, self.kept.listened_tls)
    }

    pub(super) fn set_listened(&mut self, plain: SocketAddr, tls: SocketAddr) -> anyhow::Result<()> {
        self.kept.listened = Some(plain);
        self.kept.listened_tls = Some(tls);
        self.save()
    }

    fn save(&self) -> anyhow::Result<()> {
        // Another name first: a crash must not leave half a file.
        let draft = self.file.with_extension("json.new");
        write_private(&draft, &serde_json::to_string_pretty(&self.kept)?)?;
        fs::rename(&draft, &self.file).with_context(|| format!("cannot write {}", self.file.display()))
    }
}
