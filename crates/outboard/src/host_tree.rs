// SPDX-License-Identifier: GPL-2.0-only
//! The host's files, and what they have in common with those of a volume.

use crate::tree::Tree;
use crate::Fd;
use outboard_sys::libc;
use std::ffi::CString;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::OnceLock;

/// The host's files, as this process sees them, as one end of a transfer. Other work on them is for
/// [`std::fs`].
///
/// A path is the host's own: it may be relative to the working directory, and symbolic links lead
/// wherever they say.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostTree;

impl HostTree {
    /// A directory of the host as a tree of its own: absolute symbolic links and `..` stay inside.
    pub fn directory(path: impl AsRef<Path>) -> io::Result<Tree> {
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        HostTree.open_fd(path.as_ref(), flags, 0).map(Tree::below)
    }

    /// The host's files for code that treats both kinds of trees alike.
    #[doc(hidden)]
    pub fn as_tree(&self) -> &'static Tree {
        static HOST: OnceLock<Tree> = OnceLock::new();
        HOST.get_or_init(Tree::of_host)
    }

    /// Opens a file with `O_*` flags; `mode`: permissions of a new file.
    #[doc(hidden)]
    pub fn open_fd(&self, path: &Path, flags: i32, mode: u32) -> io::Result<Fd> {
        self.as_tree().open_fd(path, flags, mode)
    }

    /// Opens the directory that holds the last name of a path, and tells that name.
    #[doc(hidden)]
    pub fn open_parent(&self, path: &Path) -> io::Result<(Fd, CString)> {
        self.as_tree().open_parent(path)
    }
}

/// One end of a transfer: the host's files ([`HostTree`]), or those of a volume: a [`Tree`], and
/// all that dereferences to one.
pub trait AnyTree {
    #[doc(hidden)]
    fn any_tree(&self) -> &Tree;
}

impl AnyTree for HostTree {
    fn any_tree(&self) -> &Tree {
        self.as_tree()
    }
}

impl AnyTree for Tree {
    fn any_tree(&self) -> &Tree {
        self
    }
}

impl<T: Deref<Target = Tree>> AnyTree for T {
    fn any_tree(&self) -> &Tree {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard_test_images::Work;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_leads_out_of_a_directory() {
        let work = Work::new();
        let [inside, outside] = ["in", "outside"].map(|name| work.path(name));
        fs::create_dir(&inside).unwrap();
        fs::write(&outside, "text").unwrap();
        symlink(&outside, inside.join("absolute")).unwrap();
        symlink("../outside", inside.join("relative")).unwrap();
        let tree = HostTree::directory(&inside).unwrap();
        for path in ["absolute", "relative", "../outside", "/../outside"] {
            let found = tree.read(path).map_err(|error| error.kind());
            assert_eq!(found, Err(io::ErrorKind::NotFound), "{path}");
        }
        assert!(tree.read(&outside).is_err(), "its root is the directory");
        // The host's own tree has no walls.
        for path in [inside.join("absolute"), inside.join("relative"), outside] {
            assert_eq!(HostTree.any_tree().read(&path).unwrap(), b"text");
        }
    }
}
