// SPDX-License-Identifier: GPL-2.0-only
//! `outboard getfacl`.

use super::descend::{Descend, Found};
use crate::output::Output;
use clap::Args;
use outboard_sandbox::error::{Error, Result};
use outboard_transfer::accounts::Accounts;
use outboard_transfer::acl::{shown, Acl, Permissions, Who, ACCESS, DEFAULT};
use outboard_volume::octal::quote;
use outboard_volume::session::{Session, TreeId};
use std::ffi::{CStr, OsString};

/// Show access control lists of files in an image
///
/// Names are those of the image's own /etc/passwd and /etc/group. The output is what "setfacl --restore"
/// and "setfacl -M" take.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  outboard getfacl disk.img:/srv\n  outboard getfacl -R -n disk.img:/ > lists.txt"
)]
pub struct Getfacl {
    /// The files: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Only the list for access
    #[arg(short, long)]
    pub access: bool,
    /// Only the list that new files in a directory get
    #[arg(short, long)]
    pub default: bool,
    /// Leave out the comments with path, owner and group
    #[arg(short = 'c', long)]
    pub omit_header: bool,
    /// Show what each entry grants in effect
    #[arg(short = 'e', long)]
    pub all_effective: bool,
    /// Do not show what entries grant in effect
    #[arg(short = 'E', long)]
    pub no_effective: bool,
    /// Leave out files that have no more than their mode says
    #[arg(short, long)]
    pub skip_base: bool,
    /// Also what is below directories
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Show numbers instead of names
    #[arg(short, long)]
    pub numeric: bool,
    /// Show paths with the slash at their beginning
    #[arg(short = 'p', long)]
    pub absolute_names: bool,
}

/// The list of a file. `None`: it has none, or its file system knows none.
pub fn list(found: &Found, attribute: &CStr) -> Result<Option<Acl>> {
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
        Error::Failed(format!("{place} has a broken access control list"))
    })
}

/// The list for access of a file, which always has one: at least what its mode says.
pub fn access_list(found: &Found) -> Result<Acl> {
    let list = list(found, ACCESS)?;
    Ok(list.unwrap_or_else(|| Acl::of_mode(found.stat.st_mode)))
}

/// The list that new files in a directory get; empty: none.
pub fn default_list(found: &Found) -> Result<Acl> {
    match found.kind() {
        libc::S_IFDIR => Ok(list(found, DEFAULT)?.unwrap_or_default()),
        _ => Ok(Acl::default()),
    }
}

pub fn run(options: &Getfacl, session: &mut Session) -> Result<()> {
    let mut output = Output::new();
    let mut known: Option<(TreeId, Accounts)> = None;
    let descend = Descend {
        write: false,
        recursive: options.recursive,
        follow: true,
    };
    let done = descend.run(session, &options.places, |found| {
        if found.kind() == libc::S_IFLNK {
            return Ok(());
        }
        if known.as_ref().is_none_or(|(id, _)| *id != found.id) {
            let accounts = match options.numeric {
                true => Accounts::default(),
                false => Accounts::read_or_none(found.tree),
            };
            known = Some((found.id, accounts));
        }
        let (_, accounts) = known.as_ref().expect("just read");
        let terminal = output.is_terminal();
        Shown {
            options,
            accounts,
            terminal,
        }
        .show(found, &mut output)
    });
    output.finish()?;
    done
}

struct Shown<'a> {
    options: &'a Getfacl,
    accounts: &'a Accounts,
    terminal: bool,
}

impl Shown<'_> {
    fn show(&self, found: &Found, output: &mut Output) -> Result<()> {
        let options = self.options;
        let access = access_list(found)?;
        let default = default_list(found)?;
        if options.skip_base && !access.is_extended() && default.is_empty() {
            return Ok(());
        }
        let mut lines = Vec::new();
        if options.access || !options.default {
            lines.extend(self.lines(&access, ""));
        }
        if options.default || !options.access {
            // Without the other list there is nothing to tell it from.
            let prefix = if options.default && !options.access {
                ""
            } else {
                "default:"
            };
            lines.extend(self.lines(&default, prefix));
        }
        if !options.omit_header {
            self.header(found, output)?;
        }
        for line in lines {
            output.line(line)?;
        }
        output.line("")
    }

    fn header(&self, found: &Found, output: &mut Output) -> Result<()> {
        let stat = &found.stat;
        let path = found.path(self.options.absolute_names);
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
        let tabs = match self.terminal {
            true => "\t".repeat(4usize.saturating_sub(line.len() / 8).max(1)),
            false => "\t".to_owned(),
        };
        format!("{line}{tabs}#effective:{}", shown(effective))
    }
}
