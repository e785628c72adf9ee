// SPDX-License-Identifier: GPL-2.0-only
//! `outboard mkfs`: makes a file system, empty or with a tree in it, in one step.

use crate::commands::{check_file_name, progress};
use clap::Args;
use outboard::System;
use outboard_build::{DiskPlan, VolumePlan};
use outboard_error::format::escaped;
use outboard_error::{Error, ErrorKind, Result};
use outboard_transfer::cp;
use outboard_volume::address::Place;
use outboard_volume::session::Session;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Directories that a walk keeps open, at most.
const DEEPEST: u64 = 1 << 20;

/// Make a file system, empty or with a tree in it
#[derive(Args, Debug)]
#[command(
    override_usage = "outboard mkfs [OPTIONS] <TYPE> <IMAGE> [-- <OPTIONS OF THE TOOL>...]",
    after_help = "Examples:\
                  \n  outboard mkfs ext4 disk.img --size 2G --label data\
                  \n  outboard mkfs ext4 root.img --fit --from rootfs --owner 0:0\
                  \n  outboard mkfs squashfs root.squashfs --from rootfs\
                  \n  outboard mkfs vfat disk.img@1 --from boot\
                  \n  SOURCE_DATE_EPOCH=1700000000 outboard mkfs ext4 root.img --fit --from rootfs \
                  --reproducible\
                  \n  outboard mkfs xfs disk.img --size 1G -- -m rmapbt=1\
                  \n  outboard mkfs ext4 disk.qcow2 --size 2G\
                  \n  outboard mkfs vfat cloud.qcow2@1\
                  \n  outboard mkfs ext4 server.img@vg0/root --from rootfs"
)]
pub struct MkfsArgs {
    /// The type: ext2, ext3, ext4, xfs, btrfs, f2fs, vfat (fat12, fat16, fat32), exfat, ntfs, udf,
    /// nilfs2, jfs, minix, swap; from a tree: squashfs, erofs, iso9660, romfs, cramfs
    #[arg(value_name = "TYPE")]
    pub file_system: String,
    /// A new image, of the format qcow2 or vhd if its name ends in .qcow2 or .vhd, else raw; or
    /// IMAGE@N for a partition, IMAGE@NAME for a volume
    pub image: OsString,
    /// The size of the image, as in 512M or 2G
    #[arg(long, value_name = "SIZE", value_parser = outboard_error::size::parse_size)]
    pub size: Option<u64>,
    /// Choose a size that fits the tree [default with --from, for a new image]
    #[arg(long, conflicts_with = "size", requires = "from")]
    pub fit: bool,
    /// Fill the file system from this directory, as "cp -a DIR/." does, or from this tar archive
    #[arg(long, value_name = "DIR|TAR")]
    pub from: Option<PathBuf>,
    /// The label of the file system
    #[arg(long)]
    pub label: Option<String>,
    /// The UUID of the file system; the serial number of FAT, as in 1234-ABCD
    #[arg(long)]
    pub uuid: Option<String>,
    /// Make the same image, bit by bit, from the same tree; no time in it is later than
    /// SOURCE_DATE_EPOCH
    #[arg(long)]
    pub reproducible: bool,
    /// The owner of everything in the tree: USER, USER:GROUP, :GROUP, or USER: for the user's login
    /// group; numbers, or names of the tree
    #[arg(long, value_name = "OWNER", requires = "from")]
    pub owner: Option<OsString>,
    /// Change COUNT users and groups, or one: the numbers from FROM on become those from TO on
    #[arg(
        long,
        value_name = "FROM:TO[:COUNT]",
        requires = "from",
        conflicts_with = "owner"
    )]
    pub owner_map: Vec<cp::OwnerRange>,
    /// Give files the SELinux labels of this file, in the form of file_contexts
    #[arg(long, value_name = "FILE", requires = "from")]
    pub file_contexts: Option<PathBuf>,
    /// Overwrite a file or file system that exists
    #[arg(long)]
    pub force: bool,
    /// Options for the tool that makes the file system, such as mke2fs
    #[arg(last = true, value_name = "OPTIONS OF THE TOOL")]
    pub options: Vec<OsString>,
}

impl MkfsArgs {
    fn plan(&self) -> VolumePlan {
        VolumePlan {
            size: self.size,
            fit: self.fit,
            from: self.from.clone(),
            label: self.label.clone(),
            uuid: self.uuid.clone(),
            reproducible: self.reproducible,
            owner: self.owner.clone(),
            owner_map: self.owner_map.clone(),
            file_contexts: self.file_contexts.clone(),
            force: self.force,
            options: self.options.clone(),
            ..VolumePlan::new(&self.image, &self.file_system)
        }
    }
}

/// Refuses contents that are a place in an image.
fn check_source(path: &Path) -> Result<()> {
    if Place::image_of(path).is_none() {
        return check_file_name(path);
    }
    let shown = escaped(path.as_os_str().as_bytes());
    Err(Error::known(
        ErrorKind::Usage,
        format!(
            "{shown} is a place in an image, but --from takes a directory or an archive of the \
             host: pack it with outboard tar-out before"
        ),
    ))
}

pub fn run(options: &MkfsArgs, session: &mut Session) -> Result<()> {
    options.from.as_deref().map_or(Ok(()), check_source)?;
    // Only the depth of trees depends on it: walks keep directories open.
    let _ = System::Host.raise_file_limit(DEEPEST);
    DiskPlan::of_volume(options.plan()).run(session, &progress::report)
}
