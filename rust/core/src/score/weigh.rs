//! Adds up the weighted scores of several plugins to one extender score for each node.

use multiversion::multiversion;

use super::narrow::{self, Divisor};

/// The highest score that a plugin gives a node.
const MAX_PLUGIN_SCORE: i64 = 100;
/// The highest score that the extender protocol foresees.
const MAX_EXTENDER_SCORE: i64 = 10;
/// The number of nodes whose sums are computed in one pass, so that the sums stay in the CPU's
/// cache.
const BLOCK: usize = 512;

/// Writes, for each node, the weighted sum of the node's scores, divided by 10 and rounded.
///
/// kube-scheduler multiplies an extender's score by 10, so with an extender weight of 1 the written
/// scores add what the plugins themselves would have added. The function rounds to the nearest
/// integer, halves away from zero; a sum beyond 64 bits counts as the nearest that fits. Each part
/// is `(scores, weight)`; `weighed` has a place for each node, and where a part is shorter, its
/// missing scores are 0.
///
/// Source: kubernetes v1.36 `pkg/scheduler/schedule_one.go`, prioritizing nodes
///
/// ```
/// use kubextend_core::score::weigh_additive;
///
/// let mut weighed = [0; 3];
/// weigh_additive(&[(&[100, 44, -5], 1), (&[50, 1, 0], 2)], &mut weighed);
/// assert_eq!(weighed, [20, 5, -1]);
/// ```
pub fn weigh_additive(parts: &[(&[i64], i64)], weighed: &mut [i64]) {
    const HALF: u64 = 5;
    match (Divisor::new(10), highest_sum(parts)) {
        (Some(ten), Some(highest)) if highest + HALF <= narrow::LIMIT => {
            write_narrow(parts, weighed, |sum| ten.quotient(sum + HALF));
        }
        _ => write_wide(parts, weighed, |sum| {
            sum.saturating_add(5 * sum.signum()) / 10
        }),
    }
}

/// Writes, for each node, the weighted mean of the node's scores, scaled to 0 to 10.
///
/// The function rounds to the nearest integer, halves up. Each part is `(scores, weight)`;
/// `weighed` has a place for each node. Without a positive weight every score is 0.
///
/// ```
/// use kubextend_core::score::weigh_strict10;
///
/// let mut weighed = [0; 3];
/// weigh_strict10(&[(&[100, 44, 0], 1), (&[100, 1, 0], 2)], &mut weighed);
/// assert_eq!(weighed, [10, 2, 0]);
/// ```
pub fn weigh_strict10(parts: &[(&[i64], i64)], weighed: &mut [i64]) {
    let weights: i128 = parts.iter().map(|(_, weight)| i128::from(*weight)).sum();
    if weights <= 0 {
        return weighed.fill(0);
    }
    // A whole of 100 per weight, and a tenth of it per point.
    let point = weights * i128::from(MAX_PLUGIN_SCORE / MAX_EXTENDER_SCORE);
    let full = point * i128::from(MAX_EXTENDER_SCORE);
    match narrow_points(point, full) {
        Some((point, full, divisor)) if highest_sum(parts).is_some() => {
            write_narrow(parts, weighed, |sum| {
                divisor.quotient(sum.min(full) + point / 2)
            });
        }
        _ => write_wide(parts, weighed, |sum| {
            (sum.clamp(0, full) + point / 2) / point
        }),
    }
}

fn narrow_points(point: i128, full: i128) -> Option<(u64, u64, Divisor)> {
    let (point, full) = (u64::try_from(point).ok()?, u64::try_from(full).ok()?);
    let divisor = Divisor::new(point)?;
    (full + point <= narrow::LIMIT).then_some((point, full, divisor))
}

/// Returns a bound of at most `LIMIT` that no node's sum exceeds; None if a score or weight is
/// negative, or if the bound would be above `LIMIT`.
fn highest_sum(parts: &[(&[i64], i64)]) -> Option<u64> {
    let highest = parts.iter().try_fold(0_u64, |sum, (scores, weight)| {
        let weight = u64::try_from(*weight).ok()?;
        sum.checked_add(narrow::highest(scores)?.checked_mul(weight)?)
    })?;
    (highest <= narrow::LIMIT).then_some(highest)
}

#[multiversion(targets("x86_64+avx2"))]
fn write_narrow(parts: &[(&[i64], i64)], weighed: &mut [i64], finish: impl Fn(u64) -> u64) {
    for (block, places) in weighed.chunks_mut(BLOCK).enumerate() {
        let mut sums = [0_u64; BLOCK];
        for &(scores, weight) in parts {
            let scores = scores.get(block * BLOCK..).unwrap_or_default();
            for (sum, score) in sums.iter_mut().zip(scores) {
                *sum += narrow::product(score.cast_unsigned(), weight.cast_unsigned());
            }
        }
        for (place, sum) in places.iter_mut().zip(sums) {
            *place = finish(sum).cast_signed();
        }
    }
}

fn write_wide(parts: &[(&[i64], i64)], weighed: &mut [i64], finish: impl Fn(i128) -> i128) {
    for (node, place) in weighed.iter_mut().enumerate() {
        let sum = parts.iter().fold(0_i128, |sum, (scores, weight)| {
            let score = scores.get(node).copied().unwrap_or(0);
            sum.saturating_add(i128::from(score) * i128::from(*weight))
        });
        *place = finish(sum).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{BLOCK, weigh_additive, weigh_strict10};

    type Parts<'a> = &'a [(&'a [i64], i64)];

    /// Returns what `weigh` writes over other numbers, for tests.
    fn written(weigh: fn(Parts<'_>, &mut [i64]), parts: Parts<'_>) -> Vec<i64> {
        let nodes = parts.iter().map(|(scores, _)| scores.len()).max();
        let mut weighed = vec![-99; nodes.unwrap_or(0)];
        weigh(parts, &mut weighed);
        weighed
    }

    #[test]
    fn every_block_of_many_nodes_is_weighed() {
        let nodes = 3 * BLOCK + 7;
        let first: Vec<i64> = (0..101)
            .map(|at| at * 7 % 101)
            .cycle()
            .take(nodes)
            .collect();
        let second = &first[3..nodes - 2 * BLOCK];
        let sums = first
            .iter()
            .enumerate()
            .map(|(node, score)| 3 * score + 2 * second.get(node).copied().unwrap_or(0));
        let tenths: Vec<i64> = sums.clone().map(|sum| (sum + 5) / 10).collect();
        assert_eq!(written(weigh_additive, &[(&first, 3), (second, 2)]), tenths);
        let fiftieths: Vec<i64> = sums.map(|sum| (sum + 25) / 50).collect();
        assert_eq!(
            written(weigh_strict10, &[(&first, 3), (second, 2)]),
            fiftieths
        );
    }

    #[test]
    fn additive_scores_are_a_tenth_of_the_weighted_sum() {
        let huge = i64::MAX;
        for (parts, expected) in [
            (&[][..] as Parts<'_>, &[][..]),
            (&[(&[], 1)], &[]),
            (&[(&[0, 4, 5, 14, 15, 25, 100], 1)], &[0, 0, 1, 1, 2, 3, 10]),
            (&[(&[-4, -5, -14, -15, -25], 1)], &[0, -1, -1, -2, -3]),
            (&[(&[100, 0, 50], 2), (&[100, 100, 1], 3)], &[50, 30, 10]),
            (&[(&[10, 20], 1), (&[10], 1), (&[], 7)], &[2, 2]),
            (&[(&[10], -1)], &[-1]),
            (&[(&[10], 0)], &[0]),
            (&[(&[huge], 10)], &[huge]),
            (&[(&[huge], 1)], &[922_337_203_685_477_581]),
            (
                &[(&[huge], huge), (&[huge], huge), (&[huge], huge)],
                &[huge],
            ),
            (
                &[
                    (&[i64::MIN], huge),
                    (&[i64::MIN], huge),
                    (&[i64::MIN], huge),
                ],
                &[i64::MIN],
            ),
            (&[(&[huge], 1), (&[-huge], 1), (&[10], 1)], &[1]),
        ] {
            assert_eq!(written(weigh_additive, parts), expected, "{parts:?}");
        }
    }

    #[test]
    fn strict_scores_are_tenths_of_what_the_plugins_could_give() {
        let huge = i64::MAX;
        for (parts, expected) in [
            (&[][..] as Parts<'_>, &[][..]),
            (
                &[(&[0, 4, 5, 14, 15, 94, 95, 100], 1)],
                &[0, 0, 1, 1, 2, 9, 10, 10],
            ),
            (&[(&[100, 0, 50], 1), (&[100, 100, 0], 3)], &[10, 8, 1]),
            (&[(&[150, -10, 1000], 5)], &[10, 0, 10]),
            (&[(&[101, 150, 1000, 0], 5)], &[10, 10, 10, 0]),
            (&[(&[100, 100], 1), (&[100], 1)], &[10, 5]),
            (&[(&[100, 7], 0)], &[0, 0]),
            (&[(&[100], -1)], &[0]),
            (&[(&[50], huge), (&[100], huge)], &[8]),
            (&[(&[huge, i64::MIN], 3)], &[10, 0]),
        ] {
            assert_eq!(written(weigh_strict10, parts), expected, "{parts:?}");
        }
    }

    type Owned = Vec<(Vec<i64>, i64)>;

    fn some_parts() -> impl Strategy<Value = Owned> {
        let score = prop_oneof![6 => -10..=110_i64, 1 => any::<i64>()];
        let weight = prop_oneof![6 => 0..=100_i64, 1 => -5..=5_i64, 1 => any::<i64>()];
        prop::collection::vec((prop::collection::vec(score, 0..8), weight), 0..5)
    }

    fn borrowed(parts: &Owned) -> Vec<(&[i64], i64)> {
        let scores = parts.iter().map(|(scores, _)| scores.as_slice());
        scores
            .zip(parts.iter().map(|(_, weight)| *weight))
            .collect()
    }

    /// Returns each node's weighted sum, for tests; five products of two 63-bit numbers may not fit
    /// in 128 bits.
    fn slow_sums(parts: &Owned) -> Vec<i128> {
        let length = parts.iter().map(|(scores, _)| scores.len()).max();
        let product = |(scores, weight): &(Vec<i64>, i64), node: usize| {
            i128::from(*weight) * i128::from(scores.get(node).copied().unwrap_or(0))
        };
        let sum = |node: usize| {
            parts
                .iter()
                .fold(0_i128, |sum, part| sum.saturating_add(product(part, node)))
        };
        (0..length.unwrap_or(0)).map(sum).collect()
    }

    fn slow_additive(sum: i128) -> i64 {
        let away = i128::from(sum % 10 >= 5) - i128::from(sum % 10 <= -5);
        (sum / 10 + away).clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// Returns, for tests, the highest grade 0 to 10 whose lower bound, half a grade below, the sum
    /// reaches.
    fn slow_strict(sum: i128, weights: i128) -> i64 {
        let reached = |grade: &i128| sum >= (10 * grade - 5) * weights;
        (1..=10).rev().find(reached).map_or(0, |grade| grade as i64)
    }

    proptest! {
        #[test]
        fn additive_scores_are_those_of_the_slow_rule(parts in some_parts()) {
            let expected: Vec<i64> = slow_sums(&parts).into_iter().map(slow_additive).collect();
            prop_assert_eq!(written(weigh_additive, &borrowed(&parts)), expected);
        }

        #[test]
        fn strict_scores_are_those_of_the_slow_rule(parts in some_parts()) {
            let weights: i128 = parts.iter().map(|(_, weight)| i128::from(*weight)).sum();
            let grade = |sum: i128| if weights > 0 { slow_strict(sum, weights) } else { 0 };
            let expected: Vec<i64> = slow_sums(&parts).into_iter().map(grade).collect();
            prop_assert_eq!(written(weigh_strict10, &borrowed(&parts)), expected);
        }
    }
}
