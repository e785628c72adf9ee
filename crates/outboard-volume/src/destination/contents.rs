// SPDX-License-Identifier: GPL-2.0-only
//! Whether the contents of a file or volume look like a disk, a file system or an archive: the one
//! rule of what is not overwritten without --force.

use crate::containers::beginning;
use outboard_image::partition::read_table;
use outboard_image::{leading_format, probe, Source};
use std::io::{self, Read};

/// Files up to this size are read whole to detect their type.
const SMALL: u64 = 128 << 10;
/// Formats that hold files. The program opens none of them as an image.
const ARCHIVES: [&str; 19] = [
    "tar",
    "cpio",
    "zip",
    "7z",
    "rar",
    "cab",
    "xar",
    "ar",
    "rpm",
    "lha",
    "bzip2",
    "lz4",
    "lzip",
    "lzop",
    "lzma",
    "lrzip",
    "compress",
    "wim",
    "btrfs-stream",
];
/// Formats that the program opens as images: what is in them decides.
const COMPRESSED: [&str; 3] = ["gzip", "xz", "zstd"];

/// Contents that must not be lost.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A disk, a file system, or a part of one. Its type in words.
    Disk(String),
    Archive(&'static str),
}

/// Finds out what must not be lost. `None`: nothing that is known. An error: the contents cannot be
/// read, so that they may be anything.
pub(super) fn find(source: &(impl Source + ?Sized)) -> io::Result<Option<Found>> {
    if source.size() > SMALL {
        return found_in(source);
    }
    let mut small = vec![0; source.size() as usize];
    let mut length = 0;
    while length < small.len() {
        match source.read_at(&mut small[length..], length as u64)? {
            0 => break,
            count => length += count,
        }
    }
    found_in(&small[..length])
}

/// The type of what is in a volume or a file, in words, if it must not be overwritten without
/// --force.
pub fn describe(source: &impl Source) -> io::Result<Option<String>> {
    Ok(find(source)?.map(|found| match found {
        Found::Disk(kind) => kind,
        Found::Archive(kind) => kind.to_owned(),
    }))
}

/// The kind of an archive or of compressed data, whatever is in it.
pub fn archive_kind(source: &(impl Source + ?Sized)) -> io::Result<Option<&'static str>> {
    let is_archive = |kind: &&str| ARCHIVES.contains(kind) || COMPRESSED.contains(kind);
    Ok(leading_format(source)?.filter(is_archive))
}

/// Reads a source from its start.
struct Reader<'a, S: ?Sized> {
    source: &'a S,
    offset: u64,
}

impl<S: Source + ?Sized> Read for Reader<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read_at(buffer, self.offset)?;
        self.offset += length as u64;
        Ok(length)
    }
}

/// The beginning of a disk of unknown size: its partitions may lie behind this part.
struct Beginning(Vec<u8>);

impl Source for Beginning {
    fn size(&self) -> u64 {
        let length = self.0.len() as u64;
        if length < SMALL {
            length
        } else {
            i64::MAX as u64
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.0.get(start..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

fn found_in<S: Source + ?Sized>(source: &S) -> io::Result<Option<Found>> {
    let Some(kind) = archive_kind(source)? else {
        return Ok(disk_kind(source)?.map(Found::Disk));
    };
    if !COMPRESSED.contains(&kind) {
        return Ok(Some(Found::Archive(kind)));
    }
    let inside = beginning(kind, Reader { source, offset: 0 }, SMALL as usize);
    let inside = Beginning(inside);
    let disk = match archive_kind(&inside)? {
        None => disk_kind(&inside)?,
        Some(_) => None,
    };
    Ok(Some(match disk {
        Some(disk) => Found::Disk(format!("{disk}, compressed by {kind}")),
        None => Found::Archive(kind),
    }))
}

/// The type of contents that are no archive.
fn disk_kind<S: Source + ?Sized>(source: &S) -> io::Result<Option<String>> {
    if let Some(found) = probe(source)? {
        return Ok(Some(found.kind.to_owned()));
    }
    let table = read_table(source)?;
    Ok(table.map(|table| format!("{} partition table", table.kind.name())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn compressed_files_are_what_is_in_them() {
        let mut image = b"QFI\xfb".to_vec();
        image.resize(1 << 20, 0);
        let found = |bytes: &[u8]| found_in(bytes).unwrap();
        let disk = Found::Disk("qcow2, compressed by gzip".to_owned());
        assert_eq!(found(&gzip(&image)), Some(disk));
        for other in [gzip(&gzip(&image)), gzip(&[b'a'; 100_000])] {
            assert_eq!(found(&other), Some(Found::Archive("gzip")));
        }
        assert_eq!(found(&[0; 4096]), None);
    }

    /// The file `hi`, as cpio packs it without options.
    const OLD_CPIO: &[u8] =
        b"\xc7\x71\x01\x08\x05\0\xa4\x81\0\0\0\0\x01\0\0\0\x23\x69\x01\0\x03\0\0\0\x02\0hi\0";

    #[test]
    fn formats_of_disks_and_archives_are_known() {
        let disk = |kind: &str| Some(Found::Disk(kind.to_owned()));
        for (start, kind) in [
            (b"\x3a\xff\x26\xed\x01\0".as_slice(), disk("simg")),
            (b"QED\0", disk("qed")),
            (b"WithoutFreeSpace", disk("parallels")),
            (b"AFF10\x0d\x0a\0", disk("AFF")),
            (b"BZh91AY&SY", Some(Found::Archive("bzip2"))),
            (b"Rar!\x1a\x07\0", Some(Found::Archive("rar"))),
            (b"partclone-image\0", disk("partclone")),
            (b"\xed\xab\xee\xdb\x03", Some(Found::Archive("rpm"))),
            (b"\x24\xbe-lh5-", Some(Found::Archive("lha"))),
            (
                b"\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff",
                Some(Found::Archive("lzma")),
            ),
            (b"\x5d\0\0\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff", None),
            (OLD_CPIO, Some(Found::Archive("cpio"))),
            (b"\xc7\x71 words", None),
            (b"\x1f\x8b\x08", Some(Found::Archive("gzip"))),
            (b"BZhang writes", None),
            (b"", None),
        ] {
            for size in [start.len(), 512, 300_000] {
                let mut bytes = start.to_vec();
                bytes.resize(size.max(start.len()), 0);
                assert_eq!(find(&bytes[..]).unwrap(), kind, "{start:?}");
            }
        }
    }

    #[test]
    fn frames_that_are_skipped_come_first() {
        let skipped = b"\x53\x2a\x4d\x18\x03\0\0\0abc";
        let zstd = [skipped.as_slice(), skipped, b"\x28\xb5\x2f\xfd"].concat();
        let lz4 = [skipped.as_slice(), b"\x04\x22\x4d\x18"].concat();
        for (bytes, kind) in [(zstd, "zstd"), (lz4, "lz4"), (skipped.to_vec(), "zstd")] {
            assert_eq!(found_in(&bytes[..]).unwrap(), Some(Found::Archive(kind)));
        }
    }
}
