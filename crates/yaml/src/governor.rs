//! What a caller allows a render beside its own limits: memory that all renders share, and time.
//!
//! The limits of the crates that render count steps and bytes of one render. How much memory a process has left, and
//! how long a user waits, only the caller knows. So every engine asks it on the way.

use std::{cell::RefCell, rc::Rc};

/// What the engines say when the caller ends a render. The caller knows why.
pub const STOPPED: &str = "the render was stopped by its caller";

/// Says whether a render may go on. It is asked at every step, on the thread that renders.
pub trait Governor {
    /// Whether the render may go on and take `bytes` more. After the first no, every answer is no.
    fn may_go_on(&self, bytes: u64) -> bool;

    /// Bytes that a part of the render may take without asking: at most `wanted`.
    fn grant(&self, wanted: u64) -> u64;

    /// That part needs more than it was granted: from now on the answer is no.
    fn wants_more(&self);
}

thread_local! {
    // Engines call each other in many ways (a Kustomization inflates a chart, a template parses YAML), and a render stays on
    // its thread: handing the governor through every call would be noise in all of them.
    static CURRENT: RefCell<Option<Rc<dyn Governor>>> = const { RefCell::new(None) };
}

/// Does `work` under a governor: everything that the crates that render do for it on this thread asks.
///
/// What the work answers is not to be used once the governor said no: an engine may take that for an error of a template
/// and go on.
pub fn governed<T>(governor: Rc<dyn Governor>, work: impl FnOnce() -> T) -> T {
    let _restore = Restore(CURRENT.replace(Some(governor)));
    work()
}

/// Puts the governor back that was there before, also when the work panics.
struct Restore(Option<Rc<dyn Governor>>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Whether the render on this thread may go on and take `bytes` more. For ports that answer a render; outside of one it
/// always may. Engines ask at every step, from other crates: hence the hint.
#[inline]
pub fn may_go_on(bytes: u64) -> bool {
    CURRENT.with_borrow(|current| current.as_ref().is_none_or(|governor| governor.may_go_on(bytes)))
}

/// Bytes that a part of the render may take without asking.
pub fn grant(wanted: u64) -> u64 {
    CURRENT.with_borrow(|current| current.as_ref().map_or(wanted, |governor| governor.grant(wanted)))
}

/// That part needs more.
pub fn wants_more() {
    CURRENT.with_borrow(|current| {
        if let Some(governor) = current {
            governor.wants_more();
        }
    });
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Says yes so often.
    struct Times(Cell<u64>);

    impl Governor for Times {
        fn may_go_on(&self, _: u64) -> bool {
            let left = self.0.get();
            self.0.set(left.saturating_sub(1));
            left > 0
        }

        fn grant(&self, wanted: u64) -> u64 {
            wanted.min(7)
        }

        fn wants_more(&self) {
            self.0.set(0);
        }
    }

    #[test]
    fn it_governs_its_own_work_only() {
        let outer: Rc<dyn Governor> = Rc::new(Times(Cell::new(2)));
        governed(Rc::clone(&outer), || {
            assert!(may_go_on(0));
            governed(Rc::new(Times(Cell::new(0))), || assert!(!may_go_on(0)));
            assert!(may_go_on(1 << 40));
            assert!(!may_go_on(0));
        });
        assert!(may_go_on(0) && grant(9) == 9);
        let broken = Rc::new(Times(Cell::new(9)));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            governed(broken, || {
                assert_eq!(grant(9), 7);
                wants_more();
                assert!(may_go_on(0), "stopped");
            });
        }));
        assert!(panicked.is_err());
        assert!(may_go_on(0));
    }
}
