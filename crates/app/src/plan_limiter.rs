//! How often somebody who may only look may have agents work out answers.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use plural_core::access::Actor;
use plural_core::ids::UserId;
use plural_core::{Error, Result};

/// Plans of one user in one [`WINDOW`].
const FREE: u32 = 20;
/// After so long the count begins anew.
const WINDOW: TimeDelta = TimeDelta::minutes(1);
/// People who are remembered at most.
const REMEMBERED: usize = 10_000;

/// Plans that users asked for of late, by user. Each replica counts for itself: what is bounded is work, not a secret.
#[derive(Debug, Default)]
pub(crate) struct PlanLimiter {
    asked: Mutex<HashMap<UserId, (DateTime<Utc>, u32)>>,
}

impl PlanLimiter {
    /// Counts a question.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there were too many.
    pub(crate) fn admit(&self, actor: &Actor, now: DateTime<Utc>) -> Result<()> {
        let Actor::User(user) = actor else { return Ok(()) };
        let mut asked = self.asked.lock();
        if asked.len() >= REMEMBERED && !asked.contains_key(&user.id) {
            asked.retain(|_, (since, _)| now - *since < WINDOW);
            if asked.len() >= REMEMBERED {
                return Err(Error::unavailable("too many users request plans; retry in a minute"));
            }
        }
        let (since, count) = asked.entry(user.id).or_insert((now, 0));
        if now - *since >= WINDOW {
            (*since, *count) = (now, 0);
        }
        if *count >= FREE {
            let seconds = ((*since + WINDOW - now).num_milliseconds() + 999) / 1000;
            return Err(Error::unavailable(format!(
                "rate limit: {FREE} plans per minute without sync permission; retry in {seconds} s"
            )));
        }
        *count += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use plural_core::access::UserActor;

    use super::*;

    #[test]
    fn a_minute_has_room_for_so_many() {
        let person = || {
            Actor::User(UserActor {
                id: UserId::new(),
                email: "ada@example.com".into(),
                admin: false,
                groups: std::collections::HashSet::new(),
                token: None,
            })
        };
        let (questions, ada, now) = (PlanLimiter::default(), person(), Utc::now());
        for _ in 0..FREE {
            assert!(questions.admit(&ada, now).is_ok());
        }
        let told = questions.admit(&ada, now + TimeDelta::seconds(20)).unwrap_err().to_string();
        assert!(told.contains("retry in 40 s"), "{told}");
        assert!(questions.admit(&person(), now).is_ok(), "somebody else");
        assert!(questions.admit(&ada, now + WINDOW).is_ok());
        for _ in 0..REMEMBERED {
            let _ = questions.admit(&person(), now);
        }
        assert!(questions.asked.lock().len() <= REMEMBERED);
    }
}
