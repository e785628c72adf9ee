// SPDX-License-Identifier: GPL-2.0-only
#![doc = include_str!("../README.md")]

mod directory;
mod echo;
mod error;
mod firewall;
mod lab;
mod node;
mod plot;
mod protocol;
mod quantity;
mod report;
mod routes;
mod run;
mod settings;
mod svg;
mod throughput;
mod topology;
mod transfer;
mod tunnel;
mod yaml;

pub use error::{Error, Result};
pub use plot::plot;
pub use report::{LabReport, StepResult};
pub use run::run;
pub use settings::LabSettings;
pub use svg::draw;
pub use throughput::Throughput;
pub use topology::Topology;
