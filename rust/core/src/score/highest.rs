//! Finds the nodes with the highest weighted scores.

/// Returns the positions of the `most` nodes with the highest weighted sums of scores, the best
/// first; of equal sums, the first node comes first.
///
/// Each part is `(scores, weight)`; where a part is shorter, its missing scores are 0. A sum beyond
/// 128 bits counts as the nearest that fits.
///
/// ```
/// use kubextend_core::score::highest;
///
/// assert_eq!(highest(&[(&[7, 9, 9, 1], 1), (&[0, 0, 0, 5], 2)], 3), [3, 1, 2]);
/// ```
pub fn highest(parts: &[(&[i64], i64)], most: usize) -> Vec<usize> {
    let nodes = parts.iter().map(|(scores, _)| scores.len()).max();
    let mut best: Vec<(i128, usize)> = Vec::with_capacity(most + 1);
    for node in 0..nodes.unwrap_or(0) {
        let sum = parts.iter().fold(0_i128, |sum, (scores, weight)| {
            let score = scores.get(node).copied().unwrap_or(0);
            sum.saturating_add(i128::from(score) * i128::from(*weight))
        });
        if best.len() == most && best.last().is_none_or(|&(least, _)| sum <= least) {
            continue;
        }
        let place = best.partition_point(|&(other, _)| other >= sum);
        best.insert(place, (sum, node));
        best.truncate(most);
    }
    best.into_iter().map(|(_, node)| node).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::highest;

    #[test]
    fn without_scores_or_places_there_is_no_best_node() {
        assert!(highest(&[], 5).is_empty());
        assert!(highest(&[(&[1, 2], 1)], 0).is_empty());
    }

    proptest! {
        #[test]
        fn the_best_nodes_come_in_the_order_of_their_sums(
            scores in prop::collection::vec((0..=3_i64, -2..=3_i64), 0..20),
            weight in -1..=3_i64,
            most in 0..7_usize,
        ) {
            let (first, second): (Vec<i64>, Vec<i64>) = scores.iter().copied().unzip();
            let mut order: Vec<usize> = (0..scores.len()).collect();
            order.sort_by_key(|&node| -(first[node] * weight + second[node]));
            order.truncate(most);
            prop_assert_eq!(highest(&[(&first, weight), (&second, 1)], most), order);
        }
    }
}
