// SPDX-License-Identifier: GPL-2.0-only
//! Functions that a halt of a kernel calls first. The library calls one function of this crate
//! ([`run_all`]) at each halt, which finds those of the kernel.

use crate::kernel::check;
use crate::{ffi, Instance};
use libc::c_void;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::process;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

type HaltFunction = Arc<dyn Fn() + Send + Sync>;

struct Entry {
    number: u64,
    /// The address of the instance.
    instance: usize,
    function: HaltFunction,
}

/// The functions of one process. A child of fork(2) begins with none, since another thread of its
/// parent may have the lock of the parent's.
struct Table {
    process: u32,
    entries: Mutex<Vec<Entry>>,
}

/// A function that a halt calls first, until this is dropped.
pub struct HaltHook {
    number: u64,
    process: u32,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

fn table() -> &'static Table {
    static TABLE: AtomicPtr<Table> = AtomicPtr::new(null_mut());
    loop {
        let current = TABLE.load(Ordering::Acquire);
        // SAFETY: NULL, or a table of Box::leak below.
        if let Some(table) = unsafe { current.as_ref() } {
            if table.process == process::id() {
                return table;
            }
        }
        let new = Box::leak(Box::new(Table {
            process: process::id(),
            entries: Mutex::default(),
        }));
        // The table of the parent, or of a thread that loses here, is never used again.
        let _ = TABLE.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
    }
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls the functions of a kernel that is about to halt.
extern "C" fn run_all(_context: *mut c_void, instance: *mut ffi::ob_instance) {
    let of_kernel = |entry: &&Entry| entry.instance == instance.addr();
    let functions: Vec<HaltFunction> = {
        let entries = table().lock();
        let functions = entries.iter().filter(of_kernel);
        functions.map(|entry| Arc::clone(&entry.function)).collect()
    };
    for function in functions {
        // No panic reaches the library, which is C. The text was printed.
        let _ = catch_unwind(AssertUnwindSafe(|| function()));
    }
}

impl Instance {
    /// The function runs before each halt of the kernel, on the thread that halts it, until the
    /// result is dropped. `EAGAIN`: the C library has no further place for a hook.
    pub fn before_halt(&self, function: impl Fn() + Send + Sync + 'static) -> io::Result<HaltHook> {
        static ADDED: OnceLock<i32> = OnceLock::new();
        // SAFETY: the function is there as long as the process, and takes any context.
        let add = || unsafe { ffi::ob_halt_hook_add(run_all, null_mut()) };
        check(*ADDED.get_or_init(add))?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let table = table();
        table.lock().push(Entry {
            number,
            instance: self.raw().addr(),
            function: Arc::new(function),
        });
        Ok(HaltHook {
            number,
            process: table.process,
        })
    }
}

impl Drop for HaltHook {
    fn drop(&mut self) {
        if self.process == process::id() {
            table().lock().retain(|entry| entry.number != self.number);
        }
    }
}
