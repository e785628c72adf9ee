// SPDX-License-Identifier: GPL-2.0-only
//! Names for the types of partitions.

/// A name, the type in a GPT, and in an MBR.
type Row = (&'static str, Option<&'static str>, Option<&'static str>);

const TYPES: &[Row] = &[
    (
        "linux",
        Some("0FC63DAF-8483-4772-8E79-3D69D8477DE4"),
        Some("83"),
    ),
    (
        "esp",
        Some("C12A7328-F81F-11D2-BA4B-00A0C93EC93B"),
        Some("ef"),
    ),
    ("bios", Some("21686148-6449-6E6F-744E-656564454649"), None),
    (
        "boot",
        Some("BC13C2FF-59E6-4262-A352-B275FD6F7172"),
        Some("ea"),
    ),
    (
        "swap",
        Some("0657FD6D-A4AB-43C4-84E5-0933C84B4F4F"),
        Some("82"),
    ),
    (
        "lvm",
        Some("E6D6D379-F507-44C2-A23C-238F2A3DF928"),
        Some("8e"),
    ),
    (
        "raid",
        Some("A19D880F-05FC-4D3B-A006-743F0F84911E"),
        Some("fd"),
    ),
    (
        "luks",
        Some("CA7D7CCB-63ED-4C53-861C-1742536059CC"),
        Some("e8"),
    ),
    (
        "home",
        Some("933AC7E1-2EB4-4F13-B844-0E14E2AEF915"),
        Some("83"),
    ),
    (
        "srv",
        Some("3B8F8425-20E0-4F3B-907F-1A25A76F98E8"),
        Some("83"),
    ),
    (
        "var",
        Some("4D21B016-B534-45C2-A9FB-5C16E091FD2D"),
        Some("83"),
    ),
    (
        "root-x86",
        Some("44479540-F297-41B2-9AF7-D131D5F0458A"),
        Some("83"),
    ),
    (
        "root-x86-64",
        Some("4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"),
        Some("83"),
    ),
    (
        "root-arm",
        Some("69DAD710-2CE4-4E3C-B16C-21A1D49ABED3"),
        Some("83"),
    ),
    (
        "root-arm64",
        Some("B921B045-1DF0-41C3-AF44-4C6F280D3FAE"),
        Some("83"),
    ),
    (
        "root-riscv64",
        Some("72EC70A6-CF74-40E6-BD49-4BDA08E8F224"),
        Some("83"),
    ),
    (
        "usr-x86-64",
        Some("8484680C-9521-48C6-9C11-B0720656F69E"),
        Some("83"),
    ),
    (
        "fat",
        Some("EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"),
        Some("c"),
    ),
    (
        "ntfs",
        Some("EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"),
        Some("7"),
    ),
    (
        "prep",
        Some("9E1A2D38-C612-4316-AA26-8B49521E5A8B"),
        Some("41"),
    ),
    ("extended", None, Some("5")),
];

pub fn names() -> String {
    let names: Vec<&str> = TYPES.iter().map(|(name, _, _)| *name).collect();
    names.join(", ")
}

/// Whether a type of an MBR is that of a partition with others in it.
pub fn is_extended(text: &str) -> bool {
    let number = find(text, false);
    matches!(number.as_deref(), Some("5" | "f" | "85"))
}

/// Digits with dashes where a UUID has them.
pub fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The type for sfdisk, from a name, a GUID, or 0xNN.
pub fn find(text: &str, gpt: bool) -> Option<String> {
    if let Some((_, guid, number)) = TYPES.iter().find(|(name, _, _)| *name == text) {
        return if gpt { guid } else { number }.map(str::to_owned);
    }
    let number = text
        .strip_prefix("0x")
        .and_then(|digits| u8::from_str_radix(digits, 16).ok());
    match (gpt, number) {
        (true, _) => is_uuid(text).then(|| text.to_ascii_uppercase()),
        (false, Some(number)) if number > 0 => Some(format!("{number:x}")),
        (false, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types() {
        for (index, (name, guid, _)) in TYPES.iter().enumerate() {
            assert!(
                TYPES[..index].iter().all(|(other, _, _)| other != name),
                "{name}"
            );
            assert!(guid.is_none_or(is_uuid), "{name}");
        }
        assert_eq!(find("linux", false).as_deref(), Some("83"));
        assert_eq!(find("0x1b", false).as_deref(), Some("1b"));
        assert_eq!(find("bios", false), None);
        for bad in [
            "",
            "x",
            "0x",
            "0x100",
            "0x0",
            "0FC63DAF-8483-4772-8E79-3D69D8477DEX",
        ] {
            assert_eq!(find(bad, true), None, "{bad}");
            assert_eq!(find(bad, false), None, "{bad}");
        }
    }
}
