//! The classes of CamVid and Cityscapes, and how their labels become class ids.

use std::collections::HashMap;

use super::VOID;

/// CamVid's classes in SegNet's order.
pub const CAMVID: [&str; 11] =
    ["sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist"];

/// Colour of each of CamVid's 32 labels, and the class of SegNet's eleven it belongs to.
const CAMVID_COLOURS: [([u8; 3], u8); 32] = [
    ([128, 128, 128], 0), // Sky
    ([128, 0, 0], 1),     // Building
    ([192, 0, 128], 1),   // Archway
    ([0, 128, 64], 1),    // Bridge
    ([64, 0, 64], 1),     // Tunnel
    ([64, 192, 0], 1),    // Wall
    ([192, 192, 128], 2), // Column_Pole
    ([0, 0, 64], 2),      // TrafficCone
    ([128, 64, 128], 3),  // Road
    ([128, 0, 192], 3),   // LaneMkgsDriv
    ([192, 0, 64], 3),    // LaneMkgsNonDriv
    ([0, 0, 192], 4),     // Sidewalk
    ([64, 192, 128], 4),  // ParkingBlock
    ([128, 128, 192], 4), // RoadShoulder
    ([128, 128, 0], 5),   // Tree
    ([192, 192, 0], 5),   // VegetationMisc
    ([192, 128, 128], 6), // SignSymbol
    ([128, 128, 64], 6),  // Misc_Text
    ([0, 64, 64], 6),     // TrafficLight
    ([64, 64, 128], 7),   // Fence
    ([64, 0, 128], 8),    // Car
    ([64, 128, 192], 8),  // SUVPickupTruck
    ([192, 128, 192], 8), // Truck_Bus
    ([192, 64, 128], 8),  // Train
    ([128, 64, 64], 8),   // OtherMoving
    ([64, 64, 0], 9),     // Pedestrian
    ([192, 128, 64], 9),  // Child
    ([64, 0, 192], 9),    // CartLuggagePram
    ([64, 128, 64], 9),   // Animal
    ([0, 128, 192], 10),  // Bicyclist
    ([192, 0, 192], 10),  // MotorcycleScooter
    ([0, 0, 0], VOID),    // Void
];

/// CamVid's colours.
pub fn camvid_colours() -> HashMap<[u8; 3], u8> {
    CAMVID_COLOURS.into_iter().collect()
}

/// Cityscapes' 19 classes in the order of its trainIds, with the ids that its labels have.
const CITYSCAPES: [(&str, u8); 19] = [
    ("road", 7),
    ("sidewalk", 8),
    ("building", 11),
    ("wall", 12),
    ("fence", 13),
    ("pole", 17),
    ("traffic light", 19),
    ("traffic sign", 20),
    ("vegetation", 21),
    ("terrain", 22),
    ("sky", 23),
    ("person", 24),
    ("rider", 25),
    ("car", 26),
    ("truck", 27),
    ("bus", 28),
    ("train", 31),
    ("motorcycle", 32),
    ("bicycle", 33),
];

/// The largest id of Cityscapes' labels.
const LAST_ID: u8 = 33;

/// Names of Cityscapes' classes.
pub fn cityscapes_names() -> Vec<String> {
    CITYSCAPES.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// Cityscapes' labelIds: what is no class of the 19 is void.
pub fn cityscapes_ids() -> Box<[Option<u8>; 256]> {
    let mut table = Box::new([None; 256]);
    table[..=usize::from(LAST_ID)].fill(Some(VOID));
    for (class, (_, id)) in (0..).zip(CITYSCAPES) {
        table[usize::from(id)] = Some(class);
    }
    table
}

/// Indices that are the classes themselves, and those of void pixels.
pub fn plain_ids(classes: usize, void: &[u8]) -> Box<[Option<u8>; 256]> {
    let mut table = Box::new([None; 256]);
    for (class, entry) in (0..VOID).zip(table.iter_mut()).take(classes) {
        *entry = Some(class);
    }
    for &id in void {
        table[usize::from(id)] = Some(VOID);
    }
    table
}
