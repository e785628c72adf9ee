// SPDX-License-Identifier: GPL-2.0-only
//! Runs the steps of a topology, one after the other, and compares results with expectations.

use crate::error::{Error, Result};
use crate::lab::{make_directory, RunningLab};
use crate::protocol::{Answer, EchoResult, NodeRequest, TransferResult};
use crate::quantity::{shown_rate, shown_time};
use crate::report::{LabReport, StepResult};
use crate::settings::LabSettings;
use crate::topology::{Action, Bound, Echo, Expectation, LabStep, Metric, Topology, TransferStep};
use outboard::signals;
use std::time::{Duration, Instant};

/// How often a pause looks for a signal.
const LOOK: Duration = Duration::from_millis(100);
/// How long a reply may take before the next request is sent.
const REPLY: Duration = Duration::from_millis(500);

/// Runs a lab from its start to its end.
pub fn run(topology: &Topology, settings: &LabSettings) -> Result<LabReport> {
    if let Some(directory) = &settings.captures {
        if directory.to_str().is_none() {
            let text = format!("cannot capture into {directory:?}: the path is not UTF-8");
            return Err(Error::Failed(text));
        }
        make_directory(directory)?;
    }
    let mut lab = RunningLab::start(topology, settings)?;
    let mut report = LabReport {
        name: topology.name.clone(),
        nodes: topology.nodes.len(),
        links: topology.links.len(),
        start_seconds: lab.start_time.as_secs_f64(),
        met: true,
        ..LabReport::default()
    };
    for step in &topology.steps {
        let mut result = act(topology, &mut lab, &step.action)?;
        result.line = step.line;
        result.name.clone_from(&step.name);
        judge(step, &mut result, &report.steps);
        report.met &= result.met;
        report.steps.push(result);
    }
    report.take_counters(topology, &lab.counters()?);
    Ok(report)
}

fn wrong_answer() -> Error {
    Error::Failed("a node gave a wrong answer".to_owned())
}

fn act(topology: &Topology, lab: &mut RunningLab, action: &Action) -> Result<StepResult> {
    let name = |node: usize| &topology.nodes[node].name;
    match action {
        Action::Ping(echo) => {
            let text = format!("ping {} -> {}", name(echo.from), echo.to);
            let time = echo.interval * echo.count + echo.timeout;
            match lab.ask(echo.from, &NodeRequest::Ping(echo.clone()), time)? {
                Answer::Ping(result) => Ok(echo_result(text, echo, &result)),
                _ => Err(wrong_answer()),
            }
        }
        Action::Await(echo) => await_reply(lab, echo, name(echo.from)),
        Action::Tcp(transfer) => {
            let text = format!("tcp {} -> {}", name(transfer.from), name(transfer.to));
            let (received, sent) = transfer_data(lab, true, transfer)?;
            Ok(tcp_result(text, transfer, &received, &sent))
        }
        Action::Udp(transfer) => {
            let text = format!("udp {} -> {}", name(transfer.from), name(transfer.to));
            let (received, sent) = transfer_data(lab, false, transfer)?;
            Ok(udp_result(text, transfer, &received, &sent))
        }
        Action::Link { link, is_up } => {
            lab.set_link(*link, *is_up)?;
            let state = if *is_up { "up" } else { "down" };
            Ok(done(format!("{state} {}", topology.links[*link].name)))
        }
        Action::Sysctl {
            node,
            name: setting,
            value,
        } => {
            let text = format!("sysctl {} {setting}={value}", name(*node));
            let request = NodeRequest::Sysctl {
                name: setting.clone(),
                value: value.clone(),
            };
            lab.ask(*node, &request, Duration::ZERO)?;
            Ok(done(text))
        }
        Action::Wait(time) => {
            wait(*time)?;
            Ok(done(format!("wait {}", shown_time(time.as_secs_f64()))))
        }
    }
}

fn done(action: String) -> StepResult {
    StepResult {
        action,
        result: "done".to_owned(),
        ..StepResult::default()
    }
}

fn wait(time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    loop {
        let rest = end.saturating_duration_since(Instant::now());
        if signals::first().is_some() {
            return Err(Error::Interrupted);
        }
        if rest.is_zero() {
            return Ok(());
        }
        std::thread::sleep(rest.min(LOOK));
    }
}

/// Sends echo requests until there is a reply, or no time.
fn await_reply(lab: &mut RunningLab, echo: &Echo, from: &str) -> Result<StepResult> {
    let start = Instant::now();
    let one = Echo {
        timeout: REPLY.min(echo.timeout),
        ..echo.clone()
    };
    let reached = loop {
        match lab.ask(echo.from, &NodeRequest::Ping(one.clone()), one.timeout)? {
            Answer::Ping(result) if result.received > 0 => break true,
            Answer::Ping(_) if start.elapsed() >= echo.timeout => break false,
            Answer::Ping(_) => {}
            _ => return Err(wrong_answer()),
        }
    };
    let time = start.elapsed().as_secs_f64();
    let verb = if reached { "a reply" } else { "no reply" };
    Ok(StepResult {
        action: format!("await {from} -> {}", echo.to),
        result: format!("{verb} after {}", shown_time(time)),
        reached: Some(reached),
        time: Some(time),
        ..StepResult::default()
    })
}

/// The results of the receiver and of the sender.
fn transfer_data(
    lab: &mut RunningLab,
    is_tcp: bool,
    transfer: &TransferStep,
) -> Result<(TransferResult, TransferResult)> {
    let (from, to) = (transfer.from, transfer.to);
    let own = || transfer.clone();
    let listen = NodeRequest::Listen {
        is_tcp,
        transfer: own(),
    };
    lab.ask(to, &listen, Duration::ZERO)?;
    lab.send(
        to,
        &NodeRequest::Receive {
            is_tcp,
            transfer: own(),
        },
    )?;
    lab.send(
        from,
        &NodeRequest::Send {
            is_tcp,
            transfer: own(),
        },
    )?;
    let limit = transfer.timeout + transfer.interval * transfer.count;
    let sent = lab.answer(from, limit)?;
    let received = lab.answer(to, limit)?;
    match (received, sent) {
        (Answer::TransferStep(received), Answer::TransferStep(sent)) => Ok((received, sent)),
        _ => Err(wrong_answer()),
    }
}

/// A reason behind a result.
fn because(reason: &Option<String>) -> String {
    reason
        .as_ref()
        .map_or(String::new(), |reason| format!(" ({reason})"))
}

fn echo_result(action: String, echo: &Echo, result: &EchoResult) -> StepResult {
    let received = f64::from(result.received);
    let mut text = format!("{} of {} replies", result.received, result.sent);
    let mut rtt = None;
    if result.received > 0 {
        let average = result.sum / received;
        rtt = Some(average);
        text.push_str(&format!(
            ", {} ({} to {})",
            shown_time(average),
            shown_time(result.least),
            shown_time(result.most)
        ));
    }
    if result.duplicates > 0 {
        text.push_str(&format!(", {} twice", result.duplicates));
    }
    StepResult {
        action,
        result: text + &because(&result.reason),
        reached: Some(result.received > 0),
        received: Some(received),
        loss: Some(1.0 - received / f64::from(echo.count)),
        rtt,
        ..StepResult::default()
    }
}

fn rate(result: &TransferResult) -> Option<f64> {
    (result.seconds > 0.0).then(|| result.bytes as f64 * 8.0 / result.seconds)
}

fn tcp_result(
    action: String,
    transfer: &TransferStep,
    received: &TransferResult,
    sent: &TransferResult,
) -> StepResult {
    let is_whole = received.bytes == transfer.bytes && received.reason.is_none();
    let rate = rate(received);
    let mut text = if is_whole {
        format!("{} bytes, contents right", received.bytes)
    } else {
        format!("{} of {} bytes", received.bytes, transfer.bytes)
    };
    if let Some(rate) = rate {
        text.push_str(&format!(", {}", shown_rate(rate)));
    }
    if !is_whole {
        let reason = sent.reason.as_ref().or(received.reason.as_ref()).cloned();
        text.push_str(&because(&reason));
    }
    StepResult {
        action,
        result: text,
        reached: Some(is_whole),
        rate,
        time: Some(received.seconds),
        throughput: Some(received.throughput.clone()),
        ..StepResult::default()
    }
}

fn udp_result(
    action: String,
    transfer: &TransferStep,
    received: &TransferResult,
    sent: &TransferResult,
) -> StepResult {
    let count = f64::from(transfer.count);
    let rate = rate(received);
    let mut text = format!("{} of {} datagrams", received.count, transfer.count);
    if let Some(rate) = rate {
        text.push_str(&format!(", {}", shown_rate(rate)));
    }
    let reason = received.reason.as_ref().or(sent.reason.as_ref()).cloned();
    StepResult {
        action,
        result: text + &because(&reason),
        reached: Some(received.count > 0 && received.reason.is_none()),
        received: Some(received.count as f64),
        loss: Some(1.0 - received.count as f64 / count),
        rate,
        throughput: Some(received.throughput.clone()),
        ..StepResult::default()
    }
}

impl StepResult {
    fn value(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Loss => self.loss,
            Metric::Rtt => self.rtt,
            Metric::Rate => self.rate,
            Metric::Time => self.time,
            Metric::Received => self.received,
        }
    }

    /// `None`: the expectation is met. Otherwise its text.
    fn missed(&self, expectation: &Expectation, earlier: &[StepResult]) -> Option<String> {
        let (holds, text) = match expectation {
            Expectation::Any => (true, "any"),
            Expectation::Reachable => (self.reached == Some(true), "reachable"),
            Expectation::Unreachable => (self.reached == Some(false), "unreachable"),
            Expectation::Compare {
                metric,
                comparison,
                bound,
                text,
            } => {
                let bound = match bound {
                    Bound::Value(value) => Some(*value),
                    Bound::Times(factor, step) => {
                        earlier[*step].value(*metric).map(|value| value * factor)
                    }
                };
                let values = self.value(*metric).zip(bound);
                let holds = values.is_some_and(|(value, bound)| comparison.holds(value, bound));
                (holds, text.as_str())
            }
        };
        (!holds).then(|| text.to_owned())
    }
}

fn judge(step: &LabStep, result: &mut StepResult, earlier: &[StepResult]) {
    let expected = step.expected.iter();
    result.missed = expected
        .filter_map(|expectation| result.missed(expectation, earlier))
        .collect();
    result.met = result.missed.is_empty();
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
nodes: {a: , b: }
links: {l: {nodes: [a, b]}}
steps:
  - ping: {from: a, to: b, count: 8}
  - tcp: {from: a, to: b, bytes: 1000}
  - udp: {from: a, to: b, count: 10, size: 100}
";

    fn actions() -> Vec<Action> {
        let steps = Topology::parse(FILE).unwrap().steps.into_iter();
        steps.map(|step| step.action).collect()
    }

    fn received(count: u64, bytes: u64) -> TransferResult {
        TransferResult {
            count,
            bytes,
            seconds: 2.0,
            ..TransferResult::default()
        }
    }

    #[test]
    fn the_time_of_an_echo_is_the_average() {
        let Some(Action::Ping(echo)) = actions().into_iter().next() else {
            panic!("a ping");
        };
        let measured = EchoResult {
            sent: 8,
            received: 4,
            duplicates: 3,
            sum: 0.8,
            least: 0.1,
            most: 0.4,
            ..EchoResult::default()
        };
        let found = echo_result("ping".to_owned(), &echo, &measured);
        assert_eq!(found.rtt, Some(0.2));
        assert_eq!((found.received, found.loss), (Some(4.0), Some(0.5)));
        assert_eq!(found.reached, Some(true));
        let text = "4 of 8 replies, 200.00 ms (100.00 ms to 400.00 ms), 3 twice";
        assert_eq!(found.result, text);
    }

    #[test]
    fn rates_count_bits_in_a_second() {
        let actions = actions();
        let (Action::Tcp(tcp), Action::Udp(udp)) = (&actions[1], &actions[2]) else {
            panic!("tcp and udp");
        };
        let sent = TransferResult::default();
        let found = tcp_result("tcp".to_owned(), tcp, &received(1000, 1000), &sent);
        assert_eq!((found.rate, found.time), (Some(4000.0), Some(2.0)));
        assert_eq!(found.reached, Some(true));
        assert_eq!(found.result, "1000 bytes, contents right, 4.00 kbit/s");
        let found = tcp_result("tcp".to_owned(), tcp, &received(999, 999), &sent);
        assert_eq!(found.reached, Some(false));
        let found = udp_result("udp".to_owned(), udp, &received(5, 500), &sent);
        assert_eq!((found.rate, found.loss), (Some(2000.0), Some(0.5)));
    }
}
