//! Rows of a table as JSON, by the model's own order or by names. Reading stops at the first thing that is too much, so a small
//! hostile body takes no large memory.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::limits::Limits;
use crate::model::{Item, Signature, Takes};
use crate::protocol::{BadRequest, Scalar, finite, too_many};

/// Reads `{"row": …}` or `{"rows": [ … ]}`. A row has a value for each feature.
///
/// # Errors
/// When it is something else, or holds more rows than a request may.
pub fn rows(body: &[u8], signature: &Signature, limits: &Limits) -> Result<Vec<Item>, BadRequest> {
    let Takes::Rows { features, columns, .. } = &signature.takes else {
        return Err(BadRequest::new("this model takes no rows"));
    };
    let form = Form { features, mixed: !columns.is_empty(), limits };
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = form.deserialize(&mut json).and_then(|rows| json.end().map(|()| rows));
    read.map_err(|error| BadRequest::new(error.to_string()))
}

/// What is looked for.
#[derive(Clone, Copy)]
struct Form<'a> {
    features: &'a [String],
    mixed: bool,
    limits: &'a Limits,
}

impl<'de> DeserializeSeed<'de> for Form<'_> {
    type Value = Vec<Item>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Item>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Form<'_> {
    type Value = Vec<Item>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object with `row` or `rows`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Item>, A::Error> {
        let mut found: Option<Vec<Item>> = None;
        while let Some(name) = map.next_key::<String>()? {
            if found.is_some() {
                return Err(A::Error::custom("give either `row` or `rows`, once"));
            }
            found = Some(match name.as_str() {
                "row" => vec![map.next_value_seed(Row { form: self, number: 0 })?],
                "rows" => map.next_value_seed(Rows(self))?,
                other => return Err(A::Error::custom(format!("unknown field `{other}`, expected `row` or `rows`"))),
            });
        }
        Ok(found.unwrap_or_default())
    }
}

/// A list of rows.
struct Rows<'a>(Form<'a>);

impl<'de> DeserializeSeed<'de> for Rows<'_> {
    type Value = Vec<Item>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Item>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = Vec<Item>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Item>, A::Error> {
        let (mut rows, most) = (Vec::new(), self.0.limits.inputs());
        while rows.len() < most {
            match list.next_element_seed(Row { form: self.0, number: rows.len() })? {
                Some(row) => rows.push(row),
                None => return Ok(rows),
            }
        }
        list.next_element_seed(Refused(too_many(most as u64 + 1, self.0.limits)))?;
        Ok(rows)
    }
}

/// What is not read, whatever it is.
struct Refused(String);

impl<'de> DeserializeSeed<'de> for Refused {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, _: D) -> Result<(), D::Error> {
        Err(D::Error::custom(self.0))
    }
}

/// One row.
struct Row<'a> {
    form: Form<'a>,
    number: usize,
}

impl Row<'_> {
    fn wrong<E: Error>(&self, why: &str) -> E {
        E::custom(format!("row {}: {why}", self.number))
    }

    fn item(&self, values: &[Value]) -> Result<Item, BadRequest> {
        let named = self.form.features.iter().zip(values);
        if self.form.mixed {
            return Ok(Item::Cells(named.map(|(_, value)| cell(value)).collect()));
        }
        let number = |(name, value): (&String, &Value)| {
            value.as_f64().ok_or_else(|| BadRequest::new(format!("`{name}` is not a number")))
        };
        finite(named.map(number).collect::<Result<_, _>>()?)
    }
}

impl<'de> DeserializeSeed<'de> for Row<'_> {
    type Value = Item;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Item, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Row<'_> {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a row: a list of values, or an object of values by the names of the features")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Item, A::Error> {
        let (features, mut values) = (self.form.features, Vec::new());
        let count = |given: &str| {
            let wanted = features.len();
            self.wrong(&format!("has {given} values, the model takes {wanted}: {features:?}"))
        };
        while let Some(value) = list.next_element_seed(Scalar)? {
            if values.len() == features.len() {
                return Err(count(&format!("more than {}", features.len())));
            }
            values.push(value);
        }
        if values.len() < features.len() {
            return Err(count(&values.len().to_string()));
        }
        self.item(&values).map_err(|error| self.wrong(&error.0))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Item, A::Error> {
        let features = self.form.features;
        let mut values = vec![None; features.len()];
        while let Some(name) = map.next_key::<String>()? {
            let Some(place) = features.iter().position(|feature| *feature == name) else {
                return Err(self.wrong(&format!("`{name}` is not one of the model's features {features:?}")));
            };
            let value = map.next_value_seed(Scalar)?;
            if values[place].replace(value).is_some() {
                return Err(self.wrong(&format!("`{name}` stands there twice")));
            }
        }
        if let Some(place) = values.iter().position(Option::is_none) {
            return Err(self.wrong(&format!("`{}` is missing", features[place])));
        }
        let values: Vec<_> = values.into_iter().flatten().collect();
        self.item(&values).map_err(|error| self.wrong(&error.0))
    }
}

/// A value as the cell of a table; `null` is a missing one.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Column, Holds, Outputs};

    fn signature(mixed: bool) -> Signature {
        let column = |name: &str, holds| Column { name: name.to_owned(), holds, levels: Vec::new() };
        let columns = vec![column("a", Holds::Text), column("b", Holds::Boolean)];
        let features = vec!["a".to_owned(), "b".to_owned()];
        let columns = if mixed { columns } else { Vec::new() };
        let takes = Takes::Rows { features, example: Vec::new(), columns };
        Signature {
            takes,
            gives: Outputs::Number("y".to_owned()),
            draws: 8,
            levels: Vec::new(),
            scores_ood: false,
            decides: false,
        }
    }

    fn read(body: &str, mixed: bool) -> Result<Vec<Item>, String> {
        let limits = Limits { items: 2, ..Limits::default() };
        rows(body.as_bytes(), &signature(mixed), &limits).map_err(|error| error.0)
    }

    #[test]
    fn rows_come_in_order_or_by_name() {
        let expected = Ok(vec![Item::Row(vec![1.0, 2.5])]);
        for body in [r#"{"row": [1, 2.5]}"#, r#"{"rows": [[1, 2.5]]}"#, r#"{"row": {"b": 2.5, "a": 1}}"#] {
            assert_eq!(read(body, false), expected, "{body}");
        }
        let cells = ["x".to_owned(), "true".to_owned()].to_vec();
        let missing = ["3".to_owned(), String::new()].to_vec();
        let both = Ok(vec![Item::Cells(cells), Item::Cells(missing)]);
        assert_eq!(read(r#"{"rows": [["x", true], {"b": null, "a": 3}]}"#, true), both);
        assert_eq!(read("{}", false), Ok(Vec::new()));
    }

    #[test]
    fn what_is_wrong_is_named_where_it_stands() {
        for (body, words) in [
            (r#"{"row": [1, 2], "rows": [[1, 2]]}"#, "either `row` or `rows`"),
            (r#"{"row": [1, 2], "surprise": 1}"#, "either"),
            (r#"{"surprise": 1}"#, "surprise"),
            (r#"{"row": [1]}"#, "row 0: has 1 values, the model takes 2"),
            (r#"{"row": [1, "x"]}"#, "`b` is not a number"),
            (r#"{"row": [1, [2]]}"#, "a number, a text"),
            (r#"{"row": {"a": 1}}"#, "`b` is missing"),
            (r#"{"row": {"a": 1, "a": 2}}"#, "`a` stands there twice"),
            (r#"{"row": {"a": 1, "c": 2}}"#, "`c` is not one of"),
            (r#"{"rows": [[1, 2], [3]]}"#, "row 1"),
            (r#"{"rows": [[1, 2], [1, 2], [1, 2]]}"#, "3 inputs are more than the 2"),
            (r#"{"row": [1, 2]} x"#, "trailing"),
        ] {
            let said = read(body, false).unwrap_err();
            assert!(said.contains(words), "{body}: {said}");
        }
    }

    /// Reading ends at the first value too many: the column that the error names says so.
    #[test]
    fn what_is_too_much_is_not_read_to_its_end() {
        let many = format!("[{}1]", "1,".repeat(1_000_000));
        for (body, most) in [
            (format!(r#"{{"row": {many}}}"#), 30),
            (format!(r#"{{"rows": [{many}]}}"#), 30),
            (format!(r#"{{"row": {{"c": {many}}}}}"#), 30),
            (format!(r#"{{"row": {{"a": {many}}}}}"#), 30),
            (format!(r#"{{"rows": [[1,2],[1,2],{many}]}}"#), 30),
        ] {
            let said = read(&body, false).unwrap_err();
            let column = said.rsplit(' ').next().and_then(|column| column.parse::<usize>().ok());
            assert!(column.is_some_and(|column| column <= most), "{said}");
        }
    }
}
