//! Two sequences beside each other: what stands in both, what in one alone, and what moved.
//!
//! The way is greedy, with a look-ahead of [`WINDOW`]: linear in the length, whatever the sequences are. What no look-ahead finds again
//! is looked up by its key over the whole length, and what is left between two matches is paired by what it is.

use std::collections::BTreeMap;
use std::collections::VecDeque;

/// How far the look-ahead sees, in both sequences together.
const WINDOW: usize = 64;

/// What two elements are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Equal where the elements mean the same.
    pub strong: u64,
    /// Equal where they are of one kind and may differ in their fields, such as two Reads.
    pub weak: u64,
    /// Equal where one may stand for the other at all, such as two commands.
    pub kind: u64,
}

/// Two elements that belong together, or one that has no other; indices into the two sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub a: Option<usize>,
    pub b: Option<usize>,
    /// They stand in another order.
    pub moved: bool,
}

impl Pair {
    fn both((a, b): (usize, usize)) -> Self {
        Self { a: Some(a), b: Some(b), moved: false }
    }
}

/// Pairs the elements of `a` with those of `b`. Each index is in exactly one pair; those of `a` are in order where nothing moved.
pub(super) fn align(a: &[Key], b: &[Key]) -> Vec<Pair> {
    let all_a: Vec<usize> = (0..a.len()).collect();
    let all_b: Vec<usize> = (0..b.len()).collect();
    let strong = |i: usize, j: usize| matches!((a.get(i), b.get(j)), (Some(x), Some(y)) if x.strong == y.strong);
    let weak = |i: usize, j: usize| matches!((a.get(i), b.get(j)), (Some(x), Some(y)) if x.weak == y.weak);
    let kind = |i: usize, j: usize| matches!((a.get(i), b.get(j)), (Some(x), Some(y)) if x.kind == y.kind);
    let mut runs = walk(&all_a, &all_b, strong);
    let moved = moved(a, b, &mut runs);
    let mut out = Vec::with_capacity(a.len().max(b.len()));
    for run in runs {
        for gap in walk(&run.a, &run.b, weak) {
            let (mut left_a, mut left_b) = (gap.a.into_iter().peekable(), gap.b.into_iter().peekable());
            while let (Some(i), Some(j)) = (left_a.peek(), left_b.peek()) {
                if !kind(*i, *j) {
                    break;
                }
                out.push(Pair::both((*i, *j)));
                left_a.next();
                left_b.next();
            }
            out.extend(left_a.map(|i| Pair { a: Some(i), b: None, moved: false }));
            out.extend(left_b.map(|j| Pair { a: None, b: Some(j), moved: false }));
            out.extend(gap.then.map(Pair::both));
        }
        out.extend(run.then.map(Pair::both));
    }
    out.extend(moved.into_iter().map(|p| Pair { moved: true, ..Pair::both(p) }));
    out
}

/// What does not match on either side, and the match behind it.
struct Run {
    a: Vec<usize>,
    b: Vec<usize>,
    then: Option<(usize, usize)>,
}

/// Goes through both, from match to match. The last run has none.
fn walk(a: &[usize], b: &[usize], same: impl Fn(usize, usize) -> bool) -> Vec<Run> {
    let at = |i: usize, j: usize| matches!((a.get(i), b.get(j)), (Some(x), Some(y)) if same(*x, *y));
    let (mut i, mut j) = (0, 0);
    let mut out = Vec::new();
    let mut run = Run { a: Vec::new(), b: Vec::new(), then: None };
    while i < a.len() && j < b.len() {
        let found = (0..=WINDOW).find_map(|sum| (0..=sum).map(|da| (da, sum - da)).find(|(da, db)| at(i + da, j + db)));
        // nothing in sight: these two have no other, and the next may
        let (da, db) = found.unwrap_or((1, 1));
        run.a.extend(a.iter().skip(i).take(da));
        run.b.extend(b.iter().skip(j).take(db));
        (i, j) = (i + da, j + db);
        if found.is_some() {
            run.then = a.get(i).copied().zip(b.get(j).copied());
            (i, j) = (i + 1, j + 1);
            out.push(std::mem::replace(&mut run, Run { a: Vec::new(), b: Vec::new(), then: None }));
        }
    }
    run.a.extend(a.iter().skip(i));
    run.b.extend(b.iter().skip(j));
    out.push(run);
    out
}

/// Takes from the runs what stands elsewhere in the other sequence.
fn moved(a: &[Key], b: &[Key], runs: &mut [Run]) -> Vec<(usize, usize)> {
    let mut free: BTreeMap<u64, VecDeque<usize>> = BTreeMap::new();
    for j in runs.iter().flat_map(|r| &r.b) {
        if let Some(key) = b.get(*j) {
            free.entry(key.strong).or_default().push_back(*j);
        }
    }
    let mut out = Vec::new();
    let mut taken = std::collections::BTreeSet::new();
    for run in runs.iter_mut() {
        run.a.retain(|i| {
            let hit = a.get(*i).and_then(|k| free.get_mut(&k.strong)).and_then(VecDeque::pop_front);
            out.extend(hit.map(|j| (*i, j)));
            taken.extend(hit);
            hit.is_none()
        });
    }
    for run in runs {
        run.b.retain(|j| !taken.contains(j));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A letter is what it is, the digit behind it what it holds.
    fn keys(text: &str) -> Vec<Key> {
        let word =
            |w: &str| Key { strong: w.bytes().fold(7, |h, b| h * 31 + u64::from(b)), weak: u64::from(w.as_bytes()[0]), kind: 0 };
        text.split_whitespace().map(word).collect()
    }

    fn shown(a: &str, b: &str) -> String {
        let (wa, wb): (Vec<&str>, Vec<&str>) = (a.split_whitespace().collect(), b.split_whitespace().collect());
        let one = |p: &Pair| match (p.a.map(|i| wa[i]), p.b.map(|j| wb[j])) {
            (Some(x), Some(y)) if p.moved => format!("{x}~{y}"),
            (Some(x), Some(y)) if x == y => x.to_owned(),
            (Some(x), Some(y)) => format!("{x}/{y}"),
            (Some(x), None) => format!("-{x}"),
            (_, y) => format!("+{}", y.unwrap_or_default()),
        };
        align(&keys(a), &keys(b)).iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn one_more_one_less_and_one_changed() {
        assert_eq!(shown("i1 r1 r2 w1", "i1 r1 r2 w1"), "i1 r1 r2 w1");
        assert_eq!(shown("i1 r1 r2 w1", "i1 r2 w1"), "i1 -r1 r2 w1");
        assert_eq!(shown("i1 r2 w1", "i1 k1 r2 w1"), "i1 +k1 r2 w1");
        assert_eq!(shown("i1 r1 r2 w1", "i1 r1 r9 w1"), "i1 r1 r2/r9 w1");
        assert_eq!(shown("i1 r1 w1", "i1 f1 w1"), "i1 r1/f1 w1");
        assert_eq!(shown("a1 b1 c1", "b1 a1 c1"), "a1 c1 b1~b1");
        assert_eq!((shown("", "a1"), shown("a1", "")), ("+a1".to_owned(), "-a1".to_owned()));
    }

    #[test]
    fn sequences_with_nothing_in_common_take_linear_time() {
        let keys = |from: u64| (0..50_000).map(|n| Key { strong: from + n, weak: from + n, kind: from }).collect::<Vec<_>>();
        let pairs = align(&keys(0), &keys(1_000_000));
        assert_eq!(pairs.len(), 100_000);
    }
}
