//! Which providers give somebody a group. A membership ends when the last of them takes it back; the membership itself names one of them,
//! and none where an administrator gave it, which stays.

use plural_core::Result;
use sea_orm::{ConnectionTrait as _, Statement};
use uuid::Uuid;

use crate::error::db;
use crate::transaction;

/// That a provider of an identity gives its user a group.
pub(crate) const GIVES: &str = "EXISTS (SELECT 1 FROM given_memberships g WHERE g.user_id = user_identities.user_id \
                                AND g.provider_id = user_identities.provider_id)";

/// A provider gives somebody, or anybody, no groups but these any more; whether that ended a membership.
pub(crate) async fn take_in_tx(
    write: &transaction::Write<'_>,
    provider: Uuid,
    user: Option<Uuid>,
    kept: &[Uuid],
) -> Result<bool> {
    let doing = "ending memberships that a provider gave";
    let mut values: Vec<sea_orm::Value> = vec![provider.into()];
    let mut which = "provider_id = $1".to_owned();
    if let Some(user) = user {
        values.push(user.into());
        which += " AND user_id = $2";
    }
    if !kept.is_empty() {
        let first = values.len() + 1;
        let places: Vec<String> = (first..first + kept.len()).map(|place| format!("${place}")).collect();
        values.extend(kept.iter().map(|group| sea_orm::Value::from(*group)));
        which = format!("{which} AND group_id NOT IN ({})", places.join(", "));
    }
    let run = async |sql: String| {
        let statement = Statement::from_sql_and_values(write.tx.get_database_backend(), sql, values.clone());
        write.tx.execute_raw(statement).await.map_err(db(doing))
    };
    let others = "FROM given_memberships g WHERE g.user_id = group_members.user_id \
                  AND g.group_id = group_members.group_id AND g.provider_id <> $1";
    // What another one gives, too, is that one's from here on.
    run(format!(
        "UPDATE group_members SET provider_id = (SELECT g.provider_id {others} ORDER BY g.provider_id LIMIT 1) \
         WHERE {which} AND EXISTS (SELECT 1 {others})"
    ))
    .await?;
    let ended = run(format!("DELETE FROM group_members WHERE {which}")).await?;
    run(format!("DELETE FROM given_memberships WHERE {which}")).await?;
    Ok(ended.rows_affected() > 0)
}

/// A provider gives somebody these groups.
pub(crate) async fn give_in_tx(
    write: &transaction::Write<'_>,
    provider: Uuid,
    user: Uuid,
    groups: &[Uuid],
) -> Result<()> {
    let sql = "INSERT INTO given_memberships (user_id, group_id, provider_id) VALUES ($1, $2, $3) \
               ON CONFLICT (user_id, group_id, provider_id) DO NOTHING";
    for group in groups {
        let values = [user.into(), (*group).into(), provider.into()];
        let statement = Statement::from_sql_and_values(write.tx.get_database_backend(), sql, values);
        write.tx.execute_raw(statement).await.map_err(db("recording what a provider gives"))?;
    }
    Ok(())
}
