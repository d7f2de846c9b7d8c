//! Why an association ended that should not have.

use core::fmt;

use nvmf_spec::Violation;
use nvmf_wire::cqe::ConnectInvalid;
use nvmf_wire::tcp::Fes;
use nvmf_wire::{Cqe, Qid, Status};

use super::connection::{Negotiated, Waiting};

/// What a host is about before ICReq and ICResp were exchanged: a peer that fails here may not speak NVMe/TCP at all.
pub const ESTABLISHMENT: &str = "connection establishment";

/// Why an association ended. An error status of a user's command is no such reason.
#[derive(Clone, Debug)]
pub enum HostError {
    /// A connection could not be opened.
    Open {
        /// For which queue.
        qid: Qid,
        /// In the words of the driver, or what a REJ says.
        why: String,
    },
    /// The controller closed a connection.
    Lost {
        /// Of which queue.
        qid: Qid,
        /// With RST rather than FIN.
        reset: bool,
        /// What the host was about.
        during: &'static str,
    },
    /// The controller did not read for so long that nothing could be sent.
    Stalled {
        /// On which queue.
        qid: Qid,
    },
    /// A Connect command failed.
    Refused {
        /// For which queue.
        qid: Qid,
        /// The answer, with IPO and IATTR where the status is Connect Invalid Parameters.
        cqe: Cqe,
    },
    /// The controller demands authentication, which this host does not do.
    AuthenticationRequired,
    /// The controller does not grant the digests that the settings insist on. [TCP-DGST-17]
    DigestsRefused(Negotiated),
    /// A command that bring-up needs failed.
    Command {
        /// Which one.
        what: &'static str,
        /// How.
        status: Status,
    },
    /// The controller answered with something that cannot be worked with.
    Unusable(&'static str),
    /// CSTS.RDY did not become what it should within CAP.TO or CRTO.
    NotReady,
    /// CSTS.CFS: the controller reports a fatal error. [FAB-INIT-25]
    Fatal,
    /// CSTS.SHST did not report a complete shutdown in time.
    NoShutdown,
    /// Time ran out.
    TimedOut {
        /// On which queue.
        qid: Qid,
        /// What was waited for.
        waiting: Waiting,
        /// What the host was about.
        during: &'static str,
    },
    /// RDMA: the queue pair is in error. [RDMA-ERR-02]
    Broken {
        /// Of which queue.
        qid: Qid,
        /// How.
        why: &'static str,
        /// What the host was about.
        during: &'static str,
    },
    /// The controller broke the transport's rules, and an H2CTermReq was sent, or over RDMA the connection ended.
    Violation {
        /// On which queue.
        qid: Qid,
        /// What it did.
        violation: Violation,
        /// What the host was about.
        during: &'static str,
    },
    /// The controller sent a C2HTermReq.
    TermReq {
        /// On which queue.
        qid: Qid,
        /// Fatal Error Status.
        fes: Fes,
        /// Fatal Error Information.
        fei: u32,
    },
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { qid, why } => write!(f, "queue {}: {why}", qid.0),
            Self::Lost { qid, reset, during } => {
                write!(
                    f,
                    "queue {}: the controller {} the connection during {during}",
                    qid.0,
                    if *reset { "reset" } else { "closed" }
                )
            }
            Self::Stalled { qid } => write!(f, "queue {}: the controller does not read", qid.0),
            Self::Refused { qid, cqe } => {
                write!(f, "queue {}: Connect refused with {}", qid.0, cqe.status().show(true))?;
                if cqe.status().code() == Status::CONNECT_INVALID_PARAMETERS {
                    let p = ConnectInvalid::from_bytes(*cqe.as_bytes());
                    write!(f, " (IPO {} in the {})", p.ipo(), if p.iattr() == 1 { "data" } else { "SQE" })?;
                }
                Ok(())
            }
            Self::AuthenticationRequired => f.write_str("the controller demands authentication"),
            Self::DigestsRefused(n) => {
                write!(f, "digests not granted (header {}, data {})", on(n.digests.header), on(n.digests.data))
            }
            Self::Command { what, status } => write!(f, "{what} failed with {}", status.show(true)),
            Self::Unusable(what) => f.write_str(what),
            Self::NotReady => f.write_str("the controller did not change CSTS.RDY within its own timeout"),
            Self::Fatal => f.write_str("the controller reports a fatal error (CSTS.CFS)"),
            Self::NoShutdown => f.write_str("the controller did not complete its shutdown in time"),
            Self::Broken { qid, why, during } => write!(f, "queue {}: {why} during {during}", qid.0),
            Self::TimedOut { qid, waiting: Waiting::Rep, .. } => write!(f, "queue {}: no answer to the CM REQ in time", qid.0),
            Self::TimedOut { qid, waiting: Waiting::IcResp, .. } => write!(f, "queue {}: no ICResp in time", qid.0),
            Self::TimedOut { qid, waiting: Waiting::Command(c), during } => {
                write!(f, "queue {}: no answer to command {:#06x} in time during {during}", qid.0, c.0)
            }
            Self::Violation { qid, violation, .. } => write!(f, "queue {}: {violation}; answered: {}", qid.0, violation.answer),
            Self::TermReq { qid, fes, fei } => {
                write!(
                    f,
                    "queue {}: the controller ended the connection with C2HTermReq: FES {:02X}h {fes}, FEI {fei:#x}",
                    qid.0, fes.0
                )
            }
        }
    }
}

impl std::error::Error for HostError {}

fn on(yes: bool) -> &'static str {
    if yes { "on" } else { "off" }
}
