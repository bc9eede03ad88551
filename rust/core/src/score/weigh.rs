//! Scores of several plugins weighed into the one score that an extender answers with.

use super::divide::Divisor;

/// The highest score that a plugin gives a node.
const MAX_PLUGIN_SCORE: i64 = 100;
/// The highest score that the extender protocol foresees.
const MAX_EXTENDER_SCORE: i64 = 10;

/// Scores that count in kube-scheduler as its own plugins' do: the weighted sum over 10.
///
/// kube-scheduler multiplies an extender's score by 10, so that weight 1 of the extender and
/// these scores add what the plugins would have added. Rounds to the nearest, halves away from
/// zero; a sum beyond 64 bits counts as the nearest that fits. Each part is `(scores, weight)`;
/// where one is shorter than another, its missing scores are 0.
///
/// Source: kubernetes v1.36 `pkg/scheduler/schedule_one.go`, prioritizing nodes
///
/// ```
/// use kubextend_core::score::weigh_additive;
///
/// assert_eq!(weigh_additive(&[(&[100, 44, -5], 1), (&[50, 1, 0], 2)]), [20, 5, -1]);
/// ```
pub fn weigh_additive(parts: &[(&[i64], i64)]) -> Vec<i64> {
    if fits(parts) {
        let mut sums = weighted_sums(parts);
        for sum in &mut sums {
            *sum = tenth(*sum);
        }
        return sums;
    }
    let sums = wide_sums(parts).into_iter();
    sums.map(|sum| clamped(sum.saturating_add(5 * sum.signum()) / 10))
        .collect()
}

/// Scores within 0..10, where 10 is full score in every plugin.
///
/// Rounds to the nearest, halves up. Parts are as in `weigh_additive`; without a positive weight
/// every score is 0.
///
/// ```
/// use kubextend_core::score::weigh_strict10;
///
/// assert_eq!(weigh_strict10(&[(&[100, 44, 0], 1), (&[100, 1, 0], 2)]), [10, 2, 0]);
/// ```
pub fn weigh_strict10(parts: &[(&[i64], i64)]) -> Vec<i64> {
    let weights: i128 = parts.iter().map(|(_, weight)| i128::from(*weight)).sum();
    if weights <= 0 {
        return vec![0; length(parts)];
    }
    // A whole of 100 per weight, and a tenth of it per point.
    let point = weights * i128::from(MAX_PLUGIN_SCORE / MAX_EXTENDER_SCORE);
    let full = point * i128::from(MAX_EXTENDER_SCORE);
    match Divisor::new(clamped(point)) {
        Some(divisor) if fits(parts) && full + point < i128::from(Divisor::LIMIT) => {
            narrow_points(parts, clamped(point), divisor)
        }
        _ => {
            let sums = wide_sums(parts).into_iter();
            sums.map(|sum| clamped((sum.clamp(0, full) + point / 2) / point))
                .collect()
        }
    }
}

fn narrow_points(parts: &[(&[i64], i64)], point: i64, divisor: Divisor) -> Vec<i64> {
    let full = point * MAX_EXTENDER_SCORE;
    let mut sums = weighted_sums(parts);
    for sum in &mut sums {
        *sum = divisor.quotient((*sum).clamp(0, full) + point / 2);
    }
    sums
}

/// Without a branch: the shift is -1 below 0, and 0 from there on.
fn tenth(sum: i64) -> i64 {
    (sum + 5 + 10 * (sum >> 63)) / 10
}

fn clamped(number: i128) -> i64 {
    number.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

fn length(parts: &[(&[i64], i64)]) -> usize {
    parts
        .iter()
        .map(|(scores, _)| scores.len())
        .max()
        .unwrap_or(0)
}

/// Whether no sum can come near the limits of 64 bits.
fn fits(parts: &[(&[i64], i64)]) -> bool {
    let bounds = parts.iter().map(|(scores, weight)| {
        let (low, high) = scores
            .iter()
            .fold((0, 0), |(low, high), &s| (s.min(low), s.max(high)));
        u128::from(weight.unsigned_abs()) * u128::from(low.unsigned_abs().max(high.unsigned_abs()))
    });
    let bound = bounds.fold(0, u128::saturating_add);
    bound < u128::from(i64::MAX.unsigned_abs() / 2)
}

fn weighted_sums(parts: &[(&[i64], i64)]) -> Vec<i64> {
    let mut sums = vec![0; length(parts)];
    for &(scores, weight) in parts {
        for (sum, score) in sums.iter_mut().zip(scores) {
            *sum += score * weight;
        }
    }
    sums
}

fn wide_sums(parts: &[(&[i64], i64)]) -> Vec<i128> {
    let mut sums = vec![0_i128; length(parts)];
    for &(scores, weight) in parts {
        for (sum, &score) in sums.iter_mut().zip(scores) {
            *sum = sum.saturating_add(i128::from(score) * i128::from(weight));
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{weigh_additive, weigh_strict10};

    type Parts<'a> = &'a [(&'a [i64], i64)];

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
            assert_eq!(weigh_additive(parts), expected, "{parts:?}");
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
            (&[(&[100, 100], 1), (&[100], 1)], &[10, 5]),
            (&[(&[100, 7], 0)], &[0, 0]),
            (&[(&[100], -1)], &[0]),
            (&[(&[50], huge), (&[100], huge)], &[8]),
            (&[(&[huge, i64::MIN], 3)], &[10, 0]),
        ] {
            assert_eq!(weigh_strict10(parts), expected, "{parts:?}");
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

    /// Each node's weighted sum; five products of two 63-bit numbers may not fit in 128 bits.
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

    /// The highest grade whose lower bound, half a grade below it, the sum reaches.
    fn slow_strict(sum: i128, weights: i128) -> i64 {
        let reached = |grade: &i128| sum >= (10 * grade - 5) * weights;
        (1..=10).rev().find(reached).map_or(0, |grade| grade as i64)
    }

    proptest! {
        #[test]
        fn additive_scores_are_those_of_the_slow_rule(parts in some_parts()) {
            let expected: Vec<i64> = slow_sums(&parts).into_iter().map(slow_additive).collect();
            prop_assert_eq!(weigh_additive(&borrowed(&parts)), expected);
        }

        #[test]
        fn strict_scores_are_those_of_the_slow_rule(parts in some_parts()) {
            let weights: i128 = parts.iter().map(|(_, weight)| i128::from(*weight)).sum();
            let grade = |sum: i128| if weights > 0 { slow_strict(sum, weights) } else { 0 };
            let expected: Vec<i64> = slow_sums(&parts).into_iter().map(grade).collect();
            prop_assert_eq!(weigh_strict10(&borrowed(&parts)), expected);
        }
    }
}
