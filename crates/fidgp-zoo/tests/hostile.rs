//! PyTorch files that are small and ask for much: each is refused, or read, at once.

use std::io::{Cursor, Write};
use std::time::{Duration, Instant};

use fidgp_zoo::weights;
use tch::Tensor;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// A file as `torch.save` writes it: a pickle, and one storage of a few numbers.
fn file(pickle: &[u8]) -> Vec<u8> {
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in [("archive/data.pkl", pickle), ("archive/data/0", &[0; 64])] {
        zip.start_file(name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn read(pickle: &[u8]) -> Result<Vec<(String, Tensor)>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.pt");
    std::fs::write(&path, file(pickle)).unwrap();
    let begun = Instant::now();
    let read = weights::read(&path).map_err(|error| error.to_string());
    assert!(begun.elapsed() < Duration::from_secs(20), "it takes {:?}", begun.elapsed());
    read
}

#[track_caller]
fn refused(pickle: &[u8], words: &str) {
    let error = read(pickle).unwrap_err();
    assert!(error.contains("weights.pt") && error.contains(words), "{error}");
}

fn text(words: &str) -> Vec<u8> {
    [&b"X"[..], &(words.len() as u32).to_le_bytes(), words.as_bytes()].concat()
}

fn int(number: i32) -> Vec<u8> {
    [&b"J"[..], &number.to_le_bytes()].concat()
}

/// A name and a tensor of the storage, with this size and a stride of 0 each way; the storage holds 16 numbers.
fn repeated(name: &str, size: i32) -> Vec<u8> {
    let id =
        [&b"("[..], &text("storage"), b"ctorch\nFloatStorage\n", &text("0"), &text("cpu"), &int(16), b"tQ"].concat();
    let numbers = [&id[..], &int(0), &int(size), b"\x85", &int(0), b"\x85"].concat();
    [&text(name)[..], b"ctorch._utils\n_rebuild_tensor_v2\n(", &numbers, b"tRs"].concat()
}

#[test]
fn a_memo_is_not_a_copy() {
    let mut laughs = b"}]q\x00".to_vec();
    for level in 1..100 {
        let before = [b'h', level - 1].repeat(10);
        laughs.extend([&[b']', b'q', level, b'('][..], &before, b"e"].concat()); // ten times the list before it: 10¹⁰⁰ in all
    }
    laughs.extend(b"0.");
    refused(&[b"\x80\x02".to_vec(), laughs].concat(), "instead of a dictionary"); // the top is a list
    let endless = [&b"\x80\x02}q\x00"[..], &text("model"), b"h\x00s."].concat();
    refused(&endless, "holds itself");
}

#[test]
fn depth_takes_no_stack() {
    let deep = [&b"\x80\x02}"[..], &text("x"), &b"(".repeat(1_000_000), &b"t".repeat(1_000_000), b"s."].concat();
    refused(&deep, "a dictionary without tensors");
}

#[test]
fn tensors_repeat_numbers_up_to_a_limit_over_all_of_them() {
    let few = read(&[&b"\x80\x02}"[..], &repeated("a", 1 << 20), b"."].concat()).unwrap();
    assert_eq!((few[0].0.as_str(), few[0].1.size()), ("a", vec![1 << 20]));
    let many = (0..40).map(|i| repeated(&format!("w{i}"), 1 << 24)).collect::<Vec<_>>().concat(); // 64 MB each
    refused(&[&b"\x80\x02}"[..], &many, b"."].concat(), "FIDGP_LIMIT_REPEATED_BYTES");
    refused(&[&b"\x80\x02}"[..], &repeated("a", i32::MAX), b"."].concat(), "FIDGP_LIMIT_REPEATED_BYTES");
}

#[test]
fn a_pickle_has_so_many_values() {
    refused(&[&b"\x80\x02"[..], &b"N0".repeat(10_000_001), b"}."].concat(), "FIDGP_LIMIT_VALUES");
}

/// Arguments of a call, a name of a class and a key, each long, kept once in the memo and used again and again.
#[test]
fn what_a_memo_repeats_is_never_copied() {
    let long = "n".repeat(1 << 20);
    let memo = [&b"\x80\x02"[..], &text(&long), b"q\x00"].concat();
    // one tuple of a million values, the argument of twenty thousand calls: 24 MB each
    let tuple = [&b"("[..], &b"N".repeat(1_000_000), b"tq\x01ctorch\nf\nq\x02"].concat();
    let calls = [&memo[..], &tuple, &b"h\x02h\x01R".repeat(20_000), b"}."].concat();
    refused(&calls, "a dictionary without tensors");
    // a class of two long texts, fifty thousand times: 2 MB each
    refused(&[&memo[..], &b"h\x00h\x00\x93".repeat(50_000), b"}."].concat(), "a class whose name has 2097152 bytes");
    // one key, a hundred thousand times: 1 MB each
    let keys = [&memo[..], b"}", &b"h\x00Ns".repeat(100_000), b"."].concat();
    refused(&keys, "a tensor whose name has 1048576 bytes");
}

/// Of entries under one name Python keeps the last, in the place of the first.
#[test]
fn the_last_entry_of_a_name_stands() {
    let pickle = [&b"\x80\x02}"[..], &repeated("a", 2), &repeated("b", 3), &repeated("a", 4), b"."].concat();
    let found = read(&pickle).unwrap();
    let sizes: Vec<_> = found.iter().map(|(name, tensor)| (name.as_str(), tensor.size())).collect();
    assert_eq!(sizes, [("a", vec![4]), ("b", vec![3])]);
}

/// A million tensors of one number: their heads take more than the file has.
#[test]
fn tensors_take_more_than_their_numbers() {
    let id =
        [&b"("[..], &text("storage"), b"ctorch\nFloatStorage\n", &text("0"), &text("cpu"), &int(16), b"tQ"].concat();
    let arguments = [&id[..], &int(0), &int(1), b"\x85", &int(1), b"\x85"].concat();
    let make = [&b"ctorch._utils\n_rebuild_tensor_v2\n("[..], &arguments, b"tR"].concat();
    let mut pickle = [&b"\x80\x02"[..], &make, b"q\x000}"].concat(); // one tensor in the memo
    let mut add = |names: std::ops::Range<u32>| {
        for name in names {
            pickle.extend([b"\x8c\x08", format!("{name:08x}").as_bytes(), b"h\x00s"].concat());
        }
        [&pickle[..], b"."].concat()
    };
    assert_eq!(read(&add(0..50_000)).unwrap().len(), 50_000);
    let many = add(50_000..1_000_000);
    refused(&many, "FIDGP_LIMIT_REPEATED_BYTES");
}

#[test]
fn an_archive_has_one_pickle_and_a_tensor_few_axes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.pt");
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for name in ["a/data.pkl", "b/data.pkl"] {
        zip.start_file(name, options).unwrap();
        zip.write_all(b"\x80\x02}.").unwrap();
    }
    std::fs::write(&path, zip.finish().unwrap().into_inner()).unwrap();
    assert!(weights::read(&path).unwrap_err().to_string().contains("several files `data.pkl`"));
    let ones = [&b"("[..], &int(1).repeat(65), b"t"].concat();
    let id =
        [&b"("[..], &text("storage"), b"ctorch\nFloatStorage\n", &text("0"), &text("cpu"), &int(16), b"tQ"].concat();
    let tensor = [&text("w")[..], b"ctorch._utils\n_rebuild_tensor_v2\n(", &id, &int(0), &ones, &ones, b"tRs"].concat();
    refused(&[&b"\x80\x02}"[..], &tensor, b"."].concat(), "a tensor of 65 axes");
}
