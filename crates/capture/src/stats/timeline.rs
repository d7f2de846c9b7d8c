//! Queue depth and response times over time, in a number of pieces that does not grow: when the capture outgrows them, each two
//! become one.

use super::latency::Latency;

/// Pieces of time that are told apart.
pub(super) const PIECES: usize = 240;
/// The shortest piece, nanoseconds.
const SHORTEST_NS: u64 = 1000;
/// Queues that are told apart.
pub(super) const SERIES: usize = 8;

/// What is drawn as one line.
#[derive(Debug, Default)]
pub(super) struct Series {
    pub(super) pieces: Vec<Piece>,
    depth: u32,
    /// Up to when the depth is accounted for, nanoseconds since the start.
    until_ns: u64,
}

/// What happened to a queue in a piece of time.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) depth_max: u32,
    /// Depth times nanoseconds.
    pub(super) area: u128,
    /// Of commands that were answered in it.
    pub(super) times: Latency,
}

/// All series, over the same pieces of time.
#[derive(Debug)]
pub(super) struct Timeline {
    /// Length of a piece, nanoseconds.
    pub(super) width_ns: u64,
    pub(super) series: Vec<Series>,
    start_ns: Option<u64>,
}

impl Default for Piece {
    fn default() -> Self {
        Self { depth_max: 0, area: 0, times: Latency::with_digits(1) }
    }
}

impl Default for Timeline {
    fn default() -> Self {
        Self { width_ns: SHORTEST_NS, series: Vec::new(), start_ns: None }
    }
}

impl Timeline {
    /// Makes room for one more line; gives its number.
    pub(super) fn add(&mut self) -> usize {
        self.series.push(Series { pieces: vec![Piece::default(); PIECES], ..Series::default() });
        self.series.len() - 1
    }

    /// From now on `change` more commands are outstanding.
    pub(super) fn depth(&mut self, series: usize, at_ns: u64, change: i64) {
        let at = self.reach(at_ns);
        let width = self.width_ns;
        let Some(s) = self.series.get_mut(series) else { return };
        s.stay(at, width);
        s.depth = u32::try_from(i64::from(s.depth) + change).unwrap_or(0);
        if let Some(piece) = s.pieces.get_mut((at / width) as usize) {
            piece.depth_max = piece.depth_max.max(s.depth);
        }
    }

    /// A command was answered after `ns`.
    pub(super) fn answered(&mut self, series: usize, at_ns: u64, ns: u64) {
        let at = self.reach(at_ns);
        let width = self.width_ns;
        if let Some(piece) = self.series.get_mut(series).and_then(|s| s.pieces.get_mut((at / width) as usize)) {
            piece.times.record(ns);
        }
    }

    /// The capture goes on to here.
    pub(super) fn end(&mut self, at_ns: u64) {
        let at = self.reach(at_ns);
        let width = self.width_ns;
        self.series.iter_mut().for_each(|s| s.stay(at, width));
    }

    /// Nanoseconds since the start, after the pieces were made long enough to hold them.
    fn reach(&mut self, at_ns: u64) -> u64 {
        let at = at_ns.saturating_sub(*self.start_ns.get_or_insert(at_ns));
        while at / self.width_ns >= PIECES as u64 {
            self.width_ns *= 2;
            self.series.iter_mut().for_each(Series::halve);
        }
        at
    }
}

impl Series {
    /// The depth stays as it is until `at`.
    fn stay(&mut self, at: u64, width: u64) {
        while self.until_ns < at {
            let number = self.until_ns / width;
            let until = at.min((number + 1).saturating_mul(width));
            if let Some(piece) = self.pieces.get_mut(number as usize) {
                piece.area += u128::from(until - self.until_ns) * u128::from(self.depth);
                piece.depth_max = piece.depth_max.max(self.depth);
            }
            self.until_ns = until;
        }
    }

    fn halve(&mut self) {
        let mut old = std::mem::take(&mut self.pieces).into_iter();
        while let Some(mut piece) = old.next() {
            if let Some(second) = old.next() {
                piece.depth_max = piece.depth_max.max(second.depth_max);
                piece.area += second.area;
                piece.times.absorb(second.times);
            }
            self.pieces.push(piece);
        }
        self.pieces.resize(PIECES, Piece::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_as_the_pieces_grow() {
        let mut t = Timeline::default();
        let s = t.add();
        t.depth(s, 5, 1);
        for n in 1..1000u64 {
            t.depth(s, 5 + n * 7919, 1);
            t.answered(s, 5 + n * 7919, n);
            t.depth(s, 5 + n * 7919 + 3000, -1);
        }
        t.end(5 + 1000 * 7919);
        let pieces = &t.series[s].pieces;
        assert_eq!(pieces.len(), PIECES);
        assert_eq!(pieces.iter().map(|p| p.times.count()).sum::<u64>(), 999);
        assert_eq!(pieces.iter().map(|p| p.area).sum::<u128>(), 1000 * 7919 + 999 * 3000);
        assert_eq!(pieces.iter().map(|p| p.depth_max).max(), Some(2));
    }

    #[test]
    fn a_clock_that_jumps_to_the_end_of_time_is_survived() {
        let mut t = Timeline::default();
        let s = t.add();
        t.depth(s, 0, 1);
        t.depth(s, u64::MAX, -1);
        t.depth(s, 3, 1);
        t.end(u64::MAX);
        assert_eq!(t.series[s].pieces.iter().map(|p| p.area).sum::<u128>(), u128::from(u64::MAX));
    }
}
