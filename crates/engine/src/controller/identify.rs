//! Identify. [Base 2.0, 5.17; NVM Command Set 1.0, 4.1.5]

use std::collections::BTreeSet;

use nvmf_seam::Abilities;
use nvmf_wire::admin::{Cns, Identify};
use nvmf_wire::identify::{
    ControllerType, Descriptor, IDENTIFY_BYTES, IdentifyController, IdentifyControllerNvm, IdentifyNamespace,
    IdentifyNamespaceIndependent, IdentifyNamespaceNvm, LbaFormat, Nidt, PowerState, controller_list, namespace_list,
    write_descriptors,
};
use nvmf_wire::log::AnaState;
use nvmf_wire::nqn::DISCOVERY_NQN;
use nvmf_wire::value::{Ascii, Text};
use nvmf_wire::{Cntlid, Nsid, Sqe, Status, ZeroBased8};

use super::features::WCTEMP;
use super::property::VERSION;
use super::state::{Controller, Ids, Kind, Subsystem};
use super::{Hub, PortTransport, Reply};
use crate::commands::{CopyLimits, has_fused, io_commands};
use crate::message::NamespaceView;
use crate::settings::{ControllerModel, ControllerSettings};

/// The NVM command set. [Base 2.0, 1.5, CSI]
const CSI_NVM: u8 = 0;

impl Hub {
    pub(super) fn identify(&self, key: u32, sqe: &Sqe) -> Reply {
        let id = Identify::from_bytes(*sqe.as_bytes());
        let Some(c) = self.controllers.get(&key) else { return Status::INTERNAL_ERROR.into() };
        let invalid: Status = Status::INVALID_FIELD_IN_COMMAND.dnr();
        let (cns, nsid) = (id.cns(), sqe.nsid());
        // The controller pages do not use NSID. [SQE-14]
        if matches!(cns, Cns::CONTROLLER | Cns::CONTROLLER_CSI | Cns::COMMAND_SETS | Cns::CONTROLLERS) && nsid != Nsid::NONE {
            return invalid.into();
        }
        if cns == Cns::CONTROLLER {
            let stores = self.subsystems.get(&c.subnqn).map(|s| s.table.abilities).unwrap_or_default();
            return Reply::data(self.controller_page(c, stores).as_bytes().to_vec());
        }
        // A discovery controller has nothing else. [ADM-IDENTIFY-06, ADM-IDENTIFY-02]
        let Some(s) = self.subsystems.get(&c.subnqn).filter(|_| c.kind == Kind::Io) else { return invalid.into() };
        // Those that name a command set: ours is NVM alone. [ADM-IDENTIFY-26, ADM-IDENTIFY-28, ADM-IDENTIFY-29]
        let named = [
            Cns::NAMESPACE_CSI,
            Cns::CONTROLLER_CSI,
            Cns::ACTIVE_NAMESPACES_CSI,
            Cns::ALLOCATED_NAMESPACES_CSI,
            Cns::ALLOCATED_NAMESPACE_CSI,
        ];
        if named.contains(&cns) && id.csi() != CSI_NVM {
            return invalid.into();
        }
        let page = match cns {
            Cns::NAMESPACE => of_namespace(s, nsid, |n, ids| namespace(n, ids).as_bytes().to_vec()),
            Cns::NAMESPACE_CSI => of_namespace(s, nsid, |_, _| IdentifyNamespaceNvm::new().as_bytes().to_vec()),
            Cns::NAMESPACE_INDEPENDENT => of_namespace(s, nsid, |_, ids| independent(ids)),
            Cns::ACTIVE_NAMESPACES | Cns::ACTIVE_NAMESPACES_CSI => active(s, nsid),
            Cns::NAMESPACE_DESCRIPTORS => descriptors(s, nsid),
            Cns::CONTROLLER_CSI => Ok(IdentifyControllerNvm::new().as_bytes().to_vec()),
            // Every namespace that is allocated is attached to every controller.
            Cns::ALLOCATED_NAMESPACES | Cns::ALLOCATED_NAMESPACES_CSI => active(s, nsid),
            Cns::ALLOCATED_NAMESPACE => of_namespace(s, nsid, |n, ids| namespace(n, ids).as_bytes().to_vec()),
            Cns::ALLOCATED_NAMESPACE_CSI => of_namespace(s, nsid, |_, _| IdentifyNamespaceNvm::new().as_bytes().to_vec()),
            Cns::ATTACHED_CONTROLLERS => attached(s, nsid).map(|any| self.controller_list(c, any, id.cntid())),
            Cns::CONTROLLERS => Ok(self.controller_list(c, true, id.cntid())),
            Cns::COMMAND_SETS if id.cntid() == 0xffff || id.cntid() == c.cntlid.0 => {
                // One combination: the NVM command set. [ADM-IDENTIFY-04, ADM-IDENTIFY-41]
                Ok(1u64.to_le_bytes().to_vec())
            }
            Cns::COMMAND_SETS => Err(Status::INVALID_CONTROLLER_IDENTIFIER.dnr()),
            // [ADM-IDENTIFY-02]
            _ => Err(invalid),
        };
        match page {
            Ok(mut page) => {
                // [ADM-IDENTIFY-01]
                page.resize(IDENTIFY_BYTES, 0);
                Reply::data(page)
            }
            Err(status) => status.into(),
        }
    }

    /// Identify Controller: what is the transport's, and all else.
    fn controller_page(&self, c: &Controller, stores: Abilities) -> IdentifyController {
        let page = controller(c, stores, &self.settings, self.ports.len());
        let io = c.kind == Kind::Io;
        let ioccsz = self.settings.ioccsz.max(4);
        // No alignment is asked for. What is about I/O queues is reserved at a discovery controller. [FAB-IDENT-05, FAB-IDENT-01]
        match self.transport(c.port) {
            // Descriptors are offsets and transport data blocks. [TCP-CAPSULE-08, TCP-CAPSULE-09]
            PortTransport::Tcp => page.with(|s| {
                s.sgls_support(1).sgls_offset(true).sgls_transport(true).msdbd(u8::from(io)).ioccsz(if io { ioccsz } else { 0 })
            }),
            // [RDMA-SGL-07, RDMA-SGL-08, RDMA-CAPS-03, RDMA-CAPS-05]
            PortTransport::Rdma(r) => {
                let offset = io && (r.data_bytes(ioccsz) > 0 || r.descriptors(ioccsz) > 1);
                let page = page.with(|s| s.sgls_support(1).sgls_keyed(true).sgls_offset(offset));
                let icdoff = if r.data_bytes(ioccsz) > 0 { r.icdoff } else { 0 };
                if io { page.with(|s| s.ioccsz(ioccsz).icdoff(icdoff).msdbd(r.descriptors(ioccsz))) } else { page }
            }
        }
    }

    /// The controllers of the subsystem of `c` from `first` on, rising; none where not `any`. [ADM-IDENTIFY-38]
    fn controller_list(&self, c: &Controller, any: bool, first: u16) -> Vec<u8> {
        let all: BTreeSet<u16> = match self.settings.controller_model {
            ControllerModel::Static { count } => (1..=count).collect(),
            ControllerModel::Dynamic => self.controllers.values().filter(|o| o.subnqn == c.subnqn).map(|o| o.cntlid.0).collect(),
        };
        controller_list(all.into_iter().filter(|id| any && *id >= first).map(Cntlid))
    }
}

/// True where a namespace is attached, which it then is to all controllers; FFFFFFFFh is refused. [ADM-IDENTIFY-37]
fn attached(s: &Subsystem, nsid: Nsid) -> Result<bool, Status> {
    match nsid {
        Nsid::BROADCAST => Err(Status::INVALID_FIELD_IN_COMMAND.dnr()),
        _ if nsid == Nsid::NONE || nsid.0 > s.table.nn => Err(Status::INVALID_NAMESPACE_OR_FORMAT.dnr()),
        _ => Ok(s.table.active.contains_key(&nsid.0)),
    }
}

/// A page about one namespace: zeroes for one that is valid but not active, an error for one that is not valid; without Namespace
/// Management FFFFFFFFh is not. [ADM-IDENTIFY-11, ADM-IDENTIFY-12, ADM-IDENTIFY-26, ADM-IDENTIFY-27, ADM-IDENTIFY-31]
fn of_namespace(s: &Subsystem, nsid: Nsid, page: impl FnOnce(&NamespaceView, &Ids) -> Vec<u8>) -> Result<Vec<u8>, Status> {
    match (s.table.active.get(&nsid.0), s.ids.get(&nsid.0)) {
        (Some(n), Some(ids)) => Ok(page(n, ids)),
        _ if nsid == Nsid::NONE || nsid.0 > s.table.nn => Err(Status::INVALID_NAMESPACE_OR_FORMAT.dnr()),
        _ => Ok(Vec::new()),
    }
}

/// Active NSIDs above the given one. [ADM-IDENTIFY-14, ADM-IDENTIFY-15, ADM-IDENTIFY-29, ADM-IDENTIFY-30]
fn active(s: &Subsystem, after: Nsid) -> Result<Vec<u8>, Status> {
    if after.0 >= 0xffff_fffe {
        return Err(Status::INVALID_NAMESPACE_OR_FORMAT.dnr());
    }
    Ok(namespace_list(s.table.active.range(after.0 + 1..).map(|(nsid, _)| Nsid(*nsid))))
}

/// [ADM-IDENTIFY-17 to ADM-IDENTIFY-23]
fn descriptors(s: &Subsystem, nsid: Nsid) -> Result<Vec<u8>, Status> {
    let Some(ids) = s.ids.get(&nsid.0) else {
        let valid = nsid != Nsid::NONE && nsid.0 <= s.table.nn;
        return Err(if valid { Status::INVALID_FIELD_IN_COMMAND } else { Status::INVALID_NAMESPACE_OR_FORMAT }.dnr());
    };
    let of = |nidt, nid| Descriptor { nidt, reserved: 0, nid };
    let all = [of(Nidt::NGUID, &ids.nguid[..]), of(Nidt::UUID, &ids.uuid[..]), of(Nidt::CSI, &[CSI_NVM][..])];
    write_descriptors(&all).ok_or(Status::INTERNAL_ERROR)
}

fn namespace(n: &NamespaceView, ids: &Ids) -> IdentifyNamespace {
    let format = LbaFormat::new().with(|s| s.lbads(n.geometry.block_size.trailing_zeros() as u8));
    // [ANA-17]
    let seen = !matches!(n.ana, AnaState::INACCESSIBLE | AnaState::PERSISTENT_LOSS);
    // One format, no metadata, no protection, no thin provisioning; shared by the controllers of the subsystem.
    // [ADM-IDENTIFY-71, ADM-IDENTIFY-72, ADM-IDENTIFY-77, ADM-IDENTIFY-81]
    let copy = CopyLimits::of(n.geometry);
    IdentifyNamespace::new().with(|s| {
        s.nsze(n.geometry.blocks)
            .ncap(n.geometry.blocks)
            .nuse(if seen { n.geometry.blocks } else { 0 })
            .nlbaf(ZeroBased8(0))
            .nmic_shared(true)
            .anagrpid(ids.group)
            // What is deallocated reads as zeroes, and Write Zeroes may deallocate. [NVM-RW-20, NVM-RW-27]
            .dlfeat_read(1)
            .dlfeat_wzds(true)
            .mssrl(copy.range)
            .mcl(copy.total)
            .msrc(ZeroBased8::of(u64::from(copy.ranges)))
            .nguid(ids.nguid)
            .lbaf0(u32::from_le_bytes(*format.as_bytes()))
    })
}

/// [ADM-IDENTIFY-32, ADM-IDENTIFY-33]
fn independent(ids: &Ids) -> Vec<u8> {
    IdentifyNamespaceIndependent::new().with(|s| s.nmic_shared(true).anagrpid(ids.group).nstat_ready(true)).as_bytes().to_vec()
}

fn controller(c: &Controller, stores: Abilities, settings: &ControllerSettings, ports: usize) -> IdentifyController {
    // Common to both kinds. [ADM-IDENTIFY-42 to ADM-IDENTIFY-49, ADM-IDENTIFY-57, ADM-IDENTIFY-58, FAB-IDENT-03 to FAB-IDENT-05,
    // FAB-IDENT-07 to FAB-IDENT-09]
    let common = IdentifyController::new().with(|s| {
        s.sn(Ascii::new(&settings.serial))
            .mn(Ascii::new(&settings.model))
            .fr(Ascii::new(&settings.firmware))
            .mdts(settings.mdts)
            .cntlid(c.cntlid)
            .ver(VERSION)
            .ctratt_hids(true)
            .ctratt_tbkas(settings.traffic_keep_alive)
            .acl(ZeroBased8::of(u64::from(settings.aborts.max(4))))
            .aerl(ZeroBased8::of(u64::from(settings.async_events.max(4))))
            .lpa_lpeds(true)
            .lpa_mlps(true)
            .kas(settings.kas.max(1))
            .maxcmd(settings.io_queue_entries)
    });
    let ana = settings.ana_groups > 0;
    match c.kind {
        // What is about I/O queues and namespaces is reserved. [FAB-IDENT-01, FAB-IDENT-06, ADM-IDENTIFY-70, DISC-CTRL-06]
        Kind::Discovery => common.with(|s| s.cntrltype(ControllerType::DISCOVERY).oaes_dlpc(true).subnqn(Text::new(DISCOVERY_NQN))),
        Kind::Io => io_commands(stores).fold(common, |page, command| (command.announce)(page)).with(|s| {
            s.cntrltype(ControllerType::IO)
                .cmic_mp(ports > 1)
                .cmic_mc(true)
                .fcatt_static(settings.controller_model != ControllerModel::Dynamic)
                .ofcs_disconnect(settings.queue_deletion)
                // [ANA-01, ANA-02]
                .cmic_ana(ana)
                .oaes_ana(ana)
                .anatt(if ana { 10 } else { 0 })
                .anacap_optimized(ana)
                .anacap_non_optimized(ana)
                .anacap_inaccessible(ana)
                .anacap_persistent_loss(ana)
                .anacap_change(ana)
                .anagrpmax(settings.ana_groups)
                .nanagrpid(settings.ana_groups)
                .oaes_nan(true)
                .lpa_cses(true)
                .elpe(ZeroBased8::of(u64::from(settings.error_entries)))
                .npss(ZeroBased8(0))
                .frmw_ffsro(true)
                .frmw_nofs(1)
                // [ADM-IDENTIFY-62]
                .wctemp(WCTEMP)
                .cctemp(WCTEMP + 15)
                // [ADM-IDENTIFY-50]
                .sqes_min(6)
                .sqes_max(6)
                .cqes_min(4)
                .cqes_max(4)
                .nn(settings.namespaces)
                // Save and Select of features [ADM-FEAT-03]; Timestamp [ADM-FEAT-47].
                .oncs_ssfs(true)
                .oncs_tss(true)
                // One block, which every store writes as a whole, is what AWUN, AWUPF and ACWU promise. [NVM-FUSED-01]
                .fuses(has_fused(stores))
                // No cache; Flush for FFFFFFFFh is refused. [ADM-IDENTIFY-61, NVM-RW-15]
                .vwc_fb(2)
                .mnan(settings.namespaces)
                .subnqn(Text::new(&c.subnqn))
                // [ADM-IDENTIFY-53]
                .iorcsz(1)
                // Power state 0: 25 W. [ADM-IDENTIFY-69]
                .psd0(*PowerState::new().with(|p| p.mp(2500)).as_bytes())
        }),
    }
}
