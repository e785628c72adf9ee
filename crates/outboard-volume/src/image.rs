// SPDX-License-Identifier: GPL-2.0-only
//! Images as files of the host: what is in them, before any kernel looks.

use crate::address::ImageName;
use crate::containers::{Container, Content};
use crate::image_file::{cannot_open, open_image_file, split_hint};
use crate::remote::is_remote;
use crate::scratch::Range;
use outboard_error::{Error, ErrorKind, Hint, Result};
use outboard_image::partition::{read_table, Partition, Table};
use outboard_image::{probe, Class, Probe, Slice, Source};
use std::fmt::Display;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// An image and what its bytes say.
pub struct Image {
    shown: String,
    pub content: Arc<Content>,
    /// The file's format, as in "qcow2", if it is not raw.
    pub format: Option<&'static str>,
    /// Device and inode: the same file has the same identity, whatever its name.
    pub identity: (u64, u64),
    pub table: Option<Table>,
    pub whole: Option<Probe>,
    /// Advice for a file that is but a piece of an image.
    pub split: Option<String>,
}

/// A file system in an image.
#[derive(Debug)]
pub struct FileSystem {
    pub partition: Option<u32>,
    /// The result of the probe; `None` if the user named the type of something unknown.
    pub probe: Option<Probe>,
}

impl Image {
    /// Opens the file of a raw image by its name, for commands that have other programs work on it.
    /// [`Session::image`](crate::session::Session::image) is for all others.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |error: io::Error| cannot_open(path, &error);
        let file = open_image_file(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let identity = (metadata.dev(), metadata.ino());
        let content = Container::Raw(file).content(false).map_err(failed)?;
        let split = split_hint(path);
        Self::new(path, identity, None, Arc::new(content), split)
    }

    /// Looks at the beginning of an image. `split`: see [`split_hint`]. The host's files are not
    /// looked at here: the server of a mount would wait for itself if its image lies below the
    /// mount.
    pub fn new(
        path: &Path,
        identity: (u64, u64),
        format: Option<&'static str>,
        content: Arc<Content>,
        split: Option<String>,
    ) -> Result<Self> {
        let shown = path.display().to_string();
        if content.size() == 0 {
            return Err(Error::known(
                ErrorKind::NotAFileSystem,
                format!("{shown} is empty: 0 bytes"),
            ));
        }
        let failed = |error: io::Error| cannot_read(&shown, &error);
        let table = read_table(&*content).map_err(failed)?;
        let whole = probe(&*content).map_err(failed)?;
        Ok(Self {
            shown,
            content,
            format,
            identity,
            table,
            whole,
            split,
        })
    }

    /// Its file's name.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Whether a server has it.
    pub fn is_remote(&self) -> bool {
        is_remote(Path::new(&self.shown))
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.content.size()
    }

    /// Bytes of a logical sector: those that the partition table counts, else those of the disk.
    pub fn sector_size(&self) -> u64 {
        let counted = self.partitions().map(|table| table.sector_size);
        counted.unwrap_or_else(|| self.content.sector_size())
    }

    /// The range of a partition, or all of the image.
    pub fn range(&self, name: &ImageName) -> Result<Range> {
        let whole = Range {
            start: 0,
            size: self.size(),
        };
        let Some(number) = name.partition else {
            return Ok(whole);
        };
        let partition = self.usable_partition(number, name)?;
        let (start, size) = (partition.start, partition.size);
        match start.checked_add(size) {
            Some(end) if end <= whole.size => Ok(Range { start, size }),
            _ => Err(Error::known(
                ErrorKind::Damaged,
                format!(
                    "{} goes beyond the end of the image: {}",
                    name.shown(),
                    self.cut()
                ),
            )),
        }
    }

    /// The range of a partition of the table, or all of the image.
    pub fn range_of(&self, partition: Option<u32>) -> Range {
        let whole = Range {
            start: 0,
            size: self.size(),
        };
        let found = partition.and_then(|number| self.partition(number).ok());
        found.map_or(whole, |found| Range {
            start: found.start,
            size: found.size,
        })
    }

    /// A partition that has bytes of its own.
    fn usable_partition(&self, number: u32, name: &ImageName) -> Result<&Partition> {
        let partition = self.partition(number)?;
        if partition.extended {
            let text = format!(
                "{} is an extended partition: the file systems are in those it holds",
                name.shown()
            );
            return Err(Error::known(ErrorKind::NotAFileSystem, text));
        }
        Ok(partition)
    }

    /// Whether its partitions or its file system say that it should be larger.
    pub fn is_cut(&self) -> bool {
        let size = self.size();
        let beyond = |partition: &Partition| {
            let end = partition.start.checked_add(partition.size);
            end.is_none_or(|end| end > size)
        };
        let needs = self.whole.as_ref().and_then(|probe| probe.size);
        let table = self.table.iter();
        let cut = |table: &Table| table.partitions.iter().any(beyond);
        needs.is_some_and(|needs| needs > size) || table.into_iter().any(cut)
    }

    /// Why an image lacks its end.
    fn cut(&self) -> &str {
        self.split.as_deref().unwrap_or("it is cut off")
    }

    /// The error for an image with unknown contents.
    pub fn unrecognised(&self) -> Error {
        unrecognised(&self.shown, self.split.clone())
    }

    /// A range of the image.
    pub fn slice(&self, range: Range) -> Slice<'_, Content> {
        Slice::new(&*self.content, range.start, range.size)
    }

    /// Probes a range of the image.
    pub fn probe_range(&self, range: Range) -> Result<Option<Probe>> {
        probe(&self.slice(range)).map_err(|error| cannot_read(&self.shown, &error))
    }

    /// Probes a partition.
    pub fn probe_partition(&self, partition: &Partition) -> Result<Option<Probe>> {
        if partition.extended {
            return Ok(None);
        }
        let (start, size) = (partition.start, partition.size);
        let found = probe(&self.slice(Range { start, size }));
        found.map_err(|error| cannot_read(&format!("{}@{}", self.shown, partition.number), &error))
    }

    /// The partition table, if it and not what is on the whole disk counts. Discs that also boot
    /// from a stick have both; there the disc counts. In a member of a RAID it is the RAID that has
    /// partitions; only a superblock of version 0.90 may as well be that of the last partition.
    pub fn partitions(&self) -> Option<&Table> {
        let counts = |probe: &Probe| match probe.kind {
            "iso9660" | "udf" | "isw_raid_member" | "ddf_raid_member" => true,
            "linux_raid_member" => probe.detail != "0.90",
            _ => false,
        };
        let whole = self.whole.as_ref();
        let table = self.table.as_ref();
        // An old MBR may announce a GPT that a file system has overwritten.
        table.filter(|table| {
            if table.damaged {
                whole.is_none()
            } else {
                !whole.is_some_and(counts)
            }
        })
    }

    fn missing_partition(&self, number: u32) -> Error {
        let Some(table) = &self.table else {
            let shown = &self.shown;
            return Error::known(
                ErrorKind::NotFound,
                format!(
                "no partition {number} in {shown}: it has no partition table (say {shown}:/ for \
                 all of it)"
            ),
            );
        };
        let numbers: Vec<String> = table
            .partitions
            .iter()
            .map(|partition| partition.number.to_string())
            .collect();
        Error::known(
            ErrorKind::NotFound,
            format!(
                "no partition {number} in {}: {}{}",
                self.shown,
                if table.damaged { "" } else { "it has " },
                match (numbers.is_empty(), table.damaged) {
                    (_, true) => table.warnings.join("; "),
                    (true, false) => "none".to_owned(),
                    (false, false) => numbers.join(", "),
                }
            ),
        )
    }

    /// The partition of this number.
    pub fn partition(&self, number: u32) -> Result<&Partition> {
        self.table
            .iter()
            .flat_map(|table| &table.partitions)
            .find(|partition| partition.number == number)
            .ok_or_else(|| self.missing_partition(number))
    }

    /// The partitions with file systems.
    pub fn with_file_systems<'a>(&self, table: &'a Table) -> Result<Vec<(&'a Partition, Probe)>> {
        let mut found = Vec::new();
        for partition in &table.partitions {
            let probe = self.probe_partition(partition)?;
            let file_system = probe.filter(|probe| probe.class == Class::FileSystem);
            found.extend(file_system.map(|probe| (partition, probe)));
        }
        Ok(found)
    }

    /// The file systems that a name without a partition may mean, each with its type; nothing where
    /// the name says which one.
    pub fn file_systems(&self, name: &ImageName) -> Result<Vec<(ImageName, &'static str)>> {
        let Some(table) = self.partitions().filter(|_| name.partition.is_none()) else {
            return Ok(Vec::new());
        };
        let found = self.with_file_systems(table)?;
        let named = found.into_iter().map(|(partition, probe)| {
            let name = ImageName::new(&name.file, Some(partition.number));
            (name, probe.kind)
        });
        Ok(named.collect())
    }

    /// The only file system among the partitions.
    fn only_file_system(&self, table: &Table) -> Result<FileSystem> {
        let mut found = self.with_file_systems(table)?;
        if found.len() == 1 {
            let (partition, probe) = found.remove(0);
            return Ok(FileSystem {
                partition: Some(partition.number),
                probe: Some(probe),
            });
        }
        let shown = &self.shown;
        if table.damaged {
            let text = format!("{shown}: {}", table.warnings.join("; "));
            return Err(Error::known(ErrorKind::Damaged, text));
        }
        if found.is_empty() {
            let see = Hint::Inspect {
                name: shown.clone(),
            };
            return Err(Error::hinted(ErrorKind::NotAFileSystem, see, |see| {
                format!(
                    "{shown} has a {} partition table, but no partition with a known file \
                     system{see}",
                    table.kind.name()
                )
            }));
        }
        let list: Vec<String> = found
            .iter()
            .map(|(partition, probe)| format!("{shown}@{}:/ ({})", partition.number, probe.kind))
            .collect();
        Err(Error::known(
            ErrorKind::Ambiguous,
            format!(
                "{shown} has partitions: say which one, {}",
                list.join(" or ")
            ),
        ))
    }

    /// Whether a name refers to something of a kind, as far as partitions tell. Partitions that
    /// cannot be read count as others: [`Image::find`] has the error.
    fn any(&self, name: &ImageName, so: impl Fn(&Probe) -> bool) -> bool {
        let is_so = |probe: Option<&Probe>| probe.is_some_and(&so);
        let in_partition = |partition: &Partition| {
            let found = self.probe_partition(partition);
            found.is_ok_and(|probe| is_so(probe.as_ref()))
        };
        match (name.partition, self.partitions()) {
            (Some(number), Some(_)) => self.partition(number).is_ok_and(in_partition),
            (None, Some(table)) => table.partitions.iter().any(in_partition),
            // A number may be that of a partition inside of it.
            (_, None) => is_so(self.whole.as_ref()),
        }
    }

    /// Whether what a name means is, or may be, inside of layers.
    pub fn is_layered(&self, name: &ImageName) -> bool {
        let so = |probe: &Probe| probe.class == Class::Container || on_several(probe);
        name.volume.is_some() || self.any(name, so)
    }

    /// Whether a probe shows that the volume needs a key.
    pub fn is_encrypted(&self, name: &ImageName) -> bool {
        self.any(name, |probe| probe.kind == "crypto_LUKS")
    }

    /// Finds the file system that a name means, which must not be inside of layers. `forced`: the
    /// user named its type.
    pub fn find(&self, name: &ImageName, forced: bool) -> Result<FileSystem> {
        let probe = match name.partition {
            Some(number) => {
                let found = self.probe_partition(self.usable_partition(number, name)?);
                if forced {
                    // A probe may fail where the file system itself can still be read.
                    found.ok().flatten()
                } else {
                    found?
                }
            }
            None => match self.partitions() {
                Some(table) => {
                    if !forced {
                        return self.only_file_system(table);
                    }
                    return Err(Error::known(
                        ErrorKind::Ambiguous,
                        format!(
                            "{} has partitions: say which one, as in {0}@1:/",
                            self.shown
                        ),
                    ));
                }
                None => self.whole.clone(),
            },
        };
        if !forced {
            match probe {
                None if name.partition.is_none() => return Err(self.unrecognised()),
                _ => self.check_mountable(&name.shown(), probe.as_ref())?,
            }
        }
        Ok(FileSystem {
            partition: name.partition,
            probe,
        })
    }

    /// Says why something is not a file system that could be mounted.
    fn check_mountable(&self, shown: &str, probe: Option<&Probe>) -> Result<()> {
        let Some(probe) = probe else {
            return Err(unrecognised(shown, None));
        };
        if let Some(text) = self.unusable(shown, probe) {
            return Err(Error::known(ErrorKind::Unsupported, text));
        }
        let kind = probe.kind;
        match probe.class {
            Class::Swap => Err(Error::known(
                ErrorKind::NotAFileSystem,
                format!("{shown} is swap space: it has no files"),
            )),
            Class::Container => Err(Error::known(
                ErrorKind::NotAFileSystem,
                format!("{shown} is of type {kind}, which this command cannot look into"),
            )),
            Class::FileSystem | Class::Wrapped => Ok(()),
        }
    }

    /// Why no command can use what was found, and what to do.
    pub fn unusable(&self, shown: &str, probe: &Probe) -> Option<String> {
        match self.format {
            Some(format) if probe.class == Class::Wrapped => Some(format!(
                "the disk in {shown}, a {format} image, holds a {} file and no file system: take \
                 it out with qemu-img convert -O raw {shown} NEW",
                probe.kind
            )),
            _ => unusable(shown, probe),
        }
    }

    /// Says so if a file system is larger than where it is.
    pub fn truncation(&self, found: &FileSystem) -> Option<String> {
        let has = match found.partition {
            Some(number) => {
                let partition = self.partition(number).ok()?;
                let (start, size) = (partition.start, partition.size);
                self.slice(Range { start, size }).size()
            }
            None => self.size(),
        };
        let text = missing_end(found.probe.as_ref()?, has)?;
        Some(format!("{text}: {}", self.cut()))
    }
}

/// Says so if a file system is larger than the `has` bytes where it is.
pub fn missing_end(probe: &Probe, has: u64) -> Option<String> {
    let needs = probe.size.filter(|&needs| needs > has)?;
    Some(format!(
        "the file system has {needs} bytes, but the image only {has}"
    ))
}

fn cannot_read(shown: &str, error: &io::Error) -> Error {
    Error::failed(format!("cannot read {shown}"), error)
}

/// Whether it is a file system that has other devices too.
fn on_several(probe: &Probe) -> bool {
    probe.kind == "btrfs" && !probe.detail.is_empty()
}

/// Nothing known is there. `piece`: see [`split_hint`].
fn unrecognised(shown: &str, piece: Option<String>) -> Error {
    let kind = ErrorKind::NotAFileSystem;
    let text = |advice: &dyn Display| {
        format!("{shown}: no file system or partition table that is known ({advice})")
    };
    match piece {
        Some(piece) => Error::known(kind, text(&piece)),
        None => Error::hinted(kind, Hint::NameType, |name| text(name)),
    }
}

/// Formats that are to be converted first, and file systems that Linux does not have.
pub(crate) fn unusable(shown: &str, probe: &Probe) -> Option<String> {
    let kind = probe.kind;
    let convert = |how: String| format!("{shown} is a {kind} file, not a raw disk image: {how}");
    Some(match kind {
        "apfs" => format!(
            "{shown} is APFS, a file system of Apple that Linux has no driver for: read it with \
             apfs-fuse, or copy the files on a Mac"
        ),
        "jbd" => format!(
            "{shown} is the journal of an ext file system on another device: it has no files"
        ),
        "tar" | "cpio" => format!(
            "{shown} is a {kind} archive, not a disk image: {}",
            unpack_hint(kind)
        ),
        "simg" => format!(
            "{shown} is an Android sparse image, not a raw disk image: convert it with simg2img \
             {shown} NEW (package android-sdk-libsparse-utils)"
        ),
        "AFF" => convert(format!(
            "convert it with affconvert -r {shown} (package afflib-tools)"
        )),
        "L01" => convert("its files are copied by FTK Imager or EnCase".to_owned()),
        "wim" => convert(format!(
            "unpack it with wimapply {shown} DIRECTORY (package wimtools)"
        )),
        "rar" | "cab" | "xar" | "ar" | "rpm" | "lha" => convert("unpack it first".to_owned()),
        "btrfs-stream" => convert(format!(
            "restore it into a mounted btrfs with btrfs receive -f {shown} DIRECTORY"
        )),
        "partclone" | "partimage" | "ntfsclone" | "vma" | "ciso" | "sparseimage" | "ubi"
        | "ubifs" | "jffs2" => {
            convert("restore or convert it with the program that made it".to_owned())
        }
        "E01" => convert(format!(
            "convert it with ewfexport -t NEW -f raw {shown} (package \
             ewf-tools)"
        )),
        "dmg" => convert(format!(
            "convert it with dmg2img {shown} NEW (package dmg2img)"
        )),
        "gzip" | "xz" | "zstd" | "bzip2" | "lz4" | "lzip" | "lzop" | "lzma" | "lrzip"
        | "compress" | "zip" | "7z" => convert("decompress it first".to_owned()),
        _ if probe.class == Class::Wrapped => convert(format!(
            "convert it with qemu-img convert -O raw {shown} NEW"
        )),
        _ => return None,
    })
}

fn unpack_hint(kind: &str) -> String {
    match kind {
        "tar" => Hint::UnpackTar.to_string(),
        _ => format!("unpack it with cpio -idm, and make one{}", Hint::MakeImage),
    }
}
