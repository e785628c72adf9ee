// SPDX-License-Identifier: GPL-2.0-only
//! `outboard manual`: the manual pages, made from the command line's own description.

use crate::arguments::Arguments;
use crate::error::{Error, Result};
use clap::{Args, CommandFactory};
use std::io;

/// Write the manual page to standard output
#[derive(Args, Debug)]
pub struct Manual {
    /// The command [default: the page that is about all of them]
    pub command: Option<String>,
}

pub fn run(options: &Manual) -> Result<()> {
    let whole = Arguments::command();
    let page = match &options.command {
        None => whole,
        Some(name) => {
            let found = whole.find_subcommand(name).cloned();
            let command = found.ok_or_else(|| Error::Usage(format!("no command {name}")))?;
            command.name(format!("outboard-{name}"))
        }
    };
    clap_mangen::Man::new(page)
        .render(&mut io::stdout().lock())
        .map_err(|error| Error::failed("cannot write the manual page", &error))
}
