//! Fresh databases on both systems.

use std::process::Command;

use plural_testkit::{
    TestDatabase, each_database,
    postgres::{PostgresServer, find_programs},
};

each_database!(is_empty_and_ones_own);

async fn is_empty_and_ones_own(database: TestDatabase) {
    if let Some(folder) = database.folder() {
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
        assert!(database.url().starts_with("sqlite://"), "{}", database.url());
        return;
    }
    assert_eq!(
        psql(database.url(), "select count(*) from pg_tables where schemaname = 'public'").unwrap(),
        "0"
    );
    psql(database.url(), "create table t (a int)").unwrap();
    let other = TestDatabase::postgres().unwrap();
    assert_ne!(other.url(), database.url());
    assert_eq!(psql(other.url(), "select count(*) from pg_tables where schemaname = 'public'").unwrap(), "0");
}

mod postgres_server {
    use super::{PostgresServer, psql};

    #[test]
    fn keeps_data_over_a_restart() {
        let Some(server) = PostgresServer::start_or_report().unwrap() else { return };
        let url = format!("{}/postgres", server.url());
        psql(&url, "create table kept as select 7 as value").unwrap();
        server.stop().unwrap();
        assert!(psql(&url, "select 1").is_err(), "a stopped server must not answer");
        server.restart().unwrap();
        assert_eq!(psql(&url, "select value from kept").unwrap(), "7");
    }
}

fn psql(url: &str, statement: &str) -> Result<String, String> {
    let output = Command::new(find_programs().unwrap().join("psql"))
        .args(["--no-psqlrc", "--tuples-only", "--no-align", "--quiet", "-c", statement, url])
        .output()
        .unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
