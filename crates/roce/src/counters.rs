//! What became of packets, by reason.

/// Counts since the NIC was made. A packet that is dropped changes nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams handed in.
    pub received: u64,
    /// Datagrams given out.
    pub sent: u64,
    /// Dropped: no IPv4 or IPv6 with UDP right behind, lengths that contradict each other, or a fragment.
    pub not_ip: u64,
    /// Dropped: to another address, or another UDP port than 4791.
    pub not_ours: u64,
    /// Dropped: ends within its headers or its padding.
    pub truncated: u64,
    /// Dropped: wrong ICRC. [ROCE-ICRC-01]
    pub bad_icrc: u64,
    /// Dropped: transport header version. [ROCE-BTH-01]
    pub bad_version: u64,
    /// Dropped: P_Key of another partition.
    pub bad_pkey: u64,
    /// Dropped: no such queue pair.
    pub unknown_qp: u64,
    /// Dropped: from another address than the peer's.
    pub wrong_peer: u64,
    /// Dropped: the queue pair is not in a state to take it.
    pub wrong_state: u64,
    /// Dropped: no opcode of a reliable connection.
    pub wrong_transport: u64,
    /// Dropped: for queue pair 1, and not a CM message. [ROCE-CM-01, ROCE-CM-02]
    pub bad_mad: u64,
    /// Dropped: a CM message for no connection of ours, or not in its present state.
    pub stray_cm: u64,
    /// REQs answered by REJ.
    pub refused_req: u64,
    /// Messages to be sent that found the queue full (`NicSettings::max_control`).
    pub control_full: u64,
    /// Requests with a PSN ahead of the expected one.
    pub psn_ahead: u64,
    /// Requests with a PSN behind the expected one.
    pub duplicate: u64,
    /// Dropped: responses for a PSN that is not outstanding (ghost acknowledgements). [ROCE-ACK-01]
    pub ghost: u64,
    /// Acknowledgements sent.
    pub acks_sent: u64,
    /// NAKs sent: PSN sequence error.
    pub nak_sequence: u64,
    /// NAKs sent: invalid request.
    pub nak_invalid: u64,
    /// NAKs sent: remote access error.
    pub nak_access: u64,
    /// NAKs sent: remote operational error.
    pub nak_operational: u64,
    /// RNR NAKs sent.
    pub rnr_sent: u64,
    /// RNR NAKs that came.
    pub rnr_received: u64,
    /// Times that a requester went back: after a NAK, a gap in READ responses, or a timeout.
    pub went_back: u64,
    /// Local ACK timeouts.
    pub timeouts: u64,
    /// Packets that came with a congestion mark (CE).
    pub congestion_marks: u64,
    /// CNPs sent.
    pub cnps_sent: u64,
    /// CNPs that came for a queue pair of ours.
    pub cnps_received: u64,
    /// Packets that could not be shown, as too many waited (`NicSettings::max_shown`).
    pub not_shown: u64,
}
