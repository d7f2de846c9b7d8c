//! Lines to a [`Scene`], with everything checked that can be before it is played.

use core::cmp::Ordering;
use core::time::Duration;
use std::collections::BTreeSet;

use nom::IResult;
use nvmf_seam::rdma::Place;

use super::line::{Line, line, names, number, range, rate, share, size, time, whole};
use super::{
    Expect, FaultKind, FaultSpec, Figure, HostSpec, LinkSpec, NicSpec, RouteSpec, Scene, SceneError, SwitchSpec, TargetSpec,
};
use crate::lan::{EcnSettings, LinkSettings, PerMillion, PfcSettings, SwitchSettings, Wrong};

/// Nodes of one scene.
const NODES_MAX: usize = 512;

/// Longest time of a scene.
const LATEST: Duration = Duration::from_secs(3600);

pub(super) fn scene(text: &str) -> Result<Scene, SceneError> {
    let mut s = Scene { heal: Duration::from_millis(100), within: Duration::from_secs(60), ..Scene::default() };
    for (i, l) in text.lines().enumerate() {
        let wrong = |message: String| SceneError { line: i + 1, message };
        let l = match line(l) {
            Ok(None) => continue,
            Ok(Some(l)) => l,
            Err(column) => return Err(wrong(format!("column {column}: words and then name=value were expected"))),
        };
        let mut at = Values { line: &l, asked: BTreeSet::new() };
        statement(&mut s, &mut at, text.lines().nth(i).unwrap_or("").trim()).and_then(|()| at.end()).map_err(wrong)?;
    }
    let whole = check(&s).map_err(|message| SceneError { line: text.lines().count().max(1), message });
    whole.map(|()| s)
}

/// Values of one line, each of which has to be asked for.
struct Values<'a> {
    line: &'a Line<'a>,
    asked: BTreeSet<&'static str>,
}

impl<'a> Values<'a> {
    fn text(&mut self, name: &'static str) -> Option<&'a str> {
        self.asked.insert(name);
        self.line.with.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
    }

    fn get<T>(&mut self, name: &'static str, form: &str, p: impl Fn(&str) -> IResult<&str, T>) -> Result<Option<T>, String> {
        let wrong = |v: &str| format!("{name}={v}: {form} was expected");
        self.text(name).map(|v| whole(v, p).ok_or_else(|| wrong(v))).transpose()
    }

    fn size(&mut self, name: &'static str, to: &mut u32) -> Result<(), String> {
        if let Some(n) = self.get(name, "a size such as 64KiB", size)? {
            *to = u32::try_from(n).map_err(|_| format!("{name} is more than 4 GiB"))?;
        }
        Ok(())
    }

    fn number<T: TryFrom<u64>>(&mut self, name: &'static str, to: &mut T) -> Result<(), String> {
        if let Some(n) = self.get(name, "a number", number)? {
            *to = T::try_from(n).map_err(|_| format!("{name}={n} is too much"))?;
        }
        Ok(())
    }

    fn time(&mut self, name: &'static str, to: &mut Duration) -> Result<(), String> {
        if let Some(t) = self.get(name, "a time such as 20ms", time)? {
            *to = t;
        }
        Ok(())
    }

    fn times(&mut self, name: &'static str, to: &mut (Duration, Duration)) -> Result<(), String> {
        if let Some(t) = self.get(name, "a time such as 20ms or 0ms..20ms", |i| range(i, time))? {
            *to = t;
        }
        Ok(())
    }

    fn flag(&mut self, name: &'static str, to: &mut bool) -> Result<(), String> {
        *to = match self.text(name) {
            None => return Ok(()),
            Some("yes") => true,
            Some("no") => false,
            Some(other) => return Err(format!("{name}={other}: yes or no")),
        };
        Ok(())
    }

    fn words<const N: usize>(&self, form: &str) -> Result<[&'a str; N], String> {
        self.line.words[1..].try_into().map_err(|_| format!("`{form}` was expected"))
    }

    fn end(self) -> Result<(), String> {
        match self.line.with.iter().find(|(n, _)| !self.asked.contains(n)) {
            Some((n, _)) if self.asked.is_empty() => Err(format!("no `{n}` here")),
            Some((n, _)) => Err(format!("no `{n}` here: {}", self.asked.into_iter().collect::<Vec<_>>().join(", "))),
            None => Ok(()),
        }
    }
}

fn statement(s: &mut Scene, v: &mut Values<'_>, text: &str) -> Result<(), String> {
    match v.line.words[0] {
        "sim" => {
            let [name] = v.words("sim NAME")?;
            s.name = name.into();
        }
        "says" => {
            let [says] = v.words("says \"…\"")?;
            s.says = says.into();
        }
        "switch" => {
            let [name] = v.words("switch NAME")?;
            let settings = switch(v)?;
            s.switches.extend(names(name).into_iter().map(|name| SwitchSpec { name, settings }));
        }
        "target" => {
            let [name] = v.words("target NAME")?;
            let (mut block, mut mdts) = (512, 1 << 20);
            v.size("block", &mut block)?;
            v.size("mdts", &mut mdts)?;
            let nic = nic(v)?;
            s.targets.extend(names(name).into_iter().map(|name| TargetSpec { name, nic: nic.clone(), block, mdts }));
        }
        "host" => host(s, v)?,
        "link" => link(s, v)?,
        "route" => {
            let [switch, to, via] = v.words("route SWITCH STATION NEXT-NODE")?;
            s.routes.push(RouteSpec { switch: switch.into(), to: to.into(), via: via.into() });
        }
        "fault" => s.faults.push(fault(v, text)?),
        "heal" => {
            let [at] = v.words("heal TIME")?;
            s.heal = whole(at, time).ok_or("heal: a time such as 20ms was expected")?;
        }
        "within" => {
            let [t] = v.words("within TIME")?;
            s.within = whole(t, time).ok_or("within: a time such as 60s was expected")?;
        }
        "expect" => expect(s, v)?,
        other => {
            return Err(format!("no `{other}`: sim, says, switch, target, host, link, route, fault, heal, within or expect"));
        }
    }
    Ok(())
}

fn switch(v: &mut Values<'_>) -> Result<SwitchSettings, String> {
    let mut s = SwitchSettings::default();
    v.size("queue", &mut s.queue)?;
    v.number("macs", &mut s.macs)?;
    v.flag("learns", &mut s.learns)?;
    let ecn = v.get("ecn", "two sizes such as 20KiB..100KiB", |i| range(i, size))?;
    let most = v.get("mark", "a share such as 10%", share)?.unwrap_or(PerMillion(100_000));
    let bytes = |n| u32::try_from(n).map_err(|_| "ecn is more than 4 GiB".to_owned());
    s.ecn = ecn.map(|(min, max)| Ok::<_, String>(EcnSettings { min: bytes(min)?, max: bytes(max)?, most })).transpose()?;
    let mut pfc = PfcSettings::default();
    let priorities = v.text("pfc");
    v.size("xoff", &mut pfc.xoff)?;
    v.size("xon", &mut pfc.xon)?;
    v.size("headroom", &mut pfc.headroom)?;
    v.number("quanta", &mut pfc.quanta)?;
    if let Some(priorities) = priorities {
        pfc.lossless = 0;
        for p in priorities.split('/') {
            let p: u8 = p.parse().ok().filter(|p| *p < 8).ok_or("pfc: priorities such as 3 or 3/4")?;
            pfc.lossless |= 1 << p;
        }
        s.pfc = Some(pfc);
    }
    Ok(s)
}

fn nic(v: &mut Values<'_>) -> Result<NicSpec, String> {
    let mut nic = NicSpec { dscp: 24, mtu: 4200, ack_timeout: 12, window: 128 };
    v.number("dscp", &mut nic.dscp)?;
    v.number("mtu", &mut nic.mtu)?;
    v.number("ack_timeout", &mut nic.ack_timeout)?;
    v.number("window", &mut nic.window)?;
    match nic {
        NicSpec { dscp: 64.., .. } => Err("dscp is at most 63".into()),
        NicSpec { ack_timeout: 32.., .. } => Err("ack_timeout is at most 31".into()),
        NicSpec { mtu: ..=352, .. } => Err("mtu is at least 353, which carries a path MTU of 256".into()),
        NicSpec { window: 0, .. } => Err("window is at least 1".into()),
        nic => Ok(nic),
    }
}

fn host(s: &mut Scene, v: &mut Values<'_>) -> Result<(), String> {
    let [name] = v.words("host NAME")?;
    let to = match v.text("to") {
        None => 0,
        Some(t) => s.targets.iter().position(|x| x.name == t).ok_or_else(|| format!("no target `{t}` above"))?,
    };
    let nic = nic(v)?;
    let (mut ops, mut reads, mut depth, mut span, mut from) = (100, 50, 8, 1 << 20, Duration::ZERO);
    v.number("ops", &mut ops)?;
    v.number("reads", &mut reads)?;
    v.number("depth", &mut depth)?;
    v.size("span", &mut span)?;
    v.time("from", &mut from)?;
    let memory = match v.text("memory") {
        None | Some("host") => Place::Host,
        Some("gpu") => Place::Gpu,
        Some(other) => return Err(format!("memory={other}: host or gpu")),
    };
    let mut bounce = false;
    v.flag("bounce", &mut bounce)?;
    let size = v.get("size", "sizes such as 4KiB or 4KiB..64KiB", |i| range(i, size))?.unwrap_or((4096, 65536));
    let bytes = |n| u32::try_from(n).map_err(|_| "size is more than 4 GiB".to_owned());
    let size = (bytes(size.0)?, bytes(size.1)?);
    if reads > 100 || depth == 0 || size.0 == 0 || u64::from(span) < 2 * u64::from(size.1) || span > 1 << 30 {
        return Err("reads is at most 100, depth and size at least 1, span at least twice the size and at most 1GiB".into());
    }
    for name in names(name) {
        s.hosts.push(HostSpec { name, nic: nic.clone(), to, ops, reads, size, depth, span, from, memory, bounce });
    }
    Ok(())
}

fn link(s: &mut Scene, v: &mut Values<'_>) -> Result<(), String> {
    let [a, b] = v.words("link NODE NODE")?;
    let mut settings = LinkSettings::default();
    if let Some(r) = v.get("rate", "a rate such as 25Gbit", rate)? {
        settings.rate = Some(r);
    }
    v.time("delay", &mut settings.delay)?;
    v.time("jitter", &mut settings.jitter)?;
    v.number("mtu", &mut settings.mtu)?;
    s.links.extend(names(a).into_iter().map(|a| LinkSpec { ends: [a, b.into()], settings }));
    Ok(())
}

fn fault(v: &mut Values<'_>, text: &str) -> Result<FaultSpec, String> {
    let [kind, of] = v.words("fault KIND LINK-OR-STATION")?;
    let what = match kind {
        "pause" => {
            let mut priority = 3;
            v.number("priority", &mut priority)?;
            FaultKind::Pause { station: of.into(), priority }
        }
        "lost-write" => {
            let share = v.get("share", "a share such as 1/10000", share)?.unwrap_or(PerMillion::ALL);
            FaultKind::LostWrite { target: of.into(), share }
        }
        kind => {
            let by = v.get("by", "a time such as 20us", time)?.unwrap_or(Duration::from_micros(50));
            let share = v.get("share", "a share such as 1%", share)?;
            let way = v.text("way").map(str::to_owned);
            let (what, share) = match kind {
                "loss" => (Wrong::Lost, share),
                "partition" => (Wrong::Lost, Some(PerMillion::ALL)),
                "duplicate" => (Wrong::Duplicated, share),
                "corrupt" => (Wrong::Corrupted, share),
                "reorder" => (Wrong::Reordered(by), share),
                "delay" => (Wrong::Delayed(by), share.or(Some(PerMillion::ALL))),
                other => {
                    return Err(format!("no `{other}`: loss, partition, duplicate, corrupt, reorder, delay, pause or lost-write"));
                }
            };
            let (a, b) = of.split_once('-').ok_or("the link of a fault is written NODE-NODE")?;
            let share = share.ok_or("share= is wanted")?;
            FaultKind::Link { ends: [a.into(), b.into()], way, what, share }
        }
    };
    let mut from = (Duration::ZERO, Duration::ZERO);
    let mut lasts = (LATEST, LATEST);
    v.times("from", &mut from)?;
    v.times("for", &mut lasts)?;
    Ok(FaultSpec { text: text.into(), what, from, lasts })
}

fn expect(s: &mut Scene, v: &Values<'_>) -> Result<(), String> {
    match v.line.words[1..] {
        ["deadlock"] => s.expects.push(Expect::Deadlock),
        [of, "exchange"] => s.expects.extend(names(of).into_iter().map(Expect::Exchange)),
        [of, what, sign, than] => {
            let all = || Figure::ALL.map(|(n, _)| n).join(", ");
            let what =
                Figure::ALL.iter().find(|(n, _)| *n == what).map(|(_, f)| *f).ok_or_else(|| format!("no `{what}`: {}", all()))?;
            let than = match what {
                Figure::Latency(_) => whole(than, time).map(|t| t.as_nanos() as u64).ok_or("a time such as 20us was expected")?,
                _ => whole(than, size).ok_or("a number such as 20 or 4KiB was expected")?,
            };
            let sign = match sign {
                "<" => Ordering::Less,
                "=" => Ordering::Equal,
                ">" => Ordering::Greater,
                other => return Err(format!("`{other}`: <, = or > was expected")),
            };
            let nodes = if of == "all" { vec![None] } else { names(of).into_iter().map(Some).collect() };
            s.expects.extend(nodes.into_iter().map(|node| Expect::Figure { node, what, sign, than }));
        }
        _ => return Err("`expect deadlock`, `expect HOST exchange` or `expect NODE FIGURE < VALUE` was expected".into()),
    }
    Ok(())
}

/// What concerns more than one line.
fn check(s: &Scene) -> Result<(), String> {
    let stations: Vec<&str> = s.targets.iter().map(|t| &*t.name).chain(s.hosts.iter().map(|h| &*h.name)).collect();
    let nodes: Vec<&str> = s.switches.iter().map(|n| &*n.name).chain(stations.iter().copied()).collect();
    let wanted = [(s.name.is_empty(), "sim NAME"), (s.targets.is_empty(), "a target"), (s.hosts.is_empty(), "a host")];
    if let Some((_, what)) = wanted.iter().find(|(lacks, _)| *lacks) {
        return Err(format!("lacks {what}"));
    }
    if nodes.len() > NODES_MAX {
        return Err(format!("more than {NODES_MAX} nodes"));
    }
    if let Some(twice) = nodes.iter().enumerate().find(|(i, n)| nodes[..*i].contains(n)) {
        return Err(format!("two nodes are named `{}`", twice.1));
    }
    let known = |n: &str| if nodes.contains(&n) { Ok(()) } else { Err(format!("no node `{n}`")) };
    let joined = |a: &str, b: &str| s.links.iter().any(|l| l.ends == [a, b] || l.ends == [b, a]);
    s.links.iter().flat_map(|l| &l.ends).try_for_each(|n| known(n))?;
    for n in &stations {
        let links = s.links.iter().filter(|l| l.ends.iter().any(|e| e == n)).count();
        if links != 1 {
            return Err(format!("`{n}` has {links} links; hosts and targets have one"));
        }
    }
    for r in &s.routes {
        known(&r.to)?;
        if !s.switches.iter().any(|x| x.name == r.switch) || !joined(&r.switch, &r.via) {
            return Err(format!("route: `{}` is no switch with a link to `{}`", r.switch, r.via));
        }
    }
    for f in &s.faults {
        let fits = match &f.what {
            FaultKind::Link { ends: [a, b], way, .. } => joined(a, b) && way.as_ref().is_none_or(|w| w == a || w == b),
            FaultKind::Pause { station, priority } => stations.contains(&&**station) && *priority < 8,
            FaultKind::LostWrite { target, .. } => s.targets.iter().any(|t| t.name == *target),
        };
        if !fits {
            return Err(format!("`{}` names what is not there", f.text));
        }
    }
    for t in &s.targets {
        let bad = |h: &&HostSpec| s.targets[h.to].name == t.name && !h.size.0.is_multiple_of(t.block);
        if !matches!(t.block, 512 | 4096) || s.hosts.iter().any(|h| bad(&h)) {
            return Err(format!("`{}`: block is 512 or 4096, and sizes are multiples of it", t.name));
        }
        let large = |h: &&HostSpec| s.targets[h.to].name == t.name && h.size.1 > t.mdts;
        if !t.mdts.is_power_of_two() || t.mdts < 8192 || s.hosts.iter().any(|h| large(&h)) {
            return Err(format!("`{}`: mdts is a power of two from 8KiB on, and no size is larger", t.name));
        }
    }
    let latest = s.hosts.iter().map(|h| h.from).chain([s.heal, s.within]).max().unwrap_or_default();
    if latest > LATEST {
        return Err("times are at most an hour".into());
    }
    s.expects.iter().try_for_each(|e| expected(s, e))
}

/// Whether what is expected can be looked at.
fn expected(s: &Scene, e: &Expect) -> Result<(), String> {
    let kind = |name: &str| {
        let kinds = [
            s.hosts.iter().any(|h| h.name == name),
            s.targets.iter().any(|t| t.name == name),
            s.switches.iter().any(|w| w.name == name),
        ];
        kinds.iter().position(|k| *k).ok_or_else(|| format!("expect: no node `{name}`"))
    };
    match e {
        Expect::Deadlock => Ok(()),
        Expect::Exchange(host) if kind(host)? != 0 => Err(format!("expect: `{host}` is no host")),
        Expect::Exchange(_) => Ok(()),
        Expect::Figure { node: None, what: what @ (Figure::Latency(_) | Figure::Marks), .. } => {
            Err(format!("expect: {} is of one node, not of all", what.name()))
        }
        Expect::Figure { node: None, .. } => Ok(()),
        Expect::Figure { node: Some(node), what, .. } if !what.of()[kind(node)?] => {
            Err(format!("expect: `{node}` has no {}", what.name()))
        }
        Expect::Figure { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "sim a\ntarget t\nhost h\nlink h t\n";

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (more, why) in [
            ("planet x", "line 5: no `planet`"),
            ("link h t speed=1", "line 5: no `speed` here: delay, jitter, mtu, rate"),
            ("link h t rate=25", "a rate such as 25Gbit"),
            ("fault loss h-t", "share= is wanted"),
            ("fault loss x-t share=1%", "names what is not there"),
            ("fault loss h-t share=1% way=x", "names what is not there"),
            ("fault vanish h-t", "no `vanish`"),
            ("expect x p99 < 1us", "no node `x`"),
            ("expect t exchange", "`t` is no host"),
            ("expect t touched = 0", "`t` has no touched"),
            ("expect h pauses > 0", "`h` has no pauses"),
            ("expect all marks > 0", "marks is of one node"),
            ("expect h touched = 1us", "a number such as 20"),
            ("expect h touched 0", "was expected"),
            ("expect h touched ! 0", "column 18"),
            ("host h2 memory=disk\nlink h2 t", "memory=disk: host or gpu"),
            ("host h2 bounce=1\nlink h2 t", "bounce=1: yes or no"),
            ("target u mdts=4KiB\nswitch s\nlink u s", "no size is larger"),
            ("expect h p98 < 1us", "no `p98`"),
            ("host t", "two nodes are named `t`"),
            ("host i", "`i` has 0 links"),
            ("host i to=u", "no target `u`"),
            ("host i size=3MiB", "span at least twice"),
            ("switch s pfc=9", "priorities"),
            ("route h t t", "no switch"),
            ("heal 2", "a time"),
            ("heal ?", "column 6"),
            ("within 2hours", "a time"),
        ] {
            let e = Scene::parse(&format!("{SMALL}{more}\n")).expect_err(more).to_string();
            assert!(e.contains(why), "{more}: {e}");
        }
        let odd = Scene::parse(&SMALL.replace("host h", "host h size=500")).unwrap_err();
        assert!(odd.to_string().contains("multiples"), "{odd}");
        assert!(Scene::parse("").unwrap_err().to_string().contains("lacks sim NAME"));
    }

    #[test]
    fn many_hosts_in_a_line() {
        let text = "sim many\nswitch s ecn=20KiB..40KiB pfc=3/4\ntarget t\nhost h1..8 ops=7\nlink h1..8 s\nlink t s\n\
                    fault loss h3-s way=s share=1/10 from=0ms..2ms for=1ms\nexpect h1 p99.9 > 3us\n\
                    expect h2..4 touched = 4KiB\nexpect h1..8 exchange\nexpect all cnps-sent > 0";
        let s = Scene::parse(text).unwrap();
        assert_eq!((s.hosts.len(), s.links.len(), s.hosts[7].ops), (8, 9, 7));
        assert_eq!(s.switches[0].settings.pfc.unwrap().lossless, 0x18);
        let ms = Duration::from_millis;
        assert_eq!((s.faults[0].from, s.faults[0].lasts), ((ms(0), ms(2)), (ms(1), ms(1))));
        assert_eq!(s.only(&[]).faults[0].lasts, (ms(0), ms(0)));
        let touched =
            |node: &str| Expect::Figure { node: Some(node.into()), what: Figure::Touched, sign: Ordering::Equal, than: 4096 };
        assert_eq!((s.expects.len(), &s.expects[1], &s.expects[3]), (13, &touched("h2"), &touched("h4")));
        assert_eq!(s.expects[4], Expect::Exchange("h1".into()));
    }
}
