//! What [`super::Stats`] found, as plain data.

use nvmf_wire::Status;
use serde::Serialize;

use super::latency::Latencies;
use super::timeline::PIECES;
use super::{Row, Stats, Traffic};
use crate::exchange::{Direction, Transport};
use crate::follow::Followed;

/// The figures of a capture. Times are nanoseconds, lengths bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// First and last event, nanoseconds since the epoch.
    pub start_ns: u64,
    /// Time between the first and the last event, nanoseconds.
    pub duration_ns: u64,
    /// Frames of the file.
    pub frames: u64,
    /// Connections that carry NVMe-oF.
    pub connections: u64,
    /// TCP connections that carry something else.
    pub other_connections: usize,
    /// PDUs and digests of all connections.
    #[serde(flatten)]
    pub traffic: TrafficReport,
    /// In the order of their first Connect.
    pub controllers: Vec<ControllerReport>,
    /// Over all queues of all controllers.
    pub totals: Vec<CommandReport>,
    /// Depth and response times over time.
    pub timeline: Timeline,
    /// Connections whose controllers were too many to be told apart: they are in the totals alone.
    pub unlisted_connections: u64,
    /// What is odd about the file itself.
    pub notes: Vec<String>,
}

/// What passed below the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TrafficReport {
    /// PDUs from the host; over RDMA command capsules.
    pub pdus_to_controller: u64,
    /// PDUs from the controller; over RDMA response capsules.
    pub pdus_to_host: u64,
    /// RoCEv2 packets from the host; 0 over TCP.
    pub packets_to_controller: u64,
    /// RoCEv2 packets from the controller; 0 over TCP.
    pub packets_to_host: u64,
    /// TCP segments and RoCEv2 packets that came again.
    pub retransmissions: u64,
    /// RoCEv2 packets with a wrong invariant CRC.
    pub bad_icrcs: u64,
    /// PDUs with a wrong header digest.
    pub bad_header_digests: u64,
    /// PDUs with a wrong data digest.
    pub bad_data_digests: u64,
    /// Pieces of the stream that are no PDU.
    pub undecodable: u64,
    /// Places where the capture misses bytes.
    pub gaps: u64,
}

/// A controller, which is an association: its Admin Queue and what joined it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ControllerReport {
    /// Address and port.
    pub address: String,
    /// `tcp` or `rdma`.
    pub transport: &'static str,
    /// Controller ID (CNTLID); `None` where no Connect succeeded.
    pub cntlid: Option<u16>,
    /// NVMe Qualified Name of the subsystem; `None` where the Connect was not seen.
    pub subnqn: Option<String>,
    /// NVMe Qualified Name of the host.
    pub hostnqn: Option<String>,
    /// In the order of their Connect.
    pub queues: Vec<QueueReport>,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueReport {
    /// Queue ID (QID), 0 for the Admin Queue; `None` where the Connect was not seen.
    pub qid: Option<u16>,
    /// Entries of the submission queue.
    pub entries: Option<u64>,
    /// How many connections carried it, one after the other.
    pub connections: u64,
    /// The numbers of the first of them, as `nvmfspec trace` has them.
    pub connection_numbers: Vec<usize>,
    /// PDUs and digests.
    #[serde(flatten)]
    pub traffic: TrafficReport,
    /// Commands outstanding.
    pub depth: Depth,
    /// By type, then opcode.
    pub commands: Vec<CommandReport>,
}

/// Commands outstanding, without Asynchronous Event Requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Depth {
    /// At most.
    pub max: u32,
    /// On average between the first command and the last response.
    pub mean: f64,
}

/// All commands of one opcode on one queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommandReport {
    /// Name, as `nvmfspec trace` has it.
    pub command: String,
    /// How many were sent.
    pub count: u64,
    /// How many of them were not answered.
    pub unanswered: u64,
    /// Data from the host, bytes.
    pub bytes_to_controller: u64,
    /// Data from the controller, bytes.
    pub bytes_to_host: u64,
    /// Responses with a status that is not success.
    pub errors: u64,
    /// The same by status.
    pub errors_by_status: Vec<ErrorReport>,
    /// Response times; `None` where nothing was answered, and for Asynchronous Event Requests, which wait for an event.
    pub latency: Option<Latencies>,
}

/// One status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorReport {
    /// Status Code Type, Status Code and name.
    pub status: String,
    /// How often.
    pub count: u64,
}

/// Depth and response times in pieces of time of equal length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timeline {
    /// Length of a piece, nanoseconds.
    pub piece_ns: u64,
    /// A line for each of the first queues, then for what is left.
    pub series: Vec<SeriesReport>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeriesReport {
    /// Which queue.
    pub name: String,
    /// Pieces in which something happened or was outstanding.
    pub pieces: Vec<PieceReport>,
}

/// A queue in a piece of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PieceReport {
    /// Where it begins, nanoseconds since the start of the capture.
    pub at_ns: u64,
    /// Most commands outstanding.
    pub depth_max: u32,
    /// Commands outstanding on average.
    pub depth_mean: f64,
    /// Commands answered.
    pub answered: u64,
    /// Median response time, to 6 %, nanoseconds.
    pub p50_ns: Option<u64>,
    /// 99th percentile, to 6 %, nanoseconds.
    pub p99_ns: Option<u64>,
}

pub(super) fn of(stats: &Stats, followed: Followed) -> Report {
    let (start_ns, end_ns) = stats.time.unwrap_or_default();
    Report {
        start_ns,
        duration_ns: end_ns - start_ns,
        frames: followed.frames,
        connections: stats.opened,
        other_connections: followed.others,
        traffic: traffic(&stats.traffic),
        controllers: controllers(stats),
        totals: stats.totals.values().map(command).collect(),
        timeline: timeline(stats, end_ns - start_ns),
        unlisted_connections: stats.unlisted,
        notes: stats.notes.clone(),
    }
}

fn controllers(stats: &Stats) -> Vec<ControllerReport> {
    let all = stats.controllers.iter().enumerate();
    all.map(|(number, c)| ControllerReport {
        address: c.server.to_string(),
        transport: match c.transport {
            Transport::Tcp => "tcp",
            Transport::Rdma => "rdma",
        },
        cntlid: c.cntlid,
        subnqn: c.names.as_ref().map(|n| n.subnqn.clone()),
        hostnqn: c.names.as_ref().map(|n| n.hostnqn.clone()),
        queues: stats.queues.iter().filter(|q| q.controller == number).map(queue).collect(),
    })
    .collect()
}

fn queue(q: &super::Queue) -> QueueReport {
    let nanos = q.depth.span.map_or(0, |(first, last)| last - first);
    QueueReport {
        qid: q.qid,
        entries: q.entries,
        connections: q.connections,
        connection_numbers: q.named.clone(),
        traffic: traffic(&q.traffic),
        depth: Depth { max: q.depth.max, mean: mean(q.depth.area, nanos) },
        commands: q.rows.values().map(command).collect(),
    }
}

fn mean(area: u128, nanos: u64) -> f64 {
    // Three decimals are enough, and are the same wherever they are printed.
    if nanos == 0 { 0.0 } else { (area as f64 / nanos as f64 * 1000.0).round() / 1000.0 }
}

fn traffic(t: &Traffic) -> TrafficReport {
    let [pdus_to_controller, pdus_to_host] = t.pdus;
    TrafficReport {
        pdus_to_controller,
        pdus_to_host,
        packets_to_controller: t.packets[Direction::HostToController.index()],
        packets_to_host: t.packets[Direction::ControllerToHost.index()],
        retransmissions: t.repeated,
        bad_icrcs: t.bad_icrc,
        bad_header_digests: t.bad_hdgst,
        bad_data_digests: t.bad_ddgst,
        undecodable: t.undecodable,
        gaps: t.missed,
    }
}

fn command(row: &Row) -> CommandReport {
    let mut errors_by_status: Vec<ErrorReport> = row
        .errors
        .iter()
        .map(|((status, fabrics), count)| ErrorReport { status: Status(*status).show(*fabrics).to_string(), count: *count })
        .collect();
    if row.more_errors > 0 {
        errors_by_status.push(ErrorReport { status: "other status codes".to_owned(), count: row.more_errors });
    }
    CommandReport {
        command: row.name.clone(),
        count: row.sent,
        unanswered: row.sent.saturating_sub(row.answered),
        bytes_to_controller: row.bytes[Direction::HostToController.index()],
        bytes_to_host: row.bytes[Direction::ControllerToHost.index()],
        errors: errors_by_status.iter().map(|e| e.count).sum(),
        errors_by_status,
        latency: row.times.report(),
    }
}

fn timeline(stats: &Stats, duration_ns: u64) -> Timeline {
    let width = stats.timeline.width_ns;
    let several = stats.controllers.len() > 1;
    let name = |line: usize| {
        let owner = stats.queues.iter().find(|q| q.line == line);
        let [admin, io] = stats.rest;
        match owner {
            _ if admin == Some(line) => "other Admin Queues".to_owned(),
            _ if io == Some(line) => "other I/O queues".to_owned(),
            Some(q) if several => format!("controller {}, {}", q.controller + 1, queue_name(q.qid)),
            Some(q) => queue_name(q.qid),
            None => "queues".to_owned(),
        }
    };
    let piece = |(number, p): (usize, &super::timeline::Piece)| {
        let at_ns = number as u64 * width;
        let answered = p.times.count();
        (answered > 0 || p.depth_max > 0).then(|| PieceReport {
            at_ns,
            depth_max: p.depth_max,
            depth_mean: mean(p.area, width.min(duration_ns.saturating_sub(at_ns))),
            answered,
            p50_ns: (answered > 0).then(|| p.times.quantile(0.5)),
            p99_ns: (answered > 0).then(|| p.times.quantile(0.99)),
        })
    };
    let series = stats.timeline.series.iter().enumerate().map(|(line, s)| SeriesReport {
        name: name(line),
        pieces: s.pieces.iter().take(PIECES).enumerate().filter_map(piece).collect(),
    });
    Timeline { piece_ns: width, series: series.collect() }
}

pub(crate) fn queue_name(qid: Option<u16>) -> String {
    match qid {
        Some(0) => "Admin Queue".to_owned(),
        Some(qid) => format!("I/O queue {qid}"),
        None => "queue without a Connect".to_owned(),
    }
}
