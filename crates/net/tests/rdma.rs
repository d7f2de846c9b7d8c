//! Our host against our target over RDMA, RoCEv2 between two addresses of loopback; one hub for both transports.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use nvmf_engine::controller::NewNamespace;
use nvmf_engine::host::{DISCOVERY_NQN, HostRdmaSettings, HostSettings, Payload, command};
use nvmf_engine::store::MemoryStore;
use nvmf_engine::{ControllerSettings, RdmaSettings, TcpSettings};
use nvmf_net::roce::{Line, Way};
use nvmf_net::target::{EmbeddedTarget, Listener, SubsystemConfig, TargetConfig};
use nvmf_net::{ClientError, HostClient, RealNetwork};
use nvmf_seam::store::Geometry;
use nvmf_wire::log::TransportType;
use nvmf_wire::{Nsid, Qid};

const SUBNQN: &str = "nqn.2014-08.org.example:subsystem";

/// Discovery over TCP and everything over RDMA, at the first address of loopback that is free. `blocking`: the store may block.
fn target(blocking: bool) -> EmbeddedTarget {
    let store = Arc::new(MemoryStore::new(Geometry { blocks: 131_072, block_size: 512 }));
    let start = |net: u8| {
        let at = |port| SocketAddr::from(([127, 1, net, 1], port));
        EmbeddedTarget::start(TargetConfig {
            listeners: vec![Listener { discovery_only: true, ..Listener::new(at(0)) }, Listener::new(at(4420)).over_rdma(Way::Udp)],
            subsystems: vec![SubsystemConfig {
                nqn: SUBNQN.into(),
                hosts: None,
                namespaces: vec![(1, NewNamespace { store: store.clone(), blocking, uuid: None })],
            }],
            controller: ControllerSettings::default(),
            tcp: TcpSettings::default(),
            rdma: RdmaSettings::default(),
            tap: None,
            observer: None,
        })
    };
    (0..=250).find_map(|net| start(net).ok()).expect("a free address of loopback")
}

fn host(target: &EmbeddedTarget, change: impl Fn(&mut HostSettings)) -> Result<HostClient<RealNetwork>, ClientError> {
    let at = target.addresses()[1];
    let line = Line::new(Way::Udp.open(None, Some(at.ip())).expect("a carrier"));
    let mut settings = HostSettings::new("nqn.2014-08.org.example:host", [7; 16], SUBNQN);
    settings.rdma = Some(HostRdmaSettings::default());
    change(&mut settings);
    HostClient::connect(RealNetwork::default().with_rdma(line), at, settings)
}

#[test]
fn data_of_every_size_comes_back() {
    for blocking in [false, true] {
        let target = target(blocking);
        let mut host = host(&target, |s| s.io_queues = 2).expect("an association");
        for (blocks, lba) in [(1u32, 0u64), (8, 100), (128, 1000), (2048, 4096)] {
            let data: Bytes = (0..blocks * 512).map(|n| (n % 251) as u8).collect();
            let done = host.execute(Qid(1), command::write(Nsid(1), lba, blocks), Payload::Out(data.clone())).expect("written");
            assert!(done.status().is_success(), "{:?}", done.status());
            let done = host.execute(Qid(2), command::read(Nsid(1), lba, blocks), Payload::In(blocks * 512)).expect("read");
            assert!(done.status().is_success() && done.data.to_bytes() == data, "{blocks} blocks");
        }
        assert!(host.execute(Qid(1), command::flush(Nsid(1)), Payload::None).expect("flushed").status().is_success());
        host.reset().expect("up again");
        host.disconnect().expect("ended in order");
    }
}

#[test]
fn discovery_over_tcp_and_over_rdma_tells_of_rdma() {
    let target = target(false);
    let discovery = |s: &mut HostSettings| {
        (s.subnqn, s.discovery, s.io_queues) = (DISCOVERY_NQN.into(), true, 0);
    };
    let mut over_rdma = host(&target, discovery).expect("a discovery controller");
    let mut settings = HostSettings::new("nqn.2014-08.org.example:host", [7; 16], DISCOVERY_NQN);
    discovery(&mut settings);
    let mut over_tcp = HostClient::connect(RealNetwork::default(), target.address(), settings).expect("a discovery controller");
    for log in [over_rdma.discovery_log(), over_tcp.discovery_log()] {
        let log = log.expect("a log");
        let rdma = log.entries.iter().find(|e| e.trtype() == TransportType::RDMA).expect("an entry of RDMA");
        assert_eq!((rdma.subnqn().as_str(), rdma.trsvcid().as_str()), (SUBNQN, "4420"));
    }
    over_rdma.disconnect().expect("ended in order");
    over_tcp.disconnect().expect("ended in order");
}

#[test]
fn nobody_listens_there() {
    let target = target(false);
    let at = SocketAddr::new(target.addresses()[1].ip(), 4999);
    let line = Line::new(Way::Udp.open(None, Some(at.ip())).expect("a carrier"));
    let mut settings = HostSettings::new("nqn.2014-08.org.example:host", [7; 16], SUBNQN);
    settings.rdma = Some(HostRdmaSettings::default());
    let refused = HostClient::connect(RealNetwork::default().with_rdma(line), at, settings).expect_err("refused");
    assert!(refused.is_unreachable() && refused.to_string().contains("REJ with reason 8"), "{refused}");
}
