// SPDX-License-Identifier: GPL-2.0-only
//! `outboard lab`: a network of kernels, as a topology file describes it.

use crate::output::{Output, Print};
use clap::Args;
use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use outboard_lab::{LabReport, LabSettings, Topology};
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::snapshots;
use outboard_volume::stream_output::write_file;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Run a network of kernels and check its behaviour
///
/// The file names the nodes (each one kernel in a process of its own), the links between them, and
/// the steps to run: pings, transfers, links that fail. The exit code is 1 if a step did not meet
/// its expectations, and 2 if the file is wrong.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard lab router.yaml\
                        \n  outboard lab --pcap frames --svg lab.svg router.yaml\
                        \n  outboard lab --plot bbr.svg bbr.yaml")]
pub struct LabArgs {
    /// The topology file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Capture the frames of each interface into pcapng files in this directory
    #[arg(long, value_name = "DIR")]
    pub pcap: Option<PathBuf>,
    /// Draw the topology with its traffic into an SVG file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Draw the throughput of all transfers over time into an SVG file
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Seed the random losses and delays of links: two runs drop the same packets
    #[arg(long)]
    pub deterministic: bool,
}

/// Most bytes of a topology file.
const LARGEST: u64 = 1 << 20;

impl Print for LabReport {
    fn print(&self, output: &mut Output) -> Result<()> {
        let lines = self.lines();
        lines.iter().try_for_each(|line| output.line(line))
    }
}

impl LabArgs {
    fn shown(&self) -> String {
        escaped(self.file.as_os_str().as_bytes())
    }

    fn read(&self) -> Result<String> {
        let operand = || self.file.as_os_str().as_bytes().to_vec();
        let failed = |error: io::Error| Error::of_file("cannot read", operand(), &error);
        let file = File::open(&self.file).map_err(failed)?;
        let mut bytes = Vec::new();
        let mut limited = file.take(LARGEST + 1);
        limited.read_to_end(&mut bytes).map_err(failed)?;
        String::from_utf8(bytes)
            .map_err(|_| Error::Usage(format!("{}: the file is no text in UTF-8", self.shown())))
    }

    fn error(&self, error: &outboard_lab::Error) -> Error {
        match error {
            outboard_lab::Error::Topology { .. } => {
                Error::Usage(format!("{}: {error}", self.shown()))
            }
            outboard_lab::Error::Failed(text) => Error::Failed(text.clone()),
            outboard_lab::Error::Interrupted => Error::Interrupted("interrupted".to_owned()),
        }
    }
}

fn write(path: &Path, picture: &str) -> Result<()> {
    let shown = escaped(path.as_os_str().as_bytes());
    write_file(path, picture.as_bytes())
        .map_err(|error| Error::failed(format!("cannot write {shown}"), &error))
}

pub fn run(options: &LabArgs, output: &mut Output) -> Result<()> {
    let topology = Topology::parse(&options.read()?).map_err(|error| options.error(&error))?;
    let settings = LabSettings {
        snapshots: snapshots::directory(),
        captures: options.pcap.clone(),
        is_deterministic: options.deterministic,
        ..LabSettings::default()
    };
    // The lab looks for signals while it waits: it ends its nodes and removes its files.
    Interrupt::poll();
    let report = outboard_lab::run(&topology, &settings);
    let report = report.map_err(|error| options.error(&error))?;
    // The results come first: a picture that cannot be written takes nothing else along.
    output.member("lab", &report)?;
    if let Some(path) = &options.svg {
        write(path, &outboard_lab::draw(&topology, &report))?;
    }
    if let Some(path) = &options.plot {
        write(path, &outboard_lab::plot(&report))?;
    }
    if report.met {
        Ok(())
    } else {
        Err(Error::Failed("not all expectations were met".to_owned()))
    }
}
