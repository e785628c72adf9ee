// SPDX-License-Identifier: GPL-2.0-only
//! `outboard stat`.

use super::owner_names::OwnerNames;
use crate::commands::operands::find_places;
use crate::format;
use crate::output::{Output, Print};
use crate::record::{nanoseconds, FileRecord};
use clap::Args;
use outboard::Fd;
use outboard_error::{Error, Failures, Result};
use outboard_transfer::accounts::{AccountNames, Accounts};
use outboard_volume::address::Place;
use outboard_volume::session::Session;
use serde::{Serialize, Serializer};
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

/// Show the attributes of files in an image
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  outboard stat disk.img:/etc/passwd")]
pub struct StatArgs {
    /// The files: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Follow symbolic links
    #[arg(short = 'L')]
    pub follow: bool,
}

pub fn run(options: &StatArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    let places = find_places(session, &options.places, false)?;
    let mut failures = Failures::default();
    let mut names = OwnerNames::new(true);
    for place in &places {
        let found = StatOperand::look(session, place, options.follow, &mut names);
        if let Some(found) = failures.take(found)? {
            output.item(&found)?;
        }
    }
    failures.finish()
}

struct StatOperand {
    place: Place,
    stat: libc::stat,
    born: Option<(i64, i64)>,
    target: Option<CString>,
    accounts: Rc<Accounts>,
}

fn birth(directory: &Fd, name: &CString, flags: i32) -> Option<(i64, i64)> {
    let statx = directory.statx_at(name, flags).ok()?;
    let known = statx.stx_mask & libc::STATX_BTIME != 0;
    known.then(|| (statx.stx_btime.tv_sec, statx.stx_btime.tv_nsec.into()))
}

impl StatOperand {
    fn look(
        session: &mut Session,
        place: &Place,
        follow: bool,
        names: &mut OwnerNames,
    ) -> Result<Self> {
        let id = session.open(place, false)?;
        let tree = session.tree(id);
        let failed = |error: io::Error| Error::of_file("cannot stat", place.operand(), &error);
        let (directory, name) = if follow {
            let file = tree.open_fd(place.path(), libc::O_PATH, 0);
            (file.map_err(failed)?, CString::default())
        } else {
            tree.open_parent(place.path()).map_err(failed)?
        };
        let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
        let stat = directory.stat_at(&name, flags).map_err(failed)?;
        let link = stat.st_mode & libc::S_IFMT == libc::S_IFLNK;
        Ok(Self {
            place: place.clone(),
            stat,
            born: birth(&directory, &name, flags),
            target: if link {
                Some(directory.read_link_at(&name).map_err(failed)?)
            } else {
                None
            },
            accounts: names.of(tree, id),
        })
    }

    /// As GNU stat shows it; times are UTC.
    fn text(&self, terminal: bool) -> Vec<u8> {
        let stat = &self.stat;
        let mut text = b"  File: ".to_vec();
        text.extend(format::name(
            self.place.path().as_os_str().as_bytes(),
            terminal,
        ));
        if let Some(target) = &self.target {
            text.extend_from_slice(b" -> ");
            text.extend(format::name(target.to_bytes(), terminal));
        }
        let device = match stat.st_mode & libc::S_IFMT {
            libc::S_IFBLK | libc::S_IFCHR => format!(
                "  Device type: {},{}",
                libc::major(stat.st_rdev),
                libc::minor(stat.st_rdev)
            ),
            _ => String::new(),
        };
        let name = |names: &AccountNames, id| names.known(id).unwrap_or("UNKNOWN").to_owned();
        let born = self
            .born
            .map_or("-".to_owned(), |(s, n)| format::moment(s, n));
        let lines = [
            format!(
                "  Size: {:<15} Blocks: {:<10} IO Block: {:<6} {}",
                stat.st_size,
                stat.st_blocks,
                stat.st_blksize,
                format::kind(stat.st_mode, stat.st_size as u64)
            ),
            format!(
                "Device: {},{}\tInode: {:<11} Links: {}{device}",
                libc::major(stat.st_dev),
                libc::minor(stat.st_dev),
                stat.st_ino,
                stat.st_nlink
            ),
            format!(
                "Access: ({:04o}/{})  Uid: ({:>5}/{:>8})   Gid: ({:>5}/{:>8})",
                stat.st_mode & 0o7777,
                format::mode(stat.st_mode),
                stat.st_uid,
                name(&self.accounts.users, stat.st_uid),
                stat.st_gid,
                name(&self.accounts.groups, stat.st_gid)
            ),
            format!(
                "Access: {}",
                format::moment(stat.st_atime, stat.st_atime_nsec)
            ),
            format!(
                "Modify: {}",
                format::moment(stat.st_mtime, stat.st_mtime_nsec)
            ),
            format!(
                "Change: {}",
                format::moment(stat.st_ctime, stat.st_ctime_nsec)
            ),
            format!(" Birth: {born}"),
        ];
        for line in lines {
            text.push(b'\n');
            text.extend_from_slice(line.as_bytes());
        }
        text.push(b'\n');
        text
    }
}

impl Serialize for StatOperand {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let path = self.place.operand();
        let mut file = FileRecord::new(path, &self.stat, self.target.as_deref(), &self.accounts);
        let born = self.born;
        file.created = born.map(|(seconds, part)| nanoseconds(seconds, part));
        file.serialize(serializer)
    }
}

impl Print for StatOperand {
    fn print(&self, output: &mut Output) -> Result<()> {
        output.bytes(&self.text(output.is_terminal()))
    }
}
