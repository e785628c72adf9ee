// SPDX-License-Identifier: GPL-2.0-only
//! The directories of members. They stay open, so that the path of each member need not be resolved
//! from the top.
//!
//! A path never leads out of the destination: each name is looked up in the open directory before
//! it, and a symbolic link on the way is resolved as if the destination were the root.

use super::flights::Identity;
use crate::made::{Claim, MadeNames, Origin};
use outboard::Fd;
use outboard_error::{ErrorKind, Failure};
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::Arc;

/// Directories that stay open.
const OPEN: usize = 1000;
const FLAGS: i32 = libc::O_RDONLY | libc::O_DIRECTORY;
/// Permissions of a directory that the archive does not describe.
const IMPLIED: u32 = 0o755;
/// Permissions of a new directory, until it gets its own.
const FIRST: u32 = 0o700;

pub struct ExtractedDirectory {
    pub fd: Arc<Fd>,
    pub identity: Identity,
    /// Its path in the archive.
    path: Arc<Vec<u8>>,
    /// The names that members have made in it.
    made: Arc<MadeNames>,
}

impl ExtractedDirectory {
    fn new(fd: Fd, path: &[u8], made: Arc<MadeNames>) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            identity: identity(&fd)?,
            fd: Arc::new(fd),
            path: Arc::new(path.to_vec()),
            made,
        }))
    }

    /// Claims a name for a member. A later member of the same name may replace it.
    pub fn claim<'a>(&'a self, name: &'a CStr) -> Claim<'a> {
        let origin = Origin::Directory(Arc::clone(&self.path));
        self.made.claim(name, origin)
    }

    /// Fails if the file of this name is one that a member of another name has made.
    pub fn check_own_name(&self, name: &CStr) -> io::Result<()> {
        self.claim(name).check_existing(&self.fd).map_err(|_| {
            let text = "that name means another file here".to_owned();
            Failure::new(ErrorKind::AlreadyExists, text).into()
        })
    }

    fn open(&self, name: &CStr) -> io::Result<Fd> {
        self.fd.open_at(name, FLAGS | libc::O_NOFOLLOW, 0)
    }

    fn make(&self, name: &CStr, mode: u32) -> io::Result<()> {
        self.fd.make_directory_at(name, mode)
    }
}

fn identity(fd: &Fd) -> io::Result<Identity> {
    let stat = fd.stat()?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Normalises the path of a member to names with single slashes between them. The empty path is the
/// destination itself. `None`: the path contains ".." or a NUL.
pub fn clean(path: &[u8]) -> Option<Vec<u8>> {
    let mut names = Vec::with_capacity(path.len());
    for name in path.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => continue,
            b".." => return None,
            _ if name.contains(&0) => return None,
            _ if !names.is_empty() => names.push(b'/'),
            _ => {}
        }
        names.extend_from_slice(name);
    }
    Some(names)
}

/// The directory part and the last name of a clean path.
pub fn split(path: &[u8]) -> (&[u8], CString) {
    let (parent, name) = match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&path[..0], path),
    };
    (parent, CString::new(name).unwrap_or_default())
}

pub struct Directories {
    root: Arc<ExtractedDirectory>,
    known: HashMap<Vec<u8>, Arc<ExtractedDirectory>>,
    /// The names made in each directory, whatever path leads there: several paths do if the
    /// destination has symbolic links. File systems that number an inode anew have none of them;
    /// there the table of the parent leads to that of a directory (see [`Claim::known`]).
    tables: HashMap<Identity, Arc<MadeNames>>,
}

/// Waits until no thread writes a file of this name; without a name, until no thread writes any
/// file.
pub type Settle<'a> = &'a mut dyn FnMut(Option<(&ExtractedDirectory, &CStr)>);

impl Directories {
    pub fn new(root: Fd) -> io::Result<Self> {
        let root = Self::root(root)?;
        Ok(Self {
            tables: HashMap::from([(root.identity, Arc::clone(&root.made))]),
            root,
            known: HashMap::new(),
        })
    }

    fn root(root: Fd) -> io::Result<Arc<ExtractedDirectory>> {
        let made = MadeNames::of_existing(&root, true)?;
        ExtractedDirectory::new(root, b"", made)
    }

    pub fn knows(&self, path: &[u8]) -> bool {
        self.known.contains_key(path)
    }

    /// Drops all open directories: a path may lead to another directory now, or to none.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    fn remember(&mut self, path: &[u8], directory: &Arc<ExtractedDirectory>) {
        if self.known.len() >= OPEN {
            self.known.clear();
        }
        self.known.insert(path.to_vec(), Arc::clone(directory));
    }

    /// The directory of a path; creates missing directories.
    pub fn find(&mut self, path: &[u8], settle: Settle) -> io::Result<Arc<ExtractedDirectory>> {
        self.walk(path, true, settle)
    }

    /// The directory of a path, if it exists.
    pub fn existing(&mut self, path: &[u8], settle: Settle) -> io::Result<Arc<ExtractedDirectory>> {
        self.walk(path, false, settle)
    }

    fn walk(
        &mut self,
        path: &[u8],
        make: bool,
        settle: Settle,
    ) -> io::Result<Arc<ExtractedDirectory>> {
        if path.is_empty() {
            return Ok(Arc::clone(&self.root));
        }
        if let Some(directory) = self.known.get(path) {
            return Ok(Arc::clone(directory));
        }
        let mut end = path.len();
        let mut here = loop {
            match path[..end].iter().rposition(|&byte| byte == b'/') {
                None => {
                    end = 0;
                    break Arc::clone(&self.root);
                }
                Some(slash) => end = slash,
            }
            if let Some(directory) = self.known.get(&path[..end]) {
                break Arc::clone(directory);
            }
        };
        while end < path.len() {
            let start = if end == 0 { 0 } else { end + 1 };
            let next = path[start..].iter().position(|&byte| byte == b'/');
            end = next.map_or(path.len(), |length| start + length);
            let name = CString::new(&path[start..end])?;
            here = self.step(&here, &name, &path[..end], make, settle)?;
            self.remember(&path[..end], &here);
        }
        Ok(here)
    }

    /// Enters one name. `path`: the whole path so far.
    fn step(
        &mut self,
        parent: &ExtractedDirectory,
        name: &CStr,
        path: &[u8],
        make: bool,
        settle: Settle,
    ) -> io::Result<Arc<ExtractedDirectory>> {
        settle(Some((parent, name)));
        match parent.open(name) {
            Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
                parent.make(name, IMPLIED)?;
                self.enter_new(&parent.claim(name), parent, path)
            }
            Err(error) if is_other(&error) => {
                settle(None);
                self.follow(path)
            }
            other => self.enter_open(parent, name, path, other?),
        }
    }

    /// The directory of this name, which a member has just made. `path`: its whole path.
    fn enter_new(
        &mut self,
        claim: &Claim,
        parent: &ExtractedDirectory,
        path: &[u8],
    ) -> io::Result<Arc<ExtractedDirectory>> {
        let fd = parent.open(claim.name())?;
        let made = claim.keep_directory(&fd, true)?;
        let directory = ExtractedDirectory::new(fd, path, made)?;
        // The number may have been that of a directory that is gone.
        let made = Arc::clone(&directory.made);
        self.tables.insert(directory.identity, made);
        Ok(directory)
    }

    /// The directory of this name, which is open.
    fn enter_open(
        &mut self,
        parent: &ExtractedDirectory,
        name: &CStr,
        path: &[u8],
        fd: Fd,
    ) -> io::Result<Arc<ExtractedDirectory>> {
        let claim = parent.claim(name);
        let made = match claim.known() {
            Some(made) => made,
            None => {
                claim.check_existing(&parent.fd)?;
                let made = self.table(&fd)?;
                claim.keep_known_directory(Arc::clone(&made));
                made
            }
        };
        ExtractedDirectory::new(fd, path, made)
    }

    /// The names made in a directory that no member has made, or that a link leads to.
    fn table(&mut self, fd: &Fd) -> io::Result<Arc<MadeNames>> {
        let identity = identity(fd)?;
        if let Some(made) = self.tables.get(&identity) {
            return Ok(Arc::clone(made));
        }
        let made = MadeNames::of_existing(fd, true)?;
        self.tables.insert(identity, Arc::clone(&made));
        Ok(made)
    }

    /// The directory that a path with symbolic links leads to.
    fn follow(&mut self, path: &[u8]) -> io::Result<Arc<ExtractedDirectory>> {
        let fd = self.open(path)?;
        let made = self.table(&fd)?;
        ExtractedDirectory::new(fd, path, made)
    }

    fn open(&self, path: &[u8]) -> io::Result<Fd> {
        let path = CString::new(path)?;
        self.root.fd.open_in_root(&path, FLAGS, 0)
    }

    /// Creates or opens the directory of a member. It replaces other files of that name; with
    /// `keep_links`, it keeps a symbolic link to a directory.
    pub fn make(
        &mut self,
        path: &[u8],
        keep_links: bool,
        settle: Settle,
    ) -> io::Result<Arc<ExtractedDirectory>> {
        if path.is_empty() {
            return Ok(Arc::clone(&self.root));
        }
        let (parent_path, name) = split(path);
        let parent = self.find(parent_path, settle)?;
        settle(Some((&parent, &name)));
        let made = match parent.make(&name, FIRST) {
            Ok(()) => self.enter_new(&parent.claim(&name), &parent, path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match parent.open(&name) {
                    Err(error) if is_other(&error) => {
                        self.replace(&parent, &name, path, keep_links, settle)
                    }
                    other => self.enter_open(&parent, &name, path, other?),
                }
            }
            Err(error) => Err(error),
        }?;
        self.remember(path, &made);
        Ok(made)
    }

    /// Creates a directory in place of another file.
    fn replace(
        &mut self,
        parent: &ExtractedDirectory,
        name: &CStr,
        path: &[u8],
        keep_links: bool,
        settle: Settle,
    ) -> io::Result<Arc<ExtractedDirectory>> {
        settle(None);
        let claim = parent.claim(name);
        claim.check_existing(&parent.fd)?;
        if keep_links {
            if let Ok(directory) = self.follow(path) {
                return Ok(directory);
            }
        }
        self.forget();
        parent.fd.unlink_at(name, 0)?;
        parent.make(name, FIRST)?;
        self.enter_new(&claim, parent, path)
    }

    /// The directory that an earlier member created. `None`: a later member has taken its name. No
    /// thread writes any more. Its path may be longer than a call takes: it is walked name by name.
    pub fn again(&mut self, path: &[u8], identity: Identity) -> io::Result<Option<Arc<Fd>>> {
        match self.existing(path, &mut |_| ()) {
            Err(error) if is_other(&error) => Ok(None),
            found => {
                let found = found?;
                Ok((found.identity == identity).then(|| Arc::clone(&found.fd)))
            }
        }
    }
}

/// Whether the error means that a name is not a directory.
fn is_other(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOTDIR | libc::ELOOP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard::System;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_directory_that_is_gone_is_told() {
        let path = std::env::temp_dir().join(format!("outboard-{}-again", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        let here = Fd::working_directory(&System::Host);
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        let mut directories = Directories::new(here.open_at(&name, FLAGS, 0).unwrap()).unwrap();
        let made = directories.make(b"a", false, &mut |_| ()).unwrap();
        directories.forget();
        let again = |directories: &mut Directories| {
            directories.forget();
            directories.again(b"a", made.identity)
        };
        assert!(again(&mut directories).unwrap().is_some());
        std::fs::remove_dir(path.join("a")).unwrap();
        assert!(again(&mut directories).is_err());
        std::fs::write(path.join("a"), b"a later member").unwrap();
        assert!(again(&mut directories).unwrap().is_none());
        let inside = directories.existing(b"b/c", &mut |_| ());
        assert!(inside.is_err() && !path.join("b").exists());
        std::fs::remove_dir_all(&path).unwrap();
    }

    /// So deep that directories are closed, and that no call takes the path as a whole.
    #[test]
    fn deep_directories_are_found_again() {
        System::Host.raise_file_limit(4096).unwrap();
        let work = tempfile::tempdir().unwrap();
        let here = Fd::working_directory(&System::Host);
        let name = CString::new(work.path().as_os_str().as_bytes()).unwrap();
        let mut directories = Directories::new(here.open_at(&name, FLAGS, 0).unwrap()).unwrap();
        let path = b"/deep".repeat(3 * OPEN / 2);
        let mut made = Vec::new();
        for depth in (1..=3 * OPEN / 2).step_by(OPEN / 4) {
            let path = &path[1..5 * depth];
            let directory = directories.make(path, false, &mut |_| ()).unwrap();
            made.push((path, directory.identity));
        }
        assert!(made
            .iter()
            .any(|(path, _)| path.len() > libc::PATH_MAX as usize));
        for (path, identity) in made {
            assert!(directories.again(path, identity).unwrap().is_some());
        }
        assert!(directories.known.len() <= OPEN);
    }

    #[test]
    fn paths_are_cleaned() {
        for (path, expected) in [
            ("a/b", Some("a/b")),
            ("./a//b/", Some("a/b")),
            ("/a/./b", Some("a/b")),
            ("./", Some("")),
            ("/", Some("")),
            ("a/../b", None),
            ("..", None),
            ("a\0b", None),
            ("..a/b..", Some("..a/b..")),
        ] {
            let cleaned = clean(path.as_bytes());
            assert_eq!(cleaned.as_deref(), expected.map(str::as_bytes), "{path}");
        }
    }
}
