// SPDX-License-Identifier: GPL-2.0-only
//! Writes the stretches of an archive in their order.

use super::encode::ArchiveEntry;
use super::header::BLOCK;
use super::stretch::{Chunks, Linked, StretchPart, CHUNK};
use crate::report::Report;
use outboard_error::{format, ErrorKind, Failure, Hint};
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

/// Most zeros of an archive that replace unreadable bytes. A header announces a file's size, so
/// that only zeros or the archive's end can follow an unreadable block.
pub const PADDING: u64 = 1 << 30;
/// Archives are padded to a multiple of this.
const RECORD: u64 = 20 * BLOCK as u64;

/// Writes the stretches of the archive in their order.
pub struct StretchWriter<'a, W> {
    output: &'a mut W,
    chunks: &'a Chunks,
    report: &'a Report,
    written: u64,
    /// Zeros that may still replace unreadable bytes.
    padding: u64,
    /// The first name of each file with several names, and the number of names still to come.
    names: HashMap<(u64, u64), (Vec<u8>, u64)>,
}

impl<'a, W: Write> StretchWriter<'a, W> {
    pub fn new(output: &'a mut W, chunks: &'a Chunks, report: &'a Report) -> Self {
        Self {
            output,
            chunks,
            report,
            written: 0,
            padding: PADDING,
            names: HashMap::new(),
        }
    }

    /// Writes all stretches.
    pub fn run(&mut self, stretches: &Receiver<Receiver<StretchPart>>) -> io::Result<()> {
        for stretch in stretches {
            let mut skipping = false;
            for out in stretch {
                match out {
                    StretchPart::Bytes(chunk) => {
                        if !skipping {
                            self.write(&chunk.bytes[..chunk.used])?;
                        }
                        self.chunks.give(chunk);
                    }
                    StretchPart::Begin(linked) => skipping = self.is_later(&linked)?,
                    StretchPart::End => skipping = false,
                    StretchPart::Padding(length, path) => {
                        if !skipping {
                            self.pad(length, &path)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the end mark.
    pub fn finish(&mut self) -> io::Result<()> {
        let end = vec![0; 2 * BLOCK];
        self.write(&end)?;
        let rest = (RECORD - self.written % RECORD) % RECORD;
        self.write(&vec![0; rest as usize])
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.output.write_all(bytes)?;
        self.written += bytes.len() as u64;
        self.report.count_bytes(bytes.len() as u64);
        self.report.reach(self.written);
        Ok(())
    }

    /// Writes zeros in place of unreadable bytes.
    fn pad(&mut self, mut length: u64, path: &str) -> io::Result<()> {
        self.padding = self.padding.checked_sub(length).ok_or_else(|| {
            let failure = Failure::hinted(ErrorKind::Other, Hint::Exclude, |option| {
                format!(
                    "the archive is not complete: {} of {path} cannot be read, and at most {} are \
                     filled with zeros (leave the file out{option})",
                    format::size(length),
                    format::size(PADDING)
                )
            });
            io::Error::from(failure)
        })?;
        let zeros = vec![0; CHUNK];
        while length > 0 {
            let piece = length.min(CHUNK as u64);
            self.write(&zeros[..piece as usize])?;
            length -= piece;
        }
        Ok(())
    }

    /// Writes a later name of a file as a link to the first.
    fn is_later(&mut self, linked: &Linked) -> io::Result<bool> {
        let identity = (linked.stat.st_dev, linked.stat.st_ino);
        let Some((first, others)) = self.names.get_mut(&identity) else {
            let others = linked.stat.st_nlink - 1;
            self.names.insert(identity, (linked.path.clone(), others));
            return Ok(false);
        };
        linked.skip.store(true, Ordering::Relaxed);
        let entry = ArchiveEntry {
            path: &linked.path,
            stat: &linked.stat,
            target: first,
            link: true,
            xattrs: &[],
            map: None,
        };
        let headers = entry.headers();
        *others -= 1;
        if *others == 0 {
            self.names.remove(&identity);
        }
        self.write(&headers)?;
        Ok(true)
    }
}
