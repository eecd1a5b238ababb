//! The folder of a run: its code, and all files that are written beside it before the first command.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Component, Path, PathBuf},
};

use plural_core::run_call::RunInput;
use plural_core::stack::StackTool;
use serde_json::Value;

use crate::outputs;

/// Variables of Terraform and OpenTofu, in a file that they load automatically.
const TFVARS: &str = "plural.auto.tfvars.json";
/// Declares the backend; its address is in the environment.
const BACKEND: (&str, &str) = ("plural_backend_override.tf", "terraform {\n  backend \"http\" {}\n}\n");

/// The paths of a run.
pub(crate) struct Workspace {
    /// Working folder of the tool.
    pub(crate) work: PathBuf,
    /// The plan file.
    pub(crate) plan: PathBuf,
    /// Variables for Ansible.
    pub(crate) extra_vars: Option<PathBuf>,
    /// The file for outputs of commands, for a tool that cannot print any.
    pub(crate) outputs: Option<PathBuf>,
}

impl Workspace {
    /// Creates the folders of a run, private to this user.
    pub(crate) fn prepare(root: &Path) -> Result<(), String> {
        for folder in [root.to_owned(), root.join("home")] {
            fs::create_dir_all(&folder)
                .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
        }
        Ok(())
    }

    /// Writes the files beside the code in `source`.
    ///
    /// # Errors
    /// What cannot be written, and why.
    pub(crate) fn fill(root: &Path, source: &Path, input: &RunInput) -> Result<Self, String> {
        let mut work = below(source, &input.folder)?;
        work = below(&work, &input.spec.workdir)?;
        if !work.is_dir() {
            let shown = work.strip_prefix(source).unwrap_or(&work).display();
            return Err(format!("the code of this stack has no folder {shown:?} at commit {}", input.sha));
        }
        for (path, content) in &input.files {
            let path = if Path::new(path).is_absolute() { PathBuf::from(path) } else { below(&work, path)? };
            write(&path, content)?;
        }
        let mut extra_vars = None;
        let variables = &input.spec.variables;
        match input.tool {
            StackTool::Terraform | StackTool::Terragrunt => {
                if !variables.is_empty() {
                    write(&work.join(TFVARS), Value::Object(variables.clone()).to_string())?;
                }
                if input.state_path.is_some() {
                    write(&work.join(BACKEND.0), BACKEND.1)?;
                }
            }
            StackTool::Ansible => {
                if !variables.is_empty() {
                    let path = root.join("extra-vars.json");
                    write(&path, Value::Object(variables.clone()).to_string())?;
                    extra_vars = Some(path);
                }
            }
            // Pulumi has a command for them; a stack's own commands read files and environment.
            StackTool::Pulumi | StackTool::Custom => {}
        }
        let outputs = outputs::file(input, root);
        if let Some(path) = &outputs {
            // A file from an earlier harness, or from the stack, was not written by this apply.
            remove(path)?;
        }
        Ok(Self { work, plan: root.join("plan.bin"), extra_vars, outputs })
    }
}

/// A path below a folder.
fn below(folder: &Path, path: &str) -> Result<PathBuf, String> {
    let mut below = folder.to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => below.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(format!("the path {path:?} leads out of the stack's folder"));
            }
        }
    }
    Ok(below)
}

/// Writes a file, private to this user, replacing any other.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot write the file {}: {error}", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    remove(path)?;
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(content.as_ref()).map_err(failed)
}

fn remove(path: &Path) -> Result<(), String> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("cannot write the file {}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_path_stays_below_its_folder() {
        let folder = Path::new("/run/source");
        assert_eq!(below(folder, "a/./b").unwrap(), folder.join("a/b"));
        assert_eq!(below(folder, "").unwrap(), folder);
        for path in ["../a", "a/../../b", "/etc"] {
            assert!(below(folder, path).unwrap_err().contains("leads out"), "{path}");
        }
    }

    #[test]
    fn files_are_for_one_reader_and_take_the_place_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a/b"), folder.path().join("other"));
        write(&path, "first").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // The target of a link stays as it is.
        fs::write(&other, "kept").unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        write(&path, "second").unwrap();
        assert_eq!(
            (fs::read_to_string(&path).unwrap(), fs::read_to_string(&other).unwrap()),
            ("second".to_owned(), "kept".to_owned())
        );
        assert!(write(folder.path(), "x").unwrap_err().contains("cannot write the file"));
    }
}
