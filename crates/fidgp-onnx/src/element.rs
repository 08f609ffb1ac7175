//! Types of elements.

use tch::Kind;

/// The type of a tensor's elements, as ONNX numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// f32
    Float,
    /// u8
    Uint8,
    /// i8
    Int8,
    /// i16
    Int16,
    /// i32
    Int32,
    /// i64
    Int64,
    /// Truth values
    Bool,
    /// f16
    Float16,
    /// f64
    Double,
    /// bf16
    Bfloat16,
}

use Element::{Bfloat16, Bool, Double, Float, Float16, Int8, Int16, Int32, Int64, Uint8};

/// Number in the file, type, name, bytes, libtorch's kind.
const ELEMENTS: [(i32, Element, &str, usize, Kind); 10] = [
    (1, Float, "float", 4, Kind::Float),
    (2, Uint8, "uint8", 1, Kind::Uint8),
    (3, Int8, "int8", 1, Kind::Int8),
    (5, Int16, "int16", 2, Kind::Int16),
    (6, Int32, "int32", 4, Kind::Int),
    (7, Int64, "int64", 8, Kind::Int64),
    (9, Bool, "bool", 1, Kind::Bool),
    (10, Float16, "float16", 2, Kind::Half),
    (11, Double, "double", 8, Kind::Double),
    (16, Bfloat16, "bfloat16", 2, Kind::BFloat16),
];

impl Element {
    /// The type with a number, or what is wrong with it.
    pub(crate) fn of(number: i32) -> Result<Self, String> {
        let found = ELEMENTS.iter().find(|(known, ..)| *known == number).map(|(_, element, ..)| *element);
        found.ok_or_else(|| {
            let name = match number {
                4 => "uint16",
                8 => "string",
                12 => "uint32",
                13 => "uint64",
                14 | 15 => "complex",
                17..=20 => "float8",
                21 | 22 => "int4",
                _ => "unknown",
            };
            format!("elements of type {name} ({number}) are not understood; f16, f32, f64, i8 to i64, u8 and bool are")
        })
    }

    fn entry(self) -> &'static (i32, Element, &'static str, usize, Kind) {
        ELEMENTS.iter().find(|(_, element, ..)| *element == self).expect("every type has its entry")
    }

    /// Its number in a file.
    pub fn number(self) -> i32 {
        self.entry().0
    }

    /// ONNX's name of it.
    pub fn name(self) -> &'static str {
        self.entry().2
    }

    /// Bytes of one element.
    pub(crate) fn bytes(self) -> usize {
        self.entry().3
    }

    /// The same type in libtorch.
    pub fn kind(self) -> Kind {
        self.entry().4
    }

    /// Whether it is a floating type.
    pub fn is_float(self) -> bool {
        matches!(self, Float | Float16 | Double | Bfloat16)
    }

    /// The type it is computed in: f16, bf16 and f32 in that of the network, everything else as it is.
    pub fn computed_in(self, float: Kind) -> Kind {
        if matches!(self, Float | Float16 | Bfloat16) { float } else { self.kind() }
    }
}
