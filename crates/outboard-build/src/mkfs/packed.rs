// SPDX-License-Identifier: GPL-2.0-only
//! Whether a file system that a tool has made of a tree has all of the tree. Some tools cut names
//! and large files, or make directories that Linux cannot read, and call that success.

use super::host_tree;
use super::makers::FileSystemMaker;
use outboard::{Metadata, Tree};
use outboard_error::format::escaped;
use outboard_error::{reason, ErrorKind, Failure, Result};
use outboard_sandbox::HostAccess;
use outboard_transfer::report::{Loss, Report};
use outboard_transfer::walk::{Entry, EntryText, Step};
use outboard_volume::access::uses_image;
use outboard_volume::address::{ImageName, Place};
use outboard_volume::session::{apart, Session};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// An image that a tool has made of a tree.
pub struct PackedImage<'a> {
    pub top: &'a Path,
    pub maker: &'a FileSystemMaker,
    /// The private directory with the image, which may lie in the tree.
    pub private: &'a Path,
    /// The image.
    pub image: &'a Path,
    /// When the tool was started: later changes of the tree need not be in the image.
    pub started: SystemTime,
}

impl PackedImage<'_> {
    /// Compares names, kinds, sizes and the targets of links. Reports each difference. Returns
    /// whether there is none.
    pub fn is_complete(&self, session: &mut Session) -> Result<bool> {
        let image = ImageName::new(self.image, None);
        let access = HostAccess {
            reads: vec![self.top.to_owned()],
            ..uses_image(&image, false)
        };
        let root = Place::Image(image, PathBuf::from("/"));
        apart(session, &access, |session| {
            let interrupt = session.catch_interrupts();
            let id = session.open(&root, false)?;
            let tree = session.tree(id);
            let report = Report::default();
            host_tree::for_each(self.top, interrupt, |step| {
                if let Step::Found(entry) = step {
                    self.compare(&entry, tree, &report);
                }
                Ok(())
            })?;
            report.print_losses();
            Ok(report.failures() == 0)
        })
    }

    fn compare(&self, entry: &Entry, tree: &Tree, report: &Report) {
        let path = entry.path.strip_prefix(self.top.as_os_str().as_bytes());
        let inside = [b"/", path.unwrap_or(entry.path)].concat();
        let inside = Path::new(OsStr::from_bytes(&inside));
        // Gone meanwhile, or made by this command.
        let Ok(stat) = entry.stat() else { return };
        if Path::new(OsStr::from_bytes(entry.path)).starts_with(self.private) {
            return;
        }
        let Some(problem) = self.problem(entry, &stat, tree, inside) else {
            return;
        };
        if Metadata::from(stat).changed() >= self.started {
            return report.lose(Loss::Changed, || entry.shown());
        }
        let text = format!("cannot pack {}: {problem}", entry.shown());
        let failure = Failure::new(ErrorKind::Unsupported, text);
        report.fail(failure.with_path(entry.path.to_vec()));
    }

    fn problem(
        &self,
        entry: &Entry,
        stat: &libc::stat,
        tree: &Tree,
        inside: &Path,
    ) -> Option<String> {
        let tool = self.maker.tool.name;
        let found = match tree.symlink_metadata(inside) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Some(format!("{tool} has left it out, or cut its name"));
            }
            Err(error) => return Some(format!("Linux cannot read it: {}", reason(&error))),
        };
        let (wanted, made) = (stat.st_mode & libc::S_IFMT, found.mode() & libc::S_IFMT);
        if wanted != made {
            return Some(format!("{tool} has made another kind of file of it"));
        }
        match wanted {
            libc::S_IFREG if found.len() != stat.st_size as u64 => Some(format!(
                "{tool} has packed {} of its {} bytes",
                found.len(),
                stat.st_size
            )),
            libc::S_IFLNK => {
                let target = entry.directory.read_link_at(entry.name).ok()?;
                let made = tree.read_link(inside).ok()?;
                let differs = made.as_os_str().as_bytes() != target.as_bytes();
                differs.then(|| {
                    let made = escaped(made.as_os_str().as_bytes());
                    format!("{tool} has made a link to {made} of it")
                })
            }
            _ => None,
        }
    }
}
