//! CRC-32C, as HDGST and DDGST use it. [NVMe/TCP 1.0, 3.3.1.1; TCP-DGST-20]

/// CRC-32C (Castagnoli, reflected) of `bytes`, in the byte order of the wire: least significant byte first.
pub fn crc32c(bytes: &[u8]) -> [u8; 4] {
    (crc_fast::crc32_iscsi(bytes)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    #[test]
    fn check_value() {
        assert_eq!(super::crc32c(b"123456789"), [0x83, 0x92, 0x06, 0xe3]);
    }
}
