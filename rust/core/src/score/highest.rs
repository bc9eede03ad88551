//! Finds the highest scores.

/// Returns the positions of the `most` highest scores, the highest first; of equal scores, the first
/// comes first.
///
/// ```
/// use kubextend_core::score::highest;
///
/// assert_eq!(highest(&[7, 9, 9, 1], 3), [1, 2, 0]);
/// ```
pub fn highest(scores: &[i64], most: usize) -> Vec<usize> {
    let mut best: Vec<(i64, usize)> = Vec::with_capacity(most + 1);
    let mut least = (most == 0).then_some(i64::MAX);
    for (at, &score) in scores.iter().enumerate() {
        // Few scores are among the highest so far.
        if least.is_some_and(|least| score <= least) {
            continue;
        }
        let place = best.partition_point(|&(other, _)| other >= score);
        best.insert(place, (score, at));
        best.truncate(most);
        least = best.get(most - 1).map(|&(score, _)| score);
    }
    best.into_iter().map(|(_, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::highest;

    proptest! {
        #[test]
        fn the_highest_come_in_the_order_of_a_stable_sort(
            scores in prop::collection::vec(-3..=3_i64, 0..20),
            most in 0..7_usize,
        ) {
            let mut order: Vec<usize> = (0..scores.len()).collect();
            order.sort_by_key(|&at| -scores[at]);
            order.truncate(most);
            prop_assert_eq!(highest(&scores, most), order);
        }
    }
}
