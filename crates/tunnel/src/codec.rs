//! Protobuf messages, weighed before they are decoded.
//!
//! An empty element of a repeated field takes two bytes on the wire and hundreds in memory. The console therefore counts what a
//! request would become, by the shapes of the contract's messages, and decodes it only when that is a small multiple
//! of its bytes.

use std::marker::PhantomData;

use prost::{
    DecodeError, Message,
    bytes::Buf,
    encoding::{WireType, decode_key, decode_varint},
};
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder},
};
use tonic_prost::ProstEncoder;

/// Bytes of structures that any message may become.
const FREE: usize = 64 << 10;
/// Bytes of structures that a byte on the wire may become: a report that says of each service only that it is well needs 13.
const RATIO: usize = 32;
/// Bytes of structures that no message may exceed: 16 MiB of honest components need about as much.
const MOST: usize = 64 << 20;
/// What an entry of a map takes: two strings and their place.
const ENTRY: usize = 96;
/// What a string of a list takes besides its text.
const TEXT: usize = size_of::<String>();
/// What a number of a list takes.
const NUMBER: usize = 8;
/// A list has room for so many elements when it gets its first, and for twice as many as it needs later.
const FIRST: usize = 4;
const LATER: usize = 2;

/// What a message becomes in memory.
pub(crate) struct Shape {
    size: usize,
    /// The fields that take memory of their own: all others are part of `size`, or as long as on the wire.
    fields: &'static [(u32, Field)],
}

#[derive(Clone, Copy)]
enum Field {
    Message {
        shape: usize,
        repeated: bool,
    },
    Texts,
    #[expect(dead_code, reason = "the contract has no list of numbers yet")]
    Numbers,
}

/// A message of the contract.
pub trait Weighed {
    /// Its place among the shapes.
    const SHAPE: usize;
    /// Agents say it to the console: it is weighed.
    const ASKED: bool;
}

/// A method of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method {
    /// `/package.Service/Method`.
    pub path: &'static str,
    /// The caller sends many messages, not one.
    pub client_streams: bool,
}

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// What the generated code encodes and decodes with.
#[derive(Debug)]
pub struct BoundedCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for BoundedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Weighed + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(PhantomData)
    }
}

/// Decodes what is not too heavy.
#[derive(Debug)]
pub struct BoundedDecoder<U>(PhantomData<U>);

impl<U: Message + Weighed + Default> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        if U::ASKED {
            // The whole message lies in one piece.
            weigh::<U>(buf.chunk())?;
        }
        let message = U::decode(buf).map_err(|error| Status::internal(error.to_string()))?;
        Ok(Some(message))
    }
}

/// Refuses a message that would take far more memory than it has bytes.
///
/// # Errors
/// `RESOURCE_EXHAUSTED` for one that is too heavy, `INVALID_ARGUMENT` for one that is none.
pub fn weigh<U: Weighed>(bytes: &[u8]) -> Result<(), Status> {
    let mut left = bytes.len().saturating_mul(RATIO).saturating_add(FREE).min(MOST);
    match count(U::SHAPE, bytes, &mut left) {
        Ok(()) => Ok(()),
        Err(Refused::Heavy) => Err(Status::resource_exhausted(format!(
            "the message has {} bytes and far more elements than a message of that size may have: send fewer at once",
            bytes.len()
        ))),
        Err(Refused::Malformed) => Err(Status::invalid_argument("the message is not a protobuf message")),
    }
}

enum Refused {
    Heavy,
    Malformed,
}

impl From<DecodeError> for Refused {
    fn from(_: DecodeError) -> Self {
        Self::Malformed
    }
}

/// Takes what a message's lists become from what is left. The contract's messages hold no message of their own kind, so that
/// this goes no deeper than they are declared.
fn count(shape: usize, mut bytes: &[u8], left: &mut usize) -> Result<(), Refused> {
    let shape = SHAPES.get(shape).ok_or(Refused::Malformed)?;
    // Lists that have an element: by their place among the fields.
    let mut begun = 0_u64;
    let mut element = |place: usize, size: usize, left: &mut usize| {
        let bit = 1_u64.checked_shl(place as u32).unwrap_or(0);
        let room = if begun & bit == 0 { FIRST } else { LATER };
        begun |= bit;
        *left = left.checked_sub(size * room).ok_or(Refused::Heavy)?;
        Ok::<(), Refused>(())
    };
    while !bytes.is_empty() {
        let (number, wire) = decode_key(&mut bytes)?;
        let field = shape.fields.iter().enumerate().find(|(_, (known, _))| *known == number);
        match wire {
            WireType::Varint => {
                decode_varint(&mut bytes)?;
            }
            WireType::SixtyFourBit => skip(&mut bytes, 8)?,
            WireType::ThirtyTwoBit => skip(&mut bytes, 4)?,
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut bytes)?).map_err(|_| Refused::Malformed)?;
                let inner = bytes;
                skip(&mut bytes, length)?;
                let inner = inner.get(..length).ok_or(Refused::Malformed)?;
                match field {
                    Some((place, (_, Field::Message { shape, repeated }))) => {
                        if *repeated {
                            let size = SHAPES.get(*shape).map_or(0, |shape| shape.size);
                            element(place, size, left)?;
                        }
                        count(*shape, inner, left)?;
                    }
                    Some((place, (_, Field::Texts))) => element(place, TEXT, left)?,
                    // Packed: each byte may be a number.
                    Some((_, (_, Field::Numbers))) => {
                        let size = length.saturating_mul(NUMBER * LATER);
                        *left = left.checked_sub(size).ok_or(Refused::Heavy)?;
                    }
                    None => {}
                }
                continue;
            }
            // Of an age before this contract.
            WireType::StartGroup | WireType::EndGroup => return Err(Refused::Malformed),
        }
        if let Some((place, (_, Field::Numbers))) = field {
            element(place, NUMBER, left)?;
        }
    }
    Ok(())
}

fn skip(bytes: &mut &[u8], count: usize) -> Result<(), Refused> {
    *bytes = bytes.get(count..).ok_or(Refused::Malformed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use crate::v1::{
        AgentMessage, Component, ComponentChild, PollRequest, ProxyFrame, ProxyHead, ProxyHeader,
        ReportRequest, ServiceReport, agent_message, proxy_frame,
    };

    fn code<U: Weighed>(bytes: &[u8]) -> Code {
        weigh::<U>(bytes).map_or_else(|status| status.code(), |()| Code::Ok)
    }

    /// A field of bytes.
    fn field(number: u32, inner: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        prost::encoding::encode_key(number, WireType::LengthDelimited, &mut bytes);
        prost::encoding::encode_varint(inner.len() as u64, &mut bytes);
        bytes.extend_from_slice(inner);
        bytes
    }

    #[test]
    fn floods_of_empty_elements_are_too_heavy_wherever_they_are() {
        let flood = |number: u32| field(number, &[]).repeat(1 << 22);
        // Services of a report, alone and inside a stream's message.
        assert_eq!(code::<ReportRequest>(&flood(2)), Code::ResourceExhausted);
        assert_eq!(code::<AgentMessage>(&field(2, &flood(2))), Code::ResourceExhausted);
        // Whatever a service lists: components, errors, drift, objects of a plan, images.
        for path in [&[6][..], &[7], &[8], &[43], &[42, 4], &[41, 3], &[40, 6], &[190, 1]] {
            let (last, above) = path.split_last().unwrap();
            let message = above.iter().rev().fold(flood(*last), |inner, number| field(*number, &inner));
            let told = code::<ReportRequest>(&field(2, &message));
            let is_list = *path != [6];
            assert_eq!(told, if is_list { Code::ResourceExhausted } else { Code::Ok }, "{path:?}");
        }
        // One child for each of many components: lists that are only begun.
        let component = field(7, &field(50, &[]));
        assert_eq!(code::<ReportRequest>(&field(2, &component.repeat(1 << 18))), Code::ResourceExhausted);
        // Headers of a proxied answer.
        assert_eq!(code::<ProxyFrame>(&field(3, &flood(2))), Code::ResourceExhausted);
        // What nobody knows is skipped and takes nothing.
        assert_eq!(code::<ReportRequest>(&flood(9000)), Code::Ok);
    }

    #[test]
    fn what_is_let_through_takes_no_more_than_it_may() {
        // As heavy as it gets, by trial: decoded, it takes what was counted at most.
        let (mut low, mut high) = (0, 1 << 20);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            let is_fine = code::<ReportRequest>(&field(2, &[]).repeat(middle)) == Code::Ok;
            if is_fine { low = middle } else { high = middle }
        }
        let bytes = field(2, &[]).repeat(low);
        let decoded = ReportRequest::decode(bytes.as_slice()).unwrap();
        let held = decoded.services.capacity() * size_of::<ServiceReport>();
        assert!(low > 0 && held <= bytes.len() * RATIO + FREE, "{low} services take {held} bytes");
    }

    #[test]
    fn honest_messages_pass() {
        let text = |length: usize| "x".repeat(length);
        let child = ComponentChild {
            uid: text(36),
            parent_uid: text(36),
            version: "v1".into(),
            kind: "Pod".into(),
            namespace: text(12),
            name: text(30),
            ..Default::default()
        };
        let component = Component {
            version: "v1".into(),
            kind: "Deployment".into(),
            namespace: text(12),
            name: text(20),
            uid: text(36),
            synced: true,
            children: vec![child; 5],
            ..Default::default()
        };
        let service = ServiceReport {
            service_id: text(36),
            revision_id: text(36),
            sequence: 1_000_000,
            applied: true,
            ..Default::default()
        };
        // Ten thousand services that are well, and one with as many components as it may have.
        let many = ReportRequest { services: vec![service.clone(); 10_000], ..Default::default() };
        let large = ServiceReport { components_set: true, components: vec![component; 20_000], ..service };
        let large = ReportRequest { services: vec![large], ..Default::default() };
        for report in [many, large] {
            let bytes = report.encode_to_vec();
            assert!(bytes.len() <= 16 << 20, "{}", bytes.len());
            assert_eq!(code::<ReportRequest>(&bytes), Code::Ok);
            let message = AgentMessage { message: Some(agent_message::Message::Report(report)) };
            assert_eq!(code::<AgentMessage>(&message.encode_to_vec()), Code::Ok);
        }
        let header = ProxyHeader { name: "x-header".into(), value: vec![b'x'; 20] };
        let head = ProxyHead { status: 200, headers: vec![header; 500], ..Default::default() };
        let frame = ProxyFrame { stream: 1, frame: Some(proxy_frame::Frame::Head(head)) };
        assert_eq!(code::<ProxyFrame>(&frame.encode_to_vec()), Code::Ok);
        assert_eq!(code::<PollRequest>(&[]), Code::Ok);
    }

    #[test]
    fn what_is_no_message_is_said_so() {
        for bytes in [&[0x12][..], &[0x12, 0x05, 0x00], &[0x13, 0x14], &[0x08], &[0xff; 12], &[0x09, 0x00]] {
            assert_eq!(code::<ReportRequest>(bytes), Code::InvalidArgument, "{bytes:?}");
        }
    }

    #[test]
    fn no_message_holds_one_of_its_own_kind() {
        fn depth(shape: usize, above: &mut Vec<usize>) {
            assert!(!above.contains(&shape), "a shape holds itself: bound the depth of the count");
            above.push(shape);
            for (_, field) in SHAPES[shape].fields {
                if let Field::Message { shape, .. } = field {
                    depth(*shape, above);
                }
            }
            above.pop();
        }
        for (index, shape) in SHAPES.iter().enumerate() {
            depth(index, &mut Vec::new());
            assert!(shape.fields.len() <= 64);
        }
    }
}
