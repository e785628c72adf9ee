// SPDX-License-Identifier: GPL-2.0-only
//! Whole files and trees in one call, as the functions of [`std::fs`].

use crate::file::{open_no_fifo, File, OpenOptions};
use crate::invalid::invalid_data;
use crate::metadata::{FileType, Metadata};
use crate::tree::{ends_in_name, Tree};
use crate::walk::{Entry, Start, Step, Walk, ITSELF};
use crate::Fd;
use outboard_sys::{explained, libc};
use std::ffi::{CString, OsStr};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most bytes of a file that is read as a whole: a hostile image may have a file of any size.
const LARGEST: u64 = 1 << 30;
/// Bytes that a copy moves at once.
const PIECE: usize = 256 << 10;

/// The error of reading a file that has more bytes.
fn too_large(most: u64) -> io::Error {
    let text = format!("the file has more than {most} bytes, the most that are read at once");
    explained(io::Error::from_raw_os_error(libc::EFBIG), text)
}

impl Tree {
    /// Reads all of a file of at most 1 GiB; FileTooLarge for a larger one, which
    /// [`Tree::read_at_most`] and [`Tree::open`] read.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        self.read_at_most(path, LARGEST)
    }

    /// Reads all of a file of at most `most` bytes; FileTooLarge for a larger one.
    pub fn read_at_most(&self, path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
        let file = self.open(path)?;
        let size = file.metadata()?.len();
        let mut contents = Vec::new();
        // The size may be wrong, or that of a file which is growing.
        let mut rest = file.take(most.saturating_add(1));
        if size <= most {
            rest.read_to_end(&mut contents)?;
        }
        if size > most || contents.len() as u64 > most {
            Err(too_large(most))
        } else {
            Ok(contents)
        }
    }

    /// Reads all of a file that is UTF-8, of at most 1 GiB.
    pub fn read_to_string(&self, path: impl AsRef<Path>) -> io::Result<String> {
        let text = String::from_utf8(self.read(path)?);
        text.map_err(|_| invalid_data("the file is no text in UTF-8"))
    }

    /// Writes a file: a new one, or an old one in the place of its contents.
    pub fn write(&self, path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
        self.create(path)?.write_all(contents.as_ref())
    }

    /// Copies the contents and the permissions of a file in this tree. Returns the number of bytes.
    /// InvalidInput for what is no regular file.
    pub fn copy(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
        let mut source = self.open(from)?;
        let found = source.metadata()?;
        if !found.is_file() {
            let text = "only a regular file can be copied";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut copy = OpenOptions::new()
            .write(true)
            .create(true)
            .mode(0o600)
            .open(self, to)?;
        if same_file(&found, &copy.metadata()?) {
            let text = "a file cannot be copied onto itself";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        copy.set_len(0)?;
        let length = copy_bytes(&mut source, &mut copy)?;
        copy.set_permissions(found.permissions())?;
        Ok(length)
    }

    /// Whether there is a file of this name. A symbolic link that leads nowhere is none.
    pub fn exists(&self, path: impl AsRef<Path>) -> io::Result<bool> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes a directory, and those above it that are not there, with the permissions 0755.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let mut above = Vec::from_iter(path.ancestors());
        // The last one is empty or the root.
        above.pop();
        for directory in above.into_iter().rev() {
            match self.create_dir(directory) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if !self.metadata(directory)?.is_dir() {
                        return Err(error);
                    }
                }
                done => done?,
            }
        }
        Ok(())
    }

    /// Removes a directory and all in it, or another file. Symbolic links are not followed. EINVAL,
    /// before anything is removed, for a path that does not end in a name ("/", "a/..").
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> io::Result<()> {
        if !ends_in_name(path.as_ref()) {
            let text = "the path does not end in a name, so it cannot be removed";
            let error = io::Error::from_raw_os_error(libc::EINVAL);
            return Err(explained(error, text.to_owned()));
        }
        let mut walk = self.walk_from(path.as_ref())?;
        while let Some(step) = walk.next() {
            match step {
                Step::Found(entry) if entry.is_directory() => {}
                Step::Found(entry) => entry.directory.unlink_at(entry.name, 0)?,
                Step::Left(entry) => entry.directory.unlink_at(entry.name, libc::AT_REMOVEDIR)?,
                Step::Opened(_) => {}
                Step::Failed(_, error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Goes through a directory and all below it, beginning with the directory itself: each
    /// directory before what is in it, names in the order of their bytes. Symbolic links are not
    /// followed. The paths of the files begin with `path`.
    pub fn walk(&self, path: impl AsRef<Path>) -> io::Result<Files> {
        self.walk_from(path.as_ref()).map(|walk| Files { walk })
    }

    fn walk_from(&self, path: &Path) -> io::Result<Walk> {
        let (directory, name) = self.open_parent(path)?;
        let stat = directory.stat_at(&name, ITSELF)?;
        let start = Start {
            directory: Arc::new(directory),
            name,
            kind: stat.st_mode & libc::S_IFMT,
        };
        Ok(Walk::new(start, path.as_os_str().as_bytes().to_vec(), ()))
    }
}

fn same_file(a: &Metadata, b: &Metadata) -> bool {
    (a.device(), a.inode()) == (b.device(), b.inode())
}

fn copy_bytes(source: &mut File, copy: &mut File) -> io::Result<u64> {
    let mut buffer = vec![0; PIECE];
    let mut done = 0;
    loop {
        match source.read(&mut buffer)? {
            0 => return Ok(done),
            length => {
                copy.write_all(&buffer[..length])?;
                done += length as u64;
            }
        }
    }
}

/// Goes through a tree: see [`Tree::walk`]. A directory that cannot be listed gives an error, and
/// the walk goes on behind it.
pub struct Files {
    walk: Walk,
}

impl Files {
    /// Does not go into the directory that was returned last.
    pub fn skip_dir(&mut self) {
        self.walk.skip();
    }
}

impl Iterator for Files {
    type Item = io::Result<WalkEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.walk.next()? {
                Step::Found(entry) => return Some(Ok(WalkEntry::of(&entry))),
                Step::Opened(opened) => opened.names.sort(),
                Step::Left(_) => {}
                Step::Failed(entry, error) => {
                    let path = String::from_utf8_lossy(entry.path);
                    let text = format!("cannot list {path}: {error}");
                    return Some(Err(explained(error, text)));
                }
            }
        }
    }
}

/// A file that a walk has met.
#[derive(Clone, Debug)]
pub struct WalkEntry {
    path: PathBuf,
    directory: Arc<Fd>,
    name: CString,
    kind: u32,
    depth: usize,
}

impl WalkEntry {
    fn of(entry: &Entry) -> Self {
        Self {
            path: PathBuf::from(OsStr::from_bytes(entry.path)),
            directory: Arc::clone(entry.directory),
            name: entry.name.to_owned(),
            kind: entry.kind,
            depth: entry.depth,
        }
    }

    /// The file's path, which begins with that of the walk.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's own name. "." for the top of a walk that has no name ("/", "..").
    pub fn file_name(&self) -> &OsStr {
        OsStr::from_bytes(self.name.to_bytes())
    }

    /// How many directories are between it and the top of the walk; 0 for the top itself.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The kind of file, as its directory says; a symbolic link is one.
    pub fn file_type(&self) -> FileType {
        FileType::from_mode(self.kind)
    }

    /// Metadata of the file; a symbolic link is not followed.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.directory
            .stat_at(&self.name, ITSELF)
            .map(Metadata::from)
    }

    /// Opens the file for reading. ELOOP for a symbolic link, EOPNOTSUPP for a FIFO of an image.
    pub fn open(&self) -> io::Result<File> {
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW;
        let open = |flags| self.directory.open_at(&self.name, flags, 0);
        let opened = if self.directory.system().is_host() {
            open(flags)
        } else {
            open_no_fifo(flags, open)
        };
        opened.map(File::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostTree;
    use outboard_sys::errno;

    fn scratch(name: &str) -> PathBuf {
        let place = format!("outboard-contents-{name}-{}", std::process::id());
        let root = std::env::temp_dir().join(place);
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir(&root).unwrap();
        root
    }

    #[test]
    fn whole_files() {
        let (tree, root) = (HostTree.as_tree(), scratch("files"));
        let (file, copy) = (root.join("a"), root.join("b"));
        tree.write(&file, "text").unwrap();
        tree.set_permissions(&file, 0o751).unwrap();
        assert_eq!(tree.copy(&file, &copy).unwrap(), 4);
        assert_eq!(tree.read_to_string(&copy).unwrap(), "text");
        assert_eq!(tree.metadata(&copy).unwrap().permissions(), 0o751);
        tree.write(&file, "t").unwrap();
        tree.copy(&file, &copy).unwrap();
        assert_eq!(tree.read(&copy).unwrap(), b"t");
        assert_eq!(tree.read_at_most(&copy, 1).unwrap(), b"t");
        assert!(tree.read_at_most(&copy, 0).is_err());
        std::fs::File::create(root.join("huge"))
            .and_then(|huge| huge.set_len(1 << 40))
            .unwrap();
        let error = tree.read(root.join("huge")).unwrap_err();
        assert_eq!(errno(&error), Some(libc::EFBIG), "{error}");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        // It has no size, and no end.
        let error = tree.read_at_most("/dev/zero", 1 << 20).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let onto_itself = tree.copy(&file, &file).unwrap_err();
        assert_eq!(onto_itself.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(tree.read(&file).unwrap(), b"t");
        assert!(tree.copy(&root, root.join("c")).is_err());
        assert!(tree.exists(&copy).unwrap() && !tree.exists(root.join("c")).unwrap());
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn whole_trees() {
        let (tree, root) = (HostTree.as_tree(), scratch("trees"));
        let deep = root.join("a/b/c");
        tree.create_dir_all(&deep).unwrap();
        tree.create_dir_all(&deep).unwrap();
        tree.write(root.join("a/f"), "text").unwrap();
        for file in ["a/f", "a/f/g"] {
            let error = tree.create_dir_all(root.join(file)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{file}");
        }
        tree.symlink(&root, root.join("a/l")).unwrap();
        let entries = tree.walk(root.join("a")).unwrap();
        let entries = entries.collect::<io::Result<Vec<_>>>().unwrap();
        let names: Vec<&OsStr> = entries.iter().map(WalkEntry::file_name).collect();
        assert_eq!(names, ["a", "b", "c", "f", "l"]);
        let depths: Vec<usize> = entries.iter().map(WalkEntry::depth).collect();
        assert_eq!(depths, [0, 1, 2, 1, 1]);
        assert_eq!(entries[2].path(), deep);
        assert_eq!(entries[4].file_type(), FileType::Symlink);
        let mut text = String::new();
        entries[3]
            .open()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "text");
        assert!(entries[4].open().is_err());
        for path in ["a/..", "a/.", "a/b/../"] {
            let error = tree.remove_dir_all(root.join(path)).unwrap_err();
            assert_eq!(outboard_sys::errno(&error), Some(libc::EINVAL), "{path}");
            assert!(root.join("a/f").exists(), "{path}");
        }
        tree.remove_dir_all(root.join("a")).unwrap();
        assert!(root.exists() && !root.join("a").exists());
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn directories_are_skipped() {
        let (tree, root) = (HostTree.as_tree(), scratch("skip"));
        tree.create_dir_all(root.join("a/b")).unwrap();
        tree.create_dir_all(root.join("c")).unwrap();
        let mut files = tree.walk(&root).unwrap();
        let mut names = Vec::new();
        while let Some(entry) = files.next() {
            let entry = entry.unwrap();
            if entry.file_name() == "a" {
                files.skip_dir();
            }
            names.push(entry.file_name().to_owned());
        }
        assert_eq!(names[1..], ["a", "c"]);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
