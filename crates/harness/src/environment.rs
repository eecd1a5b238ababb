//! The environment of the commands of a run.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use plural_core::run_call::RunInput;
use plural_core::stack::StackTool;
use rustix::fs::{Access, access};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::process::Command;

use crate::outputs;
use crate::run::{ConsoleProxy, PROXY_VARIABLE, TOKEN_VARIABLE};

/// The user name of a tool at the state endpoint: any would do.
pub(crate) const STATE_USER: &str = "run";

/// Environment variables of commands, besides those of the image.
pub(crate) struct Environment {
    set: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// The environment of a run: settings of the tool, then those of the stack, then the access to the state.
    pub(crate) fn of(input: &RunInput, (console, state_token): (&str, &SecretString), folder: &Path) -> Self {
        let mut set = BTreeMap::new();
        let mut put = |name: &str, value: OsString| set.insert(OsString::from(name), value);
        if !has_home() {
            put("HOME", folder.join("home").into());
        }
        match input.tool {
            StackTool::Terraform | StackTool::Terragrunt => {
                put("TF_IN_AUTOMATION", "1".into());
                put("TF_INPUT", "0".into());
                put("CHECKPOINT_DISABLE", "1".into());
            }
            StackTool::Ansible => {
                put("ANSIBLE_FORCE_COLOR", "1".into());
                put("ANSIBLE_NOCOWS", "1".into());
                // It does not start without UTF-8, and few images set it.
                put("LC_ALL", "C.UTF-8".into());
                let ansible = input.spec.configuration.ansible.as_ref();
                if let Some(file) = ansible.and_then(|ansible| ansible.config_file.as_ref()) {
                    put("ANSIBLE_CONFIG", file.into());
                }
            }
            StackTool::Pulumi => {
                put("PULUMI_SKIP_UPDATE_CHECK", "true".into());
            }
            StackTool::Custom => {}
        }
        for variable in &input.environment {
            put(&variable.name, variable.value.clone().into());
        }
        if let Some(token) = &input.actor_token {
            put("PLURAL_CONSOLE_URL", console.into());
            put("PLURAL_CONSOLE_TOKEN", token.into());
        }
        if let Some(path) = &input.state_path {
            let address = format!("{console}{path}");
            for (name, value) in [
                ("TF_HTTP_ADDRESS", address.as_str()),
                ("TF_HTTP_LOCK_ADDRESS", address.as_str()),
                ("TF_HTTP_UNLOCK_ADDRESS", address.as_str()),
                ("TF_HTTP_LOCK_METHOD", "LOCK"),
                ("TF_HTTP_UNLOCK_METHOD", "UNLOCK"),
                ("TF_HTTP_USERNAME", STATE_USER),
                ("TF_HTTP_PASSWORD", state_token.expose_secret()),
            ] {
                put(name, value.into());
            }
        }
        Self { set }
    }

    /// The console's certificate authority, for the tool's own connection to the state.
    pub(crate) fn trust(&mut self, ca_pem: &[u8]) {
        let pem = String::from_utf8_lossy(ca_pem).into_owned();
        self.set.insert("TF_HTTP_CLIENT_CA_CERTIFICATE_PEM".into(), pem.into());
    }

    /// The file for outputs of commands.
    pub(crate) fn take_outputs(&mut self, file: &Path) {
        self.set.insert(outputs::VARIABLE.into(), file.into());
    }

    /// The proxy to the console, for the tool's own connection to the state. The stack's own proxy settings take precedence.
    pub(crate) fn detour(&mut self, proxy: &ConsoleProxy) {
        let ConsoleProxy { url, except } = proxy;
        let is_said = ["HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"];
        if is_said.iter().any(|name| self.set.contains_key(OsStr::new(name))) {
            return;
        }
        self.set.insert("HTTPS_PROXY".into(), url.expose_secret().into());
        self.set.insert("NO_PROXY".into(), except.into());
    }

    /// Sets it for a command. It never contains the credential of the run.
    pub(crate) fn apply(&self, command: &mut Command) {
        command.env_remove(TOKEN_VARIABLE).env_remove(PROXY_VARIABLE).envs(&self.set);
    }

    /// The file of a program, found like in a shell; a name with a slash is relative to `folder`.
    pub(crate) fn find(&self, program: &str, folder: &Path) -> Option<PathBuf> {
        if program.contains('/') {
            let path = folder.join(program);
            return path.is_file().then_some(path);
        }
        let name = OsString::from("PATH");
        let path = self.set.get(&name).cloned().or_else(|| std::env::var_os(&name))?;
        let mut found = std::env::split_paths(&path).map(|folder| folder.join(program));
        found.find(|path| path.is_file() && access(path, Access::EXEC_OK).is_ok())
    }
}

/// Whether there is a home folder that the tools may write to.
fn has_home() -> bool {
    std::env::var_os("HOME").is_some_and(|home| {
        let home = Path::new(&home);
        home.is_dir() && access(home, Access::WRITE_OK).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_credential_is_taken_out_of_the_environment() {
        let set = BTreeMap::from([(OsString::from("A"), OsString::from("1"))]);
        let mut command = Command::new("true");
        Environment { set }.apply(&mut command);
        let found: BTreeMap<&OsStr, Option<&OsStr>> = command.as_std().get_envs().collect();
        assert_eq!(found[OsStr::new(TOKEN_VARIABLE)], None);
        assert_eq!(found[OsStr::new("A")], Some(OsStr::new("1")));
    }

    #[test]
    fn a_proxy_is_told_unless_the_stack_names_one() {
        let proxy = ConsoleProxy { url: "http://proxy:3128".into(), except: "10.0.0.1,.svc".to_owned() };
        let mut environment = Environment { set: BTreeMap::new() };
        environment.detour(&proxy);
        assert_eq!(environment.set[OsStr::new("HTTPS_PROXY")], "http://proxy:3128");
        assert_eq!(environment.set[OsStr::new("NO_PROXY")], "10.0.0.1,.svc");
        let own = BTreeMap::from([(OsString::from("https_proxy"), OsString::from("http://own:1"))]);
        let mut environment = Environment { set: own.clone() };
        environment.detour(&proxy);
        assert_eq!(environment.set, own);
    }

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let (path, work) = (folder.path().join("bin"), folder.path().join("work"));
        for (file, mode) in
            [(path.join("tool"), 0o755), (path.join("text"), 0o644), (work.join("own"), 0o755)]
        {
            use std::os::unix::fs::PermissionsExt as _;

            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let set = BTreeMap::from([(OsString::from("PATH"), OsString::from(path.clone()))]);
        let environment = Environment { set };
        let found = |name: &str| environment.find(name, &work);
        assert_eq!(found("tool"), Some(path.join("tool")));
        assert_eq!(found("./own"), Some(work.join("./own")));
        assert_eq!((found("own"), found("./tool"), found("none")), (None, None, None));
        // Not executable.
        assert_eq!(found("text"), None);
    }
}
