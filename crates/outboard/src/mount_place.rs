// SPDX-License-Identifier: GPL-2.0-only
//! A further place of a mount, in the kernel's own tree.

use crate::kernel_files::make_directory_of;
use crate::{Fd, Mount, System};
use outboard_sys::{explained, libc};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The mount is seen there until this is dropped, which has to be before the mount ends.
pub struct MountPlace {
    system: System,
    path: CString,
}

impl Mount {
    /// Shows the mount at an absolute path of the kernel's own tree, too. Directories that are not
    /// there are made, and stay.
    pub fn show_at(&self, path: &Path) -> io::Result<MountPlace> {
        let system = self.kernel().system();
        let shown = |error: io::Error| {
            let text = format!("{} of the kernel: {error}", path.display());
            explained(error, text)
        };
        let target = CString::new(path.as_os_str().as_bytes())?;
        let here = Fd::working_directory(system);
        let above: Vec<&Path> = path.ancestors().collect();
        for directory in above.into_iter().rev().skip(1) {
            let name = CString::new(directory.as_os_str().as_bytes())?;
            make_directory_of(&here, &name, 0o755).map_err(shown)?;
        }
        let bind = libc::MS_BIND;
        let mounted = system.mount(self.directory(), &target, c"", bind, c"");
        mounted.map_err(shown)?;
        Ok(MountPlace {
            system: system.clone(),
            path: target,
        })
    }
}

impl Drop for MountPlace {
    fn drop(&mut self) {
        let _ = self.system.unmount(&self.path, libc::MNT_DETACH);
    }
}
