//! The password of the first administrator: told once, and never lost.

use std::process::Stdio;

use plural_testkit::{TestDatabase, run_case};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::{
    program::{ConsoleProcess, Done, Home, PLURAL, finish},
    world::{EMAIL, PASSWORD},
};

plural_testkit::each_database!(a_lost_password_is_replaced);

/// What the first administrator is told to type works from their machine, not only from the console's. One backend is
/// enough: nothing is read from the database.
#[test]
fn the_first_login_is_told_with_the_public_url() {
    run_case(async {
        let home = Home::new()?;
        let data = home.path().join("console").display().to_string();
        let mut console = tokio::process::Command::new(PLURAL)
            .args(["console", "--listen", "127.0.0.1:0", "--data-dir", &data, "--admin-email", EMAIL])
            .args(["--public-url", "https://plural.example.com/"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(console.stdout.take().unwrap()).lines();
        let told = loop {
            let line = lines.next_line().await?.expect("it tells how to log in");
            if line.contains("plural login") {
                break line;
            }
        };
        console.kill().await?;
        assert_eq!(told.trim(), format!("plural login --url https://plural.example.com --email {EMAIL}"));
        anyhow::Ok(())
    });
}

async fn with_input(mut command: tokio::process::Command, input: &str) -> anyhow::Result<Done> {
    use std::io::{Seek as _, Write as _};
    let mut file = tempfile::tempfile()?;
    file.write_all(input.as_bytes())?;
    file.rewind()?;
    command.stdin(file);
    finish(command).await
}

async fn a_lost_password_is_replaced(database: TestDatabase) -> anyhow::Result<()> {
    let home = Home::new()?;
    let is_shared = !database.url().starts_with("sqlite:");
    let mut console = ConsoleProcess::start(&home, Some(database.url()), "info").await?;
    let data = console.data().display().to_string();
    let url = console.url();
    let login = async |password: &str| {
        let arguments = ["login", "--url", &url, "--email", EMAIL, "--password-stdin"];
        with_input(home.plural(&arguments), &format!("{password}\n")).await
    };
    let reset = async |more: &[&str], input: &str| {
        let arguments = [&["console", "reset-password", "--data-dir", &data], more].concat();
        let mut command = home.plural(&arguments);
        command.env("DATABASE_URL", database.url()).env("PLURAL_ADMIN_EMAIL", EMAIL);
        with_input(command, input).await
    };
    let before = login(PASSWORD).await?;
    assert_eq!(before.code, Some(0), "{before:?}");

    if !is_shared {
        let refused = reset(&[], "").await?;
        let holder = format!("another console (process {} on ", console.pid());
        assert!(refused.code == Some(1) && refused.err.contains(&holder), "{refused:?}");
        assert!(refused.out.is_empty(), "{refused:?}");
        console.stop();
    }
    // Nobody is made, and those are named who are there.
    let nobody = reset(&["--email", "nobody@example.com"], "").await?;
    assert!(nobody.code == Some(1) && nobody.err.contains(EMAIL), "{nobody:?}");
    let done = reset(&[], "").await?;
    assert!(done.code == Some(0) && done.out.contains(EMAIL), "{done:?}");
    let drawn = done.out.lines().find_map(|line| line.trim().strip_prefix("password: ")).unwrap().to_owned();
    if !is_shared {
        console.restart().await?;
    }
    // Sessions of before have ended, with the password.
    let me = home.run(&["whoami"]).await?;
    assert!(me.code != Some(0), "{me:?}");
    let old = login(PASSWORD).await?;
    assert!(old.code != Some(0), "{old:?}");
    let new = login(&drawn).await?;
    assert_eq!(new.code, Some(0), "{new:?}");
    let me: Value = serde_json::from_str(&home.run(&["whoami", "-o", "json"]).await?.out)?;
    assert_eq!(me["email"], EMAIL);

    // A password of one's own is not repeated, and a short one is refused.
    if !is_shared {
        console.stop();
    }
    let short = reset(&["--password-stdin"], "abc\n").await?;
    assert!(short.code == Some(1) && !short.err.contains("abc"), "{short:?}");
    let own = "a password of one's own";
    let done = reset(&["--password-stdin"], &format!("{own}\n")).await?;
    assert!(done.code == Some(0) && !done.out.contains(own), "{done:?}");
    if !is_shared {
        console.restart().await?;
    }
    assert_eq!(login(own).await?.code, Some(0));
    console.stop();
    // What a command line wrote about it was no password.
    assert!(!console.log().contains(&drawn) && !console.log().contains(own));
    Ok(())
}
