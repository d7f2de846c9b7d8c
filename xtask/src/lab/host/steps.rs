//! What the guest's host is made to do, in order.
//!
//! A step is one or more runs of `xtask/lab/host.sh` in the guest, and changes of what the target serves between them.

use std::time::{Duration, Instant};

use super::guest::{self, Guest};
use super::target::{NQN, Reach, Target};

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// What fits beside the suite.
    Smoke,
    /// All steps.
    Usual,
    /// All steps, with more data and more time.
    Full,
}

/// I/O queues that a step asks for.
pub const QUEUES: u8 = 4;
/// Keep Alive Timeout that a step asks for, seconds; the Linux host sends a Keep Alive each half of it.
const KATO_S: u32 = 4;

/// How long the guest may be silent in a step: it tells of each piece of work, and a machine with other work is slow.
const PATIENCE: Duration = Duration::from_secs(180);

struct Step {
    name: &'static str,
    acts: Vec<Act>,
    /// The least extent that has it.
    from: Extent,
}

enum Act {
    /// What `host.sh` is to do, with its arguments.
    Guest(String),
    /// What the target is told.
    Target(&'static str),
}

fn steps(extent: Extent) -> Vec<Step> {
    use Extent::{Full, Smoke, Usual};
    let (plain, digests) = match extent {
        Smoke => (2, 2),
        Usual => (16, 16),
        Full => (64, 16),
    };
    let alive = if extent == Full { 64 } else { 3 * KATO_S + 1 };
    let guest = |line: &str| Act::Guest(line.to_owned());
    let step = |from, name, line: &str| Step { name, acts: vec![guest(line)], from };
    let all = vec![
        step(Smoke, "nvme discover", "discover"),
        Step { name: "persistent discovery: a subsystem comes and goes", acts: discovery(), from: Smoke },
        step(Smoke, "nvme connect", "connect 1"),
        step(Smoke, "id-ctrl, id-ns, smart-log, get-feature", "identify"),
        step(Usual, "other logs", "logs"),
        step(Usual, "set-feature, get-feature of every kind", "features"),
        step(Usual, "other I/O commands", "commands"),
        step(Usual, "an error and its log entry", "error"),
        step(Smoke, "write and read back", &format!("data 1 {plain}")),
        Step { name: "a namespace comes and goes", acts: namespace(), from: Smoke },
        step(Smoke, "nvme reset under writes", "reset"),
        step(Smoke, "nvme disconnect", "disconnect"),
        step(Smoke, "nvme connect -g -G, several queues", &format!("connect 1 -g -G -i {QUEUES} -Q 32 -k {KATO_S}")),
        step(Smoke, "write and read back, digests", &format!("data 11 {digests}")),
        step(Usual, "nvme reset under writes, digests", "reset"),
        step(Smoke, "keep alive over three periods or more", &format!("keep-alive {alive}")),
        step(Smoke, "a second host connects", "connect 2 -g"),
        step(Usual, "two hosts at once", "two-hosts 21 4"),
        step(Smoke, "both disconnect", "disconnect"),
        step(Smoke, "nvme connect-all", "connect-all"),
        step(Smoke, "write and read back, no SQ flow control", "data 31 1"),
        step(Smoke, "nvme disconnect again", "disconnect"),
    ];
    all.into_iter().filter(|step| step.from <= extent).collect()
}

/// The same over RDMA: 64 MiB and more are written and compared, in two namespaces.
fn rdma_steps(extent: Extent) -> Vec<Step> {
    use Extent::Smoke;
    let each = if extent == Extent::Full { 64 } else { 32 };
    let step = |name, line: &str| Step { name, acts: vec![Act::Guest(line.to_owned())], from: Smoke };
    vec![
        step("nvme discover over RDMA", "discover"),
        step("nvme connect -t rdma", "connect 1"),
        step("id-ctrl, id-ns, smart-log, get-feature", "identify"),
        step("other logs", "logs"),
        step("other I/O commands", "commands"),
        step("an error and its log entry", "error"),
        step("write and read back", &format!("data 1 {each}")),
        step("nvme reset under writes", "reset"),
        step("nvme disconnect", "disconnect"),
        step("nvme connect, several queues", &format!("connect 1 -i {QUEUES} -Q 32 -k {KATO_S}")),
        step("write and read back, several queues", "data 11 4"),
        step("keep alive over three periods or more", &format!("keep-alive {}", 3 * KATO_S + 1)),
        step("nvme disconnect again", "disconnect"),
    ]
}

fn discovery() -> Vec<Act> {
    const ADD: &str = "subsystem add nqn.2026-01.org.example:lab:later mem:16MiB";
    const REMOVE: &str = "subsystem remove nqn.2026-01.org.example:lab:later";
    vec![
        Act::Guest("discovery-persistent".into()),
        Act::Target(ADD),
        Act::Guest("discovery-changed 1".into()),
        Act::Guest("discovery-connect nqn.2026-01.org.example:lab:later".into()),
        Act::Target(REMOVE),
        Act::Guest("discovery-changed 2".into()),
        Act::Guest("discovery-gone nqn.2026-01.org.example:lab:later".into()),
    ]
}

fn namespace() -> Vec<Act> {
    vec![
        Act::Target("namespace add mem:16MiB"),
        Act::Guest("namespace-comes 3".into()),
        Act::Target("namespace remove 3"),
        Act::Guest("namespace-goes 3".into()),
    ]
}

/// Runs the steps in order; the first that fails is the last, for what follows builds on it.
pub fn play(guest: &mut Guest, target: &Target, reach: Reach, extent: Extent) -> (usize, Vec<String>) {
    let mut passed = 0;
    let steps = match reach {
        Reach::Tcp => steps(extent),
        Reach::Rdma(_) => rdma_steps(extent),
    };
    for step in steps {
        let begun = Instant::now();
        let ended = step.acts.iter().try_fold(String::new(), |_, act| act.run(guest, target));
        let seconds = begun.elapsed().as_secs_f32();
        match ended {
            Ok(said) => println!("lab host: ok    {} ({seconds:.1} s): {said}", step.name),
            Err(e) => return (passed, vec![format!("{} ({seconds:.1} s): {e}", step.name)]),
        }
        passed += 1;
    }
    (passed, Vec::new())
}

impl Act {
    /// The last line that was said.
    fn run(&self, guest: &Guest, target: &Target) -> Result<String, String> {
        let line = match self {
            Act::Target(words) => return target.control(words),
            Act::Guest(line) => line,
        };
        let (status, said) = guest::exec(guest.dir(), &format!("sh -eu /host.sh {}", with_target(line, &target.port)), PATIENCE)?;
        match status {
            0 => Ok(said.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or_default().to_owned()),
            status => Err(format!("{line}: status {status}: {}", said.trim())),
        }
    }
}

/// `connect 1` becomes `connect 4420 NQN 1`.
pub fn with_target(line: &str, port: &str) -> String {
    let (step, arguments) = line.split_once(' ').unwrap_or((line, ""));
    format!("{step} {port} {NQN} {arguments}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_gets_the_target_before_its_arguments() {
        assert_eq!(with_target("connect 1 -g", "7"), format!("connect 7 {NQN} 1 -g"));
        assert_eq!(with_target("reset", "7"), format!("reset 7 {NQN} "));
    }

    #[test]
    fn each_extent_has_the_steps_of_the_smaller_one() {
        let [smoke, usual, full] = [Extent::Smoke, Extent::Usual, Extent::Full].map(|extent| steps(extent).len());
        assert!(smoke < usual && usual == full, "{smoke} {usual} {full}");
    }
}
