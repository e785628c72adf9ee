// SPDX-License-Identifier: GPL-2.0-only
//! Raw images that are compressed as a whole: they are decompressed, once, into a file that has no
//! name. Holes take the place of zeroes. The file is made before the sandbox, and filled inside of
//! it.

use super::gzip::GzipReader;
use crate::temporary;
use liblzma::stream::{Stream, CONCATENATED};
use outboard::stopped;
use outboard_error::format;
use outboard_error::{front, reason, ErrorKind, Failure};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

/// Zeroes of this length that are aligned to it become holes.
const BLOCK: usize = 64 << 10;
/// Most bytes of a decompressed disk. A few kilobytes can stand for any number of zeroes.
const LARGEST: u64 = 8 << 40;
/// Most bytes of memory that xz and zstd may take: as much as their highest levels need.
const XZ_MEMORY: u64 = 1 << 30;
const ZSTD_WINDOW_LOG: u32 = 27;

pub struct Compressed {
    kind: &'static str,
    /// The file, for warnings.
    name: String,
    file: File,
    raw: File,
    done: OnceLock<Result<(), Failure>>,
}

/// A file without a name for a disk's bytes, in the directory for temporary files.
pub(super) fn temporary_file() -> io::Result<File> {
    let directory = temporary::large_place();
    tempfile::tempfile_in(&directory).map_err(|error| temporary::failure(&directory, error))
}

/// Bytes of a file from its start. The front gets their count.
struct Input {
    file: File,
    progress: Box<dyn Fn(u64) + Send>,
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        (self.progress)(length as u64);
        Ok(length)
    }
}

/// `name`: the file, for warnings; `None`: no warnings.
fn decoder<'a>(
    kind: &str,
    input: impl Read + 'a,
    name: Option<&str>,
) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match (kind, name) {
        ("gzip", Some(name)) => Box::new(GzipReader::new(input, name)),
        ("gzip", None) => Box::new(GzipReader::quiet(input)),
        ("zstd", _) => {
            let mut decoder = zstd::stream::read::Decoder::new(input)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
        _ => {
            let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED)?;
            Box::new(liblzma::read::XzDecoder::new_stream(input, stream))
        }
    })
}

/// A stream can go on for long without any data in it.
const BEGINNING_MOST: u64 = 64 << 20;

/// Up to `length` bytes of the beginning of what was compressed, as far as that can be
/// decompressed.
pub fn beginning(kind: &str, input: impl Read, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(decoder) = decoder(kind, input.take(BEGINNING_MOST), None) {
        // Bytes before an error count.
        let _ = decoder.take(length as u64).read_to_end(&mut bytes);
    }
    bytes
}

/// Reads until the buffer is full or there is no more.
pub fn read_block(input: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match input.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

fn copy_sparsely(input: &mut dyn Read, output: &File) -> Result<(), Failure> {
    let mut buffer = vec![0; BLOCK];
    let mut offset = 0;
    loop {
        let length = read_block(input, &mut buffer).map_err(|error| {
            let text = format!("it cannot be decompressed: {}", reason(&error));
            Failure::new(ErrorKind::Damaged, text)
        })?;
        if let Some(stopped) = stopped() {
            return Err(Failure::of(&stopped.into()));
        }
        let block = &buffer[..length];
        if offset + length as u64 > LARGEST {
            let text = format!("decompressed it is larger than {}", format::size(LARGEST));
            return Err(Failure::new(ErrorKind::Unsupported, text));
        }
        if block.iter().any(|&byte| byte != 0) {
            let what = "cannot write what is decompressed to a temporary file (see TMPDIR)";
            let written = output.write_all_at(block, offset);
            written.map_err(|error| Failure::of(&error).after(what))?;
        }
        offset += length as u64;
        if length < BLOCK {
            break;
        }
    }
    Ok(output.set_len(offset)?)
}

impl Compressed {
    pub fn new(file: File, path: &Path, kind: &'static str) -> io::Result<Self> {
        Ok(Self {
            kind,
            name: path.display().to_string(),
            file,
            raw: temporary_file()?,
            done: OnceLock::new(),
        })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn kind(&self) -> &'static str {
        self.kind
    }

    fn decompress(&self) -> Result<(), Failure> {
        let open = || {
            let mut file = self.file.try_clone()?;
            file.rewind()?;
            let progress = front().progress("decompressing", file.metadata()?.len());
            decoder(self.kind, Input { file, progress }, Some(&self.name))
        };
        let mut input = open().map_err(|error: io::Error| Failure::from(error))?;
        copy_sparsely(&mut *input, &self.raw)
    }

    /// The decompressed image.
    pub fn decompressed(&self) -> io::Result<&File> {
        match self.done.get_or_init(|| self.decompress()) {
            Ok(()) => Ok(&self.raw),
            Err(failure) => Err(failure.clone().into()),
        }
    }
}
