//! What TLS says of itself on a connection that carries PDUs.

use std::fmt;

use bytes::Bytes;

nvmf_wire::open_enum! {
    /// A cipher suite. NVMe/TCP demands the first and recommends the second. [RFC 8446, B.4; NVMe/TCP 1.0, 3.6.1.1]
    pub struct Suite(u16) {
        AES_128_GCM_SHA256 = 0x1301 "TLS_AES_128_GCM_SHA256",
        AES_256_GCM_SHA384 = 0x1302 "TLS_AES_256_GCM_SHA384",
        CHACHA20_POLY1305_SHA256 = 0x1303 "TLS_CHACHA20_POLY1305_SHA256",
        AES_128_CCM_SHA256 = 0x1304 "TLS_AES_128_CCM_SHA256",
        AES_128_CCM_8_SHA256 = 0x1305 "TLS_AES_128_CCM_8_SHA256",
        EMPTY_RENEGOTIATION_INFO = 0x00ff "TLS_EMPTY_RENEGOTIATION_INFO_SCSV",
        PSK_AES_128_CBC_SHA256 = 0x00ae "TLS_PSK_WITH_AES_128_CBC_SHA256",
        DHE_PSK_AES_128_GCM_SHA256 = 0x00aa "TLS_DHE_PSK_WITH_AES_128_GCM_SHA256",
        DHE_PSK_AES_128_CCM = 0xc0a6 "TLS_DHE_PSK_WITH_AES_128_CCM",
    }
    /// A protocol version. [RFC 8446, 4.2.1]
    pub struct Version(u16) {
        TLS_1_0 = 0x0301 "TLS 1.0",
        TLS_1_1 = 0x0302 "TLS 1.1",
        TLS_1_2 = 0x0303 "TLS 1.2",
        TLS_1_3 = 0x0304 "TLS 1.3",
    }
    /// A group of the key exchange. [RFC 8446, 4.2.7]
    pub struct Group(u16) {
        SECP256R1 = 0x0017 "secp256r1",
        SECP384R1 = 0x0018 "secp384r1",
        SECP521R1 = 0x0019 "secp521r1",
        X25519 = 0x001d "x25519",
        X448 = 0x001e "x448",
        FFDHE2048 = 0x0100 "ffdhe2048",
        FFDHE3072 = 0x0101 "ffdhe3072",
        FFDHE4096 = 0x0102 "ffdhe4096",
        FFDHE6144 = 0x0103 "ffdhe6144",
        FFDHE8192 = 0x0104 "ffdhe8192",
        X25519_MLKEM768 = 0x11ec "X25519MLKEM768",
    }
    /// What an alert says. [RFC 8446, 6]
    pub struct Alert(u8) {
        CLOSE_NOTIFY = 0 "close_notify",
        UNEXPECTED_MESSAGE = 10 "unexpected_message",
        BAD_RECORD_MAC = 20 "bad_record_mac",
        RECORD_OVERFLOW = 22 "record_overflow",
        HANDSHAKE_FAILURE = 40 "handshake_failure",
        BAD_CERTIFICATE = 42 "bad_certificate",
        UNSUPPORTED_CERTIFICATE = 43 "unsupported_certificate",
        CERTIFICATE_REVOKED = 44 "certificate_revoked",
        CERTIFICATE_EXPIRED = 45 "certificate_expired",
        CERTIFICATE_UNKNOWN = 46 "certificate_unknown",
        ILLEGAL_PARAMETER = 47 "illegal_parameter",
        UNKNOWN_CA = 48 "unknown_ca",
        ACCESS_DENIED = 49 "access_denied",
        DECODE_ERROR = 50 "decode_error",
        DECRYPT_ERROR = 51 "decrypt_error",
        PROTOCOL_VERSION = 70 "protocol_version",
        INSUFFICIENT_SECURITY = 71 "insufficient_security",
        INTERNAL_ERROR = 80 "internal_error",
        INAPPROPRIATE_FALLBACK = 86 "inappropriate_fallback",
        USER_CANCELED = 90 "user_canceled",
        MISSING_EXTENSION = 109 "missing_extension",
        UNSUPPORTED_EXTENSION = 110 "unsupported_extension",
        UNRECOGNIZED_NAME = 112 "unrecognized_name",
        BAD_CERTIFICATE_STATUS_RESPONSE = 113 "bad_certificate_status_response",
        UNKNOWN_PSK_IDENTITY = 115 "unknown_psk_identity",
        CERTIFICATE_REQUIRED = 116 "certificate_required",
        NO_APPLICATION_PROTOCOL = 120 "no_application_protocol",
    }
}

/// Something that TLS did, in words and values: not the PDUs that it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// ClientHello: what the host offers.
    ClientHello {
        /// Client random, by which a key log tells the connection.
        random: [u8; 32],
        /// Cipher suites, best first.
        suites: Vec<Suite>,
        /// PSK identities, in NVMe/TCP of the form `NVMe0R01 HOSTNQN SUBNQN`; best first. [NVMe/TCP 1.0, 3.6.1.3]
        identities: Vec<Bytes>,
        /// Early data is announced, which NVMe/TCP forbids.
        early_data: bool,
    },
    /// HelloRetryRequest: the controller asks for another ClientHello.
    HelloRetryRequest {
        /// The suite that it will take.
        suite: Suite,
        /// The group that it wants a key share of.
        group: Option<Group>,
    },
    /// ServerHello: what the connection will use.
    ServerHello {
        /// The version, by supported_versions where that is there.
        version: Version,
        /// The cipher suite.
        suite: Suite,
        /// The group of the key exchange; `None` where a PSK alone makes the keys.
        group: Option<Group>,
        /// The PSK identity that was chosen, if any.
        identity: Option<Bytes>,
    },
    /// Finished: this side's part of the handshake is over.
    Finished,
    /// NewSessionTicket, with its lifetime in seconds.
    NewSessionTicket(u32),
    /// KeyUpdate: this side's next record has new keys. True where it asks the other side for the same.
    KeyUpdate(bool),
    /// An alert; close_notify is the ordinary end.
    Alert(Alert),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientHello { suites, identities, early_data, .. } => {
                f.write_str("TLS ClientHello suites=")?;
                for (i, s) in suites.iter().enumerate() {
                    write!(f, "{}{s}", if i > 0 { "," } else { "" })?;
                }
                for id in identities {
                    write!(f, " identity=\"{}\"", id.escape_ascii())?;
                }
                if *early_data { f.write_str(" early_data") } else { Ok(()) }
            }
            Self::HelloRetryRequest { suite, group } => {
                write!(f, "TLS HelloRetryRequest suite={suite}")?;
                group.map_or(Ok(()), |g| write!(f, " group={g}"))
            }
            Self::ServerHello { version, suite, group, identity } => {
                write!(f, "TLS ServerHello version=\"{version}\" suite={suite}")?;
                if let Some(g) = group {
                    write!(f, " group={g}")?;
                }
                identity.as_ref().map_or(Ok(()), |id| write!(f, " identity=\"{}\"", id.escape_ascii()))
            }
            Self::Finished => f.write_str("TLS Finished"),
            Self::NewSessionTicket(lifetime) => write!(f, "TLS NewSessionTicket lifetime={lifetime}"),
            Self::KeyUpdate(asks) => write!(f, "TLS KeyUpdate{}", if *asks { " update_requested" } else { "" }),
            Self::Alert(alert) => write!(f, "TLS Alert {alert}"),
        }
    }
}
