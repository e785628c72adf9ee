// SPDX-License-Identifier: GPL-2.0-only
//! LVM's metadata. The input is the text, which this target puts into a physical volume whose
//! label and area have the right checksums.

use crate::source::{put, Sparse};
use outboard_image::lvm::{Area, PhysicalVolume, SegmentKind, VolumeGroup};

const SECTOR: usize = 512;
/// Where the area of metadata is.
const AREA: u64 = 4096;
const SIZE: u64 = 64 << 20;
/// The initial value of LVM's checksums.
const START: u32 = 0xf597_a6cf;

fn checksum(bytes: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new_with_initial(!START);
    hasher.update(bytes);
    (!hasher.finalize()).to_le_bytes()
}

fn label(area_size: u64) -> Vec<u8> {
    let mut label = vec![0; SECTOR];
    put(&mut label, 0, b"LABELONE");
    put(&mut label, 8, &1u64.to_le_bytes());
    put(&mut label, 20, &32u32.to_le_bytes());
    put(&mut label, 24, b"LVM2 001");
    put(&mut label, 32, b"abcdefghijklmnopqrstuvwxyzabcdef");
    put(&mut label, 64, &SIZE.to_le_bytes());
    put(&mut label, 72, &(1u64 << 20).to_le_bytes());
    // An entry of zeroes ends the places of data, then come those of metadata.
    put(&mut label, 104, &AREA.to_le_bytes());
    put(&mut label, 112, &area_size.to_le_bytes());
    let sum = checksum(&label[20..]);
    put(&mut label, 16, &sum);
    label
}

fn area_header(text: &[u8], area_size: u64) -> Vec<u8> {
    let mut header = vec![0; SECTOR];
    put(&mut header, 4, b" LVM2 x[5A%r0N*>");
    put(&mut header, 20, &1u32.to_le_bytes());
    put(&mut header, 24, &AREA.to_le_bytes());
    put(&mut header, 32, &area_size.to_le_bytes());
    put(&mut header, 40, &(SECTOR as u64).to_le_bytes());
    put(&mut header, 48, &(text.len() as u64).to_le_bytes());
    put(&mut header, 56, &checksum(text));
    let sum = checksum(&header[4..]);
    put(&mut header, 0, &sum);
    header
}

fn check_areas(group: &VolumeGroup, areas: &[Area], each: u64) {
    for area in areas {
        match area {
            Area::Physical(name, sector) => {
                let place = &group.physical[name];
                let end = place.start + place.count * group.extent_size;
                assert!(*sector >= place.start && sector + each <= end);
            }
            Area::Logical(name, _) => assert!(group.logical.contains_key(name)),
        }
    }
}

fn check(group: &VolumeGroup) {
    for (name, volume) in &group.logical {
        let mut end = 0;
        for segment in &volume.segments {
            assert_eq!(segment.start, end);
            assert!(segment.size > 0);
            end += segment.size;
            match &segment.kind {
                SegmentKind::Striped { areas, .. } => {
                    check_areas(group, areas, segment.size / areas.len() as u64);
                }
                SegmentKind::Mirror { areas, .. } => check_areas(group, areas, segment.size),
                _ => {}
            }
        }
        assert_eq!(volume.size(), end);
        for physical in group.physical_below(name) {
            assert!(group.physical.contains_key(physical));
        }
    }
    for name in group.logical.keys().take(8) {
        let _ = (group.is_below_others(name), group.snapshot_stored_in(name));
    }
}

pub fn run(text: &[u8]) {
    let area_size = (SECTOR + text.len()).next_multiple_of(SECTOR) as u64;
    let (label, header) = (label(area_size), area_header(text, area_size));
    let disk = Sparse {
        pieces: vec![
            (SECTOR as u64, &label),
            (AREA, &header),
            (AREA + SECTOR as u64, text),
        ],
        size: SIZE,
    };
    let volume = PhysicalVolume::read(&disk).expect("memory can be read");
    let volume = volume.expect("the label is right");
    if let Some(group) = &volume.group {
        check(group);
    }
}
