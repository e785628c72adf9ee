// SPDX-License-Identifier: GPL-2.0-only
//! Superblocks made by hand, and images of random and damaged bytes.

use super::*;
use crate::partition::read_table;

/// An image of `size` bytes with pieces put into it.
fn image(size: usize, pieces: &[(usize, &[u8])]) -> Vec<u8> {
    let mut image = vec![0; size];
    for (at, bytes) in pieces {
        image[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    image
}

/// HFS+ with a catalog that has the name of the root directory only.
fn hfsplus() -> Vec<u8> {
    let name = [0, b'M', 0, b'a', 0, b'c'];
    image(
        1 << 14,
        &[
            (1024, b"H+\0\x04"),
            (1024 + 40, &512u32.to_be_bytes()),
            (1024 + 104, &[1, 2, 3, 4, 5, 6, 7, 8]),
            // Two extents: the catalog's nodes 0 and 1.
            (1024 + 272 + 16, &[0, 0, 0, 8, 0, 0, 0, 1]),
            (1024 + 272 + 24, &[0, 0, 0, 4, 0, 0, 0, 1]),
            (8 * 512 + 24, &[0, 0, 0, 1]),
            (8 * 512 + 32, &[2, 0]),
            (4 * 512 + 8, &[0xff, 1, 0, 1]),
            (4 * 512 + 14, &[0, 12, 0, 0, 0, 1, 0, 3]),
            (4 * 512 + 22, &name),
        ],
    )
}

fn samples() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        (
            "ext4",
            image(
                1 << 16,
                &[
                    (1024 + 4, &64u32.to_le_bytes()),
                    (1024 + 56, &[0x53, 0xef, 1, 0]),
                    (1024 + 96, &0x40u32.to_le_bytes()),
                    (1024 + 120, b"root"),
                ],
            ),
        ),
        (
            "xfs",
            image(
                1 << 16,
                &[(0, b"XFSB"), (4, &4096u32.to_be_bytes()), (108, b"data")],
            ),
        ),
        ("btrfs", image(1 << 17, &[(65536 + 64, b"_BHRfS_M")])),
        (
            "f2fs",
            image(1 << 16, &[(1024, &0xf2f5_2010u32.to_le_bytes())]),
        ),
        ("jfs", image(1 << 16, &[(32768, b"JFS1")])),
        (
            "nilfs2",
            image(
                1 << 16,
                &[(1024 + 6, &[0x34, 0x34, 0, 1]), (1024 + 168, b"log")],
            ),
        ),
        ("squashfs", image(1 << 12, &[(0, b"hsqs"), (28, &[4])])),
        (
            "erofs",
            image(1 << 12, &[(1024, &0xe0f5_e1e2u32.to_le_bytes())]),
        ),
        ("romfs", image(1 << 12, &[(0, b"-rom1fs-"), (16, b"rom")])),
        (
            "cramfs",
            image(
                1 << 12,
                &[
                    (0, &0x28cd_3d45u32.to_le_bytes()),
                    (16, b"Compressed ROMFS"),
                ],
            ),
        ),
        (
            "ntfs",
            image(
                1 << 16,
                &[
                    (3, b"NTFS    "),
                    (11, &[0, 2, 8]),
                    (48, &[1]),
                    (64, &[0xf6]),
                    (4096 + 3 * 1024, b"FILE"),
                    (4096 + 3 * 1024 + 20, &[48]),
                ],
            ),
        ),
        (
            "exfat",
            image(
                1 << 16,
                &[
                    (3, b"EXFAT   "),
                    (88, &[8]),
                    (96, &[2]),
                    (108, &[9, 3]),
                    (510, &[0x55, 0xaa]),
                    (8 * 512, &[0x83, 2, b'h', 0, b'i', 0]),
                ],
            ),
        ),
        (
            "vfat",
            image(
                1 << 16,
                &[
                    (0, &[0xeb, 0x3c, 0x90]),
                    (11, &[0, 2, 1, 1, 0, 2, 16, 0, 128, 0, 0xf8, 1, 0]),
                    (510, &[0x55, 0xaa]),
                    (3 * 512, b"STICK      \x08"),
                ],
            ),
        ),
        ("iso9660", image(1 << 16, &[(32768, b"\x01CD001")])),
        (
            "udf",
            image(
                1 << 20,
                &[(32768, b"\0BEA01"), (34816, b"\0NSR03"), (256 * 2048, &[2])],
            ),
        ),
        ("hfs", image(1 << 12, &[(1024, b"BD"), (1024 + 22, &[2])])),
        ("hfsplus", hfsplus()),
        (
            "apfs",
            image(1 << 12, &[(32, b"NXSB\0\x10"), (40, &[9]), (72, &[7; 16])]),
        ),
        (
            "tar",
            image(
                1 << 12,
                &[(0, b"a"), (148, b"001760\0 "), (257, b"ustar\x0000")],
            ),
        ),
        ("cpio", image(1 << 12, &[(0, b"070701")])),
        ("E01", image(1 << 12, &[(0, b"EVF\x09\x0d\x0a\xff\0")])),
        (
            "dmg",
            image(1 << 12, &[((1 << 12) - 512, b"koly\0\0\0\x04\0\0\x02\0")]),
        ),
        (
            "ufs",
            image(1 << 17, &[(65536 + 1372, &0x1954_0119u32.to_le_bytes())]),
        ),
        (
            "minix",
            image(
                1 << 12,
                &[
                    (1024, &[0; 16]),
                    (1024 + 2, &[9, 0, 1, 0, 1]),
                    (1024 + 16, &[0x7f, 0x13, 1]),
                ],
            ),
        ),
        ("affs", image(1 << 12, &[(0, b"DOS\x01")])),
        (
            "omfs",
            image(1 << 12, &[(272, &0xc299_3d87u32.to_be_bytes())]),
        ),
        (
            "swap",
            image(1 << 12, &[(4086, b"SWAPSPACE2"), (1024 + 28, b"sw")]),
        ),
        ("crypto_LUKS", image(1 << 12, &[(0, b"LUKS\xba\xbe\0\x02")])),
        (
            "LVM2_member",
            image(1 << 12, &[(512, b"LABELONE"), (512 + 24, b"LVM2 001")]),
        ),
        (
            "linux_raid_member",
            image(
                1 << 14,
                &[
                    (4096, &0xa92b_4efcu32.to_le_bytes()),
                    (4100, &[1]),
                    (4096 + 16, &[1]),
                    (4096 + 144, &[8]),
                    (4096 + 216, &0xa92b_4f06u32.to_le_bytes()),
                ],
            ),
        ),
        ("qcow2", image(1 << 12, &[(0, b"QFI\xfb")])),
    ]
}

#[test]
fn samples_are_recognised() {
    for (kind, image) in samples() {
        let found = probe(image.as_slice()).unwrap();
        assert_eq!(found.map(|probe| probe.kind), Some(kind));
    }
}

#[test]
fn labels_are_read() {
    let labels = [
        ("ext4", "root"),
        ("xfs", "data"),
        ("nilfs2", "log"),
        ("romfs", "rom"),
        ("exfat", "hi"),
        ("hfsplus", "Mac"),
        ("vfat", "STICK"),
        ("swap", "sw"),
    ];
    let samples = samples();
    for (kind, label) in labels {
        let (_, image) = samples.iter().find(|(name, _)| *name == kind).unwrap();
        let found = probe(image.as_slice()).unwrap().unwrap();
        assert_eq!(found.label.as_deref(), Some(label), "{kind}");
    }
}

/// A boot block of ADFS with these bytes of its disc record, and the sum that it needs.
fn adfs(record: &[(usize, u8)]) -> Vec<u8> {
    let mut image = vec![0; 1 << 14];
    let block = &mut image[0xc00..0xe00];
    for &(offset, byte) in record {
        block[0x1c0 + offset] = byte;
    }
    let sum = block[..511].iter().rev().fold(0u32, |sum, &byte| {
        (sum & 0xff) + (sum >> 8) + u32::from(byte)
    });
    block[511] = sum as u8;
    image
}

#[test]
fn adfs_needs_more_than_a_sum_of_one_byte() {
    let good = [(0, 9), (1, 32), (4, 15)];
    let found = probe(adfs(&good).as_slice())
        .unwrap()
        .map(|probe| probe.kind);
    assert_eq!(found, Some("adfs"));
    for other in [(4, 11), (4, 20), (52, 1), (59, 255)] {
        let image = adfs(&[&good[..], &[other]].concat());
        assert!(probe(image.as_slice()).unwrap().is_none(), "{other:?}");
    }
}

/// Disks are recognised, so that they are protected, though nothing here reads their tables.
#[test]
fn tables_of_other_systems() {
    let bsd = 0x8256_4557u32.to_le_bytes();
    let rest = 0u32.wrapping_sub(0x0be5_a941).to_be_bytes();
    let disks = [
        (
            "Sun disk label",
            vec![(0, &[0xda, 0xbe][..]), (508, &[0xda, 0xbe])],
        ),
        (
            "SGI disk label",
            vec![(0, &[0x0b, 0xe5, 0xa9, 0x41][..]), (4, &rest)],
        ),
        ("BSD disk label", vec![(512, &bsd[..]), (512 + 132, &bsd)]),
        ("Amiga disk label", vec![(1024, &b"RDSK\0\0"[..])]),
        (
            "GPT without a protective MBR",
            vec![(4096, &b"EFI PART"[..])],
        ),
    ];
    for (kind, parts) in disks {
        let disk = image(1 << 16, &parts);
        let found = probe(disk.as_slice()).unwrap().unwrap();
        assert_eq!((found.kind, found.class), (kind, Class::Container));
        let mut other = disk.clone();
        other[parts.last().unwrap().0] ^= 1;
        assert!(probe(other.as_slice()).unwrap().is_none(), "{kind}");
    }
}

/// Bytes that only look like an archive at their place of a magic number.
#[test]
fn a_tar_has_a_checksum() {
    let (_, tar) = samples().remove(
        samples()
            .iter()
            .position(|(kind, _)| *kind == "tar")
            .unwrap(),
    );
    let mut other = tar.clone();
    other[300] = 1;
    assert!(probe(other.as_slice()).unwrap().is_none());
}

#[test]
fn nothing_is_found_in_nothing() {
    assert!(probe([].as_slice()).unwrap().is_none());
    assert!(probe([0u8; 1 << 18].as_slice()).unwrap().is_none());
}

/// The generator of SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Damaged samples: some bytes random (often extreme ones), often cut. None may panic or hang.
#[test]
fn damaged_images_do_no_harm() {
    let mut random = Random(2026);
    for (_, sample) in samples() {
        for _ in 0..300 {
            let mut image = sample.clone();
            for _ in 0..random.below(60) {
                let at = match random.below(3) {
                    0 => random.below(512),
                    1 => 1024 + random.below(512),
                    _ => random.below(image.len()),
                };
                image[at] = [0, 1, 0x7f, 0x80, 0xff, random.next() as u8][random.below(6)];
            }
            if random.below(2) == 0 {
                image.truncate(random.below(image.len()));
            }
            let _ = probe(image.as_slice()).unwrap();
            let _ = read_table(image.as_slice());
        }
    }
}

/// Random bytes with valid signatures of partition tables.
#[test]
fn random_tables_do_no_harm() {
    let mut random = Random(7);
    for round in 0..500 {
        let mut image: Vec<u8> = (0..8192).map(|_| random.next() as u8).collect();
        match round % 3 {
            0 => image[510..512].copy_from_slice(&[0x55, 0xaa]),
            1 => image[..4].copy_from_slice(&[b'E', b'R', 2, 0]),
            _ => {
                image[510..512].copy_from_slice(&[0x55, 0xaa]);
                for index in 0..4 {
                    image[446 + index * 16] &= 0x80;
                    image[446 + index * 16 + 4] = [0x05, 0x83][random.below(2)];
                    image[446 + index * 16 + 9..446 + index * 16 + 12].fill(0);
                }
            }
        }
        let _ = probe(image.as_slice()).unwrap();
        let _ = read_table(image.as_slice());
    }
}

/// Found by fuzz/: `info` showed blocks of 0 bytes.
#[test]
fn a_block_size_of_zero_is_none() {
    let mut image = vec![0; 4096];
    image[..4].copy_from_slice(b"hsqs");
    image[28] = 4;
    image[12..16].copy_from_slice(&131_072u32.to_le_bytes());
    let found = probe(image.as_slice()).unwrap().unwrap();
    assert_eq!((found.kind, found.block_size), ("squashfs", Some(131_072)));
    image[12..16].fill(0);
    assert_eq!(probe(image.as_slice()).unwrap().unwrap().block_size, None);
}
