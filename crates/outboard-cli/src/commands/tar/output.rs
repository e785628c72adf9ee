// SPDX-License-Identifier: GPL-2.0-only
//! `outboard tar-out`.

use super::compression::{Compressor, Format};
use super::pack::pack;
use super::tree::{Choice, Walk};
use crate::commands::cp::report::Report;
use crate::commands::{check_file_name, image_place, reads_images};
use crate::output::check_open;
use clap::{Args, ValueEnum};
use outboard_sandbox::error::{Error, Result};
use outboard_sandbox::format::escaped;
use outboard_sandbox::HostAccess;
use outboard_volume::destination::UsedFiles;
use outboard_volume::session::{Session, TreeId};
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Pack a directory of an image into a tar archive
///
/// The archive is in PAX format and has everything: numeric owners, modes, times, extended attributes,
/// ACLs, labels, hard links, devices, holes. The same tree makes the same archive, byte for byte.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  outboard tar-out disk.img@1:/ > root.tar\n  outboard tar-out disk.img:/srv --zstd -f srv.tar.zst --exclude '*.log'"
)]
pub struct TarOut {
    /// The directory: IMAGE:/DIR or IMAGE@N:/DIR
    #[arg(value_name = "IMAGE:/DIR")]
    pub place: OsString,
    /// Where to write the archive [default: standard output]
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
    /// Order of the names in a directory
    #[arg(long, value_enum, default_value_t = Sort::Name, value_name = "ORDER")]
    pub sort: Sort,
    /// Overwrite an ARCHIVE that looks like a disk image
    #[arg(long)]
    pub force: bool,
    /// Leave out what a pattern of the shell matches, as tar does; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// By the bytes of the names
    Name,
    /// As the file system has them
    None,
}

impl TarOut {
    fn format(&self) -> Format {
        match (self.gzip, self.zstd, self.xz) {
            (true, _, _) => Format::Gzip,
            (_, true, _) => Format::Zstd,
            (_, _, true) => Format::Xz,
            _ => Format::Plain,
        }
    }

    fn choice(&self) -> Result<Choice> {
        let pattern = |text: &OsString| {
            let bytes = text.as_bytes();
            let end = bytes.iter().rposition(|&byte| byte != b'/');
            CString::new(&bytes[..end.map_or(bytes.len(), |end| end + 1)])
                .map_err(|_| Error::Usage("a pattern has a NUL in it".to_owned()))
        };
        Ok(Choice {
            sorted: self.sort == Sort::Name,
            excluded: self.exclude.iter().map(pattern).collect::<Result<_>>()?,
        })
    }
}

/// Where the archive goes to.
struct Target {
    file: File,
    name: String,
    /// A file that was made for it.
    made: Option<PathBuf>,
}

impl Target {
    /// `mode`: the permissions of a new file.
    fn open(options: &TarOut, used: &UsedFiles, mode: u32) -> Result<Self> {
        let Some(path) = options.file.as_ref().filter(|path| *path != "-") else {
            return Self::standard();
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
                (used.overwrite_path(path, options.force), None)
            }
            other => (other, Some(path.to_path_buf())),
        };
        let failed = |error| Error::failed(format!("cannot write to {name}"), &error);
        let file = file.map_err(failed)?;
        Ok(Self { file, name, made })
    }

    fn standard() -> Result<Self> {
        check_open()?;
        let stdout = io::stdout();
        if stdout.is_terminal() {
            return Err(Error::Usage(
                "tar-out writes the archive to standard output, which is a terminal: write > ARCHIVE, or -f ARCHIVE"
                    .to_owned(),
            ));
        }
        let name = "standard output".to_owned();
        let file = stdout.as_fd().try_clone_to_owned();
        let file =
            file.map_err(|error| Error::failed(format!("cannot write to {name}"), &error))?;
        Ok(Self {
            file: File::from(file),
            name,
            made: None,
        })
    }

    /// An archive that is not complete must not look like one that is.
    fn remove(&self) {
        if let Some(path) = &self.made {
            let _ = std::fs::remove_file(path);
        }
    }

    fn failed(&self, error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Error::READER_GONE,
            _ => Error::failed(format!("cannot write to {}", self.name), error),
        }
    }
}

impl TarOut {
    pub fn host_access(&self) -> HostAccess {
        let mut access = reads_images([&self.place]);
        let files = self.file.iter().filter(|file| *file != "-");
        access.writes.extend(files.map(PathBuf::from));
        access
    }
}

pub fn run(options: &TarOut, session: &mut Session) -> Result<()> {
    let place = image_place(&options.place)?;
    let choice = options.choice()?;
    let interrupt = session.catch_interrupts();
    let id = session.open(&place, false)?;
    let _ = session.tree(id).system().raise_file_limit(1 << 16);
    let shown = place.shown();
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let root = session
        .tree(id)
        .open_fd(place.path(), flags, 0)
        .map_err(|error| Error::failed(format!("cannot open {shown}"), &error))?;
    let report = Report::default();
    if let (TreeId::Mount(index), true) = (id, place.path() == Path::new("/")) {
        let space = session.mounted(index).space();
        report.expect(space.map_or(0, |space| space.size.saturating_sub(space.free)));
    }
    let walk = Walk {
        choice: &choice,
        report: &report,
        interrupt: &interrupt,
        shown: &shown,
    };
    let target = Target::open(options, &session.used(), 0o666 & !session.umask())?;
    let threads = session.vcpus();
    let written =
        Compressor::new(options.format(), &target.file, threads).and_then(|mut output| {
            pack(&walk, root, threads, &mut output)?;
            output.finish()?.flush()
        });
    report.print_losses();
    if interrupt.asked() {
        target.remove();
        let text = "interrupted: the archive is not complete".to_owned();
        return Err(Error::Interrupted(text));
    }
    if let Err(error) = written {
        target.remove();
        return Err(target.failed(&error));
    }
    match report.failures() {
        0 => Ok(()),
        _ => Err(Error::Told),
    }
}
