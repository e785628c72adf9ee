// SPDX-License-Identifier: GPL-2.0-only
//! `outboard mkfs`: makes a file system, empty or with a tree in it, in one step.
//!
//! The distribution's tool makes it in a private file beside the image; our kernel fills it, or the
//! tool is given the tree ([`makers`]). Only when it is complete does it become the image, or is it
//! written into the partition: what fails or is interrupted leaves nothing behind.

mod archive;
mod check;
mod estimate;
mod ext;
mod fat;
mod host_tree;
mod iso;
mod losses;
mod makers;
mod making;
mod packed;
mod target;

use crate::commands::check_file_name;
use archive::SourceArchive;
use clap::Args;
use estimate::{Storing, TreeSize};
use makers::FileSystemMaker;
use making::Making;
use outboard_error::format::escaped;
use outboard_error::{Error, ErrorKind, Result};
use outboard_transfer::cp::{self, Copied};
use outboard_transfer::tar::input::unpack_reads;
use outboard_volume::address::{ImageName, Place};
use outboard_volume::scratch::PlainPath;
use outboard_volume::session::Session;
use std::ffi::OsString;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use target::{find_target, finish, lock_existing};

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

/// The source of the contents.
#[derive(Debug)]
enum ContentSource {
    Directory(PathBuf),
    Tar(SourceArchive),
}

impl ContentSource {
    fn find(path: &Path) -> Result<Self> {
        let shown = escaped(path.as_os_str().as_bytes());
        if Place::image_of(path).is_some() {
            return Err(Error::known(
                ErrorKind::Usage,
                format!(
                "{shown} is a place in an image, but --from takes a directory or an archive of the \
                 host: pack it with outboard tar-out before"
            ),
            ));
        }
        check_file_name(path)?;
        let operand = || path.as_os_str().as_bytes().to_vec();
        let failed = |error: io::Error| Error::of_file("cannot use", operand(), &error);
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if metadata.is_dir() {
            Ok(Self::Directory(path.to_path_buf()))
        } else {
            SourceArchive::find(path).map(Self::Tar).map_err(failed)
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Directory(path) => path,
            Self::Tar(archive) => archive.path(),
        }
    }

    fn shown(&self) -> String {
        escaped(self.path().as_os_str().as_bytes())
    }

    /// The host's files that the kernel's process reads.
    fn reads(&self) -> Vec<PathBuf> {
        match self {
            Self::Directory(path) => vec![path.clone()],
            Self::Tar(archive) => unpack_reads(archive.path()),
        }
    }

    /// Whether it can be read more than once.
    fn can_be_read_again(&self) -> bool {
        match self {
            Self::Directory(_) => true,
            Self::Tar(archive) => archive.can_be_read_again(),
        }
    }

    /// How much is in it, as a type stores it. `closed`: descriptors that the reader of an archive
    /// must not have.
    fn content(
        &self,
        session: &mut Session,
        storing: Storing,
        closed: &[RawFd],
    ) -> Result<TreeSize> {
        match self {
            Self::Directory(path) => {
                TreeSize::of_directory(path, storing, session.catch_interrupts())
            }
            Self::Tar(archive) => TreeSize::of_tar(session, archive, storing, closed),
        }
    }

    /// The directory, for tools that take one.
    fn directory(&self) -> Result<PlainPath> {
        match self {
            Self::Directory(path) => PlainPath::new(path),
            Self::Tar(_) => Err(Error::Usage(format!(
                "{} is no directory, which the tool of this type needs: unpack it first",
                self.shown()
            ))),
        }
    }

    /// A tar says itself whose its files are.
    fn check(&self, options: &MkfsArgs) -> Result<()> {
        let changes = options.owner.is_some()
            || !options.owner_map.is_empty()
            || options.file_contexts.is_some()
            || options.reproducible;
        if changes && matches!(self, Self::Tar(_)) {
            return Err(Error::Usage(
                "--owner, --owner-map, --file-contexts and --reproducible are for directories, not \
                 for a tar"
                    .to_owned(),
            ));
        }
        Ok(())
    }
}

pub fn run(options: &MkfsArgs, session: &mut Session) -> Result<()> {
    let maker = FileSystemMaker::find(&options.file_system)?;
    let name = ImageName::find(&options.image);
    session.may_write(&name.shown())?;
    check::check_inputs(options, session, &name)?;
    let interrupt = session.catch_interrupts();
    // Kept to the end: nobody moves partitions meanwhile.
    let lock = lock_existing(session, &name)?;
    let target = find_target(options, session, &name);
    let (target, has) = target.map_err(|error| error.about(name.operand()))?;
    let mut making = Making::new(options, maker, &name, target.sector())?;
    let wish = making.wish(&target, has)?;
    making.keep_source(wish, &interrupt)?;
    making.replaced = lock.as_ref().map(|lock| lock.file().raw());
    let scratch = target.scratch()?;
    let private = scratch.path().display().to_string();
    let mut make = || {
        let made = making.make(session, &scratch, wish)?;
        check::check_made(session, options, maker, &scratch, wish, &name.shown())?;
        interrupt.check()?;
        Ok(made)
    };
    let complete = make().map_err(|error| match error {
        Error::Interrupted(_) => Error::Interrupted(target.untouched(&name)),
        other => other,
    });
    let made = complete.and_then(|made| {
        finish(session, scratch, &target, &name)?;
        Ok(made)
    });
    match made.map_err(|error| error.naming(&private, &name.shown()))? {
        Copied::All => Ok(()),
        // As with cp: all the rest is there.
        _ => Err(Error::Told),
    }
}

/// The size that is asked for.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Exactly(u64),
    Fit,
}
