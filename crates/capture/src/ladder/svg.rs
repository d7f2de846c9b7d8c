//! The picture as SVG: lifelines, arrows with their fields, and in words beside them what they mean.

use std::fmt::Write as _;

use super::words::Piece;
use super::{Arrow, Picture, Place, ms, since, wrap};

/// Where the first lifeline is, pixels.
const FIRST: usize = 270;
/// From the last lifeline to the words.
const TO_WORDS: usize = 34;
const WORDS: usize = 360;
const HEAD: usize = 90;
/// From the top of a row to its arrow.
const DROP: usize = 30;
const BOX: usize = 316;
/// Width of a character of the fields (12 px, monospace), and of the words (13 px): a little more than fonts have.
const MONO: f64 = 7.4;
const SANS: f64 = 7.2;

const TEXT: &str = "font-family=\"DejaVu Sans,Verdana,Helvetica,Arial,sans-serif\"";
const FIELDS: &str = "font-family=\"DejaVu Sans Mono,Menlo,Consolas,monospace\" font-size=\"12\"";
const RED: &str = "#c00000";

impl Piece {
    fn colour(self) -> &'static str {
        match self {
            Self::Setup => "#5a5a5a",
            Self::Command => "#0064a8",
            Self::Ready => "#b85c00",
            Self::Out => "#00805e",
            Self::In => "#00805e",
            Self::End => "#6a3d9a",
            Self::Ack | Self::Closed => "#8a8a8a",
            Self::Trouble => RED,
        }
    }

    fn explained(self) -> &'static str {
        match self {
            Self::Setup => "the two sides agree how to talk",
            Self::Command => "command: the host asks for something",
            Self::Ready => "the controller asks the host for the data of a command",
            Self::Out => "data from the host",
            Self::In => "data from the controller",
            Self::End => "response: the command is done, or failed",
            Self::Ack => "RoCEv2 acknowledges packets",
            Self::Closed => "the connection ends",
            Self::Trouble => "something is wrong",
        }
    }
}

/// Fields of arrows, by how they begin, in the order of the explanation.
const GLOSSARY: [(&str, &str); 17] = [
    ("cid=", "cid: Command Identifier, which ties all arrows of a command together"),
    ("nsid=", "nsid: namespace"),
    ("slba=", "slba: first logical block"),
    ("nlb=", "nlb: number of logical blocks, less one"),
    ("in-capsule=", "in-capsule: bytes of data that come with the command"),
    ("length=", "length: bytes of data that come apart from the command"),
    ("ttag=", "ttag: Transfer Tag, which ties data to the request for them"),
    ("r2to=", "r2to, r2tl: offset and length of what is asked for"),
    ("datao=", "datao, datal: offset and length of the data"),
    ("LAST", "LAST: the last data of the transfer"),
    ("SUCCESS", "SUCCESS: stands for a response"),
    ("va=", "va, rkey: address and key of memory of the host, which its network adapter gives and takes by itself"),
    ("invalidate=", "invalidate: the key that ends with this"),
    ("psn=", "psn: Packet Sequence Number"),
    ("sqhd=", "sqhd: how far the controller has taken commands out of the queue"),
    ("maxh2cdata=", "maxh2cdata: most data in one H2CData, bytes"),
    ("maxr2t=", "maxr2t: requests for data at a time for one command, less one"),
];

impl Picture {
    /// The picture as an SVG document. `title` says what capture it is of.
    #[must_use]
    pub fn svg(&self, title: &str) -> String {
        let gap = if self.ends.len() > 2 { 420 } else { 500 };
        let last = FIRST + gap * self.ends.len().saturating_sub(1);
        let page = Page { gap, last, width: last + TO_WORDS + WORDS };
        let mut body = String::new();
        let top = page.title(&mut body, self, title);
        let mut y = top + HEAD + 24;
        let mut rows = String::new();
        let mut before = None;
        let mut line = (0, 0);
        for a in &self.arrows {
            let next = page.arrow(&mut rows, a, before, y);
            line = (if before.is_none() { y + DROP } else { line.0 }, y + DROP);
            before = Some(a.at_ns);
            y = next;
        }
        page.lifelines(&mut body, self, top, y, line);
        body.push_str(&rows);
        let height = page.legend(&mut body, self, y + 18);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{height}\" viewBox=\"0 0 {w} {height}\" {TEXT}>\n\
             <rect width=\"{w}\" height=\"{height}\" fill=\"#ffffff\"/>\n{body}</svg>\n",
            w = page.width
        )
    }
}

struct Page {
    gap: usize,
    last: usize,
    width: usize,
}

impl Page {
    fn x(&self, end: usize) -> usize {
        FIRST + self.gap * end
    }

    fn title(&self, out: &mut String, p: &Picture, title: &str) -> usize {
        let what = p.about.clone().unwrap_or_else(|| match (p.arrows.first(), p.arrows.last()) {
            (Some(a), Some(b)) if b.frames.1 > 0 => format!("Frames {} to {}", a.frames.0, b.frames.1),
            _ => format!("{} arrows", p.arrows.len()),
        });
        label(out, 16, 30, "font-size=\"19\" font-weight=\"bold\" fill=\"#111111\"", &what);
        label(out, 16, 50, "font-size=\"13\" fill=\"#666666\"", title);
        let mut y = 50;
        if let Some(more) = p.left_out() {
            for text in wrap(&more, (self.width as f64 / SANS) as usize - 6) {
                y += 18;
                label(out, 16, y, &format!("font-size=\"13\" fill=\"{RED}\""), &text);
            }
        }
        y + 18
    }

    /// Who is who, and what is drawn behind the arrows. `line` is where the first and the last arrow are.
    fn lifelines(&self, out: &mut String, p: &Picture, top: usize, bottom: usize, line: (usize, usize)) {
        for (i, end) in p.ends.iter().enumerate() {
            let x = self.x(i);
            let host = matches!(end.place, Place::Host(_));
            let (fill, stroke) = if host { ("#eef5fb", "#0064a8") } else { ("#fdf3e7", "#b85c00") };
            let _ = writeln!(
                out,
                "<line x1=\"{x}\" y1=\"{}\" x2=\"{x}\" y2=\"{bottom}\" stroke=\"#9a9a9a\" stroke-width=\"1.5\"/>",
                top + HEAD
            );
            if p.is_one_command() && line.1 > line.0 {
                let _ = writeln!(
                    out,
                    "<rect x=\"{}\" y=\"{}\" width=\"8\" height=\"{}\" fill=\"{fill}\" stroke=\"{stroke}\" stroke-width=\"1\"/>",
                    x - 4,
                    line.0,
                    line.1 - line.0
                );
            }
            let _ = writeln!(
                out,
                "<rect x=\"{}\" y=\"{top}\" width=\"{BOX}\" height=\"{HEAD}\" rx=\"6\" fill=\"{fill}\" stroke=\"{stroke}\"/>",
                x - BOX / 2
            );
            let lines = end.lines(46);
            for (n, text) in lines.iter().enumerate() {
                let style = match n {
                    0 => "font-size=\"14\" font-weight=\"bold\" fill=\"#111111\" text-anchor=\"middle\"",
                    _ => "font-size=\"11\" fill=\"#444444\" text-anchor=\"middle\"",
                };
                label(out, x, top + 24 + 19 * n, style, text);
            }
        }
        let heads = [(108, "end", "time, ms"), (122, "start", "connection"), (self.last + TO_WORDS, "start", "what it means")];
        for (x, anchor, text) in heads {
            label(out, x, top + HEAD + 18, &format!("font-size=\"11\" fill=\"#777777\" text-anchor=\"{anchor}\""), text);
        }
    }

    /// Draws one arrow in a row that begins at `top`; gives where the next begins.
    fn arrow(&self, out: &mut String, a: &Arrow, before: Option<u64>, top: usize) -> usize {
        let y = top + DROP;
        let (x1, x2) = (self.x(a.from), self.x(a.to));
        let colour = a.told.piece.colour();
        let right = x2 > x1;
        let (tail, tip) = if right { (x1 + 5, x2 - 5) } else { (x1 - 5, x2 + 5) };
        let neck = if right { tip - 9 } else { tip + 9 };
        let dash = if a.told.piece == Piece::Closed { " stroke-dasharray=\"6 4\"" } else { "" };
        let stroke = if a.count > 1 { 5 } else { 2 };
        let _ = writeln!(
            out,
            "<line x1=\"{tail}\" y1=\"{y}\" x2=\"{neck}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"{stroke}\"{dash}/>"
        );
        let _ = writeln!(out, "<polygon points=\"{tip},{y} {neck},{} {neck},{}\" fill=\"{colour}\"/>", y - 6, y + 6);
        label(out, 108, y + 1, "font-size=\"13\" fill=\"#222222\" text-anchor=\"end\"", &ms(a.at_ns));
        if let Some(b) = before {
            let style = "font-size=\"11\" fill=\"#777777\" text-anchor=\"end\"";
            label(out, 108, y + 16, style, &since(a.at_ns.saturating_sub(b)));
        }
        label(out, 122, y + 1, "font-size=\"12\" fill=\"#444444\"", &a.queue());
        if a.frames.1 > 0 {
            let frames = match a.frames {
                (first, last) if first == last => format!("frame {first}"),
                (first, last) => format!("frames {first}-{last}"),
            };
            label(out, 122, y + 16, "font-size=\"11\" fill=\"#777777\"", &frames);
        }
        let middle = (x1 + x2) / 2;
        let mut name = a.name();
        if let (true, Some(number)) = (!a.told.about.is_empty(), a.command) {
            let _ = write!(name, " (command {number})");
        }
        label(
            out,
            middle,
            y - 8,
            &format!("font-size=\"13\" font-weight=\"bold\" fill=\"{colour}\" text-anchor=\"middle\" {HALO}"),
            &name,
        );
        let mut below = y + 17;
        for text in wrap(&a.told.fields, (x1.abs_diff(x2) as f64 / MONO) as usize - 3) {
            label(out, middle, below, &format!("{FIELDS} fill=\"#333333\" text-anchor=\"middle\" {HALO}"), &text);
            below += 16;
        }
        let mut beside = y - 4;
        for text in wrap(&a.told.words, (WORDS as f64 / SANS) as usize) {
            label(out, self.last + TO_WORDS, beside, "font-size=\"13\" fill=\"#222222\"", &text);
            beside += 17;
        }
        let mut end = below.max(beside).max(y + 32);
        end += if a.findings.is_empty() { 0 } else { 5 };
        for f in &a.findings {
            for (i, text) in wrap(f, ((self.width - FIRST) as f64 / SANS) as usize - 6).iter().enumerate() {
                let mark = if i == 0 { "\u{2717} " } else { "" };
                let x = if i == 0 { FIRST + 16 } else { FIRST + 30 };
                label(out, x, end, &format!("font-size=\"12\" fill=\"{RED}\" {HALO}"), &format!("{mark}{text}"));
                end += 16;
            }
        }
        end + 4
    }

    /// What colours and fields mean, of those that occur; gives the height of the picture.
    fn legend(&self, out: &mut String, p: &Picture, top: usize) -> usize {
        let mut pieces: Vec<Piece> = p.arrows.iter().map(|a| a.told.piece).collect();
        pieces.sort_unstable();
        pieces.dedup();
        let _ = writeln!(
            out,
            "<line x1=\"16\" y1=\"{top}\" x2=\"{}\" y2=\"{top}\" stroke=\"#dddddd\"/>",
            self.width.saturating_sub(16)
        );
        let (mut left, mut right) = (top + 24, top + 24);
        for piece in pieces {
            let (y, c) = (left - 4, piece.colour());
            let _ = writeln!(out, "<line x1=\"20\" y1=\"{y}\" x2=\"46\" y2=\"{y}\" stroke=\"{c}\" stroke-width=\"2\"/>");
            let _ = writeln!(out, "<polygon points=\"54,{y} 45,{} 45,{}\" fill=\"{c}\"/>", y - 5, y + 5);
            label(out, 64, left, "font-size=\"12\" fill=\"#333333\"", piece.explained());
            left += 20;
        }
        if p.arrows.iter().any(|a| a.count > 1) {
            let y = left - 4;
            let _ = writeln!(out, "<line x1=\"20\" y1=\"{y}\" x2=\"54\" y2=\"{y}\" stroke=\"#00805e\" stroke-width=\"5\"/>");
            label(out, 64, left, "font-size=\"12\" fill=\"#333333\"", "several alike, drawn as one");
            left += 20;
        }
        if p.arrows.iter().any(|a| !a.findings.is_empty()) {
            label(out, 32, left, &format!("font-size=\"12\" fill=\"{RED}\""), "\u{2717}");
            label(out, 64, left, "font-size=\"12\" fill=\"#333333\"", "a breach of the specifications that this PDU shows");
            left += 20;
        }
        if let Some(a) = p.arrows.iter().find(|a| a.qid.is_some()) {
            let queue = if a.qid == Some(0) { "the Admin Queue".to_owned() } else { crate::stats::queue_name(a.qid) };
            let text = format!("{}: connection {} of the capture, which carries {queue}", a.queue(), a.conn);
            label(out, 470, right, "font-size=\"12\" fill=\"#555555\"", &text);
            right += 18;
        }
        for (field, meaning) in GLOSSARY {
            if p.arrows.iter().any(|a| a.told.fields.split(' ').any(|f| f.starts_with(field))) {
                label(out, 470, right, "font-size=\"12\" fill=\"#555555\"", meaning);
                right += 18;
            }
        }
        left.max(right) + 8
    }
}

/// White round the letters, where they cross a line.
const HALO: &str = "paint-order=\"stroke\" stroke=\"#ffffff\" stroke-width=\"4\" stroke-linejoin=\"round\"";

fn label(out: &mut String, x: usize, y: usize, style: &str, text: &str) {
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" {style}>{}</text>", escaped(text));
}

/// For the text of an element. XML has no way to write control characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}' | '\u{202a}'..='\u{202e}') => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}
