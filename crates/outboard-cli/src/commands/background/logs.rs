// SPDX-License-Identifier: GPL-2.0-only
//! `outboard logs`: the output of a run in the background.

use super::named::{parse_name, NamedRun, RunState};
use clap::Args;
use outboard::Fd;
use outboard_error::{Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::stream_output::StreamOutput;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::Duration;

/// Between two looks for more.
const INTERVAL: Duration = Duration::from_millis(100);
const PIECE: usize = 64 << 10;

/// Print the output of a run in the background, or of one that has ended
///
/// Standard output, standard error and messages of outboard come in the order in which they were
/// written. Of a long log the last 16 MiB are kept, at least.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  outboard logs -f web")]
pub struct LogsArgs {
    /// The name of the run, as "outboard ps" shows it
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// Go on with what is written later, until the run ends
    #[arg(short, long)]
    pub follow: bool,
}

pub fn run(options: &LogsArgs) -> Result<()> {
    let run = NamedRun::find(&options.name)?;
    let mut log = run.log()?;
    let mut output = StreamOutput::standard(&Interrupt::poll())?;
    let failed = |error| Error::failed("cannot read the log", &error);
    skip_hole(&mut log).map_err(failed)?;
    loop {
        // Of a run that has ended, everything is there.
        let is_last = !options.follow || run.state() != RunState::Running;
        copy(&mut log, &mut output)?;
        Interrupt::poll().check_before("the run goes on")?;
        if is_last {
            return Ok(());
        }
        sleep(INTERVAL);
    }
}

/// The beginning of a long log is a hole.
fn skip_hole(log: &mut File) -> io::Result<()> {
    let begin = Fd::from(OwnedFd::from(log.try_clone()?)).next_data(0)?;
    log.seek(SeekFrom::Start(begin.unwrap_or(0))).map(drop)
}

fn copy(log: &mut File, output: &mut StreamOutput) -> Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        let read = log.read(&mut buffer);
        match read.map_err(|error| Error::failed("cannot read the log", &error))? {
            0 => return Ok(()),
            length => output
                .write_all(&buffer[..length])
                .map_err(|error| Error::of_output("standard output", &error))?,
        }
    }
}
