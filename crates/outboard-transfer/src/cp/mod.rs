// SPDX-License-Identifier: GPL-2.0-only
//! Copies files between any two trees, of images or of the host, as `outboard cp` does.
//!
//! One thread walks the directories (`walk`); others copy what is not a directory (`copy`) and
//! keep attributes and hard links (`attributes`, `links`). Trees of images and of the host are
//! treated alike: the same calls reach both.

mod attributes;
mod changes;
mod copy;
pub(crate) mod data;
mod directory;
mod following;
pub(crate) mod handle_cache;
mod links;
pub mod queue;
mod total;
mod walk;

use crate::exclusion::Exclusion;
use crate::hidden::HiddenFinder;
use crate::made::MadeNames;
use crate::report::{NamePrinter, Report};
pub use changes::{Changes, OwnerRange};
pub use copy::no_contents;
use copy::{Copier, Item};
use directory::CopiedDirectory;
use outboard::{Fd, System, Tree};
use outboard_error::{warn, Error, ErrorKind, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::address::Place;
use outboard_volume::destination::UsedFiles;
use outboard_volume::session::{Session, TreeId};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use total::Total;
use walk::{RoundNames, Sources};

/// Which attributes of a source its copy gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Permissions, limited by the umask.
    #[default]
    Nothing,
    /// Mode, access control lists, owner and times.
    Basics,
    /// All attributes, and hard links.
    Everything,
}

/// How to treat files that exist already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// They are overwritten.
    #[default]
    Overwrite,
    /// They stay as they are.
    Stay,
    /// Newer sources overwrite them.
    Update,
}

/// The options of a copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The attributes that copies keep.
    pub keep: Keep,
    /// Copy directories.
    pub recursive: bool,
    /// Copy the targets of symbolic links, not the links.
    pub follow: bool,
    /// How to treat files that exist already.
    pub existing: Existing,
    /// The umask, for modes that are not kept.
    pub umask: u32,
    /// One thread copies, directory by directory, names in the order of their bytes: the same files
    /// are made in the same order each time.
    pub sorted: bool,
    /// A full destination is no failure: the caller will make a larger one.
    pub may_be_full: bool,
    /// Files of the host that look like disk images are overwritten.
    pub force: bool,
}

impl Options {
    /// The options of `cp -a`.
    pub fn everything(umask: u32) -> Self {
        Self {
            keep: Keep::Everything,
            recursive: true,
            umask,
            ..Self::default()
        }
    }

    /// Whether copies get attributes of their sources.
    pub fn keeps(&self) -> bool {
        self.keep != Keep::Nothing
    }

    /// Whether copies get all attributes of their sources.
    pub fn archive(&self) -> bool {
        self.keep == Keep::Everything
    }
}

/// How a copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Copied {
    All,
    /// Some files could not be copied; messages named them.
    Some,
    /// The destination is too small ([`Options::may_be_full`]).
    UntilFull,
}

/// Copies as `cp -a` does. `operand`: the directory of the copy, as messages name it. Returns
/// whether all attributes could be kept.
pub fn archive(
    session: &mut Session,
    source: &Place,
    destination: &Place,
    operand: &[u8],
    hidden: &HiddenFinder,
    new_report: fn() -> Report,
) -> Result<bool> {
    let report = new_report();
    let order = CopyRequest {
        options: Options::everything(session.umask()),
        changes: &Changes::default(),
        excluded: &Exclusion::default(),
        names: None,
        hidden,
        operand: Some(operand),
    };
    let sources = std::slice::from_ref(source);
    match copy_and_tell(session, &order, sources, destination, &report)? {
        Copied::All => Ok(!report.has_losses()),
        _ => Err(Error::AlreadyReported),
    }
}

/// Options, changes and output of a copy.
pub struct CopyRequest<'a> {
    pub options: Options,
    /// Changes to the metadata of copies.
    pub changes: &'a Changes,
    /// Files to leave out.
    pub excluded: &'a Exclusion,
    /// Prints the names of what is copied.
    pub names: Option<&'a dyn NamePrinter>,
    /// Finds what Linux does not show of the sources.
    pub hidden: &'a HiddenFinder,
    /// The name of the destination, if the user does not know its real one.
    pub operand: Option<&'a [u8]>,
}

/// Copies `sources`, and reports what could not be kept. Other commands than `cp` use it, too.
pub fn copy(
    session: &mut Session,
    order: &CopyRequest,
    sources: &[Place],
    destination: &Place,
    new_report: fn() -> Report,
) -> Result<Copied> {
    copy_and_tell(session, order, sources, destination, &new_report())
}

fn copy_and_tell(
    session: &mut Session,
    order: &CopyRequest,
    sources: &[Place],
    destination: &Place,
    report: &Report,
) -> Result<Copied> {
    let options = order.options;
    let interrupt = session.catch_interrupts();
    let _ = System::Host.raise_file_limit(1 << 20);
    let job = CopyJob {
        options,
        changes: order.changes,
        excluded: order.excluded,
        interrupt: &interrupt,
        report,
        names: order.names,
        hidden: order.hidden,
        operand: order.operand,
    };
    let result = copy_all(session, &job, sources, destination);
    let full = options.may_be_full && report.is_full();
    if !full {
        report.print_losses();
    }
    match result {
        Ok(()) | Err(Error::AlreadyReported) if interrupt.asked() => {
            Err(Error::Interrupted(format!(
            "interrupted after {} files, which are written; new copies that were not complete are \
             removed",
            report.files()
        )))
        }
        Ok(()) | Err(Error::AlreadyReported) if full => Ok(Copied::UntilFull),
        Ok(()) | Err(Error::AlreadyReported) if report.is_hopeless() => Err(Error::AlreadyReported),
        Ok(()) | Err(Error::AlreadyReported) if report.failures() > 0 => Ok(Copied::Some),
        other => other.map(|()| Copied::All),
    }
}

/// State that all parts of one copy share.
pub(crate) struct CopyJob<'a> {
    pub(crate) options: Options,
    pub(crate) changes: &'a Changes,
    pub(crate) excluded: &'a Exclusion,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) report: &'a Report,
    pub(crate) names: Option<&'a dyn NamePrinter>,
    pub(crate) hidden: &'a HiddenFinder,
    /// Another name of the destination, for the user.
    pub(crate) operand: Option<&'a [u8]>,
}

/// The destination: a directory, and a name in it unless the destination is the directory itself.
struct CopyTarget {
    directory: Arc<Fd>,
    name: Option<CString>,
    /// The name is a link to a pipe, as /dev/stdout may be.
    pipe: bool,
    /// The directory, as the user would write it.
    operand: Vec<u8>,
}

impl CopyTarget {
    /// The name of a source's copy. `None`: its contents go into the directory.
    fn name_of(&self, source: &Place) -> Option<CString> {
        let own = || base_name(source.path());
        self.name.clone().or_else(own)
    }
}

fn copy_all(
    session: &mut Session,
    job: &CopyJob,
    sources: &[Place],
    destination: &Place,
) -> Result<()> {
    let target_tree = session.open(destination, true)?;
    let _modes = (target_tree == TreeId::Host).then(ExactModes::new);
    let mut trees = Vec::new();
    for source in sources {
        trees.push(session.open(source, false)?);
    }
    let session: &Session = session;
    let source = |(place, id): (_, &TreeId)| CopySource {
        place,
        tree: session.tree(*id),
    };
    let way = Way {
        sources: sources.iter().zip(&trees).map(source).collect(),
        target: find_target(session.tree(target_tree), destination, sources.len())?,
        destination,
        used: session.used(),
        threads: session.vcpus(),
    };
    way.copy(job)
}

/// While it lives, new files of this process get the modes that the copy has computed, whatever the
/// user's umask is.
struct ExactModes {
    umask: u32,
}

impl ExactModes {
    fn new() -> Self {
        Self {
            umask: System::Host.umask(0),
        }
    }
}

impl Drop for ExactModes {
    fn drop(&mut self) {
        System::Host.umask(self.umask);
    }
}

/// A file that is to be copied, with all below it.
pub(crate) struct CopySource<'a> {
    place: &'a Place,
    tree: &'a Tree,
}

/// The sources and the target of a copy.
struct Way<'a> {
    sources: Vec<CopySource<'a>>,
    target: CopyTarget,
    /// Of the target.
    destination: &'a Place,
    used: Arc<UsedFiles>,
    threads: u32,
}

impl Way<'_> {
    fn copy(&self, job: &CopyJob) -> Result<()> {
        let (report, target) = (job.report, &self.target);
        if !target.directory.system().is_host() {
            let _ = target.directory.system().raise_file_limit(1 << 16);
        }
        let copier = Copier::new(
            job,
            Arc::clone(&target.directory),
            job.operand.unwrap_or(&target.operand).to_owned(),
            Arc::clone(&self.used),
        );
        let mut sources = Sources::new(&copier);
        let made = self.made_names()?;
        for source in &self.sources {
            let added = add_source(&mut sources, source, target, &made, self.destination);
            if let Err(error) = added {
                report.fail_known(error)?;
            }
        }
        let total = Total::find(&self.sources, job.excluded, job.interrupt);
        total.beside(report, || sources.copy(self.threads));
        match report.failures() {
            0 => Ok(()),
            _ => Err(Error::AlreadyReported),
        }
    }

    /// The names that the command makes in the destination directory.
    fn made_names(&self) -> Result<Arc<MadeNames>> {
        let names = self
            .sources
            .iter()
            .map(|source| self.target.name_of(source.place));
        let names: Vec<Option<CString>> = names.collect();
        if matches!(names.as_slice(), [Some(_)]) {
            return Ok(MadeNames::of_one_name());
        }
        let mut round = RoundNames::new(&self.target.directory);
        let meet = names.iter().any(|name| round.may_meet(name.as_deref()));
        MadeNames::of_existing(&self.target.directory, meet)
            .map_err(|error| Error::of_file("cannot list", self.target.operand.clone(), &error))
    }
}

/// Copies a file, with all below it, to this very path: a directory is merged into one that is
/// there. `used`: files to keep.
pub(crate) fn copy_exactly(
    job: &CopyJob,
    (tree, place): (&Tree, &Place),
    (target_tree, destination): (&Tree, &Place),
    used: UsedFiles,
    threads: u32,
) -> Result<()> {
    let failed = |error| Error::of_file("cannot write to", destination.operand(), &error);
    let (directory, name) = target_tree
        .open_parent(destination.path())
        .map_err(failed)?;
    let way = Way {
        sources: vec![CopySource { place, tree }],
        target: CopyTarget {
            directory: Arc::new(directory),
            name: Some(name),
            pipe: false,
            operand: destination.parent().operand(),
        },
        destination,
        used: Arc::new(used),
        threads,
    };
    way.copy(job)
}

fn ends_with_slash(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

fn find_target(tree: &Tree, place: &Place, sources: usize) -> Result<CopyTarget> {
    let shown = place.shown();
    let failed = |error: &io::Error| Error::of_file("cannot write to", place.operand(), error);
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    match tree.open_fd(place.path(), flags, 0) {
        Ok(directory) => {
            return Ok(CopyTarget {
                directory: Arc::new(directory),
                name: None,
                pipe: false,
                operand: place.operand(),
            })
        }
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) if sources > 1 => {
                let is_there = tree.symlink_metadata(place.path()).is_ok();
                let text = if is_there {
                    format!("{shown} is not a directory")
                } else {
                    format!("{shown} is not there: several files need a directory")
                };
                return Err(Error::known(ErrorKind::Usage, text).about(place.operand()));
            }
            Some(libc::ENOTDIR) if ends_with_slash(place.path()) => return Err(failed(&error)),
            Some(libc::ENOENT | libc::ENOTDIR) => {}
            _ => return Err(failed(&error)),
        },
    }
    let mut pipe = false;
    let path = match tree.canonicalize(place.path()) {
        Ok(path) => path,
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
            pipe = true;
            place.path().to_path_buf()
        }
        Err(_) if tree.symlink_metadata(place.path()).is_ok() => {
            return Err(Error::known(
                ErrorKind::NotFound,
                format!("cannot write to {shown}: it is a symbolic link that leads nowhere"),
            ));
        }
        Err(_) => place.path().to_path_buf(),
    };
    let (directory, name) = tree.open_parent(&path).map_err(|error| failed(&error))?;
    Ok(CopyTarget {
        directory: Arc::new(directory),
        name: Some(name),
        pipe,
        operand: place.parent().operand(),
    })
}

/// The name of the copy in the destination directory. `None`: the contents of the source go there,
/// as for "dir/." and the root of an image.
fn base_name(path: &Path) -> Option<CString> {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/')?;
    let start = bytes[..end]
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |slash| slash + 1);
    match &bytes[start..=end] {
        b"." | b".." => None,
        name => CString::new(name).ok(),
    }
}

fn add_source<'a>(
    sources: &mut Sources<'a>,
    source: &CopySource<'a>,
    target: &CopyTarget,
    made: &Arc<MadeNames>,
    destination: &Place,
) -> Result<()> {
    let (place, tree) = (source.place, source.tree);
    let shown = place.shown();
    let failed = |error: io::Error| Error::of_file("cannot copy", place.operand(), &error);
    let options = sources.options();
    let follow = options.follow || ends_with_slash(place.path());
    let found = if follow {
        tree.canonicalize(place.path())
    } else {
        Ok(place.path().to_path_buf())
    };
    let (path, pipe) = match found {
        Ok(path) => (path, false),
        // A link such as /dev/stdin to a file that has no path, but can be opened.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
            (place.path().to_path_buf(), true)
        }
        Err(error) => return Err(failed(error)),
    };
    let (parent, name) = tree.open_parent(&path).map_err(failed)?;
    let stat = parent
        .stat_at(&name, libc::AT_SYMLINK_NOFOLLOW)
        .map_err(failed)?;
    let directory = stat.st_mode & libc::S_IFMT == libc::S_IFDIR;
    if ends_with_slash(place.path()) && !directory {
        return Err(failed(io::Error::from_raw_os_error(libc::ENOTDIR)));
    }
    if directory && !options.recursive {
        return Err(Error::known(
            ErrorKind::Usage,
            format!("{shown} is a directory: it was left out (copy directories with -r or -a)"),
        ));
    }
    if !directory && target.name.is_some() && ends_with_slash(destination.path()) {
        let error = io::Error::from_raw_os_error(libc::ENOTDIR);
        let text = format!("cannot write to {}", destination.shown());
        return Err(Error::failed(text, &error));
    }
    let into = target.name_of(place);
    if directory && is_inside(&target.directory, parent.system(), &stat).map_err(failed)? {
        return Err(Error::known(
            ErrorKind::Usage,
            format!("cannot copy {shown} into itself, {}", destination.shown()),
        ));
    }
    let top = CopiedDirectory::top(
        parent,
        (Arc::clone(&target.directory), Arc::clone(made)),
        place.operand(),
        base_name(place.path()),
        &path,
    );
    if sources.excludes(&top, &name) {
        return Ok(());
    }
    let key = (top.source.system().clone(), stat.st_dev, stat.st_ino);
    if !sources.is_new(key, into.as_deref()) {
        warn(format!(
            "note: {shown} is named more than once, and copied once"
        ));
        return Ok(());
    }
    if directory {
        sources.add_directory(tree, top, name, into);
    } else {
        let into = into.unwrap_or_else(|| name.clone());
        sources.add_file(Item {
            directory: Arc::new(top),
            name,
            new_name: Some(into),
            elsewhere: None,
            follow: pipe,
            into_pipe: target.pipe,
        });
    }
    Ok(())
}

/// Whether `directory` is the directory of `stat`, or below it.
fn is_inside(directory: &Fd, system: &System, stat: &libc::stat) -> io::Result<bool> {
    if directory.system() != system {
        return Ok(false);
    }
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    let mut here = directory.open_at(c".", flags, 0)?;
    let mut last = None;
    loop {
        let found = here.stat()?;
        let identity = (found.st_dev, found.st_ino);
        if identity == (stat.st_dev, stat.st_ino) {
            return Ok(true);
        }
        if last == Some(identity) {
            return Ok(false);
        }
        last = Some(identity);
        here = here.open_at(c"..", flags, 0)?;
    }
}

#[cfg(test)]
mod tests;
