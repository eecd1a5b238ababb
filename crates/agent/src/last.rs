//! What was last found out about each service.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use plural_core::ids::ServiceId;
use plural_tunnel::v1;

use crate::report::Told;

/// What was last found out about a service besides its components.
#[derive(Debug, Clone, Default)]
pub(crate) struct Last {
    /// What was looked at: what is told is told of it, though something newer may be wanted by now.
    pub(crate) service: Arc<v1::Service>,
    pub(crate) applied: bool,
    pub(crate) errors: Vec<v1::ServiceError>,
    pub(crate) told: Told,
    /// What its objects say of themselves; absent until they were rendered once.
    pub(crate) metadata: Option<v1::ServiceMetadata>,
}

/// The last of every service.
#[derive(Debug, Default)]
pub(crate) struct LastReports(Mutex<HashMap<ServiceId, Last>>);

impl LastReports {
    pub(crate) fn get(&self, id: ServiceId) -> Option<Last> {
        self.lock().get(&id).cloned()
    }

    pub(crate) fn put(&self, id: ServiceId, last: Last) {
        self.lock().insert(id, last);
    }

    pub(crate) fn forget(&self, id: ServiceId) {
        self.lock().remove(&id);
    }

    /// Hands what is known to `tell`, during which nothing newer gets known: a sync that ends and an object that changes
    /// at the same moment both tell, and the older of the two must not have the last word.
    pub(crate) fn report(&self, id: ServiceId, tell: impl FnOnce(&Last)) {
        let lasts = self.lock();
        if let Some(last) = lasts.get(&id) {
            tell(last);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ServiceId, Last>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_has_the_last_word() {
        let (lasts, id) = (LastReports::default(), ServiceId::new());
        let said = Mutex::new(0);
        let tell = || {
            lasts.report(id, |last| {
                let known = last.service.sequence;
                // Whoever is overtaken here would tell the older one last.
                std::thread::yield_now();
                *said.lock() = known;
            });
        };
        for sequence in 1..200 {
            std::thread::scope(|scope| {
                scope.spawn(tell);
                scope.spawn(|| {
                    let service = Arc::new(v1::Service { sequence, ..v1::Service::default() });
                    lasts.put(id, Last { service, ..Last::default() });
                    tell();
                });
            });
            assert_eq!(*said.lock(), sequence);
        }
    }
}
