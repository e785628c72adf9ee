// SPDX-License-Identifier: GPL-2.0-only
//! The sources of a copy: found, checked, and added to what the walk goes through.

use super::directory::CopiedDirectory;
use super::inside::is_inside;
use super::item::Item;
use super::options::Options;
use super::target::{own_name, CopyTarget};
use super::walk::Sources;
use crate::made::MadeNames;
use crate::operand::{ends_with_slash, is_directory};
use outboard::{Fd, Tree};
use outboard_error::{warn, Error, ErrorKind, Result};
use outboard_volume::address::Place;
use std::ffi::CString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A file that is to be copied, with all below it.
pub struct CopySource<'a> {
    pub place: &'a Place,
    pub tree: &'a Tree,
}

/// A source as it was found.
struct FoundSource {
    /// Its path in the tree.
    path: PathBuf,
    /// Its directory, and its name in there.
    parent: Fd,
    name: CString,
    stat: libc::stat,
    /// The name is a link such as /dev/stdin to a file that has no path, but can be opened.
    pipe: bool,
}

impl<'a> CopySource<'a> {
    /// Adds the source to others, unless it is left out.
    pub fn add_to(
        &self,
        sources: &mut Sources<'a>,
        target: &CopyTarget,
        made: &Arc<MadeNames>,
    ) -> Result<()> {
        let options = sources.options();
        let found = self.find(options.follow);
        let found = found.map_err(|error| self.failed(&error))?;
        self.check(&found, options, target)?;
        let FoundSource { name, stat, .. } = found;
        let key = (found.parent.system().clone(), stat.st_dev, stat.st_ino);
        let top = CopiedDirectory::top(
            found.parent,
            (Arc::clone(&target.directory), Arc::clone(made)),
            self.place.operand(),
            own_name(self.place.path()),
            &found.path,
        );
        if sources.excludes(&top, &name) {
            return Ok(());
        }
        let into = target.name_of(self.place);
        if !sources.is_new(key, into.as_deref()) {
            let shown = self.place.shown();
            warn(format!(
                "note: {shown} is named more than once, and copied once"
            ));
            return Ok(());
        }
        if is_directory(&stat) {
            sources.add_directory(self.tree, top, name, into);
        } else {
            let new_name = Some(into.unwrap_or_else(|| name.clone()));
            sources.add_file(Item {
                directory: Arc::new(top),
                name,
                new_name,
                elsewhere: None,
                follow: found.pipe,
                into_pipe: target.pipe,
            });
        }
        Ok(())
    }

    fn failed(&self, error: &io::Error) -> Error {
        Error::of_file("cannot copy", self.place.operand(), error)
    }

    fn find(&self, follow: bool) -> io::Result<FoundSource> {
        let slash = ends_with_slash(self.place);
        let (path, pipe) = self.path(follow || slash)?;
        let (parent, name) = self.tree.open_parent(&path)?;
        let stat = parent.stat_at(&name, libc::AT_SYMLINK_NOFOLLOW)?;
        if slash && !is_directory(&stat) {
            return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
        }
        Ok(FoundSource {
            path,
            parent,
            name,
            stat,
            pipe,
        })
    }

    /// The path of the file, and whether its name is a link to a file without a path.
    fn path(&self, follow: bool) -> io::Result<(PathBuf, bool)> {
        let own = self.place.path();
        if !follow {
            return Ok((own.to_path_buf(), false));
        }
        match self.tree.canonicalize(own) {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                Ok((own.to_path_buf(), true))
            }
            found => found.map(|path| (path, false)),
        }
    }

    /// Refuses a source that cannot be copied to this target.
    fn check(&self, found: &FoundSource, options: Options, target: &CopyTarget) -> Result<()> {
        if !is_directory(&found.stat) {
            return target.check_file();
        }
        let shown = self.place.shown();
        let refuse = |text| Err(Error::known(ErrorKind::Usage, text));
        if !options.recursive {
            return refuse(format!(
                "{shown} is a directory: it was left out (copy directories with -r or -a)"
            ));
        }
        let inside = is_inside(&target.directory, found.parent.system(), &found.stat);
        if inside.map_err(|error| self.failed(&error))? {
            let destination = target.place.shown();
            return refuse(format!("cannot copy {shown} into itself, {destination}"));
        }
        Ok(())
    }
}
