// SPDX-License-Identifier: GPL-2.0-only
//! Physical volumes made here, and hostile variants of them.

use super::*;

const AREA: usize = 4096;
const AREA_SIZE: usize = 8192;

const GROUP: &str = r#"
vg {
    id = "aaaaaa-bbbb-cccc-dddd-eeee-ffff-gggggg"
    seqno = 7
    extent_size = 8
    physical_volumes {
        pv0 {
            id = "012345-6789-abcd-efgh-ijkl-mnop-qrstuv" device = "/dev/sda"
            pe_start = 2048 pe_count = 100
        }
    }
    logical_volumes {
        root {
            id = "root" status = ["READ", "WRITE", "VISIBLE"]
            segment2 {
                start_extent = 10
                extent_count = 10 type = "striped" stripe_size = 16 stripes = ["pv0", 20, "pv0", 40]
            }
            segment1 { start_extent = 0 extent_count = 10 type = "striped" stripes = ["pv0", 90] }
        }
        pool { id = "pool" segment1 {
            start_extent = 0 extent_count = 1 type = "thin-pool"
            metadata = "root" pool = "root" chunk_size = 128
        } }
        raid { id = "r" segment1 {
            start_extent = 0 extent_count = 1 type = "raid1"
            region_size = 1024 raids = ["root", "pool", "root", "pool"]
        } }
        snapshot0 { id = "s" segment1 {
            start_extent = 0 extent_count = 20 type = "snapshot"
            chunk_size = 8 origin = "root" cow_store = "raid"
        } }
        new { id = "n" segment1 { start_extent = 0 extent_count = 20 type = "vdo-pool" } }
    }
}
contents = "Text Format Volume Group"
version = 1
"#;

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// A disk with a label in its second sector and an area with a text, which begins at `offset` of
/// the area.
fn disk(text: &str, offset: usize) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 16];
    let label = 512;
    put(&mut bytes, label, b"LABELONE");
    put(&mut bytes, label + 8, &1u64.to_le_bytes());
    put(&mut bytes, label + 20, &32u32.to_le_bytes());
    put(&mut bytes, label + 24, b"LVM2 001");
    put(&mut bytes, label + 32, b"0123456789abcdefghijklmnopqrstuv");
    put(&mut bytes, label + 72, &(1u64 << 15).to_le_bytes());
    put(&mut bytes, label + 104, &(AREA as u64).to_le_bytes());
    put(&mut bytes, label + 112, &(AREA_SIZE as u64).to_le_bytes());
    let text: Vec<u8> = text.bytes().chain([0]).collect();
    for (index, byte) in text.iter().enumerate() {
        let at = (offset - 512 + index) % (AREA_SIZE - 512) + 512;
        bytes[AREA + at] = *byte;
    }
    put(&mut bytes, AREA + 4, AREA_MAGIC);
    put(&mut bytes, AREA + 20, &1u32.to_le_bytes());
    put(&mut bytes, AREA + 24, &(AREA as u64).to_le_bytes());
    put(&mut bytes, AREA + 32, &(AREA_SIZE as u64).to_le_bytes());
    put(&mut bytes, AREA + 40, &(offset as u64).to_le_bytes());
    put(&mut bytes, AREA + 48, &(text.len() as u64).to_le_bytes());
    put(&mut bytes, AREA + 56, &checksum(&[&text]).to_le_bytes());
    seal(&mut bytes);
    bytes
}

/// Puts the right checksums.
fn seal(bytes: &mut [u8]) {
    let sum = checksum(&[&bytes[AREA + 4..AREA + 512]]);
    put(bytes, AREA, &sum.to_le_bytes());
    let sum = checksum(&[&bytes[512 + 20..1024]]);
    put(bytes, 512 + 16, &sum.to_le_bytes());
}

fn group(text: &str) -> Option<VolumeGroup> {
    PhysicalVolume::find(disk(text, 512).as_slice())
        .expect("the label is good")
        .group
}

#[test]
fn a_group_and_its_volumes() {
    let found = PhysicalVolume::find(disk(GROUP, 512).as_slice()).unwrap();
    assert!(!found.damaged);
    let group = found.group.unwrap();
    assert_eq!((group.name.as_str(), group.sequence), ("vg", 7));
    assert_eq!(group.physical["pv0"].id, found.id);
    let root = &group.logical["root"];
    assert!(root.visible && root.writable);
    assert_eq!(root.size(), 160);
    let area = |sector| Area::Physical("pv0".to_owned(), sector);
    let kinds: Vec<_> = root.segments.iter().map(|segment| &segment.kind).collect();
    let straight = SegmentKind::Striped {
        stripe_size: 0,
        areas: vec![area(2048 + 720)],
    };
    let striped = SegmentKind::Striped {
        stripe_size: 16,
        areas: vec![area(2048 + 160), area(2048 + 320)],
    };
    assert_eq!(kinds, [&straight, &striped]);
    let snapshot = group.snapshot_stored_in("raid").unwrap();
    assert_eq!(snapshot.kind.name(), "snapshot");
    assert_eq!(group.snapshots().next(), Some(("root", snapshot)));
    assert_eq!(group.snapshot_stored_in("root"), None);
    assert!(group.physical_below("raid").contains("pv0"));
    assert!(group.physical_below("new").is_empty());
    let SegmentKind::Raid(raid) = &group.logical["raid"].segments[0].kind else {
        panic!("a raid");
    };
    assert_eq!(raid.devices.len(), 2);
    assert_eq!(
        group.logical["new"].segments[0].kind,
        SegmentKind::Other("vdo-pool".to_owned())
    );
}

/// Unknown words never reach the device-mapper table.
#[test]
fn levels_that_are_none() {
    let text = GROUP.replacen("\"raid1\"", "\"raid1 3 0 rebuild 0 1 - 253:0\"", 1);
    let found = group(&text).unwrap();
    let kind = &found.logical["raid"].segments[0].kind;
    assert!(matches!(kind, SegmentKind::Other(_)), "{kind:?}");
}

#[test]
fn too_many_volumes() {
    let with = |count: usize| {
        let more: Vec<String> = (5..count)
            .map(|number| format!("v{number} {{ id = \"v{number}\" }}\n"))
            .collect();
        let first = "logical_volumes {";
        VolumeGroup::parse(&GROUP.replace(first, &format!("{first}\n{}", more.concat())))
    };
    assert_eq!(with(4096).unwrap().logical.len(), 4096);
    assert!(with(4097).is_none());
}

#[test]
fn volumes_that_lie_on_themselves() {
    let text = GROUP.replacen("metadata = \"root\"", "metadata = \"pool\"", 1);
    assert_eq!(group(&text).unwrap().physical_below("pool").len(), 1);
}

#[test]
fn a_text_that_goes_round() {
    for offset in [513, 4096, AREA_SIZE - 1, AREA_SIZE - 700] {
        let found = PhysicalVolume::find(disk(GROUP, offset).as_slice()).unwrap();
        assert!(found.group.is_some(), "offset {offset}");
    }
}

#[test]
fn broken_areas() {
    let good = disk(GROUP, 512);
    for at in [0, 4, 20, 24, 40, 48, 56, 512 + 9] {
        let mut bytes = good.clone();
        bytes[AREA + at] ^= 1;
        let found = PhysicalVolume::find(bytes.as_slice()).unwrap();
        assert!(found.damaged && found.group.is_none(), "byte {at}");
    }
    for (at, value) in [
        (40, 511),
        (40, AREA_SIZE as u64),
        (40, u64::MAX),
        (48, u64::MAX),
        (48, AREA_SIZE as u64),
    ] {
        let mut bytes = good.clone();
        put(&mut bytes, AREA + at, &value.to_le_bytes());
        seal(&mut bytes);
        let found = PhysicalVolume::find(bytes.as_slice()).unwrap();
        assert!(found.damaged && found.group.is_none(), "{value} at {at}");
    }
    let mut empty = good.clone();
    put(&mut empty, AREA + 40, &[0; 16]);
    seal(&mut empty);
    let found = PhysicalVolume::find(empty.as_slice()).unwrap();
    assert!(!found.damaged && found.group.is_none());
}

#[test]
fn broken_labels() {
    let good = disk(GROUP, 512);
    for at in [0, 8, 16, 24, 40, 400] {
        let mut bytes = good.clone();
        bytes[512 + at] ^= 1;
        assert_eq!(PhysicalVolume::find(bytes.as_slice()), None, "byte {at}");
    }
    for header in [480u32, 512, u32::MAX] {
        let mut bytes = good.clone();
        put(&mut bytes, 512 + 20, &header.to_le_bytes());
        seal(&mut bytes);
        assert_eq!(
            PhysicalVolume::find(bytes.as_slice()),
            None,
            "header at {header}"
        );
    }
    let mut endless = good.clone();
    endless[512 + 72..1024].fill(1);
    seal(&mut endless);
    assert_eq!(PhysicalVolume::find(endless.as_slice()), None);
    assert_eq!(PhysicalVolume::find(&good[..600]), None);
    let cut = PhysicalVolume::find(&good[..AREA]).unwrap();
    assert!(cut.damaged);
}

#[test]
fn texts_that_make_no_sense() {
    assert!(group(GROUP).is_some());
    for (from, to) in [
        ("version = 1", "version = 2"),
        ("extent_size = 8", "extent_size = 0"),
        ("extent_size = 8", "extent_size = 9223372036854775807"),
        ("pe_count = 100", "pe_count = 9223372036854775807"),
        ("pe_count = 100", "pe_count = 99"),
        ("pe_start = 2048", "pe_start = -1"),
        ("start_extent = 10", "start_extent = 9"),
        ("start_extent = 10", "start_extent = 11"),
        (
            "extent_count = 10 type = \"striped\" stripe_size",
            "extent_count = 9 type = \"striped\" stripe_size",
        ),
        ("\"pv0\", 20", "\"pv0\", -20"),
        ("\"pv0\", 20", "\"none\", 20"),
        ("\"pv0\", 20, ", "\"pv0\", "),
        ("[\"pv0\", 90]", "[]"),
        ("extent_count = 10", "extent_count = 0"),
        ("metadata = \"root\"", "metadata = \"none\""),
        (
            "raids = [\"root\", \"pool\", \"root\", \"pool\"]",
            "raids = []",
        ),
        ("origin = \"root\"", "origin = 1"),
        ("seqno = 7", "seqno = \"7\""),
    ] {
        assert!(GROUP.contains(from), "{from}");
        assert_eq!(group(&GROUP.replacen(from, to, 1)), None, "{to}");
    }
}
