//! Wrong passwords, counted for all replicas.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use plural_app::throttle::{LoginDecision, LoginStore, LoginTries};
use plural_core::Result;
use sea_orm::ConnectionTrait;

use crate::convert::bytes32;
use crate::database::{Database, corrupt};
use crate::error::db;

/// Names the lock under which PostgreSQL has one try counted after another: the rows that are locked may not be there yet.
const LOCK: i64 = 7_205_811;
/// How long wrong passwords are remembered.
const WRONG: TimeDelta = TimeDelta::hours(2);
/// How long it is remembered from where somebody signed in.
const RIGHT: TimeDelta = TimeDelta::days(30);

#[async_trait]
impl LoginStore for Database {
    async fn login_tries(&self, subjects: &[[u8; 32]; 4], decide: LoginDecision<'_>) -> Result<()> {
        let doing = "counting tries to sign in";
        let write = self.write().await?;
        if self.is_postgres() {
            let sql = "SELECT 1 AS one FROM (SELECT pg_advisory_xact_lock($1)) l";
            write.tx.query_one_raw(self.statement(sql, [LOCK.into()])).await.map_err(db(doing))?;
        }
        let keys = subjects.map(|subject| sea_orm::Value::from(subject.to_vec()));
        let sql =
            "SELECT subject, tries, last_at, until_at FROM login_tries WHERE subject IN ($1, $2, $3, $4)";
        let rows = write.tx.query_all_raw(self.statement(sql, keys)).await.map_err(db(doing))?;
        let mut counted = [None; 4];
        for row in rows {
            let subject: Vec<u8> = row.try_get("", "subject").map_err(db(doing))?;
            let subject = bytes32(&subject, "a login's subject")?;
            let tries: i32 = row.try_get("", "tries").map_err(db(doing))?;
            let last: i64 = row.try_get("", "last_at").map_err(db(doing))?;
            let until: i64 = row.try_get("", "until_at").map_err(db(doing))?;
            let entry = LoginTries { tries: tries.cast_unsigned(), last: time(last)?, until: time(until)? };
            if let Some(at) = subjects.iter().position(|known| *known == subject) {
                counted[at] = Some(entry);
            }
        }
        let before = counted;
        decide(&mut counted);
        if before == counted {
            // Refused: whoever floods costs no write.
            return Ok(());
        }
        for ((subject, before), now) in subjects.iter().zip(before).zip(counted) {
            let key = sea_orm::Value::from(subject.to_vec());
            match now {
                _ if now == before => {}
                None => {
                    let sql = "DELETE FROM login_tries WHERE subject = $1";
                    write.tx.execute_raw(self.statement(sql, [key])).await.map_err(db(doing))?;
                }
                Some(LoginTries { tries, last, until }) => {
                    let sql = "INSERT INTO login_tries (subject, tries, last_at, until_at) VALUES ($1, $2, $3, $4) \
                               ON CONFLICT (subject) DO UPDATE SET tries = excluded.tries, \
                               last_at = excluded.last_at, until_at = excluded.until_at";
                    let values = [
                        key,
                        i32::try_from(tries).unwrap_or(i32::MAX).into(),
                        last.timestamp_micros().into(),
                        until.timestamp_micros().into(),
                    ];
                    write.tx.execute_raw(self.statement(sql, values)).await.map_err(db(doing))?;
                }
            }
        }
        let latest = counted.iter().flatten().map(|entry| entry.last).max();
        if let Some(now) = latest {
            let sql = "DELETE FROM login_tries WHERE last_at < $1 OR (last_at < $2 AND tries > 0)";
            let values = [(now - RIGHT).timestamp_micros().into(), (now - WRONG).timestamp_micros().into()];
            write.tx.execute_raw(self.statement(sql, values)).await.map_err(db(doing))?;
        }
        write.commit().await
    }
}

fn time(micros: i64) -> Result<DateTime<Utc>> {
    DateTime::from_timestamp_micros(micros).ok_or_else(|| corrupt("a login's time"))
}
