// SPDX-License-Identifier: GPL-2.0-only
//! `outboard tar-out`.

use crate::commands::operands::{expand_paths, TreeOperand};
use crate::commands::{about, check_file_name, progress};
use crate::output::{check_open, Output};
use clap::{Args, ValueEnum};
use outboard::Tree;
use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use outboard_sandbox::HostAccess;
use outboard_transfer::exclusion::Exclusion;
use outboard_transfer::moment::parse_moment;
use outboard_transfer::tar::output::{pack_place, ArchiveOutput};
use outboard_transfer::tar::{find_owner, Choice, Format, MemberChanges};
use outboard_volume::address::Place;
use outboard_volume::destination::{Overwrite, UsedFiles};
use outboard_volume::session::Session;
use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Pack a directory of an image into a tar archive
///
/// The archive has PAX format and keeps everything: numeric owners, modes, times, extended
/// attributes, ACLs, labels, hard links, devices, holes. The same tree makes the same archive, byte
/// for byte.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard tar-out disk.img@1:/ > root.tar\
                        \n  outboard tar-out disk.img:/srv --zstd -f srv.tar.zst --exclude '*.log'\
                        \n  outboard tar-out --owner 0 --group 0 --mtime 2026-01-01 disk.img:/ etc \
                        usr/share/doc > some.tar")]
pub struct TarOutArgs {
    /// The directory: IMAGE:/DIR or IMAGE@N:/DIR; IMAGE alone means its root
    #[arg(value_name = "IMAGE:/DIR")]
    pub place: OsString,
    /// The parts of the directory to pack, with everything below; they may have wildcards. Members
    /// of the archive are named as written here [default: all]
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// The archive to write [default: standard output]
    #[arg(short, long = "file", value_name = "ARCHIVE")]
    pub file: Option<OsString>,
    /// Compress with gzip
    #[arg(short = 'z', long, conflicts_with_all = ["zstd", "xz"])]
    pub gzip: bool,
    /// Compress with zstd
    #[arg(long, conflicts_with = "xz")]
    pub zstd: bool,
    /// Compress with xz
    #[arg(short = 'J', long)]
    pub xz: bool,
    /// The order of the names in a directory
    #[arg(long, value_enum, default_value_t = Sort::Name, value_name = "ORDER")]
    pub sort: Sort,
    /// Overwrite an ARCHIVE that looks like a disk image
    #[arg(long)]
    pub force: bool,
    /// Leave out files that match this pattern of the shell, as tar does; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<OsString>,
    /// The owner of everything in the archive: USER, USER:GROUP, :GROUP, or USER: for the user's
    /// login group; numbers, or names of the image
    #[arg(long, value_name = "OWNER")]
    pub owner: Option<OsString>,
    /// The group of everything in the archive: a number, or a name of the image
    #[arg(long, value_name = "GROUP")]
    pub group: Option<OsString>,
    /// The time of modification of everything in the archive: "2026-11-21 10:20:30" or @SECONDS
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub mtime: Option<libc::timespec>,
    /// Let --mtime replace only later times
    #[arg(long, requires = "mtime")]
    pub clamp_mtime: bool,
    #[arg(skip)]
    parsed: OnceCell<TreeOperand>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// By the bytes of the names
    Name,
    /// As the file system has them
    None,
}

impl TarOutArgs {
    /// The archive's path. `None`: standard output.
    fn path(&self) -> Option<&OsString> {
        self.file.as_ref().filter(|path| *path != "-")
    }

    fn format(&self) -> Format {
        match (self.gzip, self.zstd, self.xz) {
            (true, _, _) => Format::Gzip,
            (_, true, _) => Format::Zstd,
            (_, _, true) => Format::Xz,
            _ => Format::Plain,
        }
    }

    /// `paths`: what of the place is packed.
    fn choice(&self, tree: &Tree, place: &Place, paths: Vec<OsString>) -> Result<Choice> {
        let (user, group) = (self.owner.as_deref(), self.group.as_deref());
        Ok(Choice {
            sorted: self.sort == Sort::Name,
            excluded: Exclusion::parse(&self.exclude)?,
            paths,
            changes: MemberChanges {
                owner: find_owner(user, group, tree, place)?,
                modified: self.mtime,
                clamps: self.clamp_mtime,
            },
        })
    }
}

/// Opens the archive. `mode`: the permissions of a new file.
fn open_target(options: &TarOutArgs, used: &UsedFiles, mode: u32) -> Result<ArchiveOutput<File>> {
    let Some(path) = options.path() else {
        return standard();
    };
    let name = escaped(path.as_bytes());
    let path = Path::new(path);
    if !options.force {
        check_file_name(path)?;
    }
    let mut new = File::options();
    let new = new.write(true).mode(mode).create_new(true).open(path);
    let (file, made) = match new {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let what = if options.force {
                Overwrite::Everything
            } else {
                Overwrite::TarArchive
            };
            (used.overwrite_path(path, what), None)
        }
        other => (other, Some(path.to_path_buf())),
    };
    let operand = || path.as_os_str().as_bytes().to_vec();
    let failed = |error| Error::of_file("cannot write to", operand(), &error);
    let file = file.map_err(failed)?;
    Ok(ArchiveOutput {
        writer: file,
        name,
        made,
    })
}

fn standard() -> Result<ArchiveOutput<File>> {
    check_open()?;
    let stdout = io::stdout();
    if stdout.is_terminal() {
        return Err(Error::Usage(
            "tar-out writes the archive to standard output, which is a terminal: write > ARCHIVE, \
             or -f ARCHIVE"
                .to_owned(),
        ));
    }
    let name = "standard output".to_owned();
    let file = stdout.as_fd().try_clone_to_owned();
    let file = file.map_err(|error| Error::failed(format!("cannot write to {name}"), &error))?;
    Ok(ArchiveOutput {
        writer: File::from(file),
        name,
        made: None,
    })
}

impl TarOutArgs {
    fn parsed(&self) -> &TreeOperand {
        self.parsed.get_or_init(|| TreeOperand::parse(&self.place))
    }

    pub fn host_access(&self) -> HostAccess {
        let mut access = self.parsed().access(false);
        access.writes.extend(self.path().map(PathBuf::from));
        access
    }
}

pub fn run(options: &TarOutArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    if output.is_json() && options.path().is_none() {
        let text = "tar-out has --json only with -f ARCHIVE: standard output is the archive";
        return Err(Error::Usage(text.to_owned()));
    }
    let place = options.parsed().find(session, "tar-out", false)?;
    let paths = expand_paths(session, &place, &options.paths)?;
    let id = session.open(&place, false)?;
    let choice = options.choice(session.tree(id), &place, paths)?;
    let open = |session: &Session| open_target(options, &session.used(), 0o666 & !session.umask());
    let packed = pack_place(
        session,
        &place,
        &choice,
        options.format(),
        progress::report,
        open,
    );
    match options.path() {
        Some(path) => packed.map_err(about(path)),
        None => packed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    #[test]
    fn the_operand_keeps_its_meaning() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("a@2.img");
        std::fs::write(&image, "").unwrap();
        let operand = format!("{}@1", image.display());
        let grammar = TarOutArgs::augment_args(clap::Command::new("tar-out"));
        let matches = grammar.get_matches_from(["tar-out", &operand]);
        let options = TarOutArgs::from_arg_matches(&matches).unwrap();
        let access = options.host_access();
        // A file of this name makes the operand another image.
        std::fs::write(&operand, "").unwrap();
        assert_eq!(access.images, [(image.clone(), false)]);
        let Place::Image(name, _) = options.parsed().place().unwrap() else {
            panic!("{operand} is a path of the host");
        };
        assert_eq!((name.file, name.partition), (image, Some(1)));
        assert_eq!(options.host_access(), access);
    }
}
