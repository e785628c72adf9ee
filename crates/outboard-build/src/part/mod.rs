// SPDX-License-Identifier: GPL-2.0-only
//! Makes and changes partition tables.

mod partition;
mod room;
mod types;

use crate::gpt::{self, NewEntry};
use crate::mkfs::VolumePlan;
use crate::sfdisk;
use crate::table_writer::{TableSectors, TableWriter};
use outboard_error::format::size as size_text;
use outboard_error::{Error, ErrorKind, Hint, Result};
use outboard_image::partition::{guid_bytes, Table, TableKind};
use outboard_image::Source;
use outboard_volume::address::ImageName;
use outboard_volume::image::Image;
use outboard_volume::image_file::FILE_SECTOR;
use outboard_volume::options::Options;
use outboard_volume::scratch::Scratch;
use outboard_volume::session::Session;
use outboard_volume::tool_volume::on_disk;
use outboard_volume::uuid;
pub use partition::NewPartition;
use room::Room;
use serde::{Serialize, Serializer};
use std::fmt::{self, Display, Formatter, Write};
use std::path::Path;

/// Bytes of the sectors that a table may count.
const SECTOR_SIZES: [u64; 2] = [512, 4096];

/// A change of a partition table.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TablePlan {
    /// A new table.
    Create(NewTable),
    /// New partitions, where the table has room.
    Add(Vec<NewPartition>),
    /// Partitions that leave the table, by their numbers. Their bytes stay.
    Delete(Vec<u32>),
}

/// A partition table that is to be made.
#[derive(Clone, Debug, Serialize)]
pub struct NewTable {
    /// Its kind: GPT or MBR.
    #[serde(serialize_with = "kind_name")]
    pub kind: TableKind,
    /// The bytes of the new image; `None`: the image exists.
    pub size: Option<u64>,
    /// Replace the table of an image that exists.
    pub force: bool,
    /// The same plan makes the same table.
    pub reproducible: bool,
    /// Bytes of the sectors that it counts, 512 or 4096. `None`: those of the disk, or those of the
    /// table that it replaces if they are larger.
    pub sector_size: Option<u64>,
    /// The partitions, in their order.
    pub partitions: Vec<NewPartition>,
}

fn kind_name<S: Serializer>(
    kind: &TableKind,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

/// The failure for an image without a partition table. `shown`: its name.
pub fn no_table(shown: &str) -> Error {
    let name = shown.to_owned();
    Error::hinted(ErrorKind::NotFound, Hint::MakeTable { name }, |advice| {
        format!("{shown} has no partition table{advice}")
    })
}

/// The name of an image for messages. "@N" makes no sense where a table is.
pub(crate) fn shown_name(path: &Path) -> String {
    ImageName::new(path, None).shown()
}

fn is_gpt(kind: TableKind, shown: &str) -> Result<bool> {
    match kind {
        TableKind::Gpt => Ok(true),
        TableKind::Mbr => Ok(false),
        TableKind::Apple => Err(Error::known(
            ErrorKind::Unsupported,
            format!("{shown}: an Apple partition table can only be read"),
        )),
    }
}

impl TablePlan {
    /// Refuses a change that no table can have, without a look at the host. `shown`: the image.
    pub(crate) fn check(&self, shown: &str) -> Result<()> {
        match self {
            Self::Create(table) => table.check(shown),
            Self::Add(_) | Self::Delete(_) => Ok(()),
        }
    }

    /// Changes the table of an image that exists.
    pub(crate) fn change(&self, session: &mut Session, path: &Path) -> Result<()> {
        let shown = shown_name(path);
        let settings = session.options().clone();
        match self {
            Self::Create(table) => {
                table.check_existing(&shown)?;
                on_disk(session, path, true, |disk| {
                    table.replace(&settings, disk, &shown)
                })
            }
            Self::Add(partitions) => change(session, path, &shown, |image, table, writer| {
                let gpt = is_gpt(table.kind, &shown)?;
                for new in partitions {
                    new.check(gpt)?;
                }
                Room::of_table(table, image.size()).check(partitions, &shown)?;
                writer.append(partitions)
            }),
            Self::Delete(numbers) => change(session, path, &shown, |_, table, writer| {
                for number in numbers {
                    if !table.partitions.iter().any(|p| p.number == *number) {
                        let text = format!("{shown} has no partition {number}");
                        return Err(Error::known(ErrorKind::NotFound, text));
                    }
                }
                writer.delete(numbers)
            }),
        }
    }
}

/// Changes the table of an image that has one.
fn change(
    session: &mut Session,
    path: &Path,
    shown: &str,
    work: impl FnOnce(&Image, &Table, &TableWriter) -> Result<()>,
) -> Result<()> {
    let settings = session.options().clone();
    on_disk(session, path, true, |disk| {
        let image = Image::open(disk)?;
        let table = image.table.as_ref().ok_or_else(|| no_table(shown))?;
        let writer = TableWriter {
            settings: &settings,
            disk,
            sectors: TableSectors::of(&image, table, shown)?,
            kind: table.kind,
            shown,
        };
        work(&image, table, &writer)
    })
}

/// The disk that gets a new table.
struct Place<'a> {
    /// A file with all of it.
    disk: &'a Path,
    /// Its bytes.
    size: u64,
    sectors: TableSectors,
    /// The image, for messages.
    shown: &'a str,
}

impl NewTable {
    /// The table of a new image with a disk of so many bytes.
    pub fn new(kind: TableKind, size: u64, partitions: Vec<NewPartition>) -> Self {
        Self {
            kind,
            size: Some(size),
            force: false,
            reproducible: false,
            sector_size: None,
            partitions,
        }
    }

    fn check(&self, shown: &str) -> Result<()> {
        let gpt = is_gpt(self.kind, shown)?;
        // Wrong words are found before anything else.
        for new in &self.partitions {
            new.check(gpt)?;
        }
        if let Some(size) = self.sector_size.filter(|size| !SECTOR_SIZES.contains(size)) {
            let text = format!("sectors have 512 or 4096 bytes, not {size}");
            return Err(Error::Usage(text));
        }
        match self.size {
            Some(size) => {
                let sectors = self.sectors_in_file(shown)?;
                Room::of_disk(size, gpt, sectors.size).check(&self.partitions, shown)
            }
            None => Ok(()),
        }
    }

    /// The sectors that it counts in a new image.
    fn sectors_in_file(&self, shown: &str) -> Result<TableSectors> {
        let size = self.sector_size.unwrap_or(FILE_SECTOR);
        TableSectors::of_new(self.kind, size, FILE_SECTOR, shown)
    }

    /// Refuses to make it in an image that exists, unless the plan says so.
    fn check_existing(&self, shown: &str) -> Result<()> {
        if !self.force {
            let (kind, hint) = (ErrorKind::AlreadyExists, Hint::ReplaceTable);
            return Err(Error::hinted(kind, hint, |advice| {
                format!("{shown} exists already{advice}")
            }));
        }
        match self.size {
            None => Ok(()),
            Some(_) => Err(Error::Usage(format!(
                "{shown} exists and has its size: {}",
                Hint::NoSize
            ))),
        }
    }

    /// Refuses a file system that it has no place for.
    pub(crate) fn check_volume(&self, volume: &VolumePlan) -> Result<()> {
        let (name, shown) = (&volume.name, volume.name.shown());
        let Some(number) = name.partition.filter(|_| name.volume.is_none()) else {
            let text = format!("{shown} is no partition of the new table");
            return Err(Error::Usage(text));
        };
        // sfdisk numbers logical partitions.
        if self.partitions.iter().any(NewPartition::is_extended) {
            return Ok(());
        }
        let index = (number as usize).checked_sub(1);
        let Some(partition) = index.and_then(|index| self.partitions.get(index)) else {
            let text = format!("{shown}: the new table has no partition {number}");
            return Err(Error::known(ErrorKind::NotFound, text));
        };
        match (partition.size, volume.size) {
            (Some(room), Some(size)) if size > room => {
                let text = format!("{shown} has only {}", size_text(room));
                Err(Error::known(ErrorKind::NoSpace, text))
            }
            _ => Ok(()),
        }
    }

    /// Makes it in a new private file beside the image.
    pub(crate) fn new_disk(&self, session: &Session, path: &Path) -> Result<Scratch> {
        let shown = shown_name(path);
        let size = self.size.ok_or_else(|| {
            let size = Hint::NewSize;
            Error::Usage(format!("{shown} does not exist: say its size{size}"))
        })?;
        let disk = Scratch::beside(path, size)?;
        let place = Place {
            disk: disk.path(),
            size,
            sectors: self.sectors_in_file(&shown)?,
            shown: &shown,
        };
        self.write(session.options(), &place)?;
        Ok(disk)
    }

    /// Writes it to a file with all of a disk that exists.
    fn replace(&self, settings: &Options, disk: &Path, shown: &str) -> Result<()> {
        let image = Image::open(disk)?;
        let own = image.content.sector_size();
        let old = image.table.as_ref().map(|table| table.sector_size);
        let size = self.sector_size.unwrap_or(own.max(old.unwrap_or(own)));
        let place = Place {
            disk,
            size: image.size(),
            sectors: TableSectors::of_new(self.kind, size, own, shown)?,
            shown,
        };
        Room::of_disk(place.size, is_gpt(self.kind, shown)?, size)
            .check(&self.partitions, shown)?;
        // sfdisk wipes the marks of other tables, but not of those for sectors of another size.
        if old.is_some_and(|old| old != size) && !place.sectors.is_foreign() {
            gpt::wipe(disk, shown)?;
        }
        self.write(settings, &place)
    }

    fn write(&self, settings: &Options, place: &Place) -> Result<()> {
        let sector = place.sectors.size;
        if !place.sectors.is_foreign() {
            let script = self.script(is_gpt(self.kind, place.shown)?, sector)?;
            return sfdisk::create(settings, place.disk, &script, place.shown);
        }
        let new = self.complete();
        let new: Result<Vec<NewEntry>> = new.iter().map(|new| new.entry(sector)).collect();
        let id = self.id().as_deref().and_then(guid_bytes);
        gpt::create(place.disk, sector, id, &new?, place.shown)
    }

    /// The words that the identifiers of a reproducible table come from.
    fn words(&self) -> String {
        format!("{:?} {:?}", self.size, self.partitions)
    }

    /// The identifier of the disk. `None`: a random one.
    fn id(&self) -> Option<String> {
        self.reproducible.then(|| uuid::from_name(&self.words()))
    }

    /// The partitions; in a reproducible GPT with identifiers.
    fn complete(&self) -> Vec<NewPartition> {
        let mut all = self.partitions.clone();
        if self.reproducible && self.kind == TableKind::Gpt {
            let words = self.words();
            for (index, partition) in all.iter_mut().enumerate() {
                let made = || uuid::from_name(&format!("{index} {words}"));
                partition.uuid.get_or_insert_with(made);
            }
        }
        all
    }

    /// It as a script of sfdisk, for a disk with sectors of this size.
    fn script(&self, gpt: bool, sector: u64) -> Result<String> {
        let mut script = if gpt {
            "label: gpt\n".to_owned()
        } else {
            "label: dos\n".to_owned()
        };
        if let Some(id) = self.id() {
            // Writing to a string cannot fail.
            let _ = if gpt {
                writeln!(script, "label-id: {id}")
            } else {
                writeln!(script, "label-id: 0x{}", &id[..8])
            };
        }
        for partition in self.complete() {
            script.push_str(&partition.line(gpt, sector)?);
        }
        Ok(script)
    }
}

/// One line for each change.
impl Display for TablePlan {
    fn fmt(&self, formatter: &mut Formatter) -> fmt::Result {
        match self {
            Self::Create(table) => {
                let kind = table.kind.name();
                write!(formatter, "a new table of the kind {kind}")?;
                if let Some(size) = table.sector_size {
                    write!(formatter, ", for sectors of {size} bytes")?;
                }
                let mut numbered = (1..).zip(&table.partitions);
                numbered.try_for_each(|(number, new)| write!(formatter, "\n{number}: {new}"))
            }
            Self::Add(partitions) => {
                formatter.write_str("new partitions")?;
                let mut new = partitions.iter();
                new.try_for_each(|partition| write!(formatter, "\n{partition}"))
            }
            Self::Delete(numbers) => {
                formatter.write_str("without the partitions")?;
                let mut numbers = numbers.iter();
                numbers.try_for_each(|number| write!(formatter, " {number}"))
            }
        }
    }
}
