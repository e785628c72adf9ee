// SPDX-License-Identifier: GPL-2.0-only
//! `outboard part`: partition tables.

mod types;

use crate::commands::{reads_images, runs_programs};
use crate::format;
use crate::output::{Output, Print};
use crate::record::Bytes;
use crate::sfdisk;
use clap::{Args, Subcommand, ValueEnum};
use outboard_error::format::{escaped, size as size_text};
use outboard_error::size::parse_size;
use outboard_error::{Error, ErrorKind, Result};
use outboard_image::partition::{Partition, Table};
use outboard_sandbox::HostAccess;
use outboard_volume::address::ImageName;
use outboard_volume::image::Image;
use outboard_volume::image_file::{sector_size, FILE_SECTOR};
use outboard_volume::new_image::NewFormat;
use outboard_volume::scratch::Scratch;
use outboard_volume::session::Session;
use outboard_volume::tool_volume::on_disk;
use outboard_volume::uuid;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

const MEGABYTE: u64 = 1 << 20;

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

/// A partition that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPartition {
    kind: String,
    /// In bytes; `None`: the rest.
    size: Option<u64>,
    name: Option<String>,
    uuid: Option<String>,
    boot: bool,
}

impl FromStr for NewPartition {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (place, flags) = text.split_once(',').unwrap_or((text, ""));
        let (kind, size) = place
            .split_once(':')
            .ok_or_else(|| format!("\"{text}\" is not TYPE:SIZE, as in linux:2G or linux:rest"))?;
        let mut wanted = Self {
            kind: kind.to_owned(),
            size: match size {
                "rest" => None,
                size => Some(parse_size(size)?),
            },
            name: None,
            uuid: None,
            boot: false,
        };
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            match flag.split_once('=') {
                None if flag == "boot" => wanted.boot = true,
                Some(("name", name)) => wanted.name = Some(good_name(name)?),
                Some(("uuid", id)) if types::is_uuid(id) => wanted.uuid = Some(id.to_owned()),
                _ => return Err(format!("\"{flag}\" is none of name=NAME, uuid=UUID, boot")),
            }
        }
        Ok(wanted)
    }
}

/// A name that fits into a GPT, and that sfdisk's script does not misunderstand.
fn good_name(name: &str) -> std::result::Result<String, String> {
    let odd = |c: char| c.is_control() || matches!(c, '"' | '\\');
    if name.contains(odd) || name.encode_utf16().count() > 36 {
        return Err(format!(
            "\"{}\" cannot be a partition's name: at most 36 characters, no quotes, no backslashes",
            escaped(name.as_bytes())
        ));
    }
    Ok(name.to_owned())
}

impl NewPartition {
    /// As a line of sfdisk's script for a disk with sectors of this size. sfdisk makes a partition
    /// smaller without a word if its size is not in sectors.
    fn line(&self, gpt: bool, sector: u64) -> Result<String> {
        let kind = types::find(&self.kind, gpt).ok_or_else(|| {
            Error::Usage(format!(
                "\"{}\" is no type that a {} has: {}, or {}",
                self.kind,
                if gpt { "GPT" } else { "MBR" },
                types::names(),
                if gpt {
                    "a GUID"
                } else {
                    "a number such as 0x83"
                }
            ))
        })?;
        let mut line = format!("type={kind}");
        // Writing to a string cannot fail.
        if let Some(size) = self.size {
            if !gpt && size > sfdisk::MBR_END {
                let most = size_text(sfdisk::MBR_END);
                let text = format!("in an MBR no partition ends behind {most}");
                return Err(Error::Usage(text));
            }
            let sectors = size.div_ceil(MEGABYTE) * (MEGABYTE / sector);
            let _ = write!(line, ", size={sectors}");
        }
        match (&self.name, &self.uuid) {
            (None, None) => {}
            _ if !gpt => {
                let text = "partitions of an MBR have no names and UUIDs".to_owned();
                return Err(Error::Usage(text));
            }
            (name, id) => {
                if let Some(name) = name {
                    let _ = write!(line, ", name=\"{name}\"");
                }
                if let Some(id) = id {
                    let _ = write!(line, ", uuid={id}");
                }
            }
        }
        if self.boot {
            line.push_str(if gpt {
                ", attrs=\"LegacyBIOSBootable\""
            } else {
                ", bootable"
            });
        }
        line.push('\n');
        Ok(line)
    }
}

pub fn run(options: &PartArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    let path = PathBuf::from(&options.image);
    // For messages; "@N" makes no sense here.
    let name = ImageName::new(&path, None);
    let shown = name.shown();
    if matches!(options.action, PartAction::List) {
        let image = session.image(&path)?;
        let table = image.table.as_ref().ok_or_else(|| no_table(&shown))?;
        let listing = Listing::new(&options.image, &image, table);
        return output.member("table", &listing);
    }
    session.may_write(&shown)?;
    session.catch_interrupts();
    let settings = session.options().clone();
    match &options.action {
        PartAction::Create(create_options) => create(create_options, &path, &shown, session),
        PartAction::Add(add) => change(session, &path, &shown, |table, disk| {
            let gpt = is_gpt(table, &shown)?;
            let new = add.partitions.iter();
            let lines: Result<String> = new.map(|p| p.line(gpt, table.sector_size)).collect();
            sfdisk::append(&settings, disk, &lines?, &shown)
        }),
        PartAction::Delete(delete) => change(session, &path, &shown, |table, disk| {
            for number in &delete.numbers {
                if !table.partitions.iter().any(|p| p.number == *number) {
                    let text = format!("{shown} has no partition {number}");
                    return Err(Error::known(ErrorKind::NotFound, text));
                }
            }
            sfdisk::delete(&settings, disk, &delete.numbers, &shown)
        }),
        PartAction::List => Ok(()),
    }
}

fn no_table(shown: &str) -> Error {
    Error::known(
        ErrorKind::NotFound,
        format!(
            "{shown} has no partition table \
             (outboard part {shown} create --force makes one; what is in the image is lost)"
        ),
    )
}

/// Changes the table of an image that has one. `work` gets the table, and a file with all of the
/// disk.
fn change(
    session: &mut Session,
    path: &Path,
    shown: &str,
    work: impl FnOnce(&Table, &Path) -> Result<()>,
) -> Result<()> {
    on_disk(session, path, true, |disk| {
        let image = Image::open(disk)?;
        let table = image.table.as_ref().ok_or_else(|| no_table(shown))?;
        sfdisk::check(&image, table, shown)?;
        work(table, disk)
    })
}

fn is_gpt(table: &Table, shown: &str) -> Result<bool> {
    use outboard_image::partition::TableKind;
    match table.kind {
        TableKind::Gpt => Ok(true),
        TableKind::Mbr => Ok(false),
        TableKind::Apple => Err(Error::known(
            ErrorKind::Unsupported,
            format!("{shown}: an Apple partition table can only be read"),
        )),
    }
}

fn create(options: &Create, path: &Path, shown: &str, session: &mut Session) -> Result<()> {
    // Wrong words are found before anything else.
    script(options, FILE_SECTOR)?;
    let exists = path.symlink_metadata().is_ok();
    if !exists {
        let size = options.size.ok_or_else(|| {
            Error::Usage(format!(
                "{shown} does not exist: say its size, as in --size 4G"
            ))
        })?;
        let scratch = Scratch::beside(path, size)?;
        let script = script(options, FILE_SECTOR)?;
        sfdisk::create(session.options(), scratch.path(), &script, shown)?;
        let format = NewFormat::of(path, session.options());
        return format.keep(session, scratch, path, false);
    }
    if !options.force {
        return Err(Error::known(
            ErrorKind::AlreadyExists,
            format!(
                "{shown} exists already (--force gives it a new table; \
                 what is in its partitions is lost)"
            ),
        ));
    }
    if options.size.is_some() {
        return Err(Error::Usage(format!(
            "{shown} exists and has its size: --size makes no sense"
        )));
    }
    let settings = session.options().clone();
    on_disk(session, path, true, |disk| {
        let script = script(options, sector_size(disk)?)?;
        sfdisk::create(&settings, disk, &script, shown)
    })
}

fn script(options: &Create, sector: u64) -> Result<String> {
    let gpt = options.table == PartitionKind::Gpt;
    let mut script = if gpt {
        "label: gpt\n".to_owned()
    } else {
        "label: dos\n".to_owned()
    };
    let words = format!("{:?} {:?}", options.size, options.partitions);
    if options.reproducible {
        let id = uuid::from_name(&words);
        // Writing to a string cannot fail.
        let _ = if gpt {
            writeln!(script, "label-id: {id}")
        } else {
            writeln!(script, "label-id: 0x{}", &id[..8])
        };
    }
    for (index, partition) in options.partitions.iter().enumerate() {
        let mut partition = partition.clone();
        if options.reproducible && gpt && partition.uuid.is_none() {
            partition.uuid = Some(uuid::from_name(&format!("{index} {words}")));
        }
        script.push_str(&partition.line(gpt, sector)?);
    }
    Ok(script)
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
            partitions: table.partitions.iter().map(Row::new).collect(),
            warnings: &table.warnings,
        }
    }
}

impl Print for Listing<'_> {
    fn print(&self, output: &mut Output) -> Result<()> {
        let id = self.id.unwrap_or("-");
        output.line(format!("{} {id}, {}", self.kind, size_text(self.size)))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_understood() {
        let wanted: NewPartition = "esp:100M,name=EFI system,boot".parse().unwrap();
        assert_eq!(wanted.size, Some(100 << 20));
        assert_eq!(
            wanted.line(true, 512).unwrap(),
            "type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, size=204800, name=\"EFI system\", \
             attrs=\"LegacyBIOSBootable\"\n"
        );
        assert!(wanted.line(false, 512).is_err(), "an MBR has no names");
        let rest: NewPartition = "linux:rest".parse().unwrap();
        assert_eq!(rest.line(false, 512).unwrap(), "type=83\n");
        let small: NewPartition = "linux:1M".parse().unwrap();
        let line = small.line(true, 4096).unwrap();
        assert!(line.ends_with(", size=256\n"), "{line}");
        let largest: NewPartition = format!("linux:{}", u64::MAX).parse().unwrap();
        let line = largest.line(true, 512).unwrap();
        assert!(line.ends_with(", size=36028797018963968\n"), "{line}");
        for bad in [
            "",
            "linux",
            "linux:",
            "linux:x",
            "linux:1G,what",
            "linux:1G,name=a\"b",
            "linux:1G,uuid=1",
        ] {
            assert!(bad.parse::<NewPartition>().is_err(), "{bad}");
        }
    }
}
