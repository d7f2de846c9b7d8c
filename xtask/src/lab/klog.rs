//! Judging the guest's kernel log: a suite that makes the kernel complain about itself has found something.
//!
//! Messages of the target about its peer (`nvmet: ctrl 1 keep-alive timer expired`) are its daily work and no complaint.

use std::collections::BTreeSet;

/// What the kernel says when something in it went wrong.
const COMPLAINTS: &[&str] = &[
    "Oops",
    "BUG:",
    "WARNING:",
    "Kernel panic",
    "general protection fault",
    "Unable to handle kernel",
    "refcount_t:",
    "list_add corruption",
    "list_del corruption",
    "UBSAN:",
    "blocked for more than",
];

/// Signs of a slow machine, not of a wrong kernel: software emulation on busy processors stalls a guest for seconds.
const SLOWNESS: &[&str] = &["soft lockup", "rcu_sched", "rcu_preempt", "hrtimer:"];

/// A complaint of the page allocator that destructive checks provoke: the target asks it for as much as SQSIZE or an SGL
/// descriptor says (docs/findings.md).
pub const PROVOKED: &str = "at mm/page_alloc.c";

/// A record's text without its head (`6,123,4567,-;`), one line a record; `/dev/kmsg` gives them so.
pub fn readable(kmsg: &str) -> String {
    let mut text = String::new();
    for line in kmsg.lines() {
        // a line that begins with a blank continues the record with its properties
        if line.starts_with(' ') {
            continue;
        }
        let (head, said) = line.split_once(';').unwrap_or(("", line));
        let micros: u64 = head.split(',').nth(2).and_then(|n| n.parse().ok()).unwrap_or(0);
        let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
        text.push_str(&format!("[{seconds:5}.{rest:06}] {}\n", said.trim_end()));
    }
    text
}

/// The lines in which the kernel complains about itself.
pub fn complaints(log: &str) -> Vec<&str> {
    log.lines()
        .filter(|line| COMPLAINTS.iter().any(|sign| line.contains(sign)))
        .filter(|line| !SLOWNESS.iter().any(|sign| line.contains(sign)))
        .collect()
}

/// The line in which the kernel tells that a thread of its own died; what used that thread hangs from then on.
pub fn death(log: &str) -> Option<&str> {
    log.lines().find(|line| {
        ["Oops:", "Kernel panic", "general protection fault", "percpu_ref underflow"].iter().any(|sign| line.contains(sign))
    })
}

/// A line of the kernel's NVMe host at level warning that does not blame its controller rightly.
struct Allowed {
    part: &'static str,
    /// Holds only while the host itself takes the controller down.
    going: bool,
    reason: &'static str,
}

const HOST_MAY_SAY: &[Allowed] = &[
    Allowed {
        part: "Failed to configure AEN (cfg 80000000)",
        going: false,
        reason: "at a discovery controller connected with KATO 0, which has no events to offer (DISC-CTRL-14): Set Features is refused",
    },
    Allowed {
        part: "bad crto:0",
        going: false,
        reason: "CRTO is reserved at a discovery controller and reads as 0 (FAB-PROP-05, FAB-PROP-13), CAP.CRMS is set at any",
    },
    Allowed {
        part: "resetting controller",
        going: false,
        reason: "`nvme reset` asked for it; a controller that is lost gives `starting error recovery`",
    },
    Allowed { part: "no usable path - requeuing I/O", going: false, reason: "a write waits while the controller is reset" },
    Allowed {
        part: "failed nvme_keep_alive_end_io error=4",
        going: true,
        reason: "a Keep Alive that came due as the host took the controller down is ended by the host and never sent",
    },
    Allowed {
        part: "long keepalive RTT",
        going: false,
        reason: "how fast our target answers is judged on the wire; this counts the guest's own delays, and from the boot for one never sent",
    },
];

/// What the kernel's NVMe host said at level warning or worse.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HostErrors<'a> {
    /// Complaints about what its controller did.
    pub wrong: Vec<&'a str>,
    /// Lines that do not blame the controller rightly, each once, with the reason.
    pub allowed: Vec<(&'a str, &'static str)>,
}

/// Judges records as `/dev/kmsg` gives them, for their level; also what [`complaints`] finds.
pub fn host_errors(kmsg: &str) -> HostErrors<'_> {
    const WARNING: u32 = 4;
    let mut found = HostErrors::default();
    let mut going = BTreeSet::new();
    for record in kmsg.lines().filter(|line| !line.starts_with(' ')) {
        let Some((head, said)) = record.split_once(';') else { continue };
        // the priority is facility times eight and the level
        let level = head.split(',').next().and_then(|n| n.parse::<u32>().ok()).map_or(0, |n| n % 8);
        let of_host = ["nvme ", "nvme_", "nvme-", "block nvme"].iter().any(|start| said.starts_with(start));
        let device = said.split(':').next().unwrap_or_default();
        if ["Removing ctrl", "resetting controller"].iter().any(|what| said.contains(what)) {
            going.insert(device);
        } else if said.contains("creating") || said.contains("new ctrl") {
            going.remove(device);
        }
        let io_error = said.contains("I/O error, dev nvme") || said.contains("Buffer I/O error on dev nvme");
        if !complaints(said).is_empty() {
            found.wrong.push(said);
        } else if level <= WARNING && (of_host || io_error) {
            match HOST_MAY_SAY.iter().find(|a| said.contains(a.part) && (!a.going || going.contains(device))) {
                None => found.wrong.push(said),
                Some(a) if !found.allowed.iter().any(|(line, _)| line.contains(a.part)) => found.allowed.push((said, a.reason)),
                Some(_) => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keep_alive_may_fail_while_its_controller_goes() {
        let lost = "3,1,1000,-;nvme nvme0: failed nvme_keep_alive_end_io error=4\n";
        let going = "6,2,2000,-;nvme nvme0: Removing ctrl: NQN \"x\"\n";
        let back = "6,3,3000,-;nvme nvme0: creating 4 I/O queues.\n";
        assert_eq!(host_errors(lost).wrong.len(), 1);
        assert_eq!(host_errors(&format!("{going}{lost}")).wrong.len(), 0);
        assert_eq!(host_errors(&format!("{going}{back}{lost}")).wrong.len(), 1);
        assert_eq!(host_errors(&format!("{}{lost}", going.replace("nvme0", "nvme1"))).wrong.len(), 1);
    }

    #[test]
    fn records_become_lines_and_complaints_are_found() {
        let kmsg = "6,339,5140900,-;nvmet: adding nsid 1\n SUBSYSTEM=x\n4,340,6000001,-;WARNING: CPU: 0 PID: 1 at x.c:1\n\
                    0,341,6000002,-;watchdog: BUG: soft lockup - CPU#0 stuck for 22s!\n";
        let text = readable(kmsg);
        assert_eq!(text.lines().next(), Some("[    5.140900] nvmet: adding nsid 1"));
        assert_eq!(complaints(&text), ["[    6.000001] WARNING: CPU: 0 PID: 1 at x.c:1"]);
    }
    #[test]
    fn what_the_host_says_is_judged_by_its_level() {
        let kmsg = "6,1,1000,-;nvme nvme0: creating 1 I/O queues.\n3,2,2000,-;nvme nvme0: Failed to configure AEN (cfg 80000000)\n\
                    3,3,3000,-;nvme nvme0: Property Set error: 880, offset 0x14\n4,4,4000,-;nvmet: something of the target\n\
                    3,5,5000,-;I/O error, dev nvme0n1, sector 8\n3,6,6000,-;nvme nvme1: Failed to configure AEN (cfg 80000000)\n\
                    4,7,7000,-;WARNING: CPU: 0 PID: 1 at x.c:1\n";
        let found = host_errors(kmsg);
        let wrong = [
            "nvme nvme0: Property Set error: 880, offset 0x14",
            "I/O error, dev nvme0n1, sector 8",
            "WARNING: CPU: 0 PID: 1 at x.c:1",
        ];
        assert_eq!(found.wrong, wrong);
        let allowed: Vec<&str> = found.allowed.iter().map(|(line, _)| *line).collect();
        assert_eq!(allowed, ["nvme nvme0: Failed to configure AEN (cfg 80000000)"]);
    }
}
