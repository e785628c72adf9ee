// SPDX-License-Identifier: GPL-2.0-only
//! `outboard df`.

use crate::format;
use crate::output::{Output, Print};
use crate::record::Bytes;
use clap::Args;
use outboard::Space;
use outboard_error::{Error, ErrorKind, Failures, Result};
use outboard_image::{Class, Probe};
use outboard_volume::address::{ImageName, Place};
use outboard_volume::session::Session;
use serde::Serialize;
use std::ffi::{OsStr, OsString};

/// Show the free and used space of the file systems in images
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:\
                  \n  outboard df -h disk.img\
                  \n  outboard df -i disk.img@2\
                  \n  outboard df --json disk.img | jq '.filesystems[].available'"
)]
pub struct DfArgs {
    /// IMAGE for all its file systems; IMAGE@N or a place in it for only that one
    #[arg(required = true, value_name = "IMAGE")]
    pub images: Vec<OsString>,
    /// Print sizes as in 1.5M (units are powers of 1024)
    #[arg(short = 'h', long)]
    pub human_readable: bool,
    /// Print numbers of files instead of sizes
    #[arg(short, long)]
    pub inodes: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Serialize)]
struct Row {
    /// For people.
    #[serde(skip)]
    filesystem: String,
    #[serde(flatten)]
    volume: Bytes<'static>,
    #[serde(rename = "type")]
    kind: String,
    size: u64,
    used: u64,
    available: u64,
    files: u64,
    files_used: u64,
    files_free: u64,
}

impl Row {
    fn new(name: &ImageName, kind: &str, space: &Space) -> Self {
        Self {
            filesystem: name.shown(),
            volume: Bytes::new("volume", name.operand()),
            kind: kind.to_owned(),
            size: space.size,
            used: space.size.saturating_sub(space.free),
            available: space.available,
            files: space.files,
            files_used: space.files.saturating_sub(space.files_free),
            files_free: space.files_free,
        }
    }

    fn cells(&self, options: &DfArgs) -> Vec<String> {
        let amount = |bytes: u64| {
            if options.human_readable {
                format::brief_size(bytes)
            } else if options.inodes {
                bytes.to_string()
            } else {
                bytes.div_ceil(1024).to_string()
            }
        };
        let (all, used, free) = if options.inodes {
            (self.files, self.files_used, self.files_free)
        } else {
            (self.size, self.used, self.available)
        };
        let (filesystem, kind) = (self.filesystem.clone(), self.kind.clone());
        let numbers = [amount(all), amount(used), amount(free), share(used, free)];
        [filesystem, kind].into_iter().chain(numbers).collect()
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct SizeTable<'a> {
    rows: Vec<Row>,
    #[serde(skip)]
    options: &'a DfArgs,
}

impl Print for SizeTable<'_> {
    fn print(&self, output: &mut Output) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut cells = vec![heading(self.options).map(str::to_owned).to_vec()];
        cells.extend(self.rows.iter().map(|row| row.cells(self.options)));
        let lines = format::table(&cells, &[2, 3, 4, 5], " ");
        lines.iter().try_for_each(|line| output.line(line))
    }
}

/// How much is used of what can be, rounded up.
fn share(used: u64, free: u64) -> String {
    let all = u128::from(used) + u128::from(free);
    match all {
        0 => "-".to_owned(),
        all => format!("{}%", (u128::from(used) * 100).div_ceil(all)),
    }
}

pub fn run(options: &DfArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    let mut failures = Failures::default();
    let mut rows = Vec::new();
    for image in &options.images {
        let names = failures
            .take(file_systems(image, session))?
            .unwrap_or_default();
        for name in names {
            rows.extend(failures.take(measure(session, &name))?);
        }
    }
    output.member("filesystems", &SizeTable { rows, options })?;
    failures.finish()
}

/// The file systems that an operand means.
fn file_systems(operand: &OsStr, session: &mut Session) -> Result<Vec<ImageName>> {
    let name = match Place::find(operand) {
        Place::Image(name, _) => return Ok(vec![name]),
        Place::Host(_) => ImageName::find(operand),
    };
    let image = session.image(&name.file)?;
    let table = match image.partitions() {
        Some(table) if name.partition.is_none() && name.volume.is_none() => table,
        _ => return Ok(vec![name]),
    };
    let is_file_system =
        |probe: Option<&Probe>| probe.is_some_and(|probe| probe.class == Class::FileSystem);
    let mut names: Vec<ImageName> = image
        .with_file_systems(table)?
        .iter()
        .map(|(partition, _)| ImageName::new(&name.file, Some(partition.number)))
        .collect();
    if session.is_layered(&image, &name) {
        let volumes = session.volumes(&name)?.into_iter();
        let volumes = volumes.filter(|volume| is_file_system(volume.probe.as_ref()));
        names.extend(volumes.map(|volume| volume.name));
    }
    if names.is_empty() {
        return Err(Error::known(
            ErrorKind::NotAFileSystem,
            format!(
                "{0} has no partition with a known file system (see outboard info {0})",
                name.shown()
            ),
        ));
    }
    Ok(names)
}

fn measure(session: &mut Session, name: &ImageName) -> Result<Row> {
    let index = session.mount(name, false)?;
    let mount = session.mounted(index);
    let space = mount.space().map_err(|error| {
        Error::failed(format!("cannot tell how full {} is", name.shown()), &error)
    })?;
    Ok(Row::new(name, mount.kind(), &space))
}

fn heading(options: &DfArgs) -> [&'static str; 6] {
    match (options.inodes, options.human_readable) {
        (true, _) => ["Filesystem", "Type", "Inodes", "IUsed", "IFree", "IUse%"],
        (_, true) => ["Filesystem", "Type", "Size", "Used", "Avail", "Use%"],
        _ => [
            "Filesystem",
            "Type",
            "1K-blocks",
            "Used",
            "Available",
            "Use%",
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        assert_eq!(share(1, 999), "1%");
        assert_eq!(share(0, 9), "0%");
        assert_eq!(share(9, 0), "100%");
        assert_eq!(share(0, 0), "-");
        assert_eq!(share(u64::MAX, u64::MAX), "50%");
    }
}
