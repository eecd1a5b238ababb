//! Bytes that the work of one thread holds, counted where they are allocated.
//!
//! Estimates of what values take are wrong by factors, in both directions, and each engine has its own. A program that
//! installs [`Counting`] as its allocator knows.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    /// Bytes that this thread allocated, less those that it freed. No destructor: it is there as long as the thread.
    static HELD: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, which counts what each thread holds.
#[derive(Debug, Clone, Copy)]
pub struct Counting;

/// Bytes that this thread allocated, less those that it freed, since it began. Differences are what tells something:
/// what another thread allocated may be freed here.
pub fn held() -> i64 {
    HELD.get()
}

/// Bytes that another thread allocated are this one's from now on, which will free them. Otherwise freeing them would look
/// as if this thread held less than it does.
pub fn adopt(bytes: usize) {
    count(bytes as i64);
}

/// Whether this program counts: it does if [`Counting`] is its allocator.
pub fn is_counting() -> bool {
    let before = held();
    let probe = std::hint::black_box(Box::new([0_u8; 64]));
    let counts = held() != before;
    drop(probe);
    counts
}

/// Gives pages that hold nothing back to the system, where the allocator can be asked for it.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "the allocator's own settings have no other door; no memory is touched")]
    // SAFETY: it returns pages that hold nothing, under the allocator's own lock.
    let _ = unsafe { libc::malloc_trim(0) };
}

fn count(bytes: i64) {
    HELD.set(HELD.get().wrapping_add(bytes));
}

#[expect(
    unsafe_code,
    reason = "the trait of allocators is unsafe; every call goes on to the system's unchanged"
)]
// SAFETY: the system's allocator does all the work; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    #[test]
    fn each_thread_is_counted_by_itself() {
        assert!(is_counting());
        let before = held();
        let mut kept = std::hint::black_box(vec![0_u8; 1 << 20]);
        assert_eq!(held() - before, 1 << 20);
        kept.reserve_exact((3 << 20) - kept.len());
        assert_eq!(held() - before, 3 << 20);
        let other = std::thread::spawn(move || {
            let before = held();
            drop(kept);
            held() - before
        });
        let freed = other.join().unwrap_or_default();
        assert!(freed <= -(3 << 20), "{freed}");
        assert!(held() - before >= 3 << 20, "freed elsewhere");
    }
}
