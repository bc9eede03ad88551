//! Arithmetic on numbers of at most thirty bits in 64-bit lanes: every x86-64 processor multiplies
//! two at a time, and most multiply four.

use multiversion::multiversion;

/// The largest number that counts as narrow.
pub(super) const LIMIT: u64 = 1 << 30;

/// Returns the highest of `scores`, at least 0; None if a score is negative or above `LIMIT`.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn highest(scores: &[i64]) -> Option<u64> {
    // A loop and not a fold, because the compiler would call a fold's closure for each score.
    let (mut bits, mut highest) = (0, 0);
    for &score in scores {
        bits |= score;
        highest = i32::max(highest, score as i32);
    }
    (u64::try_from(bits).ok()? < LIMIT).then_some(u64::from(highest.unsigned_abs()))
}

/// Returns the product of two numbers up to `LIMIT`.
#[inline]
pub(super) fn product(one: u64, other: u64) -> u64 {
    u64::from(one as u32) * u64::from(other as u32)
}

/// Divides by one number up to `LIMIT` again and again, with a multiplication in place of the
/// division.
///
/// The quotient is exact for dividends x up to `LIMIT`: if the divisor d < 2^(l+1), and M =
/// floor(2^(31+l) / d) + 1, then M*d exceeds 2^(31+l) by at most d, so that x*M / 2^(31+l) exceeds
/// x/d by less than 1/d.
#[derive(Clone, Copy)]
pub(super) struct Divisor {
    reciprocal: u64,
    shift: u32,
}

impl Divisor {
    /// Prepares divisions by a divisor between 1 and `LIMIT`; None for any other divisor.
    pub(super) fn new(divisor: u64) -> Option<Self> {
        let shift = 31 + divisor.checked_ilog2()?;
        (divisor <= LIMIT).then(|| Self {
            reciprocal: (1 << shift) / divisor + 1,
            shift,
        })
    }

    /// Returns the quotient, rounded down, of a dividend up to `LIMIT`.
    #[inline]
    pub(super) fn quotient(self, dividend: u64) -> u64 {
        product(dividend, self.reciprocal) >> self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::{Divisor, LIMIT, highest};
    use proptest::prelude::*;

    #[test]
    fn only_divisors_within_the_limit_are_taken() {
        for (divisor, taken) in [
            (0, false),
            (1, true),
            (LIMIT, true),
            (LIMIT + 1, false),
            (u64::MAX, false),
        ] {
            assert_eq!(Divisor::new(divisor).is_some(), taken, "{divisor}");
        }
    }

    #[test]
    fn quotients_at_the_edges_are_those_of_a_division() {
        for divisor in [1, 2, 3, 7, 10, 100, 1000, 65_537, LIMIT - 1, LIMIT] {
            let by = Divisor::new(divisor).expect("within the limit");
            let multiple = LIMIT / divisor * divisor;
            for dividend in [0, 1, divisor - 1, divisor, multiple - 1, multiple, LIMIT] {
                assert_eq!(
                    by.quotient(dividend),
                    dividend / divisor,
                    "{dividend}/{divisor}"
                );
            }
        }
    }

    #[test]
    fn the_highest_is_known_where_all_are_narrow() {
        let last = LIMIT.cast_signed() - 1;
        for (scores, expected) in [
            (&[][..], Some(0)),
            (&[0, 0], Some(0)),
            (&[1, 5, 3], Some(5)),
            (&[last, 0], Some(LIMIT - 1)),
            (&[last + 1], None),
            (&[5, -1], None),
            (&[1 << 32], None),
            (&[i64::MAX], None),
            (&[i64::MIN], None),
        ] {
            assert_eq!(highest(scores), expected, "{scores:?}");
        }
    }

    proptest! {
        #[test]
        fn quotients_are_those_of_a_division(divisor in 1..=LIMIT, dividend in 0..=LIMIT) {
            let by = Divisor::new(divisor).expect("within the limit");
            prop_assert_eq!(by.quotient(dividend), dividend / divisor);
        }

        #[test]
        fn quotients_by_small_numbers_are_those_of_a_division(
            divisor in 1..=1000_u64, dividend in 0..=LIMIT,
        ) {
            let by = Divisor::new(divisor).expect("within the limit");
            prop_assert_eq!(by.quotient(dividend), dividend / divisor);
        }
    }
}
