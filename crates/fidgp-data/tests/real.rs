//! The real data sets, where `FIDGP_DATA` points at them: `cargo test -p fidgp-data --test real -- --ignored`.

use std::path::PathBuf;

use fidgp_data::uci::{SETS, Uci};

fn root() -> PathBuf {
    std::env::var_os("FIDGP_DATA").expect("set FIDGP_DATA to the folder of data sets").into()
}

#[test]
#[ignore = "needs the real data"]
fn the_nine_uci_sets() {
    for known in SETS {
        let set = Uci::read(&root().join("uci"), known.name).unwrap();
        let size = (set.table().rows(), set.table().columns(), set.splits());
        assert_eq!(size, (known.rows, known.columns, known.splits), "{}", known.name);
        for index in 0..set.splits() {
            let split = set.split(index).unwrap();
            assert_eq!(split.train.len() + split.test.len(), known.rows, "{} split {index}", known.name);
        }
    }
}
