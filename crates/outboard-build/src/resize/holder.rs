// SPDX-License-Identifier: GPL-2.0-only
//! The holder of a file system, which limits its size: the image's file, a partition, or a layer.

use crate::megabytes::{round_up, MEGABYTE};
use crate::sfdisk;
use crate::table_writer::{TableSectors, TableWriter};
use outboard_error::format::size as size_text;
use outboard_error::{Error, ErrorKind, Result};
use outboard_image::partition::{Partition, Table, TableKind};
use outboard_volume::access::uses_image;
use outboard_volume::address::ImageName;
use outboard_volume::image::Image;
use outboard_volume::session::{apart, Session};
use outboard_volume::tool_volume::{on_disk, ToolVolume};
use std::path::Path;

/// The place of a file system.
pub(super) enum Holder {
    /// All of the image.
    Image,
    Slot(Slot),
    /// Something inside of the image that has the size that it has.
    Layer,
}

/// A partition, and what is around it.
pub(super) struct Slot {
    number: u32,
    kind: TableKind,
    start: u64,
    /// The offset at which the next partition begins.
    next: Option<u64>,
    /// Bytes of the image.
    whole: u64,
    sectors: TableSectors,
}

impl Holder {
    pub(super) fn of(session: &mut Session, volume: &ToolVolume) -> Result<Self> {
        on_disk(session, volume.path(), false, |disk| {
            Self::in_disk(&Image::open(disk)?, volume)
        })
    }

    fn in_disk(image: &Image, volume: &ToolVolume) -> Result<Self> {
        let name = &volume.name;
        let encrypted = image.is_layered(name);
        let number = match (name.partition, &name.volume) {
            (Some(number), None) if !encrypted => number,
            (None, None) if !encrypted => return Ok(Self::Image),
            _ => return Ok(Self::Layer),
        };
        let range = image.range(name)?;
        let Some(table) = &image.table else {
            return Ok(Self::Layer);
        };
        if table.kind == TableKind::Apple || is_logical(table, number) {
            return Err(Error::known(
                ErrorKind::Unsupported,
                format!(
                    "{}: logical partitions, and those of Apple's tables, cannot be resized",
                    volume.shown()
                ),
            ));
        }
        let sectors = TableSectors::of(image, table, &volume.shown())?;
        let after = |partition: &&Partition| partition.start > range.start;
        let others = table.partitions.iter().filter(after);
        Ok(Self::Slot(Slot {
            number,
            kind: table.kind,
            start: range.start,
            next: others.map(|partition| partition.start).min(),
            whole: image.size(),
            sectors,
        }))
    }

    /// Partitions have whole megabytes.
    pub(super) fn rounded(&self, size: u64) -> u64 {
        match self {
            Self::Image | Self::Layer => size,
            Self::Slot(_) => round_up(size),
        }
    }

    /// The room without a larger image.
    pub(super) fn room(&self, volume: &ToolVolume) -> u64 {
        match self {
            Self::Image | Self::Layer => volume.range.size,
            Self::Slot(slot) => slot.room().max(volume.range.size),
        }
    }

    pub(super) fn grow(&self, session: &mut Session, volume: &ToolVolume, size: u64) -> Result<()> {
        match self {
            Self::Image => set_image_size(session, volume.path(), size),
            Self::Slot(slot) => slot.grow(session, volume, size),
            Self::Layer => Err(Error::known(
                ErrorKind::NoSpace,
                format!(
                    "{} has room for {} only: make its container larger first, with its own tools",
                    volume.shown(),
                    size_text(volume.range.size)
                ),
            )),
        }
    }

    /// Takes back what `grow` did. `whole`: what the size of the image was.
    pub(super) fn restore(
        &self,
        session: &mut Session,
        volume: &ToolVolume,
        whole: u64,
    ) -> Result<()> {
        match self {
            Self::Image => set_image_size(session, volume.path(), whole),
            Self::Slot(slot) => slot.cut(session, volume, volume.range.size, whole),
            Self::Layer => Ok(()),
        }
    }

    pub(super) fn shrink(
        &self,
        session: &mut Session,
        volume: &ToolVolume,
        size: u64,
    ) -> Result<()> {
        match self {
            Self::Image => set_image_size(session, volume.path(), size),
            Self::Slot(slot) => slot.shrink(session, volume, size),
            Self::Layer => Ok(()),
        }
    }
}

impl Slot {
    fn is_gpt(&self) -> bool {
        self.kind == TableKind::Gpt
    }

    /// The room behind the last partition: a GPT has its second copy at the end.
    fn spare(&self) -> u64 {
        if self.is_gpt() {
            MEGABYTE
        } else {
            0
        }
    }

    fn room(&self) -> u64 {
        let end = self.next.unwrap_or(self.whole.saturating_sub(self.spare()));
        end.saturating_sub(self.start) / MEGABYTE * MEGABYTE
    }

    fn grow(&self, session: &mut Session, volume: &ToolVolume, size: u64) -> Result<()> {
        let (path, shown) = (volume.path(), volume.shown());
        if !self.is_gpt() && self.start.saturating_add(size) > sfdisk::MBR_END {
            return Err(Error::known(
                ErrorKind::Unsupported,
                format!(
                    "{shown}: in an MBR no partition ends behind {}",
                    size_text(sfdisk::MBR_END)
                ),
            ));
        }
        let room = self.room().max(volume.range.size);
        if size > room {
            if self.next.is_some() {
                return Err(Error::known(
                    ErrorKind::NoSpace,
                    format!(
                        "{shown} has room for {} only: another partition follows it",
                        size_text(room)
                    ),
                ));
            }
            set_image_size(session, path, self.whole_with(size))?;
        }
        self.change(session, volume, |table| {
            if self.is_gpt() {
                table.move_copy_to_end()?;
            }
            table.set_size(self.number, size)
        })
    }

    fn change(
        &self,
        session: &mut Session,
        volume: &ToolVolume,
        work: impl FnOnce(&TableWriter) -> Result<()>,
    ) -> Result<()> {
        let settings = session.options().clone();
        on_disk(session, volume.path(), true, |disk| {
            work(&TableWriter {
                settings: &settings,
                disk,
                sectors: self.sectors,
                kind: self.kind,
                shown: &volume.shown(),
            })
        })
    }

    fn shrink(&self, session: &mut Session, volume: &ToolVolume, size: u64) -> Result<()> {
        let whole = match self.next {
            None => self.whole_with(size),
            Some(_) => self.whole,
        };
        self.cut(session, volume, size, whole)
    }

    /// Makes the partition smaller, and, if it is the last one, the image.
    fn cut(&self, session: &mut Session, volume: &ToolVolume, size: u64, whole: u64) -> Result<()> {
        let cut = self.next.is_none();
        self.change(session, volume, |table| {
            table.set_size(self.number, size)?;
            if cut && self.is_gpt() {
                // The copy comes before the image is cut, and then to the new end.
                table.move_copy_to_partitions()
            } else {
                Ok(())
            }
        })?;
        if !cut {
            return Ok(());
        }
        set_image_size(session, volume.path(), whole)?;
        if self.is_gpt() {
            self.change(session, volume, |table| table.move_copy_to_end())
        } else {
            Ok(())
        }
    }

    /// The size of an image that has this partition of `size` as its last.
    fn whole_with(&self, size: u64) -> u64 {
        round_up(self.start.saturating_add(size)).saturating_add(self.spare())
    }
}

fn is_logical(table: &Table, number: u32) -> bool {
    let found = table.partitions.iter().find(|found| found.number == number);
    table.kind == TableKind::Mbr && (number > 4 || found.is_some_and(|found| found.extended))
}

fn set_image_size(session: &mut Session, file: &Path, size: u64) -> Result<()> {
    let image = ImageName::new(file, None);
    apart(session, &uses_image(&image, true), |session| {
        session.set_image_size(file, size)
    })
}
