//! One byte stream: the controller's end, the host's end, and the wire between them.

use std::collections::VecDeque;

use bytes::Bytes;
use nvmf_engine::tcp::ControllerConnection;
use nvmf_seam::{Entropy, Instant, TapPipe};

use crate::sim::SimOptions;

/// What arrives at an end.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// Bytes for the controller.
    ToController(Bytes),
    /// Bytes for the host.
    ToHost(Bytes),
    /// The host ended its direction, or the connection.
    HostGone,
    /// The controller ended the connection.
    ControllerGone {
        /// With a reset.
        reset: bool,
    },
}

pub(crate) struct Link {
    pub engine: ControllerConnection,
    pub tap: Option<TapPipe>,
    /// Arrived at the controller, which does not take it yet.
    pub backlog: VecDeque<Bytes>,
    /// Arrived at the host, not received by the player yet.
    pub inbox: VecDeque<Bytes>,
    /// The controller's end was seen by the host: true for a reset.
    pub ended: Option<bool>,
    /// The controller's side is over.
    pub done: bool,
    /// The player let go of the link.
    pub released: bool,
    /// Bytes on the way or waiting, to the controller and to the host.
    pub queued: [usize; 2],
    /// When the last segment of each direction arrives: a stream keeps its order.
    last: [Instant; 2],
}

/// Index of the direction to the controller.
pub(crate) const UP: usize = 0;
/// Index of the direction to the host.
pub(crate) const DOWN: usize = 1;

impl Link {
    pub fn new(engine: ControllerConnection, tap: Option<TapPipe>) -> Self {
        Self {
            engine,
            tap,
            backlog: VecDeque::new(),
            inbox: VecDeque::new(),
            ended: None,
            done: false,
            released: false,
            queued: [0; 2],
            last: [Instant::START; 2],
        }
    }

    /// When something sent now arrives.
    pub fn arrival(&mut self, way: usize, now: Instant, options: &SimOptions, random: &mut impl Entropy) -> Instant {
        let jitter = random.below(options.jitter.as_nanos() as u64 + 1);
        let at = (now + options.delay + core::time::Duration::from_nanos(jitter)).max(self.last[way]);
        self.last[way] = at;
        at
    }
}

/// Cuts bytes into segments of random sizes.
pub(crate) fn segments(bytes: &Bytes, options: &SimOptions, random: &mut impl Entropy) -> Vec<Bytes> {
    let (least, most) = (options.segment.0.max(1), options.segment.1.max(options.segment.0).max(1));
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let n = (least + random.below((most - least) as u64 + 1) as usize).min(bytes.len() - at);
        out.push(bytes.slice(at..at + n));
        at += n;
    }
    out
}
