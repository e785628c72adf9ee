// SPDX-License-Identifier: GPL-2.0-only
//! `outboard exec`: a further program in a run in the background.

use super::named::{parse_name, NamedRun};
use crate::commands::connected_program;
use crate::commands::program_options::ProgramOptions;
use crate::exit_code::CommandStatus;
use clap::Args;
use outboard_error::Result;
use std::ffi::OsString;

/// Run a further program in a run in the background
#[derive(Args, Debug)]
#[command(
    long_about = "Run a further program in a run in the background, with the run's root, kernel \
                  and network. Ends with the program's exit code, as run does. The run's user, \
                  working directory and environment hold unless an option says otherwise.",
    after_help = "Examples:\
                  \n  outboard exec web -- ps aux\
                  \n  outboard exec --user www-data web -- sh"
)]
pub struct ExecArgs {
    /// The name of the run, as "outboard ps" shows it
    #[arg(value_parser = parse_name)]
    pub name: String,
    #[command(flatten)]
    pub how: ProgramOptions,
    /// The program, a path in the image or a name, and its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

pub fn run(options: &ExecArgs) -> Result<CommandStatus> {
    let run = NamedRun::find(&options.name)?;
    connected_program::run(run.connect()?, &options.how, &options.program)
}
