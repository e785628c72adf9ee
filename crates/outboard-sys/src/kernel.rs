// SPDX-License-Identifier: GPL-2.0-only
//! Configuration of kernels and disks, and facts about the library, as safe functions.

use crate::ffi;
use libc::{c_char, c_int, c_void, size_t};
use std::ffi::{CStr, CString};
use std::io;
use std::ptr::null_mut;

/// Receives a line of the kernel's log: its level (0 to 7) and its bytes, without a newline.
/// Runs on any thread, possibly inside the kernel: it must not block, take a lock
/// that somebody may hold, allocate, or make a system call of the kernel.
pub type LogSink = Box<dyn Fn(i32, &[u8]) + Send + Sync>;

/// Receives the text of a kernel panic. Runs on the thread that panics, maybe in a signal handler:
/// it may do no more than a [`LogSink`], and may end the process. When it returns, the process ends
/// by abort(3), or the kernel alone if its panic is contained.
pub type Panic = Box<dyn Fn(&[u8]) + Send + Sync>;

/// The configuration of a kernel at boot.
#[derive(Default)]
pub struct Config {
    /// Virtual CPUs, 1 to 64; 0: as many as the host's.
    pub vcpus: u32,
    /// Most bytes of memory that the kernel may use; 0: [`default_memory`](crate::default_memory).
    pub memory: u64,
    /// Added to the kernel's command line.
    pub command_line: Option<CString>,
    /// Lines of this level and below are logged; `None`: what `OUTBOARD_LOG` says.
    pub log_level: Option<u8>,
    /// The function that gets lines; `None`: standard error.
    pub log: Option<LogSink>,
    /// Components that are loaded at once, separated by spaces.
    pub components: Option<CString>,
    /// The directory of snapshots; `None`: the kernel boots.
    pub snapshots: Option<CString>,
    /// The function that gets the text of a panic; `None`: standard error.
    pub panic: Option<Panic>,
    /// The file of the kernel image; `None`: the library's own.
    pub image: Option<CString>,
    /// A panic ends this kernel, not the process.
    pub contain_panic: bool,
    /// Other processes may map the kernel's memory.
    pub shared_memory: bool,
    /// Interfaces that a snapshot has in advance.
    pub spare_interfaces: u32,
}

/// The functions that a kernel calls, on the heap: NULL or a pointer that the library has as a
/// context.
pub(crate) struct Callbacks {
    log: *mut LogSink,
    panic: *mut Panic,
}

impl Default for Callbacks {
    fn default() -> Self {
        Self {
            log: null_mut(),
            panic: null_mut(),
        }
    }
}

fn into_pointer<T>(function: Option<T>) -> *mut T {
    function.map_or(null_mut(), |function| Box::into_raw(Box::new(function)))
}

impl Callbacks {
    /// # Safety
    /// No kernel calls them any more, and this is not called again.
    pub(crate) unsafe fn free(&self) {
        // SAFETY: they are of into_pointer(), and by the caller's promise of no more use.
        unsafe {
            if !self.log.is_null() {
                drop(Box::from_raw(self.log));
            }
            if !self.panic.is_null() {
                drop(Box::from_raw(self.panic));
            }
        }
    }
}

impl Config {
    fn flags(&self) -> u32 {
        let mut flags = 0;
        if self.shared_memory {
            flags |= ffi::OB_SHARED_MEMORY;
        }
        if self.contain_panic {
            flags |= ffi::OB_CONTAIN_PANIC;
        }
        flags
    }

    /// As the library takes it. The result points to strings of `self`, and to `callbacks`, which
    /// get the functions.
    pub(crate) fn raw(&mut self, callbacks: &mut Callbacks) -> ffi::ob_config {
        *callbacks = Callbacks {
            log: into_pointer(self.log.take()),
            panic: into_pointer(self.panic.take()),
        };
        let has_log = !callbacks.log.is_null();
        let has_panic = !callbacks.panic.is_null();
        ffi::ob_config {
            size: std::mem::size_of::<ffi::ob_config>(),
            vcpus: self.vcpus,
            memory: self.memory,
            command_line: pointer(&self.command_line),
            log_level: self.log_level.map_or(ffi::OB_LOG_DEFAULT, c_int::from),
            log: has_log.then_some(call_log as ffi::LogFunction),
            log_context: callbacks.log.cast(),
            components: pointer(&self.components),
            snapshots: pointer(&self.snapshots),
            panic: has_panic.then_some(call_panic as ffi::PanicFunction),
            panic_context: callbacks.panic.cast(),
            kernel: pointer(&self.image),
            flags: self.flags(),
            spare_interfaces: self.spare_interfaces,
        }
    }
}

fn pointer(string: &Option<CString>) -> *const c_char {
    string
        .as_ref()
        .map_or(std::ptr::null(), |text| text.as_ptr())
}

extern "C" fn call_log(context: *mut c_void, level: c_int, line: *const c_char, length: size_t) {
    // SAFETY: `context` is the Log of the kernel's Callbacks, and the library passes `length`
    // readable bytes.
    let (log, line) = unsafe {
        (
            &*context.cast::<LogSink>(),
            std::slice::from_raw_parts(line.cast::<u8>(), length),
        )
    };
    log(level, line);
}

extern "C" fn call_panic(context: *mut c_void, text: *const c_char, length: size_t) {
    // SAFETY: `context` is the Panic of the kernel's Callbacks, and the library passes `length`
    // readable bytes.
    let (panic, text) = unsafe {
        (
            &*context.cast::<Panic>(),
            std::slice::from_raw_parts(text.cast::<u8>(), length),
        )
    };
    panic(text);
}

pub(crate) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    Ok(result)
}

/// How a disk is added.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskConfig {
    /// The file's bytes do not change, whatever is mounted how.
    pub read_only: bool,
    /// Do not lock the file against a second user.
    pub no_lock: bool,
    /// 0: the device's own (512 for a file); 512 or 4096.
    pub sector_size: u32,
}

impl DiskConfig {
    /// As the library takes it, without a path and functions.
    pub(crate) fn raw(self) -> ffi::ob_disk_config {
        let mut flags = 0;
        if self.read_only {
            flags |= ffi::OB_DISK_READ_ONLY;
        }
        if self.no_lock {
            flags |= ffi::OB_DISK_NO_LOCK;
        }
        ffi::ob_disk_config {
            size: std::mem::size_of::<ffi::ob_disk_config>(),
            path: std::ptr::null(),
            flags,
            sector_size: self.sector_size,
            operations: std::ptr::null(),
            context: null_mut(),
            capacity: 0,
        }
    }
}

/// How the kernel caches files of a directory of the host: numbers of `OB_DIR_CACHE_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectoryCache {
    /// What the kernel knows of a file holds for a second.
    #[default]
    Auto = 0,
    /// The kernel asks before each use.
    None = 1,
    /// Nobody else changes the files.
    Always = 2,
}

/// How a directory of the host is added.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirectoryConfig {
    /// Nothing below it changes.
    pub read_only: bool,
    /// Owners are kept in attributes, also if the process is root.
    pub keeps_owners: bool,
    /// How the kernel caches.
    pub cache: DirectoryCache,
}

impl DirectoryConfig {
    pub(crate) fn flags(self) -> u32 {
        let read_only = if self.read_only {
            ffi::OB_DIR_READ_ONLY
        } else {
            0
        };
        let keeps_owners = if self.keeps_owners {
            ffi::OB_DIR_KEEP_OWNERS
        } else {
            0
        };
        read_only | keeps_owners
    }
}

/// The library's version, as in "0.1.0".
pub fn version() -> String {
    // SAFETY: the library returns a string in static storage.
    unsafe { text(ffi::ob_version()) }
}

/// Linux's release that the library was made from, as in "6.12.90".
pub fn release() -> String {
    // SAFETY: the library returns a string in static storage.
    unsafe { text(ffi::ob_kernel_release()) }
}

/// The profile that the library was built with: "full", "base", "vfs", "net".
pub fn profile() -> String {
    // SAFETY: the library returns a string in static storage.
    unsafe { text(ffi::ob_profile()) }
}

/// The value of an option of the kernel's configuration, as in `option(c"CONFIG_XFS_FS")`.
pub fn option(name: &CStr) -> Option<String> {
    // SAFETY: `name` is NUL-terminated; the library returns NULL or a string in static storage.
    unsafe {
        let value = ffi::ob_kernel_config(name.as_ptr());
        (!value.is_null()).then(|| text(value))
    }
}

/// # Safety
/// `string` is NULL or points to a NUL-terminated string that lives during the call.
pub(crate) unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(string) }
        .to_string_lossy()
        .into_owned()
}
