// SPDX-License-Identifier: GPL-2.0-only
//! Images whose files were opened before the sandbox, which would not let them be opened by name.

use crate::container_image::is_container_image;
use crate::containers::{check_format_writable, Container, Content, ImageOptions};
use crate::destination::{share_bytes, Use, UsedFiles};
use crate::image_file::{in_use, open_image_file, split_hint};
use crate::image_lock::{self, ImageLock};
use crate::loop_devices::check_detached;
use crate::servers::{self, MountServer};
use crate::undo;
use outboard::FileLock;
use outboard_error::{Error, ErrorKind, Failure};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The name of the format of images of containers.
const CONTAINER: &str = "container";

/// An image as it could be opened.
pub struct HeldImage {
    path: PathBuf,
    /// For reading, and also for writing if `writable` says so.
    container: io::Result<Container>,
    writable: io::Result<()>,
    /// Its file had a name when it was opened.
    has_name: bool,
    /// Bytes of its file when it was opened.
    length: u64,
    /// The server of a mount of it: the sandbox hides other processes later.
    server: Option<MountServer>,
    split: Option<String>,
}

/// An error again: they cannot be copied.
fn again(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => Failure::of(error).into(),
    }
}

/// The host refuses to open a device that is in use, if it is asked like this.
fn flags_for_writing(path: &Path) -> i32 {
    match std::fs::metadata(path) {
        Ok(found) if found.file_type().is_block_device() => libc::O_EXCL,
        _ => 0,
    }
}

fn has_name(container: &Container) -> bool {
    let found = container.file().metadata();
    found.is_ok_and(|found| found.nlink() > 0)
}

/// See [`undo`].
fn undo_half_change(path: &Path, write: bool) -> io::Result<()> {
    if !write || !undo::exists(path) {
        return Ok(());
    }
    ImageLock::undo(path).map_err(|error| Failure::from(error).into())
}

/// Bytes of an image's own file; 0 for a block device.
fn length(container: &Container) -> u64 {
    container.file().metadata().map_or(0, |found| found.len())
}

impl HeldImage {
    /// Opens an image's file. An error is kept for those who ask for the image.
    pub fn open(path: &Path, write: bool, options: &ImageOptions) -> Self {
        if is_container_image(path) {
            return Self::of_container(path, options);
        }
        let mut writable = Err(io::Error::from_raw_os_error(libc::EBADF));
        let mut file = None;
        if let Err(error) = undo_half_change(path, write && !options.read_only) {
            return Self {
                path: path.to_owned(),
                container: Err(error),
                writable,
                has_name: false,
                length: 0,
                server: None,
                split: None,
            };
        }
        // Only the type of file that can be an image is opened: with others, opening has effects.
        let readable = open_image_file(path);
        if write && readable.is_ok() {
            match File::options()
                .read(true)
                .write(true)
                .custom_flags(flags_for_writing(path))
                .open(path)
            {
                Ok(both) => {
                    writable = check_detached(&both);
                    file = Some(both);
                }
                Err(error) => writable = Err(error),
            }
        }
        let container = file
            .map_or(readable, Ok)
            .and_then(|file| Container::find(file, path, options));
        if let (Ok(container), true) = (&container, write) {
            writable = container.check_format().and(writable);
        }
        Self {
            path: path.to_owned(),
            has_name: container.as_ref().is_ok_and(has_name),
            length: container.as_ref().map_or(0, length),
            container,
            writable,
            server: servers::of_image(path),
            split: split_hint(path),
        }
    }

    /// An image of a container, of which somebody has made a file system before.
    fn of_container(path: &Path, options: &ImageOptions) -> Self {
        let mut images = options.container_images.iter();
        let missing = || {
            let text = "it is the image of a container, which can only be opened when a command \
                        begins: name it on the command line";
            Failure::new(ErrorKind::Unsupported, text).into()
        };
        let ready = images.find(|image| image.name == path).ok_or_else(missing);
        let container = ready.and_then(|image| image.file.try_clone().map(Container::Raw));
        Self {
            path: path.to_owned(),
            has_name: false,
            length: container.as_ref().map_or(0, length),
            container,
            writable: check_format_writable(Some(CONTAINER)),
            server: None,
            split: None,
        }
    }

    /// Advice for a file that is but a piece of an image.
    pub fn split(&self) -> Option<String> {
        self.split.clone()
    }

    /// Somebody else has it.
    pub fn in_use(&self, write: bool) -> Error {
        in_use(&self.path, write, self.server.as_ref())
    }

    fn container(&self) -> io::Result<&Container> {
        self.container.as_ref().map_err(again)
    }

    /// Device and inode of the image's own file.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        let metadata = self.container()?.file().metadata()?;
        Ok((metadata.dev(), metadata.ino()))
    }

    /// The name of the format, if it is not raw.
    pub fn format(&self) -> Option<&'static str> {
        self.container.as_ref().ok().and_then(Container::format)
    }

    /// The files that the image is based on, the one that it names first.
    pub fn backing_paths(&self) -> Vec<PathBuf> {
        let container = self.container.as_ref().ok();
        let paths = container.into_iter().flat_map(Container::backing_paths);
        paths.map(Path::to_owned).collect()
    }

    /// The disk in the image.
    pub fn content(&self, write: bool) -> io::Result<Content> {
        self.container()?.content(write)
    }

    /// See [`Container::set_size`].
    pub fn set_size(&self, size: u64) -> io::Result<()> {
        self.container()?.set_size(size)
    }

    /// See [`Container::lock`].
    pub fn lock(&self, write: bool) -> io::Result<Vec<FileLock>> {
        let ours = image_lock::is_ours(self.identity()?);
        self.container()?.lock(write, ours)
    }

    /// Locks all of its files against writers, for a disk that the kernel does not open itself.
    pub fn lock_to_serve(&self) -> io::Result<Vec<FileLock>> {
        let ours = image_lock::is_ours(self.identity()?);
        match self.container()? {
            Container::Raw(file) if !ours => Ok(vec![FileLock::new(file.try_clone()?, false)?]),
            other => other.lock(false, ours),
        }
    }

    /// An error if what was found when it was opened, without a lock, may not be so any more: that
    /// it is not half changed, and can be written.
    pub fn check_locked(&self, write: bool) -> io::Result<()> {
        let container = self.container()?;
        undo::check_open(container.file())?;
        if write {
            container.check_writable()
        } else {
            Ok(())
        }
    }

    /// Whether it can also be written, else why not.
    pub fn writable(&self) -> io::Result<()> {
        self.writable.as_ref().copied().map_err(again)
    }
}

/// All images of a run.
#[derive(Default)]
pub struct HeldImages {
    images: Vec<HeldImage>,
    /// Pairs of images that may have bytes in common, though they are two files.
    shared: Vec<[(u64, u64); 2]>,
}

/// The pairs of images on one disk. Of two regular files, none has bytes of the other.
fn pairs_of_one_disk(images: &[HeldImage]) -> Vec<[(u64, u64); 2]> {
    let found = |image: &HeldImage| {
        let metadata = image.container().ok()?.file().metadata().ok()?;
        Some(((metadata.dev(), metadata.ino()), metadata))
    };
    let found: Vec<_> = images.iter().filter_map(found).collect();
    let is_device = |metadata: &Metadata| metadata.file_type().is_block_device();
    let mut pairs = Vec::new();
    for (index, (one, of_one)) in found.iter().enumerate() {
        for (other, of_other) in &found[..index] {
            let has_device = is_device(of_one) || is_device(of_other);
            if one != other && has_device && share_bytes(of_one, of_other) {
                pairs.push([*one, *other]);
            }
        }
    }
    pairs
}

impl HeldImages {
    /// Opens them. An image that cannot be opened is an error only when it is used.
    pub fn open(paths: &[(PathBuf, bool)], options: &ImageOptions) -> Self {
        let mut wanted: Vec<(&Path, bool)> = Vec::new();
        for (path, write) in paths {
            match wanted.iter_mut().find(|(known, _)| known == path) {
                Some((_, written)) => *written |= write,
                None => wanted.push((path, *write)),
            }
        }
        let open = |(path, write): (&Path, bool)| HeldImage::open(path, write, options);
        let images: Vec<HeldImage> = wanted.into_iter().map(open).collect();
        Self {
            shared: pairs_of_one_disk(&images),
            images,
        }
    }

    /// Whether two images may have bytes in common.
    pub fn share_bytes(&self, one: (u64, u64), other: (u64, u64)) -> bool {
        let mut pairs = self.shared.iter();
        pairs.any(|pair| *pair == [one, other] || *pair == [other, one])
    }

    fn containers(&self) -> impl Iterator<Item = &Container> {
        let images = self.images.iter();
        images.filter_map(|image| image.container.as_ref().ok())
    }

    /// Adds what the images are made of, and are based on.
    pub fn add_to(&self, used: &mut UsedFiles) {
        for container in self.containers() {
            for file in container.backing() {
                used.add_open(file, Use::Backing);
            }
            used.add_open(container.file(), Use::Image);
        }
    }

    /// The same, where all of them have one use.
    pub fn add_all_to(&self, used: &mut UsedFiles, what: Use) {
        for container in self.containers() {
            for file in container.backing().chain([container.file()]) {
                used.add_open(file, what);
            }
        }
    }

    /// The image whose file has this device and inode.
    fn of_identity(&self, identity: (u64, u64)) -> Option<&HeldImage> {
        let mut images = self.images.iter();
        images.find(|image| image.identity().is_ok_and(|found| found == identity))
    }

    /// Whether the file of this device and inode had a name when it was opened, and has none now.
    pub fn has_lost_name(&self, identity: (u64, u64)) -> bool {
        let image = self.of_identity(identity);
        image.is_some_and(|image| image.has_name && !image.container().is_ok_and(has_name))
    }

    /// Bytes of the file of this device and inode; 0 if nobody knows them.
    pub fn length(&self, identity: (u64, u64)) -> u64 {
        let image = self.of_identity(identity);
        image.map_or(0, |image| image.container().map_or(0, length))
    }

    /// Whether the file of this device and inode is shorter than it was when it was opened.
    pub fn is_cut(&self, identity: (u64, u64)) -> bool {
        let image = self.of_identity(identity);
        image.is_some_and(|image| self.length(identity) < image.length)
    }

    /// The image of this name, if it was opened.
    pub fn find(&self, path: &Path) -> Option<&HeldImage> {
        self.images.iter().find(|image| image.path == path)
    }
}
