use std::{future, time::Duration};

use plural_app::ports::key_encryption::KeyError;

use super::Held;

const HOUR: Duration = Duration::from_hours(1);

#[tokio::test]
async fn a_login_that_hangs_or_is_refused_leaves_the_old_credential_to_all() {
    let held = Held::<u8>::default();
    assert_eq!(held.get(async { Ok((1, HOUR)) }).await, Ok(1));
    held.grow_old().await;
    // One caller waits for the other credential, and gives up.
    let late = tokio::time::timeout(Duration::from_millis(10), held.get(future::pending())).await;
    assert!(late.is_err());
    assert_eq!(held.get(future::pending()).await, Ok(1), "nobody else waits");

    held.grow_old().await;
    assert_eq!(held.get(async { Err(KeyError::Refused("no".to_owned())) }).await, Ok(1));
    held.grow_old().await;
    assert_eq!(held.get(async { Ok((2, HOUR)) }).await, Ok(2));
    assert_eq!(held.get(future::pending()).await, Ok(2));
}

#[tokio::test]
async fn where_there_is_no_credential_a_failure_is_told_to_all_who_ask_soon() {
    let held = Held::<u8>::default();
    let refused = KeyError::Refused("no".to_owned());
    assert_eq!(held.get(future::ready(Err(refused.clone()))).await, Err(refused.clone()));
    assert_eq!(held.get(future::pending()).await, Err(refused));
    held.forget().await;
    assert_eq!(held.get(async { Ok((1, HOUR)) }).await, Ok(1));
    // One that is over is not used.
    let held = Held::<u8>::default();
    assert_eq!(held.get(async { Ok((1, Duration::ZERO)) }).await, Ok(1));
    let away = KeyError::Unavailable("away".to_owned());
    assert_eq!(held.get(future::ready(Err(away.clone()))).await, Err(away));
}
