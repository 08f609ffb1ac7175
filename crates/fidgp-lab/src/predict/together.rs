//! A trained model used by several processes, each of which looks at a part of the examples.

use std::sync::Arc;

use fidgp_torch::Group;

use super::Trained;
use crate::error::Result;
use crate::model::Parts;
use crate::record::commit;
use crate::run_folder::posterior;
use crate::train::checkpoint;
use crate::train::group::agree;

impl Trained {
    /// Has the processes of a group look at examples together from now on, where there is one. All of them must have the same
    /// program, config and weights, and ask for the same in the same order.
    ///
    /// # Errors
    /// Names the first process that has others.
    pub fn share(&mut self, group: Option<&Arc<Group>>) -> Result<()> {
        let Some(group) = group else { return Ok(()) };
        agree(group, "the program's commit", &commit())?;
        agree(group, "the config", &self.config.to_toml()?)?;
        let what = (checkpoint::sha256_of(&self.model.store)?, posterior::digest(&self.model)?, self.model.temperature);
        agree(group, "the model", &format!("{what:?} {:?}", self.classes))?;
        self.model.parts = Parts::of(group);
        Ok(())
    }
}
