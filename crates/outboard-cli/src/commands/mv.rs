// SPDX-License-Identifier: GPL-2.0-only
//! `outboard mv`: renames within a file system. To another one it copies with everything, into a
//! directory of its own beside the destination, gives the complete copy its name, writes all that
//! to stable storage, and only then removes the source.

use crate::commands::operands::{expand_places, made_names};
use crate::commands::progress;
use crate::commands::rm::remove_tree;
use crate::commands::uses_image_of;
use clap::Args;
use outboard::{Fd, Tree};
use outboard_error::{Error, ErrorKind, Failure, Failures, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::HostAccess;
use outboard_transfer::cp::{self, Changes, Copied, CopyRequest};
use outboard_transfer::exclusion::Exclusion;
use outboard_transfer::hidden::HiddenFinder;
use outboard_transfer::made::{Claim, MadeNames, Origin};
use outboard_transfer::operand::{
    base_name, ends_with_slash, exists, is_directory, with_new_name, Named, ITSELF,
};
use outboard_volume::address::Place;
use outboard_volume::session::{Session, TreeId};
use std::cell::OnceCell;
use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Move or rename files in images
///
/// Between two file systems, mv copies as cp -a does, and removes the source once the copy is
/// complete and on stable storage. If the copy lacks something, such as an owner, the source stays.
#[derive(Args, Debug)]
#[command(
    override_usage = "outboard mv [OPTIONS] <SRC>... <DST>",
    after_help = "Examples:\
                  \n  outboard mv disk.img:/etc/motd disk.img:/etc/motd.old\
                  \n  outboard mv old.img:/home/ann new.img@2:/home"
)]
pub struct MvArgs {
    /// The sources, and last the destination: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, num_args = 2.., value_names = ["SRC", "DST"])]
    pub places: Vec<OsString>,
    /// Do not replace files that exist
    #[arg(short, long)]
    pub no_clobber: bool,
    /// Parsed once: a file that appears later does not change their meaning.
    #[arg(skip)]
    parsed: OnceCell<Vec<Place>>,
}

impl MvArgs {
    fn parsed(&self) -> &[Place] {
        let parse = || self.places.iter().map(|operand| Place::find(operand));
        self.parsed.get_or_init(|| parse().collect())
    }

    pub fn host_access(&self) -> HostAccess {
        let mut access = HostAccess::default();
        for place in self.parsed() {
            access.add(uses_image_of(place, true));
        }
        access
    }
}

pub fn run(options: &MvArgs, session: &mut Session) -> Result<()> {
    let places = options.parsed().iter().map(movable);
    let mut sources = places.collect::<Result<Vec<Place>>>()?;
    let destination = sources
        .pop()
        .ok_or_else(|| Error::Usage("mv needs a source and a destination".to_owned()))?;
    let sources = expand_places(session, sources, true)?;
    let interrupt = session.catch_interrupts();
    let target = session.open(&destination, true)?;
    let into = session.tree(target).metadata(destination.path());
    let into = into.is_ok_and(|found| found.is_dir());
    if sources.len() > 1 && !into {
        let text = format!("{} is not a directory", destination.shown());
        return Err(Error::known(ErrorKind::Usage, text));
    }
    let made = made_names(session.tree(target), &destination, sources.len())?;
    let hidden = HiddenFinder::default();
    let mut failures = Failures::default();
    for source in &sources {
        let name = base_name(source.path().as_os_str().as_bytes());
        let new = if into {
            destination.below(name)
        } else {
            destination.clone()
        };
        let part = move_one(options, session, source, &new, &made, &hidden, &interrupt);
        failures.take(part)?;
        interrupt.check()?;
    }
    failures.finish()
}

fn movable(place: &Place) -> Result<Place> {
    match place {
        Place::Host(path) => Err(Error::Usage(format!(
            "{} is a file of the host, which mv does not move from or to: copy with outboard cp \
             -a, and then remove what is no longer needed",
            path.display()
        ))),
        place => Ok(place.clone()),
    }
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

fn move_one(
    options: &MvArgs,
    session: &mut Session,
    source: &Place,
    new: &Place,
    made: &MadeNames,
    hidden: &HiddenFinder,
    interrupt: &Interrupt,
) -> Result<()> {
    let to = MovedName::find(session, new)?;
    let from = MovedName::find(session, source)?;
    let failed = |error: &io::Error| failure(source, new, error);
    let stat = from.directory.stat_at(&from.name, ITSELF);
    let stat = stat.map_err(|error| failed(&error))?;
    if ends_with_slash(new) && !is_directory(&stat) {
        return Err(failed(&io::Error::from_raw_os_error(libc::ENOTDIR)));
    }
    let claim = made.claim(&to.name, Origin::Path(Arc::new(source.operand())));
    let there = is_there(&to, &claim).map_err(|error| failed(&error))?;
    if options.no_clobber && there {
        return Ok(());
    }
    if from.id == to.id {
        match rename(&from, &to, &stat) {
            Err(error) if error.raw_os_error() == Some(libc::EXDEV) => {}
            Err(error) => return Err(failed(&error)),
            Ok(()) => {
                claim.keep();
                return Ok(());
            }
        }
    }
    check_replaceable(&to, session.tree(to.id), new, &stat).map_err(|error| failed(&error))?;
    copy_and_name(session, source, new, &to, &claim, hidden)?;
    let top = Named {
        directory: from.directory,
        name: from.name,
        stat,
    };
    remove_tree(top, source, interrupt)
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
    hidden: &HiddenFinder,
) -> Result<bool> {
    let request = CopyRequest {
        options: cp::Options::everything(session.umask()),
        changes: &Changes::default(),
        excluded: &Exclusion::default(),
        names: None,
        hidden,
        operand: Some(operand),
    };
    let report = progress::report();
    match cp::copy(
        session,
        &request,
        std::slice::from_ref(source),
        copy,
        &report,
    )? {
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
    hidden: &HiddenFinder,
) -> Result<()> {
    let failed = |error: &io::Error| failure(source, new, error);
    let made = with_new_name(&to.directory, |name| {
        to.directory.make_directory_at(name, 0o700)
    });
    let (beside, ()) = made.map_err(|error| failed(&error))?;
    let directory = new.parent().below(beside.to_bytes());
    let (copy, operand) = (directory.below(to.name.to_bytes()), new.parent().operand());
    let copied = copy_whole(session, source, &copy, &operand, hidden);
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
    if complete {
        Ok(())
    } else {
        Err(Error::Failed(format!(
            "{} was copied but not removed, because not everything could be kept: if that is no \
             loss, remove it with outboard rm -r",
            source.shown()
        )))
    }
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
