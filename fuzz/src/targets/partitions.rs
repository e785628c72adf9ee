// SPDX-License-Identifier: GPL-2.0-only
//! Partition tables: GPT, MBR, Apple's. The input is a disk.

use crate::source::{le32, put};
use outboard_image::partition::{read_table, GptEntry, GptLayout, Table};
use std::collections::HashSet;

/// Most partitions that Linux takes from one table; logical ones of an MBR come on top.
const MOST: usize = 256;

/// Corrects the checksums of a GPT's header and entries, which mutation breaks.
fn fix_gpt(disk: &mut [u8], header: usize, sector: usize) {
    if disk.get(header..header + 8) != Some(b"EFI PART".as_slice()) {
        return;
    }
    let (count, size) = (
        le32(disk, header + 80) as usize,
        le32(disk, header + 84) as usize,
    );
    let entries = (le32(disk, header + 72) as usize).saturating_mul(sector);
    let length = count.saturating_mul(size);
    let bytes = disk.get(entries..).and_then(|rest| rest.get(..length));
    if let Some(sum) = bytes.map(crc32fast::hash) {
        put(disk, header + 88, &sum.to_le_bytes());
    }
    put(disk, header + 16, &[0; 4]);
    let length = le32(disk, header + 12) as usize;
    let bytes = disk.get(header..).and_then(|rest| rest.get(..length));
    if let Some(sum) = bytes.map(crc32fast::hash) {
        put(disk, header + 16, &sum.to_le_bytes());
    }
}

fn check(table: &Table, size: u64) {
    assert!(table.partitions.len() <= MOST);
    assert!(!table.damaged || table.partitions.is_empty());
    let mut numbers = HashSet::new();
    let mut outside = false;
    for partition in &table.partitions {
        assert!(partition.number > 0 && numbers.insert(partition.number));
        assert_ne!(
            partition.type_id, "0xee",
            "the protective entry is no partition"
        );
        outside |= partition.start.saturating_add(partition.size) > size;
    }
    let warned = table
        .warnings
        .iter()
        .any(|text| text.contains("ends at byte"));
    assert_eq!(
        outside, warned,
        "a partition outside of the disk is reported"
    );
}

/// Changes a GPT and writes it: no byte of a partition changes, and the same table is read again.
fn check_layout(disk: &[u8], sector: u64) {
    let read = |disk: &[u8]| GptLayout::read(disk, sector).expect("memory can be read");
    let Some(mut layout) = read(disk) else {
        return;
    };
    let (first, last) = layout.usable();
    let entry = GptEntry {
        kind: [1; 16],
        id: [2; 16],
        place: (first, last),
        name: "new".to_owned(),
        boot: true,
    };
    let added = layout.add(&entry);
    if let Some(number) = added {
        let _ = layout.set_size(number, 1);
    }
    layout.delete(1);
    let Ok(pieces) = layout.pieces() else {
        return;
    };
    let mut written = disk.to_vec();
    for (offset, bytes) in &pieces {
        let end = offset + bytes.len() as u64;
        for (number, first, last) in layout.places() {
            let start = first.saturating_mul(sector);
            let is_apart = end <= start || *offset > last.saturating_mul(sector);
            assert!(is_apart, "partition {number} is overwritten");
        }
        put(&mut written, *offset as usize, bytes);
    }
    let again = read(&written).expect("the table that was written");
    assert_eq!(again.pieces().as_ref(), Ok(&pieces));
    assert_eq!(again.places(), layout.places());
}

pub fn run(bytes: &[u8]) {
    for sector in [512, 4096] {
        let mut disk = bytes.to_vec();
        let last = (disk.len() / sector).saturating_sub(1) * sector;
        fix_gpt(&mut disk, sector, sector);
        fix_gpt(&mut disk, last, sector);
        let table = read_table(disk.as_slice()).expect("memory can be read");
        if let Some(table) = table {
            check(&table, disk.len() as u64);
        }
        check_layout(&disk, sector as u64);
    }
}
