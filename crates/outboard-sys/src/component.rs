// SPDX-License-Identifier: GPL-2.0-only
//! Components: modules of the kernel, as safe functions.

use crate::{explained, ffi, Instance};
use libc::{c_int, c_void};
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A module that came with the library, or is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Name of the module.
    pub name: String,
    /// Bytes of its file; 0 if it did not come with the library.
    pub file_size: u64,
    /// Memory and users in the kernel, if the component is loaded.
    pub loaded: Option<Loaded>,
}

/// State of a component that the kernel has loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Bytes of the kernel's memory.
    pub memory: u64,
    /// The number of users.
    pub users: u32,
}

fn check(result: i32) -> io::Result<()> {
    if result >= 0 {
        return Ok(());
    }
    // SAFETY: the library returns a NUL-terminated string that this thread's next such call
    // changes.
    let reason = unsafe { CStr::from_ptr(ffi::ob_component_error()) };
    let error = io::Error::from_raw_os_error(-result);
    if reason.is_empty() {
        return Err(error);
    }
    Err(explained(error, reason.to_string_lossy()))
}

extern "C" fn collect(context: *mut c_void, info: *const ffi::ob_component_info) -> c_int {
    // SAFETY: `context` is the vector that list() passes, used by nobody else meanwhile; the
    // library passes a valid description.
    let (found, info) = unsafe { (&mut *context.cast::<Vec<Component>>(), &*info) };
    found.push(Component {
        // SAFETY: the name is a NUL-terminated string that lives during the call.
        name: unsafe { CStr::from_ptr(info.name) }
            .to_string_lossy()
            .into_owned(),
        file_size: info.file_size,
        loaded: (info.is_loaded != 0).then_some(Loaded {
            memory: info.memory,
            users: info.users,
        }),
    });
    0
}

/// # Safety
/// `instance` is a handle that is not freed during the call.
unsafe fn list_of(instance: *mut ffi::ob_instance) -> io::Result<Vec<Component>> {
    let mut found: Vec<Component> = Vec::new();
    // SAFETY: collect() takes the context for what it is, and is called only during this call.
    let result = unsafe { ffi::ob_component_list_on(instance, collect, (&raw mut found).cast()) };
    check(result).map(|()| found)
}

/// All components that came with the library, sorted by name. An error if none came with it.
pub fn list() -> io::Result<Vec<Component>> {
    // SAFETY: the default instance is always there.
    unsafe { list_of(ffi::ob_instance_default()) }
}

impl Instance {
    /// As [`list`], with what is loaded in this kernel; then the loaded ones that did not come with
    /// the library.
    pub fn components(&self) -> io::Result<Vec<Component>> {
        // SAFETY: the handle is good.
        unsafe { list_of(self.raw()) }
    }

    fn check_component(&self, result: i32) -> io::Result<()> {
        if result == -libc::ENODEV {
            self.check()?;
        }
        check(result)
    }

    /// Loads a component by its name or an alias, and what it needs. Loaded already is no error.
    pub fn load_component(&self, name: &str, parameters: &str) -> io::Result<()> {
        let (name, parameters) = (CString::new(name)?, CString::new(parameters)?);
        // SAFETY: both strings outlive the call.
        let result =
            unsafe { ffi::ob_component_load_on(self.raw(), name.as_ptr(), parameters.as_ptr()) };
        self.check_component(result)
    }

    /// Loads a module that was built for this kernel from a file.
    pub fn load_component_file(&self, path: &Path, parameters: &str) -> io::Result<()> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let parameters = CString::new(parameters)?;
        // SAFETY: both strings outlive the call.
        let result = unsafe {
            ffi::ob_component_load_file_on(self.raw(), path.as_ptr(), parameters.as_ptr())
        };
        self.check_component(result)
    }

    /// Unloads a component. An error while it is in use.
    pub fn unload_component(&self, name: &str) -> io::Result<()> {
        let name = CString::new(name)?;
        // SAFETY: the string outlives the call.
        let result = unsafe { ffi::ob_component_unload_on(self.raw(), name.as_ptr()) };
        self.check_component(result)
    }
}
