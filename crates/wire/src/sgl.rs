//! SGL descriptors, 16 bytes. [Base 2.0, 4.1.2, Figures 112 to 121]

layout! {
    /// SGL descriptor of type 0h to 3h or 5h: data block, bit bucket, segment, last segment, transport data block. [Base 2.0, 4.1.2]
    pub struct SglDescriptor[16] {
        addr: u64 @ 0 "Address, or offset in bytes" = "nvme.cmd.sgl1.addr",
        len: u32 @ 8 "Length, bytes" = "nvme.cmd.sgl1.len",
        sub: SglSubtype @ 15 [3:0] "Sub type" = "nvme.cmd.sgl.subtype",
        kind: SglType @ 15 [7:4] "Type" = "nvme.cmd.sgl.type",
    }

    /// Keyed data block descriptor (type 4h): 24-bit length, 32-bit key. [Base 2.0, 4.1.2, Figure 119]
    pub struct SglKeyed[16] {
        addr: u64 @ 0 "Address",
        len: u32 @ 8 [23:0] "Length, bytes (at most 16 MiB - 1)",
        key: u32 @ 11 "Key",
        sub: SglSubtype @ 15 [3:0] "Sub type",
        kind: SglType @ 15 [7:4] "Type",
    }
}

open_enum! {
    /// SGL descriptor type, bits 7:4 of byte 15. [Base 2.0, Figure 113]
    pub struct SglType(u8) {
        DATA_BLOCK = 0x0 "data block",
        BIT_BUCKET = 0x1 "bit bucket",
        SEGMENT = 0x2 "segment",
        LAST_SEGMENT = 0x3 "last segment",
        KEYED_DATA_BLOCK = 0x4 "keyed data block",
        TRANSPORT_DATA_BLOCK = 0x5 "transport data block",
        VENDOR = 0xf "vendor specific",
    }
    /// SGL descriptor sub type, bits 3:0 of byte 15. [Base 2.0, Figure 114; NVMe/TCP 1.0, 3.3.2]
    pub struct SglSubtype(u8) {
        ADDRESS = 0x0 "address",
        OFFSET = 0x1 "offset",
        TRANSPORT_A = 0xa "transport specific Ah (TCP: command data buffer)",
        TRANSPORT_B = 0xb "transport specific Bh",
        TRANSPORT_C = 0xc "transport specific Ch",
        TRANSPORT_D = 0xd "transport specific Dh",
        TRANSPORT_E = 0xe "transport specific Eh",
        INVALIDATE_KEY = 0xf "transport specific Fh (RDMA: invalidate key)",
    }
}

impl SglDescriptor {
    /// In-capsule data: data block with an offset, byte 15 = 01h. [NVMe/TCP 1.0, 3.3.2]
    pub fn in_capsule(offset: u64, len: u32) -> Self {
        Self::new().with(|s| s.addr(offset).len(len).kind(SglType::DATA_BLOCK).sub(SglSubtype::OFFSET))
    }

    /// Command data buffer of NVMe/TCP: transport data block, sub type Ah, byte 15 = 5Ah. [NVMe/TCP 1.0, 3.3.2]
    pub fn transport(len: u32) -> Self {
        Self::new().with(|s| s.len(len).kind(SglType::TRANSPORT_DATA_BLOCK).sub(SglSubtype::TRANSPORT_A))
    }

    /// Byte 15: type and sub type.
    pub fn id(&self) -> u8 {
        self.as_bytes()[15]
    }

    /// True for a descriptor that describes in-capsule data.
    pub fn is_in_capsule(&self) -> bool {
        self.id() == 0x01
    }

    /// True for the command data buffer of NVMe/TCP.
    pub fn is_transport(&self) -> bool {
        self.id() == 0x5a
    }

    /// Length of the data that this descriptor alone describes, bytes; `None` where it is none of those that NVMe/TCP and NVMe/RDMA have
    /// for data, as a segment is. [Base 2.0, 4.1.2, Figure 119; NVMe/TCP 1.0, 3.3.2; NVMe/RDMA 1.0, 3.3.1]
    pub fn data_len(&self) -> Option<u32> {
        match self.kind() {
            SglType::KEYED_DATA_BLOCK => Some(SglKeyed::from_bytes(*self.as_bytes()).len()),
            _ => (self.is_in_capsule() || self.is_transport()).then(|| self.len()),
        }
    }
}
