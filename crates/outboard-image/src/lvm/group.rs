// SPDX-License-Identifier: GPL-2.0-only
//! The metadata of a volume group: physical volumes in extents of one size, and logical volumes.
//! Each is a row of segments on physical volumes or on other, hidden logical volumes.
//!
//! Sizes are in sectors of 512 bytes. A parsed group is consistent in itself: segments have no
//! gaps, areas lie inside of their volumes, and no number overflows.

use super::text::{Section, TextValue};
use std::collections::{BTreeMap, BTreeSet};

/// Most sectors of any object: the kernel's byte offsets have 63 bits.
const MOST: u64 = 1 << 54;
/// Most logical volumes of a group, the hidden ones too.
const MOST_VOLUMES: usize = 4096;
/// Most devices of one segment.
const WIDEST: usize = 1024;
/// LVM's names of the RAID levels that Linux has.
const LEVELS: [&str; 23] = [
    "raid0",
    "raid0_meta",
    "raid1",
    "raid4",
    "raid5",
    "raid5_n",
    "raid5_la",
    "raid5_ls",
    "raid5_ra",
    "raid5_rs",
    "raid6",
    "raid6_nc",
    "raid6_nr",
    "raid6_zr",
    "raid6_la_6",
    "raid6_ls_6",
    "raid6_ra_6",
    "raid6_rs_6",
    "raid6_n_6",
    "raid10",
    "raid10_near",
    "raid10_far",
    "raid10_offset",
];

/// A volume group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VolumeGroup {
    /// Name of the group.
    pub name: String,
    /// UUID of the group.
    pub id: String,
    /// Counts the changes.
    pub sequence: u64,
    /// Sectors of an extent.
    pub extent_size: u64,
    /// By their names in segments, such as "pv0".
    pub physical: BTreeMap<String, PhysicalPlace>,
    /// By name.
    pub logical: BTreeMap<String, LogicalVolume>,
}

/// The extents of a physical volume.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PhysicalPlace {
    /// The identifier in the physical volume's label.
    pub id: String,
    /// The device name when the metadata was written.
    pub device: Option<String>,
    /// First sector of the first extent.
    pub start: u64,
    /// Extents.
    pub count: u64,
    /// It was missing when the group was changed: its contents are outdated.
    pub missing: bool,
}

/// A logical volume.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogicalVolume {
    /// UUID of the volume.
    pub id: String,
    /// Hidden ones are parts of others.
    pub visible: bool,
    /// Whether the volume may be written.
    pub writable: bool,
    /// In the order of their offsets; the first begins at 0.
    pub segments: Vec<Segment>,
}

/// A segment of a logical volume.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segment {
    /// First sector in the volume.
    pub start: u64,
    /// In sectors.
    pub size: u64,
    /// Type and parameters.
    pub kind: SegmentKind,
}

/// A place on a physical or logical volume of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Area {
    /// Name of a physical volume, and a sector of its device.
    Physical(String, u64),
    /// Name of a logical volume, and a sector of it.
    Logical(String, u64),
}

/// Parameters of a RAID segment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Raid {
    /// LVM's name: "raid1", "raid5_ls".
    pub level: String,
    /// Sectors of a stripe.
    pub stripe_size: u64,
    /// Sectors of a region of the bitmap.
    pub region_size: u64,
    /// Number of copies in a raid10.
    pub copies: u64,
    /// Names of logical volumes for metadata (not with "raid0") and data of each device.
    pub devices: Vec<(Option<String>, String)>,
}

/// The type of a segment, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// One area, or several with stripes of this size.
    Striped {
        /// Sectors of a stripe.
        stripe_size: u64,
        /// The areas that the stripes are in.
        areas: Vec<Area>,
    },
    /// Type "mirror".
    Mirror {
        /// Sectors of a region of the log.
        region_size: u64,
        /// Name of the volume with the log; `None`: a log in memory.
        log: Option<String>,
        /// One area for each copy.
        areas: Vec<Area>,
    },
    /// Types "raid1", "raid5" and so on.
    Raid(Raid),
    /// Type "thin-pool".
    ThinPool {
        /// Name of the volume with the metadata.
        metadata: String,
        /// Name of the volume with the data.
        data: String,
        /// Sectors of a chunk.
        chunk_size: u64,
        /// How the pool handles discards, as in "passdown".
        discards: String,
        /// Whether new chunks are zeroed.
        zero: bool,
    },
    /// Type "thin".
    Thin {
        /// Name of the thin pool.
        pool: String,
        /// Number of the thin device in the pool.
        device: u64,
        /// Name of the external origin, if there is one.
        external: Option<String>,
    },
    /// The state of the origin when the snapshot was made. The store has the blocks changed since
    /// then, and the snapshot's name.
    Snapshot {
        /// Name of the origin.
        origin: String,
        /// Name of the volume with the changed chunks.
        store: String,
        /// Sectors of a chunk.
        chunk_size: u64,
        /// The snapshot is being merged into its origin.
        merging: bool,
    },
    /// Type "error": no data.
    Error,
    /// Type "zero": zeros.
    Zero,
    /// An unknown type.
    Other(String),
}

impl LogicalVolume {
    /// In sectors.
    pub fn size(&self) -> u64 {
        self.segments
            .last()
            .map_or(0, |last| last.start + last.size)
    }
}

/// Volumes and extent size, while logical volumes are parsed.
struct Context<'a> {
    extent_size: u64,
    physical: &'a BTreeMap<String, PhysicalPlace>,
    logical: &'a Section,
}

impl VolumeGroup {
    /// Parses a metadata text. `None`: invalid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let whole = Section::parse(text)?;
        if whole.text("contents") != Some("Text Format Volume Group")
            || whole.number("version") != Some(1)
        {
            return None;
        }
        let (name, section) = whole.sections().next()?;
        let extent_size = section.number("extent_size")?;
        if extent_size == 0 || extent_size > MOST {
            return None;
        }
        let none = Section::default();
        let physical = section
            .section("physical_volumes")
            .unwrap_or(&none)
            .sections()
            .map(|(name, section)| Some((name.to_owned(), physical_place(section, extent_size)?)))
            .collect::<Option<BTreeMap<_, _>>>()?;
        let context = Context {
            extent_size,
            physical: &physical,
            logical: section.section("logical_volumes").unwrap_or(&none),
        };
        if context.logical.sections().count() > MOST_VOLUMES {
            return None;
        }
        let logical = context
            .logical
            .sections()
            .map(|(name, section)| Some((name.to_owned(), context.volume(section)?)))
            .collect::<Option<BTreeMap<_, _>>>()?;
        Some(Self {
            name: name.to_owned(),
            id: plain_id(section.text("id")?),
            sequence: section.number("seqno")?,
            extent_size,
            physical,
            logical,
        })
    }

    /// All snapshots: their origins, and the segments that define them.
    pub fn snapshots(&self) -> impl Iterator<Item = (&str, &Segment)> {
        self.logical
            .values()
            .flat_map(|volume| &volume.segments)
            .filter_map(|segment| match &segment.kind {
                SegmentKind::Snapshot { origin, .. } => Some((origin.as_str(), segment)),
                _ => None,
            })
    }

    /// The snapshot whose store is this volume.
    pub fn snapshot_stored_in(&self, volume: &str) -> Option<&Segment> {
        self.snapshots()
            .map(|(_, segment)| segment)
            .find(|segment| segment.kind.store() == Some(volume))
    }

    /// Whether other volumes lie on this one.
    pub fn is_below_others(&self, volume: &str) -> bool {
        let mut segments = self.logical.values().flat_map(|other| &other.segments);
        segments.any(|segment| segment.kind.volumes().contains(&volume))
    }

    /// The physical volumes below a logical one, directly or not.
    pub fn physical_below(&self, volume: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut waiting = vec![volume];
        waiting.extend(
            self.snapshot_stored_in(volume)
                .iter()
                .flat_map(|segment| segment.kind.volumes()),
        );
        while let Some(name) = waiting.pop() {
            if !seen.insert(name) {
                continue;
            }
            let segments = self.logical.get(name).map(|volume| &volume.segments);
            for segment in segments.into_iter().flatten() {
                found.extend(segment.kind.areas().iter().filter_map(|area| match area {
                    Area::Physical(name, _) => Some(name.as_str()),
                    Area::Logical(..) => None,
                }));
                waiting.extend(segment.kind.volumes());
            }
        }
        found
    }
}

impl SegmentKind {
    /// The store of a snapshot.
    pub fn store(&self) -> Option<&str> {
        match self {
            Self::Snapshot { store, .. } => Some(store),
            _ => None,
        }
    }

    /// LVM's name, for messages.
    pub fn name(&self) -> &str {
        match self {
            Self::Striped { areas, .. } if areas.len() == 1 => "linear",
            Self::Striped { .. } => "striped",
            Self::Mirror { .. } => "mirror",
            Self::Raid(raid) => &raid.level,
            Self::ThinPool { .. } => "thin-pool",
            Self::Thin { .. } => "thin",
            Self::Snapshot { .. } => "snapshot",
            Self::Error => "error",
            Self::Zero => "zero",
            Self::Other(kind) => kind,
        }
    }

    fn areas(&self) -> &[Area] {
        match self {
            Self::Striped { areas, .. } | Self::Mirror { areas, .. } => areas,
            _ => &[],
        }
    }

    /// Names of the logical volumes below.
    fn volumes(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .areas()
            .iter()
            .filter_map(|area| match area {
                Area::Logical(name, _) => Some(name.as_str()),
                Area::Physical(..) => None,
            })
            .collect();
        match self {
            Self::Mirror { log, .. } => names.extend(log.as_deref()),
            Self::Raid(raid) => names.extend(raid.devices.iter().flat_map(|(metadata, data)| {
                metadata.as_deref().into_iter().chain([data.as_str()])
            })),
            Self::ThinPool { metadata, data, .. } => names.extend([metadata.as_str(), data]),
            Self::Thin { pool, external, .. } => {
                names.push(pool);
                names.extend(external.as_deref());
            }
            Self::Snapshot { origin, store, .. } => names.extend([origin.as_str(), store]),
            _ => {}
        }
        names
    }
}

fn physical_place(section: &Section, extent_size: u64) -> Option<PhysicalPlace> {
    let place = PhysicalPlace {
        id: plain_id(section.text("id")?),
        device: section.text("device").map(str::to_owned),
        start: section.number("pe_start")?,
        count: section.number("pe_count")?,
        missing: section.lists("flags", "MISSING") || section.lists("status", "MISSING"),
    };
    sectors(place.count, extent_size, place.start)?;
    Some(place)
}

/// Sectors of some extents, and more of them.
fn sectors(extents: u64, extent_size: u64, more: u64) -> Option<u64> {
    let sum = extents.checked_mul(extent_size)?.checked_add(more)?;
    (sum <= MOST).then_some(sum)
}

impl Context<'_> {
    fn volume(&self, section: &Section) -> Option<LogicalVolume> {
        let mut segments = section
            .sections()
            .map(|(_, segment)| self.segment(segment))
            .collect::<Option<Vec<_>>>()?;
        segments.sort_by_key(|segment| segment.start);
        let mut end = 0;
        for segment in &segments {
            if segment.start != end {
                return None;
            }
            end += segment.size;
        }
        Some(LogicalVolume {
            id: plain_id(section.text("id")?),
            visible: section.lists("status", "VISIBLE"),
            writable: section.lists("status", "WRITE"),
            segments,
        })
    }

    fn segment(&self, section: &Section) -> Option<Segment> {
        let start = sectors(section.number("start_extent")?, self.extent_size, 0)?;
        let size = sectors(section.number("extent_count")?, self.extent_size, 0)?;
        if size == 0 || start + size > MOST {
            return None;
        }
        let kind = self.kind(section, size)?;
        Some(Segment { start, size, kind })
    }

    fn kind(&self, section: &Section, size: u64) -> Option<SegmentKind> {
        // LVM writes "thin-pool+flag" if an old LVM must not touch the volume.
        let whole = section.text("type")?;
        let kind = whole.split('+').next().unwrap_or(whole);
        Some(match kind {
            "striped" | "linear" => self.striped(section, size)?,
            "mirror" => SegmentKind::Mirror {
                region_size: section.number("region_size")?,
                log: self.optional_volume(section, "mirror_log")?,
                areas: self.areas(section.list("mirrors")?, size)?,
            },
            "thin-pool" => SegmentKind::ThinPool {
                metadata: self.volume_name(section.text("metadata")?)?,
                data: self.volume_name(section.text("pool")?)?,
                chunk_size: section.number("chunk_size")?,
                discards: section.text("discards").unwrap_or("passdown").to_owned(),
                zero: section.number("zero_new_blocks").unwrap_or(0) != 0,
            },
            "thin" => SegmentKind::Thin {
                pool: self.volume_name(section.text("thin_pool")?)?,
                device: section.number("device_id").filter(|&id| id < 1 << 24)?,
                external: self.optional_volume(section, "external_origin")?,
            },
            "snapshot" => SegmentKind::Snapshot {
                origin: self.volume_name(section.text("origin")?)?,
                store: self.volume_name(
                    section
                        .text("cow_store")
                        .or_else(|| section.text("merging_store"))?,
                )?,
                chunk_size: section.number("chunk_size")?,
                merging: section.text("merging_store").is_some(),
            },
            "error" => SegmentKind::Error,
            "zero" => SegmentKind::Zero,
            // No layout in the middle of a reshape, or with room for one.
            raid if LEVELS.contains(&raid) && section.number("data_offset").is_none() => {
                SegmentKind::Raid(self.raid(section, raid)?)
            }
            _ => SegmentKind::Other(whole.to_owned()),
        })
    }

    fn striped(&self, section: &Section, size: u64) -> Option<SegmentKind> {
        let list = section.list("stripes")?;
        let count = list.len() as u64 / 2;
        if count == 0 || size / self.extent_size % count != 0 {
            return None;
        }
        Some(SegmentKind::Striped {
            stripe_size: section.number("stripe_size").unwrap_or(0),
            areas: self.areas(list, size / count)?,
        })
    }

    /// Pairs of a volume's name and an extent of it.
    fn areas(&self, list: &[TextValue], size: u64) -> Option<Vec<Area>> {
        if list.is_empty() || list.len() % 2 != 0 || list.len() > 2 * WIDEST {
            return None;
        }
        list.chunks_exact(2)
            .map(|pair| match pair {
                [TextValue::Text(name), TextValue::Number(extent)] => {
                    self.area(name, u64::try_from(*extent).ok()?, size)
                }
                _ => None,
            })
            .collect()
    }

    fn area(&self, name: &str, extent: u64, size: u64) -> Option<Area> {
        if let Some(place) = self.physical.get(name) {
            let end = sectors(extent, self.extent_size, size)?;
            if end > sectors(place.count, self.extent_size, 0)? {
                return None;
            }
            let sector = sectors(extent, self.extent_size, place.start)?;
            return Some(Area::Physical(name.to_owned(), sector));
        }
        let sector = sectors(extent, self.extent_size, 0)?;
        Some(Area::Logical(self.volume_name(name)?, sector))
    }

    /// The name of an existing logical volume.
    fn volume_name(&self, name: &str) -> Option<String> {
        self.logical.section(name).map(|_| name.to_owned())
    }

    /// The volume that an optional field names. `None`: no such volume.
    fn optional_volume(&self, section: &Section, field: &str) -> Option<Option<String>> {
        match section.text(field) {
            Some(name) => self.volume_name(name).map(Some),
            None => Some(None),
        }
    }

    fn raid(&self, section: &Section, level: &str) -> Option<Raid> {
        let names = |list: &[TextValue]| {
            list.iter()
                .map(|value| match value {
                    TextValue::Text(name) => self.volume_name(name),
                    _ => None,
                })
                .collect::<Option<Vec<_>>>()
        };
        let devices: Vec<(Option<String>, String)> = match section.list("raid0_lvs") {
            Some(list) => names(list)?.into_iter().map(|data| (None, data)).collect(),
            None => names(section.list("raids")?)?
                .chunks(2)
                .map(|pair| match pair {
                    [metadata, data] => Some((Some(metadata.clone()), data.clone())),
                    _ => None,
                })
                .collect::<Option<Vec<_>>>()?,
        };
        if devices.is_empty() || devices.len() > WIDEST {
            return None;
        }
        Some(Raid {
            level: level.to_owned(),
            stripe_size: section.number("stripe_size").unwrap_or(0),
            region_size: section.number("region_size").unwrap_or(0),
            copies: section.number("data_copies").unwrap_or(2),
            devices,
        })
    }
}

/// An identifier without its dashes in texts.
fn plain_id(id: &str) -> String {
    id.chars().filter(|&c| c != '-').collect()
}
