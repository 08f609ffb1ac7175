//! Opening the CUDA part on the machine that the tests run on, whichever that is.

use fidgp_torch::{CudaLibrary, driver_version, open};

#[test]
fn opening_gives_one_answer_and_never_crashes() {
    let first = open();
    assert_eq!(open(), first);
    assert!(!first.to_string().is_empty());
    if let CudaLibrary::Opened(path) = &first {
        assert!(path.is_file(), "{first}");
    }
}

#[test]
fn advice_is_given_when_something_is_wrong() {
    assert_eq!(CudaLibrary::Opened("libtorch_cuda.so".into()).advice(), None);
    assert_eq!(CudaLibrary::NotFound.advice().is_some(), driver_version().is_some());
    let failed = CudaLibrary::Failed("libcudnn.so.9: cannot open shared object file".to_owned());
    assert!(failed.advice().is_some());
    assert!(failed.to_string().contains("libcudnn.so.9"));
}
