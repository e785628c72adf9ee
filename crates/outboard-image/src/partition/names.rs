// SPDX-License-Identifier: GPL-2.0-only
//! Names of the types of partitions in common use.

const GPT: &[(&str, &str)] = &[
    ("c12a7328-f81f-11d2-ba4b-00a0c93ec93b", "EFI system"),
    ("21686148-6449-6e6f-744e-656564454649", "BIOS boot"),
    ("024dee41-33e7-11d3-9d69-0008c781f39f", "MBR scheme"),
    ("0fc63daf-8483-4772-8e79-3d69d8477de4", "Linux file system"),
    ("0657fd6d-a4ab-43c4-84e5-0933c84b4f4f", "Linux swap"),
    ("e6d6d379-f507-44c2-a23c-238f2a3df928", "Linux LVM"),
    ("a19d880f-05fc-4d3b-a006-743f0f84911e", "Linux RAID"),
    ("933ac7e1-2eb4-4f13-b844-0e14e2aef915", "Linux home"),
    ("3b8f8425-20e0-4f3b-907f-1a25a76f98e8", "Linux server data"),
    (
        "bc13c2ff-59e6-4262-a352-b275fd6f7172",
        "Linux extended boot",
    ),
    ("ca7d7ccb-63ed-4c53-861c-1742536059cc", "Linux LUKS"),
    ("8da63339-0007-60c0-c436-083ac8230908", "Linux reserved"),
    (
        "4f68bce3-e8cd-4db1-96e7-fbcaf984b709",
        "Linux root (x86-64)",
    ),
    ("44479540-f297-41b2-9af7-d131d5f0458a", "Linux root (x86)"),
    ("b921b045-1df0-41c3-af44-4c6f280d3fae", "Linux root (ARM64)"),
    ("69dad710-2ce4-4e3c-b16c-21a1d49abed3", "Linux root (ARM)"),
    (
        "72ec70a6-cf74-40e6-bd49-4bda08e8f224",
        "Linux root (RISC-V 64)",
    ),
    (
        "2c7357ed-ebd2-46d9-aec1-23d437ec2bf5",
        "Linux root verity (x86-64)",
    ),
    (
        "8484680c-9521-48c6-9c11-b0720656f69e",
        "Linux /usr (x86-64)",
    ),
    ("4d21b016-b534-45c2-a9fb-5c16e091fd2d", "Linux /var"),
    (
        "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7",
        "Microsoft basic data",
    ),
    ("e3c9e316-0b5c-4db8-817d-f92df00215ae", "Microsoft reserved"),
    ("de94bba4-06d1-4d40-a16a-bfd50179d6ac", "Windows recovery"),
    (
        "5808c8aa-7e8f-42e0-85d2-e1e90434cfb3",
        "Windows LDM metadata",
    ),
    ("af9b60a0-1431-4f62-bc68-3311714a69ad", "Windows LDM data"),
    ("48465300-0000-11aa-aa11-00306543ecac", "Apple HFS+"),
    ("7c3457ef-0000-11aa-aa11-00306543ecac", "Apple APFS"),
    ("426f6f74-0000-11aa-aa11-00306543ecac", "Apple boot"),
    ("83bd6b9d-7f41-11dc-be0b-001560b84f0f", "FreeBSD boot"),
    ("516e7cb6-6ecf-11d6-8ff8-00022d09712b", "FreeBSD UFS"),
    ("516e7cb5-6ecf-11d6-8ff8-00022d09712b", "FreeBSD swap"),
    ("516e7cba-6ecf-11d6-8ff8-00022d09712b", "FreeBSD ZFS"),
    ("49f48d5a-b10e-11dc-b99b-0019d1879648", "NetBSD FFS"),
    ("824cc7a0-36a8-11e3-890a-952519ad3f61", "OpenBSD data"),
    (
        "6a898cc3-1dd2-11b2-99a6-080020736631",
        "Solaris /usr or Apple ZFS",
    ),
    ("fe3a2a5d-4f32-41a7-b725-accc3285a309", "ChromeOS kernel"),
    ("3cb8e202-3b7e-47dd-8a3c-7ff2a13cfcec", "ChromeOS root"),
    ("9e1a2d38-c612-4316-aa26-8b49521e5a8b", "PowerPC PReP boot"),
];

const MBR: &[(u8, &str)] = &[
    (0x01, "FAT12"),
    (0x04, "FAT16 up to 32 MB"),
    (0x05, "extended"),
    (0x06, "FAT16"),
    (0x07, "NTFS, exFAT or HPFS"),
    (0x0b, "FAT32"),
    (0x0c, "FAT32 (LBA)"),
    (0x0e, "FAT16 (LBA)"),
    (0x0f, "extended (LBA)"),
    (0x11, "hidden FAT12"),
    (0x16, "hidden FAT16"),
    (0x17, "hidden NTFS"),
    (0x1b, "hidden FAT32"),
    (0x1c, "hidden FAT32 (LBA)"),
    (0x27, "Windows recovery"),
    (0x39, "Plan 9"),
    (0x41, "PowerPC PReP boot"),
    (0x4d, "QNX4"),
    (0x4e, "QNX4, second"),
    (0x4f, "QNX4, third"),
    (0x63, "System V"),
    (0x80, "old Minix"),
    (0x81, "Minix"),
    (0x82, "Linux swap"),
    (0x83, "Linux"),
    (0x85, "Linux extended"),
    (0x8e, "Linux LVM"),
    (0xa5, "FreeBSD"),
    (0xa6, "OpenBSD"),
    (0xa8, "Darwin UFS"),
    (0xa9, "NetBSD"),
    (0xab, "Darwin boot"),
    (0xaf, "HFS or HFS+"),
    (0xb1, "QNX6"),
    (0xb2, "QNX6"),
    (0xb3, "QNX6"),
    (0xbf, "Solaris"),
    (0xda, "data without a file system"),
    (0xe8, "LUKS"),
    (0xeb, "BeOS"),
    (0xee, "GPT protective"),
    (0xef, "EFI system"),
    (0xfb, "VMware VMFS"),
    (0xfd, "Linux RAID"),
];

pub(super) fn gpt_type_name(guid: &str) -> Option<&'static str> {
    GPT.iter()
        .find(|(known, _)| *known == guid)
        .map(|(_, name)| *name)
}

pub(super) fn mbr_type_name(kind: u8) -> Option<&'static str> {
    MBR.iter()
        .find(|(known, _)| *known == kind)
        .map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_types_are_well_formed_and_appear_once() {
        for (index, (guid, _)) in GPT.iter().enumerate() {
            assert_eq!(guid.len(), 36, "{guid}");
            assert!(
                GPT[..index].iter().all(|(other, _)| other != guid),
                "{guid}"
            );
        }
        assert!(MBR.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(mbr_type_name(0x83), Some("Linux"));
        assert_eq!(mbr_type_name(0x84), None);
    }
}
