//! Get Log Page. [Base 2.0, 5.16]

use core::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;

use nvmf_seam::{Abilities, Instant};
use nvmf_wire::admin::{Feature, GetLogPage, LogPage};
use nvmf_wire::identify::namespace_list;
use nvmf_wire::log::effects::{COMMAND_EFFECTS_BYTES, command_entry_offset};
use nvmf_wire::log::{
    AddressFamily, AnaGroup, AnaHeader, AnaState, CommandEffects, DiscoveryEntry, DiscoveryHeader, ErrorEntry, FeatureEffects,
    FirmwareSlots, RdmaProvider, Smart, SubsystemType, SupportedLogPage, TransportType, TsasRdma,
};
use nvmf_wire::nqn::DISCOVERY_NQN;
use nvmf_wire::sqe::IoOpcode;
use nvmf_wire::value::{Ascii, Text};
use nvmf_wire::{Cntlid, Nsid, Opcode, Sqe, Status};

use super::admin::supports;
use super::features::supported;
use super::state::{Controller, Kind};
use super::{Hub, Port, PortTransport, Reply};
use crate::commands::io_commands;
use crate::settings::{ControllerModel, ControllerSettings};

/// Longest answer that is built, bytes, where MDTS sets no limit.
const LONGEST: usize = 16 * 1024 * 1024;
/// Most NSIDs of the Changed Namespace List. [ADM-LOG-33]
const CHANGED_MAX: usize = 1024;
/// Asymmetric pages and the like are not there: these are the pages of an I/O controller. [ADM-LOG-13]
const IO_PAGES: [LogPage; 8] = [
    LogPage::SUPPORTED,
    LogPage::ERROR,
    LogPage::SMART,
    LogPage::FIRMWARE_SLOT,
    LogPage::CHANGED_NAMESPACES,
    LogPage::COMMAND_EFFECTS,
    LogPage::FEATURE_EFFECTS,
    MI_EFFECTS,
];
/// NVMe-MI Commands Supported and Effects. [Base 2.0, 5.16.1.19]
const MI_EFFECTS: LogPage = LogPage(0x13);

/// The pages of a controller. [ADM-LOG-13 to ADM-LOG-16, DISC-CTRL-11 to DISC-CTRL-13]
fn has(c: &Controller, settings: &ControllerSettings, page: LogPage) -> bool {
    match c.kind {
        // [ANA-01]
        Kind::Io if page == LogPage::ANA => settings.ana_groups > 0,
        Kind::Io => IO_PAGES.contains(&page),
        Kind::Discovery => match page {
            LogPage::SUPPORTED | LogPage::DISCOVERY => true,
            LogPage::FEATURE_EFFECTS => c.features.connect_kato != 0,
            _ => false,
        },
    }
}

impl Hub {
    pub(super) fn get_log_page(&mut self, now: Instant, key: u32, sqe: &Sqe) -> Reply {
        let get = GetLogPage::from_bytes(*sqe.as_bytes());
        let Some(c) = self.controllers.get(&key) else { return Status::INTERNAL_ERROR.into() };
        let (page, invalid) = (get.lid(), Status::INVALID_FIELD_IN_COMMAND.dnr());
        // [ADM-LOG-09]
        if !has(c, &self.settings, page) {
            return Status::INVALID_LOG_PAGE.dnr().into();
        }
        // All our pages are of controller or subsystem scope, SMART among them, LPA bit 0 being 0. [ADM-LOG-12, ADM-LOG-28]
        if !matches!(sqe.nsid(), Nsid::NONE | Nsid::BROADCAST) {
            return invalid.into();
        }
        // No page takes index offsets, and byte offsets are aligned. [ADM-LOG-04, ADM-LOG-07]
        if get.ot() || !get.lpo().is_multiple_of(4) {
            return invalid.into();
        }
        // [ADM-LOG-36]
        if page == LogPage::COMMAND_EFFECTS && c.cc.css() == 6 && get.csi() != 0 {
            return Status::I_O_COMMAND_SET_NOT_SUPPORTED.dnr().into();
        }
        let len = (u64::from(get.numd()) + 1) * 4;
        let bytes = self.page(now, c, page, get.lsp());
        // [ADM-LOG-05]
        if get.lpo() > bytes.len() as u64 || len > LONGEST as u64 {
            return invalid.into();
        }
        // What lies behind the page is undefined; we give zeroes. [ADM-LOG-01, ADM-LOG-06]
        let mut part = bytes.get(get.lpo() as usize..).unwrap_or(&[]).to_vec();
        part.resize(len as usize, 0);
        if let Some(c) = self.controllers.get_mut(&key) {
            // Reading starts a new list. [ADM-LOG-33]
            if page == LogPage::CHANGED_NAMESPACES {
                c.changed.clear();
            }
            // [ADM-LOG-10, ADM-AER-07]
            if !get.rae() {
                c.clear_event(page);
                c.report(&mut self.out);
            }
        }
        Reply::data(part)
    }

    fn page(&self, now: Instant, c: &Controller, page: LogPage, specific: u8) -> Vec<u8> {
        match page {
            LogPage::SUPPORTED => supported_pages(c, &self.settings),
            LogPage::ERROR => error_log(c, &self.settings),
            LogPage::SMART => smart(c, now, self.temperature).as_bytes().to_vec(),
            LogPage::FIRMWARE_SLOT => firmware(&self.settings),
            LogPage::CHANGED_NAMESPACES => changed(c),
            LogPage::COMMAND_EFFECTS => {
                command_effects(c, self.subsystems.get(&c.subnqn).map(|s| s.table.abilities).unwrap_or_default())
            }
            LogPage::FEATURE_EFFECTS => feature_effects(c),
            LogPage::ANA => self.ana_log(c, specific & 1 != 0),
            LogPage::DISCOVERY => self.discovery_log(c),
            // NVMe-MI commands: none is supported.
            _ => vec![0; 4096],
        }
    }

    /// The groups that have namespaces, rising, each with them, or without where the host asked for groups only (RGO). A change count of 0 for each
    /// group says that there is none. [ANA-04 to ANA-09]
    fn ana_log(&self, c: &Controller, groups_only: bool) -> Vec<u8> {
        let Some(s) = self.subsystems.get(&c.subnqn) else { return Vec::new() };
        let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (nsid, ids) in &s.ids {
            groups.entry(ids.group).or_default().push(*nsid);
        }
        let changes = s.ana_changes.wrapping_sub(c.ana_base);
        let header = AnaHeader::new().with(|h| h.chcnt(changes).groups(groups.len() as u16));
        let mut page = header.as_bytes().to_vec();
        for (group, nsids) in groups {
            let nsids = if groups_only { Vec::new() } else { nsids };
            let state = s.groups.get(&group).copied().unwrap_or(AnaState::OPTIMIZED);
            let descriptor = AnaGroup::new().with(|g| g.grpid(group).nsids(nsids.len() as u32).state(state));
            page.extend_from_slice(descriptor.as_bytes());
            page.extend(nsids.iter().flat_map(|n| n.to_le_bytes()));
        }
        page
    }

    /// The log as this host sees it: each subsystem that lets it in, at each port. [DISC-LOG-06 to DISC-LOG-08, DISC-LOG-10,
    /// DISC-LOG-11, DISC-CTRL-21, DISC-CTRL-22]
    fn discovery_log(&self, c: &Controller) -> Vec<u8> {
        let mut entries = Vec::new();
        for nqn in self.subsystems.iter().filter(|(_, s)| s.allows(&c.hostnqn)).map(|(nqn, _)| nqn) {
            for port in self.ports.values().filter(|p| !p.discovery_only) {
                entries.push(entry(nqn, port, c.local, &self.settings));
            }
        }
        // [DISC-LOG-18, DISC-LOG-20]
        for (at, to) in self.referrals.iter().enumerate() {
            // A port of its own, that none of ours has.
            let transport = PortTransport::Tcp;
            let port = Port { id: u16::MAX - at as u16, advertise: *to, discovery_only: true, transport };
            let e = entry(DISCOVERY_NQN, &port, None, &self.settings);
            entries.push(e.with(|s| s.subtype(SubsystemType::REFERRAL)));
        }
        let header = DiscoveryHeader::new().with(|s| s.genctr(self.generation).numrec(entries.len() as u64));
        let mut page = header.as_bytes().to_vec();
        for e in entries {
            page.extend_from_slice(e.as_bytes());
        }
        page
    }
}

/// [DISC-LOG-12 to DISC-LOG-16, DISC-LOG-19, DISC-LOG-21, DISC-LOG-22, TCP-DISC-01, TCP-DISC-02, TCP-DISC-07, RDMA-DISC-06,
/// RDMA-DISC-11 to RDMA-DISC-13]
fn entry(nqn: &str, port: &Port, local: Option<IpAddr>, settings: &ControllerSettings) -> DiscoveryEntry {
    let ip = match port.advertise.ip() {
        ip if ip.is_unspecified() => local.unwrap_or(ip),
        ip => ip,
    };
    let ip = ip.to_canonical();
    // A discovery service is dynamic. [FAB-CNTLID-09, DISC-LOG-10]
    let fixed = nqn != DISCOVERY_NQN && settings.controller_model != ControllerModel::Dynamic;
    let (trtype, tsas) = match port.transport {
        PortTransport::Tcp => (TransportType::TCP, [0; 256]),
        // Reliable connected queue pairs over RoCEv2, set up by RDMA_IP_CM; a partition key is for AF_IB alone. [RDMA-DISC-01 to
        // RDMA-DISC-05]
        PortTransport::Rdma(_) => {
            (TransportType::RDMA, *TsasRdma::new().with(|t| t.qptype(1).prtype(RdmaProvider::ROCE_V2).cms(1)).as_bytes())
        }
    };
    DiscoveryEntry::new().with(|s| {
        s.trtype(trtype)
            .tsas(tsas)
            .adrfam(if ip.is_ipv4() { AddressFamily::IPV4 } else { AddressFamily::IPV6 })
            .subtype(SubsystemType::NVM)
            // No secure channel is required.
            .treq_secure(2)
            .treq_sqfcd(settings.flow_control_off)
            .portid(port.id)
            .cntlid(if fixed { Cntlid::ANY_STATIC } else { Cntlid::DYNAMIC })
            .asqsz(settings.admin_queue_entries)
            .trsvcid(Ascii::new(&port.advertise.port().to_string()))
            .subnqn(Text::new(nqn))
            .traddr(Ascii::new(&ip.to_string()))
    })
}

/// [ADM-LOG-17]
fn supported_pages(c: &Controller, settings: &ControllerSettings) -> Vec<u8> {
    let yes = SupportedLogPage::new().with(|s| s.lsupp(true));
    (0..=255u8).flat_map(|lid| if has(c, settings, LogPage(lid)) { *yes.as_bytes() } else { [0; 4] }).collect()
}

/// [ADM-LOG-18, ADM-LOG-19]
fn error_log(c: &Controller, settings: &ControllerSettings) -> Vec<u8> {
    let mut page: Vec<u8> = c.errors.iter().flat_map(|e| *e.as_bytes()).collect();
    page.resize(usize::from(settings.error_entries.max(1)) * ErrorEntry::LEN, 0);
    page
}

/// [ADM-LOG-26, ADM-LOG-29 to ADM-LOG-31]
fn smart(c: &Controller, now: Instant, temperature: u16) -> Smart {
    let n = &c.counters;
    // Thousands of 512 bytes, rounded up.
    let units = |bytes: u64| wide(bytes.div_ceil(512 * 1000));
    Smart::new().with(|s| {
        s.warn_temperature(c.hot)
            .temperature(temperature)
            .spare(100)
            .spare_threshold(10)
            .data_units_read(units(n.read_bytes.load(Ordering::Relaxed)))
            .data_units_written(units(n.written_bytes.load(Ordering::Relaxed)))
            .host_reads(wide(n.reads.load(Ordering::Relaxed)))
            .host_writes(wide(n.writes.load(Ordering::Relaxed)))
            .power_on_hours(wide(now.since(c.created).as_secs() / 3600))
            .error_entries(wide(c.error_count))
    })
}

fn wide(n: u64) -> [u8; 16] {
    u128::from(n).to_le_bytes()
}

/// [ADM-LOG-32, ADM-IDENTIFY-46]
fn firmware(settings: &ControllerSettings) -> Vec<u8> {
    FirmwareSlots::new().with(|s| s.active(1).frs1(Ascii::new(&settings.firmware))).as_bytes().to_vec()
}

/// [ADM-LOG-33]
fn changed(c: &Controller) -> Vec<u8> {
    let mut page = if c.changed.len() > CHANGED_MAX {
        namespace_list([Nsid::BROADCAST])
    } else {
        namespace_list(c.changed.iter().map(|n| Nsid(*n)))
    };
    page.resize(4096, 0);
    page
}

/// [ADM-LOG-34, ADM-LOG-35]
fn command_effects(c: &Controller, stores: Abilities) -> Vec<u8> {
    let yes = CommandEffects::new().with(|s| s.csupp(true));
    let mut page = vec![0; COMMAND_EFFECTS_BYTES];
    let mut put = |io, opcode, entry: CommandEffects| {
        let at = command_entry_offset(io, opcode);
        if let Some(slot) = page.get_mut(at..at + 4) {
            slot.copy_from_slice(entry.as_bytes());
        }
    };
    for opcode in 0..=255u8 {
        if opcode == Opcode::FABRICS.0 || supports(c.kind, c.features.connect_kato, Opcode(opcode)) {
            put(false, opcode, yes);
        }
    }
    for command in io_commands(stores) {
        put(true, command.opcode.0, yes.with(|s| s.lbcc(command.changes_blocks)));
    }
    put(true, IoOpcode::FABRICS.0, yes);
    page
}

fn feature_effects(c: &Controller) -> Vec<u8> {
    // Scope: controller.
    let yes = FeatureEffects::new().with(|s| s.fsupp(true).fsp(1 << 1));
    (0..=255u8)
        .flat_map(|fid| if supported(c.kind, c.features.connect_kato, Feature(fid)) { *yes.as_bytes() } else { [0; 4] })
        .collect()
}
