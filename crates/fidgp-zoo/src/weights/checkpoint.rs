//! State dicts written by `torch.save`, in both of its layouts.

use std::collections::HashMap;

use tch::{Device, Kind, Tensor};

use super::archive::Archive;
use super::pickle::{self, Value};

type Result<T> = std::result::Result<T, String>;

/// Where checkpoints keep the weights, when not at the top.
const NESTED: [&str; 4] = ["state_dict", "model_state_dict", "model", "net"];

/// More numbers than this are not made of fewer by a stride of 0: no weight is, a damaged shape may be.
const MOST_REPEATED: i64 = 1 << 28;

/// All tensors of a file.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<(String, Tensor)>> {
    if Archive::is(bytes) {
        let archive = Archive::open(bytes)?;
        let (root, mut data) = archive.find("data.pkl").ok_or(
            "a zip archive without `data.pkl`: TorchScript modules and other archives are not weight files; save `model.state_dict()`",
        )?;
        let storage = |key: &str| archive.get(&format!("{root}data/{key}"));
        return tensors(&pickle::read(&mut data)?, &storage);
    }
    if bytes.first() != Some(&0x80) {
        return Err("neither safetensors nor a PyTorch file".to_owned());
    }
    let (value, storages) = stream(bytes)?;
    tensors(&value, &|key| storages.get(key).copied())
}

/// The layout before PyTorch 1.6: magic number, version, system, the object, the storage keys, then every storage
/// behind its length.
fn stream(bytes: &[u8]) -> Result<(Value, HashMap<String, &[u8]>)> {
    let mut rest = bytes;
    let magic = pickle::read(&mut rest)?;
    if matches!(magic, Value::Sequence(_) | Value::Dict(_) | Value::Text(_) | Value::Call { .. }) {
        return Err("a pickle, but not one that torch.save has written: save a state_dict with it".to_owned());
    }
    for _ in 0..2 {
        pickle::read(&mut rest)?;
    }
    let value = pickle::read(&mut rest)?;
    let Value::Sequence(keys) = pickle::read(&mut rest)? else {
        return Err("an old PyTorch file without its list of storages".to_owned());
    };
    let mut classes = HashMap::new();
    collect_classes(&value, &mut classes);
    let mut storages = HashMap::new();
    for key in keys {
        let Value::Text(key) = key else { return Err("a storage without a name".to_owned()) };
        let (length, tail) = rest.split_first_chunk::<8>().ok_or("the file is cut short")?;
        let width = classes.get(&key).map_or(Ok(4), |class| Ok::<_, String>(kind(class)?.elt_size_in_bytes()))?;
        let bytes = (u64::from_le_bytes(*length) as usize).checked_mul(width);
        let (data, tail) = bytes.and_then(|bytes| tail.split_at_checked(bytes)).ok_or("the file is cut short")?;
        storages.insert(key, data);
        rest = tail;
    }
    Ok((value, storages))
}

/// The class of every storage that occurs.
fn collect_classes(value: &Value, classes: &mut HashMap<String, String>) {
    match value {
        Value::Storage { class, key } => _ = classes.insert(key.clone(), class.clone()),
        Value::Sequence(items) | Value::Call { arguments: items, .. } => {
            for item in items {
                collect_classes(item, classes);
            }
        }
        Value::Dict(entries) => {
            for (_, item) in entries {
                collect_classes(item, classes);
            }
        }
        _ => {}
    }
}

fn tensors<'a>(value: &Value, storage: &dyn Fn(&str) -> Option<&'a [u8]>) -> Result<Vec<(String, Tensor)>> {
    let Value::Dict(entries) = value else {
        return Err(
            "holds a whole pickled object instead of a dictionary of tensors; save `model.state_dict()`".to_owned()
        );
    };
    let nested = entries.iter().find(|(key, inner)| {
        matches!(key, Value::Text(name) if NESTED.contains(&name.as_str())) && matches!(inner, Value::Dict(_))
    });
    if let Some((_, inner)) = nested {
        return tensors(inner, storage);
    }
    let mut found = Vec::new();
    for (key, entry) in entries {
        if let (Value::Text(name), Value::Call { function, arguments }) = (key, entry)
            && let Some(tensor) =
                tensor(function, arguments, storage).map_err(|problem| format!("`{name}`: {problem}"))?
        {
            found.push((name.clone(), tensor));
        }
    }
    if found.is_empty() { Err("a dictionary without tensors".to_owned()) } else { Ok(found) }
}

/// `_rebuild_tensor_v2(storage, offset, size, stride, ..)`, perhaps inside `_rebuild_parameter(tensor, ..)`.
fn tensor<'a>(
    function: &str,
    arguments: &[Value],
    storage: &dyn Fn(&str) -> Option<&'a [u8]>,
) -> Result<Option<Tensor>> {
    match (function, arguments) {
        ("torch._utils._rebuild_parameter", [Value::Call { function, arguments }, ..]) => {
            tensor(function, arguments, storage)
        }
        ("torch._utils._rebuild_tensor_v2", [Value::Storage { class, key }, Value::Int(offset), size, stride, ..]) => {
            let data = storage(key).ok_or("its data is missing from the file")?;
            strided(data, kind(class)?, *offset, &integers(size)?, &integers(stride)?).map(Some)
        }
        (other, _) if other.starts_with("torch._utils._rebuild") => Err(format!("`{other}` tensors are not supported")),
        _ => Ok(None),
    }
}

fn strided(data: &[u8], kind: Kind, offset: i64, size: &[i64], stride: &[i64]) -> Result<Tensor> {
    let count = (data.len() / kind.elt_size_in_bytes()) as i64;
    let last =
        size.iter().zip(stride).try_fold(offset, |last, (n, step)| last.checked_add((n - 1).checked_mul(*step)?));
    let numbers = size.iter().try_fold(1_i64, |all, n| all.checked_mul(*n));
    let valid = size.len() == stride.len() && offset >= 0 && size.iter().chain(stride).all(|n| *n >= 0);
    if !valid
        || numbers.is_none_or(|numbers| numbers > count.max(MOST_REPEATED))
        || last.is_none_or(|last| last >= count) && !size.contains(&0)
    {
        return Err("its shape reaches beyond its data: the file is damaged".to_owned());
    }
    let flat = Tensor::f_from_data_size(data, &[count], kind).map_err(|error| error.to_string())?;
    let mut own = Tensor::f_empty(size, (kind, Device::Cpu)).map_err(|error| error.to_string())?;
    let view = flat.f_as_strided(size, stride, offset);
    view.and_then(|view| own.f_copy_(&view)).map_err(|error| error.to_string())?;
    Ok(own)
}

fn integers(value: &Value) -> Result<Vec<i64>> {
    let Value::Sequence(items) = value else { return Err("a shape of an unknown form".to_owned()) };
    let integer =
        |item: &Value| if let Value::Int(n) = item { Ok(*n) } else { Err("a shape of an unknown form".to_owned()) };
    items.iter().map(integer).collect()
}

fn kind(class: &str) -> Result<Kind> {
    Ok(match class {
        "torch.FloatStorage" => Kind::Float,
        "torch.DoubleStorage" => Kind::Double,
        "torch.HalfStorage" => Kind::Half,
        "torch.BFloat16Storage" => Kind::BFloat16,
        "torch.LongStorage" => Kind::Int64,
        "torch.IntStorage" => Kind::Int,
        "torch.ShortStorage" => Kind::Int16,
        "torch.CharStorage" => Kind::Int8,
        "torch.ByteStorage" => Kind::Uint8,
        "torch.BoolStorage" => Kind::Bool,
        other => return Err(format!("`{other}` is not supported")),
    })
}
