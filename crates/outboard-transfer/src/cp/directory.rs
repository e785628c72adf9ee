// SPDX-License-Identifier: GPL-2.0-only
//! A directory that is being copied, from the creation of its copy to the copy's attributes.
//!
//! The walk and each file that is still to be copied share the directory. The thread that is the
//! last to leave it sets its attributes. Children hold their parent, so a parent is finished after
//! them.

use super::attributes::{self, SourceAndCopy};
use super::copier::{CopiedFile, Copier};
use super::options::Options;
use crate::made::{MadeNames, Origin};
use crate::report::Loss;
use crate::walk::join;
use outboard::Fd;
use outboard_error::format::escaped;
use std::ffi::{CStr, CString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that is being copied.
pub struct CopiedDirectory {
    pub source: Arc<Fd>,
    pub target: Arc<Fd>,
    /// The source's path, for messages.
    shown: Arc<Vec<u8>>,
    /// Length of the part before the source's own name; patterns are not matched against that part.
    hidden: usize,
    /// Its path in its tree, if links are followed.
    pub real: PathBuf,
    /// The target's path below the top target.
    pub path: Vec<u8>,
    /// The source's metadata; `None` for the top, which is not itself copied.
    stat: Option<libc::stat>,
    /// Whether this copy created it.
    created: bool,
    /// The names that this command has made in the target.
    pub made: Arc<MadeNames>,
    parent: Option<Arc<CopiedDirectory>>,
}

impl CopiedDirectory {
    /// The directory that holds a source named on the command line.
    /// `shown`: the source's path; `name`: its own name, unless its contents are copied; `real`:
    /// the source's path in its tree.
    pub fn top(
        source: Fd,
        (target, made): (Arc<Fd>, Arc<MadeNames>),
        shown: Vec<u8>,
        name: Option<CString>,
        real: &Path,
    ) -> Self {
        let end = shown.iter().rposition(|&byte| byte != b'/');
        let name = name.map_or(0, |name| name.as_bytes().len());
        let hidden = match (end, name) {
            (Some(end), 1..) => (end + 1).saturating_sub(name),
            _ => shown.len(),
        };
        Self {
            source: Arc::new(source),
            target,
            shown: Arc::new(shown),
            hidden,
            real: real.parent().unwrap_or(real).to_path_buf(),
            path: Vec::new(),
            stat: None,
            created: false,
            made,
            parent: None,
        }
    }

    /// Makes the copy of `source`, which is the directory `name` in `parent`. `new_name`: the name
    /// of the copy, or "." if the contents go into the target itself. An error is one of writing.
    pub fn make_copy(
        parent: &Arc<Self>,
        name: &CStr,
        new_name: &CStr,
        source: Arc<Fd>,
        stat: &libc::stat,
        options: Options,
    ) -> io::Result<Self> {
        let copy = match new_name.to_bytes() {
            b"." => TargetDirectory {
                fd: open(&parent.target, new_name)?,
                created: false,
                made: Arc::clone(&parent.made),
            },
            _ => make(parent, new_name, options, stat)?,
        };
        Ok(Self {
            source,
            target: Arc::new(copy.fd),
            shown: Arc::new(parent.raw_path_of(name)),
            hidden: parent.hidden,
            real: PathBuf::new(),
            path: match new_name.to_bytes() {
                b"." => parent.path.clone(),
                _ => parent.path_of(new_name),
            },
            stat: Some(*stat),
            created: copy.created,
            made: copy.made,
            parent: Some(Arc::clone(parent)),
        })
    }

    /// Prints its name and that of its copy, if it is new.
    pub fn print_names(&self, copier: &Copier) {
        if self.created {
            copier.print_names(|| self.shown.to_vec(), || self.path.clone());
        }
    }

    /// Its path, as the user would write it.
    pub fn raw_path(&self) -> Vec<u8> {
        self.shown.to_vec()
    }

    /// The path of a file in it.
    pub fn raw_path_of(&self, name: &CStr) -> Vec<u8> {
        match self.stat {
            None => self.shown.to_vec(),
            Some(_) => join(&self.shown, name.to_bytes()),
        }
    }

    /// The source of a file in it.
    pub fn origin(&self) -> Origin {
        let shown = Arc::clone(&self.shown);
        match self.stat {
            None => Origin::Path(shown),
            Some(_) => Origin::Directory(shown),
        }
    }

    /// The path of a file in it, for messages.
    pub fn shown_in(&self, name: &CStr) -> String {
        escaped(&self.raw_path_of(name))
    }

    /// Whether a directory with this device and inode is this directory or one above it in the
    /// source.
    pub fn is_or_lies_in(&self, identity: (u64, u64)) -> bool {
        let mut next = Some(self);
        while let Some(directory) = next {
            let is = |stat: &libc::stat| (stat.st_dev, stat.st_ino) == identity;
            if directory.stat.as_ref().is_some_and(is) {
                return true;
            }
            next = directory.parent.as_deref();
        }
        false
    }

    /// Whether a pattern excludes a file in it.
    pub fn excludes(&self, copier: &Copier, name: &CStr) -> bool {
        if copier.excluded.is_empty() {
            return false;
        }
        let path = self.raw_path_of(name);
        let path = path.get(self.hidden..).unwrap_or_default();
        let start = path.iter().position(|&byte| byte != b'/');
        // Names in archives of tar-out begin like this.
        start.is_some_and(|start| copier.excluded.excludes(&[b"./", &path[start..]].concat()))
    }

    /// The path of a copy in it, below the top target.
    pub fn path_of(&self, name: &CStr) -> Vec<u8> {
        join(&self.path, name.to_bytes())
    }
}

impl CopiedFile for CopiedDirectory {
    fn shown(&self) -> String {
        escaped(&self.shown)
    }

    fn copy_path(&self) -> Vec<u8> {
        self.path.clone()
    }
}

/// The mode of a new copy that keeps no attributes. As with GNU cp, a directory like /tmp stays
/// one; set-user-ID and set-group-ID bits are dropped.
fn new_mode(options: Options, stat: &libc::stat) -> u32 {
    stat.st_mode & (libc::S_ISVTX | 0o777) & !options.umask
}

/// The copy of a directory.
struct TargetDirectory {
    fd: Fd,
    created: bool,
    made: Arc<MadeNames>,
}

/// Creates or opens the copy of a directory. Until it is finished, no other user can access it.
fn make(
    parent: &CopiedDirectory,
    name: &CStr,
    options: Options,
    stat: &libc::stat,
) -> io::Result<TargetDirectory> {
    let claim = parent.made.claim(name, parent.origin());
    let known = claim.known();
    if known.is_none() {
        claim.check_first()?;
    }
    let mode = if options.keeps() {
        0o700
    } else {
        new_mode(options, stat) | 0o700
    };
    let created = match parent.target.make_directory_at(name, mode) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error),
    };
    if !created {
        claim.check_existing(&parent.target)?;
    }
    let fd = open(&parent.target, name)?;
    let made = match known {
        Some(made) => made,
        None => claim.keep_directory(&fd, created)?,
    };
    Ok(TargetDirectory { fd, created, made })
}

fn open(parent: &Fd, name: &CStr) -> io::Result<Fd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    match parent.open_at(name, flags, 0) {
        // A link or file of this name must not be written through or replaced.
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            Err(io::Error::from_raw_os_error(libc::ENOTDIR))
        }
        other => other,
    }
}

/// Leaves a directory. The last thread to leave it finishes it, and then its parents in turn. After
/// a stop, too: directories that exist get their attributes. A loop, not recursion: trees may be
/// deep.
pub fn release(copier: &Copier, directory: Arc<CopiedDirectory>) {
    let mut next = Some(directory);
    while let Some(directory) = next.and_then(Arc::into_inner) {
        finish(copier, &directory);
        copier.note(&directory.target);
        next = directory.parent;
    }
}

/// Sets the attributes of a directory to which nothing will be added.
fn finish(copier: &Copier, directory: &CopiedDirectory) {
    let Some(stat) = &directory.stat else {
        return;
    };
    let pair = SourceAndCopy::Open {
        source: &directory.source,
        target: &directory.target,
    };
    // A directory has no contents of its own.
    let _ = copier.find_hidden(&directory.source, stat, directory);
    if copier.options.keeps() {
        match directory.target.stat() {
            Ok(now) => attributes::keep(copier, &pair, stat, &now, directory),
            Err(_) => copier.report.lose(Loss::Owner, || directory.shown()),
        }
    } else if directory.created {
        let mode = new_mode(copier.options, stat);
        attributes::give_owner(copier, &pair, directory);
        if mode & 0o700 != 0o700 && directory.target.set_mode(mode).is_err() {
            copier.report.lose(Loss::Mode, || directory.shown());
        }
    }
}
