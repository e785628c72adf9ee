// SPDX-License-Identifier: GPL-2.0-only
//! The devices of a logical volume.
//!
//! A volume is a table with a line for each segment. The devices below a segment come first:
//! physical volumes are nodes of the stack, hidden logical volumes are mappings that only volumes
//! above them know. A group that is only read is never written. The driver of a RAID always writes
//! to its metadata, so such a RAID lies on overlays (see [`overlay`]). The driver also synchronises
//! a RAID that is not in sync. It can only be slowed down: an overlay is soon full.

use super::made::{lost, GroupNodes, Made};
use crate::layers::overlay::overlay;
use crate::layers::{Attempt, Context, Stack};
use outboard::image::lvm::{Area, Raid, Segment, SegmentKind, VolumeGroup};
use outboard::{BlockDevice, Kernel, Target};
use outboard_error::{reason, Hint};
use std::collections::{BTreeMap, BTreeSet};

/// Most levels of volumes. LVM's own stacks have about six.
const DEEPEST: usize = 32;
/// Speed of synchronisation of a RAID that is only read: 1 KiB a second, the kernel's minimum.
const SLOWLY: [&str; 4] = ["min_recovery_rate", "1", "max_recovery_rate", "1"];

/// The volumes of a group, while their devices are created.
pub(super) struct Activation<'a> {
    kernel: &'a Kernel,
    read_only: bool,
    group: &'a VolumeGroup,
    physical: BTreeMap<&'a str, BlockDevice>,
    /// Prefix of names of mappings.
    prefix: String,
    pub(super) made: Made,
    /// Volumes whose lower devices are being created.
    making: BTreeSet<String>,
}

/// Lines of a table, and the devices below.
#[derive(Default)]
struct MappingTable {
    targets: Vec<Target>,
    below: Vec<BlockDevice>,
}

impl MappingTable {
    /// Adds a line for a segment.
    fn push(&mut self, segment: &Segment, kind: &'static str, parameters: String) {
        self.targets.push(Target {
            start: segment.start,
            size: segment.size,
            kind,
            parameters,
        });
    }

    /// Adds the only line.
    fn push_whole(&mut self, size: u64, kind: &'static str, parameters: String) {
        self.targets.push(Target {
            start: 0,
            size,
            kind,
            parameters,
        });
    }

    /// Keeps a device. Returns its number.
    fn on(&mut self, device: BlockDevice) -> String {
        let number = device.number();
        self.below.push(device);
        number
    }
}

impl<'a> Activation<'a> {
    pub(super) fn new(
        stack: &Stack,
        context: &Context<'a>,
        found: &'a GroupNodes,
        place: usize,
        made: Made,
    ) -> Self {
        let device = |(name, &node): (&'a String, &usize)| {
            (name.as_str(), stack.nodes()[node].device.clone())
        };
        Self {
            kernel: context.kernel,
            read_only: context.read_only,
            group: &found.group,
            physical: found.nodes.iter().map(device).collect(),
            prefix: stack.mapping_name(&format!("-group{place}-")),
            made,
            making: BTreeSet::new(),
        }
    }

    fn new_name(&mut self) -> String {
        self.made.count += 1;
        format!("{}{}", self.prefix, self.made.count)
    }

    fn map(&mut self, table: MappingTable, writable: bool) -> Attempt<BlockDevice> {
        let name = self.new_name();
        // A pool is always mapped writable; a flag makes it read-only.
        let is_pool = table
            .targets
            .iter()
            .any(|target| target.kind == "thin-pool");
        let read_only = !is_pool && (self.read_only || !writable);
        self.kernel
            .map(&name, read_only, &table.targets, &table.below)
            .map_err(|error| reason(&error))
    }

    /// Creates a visible volume: snapshots and their origins are more than their own segments.
    pub(super) fn shown(&mut self, name: &str) -> Attempt<BlockDevice> {
        let group = self.group;
        if let Some(segment) = group.snapshot_stored_in(name) {
            return self.snapshot(segment);
        }
        let origin = self.volume(name)?;
        let of_this = group.snapshots().filter(|(origin, _)| *origin == name);
        let snapshots: Vec<&Segment> = of_this.map(|(_, segment)| segment).collect();
        let size = group.logical[name].size();
        let mut table = MappingTable::default();
        if snapshots.is_empty() || self.read_only && !snapshots.iter().any(is_merging) {
            if !group.is_below_others(name) {
                return Ok(origin);
            }
            // Snapshots have the store for themselves.
            let parameters = format!("{} 0", table.on(origin));
            table.push_whole(size, "linear", parameters);
            return self.map(table, false);
        }
        // The kernel copies overwritten blocks to the snapshots that it knows, so it must know all.
        for segment in snapshots {
            let snapshot = self.snapshot(segment)?;
            table.on(snapshot);
        }
        let parameters = table.on(origin);
        table.push_whole(size, "snapshot-origin", parameters);
        self.map(table, group.logical[name].writable)
    }

    fn snapshot(&mut self, segment: &Segment) -> Attempt<BlockDevice> {
        let SegmentKind::Snapshot {
            origin,
            store,
            chunk_size,
            merging,
        } = &segment.kind
        else {
            return Err("not a snapshot".to_owned());
        };
        if *merging {
            return Err(format!("{store} is being merged into {origin}"));
        }
        if let Some(known) = self.made.snapshots.get(store) {
            return Ok(known.clone());
        }
        let mut table = MappingTable::default();
        let (origin, changes) = (self.volume(origin)?, self.volume(store)?);
        let parameters = format!("{} {} P {chunk_size}", table.on(origin), table.on(changes));
        table.push(segment, "snapshot", parameters);
        let writable = self.group.logical[store].writable;
        let device = self.map(table, writable)?;
        if let Some(problem) = lost(store, &device) {
            return Err(problem);
        }
        self.made.order.push(device.clone());
        self.made.snapshots.insert(store.clone(), device.clone());
        Ok(device)
    }

    /// Creates the segments of a volume, unless an earlier volume of this run has.
    fn volume(&mut self, name: &str) -> Attempt<BlockDevice> {
        if let Some(known) = self.made.volumes.get(name) {
            return Ok(known.clone());
        }
        if self.making.len() >= DEEPEST || !self.making.insert(name.to_owned()) {
            return Err("its volumes lie on each other endlessly".to_owned());
        }
        let made = self.make(name);
        self.making.remove(name);
        let device = made?;
        self.made.order.push(device.clone());
        self.made.volumes.insert(name.to_owned(), device.clone());
        Ok(device)
    }

    fn make(&mut self, name: &str) -> Attempt<BlockDevice> {
        let group = self.group;
        let volume = &group.logical[name];
        if volume.segments.is_empty() {
            return Err("it has no segments".to_owned());
        }
        let mut table = MappingTable::default();
        for segment in &volume.segments {
            self.put(segment, &mut table)?;
        }
        self.map(table, volume.writable)
    }

    /// Adds the line of a segment to a table.
    fn put(&mut self, segment: &Segment, table: &mut MappingTable) -> Attempt<()> {
        match &segment.kind {
            SegmentKind::Striped { stripe_size, areas } => {
                let places = self.places(areas, table)?;
                match areas.len() {
                    1 => table.push(segment, "linear", places),
                    count => {
                        table.push(
                            segment,
                            "striped",
                            format!("{count} {stripe_size} {places}"),
                        );
                    }
                }
            }
            SegmentKind::Mirror {
                region_size,
                log,
                areas,
            } => self.put_mirror(segment, *region_size, log.as_deref(), areas, table)?,
            SegmentKind::Raid(raid) => self.put_raid(segment, raid, table)?,
            SegmentKind::ThinPool { .. } => self.put_thin_pool(segment, table)?,
            SegmentKind::Thin {
                pool,
                device,
                external,
            } => {
                let pool = self.volume(pool)?;
                let mut parameters = format!("{} {device}", table.on(pool));
                if let Some(external) = external {
                    let external = self.volume(external)?;
                    parameters += &format!(" {}", table.on(external));
                }
                table.push(segment, "thin", parameters);
            }
            SegmentKind::Error => table.push(segment, "error", String::new()),
            SegmentKind::Zero => table.push(segment, "zero", String::new()),
            SegmentKind::Snapshot { .. } => return Err("a snapshot within a volume".to_owned()),
            SegmentKind::Other(kind) => {
                return Err(format!(
                    "volumes of the type {} cannot be opened yet",
                    outboard_error::format::escaped(kind.as_bytes())
                ));
            }
        }
        Ok(())
    }

    /// Areas in the syntax of tables: each a device and a sector.
    fn places(&mut self, areas: &[Area], table: &mut MappingTable) -> Attempt<String> {
        let mut words = Vec::new();
        for area in areas {
            let (device, sector) = match area {
                Area::Physical(name, sector) => (self.physical(name)?, sector),
                Area::Logical(name, sector) => (self.volume(name)?, sector),
            };
            words.push(format!("{} {sector}", table.on(device)));
        }
        Ok(words.join(" "))
    }

    fn physical(&self, name: &str) -> Attempt<BlockDevice> {
        let known = self.physical.get(name).cloned();
        known.ok_or_else(|| self.missing(name))
    }

    fn missing(&self, name: &str) -> String {
        let place = self.group.physical.get(name);
        let id = place.map_or(name, |place| &place.id);
        let device = place.and_then(|place| place.device.as_deref());
        let last = device.map_or(String::new(), |device| {
            format!(
                ", last seen as {}",
                outboard_error::format::escaped(device.as_bytes())
            )
        });
        format!(
            "the physical volume {}{last} is missing: add its disk{}",
            outboard_error::format::escaped(id.as_bytes()),
            Hint::AddDisks
        )
    }

    /// The first device always has current data, so it suffices for reading.
    fn put_mirror(
        &mut self,
        segment: &Segment,
        region_size: u64,
        log: Option<&str>,
        areas: &[Area],
        table: &mut MappingTable,
    ) -> Attempt<()> {
        if self.read_only {
            let first = self.places(&areas[..1], table)?;
            table.push(segment, "linear", first);
            return Ok(());
        }
        let places = self.places(areas, table)?;
        let log = match log {
            Some(log) => {
                let log = self.volume(log)?;
                format!("disk 2 {} {region_size}", table.on(log))
            }
            None => format!("core 1 {region_size}"),
        };
        table.push(segment, "mirror", format!("{log} {} {places}", areas.len()));
        Ok(())
    }

    fn put_thin_pool(&mut self, segment: &Segment, table: &mut MappingTable) -> Attempt<()> {
        let SegmentKind::ThinPool {
            metadata,
            data,
            chunk_size,
            discards,
            zero,
        } = &segment.kind
        else {
            return Err("not a thin pool".to_owned());
        };
        let (metadata, data) = (self.volume(metadata)?, self.volume(data)?);
        // A full pool must not wait for more room: it would wait forever.
        let mut features = vec!["error_if_no_space"];
        features.extend((!zero).then_some("skip_block_zeroing"));
        features.extend(self.read_only.then_some("read_only"));
        features.extend(match discards.as_str() {
            "ignore" => Some("ignore_discard"),
            "nopassdown" => Some("no_discard_passdown"),
            _ => None,
        });
        let parameters = format!(
            "{} {} {chunk_size} 0 {} {}",
            table.on(metadata),
            table.on(data),
            features.len(),
            features.join(" ")
        );
        table.push(segment, "thin-pool", parameters);
        Ok(())
    }

    fn put_raid(
        &mut self,
        segment: &Segment,
        raid: &Raid,
        table: &mut MappingTable,
    ) -> Attempt<()> {
        self.check_raid(raid)?;
        let mut parameters = vec![raid.stripe_size.to_string()];
        let redundant = !raid.level.starts_with("raid0");
        if raid.region_size > 0 && redundant {
            parameters.extend(["region_size".to_owned(), raid.region_size.to_string()]);
        }
        if self.read_only && redundant {
            parameters.extend(SLOWLY.map(str::to_owned));
        }
        if raid.level.starts_with("raid10") && raid.copies != 2 {
            parameters.extend(["raid10_copies".to_owned(), raid.copies.to_string()]);
        }
        let mut devices = Vec::new();
        for device in &raid.devices {
            devices.extend(match self.missing_below(device) {
                Some(_) => ["-".to_owned(), "-".to_owned()],
                None => self.raid_device(device, table)?,
            });
        }
        let text = format!(
            "{} {} {} {} {}",
            level(&raid.level),
            parameters.len(),
            parameters.join(" "),
            raid.devices.len(),
            devices.join(" ")
        );
        table.push(segment, "raid", text);
        Ok(())
    }

    /// Whether enough devices are present: all to write, the minimum of the level to read.
    fn check_raid(&self, raid: &Raid) -> Attempt<()> {
        let missing: Vec<&str> = raid
            .devices
            .iter()
            .filter_map(|device| self.missing_below(device))
            .collect();
        let Some(first) = missing.first() else {
            return Ok(());
        };
        if missing.len() > spare_devices(raid) {
            return Err(self.missing(first));
        }
        if self.read_only {
            Ok(())
        } else {
            Err(format!("{} (or {})", self.missing(first), Hint::ReadOnly))
        }
    }

    /// A missing physical volume below one of a RAID's devices.
    fn missing_below(&self, (metadata, data): &(Option<String>, String)) -> Option<&'a str> {
        let group = self.group;
        let volumes = metadata.iter().chain([data]);
        volumes
            .flat_map(|volume| group.physical_below(volume))
            .find(|name| !self.physical.contains_key(name))
    }

    /// The metadata and data devices of one RAID member, in the syntax of tables.
    fn raid_device(
        &mut self,
        (metadata, data): &(Option<String>, String),
        table: &mut MappingTable,
    ) -> Attempt<[String; 2]> {
        let metadata = match metadata {
            Some(metadata) => self.raid_part(metadata, table)?,
            None => "-".to_owned(),
        };
        Ok([metadata, self.raid_part(data, table)?])
    }

    fn raid_part(&mut self, volume: &str, table: &mut MappingTable) -> Attempt<String> {
        let mut device = self.volume(volume)?;
        if self.read_only {
            let name = self.new_name();
            device = overlay(self.kernel, &name, &device).map_err(|error| reason(&error))?;
        }
        Ok(table.on(device))
    }
}

/// Most missing devices with which a RAID can be read.
fn spare_devices(raid: &Raid) -> usize {
    let devices = raid.devices.len();
    match raid.level.trim_start_matches("raid").get(..1) {
        Some("1") if raid.level.starts_with("raid10") => devices / 2,
        Some("1") => devices - 1,
        Some("4" | "5") => 1,
        Some("6") => 2,
        _ => 0,
    }
}

fn is_merging(segment: &&Segment) -> bool {
    matches!(segment.kind, SegmentKind::Snapshot { merging: true, .. })
}

/// The kernel's name of a RAID level of LVM.
fn level(level: &str) -> &str {
    match level {
        "raid5" => "raid5_ls",
        "raid6" => "raid6_zr",
        "raid0_meta" => "raid0",
        other => other,
    }
}
