//! Finds the first special byte of a JSON string, many bytes at a time.

use wide::u8x16;

const BLOCK: usize = 16;

/// Counts the bytes at the start of a JSON string that are no quote, backslash or control
/// character.
pub(crate) fn plain_prefix(bytes: &[u8]) -> usize {
    let mut len = 0;
    for block in bytes.chunks_exact(BLOCK) {
        let special = special_in(block.try_into().expect("blocks of this size"));
        if special != 0 {
            return len + special.trailing_zeros() as usize;
        }
        len += BLOCK;
    }
    let tail = bytes[len..].iter().take_while(|&&byte| !special(byte));
    len + tail.count()
}

fn special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Returns one bit for each byte of a block: set if the byte is a quote, a backslash or a control
/// character.
fn special_in(block: [u8; BLOCK]) -> u32 {
    let block = u8x16::new(block);
    let control = block.min(u8x16::splat(0x1f)).simd_eq(block);
    let special = control | block.simd_eq(u8x16::splat(b'"')) | block.simd_eq(u8x16::splat(b'\\'));
    special.to_bitmask()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_prefix_stops_at_quotes_backslashes_and_controls_only() {
        for byte in 0..=255u8 {
            for at in 0..80 {
                let mut text = vec![b'a'; 84];
                text[at] = byte;
                let special = byte < 0x20 || byte == b'"' || byte == b'\\';
                assert_eq!(plain_prefix(&text), if special { at } else { 84 });
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn plain_prefix_ends_where_a_look_at_each_byte_ends(
            bytes in proptest::collection::vec(0x1d..0x60u8, 0..100),
        ) {
            let expected = bytes.iter().take_while(|&&byte| !special(byte)).count();
            proptest::prop_assert_eq!(plain_prefix(&bytes), expected);
        }
    }
}
