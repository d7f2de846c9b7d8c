//! The embedded target of the measurements over sockets.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use nvmf_engine::controller::NewNamespace;
use nvmf_engine::store::MemoryStore;
use nvmf_engine::{ControllerSettings, RdmaSettings, TcpSettings};
use nvmf_net::target::{Listener, SubsystemConfig};
use nvmf_net::{EmbeddedTarget, TargetConfig};
use nvmf_seam::{Geometry, Store, StoreOp};

use crate::SUBNQN;
use crate::round::{BLOCK, BLOCKS};

/// A target with 64 MiB in memory, all of it written, so that no read is of a hole.
pub fn target() -> io::Result<EmbeddedTarget> {
    let store = Arc::new(MemoryStore::new(Geometry { blocks: BLOCKS, block_size: BLOCK }));
    let piece = 1024 * 1024;
    for at in (0..BLOCKS * u64::from(BLOCK)).step_by(piece) {
        let data = Bytes::from(vec![(at >> 20) as u8; piece]);
        store.execute(StoreOp::Write { offset: at, data }).map_err(|e| io::Error::other(e.to_string()))?;
    }
    let namespaces = vec![(1, NewNamespace { store, blocking: false, uuid: None })];
    EmbeddedTarget::start(TargetConfig {
        listeners: vec![Listener::new(SocketAddr::from(([127, 0, 0, 1], 0)))],
        subsystems: vec![SubsystemConfig { nqn: SUBNQN.into(), hosts: None, namespaces }],
        controller: ControllerSettings::default(),
        tcp: TcpSettings::default(),
        rdma: RdmaSettings::default(),
        tap: None,
        observer: None,
    })
}
