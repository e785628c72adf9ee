// SPDX-License-Identifier: GPL-2.0-only
//! `outboard edit`: a file of an image in the user's editor.
//!
//! The image is not held open while the editor runs: a copy in a private directory of the host is
//! edited. Afterwards a new file with the text takes the old one's name, if nobody else changed that
//! meanwhile. Until the new file is on stable storage the edited copy is kept, and told of if all does not go well.

use super::{image_place, runs_programs};
use crate::address::Place;
use crate::error::{reason, warn, Error, Result};
use crate::sandbox::HostAccess;
use crate::session::Session;
use clap::Args;
use outboard::{Fd, System, Tree};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;
use tempfile::TempDir;

/// Most bytes of a file that is edited.
const LARGEST: u64 = 1 << 30;

/// Edit a file in an image with $VISUAL or $EDITOR
///
/// The file is replaced by a new one with the same owner, mode, attributes and access control list, and only if
/// the text changed. If anything fails, the edited text is kept, and where it is is said.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  outboard edit disk.img@1:/etc/fstab\n  EDITOR='sed -i s/old/new/' outboard edit disk.img:/etc/hostname"
)]
pub struct Edit {
    /// The file: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(value_name = "IMAGE:/PATH")]
    pub place: OsString,
}

impl Edit {
    pub fn host_access(&self) -> HostAccess {
        runs_programs(&self.place)
    }
}

pub fn run(options: &Edit, session: &mut Session) -> Result<()> {
    let place = image_place(&options.place)?;
    let Place::Image(name, _) = &place else {
        return Err(Error::Usage("edit needs a place in an image".to_owned()));
    };
    // Whether it can be written is found out before somebody types.
    let original = Original::read(session, &place)?;
    let image = session.image(&name.file)?;
    session.release(&image)?;
    let copy = Copy::make(&place, original.text.as_deref().unwrap_or_default())?;
    let text = match copy.edit(session) {
        Ok(text) => text,
        Err(error) => return Err(copy.keep_if_changed(&original, error)),
    };
    if original.text.as_deref().unwrap_or_default() == text {
        return Ok(());
    }
    match write_back(session, &place, &original, &text) {
        Ok(()) => Ok(()),
        Err(error) => Err(copy.keep(error)),
    }
}

/// The file before it is edited.
struct Original {
    /// Without symbolic links.
    path: PathBuf,
    stat: Option<libc::stat>,
    /// `None`: there is no such file yet.
    text: Option<Vec<u8>>,
}

/// Where the file is; a new file is in a directory that exists.
fn resolve(tree: &Tree, path: &Path) -> io::Result<(PathBuf, bool)> {
    match tree.canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if tree.symlink_metadata(path).is_ok() {
                return Err(io::Error::other("it is a symbolic link that leads nowhere"));
            }
            tree.open_parent(path)?;
            Ok((path.to_path_buf(), false))
        }
        other => Ok((other?, true)),
    }
}

impl Original {
    fn read(session: &mut Session, place: &Place) -> Result<Self> {
        let id = session.open(place, true)?;
        Self::of(session.tree(id), place.path())
            .map_err(|error| Error::failed(format!("cannot edit {}", place.shown()), &error))
    }

    fn of(tree: &Tree, path: &Path) -> io::Result<Self> {
        let (path, exists) = resolve(tree, path)?;
        if !exists {
            return Ok(Self {
                path,
                stat: None,
                text: None,
            });
        }
        let file = tree.open_path(&path, false)?;
        let stat = file.stat()?;
        match stat.st_mode & libc::S_IFMT {
            libc::S_IFREG if stat.st_size as u64 <= LARGEST => {}
            libc::S_IFREG => return Err(io::Error::from_raw_os_error(libc::EFBIG)),
            libc::S_IFDIR => return Err(io::Error::from_raw_os_error(libc::EISDIR)),
            _ => return Err(io::Error::other("it is not a regular file")),
        }
        let mut text = Vec::new();
        tree.open(&path)?.take(LARGEST).read_to_end(&mut text)?;
        Ok(Self {
            path,
            stat: Some(stat),
            text: Some(text),
        })
    }

    /// Whether it is still what it was.
    fn is_same(&self, now: &Self) -> bool {
        let identity = |stat: &libc::stat| (stat.st_ino, stat.st_mode, stat.st_uid, stat.st_gid);
        let same = self.stat.as_ref().map(identity) == now.stat.as_ref().map(identity);
        same && self.path == now.path && self.text == now.text
    }
}

/// The copy that is edited.
struct Copy {
    directory: TempDir,
    file: PathBuf,
}

/// The name of the copy: as in the image, because editors tell from it what they edit.
fn file_name(place: &Place) -> OsString {
    let name = place.path().file_name().unwrap_or(OsStr::new("file"));
    let plain = |byte: &u8| if byte.is_ascii_control() { b'_' } else { *byte };
    let bytes: Vec<u8> = name.as_bytes().iter().map(plain).collect();
    OsStr::from_bytes(&bytes).to_owned()
}

impl Copy {
    fn make(place: &Place, text: &[u8]) -> Result<Self> {
        let failed = |error| Error::failed("cannot make a copy to edit", &error);
        let directory = tempfile::Builder::new()
            .prefix("outboard-edit-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(failed)?;
        let file = directory.path().join(file_name(place));
        let mut options = File::options();
        let opened = options.write(true).create_new(true).mode(0o600).open(&file);
        opened
            .and_then(|mut file| io::Write::write_all(&mut file, text))
            .map_err(failed)?;
        Ok(Self { directory, file })
    }

    /// Runs the editor; returns the text that is then there.
    fn edit(&self, session: &mut Session) -> Result<Vec<u8>> {
        let wish = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let editor = wish("VISUAL").or_else(|| wish("EDITOR"));
        let editor = editor.unwrap_or_else(|| "vi".into());
        let mut script = editor.clone();
        script.push(" \"$@\"");
        let interrupt = session.catch_interrupts()?;
        let held = interrupt.hold();
        // What the editor makes elsewhere gets the user's permissions, not ours.
        let ours = System::Host.umask(session.umask());
        let ended = process::Command::new("sh")
            .arg("-c")
            .arg(&script)
            .arg(&editor)
            .arg(&self.file)
            .status();
        System::Host.umask(ours);
        drop(held);
        interrupt.forget();
        let shown = editor.to_string_lossy();
        let status = ended.map_err(|error| Error::failed(format!("cannot run {shown}"), &error))?;
        if !status.success() {
            let hint = match status.code() {
                Some(127) => " (is it installed? Set VISUAL or EDITOR)",
                _ => "",
            };
            return Err(Error::Failed(format!(
                "nothing was changed: {shown} ended with {status}{hint}"
            )));
        }
        self.text()
    }

    fn text(&self) -> Result<Vec<u8>> {
        fs::read(&self.file).map_err(|error| Error::failed("cannot read the edited text", &error))
    }

    /// The error with the place of the text, which stays.
    fn keep(self, error: Error) -> Error {
        let _ = self.directory.keep();
        let text = error.message().unwrap_or("it failed");
        Error::Failed(format!(
            "{text}\nthe edited text is in {}",
            self.file.display()
        ))
    }

    fn keep_if_changed(self, original: &Original, error: Error) -> Error {
        let same = |text: Vec<u8>| text == original.text.as_deref().unwrap_or_default();
        match self.text().map(same) {
            Ok(true) => error,
            _ => self.keep(error),
        }
    }
}

fn write_back(
    session: &mut Session,
    place: &Place,
    original: &Original,
    text: &[u8],
) -> Result<()> {
    let id = session.open(place, true)?;
    let umask = session.umask();
    let tree = session.tree(id);
    let failed =
        |error: io::Error| Error::failed(format!("cannot write {}", place.shown()), &error);
    let now = Original::of(tree, place.path()).map_err(failed)?;
    if !original.is_same(&now) {
        return Err(Error::Failed(format!(
            "{} was changed by somebody else meanwhile: it was left as it is now",
            place.shown()
        )));
    }
    if let Some(others) = now
        .stat
        .map(|stat| stat.st_nlink)
        .filter(|&links| links > 1)
    {
        warn(format!(
            "note: {} had {others} names; the others keep the old text",
            place.shown()
        ));
    }
    let (directory, name) = tree.open_parent(&now.path).map_err(failed)?;
    replace(&directory, &name, &now, text, umask).map_err(failed)
}

/// Makes a new file and gives it the name. If that fails, nothing has changed.
fn replace(directory: &Fd, name: &CStr, now: &Original, text: &[u8], umask: u32) -> io::Result<()> {
    let (new_name, new) = create(directory)?;
    let made = (|| {
        new.write_all(text)?;
        match &now.stat {
            Some(stat) => {
                keep_attributes(&directory.open_at(name, libc::O_RDONLY, 0)?, &new, stat)?
            }
            None => new.set_mode(0o666 & !umask)?,
        }
        new.sync()?;
        let flags = if now.stat.is_some() {
            0
        } else {
            libc::RENAME_NOREPLACE
        };
        directory.rename_at(&new_name, directory, name, flags)
    })();
    if let Err(error) = made {
        if let Err(second) = directory.unlink_at(&new_name, 0) {
            let shown = new_name.to_string_lossy();
            warn(format!("{shown} could not be removed: {}", reason(&second)));
        }
        return Err(error);
    }
    directory
        .open_at(c".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?
        .sync()
}

/// A new file with a name that nothing has.
fn create(directory: &Fd) -> io::Result<(CString, Fd)> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
    let mut number = 0;
    loop {
        let name = CString::new(format!(".outboard-edit-{}-{number}", process::id()))?;
        match directory.open_at(&name, flags, 0o600) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {
                number += 1;
            }
            other => return Ok((name, other?)),
        }
    }
}

/// A change of owner takes capabilities and bits of the mode away, so it comes first, the mode last.
fn keep_attributes(old: &Fd, new: &Fd, stat: &libc::stat) -> io::Result<()> {
    let now = new.stat()?;
    if (now.st_uid, now.st_gid) != (stat.st_uid, stat.st_gid) {
        new.set_owner_at(c"", stat.st_uid, stat.st_gid, libc::AT_EMPTY_PATH)?;
    }
    let names = match old.xattrs() {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Vec::new(),
        other => other?,
    };
    for name in names {
        new.set_xattr(&name, &old.xattr(&name)?, 0)?;
    }
    if new.stat()?.st_mode != stat.st_mode {
        new.set_mode(stat.st_mode & 0o7777)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_copies() {
        let name = |path: &str| {
            let place = Place::Host(path.into());
            file_name(&place).into_string().unwrap()
        };
        assert_eq!(name("/etc/fstab"), "fstab");
        assert_eq!(name("/a\x1bb"), "a_b");
        assert_eq!(name("/"), "file");
    }
}
