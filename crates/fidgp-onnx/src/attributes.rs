//! Settings of a node. What is not read is an error: no operator is approximated by leaving a setting out.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::error::Doing;
use crate::proto::{AttributeKind, AttributeProto, TensorProto};

/// The settings of one node.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    by_name: BTreeMap<String, AttributeProto>,
    read: RefCell<BTreeSet<String>>,
}

impl Attributes {
    pub(crate) fn new(attributes: Vec<AttributeProto>) -> Self {
        let by_name = attributes.into_iter().map(|attribute| (attribute.name.clone(), attribute)).collect();
        Self { by_name, read: RefCell::default() }
    }

    fn get(&self, name: &str, kind: AttributeKind) -> Doing<Option<&AttributeProto>> {
        self.read.borrow_mut().insert(name.to_owned());
        let Some(attribute) = self.by_name.get(name) else { return Ok(None) };
        if attribute.r#type() != kind {
            return Err(format!("attribute `{name}` is of type {:?}, not {kind:?}", attribute.r#type()).into());
        }
        Ok(Some(attribute))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    pub(crate) fn int(&self, name: &str, default: i64) -> Doing<i64> {
        Ok(self.get(name, AttributeKind::Int)?.map_or(default, |attribute| attribute.i))
    }

    pub(crate) fn flag(&self, name: &str, default: bool) -> Doing<bool> {
        Ok(self.int(name, i64::from(default))? != 0)
    }

    pub(crate) fn float(&self, name: &str, default: f64) -> Doing<f64> {
        Ok(self.get(name, AttributeKind::Float)?.map_or(default, |attribute| f64::from(attribute.f)))
    }

    pub(crate) fn ints(&self, name: &str) -> Doing<Option<Vec<i64>>> {
        Ok(self.get(name, AttributeKind::Ints)?.map(|attribute| attribute.ints.clone()))
    }

    pub(crate) fn floats(&self, name: &str) -> Doing<Option<Vec<f32>>> {
        Ok(self.get(name, AttributeKind::Floats)?.map(|attribute| attribute.floats.clone()))
    }

    pub(crate) fn text(&self, name: &str, default: &str) -> Doing<String> {
        let text = self.get(name, AttributeKind::String)?.map(|attribute| &attribute.s);
        Ok(text.map_or_else(|| default.to_owned(), |bytes| String::from_utf8_lossy(bytes).into_owned()))
    }

    pub(crate) fn texts(&self, name: &str) -> Doing<Option<Vec<String>>> {
        let texts = |attribute: &AttributeProto| {
            attribute.strings.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
        };
        Ok(self.get(name, AttributeKind::Strings)?.map(texts))
    }

    pub(crate) fn tensor(&self, name: &str) -> Doing<Option<&TensorProto>> {
        Ok(self.get(name, AttributeKind::Tensor)?.and_then(|attribute| attribute.t.as_ref()))
    }

    /// Fails unless a text setting has the one value that is understood.
    pub(crate) fn only(&self, name: &str, values: &[&str]) -> Doing<String> {
        let value = self.text(name, values[0])?;
        if values.contains(&value.as_str()) {
            return Ok(value);
        }
        Err(format!("attribute `{name}` = \"{value}\" is not understood; {} is", values.join(" or ")).into())
    }

    /// Fails unless a whole number has the one value that is understood.
    pub(crate) fn must_be(&self, name: &str, value: i64) -> Doing<()> {
        match self.int(name, value)? {
            given if given == value => Ok(()),
            given => Err(format!("attribute `{name}` = {given} is not understood; {value} is").into()),
        }
    }

    /// A setting that changes nothing here.
    pub(crate) fn ignore(&self, name: &str) {
        self.read.borrow_mut().insert(name.to_owned());
    }

    /// Fails when there is a setting that nobody read.
    pub(crate) fn all_read(&self) -> Doing<()> {
        let read = self.read.borrow();
        match self.by_name.keys().find(|name| !read.contains(*name)) {
            Some(name) => Err(format!("attribute `{name}` is not understood").into()),
            None => Ok(()),
        }
    }
}
