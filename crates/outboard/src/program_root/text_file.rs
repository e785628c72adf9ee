// SPDX-License-Identifier: GPL-2.0-only
//! Small text files that programs find in the place of the volume's: mounted over these, from
//! memory.

use super::{bind_from_aside, by_a_thread, named, ProgramRoot};
use outboard_sys::{libc, Fd};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Directories in memory: a file that a link expects there is made.
const IN_MEMORY: [&[u8]; 2] = [b"/run/", b"/var/run/"];

impl ProgramRoot {
    /// Shows programs a file of this text at an absolute path, until the root goes. The volume's
    /// own file there does not change. If there is none, an empty one is made, which goes with the
    /// root, on the way of a symbolic link only in /run. Returns whether the file is shown: not
    /// over a directory, a device or a link to nowhere else.
    pub fn show_text(&self, path: &Path, text: &[u8]) -> io::Result<bool> {
        let shown = CString::new(path.as_os_str().as_bytes())?;
        by_a_thread(|| {
            self.enter()?;
            self.show_here(&shown, text)
                .map_err(|error| named(error, &shown))
        })
    }

    fn show_here(&self, path: &CStr, text: &[u8]) -> io::Result<bool> {
        if !self.prepare_place(path)? {
            return Ok(false);
        }
        let system = &self.system;
        let name = c"text";
        bind_from_aside(system, name, path, |aside| {
            system.mount(c"tmpfs", aside, c"tmpfs", 0, c"mode=0755")?;
            let directory = super::open_directory(system, aside)?;
            let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
            let file = directory.open_at(name, flags, 0o644)?;
            file.set_mode(0o644)?;
            file.write_all(text)
        })?;
        Ok(true)
    }

    /// Whether a regular file is at the path, after one was made if there was none.
    fn prepare_place(&self, path: &CStr) -> io::Result<bool> {
        let here = Fd::working_directory(&self.system);
        match here.stat_at(path, 0) {
            Ok(found) => return Ok(found.st_mode & libc::S_IFMT == libc::S_IFREG),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Ok(false),
            Err(_) => {}
        }
        if let Ok(target) = here.read_link_at(path) {
            let target = absolute(path, &target);
            if !IN_MEMORY.iter().any(|begin| target.starts_with(begin)) {
                return Ok(false);
            }
            self.make_parents(&target)?;
        } else {
            self.make_parents(path.to_bytes())?;
        }
        self.made.make_file(&self.system, path).map(|()| true)
    }

    fn make_parents(&self, path: &[u8]) -> io::Result<()> {
        match Path::new(OsStr::from_bytes(path)).parent() {
            Some(above) => self.made.make_directories(&self.system, above),
            None => Ok(()),
        }
    }
}

/// The target of a link at a path, without `.` and `..`.
fn absolute(path: &CStr, target: &CStr) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    let is_absolute = target.to_bytes().starts_with(b"/");
    let directory = path.to_bytes().split(|&byte| byte == b'/');
    let mut above: Vec<&[u8]> = directory.collect();
    above.pop();
    let begin = if is_absolute { Vec::new() } else { above };
    for part in begin
        .into_iter()
        .chain(target.to_bytes().split(|&byte| byte == b'/'))
    {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let with_slash = parts.iter().flat_map(|part| [b"/", *part].concat());
    with_slash.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_links() {
        let at = c"/etc/resolv.conf";
        for (target, wanted) in [
            (c"../run/systemd/resolve/stub", "/run/systemd/resolve/stub"),
            (c"/run/./a//b", "/run/a/b"),
            (c"../../../../run/../etc/x", "/etc/x"),
            (c"other", "/etc/other"),
        ] {
            let found = absolute(at, target);
            assert_eq!(String::from_utf8_lossy(&found), wanted);
        }
    }
}
