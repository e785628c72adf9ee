// SPDX-License-Identifier: GPL-2.0-only
//! Images in other formats than raw: what a file is, and how the disk in it is read and written.
//!
//! 1. Before the sandbox ([`Container::find`]): our own parsers detect the format by the first
//!    bytes; files that a qcow2 image is based on are opened, by the rules of `qcow2`; `convert`
//!    has QEMU's tool make a raw copy, sandboxed.
//! 2. Inside ([`Container::content`]): everything that looks deeper. A qcow2 image is read and
//!    written by the crate imago, a vhd image by `vhd`, and both are served to the kernel; a
//!    compressed one is decompressed into a file that has no name.

mod compressed;
#[cfg(feature = "convert")]
mod convert;
mod faults;
mod gzip;
mod image_options;
mod qcow2;
mod vhd;

use compressed::Compressed;
pub use compressed::{beginning, read_block};
use faults::warn_of_cut;
pub use gzip::GzipReader;
pub use image_options::ImageOptions;
use outboard::{DeviceSource, Fd, FileLock, Storage};
use outboard_error::{ErrorKind, Failure};
use outboard_image::{file_format, FileSource, Source};
use qcow2::{Chain, Qcow2};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vhd::Vhd;

/// Bytes of a sector of the disks that the program serves to the kernel.
const SERVED_SECTOR: u64 = 512;

/// An image's file, opened, and the others that it is made of.
pub enum Container {
    Raw(File),
    Qcow2(Chain),
    Vhd(File),
    Compressed(Compressed),
    /// The file itself, its format, and a raw copy of the disk in it.
    Converted(File, &'static str, File),
}

/// The disk in an image.
pub enum Content {
    /// Byte by byte what is in a file.
    File(RawFile),
    Served(Arc<dyn Storage>),
    /// A disk that the kernel has from a server.
    Device(DeviceSource),
}

/// A file whose bytes are a disk's.
pub struct RawFile {
    source: FileSource,
    file: File,
    sector_size: u64,
}

impl RawFile {
    fn new(file: &File) -> io::Result<Self> {
        let source = FileSource::new(file.try_clone()?)?;
        let sector_size = if file.metadata()?.file_type().is_block_device() {
            Fd::from(OwnedFd::from(file.try_clone()?)).sector_size()?
        } else {
            source.sector_size()
        };
        Ok(Self {
            source,
            file: file.try_clone()?,
            sector_size,
        })
    }

    /// How the kernel's host opens it, as long as this lives.
    pub fn path(&self) -> PathBuf {
        format!("/dev/fd/{}", self.file.as_raw_fd()).into()
    }
}

/// The name of an open file's format, if it is one that is opened in another way than a raw disk.
pub fn format_of(file: &File, options: &ImageOptions) -> io::Result<Option<&'static str>> {
    const KNOWN: [&str; 8] = ["qcow2", "vhd", "gzip", "xz", "zstd", "vmdk", "vdi", "vhdx"];
    let found = file_format(&FileSource::new(file.try_clone()?)?)?;
    Ok(found.filter(|kind| !options.raw && KNOWN.contains(kind)))
}

/// Whether images of a format can be written; `None`: raw ones.
pub fn check_format_writable(format: Option<&str>) -> io::Result<()> {
    match format {
        None | Some("qcow2" | "vhd") => Ok(()),
        Some("container") => Err(read_only(
            "an image of a container can only be read: make a disk image of its files".to_owned(),
        )),
        Some(kind @ ("gzip" | "xz" | "zstd")) => Err(read_only(format!(
            "an image that {kind} has compressed can only be read: decompress it first"
        ))),
        Some(kind) => Err(read_only(format!(
            "{kind} images can only be read: make an image of another format with qemu-img convert \
             -O qcow2"
        ))),
    }
}

fn read_only(text: String) -> io::Error {
    Failure::new(ErrorKind::ReadOnly, text).into()
}

/// Makes an empty file a vhd image with an empty disk of this size. `identity`: its UUID.
pub fn create_vhd(file: &File, size: u64, identity: [u8; 16]) -> io::Result<()> {
    vhd::create(file, size, identity)
}

/// Makes an empty file a qcow2 image with an empty disk of this size.
pub fn create_qcow2(file: File, size: u64) -> io::Result<()> {
    qcow2::create(file, size)
}

/// Makes an empty file a qcow2 image whose disk, of this size, is that of another image so far.
/// `format`: "raw" or "qcow2".
pub fn create_overlay(file: File, size: u64, backing: String, format: &str) -> io::Result<()> {
    qcow2::create_overlay(file, size, backing, format)
}

impl Container {
    /// Finds out what an open file is.
    pub fn find(file: File, path: &Path, options: &ImageOptions) -> io::Result<Self> {
        Ok(match format_of(&file, options)? {
            Some("qcow2") => Self::Qcow2(Chain::open(file, path, options)?),
            Some("vhd") => {
                if vhd::check(&file)? {
                    warn_of_cut(path);
                }
                Self::Vhd(file)
            }
            Some(kind @ ("gzip" | "xz" | "zstd")) => {
                Self::Compressed(Compressed::new(file, path, kind)?)
            }
            #[cfg(feature = "convert")]
            Some(kind) => {
                let raw = convert::to_raw(&file, path, kind)?;
                Self::Converted(file, kind, raw)
            }
            #[cfg(not(feature = "convert"))]
            Some(kind) => {
                let text = format!(
                    "{}: {kind} images cannot be opened here: make an image of another format \
                     with qemu-img convert -O qcow2",
                    path.display()
                );
                return Err(Failure::new(ErrorKind::Unsupported, text).into());
            }
            None => Self::Raw(file),
        })
    }

    /// The image's own file.
    pub fn file(&self) -> &File {
        match self {
            Self::Raw(file) | Self::Vhd(file) | Self::Converted(file, ..) => file,
            Self::Qcow2(chain) => chain.file(),
            Self::Compressed(compressed) => compressed.file(),
        }
    }

    fn chain(&self) -> Option<&Chain> {
        match self {
            Self::Qcow2(chain) => Some(chain),
            _ => None,
        }
    }

    /// The files that the image is based on.
    pub fn backing(&self) -> impl Iterator<Item = &File> {
        self.chain().into_iter().flat_map(Chain::backing)
    }

    /// Their paths.
    pub fn backing_paths(&self) -> impl Iterator<Item = &Path> {
        self.chain().into_iter().flat_map(Chain::backing_paths)
    }

    /// The name of its format, if it is not raw.
    pub fn format(&self) -> Option<&'static str> {
        match self {
            Self::Raw(_) => None,
            Self::Qcow2(_) => Some("qcow2"),
            Self::Vhd(_) => Some("vhd"),
            Self::Compressed(compressed) => Some(compressed.kind()),
            Self::Converted(_, kind, _) => Some(kind),
        }
    }

    /// Whether images of its format can be written.
    pub fn check_format(&self) -> io::Result<()> {
        match self {
            Self::Qcow2(_) => Ok(()),
            _ => check_format_writable(self.format()),
        }
    }

    /// Whether it can be written, as far as the format matters. To be asked under the lock: another
    /// writer has tables that are not counted yet.
    pub fn check_writable(&self) -> io::Result<()> {
        match self {
            Self::Qcow2(chain) => chain.check_writable(),
            Self::Vhd(file) => vhd::check_writable(file),
            _ => self.check_format(),
        }
    }

    /// Gives the disk another size. Data beyond a smaller size is lost.
    pub fn set_size(&self, size: u64) -> io::Result<()> {
        match self {
            Self::Raw(file) => file.set_len(size).and_then(|()| file.sync_all()),
            Self::Qcow2(chain) => Qcow2::open(chain, true)?.set_size(size),
            Self::Vhd(file) => vhd::resize::set_size(file, size),
            _ => Err(io::Error::from_raw_os_error(libc::EROFS)),
        }
    }

    /// The disk in it.
    pub fn content(&self, write: bool) -> io::Result<Content> {
        match self {
            Self::Raw(file) | Self::Converted(_, _, file) => Ok(Content::File(RawFile::new(file)?)),
            Self::Qcow2(chain) => Ok(Content::Served(Arc::new(Qcow2::open(chain, write)?))),
            Self::Vhd(file) => Ok(Content::Served(Arc::new(Vhd::open(file)?))),
            Self::Compressed(compressed) => {
                Ok(Content::File(RawFile::new(compressed.decompressed()?)?))
            }
        }
    }

    /// Locks what the kernel does not: files that it does not see itself. `ours`: the command has
    /// locked the image's own.
    pub fn lock(&self, write: bool, ours: bool) -> io::Result<Vec<FileLock>> {
        match self {
            Self::Raw(_) => Ok(Vec::new()),
            Self::Qcow2(chain) => chain.lock(write, ours),
            Self::Vhd(file) => vhd::lock(file, write, ours),
            _ if ours => Ok(Vec::new()),
            _ => Ok(vec![FileLock::new(self.file().try_clone()?, false)?]),
        }
    }
}

impl Content {
    /// Makes durable what was written. The kernel's disks do it themselves; this is for what is
    /// left after the last one.
    pub fn flush(&self) -> io::Result<()> {
        match self {
            Self::File(_) | Self::Device(_) => Ok(()),
            Self::Served(disk) => disk.flush(),
        }
    }
}

impl Source for Content {
    fn size(&self) -> u64 {
        match self {
            Self::File(file) => file.source.size(),
            Self::Served(disk) => disk.size(),
            Self::Device(device) => device.size(),
        }
    }

    fn sector_size(&self) -> u64 {
        match self {
            Self::File(file) => file.sector_size,
            Self::Served(_) => SERVED_SECTOR,
            Self::Device(device) => device.sector_size(),
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::File(file) => file.source.read_at(buffer, offset),
            Self::Device(device) => device.read_at(buffer, offset),
            Self::Served(disk) => {
                let left = disk.size().saturating_sub(offset);
                let length = left.min(buffer.len() as u64) as usize;
                disk.read_at(vec![IoSliceMut::new(&mut buffer[..length])], offset)?;
                Ok(length)
            }
        }
    }
}
