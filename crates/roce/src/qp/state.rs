//! The states of a queue pair, as a table. [IBA vol. 1, 10.3.1]
//!
//! ```text
//! RESET --Assigned--> INIT --PeerKnown--> RTR --Established--> RTS
//!   |                  |                   |                    |
//!   +------------------+------- Fault -----+--------------------+---> ERR
//! ```
//!
//! SQD (send queue drained) and SQE (send queue error) are not there: draining is a wish of consumers that nothing here has, and a
//! reliable connection goes from a failed send to ERR.

/// State of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpState {
    /// Made, nothing known.
    Reset,
    /// Receives may be posted; all packets are dropped.
    Init,
    /// Ready to receive: answers requests, sends none.
    Rtr,
    /// Ready to send.
    Rts,
    /// All work is flushed, all packets are dropped.
    Err,
}

/// What moves a queue pair on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpEvent {
    /// CM took it for a connection.
    Assigned,
    /// The other side's queue pair, address, PSN and path MTU are known.
    PeerKnown,
    /// The consumer may send.
    Established,
    /// A transport or protection error, or the end of the connection.
    Fault,
}

/// From, event, to. What is not here changes nothing.
pub(crate) const TABLE: [(QpState, QpEvent, QpState); 7] = [
    (QpState::Reset, QpEvent::Assigned, QpState::Init),
    (QpState::Init, QpEvent::PeerKnown, QpState::Rtr),
    (QpState::Rtr, QpEvent::Established, QpState::Rts),
    (QpState::Reset, QpEvent::Fault, QpState::Err),
    (QpState::Init, QpEvent::Fault, QpState::Err),
    (QpState::Rtr, QpEvent::Fault, QpState::Err),
    (QpState::Rts, QpEvent::Fault, QpState::Err),
];

impl QpState {
    /// The state behind `event`.
    pub(crate) fn after(self, event: QpEvent) -> Self {
        TABLE.iter().find(|(from, on, _)| (*from, *on) == (self, event)).map_or(self, |(_, _, to)| *to)
    }

    /// Requests and responses of the other side are looked at.
    pub(crate) fn receives(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_that_of_the_drawing() {
        let rows: Vec<String> = TABLE.iter().map(|(from, on, to)| format!("{from:?} --{on:?}--> {to:?}")).collect();
        insta::assert_snapshot!(rows.join("\n"));
        // Nothing leads out of ERR, and every other state into it.
        use QpEvent::*;
        use QpState::*;
        assert!([Assigned, PeerKnown, Established, Fault].iter().all(|e| Err.after(*e) == Err));
        assert!([Reset, Init, Rtr, Rts].iter().all(|s| s.after(Fault) == Err));
        assert_eq!([Reset, Init, Rtr, Rts, Err].map(QpState::receives), [false, false, true, true, false]);
    }
}
