//! Division of many numbers by one.

/// Divides by one number again and again, with a multiplication in place of the division.
///
/// Exact while the dividend is below 2^32: with M = floor(2^63 / d) + 1, M*d exceeds 2^63 by at
/// most d <= 2^31, so that x*M / 2^63 exceeds x / d by less than 1 / d.
#[derive(Clone, Copy)]
pub(super) struct Divisor {
    reciprocal: u64,
}

impl Divisor {
    /// The largest divisor and the largest dividend.
    pub(super) const LIMIT: i64 = 1 << 31;

    /// For a divisor between 1 and `LIMIT`; `None` for any other.
    pub(super) fn new(divisor: i64) -> Option<Self> {
        let divisor = u64::try_from(divisor).ok()?;
        let within = (1..=Self::LIMIT.cast_unsigned()).contains(&divisor);
        within.then(|| Self {
            reciprocal: (1 << 63) / divisor + 1,
        })
    }

    /// The quotient, rounded down, of a dividend between 0 and `LIMIT`.
    #[inline]
    pub(super) fn quotient(self, dividend: i64) -> i64 {
        let product = u128::from(self.reciprocal) * u128::from(dividend.cast_unsigned());
        ((product >> 63) as u64).cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::Divisor;
    use proptest::prelude::*;

    #[test]
    fn only_divisors_within_the_limit_are_taken() {
        for (divisor, taken) in [
            (i64::MIN, false),
            (-1, false),
            (0, false),
            (1, true),
            (Divisor::LIMIT, true),
            (Divisor::LIMIT + 1, false),
            (i64::MAX, false),
        ] {
            assert_eq!(Divisor::new(divisor).is_some(), taken, "{divisor}");
        }
    }

    #[test]
    fn quotients_at_the_edges_are_those_of_a_division() {
        for divisor in [
            1,
            2,
            3,
            7,
            10,
            100,
            1000,
            65_537,
            Divisor::LIMIT - 1,
            Divisor::LIMIT,
        ] {
            let by = Divisor::new(divisor).expect("within the limit");
            let multiple = Divisor::LIMIT / divisor * divisor;
            for dividend in [
                0,
                1,
                divisor - 1,
                divisor,
                multiple - 1,
                multiple,
                Divisor::LIMIT,
            ] {
                assert_eq!(
                    by.quotient(dividend),
                    dividend / divisor,
                    "{dividend}/{divisor}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn quotients_are_those_of_a_division(
            divisor in 1..=Divisor::LIMIT,
            dividend in 0..=Divisor::LIMIT,
        ) {
            let by = Divisor::new(divisor).expect("within the limit");
            prop_assert_eq!(by.quotient(dividend), dividend / divisor);
        }
    }
}
