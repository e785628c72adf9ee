// SPDX-License-Identifier: GPL-2.0-only
//! Boot, halt, disks and version of the kernel in this process, as safe functions.

use crate::ffi;
use crate::storage::{drop_context, into_context, Storage, OPERATIONS};
use libc::{c_char, c_int, c_uint, c_void, size_t};
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

/// Receives a line of the kernel's log: its level (0 to 7) and its bytes, without a newline.
/// Runs on any thread, possibly inside the kernel: it must not block, take a lock
/// that somebody may hold, allocate, or make a system call of the kernel.
pub type Log = Box<dyn Fn(i32, &[u8]) + Send + Sync>;

/// Receives the text of a kernel panic. Runs on the thread that panics, maybe in a signal handler: it may do
/// no more than a [`Log`], and may end the process. When it returns, the process ends by abort(3).
pub type Panic = Box<dyn Fn(&[u8]) + Send + Sync>;

/// What a kernel is booted with.
#[derive(Default)]
pub struct Config {
    /// Virtual CPUs, 1 to 64; 0: as many as the host's.
    pub vcpus: u32,
    /// Most bytes of memory that the kernel may use; 0: a quarter of the host's.
    pub memory: u64,
    /// Added to the kernel's command line.
    pub command_line: Option<CString>,
    /// Lines of this level and below are logged; `None`: what `OUTBOARD_LOG` says.
    pub log_level: Option<u8>,
    /// Where lines go; `None`: standard error.
    pub log: Option<Log>,
    /// Components that are loaded at once, separated by spaces.
    pub components: Option<CString>,
    /// The directory of snapshots; `None`: the kernel boots.
    pub snapshots: Option<CString>,
    /// Where the text of a panic goes; `None`: standard error.
    pub panic: Option<Panic>,
}

fn pointer(string: &Option<CString>) -> *const c_char {
    string
        .as_ref()
        .map_or(std::ptr::null(), |text| text.as_ptr())
}

extern "C" fn call_log(context: *mut c_void, level: c_int, line: *const c_char, length: size_t) {
    // SAFETY: `context` is the Box<Log> that boot() leaked, and the library passes `length` readable bytes.
    let (log, line) = unsafe {
        (
            &*context.cast::<Log>(),
            std::slice::from_raw_parts(line.cast::<u8>(), length),
        )
    };
    log(level, line);
}

extern "C" fn call_panic(context: *mut c_void, text: *const c_char, length: size_t) {
    // SAFETY: `context` is the Box<Panic> that boot() leaked, and the library passes `length` readable bytes.
    let (panic, text) = unsafe {
        (
            &*context.cast::<Panic>(),
            std::slice::from_raw_parts(text.cast::<u8>(), length),
        )
    };
    panic(text);
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    Ok(result)
}

/// For programs that shut themselves in before they boot a kernel: asks the host now for what it may refuse later. What it
/// refuses is done without. Blocks for some tenths of a millisecond.
pub fn prepare() {
    // SAFETY: any thread may call it at any time.
    unsafe { ffi::ob_prepare() };
}

/// Whether this process has booted. The library could boot again after a halt. But descriptors of the
/// first kernel may still be about, and would be the second one's.
static BOOTED: AtomicBool = AtomicBool::new(false);

extern "C" fn forget_parent() {
    BOOTED.store(false, Ordering::SeqCst);
}

/// Takes the only boot that this process has; a child of fork(2) has one of its own.
fn take_boot() -> io::Result<()> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        // SAFETY: the hook only stores a flag. Where there is no memory for it, children cannot boot.
        unsafe { libc::pthread_atfork(None, None, Some(forget_parent)) };
    });
    if BOOTED.swap(true, Ordering::SeqCst) {
        return Err(io::Error::from_raw_os_error(libc::EALREADY));
    }
    Ok(())
}

/// Boots the kernel. A process can do this once in its life: `EALREADY` afterwards.
/// An error that the library explains has the explanation as its text.
pub fn boot(config: Config) -> io::Result<()> {
    take_boot()?;
    boot_first(config).inspect_err(|_| BOOTED.store(false, Ordering::SeqCst))
}

fn boot_first(config: Config) -> io::Result<()> {
    let (log, log_context) = match config.log {
        Some(log) => (
            Some(call_log as ffi::LogFunction),
            // Leaked on purpose: the kernel may log until the process ends, and there is one kernel.
            Box::into_raw(Box::new(log)).cast::<c_void>(),
        ),
        None => (None, std::ptr::null_mut()),
    };
    let (panic, panic_context) = match config.panic {
        Some(panic) => (
            Some(call_panic as ffi::PanicFunction),
            // Leaked as the log is: the kernel may panic until the process ends.
            Box::into_raw(Box::new(panic)).cast::<c_void>(),
        ),
        None => (None, std::ptr::null_mut()),
    };
    let raw = ffi::ob_config {
        size: std::mem::size_of::<ffi::ob_config>(),
        vcpus: config.vcpus,
        memory: config.memory,
        command_line: pointer(&config.command_line),
        log_level: config.log_level.map_or(ffi::OB_LOG_DEFAULT, c_int::from),
        log,
        log_context,
        components: pointer(&config.components),
        snapshots: pointer(&config.snapshots),
        panic,
        panic_context,
    };
    // SAFETY: `raw` and what it points to live until the call returns, the log's context for ever.
    let result = unsafe { ffi::ob_boot(&raw) };
    check(result).map(drop).map_err(|error| {
        // SAFETY: the library returns a string in static storage.
        let reason = unsafe { text(ffi::ob_boot_error()) };
        if reason.is_empty() {
            error
        } else {
            io::Error::new(error.kind(), reason)
        }
    })
}

/// What became of the snapshot when the kernel was booted.
pub fn snapshot_status() -> String {
    // SAFETY: the library returns a string in static storage.
    unsafe { text(ffi::ob_snapshot_status()) }
}

/// Unmounts, writes everything to the disks and stops. `EBUSY`: something could not be
/// unmounted (it was synced); `EIO`: something could not be written; `ENODEV`: no kernel runs.
pub fn halt() -> io::Result<()> {
    // SAFETY: has no arguments.
    check(unsafe { ffi::ob_halt() }).map(drop)
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

/// Adds a disk: a regular file or block device of the host. Returns its number and
/// the name of its block device ("vda"). `EBUSY`: in use by somebody else; `EROFS`: can only be read.
pub fn disk_add(path: &Path, config: DiskConfig) -> io::Result<(i32, String)> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut raw = raw_config(config);
    raw.path = path.as_ptr();
    add(&raw)
}

/// Adds a disk that this program serves. `config`: it has no lock.
pub fn disk_serve(storage: Arc<dyn Storage>, config: DiskConfig) -> io::Result<(i32, String)> {
    let mut raw = raw_config(config);
    raw.operations = &OPERATIONS;
    raw.capacity = storage.size();
    raw.context = into_context(storage);
    add(&raw).inspect_err(|_| {
        // SAFETY: what could not be added does not use its context, nor close it.
        unsafe { drop_context(raw.context) }
    })
}

fn raw_config(config: DiskConfig) -> ffi::ob_disk_config {
    let mut flags: c_uint = 0;
    if config.read_only {
        flags |= ffi::OB_DISK_READ_ONLY;
    }
    if config.no_lock {
        flags |= ffi::OB_DISK_NO_LOCK;
    }
    ffi::ob_disk_config {
        size: std::mem::size_of::<ffi::ob_disk_config>(),
        path: std::ptr::null(),
        flags,
        sector_size: config.sector_size,
        operations: std::ptr::null(),
        context: std::ptr::null_mut(),
        capacity: 0,
    }
}

/// What `raw` points to lives until the call returns.
fn add(raw: &ffi::ob_disk_config) -> io::Result<(i32, String)> {
    let mut name = [0u8; ffi::DISK_NAME_SIZE];
    // SAFETY: `raw` and what it points to live until the call returns; a context lives until `closed`. `name` has
    // the room that the header asks for.
    let disk = check(unsafe { ffi::ob_disk_add(raw, name.as_mut_ptr().cast()) })?;
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    Ok((disk, name.to_string_lossy().into_owned()))
}

/// Removes a disk. `EBUSY` while it is mounted or open.
pub fn disk_remove(disk: i32) -> io::Result<()> {
    // SAFETY: has only a number as its argument.
    check(unsafe { ffi::ob_disk_remove(disk) }).map(drop)
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
unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(string) }
        .to_string_lossy()
        .into_owned()
}
