//! Labels that came later than the lines they belong to.

use std::collections::HashMap;

use serde_json::Value;

use crate::error::{DecisionError, Result};

/// Labels, each with the fields of the line it belongs to: `input`, `row`, `id` …
#[derive(Debug, Default)]
pub struct Labels {
    fields: Vec<String>,
    of: HashMap<Vec<String>, (String, bool)>, // the label, and whether its line has come
}

/// The column that holds the label itself.
const LABEL: &str = "label";

impl Labels {
    /// Of the rows of a table: a column `label`, the others name fields of the log.
    ///
    /// # Errors
    /// When there is no such column, no other, or a line has two labels.
    pub fn new(names: &[String], rows: impl IntoIterator<Item = Vec<String>>) -> Result<Self> {
        let place = names.iter().position(|name| name == LABEL);
        let (Some(place), true) = (place, names.len() > 1) else {
            let why = "need a column `label`, and others that say which line of the log a label belongs to, such as `input` and \
                       `row`, or `id`";
            return Err(DecisionError::asked("the labels", why));
        };
        let fields = names.iter().enumerate().filter(|(at, _)| *at != place).map(|(_, name)| name.clone()).collect();
        let mut of = HashMap::new();
        for mut row in rows {
            let label = row.remove(place);
            if label.trim().is_empty() {
                continue;
            }
            let shown = row.join(", ");
            if let Some((before, _)) = of.insert(row, (label.clone(), false))
                && before != label
            {
                let why = format!("say of {} both `{before}` and `{label}`", fidgp_files::shown(shown));
                return Err(DecisionError::asked("the labels", why));
            }
        }
        Ok(Self { fields, of })
    }

    /// The label of a line.
    pub(super) fn of(&mut self, said: &Value) -> Option<Value> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let key: Vec<_> = self.fields.iter().map(|field| text(&said[field])).collect();
        let (label, is_used) = self.of.get_mut(&key)?;
        *is_used = true;
        Some(label.parse::<i64>().map_or_else(|_| Value::from(label.as_str()), Value::from))
    }

    /// Labels whose line has not come.
    pub(super) fn unused(&self) -> usize {
        self.of.values().filter(|(_, is_used)| !is_used).count()
    }

    /// What the fields are, for a message.
    pub(super) fn fields(&self) -> String {
        let fields: Vec<_> = self.fields.iter().map(|field| format!("`{}`", fidgp_files::shown(field))).collect();
        fields.join(", ")
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }
}
