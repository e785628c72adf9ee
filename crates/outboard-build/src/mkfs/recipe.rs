// SPDX-License-Identifier: GPL-2.0-only
//! Decides how a file system is made: by which tool, with which options, with which changes of its
//! contents. Only [`Recipe::add_changes`] looks at the host.

use super::makers::{FileSystemMaker, FillMethod, Reproducible};
use super::source::ContentSource;
use super::volume_plan::VolumePlan;
use outboard_error::{Error, ErrorKind, Hint, Result};
use outboard_transfer::cp::Changes;
use outboard_transfer::labels::Labels;
use outboard_transfer::moment::source_date;
use outboard_transfer::owner::Owner;
use outboard_volume::image_file::FILE_SECTOR;
use outboard_volume::uuid;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// 1980-01-01, the first day that FAT knows: the time of reproducible images without
/// SOURCE_DATE_EPOCH.
const FIRST_DAY: i64 = 315_532_800;

/// How a file system is made.
#[derive(Debug)]
pub(super) struct Recipe {
    pub(super) maker: &'static FileSystemMaker,
    /// Bytes of a sector of what it is made for.
    pub(super) sector: u64,
    /// The time of everything, in seconds, in a reproducible image.
    pub(super) time: Option<i64>,
    /// The tool's options, besides those of the user.
    pub(super) words: Vec<OsString>,
    /// The changes of the contents while our kernel fills it.
    pub(super) changes: Changes,
}

impl Recipe {
    /// Refuses a plan that no tool can carry out.
    pub(super) fn new(plan: &VolumePlan, sector: u64) -> Result<Self> {
        let maker = FileSystemMaker::find(&plan.kind)?;
        maker.check_sectors(sector)?;
        check_contents(plan, maker)?;
        let time = if plan.reproducible {
            Some(source_date().map_err(Error::Usage)?.unwrap_or(FIRST_DAY))
        } else {
            None
        };
        let mut recipe = Self {
            maker,
            sector,
            time,
            words: Vec::new(),
            changes: Changes {
                owner: None,
                owners: plan.owner_map.clone(),
                labels: None,
                newest: time,
            },
        };
        recipe.choose_words(plan)?;
        Ok(recipe)
    }

    /// Collects the options of the tool.
    fn choose_words(&mut self, plan: &VolumePlan) -> Result<()> {
        let maker = self.maker;
        self.say(maker.say_sectors(self.sector, &plan.options));
        if let Some(label) = &plan.label {
            self.say(maker.say_label(label)?);
        }
        let uuid = match &plan.uuid {
            None if self.time.is_some() && maker.has_uuid() => Some(self.fixed_uuid(plan)),
            given => given.clone(),
        };
        if let Some(uuid) = &uuid {
            self.say(maker.say_uuid(uuid)?);
        }
        if self.time.is_none() {
            return Ok(());
        }
        match (maker.reproducible, uuid) {
            (Reproducible::Ext, Some(uuid)) => {
                let seed = format!("hash_seed={uuid},lazy_itable_init=0,lazy_journal_init=0");
                self.say(vec!["-E".to_owned(), seed]);
            }
            (Reproducible::Fat, _) => self.say(vec!["--invariant".to_owned()]),
            (Reproducible::ByTool(words), _) => {
                self.say(words.iter().map(|word| (*word).to_owned()).collect());
            }
            _ => {}
        }
        Ok(())
    }

    /// A UUID for images that are to be the same each time: from the type, label and time.
    fn fixed_uuid(&self, plan: &VolumePlan) -> String {
        let label = plan.label.as_deref().unwrap_or_default();
        let text = format!("{}\0{label}\0{:?}", self.maker.kind, self.time);
        let uuid = uuid::from_name(&text);
        match self.maker.reproducible {
            Reproducible::Fat => uuid[..8].to_owned(),
            _ => uuid,
        }
    }

    /// Reads from the host which owners and labels the contents get. If the tool is given the
    /// tree, it also makes the changes.
    pub(super) fn add_changes(
        &mut self,
        plan: &VolumePlan,
        source: Option<&ContentSource>,
    ) -> Result<()> {
        if let (Some(text), Some(source)) = (&plan.owner, source) {
            let owner = Owner::find_below(text.as_bytes(), source.path())?;
            self.changes.owner = Some(owner);
        }
        if self.maker.filled != FillMethod::ByTool {
            let labels = plan.file_contexts.as_deref();
            self.changes.labels = labels.map(Labels::read).transpose()?;
            return Ok(());
        }
        if let Some(owner) = self.changes.owner {
            self.say(self.maker.say_owner(owner)?);
        }
        if let Some(file) = &plan.file_contexts {
            let mut word = OsString::from(self.maker.labels_word()?);
            word.push(file);
            self.words.push(word);
        }
        Ok(())
    }

    fn say(&mut self, words: Vec<String>) {
        self.words.extend(words.into_iter().map(OsString::from));
    }

    /// The failed step, with the sectors if they are unusual: not every tool takes a size of
    /// sectors. `shown`: the image or volume.
    pub(super) fn cannot(&self, shown: &str) -> String {
        let what = format!("cannot make {} in {shown}", self.maker.kind);
        match self.sector {
            FILE_SECTOR => what,
            size => format!("{what}, which has sectors of {size} bytes"),
        }
    }
}

/// Refuses contents, or changes of them, that the type cannot have.
fn check_contents(plan: &VolumePlan, maker: &FileSystemMaker) -> Result<()> {
    let kind = maker.kind;
    if plan.reproducible && maker.reproducible == Reproducible::No {
        return Err(Error::known(
            ErrorKind::Unsupported,
            format!(
                "{kind} cannot be made reproducible: of the types there are, {} can",
                FileSystemMaker::reproducible_kinds()
            ),
        ));
    }
    let refused = |text| Err(Error::Usage(text));
    match (&plan.from, maker.filled) {
        (None, FillMethod::ByTool) => {
            let contents = Hint::Contents;
            refused(format!("{kind} is read-only: name its contents{contents}"))
        }
        (Some(_), FillMethod::Never) => {
            refused(format!("{kind} has no files: {}", Hint::NoContents))
        }
        (_, FillMethod::ByTool) if !plan.owner_map.is_empty() => refused(format!(
            "{} cannot map owners in {kind}: only {}",
            maker.tool.name,
            Hint::OneOwner
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(kind: &str) -> VolumePlan {
        VolumePlan::new("new.img", kind)
    }

    fn words(plan: &VolumePlan, sector: u64) -> Vec<String> {
        let recipe = Recipe::new(plan, sector).unwrap();
        let words = recipe.words.into_iter();
        words.map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn the_options_of_the_tool() {
        assert!(words(&plan("ext4"), FILE_SECTOR).is_empty());
        let named = VolumePlan {
            label: Some("data".to_owned()),
            ..plan("xfs")
        };
        let sized = ["-s", "size=4096", "-L", "data"];
        assert_eq!(words(&named, 4096), sized);
        let own = VolumePlan {
            options: vec!["-ssize=4096".into()],
            ..named
        };
        assert_eq!(words(&own, 4096), ["-L", "data"]);
    }

    #[test]
    fn reproducible_images_have_fixed_identifiers() {
        let fixed = |kind, label: Option<&str>| {
            let plan = VolumePlan {
                reproducible: true,
                label: label.map(str::to_owned),
                ..plan(kind)
            };
            words(&plan, FILE_SECTOR)
        };
        let ext = fixed("ext4", None);
        assert_eq!(ext, fixed("ext4", None));
        assert!(ext[0] == "-U" && ext[3].starts_with(&format!("hash_seed={},", ext[1])));
        assert_ne!(ext[1], fixed("ext4", Some("a"))[3]);
        let fat = fixed("vfat", None);
        assert!(fat[0] == "-i" && fat[1].len() == 8 && fat[2] == "--invariant");
    }

    #[test]
    fn impossible_plans_are_refused() {
        let full = |kind| VolumePlan {
            from: Some("tree".into()),
            ..plan(kind)
        };
        let refused = |plan: &VolumePlan| {
            let error = Recipe::new(plan, FILE_SECTOR).unwrap_err();
            error.message().unwrap().to_owned()
        };
        assert_eq!(
            refused(&plan("squashfs")),
            "squashfs is read-only: name its contents"
        );
        assert_eq!(
            refused(&full("swap")),
            "swap has no files: contents make no sense"
        );
        let mapped = VolumePlan {
            owner_map: vec!["0:1000".parse().unwrap()],
            ..full("squashfs")
        };
        assert!(refused(&mapped).contains("cannot map owners"));
        let fixed = VolumePlan {
            reproducible: true,
            ..plan("xfs")
        };
        assert!(refused(&fixed).contains("cannot be made reproducible"));
        assert!(refused(&plan("nonsense")).contains("there are ext4, ext3"));
        assert!(Recipe::new(&full("squashfs"), FILE_SECTOR).is_ok());
        assert!(Recipe::new(&plan("minix"), 4096).is_err());
    }
}
