//! Work in a process of its own, which is confined to a folder with its input.

use std::{fs, io, path::Path};

use plural_kit::private_folder;
use plural_sandbox::{Helper, Limits, Program, SandboxError};

use crate::ChildProgram;

impl ChildProgram {
    /// What the process prints, in the folder with its input.
    pub(crate) fn run(&self, input: &Path, limits: &Limits) -> Result<Vec<u8>, SandboxError> {
        let Self { program, sandbox, child } = self;
        let helper = Helper { program: program.clone(), args: vec![sandbox.into()] };
        let child = Program { path: program.clone(), args: vec![(*child).to_owned()], readable: Vec::new() };
        plural_sandbox::run(&helper, &child, input, limits)
    }
}

/// Makes a private folder for inputs, and removes what an earlier console left in it.
pub(crate) fn fresh_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => private_folder(folder),
    }
}
