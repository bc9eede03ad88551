//! `Mask`: a set of nodes, with one bit for each node of a request.

use std::ops::{BitAnd, BitOr, BitXor, Not};

/// A set of positions in `0..len`, with one bit for each position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    words: Vec<u64>,
    len: usize,
}

impl Mask {
    /// Returns a mask of `len` bits that all equal `bit`.
    pub fn filled(len: usize, bit: bool) -> Self {
        let word = if bit { u64::MAX } else { 0 };
        Self {
            words: vec![word; len.div_ceil(64)],
            len,
        }
        .trimmed()
    }

    /// Returns a mask of `len` bits; `bit` returns the bit of each position.
    pub fn from_fn(len: usize, mut bit: impl FnMut(usize) -> bool) -> Self {
        let words = (0..len.div_ceil(64))
            .map(|word| {
                let from = word * 64;
                (from..len.min(from + 64)).fold(0, |bits, i| bits | u64::from(bit(i)) << (i - from))
            })
            .collect();
        Self { words, len }
    }

    /// Returns a copy with clear bits added up to `len` positions, which is no less than before.
    pub(crate) fn grown_to(&self, len: usize) -> Self {
        let mut words = self.words.clone();
        words.resize(len.div_ceil(64), 0);
        Self { words, len }
    }

    /// Changes the bit of one position.
    pub(crate) fn set(&mut self, at: usize, bit: bool) {
        let (word, one) = (&mut self.words[at / 64], 1 << (at % 64));
        *word = if bit { *word | one } else { *word & !one };
    }

    /// Clears the bits behind the end of the mask, so that whole words can be compared and counted.
    fn trimmed(mut self) -> Self {
        if let (Some(last), used @ 1..) = (self.words.last_mut(), self.len % 64) {
            *last &= (1 << used) - 1;
        }
        self
    }

    /// How many positions the mask has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the mask has no position at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bit of a position; false behind the end of the mask.
    pub fn get(&self, at: usize) -> bool {
        self.words
            .get(at / 64)
            .is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// How many bits of the mask are set.
    pub fn count(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Whether any bit of the mask is set.
    pub fn any(&self) -> bool {
        self.words.iter().any(|&word| word != 0)
    }

    /// The positions of the mask's set bits, ascending.
    pub fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        let set = |word: u64| (word != 0).then_some(word);
        self.words.iter().enumerate().flat_map(move |(at, &word)| {
            std::iter::successors(set(word), move |rest| set(rest & (rest - 1)))
                .map(move |rest| at * 64 + rest.trailing_zeros() as usize)
        })
    }

    /// Serialises the mask, 8 bits a byte; the first bit is the lowest bit of the first byte.
    pub fn packed(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|w| w.to_le_bytes()).collect();
        bytes.truncate(self.len.div_ceil(8));
        bytes
    }

    /// Deserialises a mask of `len` bits from the bytes that `packed` returned; None for other
    /// bytes.
    pub fn unpacked(bytes: &[u8], len: usize) -> Option<Self> {
        if bytes.len() != len.div_ceil(8) {
            return None;
        }
        let mask = Self::from_fn(len, |at| {
            bytes
                .get(at / 8)
                .is_some_and(|byte| byte >> (at % 8) & 1 == 1)
        });
        (mask.packed() == bytes).then_some(mask)
    }

    fn zip(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        assert_eq!(self.len, other.len, "masks of the same nodes");
        Self {
            words: self
                .words
                .iter()
                .zip(&other.words)
                .map(|(&a, &b)| combine(a, b))
                .collect(),
            len: self.len,
        }
    }
}

impl BitAnd for &Mask {
    type Output = Mask;
    fn bitand(self, other: Self) -> Mask {
        self.zip(other, |a, b| a & b)
    }
}

impl BitOr for &Mask {
    type Output = Mask;
    fn bitor(self, other: Self) -> Mask {
        self.zip(other, |a, b| a | b)
    }
}

impl BitXor for &Mask {
    type Output = Mask;
    fn bitxor(self, other: Self) -> Mask {
        self.zip(other, |a, b| a ^ b)
    }
}

impl Not for &Mask {
    type Output = Mask;
    fn not(self) -> Mask {
        Mask {
            words: self.words.iter().map(|word| !word).collect(),
            len: self.len,
        }
        .trimmed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_mask_is_a_list_of_booleans(
            pairs in proptest::collection::vec(any::<(bool, bool)>(), 0..200)
        ) {
            let mask = |pick: fn(&(bool, bool)) -> bool| {
                Mask::from_fn(pairs.len(), |i| pick(&pairs[i]))
            };
            let (a, b) = (mask(|p| p.0), mask(|p| p.1));
            prop_assert_eq!(&a & &b, mask(|p| p.0 & p.1));
            prop_assert_eq!(&a | &b, mask(|p| p.0 | p.1));
            prop_assert_eq!(&a ^ &b, mask(|p| p.0 ^ p.1));
            prop_assert_eq!(!&a, mask(|p| !p.0));
            let set: Vec<_> = (0..pairs.len()).filter(|&i| pairs[i].0).collect();
            prop_assert_eq!(a.count(), set.len());
            prop_assert_eq!(a.any(), !set.is_empty());
            prop_assert_eq!(a.indices().collect::<Vec<_>>(), set);
            prop_assert_eq!(&a | &!&a, Mask::filled(pairs.len(), true));
        }

        #[test]
        fn bytes_are_one_mask_or_none(
            bits in proptest::collection::vec(any::<bool>(), 0..200), odd in 1u8..
        ) {
            let mask = Mask::from_fn(bits.len(), |i| bits[i]);
            let mut packed = mask.packed();
            prop_assert_eq!(packed.len(), bits.len().div_ceil(8));
            prop_assert_eq!(Mask::unpacked(&packed, bits.len()), Some(mask));
            prop_assert_eq!(Mask::unpacked(&packed, bits.len() + 8), None);
            packed.push(odd);
            prop_assert_eq!(Mask::unpacked(&packed, bits.len()), None);
        }

        #[test]
        fn no_memory_is_taken_for_a_length_that_the_bytes_do_not_have(
            bytes in proptest::collection::vec(any::<u8>(), 0..20), len in (1usize << 45)..,
        ) {
            prop_assert_eq!(Mask::unpacked(&bytes, len), None);
        }

        #[test]
        fn a_mask_grows_and_changes_as_a_list_of_booleans_does(
            bits in proptest::collection::vec(any::<bool>(), 0..200),
            more in 1..200usize,
            changes in proptest::collection::vec(any::<(prop::sample::Index, bool)>(), 0..20),
        ) {
            let mut expected = bits.clone();
            expected.resize(bits.len() + more, false);
            let mut mask = Mask::from_fn(bits.len(), |i| bits[i]).grown_to(expected.len());
            for (at, bit) in changes {
                let at = at.index(expected.len());
                expected[at] = bit;
                mask.set(at, bit);
            }
            prop_assert_eq!(mask, Mask::from_fn(expected.len(), |i| expected[i]));
        }
    }
}
