// SPDX-License-Identifier: GPL-2.0-only
//! `outboard setfacl --restore`: the lists, owner and special bits that a dump of getfacl has.

use super::entry::{entries, entry, write, wrong, Kind};
use crate::commands::descend::VisitedFile;
use crate::commands::dump::DumpSection;
use outboard_error::{Error, ErrorKind, Result};
use outboard_transfer::accounts::{AccountNames, Accounts};
use outboard_transfer::acl::{Acl, ACCESS, DEFAULT};
use std::io;

/// The comments of a dump's section about a file, without the entries.
#[derive(Default)]
struct Header {
    owner: Option<u32>,
    group: Option<u32>,
    special: Option<u32>,
}

impl Header {
    fn read(section: &DumpSection, accounts: &Accounts) -> Result<Self> {
        let mut header = Self::default();
        for (_, line) in &section.lines {
            let line = String::from_utf8_lossy(line);
            let known = |names: &AccountNames, name: &str| {
                let id = names.id(name);
                id.ok_or_else(|| wrong(&line, "the image knows no such name"))
            };
            if let Some(name) = line.strip_prefix("# owner: ") {
                header.owner = Some(known(&accounts.users, name)?);
            } else if let Some(name) = line.strip_prefix("# group: ") {
                header.group = Some(known(&accounts.groups, name)?);
            } else if let Some(letters) = line.strip_prefix("# flags: ") {
                let bits = letters
                    .chars()
                    .zip([libc::S_ISUID, libc::S_ISGID, libc::S_ISVTX]);
                let set = bits.filter(|(letter, _)| *letter != '-');
                header.special = Some(set.fold(0, |mode, (_, bit)| mode | bit));
            }
        }
        Ok(header)
    }

    /// The owner goes first: its change takes bits of the mode away, which come last.
    fn set_owner(&self, found: &VisitedFile) -> io::Result<()> {
        let owner = self.owner.unwrap_or(found.stat.st_uid);
        let group = self.group.unwrap_or(found.stat.st_gid);
        if (owner, group) == (found.stat.st_uid, found.stat.st_gid) {
            Ok(())
        } else {
            found.file.set_owner(owner, group)
        }
    }

    fn set_special(&self, found: &VisitedFile) -> io::Result<()> {
        let special = self.special.unwrap_or(0);
        let mode = found.file.stat()?.st_mode & 0o7777;
        if mode & 0o7000 == special {
            Ok(())
        } else {
            found.file.set_mode(mode & 0o777 | special)
        }
    }
}

/// Gives a file what a section of the dump has.
pub(super) fn restore(
    found: &VisitedFile,
    section: &DumpSection,
    accounts: &Accounts,
) -> Result<()> {
    let header = Header::read(section, accounts)?;
    let lines: Vec<String> = section
        .lines
        .iter()
        .map(|(_, line)| String::from_utf8_lossy(line).into_owned())
        .collect();
    let mut access = Acl::default();
    let mut default = Acl::default();
    for text in entries(&lines) {
        let (kind, who, given) = entry(&text, accounts)?;
        let given = given.ok_or_else(|| wrong(&text, "it has no permissions"))?;
        match kind {
            Kind::Access => access.set(who, given.permissions),
            Kind::Default => default.set(who, given.permissions),
        }
    }
    for list in [&access, &default] {
        if let Some(why) = list.problem().filter(|_| !list.is_empty()) {
            let place = found.place.shown();
            return Err(Error::known(
                ErrorKind::Usage,
                format!("no list for {place}: {why}"),
            ));
        }
    }
    let failed = |error: io::Error| found.failed("change the owner or mode of", &error);
    header.set_owner(found).map_err(failed)?;
    if !access.is_empty() {
        write(found, ACCESS, &access)?;
    }
    if found.kind() == libc::S_IFDIR {
        write(found, DEFAULT, &default)?;
    }
    header.set_special(found).map_err(failed)
}
