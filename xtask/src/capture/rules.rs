//! Where we and tshark differ, and why we are right: the rules behind docs/wireshark.md.

use nvmf_capture::roce::{Packet, Place};
use nvmf_wire::Sqe;
use nvmf_wire::tcp::Pdu;

use super::parity::Ours;
use crate::cmd;

/// One difference: a field that both show otherwise, or that tshark alone shows.
pub struct Case<'a> {
    /// Its name.
    pub name: &'a str,
    /// Which of the values of that name it is, from 0.
    pub index: usize,
    /// Our value; `None` where we do not show it.
    pub ours: Option<&'a str>,
    /// tshark's.
    pub theirs: &'a str,
    /// The PDU as we read it; `None` where we have none there.
    pub pdu: Option<&'a Ours>,
    /// A packet was sent again before this frame, or in it.
    pub again: bool,
    /// The RoCEv2 packet of that frame.
    pub roce: Option<&'a Packet>,
}

/// A difference that is explained.
pub struct Rule {
    /// Its name.
    pub id: &'static str,
    /// What the names of the fields begin with; empty for all.
    pub fields: &'static [&'static str],
    /// When it holds, in words.
    pub condition: &'static str,
    /// What tshark does, and what the text says.
    pub why: &'static str,
    /// Requirement or section.
    pub source: &'static str,
    /// A frame of a recorded capture that shows it.
    pub example: &'static str,
    /// When it holds.
    pub when: fn(&Case<'_>) -> bool,
}

impl Rule {
    /// True where the rule explains the difference.
    pub fn holds(&self, case: &Case<'_>) -> bool {
        let named = self.fields.is_empty() || self.fields.iter().any(|f| case.name.starts_with(f));
        named && (self.when)(case)
    }
}

/// The versions of tshark that the rules were looked at with.
pub const VERSIONS: &str = "4.0.17";

/// Fields of which tshark shows other bits than the text gives them: end of the name, what the name of the word ends with instead, tshark's
/// mask.
const WRONG_BITS: &[(&str, &str, u64)] = &[
    ("get_logpage.dword10.lsp", "get_logpage.dword10", 0x1f00),
    ("get_logpage.dword10.rsvd", "get_logpage.dword10", 0x6000),
    ("identify.get_logpage.dword14.uuid_index", "get_logpage.dword14", 0x3f),
    ("identify.get_logpage.dword14.rsvd", "get_logpage.dword14", 0xffff_ffc0),
    ("cmd.prinfo", "cmd.prinfo", 1),
    (".pm.rsvd", ".pm", 0xff00_0000),
    (".tt.rsvd", ".tt", 0xc0_0000),
    (".erec.rsvd", ".erec", 0xfe_0000),
    (".rsrvn.rsvd1", ".rsrvn", 0xff_fff0),
    (".irqv.cd", ".irqv", 0x1_ffff),
    (".irqv.iv", ".irqv", 0xffff_ffff),
    (".hctm.tmt1", ".hctm", 0xffff_ffff),
    (".hctm.tmt2", ".hctm", 0xffff_ffff),
    (".apst.itpt", ".apst", 0xfff_ff00),
];

/// All of them.
pub const RULES: &[Rule] = &[
    Rule {
        id: "nlb-plus-one",
        fields: &["nvme.cmd.nlb"],
        condition: "a Read or Write",
        why: "tshark shows the number of blocks, one more than the field holds",
        source: "NVM Command Set 1.0, 3.2.4 and 3.2.6: NLB is a 0's based value",
        example: "linux-6.12/tcp-abort.pcap.gz frame 95",
        when: |c| number(c.ours).and_then(|n| n.checked_add(1)) == number(Some(c.theirs)),
    },
    Rule {
        id: "io-effects-shifted",
        fields: &["nvme.cmd.get_logpage.cmd_and_eff."],
        condition: "an entry for an I/O command of Commands Supported and Effects",
        why: "tshark reads the entries of I/O commands four bytes too far on, each as that of the next opcode",
        source: "Base 2.0, 5.16.1.6: the entries of I/O commands begin at byte 1024",
        example: "linux-6.12/tcp-abort.pcap.gz frame 30",
        when: |c| c.index >= 256 && c.ours.is_some(),
    },
    Rule {
        id: "effects-behind-end",
        fields: &["nvme.cmd.get_logpage.cmd_and_eff."],
        condition: "a piece of Commands Supported and Effects that begins behind byte 1023",
        why: "tshark takes the reserved bytes from 2048 on for entries",
        source: "Base 2.0, 5.16.1.6: 256 entries for Admin commands, 256 for I/O commands",
        example: "linux-6.12/rdma-connect-plain.pcap.gz frame 47",
        when: |c| c.ours.is_none() && c.pdu.and_then(|p| p.piece).is_some_and(|(offset, part)| part && offset >= 1024),
    },
    Rule {
        id: "bytes-in-pieces",
        fields: &["nvme."],
        condition: "a field of bytes that comes in several PDUs or packets",
        why: "tshark shows the part that each has; we show all of it with the last",
        source: "no requirement: a choice",
        example: "linux-6.12/rdma-connect-plain.pcap.gz frame 128",
        when: |c| {
            let part = c.pdu.and_then(|p| p.piece).is_some_and(|(_, part)| part);
            let bytes = c.theirs.split(':').all(|b| b.len() == 2 && u8::from_str_radix(b, 16).is_ok());
            part && bytes && c.ours.is_none_or(|ours| ours.ends_with(c.theirs))
        },
    },
    Rule {
        id: "wrong-bits",
        fields: &["nvme.cmd.", "nvme.cqe.dword0.get_features.", "nvme.set_features."],
        condition: "a field of `WRONG_BITS`: LSP, PRINFO, UUID Index of Get Log Page, incompressible of DSM, some reserved bits of features",
        why: "tshark's masks are those of an older revision, or wrong; what it shows are the bits of its mask",
        source: "Base 2.0, 5.16, 5.27; NVM Command Set 1.0, 3.2.4, 3.2.6",
        example: "linux-6.12/tcp-admin.pcap.gz frame 27",
        when: |c| {
            let Some((_, word, mask)) = WRONG_BITS.iter().find(|w| c.name.ends_with(w.0)) else { return false };
            let word = c.pdu.and_then(|p| p.word(c.name, word));
            word.is_some_and(|w| number(Some(c.theirs)) == Some((w & mask) >> mask.trailing_zeros()))
        },
    },
    Rule {
        id: "error-entry",
        fields: &["nvme.cmd.get_logpage.errinf."],
        condition: "an Error Information entry",
        why: "tshark reads NSID and the reserved bytes at the end with wrong lengths, and the parts of PEL with overlapping masks",
        source: "Base 2.0, 5.16.1.2: PEL has the byte in bits 7:0 and the bit in 10:8, NSID is four bytes, an entry ends at byte 63",
        example: "linux-6.12/tcp-admin.pcap.gz frame 236",
        when: |c| ["pel.bytee", "pel.bite", "pel.rsvd", "nsid", "rsvd1"].iter().any(|f| c.name.ends_with(f)) && c.ours.is_some(),
    },
    Rule {
        id: "unused-entries",
        fields: &["nvme.cmd.get_logpage.changed_nslist"],
        condition: "an entry of 0 in a Changed Namespace List",
        why: "tshark shows the unused entries behind the list as namespaces; the list ends at the first 0",
        source: "Base 2.0, 5.16.1.5",
        example: "linux-6.12/tcp-aen-ns.pcap.gz frame 206",
        when: |c| c.ours.is_none() && number(Some(c.theirs)) == Some(0),
    },
    Rule {
        id: "failed-connect",
        fields: &["nvme.fabrics.cqe.connect."],
        condition: "the answer to a Connect with another status than success",
        why: "tshark reads CNTLID and AUTHREQ, which only the answer to a Connect that succeeds has",
        source: "Base 2.0, 3.3.2 and Figure 383: a Connect that fails has a status and, where it is Invalid Parameters, IPO and IATTR",
        example: "linux-6.12/tcp-errors-connect.pcap.gz frame 9",
        when: |c| c.ours.is_none() && c.pdu.is_some_and(|p| p.status() != Some(0)),
    },
    Rule {
        id: "no-event-on-io-queue",
        fields: &["nvme.cqe.dword0.aev"],
        condition: "the answer to opcode 0Ch on an I/O queue",
        why: "tshark takes opcode 0Ch for an Asynchronous Event Request on every queue",
        source: "Base 2.0, 5.2: an Admin command",
        example: "linux-6.12/tcp-io-misc.pcap.gz frame 243",
        when: |c| c.ours.is_none() && c.pdu.is_some_and(|p| !p.admin),
    },
    Rule {
        id: "send-in-pieces",
        fields: &["nvme-rdma.unknown_data", "nvme-rdma.cmd.qid"],
        condition: "a packet of a SEND that is not its only one",
        why: "tshark does not put SENDs together: it shows the bytes of each packet, and knows nothing of the command later",
        source: "IBA vol. 1, 9.7.2: a message longer than the path MTU is sent in several packets",
        example: "linux-6.12/rdma-connect-plain.pcap.gz frame 79",
        when: |c| {
            c.ours.is_none()
                && c.roce.and_then(|p| p.headers().ok()).is_some_and(|h| h.bth.opcode().0 <= 3 || h.bth.opcode().0 == 0x16)
        },
    },
    Rule {
        id: "sent-again",
        fields: &["nvme"],
        condition: "a RoCEv2 packet that was seen before",
        why: "tshark takes a retransmission for a new message",
        source: "IBA vol. 1, 9.7.5: a PSN that is sent again is the same packet",
        example: "linux-6.12/rdma-keepalive-reset.pcap.gz frame 255",
        when: |c| c.ours.is_none() && c.roce.is_some_and(|p| p.place != Place::Next),
    },
    Rule {
        id: "latency-of-a-copy",
        fields: &[
            "nvme.cmd_latency",
            "nvme.fabrics.cmd_latency",
            "nvme.cmd_pkt",
            "nvme.fabrics.cmd_pkt",
            "nvme-rdma.write_to_host_prev",
        ],
        condition: "an answer or data over RDMA behind a packet that was sent again",
        why: "tshark counts from the last copy of the command or of the data before, and links to it; it was sent with the first",
        source: "IBA vol. 1, 9.7.5",
        example: "linux-6.12/rdma-keepalive-reset.pcap.gz frame 258",
        when: |c| c.again && c.roce.is_some() && c.ours.is_some(),
    },
    Rule {
        id: "data-behind-padding",
        fields: &["nvme.fabrics.cmd.connect.data."],
        condition: "a Connect whose data begins behind padding",
        why: "tshark reads the data right behind the SQE, whatever PDO says",
        source: "NVMe/TCP 1.0, 3.6.2.5: PDO is the offset of the data",
        example: "spdk-26.09/16b-spdk-malformed-header.pcap.gz frame 406",
        when: |c| c.parts().is_some_and(|p| !p.pad.is_empty()),
    },
    Rule {
        id: "wrong-header-length",
        fields: &["nvme-tcp.cmd.data"],
        condition: "a command capsule whose HLEN is not 72",
        why: "tshark takes what HLEN is short of 72 for data; the SQE is 64 bytes whatever HLEN says",
        source: "NVMe/TCP 1.0, 3.6.2.5",
        example: "spdk-26.09/16b-spdk-malformed-header.pcap.gz frame 187",
        when: |c| c.ours.is_none() && c.pdu.is_some_and(|p| p.bytes.first() == Some(&4) && p.bytes.get(2) != Some(&72)),
    },
    Rule {
        id: "data-of-fabrics",
        fields: &["nvme-tcp.unknown_data"],
        condition: "H2CData of a Fabrics command",
        why: "tshark holds that such commands have no H2CData; we show Connect data here, too",
        source: "NVMe/TCP 1.0, 3.3.2: data that is not in the capsule comes by H2CData",
        example: "spdk-26.09/16c-spdk-malformed-h2cdata.pcap.gz frame 10",
        when: |c| c.ours.is_none() && c.h2c_data() && c.sqe().is_some_and(|s| s.fctype().is_some()),
    },
    Rule {
        id: "too-short",
        fields: &["nvme"],
        condition: "a PDU whose header contradicts itself, or that is shorter than its type has to be",
        why: "tshark shows what is there up to the end; we show a structure where all of it is there",
        source: "NVMe/TCP 1.0, 3.6.2: HLEN and PLEN of each type",
        example: "spdk-26.09/16b-spdk-malformed-header.pcap.gz frame 307",
        when: |c| {
            c.ours.is_none()
                && c.pdu
                    .is_some_and(|p| p.pdu.is_none() || p.bytes.len() < 24 || (p.bytes.first() == Some(&4) && p.bytes.len() < 72))
        },
    },
    Rule {
        id: "guessed-queue",
        fields: &["nvme-tcp.cmd.qid"],
        condition: "queue 0 on a connection of which no Connect and no whole Admin command was seen",
        why: "tshark guesses the queue from the first byte of a command, also of one that is cut short",
        source: "Base 2.0, 3.3.1: Connect says which queue it is",
        example: "spdk-26.09/16b-spdk-malformed-header.pcap.gz frame 308",
        when: |c| c.ours.is_none() && number(Some(c.theirs)) == Some(0),
    },
    Rule {
        id: "answer-to-nothing",
        fields: &["nvme-tcp.unknown_data", "nvme-rdma.unknown_data"],
        condition: "an answer whose command is not in the capture or was answered before",
        why: "tshark shows bytes; what a CQE says of itself can be read without the command",
        source: "Base 2.0, 4.2",
        example: "spdk-26.09/02-spdk-identify.pcap.gz",
        when: |c| c.ours.is_none() && c.pdu.is_some_and(|p| p.fields.get("nvme.cqe.cid").is_some()),
    },
];

const PAGE: &str = "docs/wireshark.md";
const BEGIN: &str = "<!-- rules: written by `cargo xtask capture rules --bless` -->\n";
const END: &str = "<!-- end of rules -->\n";

/// Checks the table in docs/wireshark.md, or writes it.
pub fn check(bless: bool) -> Result<(), String> {
    let path = cmd::root()?.join(PAGE);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{PAGE}: {e}"))?;
    let parts = text.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) = parts.ok_or(format!("{PAGE}: lacks the marks of the table"))?;
    let fresh = format!("{head}{BEGIN}{}{END}{tail}", table());
    if fresh == text {
        return Ok(());
    }
    if bless {
        return std::fs::write(&path, fresh).map_err(|e| format!("{PAGE}: {e}"));
    }
    Err(format!("{PAGE} is not what the rules make: run `cargo xtask capture rules --bless` and commit the result"))
}

/// The rules as a table.
fn table() -> String {
    let mut out = format!(
        "\nLooked at with tshark {VERSIONS}.\n\n| rule | fields | when | what tshark does | source | example |\n|---|---|---|---|---|---|\n"
    );
    for rule in RULES {
        let fields: Vec<String> =
            rule.fields.iter().map(|f| if f.ends_with('.') { format!("`{f}*`") } else { format!("`{f}`") }).collect();
        let row = [rule.id, &fields.join(", "), rule.condition, rule.why, rule.source, rule.example];
        out.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    out.push('\n');
    out
}

/// A number as tshark prints it.
fn number(text: Option<&str>) -> Option<u64> {
    let text = text?;
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

impl Case<'_> {
    fn parts(&self) -> Option<&Pdu> {
        self.pdu?.pdu.as_ref()
    }

    fn h2c_data(&self) -> bool {
        self.pdu.is_some_and(|p| p.bytes.first() == Some(&6))
    }

    fn sqe(&self) -> Option<&Sqe> {
        self.pdu?.sqe.as_ref()
    }
}
