// SPDX-License-Identifier: GPL-2.0-only
//! The root of programs, with all that they see there.

use super::command::ProgramCommand;
use super::network;
use super::root_source::RootSource;
use super::start::ProgramRun;
use crate::session::Session;
use outboard::HostDirectory;
use outboard_error::{Error, Result};
use std::sync::{Arc, RwLock};

/// How a kernel without a root is called in messages.
const NAMELESS: &str = "this server";

/// A root in which programs can run. Directories of the host are shown while this lives.
pub(super) struct ReadyRoot {
    pub(super) run: Arc<ProgramRun>,
    _shown_binds: Vec<HostDirectory>,
}

impl Session {
    /// Makes the root of programs.
    pub(super) fn make_root(
        &mut self,
        source: &RootSource,
        command: ProgramCommand,
        write: bool,
    ) -> Result<ReadyRoot> {
        let index = source.mount(self, write)?;
        let shown = source.shown();
        let root = self
            .mounted(index)
            .program_root()
            .map_err(|error| Error::failed(format!("{shown}: no root for programs"), &error))?;
        self.finish_program_network()?;
        let kernel = self.mounted(index).kernel();
        network::prepare(kernel, &root)?;
        let binds = command.binds.iter();
        let shown_binds: Result<_> = binds.map(|bind| bind.show(kernel, &root)).collect();
        Ok(ReadyRoot {
            _shown_binds: shown_binds?,
            run: Arc::new(ProgramRun {
                kernel: kernel.clone(),
                root: RwLock::new(Some(root)),
                has_root: true,
                command,
                shown,
            }),
        })
    }

    /// A kernel without a root for programs.
    pub(super) fn without_root(&mut self, command: ProgramCommand) -> Result<ReadyRoot> {
        let kernel = self.kernel(None)?;
        self.finish_program_network()?;
        network::prepare_alone(&kernel)?;
        Ok(ReadyRoot {
            run: Arc::new(ProgramRun {
                kernel,
                root: RwLock::new(None),
                has_root: false,
                command,
                shown: NAMELESS.to_owned(),
            }),
            _shown_binds: Vec::new(),
        })
    }
}
