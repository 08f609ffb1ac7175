//! State dicts written by `torch.save`, in both of its layouts.

use std::collections::HashMap;
use std::rc::Rc;

use fidgp_files::limits::REPEATED_BYTES;
use tch::{Device, Kind, Tensor};

use super::archive::Archive;
use super::pickle::{self, Node, Pickle, Storage, Value};

/// Bytes of the name of a tensor, what a tensor takes beside its numbers, and its axes.
const LONGEST_NAME: usize = 4096;
const HEAD_BYTES: i64 = 512;
const MOST_AXES: usize = 64;
/// Dictionaries inside one another: deeper than this is one that holds itself.
const DEEPEST: usize = 16;

type Result<T> = std::result::Result<T, String>;

/// Where checkpoints keep the weights, when not at the top.
const NESTED: [&str; 4] = ["state_dict", "model_state_dict", "model", "net"];

/// Numbers of an old file, by key.
type Storages<'a> = HashMap<Rc<str>, &'a [u8]>;

/// All tensors of a file.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<(String, Tensor)>> {
    if Archive::is(bytes) {
        let archive = Archive::open(bytes)?;
        let (root, mut data) = archive.find("data.pkl")?.ok_or(
            "a zip archive without `data.pkl`: TorchScript modules and other archives are not weight files; save `model.state_dict()`",
        )?;
        let storage = |key: &str| archive.get(&format!("{root}data/{key}"));
        return Reader::new(&pickle::read(&mut data)?, bytes.len(), &storage).tensors();
    }
    if bytes.first() != Some(&0x80) {
        return Err("neither safetensors nor a PyTorch file".to_owned());
    }
    let (pickle, storages) = stream(bytes)?;
    Reader::new(&pickle, bytes.len(), &|key| storages.get(key).copied()).tensors()
}

/// The layout before PyTorch 1.6: magic number, version, system, the object, the storage keys, then every storage
/// behind its length.
fn stream(bytes: &[u8]) -> Result<(Pickle, Storages<'_>)> {
    let mut rest = bytes;
    if !matches!(pickle::read(&mut rest)?.root, Value::Int(_) | Value::Opaque) {
        return Err("a pickle, but not one that torch.save has written: save a state_dict with it".to_owned());
    }
    for _ in 0..2 {
        pickle::read(&mut rest)?;
    }
    let pickle = pickle::read(&mut rest)?;
    let keys = pickle::read(&mut rest)?;
    let keys = keys.sequence(&keys.root).ok_or("an old PyTorch file without its list of storages")?.to_vec();
    let classes: HashMap<&str, &str> = pickle.storages.iter().map(|storage| (&*storage.key, &*storage.class)).collect();
    let mut storages = HashMap::new();
    for key in keys {
        let Value::Text(key) = key else { return Err("a storage without a name".to_owned()) };
        let (length, tail) = rest.split_first_chunk::<8>().ok_or("the file is cut short")?;
        let width = classes.get(&*key).map_or(Ok(4), |class| Ok::<_, String>(kind(class)?.elt_size_in_bytes()))?;
        let bytes = (u64::from_le_bytes(*length) as usize).checked_mul(width);
        let (data, tail) = bytes.and_then(|bytes| tail.split_at_checked(bytes)).ok_or("the file is cut short")?;
        storages.insert(key, data);
        rest = tail;
    }
    drop(classes);
    Ok((pickle, storages))
}

/// Makes tensors of what a pickle says, and counts what they take.
struct Reader<'a, 'b> {
    pickle: &'b Pickle,
    storage: &'b dyn Fn(&str) -> Option<&'a [u8]>,
    /// Bytes of the file.
    file: u64,
    /// Bytes of the tensors so far.
    taken: u64,
}

impl<'a, 'b> Reader<'a, 'b> {
    fn new(pickle: &'b Pickle, file: usize, storage: &'b dyn Fn(&str) -> Option<&'a [u8]>) -> Self {
        Self { pickle, storage, file: file as u64, taken: 0 }
    }

    fn tensors(&mut self) -> Result<Vec<(String, Tensor)>> {
        let mut found = Vec::new();
        for (name, entry) in last_of_each(self.weights()?) {
            if name.len() > LONGEST_NAME {
                return Err(format!("a tensor whose name has {} bytes", name.len()));
            }
            if let Some(Node::Call { function, arguments }) = self.pickle.node(entry)
                && let Some(tensor) =
                    self.tensor(function, arguments).map_err(|problem| format!("`{name}`: {problem}"))?
            {
                found.push((String::from(&**name), tensor));
            }
        }
        if found.is_empty() { Err("a dictionary without tensors".to_owned()) } else { Ok(found) }
    }

    /// The dictionary of the weights, which may be nested in others.
    fn weights(&self) -> Result<&'b [(Value, Value)]> {
        let dict = |value: &Value| match self.pickle.node(value) {
            Some(Node::Dict(entries)) => Some(&entries[..]),
            _ => None,
        };
        let mut entries = dict(&self.pickle.root)
            .ok_or("holds a whole pickled object instead of a dictionary of tensors; save `model.state_dict()`")?;
        let is_nest = |key: &Value| matches!(key, Value::Text(name) if NESTED.contains(&&**name));
        for _ in 0..DEEPEST {
            match entries.iter().filter(|(key, _)| is_nest(key)).find_map(|(_, inner)| dict(inner)) {
                Some(inner) => entries = inner,
                None => return Ok(entries),
            }
        }
        Err("a dictionary that holds itself".to_owned())
    }

    /// `_rebuild_tensor_v2(storage, offset, size, stride, ..)`, perhaps inside `_rebuild_parameter(tensor, ..)`.
    fn tensor(&mut self, function: &str, arguments: &Value) -> Result<Option<Tensor>> {
        let items = |tuple| self.pickle.sequence(tuple).unwrap_or_default();
        let arguments = items(arguments);
        let inner = match (function, arguments) {
            ("torch._utils._rebuild_parameter", [inner, ..]) => self.pickle.node(inner),
            _ => None,
        };
        let (function, arguments) = match inner {
            Some(Node::Call { function, arguments }) => (&**function, items(arguments)),
            _ => (function, arguments),
        };
        match (function, arguments) {
            ("torch._utils._rebuild_tensor_v2", [Value::Storage(storage), Value::Int(offset), size, stride, ..]) => {
                let Storage { class, key } = &**storage;
                let (data, kind) = ((self.storage)(key).ok_or("its data is missing from the file")?, kind(class)?);
                let (size, stride) = (self.integers(size)?, self.integers(stride)?);
                self.strided(data, kind, *offset, &size, &stride).map(Some)
            }
            (other, _) if other.starts_with("torch._utils._rebuild") => {
                Err(format!("`{other}` tensors are not supported"))
            }
            _ => Ok(None),
        }
    }

    fn strided(&mut self, data: &[u8], kind: Kind, offset: i64, size: &[i64], stride: &[i64]) -> Result<Tensor> {
        let count = (data.len() / kind.elt_size_in_bytes()) as i64;
        let valid = size.len() == stride.len() && offset >= 0 && size.iter().chain(stride).all(|n| *n >= 0);
        let step = |last: i64, (n, step): (&i64, &i64)| last.checked_add(n.checked_sub(1)?.checked_mul(*step)?);
        let last = size.iter().zip(stride).try_fold(offset, step);
        if !valid || last.is_none_or(|last| last >= count) && !size.contains(&0) {
            return Err("its shape reaches beyond its data: the file is damaged".to_owned());
        }
        let numbers = last.map_or(0, |last| (last + 1 - offset).max(0)); // from the first to the last that is needed
        let numbers = if size.contains(&0) { 0 } else { numbers };
        self.take(&[HEAD_BYTES], Kind::Uint8)?;
        self.take(&[numbers], kind)?;
        self.take(size, kind)?;
        let width = kind.elt_size_in_bytes() as i64;
        let data = &data[(offset.min(count) * width) as usize..][..(numbers * width) as usize];
        let flat = Tensor::f_from_data_size(data, &[numbers], kind).map_err(|error| error.to_string())?;
        let mut own = Tensor::f_empty(size, (kind, Device::Cpu)).map_err(|error| error.to_string())?;
        let view = flat.f_as_strided(size, stride, 0);
        view.and_then(|view| own.f_copy_(&view)).map_err(|error| error.to_string())?;
        Ok(own)
    }

    /// Asks for memory: strides of 0 repeat numbers, and so do tensors of the same storage.
    fn take(&mut self, size: &[i64], kind: Kind) -> Result<()> {
        let bytes = size.iter().try_fold(kind.elt_size_in_bytes() as u64, |all, n| all.checked_mul(*n as u64));
        self.taken = bytes.and_then(|bytes| self.taken.checked_add(bytes)).unwrap_or(u64::MAX);
        REPEATED_BYTES.check(self.taken.saturating_sub(2 * self.file)).map_err(|exceeded| exceeded.to_string())
    }

    fn integers(&self, value: &Value) -> Result<Vec<i64>> {
        let unknown = || "a shape of an unknown form".to_owned();
        let integer = |item: &Value| if let Value::Int(n) = item { Ok(*n) } else { Err(unknown()) };
        let items = self.pickle.sequence(value).ok_or_else(unknown)?;
        if items.len() > MOST_AXES {
            return Err(format!("a tensor of {} axes", items.len()));
        }
        items.iter().map(integer).collect()
    }
}

/// The entries under texts, each in the place of the first of its name with the value of the last, as Python has them.
fn last_of_each(entries: &[(Value, Value)]) -> Vec<(&Rc<str>, &Value)> {
    let mut last = Vec::<(&Rc<str>, &Value)>::new();
    let (mut by_address, mut by_name) = (HashMap::new(), HashMap::new());
    for (key, value) in entries {
        let Value::Text(name) = key else { continue };
        // a name that a memo repeats is compared by its address: it may be long
        let next = last.len();
        let place = *by_address.entry(name.as_ptr()).or_insert_with(|| *by_name.entry(&**name).or_insert(next));
        if place == next { last.push((name, value)) } else { last[place].1 = value }
    }
    last
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
