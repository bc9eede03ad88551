//! Parses and adds resource quantities of Kubernetes, such as `250m`, `64Gi` and `1e3`.
//!
//! Source: apimachinery v0.36 pkg/api/resource/{quantity,suffix}.go

use std::ops::Add;

/// The largest amount of a quantity in units; a larger amount counts as `MAX_UNITS`.
const MAX_UNITS: u64 = i64::MAX as u64;
/// The decimal places of a quantity that count; anything smaller is rounded up.
const NANO_DIGITS: i64 = 9;
const NANOS: u32 = 1_000_000_000;
/// Decimal places that decide how a fraction times 2^60 rounds at nano: 60 + 9.
const FRACTION_DIGITS: usize = 69;

/// Why a text is not a quantity.
///
/// ```
/// use kubextend_core::labels::{Quantity, QuantityError};
///
/// assert_eq!(Quantity::parse("1 Gi"), Err(QuantityError::Format));
/// assert_eq!(Quantity::parse("1gb"), Err(QuantityError::Format));
/// assert_eq!(Quantity::parse("1K"), Err(QuantityError::Suffix));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// The text is empty, or is not a number and a suffix.
    #[error(
        "quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// The text has no digit.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// Kubernetes has no suffix of this name.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// A resource quantity between -(2^63-1) and 2^63-1, exact to 10^-9.
///
/// ```
/// use kubextend_core::labels::Quantity;
///
/// let cpu = Quantity::parse("1.5").unwrap();
/// assert_eq!((cpu.value(), cpu.milli_value()), (2, 1500));
/// assert!(cpu < Quantity::parse("2Ki").unwrap());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Quantity {
    // Both have the sign of the amount, so the derived order is the order of amounts.
    units: i64,
    nanos: i32,
}

impl Quantity {
    /// Parses a quantity, rounded away from zero to a multiple of 10^-9.
    ///
    /// White space is an error; Go's JSON reader strips white space before it parses a quantity.
    ///
    /// # Errors
    /// The errors of Go's `ParseQuantity`, for the same texts.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = Parts::split(text.as_bytes())?;
        let (units, nanos) = match Scale::of_suffix(parts.suffix)? {
            Scale::Decimal(exponent) => parts.decimal(exponent)?,
            Scale::Binary(exponent) => parts.binary(exponent)?,
        };
        Ok(Self::signed(parts.negative, units, nanos))
    }

    /// The quantity in whole units, rounded away from zero.
    pub fn value(self) -> i64 {
        self.units.saturating_add(i64::from(self.nanos.signum()))
    }

    /// The quantity in thousandths, rounded away from zero, and limited to 64 bits.
    pub fn milli_value(self) -> i64 {
        let up = 999_999 * self.nanos.signum();
        let milli = self.units.saturating_mul(1000);
        milli.saturating_add(i64::from((self.nanos + up) / 1_000_000))
    }

    /// The quantity in kube-scheduler's unit: cpu in thousandths, other resources in whole units.
    ///
    /// ```
    /// use kubextend_core::labels::Quantity;
    ///
    /// let half = Quantity::parse("500m").unwrap();
    /// assert_eq!((half.amount_of("cpu"), half.amount_of("memory")), (500, 1));
    /// ```
    pub fn amount_of(self, resource: &str) -> i64 {
        if resource == "cpu" {
            self.milli_value()
        } else {
            self.value()
        }
    }

    /// Returns the quantity of so many units and nanos, or the nearest one within 64 bits.
    fn signed(negative: bool, units: Option<u64>, nanos: u32) -> Self {
        let carried = units.and_then(|u| u.checked_add(u64::from(nanos / NANOS)));
        let (units, nanos) = match carried {
            Some(units) if units < MAX_UNITS => (units, nanos % NANOS),
            _ => (MAX_UNITS, 0),
        };
        let sign: i8 = if negative { -1 } else { 1 };
        Self {
            units: i64::from(sign) * units.cast_signed(),
            nanos: i32::from(sign) * nanos.cast_signed(),
        }
    }
}

/// The exact sum, or the nearest amount within the limits.
///
/// ```
/// use kubextend_core::labels::Quantity;
///
/// let [a, b, sum] = ["1.5", "-600m", "900m"].map(|text| Quantity::parse(text).unwrap());
/// assert_eq!(a + b, sum);
/// ```
impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        // Both in nanos and below 2^94 in size, so nothing overflows.
        let nanos = |q: Self| i128::from(q.units) * i128::from(NANOS) + i128::from(q.nanos);
        if self.nanos == 0 && other.nanos == 0 {
            let units = self.units.saturating_add(other.units).max(-i64::MAX);
            return Self { units, nanos: 0 };
        }
        let sum = nanos(self) + nanos(other);
        let size = sum.unsigned_abs();
        let units = u64::try_from(size / u128::from(NANOS)).ok();
        Self::signed(sum < 0, units, (size % u128::from(NANOS)) as u32)
    }
}

/// The number with which a suffix of a quantity, such as `Ki`, multiplies.
#[derive(Clone, Copy)]
enum Scale {
    /// A power of 10, by its exponent.
    Decimal(i64),
    /// A power of 2, by its exponent.
    Binary(u32),
}

impl Scale {
    fn of_suffix(suffix: &[u8]) -> Result<Self, QuantityError> {
        Ok(match suffix {
            b"" => Self::Decimal(0),
            b"n" => Self::Decimal(-9),
            b"u" => Self::Decimal(-6),
            b"m" => Self::Decimal(-3),
            b"k" => Self::Decimal(3),
            b"M" => Self::Decimal(6),
            b"G" => Self::Decimal(9),
            b"T" => Self::Decimal(12),
            b"P" => Self::Decimal(15),
            b"E" => Self::Decimal(18),
            b"Ki" => Self::Binary(10),
            b"Mi" => Self::Binary(20),
            b"Gi" => Self::Binary(30),
            b"Ti" => Self::Binary(40),
            b"Pi" => Self::Binary(50),
            b"Ei" => Self::Binary(60),
            [b'e' | b'E', exponent @ ..] => Self::Decimal(decimal_exponent(exponent)?),
            _ => return Err(QuantityError::Suffix),
        })
    }
}

/// Go keeps the low 32 bits of an exponent of 64.
fn decimal_exponent(digits: &[u8]) -> Result<i64, QuantityError> {
    let text = str::from_utf8(digits).map_err(|_| QuantityError::Suffix)?;
    let exponent: i64 = text.parse().map_err(|_| QuantityError::Suffix)?;
    Ok(i64::from(exponent as i32))
}

/// The parts of a quantity's text; the digits have been checked.
struct Parts<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    suffix: &'a [u8],
}

impl<'a> Parts<'a> {
    fn split(text: &'a [u8]) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let unsigned = after_sign(text);
        let (whole, rest) = split_digits(unsigned);
        let (fraction, suffix) = match rest {
            [b'.', rest @ ..] => split_digits(rest),
            _ => (&rest[..0], rest),
        };
        let parts = Self {
            negative: text[0] == b'-',
            whole,
            fraction,
            suffix,
        };
        if is_suffix_shaped(suffix) {
            Ok(parts)
        } else {
            Err(QuantityError::Format)
        }
    }

    /// Returns the amount times 10^`exponent`: units (None if too many for 64 bits) and nanos
    /// (which may be a whole unit).
    fn decimal(&self, exponent: i64) -> Result<(Option<u64>, u32), QuantityError> {
        // Go reads a number without digits as 0, but only where it needs no big arithmetic.
        if self.is_blank() && exponent < -NANO_DIGITS {
            return Err(QuantityError::Numeric);
        }
        let point = length(self.whole) + exponent;
        let nanos = (point..point + NANO_DIGITS).fold(0, |n, i| n * 10 + self.digit(i));
        let more = self.has_digits_from(point + NANO_DIGITS);
        Ok((self.units_before(point), nanos + u32::from(more)))
    }

    /// Returns the amount times 2^`exponent`: units (None if too many for 64 bits) and nanos.
    fn binary(&self, exponent: u32) -> Result<(Option<u64>, u32), QuantityError> {
        if self.is_blank() && exponent > 40 {
            return Err(QuantityError::Numeric);
        }
        let whole = self.units_before(length(self.whole));
        let whole = whole.and_then(|units| units.checked_mul(1 << exponent));
        let (units, nanos) = shifted_fraction(self.fraction, exponent);
        Ok((whole.and_then(|w| w.checked_add(units)), nanos))
    }

    fn is_blank(&self) -> bool {
        self.whole.is_empty() && self.fraction.is_empty()
    }

    /// Returns the digit at `position`, counted from the first digit of the number; 0 beyond both
    /// ends.
    fn digit(&self, position: i64) -> u32 {
        let Ok(position) = usize::try_from(position) else {
            return 0;
        };
        let fraction = || self.fraction.get(position - self.whole.len());
        let digit = self.whole.get(position).or_else(fraction);
        digit.map_or(0, |d| u32::from(d - b'0'))
    }

    fn has_digits_from(&self, position: i64) -> bool {
        let skip = usize::try_from(position).unwrap_or(0);
        let in_whole = skip.min(self.whole.len());
        let in_fraction = (skip - in_whole).min(self.fraction.len());
        has_digits(&self.whole[in_whole..]) || has_digits(&self.fraction[in_fraction..])
    }

    /// Returns the number that the digits before `point` form; None above `MAX_UNITS`.
    fn units_before(&self, point: i64) -> Option<u64> {
        let point = usize::try_from(point).unwrap_or(0);
        let in_whole = point.min(self.whole.len());
        let in_fraction = (point - in_whole).min(self.fraction.len());
        let units = append_digits(0, &self.whole[..in_whole])?;
        let units = append_digits(units, &self.fraction[..in_fraction])?;
        append_zeros(units, point - in_whole - in_fraction)
    }
}

fn after_sign(text: &[u8]) -> &[u8] {
    match text {
        [b'+' | b'-', rest @ ..] => rest,
        _ => text,
    }
}

fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    let other = text.iter().position(|b| !b.is_ascii_digit());
    text.split_at(other.unwrap_or(text.len()))
}

/// Whether the bytes match `[eEinumkKMGTP]*[-+]?[0-9]*`, as every suffix of a quantity does.
fn is_suffix_shaped(suffix: &[u8]) -> bool {
    let sign = suffix.iter().position(|b| !b"eEinumkKMGTP".contains(b));
    let (_, rest) = suffix.split_at(sign.unwrap_or(suffix.len()));
    after_sign(rest).iter().all(u8::is_ascii_digit)
}

fn length(digits: &[u8]) -> i64 {
    i64::try_from(digits.len()).expect("a slice has fewer than 2^63 bytes")
}

fn has_digits(digits: &[u8]) -> bool {
    digits.iter().any(|&d| d != b'0')
}

fn append_digits(units: u64, digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(units, |units, digit| {
        let units = units
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
        (units <= MAX_UNITS).then_some(units)
    })
}

fn append_zeros(units: u64, zeros: usize) -> Option<u64> {
    if units == 0 {
        return Some(0);
    }
    let power = 10_u64.checked_pow(u32::try_from(zeros).ok()?)?;
    units.checked_mul(power).filter(|&units| units <= MAX_UNITS)
}

/// The decimal fraction `digits` times 2^`exponent`: units, and nanos rounded up.
///
/// Only the first `FRACTION_DIGITS` digits are multiplied; of the others it counts only whether one
/// is not 0. Their share never carries into the next nano, because the product of the kept digits
/// is a multiple of the smallest share that the dropped digits can add.
fn shifted_fraction(digits: &[u8], exponent: u32) -> (u64, u32) {
    if digits.is_empty() {
        return (0, 0);
    }
    let kept = digits.len().min(FRACTION_DIGITS);
    let mut places = [0; FRACTION_DIGITS];
    for (place, digit) in places.iter_mut().zip(digits) {
        *place = digit - b'0';
    }
    let units = (0..exponent).fold(0, |units, _| {
        units * 2 + u64::from(double(&mut places[..kept]))
    });
    let nanos = places[..9].iter().fold(0, |n, &d| n * 10 + u32::from(d));
    let more = places[9..].iter().any(|&d| d != 0) || has_digits(&digits[kept..]);
    (units, nanos + u32::from(more))
}

/// Doubles a decimal fraction; returns the digit that is carried over the decimal point.
fn double(places: &mut [u8]) -> u8 {
    places.iter_mut().rev().fold(0, |carry, place| {
        let doubled = *place * 2 + carry;
        *place = doubled % 10;
        doubled / 10
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::{MAX_UNITS, Quantity, QuantityError};
    use crate::oracle::{list, text};

    fn nanos(quantity: Quantity) -> i128 {
        i128::from(quantity.units) * 1_000_000_000 + i128::from(quantity.nanos)
    }

    fn parsed(text: &str) -> Quantity {
        Quantity::parse(text).expect("a quantity")
    }

    #[test]
    fn go_and_we_read_the_same_amounts_and_refuse_the_same_texts() {
        for case in list("quantities", "cases") {
            match Quantity::parse(&text(&case["text"])) {
                Ok(quantity) => {
                    assert_eq!(case["error"], Value::Null, "{case}");
                    assert_eq!(text(&case["nanos"]), nanos(quantity).to_string(), "{case}");
                    assert_eq!(case["rounded"], quantity.value(), "{case}");
                    assert_eq!(case["roundedMilli"], quantity.milli_value(), "{case}");
                }
                Err(error) => assert_eq!(case["error"], error.to_string(), "{case}"),
            }
        }
    }

    /// Go wraps, or answers 0, where 64 bits do not do; and it rounds some negative amounts up.
    #[test]
    fn we_depart_from_go_only_beyond_64_bits_and_below_zero() {
        for case in list("quantities", "cases") {
            let Ok(quantity) = Quantity::parse(&text(&case["text"])) else {
                continue;
            };
            let excused = |ours: i64| ours == i64::MAX || quantity < Quantity::default();
            for (name, ours) in [
                ("value", quantity.value()),
                ("milli", quantity.milli_value()),
            ] {
                assert!(case[name] == ours || excused(ours), "{name} of {case}");
            }
        }
    }

    #[test]
    fn a_million_digits_are_read_in_linear_time() {
        let (ones, zeros) = ("1".repeat(1_000_000), "0".repeat(1_000_000));
        for (text, value) in [
            (ones.clone(), i64::MAX),
            (format!("{ones}Ei"), i64::MAX),
            (format!("{zeros}1"), 1),
            (format!("0.{ones}"), 1),
            (format!("0.{zeros}1Ki"), 1),
            (format!("1.{zeros}1Ki"), 1025),
            (format!("{ones}e-999999"), 2),
            (format!("0.{zeros}1e1000001"), 1),
            (format!("1e-{zeros}1"), 1),
            ("1e2147483647".to_owned(), i64::MAX),
            ("-1e2147483647".to_owned(), -i64::MAX),
            ("1e-2147483648".to_owned(), 1),
            ("0e2147483647".to_owned(), 0),
        ] {
            assert_eq!(parsed(&text).value(), value, "{text:.20}");
        }
        let suffix = format!("1{}", "E".repeat(1_000_000));
        assert_eq!(Quantity::parse(&suffix), Err(QuantityError::Suffix));
    }

    #[test]
    fn parts_of_a_unit_are_added_to_whole_ones_and_to_each_other() {
        for (a, b, sum) in [
            ("1", "500m", "1500m"),
            ("1", "2", "3"),
            ("500m", "500m", "1"),
            ("999999999n", "1n", "1"),
            ("1", "-1n", "999999999n"),
            ("-1", "500m", "-500m"),
            ("0", "1n", "1n"),
            ("9223372036854775807", "1", "9223372036854775807"),
            ("9223372036854775806", "1500m", "9223372036854775807"),
            ("-9223372036854775807", "-1n", "-9223372036854775807"),
        ] {
            let (a, b, sum) = (parsed(a), parsed(b), parsed(sum));
            assert_eq!((a + b, b + a), (sum, sum));
        }
    }

    /// The rounded-up nanos of `digits` * 10^-`places` * 2^`exponent`, by plain big numbers.
    fn slow_nanos(digits: u64, places: u32, exponent: u32) -> i128 {
        let scaled = u128::from(digits) << exponent;
        let limit = u128::from(MAX_UNITS) * 1_000_000_000;
        let nanos = match 9_u32.checked_sub(places) {
            Some(zeros) => scaled.saturating_mul(10_u128.pow(zeros)),
            None => scaled.div_ceil(10_u128.pow(places - 9)),
        };
        nanos.min(limit).cast_signed()
    }

    fn with_point(digits: u64, places: u32) -> String {
        let padded = format!("{digits:0width$}", width = places as usize + 1);
        let (whole, fraction) = padded.split_at(padded.len() - places as usize);
        format!("{whole}.{fraction}")
    }

    proptest! {
        #[test]
        fn powers_of_two_round_as_big_numbers_do(
            digits: u64, places in 0..=20_u32, power in 1..=6_u32,
        ) {
            let suffix = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power as usize - 1];
            let quantity = parsed(&(with_point(digits, places) + suffix));
            prop_assert_eq!(nanos(quantity), slow_nanos(digits, places, power * 10));
        }

        #[test]
        fn powers_of_ten_round_as_big_numbers_do(digits: u64, places in 0..=20_u32) {
            let expected = slow_nanos(digits, places, 0);
            prop_assert_eq!(nanos(parsed(&with_point(digits, places))), expected);
            prop_assert_eq!(nanos(parsed(&format!("{digits}e-{places}"))), expected);
        }

        #[test]
        fn quantities_are_ordered_as_their_numbers(a: i64, b: i64, suffix in "[numkMG]?") {
            let (left, right) = (parsed(&format!("{a}{suffix}")), parsed(&format!("{b}{suffix}")));
            prop_assert!(left.cmp(&right) == a.cmp(&b) || left == right);
            prop_assert_eq!(left < right, nanos(left) < nanos(right));
            prop_assert_eq!(left == right, nanos(left) == nanos(right));
        }

        #[test]
        fn a_sign_only_mirrors(text in "[0-9]{1,20}(\\.[0-9]{0,12})?(m|k|Gi|e-3)?") {
            let (plus, minus) = (parsed(&text), parsed(&format!("-{text}")));
            prop_assert_eq!(nanos(minus), -nanos(plus));
            prop_assert_eq!(minus.value(), -plus.value());
        }

        #[test]
        fn sums_are_exact_within_the_limits(
            a in "-?[0-9]{1,19}(\\.[0-9]{1,9}|n|m|Ki|Ei)?", b in "-?[0-9]{1,19}(\\.[0-9]{1,9}|u|m|Gi)?",
        ) {
            let limit = i128::from(MAX_UNITS) * 1_000_000_000;
            let (a, b) = (parsed(&a), parsed(&b));
            prop_assert_eq!(nanos(a + b), (nanos(a) + nanos(b)).clamp(-limit, limit));
            prop_assert_eq!(a + b, b + a);
        }

        #[test]
        fn whole_numbers_are_themselves(number in -i64::MAX..=i64::MAX) {
            prop_assert_eq!(parsed(&number.to_string()).value(), number);
            let milli = parsed(&format!("{number}m"));
            prop_assert_eq!(milli.milli_value(), number);
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "[-+.0-9eEinumkKMGTPé ]{0,24}") {
            let _ = Quantity::parse(&text);
        }
    }
}
