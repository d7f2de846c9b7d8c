//! What went over the wire, as a bystander sees it: capture files, PDU streams, traces and the rules that bytes alone can break.
//!
//! What it is: [`Capture`] reads pcap and pcapng and puts TCP streams together; [`Recorder`] takes the bytes of a live connection.
//! Both give a [`Connection`]: PDUs in order, with times. [`Trace`] prints one line a PDU, [`fields`] shows what is in it under
//! Wireshark's names, [`pcapng`] writes an [`Exchange`] as packets, and [`Judge`] finds breaches of the specifications.
//!
//! What it is not: an end of a connection. It never depends on `engine`: the judge shares with the judged only the layouts of
//! `wire`.
//!
//! Read [`exchange`] first.
#![deny(missing_docs)]

pub mod compare;
pub mod exchange;
pub mod fields;
mod file;
pub mod follow;
mod hunt;
#[rustfmt::skip] // generated
mod judged;
mod kept;
pub mod ladder;
pub mod lint;
pub mod live;
mod message;
mod packet;
pub mod pcapng;
pub mod roce;
pub mod rules;
pub mod session;
pub mod stats;
mod stream;
mod tcp;
pub mod tls;
pub mod trace;

pub use exchange::{Connection, Direction, Ends, Event, EventKind, Exchange, Recorder, Transport};
pub use file::CaptureError;
pub use follow::{Follow, Followed, Live, Watcher};
pub use judged::JUDGED;
pub use kept::Capture;
pub use ladder::Ladder;
pub use roce::{Packet, Rdma};
pub use rules::{Finding, Judge};
pub use session::Session;
pub use stats::Stats;
pub use trace::Trace;
