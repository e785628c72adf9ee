// SPDX-License-Identifier: GPL-2.0-only
//! Makes and changes partition tables.

mod types;

use crate::sfdisk;
use outboard_error::format::{escaped, size as size_text};
use outboard_error::size::parse_size;
use outboard_error::{Error, ErrorKind, Hint, Result};
use outboard_image::partition::{Table, TableKind};
use outboard_volume::address::ImageName;
use outboard_volume::image::Image;
use outboard_volume::image_file::{sector_size, FILE_SECTOR};
use outboard_volume::new_image::NewFormat;
use outboard_volume::scratch::Scratch;
use outboard_volume::session::Session;
use outboard_volume::tool_volume::on_disk;
use outboard_volume::uuid;
use std::fmt::Write;
use std::path::Path;
use std::str::FromStr;

const MEGABYTE: u64 = 1 << 20;

/// A partition that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPartition {
    /// Its type: a name such as "esp", a GUID, or a number such as "0x83".
    pub kind: String,
    /// In bytes; `None`: the rest.
    pub size: Option<u64>,
    /// Its name, in a GPT.
    pub name: Option<String>,
    /// Its own UUID, in a GPT.
    pub uuid: Option<String>,
    /// Firmware is to boot from it.
    pub boot: bool,
}

/// TYPE:SIZE[,name=NAME][,boot][,uuid=UUID]; a size is as in "512M", or "rest".
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

/// A partition table that is to be made.
#[derive(Clone, Debug)]
pub struct TablePlan {
    /// Its kind: GPT or MBR.
    pub kind: TableKind,
    /// The bytes of the new image; `None`: the image exists.
    pub size: Option<u64>,
    /// Replace the table of an image that exists.
    pub force: bool,
    /// The same plan makes the same table.
    pub reproducible: bool,
    /// The partitions, in their order.
    pub partitions: Vec<NewPartition>,
}

/// The failure for an image without a partition table. `shown`: its name.
pub fn no_table(shown: &str) -> Error {
    let name = shown.to_owned();
    Error::hinted(ErrorKind::NotFound, Hint::MakeTable { name }, |advice| {
        format!("{shown} has no partition table{advice}")
    })
}

/// The name of an image for messages. "@N" makes no sense where a table is.
fn shown_name(path: &Path) -> String {
    ImageName::new(path, None).shown()
}

/// Adds partitions to the table of an image, where there is room.
pub fn add(session: &mut Session, path: &Path, partitions: &[NewPartition]) -> Result<()> {
    let shown = shown_name(path);
    let settings = session.options().clone();
    change(session, path, &shown, |table, disk| {
        let gpt = is_gpt(table.kind, &shown)?;
        let new = partitions.iter();
        let lines: Result<String> = new.map(|p| p.line(gpt, table.sector_size)).collect();
        sfdisk::append(&settings, disk, &lines?, &shown)
    })
}

/// Deletes partitions from the table of an image. Their bytes stay.
pub fn delete(session: &mut Session, path: &Path, numbers: &[u32]) -> Result<()> {
    let shown = shown_name(path);
    let settings = session.options().clone();
    change(session, path, &shown, |table, disk| {
        for number in numbers {
            if !table.partitions.iter().any(|p| p.number == *number) {
                let text = format!("{shown} has no partition {number}");
                return Err(Error::known(ErrorKind::NotFound, text));
            }
        }
        sfdisk::delete(&settings, disk, numbers, &shown)
    })
}

/// Changes the table of an image that has one. `work` gets the table, and a file with all of the
/// disk.
fn change(
    session: &mut Session,
    path: &Path,
    shown: &str,
    work: impl FnOnce(&Table, &Path) -> Result<()>,
) -> Result<()> {
    session.may_write(shown)?;
    session.catch_interrupts();
    on_disk(session, path, true, |disk| {
        let image = Image::open(disk)?;
        let table = image.table.as_ref().ok_or_else(|| no_table(shown))?;
        sfdisk::check(&image, table, shown)?;
        work(table, disk)
    })
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

/// Makes a table, in a new image or in one that exists.
pub fn create(session: &mut Session, path: &Path, plan: &TablePlan) -> Result<()> {
    let shown = shown_name(path);
    let gpt = is_gpt(plan.kind, &shown)?;
    session.may_write(&shown)?;
    session.catch_interrupts();
    // Wrong words are found before anything else.
    script(plan, gpt, FILE_SECTOR)?;
    let exists = path.symlink_metadata().is_ok();
    if !exists {
        let size = plan.size.ok_or_else(|| {
            Error::Usage(format!(
                "{shown} does not exist: say its size{}",
                Hint::NewSize
            ))
        })?;
        let scratch = Scratch::beside(path, size)?;
        let script = script(plan, gpt, FILE_SECTOR)?;
        sfdisk::create(session.options(), scratch.path(), &script, &shown)?;
        let format = NewFormat::of(path, session.options());
        return format.keep(session, scratch, path, false);
    }
    if !plan.force {
        let (kind, hint) = (ErrorKind::AlreadyExists, Hint::ReplaceTable);
        return Err(Error::hinted(kind, hint, |advice| {
            format!("{shown} exists already{advice}")
        }));
    }
    if plan.size.is_some() {
        return Err(Error::Usage(format!(
            "{shown} exists and has its size: {}",
            Hint::NoSize
        )));
    }
    let settings = session.options().clone();
    on_disk(session, path, true, |disk| {
        let script = script(plan, gpt, sector_size(disk)?)?;
        sfdisk::create(&settings, disk, &script, &shown)
    })
}

/// The table as a script of sfdisk, for a disk with sectors of this size.
fn script(plan: &TablePlan, gpt: bool, sector: u64) -> Result<String> {
    let mut script = if gpt {
        "label: gpt\n".to_owned()
    } else {
        "label: dos\n".to_owned()
    };
    let words = format!("{:?} {:?}", plan.size, plan.partitions);
    if plan.reproducible {
        let id = uuid::from_name(&words);
        // Writing to a string cannot fail.
        let _ = if gpt {
            writeln!(script, "label-id: {id}")
        } else {
            writeln!(script, "label-id: 0x{}", &id[..8])
        };
    }
    for (index, partition) in plan.partitions.iter().enumerate() {
        let mut partition = partition.clone();
        if plan.reproducible && gpt && partition.uuid.is_none() {
            partition.uuid = Some(uuid::from_name(&format!("{index} {words}")));
        }
        script.push_str(&partition.line(gpt, sector)?);
    }
    Ok(script)
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
