//! Constants of a file as tensors.

use fidgp_files::limits;
use prost::bytes::Bytes;
use tch::{Kind, Tensor};

use crate::element::Element;
use crate::error::{Doing, Problem};
use crate::file::External;
use crate::proto::TensorProto;

/// The tensor of a message, in its own type, on the CPU.
pub(crate) fn tensor(message: &TensorProto, external: &mut External) -> Doing<Tensor> {
    let element = Element::of(message.data_type)?;
    let count = count(&message.dims)?;
    let bytes = bytes(message, element, count, external)?;
    let have = bytes.len() as u64;
    let need = count * element.bytes() as u64;
    if have != need {
        let problem =
            format!("has shape {:?} of {}, {need} bytes, but {have} bytes of data", message.dims, element.name());
        return Err(problem.into());
    }
    if element == Element::Bool {
        return Ok(Tensor::f_from_data_size(&bytes, &message.dims, Kind::Uint8)?.f_ne(0)?);
    }
    Ok(Tensor::f_from_data_size(&bytes, &message.dims, element.kind())?)
}

/// The bytes of a message, wherever they lie.
pub(crate) fn bytes_of(message: &TensorProto, external: &mut External) -> Doing<Bytes> {
    bytes(message, Element::of(message.data_type)?, count(&message.dims)?, external)
}

/// The number of elements of a shape. Beside an axis of 0 the others are bounded too.
fn count(dims: &[i64]) -> Doing<u64> {
    let product = |product: u64, size: &i64| product.checked_mul(u64::try_from(*size).ok()?.max(1));
    let count = dims.iter().try_fold(1, product).filter(|count| *count <= 1 << 40);
    let count = count.ok_or_else(|| Problem::from(format!("has the impossible shape {dims:?}")))?;
    if dims.contains(&0) {
        limits::ELEMENTS.check(count).map_err(|error| Problem::from(format!("has shape {dims:?}: {error}")))?;
        return Ok(0);
    }
    Ok(count)
}

/// Its elements as little-endian bytes, wherever they stand.
fn bytes(message: &TensorProto, element: Element, count: u64, external: &mut External) -> Doing<Bytes> {
    if message.data_location == 1 {
        return Ok(external.bytes(message, count * element.bytes() as u64)?);
    }
    if !message.raw_data.is_empty() {
        return Ok(message.raw_data.clone());
    }
    Ok(match element {
        Element::Float => little(message.float_data.iter().map(|x| x.to_le_bytes())),
        Element::Double => little(message.double_data.iter().map(|x| x.to_le_bytes())),
        Element::Int64 => little(message.int64_data.iter().map(|x| x.to_le_bytes())),
        Element::Int32 => little(message.int32_data.iter().map(|x| x.to_le_bytes())),
        Element::Int16 | Element::Float16 | Element::Bfloat16 => {
            little(message.int32_data.iter().map(|x| (*x as i16).to_le_bytes()))
        }
        Element::Uint8 | Element::Int8 | Element::Bool => {
            little(message.int32_data.iter().map(|x| (*x as u8).to_le_bytes()))
        }
    })
}

fn little<const N: usize>(elements: impl Iterator<Item = [u8; N]>) -> Bytes {
    elements.flatten().collect::<Vec<u8>>().into()
}
