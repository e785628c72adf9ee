// SPDX-License-Identifier: GPL-2.0-only
//! A running lab: a process for each node, a hub for each link.
//!
//! Nodes are copies of this process, which has one thread: a copy costs less than a new program,
//! and shares its memory. All nodes start at the same time.

use crate::directory::LabDirectory;
use crate::error::{Error, Result};
use crate::node;
use crate::protocol::{Answer, InterfaceCounters, NodeProcess, NodeRequest};
use crate::routes::{routes_of, NodeRoute};
use crate::settings::LabSettings;
use crate::topology::Topology;
use outboard::{signals, System};
use outboard_worker::{CopyOptions, Descriptors, OnStop, WorkerError};
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, Instant};

/// How many nodes start at a time on each processor.
const NODES_OF_PROCESSOR: usize = 4;
/// Descriptors beside those of the nodes. Each of a node's interfaces has four.
const SPARE_FILES: u64 = 512;
/// How long a request may take, beside the time that it asks for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the nodes may take to write the rest of their captures.
const CAPTURES_END: Duration = Duration::from_secs(5);

pub struct RunningLab<'a> {
    topology: &'a Topology,
    nodes: Vec<NodeProcess>,
    /// The routes that each node has. `None`: those of the start.
    routes: Vec<Option<Vec<NodeRoute>>>,
    /// Whether each link is up.
    up: Vec<bool>,
    has_captures: bool,
    /// The time from the first process to the last node that is ready.
    pub start_time: Duration,
    _directory: LabDirectory,
}

fn start_failed(what: &str) -> impl Fn(std::io::Error) -> Error + '_ {
    move |error| Error::failed(format!("cannot start {what}"), &error)
}

impl<'a> RunningLab<'a> {
    /// Starts all nodes and waits until their links work.
    pub fn start(topology: &'a Topology, settings: &LabSettings) -> Result<Self> {
        let start = Instant::now();
        let directory = LabDirectory::new().map_err(start_failed("the lab"))?;
        let settings = LabSettings {
            directory: directory.path().to_owned(),
            ..settings.clone()
        };
        let files = SPARE_FILES + topology.nodes.len() as u64;
        let raised = System::Host.raise_file_limit(files);
        raised.map_err(start_failed("so many nodes"))?;
        let mut lab = Self {
            topology,
            nodes: Vec::new(),
            routes: vec![None; topology.nodes.len()],
            up: vec![true; topology.links.len()],
            has_captures: settings.captures.is_some(),
            start_time: Duration::ZERO,
            _directory: directory,
        };
        // The first node may have to make the snapshot from which the others start.
        lab.start_node(&settings, 0)?;
        lab.answer(0, Duration::ZERO)?;
        lab.for_each_node(1, |lab, index| lab.start_node(&settings, index))?;
        lab.for_each_node(0, |lab, index| lab.send(index, &NodeRequest::Meet))?;
        if topology.has_worse_links_or_firewalls() {
            lab.for_each_node(0, |lab, index| lab.send(index, &NodeRequest::Worsen))?;
        }
        lab.start_time = start.elapsed();
        Ok(lab)
    }

    /// Has each node from `first` on do something, and waits for all. A few nodes work at a time:
    /// with more, the host only switches between them.
    fn for_each_node(
        &mut self,
        first: usize,
        mut begin: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<()> {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let at_once = processors * NODES_OF_PROCESSOR;
        let count = self.topology.nodes.len();
        for index in first..count + at_once {
            if index >= first + at_once {
                self.answer(index - at_once, Duration::ZERO)?;
            }
            if index < count {
                begin(self, index)?;
            }
        }
        Ok(())
    }

    fn start_node(&mut self, settings: &LabSettings, index: usize) -> Result<()> {
        let name = &self.topology.nodes[index].name;
        let topology = self.topology;
        let options = CopyOptions {
            // A node must see the end of the lab, so it does not get the sockets of other nodes.
            descriptors: Descriptors::Standard,
            on_stop: OnStop::EndWait(Box::new(|| signals::first().is_some())),
            ..CopyOptions::default()
        };
        let node = NodeProcess::copy(options, |lab| {
            node::run(topology, settings, index, lab).map_err(Into::into)
        });
        self.nodes.push(node.map_err(start_failed(name))?);
        Ok(())
    }

    fn name(&self, node: usize) -> &'a str {
        &self.topology.nodes[node].name
    }

    /// Waits for an answer of each node.
    fn collect(&mut self) -> Result<Vec<Answer>> {
        (0..self.nodes.len())
            .map(|node| self.answer(node, Duration::ZERO))
            .collect()
    }

    pub(crate) fn send(&mut self, node: usize, request: &NodeRequest) -> Result<()> {
        let sent = self.nodes[node].send(request, Some(PATIENCE));
        sent.map_err(|error| self.failed(node, &error))
    }

    /// Waits for the answer of a node. `asked`: the time that the request itself asks for.
    pub(crate) fn answer(&mut self, node: usize, asked: Duration) -> Result<Answer> {
        match self.nodes[node].receive(Some(asked + PATIENCE)) {
            Ok(Answer::Failed(text)) => {
                Err(Error::Failed(format!("node {}: {text}", self.name(node))))
            }
            answer => answer.map_err(|error| self.failed(node, &error)),
        }
    }

    fn failed(&self, node: usize, error: &WorkerError) -> Error {
        let name = self.name(node);
        match error {
            WorkerError::Interrupted => Error::Interrupted,
            WorkerError::Ended(_) | WorkerError::Finished => {
                Error::Failed(format!("node {name} has ended"))
            }
            WorkerError::Late => Error::Failed(format!("node {name} does not answer")),
            error => Error::Failed(format!("node {name}: {error}")),
        }
    }

    /// Sends a request to a node and waits for its answer.
    pub(crate) fn ask(
        &mut self,
        node: usize,
        request: &NodeRequest,
        asked: Duration,
    ) -> Result<Answer> {
        self.send(node, request)?;
        self.answer(node, asked)
    }

    /// Takes a link down or up, and has the nodes use other routes.
    pub(crate) fn set_link(&mut self, link: usize, is_up: bool) -> Result<()> {
        self.up[link] = is_up;
        for port in &self.topology.links[link].ports {
            let interface = port.interface;
            let request = NodeRequest::TopologyLink { interface, is_up };
            self.ask(port.node, &request, Duration::ZERO)?;
        }
        let at_link = |node| {
            let mut ports = self.topology.links[link].ports.iter();
            ports.any(|port| port.node == node)
        };
        let mut changed = Vec::new();
        for node in 0..self.nodes.len() {
            let routes = routes_of(self.topology, &self.up, node);
            // The kernel has removed routes at the link itself.
            if Some(&routes) != self.routes[node].as_ref() || at_link(node) {
                changed.push((node, routes));
            }
        }
        for (node, routes) in &changed {
            self.send(*node, &NodeRequest::Routes(routes.clone()))?;
        }
        for (node, routes) in changed {
            self.answer(node, Duration::ZERO)?;
            self.routes[node] = Some(routes);
        }
        Ok(())
    }

    /// The counters of all interfaces, by node.
    pub fn counters(&mut self) -> Result<Vec<Vec<InterfaceCounters>>> {
        for node in 0..self.nodes.len() {
            self.send(node, &NodeRequest::Counters)?;
        }
        let answers = self.collect()?.into_iter();
        let counters = answers.map(|answer| match answer {
            Answer::Counters(counters) => Ok(counters),
            _ => Err(Error::Failed("a node gave a wrong answer".to_owned())),
        });
        counters.collect()
    }
}

impl RunningLab<'_> {
    /// Has the nodes write the last frames into their captures, and end. One that is in the middle
    /// of something else is not waited for long.
    fn end_captures(&mut self) {
        let end = Instant::now() + CAPTURES_END;
        self.nodes.iter().for_each(NodeProcess::end_requests);
        for node in &mut self.nodes {
            let rest = || Some(end.saturating_duration_since(Instant::now()));
            // A signal that ends the lab ends each wait after a moment.
            while Instant::now() < end
                && matches!(node.receive(rest()), Err(WorkerError::Interrupted))
            {}
        }
    }
}

impl Drop for RunningLab<'_> {
    /// Ends the nodes before the directory of their links.
    fn drop(&mut self) {
        if self.has_captures {
            self.end_captures();
        }
        // All end at the same time. Each is waited for when it is dropped.
        self.nodes.iter().for_each(NodeProcess::kill);
        self.nodes.clear();
    }
}

/// Creates a directory for captures, if it is missing.
pub(crate) fn make_directory(path: &Path) -> Result<()> {
    let made = std::fs::create_dir_all(path);
    made.map_err(|error| Error::failed(format!("cannot make {}", path.display()), &error))
}
