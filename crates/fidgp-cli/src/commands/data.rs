//! `fidgp data`

use std::process::ExitCode;

use fidgp_data::catalogue;

use super::Outcome;
use crate::args::{Data, DataAction};
use crate::progress::PictureBar;

/// What is trained on beside the catalogue.
const OWN: &str = "
Your own images, in any folder (data.path):
  arrays   {train,test}.safetensors with images and labels, or {train,test}/{images,labels}.npy (data.set = \"arrays\")
  folder   train/<class>/*.jpg, val/<class>/*.jpg; .png and .webp too (data.set = \"folder\")
";

pub fn run(arguments: &Data) -> Outcome {
    match &arguments.action {
        None => super::print(&catalogue_text())?,
        Some(DataAction::Check { path, json }) => {
            let bar = PictureBar::new();
            let summary = fidgp_data::detect_watched(path, &|done, all| bar.pictures(done, all))?;
            drop(bar);
            if *json {
                super::print_json(&summary)?;
            } else {
                super::print(&format!("{summary}\n"))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn catalogue_text() -> String {
    let entry = |entry: &catalogue::Entry| {
        let catalogue::Entry { name, title, home, licence, cite, folder, layout } = entry;
        format!(
            "\n{name}: {title}\n  from     {home}\n  to       {folder}/ ({layout})\n  terms    {licence}\n  cite     {cite}\n"
        )
    };
    let head =
        "Data sets fidgp reads. Nothing is downloaded: put them under $FIDGP_DATA (or ./data) as shown.\n".to_owned();
    catalogue::ENTRIES.iter().map(entry).fold(head, |text, entry| text + &entry) + OWN
}
