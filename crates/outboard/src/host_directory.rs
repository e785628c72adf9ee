// SPDX-License-Identifier: GPL-2.0-only
//! Directories of the host that the kernel mounts.

use crate::kernel::Kernel;
use crate::Mount;
use outboard_sys::kernel::{DirectoryCache, DirectoryConfig};
use std::ffi::{CStr, CString};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// The type of the file system by which the kernel sees such a directory.
pub(crate) const KIND: &str = "virtiofs";

/// Tags of one process are unique.
static ADDED: AtomicU32 = AtomicU32::new(0);

/// How a directory of the host is added.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostDirectoryOptions {
    config: DirectoryConfig,
}

impl HostDirectoryOptions {
    /// For reading only: nothing below the directory changes, whatever is mounted how.
    pub fn read_only() -> Self {
        Self {
            config: DirectoryConfig {
                read_only: true,
                ..DirectoryConfig::default()
            },
        }
    }

    /// For reading and writing.
    pub fn read_write() -> Self {
        Self::default()
    }

    /// How the kernel caches files.
    pub fn cache(mut self, cache: DirectoryCache) -> Self {
        self.config.cache = cache;
        self
    }

    /// Owners that the kernel's programs give to files are kept in attributes, also if this process
    /// is root. They always are if it is not.
    pub fn keep_owners(mut self) -> Self {
        self.config.keeps_owners = true;
        self
    }
}

/// A directory of the host, or a regular file, that the kernel sees. It is removed when its last
/// clone is dropped, unless it is mounted: then it stays until the kernel halts.
///
/// ```no_run
/// # use outboard::{HostDirectoryOptions, Kernel};
/// # fn main() -> std::io::Result<()> {
/// let kernel = Kernel::builder().boot()?;
/// let site = kernel.add_directory("/srv/site".as_ref(), HostDirectoryOptions::read_only())?;
/// let mount = site.mount()?;
/// println!("{}", mount.read_to_string("index.html")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct HostDirectory {
    shared: Arc<SharedDirectory>,
}

struct SharedDirectory {
    kernel: Kernel,
    number: i32,
    tag: CString,
    file_name: Option<CString>,
    read_only: bool,
}

impl Drop for SharedDirectory {
    fn drop(&mut self) {
        // It is mounted, or the kernel has halted.
        let _ = self.kernel.instance().remove_directory(self.number);
    }
}

impl fmt::Debug for HostDirectory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("HostDirectory")
            .field(&self.tag())
            .finish()
    }
}

impl HostDirectory {
    /// The source of a mount of type virtiofs.
    pub fn tag(&self) -> &CStr {
        &self.shared.tag
    }

    /// Whether it can only be read.
    pub fn is_read_only(&self) -> bool {
        self.shared.read_only
    }

    /// The name of a regular file in its mount. `None`: it is a directory.
    pub(crate) fn file_name(&self) -> Option<&CStr> {
        self.shared.file_name.as_deref()
    }

    /// Mounts it. Of a regular file, the mount has a directory with this one name.
    pub fn mount(&self) -> io::Result<Mount> {
        let kernel = &self.shared.kernel;
        kernel.mount_remote(KIND, self.tag(), self.is_read_only(), c"")
    }
}

/// The last name of a regular file's path, without symbolic links. `None`: it is none.
fn file_name(path: &Path) -> io::Result<Option<CString>> {
    if !path.is_file() {
        return Ok(None);
    }
    let path = path.canonicalize()?;
    let name = path.file_name().map(|name| CString::new(name.as_bytes()));
    Ok(name.transpose()?)
}

impl Kernel {
    /// Shows a directory of the host to the kernel, or a regular file. The error says what the host
    /// refused. The kernel needs the component virtiofs.
    pub fn add_directory(
        &self,
        path: &Path,
        options: HostDirectoryOptions,
    ) -> io::Result<HostDirectory> {
        let tag = CString::new(format!("dir{}", ADDED.fetch_add(1, Ordering::Relaxed)))?;
        let file_name = file_name(path)?;
        let number = self.instance().add_directory(path, &tag, options.config)?;
        Ok(HostDirectory {
            shared: Arc::new(SharedDirectory {
                kernel: self.clone(),
                number,
                tag,
                file_name,
                read_only: options.config.read_only,
            }),
        })
    }
}
