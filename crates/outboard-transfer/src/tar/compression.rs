// SPDX-License-Identifier: GPL-2.0-only
//! Compressed archives: gzip, zstd and xz. The first bytes of an archive decide, unless they are a
//! header with the right checksum: the name of a member may begin as compressed data do.

use super::header::{is_sound, BLOCK};
use ::tar::Header;
use flate2::{Compression, GzBuilder};
use liblzma::read::XzDecoder;
use liblzma::stream::{MtStreamBuilder, Stream, CONCATENATED};
use liblzma::write::XzEncoder;
use outboard_error::{Error, ErrorKind, Hint, Result};
use outboard_volume::containers::GzipReader;
use std::io::{self, Cursor, Read, Write};

/// The compression of a new archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// It is not.
    Plain,
    /// By gzip.
    Gzip,
    /// By zstd.
    Zstd,
    /// By xz.
    Xz,
}

/// Formats that are detected, but cannot be read.
const OTHERS: [(&[u8], &str, &str); 4] = [
    (b"BZh", "bzip2", "bzip2 -dc"),
    (b"LZIP", "lzip", "lzip -dc"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -dc"),
    (b"\x1f\x9d", "compress", "gzip -dc"),
];

/// Most bytes of memory that xz may take: more than its highest level needs. zstd's own limit of
/// 128 MiB holds for its windows.
const XZ_MEMORY: u64 = 1 << 30;
/// Buffer for compressed bytes.
const COMPRESSED: usize = 256 * 1024;
/// The default levels of the tools.
const GZIP_LEVEL: u32 = 6;
const XZ_LEVEL: u32 = 6;

/// The archive in a stream that may be compressed. `name` is for messages.
pub fn decompressed<'a>(
    mut input: Box<dyn Read + Send + 'a>,
    name: &str,
) -> Result<Box<dyn Read + Send + 'a>> {
    let mut start = Vec::new();
    input
        .by_ref()
        .take(BLOCK as u64)
        .read_to_end(&mut start)
        .map_err(|error| Error::failed(format!("cannot read {name}"), &error))?;
    if start.is_empty() {
        let text = format!("{name} is empty: 0 bytes, not an archive");
        return Err(Error::known(ErrorKind::Damaged, text));
    }
    let is_plain = is_header(&start);
    for (magic, kind, tool) in OTHERS {
        if start.starts_with(magic) && !is_plain {
            let tool = Hint::Decompress {
                tool: tool.to_owned(),
            };
            return Err(Error::hinted(ErrorKind::Unsupported, tool, |tool| {
                format!("{name} is compressed with {kind}: decompress it first{tool}")
            }));
        }
    }
    let format = if is_plain {
        Format::Plain
    } else {
        format_of(&start)
    };
    let all = Cursor::new(start).chain(input);
    let failed = |error| Error::failed(format!("cannot decompress {name}"), &error);
    Ok(match format {
        Format::Plain => Box::new(all),
        Format::Gzip => Box::new(GzipReader::new(all, name)),
        Format::Zstd => Box::new(zstd::Decoder::with_buffer(buffered(all)).map_err(failed)?),
        Format::Xz => {
            let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED)
                .map_err(|error| failed(error.into()))?;
            Box::new(XzDecoder::new_stream(buffered(all), stream))
        }
    })
}

fn buffered<R: Read>(input: R) -> io::BufReader<R> {
    io::BufReader::with_capacity(COMPRESSED, input)
}

fn is_header(start: &[u8]) -> bool {
    start.len() == BLOCK && is_sound(Header::from_byte_slice(start))
}

fn format_of(start: &[u8]) -> Format {
    match start {
        [0x1f, 0x8b, ..] => Format::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Format::Zstd,
        // A skippable frame: parallel compressors begin with one.
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Format::Zstd,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Format::Xz,
        _ => Format::Plain,
    }
}

/// The output of a new archive, which is complete only after `finish`: without that call the
/// compressed stream gets no end.
pub struct Compressor<W: Write>(Option<Encoder<Outlet<W>>>);

enum Encoder<W: Write> {
    Plain(W),
    Gzip(flate2::write::GzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
    Xz(XzEncoder<W>),
}

/// The place behind an encoder. Some encoders write a valid end when they are dropped; an outlet
/// that is closed drops those bytes.
struct Outlet<W>(Option<W>);

impl<W: Write> Write for Outlet<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Some(output) => output.write(bytes),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl<W: Write> Encoder<W> {
    /// The output does not depend on the number of threads.
    fn new(format: Format, output: W, threads: u32) -> io::Result<Self> {
        Ok(match format {
            Format::Plain => Self::Plain(output),
            Format::Gzip => {
                let level = Compression::new(GZIP_LEVEL);
                Self::Gzip(GzBuilder::new().mtime(0).write(output, level))
            }
            Format::Zstd => {
                let mut encoder = zstd::Encoder::new(output, zstd::DEFAULT_COMPRESSION_LEVEL)?;
                encoder.include_checksum(true)?;
                encoder.multithread(threads.max(1))?;
                Self::Zstd(encoder)
            }
            Format::Xz => {
                let stream = MtStreamBuilder::new()
                    .preset(XZ_LEVEL)
                    .threads(threads.max(1))
                    .check(liblzma::stream::Check::Crc64)
                    .encoder()?;
                Self::Xz(XzEncoder::new_stream(output, stream))
            }
        })
    }

    fn finish(self) -> io::Result<W> {
        match self {
            Self::Plain(output) => Ok(output),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
            Self::Xz(encoder) => encoder.finish(),
        }
    }

    /// The place of the compressed bytes.
    fn output(&mut self) -> &mut W {
        match self {
            Self::Plain(output) => output,
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
            Self::Xz(encoder) => encoder.get_mut(),
        }
    }

    /// The place of the bytes to compress.
    fn input(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(output) => output,
            Self::Gzip(encoder) => encoder,
            Self::Zstd(encoder) => encoder,
            Self::Xz(encoder) => encoder,
        }
    }
}

impl<W: Write> Compressor<W> {
    /// The output does not depend on the number of threads.
    pub fn new(format: Format, output: W, threads: u32) -> io::Result<Self> {
        Encoder::new(format, Outlet(Some(output)), threads).map(|encoder| Self(Some(encoder)))
    }

    /// Writes the end. Returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        let encoder = self.0.take().expect("there until the end");
        let outlet = encoder.finish()?;
        Ok(outlet.0.expect("only a drop closes it"))
    }

    fn input(&mut self) -> &mut dyn Write {
        self.0.as_mut().expect("there until the end").input()
    }
}

impl<W: Write> Drop for Compressor<W> {
    fn drop(&mut self) {
        if let Some(encoder) = &mut self.0 {
            encoder.output().0 = None;
        }
    }
}

impl<W: Write> Write for Compressor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.input().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.input().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(format: Format, threads: u32, bytes: &[u8]) -> Vec<u8> {
        let mut compressor = Compressor::new(format, Vec::new(), threads).unwrap();
        compressor.write_all(bytes).unwrap();
        compressor.finish().unwrap()
    }

    #[test]
    fn there_and_back() {
        let bytes: Vec<u8> = (0..3_000_000u32).map(|index| (index / 7) as u8).collect();
        for format in [Format::Plain, Format::Gzip, Format::Zstd, Format::Xz] {
            let one = packed(format, 1, &bytes);
            assert_eq!(format_of(&one[..6]), format);
            let twice = [one.clone(), one.clone()].concat();
            let mut found = Vec::new();
            let mut input = decompressed(Box::new(Cursor::new(twice)), "x").unwrap();
            input.read_to_end(&mut found).unwrap();
            assert!(
                found == [bytes.clone(), bytes.clone()].concat(),
                "{format:?}"
            );
            assert!(one == packed(format, 3, &bytes), "{format:?}");
        }
    }

    /// An archive of some bytes that claims a dictionary of nearly 4 GiB.
    #[test]
    fn memory_for_xz_is_bounded() {
        let mut archive = packed(Format::Xz, 1, b"x");
        // The block's header begins behind the stream's: its size, flags, and the filter LZMA2
        // with one byte of properties. A checksum ends it.
        let start = 12;
        let length = (usize::from(archive[start]) + 1) * 4;
        let header = &mut archive[start..start + length];
        let filter = header
            .windows(2)
            .position(|pair| pair == [0x21, 1])
            .unwrap();
        header[filter + 2] = 40;
        let mut sum = flate2::Crc::new();
        sum.update(&header[..length - 4]);
        header[length - 4..].copy_from_slice(&sum.sum().to_le_bytes());
        let mut input = decompressed(Box::new(Cursor::new(archive)), "x").unwrap();
        let error = input.read_to_end(&mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
    }

    #[test]
    fn names_of_members_are_no_compression() {
        let names: [&[u8]; 5] = [
            b"BZhang",
            b"LZIPPER",
            b"\x1f\x9d",
            b"\x1f\x8b\x08",
            b"\x28\xb5\x2f\xfd",
        ];
        for name in names {
            let mut header = Header::new_gnu();
            header.as_mut_bytes()[..name.len()].copy_from_slice(name);
            header.set_cksum();
            let archive = [header.as_bytes().as_slice(), &[0; 1024]].concat();
            let mut found = Vec::new();
            let mut input = decompressed(Box::new(Cursor::new(archive.clone())), "x").unwrap();
            input.read_to_end(&mut found).unwrap();
            assert!(found == archive, "{name:?}");
        }
    }

    #[test]
    fn others_are_named() {
        let refused = decompressed(Box::new(Cursor::new(b"BZh91AY".to_vec())), "x");
        let error = refused.err().expect("it is not read");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().unwrap_or("").contains("bzip2"));
        let refused = decompressed(Box::new(Cursor::new(Vec::new())), "x");
        let error = refused.err().expect("it is not read");
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(error.message().unwrap_or("").contains("empty"));
    }
}
