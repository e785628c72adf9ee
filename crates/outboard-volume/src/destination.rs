// SPDX-License-Identifier: GPL-2.0-only
//! Files of the host that commands write. One rule holds for all of them. Before an existing file
//! loses a byte or its name, the session compares its identity with every file of its images, and
//! checks its contents: disk images are never lost without --force, archives only to another
//! archive.
//!
//! Names are not compared: symbolic links, hard links, device nodes and loop devices lead to the
//! same bytes.

mod contents;

use crate::loop_devices::{devices_of_file, file_of_device, whole_and_partitions};
pub use contents::{archive_kind, describe};
use contents::{find, Found};
use outboard::Fd;
use outboard_error::{reason, Error, ErrorKind, Failure, Hint, Result};
use outboard_image::{FileSource, Source};
use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The identity of a file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Identity {
    /// Device and inode.
    File(u64, u64),
    /// The number of a block device.
    Device(u64),
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        if metadata.file_type().is_block_device() {
            Self::Device(metadata.rdev())
        } else {
            Self::File(metadata.dev(), metadata.ino())
        }
    }

    /// `None`: neither a regular file nor a block device, so nothing to overwrite.
    fn of_stat(stat: &libc::stat) -> Option<Self> {
        match stat.st_mode & libc::S_IFMT {
            libc::S_IFREG => Some(Self::File(stat.st_dev, stat.st_ino)),
            libc::S_IFBLK => Some(Self::Device(stat.st_rdev)),
            _ => None,
        }
    }
}

/// A file or block device, and those with the same bytes: loop devices, partitions, whole disks.
/// Empty for all other files.
fn with_relatives(metadata: &Metadata) -> Vec<Identity> {
    let kind = metadata.file_type();
    let devices = if kind.is_block_device() {
        whole_and_partitions(metadata.rdev())
    } else if kind.is_file() {
        let devices = devices_of_file((metadata.dev(), metadata.ino()));
        devices.into_iter().flat_map(whole_and_partitions).collect()
    } else {
        return Vec::new();
    };
    let mut all: Vec<Identity> = devices.into_iter().map(Identity::Device).collect();
    if kind.is_block_device() {
        let file = file_of_device(metadata.rdev());
        all.extend(file.as_ref().map(Identity::of));
    }
    all.push(Identity::of(metadata));
    all
}

/// Whether two files or block devices may have bytes in common: they are of one disk.
pub(crate) fn share_bytes(one: &Metadata, other: &Metadata) -> bool {
    let of_one = with_relatives(one);
    let of_other = with_relatives(other);
    of_other.iter().any(|identity| of_one.contains(identity))
}

/// The use of a file in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Image,
    /// An image is based on it.
    Backing,
    Disk,
    Key,
    Component,
    Input,
    /// A library has it open.
    Volume,
}

impl Use {
    fn text(self) -> String {
        let text = match self {
            Self::Image => "an image that this command uses",
            Self::Backing => "a file that an image of this command is based on",
            Self::Disk => return format!("a further disk of this command{}", Hint::FurtherDisk),
            Self::Key => "the key file of this command",
            Self::Component => "a component of this command",
            Self::Input => "what this command reads",
            Self::Volume => "a file of an open volume",
        };
        text.to_owned()
    }
}

/// The kinds of files that a command may overwrite besides plain ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// Nothing that looks like a disk image or an archive.
    Plain,
    /// An archive of this kind, too, as the new contents are.
    Archive(&'static str),
    /// An archive of the kinds that tar makes.
    TarArchive,
    /// All of them (--force).
    Everything,
}

impl Overwrite {
    /// Kinds of archives, and of compressed ones, that tar makes.
    const BY_TAR: [&str; 10] = [
        "tar", "gzip", "xz", "zstd", "bzip2", "lz4", "lzip", "lzma", "lzop", "compress",
    ];

    /// Everything with --force, else plain files.
    pub fn forced(force: bool) -> Self {
        if force {
            Self::Everything
        } else {
            Self::Plain
        }
    }

    fn allows(self, archive: &str) -> bool {
        match self {
            Self::Plain => false,
            Self::Archive(kind) => kind == archive,
            Self::TarArchive => Self::BY_TAR.contains(&archive),
            Self::Everything => true,
        }
    }
}

/// The files that a session uses, which it must not overwrite.
#[derive(Clone, Debug, Default)]
pub struct UsedFiles {
    /// Errors suggest no options of the program.
    in_library: bool,
    uses: HashMap<Identity, Use>,
    /// Files whose devices with the same bytes were added, too.
    known: HashSet<Identity>,
}

/// The files of the volumes that this process has open.
static OPEN_VOLUMES: Mutex<Vec<Weak<UsedFiles>>> = Mutex::new(Vec::new());

/// Notes the files of a volume that a library opens. They count as long as `files` exists.
pub(crate) fn note_volume(files: &Arc<UsedFiles>) {
    let mut open = OPEN_VOLUMES.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|files| files.strong_count() > 0);
    open.push(Arc::downgrade(files));
}

/// The files of all volumes that libraries have open in this process, also those that a parent had
/// open when it forked this process.
pub fn of_open_volumes() -> UsedFiles {
    let mut all = UsedFiles::in_library();
    let open = OPEN_VOLUMES.lock().unwrap_or_else(PoisonError::into_inner);
    for files in open.iter().filter_map(Weak::upgrade) {
        all.add_all(&files);
    }
    all
}

impl UsedFiles {
    /// Files for a library.
    pub(crate) fn in_library() -> Self {
        Self {
            in_library: true,
            ..Self::default()
        }
    }

    /// Examines files again that are added from now on: a loop device may have been attached.
    pub fn look_again(&mut self) {
        self.known.clear();
    }

    /// Adds a file. A missing file needs no protection: opening it reports the error.
    pub fn add(&mut self, path: &Path, used: Use) {
        if let Ok(metadata) = std::fs::metadata(path) {
            self.add_metadata(&metadata, used);
        }
    }

    /// Adds an open file, such as standard input.
    pub fn add_open(&mut self, file: impl AsFd, used: Use) {
        let copy = file.as_fd().try_clone_to_owned().map(File::from);
        if let Ok(metadata) = copy.and_then(|file| file.metadata()) {
            self.add_metadata(&metadata, used);
        }
    }

    /// Adds a file, and the devices that have the same bytes.
    pub fn add_metadata(&mut self, metadata: &Metadata, used: Use) {
        if self.known.insert(Identity::of(metadata)) {
            for identity in with_relatives(metadata) {
                self.insert(identity, used);
            }
        }
    }

    /// The first use of a file wins: messages name it.
    fn insert(&mut self, identity: Identity, used: Use) {
        self.uses.entry(identity).or_insert(used);
    }

    /// Adds the files of another session.
    pub fn add_all(&mut self, other: &Self) {
        for (identity, used) in &other.uses {
            self.insert(*identity, *used);
        }
    }

    /// Refuses to write an image that has another use in this command.
    pub fn check_image(&self, path: &Path) -> Result<()> {
        let found = std::fs::metadata(path).map(|metadata| Identity::of(&metadata));
        match found.ok().and_then(|identity| self.uses.get(&identity)) {
            None | Some(Use::Image) => Ok(()),
            Some(used) => Err(Error::known(
                ErrorKind::InUse,
                format!("cannot write to {}: it is {}", path.display(), used.text()),
            )),
        }
    }

    /// Whether the session uses this file.
    pub fn has(&self, path: &Path) -> bool {
        let found = std::fs::metadata(path);
        found.is_ok_and(|metadata| self.uses.contains_key(&Identity::of(&metadata)))
    }

    /// Checks that a file of the host may lose its contents.
    pub fn check(&self, stat: &libc::stat) -> io::Result<()> {
        Identity::of_stat(stat).map_or(Ok(()), |identity| self.check_identity(identity))
    }

    /// As `check`, for an open file.
    pub fn check_open(&self, file: &File) -> io::Result<()> {
        self.check_identity(Identity::of(&file.metadata()?))
    }

    fn check_identity(&self, identity: Identity) -> io::Result<()> {
        let Some(used) = self.uses.get(&identity) else {
            return Ok(());
        };
        let hint = if self.in_library {
            "name another file"
        } else {
            "name another file, or write IMAGE:/PATH for a place in an image"
        };
        let text = format!("it is {}: {hint}", used.text());
        Err(Failure::new(ErrorKind::InUse, text).into())
    }

    /// Refuses an archive that is an image of this command: it would change while it is read.
    pub fn check_source(&self, metadata: Option<&Metadata>, shown: &str) -> Result<()> {
        let identity = metadata.map(Identity::of);
        match identity.and_then(|identity| self.uses.get(&identity)) {
            Some(used @ (Use::Image | Use::Backing | Use::Volume)) => Err(Error::known(
                ErrorKind::InUse,
                format!("cannot unpack {shown}: it is {}", used.text()),
            )),
            _ => Ok(()),
        }
    }

    /// Refuses standard output into a used file, such as `>> disk.img`.
    pub fn check_output(&self) -> Result<()> {
        let found = Fd::standard(1).and_then(|output| output.stat());
        let checked = found.map_or(Ok(()), |stat| self.check(&stat));
        checked.map_err(|error| Error::failed("cannot write to standard output", &error))
    }

    /// Checks that another file may take a name of the host. Names in an image are free.
    pub fn check_name(&self, directory: &Fd, name: &CStr, what: Overwrite) -> io::Result<()> {
        if !directory.system().is_host() {
            return Ok(());
        }
        match directory.stat_at(name, libc::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => self.check_file(directory, name, &stat, what),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Opens a file for writing and empties it, if it may be overwritten.
    pub fn overwrite(&self, directory: &Fd, name: &CStr, what: Overwrite) -> io::Result<Fd> {
        let flags = libc::O_WRONLY | libc::O_NOFOLLOW;
        if !directory.system().is_host() {
            return directory.open_at(name, flags | libc::O_TRUNC, 0);
        }
        let file = directory.open_at(name, flags | libc::O_NOCTTY, 0)?;
        let stat = file.stat()?;
        self.check_file(directory, name, &stat, what)?;
        if stat.st_mode & libc::S_IFMT == libc::S_IFREG {
            file.truncate(0)?;
        }
        Ok(file)
    }

    /// As `overwrite`, for the file that a path of the host leads to.
    pub fn overwrite_path(&self, path: &Path, what: Overwrite) -> io::Result<File> {
        let file = self.open_path(path, what)?;
        if file.metadata()?.file_type().is_file() {
            file.set_len(0)?;
        }
        Ok(file)
    }

    /// Checks that the file of this path, if there is one, may lose its contents.
    pub fn check_path(&self, path: &Path, what: Overwrite) -> io::Result<()> {
        match std::fs::metadata(path) {
            Ok(found) if found.is_file() => self.open_path(path, what).map(drop),
            _ => Ok(()),
        }
    }

    /// Opens a file for writing, if it may be overwritten.
    fn open_path(&self, path: &Path, what: Overwrite) -> io::Result<File> {
        let file = File::options().write(true).open(path)?;
        let metadata = file.metadata()?;
        self.check_identity(Identity::of(&metadata))?;
        let kind = metadata.file_type();
        if what != Overwrite::Everything && (kind.is_file() || kind.is_block_device()) {
            if let Ok(readable) = File::open(path) {
                check_same(Identity::of(&readable.metadata()?) == Identity::of(&metadata))?;
                self.check_content(&FileSource::new(readable)?, what)?;
            }
        }
        Ok(file)
    }

    /// `stat`: of the file that has this name.
    fn check_file(
        &self,
        directory: &Fd,
        name: &CStr,
        stat: &libc::stat,
        what: Overwrite,
    ) -> io::Result<()> {
        self.check(stat)?;
        if what == Overwrite::Everything || Identity::of_stat(stat).is_none() {
            return Ok(());
        }
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        // The contents of a file without read permission are unknown.
        let Ok(file) = directory.open_at(name, flags, 0) else {
            return Ok(());
        };
        check_same(Identity::of_stat(&file.stat()?) == Identity::of_stat(stat))?;
        let size = file.seek(0, libc::SEEK_END)?;
        self.check_content(&FdSource { file: &file, size }, what)
    }

    /// Refuses contents that look like a disk image, a file system or an archive.
    fn check_content(&self, source: &impl Source, what: Overwrite) -> io::Result<()> {
        let (text, hint) = match find(source) {
            Ok(None) => return Ok(()),
            Ok(Some(Found::Archive(kind))) if what.allows(kind) => return Ok(()),
            Ok(Some(Found::Disk(kind))) => (
                format!("it looks like a disk image ({kind})"),
                Hint::OverwriteImage,
            ),
            Ok(Some(Found::Archive(kind))) => (
                format!("it is an archive ({kind}), and what is written is not"),
                Hint::OverwriteArchive,
            ),
            Err(error) => (
                format!(
                    "it may be a disk image, but it cannot be read: {}",
                    reason(&error)
                ),
                Hint::OverwriteFile,
            ),
        };
        let kind = ErrorKind::AlreadyExists;
        let failure = if self.in_library {
            Failure::new(kind, format!("{text}: remove it first, to replace it"))
        } else {
            Failure::hinted(kind, hint, |overwrite| format!("{text}: {overwrite}"))
        };
        Err(failure.into())
    }
}

fn check_same(same: bool) -> io::Result<()> {
    if same {
        Ok(())
    } else {
        Err(io::Error::other(
            "another file has taken its name meanwhile",
        ))
    }
}

/// The bytes of an open file, for parsers.
pub struct FdSource<'a> {
    pub file: &'a Fd,
    pub size: u64,
}

impl Source for FdSource<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard::HostTree;
    use std::ffi::CString;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    fn used(path: &Path) -> UsedFiles {
        let mut files = UsedFiles::default();
        files.add(path, Use::Image);
        files
    }

    fn overwrite(files: &UsedFiles, path: &Path, what: Overwrite) -> io::Result<Fd> {
        let (directory, name) = HostTree.open_parent(path)?;
        files.overwrite(&directory, &name, what)
    }

    #[test]
    fn used_files_are_kept_whatever_their_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("image"), b"bytes").unwrap();
        fs::hard_link(path("image"), path("hard")).unwrap();
        fs::write(path("other"), b"bytes").unwrap();
        let files = used(&path("image"));
        for name in ["image", "hard"] {
            assert!(
                overwrite(&files, &path(name), Overwrite::Everything).is_err(),
                "{name}"
            );
        }
        assert_eq!(fs::read(path("image")).unwrap(), b"bytes");
        assert!(overwrite(&files, &path("other"), Overwrite::Plain).is_ok());
        assert_eq!(fs::read(path("other")).unwrap(), b"");
    }

    #[test]
    fn files_of_open_volumes_count_while_they_are_open() {
        let image = tempfile::NamedTempFile::new().unwrap();
        let mut files = UsedFiles::in_library();
        files.add(image.path(), Use::Volume);
        let files = Arc::new(files);
        note_volume(&files);
        let refused = of_open_volumes().check_open(image.as_file()).unwrap_err();
        assert_eq!(ErrorKind::of(&refused), ErrorKind::InUse);
        drop(files);
        assert!(of_open_volumes().check_open(image.as_file()).is_ok());
    }

    #[test]
    fn images_need_force() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        let mut bytes = b"QFI\xfb".to_vec();
        bytes.resize(4096, 0);
        fs::write(&image, &bytes).unwrap();
        let files = UsedFiles::default();
        let (parent, _) = HostTree.open_parent(&image).unwrap();
        let name = CString::new(image.file_name().unwrap().as_bytes()).unwrap();
        for what in [Overwrite::Plain, Overwrite::TarArchive] {
            assert!(overwrite(&files, &image, what).is_err());
            assert!(files.check_name(&parent, &name, what).is_err());
        }
        assert_eq!(fs::read(&image).unwrap(), bytes);
        assert!(overwrite(&files, &image, Overwrite::Everything).is_ok());
    }

    #[test]
    fn an_archive_gives_way_to_its_own_kind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive");
        let zip = Overwrite::Archive("zip");
        for (magic, kind, by_tar) in [
            (b"PK\x03\x04".as_slice(), zip, false),
            (b"!<arch>\n", Overwrite::Archive("ar"), false),
            (b"\x28\xb5\x2f\xfd", Overwrite::Archive("zstd"), true),
        ] {
            let files = UsedFiles::default();
            fs::write(&path, magic).unwrap();
            assert!(overwrite(&files, &path, Overwrite::Plain).is_err());
            assert!(overwrite(&files, &path, Overwrite::Archive("cpio")).is_err());
            assert_eq!(fs::read(&path).unwrap(), magic);
            assert!(overwrite(&files, &path, kind).is_ok());
            fs::write(&path, magic).unwrap();
            let replaced = overwrite(&files, &path, Overwrite::TarArchive);
            assert_eq!(replaced.is_ok(), by_tar);
        }
    }
}
