//! The encryption key of a console is rotated as docs/operations.md says.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use plural_testkit::{TestDatabase, each_database, eventually};
use plural_wire::ListGitRepositories;

use crate::{
    program::{ConsoleProcess, Home, LIMIT},
    world::Person,
};

each_database!(a_key_is_rotated_and_the_old_one_removed);

async fn a_key_is_rotated_and_the_old_one_removed(database: TestDatabase) -> anyhow::Result<()> {
    let home = Home::new()?;
    let file = home.path().join("encryption.key");
    let write = |keys: &[u8]| {
        std::fs::write(&file, keys.iter().map(|key| STANDARD.encode([*key; 32]) + "\n").collect::<String>())
    };
    write(&[1])?;
    let mut console = ConsoleProcess::start_in(&home, "console", "info", |program| {
        let program = program.flag("encryption-key-file", &file);
        if database.is_postgres() { program.env("DATABASE_URL", database.url()) } else { program }
    })
    .await?;
    let person = Person::administrator(&console.url()).await?;
    person.repository("https://git.invalid/team/app.git").await?;

    write(&[2, 1])?;
    console.stop();
    console.restart().await?;
    eventually(LIMIT, || async {
        let log = console.log();
        if log.contains("everything is sealed with the current encryption key") { Ok(()) } else { Err(log) }
    })
    .await;
    // It says so only once that is true: the old key is gone, and all is there.
    write(&[2])?;
    console.stop();
    console.restart().await?;
    let person = Person::administrator(&console.url()).await?;
    let found = person.client.send(&ListGitRepositories { after: None, first: 10 }).await?;
    assert_eq!(found.edges.len(), 1);
    console.stop();
    Ok(())
}
