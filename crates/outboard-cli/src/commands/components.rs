// SPDX-License-Identifier: GPL-2.0-only
//! `outboard components`.

use crate::output::Output;
use clap::Args;
use outboard_sandbox::error::{reason, Error, Result};
use serde::Serialize;

#[derive(Serialize)]
struct Row {
    name: String,
    size: u64,
}

/// List the file systems, protocols and drivers that can be loaded, with their sizes
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  outboard components | grep fs")]
pub struct Components {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(options: &Components) -> Result<()> {
    let rows: Vec<Row> = outboard::components()
        .map_err(|error| Error::Failed(reason(&error)))?
        .into_iter()
        .map(|component| Row {
            name: component.name,
            size: component.file_size,
        })
        .collect();
    let mut output = Output::new();
    if options.json {
        output.json(&rows)?;
    } else {
        for row in &rows {
            output.bytes(format!("{:<24} {:>10}\n", row.name, row.size).as_bytes())?;
        }
    }
    output.finish()
}
