// SPDX-License-Identifier: GPL-2.0-only
//! `outboard run -d`: starts this program again, and waits until the first program runs.
//!
//! The new process has a session of its own. Its standard input is the control socket, and its
//! output the log; by the first connection it gets the file for its exit code.

use super::named::{NamedRun, Record, TakenName};
use crate::exit_code::CommandStatus;
use crate::output::print_all;
use outboard::send_fd;
use outboard_error::{Error, Result};
use outboard_protocol::frames::{Frame, RunAnswer};
use outboard_worker::{Launch, Started};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// The option with which this program starts itself.
const IN_BACKGROUND: &str = "--in-background";

/// So many runs get a name from one program.
const MOST_NUMBERS: u32 = 1000;

/// Starts a run in the background, and prints its name. Without a `name`, the run gets one after
/// the program.
pub fn run(name: Option<&str>, image: &OsStr, program: &[OsString]) -> Result<CommandStatus> {
    let (taken, listener) = match name {
        Some(name) => NamedRun::take(name)?,
        None => take_any(program.first().map_or(image, OsString::as_os_str))?,
    };
    let starter = start(image, program, &taken, listener);
    let (mut starter, process) = starter.inspect_err(|_| {
        let _ = taken.run.remove();
    })?;
    let began = matches!(
        Frame::read(&mut starter).map(|frame| frame.and_then(|frame| frame.message().ok())),
        Ok(Some(RunAnswer::Started))
    );
    if began {
        print_all(format!("{}\n", taken.run.name()).as_bytes())?;
        return Ok(CommandStatus::SUCCESS);
    }
    failed(taken, process)
}

/// A name after the program: "nginx", "nginx-2", ...
fn take_any(word: &OsStr) -> Result<(TakenName, UnixListener)> {
    let name = Path::new(word).file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    let name = name.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let is_part = |c: &char| c.is_ascii_alphanumeric() || "_.-".contains(*c);
    let name: String = name.chars().filter(is_part).take(30).collect();
    let name = if name.is_empty() {
        "run".to_owned()
    } else {
        name
    };
    for number in 1..MOST_NUMBERS {
        let name = match number {
            1 => name.clone(),
            number => format!("{name}-{number}"),
        };
        match NamedRun::take(&name) {
            Err(error) if error.kind() == outboard_error::ErrorKind::InUse => {}
            taken => return taken,
        }
    }
    Err(Error::Failed(format!(
        "there are {MOST_NUMBERS} runs of {name}: choose a --name"
    )))
}

/// The words of this command, with others, for a further process.
pub fn own_words(others: &[&str]) -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let end = words.iter().position(|word| word == "--");
    let end = end.unwrap_or(words.len());
    words.splice(end..end, others.iter().map(OsString::from));
    words
}

fn start(
    image: &OsStr,
    program: &[OsString],
    taken: &TakenName,
    listener: UnixListener,
) -> Result<(UnixStream, Started)> {
    let failed = |error| Error::failed("cannot start the run in the background", &error);
    let log = || taken.log.try_clone().map_err(failed);
    // In the queue of the socket, before anybody else.
    let starter = listener.local_addr().and_then(|address| {
        let path = address.as_pathname().unwrap_or(Path::new(""));
        UnixStream::connect(path)
    });
    let starter = starter.map_err(failed)?;
    send_fd(&starter, taken.end.as_fd()).map_err(failed)?;
    let launch = Launch::this_program()
        .name("outboard")
        .arguments(own_words(&[IN_BACKGROUND]))
        // No copy stays here: the connection ends with the new process.
        .stdin(OwnedFd::from(listener))
        .stdout(log()?)
        .stderr(log()?)
        .own_group()
        .outlives();
    let process = launch.start().map_err(failed)?;
    taken.run.write(&Record {
        pid: process.process.id(),
        image: image.to_owned(),
        program: program.to_vec(),
        began: jiff::Timestamp::now().as_second(),
    })?;
    Ok((starter, process))
}

/// Shows why the run did not begin, in its own words. The name is free again.
fn failed(taken: TakenName, process: Started) -> Result<CommandStatus> {
    let status = process.process.wait();
    let mut log = taken.log;
    let mut text = Vec::new();
    let read = log
        .seek(SeekFrom::Start(0))
        .and_then(|_| log.read_to_end(&mut text));
    let shown = read.and_then(|_| io::stderr().write_all(&text));
    taken.run.remove()?;
    shown.map_err(|error| Error::failed("cannot show why the run did not begin", &error))?;
    let status = status.map_err(|error| Error::failed("cannot wait for the run", &error))?;
    match status.code() {
        Some(code) if code != 0 => Ok(CommandStatus(code as u8)),
        _ => Err(Error::Failed(format!("the run did not begin: {status}"))),
    }
}
