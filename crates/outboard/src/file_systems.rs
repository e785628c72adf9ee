// SPDX-License-Identifier: GPL-2.0-only
//! Mount options that the kernel's file systems need.

use outboard_sys::component;

/// The kernel's driver for a type that a probe found.
pub(crate) fn driver(kind: &str) -> &str {
    match kind {
        "ext2" | "ext3" | "ext4" => "ext4",
        "ntfs" => "ntfs3",
        other => other,
    }
}

/// The component of a type that a probe found, if one came with the library under that name.
pub fn component_of(kind: &str) -> Option<String> {
    let name = driver(kind);
    let components = component::list().ok()?;
    let known = components.iter().any(|component| component.name == name);
    known.then(|| name.to_owned())
}

/// Options without which a type cannot be mounted well. `detail`: the variant that the probe found.
pub(crate) fn needed_options(kind: &str, detail: &str) -> String {
    match kind {
        "ufs" => format!(
            "ufstype={}",
            if detail.is_empty() { "44bsd" } else { detail }
        ),
        // Names in UTF-8, as everywhere else on Linux.
        "vfat" => "utf8=1".into(),
        // A name that is too long is an error, and does not become a shorter one.
        "affs" => "nofilenametruncate".into(),
        // A clone of a mounted file system has the same UUID.
        "xfs" => "nouuid".into(),
        "ntfs" | "ntfs3" | "exfat" | "iso9660" | "udf" | "jfs" => "iocharset=utf8".into(),
        _ => String::new(),
    }
}

/// File systems whose files, or those of them that other systems made, have no owner.
const WITHOUT_OWNERS: [&str; 9] = [
    "vfat", "msdos", "exfat", "ntfs", "ntfs3", "hfs", "hpfs", "adfs", "omfs",
];

/// Options that give files without an owner to a user and a group.
pub(crate) fn owner_options(kind: &str, user: Option<u32>, group: Option<u32>) -> String {
    if !WITHOUT_OWNERS.contains(&kind) {
        return String::new();
    }
    let user = user.map(|user| format!("uid={user}"));
    let group = group.map(|group| format!("gid={group}"));
    Vec::from_iter(user.into_iter().chain(group)).join(",")
}

/// The option that takes permissions from files that have none of their own.
pub(crate) fn mask_option(kind: &str, mask: Option<u32>) -> String {
    const WITH_MASK: [&str; 7] = ["vfat", "msdos", "exfat", "ntfs", "ntfs3", "hpfs", "omfs"];
    match mask {
        Some(mask) if WITH_MASK.contains(&kind) => format!("umask={mask:o}"),
        _ => String::new(),
    }
}

/// Options that mount read-only without looking at a journal, tried in this order after a plain
/// read-only mount was refused. The last writes may then be missing.
pub(crate) fn without_journal(kind: &str) -> &'static [&'static str] {
    match kind {
        "ext2" | "ext3" | "ext4" => &["noload"],
        "xfs" => &["norecovery"],
        "btrfs" => &["rescue=nologreplay", "rescue=all"],
        "f2fs" => &["disable_roll_forward", "norecovery"],
        "nilfs2" => &["norecovery"],
        "bcachefs" => &["norecovery,nochanges"],
        "ntfs" | "ntfs3" => &["force"],
        "hfsplus" => &["force"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_can_be_mounted_side_by_side() {
        assert_eq!(needed_options("xfs", ""), "nouuid");
    }

    #[test]
    fn owners_are_for_files_without() {
        assert_eq!(owner_options("vfat", Some(5), Some(6)), "uid=5,gid=6");
        assert_eq!(owner_options("exfat", None, Some(6)), "gid=6");
        assert_eq!(owner_options("ext4", Some(5), Some(6)), "");
        assert_eq!(owner_options("vfat", None, None), "");
        assert_eq!(mask_option("vfat", Some(0o22)), "umask=22");
        assert_eq!(mask_option("ext4", Some(0o22)), "");
    }
}
