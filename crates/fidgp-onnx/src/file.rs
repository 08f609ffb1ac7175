//! A file and the files its tensors lie in.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use fidgp_files::limits;
use prost::Message;
use prost::bytes::Bytes;

use crate::error::{Error, Result};
use crate::proto::{ModelProto, TensorProto};

/// Reads the messages of a file.
///
/// # Errors
/// When it cannot be read, is too large or is no ONNX model.
pub(crate) fn read(file: &Path) -> Result<ModelProto> {
    let bytes = fidgp_files::bytes(file).map_err(|error| Error::file(file, format!("cannot be read: {error}")))?;
    decode(Bytes::from(bytes)).map_err(|problem| Error::file(file, problem))
}

pub(crate) fn decode(bytes: Bytes) -> Result<ModelProto, String> {
    let broken = |error| format!("is no ONNX model, or is cut short ({error}); export it again");
    let model = ModelProto::decode(bytes).map_err(broken)?;
    if model.graph.is_none() {
        return Err("has no graph: it is no ONNX model; export it again".to_owned());
    }
    Ok(model)
}

/// Bytes of tensors that lie in files of the model's folder.
#[derive(Debug)]
pub(crate) struct External {
    folder: PathBuf,
    open: BTreeMap<String, Opened>,
}

/// One of those files.
#[derive(Debug)]
struct Opened {
    file: File,
    length: u64,
    /// Regions that were read, by offset and length: tied weights name the same one.
    read: BTreeMap<(u64, u64), Bytes>,
    /// How many bytes those regions have together.
    taken: u64,
}

impl External {
    /// Files beside a model.
    pub(crate) fn beside(model: &Path) -> Self {
        let folder = model.parent().filter(|parent| !parent.as_os_str().is_empty());
        Self { folder: folder.unwrap_or(Path::new(".")).to_owned(), open: BTreeMap::new() }
    }

    /// No folder: for tensors within nodes.
    pub(crate) fn none() -> Self {
        Self { folder: PathBuf::new(), open: BTreeMap::new() }
    }

    /// The bytes of a tensor, whose number is known from its shape.
    pub(crate) fn bytes(&mut self, tensor: &TensorProto, expected: u64) -> Result<Bytes, String> {
        let entry = |key: &str| tensor.external_data.iter().find(|entry| entry.key == key).map(|entry| &*entry.value);
        let number = |key: &str| {
            let parse = |text: &str| text.parse::<u64>().map_err(|_| format!("its {key} `{text}` is no number"));
            entry(key).map(parse).transpose()
        };
        let location = entry("location").ok_or("its external data has no location")?;
        let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?.unwrap_or(expected));
        if length != expected {
            return Err(format!("its shape and type need {expected} bytes, its external data has {length}"));
        }
        self.opened(location)?
            .region(offset, length)
            .map_err(|problem| format!("external data `{location}`: {problem}"))
    }

    fn opened(&mut self, location: &str) -> Result<&mut Opened, String> {
        if self.folder.as_os_str().is_empty() {
            return Err("a constant within a node cannot lie in another file".to_owned());
        }
        if !self.open.contains_key(location) {
            let file = open_within(&self.folder, location)?;
            let length = file.metadata().map_err(|error| error.to_string())?.len();
            self.open.insert(location.to_owned(), Opened { file, length, read: BTreeMap::new(), taken: 0 });
        }
        self.open.get_mut(location).ok_or_else(|| "was not opened".to_owned())
    }
}

/// Opens a file of a folder: no absolute path, no way up, no link out of it.
fn open_within(folder: &Path, location: &str) -> Result<File, String> {
    let advice = "a model's data must lie in its own folder; move it there and export again";
    let relative = Path::new(location);
    if !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(format!("external data `{location}` is outside the model's folder: {advice}"));
    }
    let cannot = |error| format!("external data `{location}` cannot be read: {error}; copy it beside the model");
    let folder = folder.canonicalize().map_err(cannot)?;
    let path = folder.join(relative).canonicalize().map_err(cannot)?;
    if !path.starts_with(&folder) {
        return Err(format!("external data `{location}` is a link out of the model's folder: {advice}"));
    }
    if !path.is_file() {
        return Err(format!("external data `{location}` is no file"));
    }
    File::open(path).map_err(cannot)
}

impl Opened {
    fn region(&mut self, offset: u64, length: u64) -> Result<Bytes, String> {
        limits::FILE_BYTES.check(length).map_err(|error| error.to_string())?;
        if let Some(bytes) = self.read.get(&(offset, length)) {
            return Ok(bytes.clone());
        }
        if offset.checked_add(length).is_none_or(|end| end > self.length) {
            return Err(format!("bytes {offset} + {length} are past its end at {}; copy it again", self.length));
        }
        self.taken += length;
        if self.taken > self.length {
            return Err("regions overlap, which no exporter writes".to_owned());
        }
        let mut bytes = vec![0; length as usize];
        self.file.seek(SeekFrom::Start(offset)).map_err(|error| error.to_string())?;
        self.file.read_exact(&mut bytes).map_err(|error| error.to_string())?;
        let bytes = Bytes::from(bytes);
        self.read.insert((offset, length), bytes.clone());
        Ok(bytes)
    }
}
