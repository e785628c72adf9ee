// SPDX-License-Identifier: GPL-2.0-only
//! Logs of changes to an image. The input is a log; this target corrects its checksums.

use crate::source::{le32, put};
use outboard_volume::undo::fuzzing::read_log;

const HEAD: usize = 512;
/// Bytes of the head before its checksum, and of a record's head before those of its new sectors.
const USED: usize = 45;
const FIXED: usize = 16;
const SECTOR: usize = 512;
const LONGEST: usize = 1 << 20;

fn fix_head(log: &mut [u8]) {
    if let Some(sum) = log.get(..USED).map(crc32fast::hash) {
        put(log, USED, &sum.to_le_bytes());
    }
}

/// Corrects a record. Returns where the next one begins.
fn fix_record(log: &mut [u8], start: usize) -> Option<usize> {
    let length = le32(log, start + 8) as usize;
    if length == 0 || length > LONGEST {
        return None;
    }
    let sums = start + FIXED + 4 * length.div_ceil(SECTOR);
    let old = sums + 4;
    let sum = crc32fast::hash(log.get(old..old + length)?);
    put(log, start + 12, &sum.to_le_bytes());
    let sum = crc32fast::hash(&log[start..sums]);
    put(log, sums, &sum.to_le_bytes());
    Some(old + length)
}

pub fn run(bytes: &[u8]) {
    let mut log = bytes.to_vec();
    fix_head(&mut log);
    let mut next = Some(HEAD);
    while let Some(start) = next.filter(|start| start + FIXED <= log.len()) {
        next = fix_record(&mut log, start);
    }
    let read: usize = read_log(&log).iter().map(|(_, length)| length).sum();
    assert!(read <= log.len(), "a log has no more bytes than its file");
}
