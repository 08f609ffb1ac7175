//! The numbers and texts of a tensor, from JSON or from bytes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::{Serialize, Serializer};

use super::BadRequest;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs)] // the protocol's own names
pub enum Datatype {
    Bool,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Int8,
    Int16,
    Int32,
    Int64,
    Fp16,
    Fp32,
    Fp64,
    Bytes,
}

impl Datatype {
    /// Bytes of an element; none where they differ.
    pub fn size(self) -> Option<usize> {
        match self {
            Self::Bool | Self::Uint8 | Self::Int8 => Some(1),
            Self::Uint16 | Self::Int16 | Self::Fp16 => Some(2),
            Self::Uint32 | Self::Int32 | Self::Fp32 => Some(4),
            Self::Uint64 | Self::Int64 | Self::Fp64 => Some(8),
            Self::Bytes => None,
        }
    }
}

/// The elements of a tensor, row-major.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Numbers; integers beyond 2⁵³ are refused.
    Numbers(Vec<f64>),
    /// Whole numbers from 0 to 255, as they came as bytes: pictures are large.
    Octets(Vec<u8>),
    /// Texts, or the bytes of files.
    Bytes(Vec<Vec<u8>>),
}

impl Data {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Octets(octets) => octets.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers, where it holds such.
    pub fn numbers(&self) -> Option<Cow<'_, [f64]>> {
        match self {
            Self::Numbers(numbers) => Some(numbers.into()),
            Self::Octets(octets) => Some(octets.iter().map(|octet| f64::from(*octet)).collect()),
            Self::Bytes(_) => None,
        }
    }

    /// The whole numbers that came as bytes.
    pub fn octets(&self) -> &[u8] {
        if let Self::Octets(octets) = self { octets } else { &[] }
    }

    /// Elements from the protocol's little-endian bytes.
    ///
    /// # Errors
    /// When their number or a length does not fit.
    pub fn from_bytes(datatype: Datatype, bytes: &[u8]) -> Result<Self, BadRequest> {
        let Some(size) = datatype.size() else { return texts(bytes) };
        if datatype == Datatype::Uint8 {
            return Ok(Self::Octets(bytes.to_vec()));
        }
        if !bytes.len().is_multiple_of(size) {
            return Err(BadRequest::new(format!(
                "{} bytes are no whole number of elements of {size} bytes",
                bytes.len()
            )));
        }
        let numbers = bytes.chunks_exact(size).map(|element| number(datatype, element)).collect::<Result<_, _>>()?;
        Ok(Self::Numbers(numbers))
    }

    /// The elements as the protocol's bytes.
    pub fn to_bytes(&self, datatype: Datatype) -> Vec<u8> {
        match self {
            Self::Numbers(numbers) => numbers.iter().flat_map(|number| element(datatype, *number)).collect(),
            Self::Octets(octets) => octets.clone(),
            Self::Bytes(texts) => texts.iter().flat_map(|text| [&length(text)[..], text].concat()).collect(),
        }
    }
}

fn length(text: &[u8]) -> [u8; 4] {
    u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes()
}

/// Elements with a length of four bytes before each.
fn texts(mut bytes: &[u8]) -> Result<Data, BadRequest> {
    let mut texts = Vec::new();
    while !bytes.is_empty() {
        let short =
            || BadRequest::new("a BYTES tensor ends within an element: each has 4 bytes of length, then so many bytes");
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(short)?;
        texts.push(text.to_vec());
        bytes = rest;
    }
    Ok(Data::Bytes(texts))
}

fn number(datatype: Datatype, bytes: &[u8]) -> Result<f64, BadRequest> {
    fn of<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.try_into().unwrap_or([0; N])
    }
    Ok(match datatype {
        Datatype::Bool => f64::from(u8::from(bytes[0] != 0)),
        Datatype::Uint8 => f64::from(bytes[0]),
        Datatype::Int8 => f64::from(i8::from_le_bytes(of(bytes))),
        Datatype::Uint16 => f64::from(u16::from_le_bytes(of(bytes))),
        Datatype::Int16 => f64::from(i16::from_le_bytes(of(bytes))),
        Datatype::Uint32 => f64::from(u32::from_le_bytes(of(bytes))),
        Datatype::Int32 => f64::from(i32::from_le_bytes(of(bytes))),
        Datatype::Uint64 => exact(i128::from(u64::from_le_bytes(of(bytes))))?,
        Datatype::Int64 => exact(i128::from(i64::from_le_bytes(of(bytes))))?,
        Datatype::Fp32 => f64::from(f32::from_le_bytes(of(bytes))),
        Datatype::Fp64 => f64::from_le_bytes(of(bytes)),
        Datatype::Fp16 => half(u16::from_le_bytes(of(bytes))),
        Datatype::Bytes => return Err(BadRequest::new("BYTES are no numbers")),
    })
}

/// An integer that an f64 holds.
fn exact(integer: i128) -> Result<f64, BadRequest> {
    if integer.unsigned_abs() <= 1 << 53 {
        Ok(integer as f64)
    } else {
        Err(BadRequest::new(format!("{integer} is beyond 2^53 and would be rounded")))
    }
}

/// IEEE 754 half precision: 1 sign, 5 exponent and 10 fraction bits.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

fn element(datatype: Datatype, number: f64) -> Vec<u8> {
    match datatype {
        Datatype::Fp64 => number.to_le_bytes().to_vec(),
        Datatype::Int64 => (number as i64).to_le_bytes().to_vec(),
        _ => (number as f32).to_le_bytes().to_vec(),
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Numbers(numbers) => numbers.serialize(serializer),
            Self::Octets(octets) => serializer.collect_seq(octets),
            Self::Bytes(texts) => serializer.collect_seq(texts.iter().map(|text| String::from_utf8_lossy(text))),
        }
    }
}

/// JSON data may be flat or nested as the shape is; both are read into one flat list, without a tree between.
impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut flat = Flat { data: None };
        deserializer.deserialize_seq(Nested { flat: &mut flat, depth: 0 })?;
        Ok(flat.data.unwrap_or(Self::Numbers(Vec::new())))
    }
}

struct Flat {
    data: Option<Data>,
}

impl Flat {
    fn number<E: de::Error>(&mut self, number: f64) -> Result<(), E> {
        match self.data.get_or_insert_with(|| Data::Numbers(Vec::new())) {
            Data::Numbers(numbers) => {
                numbers.push(number);
                Ok(())
            }
            Data::Bytes(_) | Data::Octets(_) => Err(E::custom("numbers and texts in one tensor")),
        }
    }

    fn text<E: de::Error>(&mut self, text: &str) -> Result<(), E> {
        match self.data.get_or_insert_with(|| Data::Bytes(Vec::new())) {
            Data::Bytes(texts) => {
                texts.push(text.as_bytes().to_vec());
                Ok(())
            }
            Data::Numbers(_) | Data::Octets(_) => Err(E::custom("numbers and texts in one tensor")),
        }
    }
}

/// Lists within lists: no deeper than tensors are.
struct Nested<'a> {
    flat: &'a mut Flat,
    depth: usize,
}

const DEEPEST: usize = 8;

impl<'de> Visitor<'de> for Nested<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a number, a text, true, false, or a list of them")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if self.depth == DEEPEST {
            return Err(de::Error::custom(format!("data are nested deeper than {DEEPEST} lists")));
        }
        while list.next_element_seed(Nested { flat: self.flat, depth: self.depth + 1 })?.is_some() {}
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<(), E> {
        self.flat.number(number)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<(), E> {
        self.flat.number(exact(i128::from(number)).map_err(E::custom)?)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<(), E> {
        self.flat.number(exact(i128::from(number)).map_err(E::custom)?)
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<(), E> {
        self.flat.number(f64::from(u8::from(truth)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.flat.text(text)
    }
}

impl<'de> de::DeserializeSeed<'de> for Nested<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_lists_are_read_flat() {
        let data: Data = serde_json::from_str("[[1, 2.5], [true, -3]]").unwrap();
        assert_eq!(data, Data::Numbers(vec![1.0, 2.5, 1.0, -3.0]));
        let texts: Data = serde_json::from_str(r#"["a", "é"]"#).unwrap();
        assert_eq!(texts, Data::Bytes(vec![b"a".to_vec(), "é".as_bytes().to_vec()]));
        for bad in [r#"[1, "a"]"#, "[null]", "[{}]", "[9007199254740993]", "[[[[[[[[[1]]]]]]]]]", "1"] {
            assert!(serde_json::from_str::<Data>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn halves_are_what_ieee_754_says() {
        for (bits, value) in
            [(0x3c00, 1.0), (0xc000, -2.0), (0x7bff, 65504.0), (0x0001, 2f64.powi(-24)), (0x3555, 0.333_251_953_125)]
        {
            assert!((half(bits) - value).abs() < 1e-300, "{bits:04x}");
        }
        assert!(half(0x7e00).is_nan() && half(0xfc00) == f64::NEG_INFINITY);
    }

    proptest::proptest! {
        #[test]
        fn bytes_and_back(numbers in proptest::collection::vec(-1e6f32..1e6, 0..50), texts in proptest::collection::vec(proptest::collection::vec(0u8..255, 0..9), 0..9)) {
            let data = Data::Numbers(numbers.iter().map(|number| f64::from(*number)).collect());
            proptest::prop_assert_eq!(Data::from_bytes(Datatype::Fp32, &data.to_bytes(Datatype::Fp32)).unwrap(), data);
            let data = Data::Bytes(texts);
            proptest::prop_assert_eq!(Data::from_bytes(Datatype::Bytes, &data.to_bytes(Datatype::Bytes)).unwrap(), data);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(0u8..=255, 0..64)) {
            for datatype in [Datatype::Bool, Datatype::Int64, Datatype::Uint64, Datatype::Fp16, Datatype::Fp64, Datatype::Bytes] {
                let _ = Data::from_bytes(datatype, &bytes);
            }
        }
    }
}
