//! PDUs made by hand, field by field at its offset, and a connection to feed them to.

pub mod rig;

use bytes::Bytes;
use nvmf_engine::host::{Completion, HostEvent, HostTcpSettings, Payload, command};
use nvmf_engine::tcp::host::HostConnection;
use nvmf_seam::Instant;
use nvmf_wire::tcp::Digests;
use nvmf_wire::{Cid, Nsid, Qid};

pub const T0: Instant = Instant(1_000_000_000);

/// A PDU of `plen` bytes, zero but for the common header and what `fields` put at their offsets.
pub fn pdu(ptype: u8, flags: u8, hlen: u8, pdo: u8, plen: u32, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut b = vec![0; (plen as usize).max(8)];
    b[..4].copy_from_slice(&[ptype, flags, hlen, pdo]);
    b[4..8].copy_from_slice(&plen.to_le_bytes());
    for (at, bytes) in fields {
        b[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    b
}

pub fn icresp(cpda: u8, dgst: u8, maxh2cdata: u32) -> Vec<u8> {
    pdu(1, 0, 128, 0, 128, &[(10, &[cpda, dgst]), (12, &maxh2cdata.to_le_bytes())])
}

/// C2HData without digests: data at byte 24.
pub fn c2h(flags: u8, cid: u16, datao: u32, data: &[u8]) -> Vec<u8> {
    let (o, l) = (datao.to_le_bytes(), (data.len() as u32).to_le_bytes());
    pdu(7, flags, 24, 24, 24 + data.len() as u32, &[(8, &cid.to_le_bytes()), (12, &o), (16, &l), (24, data)])
}

pub fn r2t(cid: u16, ttag: u16, r2to: u32, r2tl: u32) -> Vec<u8> {
    let (o, l) = (r2to.to_le_bytes(), r2tl.to_le_bytes());
    pdu(9, 0, 24, 0, 24, &[(8, &cid.to_le_bytes()), (10, &ttag.to_le_bytes()), (12, &o), (16, &l)])
}

/// CapsuleResp; `status` is the 15-bit field.
pub fn resp(cid: u16, sqhd: u16, status: u16) -> Vec<u8> {
    let s = (status << 1).to_le_bytes();
    pdu(5, 0, 24, 0, 24, &[(16, &sqhd.to_le_bytes()), (20, &cid.to_le_bytes()), (22, &s)])
}

/// The reference CRC-32C, bit by bit: another one than the code's.
pub fn crc32c(bytes: &[u8]) -> [u8; 4] {
    let mut crc = u32::MAX;
    for b in bytes {
        crc ^= u32::from(*b);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    (!crc).to_le_bytes()
}

pub struct Peer {
    pub host: HostConnection,
    pub now: Instant,
}

impl Peer {
    /// An I/O queue whose ICReq was taken and ICResp is still due.
    pub fn starting(settings: HostTcpSettings) -> Self {
        let mut host = HostConnection::new(settings, Qid(1), 32, 1 << 20, 0, T0);
        assert_eq!(host.poll_transmit(T0).expect("an ICReq").to_bytes().len(), 128);
        Self { host, now: T0 }
    }

    /// Ready, after this ICResp.
    pub fn ready_with(settings: HostTcpSettings, icresp: &[u8]) -> Self {
        let mut p = Self::starting(settings);
        p.give(icresp);
        assert!(matches!(p.host.poll_event(), Some(HostEvent::Ready(_))));
        p
    }

    /// Ready, without digests, MAXH2CDATA 4096.
    pub fn ready() -> Self {
        Self::ready_with(HostTcpSettings::default(), &icresp(0, 0, 4096))
    }

    pub fn give(&mut self, bytes: &[u8]) {
        self.host.handle_bytes(bytes, self.now);
    }

    pub fn sent(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.host.poll_transmit(self.now)).map(|t| t.to_bytes().to_vec()).collect()
    }

    pub fn events(&mut self) -> Vec<HostEvent> {
        std::iter::from_fn(|| self.host.poll_event()).collect()
    }

    pub fn completions(&mut self) -> Vec<Completion> {
        self.events()
            .into_iter()
            .filter_map(|e| match e {
                HostEvent::Completed(c) => Some(c),
                _ => None,
            })
            .collect()
    }

    /// A Read of `bytes`, its capsule sent.
    pub fn read(&mut self, bytes: u32) -> Cid {
        let cid = self.host.submit(command::read(Nsid(1), 0, bytes / 512), Payload::In(bytes), None).expect("a place");
        assert_eq!(self.sent().len(), 1);
        cid
    }

    /// A Write of `bytes` outside the capsule, its capsule sent.
    pub fn write(&mut self, bytes: usize) -> Cid {
        let cid = self.submit_write(bytes);
        assert_eq!(self.sent().len(), 1);
        cid
    }

    pub fn submit_write(&mut self, bytes: usize) -> Cid {
        let data: Bytes = (0..bytes).map(|i| (i / 4) as u8).collect();
        self.host.submit(command::write(Nsid(1), 0, (bytes / 512) as u32), Payload::Out(data), None).expect("a place")
    }

    /// The one PDU sent, which has to be an H2CTermReq: FES, FEI, and the header that it returns. Also checks that the connection
    /// is deaf from then on and closes 30 s later. [TCP-TERM-14, TCP-TERM-20]
    pub fn terminated(&mut self) -> (u16, u32, Vec<u8>) {
        let sent = self.sent();
        assert_eq!(sent.len(), 1, "{:?}", self.events());
        let t = &sent[0];
        assert_eq!((t[0], t[1], t[2], t[3]), (2, 0, 24, 0));
        assert_eq!(u32::from_le_bytes(t[4..8].try_into().unwrap()) as usize, t.len());
        assert!((24..=152).contains(&t.len()));
        assert!(t[14..24].iter().all(|b| *b == 0), "reserved bytes");
        self.events();
        self.give(&resp(0, 0, 0));
        assert!(self.events().is_empty() && self.sent().is_empty(), "deaf after a fatal error");
        let end = self.host.poll_timeout().expect("a timer");
        assert_eq!(end.since(self.now).as_secs(), 30);
        self.host.handle_timeout(end);
        assert!(matches!(self.events()[..], [HostEvent::Close { reset: false }]));
        (u16::from_le_bytes([t[8], t[9]]), u32::from_le_bytes(t[10..14].try_into().unwrap()), t[24..].to_vec())
    }
}

pub fn digests(header: bool, data: bool) -> HostTcpSettings {
    HostTcpSettings { digests: Digests { header, data }, ..HostTcpSettings::default() }
}
