// SPDX-License-Identifier: GPL-2.0-only
//! The source of a volume's bytes.

use super::end::{cannot_read, open_device, shown, Device, End};
use crate::stream::{read_in_order, ReadError};
use outboard::image::partition::read_table;
use outboard::image::{probe, Class, Source};
use outboard::Fd;
use outboard_error::{Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::destination::FdSource;
use outboard_volume::session::Session;
use outboard_volume::standard_input::StandardInput;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

/// Bytes that are read at once from what is no file.
const PIECE: usize = 512 << 10;

/// An open source.
pub struct BytesSource {
    shown: String,
    size: Option<u64>,
    reader: Reader,
    device: Option<Device>,
}

enum Reader {
    /// The same file, open once for each thread that reads.
    File(Vec<Fd>),
    /// An input that can only be read in order, and its first piece.
    Stream(Box<dyn Read>, Vec<u8>),
}

/// An error of reading, or of what is done with a piece.
enum Stop {
    Reading(io::Error),
    Taking(Error),
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Self {
        Self::Reading(error.0)
    }
}

impl BytesSource {
    pub fn open(session: &mut Session, end: &End, interrupt: &Interrupt) -> Result<Self> {
        match end {
            End::Volume(name) => {
                let device = open_device(session, name, false)?;
                Self::volume(device, session.vcpus())
            }
            End::File(path) => Self::file(path, interrupt),
            End::Standard => Self::standard(interrupt),
        }
    }

    fn volume(device: Device, threads: u32) -> Result<Self> {
        let opened = (0..threads.max(1)).map(|_| device.device.open());
        let files = opened.collect::<io::Result<Vec<Fd>>>();
        Ok(Self {
            shown: device.shown.clone(),
            size: Some(device.size()?),
            reader: Reader::File(files.map_err(|error| cannot_read(&device.shown, &error))?),
            device: Some(device),
        })
    }

    fn file(path: &Path, interrupt: &Interrupt) -> Result<Self> {
        let shown = shown(path);
        let open = || -> io::Result<(Option<u64>, Reader)> {
            let file = Fd::from(std::os::fd::OwnedFd::from(File::open(path)?));
            match file.stat()?.st_mode & libc::S_IFMT {
                libc::S_IFDIR => Err(io::Error::from_raw_os_error(libc::EISDIR)),
                libc::S_IFREG | libc::S_IFBLK => {
                    let size = file.seek(0, libc::SEEK_END)?;
                    Ok((Some(size), Reader::File(vec![file])))
                }
                _ => {
                    let stream = StandardInput::of_file(&File::open(path)?, interrupt)?;
                    Ok((None, Reader::Stream(Box::new(stream), Vec::new())))
                }
            }
        };
        let (size, reader) = open().map_err(|error| cannot_read(&shown, &error))?;
        Ok(Self {
            shown,
            size,
            reader,
            device: None,
        })
    }

    fn standard(interrupt: &Interrupt) -> Result<Self> {
        let stream = StandardInput::open(interrupt)?;
        Ok(Self {
            shown: "standard input".to_owned(),
            size: rest_of_standard_input(),
            reader: Reader::Stream(Box::new(stream), Vec::new()),
            device: None,
        })
    }

    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// `None`: nobody knows before the end.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// The volume, if this is one.
    pub fn device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    /// Whether the bytes begin as those of a file system, of an encrypted volume or of a disk do.
    pub fn is_like_a_volume(&mut self) -> Result<bool> {
        let failed = |error| cannot_read(&self.shown, &error);
        match &mut self.reader {
            Reader::File(files) => {
                let size = self.size.unwrap_or(0);
                let source = FdSource {
                    file: &files[0],
                    size,
                };
                looks_like_a_volume(&source).map_err(failed)
            }
            Reader::Stream(stream, first) => {
                *first = read_piece(&mut **stream).map_err(failed)?;
                looks_like_a_volume(first.as_slice()).map_err(failed)
            }
        }
    }

    /// Hands all bytes to `take`, piece by piece.
    pub fn read(&mut self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let done = match &mut self.reader {
            Reader::File(files) => read_in_order(files, |piece| take(piece).map_err(Stop::Taking)),
            Reader::Stream(stream, first) => read_stream(&mut **stream, first, take),
        };
        done.map_err(|stop| match stop {
            Stop::Reading(error) => cannot_read(&self.shown, &error),
            Stop::Taking(error) => error,
        })
    }
}

/// The bytes that are left in a file as standard input; `None` for a pipe or a terminal.
fn rest_of_standard_input() -> Option<u64> {
    let file = Fd::from(io::stdin().as_fd().try_clone_to_owned().ok()?);
    let stat = file.stat().ok()?;
    let is_file = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
    let position = file.seek(0, libc::SEEK_CUR).ok().filter(|_| is_file)?;
    Some((stat.st_size as u64).saturating_sub(position))
}

fn read_stream(
    stream: &mut dyn Read,
    first: &mut Vec<u8>,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> std::result::Result<(), Stop> {
    let mut piece = std::mem::take(first);
    loop {
        if piece.is_empty() {
            piece = read_piece(stream).map_err(Stop::Reading)?;
        }
        take(&piece).map_err(Stop::Taking)?;
        if piece.len() < PIECE {
            return Ok(());
        }
        piece.clear();
    }
}

/// A full piece, or what there is before the end.
fn read_piece(stream: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut piece = Vec::with_capacity(PIECE);
    stream.take(PIECE as u64).read_to_end(&mut piece)?;
    Ok(piece)
}

/// Whether these are the bytes of a file system, of an encrypted volume or of a disk; archives and
/// images in other formats than raw are files.
fn looks_like_a_volume<S: Source + ?Sized>(source: &S) -> io::Result<bool> {
    Ok(match probe(source)? {
        Some(found) => found.class != Class::Wrapped,
        None => read_table(source)?.is_some(),
    })
}
