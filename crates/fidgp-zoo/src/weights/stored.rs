//! Safetensors files.

use safetensors::{Dtype, SafeTensors};
use tch::{Kind, Tensor};

/// All tensors, in the order of the file.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<(String, Tensor)>, String> {
    let damaged = |error: safetensors::SafeTensorError| format!("not a sound safetensors file: {error}");
    let file = SafeTensors::deserialize(bytes).map_err(damaged)?;
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
    let mut tensors = Vec::new();
    for name in metadata.offset_keys() {
        let view = file.tensor(&name).map_err(damaged)?;
        let Some(kind) = kind(view.dtype()) else {
            return Err(format!("`{name}` is {:?}, which is not supported", view.dtype()));
        };
        let shape: Vec<_> = view.shape().iter().map(|&size| size as i64).collect();
        let tensor = Tensor::f_from_data_size(view.data(), &shape, kind);
        tensors.push((name.clone(), tensor.map_err(|error| format!("`{name}`: {error}"))?));
    }
    Ok(tensors)
}

fn kind(dtype: Dtype) -> Option<Kind> {
    Some(match dtype {
        Dtype::BOOL => Kind::Bool,
        Dtype::U8 => Kind::Uint8,
        Dtype::I8 => Kind::Int8,
        Dtype::I16 => Kind::Int16,
        Dtype::I32 => Kind::Int,
        Dtype::I64 => Kind::Int64,
        Dtype::F16 => Kind::Half,
        Dtype::BF16 => Kind::BFloat16,
        Dtype::F32 => Kind::Float,
        Dtype::F64 => Kind::Double,
        _ => return None,
    })
}
