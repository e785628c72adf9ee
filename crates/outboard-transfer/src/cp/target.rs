// SPDX-License-Identifier: GPL-2.0-only
//! The target of a copy.

use crate::operand::{base_name, ends_with_slash};
use outboard::{Fd, Tree};
use outboard_error::{Error, ErrorKind, Result};
use outboard_volume::address::Place;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The destination: a directory, and a name in it unless the destination is the directory itself.
pub struct CopyTarget<'a> {
    /// The destination, as the user named it.
    pub place: &'a Place,
    pub directory: Arc<Fd>,
    name: Option<CString>,
    /// The name is a link to a pipe, as /dev/stdout may be.
    pub pipe: bool,
    /// The directory, as the user would write it.
    pub operand: Vec<u8>,
}

impl<'a> CopyTarget<'a> {
    /// The target of a command: copies get the destination's name, or their sources' names in it if
    /// it is a directory. `sources`: how many there are.
    pub fn find(tree: &Tree, place: &'a Place, sources: usize) -> Result<Self> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        match tree.open_fd(place.path(), flags, 0) {
            Ok(directory) => Ok(Self {
                place,
                directory: Arc::new(directory),
                name: None,
                pipe: false,
                operand: place.operand(),
            }),
            Err(error) => {
                check_name(tree, place, sources, &error)?;
                let (path, pipe) = follow(tree, place)?;
                Self::of_name(tree, place, &path, pipe)
            }
        }
    }

    /// The target of exactly this path: a directory is merged into one that is there.
    pub fn exact(tree: &Tree, place: &'a Place) -> Result<Self> {
        Self::of_name(tree, place, place.path(), false)
    }

    fn of_name(tree: &Tree, place: &'a Place, path: &Path, pipe: bool) -> Result<Self> {
        let opened = tree.open_parent(path);
        let (directory, name) = opened.map_err(|error| cannot_write(place, &error))?;
        Ok(Self {
            place,
            directory: Arc::new(directory),
            name: Some(name),
            pipe,
            operand: place.parent().operand(),
        })
    }

    /// The name of a source's copy. `None`: its contents go into the directory.
    pub fn name_of(&self, source: &Place) -> Option<CString> {
        let own = || own_name(source.path());
        self.name.clone().or_else(own)
    }

    /// Checks that the copy may be no directory.
    pub fn check_file(&self) -> Result<()> {
        if self.name.is_some() && ends_with_slash(self.place) {
            let error = io::Error::from_raw_os_error(libc::ENOTDIR);
            let text = format!("cannot write to {}", self.place.shown());
            return Err(Error::failed(text, &error));
        }
        Ok(())
    }
}

fn cannot_write(place: &Place, error: &io::Error) -> Error {
    Error::of_file("cannot write to", place.operand(), error)
}

/// Checks that a destination can be the name of a copy. `error`: why it cannot be opened as a
/// directory.
fn check_name(tree: &Tree, place: &Place, sources: usize, error: &io::Error) -> Result<()> {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) if sources > 1 => {
            let shown = place.shown();
            let text = if tree.symlink_metadata(place.path()).is_ok() {
                format!("{shown} is not a directory")
            } else {
                format!("{shown} is not there: several files need a directory")
            };
            Err(Error::known(ErrorKind::Usage, text).about(place.operand()))
        }
        Some(libc::ENOTDIR) if ends_with_slash(place) => Err(cannot_write(place, error)),
        Some(libc::ENOENT | libc::ENOTDIR) => Ok(()),
        _ => Err(cannot_write(place, error)),
    }
}

/// The path that symbolic links at the end of a destination lead to, and whether they lead to a
/// pipe: that has no path.
fn follow(tree: &Tree, place: &Place) -> Result<(PathBuf, bool)> {
    let own = || place.path().to_path_buf();
    match tree.canonicalize(place.path()) {
        Ok(path) => Ok((path, false)),
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok((own(), true)),
        Err(_) if tree.symlink_metadata(place.path()).is_ok() => {
            let shown = place.shown();
            let text = format!("cannot write to {shown}: it is a symbolic link that leads nowhere");
            Err(Error::known(ErrorKind::NotFound, text))
        }
        Err(_) => Ok((own(), false)),
    }
}

/// The name of a source's copy in the destination directory. `None`: the contents of the source go
/// there, as for "dir/." and the root of an image.
pub fn own_name(path: &Path) -> Option<CString> {
    match base_name(path.as_os_str().as_bytes()) {
        b"" | b"." | b".." => None,
        name => CString::new(name).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sources() {
        let name = |path: &str| own_name(Path::new(path)).map(|name| name.into_string().unwrap());
        assert_eq!(name("/a/b"), Some("b".into()));
        assert_eq!(name("b//"), Some("b".into()));
        for path in ["/", "a/.", "..", "//"] {
            assert_eq!(name(path), None);
        }
    }
}
