// SPDX-License-Identifier: GPL-2.0-only
//! Instances: one kernel each, from its boot to its end, as safe functions.
//!
//! A handle of the C library boots once here. All that belongs to a kernel (files, disks) shares
//! the handle, which is given back with the last of them. So a file of a kernel that has halted can
//! never be taken for one of a kernel that was booted later: its calls fail with a [`KernelError`].

use crate::kernel::{check, text, Callbacks, Config, DirectoryConfig, DiskConfig};
use crate::kernel_error::KernelError;
use crate::storage::{drop_context, into_context, Storage, OPERATIONS};
use crate::{explained, ffi};
use libc::{c_char, c_int, c_long};
use std::ffi::{CStr, CString};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process;
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8};
use std::sync::Arc;

const RUNNING: u8 = 0;
const HALTED: u8 = 1;
const PANICKED: u8 = 2;

/// A handle of the C library.
pub(crate) struct InstanceHandle {
    raw: NonNull<ffi::ob_instance>,
    callbacks: Callbacks,
    /// The process that has booted it.
    process: u32,
    /// HALTED also before the boot.
    state: AtomicU8,
    /// The program has booted it by the C library, and halts and frees it so.
    is_borrowed: bool,
    /// It is borrowed, and must not be used any more: the handle may be that of another kernel.
    is_left: AtomicBool,
}

// SAFETY: any thread may call the library with a handle at any time until it is freed, which only
// drop() does. The callbacks are Send and Sync.
unsafe impl Send for InstanceHandle {}
// SAFETY: as above.
unsafe impl Sync for InstanceHandle {}

impl Drop for InstanceHandle {
    fn drop(&mut self) {
        if self.is_borrowed {
            return;
        }
        let raw = self.raw.as_ptr();
        // SAFETY: nobody else has the handle any more.
        let frees = || unsafe { ffi::ob_instance_free(raw) == 0 };
        // SAFETY: the handle is good until it is freed.
        let halts = || unsafe { ffi::ob_halt_on(raw) };
        if frees() || (halts(), frees()).1 {
            // SAFETY: the kernel is gone. If it has panicked or threads have not left it, the
            // library keeps the handle, and the kernel may still call.
            unsafe { self.callbacks.free() };
        }
    }
}

/// An instance that has not booted.
pub struct EmptyInstance(InstanceHandle);

impl EmptyInstance {
    /// [`KernelError::TooMany`]: the library has no further handle.
    pub fn new() -> io::Result<Self> {
        let mut raw = null_mut();
        // SAFETY: `raw` outlives the call, which stores a handle there.
        match unsafe { ffi::ob_instance_new(&mut raw) } {
            error if error == -libc::EAGAIN => return Err(KernelError::TooMany.into()),
            result => check(result)?,
        };
        Ok(Self(InstanceHandle {
            raw: NonNull::new(raw).expect("the library has stored a handle"),
            callbacks: Callbacks::default(),
            process: process::id(),
            state: AtomicU8::new(HALTED),
            is_borrowed: false,
            is_left: AtomicBool::new(false),
        }))
    }

    /// For programs that sandbox themselves before they boot: asks the host now for what it may
    /// refuse later. The kernel does without what the host refuses. Blocks for some tenths of a
    /// millisecond.
    pub fn prepare(&self) {
        // SAFETY: the handle is freed by drop() only.
        unsafe { ffi::ob_prepare_on(self.0.raw.as_ptr()) };
    }

    /// The same for a kernel that will run programs.
    pub fn prepare_programs(&self) {
        // SAFETY: the handle is freed by drop() only.
        unsafe { ffi::ob_prepare_programs_on(self.0.raw.as_ptr()) };
    }

    /// Boots the kernel. An error that the library explains has the explanation as its text.
    pub fn boot(mut self, mut config: Config) -> io::Result<Instance> {
        let handle = &mut self.0;
        let raw = config.raw(&mut handle.callbacks);
        // SAFETY: `raw` and what it points to live until the call returns, the callbacks until the
        // handle is freed.
        let result = unsafe { ffi::ob_boot_on(handle.raw.as_ptr(), &raw) };
        if let Err(error) = check(result) {
            // SAFETY: the library returns a string that lives as long as the handle.
            let reason = unsafe { text(ffi::ob_boot_error_on(handle.raw.as_ptr())) };
            return Err(if reason.is_empty() {
                error
            } else {
                explained(error, reason)
            });
        }
        handle.process = process::id();
        *handle.state.get_mut() = RUNNING;
        Ok(Instance {
            handle: Arc::new(self.0),
        })
    }
}

/// A kernel that was booted. A clone is the same kernel. The kernel halts when the last clone is
/// dropped, unless it was halted before. Files have clones, too.
#[derive(Clone)]
pub struct Instance {
    pub(crate) handle: Arc<InstanceHandle>,
}

impl PartialEq for Instance {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle)
    }
}

impl Eq for Instance {}

impl Hash for Instance {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.handle).hash(state);
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Instance({:p})", self.raw())
    }
}

impl Instance {
    /// The kernel of a handle that the program has from the C library, with which it halts and
    /// frees the kernel. [`Instance::leave`] has to come before that. NULL: the default instance.
    ///
    /// # Safety
    /// The handle is good until then.
    pub unsafe fn of_program(raw: *mut ffi::ob_instance) -> Self {
        // SAFETY: the function has no arguments.
        let default = || unsafe { ffi::ob_instance_default() };
        let raw = NonNull::new(raw).or_else(|| NonNull::new(default()));
        Self {
            handle: Arc::new(InstanceHandle {
                raw: raw.expect("the default instance always exists"),
                callbacks: Callbacks::default(),
                process: process::id(),
                state: AtomicU8::new(RUNNING),
                is_borrowed: true,
                is_left: AtomicBool::new(false),
            }),
        }
    }

    /// Of a borrowed kernel: all later calls by this instance and its clones fail.
    pub fn leave(&self) {
        if self.is_borrowed() {
            self.handle.is_left.store(true, SeqCst);
            self.handle.state.store(HALTED, SeqCst);
        }
    }

    /// Whether the program has booted it by the C library.
    pub fn is_borrowed(&self) -> bool {
        self.handle.is_borrowed
    }

    /// The handle, which is good for as long as this instance lives. NULL, which all functions
    /// refuse, if it was [left](Self::leave).
    pub(crate) fn raw(&self) -> *mut ffi::ob_instance {
        if self.handle.is_left.load(Relaxed) {
            return null_mut();
        }
        self.handle.raw.as_ptr()
    }

    /// Makes one system call. The error of a kernel that takes no calls is a [`KernelError`].
    ///
    /// # Safety
    /// As for `System::call`.
    pub(crate) unsafe fn call(&self, number: c_long, a: [usize; 6]) -> io::Result<usize> {
        // SAFETY: the caller's promise; the handle is good.
        let result =
            unsafe { ffi::ob_syscall_on(self.raw(), number, a[0], a[1], a[2], a[3], a[4], a[5]) };
        if (-4095..0).contains(&result) {
            return Err(self.error(-result as c_int));
        }
        Ok(result as usize)
    }

    /// The error of a call, with the reason where there is no kernel: it has ENODEV then, as some
    /// calls of a kernel that works.
    #[cold]
    fn error(&self, number: c_int) -> io::Error {
        match number {
            libc::ENODEV => self.check().err().map(io::Error::from),
            _ => None,
        }
        .unwrap_or_else(|| io::Error::from_raw_os_error(number))
    }

    /// Whether the kernel takes calls, and if not, why. Makes a system call.
    pub fn check(&self) -> Result<(), KernelError> {
        let state = &self.handle.state;
        if state.load(SeqCst) == RUNNING {
            if process::id() != self.handle.process {
                return Err(KernelError::InParent);
            }
            if self.answers() {
                return Ok(());
            }
            // Unless another thread has halted it meanwhile.
            let _ = state.compare_exchange(RUNNING, PANICKED, SeqCst, SeqCst);
        }
        match state.load(SeqCst) {
            PANICKED => Err(KernelError::Panicked),
            _ => Err(KernelError::Halted),
        }
    }

    /// The result of a function of the library, with the reason where there is no kernel.
    pub(crate) fn named(&self, result: c_int) -> io::Result<c_int> {
        check(result).map_err(|error| match error.raw_os_error() {
            Some(number) => self.error(number),
            None => error,
        })
    }

    /// Unmounts, writes everything to the disks and stops. `EBUSY`: something could not be
    /// unmounted (it was synced); `EIO`: something could not be written; `EDEADLK`: a signal
    /// handler has interrupted a call, and the kernel goes on; `EAGAIN`, `ENOMEM`: it goes on for
    /// want of threads or memory; [`KernelError`]: there is no kernel to halt, or another thread
    /// halts it.
    pub fn halt(&self) -> io::Result<()> {
        self.check()?;
        // Before any call fails for that reason, and by one thread.
        let state = &self.handle.state;
        if state
            .compare_exchange(RUNNING, HALTED, SeqCst, SeqCst)
            .is_err()
        {
            return Err(KernelError::Halted.into());
        }
        // SAFETY: the handle is good.
        let halted = check(unsafe { ffi::ob_halt_on(self.raw()) }).map(drop);
        // A halt that did not begin: the kernel goes on.
        if halted.is_err() && self.answers() {
            state.store(RUNNING, SeqCst);
        }
        halted
    }

    fn answers(&self) -> bool {
        // SAFETY: the call has no arguments; the handle is good.
        let answer = unsafe { ffi::ob_syscall_on(self.raw(), libc::SYS_getpid, 0, 0, 0, 0, 0, 0) };
        answer != -c_long::from(libc::ENODEV)
    }

    /// Ends the blocked call of a thread, or its next one that would block, with EINTR. `thread`:
    /// of [`crate::System::thread`] there. Does not block. `EAGAIN`: too many at once.
    pub fn interrupt(&self, thread: i32) -> io::Result<()> {
        // SAFETY: the handle is good.
        check(unsafe { ffi::ob_interrupt_on(self.raw(), thread) }).map(drop)
    }

    /// As [`Self::interrupt`], and ends also waits that only a fatal signal ends, as those for
    /// servers. To be repeated until the call has returned.
    pub fn abort(&self, thread: i32) -> io::Result<()> {
        // SAFETY: the handle is good.
        check(unsafe { ffi::ob_abort_call_on(self.raw(), thread) }).map(drop)
    }

    /// How the kernel's boot used the snapshot.
    pub fn snapshot_status(&self) -> String {
        // SAFETY: the library returns a string that lives as long as the handle.
        unsafe { text(ffi::ob_snapshot_status_on(self.raw())) }
    }

    /// Adds a disk: a regular file or block device of the host. Returns its number and
    /// the name of its block device ("vda"). `EBUSY`: in use by somebody else; `EROFS`: can only be
    /// read.
    pub fn add_disk(&self, path: &Path, config: DiskConfig) -> io::Result<(i32, String)> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut raw = config.raw();
        raw.path = path.as_ptr();
        self.add(&raw)
    }

    /// Adds a disk that this program serves. `config`: it has no lock.
    pub fn serve_disk(
        &self,
        storage: Arc<dyn Storage>,
        config: DiskConfig,
    ) -> io::Result<(i32, String)> {
        let mut raw = config.raw();
        raw.operations = &OPERATIONS;
        raw.capacity = storage.size();
        raw.context = into_context(storage);
        self.add(&raw).inspect_err(|_| {
            // SAFETY: what could not be added does not use its context, nor close it.
            unsafe { drop_context(raw.context) }
        })
    }

    /// The data behind `raw` lives until the call returns.
    fn add(&self, raw: &ffi::ob_disk_config) -> io::Result<(i32, String)> {
        let mut name = [0u8; ffi::DISK_NAME_SIZE];
        // SAFETY: `raw` and what it points to live until the call returns; a context lives until
        // `closed`. `name` has the room that the header asks for.
        let result = unsafe { ffi::ob_disk_add_on(self.raw(), raw, name.as_mut_ptr().cast()) };
        let disk = self.named(result)?;
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok((disk, name.to_string_lossy().into_owned()))
    }

    /// Adds a network interface by its description. Returns its number and name. The error has the
    /// library's reason. Blocks while it waits for an address.
    pub fn add_interface(&self, description: &CStr) -> io::Result<(i32, String)> {
        let mut name = [0u8; ffi::LINK_NAME_SIZE];
        // SAFETY: the handle is good, the string ends with a NUL, and `name` has the room that the
        // header asks for.
        let result = unsafe {
            ffi::ob_net_add_on(self.raw(), description.as_ptr(), name.as_mut_ptr().cast())
        };
        let number = self.named(result).map_err(with_reason)?;
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok((number, name.to_string_lossy().into_owned()))
    }

    /// Changes a network interface that exists.
    pub fn configure_interface(&self, name: &CStr, changes: &CStr) -> io::Result<()> {
        // SAFETY: the handle is good, and the strings end with a NUL.
        let result =
            unsafe { ffi::ob_net_configure_on(self.raw(), name.as_ptr(), changes.as_ptr()) };
        self.named(result).map_err(with_reason).map(drop)
    }

    /// Removes a network interface that was added.
    pub fn remove_interface(&self, number: i32) -> io::Result<()> {
        // SAFETY: the handle is good.
        let result = unsafe { ffi::ob_net_remove_on(self.raw(), number) };
        self.named(result).map_err(with_reason).map(drop)
    }

    /// Shows a directory of the host to the kernel, which mounts it as type virtiofs by this tag.
    /// Returns its number. The error has the library's reason.
    pub fn add_directory(
        &self,
        path: &Path,
        tag: &CStr,
        config: DirectoryConfig,
    ) -> io::Result<i32> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let raw = ffi::ob_dir_config {
            size: std::mem::size_of::<ffi::ob_dir_config>(),
            path: path.as_ptr(),
            tag: tag.as_ptr(),
            flags: config.flags(),
            cache: config.cache as u32,
        };
        // SAFETY: the handle is good; `raw` and its strings live until the call returns.
        let result = unsafe { ffi::ob_dir_add_on(self.raw(), &raw) };
        self.named(result).map_err(|error| {
            // SAFETY: the function has no arguments.
            with_reason_of(error, unsafe { ffi::ob_dir_error() })
        })
    }

    /// Removes a directory. `EBUSY` while it is mounted.
    pub fn remove_directory(&self, number: i32) -> io::Result<()> {
        // SAFETY: the handle is good.
        let result = unsafe { ffi::ob_dir_remove_on(self.raw(), number) };
        self.named(result).map(drop)
    }

    /// Removes a disk. `EBUSY` while it is mounted or open.
    pub fn remove_disk(&self, disk: i32) -> io::Result<()> {
        // SAFETY: the handle is good.
        let result = unsafe { ffi::ob_disk_remove_on(self.raw(), disk) };
        self.named(result).map(drop)
    }
}

/// The reason of this thread's last failed call about the network. An error with a name keeps it.
pub(crate) fn with_reason(error: io::Error) -> io::Error {
    // SAFETY: the function has no arguments.
    with_reason_of(error, unsafe { ffi::ob_net_error() })
}

/// `reason`: as the library returns it.
fn with_reason_of(error: io::Error, reason: *const c_char) -> io::Error {
    // SAFETY: the library returns a NUL-terminated string that this thread's next such call
    // changes.
    let reason = unsafe { CStr::from_ptr(reason) };
    if reason.is_empty() || error.raw_os_error().is_none() {
        return error;
    }
    explained(error, reason.to_string_lossy())
}
