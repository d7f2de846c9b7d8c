//! Whatever bytes come at whatever point: no panic, no growth beyond the limits, and the target goes on serving others.

use std::time::Duration;

use crate::common::*;
use bytes::Bytes;
use nvmf_engine::{ControllerSettings, TcpSettings};
use nvmf_wire::property::Property;
use nvmf_wire::sqe::IoOpcode;
use nvmf_wire::tcp::Digests;
use nvmf_wire::{Cid, Cntlid, SglDescriptor, Sqe};
use proptest::collection::vec;
use proptest::prelude::*;

/// Where the bytes strike.
#[derive(Clone, Copy, Debug)]
enum At {
    Fresh,
    Initialized,
    Admin,
    Enabled,
    Io,
    MidWrite,
}

/// One thing that a hostile host sends.
#[derive(Clone, Debug)]
enum Act {
    Raw(Vec<u8>),
    /// A capsule around these 64 bytes, framed right, with that much data.
    Capsule(Vec<u8>, usize),
    /// An almost right command: opcode, CID, NSID, descriptor type and length, CDW10 to 12.
    Command(u8, u8, u32, u8, u32, [u32; 3]),
    H2c {
        cid: u16,
        ttag: u16,
        at: u32,
        len: u16,
        last: bool,
    },
    Time(u32),
}

fn settings() -> (ControllerSettings, TcpSettings) {
    let controller = ControllerSettings { admin_queue_entries: 32, io_queue_entries: 32, ..ControllerSettings::default() };
    (controller, TcpSettings { max_held: 1 << 20, max_r2tl: 8192, maxh2cdata: 8192, ..TcpSettings::default() })
}

fn at() -> impl Strategy<Value = At> {
    prop_oneof![Just(At::Fresh), Just(At::Initialized), Just(At::Admin), Just(At::Enabled), Just(At::Io), Just(At::MidWrite)]
}

fn act() -> impl Strategy<Value = Act> {
    let small = prop_oneof![0u32..16, Just(512), Just(1024), Just(4096), any::<u32>()];
    prop_oneof![
        vec(any::<u8>(), 0..200).prop_map(Act::Raw),
        (vec(any::<u8>(), 64), 0usize..9000).prop_map(|(s, n)| Act::Capsule(s, n)),
        (
            prop_oneof![Just(0x7fu8), 0u8..0x20, any::<u8>()],
            any::<u8>(),
            prop_oneof![0u32..5, any::<u32>()],
            prop_oneof![Just(0x5au8), Just(1u8), any::<u8>()],
            small,
            any::<[u32; 3]>(),
        )
            .prop_map(|(o, c, n, t, l, d)| Act::Command(o, c, n, t, l, d.map(|x| x & 0x00ff_00ff))),
        (0u16..64, 0u16..8, 0u32..5, 0u16..5, any::<bool>()).prop_map(|(cid, ttag, at, len, last)| Act::H2c {
            cid,
            ttag,
            at: at * 4096,
            len: len * 2048,
            last
        }),
        (0u32..200_000).prop_map(Act::Time),
    ]
}

fn start(rig: &mut Rig, at: At) -> Conn {
    match at {
        At::Fresh => rig.open(),
        At::Initialized => {
            let c = rig.open();
            rig.init(c, |_| {});
            c
        }
        At::Admin => rig.admin().0,
        At::Enabled => rig.enabled().0,
        At::Io => rig.io().1,
        At::MidWrite => {
            let io = rig.io().1;
            let sqe = rw(IoOpcode::WRITE, 1, 0, 64, SglDescriptor::transport(32768)).with(|s| s.cid(Cid(5)));
            rig.submit(io, sqe, Bytes::new());
            io
        }
    }
}

fn bytes_of(act: &Act) -> Vec<u8> {
    let capsule = |sqe: Sqe, data: usize| frame(&capsule_header(&sqe), Bytes::from(vec![0xa5; data]), Digests::default(), 4);
    match act {
        Act::Raw(b) => b.clone(),
        Act::Capsule(s, n) => capsule(Sqe::read(s).unwrap(), *n),
        Act::Command(opc, cid, nsid, kind, len, dw) => {
            let mut b = *Sqe::new().with(|s| s.cid(Cid(u16::from(*cid))).psdt(1)).as_bytes();
            b[0] = *opc;
            b[4..8].copy_from_slice(&nsid.to_le_bytes());
            b[32..36].copy_from_slice(&len.to_le_bytes());
            b[39] = *kind;
            for (i, d) in dw.iter().enumerate() {
                b[40 + 4 * i..44 + 4 * i].copy_from_slice(&d.to_le_bytes());
            }
            capsule(Sqe::from_bytes(b), if *kind == 1 { (*len as usize).min(8192) } else { 0 })
        }
        Act::H2c { cid, ttag, at, len, last } => {
            let header = h2c_header(|h| put(h.set().cccid(Cid(*cid)).ttag(*ttag).datao(*at).datal(u32::from(*len)).last(*last)));
            frame(&header, Bytes::from(vec![0x5a; usize::from(*len)]), Digests::default(), 4)
        }
        Act::Time(_) => Vec::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_and_nothing_grows(at in at(), acts in vec(act(), 1..60), piece in 1usize..4000) {
        let (controller, tcp) = settings();
        // 32 slots twice, one capsule each, the data of commands, and one PDU being received.
        let most = 2 * 32 * (8192 + 64) + tcp.max_held + 300_000;
        let mut rig = Rig::new(controller, tcp);
        let c = start(&mut rig, at);
        for act in &acts {
            if let Act::Time(ms) = act {
                rig.pass(Duration::from_millis(u64::from(*ms)));
            }
            for part in bytes_of(act).chunks(piece) {
                rig.send(c, part);
                prop_assert!(rig.held(c) <= most);
            }
        }
        // Others are served as before.
        let (other, _) = rig.enabled();
        prop_assert_eq!(rig.property(other, Property::CSTS), 1);
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_host_that_does_not_read_is_stalled(opcode in prop_oneof![Just(2u8), Just(1), Just(0x7f)], count in 4000usize..6000) {
        // Nothing is polled: whatever the queue allows is held, no more.
        let (_, tcp) = settings();
        let most = tcp.max_held + 600_000;
        let mut conn = nvmf_engine::tcp::ControllerConnection::new(nvmf_seam::Instant(1), std::sync::Arc::new(tcp));
        conn.handle_bytes(nvmf_seam::Instant(1), &ic_req(nvmf_wire::tcp::IcReq::new()));
        let mut sqe = *rw(IoOpcode(opcode), 1, 0, 1, SglDescriptor::transport(512)).as_bytes();
        for i in 0..count {
            sqe[2..4].copy_from_slice(&(i as u16).to_le_bytes());
            conn.handle_bytes(nvmf_seam::Instant(1), &frame(&capsule_header(&Sqe::from_bytes(sqe)), Bytes::new(), Digests::default(), 4));
            prop_assert!(conn.held() <= most, "{} held", conn.held());
        }
    }
}

#[test]
fn a_connect_that_is_never_answered_does_not_open_the_gates() {
    let mut conn = nvmf_engine::tcp::ControllerConnection::new(nvmf_seam::Instant(1), std::sync::Arc::new(TcpSettings::default()));
    conn.handle_bytes(nvmf_seam::Instant(1), &ic_req(nvmf_wire::tcp::IcReq::new()));
    let (sqe, data) = connect(0, 31, 1000, Cntlid::DYNAMIC);
    conn.handle_bytes(nvmf_seam::Instant(1), &frame(&capsule_header(&sqe), data, Digests::default(), 4));
    assert!(conn.poll_message().is_some());
    for _ in 0..10_000 {
        conn.handle_bytes(nvmf_seam::Instant(1), &[0; 4096]);
        assert!(conn.held() < 1 << 20, "{}", conn.held());
    }
}
