// SPDX-License-Identifier: GPL-2.0-only
//! `outboard mkfs`: makes a file system, empty or with a tree in it, in one step.
//!
//! The distribution's tool makes it in a private file beside the image; our kernel fills it, or the
//! tool is given the tree ([`makers`]). Only when it is complete does it become the image, or is it
//! written into the partition: what fails or is interrupted leaves nothing behind.

mod check;
mod estimate;
mod ext;
mod fat;
mod host_tree;
mod iso;
mod losses;
mod makers;

use crate::commands::{check_file_name, progress, uses_image};
use clap::Args;
use estimate::{round_up, TreeSize};
use makers::{FileSystemMaker, FillMethod, Reproducible, FILE_SECTOR};
use outboard::Tree;
use outboard_sandbox::error::{Error, Result};
use outboard_sandbox::failure::ErrorKind;
use outboard_sandbox::format::{escaped, size as size_text};
use outboard_sandbox::HostAccess;
use outboard_transfer::cp::{self, Changes, Copied, CopyRequest};
use outboard_transfer::exclusion::Exclusion;
use outboard_transfer::labels::Labels;
use outboard_transfer::moment::source_date;
use outboard_transfer::owner::Owner;
use outboard_transfer::tar::input::{unpack_file, unpack_reads};
use outboard_volume::address::{ImageName, Place};
use outboard_volume::image::Image;
use outboard_volume::image_file::cannot_open;
use outboard_volume::image_lock::ImageLock;
use outboard_volume::new_image::{write_to, NewFormat};
use outboard_volume::scratch::{PlainPath, Range, Scratch};
use outboard_volume::session::{apart, Session, WantedDevice};
use outboard_volume::tool_volume::find_format;
use outboard_volume::uuid;
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// How often `--fit` tries a larger size.
const TRIES: u32 = 12;
/// 1980-01-01, the first day that FAT knows: the time of reproducible images without
/// SOURCE_DATE_EPOCH.
const FIRST_DAY: i64 = 315_532_800;

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
    /// The image, a new file, in the format qcow2 or vhd if its name ends in .qcow2 or .vhd, else
    /// raw; or IMAGE@N for a partition, IMAGE@NAME for a volume
    pub image: OsString,
    /// Size of the image, as in 512M or 2G
    #[arg(long, value_name = "SIZE", value_parser = crate::commands::arguments::parse_size)]
    pub size: Option<u64>,
    /// Find a size that holds the tree [default with --from, for a new file]
    #[arg(long, conflicts_with = "size", requires = "from")]
    pub fit: bool,
    /// The contents: a directory, whose contents are copied as "cp -a" does, or a tar archive
    #[arg(long, value_name = "DIR|TAR")]
    pub from: Option<PathBuf>,
    /// The label of the file system
    #[arg(long)]
    pub label: Option<String>,
    /// The UUID of the file system; the serial number of FAT, as in 1234-ABCD
    #[arg(long)]
    pub uuid: Option<String>,
    /// Make the same image, bit by bit, from the same tree; times are those of SOURCE_DATE_EPOCH
    #[arg(long)]
    pub reproducible: bool,
    /// Everything in the tree belongs to this owner and group
    #[arg(long, value_name = "UID:GID", requires = "from", value_parser = Owner::from_numbers)]
    pub owner: Option<Owner>,
    /// Users and groups from FROM on become those from TO on (COUNT of them, or one)
    #[arg(
        long,
        value_name = "FROM:TO[:COUNT]",
        requires = "from",
        conflicts_with = "owner"
    )]
    pub owner_map: Vec<cp::OwnerRange>,
    /// Give files SELinux labels, by a file in the form of file_contexts
    #[arg(long, value_name = "FILE", requires = "from")]
    pub file_contexts: Option<PathBuf>,
    /// Overwrite what is there
    #[arg(long)]
    pub force: bool,
    /// Options of the tool that makes the file system
    #[arg(last = true, value_name = "OPTIONS OF THE TOOL")]
    pub options: Vec<OsString>,
}

/// The source of the contents.
#[derive(Debug)]
enum ContentSource {
    Directory(PathBuf),
    Tar(PathBuf),
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
        let metadata = std::fs::metadata(path)
            .map_err(|error| Error::failed(format!("cannot use {shown}"), &error))?;
        Ok(match metadata.is_dir() {
            true => Self::Directory(path.to_path_buf()),
            false => Self::Tar(path.to_path_buf()),
        })
    }

    /// The host's files that the kernel's process reads.
    fn reads(&self) -> Vec<PathBuf> {
        match self {
            Self::Directory(path) => vec![path.clone()],
            Self::Tar(path) => unpack_reads(path),
        }
    }

    /// How much is in it; the holes of its files are no room where `holes` says so.
    fn content(&self, session: &mut Session, holes: bool) -> Result<TreeSize> {
        match self {
            Self::Directory(path) => {
                TreeSize::of_directory(path, holes, session.catch_interrupts())
            }
            Self::Tar(path) => TreeSize::of_tar(session, path),
        }
    }

    /// The directory, for tools that take one.
    fn directory(&self) -> Result<PlainPath> {
        match self {
            Self::Directory(path) => PlainPath::new(path),
            Self::Tar(path) => Err(Error::Usage(format!(
                "{} is no directory, which the tool of this type needs: unpack it first",
                escaped(path.as_os_str().as_bytes())
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

/// Where the file system will be.
enum ImageTarget {
    File {
        path: PathBuf,
        replace: bool,
        format: NewFormat,
    },
    /// A part of a raw image.
    Range {
        path: PathBuf,
        range: Range,
        sector: u64,
    },
    /// A block device of our kernel: something in an image of another format, or inside of layers.
    Device {
        path: PathBuf,
        size: u64,
        sector: u64,
    },
}

impl ImageTarget {
    fn path(&self) -> &Path {
        match self {
            Self::File { path, .. } | Self::Range { path, .. } | Self::Device { path, .. } => path,
        }
    }

    /// The state that a signal leaves: all work happens in a private file until it is complete.
    fn untouched(&self, name: &ImageName) -> String {
        let shown = name.shown();
        match self {
            Self::File { replace: false, .. } => {
                format!("interrupted: {shown} was not made, and nothing is left of it")
            }
            _ => format!("interrupted: {shown} was not changed"),
        }
    }

    /// Bytes of a sector.
    fn sector(&self) -> u64 {
        match self {
            Self::File { .. } => FILE_SECTOR,
            Self::Range { sector, .. } | Self::Device { sector, .. } => *sector,
        }
    }

    /// A private file to make it in: beside the image, but not in /dev.
    fn scratch(&self) -> Result<Scratch> {
        let path = self.path();
        let device = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
        match device {
            true => Scratch::temporary(),
            false => Scratch::beside(path, 0),
        }
    }
}

pub fn run(options: &MkfsArgs, session: &mut Session) -> Result<()> {
    let maker = FileSystemMaker::find(&options.file_system)?;
    let name = ImageName::find(&options.image);
    session.may_write(&name.shown())?;
    check::check_inputs(options, session, &name)?;
    let interrupt = session.catch_interrupts();
    // Kept to the end: nobody moves partitions meanwhile.
    let _lock = lock_existing(session, &name)?;
    let (target, has) = find_target(options, session, &name)?;
    let making = Making::new(options, maker, &name, target.sector())?;
    let wish = making.wish(&target, has)?;
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

/// Locks an image that exists.
fn lock_existing(session: &Session, name: &ImageName) -> Result<Option<ImageLock>> {
    if !name.file.exists() {
        return Ok(None);
    }
    find_format(session, &name.file, true)?;
    ImageLock::take(&name.file, true).map(Some)
}

/// The kind of image to make, and the size of an existing one.
fn find_target(
    options: &MkfsArgs,
    session: &mut Session,
    name: &ImageName,
) -> Result<(ImageTarget, Option<u64>)> {
    let shown = name.shown();
    let path = name.file.clone();
    let found = match path.symlink_metadata() {
        Err(_) if name.partition.is_none() && name.volume.is_none() => {
            let target = ImageTarget::File {
                format: NewFormat::of(&path, session.options()),
                path,
                replace: false,
            };
            return Ok((target, None));
        }
        _ => std::fs::metadata(&path)
            .map_err(|error| Error::failed(format!("cannot use {shown}"), &error))?,
    };
    let format = find_format(session, &path, true)?;
    let image = match format {
        None => Some(Image::open(&path)).transpose(),
        Some(_) => Ok(None),
    };
    let inside = |image: &Image| session.is_inside_layers(image, name);
    let is_inside = matches!(&image, Ok(Some(image)) if inside(image));
    if name.partition.is_none() && name.volume.is_none() && found.is_file() && !is_inside {
        return replaced(options, session, name, format, found.size());
    }
    let (target, size, old) = match image? {
        Some(image) if !is_inside => {
            let range = image.range(name)?;
            let old = image.probe_range(range).map(|old| old.kind.to_owned());
            let sector = sector_of(&path, &found)?;
            let target = ImageTarget::Range {
                path,
                range,
                sector,
            };
            (target, range.size, old)
        }
        _ => {
            let (size, sector, old) = look(session, name)?;
            (ImageTarget::Device { path, size, sector }, size, old)
        }
    };
    match old {
        Some(old) if !options.force => Err(exists(
            &shown,
            &format!("there is something of type {old} already"),
        )),
        _ => Ok((target, Some(size))),
    }
}

/// Bytes of a sector of a raw image, which may be a block device.
fn sector_of(path: &Path, found: &Metadata) -> Result<u64> {
    if !found.file_type().is_block_device() {
        return Ok(FILE_SECTOR);
    }
    let device = Tree::host().open_fd(path, libc::O_RDONLY, 0);
    device
        .and_then(|device| device.sector_size())
        .map_err(|error| cannot_open(path, &error))
}

fn exists(shown: &str, what: &str) -> Error {
    Error::known(
        ErrorKind::AlreadyExists,
        format!("{shown}: {what} (--force overwrites it)"),
    )
}

/// A whole file that is there already, of which a new one takes the place. It keeps the format.
fn replaced(
    options: &MkfsArgs,
    session: &mut Session,
    name: &ImageName,
    format: Option<&str>,
    length: u64,
) -> Result<(ImageTarget, Option<u64>)> {
    let shown = name.shown();
    if !options.force {
        return Err(exists(&shown, "the file exists already"));
    }
    // The file itself is replaced, not a link to it.
    let path = name.file.canonicalize();
    let path = path.map_err(|error| Error::failed(format!("cannot use {shown}"), &error))?;
    let (format, size) = match format {
        None => (NewFormat::Raw, length),
        Some(_) => (NewFormat::named(format), look(session, name)?.0),
    };
    let target = ImageTarget::File {
        path,
        replace: true,
        format,
    };
    Ok((target, (size > 0).then_some(size)))
}

/// The size of what a name means, that of its sectors, and what is on it.
fn look(session: &mut Session, name: &ImageName) -> Result<(u64, u64, Option<String>)> {
    apart(session, &uses_image(name, false), |session| {
        let failed = |error| Error::of_file("cannot use", name.operand(), &error);
        let (device, _) = session.block_device(name, WantedDevice::Itself, false)?;
        let old = device.probe().map_err(failed)?;
        let size = device.size().map_err(failed)?;
        let sector = device.sector_size().map_err(failed)?;
        Ok((size, sector, old.map(|old| old.kind.to_owned())))
    })
}

/// Puts the complete file system where it belongs.
fn finish(
    session: &mut Session,
    scratch: Scratch,
    target: &ImageTarget,
    name: &ImageName,
) -> Result<()> {
    match target {
        ImageTarget::File {
            path,
            replace,
            format,
        } => format.keep(session, scratch, path, *replace),
        ImageTarget::Range { path, range, .. } => {
            let image = ImageLock::take(path, true)?;
            scratch.write_back(image.file(), *range).map_err(|error| {
                let text = format!("{}: not everything was written", name.shown());
                Error::failed(text, &error)
            })
        }
        ImageTarget::Device { path, .. } => write_to(session, &scratch, name, path),
    }
}

/// The size that is asked for.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Exactly(u64),
    Fit,
}

/// All that does not change from one attempt to the next.
struct Making<'a> {
    options: &'a MkfsArgs,
    maker: &'static FileSystemMaker,
    source: Option<ContentSource>,
    changes: Changes,
    /// The tool's options, besides those of the user.
    words: Vec<OsString>,
    uuid: Option<String>,
    /// The time of everything, in seconds, in a reproducible image.
    time: Option<i64>,
    /// Bytes of a sector of what it is made for.
    sector: u64,
    shown: String,
    /// The image or volume, as the user would write it.
    operand: Vec<u8>,
}

impl<'a> Making<'a> {
    fn new(
        options: &'a MkfsArgs,
        maker: &'static FileSystemMaker,
        name: &ImageName,
        sector: u64,
    ) -> Result<Self> {
        maker.check_sectors(sector)?;
        if options.reproducible && maker.reproducible == Reproducible::No {
            return Err(Error::known(
                ErrorKind::Unsupported,
                format!(
                    "{} cannot be made reproducible: of the types there are, {} can",
                    maker.kind,
                    FileSystemMaker::reproducible_kinds()
                ),
            ));
        }
        let source = options
            .from
            .as_deref()
            .map(ContentSource::find)
            .transpose()?;
        if let Some(source) = &source {
            source.check(options)?;
        }
        match (&source, maker.filled) {
            (None, FillMethod::ByTool) => {
                let text = format!("{} is read-only: name its contents with --from", maker.kind);
                return Err(Error::Usage(text));
            }
            (Some(_), FillMethod::Never) => {
                let text = format!("{} has no files: --from makes no sense", maker.kind);
                return Err(Error::Usage(text));
            }
            _ => {}
        }
        let time = match options.reproducible {
            true => Some(source_date().map_err(Error::Usage)?.unwrap_or(FIRST_DAY)),
            false => None,
        };
        let mut making = Self {
            options,
            maker,
            source,
            changes: Changes {
                owner: options.owner,
                owners: options.owner_map.clone(),
                labels: None,
                newest: time,
            },
            words: Vec::new(),
            uuid: options.uuid.clone(),
            time,
            sector,
            shown: name.shown(),
            operand: name.operand(),
        };
        making.choose_words()?;
        Ok(making)
    }

    /// Collects the options of the tool.
    fn choose_words(&mut self) -> Result<()> {
        let maker = self.maker;
        self.say(maker.say_sectors(self.sector, &self.options.options));
        if let Some(label) = &self.options.label {
            self.say(maker.say_label(label)?);
        }
        if self.time.is_some() && self.uuid.is_none() && maker.has_uuid() {
            self.uuid = Some(self.fixed_uuid());
        }
        if let Some(uuid) = &self.uuid {
            self.say(maker.say_uuid(uuid)?);
        }
        match (maker.reproducible, &self.uuid) {
            (Reproducible::Ext, Some(uuid)) if self.time.is_some() => {
                let seed = format!("hash_seed={uuid},lazy_itable_init=0,lazy_journal_init=0");
                self.say(vec!["-E".to_owned(), seed]);
            }
            (Reproducible::Fat, _) if self.time.is_some() => {
                self.say(vec!["--invariant".to_owned()]);
            }
            (Reproducible::ByTool(words), _) if self.time.is_some() => {
                self.say(words.iter().map(|word| (*word).to_owned()).collect());
            }
            _ => {}
        }
        if maker.filled == FillMethod::ByTool {
            self.choose_changes_of_tool()
        } else {
            let labels = self.options.file_contexts.as_deref();
            self.changes.labels = labels.map(Labels::read).transpose()?;
            Ok(())
        }
    }

    /// Where the tool is given the tree, it also makes the changes.
    fn choose_changes_of_tool(&mut self) -> Result<()> {
        if !self.options.owner_map.is_empty() {
            let text = format!(
                "{} cannot map owners in {}: only --owner UID:GID for all files",
                self.maker.tool.name, self.maker.kind
            );
            return Err(Error::Usage(text));
        }
        if let Some(Owner {
            user: Some(user),
            group: Some(group),
        }) = self.options.owner
        {
            self.say(self.maker.say_owner(user, group)?);
        }
        if let Some(file) = &self.options.file_contexts {
            let mut word = OsString::from(self.maker.labels_word()?);
            word.push(file);
            self.words.push(word);
        }
        Ok(())
    }

    fn say(&mut self, words: Vec<String>) {
        self.words.extend(words.into_iter().map(OsString::from));
    }

    /// A UUID for images that are to be the same each time: from the type, label and time.
    fn fixed_uuid(&self) -> String {
        let label = self.options.label.as_deref().unwrap_or_default();
        let text = format!("{}\0{label}\0{:?}", self.maker.kind, self.time);
        let uuid = uuid::from_name(&text);
        match self.maker.reproducible {
            Reproducible::Fat => uuid[..8].to_owned(),
            _ => uuid,
        }
    }

    fn wish(&self, target: &ImageTarget, has: Option<u64>) -> Result<Wish> {
        let size = self.options.size;
        match target {
            ImageTarget::Range {
                range: Range { size: room, .. },
                ..
            }
            | ImageTarget::Device { size: room, .. } => match size {
                _ if self.options.fit => Err(Error::Usage(format!(
                    "{}: it has its size, so --fit makes no sense",
                    self.shown
                ))),
                Some(size) if size > *room => Err(Error::known(
                    ErrorKind::NoSpace,
                    format!("{} has only {}", self.shown, size_text(*room)),
                )),
                _ => Ok(Wish::Exactly(size.unwrap_or(*room))),
            },
            ImageTarget::File { .. } => match (size, has) {
                (Some(size), _) => Ok(Wish::Exactly(size)),
                (None, Some(size)) if !self.options.fit && self.source.is_none() => {
                    Ok(Wish::Exactly(size))
                }
                (None, _) if self.source.is_some() => Ok(Wish::Fit),
                _ => Err(Error::Usage(
                    "say how large the image is to be, as in --size 2G".to_owned(),
                )),
            },
        }
    }

    fn make(&self, session: &mut Session, scratch: &Scratch, wish: Wish) -> Result<Copied> {
        if self.maker.filled == FillMethod::ByTool {
            return self.make_by_tool(session, scratch, wish);
        }
        let size = match wish {
            Wish::Exactly(size) => size,
            Wish::Fit => return self.make_to_fit(session, scratch),
        };
        match self.attempt(session, scratch, size, &[])? {
            made @ (Copied::All | Copied::Some) => Ok(made),
            Copied::UntilFull => Err(Error::known(
                ErrorKind::NoSpace,
                format!(
                    "{}: {} is too small for the contents: give a larger --size, or --fit{}",
                    self.shown,
                    size_text(size),
                    self.advice_on_inodes(session, size)?
                ),
            )),
        }
    }

    /// Advice where the bytes would fit: the number of inodes was too small.
    fn advice_on_inodes(&self, session: &mut Session, size: u64) -> Result<String> {
        let Some(source) = self.source.as_ref().filter(|_| self.maker.is_ext()) else {
            return Ok(String::new());
        };
        let content = source.content(session, self.maker.holes)?;
        Ok(match content.bytes < size / 2 {
            true => format!(
                "; its bytes would fit, but it has {} files, which need as many inodes: -- {}",
                content.files,
                ext::words_for_inodes(content.files).join(" ")
            ),
            false => String::new(),
        })
    }

    fn make_to_fit(&self, session: &mut Session, scratch: &Scratch) -> Result<Copied> {
        // How much of a file is holes depends on the host, but the image must not.
        let holes = self.maker.holes && self.time.is_none();
        let content = match &self.source {
            Some(source) => source.content(session, holes)?,
            None => TreeSize::default(),
        };
        let words = match self.maker.is_ext() {
            true => ext::words_to_fit(content.files),
            false => Vec::new(),
        };
        let mut size = content.room(self.maker.least);
        for _ in 0..TRIES {
            let made = self.attempt(session, scratch, size, &words)?;
            if made != Copied::UntilFull {
                return Ok(made);
            }
            size = round_up(size + size / 3);
        }
        Err(Error::known(
            ErrorKind::NoSpace,
            format!(
                "{}: the contents do not even fit into {}",
                self.shown,
                size_text(size)
            ),
        ))
    }

    /// Makes the file system in this size, and fills it. `words`: further ones for the tool.
    fn attempt(
        &self,
        session: &mut Session,
        scratch: &Scratch,
        size: u64,
        words: &[String],
    ) -> Result<Copied> {
        scratch.clear(size)?;
        let Some(source) = &self.source else {
            self.call(session, scratch, None, words)?;
            if let (Reproducible::Fat, Some(time)) = (self.maker.reproducible, self.time) {
                fat::settle(scratch.path(), time)?;
            }
            return Ok(Copied::All);
        };
        if let (Reproducible::Ext, Some(time)) = (self.maker.reproducible, self.time) {
            let filled = self.call(session, scratch, Some(source), words)?;
            if filled == Copied::All {
                losses::tell(
                    source.directory()?.as_ref(),
                    self.maker.leaves_out,
                    session.catch_interrupts(),
                )?;
                ext::settle(
                    session,
                    scratch,
                    source.directory()?.as_ref(),
                    &self.changes,
                    time,
                )?;
            }
            return Ok(filled);
        }
        self.call(session, scratch, None, words)?;
        let filled = self.fill(session, scratch, source)?;
        if let (Reproducible::Fat, Some(time)) = (self.maker.reproducible, self.time) {
            fat::settle(scratch.path(), time)?;
        }
        Ok(filled)
    }

    /// Copies the source into the empty file system.
    fn fill(
        &self,
        session: &mut Session,
        scratch: &Scratch,
        source: &ContentSource,
    ) -> Result<Copied> {
        let image = ImageName::new(scratch.path(), None);
        let access = HostAccess {
            reads: source.reads(),
            keeps_attributes: true,
            ..uses_image(&image, true)
        };
        let place = Place::Image(image, PathBuf::from("/"));
        let options = cp::Options {
            sorted: self.time.is_some(),
            may_be_full: true,
            ..cp::Options::everything(session.umask())
        };
        apart(session, &access, |session| match source {
            ContentSource::Directory(path) => {
                let contents = [Place::Host(path.join("."))];
                let order = CopyRequest {
                    options,
                    changes: &self.changes,
                    excluded: &Exclusion::default(),
                    names: None,
                    operand: Some(&self.operand),
                };
                cp::copy(session, &order, &contents, &place, progress::report)
            }
            ContentSource::Tar(path) => {
                match unpack_file(session, path, &place, &self.operand, progress::report) {
                    Ok(()) => Ok(Copied::All),
                    Err(Error::Told) => Ok(Copied::Some),
                    Err(error) => Err(error),
                }
            }
        })
    }

    /// Runs the tool on the file; a tree for the ext tools only where they are to fill it.
    fn call(
        &self,
        session: &Session,
        scratch: &Scratch,
        source: Option<&ContentSource>,
        words: &[String],
    ) -> Result<Copied> {
        let call = self.maker.tool.call(session.options().confinement())?;
        let call = call.shown(session.verbose());
        let call = call.writes(scratch.directory());
        let mut call = call.naming(scratch.path(), &self.shown);
        if let Some(time) = self.time {
            call = ext::at_time(call.variable("SOURCE_DATE_EPOCH", time.to_string()), time);
        }
        if let Some(name) = self.maker.sectors_variable(self.sector) {
            call = call.variable(name, self.sector.to_string());
        }
        let tree = match &self.source {
            Some(given @ ContentSource::Directory(_)) => Some(given.directory()?),
            Some(given) if self.maker.filled == FillMethod::ByTool => Some(given.directory()?),
            _ => None,
        };
        if let Some(path) = &tree {
            call = call.reads(path);
        }
        if let Some(path) = &self.options.file_contexts {
            call = call.reads(path);
        }
        for word in self.maker.words() {
            call = match (*word, &tree) {
                ("{image}", _) => call.argument(scratch.path()),
                ("{tree}", Some(tree)) => call.argument(tree.as_ref()),
                ("{options}", tree) => {
                    call = call.arguments(&self.words).arguments(words);
                    if let (Some(_), Some(tree)) = (source, tree) {
                        call = call.argument("-d").argument(tree.as_ref());
                    }
                    call.arguments(&self.options.options)
                }
                _ => call.argument(word),
            };
        }
        let ended = call.run()?;
        let full = source.is_some() && ext::was_full(&ended.output);
        match ended.code() {
            Some(0) => Ok(Copied::All),
            Some(_) if full => Ok(Copied::UntilFull),
            _ => Err(ended.failure(&self.cannot())),
        }
    }

    /// The failed step, with the sectors if they are unusual: not every tool takes a size of
    /// sectors.
    fn cannot(&self) -> String {
        let what = format!("cannot make {} in {}", self.maker.kind, self.shown);
        match self.sector {
            FILE_SECTOR => what,
            size => format!("{what}, which has sectors of {size} bytes"),
        }
    }

    fn make_by_tool(&self, session: &mut Session, scratch: &Scratch, wish: Wish) -> Result<Copied> {
        let interrupt = session.catch_interrupts();
        if let Some(source) = &self.source {
            let tree = source.directory()?;
            host_tree::check_paths(tree.as_ref(), self.maker.tool.name, interrupt.clone())?;
        }
        scratch.clear(0)?;
        let made = self.call(session, scratch, None, &[])?;
        if let (Reproducible::Iso, Some(time)) = (self.maker.reproducible, self.time) {
            iso::settle(scratch.path(), time)?;
        }
        if let Some(source) = &self.source {
            losses::tell(
                source.directory()?.as_ref(),
                self.maker.leaves_out,
                interrupt,
            )?;
        }
        let Wish::Exactly(size) = wish else {
            return Ok(made);
        };
        let needed = scratch.size()?;
        if needed > size {
            return Err(Error::known(
                ErrorKind::NoSpace,
                format!(
                    "{}: the file system has {}, which is more than {}",
                    self.shown,
                    size_text(needed),
                    size_text(size)
                ),
            ));
        }
        scratch.set_size(size).map(|()| made)
    }
}
