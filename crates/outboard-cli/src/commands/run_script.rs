// SPDX-License-Identifier: GPL-2.0-only
//! `outboard run-script`: many commands, one kernel.

use crate::arguments::Arguments;
use crate::error::{Error, Result};
use crate::format::escaped;
use crate::line::{parse, split, standard_input, understand, Lines};
use crate::sandbox::HostAccess;
use crate::session::Session;
use clap::{Args, CommandFactory};
use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

/// Run the commands of a file, all in one kernel
///
/// Each line is what would be written after "outboard", with quotes as in a shell; "#" begins a
/// comment. Options that hold for all commands (--ro, --type...) are given to run-script itself. What
/// was written is on stable storage at the end, and after "sync".
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  outboard run-script build.txt\n  outboard run-script - <<END\n  cp -a rootfs/. disk.img@1:/\n  setfacl -m u:1000:rwx disk.img@1:/srv\n  END"
)]
pub struct RunScript {
    /// The file with the commands; "-": standard input
    #[arg(value_name = "FILE")]
    pub file: OsString,
    /// Go on after a command that failed; the exit code tells that one did
    #[arg(long)]
    pub keep_going: bool,
    /// Read once: all of it is looked at before the first line is run.
    #[arg(skip)]
    text: OnceCell<std::result::Result<Vec<u8>, Error>>,
}

/// Most bytes of a script.
const LARGEST: u64 = 64 << 20;

impl RunScript {
    fn shown(&self) -> String {
        match self.file == "-" {
            true => "standard input".to_owned(),
            false => escaped(self.file.as_bytes()),
        }
    }

    fn read(&self) -> Result<Vec<u8>> {
        let failed =
            |error: io::Error| Error::failed(format!("cannot read {}", self.shown()), &error);
        let mut text = Vec::new();
        let reader: Box<dyn Read> = match self.file == "-" {
            true => Box::new(standard_input()?),
            false => Box::new(File::open(&self.file).map_err(failed)?),
        };
        reader
            .take(LARGEST + 1)
            .read_to_end(&mut text)
            .map_err(failed)?;
        if text.len() as u64 > LARGEST {
            return Err(failed(io::Error::from_raw_os_error(libc::EFBIG)));
        }
        Ok(text)
    }

    fn text(&self) -> Result<&[u8]> {
        match self.text.get_or_init(|| self.read()) {
            Ok(text) => Ok(text),
            Err(error) => Err(error.clone()),
        }
    }

    /// That of all its commands.
    pub fn host_access(&self) -> HostAccess {
        let mut access = HostAccess::default();
        let lines = self.text().unwrap_or_default().split(|&byte| byte == b'\n');
        for line in lines {
            let words = split(line).unwrap_or_default();
            if words.is_empty() {
                continue;
            }
            // What cannot be understood is told when its turn comes.
            if let Ok(command) = parse(words, Arguments::command()) {
                access.add(command.host_access());
            }
        }
        access
    }
}

pub fn run(options: &RunScript, session: &mut Session) -> Result<()> {
    let interrupt = session.catch_interrupts()?;
    let mut lines = Lines {
        name: options.shown(),
        reader: options.text()?,
        keep_going: options.keep_going,
    };
    lines.run(&interrupt, |line| {
        let words = split(line)?;
        if !words.is_empty() {
            if let Some(command) = understand(words, Arguments::command())? {
                command.run(session)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    })
}
