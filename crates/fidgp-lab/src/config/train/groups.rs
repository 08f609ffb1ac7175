//! Parameters that learn at a rate of their own.

use fidgp_zoo::methods::Group;
use fidgp_zoo::plan::glob;
use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};

/// One group: `{ parameters = ["*.z_row", "*.z_col"], rate = 0.1 }`. Later groups win.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// Names of parameters as a checkpoint has them, `*` for any run of characters.
    pub parameters: Vec<String>,
    /// What the learning rate is multiplied by; 0 keeps them as they are.
    #[serde(default = "one")]
    pub rate: f64,
    /// Their weight decay; as for all others without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_decay: Option<f64>,
}

fn one() -> f64 {
    1.0
}

impl From<Group> for GroupConfig {
    fn from(own: Group) -> Self {
        let parameters = own.parameters.iter().map(ToString::to_string).collect();
        Self { parameters, rate: own.rate, weight_decay: Some(own.weight_decay) }
    }
}

impl GroupConfig {
    /// Whether a parameter of this name is one of them.
    pub fn has(&self, name: &str) -> bool {
        self.parameters.iter().any(|pattern| glob(pattern, name))
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// Names the one that does not fit.
    pub fn check_numbers(&self) -> Result<()> {
        let given = [("rate", Some(self.rate)), ("weight_decay", self.weight_decay)];
        for (key, number) in given.into_iter().filter_map(|(key, number)| Some((key, number?))) {
            if !(number >= 0.0 && number.is_finite()) {
                return Err(LabError::config("train.groups", format!("{key} = {number} must be 0 or greater")));
            }
        }
        Ok(())
    }

    /// Checks the numbers, and that there are parameters of these names.
    ///
    /// # Errors
    /// Names the pattern that fits none.
    pub fn check<'a>(&self, names: &(impl Iterator<Item = &'a str> + Clone)) -> Result<()> {
        self.check_numbers()?;
        let unused = self.parameters.iter().find(|pattern| !names.clone().any(|name| glob(pattern, name)));
        match unused {
            Some(pattern) => {
                let example = names.clone().take(4).collect::<Vec<_>>().join(", ");
                Err(LabError::config("train.groups", format!("`{pattern}` fits no parameter; there are {example}, …")))
            }
            None if self.parameters.is_empty() => {
                Err(LabError::config("train.groups", "each needs `parameters`, such as [\"*.z_row\"]"))
            }
            None => Ok(()),
        }
    }
}
