//! Programs of the agent's operator that render what the agent itself does not.

use std::{collections::BTreeMap, fs, io, path::Path, path::PathBuf};

use plural_kit::{Hold, meter};
use plural_render::{CommandPort, Tree};
use plural_sandbox::{Helper, Limits, Program, SandboxError, run};
use tokio::{runtime::Handle, sync::Semaphore};

/// Programs that run at once.
const AT_ONCE: usize = 2;

/// Programs by the name that services call them by, and how they are confined.
///
/// Only the operator of the agent declares them: a repository names one, and says nothing of what it is.
#[derive(Debug, Clone)]
pub struct CommandRenderers {
    /// The programs.
    pub programs: BTreeMap<String, Program>,
    /// How the confining helper is started.
    pub helper: Helper,
    /// What each run may use.
    pub limits: Limits,
}

/// The declared programs of a running agent.
pub(crate) struct Commands {
    declared: Option<CommandRenderers>,
    /// Inputs lie here while a program runs.
    folder: PathBuf,
    turns: Semaphore,
}

impl Commands {
    /// Removes what an earlier agent left.
    pub(crate) fn open(declared: Option<CommandRenderers>, folder: PathBuf) -> io::Result<Self> {
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => plural_kit::private_folder(&folder)?,
        }
        Ok(Self { declared, folder, turns: Semaphore::new(AT_ONCE) })
    }

    /// The port of one render, on a thread that may block.
    pub(crate) fn port<'a>(&'a self, runtime: Handle, hold: &'a Hold) -> Runner<'a> {
        Runner { commands: self, runtime, hold }
    }
}

/// Runs declared programs for one render.
pub(crate) struct Runner<'a> {
    commands: &'a Commands,
    runtime: Handle,
    hold: &'a Hold,
}

impl CommandPort for Runner<'_> {
    fn run(&self, name: &str, tree: &Tree, folder: &str) -> Result<Vec<u8>, String> {
        let declared = self.commands.declared.as_ref();
        let Some((declared, program)) =
            declared.and_then(|declared| Some((declared, declared.programs.get(name)?)))
        else {
            let known: Vec<&str> =
                declared.iter().flat_map(|declared| declared.programs.keys()).map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!(
                "this cluster's agent declares no command renderer {name:?} (it declares: {known}); its operator \
                 does so with --command-renderers"
            ));
        };
        let input = tempfile::tempdir_in(&self.commands.folder)
            .and_then(|input| write(tree, folder, input.path()).map(|()| input))
            .map_err(|error| format!("cannot lay out the files for {name}: {error}"))?;
        // A program has a deadline of its own, and may wait for its turn before.
        self.hold.pause(|| {
            let turn = self.runtime.block_on(self.commands.turns.acquire());
            let _turn = turn.map_err(|_| "the agent is stopping".to_owned())?;
            let before = meter::held();
            let output = run(&declared.helper, program, input.path(), &declared.limits)
                .map_err(|error| explain(name, &error))?;
            // Whoever read it, this render holds it now.
            let counted = usize::try_from(meter::held() - before).unwrap_or(0);
            meter::adopt(output.len().saturating_sub(counted));
            Ok(output)
        })
    }
}

fn explain(name: &str, error: &SandboxError) -> String {
    format!("command renderer {name}: {error}")
}

fn write(tree: &Tree, folder: &str, to: &Path) -> io::Result<()> {
    let skip = if folder.is_empty() { 0 } else { folder.len() + 1 };
    for (path, bytes) in tree.walk(folder) {
        let file = to.join(path.get(skip..).unwrap_or(path));
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(file, bytes)?;
    }
    Ok(())
}
