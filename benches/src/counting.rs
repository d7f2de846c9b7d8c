//! An allocator that counts. A test takes it with `#[global_allocator]`.
#![allow(unsafe_code, reason = "a global allocator that counts cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, with every allocation and reallocation counted, and for each thread the bytes that it holds.
pub struct Counting;

static OTHERS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static MINE: Cell<u64> = const { Cell::new(0) };
    static APART: Cell<bool> = const { Cell::new(false) };
    static HELD: Cell<i64> = const { Cell::new(0) };
    static MOST: Cell<i64> = const { Cell::new(0) };
}

/// Most bytes that this thread held at a time while `work` ran, beyond what it held before.
pub fn most_held<T>(work: impl FnOnce() -> T) -> (T, i64) {
    let before = HELD.with(Cell::get);
    MOST.with(|m| m.set(before));
    let out = work();
    (out, MOST.with(Cell::get) - before)
}

fn hold(bytes: i64) {
    let _ = HELD.try_with(|h| {
        let held = h.get() + bytes;
        h.set(held);
        let _ = MOST.try_with(|m| m.set(m.get().max(held)));
    });
}

/// Allocations of this thread so far.
pub fn of_this_thread() -> u64 {
    MINE.with(Cell::get)
}

/// From now on this thread is not one of the others.
pub fn stand_apart() {
    APART.with(|a| a.set(true));
}

/// Allocations so far of all threads that do not stand apart.
pub fn of_the_others() -> u64 {
    OTHERS.load(Ordering::Relaxed)
}

fn count() {
    // A thread that ends has no counter any more, and nothing to count.
    let _ = MINE.try_with(|c| c.set(c.get() + 1));
    if !APART.try_with(Cell::get).unwrap_or(true) {
        OTHERS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        hold(layout.size() as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        hold(-(layout.size() as i64));
        // SAFETY: as above; the pointer came from `System`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        hold(size as i64 - layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, size) }
    }
}
