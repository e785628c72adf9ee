// SPDX-License-Identifier: GPL-2.0-only
//! The results of a lab: its steps, and the counters of its nodes and links.

use crate::protocol::InterfaceCounters;
use crate::throughput::Throughput;
use crate::topology::Topology;
use serde::Serialize;

#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct LabReport {
    pub name: String,
    pub nodes: usize,
    pub links: usize,
    /// Until all links worked.
    pub start_seconds: f64,
    pub steps: Vec<StepResult>,
    pub interfaces: Vec<InterfaceReport>,
    /// Whether all expectations were met.
    pub met: bool,
}

/// The result of a step's measurement. `None`: it does not measure this.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct StepResult {
    pub line: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub action: String,
    pub result: String,
    pub met: bool,
    /// Expectations that were not met.
    pub missed: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<f64>,
    /// Bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<f64>,
    /// When which bytes of a transfer arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
}

/// The counters of an interface.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct InterfaceReport {
    pub node: String,
    pub link: String,
    #[serde(flatten)]
    pub counters: InterfaceCounters,
}

impl LabReport {
    pub(crate) fn take_counters(&mut self, topology: &Topology, all: &[Vec<InterfaceCounters>]) {
        for link in &topology.links {
            for port in &link.ports {
                let name = port.interface();
                let mut counters = all[port.node].iter();
                if let Some(found) = counters.find(|counters| counters.interface == name) {
                    self.interfaces.push(InterfaceReport {
                        node: topology.nodes[port.node].name.clone(),
                        link: link.name.clone(),
                        counters: found.clone(),
                    });
                }
            }
        }
    }

    /// The table of the steps, then that of the interfaces.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{} nodes, {} links, ready in {:.3} s",
            self.nodes, self.links, self.start_seconds
        )];
        let steps = self.steps.iter().map(|step| {
            let verdict = if step.met { "ok" } else { "FAILED" };
            let missed = step.missed.iter().map(|text| format!("expected {text}"));
            let result = std::iter::once(step.result.clone()).chain(missed);
            [
                verdict.to_owned(),
                step.action.clone(),
                result.collect::<Vec<_>>().join("; "),
            ]
        });
        lines.extend(table(["", "step", "result"], steps.collect(), 0));
        lines.push(String::new());
        let interfaces = self.interfaces.iter().map(|interface| {
            let counters = &interface.counters;
            [
                interface.link.clone(),
                interface.node.clone(),
                counters.sent_packets.to_string(),
                counters.sent_bytes.to_string(),
                counters.received_packets.to_string(),
                counters.received_bytes.to_string(),
                counters.dropped.to_string(),
            ]
        });
        let head = [
            "link", "node", "sent", "bytes", "received", "bytes", "dropped",
        ];
        lines.extend(table(head, interfaces.collect(), 5));
        lines
    }
}

/// Rows under a head. The last `numbers` columns are aligned to the right.
fn table<const N: usize>(head: [&str; N], rows: Vec<[String; N]>, numbers: usize) -> Vec<String> {
    let all: Vec<[String; N]> = std::iter::once(head.map(str::to_owned))
        .chain(rows)
        .collect();
    let width = |column: usize| {
        let widths = all.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            if column >= N - numbers {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        line.trim_end().to_owned()
    };
    all.iter().map(line).collect()
}
