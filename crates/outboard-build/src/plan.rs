// SPDX-License-Identifier: GPL-2.0-only
//! The plan of a disk image: the partition table and the file systems that are to be made in it.

use crate::mkfs::{self, make, make_at, not_made, unless_stopped, VolumePlan};
use crate::part::{shown_name, NewTable, TablePlan};
use outboard_error::{Error, Failure, Result};
use outboard_transfer::report::Report;
use outboard_volume::address::ImageName;
use outboard_volume::new_image::NewFormat;
use outboard_volume::session::Session;
use serde::{Serialize, Serializer};
use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

/// A disk image as it is to be made or changed: a partition table, and file systems in its
/// partitions or in all of it.
///
/// A plan can be printed, checked ([`DiskPlan::check`]) and carried out. A new image is made in a
/// private file, and appears only when all of it is complete. In an image that exists one step
/// after the other is done.
#[derive(Clone, Debug, Serialize)]
pub struct DiskPlan {
    /// The file of the image.
    #[serde(serialize_with = "shown_path")]
    pub image: PathBuf,
    /// The change of its partition table; `None`: the table stays, or there is none.
    pub table: Option<TablePlan>,
    /// The new file systems, in their order.
    pub volumes: Vec<VolumePlan>,
}

fn shown_path<S: Serializer>(path: &Path, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(&shown_name(path))
}

impl DiskPlan {
    /// A change of the partition table alone.
    pub fn of_table(image: impl Into<PathBuf>, table: TablePlan) -> Self {
        Self {
            image: image.into(),
            table: Some(table),
            volumes: Vec::new(),
        }
    }

    /// One file system alone.
    pub fn of_volume(volume: VolumePlan) -> Self {
        Self {
            image: volume.name.file.clone(),
            table: None,
            volumes: vec![volume],
        }
    }

    /// The image, as the user would write it.
    fn operand(&self) -> Vec<u8> {
        ImageName::new(&self.image, None).operand()
    }

    /// The image, for messages.
    fn shown(&self) -> String {
        shown_name(&self.image)
    }

    /// Refuses a plan that cannot be carried out on any host: unknown types, names that are too
    /// long, partitions without room, two file systems in one place. Looks at no file.
    pub fn check(&self) -> std::result::Result<(), Failure> {
        Ok(self.find_mistake()?)
    }

    fn find_mistake(&self) -> Result<()> {
        if let Some(table) = &self.table {
            table.check(&self.shown())?;
        }
        self.volumes.iter().try_for_each(mkfs::check)?;
        self.check_places()
    }

    /// Refuses file systems that overwrite each other, or lie where the plan has no room for them.
    fn check_places(&self) -> Result<()> {
        let mut places = HashSet::new();
        for volume in &self.volumes {
            let shown = volume.name.shown();
            if volume.name.file != self.image {
                let image = self.shown();
                return Err(Error::Usage(format!("{shown} is not in the image {image}")));
            }
            if !places.insert(volume.name.operand()) {
                return Err(Error::Usage(format!("{shown} gets two file systems")));
            }
            if let Some(TablePlan::Create(table)) = &self.table {
                table.check_volume(volume)?;
            }
        }
        if self.volumes.len() > 1 && places.contains(&self.operand()) {
            let shown = self.shown();
            let text = format!("a file system in all of {shown} overwrites the others in it");
            return Err(Error::Usage(text));
        }
        Ok(())
    }

    /// See [`Build::make`](crate::Build::make). `new_report`: makes the report of a copy.
    #[doc(hidden)]
    pub fn run(&self, session: &mut Session, new_report: &dyn Fn() -> Report) -> Result<()> {
        let done = self.run_steps(session, new_report);
        done.map_err(|error| error.about(self.operand()))
    }

    fn run_steps(&self, session: &mut Session, new_report: &dyn Fn() -> Report) -> Result<()> {
        self.find_mistake()?;
        session.may_write(&self.shown())?;
        session.catch_interrupts();
        match &self.table {
            Some(TablePlan::Create(table)) if self.image.symlink_metadata().is_err() => {
                return self.make_new(table, session, new_report);
            }
            Some(table) => table.change(session, &self.image)?,
            None => {}
        }
        self.each_volume(|volume| make(volume, session, new_report))
    }

    /// Makes a new image with a table.
    fn make_new(
        &self,
        table: &NewTable,
        session: &mut Session,
        new_report: &dyn Fn() -> Report,
    ) -> Result<()> {
        let unless_stopped = |error: Error| unless_stopped(error, || not_made(&self.shown()));
        let disk = table.new_disk(session, &self.image);
        let disk = disk.map_err(unless_stopped)?;
        let private = disk.path().display().to_string();
        let filled = self.each_volume(|volume| {
            let place = ImageName {
                file: disk.path().to_owned(),
                ..volume.name.clone()
            };
            let made = make_at(volume, &place, session, new_report);
            made.map_err(|error| unless_stopped(error.naming(&private, &self.operand())))
        });
        if !matches!(filled, Ok(()) | Err(Error::AlreadyReported)) {
            return filled;
        }
        let format = NewFormat::of(&self.image, session.options());
        let kept = format.keep(session, disk, &self.image, false);
        kept.map_err(unless_stopped).and(filled)
    }

    /// Makes one file system after the other. Goes on after one that lacks some files, which was
    /// reported: all the rest is there, as with a copy.
    fn each_volume(&self, mut make: impl FnMut(&VolumePlan) -> Result<()>) -> Result<()> {
        let mut all = Ok(());
        for volume in &self.volumes {
            let made = make(volume);
            match made.map_err(|error| error.about(volume.name.operand())) {
                Err(Error::AlreadyReported) => all = Err(Error::AlreadyReported),
                made => made?,
            }
        }
        all
    }
}

/// A line for the image and each change.
impl Display for DiskPlan {
    fn fmt(&self, formatter: &mut Formatter) -> fmt::Result {
        let shown = self.shown();
        if let Some(table) = &self.table {
            write!(formatter, "{shown}: {table}")?;
        }
        for (index, volume) in self.volumes.iter().enumerate() {
            let end = if index > 0 || self.table.is_some() {
                "\n"
            } else {
                ""
            };
            write!(formatter, "{end}{volume}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::NewPartition;
    use outboard_error::ErrorKind;
    use outboard_image::partition::TableKind;

    fn table(partitions: &[&str]) -> TablePlan {
        let partitions = partitions.iter().map(|text| text.parse().unwrap());
        let partitions = partitions.collect::<Vec<NewPartition>>();
        TablePlan::Create(NewTable::new(TableKind::Gpt, 64 << 20, partitions))
    }

    fn volume(name: &str, size: Option<u64>) -> VolumePlan {
        VolumePlan {
            size,
            ..VolumePlan::new(name, "ext4")
        }
    }

    fn plan(table: Option<TablePlan>, volumes: Vec<VolumePlan>) -> DiskPlan {
        DiskPlan {
            image: "a.img".into(),
            table,
            volumes,
        }
    }

    fn refused(plan: &DiskPlan) -> (ErrorKind, String) {
        let error = plan.check().unwrap_err();
        (error.kind(), error.message().to_owned())
    }

    #[test]
    fn good_plans() {
        let disk = table(&["esp:10M", "linux:rest"]);
        let volumes = vec![volume("a.img@1", Some(10 << 20)), volume("a.img@2", None)];
        assert_eq!(plan(Some(disk), volumes).check(), Ok(()));
        let added = TablePlan::Add(vec!["linux:1M".parse().unwrap()]);
        let whole = plan(None, vec![volume("a.img", Some(1 << 20))]);
        assert_eq!(whole.check(), Ok(()));
        assert_eq!(
            plan(Some(added), vec![volume("a.img@7", None)]).check(),
            Ok(())
        );
        let logical = table(&["extended:rest", "linux:1M"]);
        let TablePlan::Create(mut logical) = logical else {
            unreachable!()
        };
        logical.kind = TableKind::Mbr;
        let logical = plan(
            Some(TablePlan::Create(logical)),
            vec![volume("a.img@5", None)],
        );
        assert_eq!(logical.check(), Ok(()));
    }

    #[test]
    fn volumes_have_places_of_their_own() {
        let in_table = |volumes| plan(Some(table(&["esp:10M", "linux:rest"])), volumes);
        let (kind, text) = refused(&in_table(vec![volume("a.img@3", None)]));
        assert_eq!(kind, ErrorKind::NotFound, "{text}");
        let (kind, text) = refused(&in_table(vec![volume("a.img@1", Some(11 << 20))]));
        assert_eq!(
            (kind, text.as_str()),
            (ErrorKind::NoSpace, "a.img@1 has only 10.0 MiB")
        );
        for volumes in [
            vec![volume("a.img", None)],
            vec![volume("a.img@1", None), volume("a.img@1", None)],
            vec![volume("b.img@1", None)],
            vec![volume("a.img@1@vg0/a", None)],
        ] {
            let (kind, text) = refused(&in_table(volumes));
            assert_eq!(kind, ErrorKind::Usage, "{text}");
        }
        let both = vec![volume("a.img", None), volume("a.img@1", None)];
        assert!(refused(&plan(None, both))
            .1
            .contains("overwrites the others"));
    }

    #[test]
    fn tables_have_room() {
        let (kind, text) = refused(&plan(Some(table(&["linux:40M", "swap:40M"])), vec![]));
        assert_eq!(kind, ErrorKind::NoSpace, "{text}");
        let named = VolumePlan {
            label: Some("a label that is too long".to_owned()),
            ..volume("a.img@1", None)
        };
        let (kind, text) = refused(&plan(Some(table(&["linux:rest"])), vec![named]));
        assert_eq!(kind, ErrorKind::Usage, "{text}");
    }

    #[test]
    fn plans_are_shown() {
        let from = VolumePlan {
            from: Some("root\x1b".into()),
            ..volume("a.img@2", None)
        };
        let plan = plan(Some(table(&["esp:10M,boot", "linux:rest"])), vec![from]);
        let shown = "a.img: a new table of the kind GPT\n1: esp, 10.0 MiB, boot\n\
                     2: linux, the rest\na.img@2: ext4, from root\\u{1b}";
        assert_eq!(plan.to_string(), shown);
        let value = serde_json::to_value(&plan).unwrap();
        assert_eq!(value["image"], "a.img");
        assert_eq!(value["table"]["create"]["kind"], "GPT");
        assert_eq!(value["table"]["create"]["partitions"][0]["size"], 10 << 20);
        assert_eq!(value["volumes"][0]["type"], "ext4");
    }
}
