//! Entries of the file, each with the path that leads to it.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::error::{Result, VerifyError};

/// An entry and where it stands: `inducing[0].inputs.z_row`.
#[derive(Clone, Debug)]
pub(super) struct Node<'a> {
    pub path: String,
    value: &'a Value,
}

/// Numbers in nested lists, flattened row by row.
#[derive(Debug, PartialEq)]
pub(super) struct Array {
    pub shape: Vec<i64>,
    pub values: Vec<f64>,
}

impl<'a> Node<'a> {
    pub fn root(value: &'a Value) -> Self {
        Self { path: String::new(), value }
    }

    fn below(&self, key: &str, value: &'a Value) -> Self {
        Self { path: self.path_of(key), value }
    }

    /// Where a member stands, or would.
    pub fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The member of an object; an explicit null counts as absent.
    pub fn get(&self, key: &str) -> Option<Self> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(self.below(key, value))
    }

    /// The member of an object that must be there.
    pub fn need(&self, key: &str) -> Result<Self> {
        self.get(key).ok_or_else(|| VerifyError::Missing { path: self.path_of(key) })
    }

    /// All members of an object.
    pub fn entries(&self) -> Result<Vec<(&'a str, Self)>> {
        let object = self.object()?;
        Ok(object.iter().map(|(key, value)| (key.as_str(), self.below(key, value))).collect())
    }

    fn object(&self) -> Result<&'a Map<String, Value>> {
        self.value.as_object().ok_or_else(|| self.wrong("an object"))
    }

    /// The cases of a family: the items of a list, or the one object itself.
    pub fn cases(&self) -> Result<Vec<Self>> {
        let Value::Array(items) = self.value else { return self.object().map(|_| vec![self.clone()]) };
        let cases = items.iter().enumerate().map(|(i, value)| Self { path: format!("{}[{i}]", self.path), value });
        cases.map(|case| case.object().map(|_| case.clone())).collect()
    }

    pub fn is_text(&self) -> bool {
        self.value.is_string()
    }

    pub fn is_object(&self) -> bool {
        self.value.is_object()
    }

    pub fn text(&self) -> Result<&'a str> {
        self.value.as_str().ok_or_else(|| self.wrong("a text"))
    }

    pub fn number(&self) -> Result<f64> {
        match self.array()? {
            Array { values, .. } if values.len() == 1 => Ok(values[0]),
            Array { shape, .. } => {
                Err(VerifyError::malformed(&self.path, format!("has shape {shape:?}, expected a number")))
            }
        }
    }

    /// A finite number.
    pub fn finite(&self) -> Result<f64> {
        let number = self.number()?;
        if number.is_finite() { Ok(number) } else { Err(VerifyError::malformed(&self.path, "is not finite")) }
    }

    /// A whole number, which may be written as `3.0`, of moderate size.
    pub fn integer(&self) -> Result<i64> {
        whole(self.number()?).ok_or_else(|| self.wrong("a whole number"))
    }

    /// A list of whole numbers.
    pub fn integers(&self) -> Result<Vec<i64>> {
        let numbers = self.array()?.values.into_iter();
        numbers.map(whole).collect::<Option<_>>().ok_or_else(|| self.wrong("a list of whole numbers"))
    }

    pub fn flag(&self) -> Result<bool> {
        match self.number()? {
            0.0 => Ok(false),
            1.0 => Ok(true),
            _ => Err(self.wrong("true or false")),
        }
    }

    /// A number, or lists of numbers nested to any depth but never ragged.
    pub fn array(&self) -> Result<Array> {
        let mut values = Vec::new();
        let shape = gather(self.value, &self.path, &mut values)?;
        Ok(Array { shape, values })
    }

    fn wrong(&self, expected: &str) -> VerifyError {
        let path = if self.path.is_empty() { "the file" } else { &self.path };
        VerifyError::malformed(path, format!("is {}, expected {expected}", kind(self.value)))
    }
}

/// Appends the numbers below a value and returns its shape.
fn gather(value: &Value, path: &str, values: &mut Vec<f64>) -> Result<Vec<i64>> {
    let Value::Array(items) = value else {
        values.push(
            scalar(value)
                .ok_or_else(|| VerifyError::malformed(path, format!("is {}, expected numbers", kind(value))))?,
        );
        return Ok(Vec::new());
    };
    let mut inner: Option<Vec<i64>> = None;
    for (i, item) in items.iter().enumerate() {
        let path = format!("{path}[{i}]");
        let shape = gather(item, &path, values)?;
        match &inner {
            Some(first) if *first != shape => {
                return Err(VerifyError::malformed(&path, format!("has shape {shape:?}, those before it {first:?}")));
            }
            _ => inner = Some(shape),
        }
    }
    let inner = inner.ok_or_else(|| VerifyError::malformed(path, "is an empty list"))?;
    Ok([vec![items.len() as i64], inner].concat())
}

fn scalar(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::String(text) => NON_FINITE.iter().find(|(word, _)| word == text).map(|(_, number)| *number),
        other => other.as_f64(),
    }
}

fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() <= 9e15).then_some(number as i64)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// What Python writes for numbers that JSON does not have.
const NON_FINITE: [(&str, f64); 3] = [("NaN", f64::NAN), ("Infinity", f64::INFINITY), ("-Infinity", f64::NEG_INFINITY)];

/// Puts bare `NaN` and `Infinity` between quotes: one such number should cost its own quantity, not the file.
pub(super) fn quote_non_finite(json: &str) -> Cow<'_, str> {
    if !json.contains("NaN") && !json.contains("Infinity") {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len() + 64);
    let mut rest = json;
    let mut quoted = false;
    while let Some(next) = rest.chars().next() {
        let word = NON_FINITE.iter().map(|(word, _)| *word).find(|word| !quoted && rest.starts_with(word));
        let taken = word.map_or_else(|| if quoted && next == '\\' { escape(rest) } else { next.len_utf8() }, str::len);
        quoted ^= next == '"';
        let (head, tail) = rest.split_at(taken);
        match word {
            Some(word) => text.extend(["\"", word, "\""]),
            None => text.push_str(head),
        }
        rest = tail;
    }
    Cow::Owned(text)
}

/// The length of a backslash and the character after it.
fn escape(text: &str) -> usize {
    text.chars().take(2).map(char::len_utf8).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(json: &str) -> Result<Array> {
        let value: Value = serde_json::from_str(json).unwrap();
        Node { path: "x".into(), value: &value }.array()
    }

    #[test]
    fn nested_lists_have_a_shape() {
        assert_eq!(array("[[1, 2.5, true]]").unwrap(), Array { shape: vec![1, 3], values: vec![1.0, 2.5, 1.0] });
        assert_eq!(array("-3").unwrap().shape, Vec::<i64>::new());
    }

    #[test]
    fn what_is_not_an_array_is_named() {
        for (json, words) in [
            ("[[1, 2], [3]]", "`x[1]` has shape [1], those before it [2]"),
            ("[1, [2]]", "`x[1]` has shape [1], those before it []"),
            ("[1, \"two\"]", "`x[1]` is a text, expected numbers"),
            ("[[]]", "`x[0]` is an empty list"),
            ("[null]", "`x[0]` is null"),
        ] {
            assert!(array(json).unwrap_err().to_string().contains(words), "{json}");
        }
    }

    #[test]
    fn python_writes_nan_bare() {
        let json = r#"{"a NaN": [NaN, -Infinity], "b\"NaN": Infinity}"#;
        let quoted = quote_non_finite(json);
        assert_eq!(quoted, r#"{"a NaN": ["NaN", "-Infinity"], "b\"NaN": "Infinity"}"#);
        let value: Value = serde_json::from_str(&quoted).unwrap();
        assert!(Node::root(&value).get("a NaN").unwrap().array().unwrap().values[0].is_nan());
    }
}
