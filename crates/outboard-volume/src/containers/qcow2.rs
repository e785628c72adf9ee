// SPDX-License-Identifier: GPL-2.0-only
//! qcow2 images and what they are based on, by the crate imago.
//!
//! A qcow2 image names its backing file itself, and a stranger's image may name any file of this
//! host. So such a file is followed only if it lies in the image's own directory or below, symbolic
//! links resolved, or if the user allowed it by name. All files of a chain are opened before the
//! sandbox, backing files for reading alone.

use super::faults::{refused, warn_of_cut};
use super::image_options::ImageOptions;
use crate::image_file::open_image_file;
use imago::file::File as ImageFile;
use imago::format::PreallocateMode;
use imago::io_buffers::{IoVector, IoVectorMut};
use imago::qcow2::{Qcow2 as Driver, Qcow2CreateBuilder};
use imago::raw::Raw;
use imago::{DenyImplicitOpenGate, FormatAccess, FormatCreateBuilder, FormatDriverBuilder};
use outboard::{FileLock, Storage};
use outboard_error::format::escaped;
use outboard_error::{ErrorKind, Failure, Hint};
use outboard_image::{qcow2, Fault, FileSource};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// Most files of a chain.
const DEPTH: usize = 16;

/// One file of a chain.
struct Layer {
    file: File,
    path: PathBuf,
    is_qcow2: bool,
}

/// The files of an image: itself, what it is based on, what that is based on...
pub struct Chain {
    layers: Vec<Layer>,
}

fn wrong(kind: ErrorKind, text: impl Into<String>) -> io::Error {
    Failure::new(kind, text).into()
}

/// Whether a name is one of another kind than a file's, as in "nbd:..." or "json:{...}".
fn has_protocol(name: &[u8]) -> bool {
    let end = name.iter().position(|&byte| byte == b':' || byte == b'/');
    end.is_some_and(|end| name[end] == b':')
}

fn is_qcow2(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::FileExt;
    let mut magic = [0; 4];
    Ok(file.read_at(&mut magic, 0)? == 4 && magic == *b"QFI\xfb")
}

/// Finds a backing file, if it may be used. `image`: the path of the image that names it.
fn find_backing(name: &[u8], image: &Path, allowed: &[PathBuf]) -> io::Result<PathBuf> {
    let shown = escaped(name);
    if has_protocol(name) {
        return Err(wrong(
            ErrorKind::Unsupported,
            format!("it is based on \"{shown}\", which is not the name of a file"),
        ));
    }
    let directory = match image.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let cannot = |error: io::Error| {
        let what = format!("cannot open \"{shown}\", which it is based on");
        Failure::of(&error).after(what).into()
    };
    let home = directory.canonicalize()?;
    let joined = directory.join(OsStr::from_bytes(name));
    let is_allowed = |found: &Path| {
        let mut allowed = allowed.iter().filter_map(|path| path.canonicalize().ok());
        found.starts_with(&home) || allowed.any(|path| path == found)
    };
    let outside = || {
        let path = escaped(joined.as_os_str().as_bytes());
        let permit = Hint::Backing { path };
        let failure = Failure::hinted(ErrorKind::PermissionDenied, permit, |permit| {
            format!("it is based on \"{shown}\", which is not in its own directory: {permit}")
        });
        failure.into()
    };
    match joined.canonicalize() {
        Ok(found) if is_allowed(&found) => Ok(found),
        Ok(_) => Err(outside()),
        // Whether there is such a file elsewhere is none of the image's business.
        Err(_) if Path::new(OsStr::from_bytes(name)).is_absolute() => Err(outside()),
        Err(error) => Err(cannot(error)),
    }
}

/// The error of a backing file that begins like a qcow2 image.
fn refused_base(path: &Path, fault: &Fault) -> io::Error {
    let shown = path.display();
    let what = format!("its backing file {shown} begins as a qcow2 image does");
    let error = refused(what, fault);
    if matches!(fault, Fault::Unreadable(_)) {
        return error;
    }
    let failure = Failure::of(&error);
    let text = format!(
        "{} (if {shown} is a raw disk, write that into the image: qemu-img rebase -u -F raw -b \
         {shown} IMAGE)",
        failure.message()
    );
    failure.with_message(text).into()
}

/// The error of a backing file that another program has locked.
fn written_below(path: &Path) -> io::Error {
    let shown = path.display();
    let text = format!(
        "it is based on {shown}, which is in use by another program that may write to it; wait \
         until that has ended"
    );
    wrong(ErrorKind::Locked, text)
}

fn layer_format(file: &File, format: Option<&[u8]>) -> io::Result<bool> {
    match format {
        Some(b"qcow2") => Ok(true),
        Some(b"raw" | b"file") => Ok(false),
        None => is_qcow2(file),
        Some(other) => Err(wrong(
            ErrorKind::Unsupported,
            format!(
                "it is based on a file of the format {}, which is not supported",
                escaped(other)
            ),
        )),
    }
}

impl Chain {
    /// Opens all files of an image, which is open itself.
    pub fn open(file: File, path: &Path, options: &ImageOptions) -> io::Result<Self> {
        let mut layers = Vec::new();
        let mut next = Some((file, path.to_owned(), true));
        while let Some((file, path, is_qcow2)) = next.take() {
            if layers.len() == DEPTH {
                return Err(wrong(
                    ErrorKind::Damaged,
                    format!("it is based on more than {DEPTH} files, or on itself"),
                ));
            }
            if is_qcow2 {
                next = Self::next_layer(&file, &path, layers.is_empty(), options)?;
            }
            layers.push(Layer {
                file,
                path,
                is_qcow2,
            });
        }
        Ok(Self { layers })
    }

    /// The file that a qcow2 image is based on, its path, and whether it is one too.
    fn next_layer(
        file: &File,
        path: &Path,
        is_top: bool,
        options: &ImageOptions,
    ) -> io::Result<Option<(File, PathBuf, bool)>> {
        let source = FileSource::new(file.try_clone()?)?;
        let header = qcow2::read(&source).map_err(|fault| {
            if is_top {
                refused("a qcow2 image", &fault)
            } else {
                refused_base(path, &fault)
            }
        })?;
        if qcow2::is_cut(&source, &header)? {
            warn_of_cut(path);
        }
        let Some(name) = header.backing.filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let found = find_backing(&name, path, &options.backing)?;
        let opened = open_image_file(&found).map_err(|error| {
            let what = format!("cannot open {}, which it is based on", found.display());
            io::Error::from(Failure::of(&error).after(what))
        })?;
        let is_qcow2 = layer_format(&opened, header.backing_format.as_deref())?;
        Ok(Some((opened, found, is_qcow2)))
    }

    /// The image's own file.
    pub fn file(&self) -> &File {
        &self.layers[0].file
    }

    /// The files that it is based on.
    pub fn backing(&self) -> impl Iterator<Item = &File> {
        self.layers.iter().skip(1).map(|layer| &layer.file)
    }

    /// The same, as they were found. The first one is the one that the image names.
    pub fn backing_paths(&self) -> impl Iterator<Item = &Path> {
        self.layers.iter().skip(1).map(|layer| layer.path.as_path())
    }

    /// Whether the image can be written. Other things that are wrong are found when they are used.
    pub fn check_writable(&self) -> io::Result<()> {
        let source = FileSource::new(self.file().try_clone()?)?;
        qcow2::read(&source)
            .and_then(|header| qcow2::check_refcounts(&source, &header))
            .map_err(|fault| refused("a qcow2 image", &fault))
    }

    /// Locks the image like a raw one, unless that is `ours` already, and against writers what it
    /// is based on.
    pub fn lock(&self, write: bool, ours: bool) -> io::Result<Vec<FileLock>> {
        let lock = |(index, layer): (usize, &Layer)| {
            let locked = FileLock::new(layer.file.try_clone()?, write && index == 0);
            locked.map_err(|error| match error.raw_os_error() {
                Some(libc::EBUSY) if index > 0 => written_below(&layer.path),
                _ => error,
            })
        };
        let layers = self.layers.iter().enumerate();
        layers.skip(usize::from(ours)).map(lock).collect()
    }
}

type Disk = FormatAccess<ImageFile>;

fn open_layer(layer: &Layer, write: bool, backing: Option<Disk>) -> io::Result<Disk> {
    let file = ImageFile::try_from(layer.file.try_clone()?)?;
    let gate = DenyImplicitOpenGate::default();
    if !layer.is_qcow2 {
        return Ok(FormatAccess::new(Raw::builder(file).open(gate)?));
    }
    let driver = Driver::builder(file)
        .backing(backing)
        .data_file(None)
        .write(write)
        .open(gate)?;
    Ok(FormatAccess::new(driver))
}

/// Makes an empty file an image with an empty disk of this size.
pub fn create(file: File, size: u64) -> io::Result<()> {
    let file = ImageFile::try_from(file)?;
    let builder: Qcow2CreateBuilder<ImageFile> = Driver::<ImageFile>::create_builder(file);
    builder.size(size).create()
}

/// The same with a disk that has the bytes of a backing file so far.
pub fn create_overlay(file: File, size: u64, backing: String, format: &str) -> io::Result<()> {
    let file = ImageFile::try_from(file)?;
    let builder: Qcow2CreateBuilder<ImageFile> = Driver::<ImageFile>::create_builder(file);
    let builder = builder.backing(backing, format.to_owned());
    builder.size(size).create()
}

/// The disk in a qcow2 image.
pub struct Qcow2 {
    size: u64,
    /// All files, with their lengths when they were opened; 0 for block devices.
    files: Vec<(File, u64)>,
    /// Discarding changes where data is, and needs the disk for itself.
    disk: RwLock<Disk>,
}

impl Qcow2 {
    pub fn open(chain: &Chain, write: bool) -> io::Result<Self> {
        let mut disk = None;
        let mut files = Vec::new();
        for (index, layer) in chain.layers.iter().enumerate().rev() {
            disk = Some(open_layer(layer, write && index == 0, disk)?);
            files.push((layer.file.try_clone()?, layer.file.metadata()?.len()));
        }
        let disk = disk.expect("a chain has a file");
        Ok(Self {
            size: disk.size(),
            files,
            disk: RwLock::new(disk),
        })
    }

    /// Gives the disk another size, which is then on stable storage.
    pub fn set_size(self, size: u64) -> io::Result<()> {
        self.alone(|disk| {
            disk.resize(size, PreallocateMode::None)?;
            disk.flush()?;
            disk.sync()
        })
    }

    /// `EIO`: somebody has cut a file since it was opened. Reads would return zeroes for the
    /// missing part.
    fn check_size(&self) -> io::Result<()> {
        for (file, size) in &self.files {
            if file.metadata()?.len() < *size {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
        }
        Ok(())
    }

    fn shared<T>(&self, work: impl FnOnce(&Disk) -> io::Result<T>) -> io::Result<T> {
        work(&self.disk.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn alone<T>(&self, work: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        work(&mut self.disk.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Storage for Qcow2 {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, pieces: Vec<IoSliceMut<'_>>, offset: u64) -> io::Result<()> {
        self.shared(|disk| disk.readv(IoVectorMut::from(pieces), offset))?;
        self.check_size()
    }

    fn write_at(&self, pieces: Vec<IoSlice<'_>>, offset: u64) -> io::Result<()> {
        self.shared(|disk| disk.writev(IoVector::from(pieces), offset))
    }

    fn flush(&self) -> io::Result<()> {
        self.shared(|disk| {
            disk.flush()?;
            disk.sync()
        })
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let done = self.alone(|disk| disk.discard_to_any(offset, length));
        match done {
            // Old images with a backing file cannot forget. Nothing is lost by that but room.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            done => done,
        }
    }

    fn write_zeroes(&self, offset: u64, length: u64) -> io::Result<()> {
        let done = self.alone(|disk| disk.discard_to_zero(offset, length));
        match done {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
            }
            done => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_kinds_are_told() {
        for name in ["nbd:unix:/x", "json:{}", "http://x/y", ":"] {
            assert!(has_protocol(name.as_bytes()), "{name}");
        }
        for name in ["", "base.img", "./a:b", "/a:b", "a/b:c"] {
            assert!(!has_protocol(name.as_bytes()), "{name}");
        }
    }
}
