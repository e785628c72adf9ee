// SPDX-License-Identifier: GPL-2.0-only
//! Changes of the partition table that a disk has: by sfdisk, or by this program where the table
//! counts sectors of another size than the disk's own (`gpt`).

use crate::gpt::{self, NewEntry};
use crate::part::NewPartition;
use crate::sfdisk;
use outboard_error::{Error, ErrorKind, Result};
use outboard_image::partition::{GptLayout, Table, TableKind};
use outboard_image::Source;
use outboard_volume::image::Image;
use outboard_volume::options::Options;
use std::path::Path;

/// The sectors that a table counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSectors {
    /// Bytes of each.
    pub size: u64,
    /// The disk itself has others.
    is_foreign: bool,
}

impl TableSectors {
    /// The sectors of a new table. `own`: bytes of those that the disk has. `shown`: the image.
    pub fn of_new(kind: TableKind, size: u64, own: u64, shown: &str) -> Result<Self> {
        let is_foreign = size != own;
        if is_foreign && kind != TableKind::Gpt {
            let text = format!(
                "{shown} has sectors of {own} bytes: of tables for sectors of {size} bytes, only a \
                 GPT can be made and changed there"
            );
            return Err(Error::known(ErrorKind::Unsupported, text));
        }
        Ok(Self { size, is_foreign })
    }

    /// The sectors of a table that is to be changed. Refuses a damaged one.
    pub fn of(image: &Image, table: &Table, shown: &str) -> Result<Self> {
        if table.damaged {
            let text = format!(
                "{shown}: {}: restore the table with gdisk first",
                table.warnings.join("; ")
            );
            return Err(Error::known(ErrorKind::Damaged, text));
        }
        let own = image.content.sector_size();
        Self::of_new(table.kind, table.sector_size, own, shown)
    }

    /// Whether sfdisk, which takes the size from the disk, writes no such table.
    pub fn is_foreign(self) -> bool {
        self.is_foreign
    }
}

/// The table of a disk, for changes.
pub struct TableWriter<'a> {
    pub settings: &'a Options,
    /// A file with all of the disk.
    pub disk: &'a Path,
    pub sectors: TableSectors,
    pub kind: TableKind,
    /// The image, for messages.
    pub shown: &'a str,
}

impl TableWriter<'_> {
    /// Adds partitions.
    pub fn append(&self, new: &[NewPartition]) -> Result<()> {
        let size = self.sectors.size;
        if self.sectors.is_foreign {
            let new: Result<Vec<NewEntry>> = new.iter().map(|new| new.entry(size)).collect();
            let new = new?;
            return self.change(|layout| gpt::add(layout, &new, self.shown));
        }
        let gpt = self.kind == TableKind::Gpt;
        let lines: Result<String> = new.iter().map(|new| new.line(gpt, size)).collect();
        sfdisk::append(self.settings, self.disk, &lines?, self.shown)
    }

    /// Removes partitions.
    pub fn delete(&self, numbers: &[u32]) -> Result<()> {
        if self.sectors.is_foreign {
            return self.change(|layout| {
                numbers.iter().for_each(|&number| layout.delete(number));
                Ok(())
            });
        }
        sfdisk::delete(self.settings, self.disk, numbers, self.shown)
    }

    /// Gives a partition another size in bytes; where it begins, its type and its names stay.
    pub fn set_size(&self, number: u32, size: u64) -> Result<()> {
        let sectors = size / self.sectors.size;
        if self.sectors.is_foreign {
            return self.change(|layout| gpt::fits(layout.set_size(number, sectors), self.shown));
        }
        sfdisk::set_size(self.settings, self.disk, number, sectors, self.shown)
    }

    /// Moves the second copy of a GPT to the end of the disk.
    pub fn move_copy_to_end(&self) -> Result<()> {
        if self.sectors.is_foreign {
            return self.change(|layout| gpt::fits(layout.move_copy_to_end(), self.shown));
        }
        sfdisk::move_copy_to_end(self.settings, self.disk, self.shown)
    }

    /// Moves it to where the last partition ends.
    pub fn move_copy_to_partitions(&self) -> Result<()> {
        if self.sectors.is_foreign {
            return self.change(|layout| gpt::fits(layout.move_copy_to_partitions(), self.shown));
        }
        sfdisk::move_copy_to_partitions(self.settings, self.disk, self.shown)
    }

    fn change(&self, work: impl FnOnce(&mut GptLayout) -> Result<()>) -> Result<()> {
        gpt::change(self.disk, self.sectors.size, self.shown, work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_gpt_has_sectors_of_another_size() {
        let of = |kind, size, own| TableSectors::of_new(kind, size, own, "a.img");
        assert!(of(TableKind::Gpt, 4096, 512).unwrap().is_foreign());
        assert!(!of(TableKind::Mbr, 4096, 4096).unwrap().is_foreign());
        let error = of(TableKind::Mbr, 4096, 512).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
