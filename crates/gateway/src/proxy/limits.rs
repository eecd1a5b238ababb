//! How much one person may have open at once, over all clusters.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use plural_core::ids::UserId;

/// Requests, watches and shells of one person.
const OPEN: usize = 1_100;
/// Of these, requests with a body of theirs: each may hold a window of the client's connection.
const UPLOADS: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Limits {
    users: Mutex<HashMap<UserId, Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    open: usize,
    uploads: usize,
}

/// A place among the requests of a person; given back when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    limits: Arc<Limits>,
    user: UserId,
    upload: bool,
}

impl Limits {
    /// A place for one more request; `None` when there are too many.
    pub(super) fn enter(self: &Arc<Self>, user: UserId, upload: bool) -> Option<Permit> {
        let mut users = self.users();
        let counts = users.entry(user).or_default();
        if counts.open >= OPEN || (upload && counts.uploads >= UPLOADS) {
            return None;
        }
        counts.open += 1;
        counts.uploads += usize::from(upload);
        Some(Permit { limits: Arc::clone(self), user, upload })
    }

    fn users(&self) -> MutexGuard<'_, HashMap<UserId, Counts>> {
        self.users.lock()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut users = self.limits.users();
        if let Some(counts) = users.get_mut(&self.user) {
            counts.open = counts.open.saturating_sub(1);
            counts.uploads = counts.uploads.saturating_sub(usize::from(self.upload));
            if counts.open == 0 {
                users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_places_of_their_own() {
        let limits = Arc::new(Limits::default());
        let (ada, bob) = (UserId::new(), UserId::new());
        let held: Vec<Permit> = (0..OPEN).map_while(|_| limits.enter(ada, false)).collect();
        assert_eq!(held.len(), OPEN);
        assert!(limits.enter(ada, false).is_none());
        let uploads: Vec<Permit> = (0..OPEN).map_while(|_| limits.enter(bob, true)).collect();
        assert_eq!(uploads.len(), UPLOADS);
        assert!(limits.enter(bob, false).is_some());
        drop((held, uploads));
        assert!(limits.users().is_empty());
        assert!(limits.enter(ada, true).is_some());
    }
}
