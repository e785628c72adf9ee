// SPDX-License-Identifier: GPL-2.0-only
//! `outboard components`.

use crate::output::{Output, Print};
use clap::Args;
use outboard_error::{reason, Error, Result};
use serde::Serialize;

#[derive(Serialize)]
struct Component {
    name: String,
    size: u64,
}

#[derive(Serialize)]
#[serde(transparent)]
struct List(Vec<Component>);

impl Print for List {
    fn print(&self, output: &mut Output) -> Result<()> {
        let mut rows = self.0.iter();
        rows.try_for_each(|row| output.line(format!("{:<24} {:>10}", row.name, row.size)))
    }
}

/// List the file systems, protocols and drivers that can be loaded, with their sizes
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  outboard components | grep fs")]
pub struct ComponentsArgs {}

pub fn run(output: &mut Output) -> Result<()> {
    let found = outboard::components().map_err(|error| Error::Failed(reason(&error)))?;
    let rows = found.into_iter().map(|component| Component {
        name: component.name,
        size: component.file_size,
    });
    output.member("components", &List(rows.collect()))
}
