//! NVMe/RDMA over RoCEv2: packets and what they come to.

use nvmf_wire::cm::CmMessage;
use nvmf_wire::layout::{Kind, Layout, Order, Structure as _, load_bits, load_bits_be};
use nvmf_wire::rdma::RdmaRequest;
use nvmf_wire::sqe::FabricsType;

use super::dissect::{State, number};
use super::tables::{rdma, transport};
use super::{Field, Value, Visitor, Window, page, walk};
use crate::exchange::{Direction, Event};
use crate::roce::{Data, Icrc, Packet, Rdma};

/// Wireshark's name of the link from data to its command, whichever command that is.
const COMMAND: &str = "nvme.fabrics.cmd_pkt";

/// The headers of a packet.
pub(super) fn packet(packet: &Packet, visitor: &mut impl Visitor) {
    visitor.layer("infiniband");
    let Ok(headers) = packet.headers() else { return };
    let mut at = 0;
    let mut header = |name, layout: &'static Layout, bytes: &[u8]| {
        visitor.field(&Field { name, depth: 0, value: Value::Bytes(bytes), at, len: bytes.len() });
        fields(layout, bytes, at, 1, visitor);
        at += bytes.len();
    };
    header("infiniband.bth", nvmf_wire::roce::Bth::LAYOUT, headers.bth.as_bytes());
    if let Some(deth) = &headers.deth {
        header("infiniband.deth", nvmf_wire::roce::Deth::LAYOUT, deth.as_bytes());
    }
    if let Some(reth) = &headers.reth {
        header("infiniband.reth", nvmf_wire::roce::Reth::LAYOUT, reth.as_bytes());
    }
    if let Some(aeth) = &headers.aeth {
        header("infiniband.aeth", nvmf_wire::roce::Aeth::LAYOUT, aeth.as_bytes());
    }
    if let Some(end) = packet.bytes.len().checked_sub(4).filter(|_| packet.bytes.len() == packet.len)
        && let Some(crc) = packet.bytes.get(end..).and_then(|b| b.first_chunk::<4>())
    {
        let value = Value::Number(u32::from_be_bytes(*crc).into(), 8);
        visitor.field(&Field { name: "infiniband.invariant.crc", depth: 0, value, at: end, len: 4 });
    }
    if packet.icrc != Icrc::Unknown {
        number(visitor, 0, "nvmfspec.icrc.good", Value::Flag(packet.icrc == Icrc::Good));
    }
}

/// The fields of a table that have a name in Wireshark.
fn fields(layout: &'static Layout, bytes: &[u8], at: usize, depth: u8, visitor: &mut impl Visitor) {
    for f in layout.fields.iter().filter(|f| !f.wireshark.is_empty()) {
        let n = match f.order {
            Order::LittleEndian => load_bits(bytes, f.bit, f.width),
            Order::BigEndian => load_bits_be(bytes, f.bit, f.width),
        };
        let digits = match f.wireshark {
            "infiniband.bth.destqp" => 6,
            "infiniband.reth.va" | "infiniband.deth.q_key" => 16,
            "infiniband.reth.r_key" | "infiniband.deth.srcqp" => 8,
            _ => 0,
        };
        let value = if f.kind == Kind::Flag { Value::Flag(n != 0) } else { Value::Number(n, digits) };
        visitor.field(&Field { name: f.wireshark, depth, value, at: at + f.offset(), len: f.len() });
    }
}

impl State {
    /// Takes note of data before it is shown.
    pub(super) fn take_rdma(&mut self, rdma: &Rdma) {
        match rdma {
            Rdma::Data(data) => {
                let (Some(cid), Some(offset)) = (data.target.cid, data.offset()) else { return };
                self.keep(cid.0, offset as usize, &data.bytes, data.last);
            }
            Rdma::Cm(cm) if cm.message() == CmMessage::REQ => {
                if let Ok(request) = RdmaRequest::read(cm.private()) {
                    self.qid = Some(request.qid().0);
                }
            }
            _ => {}
        }
    }

    /// Takes note of what was shown.
    pub(super) fn settle_rdma(&mut self, event: &Event, rdma: &Rdma) {
        match rdma {
            Rdma::Command { sqe, .. } => self.asked(event, sqe),
            Rdma::Response { cqe, .. } => self.answered(cqe.cid().0),
            Rdma::Read(target) => {
                if let Some(asked) = target.cid.and_then(|cid| self.commands.get_mut(&cid.0)) {
                    asked.request = event.frame;
                }
            }
            Rdma::Data(data) => {
                let Some(cid) = data.target.cid else { return };
                if let Some(asked) = self.commands.get_mut(&cid.0) {
                    asked.previous = if data.last { 0 } else { event.frame };
                }
                if data.last {
                    self.let_go(cid.0);
                }
            }
            _ => {}
        }
    }

    /// What packets came to.
    pub(super) fn show_rdma(&self, event: &Event, rdma: &Rdma, visitor: &mut impl Visitor) {
        match rdma {
            Rdma::Cm(cm) => {
                let rows = match cm.message() {
                    CmMessage::REQ => rdma::REQUEST,
                    CmMessage::REP => rdma::ACCEPT,
                    CmMessage::REJ => rdma::REJECT,
                    _ => return,
                };
                visitor.layer("nvme-rdma");
                walk(rows, Window::whole(cm.private(), 0), 0, 0, visitor);
            }
            Rdma::Command { sqe, rest, .. } => {
                self.rdma_layer(visitor);
                self.command(sqe, (rest, 64), 0, visitor);
            }
            Rdma::Response { cqe, .. } => {
                self.rdma_layer(visitor);
                self.response(event, cqe, 0, visitor);
            }
            Rdma::Send { bytes, .. } => {
                self.rdma_layer(visitor);
                let name = "nvme-rdma.unknown_data";
                visitor.field(&Field { name, depth: 0, value: Value::Bytes(bytes), at: 0, len: bytes.len() });
            }
            Rdma::Read(target) => {
                self.rdma_layer(visitor);
                number(visitor, 0, "nvme-rdma.read_to_host_req", Value::Nothing);
                if let Some(asked) = target.cid.and_then(|cid| self.commands.get(&cid.0)) {
                    number(visitor, 1, COMMAND, Value::Number(asked.frame, 0));
                }
            }
            Rdma::Data(data) => self.show_data(event, data, visitor),
            _ => {}
        }
    }

    fn rdma_layer(&self, visitor: &mut impl Visitor) {
        visitor.layer("nvme-rdma");
        if let Some(qid) = self.qid {
            number(visitor, 0, "nvme-rdma.cmd.qid", Value::Number(qid.into(), 4));
        }
    }

    fn show_data(&self, event: &Event, data: &Data, visitor: &mut impl Visitor) {
        self.rdma_layer(visitor);
        let asked = data.target.cid.and_then(|cid| self.commands.get(&cid.0));
        let read = event.dir == Direction::HostToController;
        if read {
            let (name, len) = ("nvme-rdma.read_from_host_resp", data.bytes.len());
            visitor.field(&Field { name, depth: 0, value: Value::Bytes(&data.bytes), at: 0, len });
        } else {
            number(visitor, 0, "nvme-rdma.write_to_host_req", Value::Nothing);
        }
        let (Some(asked), Some(offset)) = (asked, data.offset()) else { return };
        number(visitor, 1, COMMAND, Value::Number(asked.frame, 0));
        if read && asked.request != 0 {
            number(visitor, 1, "nvme.fabrics.data_req", Value::Number(asked.request, 0));
        }
        if asked.previous != 0 && data.before != 0 {
            let name = if read { "nvme-rdma.read_from_host_prev" } else { "nvme-rdma.write_to_host_prev" };
            number(visitor, 1, name, Value::Number(asked.previous, 0));
        }
        let window = page::window(&asked.sqe, &asked.kept, offset as usize, &data.bytes, 0);
        match asked.sqe.fctype() {
            Some(FabricsType::CONNECT) => walk(transport::CONNECT_DATA, window, 0, 1, visitor),
            Some(_) => {}
            None => {
                visitor.layer("nvme");
                page::data(&asked.sqe, self.is_admin(), window, &data.bytes, visitor);
            }
        }
    }
}
