//! A ladder diagram of the traffic of one check: the host on the left, the controller on the right, an arrow a PDU.
//!
//! It shows who spoke when; the trace, with the same times, has every field. Read [`lines`].

use nvmf_capture::{Direction, EventKind, Exchange, Trace};

use super::printable;

/// Columns between the two sides.
const SPAN: usize = 84;
/// Rungs of one diagram; of more, those in the middle are left out.
const MOST: usize = 300;

/// The diagram. Empty where nothing crossed the wire.
#[must_use]
pub fn lines(exchange: &Exchange) -> Vec<String> {
    let start_ns = exchange.start_ns();
    let mut trace = Trace::new(start_ns).without_times();
    let mut rungs = Vec::new();
    for (connection, event) in exchange.events() {
        let text = trace.event(connection, event);
        if text.is_empty() {
            continue;
        }
        let from = format!("#{connection} {} ", event.dir.arrow());
        let text = printable(text.lines().next().unwrap_or_default());
        let label = text.strip_prefix(&from).unwrap_or(&text);
        let fill = if matches!(event.kind, EventKind::Gap { .. }) { '.' } else { '-' };
        let us = event.at_ns.saturating_sub(start_ns) / 1000;
        let at = format!("{}.{:03}", us / 1000, us % 1000);
        rungs.push(format!("{at:>10} {:>4} |{}|", format!("#{connection}"), arrow(event.dir, label, fill)));
    }
    if rungs.is_empty() {
        return rungs;
    }
    if rungs.len() > MOST {
        let left_out = rungs.len() - MOST;
        rungs.splice(MOST / 2..MOST / 2 + left_out, [format!("{:>16}… {left_out} more …", "")]);
    }
    rungs.insert(0, format!("{:>10}    host{:>width$}", "ms", "controller", width = SPAN + 2));
    rungs
}

/// What stands between the sides: a label on a line with a point at the side that it goes to.
fn arrow(dir: Direction, label: &str, fill: char) -> String {
    // A point, a line of three before the label, a space on each side of it, and at least three after it.
    let label = shortened(label, SPAN - 9);
    let rest: String = std::iter::repeat_n(fill, SPAN - 6 - label.chars().count()).collect();
    let lead: String = std::iter::repeat_n(fill, 3).collect();
    match dir {
        Direction::HostToController => format!("{lead} {label} {rest}>"),
        Direction::ControllerToHost => format!("<{lead} {label} {rest}"),
    }
}

/// At most `most` characters, ended where a word ends if there is room for it.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let cut: String = text.chars().take(most.saturating_sub(1)).collect();
    let at_end = text.chars().nth(most.saturating_sub(1)) == Some(' ');
    let kept = if at_end { cut.as_str() } else { cut.rsplit_once(' ').map_or(cut.as_str(), |(before, _)| before) };
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rung_is_as_wide_as_the_ladder() {
        for label in ["FIN", "ü", &"word ".repeat(60), &"x".repeat(300)] {
            for dir in [Direction::HostToController, Direction::ControllerToHost] {
                assert_eq!(arrow(dir, label, '-').chars().count(), SPAN, "{label}");
            }
        }
        assert_eq!(shortened("aa bb cc", 6), "aa bb…");
    }
}
