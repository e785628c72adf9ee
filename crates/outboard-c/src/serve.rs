// SPDX-License-Identifier: GPL-2.0-only
//! The functions of `outboard/server.h`, which documents them.
//!
//! | an instance | is in the table |
//! |---|---|
//! | that `ob_serve` serves | yes |
//! | of which serving has ended, by `ob_serve_end` or a halt | no |
//!
//! The table belongs to one process. A child of fork() begins with an empty one and leaves its
//! parent's alone, because another thread may have locked it.

use crate::argument::{shown, In, InValues, Text, Versioned};
use crate::fork::forks;
use crate::result::{caught, number_or_errno, CallFailure, Result};
use outboard::{ffi, HaltHook, Instance, Kernel};
use outboard_server::{ClientLimits, InsideUser, KernelServer, PeerRules};
use std::collections::HashMap;
use std::ffi::c_int;
use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A `struct ob_instance *` of the caller.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct CallerInstance(*mut ffi::ob_instance);

/// `struct ob_serve_user`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ServeUser {
    user: u32,
    inside_user: u32,
    inside_group: u32,
}

/// `struct ob_serve_config`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ServeConfig<'a> {
    size: usize,
    users: InValues<'a, ServeUser>,
    user_count: u32,
    flags: u32,
}

// SAFETY: all of it holds.
unsafe impl Versioned for ServeConfig<'_> {
    const LEAST: usize = size_of::<Self>();
    const NAME: &'static str = "ob_serve_config";
}

/// A kernel that is served.
struct Served {
    /// `None` only while this is dropped.
    server: Option<KernelServer>,
    instance: Instance,
    _hook: HaltHook,
}

impl Drop for Served {
    fn drop(&mut self) {
        // It closes its files in the kernel.
        drop(self.server.take());
        // Threads that are left would call the program's next kernel.
        self.instance.leave();
    }
}

/// Kernels that are served, by the addresses of their instances.
struct Table {
    /// The value of [`forks`] in the process that it belongs to.
    forks: u64,
    served: Mutex<HashMap<usize, Served>>,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Served>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The table of this process.
fn table() -> &'static Table {
    static TABLE: AtomicPtr<Table> = AtomicPtr::new(null_mut());
    loop {
        let current = TABLE.load(Ordering::Acquire);
        // SAFETY: NULL, or what Box::leak returned below.
        if let Some(table) = unsafe { current.as_ref() } {
            if table.forks == forks() {
                return table;
            }
        }
        let new = Box::leak(Box::new(Table {
            forks: forks(),
            served: Mutex::default(),
        }));
        // The table of the parent, or of a thread that loses here, is never used again.
        let _ = TABLE.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
    }
}

fn failed(what: &str, error: io::Error) -> CallFailure {
    // A file that the URL names is wrong.
    if error.kind() == io::ErrorKind::InvalidData {
        return CallFailure::usage(format!("{what}: {error}"));
    }
    CallFailure::of_io(what, error)
}

/// Ends serving a kernel. Returns whether it was served.
fn end(address: usize) -> bool {
    let served = table().lock().remove(&address);
    // Without the lock: clients may take their time.
    served.map(drop).is_some()
}

fn start(handle: CallerInstance) -> Result<Served> {
    // SAFETY: the caller passes a good handle, and what leaves it is called before a halt.
    let instance = unsafe { Instance::of_program(handle.0) };
    if instance.check().is_err() {
        let none = io::Error::from_raw_os_error(libc::ENODEV);
        return Err(failed(
            "no kernel runs that could be served: boot one",
            none,
        ));
    }
    let cannot = |error| failed("cannot serve the kernel", error);
    let kernel = Kernel::of_instance(instance.clone());
    let server = KernelServer::start(&kernel, ClientLimits::default()).map_err(cannot)?;
    let address = handle.0.addr();
    let ended = move || {
        end(address);
    };
    let hook = instance.before_halt(ended).map_err(cannot)?;
    Ok(Served {
        server: Some(server),
        instance,
        _hook: hook,
    })
}

fn rules(config: In<ServeConfig>) -> Result<PeerRules> {
    let Some(config) = config.get()? else {
        return Ok(PeerRules::default());
    };
    if config.flags != 0 {
        return Err(CallFailure::usage(
            "flags of struct ob_serve_config must be 0",
        ));
    }
    let users = config.users.get(config.user_count as usize, "users")?;
    let rule = |user: &ServeUser| {
        let inside = InsideUser {
            user: user.inside_user,
            group: user.inside_group,
        };
        (user.user, inside)
    };
    Ok(PeerRules::new(users.iter().map(rule).collect()))
}

fn serve(handle: CallerInstance, url: Text, config: In<ServeConfig>) -> Result<c_int> {
    if handle.0.is_null() {
        return Err(CallFailure::usage("the instance is NULL"));
    }
    let url = url.required("the URL")?;
    let rules = rules(config)?;
    let mut table = table().lock();
    let address = handle.0.addr();
    let new = match table.get(&address) {
        Some(_) => None,
        None => Some(start(handle)?),
    };
    let server = new.as_ref().or_else(|| table.get(&address));
    let server = server.and_then(|served| served.server.as_ref());
    let listened = server.expect("one of the two").listen(url, &rules);
    let cannot = |error| failed(&format!("cannot serve {}", shown(url)), error);
    // Without a socket, a new one ends here.
    let port = listened.map_err(cannot)?.map_or(0, |found| found.port());
    if let Some(new) = new {
        table.insert(address, new);
    }
    Ok(port.into())
}

fn default_instance() -> CallerInstance {
    // SAFETY: the function has no arguments.
    CallerInstance(unsafe { ffi::ob_instance_default() })
}

#[no_mangle]
pub extern "C" fn ob_serve(url: Text, config: In<ServeConfig>) -> c_int {
    ob_serve_on(default_instance(), url, config)
}

#[no_mangle]
pub extern "C" fn ob_serve_on(
    instance: CallerInstance,
    url: Text,
    config: In<ServeConfig>,
) -> c_int {
    number_or_errno(|| serve(instance, url, config))
}

#[no_mangle]
pub extern "C" fn ob_serve_end() {
    ob_serve_end_on(default_instance());
}

#[no_mangle]
pub extern "C" fn ob_serve_end_on(instance: CallerInstance) {
    // There is nobody to tell of a mistake.
    let _ = caught(|| Ok(end(instance.0.addr())));
}
