//! The picture in characters, for terminals and for diffs.

use std::fmt::Write as _;

use nvmf_wire::roce::UDP_PORT;

use super::{Arrow, End, Picture, Place, ms, since, wrap};

/// Characters between two lifelines: at least, at most.
const WIDTH: (usize, usize) = (48, 92);

impl Picture {
    /// The picture as text: a line an arrow, the time in milliseconds since the start of the capture at the left. Findings stand below
    /// their arrow, behind `!`.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        if let Some(about) = &self.about {
            let _ = writeln!(out, "{about}\n");
        }
        let queue = self.arrows.iter().map(|a| a.queue().chars().count()).max().unwrap_or(0).max(5);
        let wanted = self.arrows.iter().map(|a| (says(a).chars().count() + 8) / a.to.abs_diff(a.from).max(1)).max().unwrap_or(0);
        let page = Page { queue, width: wanted.clamp(WIDTH.0, WIDTH.1), ends: self.ends.len() };
        page.head(&mut out, &self.ends);
        let mut before = None;
        for a in &self.arrows {
            page.arrow(&mut out, a, before);
            before = Some(a.at_ns);
        }
        if let Some(more) = self.left_out() {
            let _ = writeln!(out, "\n{more}");
        }
        out
    }
}

struct Page {
    queue: usize,
    width: usize,
    ends: usize,
}

impl Page {
    fn head(&self, out: &mut String, ends: &[End]) {
        let lines = ends.iter().map(|e| e.lines(self.width - 2)).collect::<Vec<_>>();
        let most = lines.iter().map(Vec::len).max().unwrap_or(0);
        for i in 0..most {
            let left = if i == 0 { format!("{:>11} {:>9}  {:<w$}  ", "ms", "", "queue", w = self.queue) } else { self.margin() };
            let cells = lines.iter().map(|l| format!("{:<w$}", l.get(i).map_or("", String::as_str), w = self.width + 1));
            let _ = writeln!(out, "{}", format!("{left}{}", cells.collect::<String>()).trim_end());
        }
        let _ = writeln!(out, "{}{}", self.margin(), self.bars());
    }

    fn margin(&self) -> String {
        " ".repeat(11 + 1 + 9 + 2 + self.queue + 2)
    }

    fn bars(&self) -> String {
        let between = format!("|{}", " ".repeat(self.width));
        between.repeat(self.ends).trim_end().to_owned()
    }

    /// The lifelines, with `middle` between two of them.
    fn between(&self, from: usize, to: usize, middle: &str) -> String {
        let (left, right) = (from.min(to), from.max(to));
        let before = format!("|{}", " ".repeat(self.width)).repeat(left);
        let after = format!("{}|", " ".repeat(self.width)).repeat(self.ends.saturating_sub(right + 1));
        format!("{before}|{middle}|{after}")
    }

    fn arrow(&self, out: &mut String, a: &Arrow, before: Option<u64>) {
        let room = a.to.abs_diff(a.from).max(1) * (self.width + 1) - 1;
        let lines = wrap(&says(a), room - 8);
        let line = if a.count > 1 { '=' } else { '-' };
        let delta = before.map_or(String::new(), |b| since(a.at_ns.saturating_sub(b)));
        for (i, text) in lines.iter().enumerate() {
            let left =
                if i == 0 { format!("{:>11} {delta:>9}  {:<w$}  ", ms(a.at_ns), a.queue(), w = self.queue) } else { self.margin() };
            let middle = match (i, a.to > a.from) {
                (0, true) => shaft(&format!("{line}{line} {text} "), line, room - 1) + ">",
                (0, false) => format!("<{}", shaft(&format!("{line}{line} {text} "), line, room - 1)),
                _ => shaft(&format!("    {text}"), ' ', room),
            };
            let _ = writeln!(out, "{left}{}", self.between(a.from, a.to, &middle));
        }
        for f in &a.findings {
            for (i, text) in wrap(f, (self.width + 1) * self.ends).iter().enumerate() {
                let _ = writeln!(out, "{}{} {text}", self.margin(), if i == 0 { "!" } else { "  " });
            }
        }
    }
}

fn shaft(text: &str, fill: char, width: usize) -> String {
    let used = text.chars().count();
    text.chars().chain(std::iter::repeat_n(fill, width.saturating_sub(used))).collect()
}

/// Name and fields, with the number of a command that a range may be chosen by.
fn says(a: &Arrow) -> String {
    let mut out = a.name();
    if let (true, Some(number)) = (!a.told.about.is_empty(), a.command) {
        let _ = write!(out, " [command {number}]");
    }
    if !a.told.fields.is_empty() {
        let _ = write!(out, " {}", a.told.fields);
    }
    out
}

impl End {
    /// Who it is, in lines of at most `width` characters.
    pub(super) fn lines(&self, width: usize) -> Vec<String> {
        let who = match self.place {
            Place::Host(ip) => format!("Host {ip}"),
            // Over RoCEv2 all have the same port.
            Place::Controller(at) if at.port() == UDP_PORT => format!("Controller {}", at.ip()),
            Place::Controller(at) => format!("Controller {at}"),
        };
        let mut out = vec![who];
        if let Some(id) = self.cntlid.filter(|_| matches!(self.place, Place::Controller(_))) {
            out[0] = format!("{}, CNTLID {id}", out[0]);
        }
        if let Some(name) = &self.name {
            let name: Vec<char> = name.chars().filter(|c| !c.is_control()).collect();
            out.extend(name.chunks(width.max(1)).take(3).map(|c| c.iter().collect()));
        }
        out
    }
}
