//! Data whose every word says where it belongs, so that a misplaced, stale or torn block is seen as such.

/// Bytes `at..at + len` of the pattern `name` laid over a namespace: each 8-byte word holds its offset in the namespace in dwords
/// (32 bits) mixed with the name, and the offset itself. The words of `sectors` are those that recorded captures were written with: the
/// offset in a sector of 512 bytes (16 bits), 4C42h, the sector (32 bits).
pub fn pattern(name: &str, at: u64, len: usize) -> Vec<u8> {
    let seed = name.bytes().fold(0x811c_9dc5u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    let mut out = Vec::with_capacity(len);
    let mut word_at = at / 8 * 8;
    let mut skip = (at % 8) as usize;
    while out.len() < len {
        let dword = (word_at / 4) as u32;
        let mut word = [0; 8];
        if name == "sectors" {
            word[..2].copy_from_slice(&((word_at % 512) as u16).to_le_bytes());
            word[2..4].copy_from_slice(&0x4c42u16.to_le_bytes());
            word[4..].copy_from_slice(&((word_at / 512) as u32).to_le_bytes());
        } else {
            word[..4].copy_from_slice(&dword.to_le_bytes());
            word[4..].copy_from_slice(&(dword.wrapping_mul(0x9e37_79b1) ^ seed).to_le_bytes());
        }
        let take = (8 - skip).min(len - out.len());
        out.extend_from_slice(&word[skip..skip + take]);
        skip = 0;
        word_at = word_at.wrapping_add(8);
    }
    out
}

/// Where `data` first differs from the pattern, and a guess at what it is instead.
pub fn mismatch(name: &str, at: u64, data: &[u8]) -> Option<String> {
    let want = pattern(name, at, data.len());
    let first = want.iter().zip(data).position(|(a, b)| a != b)?;
    let word = first / 8 * 8;
    let seen = data.get(word..(word + 8).min(data.len())).unwrap_or(&[]);
    let guess = if seen.iter().all(|b| *b == 0) {
        "zeroes".to_owned()
    } else if let Some(d) = seen.first_chunk::<4>() {
        let from = u64::from(u32::from_le_bytes(*d)) * 4;
        if seen == pattern(name, from, seen.len()) { format!("what belongs at byte {from}") } else { format!("{seen:02x?}") }
    } else {
        format!("{seen:02x?}")
    };
    Some(format!("byte {} of the namespace (byte {first} of the data) holds {guess}, not pattern `{name}`", at + first as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_parts_of_the_whole() {
        let whole = pattern("lba", 4096, 4096);
        for (at, len) in [(0usize, 8usize), (3, 5), (7, 100), (512, 512), (4095, 1)] {
            assert_eq!(pattern("lba", 4096 + at as u64, len), whole[at..at + len], "{at}+{len}");
        }
        assert_ne!(pattern("old", 0, 64), pattern("new", 0, 64));
    }

    #[test]
    fn a_misplaced_block_is_named() {
        let why = mismatch("lba", 512, &pattern("lba", 1024, 512)).unwrap();
        assert!(why.contains("what belongs at byte 1024"), "{why}");
        assert_eq!(mismatch("lba", 512, &pattern("lba", 512, 512)), None);
    }
}
