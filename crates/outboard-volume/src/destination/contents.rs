// SPDX-License-Identifier: GPL-2.0-only
//! Whether the contents of a file look like a disk or a file system.

use crate::containers::beginning;
use outboard_image::partition::{read_table, TableKind};
use outboard_image::{probe, Class, Source};
use std::io::{self, Read};

/// Files up to this size are read whole to detect their type.
const SMALL: u64 = 128 << 10;
/// The smallest file that can be a disk or a file system: one sector.
const SECTOR: u64 = 512;

/// The type of contents that look like a disk or a file system. Unreadable contents do not.
pub(super) fn image_kind(source: &impl Source) -> Option<String> {
    match source.size() {
        ..SECTOR => return None,
        SECTOR..=SMALL => {}
        _ => return kind_of(source),
    }
    let mut small = vec![0; source.size() as usize];
    let length = source.read_at(&mut small, 0).ok()?;
    kind_of(&small[..length])
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

fn kind_of<S: Source + ?Sized>(source: &S) -> Option<String> {
    // An archive is no disk.
    const OTHERS: [&str; 6] = ["bzip2", "lz4", "zip", "7z", "tar", "cpio"];
    // The program opens these formats as images: their contents decide.
    const COMPRESSED: [&str; 3] = ["gzip", "xz", "zstd"];
    match probe(source) {
        Some(found) if found.class == Class::Wrapped && COMPRESSED.contains(&found.kind) => {
            let reader = Reader { source, offset: 0 };
            let inside = beginning(found.kind, reader, SMALL as usize);
            plain_kind_of(&Beginning(inside), &[&OTHERS, &COMPRESSED[..]].concat())
                .map(|kind| format!("{kind}, compressed by {}", found.kind))
        }
        _ => plain_kind_of(source, &OTHERS),
    }
}

/// The type of a file's contents. `others`: types that are no images.
fn plain_kind_of<S: Source + ?Sized>(source: &S, others: &[&str]) -> Option<String> {
    let is_image = |class: Class, kind: &str| class != Class::Wrapped || !others.contains(&kind);
    if let Some(found) = probe(source) {
        return is_image(found.class, found.kind).then(|| found.kind.to_owned());
    }
    let table = read_table(source, SECTOR)?;
    // Boot sectors of other systems end like an MBR.
    let is_table = table.kind != TableKind::Mbr || !table.partitions.is_empty();
    is_table.then(|| format!("{} partition table", table.kind.name()))
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
        let found = kind_of(gzip(&image).as_slice());
        assert_eq!(found.as_deref(), Some("qcow2, compressed by gzip"));
        assert_eq!(kind_of(gzip(&gzip(&image)).as_slice()), None);
        assert_eq!(kind_of(gzip(&[b'a'; 100_000]).as_slice()), None);
        let mut bytes = b"\x1f\x8b\x08".to_vec();
        bytes.resize(4096, 0);
        assert_eq!(kind_of(bytes.as_slice()), None);
        assert_eq!(kind_of([0; 4096].as_slice()), None);
    }
}
