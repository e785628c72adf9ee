// SPDX-License-Identifier: GPL-2.0-only
//! The file systems that a name may mean, for commands that ask the user which one.

use super::whole::Session;
use crate::address::ImageName;
use crate::remote::Remote;
use outboard_error::Result;

impl Session {
    /// The file systems that a name may mean, and encrypted volumes, each with its type. A name
    /// with several of them is ambiguous. `write`: how the caller will open the image.
    pub fn file_systems(
        &mut self,
        name: &ImageName,
        write: bool,
    ) -> Result<Vec<(ImageName, &'static str)>> {
        if Remote::of(&name.file).is_some_and(|found| !found.is_ok_and(|remote| remote.is_disk())) {
            // It is one, and its mount reports a wrong name.
            return Ok(Vec::new());
        }
        self.connect(&name.file, write)?;
        let image = self.image(&name.file)?;
        if !self.is_layered(&image, name) {
            return image.file_systems(name);
        }
        if write {
            self.may_write(&name.shown())?;
        }
        let disk = self.disk(name, write)?;
        let stack = self.open_stack(name, disk)?;
        let forced = self.options().kind.is_some();
        self.with_stack(stack, |stack, context| {
            stack.open_for(name, forced, context)
        })?;
        let stack = self.slots.stack(stack);
        let nodes = stack.choices(name, forced).into_iter();
        Ok(nodes
            .map(|node| (stack.image_name(node), stack.kind(node)))
            .collect())
    }
}
