//! What the program tells a shell at a tab.

use crate::program::{Done, Home, finish};

/// Runs `COMPLETE=SHELL plural ARGUMENTS…` as nobody who is logged in.
async fn asked(shell: &str, arguments: &[&str]) -> anyhow::Result<Done> {
    let home = Home::new()?;
    let mut command = home.plural(arguments);
    let last = arguments.len().saturating_sub(2);
    command.env("COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", last.to_string()).env("_CLAP_IFS", "\n");
    finish(command).await
}

#[tokio::test]
async fn a_shell_gets_commands_and_never_an_error() -> anyhow::Result<()> {
    for shell in ["bash", "zsh", "fish"] {
        let script = asked(shell, &[]).await?;
        assert_eq!((script.code, script.err.as_str()), (Some(0), ""), "{shell}");
        assert!(script.out.contains("plural") && script.out.contains("COMPLETE"), "{shell}: {}", script.out);
    }
    let words = asked("bash", &["--", "plural", "stat"]).await?;
    assert_eq!((words.code, words.out.as_str(), words.err.as_str()), (Some(0), "status", ""));
    let words = asked("bash", &["--", "plural", "cd", "clu"]).await?;
    assert_eq!((words.code, words.out.as_str(), words.err.as_str()), (Some(0), "clusters", ""));
    // Nobody is logged in.
    let words = asked("bash", &["--", "plural", "status", "bl"]).await?;
    assert_eq!((words.code, words.out.as_str(), words.err.as_str()), (Some(0), "", ""));
    // The variable may be there for another program.
    for (shell, arguments) in [("bash", &["version"][..]), ("1", &["version"])] {
        let done = asked(shell, arguments).await?;
        assert!(done.out.starts_with("plural "), "{shell}: {done:?}");
    }
    Ok(())
}
