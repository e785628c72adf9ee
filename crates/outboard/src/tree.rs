// SPDX-License-Identifier: GPL-2.0-only
//! A tree of files: that of a mounted image, or of a directory of the host. Both take the same
//! calls.

use crate::directory::ReadDir;
use crate::file::{open_no_fifo, timespec, File, OpenOptions};
use crate::metadata::Metadata;
use crate::path::{c_name, c_path};
use crate::{Fd, PathFd, System};
use outboard_sys::libc;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The files of a volume, or of a directory of the host ([`HostTree::directory`]). `/` is the root:
/// absolute symbolic links and `..` stay inside. Every function follows symbolic links except where
/// it says otherwise.
///
/// [`HostTree::directory`]: crate::HostTree::directory
#[derive(Debug)]
pub struct Tree {
    root: Fd,
    /// Nothing leads out of it. `false`: it is [`HostTree`](crate::HostTree)'s.
    confined: bool,
}

impl OpenOptions {
    /// Opens a file of a tree. A FIFO or socket of an image is
    /// an error (EOPNOTSUPP): nobody is at its other end.
    pub fn open(&self, tree: &Tree, path: impl AsRef<Path>) -> io::Result<File> {
        self.open_by(|flags, mode| {
            let open = |flags| tree.open_fd(path.as_ref(), flags, mode);
            if tree.system().is_host() {
                open(flags)
            } else {
                open_no_fifo(flags, open)
            }
        })
    }
}

/// The directory part of a path and its last name. "." where there is no last name.
fn split(path: &Path) -> (&Path, &OsStr) {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/');
    let bytes = end.map_or(&bytes[..0], |end| &bytes[..=end]);
    let (directory, name) = match bytes.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&bytes[..=slash], &bytes[slash + 1..]),
        None => (&bytes[..0], bytes),
    };
    if matches!(name, b"" | b"." | b"..") {
        return (path, OsStr::from_bytes(b"."));
    }
    (
        Path::new(OsStr::from_bytes(directory)),
        OsStr::from_bytes(name),
    )
}

/// Whether the last part of a path is the name of a file.
pub(crate) fn ends_in_name(path: &Path) -> bool {
    split(path).1 != "."
}

impl Tree {
    pub(crate) fn of_host() -> Self {
        Self {
            root: Fd::working_directory(&System::Host),
            confined: false,
        }
    }

    pub(crate) fn below(root: Fd) -> Self {
        Self {
            root,
            confined: true,
        }
    }

    /// Its root directory.
    #[doc(hidden)]
    pub fn root(&self) -> &Fd {
        &self.root
    }

    /// The kernel whose files these are.
    #[doc(hidden)]
    pub fn system(&self) -> &System {
        self.root.system()
    }

    /// Opens a file with `O_*` flags; `mode`: permissions of a new file.
    #[doc(hidden)]
    pub fn open_fd(&self, path: &Path, flags: i32, mode: u32) -> io::Result<Fd> {
        if !self.confined {
            return self.root.open_at(&c_path(path)?, flags, mode);
        }
        let path = if path.as_os_str().is_empty() {
            CString::from(c"/")
        } else {
            c_path(path)?
        };
        self.root.open_in_root(&path, flags, mode)
    }

    /// A file by its path, open with `O_PATH`; a last name that is a symbolic link is followed or
    /// not.
    #[doc(hidden)]
    pub fn open_path(&self, path: &Path, follow: bool) -> io::Result<PathFd> {
        let no_follow = if follow { 0 } else { libc::O_NOFOLLOW };
        PathFd::new(self.open_fd(path, libc::O_PATH | no_follow, 0)?)
    }

    /// Opens the directory that holds the last name of a path, and tells that name. The
    /// last name is not followed if it is a symbolic link. A path that ends in no name ("/", "..")
    /// is its own directory with the name ".".
    #[doc(hidden)]
    pub fn open_parent(&self, path: &Path) -> io::Result<(Fd, CString)> {
        let (directory, name) = split(path);
        let directory = if directory.as_os_str().is_empty() {
            Path::new(".")
        } else {
            directory
        };
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        let directory = self.open_fd(directory, flags, 0)?;
        Ok((directory, CString::new(name.as_bytes())?))
    }

    /// The target of a path whose last name is followed, too: a path without symbolic links, in
    /// this tree. ENOENT for a link that leads nowhere, ENXIO for what has no path (as a pipe).
    pub fn canonicalize(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        let file = self.open_fd(path.as_ref(), libc::O_PATH, 0)?;
        let real = |fd: &Fd| -> io::Result<Vec<u8>> {
            let link = CString::new(format!("/proc/self/fd/{}", fd.raw()))?;
            let found = Fd::working_directory(fd.system()).read_link_at(&link)?;
            Ok(found.into_bytes())
        };
        let found = real(&file)?;
        let inside = if self.confined {
            let root = real(&self.root)?;
            found.strip_prefix(root.as_slice()).unwrap_or(&found)
        } else {
            &found
        };
        let inside = if inside.is_empty() { b"/" } else { inside };
        if !inside.starts_with(b"/") {
            return Err(io::Error::from_raw_os_error(libc::ENXIO));
        }
        Ok(PathBuf::from(OsString::from_vec(inside.to_vec())))
    }

    /// Opens a file for reading.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).open(self, path)
    }

    /// Opens a file for writing: a new one with the permissions 0644, or an old one without its
    /// contents.
    pub fn create(&self, path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(self, path)
    }

    /// Lists a directory.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> io::Result<ReadDir> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        Ok(ReadDir::new(self.open_fd(path.as_ref(), flags, 0)?))
    }

    /// Metadata of a file.
    pub fn metadata(&self, path: impl AsRef<Path>) -> io::Result<Metadata> {
        let file = self.open_fd(path.as_ref(), libc::O_PATH, 0)?;
        file.stat().map(Metadata::from)
    }

    /// Metadata of the file itself, also if it is a symbolic link.
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> io::Result<Metadata> {
        let (directory, name) = self.open_parent(path.as_ref())?;
        directory
            .stat_at(&name, libc::AT_SYMLINK_NOFOLLOW)
            .map(Metadata::from)
    }

    /// The target of a symbolic link.
    pub fn read_link(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        let (directory, name) = self.open_parent(path.as_ref())?;
        let target = directory.read_link_at(&name)?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Makes a directory with the permissions 0755.
    pub fn create_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.create_dir_with_mode(path, 0o755)
    }

    /// Makes a directory with these permissions, whatever the process's umask is.
    pub fn create_dir_with_mode(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        let (directory, name) = self.open_parent(path.as_ref())?;
        directory.make_directory_at(&name, mode)
    }

    /// Makes a symbolic link at `path` that says `target`.
    pub fn symlink(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> io::Result<()> {
        let (directory, name) = self.open_parent(path.as_ref())?;
        directory.make_symlink_at(&c_path(target.as_ref())?, &name)
    }

    /// Makes `new` another name of the file `old`, which is not followed if it is a symbolic link.
    pub fn hard_link(&self, old: impl AsRef<Path>, new: impl AsRef<Path>) -> io::Result<()> {
        let (old_directory, old_name) = self.open_parent(old.as_ref())?;
        let (directory, name) = self.open_parent(new.as_ref())?;
        old_directory.link_at(&old_name, &directory, &name, 0)
    }

    /// Gives a file another name, also in another directory. A file of the new name is replaced.
    pub fn rename(&self, old: impl AsRef<Path>, new: impl AsRef<Path>) -> io::Result<()> {
        let (old_directory, old_name) = self.open_parent(old.as_ref())?;
        let (directory, name) = self.open_parent(new.as_ref())?;
        old_directory.rename_at(&old_name, &directory, &name, 0)
    }

    /// Removes a file that is not a directory; a symbolic link itself.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let (directory, name) = self.open_parent(path.as_ref())?;
        directory.unlink_at(&name, 0)
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let (directory, name) = self.open_parent(path.as_ref())?;
        directory.unlink_at(&name, libc::AT_REMOVEDIR)
    }

    /// Changes permissions: the low 12 bits of the mode. ELOOP for a symbolic link.
    pub fn set_permissions(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        let (directory, name) = self.open_parent(path.as_ref())?;
        let file = directory.open_path_at(&name)?;
        if file.stat()?.st_mode & libc::S_IFMT == libc::S_IFLNK {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        file.set_mode(mode)
    }

    /// Changes the owner; of a symbolic link, its own. `u32::MAX` leaves user or group as they are.
    pub fn chown(&self, path: impl AsRef<Path>, user: u32, group: u32) -> io::Result<()> {
        let (directory, name) = self.open_parent(path.as_ref())?;
        directory.set_owner_at(&name, user, group, libc::AT_SYMLINK_NOFOLLOW)
    }

    /// Sets the times of access and modification; of a symbolic link, its own.
    pub fn set_times(
        &self,
        path: impl AsRef<Path>,
        accessed: SystemTime,
        modified: SystemTime,
    ) -> io::Result<()> {
        let (directory, name) = self.open_parent(path.as_ref())?;
        let times = [timespec(accessed), timespec(modified)];
        directory.set_times_at(&name, &times, libc::AT_SYMLINK_NOFOLLOW)
    }

    /// Names of the extended attributes; of a symbolic link, its own.
    pub fn xattrs(&self, path: impl AsRef<Path>) -> io::Result<Vec<OsString>> {
        let (directory, name) = self.open_parent(path.as_ref())?;
        let names = directory.xattrs_at(&name)?.into_iter();
        Ok(names
            .map(|name| OsString::from_vec(name.into_bytes()))
            .collect())
    }

    /// The value of an extended attribute; of a symbolic link, its own.
    pub fn xattr(
        &self,
        path: impl AsRef<Path>,
        attribute: impl AsRef<OsStr>,
    ) -> io::Result<Vec<u8>> {
        let (directory, name) = self.open_parent(path.as_ref())?;
        directory.xattr_at(&name, &c_name(attribute.as_ref())?)
    }

    /// Sets an extended attribute; of a symbolic link, its own.
    pub fn set_xattr(
        &self,
        path: impl AsRef<Path>,
        attribute: impl AsRef<OsStr>,
        value: impl AsRef<[u8]>,
    ) -> io::Result<()> {
        let (directory, name) = self.open_parent(path.as_ref())?;
        directory.set_xattr_at(&name, &c_name(attribute.as_ref())?, value.as_ref(), 0)
    }

    /// Removes an extended attribute; of a symbolic link, its own.
    pub fn remove_xattr(
        &self,
        path: impl AsRef<Path>,
        attribute: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        let (directory, name) = self.open_parent(path.as_ref())?;
        let file = directory.open_path_at(&name)?;
        file.remove_xattr(&c_name(attribute.as_ref())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_at_their_last_name() {
        for (path, directory, name) in [
            ("/a/b", "/a/", "b"),
            ("/a/b//", "/a/", "b"),
            ("b", "", "b"),
            ("/b", "/", "b"),
            ("/", "/", "."),
            ("", "", "."),
            ("/a/..", "/a/..", "."),
            ("/a/.", "/a/.", "."),
        ] {
            let expected = (Path::new(directory), OsStr::new(name));
            assert_eq!(split(Path::new(path)), expected, "{path}");
        }
    }
}
