// SPDX-License-Identifier: GPL-2.0-only
//! `outboard info`. The image is only read: partition tables and superblocks by our own
//! parsers, the space that is used by mounting read-only.

use super::image_operands::about;
use crate::format;
use crate::output::{Output, Print};
use crate::record::Bytes;
use clap::Args;
use outboard_error::format::{message, size as size_text};
use outboard_error::{Error, Result};
use outboard_image::partition::Partition;
use outboard_image::{Class, Probe, State};
use outboard_volume::address::ImageName;
use outboard_volume::image::Image;
use outboard_volume::layers::listing::ListedVolume;
use outboard_volume::session::Session;
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Show the contents of an image: partitions, file systems, labels, sizes
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard info disk.img\
                        \n  outboard info --json disk.img | jq '.disk.partitions[].filesystem'")]
pub struct InfoArgs {
    /// The disk image, IMAGE@N for one partition, or IMAGE@NAME for a volume
    pub image: OsString,
}

pub fn run(options: &InfoArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    let name = ImageName::find(&options.image);
    session.connect(&name.file, false)?;
    let image = session.image(&name.file)?;
    let report = Report::new(&name, &image);
    let mut report = report.map_err(about(name.file.as_os_str()))?;
    report.measure(session, &name);
    report.find_volumes(session, &name, &image);
    output.member("disk", &report)?;
    if report.is_empty() {
        return Err(image.unrecognised().about(name.operand()));
    }
    let mut unread = report.partitions.iter();
    match unread.find_map(|partition| partition.problem.as_ref()) {
        Some(problem) => Err(Error::Failed(problem.clone()).about(name.operand())),
        None => Ok(()),
    }
}

/// The format of an image that is none.
const RAW: &str = "raw";

/// The contents of a disk or partition.
#[derive(Serialize)]
struct Content {
    #[serde(rename = "type")]
    kind: &'static str,
    class: &'static str,
    label: Option<String>,
    uuid: Option<String>,
    /// Bytes of the file system, as its superblock has it.
    size: Option<u64>,
    block_size: Option<u64>,
    used: Option<u64>,
    free: Option<u64>,
    /// "clean", "unclean" or "unknown".
    state: &'static str,
    /// Why the contents cannot be used.
    problem: Option<String>,
}

impl Content {
    fn new(probe: &Probe) -> Self {
        let (state, problem) = match probe.state {
            State::Clean => ("clean", None),
            State::Unclean(why) => ("unclean", Some(why.to_owned())),
            State::Unknown => ("unknown", None),
        };
        Self {
            kind: probe.kind,
            class: match probe.class {
                Class::FileSystem => "filesystem",
                Class::Swap => "swap",
                Class::Container => "container",
                Class::Wrapped => "file format",
            },
            label: probe.label.clone(),
            uuid: probe.uuid.clone(),
            size: probe.size,
            block_size: probe.block_size,
            used: None,
            free: None,
            state,
            problem,
        }
    }

    fn is_file_system(&self) -> bool {
        self.class == "filesystem"
    }

    /// Learns from a mount what the superblock does not tell.
    fn measure(&mut self, session: &mut Session, name: &ImageName) {
        let index = match session.mount(name, false) {
            Ok(index) => index,
            Err(error) => {
                self.problem = error.message().map(str::to_owned);
                return;
            }
        };
        let mount = session.mounted(index);
        if mount.journal_ignored() && self.state != "unclean" {
            self.state = "unclean";
            self.problem = Some("the journal has to be replayed".to_owned());
        } else if self.state == "unknown" {
            self.state = "clean";
        }
        if let Ok(space) = mount.space() {
            self.size = self.size.or(Some(space.size));
            self.used = Some(space.size.saturating_sub(space.free));
            self.free = Some(space.free);
        }
    }

    fn state_text(&self) -> &str {
        match self.state {
            "unknown" if !self.is_file_system() => "",
            "unclean" => "not clean",
            other => other,
        }
    }
}

#[derive(Serialize)]
struct PartitionReport {
    number: u32,
    start: u64,
    size: u64,
    type_id: String,
    type_name: Option<&'static str>,
    name: Option<String>,
    uuid: Option<String>,
    filesystem: Option<Content>,
    /// Why its contents are unknown.
    problem: Option<String>,
}

/// A volume inside of layers, or a subvolume.
#[derive(Serialize)]
struct VolumeReport {
    /// As it is written to other commands, before ":/".
    #[serde(flatten)]
    operand: Bytes<'static>,
    /// For people.
    #[serde(skip)]
    name: String,
    kind: &'static str,
    details: String,
    /// The names of what it lies on.
    on: Vec<String>,
    size: Option<u64>,
    /// It is opened with a key.
    locked: bool,
    filesystem: Option<Content>,
    problem: Option<String>,
}

impl VolumeReport {
    fn new(volume: &ListedVolume, session: &mut Session) -> Self {
        let mut content = volume.probe.as_ref().map(Content::new);
        if let Some(content) = content.as_mut().filter(|content| content.is_file_system()) {
            content.measure(session, &volume.name);
        }
        Self {
            operand: Bytes::new("name", volume.name.operand()),
            name: volume.name.shown(),
            kind: volume.sort,
            details: volume.details.clone(),
            on: volume.on.iter().map(ImageName::shown).collect(),
            size: volume.size,
            locked: volume.locked,
            filesystem: content,
            problem: volume.problem.clone(),
        }
    }

    fn row(&self) -> Vec<String> {
        let content = self.filesystem.as_ref();
        let state = if self.locked {
            "locked"
        } else {
            content.map_or("", Content::state_text)
        };
        let mut cells = vec![
            self.name.clone(),
            self.kind.to_owned(),
            self.size.map_or(String::new(), size_text),
            self.details.clone(),
            self.on.join(" "),
        ];
        cells.extend(content_cells(content));
        cells.push(state.to_owned());
        cells
    }

    /// Why it or its contents cannot be used.
    fn problem(&self) -> Option<&String> {
        let content = self.filesystem.as_ref();
        let inside = content.and_then(|content| content.problem.as_ref());
        self.problem.as_ref().or(inside)
    }
}

impl PartitionReport {
    fn new(image: &Image, partition: &Partition) -> Self {
        let (probe, problem) = match image.probe_partition(partition) {
            Ok(probe) => (probe, None),
            Err(error) => (None, error.message().map(str::to_owned)),
        };
        Self {
            number: partition.number,
            start: partition.start,
            size: partition.size,
            type_id: partition.type_id.clone(),
            type_name: partition.type_name,
            name: partition.name.clone(),
            uuid: partition.uuid.clone(),
            filesystem: probe.as_ref().map(Content::new),
            problem,
        }
    }

    /// Why it or its contents cannot be used.
    fn problem(&self) -> Option<&String> {
        let content = self.filesystem.as_ref();
        let inside = content.and_then(|content| content.problem.as_ref());
        self.problem.as_ref().or(inside)
    }
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    file: Bytes<'static>,
    /// For people.
    #[serde(skip)]
    image: String,
    /// Of the image's file: "raw", "qcow2"...
    format: &'static str,
    size: u64,
    /// Bytes of a logical sector.
    sector_size: u64,
    table: Option<&'static str>,
    table_id: Option<String>,
    warnings: Vec<String>,
    partitions: Vec<PartitionReport>,
    /// The contents of the whole disk, where no partition table counts.
    filesystem: Option<Content>,
    /// The volumes of layers, and subvolumes of btrfs.
    volumes: Vec<VolumeReport>,
}

impl Report {
    fn new(name: &ImageName, image: &Image) -> Result<Self> {
        let mut report = Self {
            file: Bytes::new("image", name.file.as_os_str().as_bytes().to_vec()),
            image: name.file.display().to_string(),
            format: image.format.unwrap_or(RAW),
            size: image.size(),
            sector_size: image.sector_size(),
            table: None,
            table_id: None,
            warnings: Vec::new(),
            partitions: Vec::new(),
            filesystem: None,
            volumes: Vec::new(),
        };
        if let Some(number) = name.partition {
            image.find(&ImageName::new(&name.file, name.partition), true)?;
            let table = image.table.as_ref();
            let wanted = |partition: &&Partition| partition.number == number;
            report.partitions = table
                .into_iter()
                .flat_map(|table| &table.partitions)
                .filter(wanted)
                .map(|partition| PartitionReport::new(image, partition))
                .collect();
        } else if let Some(table) = image.partitions() {
            let all = table.partitions.iter();
            report.partitions = all
                .map(|partition| PartitionReport::new(image, partition))
                .collect();
        } else {
            report.filesystem = image.whole.as_ref().map(|probe| {
                let mut content = Content::new(probe);
                content.problem = content.problem.or(image.unusable(&report.image, probe));
                content
            });
        }
        if let Some(table) = &image.table {
            report.table = Some(table.kind.name());
            report.table_id = table.id.clone();
            report.warnings = table.warnings.clone();
        }
        if image.is_cut() {
            report.warnings.extend(image.split.clone());
        }
        Ok(report)
    }

    /// Whether nothing that is known was found.
    fn is_empty(&self) -> bool {
        self.filesystem.is_none() && self.table.is_none() && self.volumes.is_empty()
    }

    /// Mounts each file system read-only to learn how full it is.
    fn measure(&mut self, session: &mut Session, name: &ImageName) {
        let whole = self.filesystem.as_mut().map(|content| (None, content));
        let parts = self
            .partitions
            .iter_mut()
            .filter_map(|partition| Some((Some(partition.number), partition.filesystem.as_mut()?)));
        for (partition, content) in whole.into_iter().chain(parts) {
            if content.is_file_system() {
                let file = name.file.clone();
                content.measure(session, &ImageName::new(file, partition));
            }
        }
    }

    /// Opens what can be opened without a question.
    fn find_volumes(&mut self, session: &mut Session, name: &ImageName, image: &Image) {
        let of_partitions = self
            .partitions
            .iter()
            .filter_map(|found| found.filesystem.as_ref());
        let mut contents = self.filesystem.iter().chain(of_partitions);
        let may_have_some =
            |content: &Content| content.class == "container" || content.kind == "btrfs";
        if !session.is_layered(image, name) && !contents.any(may_have_some) {
            return;
        }
        match session.volumes(name) {
            Ok(volumes) => {
                let reports = volumes
                    .iter()
                    .map(|volume| VolumeReport::new(volume, session));
                self.volumes = reports.collect();
            }
            Err(error) => self.warnings.extend(error.message().map(str::to_owned)),
        }
    }

    fn print_volumes(&self, output: &mut Output) -> Result<()> {
        if self.volumes.is_empty() {
            return Ok(());
        }
        let heading = [
            "Volume", "Kind", "Size", "Details", "On", "Content", "Label", "UUID", "Used", "State",
        ];
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        rows.extend(self.volumes.iter().map(|volume| {
            let row = volume.row();
            row.iter().map(|cell| output.text(cell)).collect()
        }));
        output.line("")?;
        for line in format::table(&rows, &[2, 8], "  ") {
            output.line(line)?;
        }
        for volume in &self.volumes {
            if let Some(problem) = volume.problem() {
                let problem = message(problem);
                output.line(format!("{}: {problem}", output.text(&volume.name)))?;
            }
        }
        Ok(())
    }

    /// The text after the size.
    fn details(&self) -> String {
        let mut details = String::new();
        if self.format != RAW {
            details += &format!(", in {} format", self.format);
        }
        if let Some(kind) = self.table {
            details += &format!(", {kind} partition table");
        }
        details + &format::unusual_sectors(self.sector_size)
    }

    fn print_partitions(&self, output: &mut Output) -> Result<()> {
        let heading = [
            "N", "Start", "Size", "Type", "Name", "Content", "Label", "UUID", "Used", "State",
        ];
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        rows.extend(self.partitions.iter().map(|partition| {
            let row = partition_row(partition);
            row.iter().map(|cell| output.text(cell)).collect()
        }));
        for line in format::table(&rows, &[0, 1, 2, 8], "  ") {
            output.line(line)?;
        }
        for partition in &self.partitions {
            if let Some(problem) = partition.problem() {
                let problem = message(problem);
                output.line(format!("{}: {problem}", partition.number))?;
            }
        }
        Ok(())
    }
}

impl Print for Report {
    fn print(&self, output: &mut Output) -> Result<()> {
        output.line(format!(
            "{}: {} ({} bytes){}",
            output.text(&self.image),
            size_text(self.size),
            self.size,
            self.details()
        ))?;
        for warning in &self.warnings {
            output.line(format!("warning: {}", output.text(warning)))?;
        }
        match &self.filesystem {
            Some(content) => print_content(content, output)?,
            None if self.is_empty() => {}
            None => self.print_partitions(output)?,
        }
        self.print_volumes(output)
    }
}

fn partition_row(partition: &PartitionReport) -> Vec<String> {
    let content = partition.filesystem.as_ref();
    let kind = partition.type_name.unwrap_or(&partition.type_id);
    let mut cells = vec![
        partition.number.to_string(),
        size_text(partition.start),
        size_text(partition.size),
        kind.to_owned(),
        partition.name.clone().unwrap_or_default(),
    ];
    cells.extend(content_cells(content));
    cells.push(content.map_or("", Content::state_text).to_owned());
    cells
}

/// The columns Content, Label, UUID and Used.
fn content_cells(content: Option<&Content>) -> [String; 4] {
    let text = |value: Option<&String>| value.cloned().unwrap_or_default();
    [
        content.map_or("", |content| content.kind).to_owned(),
        text(content.and_then(|content| content.label.as_ref())),
        text(content.and_then(|content| content.uuid.as_ref())),
        content
            .and_then(|content| content.used)
            .map_or(String::new(), size_text),
    ]
}

fn print_content(content: &Content, output: &mut Output) -> Result<()> {
    let amount = |bytes: u64| format!("{} ({bytes} bytes)", size_text(bytes));
    let rows = [
        ("type", Some(content.kind.to_owned())),
        (
            "label",
            content.label.as_deref().map(|label| output.text(label)),
        ),
        (
            "UUID",
            content.uuid.as_deref().map(|uuid| output.text(uuid)),
        ),
        ("size", content.size.map(amount)),
        ("used", content.used.map(amount)),
        ("free", content.free.map(amount)),
        (
            "block size",
            content.block_size.map(|bytes| format!("{bytes} bytes")),
        ),
        ("state", Some(content.state_text().to_owned())),
        ("problem", content.problem.as_deref().map(message)),
    ];
    for (key, value) in rows {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            output.line(format!("{key:<11} {value}"))?;
        }
    }
    Ok(())
}
