// SPDX-License-Identifier: GPL-2.0-only
//! `outboard ln`.

use crate::commands::image_place;
use crate::commands::operands::made_names;
use clap::Args;
use outboard::{Fd, Tree};
use outboard_error::{Error, ErrorKind, Failures, Result};
use outboard_transfer::made::{Claim, MadeNames, Origin};
use outboard_transfer::operand::{
    base_name, ends_with_slash, exists, is_directory, with_new_name, Named, ITSELF,
};
use outboard_volume::address::Place;
use outboard_volume::session::{Session, TreeId};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Make hard and symbolic links in an image
#[derive(Args, Debug)]
#[command(
    override_usage = "outboard ln [OPTIONS] <TARGET>... <LINK>",
    after_help = "Examples:\
                  \n  outboard ln disk.img:/bin/busybox disk.img:/bin/ls\
                  \n  outboard ln -s -f ../usr/share/zoneinfo/UTC disk.img:/etc/localtime"
)]
pub struct LnArgs {
    /// The targets, and last the new name or a directory for it. With -s, a target is any text;
    /// else it is a place in the same image
    #[arg(required = true, num_args = 2.., value_names = ["TARGET", "LINK"])]
    pub operands: Vec<OsString>,
    /// Make symbolic links
    #[arg(short, long)]
    pub symbolic: bool,
    /// Replace a file that has the new name
    #[arg(short, long)]
    pub force: bool,
    /// Take LINK as the new name even if it is a symbolic link to a directory
    #[arg(short, long)]
    pub no_dereference: bool,
}

pub fn run(options: &LnArgs, session: &mut Session) -> Result<()> {
    let Some((link, targets)) = options.operands.split_last() else {
        return Err(Error::Usage("ln needs a target and a name".to_owned()));
    };
    let link = image_place(link)?;
    let targets = targets
        .iter()
        .map(|target| LinkTarget::parse(target, options.symbolic))
        .collect::<Result<Vec<_>>>()?;
    let id = session.open(&link, true)?;
    let into = is_target_directory(session.tree(id), &link, options.no_dereference);
    if targets.len() > 1 && !into {
        let text = format!("{} is not a directory", link.shown());
        return Err(Error::known(ErrorKind::Usage, text));
    }
    let made = made_names(session.tree(id), &link, targets.len())?;
    let mut failures = Failures::default();
    for target in &targets {
        let place = if into {
            link.below(base_name(target.text()))
        } else {
            link.clone()
        };
        failures.take(make(options, session, id, target, &place, &made))?;
    }
    failures.finish()
}

/// The target of a link.
enum LinkTarget {
    Text(CString),
    File(Place),
}

impl LinkTarget {
    fn parse(operand: &OsStr, symbolic: bool) -> Result<Self> {
        if !symbolic {
            return image_place(operand).map(LinkTarget::File);
        }
        if let Place::Image(_, path) = Place::find(operand) {
            return Err(Error::Usage(format!(
                "the text of a symbolic link is a path inside the image: write {}",
                path.display()
            )));
        }
        let text = CString::new(operand.as_bytes());
        text.map(LinkTarget::Text)
            .map_err(|_| Error::Usage("the text of a symbolic link has a NUL in it".to_owned()))
    }

    fn text(&self) -> &[u8] {
        match self {
            LinkTarget::Text(text) => text.to_bytes(),
            LinkTarget::File(place) => place.path().as_os_str().as_bytes(),
        }
    }

    /// As the user has written it.
    fn operand(&self) -> Vec<u8> {
        match self {
            LinkTarget::Text(text) => text.to_bytes().to_vec(),
            LinkTarget::File(place) => place.operand(),
        }
    }
}

/// Whether links are to be made in the directory that a place is.
fn is_target_directory(tree: &Tree, place: &Place, itself: bool) -> bool {
    Named::find(tree, place, !itself).is_ok_and(|found| is_directory(&found.stat))
}

fn make(
    options: &LnArgs,
    session: &mut Session,
    id: TreeId,
    target: &LinkTarget,
    place: &Place,
    made: &MadeNames,
) -> Result<()> {
    let failed = |error: io::Error| Error::of_file("cannot make link", place.operand(), &error);
    let file = match target {
        LinkTarget::Text(_) => None,
        LinkTarget::File(file) if session.open(file, true)? != id => {
            return Err(Error::known(
                ErrorKind::Unsupported,
                format!(
                "cannot make link {}: {} is in another file system (copy it with outboard cp, or \
                 use ln -s)",
                place.shown(),
                file.shown()
            ),
            ));
        }
        LinkTarget::File(file) => {
            let failed = |error| Error::of_file("cannot link to", file.operand(), &error);
            let (source, old) = Named::to_change(session.tree(id), file).map_err(failed)?;
            source.stat_at(&old, ITSELF).map_err(failed)?;
            Some((source, old))
        }
    };
    let link = |directory: &Fd, name: &CStr| match (target, &file) {
        (LinkTarget::Text(text), _) => directory.make_symlink_at(text, name),
        (_, Some((source, old))) => source.link_at(old, directory, name, 0),
        (LinkTarget::File(_), None) => Ok(()),
    };
    let (directory, name) = Named::to_change(session.tree(id), place).map_err(failed)?;
    // A link has no slash at its end, whatever is to be there.
    if ends_with_slash(place) && !exists(&directory, &name).map_err(failed)? {
        return Err(failed(io::Error::from_raw_os_error(libc::ENOENT)));
    }
    let claim = made.claim(&name, Origin::Path(Arc::new(target.operand())));
    match link(&directory, &name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && options.force => {
            replace(&directory, &claim, link)
        }
        other => other,
    }
    .map_err(failed)?;
    claim.keep();
    Ok(())
}

/// Makes a link in place of the file that has its name, which is never without a file. A link that
/// this command has made stays.
fn replace(
    directory: &Fd,
    claim: &Claim,
    link: impl Fn(&Fd, &CStr) -> io::Result<()>,
) -> io::Result<()> {
    claim.check_first()?;
    claim.check_existing(directory)?;
    let name = claim.name();
    let old = directory.stat_at(name, ITSELF)?;
    if is_directory(&old) {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    let (new, ()) = with_new_name(directory, |new| link(directory, new))?;
    let renamed = directory.rename_at(&new, directory, name, 0);
    // It is still there after an error, and if both are names of one file: then renaming does
    // nothing.
    let _ = directory.unlink_at(&new, 0);
    renamed
}
