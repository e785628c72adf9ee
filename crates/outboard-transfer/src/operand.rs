// SPDX-License-Identifier: GPL-2.0-only
//! Files in images that operands name, as commands reach them: by an open directory and a name in
//! it.

pub use outboard::walk::ITSELF;
use outboard::{Fd, Tree};
use outboard_error::format::escaped;
use outboard_volume::address::Place;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// A file. An empty name means what `directory` is open on, which then may be no directory.
pub struct Named {
    pub directory: Fd,
    pub name: CString,
    pub stat: libc::stat,
}

impl Named {
    /// Finds the file of an operand. A symbolic link is followed on request, or if the operand ends
    /// in a slash: then it must lead to a directory.
    pub fn find(tree: &Tree, place: &Place, follow: bool) -> io::Result<Self> {
        let (directory, name) = tree.open_parent(place.path())?;
        let stat = directory.stat_at(&name, ITSELF)?;
        let slash = ends_with_slash(place);
        let found = if is_link(&stat) && (follow || slash) {
            Self::behind(tree, place)?
        } else {
            Self {
                directory,
                name,
                stat,
            }
        };
        if slash && !is_directory(&found.stat) {
            return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
        }
        Ok(found)
    }

    /// The target of a symbolic link.
    fn behind(tree: &Tree, place: &Place) -> io::Result<Self> {
        let directory = tree.open_fd(place.path(), libc::O_PATH, 0)?;
        Ok(Self {
            stat: directory.stat()?,
            directory,
            name: CString::default(),
        })
    }

    /// Finds the name that a command changes, removes or creates. "." and ".." are refused. A name
    /// with a slash at its end must be a directory, not a link to one. The file need not exist.
    pub fn to_change(tree: &Tree, place: &Place) -> io::Result<(Fd, CString)> {
        let (directory, name) = tree.open_parent(place.path())?;
        if name.as_c_str() == c"." {
            return Err(io::Error::other(
                "the root, \".\" and \"..\" cannot be removed, moved or made",
            ));
        }
        if ends_with_slash(place) {
            match directory.stat_at(&name, ITSELF) {
                Ok(stat) if !is_directory(&stat) => {
                    return Err(io::Error::from_raw_os_error(libc::ENOTDIR))
                }
                _ => {}
            }
        }
        Ok((directory, name))
    }
}

/// Whether there is a file of this name.
pub fn exists(directory: &Fd, name: &CStr) -> io::Result<bool> {
    match directory.stat_at(name, ITSELF) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Calls `make` with a name that no file in this directory has, and returns that name: for a file
/// that replaces another one once it is complete.
pub fn with_new_name<T>(
    directory: &Fd,
    make: impl Fn(&CStr) -> io::Result<T>,
) -> io::Result<(CString, T)> {
    for number in 0..1000 {
        let name = CString::new(format!(".outboard-{}-{number}", std::process::id()))?;
        if exists(directory, &name)? {
            continue;
        }
        match make(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(value) => return Ok((name, value)),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EEXIST))
}

/// Whether the path of a place ends with a slash: it must be a directory.
pub fn ends_with_slash(place: &Place) -> bool {
    place.path().as_os_str().as_bytes().ends_with(b"/")
}

/// Whether the file is a directory.
pub fn is_directory(stat: &libc::stat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFDIR
}

/// Whether the file is a symbolic link.
pub fn is_link(stat: &libc::stat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFLNK
}

/// The last name of a path.
pub fn base_name(path: &[u8]) -> &[u8] {
    let end = path
        .iter()
        .rposition(|&byte| byte != b'/')
        .map_or(0, |last| last + 1);
    let start = path[..end]
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |slash| slash + 1);
    &path[start..end]
}

/// A name as it is; for a terminal with escapes for bytes that could confuse it.
pub fn shown_name(name: &[u8], terminal: bool) -> Vec<u8> {
    if terminal {
        escaped(name).into_bytes()
    } else {
        name.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_names() {
        for (path, name) in [
            ("/a/b", "b"),
            ("/a/b//", "b"),
            ("b", "b"),
            ("/", ""),
            ("", ""),
        ] {
            assert_eq!(base_name(path.as_bytes()), name.as_bytes(), "{path}");
        }
    }

    #[test]
    fn names() {
        assert_eq!(shown_name(b"a\x1b\xffb", false), b"a\x1b\xffb");
        assert_eq!(
            shown_name(b"a\x1b\xff\xc3\xa9", true),
            "a\\u{1b}\\xff\u{e9}".as_bytes()
        );
    }
}
