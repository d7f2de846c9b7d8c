//! Holds what our tables read in captures beside what tshark shows under the same names: `cargo xtask vectors --wireshark FILE…`.
//!
//! PDUs are paired in the order of each direction of a connection, by type, length, CID and SQHD; then each field that both know is compared. What
//! Wireshark is known to show otherwise stands in [`KNOWN`] with the reason. A field that tshark leaves out is counted, not judged.
//! Start with [`Compared::of`].

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use nvmf_capture::{Capture, Connection, Direction, EventKind, Session, wireshark_fields};
use nvmf_wire::admin::{GetLogPage, Identify};
use nvmf_wire::identify::page_layout;
use nvmf_wire::layout::{Kind, Layout, Value};
use nvmf_wire::log::page_layouts;
use nvmf_wire::tcp::{C2hData, Pdu, PduType};
use nvmf_wire::{Opcode, Sqe};

type Known = (&'static str, fn(&Pdu) -> bool, &'static str);

/// What Wireshark 4.0 shows otherwise: names, when, and why. Each was looked at byte by byte: the text is with our tables.
const KNOWN: &[Known] =
    &[("nvme.fabrics.cmd.connect.data.", |pdu| !pdu.pad.is_empty(), "it reads Connect data behind the SQE, whatever PDO says")];

/// What one capture gave.
#[derive(Debug, Default)]
pub struct Compared {
    /// PDUs that both have.
    pub pdus: usize,
    /// PDUs of ours that tshark does not show, or not at that place.
    pub unpaired: usize,
    /// Fields that agree.
    pub agreed: usize,
    /// Fields that tshark left out.
    pub left_out: usize,
    /// Fields of [`KNOWN`] that differ.
    pub known: usize,
    /// Every other difference: name, how often, the first.
    pub differ: BTreeMap<String, (usize, String)>,
}

/// A PDU as tshark shows it: `(name, show, value)` of its fields, and of the data that it completes.
#[derive(Debug, Default)]
struct Shown {
    fields: Vec<(String, String, String)>,
}

type Streams = BTreeMap<(u16, u16), VecDeque<Shown>>;

/// How far ahead a PDU is looked for where tshark has others in between.
const AHEAD: usize = 16;

/// True where tshark can be run.
pub fn available() -> bool {
    Command::new("tshark").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

impl Compared {
    /// Compares one capture. Fails where it is none or tshark does not read it.
    pub fn of(path: &Path) -> Result<Self, String> {
        let capture = Capture::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let ports: Vec<u16> = capture.connections().iter().map(|c| c.server.port()).collect();
        let mut shown = streams(path, &ports)?;
        let mut out = Self::default();
        // tshark 4.0 shows no PDUs below TLS, or takes records for PDUs.
        for c in capture.connections().iter().filter(|c| !c.events.iter().any(|e| matches!(e.kind, EventKind::Tls(_)))) {
            out.connection(c, &mut shown);
        }
        Ok(out)
    }

    fn connection(&mut self, c: &Connection, shown: &mut Streams) {
        let mut session = Session::new();
        for (n, (event, bytes)) in c.pdus().enumerate() {
            let Ok(pdu) = Pdu::parse(bytes) else { continue };
            let key = match event.dir {
                Direction::HostToController => (c.client.port(), c.server.port()),
                Direction::ControllerToHost => (c.server.port(), c.client.port()),
            };
            let there = shown.get_mut(&key).and_then(|queue| {
                let at = queue.iter().take(AHEAD).position(|s| s.is(&pdu))?;
                queue.drain(..at);
                queue.pop_front()
            });
            match there {
                Some(s) => {
                    self.pdus += 1;
                    let mut ours = wireshark_fields(&session, &pdu);
                    ours.extend(page_fields(&session, &pdu));
                    for (name, value) in ours {
                        self.field(name, &value, &s, n, &pdu);
                    }
                }
                None => self.unpaired += 1,
            }
            session.apply(event.dir, &pdu);
        }
    }

    fn field(&mut self, name: &str, ours: &str, s: &Shown, n: usize, pdu: &Pdu) {
        let mut theirs = s.fields.iter().filter(|f| f.0 == name).peekable();
        let Some(first) = theirs.peek().map(|f| f.1.clone()) else {
            self.left_out += 1;
            return;
        };
        if theirs.any(|(_, show, value)| same(ours, show, value)) {
            self.agreed += 1;
        } else if KNOWN.iter().any(|(n, when, _)| name.starts_with(n) && when(pdu)) {
            self.known += 1;
        } else {
            let entry = self
                .differ
                .entry(name.to_owned())
                .or_insert_with(|| (0, format!("PDU {n}, {}: {ours} here, {first} there", pdu.ptype())));
            entry.0 += 1;
        }
    }
}

impl Shown {
    fn is(&self, pdu: &Pdu) -> bool {
        let number = |name: &str| self.fields.iter().find(|f| f.0 == name).and_then(|f| number(&f.1));
        let mut cids = CIDS.iter().filter_map(|n| number(n)).peekable();
        let cid = cid_of(pdu).filter(|_| cids.peek().is_some());
        number("nvme-tcp.type") == Some(u64::from(pdu.ptype().0))
            && number("nvme-tcp.plen") == Some(u64::from(pdu.head().plen()))
            && cid.is_none_or(|c| cids.any(|n| n == c))
            && number("nvme.cqe.sqhd").is_none_or(|n| sqhd_of(pdu).is_none_or(|s| s == n))
    }
}

/// Wireshark's names for the CID of a command, a response, and a PDU of data.
const CIDS: [&str; 4] = ["nvme.cmd.cid", "nvme.fabrics.cmd.cid", "nvme.cqe.cid", "nvme-tcp.cmd.cid"];

fn cid_of(pdu: &Pdu) -> Option<u64> {
    let at = match pdu.ptype() {
        PduType::CAPSULE_CMD => 8 + 2,
        PduType::CAPSULE_RESP => 8 + 12,
        PduType::H2C_DATA | PduType::C2H_DATA | PduType::R2T => 8,
        _ => return None,
    };
    let bytes = pdu.header.get(at..at + 2)?;
    Some(u64::from(bytes[0]) | u64::from(bytes[1]) << 8)
}

fn sqhd_of(pdu: &Pdu) -> Option<u64> {
    let bytes = pdu.header.get(16..18).filter(|_| pdu.ptype() == PduType::CAPSULE_RESP)?;
    Some(u64::from(bytes[0]) | u64::from(bytes[1]) << 8)
}

/// The fields of a page that comes whole in one C2HData.
fn page_fields(session: &Session, pdu: &Pdu) -> Vec<(&'static str, String)> {
    let head = match C2hData::read(&pdu.header) {
        Ok(h) if pdu.ptype() == PduType::C2H_DATA && h.datao() == 0 && h.last() && session.is_admin() => h,
        _ => return Vec::new(),
    };
    let Some(sqe) = session.command(head.cccid()).map(|c| c.sqe).filter(|s| s.fctype().is_none()) else { return Vec::new() };
    let Some(layout) = layout_of_page(&sqe).filter(|l| pdu.data.len() >= l.bytes) else { return Vec::new() };
    let fields = layout.all_fields().filter(|f| !f.wireshark.is_empty());
    fields.map(|f| (f.wireshark, text(f.kind, &f.get(&pdu.data)))).collect()
}

fn layout_of_page(sqe: &Sqe) -> Option<&'static Layout> {
    match sqe.opc() {
        Opcode::IDENTIFY => page_layout(Identify::from_bytes(*sqe.as_bytes()).cns()),
        Opcode::GET_LOG_PAGE => {
            let get = GetLogPage::from_bytes(*sqe.as_bytes());
            let (head, entry) = page_layouts(get.lid()).filter(|_| get.lpo() == 0)?;
            head.or(entry)
        }
        _ => None,
    }
}

fn text(kind: Kind, value: &Value) -> String {
    match value {
        Value::Int(n) => n.to_string(),
        Value::Bytes(b) if kind == Kind::Text => String::from_utf8_lossy(b).trim_end_matches('\0').to_owned(),
        Value::Bytes(b) => b.iter().map(|x| format!("{x:02x}")).collect(),
    }
}

/// `show` is how tshark prints the field, `value` its bytes in hexadecimal, or the bits of a part of a byte.
fn same(ours: &str, show: &str, value: &str) -> bool {
    let as_number = ours.parse::<u64>().ok();
    ours == show
        || ours == value
        || (as_number.is_some() && (number(show) == as_number || little_endian(value) == as_number))
        || (ours.len() > 20 && little_endian_text(ours).is_some_and(|n| n == show))
}

fn number(s: &str) -> Option<u64> {
    match s.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => s.parse().ok(),
    }
}

fn little_endian(hex: &str) -> Option<u64> {
    let whole = hex.is_ascii() && hex.len().is_multiple_of(2) && (2..=16).contains(&hex.len());
    let bytes = (0..hex.len()).step_by(2).filter(|_| whole).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).ok());
    whole.then(|| bytes.rev().try_fold(0u64, |n, b| Some(n << 8 | u64::from(b?))))?
}

/// A counter of 16 bytes, as tshark prints it.
fn little_endian_text(hex: &str) -> Option<String> {
    let whole = hex.is_ascii() && hex.len() == 32;
    let bytes = (0..32).step_by(2).filter(|_| whole).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).ok());
    let n = whole.then(|| bytes.rev().try_fold(0u128, |n, b| Some(n << 8 | u128::from(b?))))??;
    Some(n.to_string())
}

fn streams(path: &Path, ports: &[u16]) -> Result<Streams, String> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(path).args(["-Y", "nvme-tcp", "-T", "pdml", "-J", "nvme-tcp nvme"]);
    for port in ports {
        command.arg("-d").arg(format!("tcp.port=={port},nvme-tcp"));
    }
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(|e| format!("tshark: {e}"))?;
    let out = child.stdout.take().ok_or("tshark without output")?;
    let streams = read_pdml(BufReader::new(out)).map_err(|e| format!("tshark: {e}"))?;
    let status = child.wait().map_err(|e| format!("tshark: {e}"))?;
    if status.success() { Ok(streams) } else { Err(format!("tshark: {status} for {}", path.display())) }
}

/// PDML has one element a line. A PDU is a `proto` named nvme-tcp with what follows up to the next.
fn read_pdml(lines: impl BufRead) -> std::io::Result<Streams> {
    let mut out = Streams::new();
    let (mut key, mut inside) = (None, false);
    for line in lines.lines() {
        let line = line?;
        let line = line.trim_start();
        if let Some(rest) = line.strip_prefix("<proto ") {
            let name = attribute(rest, "name").unwrap_or_default();
            inside = name == "nvme-tcp" || (inside && name != "tcp");
            if name == "tcp" {
                key = ports_of(&attribute(rest, "showname").unwrap_or_default());
            } else if name == "nvme-tcp"
                && let Some(k) = key
            {
                out.entry(k).or_default().push_back(Shown::default());
            }
        } else if inside
            && let Some(rest) = line.strip_prefix("<field ")
            && let Some(pdu) = key.and_then(|k| out.get_mut(&k)).and_then(VecDeque::back_mut)
        {
            let get = |name| attribute(rest, name).unwrap_or_default();
            pdu.fields.push((get("name"), get("show"), get("value")));
        }
    }
    Ok(out)
}

/// `… Src Port: 49972, Dst Port: 4420, …`
fn ports_of(showname: &str) -> Option<(u16, u16)> {
    let after = |what: &str| {
        let rest = showname.split_once(what)?.1;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    Some((after("Src Port: ")?, after("Dst Port: ")?))
}

fn attribute(element: &str, name: &str) -> Option<String> {
    let start = element.find(&format!("{name}=\""))?;
    let before = element[..start].chars().next_back();
    if before.is_some_and(|c| c != ' ') {
        return attribute(&element[start + 1..], name);
    }
    let value = element[start + name.len() + 2..].split('"').next()?;
    Some(value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&#x27;", "'").replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PDML: &str = r#"<packet>
  <proto name="tcp" showname="Transmission Control Protocol, Src Port: 49972, Dst Port: 4420, Seq: 1">
    <field name="tcp.srcport" show="49972" value="c334"/>
  </proto>
  <proto name="nvme-tcp" showname="NVM Express Fabrics TCP" size="24" pos="0">
    <field name="nvme-tcp.type" showname="Pdu Type" size="1" pos="0" show="6" value="06"/>
    <field name="nvme-tcp.plen" showname="Length" size="4" pos="4" show="536" value="18020000"/>
    <field name="nvme-tcp.cmd.cid" showname="Cmd &quot;ID&quot;" size="2" pos="8" show="0x0076" value="7600"/>
  </proto>
  <proto name="nvme" size="4096" pos="24"/>
    <field name="nvme.cmd.identify.ctrl.vid" show="0x1b36" value="361b"/>
  <proto name="nvme-tcp" size="8" pos="40">
    <field name="nvme-tcp.type" show="5" value="05"/>
  </proto>
</packet>"#;

    #[test]
    fn pdus_and_their_data_are_found() {
        let streams = read_pdml(PDML.as_bytes()).unwrap();
        let names: Vec<Vec<&str>> =
            streams[&(49972, 4420)].iter().map(|s| s.fields.iter().map(|f| f.0.as_str()).collect()).collect();
        let first = ["nvme-tcp.type", "nvme-tcp.plen", "nvme-tcp.cmd.cid", "nvme.cmd.identify.ctrl.vid"];
        assert_eq!(names, [&first[..], &["nvme-tcp.type"][..]]);
    }

    #[test]
    fn values_are_the_same_however_they_are_printed() {
        assert!(same("118", "0x0076", "7600") && same("536", "536", "18020000") && same("127", "7f", "7f"));
        assert!(same("0102", "01:02", "0102") && same("nqn.x", "nqn.x", "6e716e2e78"));
        assert!(!same("119", "0x0076", "7600") && !same("24", "536", "18020000") && !same("16", "10", "0a"));
        assert!(same(&format!("05{}", "00".repeat(15)), "5", ""));
    }

    /// A value changed on our side is a difference; a PDU with another CID is not paired with it.
    #[test]
    fn a_difference_is_told() {
        let s = read_pdml(PDML.as_bytes()).unwrap().remove(&(49972, 4420)).unwrap().remove(0).unwrap();
        let pdu = |cid| {
            let mut bytes = vec![0; 536];
            bytes[..9].copy_from_slice(&[6, 0, 24, 24, 0x18, 2, 0, 0, cid]);
            Pdu::parse(&bytes.into()).unwrap()
        };
        assert!(s.is(&pdu(0x76)) && !s.is(&pdu(0x77)));
        let mut c = Compared::default();
        c.field("nvme-tcp.plen", "536", &s, 0, &pdu(0x76));
        c.field("nvme-tcp.ttag", "1", &s, 0, &pdu(0x76));
        assert_eq!((c.agreed, c.left_out, c.differ.len()), (1, 1, 0));
        c.field("nvme-tcp.plen", "537", &s, 0, &pdu(0x76));
        assert_eq!(c.differ["nvme-tcp.plen"], (1, "PDU 0, H2CData: 537 here, 536 there".to_owned()));
    }
}
