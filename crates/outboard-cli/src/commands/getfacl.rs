// SPDX-License-Identifier: GPL-2.0-only
//! `outboard getfacl`.

use super::descend::{Descend, VisitedFile};
use super::owner_names::OwnerNames;
use crate::output::{Output, Print};
use crate::record::{Bytes, Ownership};
use clap::Args;
use outboard_error::{Error, ErrorKind, Result};
use outboard_transfer::accounts::Accounts;
use outboard_transfer::acl::{shown, Acl, Permissions, Who, ACCESS, DEFAULT};
use outboard_volume::octal::quote;
use outboard_volume::session::Session;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use std::ffi::{CStr, OsString};

/// Show access control lists of files in an image
///
/// Names come from the image's own /etc/passwd and /etc/group. "setfacl --restore" and "setfacl -M"
/// read the output.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard getfacl disk.img:/srv\
                        \n  outboard getfacl -R -n disk.img:/ > lists.txt")]
pub struct GetfaclArgs {
    /// The files: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Show only the list for access
    #[arg(short, long)]
    pub access: bool,
    /// Show only the default list of directories, which new files in them get
    #[arg(short, long)]
    pub default: bool,
    /// Leave out the comments with path, owner and group
    #[arg(short = 'c', long)]
    pub omit_header: bool,
    /// Show the rights that each entry grants after the mask
    #[arg(short = 'e', long)]
    pub all_effective: bool,
    /// Do not show the rights after the mask
    #[arg(short = 'E', long)]
    pub no_effective: bool,
    /// Leave out files without entries beyond their mode
    #[arg(short, long)]
    pub skip_base: bool,
    /// Include everything below directories
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Show numbers instead of names
    #[arg(short, long)]
    pub numeric: bool,
    /// Show paths with their leading slash
    #[arg(short = 'p', long)]
    pub absolute_names: bool,
}

/// The list of a file. `None`: it has none, or its file system knows none.
pub fn list(found: &VisitedFile, attribute: &CStr) -> Result<Option<Acl>> {
    let value = match found.file.xattr(attribute) {
        Ok(value) => value,
        Err(error) => {
            return match error.raw_os_error() {
                Some(libc::ENODATA | libc::EOPNOTSUPP) => Ok(None),
                _ => Err(found.failed("read the access control list of", &error)),
            }
        }
    };
    let list = Acl::decode(&value);
    list.map(Some).ok_or_else(|| {
        let place = found.place.shown();
        Error::known(
            ErrorKind::Damaged,
            format!("{place} has a broken access control list"),
        )
    })
}

/// The list for access of a file, which always has one: at least what its mode says.
pub fn access_list(found: &VisitedFile) -> Result<Acl> {
    let list = list(found, ACCESS)?;
    Ok(list.unwrap_or_else(|| Acl::of_mode(found.stat.st_mode)))
}

/// The list that new files in a directory get; empty: none.
pub fn default_list(found: &VisitedFile) -> Result<Acl> {
    match found.kind() {
        libc::S_IFDIR => Ok(list(found, DEFAULT)?.unwrap_or_default()),
        _ => Ok(Acl::default()),
    }
}

pub fn run(options: &GetfaclArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    let mut names = OwnerNames::new(!options.numeric);
    let descend = Descend {
        write: false,
        recursive: options.recursive,
        follow: true,
    };
    descend.run(session, &options.places, |found| {
        if found.kind() == libc::S_IFLNK {
            return Ok(());
        }
        let accounts = names.of(found.tree, found.id);
        let access = access_list(found)?;
        let default = default_list(found)?;
        if options.skip_base && !access.is_extended() && default.is_empty() {
            return Ok(());
        }
        let terminal = output.is_terminal();
        output.item(&Shown {
            options,
            accounts: &accounts,
            terminal,
            found,
            access: (options.access || !options.default).then_some(access),
            default: (options.default || !options.access).then_some(default),
        })
    })
}

/// The lists of a file that are to be shown.
struct Shown<'a> {
    options: &'a GetfaclArgs,
    accounts: &'a Accounts,
    terminal: bool,
    found: &'a VisitedFile<'a>,
    access: Option<Acl>,
    default: Option<Acl>,
}

/// The lists of a file as JSON.
#[derive(Serialize)]
struct AclRecord<'a> {
    #[serde(flatten)]
    path: Bytes<'static>,
    /// The 12 bits of permissions.
    mode: u32,
    #[serde(flatten)]
    owner: Ownership<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    access: Option<List<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<List<'a>>,
}

/// A list as JSON.
struct List<'a> {
    list: &'a Acl,
    accounts: &'a Accounts,
}

#[derive(Serialize)]
struct EntryRecord<'a> {
    tag: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    permissions: String,
    effective: String,
}

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let entries = self.list.entries();
        let mut list = serializer.serialize_seq(Some(entries.len()))?;
        for &(who, permissions) in entries {
            let (tag, id, names) = match who {
                Who::Owner => ("owner", None, None),
                Who::User(id) => ("user", Some(id), Some(&self.accounts.users)),
                Who::OwningGroup => ("owning-group", None, None),
                Who::Group(id) => ("group", Some(id), Some(&self.accounts.groups)),
                Who::Mask => ("mask", None, None),
                Who::Other => ("other", None, None),
            };
            list.serialize_element(&EntryRecord {
                tag,
                id,
                name: names.zip(id).and_then(|(names, id)| names.known(id)),
                permissions: shown(permissions),
                effective: shown(self.list.effective(who, permissions)),
            })?;
        }
        list.end()
    }
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let stat = &self.found.stat;
        let accounts = self.accounts;
        let list = |list| List { list, accounts };
        let record = AclRecord {
            path: Bytes::new("path", self.found.place.operand()),
            mode: stat.st_mode & 0o7777,
            owner: Ownership::new(stat, accounts),
            access: self.access.as_ref().map(list),
            default: self.default.as_ref().map(list),
        };
        record.serialize(serializer)
    }
}

impl Print for Shown<'_> {
    fn print(&self, output: &mut Output) -> Result<()> {
        let mut lines = Vec::new();
        if let Some(access) = &self.access {
            lines.extend(self.lines(access, ""));
        }
        if let Some(default) = &self.default {
            // Without the other list there is nothing to tell it from.
            let prefix = match self.access {
                Some(_) => "default:",
                None => "",
            };
            lines.extend(self.lines(default, prefix));
        }
        if !self.options.omit_header {
            self.header(output)?;
        }
        for line in lines {
            output.line(line)?;
        }
        output.line("")
    }
}

impl Shown<'_> {
    fn header(&self, output: &mut Output) -> Result<()> {
        let stat = &self.found.stat;
        let path = self.found.path(self.options.absolute_names);
        let pieces: Vec<&[u8]> = path.split(|&byte| byte == b'\\').collect();
        let path = quote(&pieces.join(b"\\\\".as_slice()), b"\n\r", self.terminal);
        output.line([b"# file: ".as_slice(), &path].concat())?;
        output.line(format!(
            "# owner: {}",
            self.accounts.users.name(stat.st_uid)
        ))?;
        output.line(format!(
            "# group: {}",
            self.accounts.groups.name(stat.st_gid)
        ))?;
        if stat.st_mode & 0o7000 == 0 {
            return Ok(());
        }
        let letter = |bit, letter| if stat.st_mode & bit != 0 { letter } else { '-' };
        output.line(format!(
            "# flags: {}{}{}",
            letter(libc::S_ISUID, 's'),
            letter(libc::S_ISGID, 's'),
            letter(libc::S_ISVTX, 't')
        ))
    }

    fn lines(&self, list: &Acl, prefix: &str) -> Vec<String> {
        let entries = list.entries().iter();
        entries
            .map(|&(who, permissions)| self.line(list, prefix, who, permissions))
            .collect()
    }

    fn line(&self, list: &Acl, prefix: &str, who: Who, permissions: Permissions) -> String {
        let name = match who {
            Who::Owner => "user:".to_owned(),
            Who::User(id) => format!("user:{}", self.accounts.users.name(id)),
            Who::OwningGroup => "group:".to_owned(),
            Who::Group(id) => format!("group:{}", self.accounts.groups.name(id)),
            Who::Mask => "mask:".to_owned(),
            Who::Other => "other:".to_owned(),
        };
        let line = format!("{prefix}{name}:{}", shown(permissions));
        let effective = list.effective(who, permissions);
        let told = match (self.options.no_effective, self.options.all_effective) {
            (true, _) => false,
            (false, true) => who.is_masked() && list.get(Who::Mask).is_some(),
            (false, false) => effective != permissions,
        };
        if !told {
            return line;
        }
        // For people the comments stand below each other where there is room.
        let tabs = if self.terminal {
            "\t".repeat(4usize.saturating_sub(line.len() / 8).max(1))
        } else {
            "\t".to_owned()
        };
        format!("{line}{tabs}#effective:{}", shown(effective))
    }
}
