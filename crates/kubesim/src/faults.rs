//! Faults on demand, and a count of what was asked.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::request::RequestInfo;

/// What happens to a request that a fault rule picks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// 429 with `Retry-After` in seconds.
    TooManyRequests {
        /// Seconds.
        retry_after: u32,
    },
    /// This HTTP status with a `Status` body.
    Status {
        /// 4xx or 5xx.
        code: u16,
        /// Message.
        message: String,
    },
    /// Answered, but only after this long.
    Delay(Duration),
    /// Never answered; the connection stays open until the client gives up.
    Hang,
    /// The connection is closed without an answer. The request is not executed.
    Drop,
    /// The request is executed and then the connection is closed without an answer.
    DropAfter,
}

type Predicate = Box<dyn Fn(&RequestInfo) -> bool + Send + Sync>;

struct Rule {
    when: Predicate,
    fault: Fault,
    left: Option<u32>,
}

/// The fault rules of one cluster; the first rule that matches a request decides.
#[derive(Default)]
pub struct Faults {
    rules: Mutex<Vec<Rule>>,
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faults").finish_non_exhaustive()
    }
}

impl Faults {
    /// Adds a rule for the next `count` requests that satisfy `when`; `None` for all of them until [`Faults::clear`].
    pub fn inject(
        &self,
        fault: Fault,
        count: Option<u32>,
        when: impl Fn(&RequestInfo) -> bool + Send + Sync + 'static,
    ) {
        self.rules.lock().push(Rule { when: Box::new(when), fault, left: count });
    }

    /// Removes every rule.
    pub fn clear(&self) {
        self.rules.lock().clear();
    }

    pub(crate) fn pick(&self, info: &RequestInfo) -> Option<Fault> {
        let mut rules = self.rules.lock();
        if rules.is_empty() {
            return None;
        }
        let i = rules.iter().position(|r| r.left != Some(0) && (r.when)(info))?;
        let fault = rules[i].fault.clone();
        if let Some(n) = &mut rules[i].left {
            *n -= 1;
            if *n == 0 {
                rules.remove(i);
            }
        }
        Some(fault)
    }
}

/// One line of the audit: who asked for what kind of thing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditKey {
    /// Verb as in [`RequestInfo`].
    pub verb: String,
    /// API group.
    pub group: String,
    /// Plural resource, or the path for what is not a resource.
    pub resource: String,
    /// Subresource or empty.
    pub subresource: String,
    /// User name.
    pub user: String,
}

impl AuditKey {
    /// True for verbs that change objects.
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }
}

type Hook = Box<dyn Fn(&RequestInfo, &str, u16) + Send + Sync>;

/// Counts answered requests by verb, resource and user. Watches count when they start.
#[derive(Default)]
pub struct Audit {
    counts: Mutex<BTreeMap<AuditKey, u64>>,
    hook: Mutex<Option<Hook>>,
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}

impl Audit {
    /// All counts since the start or the last [`Audit::reset`].
    pub fn counts(&self) -> BTreeMap<AuditKey, u64> {
        self.counts.lock().clone()
    }

    /// The sum of the counts that satisfy `pick`.
    pub fn count(&self, pick: impl Fn(&AuditKey) -> bool) -> u64 {
        self.counts.lock().iter().filter(|(k, _)| pick(k)).map(|(_, n)| n).sum()
    }

    /// Number of requests that change objects.
    pub fn writes(&self) -> u64 {
        self.count(AuditKey::is_write)
    }

    /// Forgets all counts.
    pub fn reset(&self) {
        self.counts.lock().clear();
    }

    /// Calls `hook` with every answered request, its user and its HTTP status.
    pub fn on_request(&self, hook: impl Fn(&RequestInfo, &str, u16) + Send + Sync + 'static) {
        *self.hook.lock() = Some(Box::new(hook));
    }

    pub(crate) fn note(&self, info: &RequestInfo, user: &str, code: u16) {
        let key = AuditKey {
            verb: info.verb.clone(),
            group: info.group.clone(),
            resource: if info.is_resource { info.resource.clone() } else { info.path.clone() },
            subresource: info.subresource.clone(),
            user: user.to_owned(),
        };
        *self.counts.lock().entry(key).or_default() += 1;
        if let Some(h) = &*self.hook.lock() {
            h(info, user, code);
        }
    }
}
