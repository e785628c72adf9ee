// SPDX-License-Identifier: GPL-2.0-only
//! Contents other than file systems: encrypted disks, members of RAIDs and volume groups, swap
//! space, file formats with a disk image or files.

use super::found::{Class, Probe};
use crate::block::{fetch, Block};
use crate::md::ArrayMember;
use crate::source::Source;
use crate::{integrity, luks, verity};

/// Formats of files, by their first bytes.
const FORMATS: &[(&str, &[u8])] = &[
    ("qcow2", b"QFI\xfb"),
    ("vmdk", b"KDMV"),
    ("vmdk", b"# Disk DescriptorFile"),
    ("vhdx", b"vhdxfile"),
    ("vhd", b"conectix"),
    ("gzip", b"\x1f\x8b\x08"),
    ("xz", b"\xfd7zXZ\0"),
    ("zstd", b"\x28\xb5\x2f\xfd"),
    ("lz4", b"\x04\x22\x4d\x18"),
    ("lz4", b"\x02\x21\x4c\x18"),
    ("lzip", b"LZIP"),
    ("lzop", b"\x89LZO\0\x0d\x0a\x1a\x0a"),
    ("compress", b"\x1f\x9d\x90"),
    ("zip", b"PK\x03\x04"),
    ("zip", b"PK\x05\x06"),
    ("zip", b"PK\x07\x08"),
    ("rar", b"Rar!\x1a\x07"),
    ("cab", b"MSCF\0\0\0\0"),
    ("xar", b"xar!\0"),
    ("ar", b"!<arch>\n"),
    ("7z", b"7z\xbc\xaf\x27\x1c"),
    ("E01", b"EVF\x09\x0d\x0a\xff\0"),
    ("E01", b"EVF2\x0d\x0a\x81\0"),
    ("L01", b"LVF\x09\x0d\x0a\xff\0"),
    ("L01", b"LEF2\x0d\x0a\x81\0"),
    ("AFF", b"AFF10\x0d\x0a\0"),
    ("wim", b"MSWIM\0\0\0"),
    ("simg", b"\x3a\xff\x26\xed"),
    ("qed", b"QED\0"),
    ("vmdk", b"COWD"),
    ("parallels", b"WithoutFreeSpace"),
    ("parallels", b"WithouFreSpacExt"),
    ("bochs", b"Bochs Virtual HD Image"),
    ("cloop", b"#!/bin/sh\n#V2.0 Format\n"),
    ("dmg", b"encrcdsa"),
    ("ubi", b"UBI#"),
    ("ubifs", b"\x31\x18\x10\x06"),
    ("jffs2", b"\x85\x19\x01\xe0"),
    ("jffs2", b"\x85\x19\x02\xe0"),
    ("jffs2", b"\x85\x19\x03\x20"),
    ("sparseimage", b"sprs\0\0\0\x03"),
    ("partclone", b"partclone-image"),
    ("partimage", b"PaRtImAgE-VoLuMe"),
    ("ntfsclone", b"\0ntfsclone-image"),
    ("btrfs-stream", b"btrfs-stream\0"),
    ("vma", b"VMA\0"),
    ("ciso", b"CISO"),
    ("rpm", b"\xed\xab\xee\xdb"),
    ("lrzip", b"LRZI"),
    ("cpio", b"070701"),
    ("cpio", b"070702"),
    ("cpio", b"070707"),
];
/// The bytes that follow the first four of bzip2: a block, or the end.
const BZIP2_BLOCKS: [&[u8]; 2] = [b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"];
/// Most frames to skip before the first one with data.
const MOST_SKIPPED: usize = 64;
/// Bytes of the header of a tar's member.
const TAR_HEADER: usize = 512;
/// Bytes of the trailer of a disk image of Mac OS.
const DMG_TRAILER: u64 = 512;

pub(super) fn wrapped(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let start = fetch(source, 0, source.size().min(72) as usize)?;
    if start.le32(64) == 0xbeda_107f {
        return Some(Probe::new(Class::Wrapped, "vdi"));
    }
    let kind = if skippable(&start) {
        behind_skippable(source)
    } else {
        format_of(&start)
    };
    kind.map(|kind| Probe::new(Class::Wrapped, kind))
}

fn format_of(start: &Block) -> Option<&'static str> {
    // The magic number of bzip2 alone begins words.
    if start.has(0, b"BZh") && BZIP2_BLOCKS.iter().any(|magic| start.has(4, magic)) {
        return Some("bzip2");
    }
    let mut formats = FORMATS.iter();
    let found = formats.find(|(_, magic)| start.has(0, magic));
    found
        .map(|(kind, _)| *kind)
        .or_else(|| format_by_header(start))
}

/// Formats whose magic number is too short to tell them alone.
fn format_by_header(start: &Block) -> Option<&'static str> {
    let dictionary = start.le32(1);
    let length = start.le64(5);
    let is_lzma = start.byte(0) == 0x5d
        && dictionary.is_power_of_two()
        && dictionary >= 4096
        && (length == u64::MAX || length < 1 << 40);
    let is_lha = start.has(2, b"-lh") && start.byte(6) == b'-';
    let found = [
        (is_lzma, "lzma"),
        (is_lha, "lha"),
        (is_binary_cpio(start, Block::le16), "cpio"),
        (is_binary_cpio(start, Block::be16), "cpio"),
    ];
    found
        .into_iter()
        .find(|(yes, _)| *yes)
        .map(|(_, kind)| kind)
}

/// The oldest format of cpio: a header of words in the order of the machine, and the name.
fn is_binary_cpio(start: &Block, word: fn(&Block, usize) -> u16) -> bool {
    let kinds = [0o04, 0o10, 0o12, 0o02, 0o06, 0o01, 0o14];
    let (mode, links, name) = (word(start, 6), word(start, 12), word(start, 20));
    let is_end = mode == 0 && start.has(26, b"TRAILER!!!\0");
    word(start, 0) == 0o070707
        && (kinds.contains(&(mode >> 12)) || is_end)
        && links > 0
        && (2..=4096).contains(&name)
        && start.byte(26) != 0
}

/// Whether this is the header of a frame that decoders of zstd and lz4 skip.
fn skippable(start: &Block) -> bool {
    start.le32(0) & !0xf == 0x184d_2a50
}

/// The format of the first frame that is not skipped; zstd if there is none.
fn behind_skippable(source: &(impl Source + ?Sized)) -> Option<&'static str> {
    let mut offset = 0;
    for _ in 0..MOST_SKIPPED {
        let left = source.size().saturating_sub(offset).min(8);
        let head = fetch(source, offset, left as usize)?;
        if !skippable(&head) {
            return match head.len() {
                0 => Some("zstd"),
                _ => format_of(&head).filter(|kind| matches!(*kind, "zstd" | "lz4")),
            };
        }
        offset = offset.checked_add(8 + u64::from(head.le32(4)))?;
    }
    Some("zstd")
}

/// The checksum of a header of tar: its bytes added up, with spaces in place of the sum itself.
fn tar_sum(header: &Block) -> u32 {
    let sum = |offset, length| -> u32 {
        let bytes = header.bytes(offset, length);
        bytes.iter().map(|&byte| u32::from(byte)).sum()
    };
    sum(0, 148) + 8 * u32::from(b' ') + sum(156, TAR_HEADER - 156)
}

/// A tar archive, recognised by the checksum of its first member: the oldest form has no magic
/// number, and any boot sector may contain "ustar".
pub(super) fn tar(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let header = fetch(source, 0, TAR_HEADER)?;
    let digits = header.text(148, 8)?;
    let sum = u32::from_str_radix(digits.trim(), 8).ok()?;
    (header.byte(0) != 0 && sum == tar_sum(&header)).then(|| Probe::new(Class::Wrapped, "tar"))
}

/// A disk image of Mac OS, recognised by its trailer. A raw disk may have such a trailer, too, so
/// this check comes last.
pub(super) fn dmg(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let end = source.size().checked_sub(DMG_TRAILER)?;
    let trailer = fetch(source, end, 12)?;
    let is_trailer = trailer.has(0, b"koly") && trailer.be32(8) == DMG_TRAILER as u32;
    is_trailer.then(|| Probe::new(Class::Wrapped, "dmg"))
}

pub(super) fn luks(source: &(impl Source + ?Sized)) -> Option<Probe> {
    // If the header is overwritten, its copy may be intact.
    let copies = luks::COPIES.map(|offset| (offset, luks::COPY_MAGIC));
    let header = |(offset, magic): (u64, &[u8])| {
        let block = fetch(source, offset, 512)?;
        block.has(0, magic).then_some(block)
    };
    let block = header((0, luks::MAGIC)).or_else(|| copies.into_iter().find_map(header))?;
    let label = block.text(24, 48).filter(|_| block.be16(6) == 2);
    Some(
        Probe::new(Class::Container, "crypto_LUKS")
            .label(label)
            .uuid(block.text(168, 40)),
    )
}

/// The hash area of dm-verity.
pub(super) fn verity(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let found = verity::VeritySuperblock::find(source, 0)?;
    Some(Probe::new(Class::Container, "DM_verity_hash").uuid(found.uuid))
}

pub(super) fn integrity(source: &(impl Source + ?Sized)) -> Option<Probe> {
    integrity::IntegritySuperblock::find(source, 0)?;
    Some(Probe::new(Class::Container, "DM_integrity"))
}

pub(super) fn bitlocker(source: &(impl Source + ?Sized)) -> Option<Probe> {
    fetch(source, 0, 16)?
        .has(3, b"-FVE-FS-")
        .then(|| Probe::new(Class::Container, "BitLocker"))
}

/// An LVM identifier, with the dashes that its tools show.
fn lvm_uuid(block: &Block, offset: usize) -> Option<String> {
    let text = block
        .text(offset, 32)
        .filter(|text| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_alphanumeric()))?;
    let mut rest = text.as_str();
    let mut parts = Vec::new();
    for length in [6, 4, 4, 4, 4, 4, 6] {
        let (part, after) = rest.split_at(length);
        parts.push(part);
        rest = after;
    }
    Some(parts.join("-"))
}

pub(super) fn lvm(source: &(impl Source + ?Sized)) -> Option<Probe> {
    (0..4).find_map(|sector| {
        let block = fetch(source, sector * 512, 512)?;
        if !block.has(0, b"LABELONE") || !block.has(24, b"LVM2 001") {
            return None;
        }
        let header = block.le32(20) as usize;
        Some(Probe::new(Class::Container, "LVM2_member").uuid(lvm_uuid(&block, header)))
    })
}

pub(super) fn md(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let member = ArrayMember::find(source)?;
    let mut probe = Probe::new(Class::Container, "linux_raid_member")
        .label(member.name)
        .uuid(Some(member.uuid));
    probe.detail = member.version.name().to_owned();
    Some(probe)
}

/// Members of firmware RAIDs, recognised by their last sectors.
pub(super) fn firmware_raid(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let end = fetch(source, source.size().checked_sub(1024)? / 512 * 512, 1024)?;
    let intel = end.has(0, b"Intel Raid ISM Cfg Sig. ");
    let standard = end.be32(512) == 0xde11_de11;
    let kind = match (intel, standard) {
        (true, _) => "isw_raid_member",
        (_, true) => "ddf_raid_member",
        _ => return None,
    };
    Some(Probe::new(Class::Container, kind))
}

/// Tables of other systems, and a GPT that no MBR announces: this program reads none of them.
pub(super) fn disk_label(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 0, 512)?;
    let words = || (0..512).step_by(2).map(|at| block.be16(at));
    let longs = || (0..512).step_by(4).map(|at| block.be32(at));
    let is_sun = block.be16(508) == 0xdabe && words().fold(0, |sum, word| sum ^ word) == 0;
    let is_sgi = block.be32(0) == 0x0be5_a941 && longs().fold(0, u32::wrapping_add) == 0;
    let has = |offset: u64, magic: &[u8]| {
        let found = fetch(source, offset, magic.len());
        found.is_some_and(|found| found.has(0, magic))
    };
    let bsd = 0x8256_4557u32.to_le_bytes();
    let is_bsd = |&at: &u64| has(at, &bsd) && has(at + 132, &bsd);
    let is_gpt = |&sector: &u64| has(sector, b"EFI PART");
    let kind = match () {
        () if is_sun => "Sun disk label",
        () if is_sgi => "SGI disk label",
        () if [64, 128, 512].iter().any(is_bsd) => "BSD disk label",
        () if (0..16).any(|sector| has(sector * 512, b"RDSK\0\0")) => "Amiga disk label",
        () if block.le16(510) != 0xaa55 && [512, 4096].iter().any(is_gpt) => {
            "GPT without a protective MBR"
        }
        () => return None,
    };
    Some(Probe::new(Class::Container, kind))
}

pub(super) fn swap(source: &(impl Source + ?Sized)) -> Option<Probe> {
    [4096usize, 8192, 16384, 65536]
        .into_iter()
        .find_map(|page| {
            let block = fetch(source, page as u64 - 10, 10)?;
            if !block.has(0, b"SWAPSPACE2") {
                return None;
            }
            let header = fetch(source, 1024, 44)?;
            let last = u64::from(header.le32(4));
            Some(
                Probe::new(Class::Swap, "swap")
                    .label(header.text(28, 16))
                    .uuid(header.uuid(12))
                    .blocks(last + 1, page as u64),
            )
        })
}
