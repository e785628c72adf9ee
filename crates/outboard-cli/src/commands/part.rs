// SPDX-License-Identifier: GPL-2.0-only
//! `outboard part`: partition tables.

use crate::commands::{progress, reads_images, runs_programs};
use crate::format;
use crate::output::{Output, Print};
use crate::record::Bytes;
use clap::{Args, Subcommand, ValueEnum};
use outboard_build::part::no_table;
use outboard_build::{DiskPlan, NewPartition, NewTable, TablePlan};
use outboard_error::format::size as size_text;
use outboard_error::size::parse_size;
use outboard_error::Result;
use outboard_image::partition::{Partition, Table, TableKind};
use outboard_sandbox::HostAccess;
use outboard_volume::address::ImageName;
use outboard_volume::image::Image;
use outboard_volume::session::Session;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Make, list and change partition tables
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                  \n  outboard part disk.img create --size 4G esp:100M root-x86-64:rest\
                  \n  outboard part disk.img create --table mbr --size 1G fat:200M,boot linux:rest\
                  \n  outboard part disk.img create --size 8G esp:512M,name=EFI swap:1G \
                  linux:rest,name=root\
                  \n  outboard part disk.img list --json\
                  \n  outboard part disk.img add linux:1G,name=data\
                  \n  outboard part disk.img delete 3\
                  \n  outboard part nvme.img create --sector-size 4096 --size 4G esp:300M \
                  linux:rest\
                  \n  outboard part disk.qcow2 create --size 20G esp:100M linux:rest")]
pub struct PartArgs {
    /// The disk image
    pub image: OsString,
    #[command(subcommand)]
    pub action: PartAction,
}

impl PartArgs {
    pub fn host_access(&self) -> HostAccess {
        match self.action {
            PartAction::List => reads_images([&self.image]),
            _ => runs_programs(&self.image),
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum PartAction {
    Create(Create),
    /// List the partitions
    List,
    Add(Add),
    Delete(Delete),
}

/// Make a table with partitions: TYPE:SIZE[,name=NAME][,boot][,uuid=UUID]
///
/// SIZE is as in 512M, or "rest" for all room that is left. TYPE is linux, esp, bios, boot, swap,
/// lvm, raid, luks, home, srv, var, root-x86, root-x86-64, root-arm, root-arm64, root-riscv64,
/// usr-x86-64, fat, ntfs, prep, extended (MBR), or a type's GUID (GPT) or number such as 0x83
/// (MBR). Each partition begins at a multiple of 1 MiB.
#[derive(Args, Debug)]
pub struct Create {
    /// The kind of table
    #[arg(long, value_enum, default_value_t = PartitionKind::Gpt)]
    pub table: PartitionKind,
    /// Make a new image of this size, of the format qcow2 or vhd if its name ends in .qcow2 or
    /// .vhd, else raw
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// Replace the table of an image that exists
    #[arg(long)]
    pub force: bool,
    /// Derive identifiers from the arguments: the same arguments make the same table
    #[arg(long)]
    pub reproducible: bool,
    /// Bytes of the sectors that the table counts, 512 or 4096, as the disk has them that the image
    /// is for. Default: those of the disk, or those of the replaced table if they are larger. Other
    /// sectors than the disk's own need a GPT
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub sector_size: Option<u64>,
    /// The partitions, in their order
    #[arg(value_name = "TYPE:SIZE")]
    pub partitions: Vec<NewPartition>,
}

/// Add partitions where there is room, written as for "create"
#[derive(Args, Debug)]
pub struct Add {
    #[arg(required = true, value_name = "TYPE:SIZE")]
    pub partitions: Vec<NewPartition>,
}

/// Delete partitions from the table; their bytes in the image stay
#[derive(Args, Debug)]
pub struct Delete {
    /// The numbers of the partitions
    #[arg(required = true, value_name = "N")]
    pub numbers: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PartitionKind {
    Gpt,
    Mbr,
}

impl Create {
    fn new_table(&self) -> NewTable {
        NewTable {
            kind: match self.table {
                PartitionKind::Gpt => TableKind::Gpt,
                PartitionKind::Mbr => TableKind::Mbr,
            },
            size: self.size,
            force: self.force,
            reproducible: self.reproducible,
            sector_size: self.sector_size,
            partitions: self.partitions.clone(),
        }
    }
}

pub fn run(options: &PartArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    let path = Path::new(&options.image);
    let change = match &options.action {
        PartAction::List => return list(path, session, output),
        PartAction::Create(options) => TablePlan::Create(options.new_table()),
        PartAction::Add(options) => TablePlan::Add(options.partitions.clone()),
        PartAction::Delete(options) => TablePlan::Delete(options.numbers.clone()),
    };
    DiskPlan::of_table(path, change).run(session, &progress::report)
}

fn list(path: &Path, session: &mut Session, output: &mut Output) -> Result<()> {
    let image = session.image(path)?;
    // "@N" makes no sense here.
    let table = image.table.as_ref();
    let table = table.ok_or_else(|| no_table(&ImageName::new(path, None).shown()))?;
    output.member("table", &Listing::new(path.as_os_str(), &image, table))
}

#[derive(Serialize)]
struct Row<'a> {
    number: u32,
    start: u64,
    size: u64,
    type_id: &'a str,
    type_name: Option<&'static str>,
    name: Option<&'a str>,
    uuid: Option<&'a str>,
}

impl<'a> Row<'a> {
    fn new(partition: &'a Partition) -> Self {
        Self {
            number: partition.number,
            start: partition.start,
            size: partition.size,
            type_id: &partition.type_id,
            type_name: partition.type_name,
            name: partition.name.as_deref(),
            uuid: partition.uuid.as_deref(),
        }
    }
}

#[derive(Serialize)]
struct Listing<'a> {
    #[serde(flatten)]
    image: Bytes<'a>,
    kind: &'static str,
    id: Option<&'a str>,
    /// Bytes of the disk.
    size: u64,
    /// Bytes of the sectors that the table counts.
    sector_size: u64,
    partitions: Vec<Row<'a>>,
    warnings: &'a [String],
}

impl<'a> Listing<'a> {
    fn new(path: &'a OsStr, image: &Image, table: &'a Table) -> Self {
        Self {
            image: Bytes::new("image", path.as_bytes()),
            kind: table.kind.name(),
            id: table.id.as_deref(),
            size: image.size(),
            sector_size: table.sector_size,
            partitions: table.partitions.iter().map(Row::new).collect(),
            warnings: &table.warnings,
        }
    }
}

impl Print for Listing<'_> {
    fn print(&self, output: &mut Output) -> Result<()> {
        let id = self.id.unwrap_or("-");
        let sectors = format::unusual_sectors(self.sector_size);
        let size = size_text(self.size);
        output.line(format!("{} {id}, {size}{sectors}", self.kind))?;
        let head = ["N", "start", "size", "type", "name"].map(str::to_owned);
        let rows = self.partitions.iter().map(|partition| {
            vec![
                partition.number.to_string(),
                partition.start.to_string(),
                size_text(partition.size),
                partition.type_name.unwrap_or(partition.type_id).to_owned(),
                output.text(partition.name.unwrap_or("")),
            ]
        });
        let rows: Vec<Vec<String>> = std::iter::once(head.to_vec()).chain(rows).collect();
        for line in format::table(&rows, &[0, 1, 2], "  ") {
            output.line(line)?;
        }
        for warning in self.warnings {
            output.line(format!("warning: {warning}"))?;
        }
        Ok(())
    }
}
