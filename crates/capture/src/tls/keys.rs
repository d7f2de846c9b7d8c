//! Record protection: from a traffic secret to plaintext. [RFC 8446, 5.2, 5.3, 7.1 to 7.3]

use aes_gcm::aead::{AeadInOut, KeyInit, Nonce, Tag};
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use chacha20poly1305::ChaCha20Poly1305;
use hkdf::Hkdf;
use sha2::{Sha256, Sha384};

use super::notice::Suite;

/// Bytes of the authentication tag at the end of each record, in all suites known here.
pub(super) const TAG: usize = 16;

/// The keys of one direction from one traffic secret.
pub(super) struct Keys {
    suite: Suite,
    secret: Vec<u8>,
    aead: Aead,
    iv: [u8; 12],
    /// Number of the next record.
    pub(super) seq: u64,
}

enum Aead {
    Aes128(Box<Aes128Gcm>),
    Aes256(Box<Aes256Gcm>),
    ChaCha(Box<ChaCha20Poly1305>),
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("suite", &self.suite).field("seq", &self.seq).finish_non_exhaustive()
    }
}

/// Length of the secrets of a suite, bytes: that of its hash. `None` for a suite that cannot be opened here.
pub(super) fn secret_len(suite: Suite) -> Option<usize> {
    match suite {
        Suite::AES_128_GCM_SHA256 | Suite::CHACHA20_POLY1305_SHA256 => Some(32),
        Suite::AES_256_GCM_SHA384 => Some(48),
        _ => None,
    }
}

impl Keys {
    /// `None` where the suite is not known, or the secret is not of the length of its hash.
    pub(super) fn new(suite: Suite, secret: &[u8]) -> Option<Self> {
        if secret_len(suite)? != secret.len() {
            return None;
        }
        let (mut key, mut iv) = ([0u8; 32], [0u8; 12]);
        let key = key.get_mut(..if suite == Suite::AES_128_GCM_SHA256 { 16 } else { 32 })?;
        expand(secret, b"key", key)?;
        expand(secret, b"iv", &mut iv)?;
        let aead = match suite {
            Suite::AES_128_GCM_SHA256 => Aead::Aes128(Box::new(Aes128Gcm::new_from_slice(key).ok()?)),
            Suite::AES_256_GCM_SHA384 => Aead::Aes256(Box::new(Aes256Gcm::new_from_slice(key).ok()?)),
            _ => Aead::ChaCha(Box::new(ChaCha20Poly1305::new_from_slice(key).ok()?)),
        };
        Some(Self { suite, secret: secret.to_vec(), aead, iv, seq: 0 })
    }

    /// The keys that a KeyUpdate brings.
    pub(super) fn updated(&self) -> Option<Self> {
        let mut next = vec![0u8; self.secret.len()];
        expand(&self.secret, b"traffic upd", &mut next)?;
        Self::new(self.suite, &next)
    }

    /// Opens `body`, ciphertext and tag of record number `seq`, in place, and gives the length of what was protected, content type
    /// and padding included. `None` where it does not authenticate: `body` is then as it was.
    pub(super) fn open(&self, seq: u64, header: &[u8], body: &mut [u8]) -> Option<usize> {
        let len = body.len().checked_sub(TAG)?;
        let mut nonce = self.iv;
        for (n, s) in nonce.iter_mut().skip(4).zip(seq.to_be_bytes()) {
            *n ^= s;
        }
        match &self.aead {
            Aead::Aes128(a) => open(&**a, &nonce, header, body, len),
            Aead::Aes256(a) => open(&**a, &nonce, header, body, len),
            Aead::ChaCha(a) => open(&**a, &nonce, header, body, len),
        }
    }
}

#[cfg(test)]
impl Keys {
    /// A record of this content, for tests.
    pub(super) fn seal(&self, seq: u64, kind: u8, content: &[u8], padding: usize) -> Vec<u8> {
        let mut text = content.to_vec();
        text.push(kind);
        text.resize(text.len() + padding, 0);
        let mut record = vec![23, 3, 3];
        record.extend(u16::try_from(text.len() + TAG).expect("fits").to_be_bytes());
        let mut nonce = self.iv;
        for (n, s) in nonce[4..].iter_mut().zip(seq.to_be_bytes()) {
            *n ^= s;
        }
        let tag = match &self.aead {
            Aead::Aes128(a) => a.encrypt_inout_detached(&nonce.into(), &record, text.as_mut_slice().into()),
            Aead::Aes256(a) => a.encrypt_inout_detached(&nonce.into(), &record, text.as_mut_slice().into()),
            Aead::ChaCha(a) => a.encrypt_inout_detached(&nonce.into(), &record, text.as_mut_slice().into()),
        };
        record.extend(&text);
        record.extend(&tag.expect("seals")[..]);
        record
    }
}

fn open<A: AeadInOut>(aead: &A, nonce: &[u8], header: &[u8], body: &mut [u8], len: usize) -> Option<usize> {
    let (text, tag) = body.split_at_mut_checked(len)?;
    let (nonce, tag) = (Nonce::<A>::try_from(nonce).ok()?, Tag::<A>::try_from(&*tag).ok()?);
    aead.decrypt_inout_detached(&nonce, header, text.into(), &tag).ok().map(|()| len)
}

/// HKDF-Expand-Label with an empty context; the hash is that whose length the secret has.
fn expand(secret: &[u8], label: &[u8], out: &mut [u8]) -> Option<()> {
    let length = u16::try_from(out.len()).ok()?.to_be_bytes();
    let label_length = [u8::try_from(b"tls13 ".len() + label.len()).ok()?];
    let info: [&[u8]; 5] = [&length, &label_length, b"tls13 ", label, &[0]];
    match secret.len() {
        32 => Hkdf::<Sha256>::from_prk(secret).ok()?.expand_multi_info(&info, out).ok(),
        _ => Hkdf::<Sha384>::from_prk(secret).ok()?.expand_multi_info(&info, out).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|p| u8::from_str_radix(std::str::from_utf8(p).unwrap(), 16).unwrap()).collect()
    }

    /// The client's first application record of the simple 1-RTT handshake. [RFC 8448, 3]
    #[test]
    fn a_published_record_opens() {
        let secret = hex("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5");
        let keys = Keys::new(Suite::AES_128_GCM_SHA256, &secret).unwrap();
        assert_eq!(keys.iv.to_vec(), hex("5b78923dee08579033e523d9"));
        let mut body = hex(
            "a2 3f 70 54 b6 2c 94 d0 af fa fe 82 28 ba 55 cb ef ac ea 42 f9 14 aa 66 bc ab 3f 2b 98 19 a8 a5 b4 6b 39 5b d5 4a 9a \
             20 44 1e 2b 62 97 4e 1f 5a 62 92 a2 97 70 14 bd 1e 3d ea e6 3a ee bb 21 69 49 15 e4",
        );
        let header = hex("1703030043");
        let sealed = body.clone();
        assert_eq!(keys.open(1, &header, &mut body), None, "another number");
        assert_eq!(keys.open(0, &hex("1703030042"), &mut body), None, "another header");
        assert_eq!(body, sealed, "what does not open stays as it was");
        assert_eq!(keys.open(0, &header, &mut body), Some(51));
        let text: Vec<u8> = (0..50).collect();
        assert_eq!((&body[..50], body[50]), (&text[..], 23));
    }

    #[test]
    fn a_secret_of_another_hash_is_refused() {
        assert!(Keys::new(Suite::AES_256_GCM_SHA384, &[0; 32]).is_none());
        assert!(Keys::new(Suite::AES_128_GCM_SHA256, &[0; 48]).is_none());
        assert!(Keys::new(Suite::AES_128_CCM_SHA256, &[0; 32]).is_none());
    }
}
