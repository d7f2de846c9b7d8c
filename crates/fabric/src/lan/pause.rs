//! PFC frames: MAC control frames that pause priorities. [IEEE 802.1Q, 36; IEEE 802.3, 31 and annex 31D]

use bytes::Bytes;

use super::frame::{Body, Frame, Mac, ethertype};

/// Where MAC control frames go: a group address that no bridge forwards.
const CONTROL: Mac = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];
/// Opcode of a PFC frame.
const PFC: [u8; 2] = [0x01, 0x01];
/// Opcode of a PAUSE frame, which stops all priorities.
const PAUSE: [u8; 2] = [0x00, 0x01];

/// For each priority how many quanta of 512 bit times it is to be silent; 0 ends a pause; `None` leaves it as it is.
pub(super) type Quanta = [Option<u16>; 8];

/// A PFC frame.
pub(super) fn frame(from: Mac, quanta: &Quanta) -> Frame {
    let mut b = [0; Frame::LEAST - Frame::ETH];
    b[..2].copy_from_slice(&PFC);
    for (i, q) in quanta.iter().enumerate() {
        if let Some(q) = q {
            // the class-enable vector has priority 0 in its lowest bit
            b[3] |= 1 << i;
            b[4 + 2 * i..6 + 2 * i].copy_from_slice(&q.to_be_bytes());
        }
    }
    Frame::new(CONTROL, from, ethertype::MAC_CONTROL, Bytes::copy_from_slice(&b))
}

/// What a MAC control frame asks for; nothing where it is another kind or too short.
pub(super) fn read(frame: &Frame) -> Option<Quanta> {
    let Body::Bytes(b) = frame.body() else { return None };
    let word = |at: usize| b.get(at..at + 2).map(|w| u16::from_be_bytes([w[0], w[1]]));
    match b.get(..2)? {
        op if op == PFC => {
            let enabled = *b.get(3)?;
            let mut quanta = [None; 8];
            for (i, q) in quanta.iter_mut().enumerate() {
                *q = if enabled >> i & 1 == 1 { Some(word(4 + 2 * i)?) } else { None };
            }
            Some(quanta)
        }
        op if op == PAUSE => Some([Some(word(2)?); 8]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pfc_frame_as_its_standard_has_it() {
        let mut quanta = [None; 8];
        (quanta[3], quanta[7]) = (Some(0xffff), Some(0));
        let f = frame([2, 0, 0, 0, 0, 1], &quanta);
        assert_eq!((f.len(), f.ethertype(), f.to()), (60, 0x8808, CONTROL));
        assert_eq!(f.parts()[1][..20], [1, 1, 0, 0x88, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read(&f), Some(quanta));
        let pause = Frame::new(CONTROL, [2; 6], ethertype::MAC_CONTROL, Bytes::from_static(&[0, 1, 0, 9]));
        assert_eq!(read(&pause), Some([Some(9); 8]));
        for cut in [&[1, 1, 0, 1, 0][..], &[0, 1, 0], &[9, 9, 0, 0], &[]] {
            assert_eq!(read(&Frame::new(CONTROL, [2; 6], ethertype::MAC_CONTROL, Bytes::from_static(cut))), None);
        }
    }
}
