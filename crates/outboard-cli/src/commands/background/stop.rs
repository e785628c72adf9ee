// SPDX-License-Identifier: GPL-2.0-only
//! `outboard stop`: ends a run in the background.

use super::named::{parse_name, NamedRun, RunState};
use clap::Args;
use outboard_error::{Error, Result};
use outboard_protocol::frames::{Frame, Request};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a run may take to write and unmount its image.
const PATIENCE: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(5);

/// End a run in the background; when stop returns, all changes are on stable storage
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  outboard stop web")]
pub struct StopArgs {
    /// The name of the run, as "outboard ps" shows it
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// How long the program may take after SIGTERM, before SIGKILL
    #[arg(short, long, value_name = "SECONDS", default_value_t = 10)]
    pub time: u32,
}

pub fn run(options: &StopArgs) -> Result<()> {
    let run = NamedRun::find(&options.name)?;
    let mut socket = run.connect()?;
    let request = Request::Stop {
        signal: None,
        milliseconds: 1000 * u64::from(options.time),
    };
    let sent = Frame::send(&mut socket, &request);
    // The answer comes when the program has ended, or the connection ends with the run.
    let answered = sent.and_then(|()| Frame::read(&mut socket).map(drop));
    drop(socket);
    let begin = Instant::now();
    while run.state() == RunState::Running {
        if begin.elapsed() > PATIENCE {
            let pid = run.record().map_or(0, |record| record.pid);
            let name = &options.name;
            return Err(match answered {
                Err(error) => Error::failed(format!("cannot stop {name}"), &error),
                Ok(()) => Error::Failed(format!(
                    "{name}: its program has ended, but not process {pid}, which holds the image"
                )),
            });
        }
        sleep(INTERVAL);
    }
    Ok(())
}
