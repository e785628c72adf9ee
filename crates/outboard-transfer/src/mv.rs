// SPDX-License-Identifier: GPL-2.0-only
//! Moves a file: renames it within a file system. To another one it is copied with everything, into
//! a directory of its own beside the destination. The complete copy gets its name, all that is
//! written to stable storage, and only then the source is removed.

use crate::cp::{self, Changes, Copied, CopyRequest};
use crate::exclusion::Exclusion;
use crate::hidden::HiddenFinder;
use crate::made::{Claim, MadeNames, Origin};
use crate::operand::{ends_with_slash, exists, is_directory, with_new_name, Named, ITSELF};
use crate::remove::remove_tree;
use crate::report::Report;
use outboard::{Fd, Tree};
use outboard_error::{Error, Failure, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::address::Place;
use outboard_volume::session::{Session, TreeId};
use std::ffi::{CStr, CString};
use std::io;
use std::sync::Arc;

/// How files are moved.
pub struct Moving {
    /// The names that the same command has made.
    pub made: Arc<MadeNames>,
    pub hidden: HiddenFinder,
    /// A file that exists is not replaced: the source stays.
    pub keeps_existing: bool,
    /// Makes the report of a copy.
    pub new_report: fn() -> Report,
}

/// The result of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    All,
    /// The copy lacks something, which was reported: the source stays.
    Copied,
}

/// A name in an open directory of a mounted file system.
struct MovedName {
    id: TreeId,
    directory: Fd,
    name: CString,
}

impl MovedName {
    fn find(session: &mut Session, place: &Place) -> Result<Self> {
        let id = session.open(place, true)?;
        let found = Named::to_change(session.tree(id), place);
        let (directory, name) =
            found.map_err(|error| Error::of_file("cannot move", place.operand(), &error))?;
        Ok(Self {
            id,
            directory,
            name,
        })
    }
}

fn failure(source: &Place, new: &Place, error: &io::Error) -> Error {
    let (from, to) = (source.shown(), new.shown());
    let failure = Failure::of(error);
    let failure = match error.raw_os_error() {
        Some(libc::EINVAL) => failure.with_message(format!("cannot move {from} into itself, {to}")),
        _ => failure.after(format!("cannot move {from} to {to}")),
    };
    Error::from(failure.with_path(source.operand()))
}

/// Moves a file to a new name, by a rename or by a copy.
pub fn move_file(
    session: &mut Session,
    source: &Place,
    new: &Place,
    how: &Moving,
    interrupt: &Interrupt,
) -> Result<Moved> {
    let to = MovedName::find(session, new)?;
    let from = MovedName::find(session, source)?;
    let failed = |error: &io::Error| failure(source, new, error);
    let stat = from.directory.stat_at(&from.name, ITSELF);
    let stat = stat.map_err(|error| failed(&error))?;
    if ends_with_slash(new) && !is_directory(&stat) {
        return Err(failed(&io::Error::from_raw_os_error(libc::ENOTDIR)));
    }
    let claim = how
        .made
        .claim(&to.name, Origin::Path(Arc::new(source.operand())));
    let there = is_there(&to, &claim).map_err(|error| failed(&error))?;
    if how.keeps_existing && there {
        return Ok(Moved::All);
    }
    if from.id == to.id {
        match rename(&from, &to, &stat) {
            Err(error) if error.raw_os_error() == Some(libc::EXDEV) => {}
            Err(error) => return Err(failed(&error)),
            Ok(()) => {
                claim.keep();
                return Ok(Moved::All);
            }
        }
    }
    check_replaceable(&to, session.tree(to.id), new, &stat).map_err(|error| failed(&error))?;
    if copy_and_name(session, source, new, &to, &claim, how)? == Moved::Copied {
        return Ok(Moved::Copied);
    }
    let top = Named {
        directory: from.directory,
        name: from.name,
        stat,
    };
    remove_tree(top, source, interrupt).map(|()| Moved::All)
}

/// Whether there is a file of this name. One that this command has moved there is an error.
fn is_there(to: &MovedName, claim: &Claim) -> io::Result<bool> {
    claim.check_first()?;
    let there = exists(&to.directory, &to.name)?;
    if there {
        claim.check_existing(&to.directory)?;
    }
    Ok(there)
}

/// Renames. If both names already mean the same file, the system call does nothing and calls it
/// success: they are hard links, or differ in case only, on a file system that ignores that.
fn rename(from: &MovedName, to: &MovedName, stat: &libc::stat) -> io::Result<()> {
    if let Ok(old) = to.directory.stat_at(&to.name, ITSELF) {
        if (old.st_dev, old.st_ino) == (stat.st_dev, stat.st_ino) {
            let several = stat.st_nlink > 1 && !is_directory(stat);
            if several || from.name == to.name {
                return Err(io::Error::other("they are the same file"));
            }
            return rename_by_detour(from, to);
        }
    }
    let directory = &from.directory;
    directory.rename_at(&from.name, &to.directory, &to.name, 0)
}

/// Renames with a third name in between.
fn rename_by_detour(from: &MovedName, to: &MovedName) -> io::Result<()> {
    let directory = &from.directory;
    let rename = |old: &CStr, new: &CStr| directory.rename_at(old, directory, new, 0);
    let (between, ()) = with_new_name(directory, |name| rename(&from.name, name))?;
    let renamed = directory.rename_at(&between, &to.directory, &to.name, 0);
    if renamed.is_err() {
        rename(&between, &from.name)?;
    }
    renamed
}

/// Whether a copy may take a name: what rename() says, before much is copied.
fn check_replaceable(
    to: &MovedName,
    tree: &Tree,
    new: &Place,
    stat: &libc::stat,
) -> io::Result<()> {
    let Ok(old) = to.directory.stat_at(&to.name, ITSELF) else {
        return Ok(());
    };
    let error = match (is_directory(stat), is_directory(&old)) {
        (true, false) => libc::ENOTDIR,
        (false, true) => libc::EISDIR,
        (true, true) if tree.read_dir(new.path())?.next().is_some() => libc::ENOTEMPTY,
        _ => return Ok(()),
    };
    Err(io::Error::from_raw_os_error(error))
}

/// Copies all that a file has. `operand`: the directory of the copy, as messages name it. Returns
/// whether all attributes could be kept.
fn copy_whole(
    session: &mut Session,
    source: &Place,
    copy: &Place,
    operand: &[u8],
    how: &Moving,
) -> Result<bool> {
    let request = CopyRequest {
        options: cp::Options::everything(session.umask()),
        changes: &Changes::default(),
        excluded: &Exclusion::default(),
        names: None,
        hidden: &how.hidden,
        operand: Some(operand),
    };
    let report = (how.new_report)();
    let sources = std::slice::from_ref(source);
    match cp::copy(session, &request, sources, copy, &report)? {
        Copied::All => Ok(!report.has_losses()),
        Copied::Some | Copied::UntilFull => Err(Error::AlreadyReported),
    }
}

/// Makes a complete and durable copy with the new name, or none.
fn copy_and_name(
    session: &mut Session,
    source: &Place,
    new: &Place,
    to: &MovedName,
    claim: &Claim,
    how: &Moving,
) -> Result<Moved> {
    let failed = |error: &io::Error| failure(source, new, error);
    let made = with_new_name(&to.directory, |name| {
        to.directory.make_directory_at(name, 0o700)
    });
    let (beside, ()) = made.map_err(|error| failed(&error))?;
    let directory = new.parent().below(beside.to_bytes());
    let (copy, operand) = (directory.below(to.name.to_bytes()), new.parent().operand());
    let copied = copy_whole(session, source, &copy, &operand, how);
    let named = match &copied {
        Ok(_) => take_name(to, &beside).map_err(|error| failed(&error)),
        Err(_) => Ok(()),
    };
    if copied.is_err() || named.is_err() {
        discard(to, beside, &directory);
    }
    let complete = copied?;
    named?;
    claim.keep();
    if let TreeId::Mount(index) = to.id {
        let synced = session.mounted(index).sync();
        synced.map_err(|error| failed(&error))?;
    }
    Ok(if complete { Moved::All } else { Moved::Copied })
}

/// Gives the copy its name, and removes the directory where it was made.
fn take_name(to: &MovedName, beside: &CString) -> io::Result<()> {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let directory = to.directory.open_at(beside, flags, 0)?;
    directory.rename_at(&to.name, &to.directory, &to.name, 0)?;
    drop(directory);
    to.directory.unlink_at(beside, libc::AT_REMOVEDIR)
}

/// Removes the copy of a source that stays where it is, also after an interrupt.
fn discard(to: &MovedName, beside: CString, shown: &Place) {
    let top = to.directory.duplicate().and_then(|directory| {
        Ok(Named {
            stat: directory.stat_at(&beside, ITSELF)?,
            directory,
            name: beside,
        })
    });
    if let Ok(top) = top {
        // `remove_tree` reports its errors itself.
        let _ = remove_tree(top, shown, &Interrupt::default());
    }
}
