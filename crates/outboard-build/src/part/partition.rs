// SPDX-License-Identifier: GPL-2.0-only
//! A partition that is to be made: as users write it, as sfdisk's script has it, and as an entry of
//! a GPT.

use super::types;
use crate::gpt::NewEntry;
use crate::megabytes::MEGABYTE;
use crate::sfdisk;
use outboard_error::format::{escaped, size as size_text};
use outboard_error::size::parse_size;
use outboard_error::{Error, Result};
use outboard_image::partition::guid_bytes;
use serde::Serialize;
use std::fmt::{self, Display, Formatter, Write};
use std::str::FromStr;

/// A partition that is to be made.
// The identifiers of a reproducible table come from its `Debug` form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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

/// `TYPE:SIZE[,name=NAME][,boot][,uuid=UUID]`; a size is as in "512M", or "rest".
impl FromStr for NewPartition {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (place, flags) = text.split_once(',').unwrap_or((text, ""));
        let (kind, size) = place
            .split_once(':')
            .ok_or_else(|| format!("\"{text}\" is not TYPE:SIZE, as in linux:2G or linux:rest"))?;
        let size = match size {
            "rest" => None,
            size => Some(parse_size(size)?),
        };
        let mut wanted = Self::new(kind, size);
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            match flag.split_once('=') {
                None if flag == "boot" => wanted.boot = true,
                Some(("name", name)) => {
                    check_name(name)?;
                    wanted.name = Some(name.to_owned());
                }
                Some(("uuid", id)) => {
                    check_uuid(id)?;
                    wanted.uuid = Some(id.to_owned());
                }
                _ => return Err(format!("\"{flag}\" is none of name=NAME, uuid=UUID, boot")),
            }
        }
        Ok(wanted)
    }
}

/// Refuses a name that does not fit into a GPT, or that sfdisk's script misunderstands.
fn check_name(name: &str) -> std::result::Result<(), String> {
    let odd = |c: char| c.is_control() || matches!(c, '"' | '\\');
    if name.contains(odd) || name.encode_utf16().count() > 36 {
        return Err(format!(
            "\"{}\" cannot be a partition's name: at most 36 characters, no quotes, no backslashes",
            escaped(name.as_bytes())
        ));
    }
    Ok(())
}

fn check_uuid(id: &str) -> std::result::Result<(), String> {
    if types::is_uuid(id) {
        Ok(())
    } else {
        Err(format!("\"{}\" is not a UUID", escaped(id.as_bytes())))
    }
}

impl NewPartition {
    /// A partition of this type; without a size it gets the rest of the room.
    pub fn new(kind: impl Into<String>, size: Option<u64>) -> Self {
        Self {
            kind: kind.into(),
            size,
            name: None,
            uuid: None,
            boot: false,
        }
    }

    /// Whether other partitions are in it.
    pub(super) fn is_extended(&self) -> bool {
        types::is_extended(&self.kind)
    }

    /// Refuses what no table of this kind has. Returns the type, as the table has it.
    pub(crate) fn check(&self, gpt: bool) -> Result<String> {
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
        if !gpt && self.size.is_some_and(|size| size > sfdisk::MBR_END) {
            let most = size_text(sfdisk::MBR_END);
            let text = format!("in an MBR no partition ends behind {most}");
            return Err(Error::Usage(text));
        }
        if !gpt && (self.name.is_some() || self.uuid.is_some()) {
            let text = "partitions of an MBR have no names and UUIDs".to_owned();
            return Err(Error::Usage(text));
        }
        self.name
            .as_deref()
            .map_or(Ok(()), check_name)
            .and_then(|()| self.uuid.as_deref().map_or(Ok(()), check_uuid))
            .map_err(Error::Usage)?;
        Ok(kind)
    }

    /// Its size in sectors of this size: whole megabytes.
    fn sectors(&self, sector: u64) -> Option<u64> {
        self.size
            .map(|size| size.div_ceil(MEGABYTE) * (MEGABYTE / sector))
    }

    /// As an entry of a GPT for sectors of this size.
    pub(crate) fn entry(&self, sector: u64) -> Result<NewEntry> {
        let kind = self.check(true)?;
        Ok(NewEntry {
            kind: guid_bytes(&kind).unwrap_or_default(),
            id: self.uuid.as_deref().and_then(guid_bytes),
            sectors: self.sectors(sector),
            name: self.name.clone().unwrap_or_default(),
            boot: self.boot,
        })
    }

    /// As a line of sfdisk's script for a disk with sectors of this size. sfdisk makes a partition
    /// smaller without a word if its size is not in sectors.
    pub(crate) fn line(&self, gpt: bool, sector: u64) -> Result<String> {
        let mut line = format!("type={}", self.check(gpt)?);
        // Writing to a string cannot fail.
        if let Some(sectors) = self.sectors(sector) {
            let _ = write!(line, ", size={sectors}");
        }
        if let Some(name) = &self.name {
            let _ = write!(line, ", name=\"{name}\"");
        }
        if let Some(id) = &self.uuid {
            let _ = write!(line, ", uuid={id}");
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

/// As `part` prints it: "esp, 100.0 MiB, EFI system".
impl Display for NewPartition {
    fn fmt(&self, formatter: &mut Formatter) -> fmt::Result {
        write!(formatter, "{}, ", self.kind)?;
        match self.size {
            Some(size) => formatter.write_str(&size_text(size))?,
            None => formatter.write_str("the rest")?,
        }
        for text in [&self.name, &self.uuid].into_iter().flatten() {
            write!(formatter, ", {}", escaped(text.as_bytes()))?;
        }
        formatter.write_str(if self.boot { ", boot" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_shown() {
        let shown = |text: &str| text.parse::<NewPartition>().unwrap().to_string();
        assert_eq!(shown("linux:rest,boot"), "linux, the rest, boot");
        assert_eq!(shown("esp:100M,name=EFI"), "esp, 100.0 MiB, EFI");
    }

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
        let entry = wanted.entry(4096).unwrap();
        assert_eq!((entry.sectors, entry.boot), (Some(25600), true));
        assert_eq!((entry.kind[0], entry.name.as_str()), (0x28, "EFI system"));
        assert_eq!(rest.entry(4096).unwrap().sectors, None);
        let largest: NewPartition = format!("linux:{}", u64::MAX).parse().unwrap();
        let line = largest.line(true, 512).unwrap();
        assert!(line.ends_with(", size=36028797018963968\n"), "{line}");
        let odd = NewPartition {
            name: Some("a\", size=1\n".to_owned()),
            ..rest.clone()
        };
        assert!(odd.line(true, 512).is_err());
        let odd = NewPartition {
            uuid: Some("1, bootable".to_owned()),
            ..rest
        };
        assert!(odd.line(true, 512).is_err());
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
