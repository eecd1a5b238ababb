//! What the program tells a shell at a tab.
//!
//! One backend is enough: names come from lists, which have tests of their own.

use std::process::Stdio;

use plural_testkit::run_case;

use crate::{
    program::{ConsoleProcess, Done, Home, finish},
    world::{EMAIL, PASSWORD},
};

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

/// What `plural WORDS…` is completed with: the last word is what was typed of it.
async fn offered(home: &Home, words: &[&str]) -> anyhow::Result<Vec<String>> {
    let mut arguments = vec!["--", "plural"];
    arguments.extend(words);
    let mut command = home.plural(&arguments);
    command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    command.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_IFS", "\n");
    let done = finish(command).await?;
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "nothing is said into a command line");
    Ok(done.out.lines().map(ToOwned::to_owned).collect())
}

#[test]
fn a_shell_is_offered_the_names_of_what_there_is() {
    run_case(async {
        let home = Home::new()?;
        // Nobody is logged in: commands are known, names are not, and nobody complains.
        assert_eq!(offered(&home, &["cd", "clusters", "desc"]).await?, ["describe"]);
        assert_eq!(offered(&home, &["cd", "clusters", "describe", "b"]).await?, Vec::<String>::new());
        let script = {
            let mut command = home.plural(&[]);
            command.env("COMPLETE", "bash");
            finish(command).await?
        };
        assert!(script.code == Some(0) && script.out.contains("complete "), "{script:?}");

        let mut console = ConsoleProcess::start(&home, None, "info").await?;
        let mut login =
            home.plural(&["login", "--url", &console.url(), "--email", EMAIL, "--password-stdin"]);
        login.stdin(Stdio::piped());
        let mut child = login.spawn()?;
        tokio::io::AsyncWriteExt::write_all(&mut child.stdin.take().unwrap(), PASSWORD.as_bytes()).await?;
        assert!(child.wait().await?.success());
        for line in [
            &["cd", "clusters", "create", "blue"][..],
            &["cd", "clusters", "create", "brown"],
            &["cd", "repositories", "create", "https://127.0.0.1:1/fleet.git"],
            &["cd", "projects", "create", "shop"],
        ] {
            let done = home.run(line).await?;
            assert_eq!(done.code, Some(0), "{line:?}: {}", done.err);
        }
        let create =
            ["cd", "services", "create", "blue/web", "--repository", "https://127.0.0.1:1/fleet.git"];
        let done = home.run(&[&create[..], &["--ref", "main", "--folder", "web"]].concat()).await?;
        assert_eq!(done.code, Some(0), "{}", done.err);

        assert_eq!(offered(&home, &["cd", "clusters", "describe", "b"]).await?, ["blue", "brown"]);
        assert_eq!(offered(&home, &["cd", "clusters", "describe", "@br"]).await?, ["@brown"]);
        // Services by their cluster first, also in the short forms.
        assert_eq!(offered(&home, &["status", "blu"]).await?, ["blue/"]);
        assert_eq!(offered(&home, &["cd", "services", "describe", "blue/"]).await?, ["blue/web"]);
        assert_eq!(offered(&home, &["cd", "sync-windows", "list", "--project", "sh"]).await?, ["shop"]);
        assert_eq!(offered(&home, &["get", "svc", "blue/w"]).await?, ["blue/web"]);

        // A console that does not answer costs a moment, and no words.
        console.stop();
        assert_eq!(offered(&home, &["cd", "clusters", "describe", "b"]).await?, Vec::<String>::new());
        // A program of somebody else may use the same variable.
        let mut version = home.plural(&["version"]);
        version.env("COMPLETE", "bash");
        let done = finish(version).await?;
        assert!(done.code == Some(0) && !done.out.contains("complete "), "{done:?}");
        anyhow::Ok(())
    });
}
