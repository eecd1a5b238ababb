//! Saved logins: `~/.plural/profiles.yml`, mode 0600, replaced in one step.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use plural_kit::tighten;
use plural_wire::Secret;
use serde::{Deserialize, Serialize};

use crate::error::CliError;

/// The name of the profile that is used when none is named.
const DEFAULT: &str = "default";

/// The whole file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profiles {
    /// The profile that is used when none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    /// Logins by name.
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

/// One login.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// The console's address.
    pub(crate) url: String,
    /// Its access token.
    pub(crate) token: Secret,
    /// `plural login` made the token, so that `plural logout` may revoke it: nothing else uses it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) made_by_login: bool,
    /// Plain HTTP to a console elsewhere was allowed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) insecure_http: bool,
    /// PEM file of an authority to trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<PathBuf>,
}

impl Profiles {
    /// Reads the file in `home`; an absent file holds no profiles.
    pub(crate) fn read(home: &Path) -> Result<Self, CliError> {
        let path = file(home);
        // Both may have been made by hand. What cannot be tightened can be read all the same. Another folder, which
        // PLURAL_HOME names, may hold more than logins.
        let own = Some(home).filter(|home| home.ends_with(".plural"));
        for place in [Some(path.as_path()), own].into_iter().flatten() {
            let _ = tighten(place);
        }
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(CliError::new(format!("cannot read {}: {error}", path.display()))),
        };
        serde_saphyr::from_str(&text).map_err(|_| {
            // The parser's message quotes the file, and the file holds tokens.
            CliError::new(format!("{} is not a file of saved logins", path.display()))
                .hint("remove it and log in again with `plural login`")
        })
    }

    /// The profile of this name, or the current one; `None` when nothing is saved.
    pub(crate) fn get(&self, name: Option<&str>) -> Result<Option<&Profile>, CliError> {
        let wanted = name.or(self.current.as_deref()).unwrap_or(DEFAULT);
        match (self.profiles.get(wanted), name) {
            (Some(profile), _) => Ok(Some(profile)),
            (None, None) => Ok(None),
            (None, Some(name)) => {
                let known: Vec<&str> = self.profiles.keys().map(String::as_str).collect();
                let hint = if known.is_empty() {
                    format!("`plural login --profile {name} --url URL` saves one")
                } else {
                    format!("there are: {}", known.join(", "))
                };
                Err(CliError::new(format!("no saved login is named {name:?}")).hint(hint))
            }
        }
    }

    /// The name of the current profile, if there is one.
    pub(crate) fn current(&self) -> Option<&str> {
        let name = self.current.as_deref().unwrap_or(DEFAULT);
        self.profiles.contains_key(name).then_some(name)
    }

    /// The profile that [`Self::put`] would replace.
    pub(crate) fn replaced(&self, name: Option<&str>) -> Option<&Profile> {
        self.profiles.get(name.unwrap_or(DEFAULT))
    }

    /// Saves `profile` under `name` and makes it the current one.
    pub(crate) fn put(&mut self, name: Option<&str>, profile: Profile) -> String {
        let name = name.unwrap_or(DEFAULT).to_owned();
        self.profiles.insert(name.clone(), profile);
        self.current = Some(name.clone());
        name
    }

    /// Forgets the profile of this name, or the current one. What is current then is the default one.
    pub(crate) fn take(&mut self, name: Option<&str>) -> Result<Option<(String, Profile)>, CliError> {
        self.get(name)?;
        let wanted = name.or(self.current.as_deref()).unwrap_or(DEFAULT).to_owned();
        let taken = self.profiles.remove(&wanted);
        if self.current.as_deref() == Some(wanted.as_str()) {
            self.current = None;
        }
        Ok(taken.map(|profile| (wanted, profile)))
    }

    /// Writes the file in `home`, readable by its owner alone. A crash leaves the old file or the new one.
    pub(crate) fn write(&self, home: &Path) -> Result<PathBuf, CliError> {
        let path = file(home);
        let fault = |error: &dyn std::fmt::Display| {
            CliError::new(format!("cannot save the login in {}: {error}", path.display()))
        };
        let text = serde_saphyr::to_string(self).map_err(|error| fault(&error))?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(home).map_err(|error| fault(&error))?;
        let mut draft = tempfile::Builder::new()
            .prefix(".profiles")
            .permissions(fs::Permissions::from_mode(0o600))
            .tempfile_in(home)
            .map_err(|error| fault(&error))?;
        draft.write_all(text.as_bytes()).map_err(|error| fault(&error))?;
        draft.as_file().sync_all().map_err(|error| fault(&error))?;
        draft.persist(&path).map_err(|error| fault(&error.error))?;
        Ok(path)
    }
}

fn file(home: &Path) -> PathBuf {
    home.join("profiles.yml")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(token: &str) -> Profile {
        let url = "https://c.example.com".into();
        Profile { url, token: Secret::new(token), made_by_login: true, insecure_http: false, ca_file: None }
    }

    #[test]
    fn what_is_written_is_read_and_only_by_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("deep/.plural");
        let mut profiles = Profiles::read(&home).unwrap();
        assert!(profiles.get(None).unwrap().is_none());
        profiles.put(None, profile("console-1"));
        profiles.put(Some("blue"), profile("console-2"));
        let path = profiles.write(&home).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);

        let read = Profiles::read(&home).unwrap();
        assert_eq!(read.get(None).unwrap().unwrap().token.expose(), "console-2");
        assert_eq!(read.get(Some("default")).unwrap().unwrap().token.expose(), "console-1");
        let error = read.get(Some("red")).unwrap_err();
        assert_eq!(error.to_string(), "no saved login is named \"red\"");
        assert_eq!(fs::read_dir(&home).unwrap().count(), 1, "no draft is left behind");

        let mut profiles = read;
        assert_eq!(profiles.take(None).unwrap().unwrap().0, "blue");
        assert_eq!(profiles.take(None).unwrap().unwrap().0, "default");
        assert!(profiles.take(None).unwrap().is_none());
        assert!(profiles.take(Some("red")).is_err());
    }

    #[test]
    fn a_broken_file_is_an_error_that_does_not_quote_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("profiles.yml"), "profiles: {default: {token: console-oops").unwrap();
        let error = Profiles::read(folder.path()).unwrap_err();
        assert!(error.to_string().contains("is not a file of saved logins"), "{error}");
        assert!(!format!("{error:?}").contains("console-oops"), "{error:?}");
    }
}
