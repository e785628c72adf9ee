// SPDX-License-Identifier: GPL-2.0-only
//! `outboard run-script`: many commands, one kernel.

use crate::commands::line::{parse, split, understand, CommandSet, Lines};
use clap::Args;
use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use outboard_sandbox::HostAccess;
use outboard_volume::session::{apart, Session};
use outboard_volume::standard_input::StandardInput;
use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

/// Run the commands of a file, all in one kernel
///
/// A line is a command without the word "outboard", with quotes as in a shell; "#" begins a
/// comment. Give shared options (--ro, --type...) to run-script itself: they hold for all lines.
/// Changes are on stable storage at the end, and after "sync".
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard run-script build.txt\
                        \n  outboard run-script - <<END\
                        \n  cp -a rootfs/. disk.img@1:/\
                        \n  setfacl -m u:1000:rwx disk.img@1:/srv\
                        \n  END")]
pub struct RunScriptArgs {
    /// The file with the commands; "-": standard input
    #[arg(value_name = "FILE")]
    pub file: OsString,
    /// Go on after a command that failed; the exit code at the end is 1 then
    #[arg(long)]
    pub keep_going: bool,
    /// Read once: all of it is looked at before the first line is run.
    #[arg(skip)]
    text: OnceCell<std::result::Result<Vec<u8>, Error>>,
}

/// Most bytes of a script.
const LARGEST: u64 = 64 << 20;

impl RunScriptArgs {
    fn shown(&self) -> String {
        if self.file == "-" {
            "standard input".to_owned()
        } else {
            escaped(self.file.as_bytes())
        }
    }

    fn read(&self) -> Result<Vec<u8>> {
        let failed =
            |error: io::Error| Error::failed(format!("cannot read {}", self.shown()), &error);
        let mut text = Vec::new();
        let reader: Box<dyn Read> = if self.file == "-" {
            Box::new(StandardInput::of_a_command()?)
        } else {
            Box::new(File::open(&self.file).map_err(failed)?)
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

    /// The access that all its commands need together.
    pub fn host_access(&self, commands: &CommandSet) -> HostAccess {
        let mut access = HostAccess::default();
        for part in parts(self.text().unwrap_or_default(), commands) {
            access.add(part.access);
        }
        access
    }
}

/// Lines that can be run in one session.
#[derive(Default)]
struct ScriptPart<'a> {
    text: &'a [u8],
    /// Lines before it.
    before: u64,
    access: HostAccess,
}

/// The access that a line needs. A line with an error fails when its turn comes.
fn access_of(line: &[u8], commands: &CommandSet) -> HostAccess {
    let words = split(line).unwrap_or_default();
    if words.is_empty() {
        HostAccess::default()
    } else {
        parse(words, (commands.grammar)(), commands)
            .map(|command| command.host_access())
            .unwrap_or_default()
    }
}

/// Lines that work outside of the sandbox are each a part, and so are the lines between them.
fn parts<'a>(text: &'a [u8], commands: &CommandSet) -> Vec<ScriptPart<'a>> {
    let mut parts: Vec<ScriptPart> = Vec::new();
    let mut start = 0;
    for (number, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let access = access_of(line, commands);
        let end = start + line.len();
        match parts.last_mut() {
            Some(last) if !last.access.outside && !access.outside => {
                last.access.add(access);
                last.text = &text[start - last.text.len()..end];
            }
            _ => parts.push(ScriptPart {
                text: &text[start..end],
                before: number as u64,
                access,
            }),
        }
        start = end;
    }
    parts
}

pub fn run(options: &RunScriptArgs, session: &mut Session, commands: &CommandSet) -> Result<()> {
    let text = options.text()?;
    let run =
        |text, before, session: &mut Session| run_lines(options, text, before, session, commands);
    if !session.is_outside() {
        return run(text, 0, session);
    }
    let mut failed = false;
    for part in parts(text, commands) {
        let lines = |session: &mut Session| run(part.text, part.before, session);
        let done = if part.access.outside {
            lines(session)
        } else {
            apart(session, &part.access, lines)
        };
        match done {
            Err(Error::AlreadyReported) if options.keep_going => failed = true,
            other => other?,
        }
    }
    if failed {
        Err(Error::AlreadyReported)
    } else {
        Ok(())
    }
}

fn run_lines(
    options: &RunScriptArgs,
    text: &[u8],
    before: u64,
    session: &mut Session,
    commands: &CommandSet,
) -> Result<()> {
    let interrupt = session.catch_interrupts();
    let mut lines = Lines {
        name: options.shown(),
        reader: text,
        before,
        keep_going: options.keep_going,
    };
    lines.run(&interrupt, |line| {
        let words = split(line)?;
        if !words.is_empty() {
            if let Some(command) = understand(words, (commands.grammar)(), commands)? {
                command.run_line(session)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::COMMANDS;

    #[test]
    fn parts_end_where_programs_run() {
        let text = b"ls a.img:/\n# no\nls b.img:/\nfsck a.img\nmkfs ext4 c.img\n\ncat a.img:/x";
        let parts = parts(text, &COMMANDS);
        let seen: Vec<_> = parts
            .iter()
            .map(|part| (part.before, part.access.outside, part.access.images.len()))
            .collect();
        assert_eq!(
            seen,
            [(0, false, 2), (3, true, 1), (4, true, 1), (5, false, 1)]
        );
        let whole: Vec<u8> = parts.iter().flat_map(|part| part.text).copied().collect();
        assert_eq!(whole, text);
    }
}
