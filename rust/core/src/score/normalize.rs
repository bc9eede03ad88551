//! Scales raw scores to the range that kube-scheduler expects, as `DefaultNormalizeScore` in Go.

use multiversion::multiversion;

use super::narrow::{self, Divisor};

/// Scales `scores` so that the highest becomes `max`; `reverse` then makes it the lowest.
///
/// Without a score above 0 no score is scaled, and `reverse` makes every score `max`. The
/// arithmetic is Go's: 64 bits that wrap, division towards zero. `scaled` has a place for each
/// score.
///
/// Source: kubernetes v1.36 `pkg/scheduler/framework/plugins/helper/normalize_score.go`
///
/// ```
/// use kubextend_core::score::normalize;
///
/// let mut scaled = [0; 3];
/// normalize(&[0, 3, 9], 100, false, &mut scaled);
/// assert_eq!(scaled, [0, 33, 100]);
///
/// normalize(&[0, 3, 9], 100, true, &mut scaled);
/// assert_eq!(scaled, [100, 67, 0]);
/// ```
///
/// # Panics
///
/// `scaled` is longer or shorter than `scores`.
pub fn normalize(scores: &[i64], max: i64, reverse: bool, scaled: &mut [i64]) {
    assert_eq!(scores.len(), scaled.len(), "a place for each score");
    if let Some((max, divisor)) = narrow_scale(scores, max) {
        return write_narrow(scores, max, divisor, reverse, scaled);
    }
    match scores.iter().fold(0, |highest, &score| score.max(highest)) {
        0 if reverse => scaled.fill(max),
        0 => scaled.copy_from_slice(scores),
        highest => write_wide(scores, max, highest, reverse, scaled),
    }
}

/// Returns the maximum and the divisor if every score and every product is below 2^30; else None.
fn narrow_scale(scores: &[i64], max: i64) -> Option<(u64, Divisor)> {
    let (highest, max) = (narrow::highest(scores)?, u64::try_from(max).ok()?);
    let divisor = Divisor::new(highest)?;
    (max.checked_mul(highest)? <= narrow::LIMIT).then_some((max, divisor))
}

#[multiversion(targets("x86_64+avx2"))]
fn write_narrow(scores: &[i64], max: u64, divisor: Divisor, reverse: bool, scaled: &mut [i64]) {
    for (place, score) in scaled.iter_mut().zip(scores) {
        let quotient = divisor.quotient(narrow::product(max, score.cast_unsigned()));
        let value = if reverse { max - quotient } else { quotient };
        *place = value.cast_signed();
    }
}

fn write_wide(scores: &[i64], max: i64, highest: i64, reverse: bool, scaled: &mut [i64]) {
    for (place, score) in scaled.iter_mut().zip(scores) {
        let quotient = max.wrapping_mul(*score) / highest;
        *place = if reverse {
            max.wrapping_sub(quotient)
        } else {
            quotient
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::normalize;

    const FULL: i64 = i64::MAX;

    #[test]
    fn scores_are_scaled_as_the_contract_says() {
        for (scores, max, scaled, reversed) in [
            (&[][..], 100, &[][..], &[][..]),
            (&[0, 0], 100, &[0, 0], &[100, 100]),
            (&[-5, 0], 100, &[-5, 0], &[100, 100]),
            (&[-5, -1], 100, &[-5, -1], &[100, 100]),
            (&[7], 100, &[100], &[0]),
            (&[0, 1, 2, 3], 100, &[0, 33, 66, 100], &[100, 67, 34, 0]),
            (&[100, 99, 1], 100, &[100, 99, 1], &[0, 1, 99]),
            (&[1000, 999, 9], 100, &[100, 99, 0], &[0, 1, 100]),
            (&[3, 2], 10, &[10, 6], &[0, 4]),
            // Products on both sides of 2^30, and of 2^32.
            (&[10_737_418, 1], 100, &[100, 0], &[0, 100]),
            (&[10_737_419, 5_368_709], 100, &[100, 49], &[0, 51]),
            (
                &[1_000_000_000, 990_000_000, 10_000_000],
                100,
                &[100, 99, 1],
                &[0, 1, 99],
            ),
            (&[3, 2], 0, &[0, 0], &[0, 0]),
            (&[3, 2], -10, &[-10, -6], &[0, -4]),
            // Division goes towards zero.
            (&[-1, 3], 100, &[-33, 100], &[133, 0]),
            (&[-7, 3], 10, &[-23, 10], &[33, 0]),
            // 100 * (2^63-1) wraps to -100, 100 * -2^63 to 0, 2 * 2^62 to -2^63.
            (&[FULL], 100, &[0], &[100]),
            (&[FULL, i64::MIN], 100, &[0, 0], &[100, 100]),
            (&[1 << 62, 1 << 61], 2, &[-2, 1], &[4, 1]),
        ] {
            assert_eq!(normalized(scores, max, false), scaled, "{scores:?} {max}");
            assert_eq!(
                normalized(scores, max, true),
                reversed,
                "{scores:?} {max} reversed"
            );
        }
    }

    fn normalized(scores: &[i64], max: i64, reverse: bool) -> Vec<i64> {
        let mut scaled = vec![0; scores.len()];
        normalize(scores, max, reverse, &mut scaled);
        scaled
    }

    /// Normalises one score at a time, as Go does, for tests; `as i64` wraps as in Go.
    fn slow(scores: &[i64], max: i64, reverse: bool) -> Vec<i64> {
        let highest = scores.iter().copied().fold(0, i64::max);
        let one = |&score: &i64| match (highest, reverse) {
            (0, false) => score,
            (0, true) => max,
            (_, false) => (i128::from(max) * i128::from(score)) as i64 / highest,
            (_, true) => {
                let scaled = (i128::from(max) * i128::from(score)) as i64 / highest;
                (i128::from(max) - i128::from(scaled)) as i64
            }
        };
        scores.iter().map(one).collect()
    }

    fn a_score() -> impl Strategy<Value = i64> {
        prop_oneof![4 => 0..=100_i64, 2 => 0..=1_i64 << 33, 1 => -100..=100_i64, 1 => any::<i64>()]
    }

    proptest! {
        #[test]
        fn scores_are_those_of_the_slow_rule(
            scores in prop::collection::vec(a_score(), 0..40),
            max in prop_oneof![4 => Just(100), 1 => 0..=10_000_000_i64, 1 => any::<i64>()],
            reverse: bool,
        ) {
            prop_assert_eq!(normalized(&scores, max, reverse), slow(&scores, max, reverse));
        }

        #[test]
        fn scores_that_kube_scheduler_takes_stay_in_its_range(
            scores in prop::collection::vec(0..=1_000_000_i64, 1..40), reverse: bool,
        ) {
            let scaled = normalized(&scores, 100, reverse);
            prop_assert!(scaled.iter().all(|score| (0..=100).contains(score)));
            prop_assert_eq!(scaled, slow(&scores, 100, reverse));
        }
    }
}
