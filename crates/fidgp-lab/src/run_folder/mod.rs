//! The folder of a run: begun, held, cleared, and what is read from it again.

pub mod calibration;
pub mod norms;
pub mod posterior;
pub mod temperature;

mod begin;
mod chosen;
mod classes;
mod clear;
mod context;
mod examples;
mod lock;
mod view;
mod weights;

pub use begin::{from_the_beginning, is_begun, keep_command, open_folder, refuse_to_mix};
pub use chosen::chosen_checkpoint;
pub use classes::{read_classes, same_classes, write_classes};
pub use clear::forget_measurements;
pub use context::RunContext;
pub use examples::{TrainedOn, keep_examples, same_examples};
pub use lock::{Lock, member_folder};
pub use temperature::{Temperature, Tried};
pub use view::read_view;
pub use weights::{restore, restore_as_trained, restore_to_fit};
