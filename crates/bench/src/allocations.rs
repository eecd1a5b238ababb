//! Memory as the allocator sees it: what a piece of work asks for, and how much it holds at once.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Off except inside [`counted`]: other benches pay one relaxed load per allocation.
static ON: AtomicBool = AtomicBool::new(false);
static ALLOCATED: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);
static HELD: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

struct Counting;

fn took(bytes: usize) {
    if ON.load(Relaxed) {
        ALLOCATED.fetch_add(bytes as u64, Relaxed);
        CALLS.fetch_add(1, Relaxed);
        let held = HELD.fetch_add(bytes as i64, Relaxed) + bytes as i64;
        PEAK.fetch_max(held, Relaxed);
    }
}

fn gave(bytes: usize) {
    if ON.load(Relaxed) {
        HELD.fetch_sub(bytes as i64, Relaxed);
    }
}

#[expect(
    unsafe_code,
    reason = "the trait of allocators is unsafe; every call goes on to the system's unchanged"
)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        gave(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        gave(layout.size());
        took(size);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// What a piece of work did with memory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    /// Bytes asked for, whether given back or not.
    pub(crate) allocated: u64,
    /// How often the allocator was asked.
    pub(crate) calls: u64,
    /// Most bytes held at once, beyond what was held before.
    pub(crate) peak: u64,
}

/// Does the work and counts. Only one piece of work at a time: what other threads do is counted too.
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> (T, Memory) {
    ALLOCATED.store(0, Relaxed);
    CALLS.store(0, Relaxed);
    HELD.store(0, Relaxed);
    PEAK.store(0, Relaxed);
    ON.store(true, Relaxed);
    let result = work();
    ON.store(false, Relaxed);
    let memory = Memory {
        allocated: ALLOCATED.load(Relaxed),
        calls: CALLS.load(Relaxed),
        peak: PEAK.load(Relaxed).max(0) as u64,
    };
    (result, memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted() {
        let (_, memory) = counted(|| {
            drop(std::hint::black_box(vec![0u8; 1 << 20]));
            std::hint::black_box(vec![0u8; 1 << 19])
        });
        // Other tests run beside this one, so it may be more.
        assert!(memory.allocated >= (1 << 20) + (1 << 19), "{memory:?}");
        assert!(memory.calls >= 2, "{memory:?}");
        assert!(memory.peak >= 1 << 19, "{memory:?}");
    }
}
