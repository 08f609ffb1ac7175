//! What is written is there whole or not at all, and where its path says.

use std::fs;
use std::path::Path;

use fidgp_files::{NewFolder, write};

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_link_at_the_place_is_replaced_and_its_target_stands() {
    let home = tempfile::tempdir().unwrap();
    let (precious, link) = (home.path().join("precious"), home.path().join("link"));
    fs::write(&precious, "mine").unwrap();
    std::os::unix::fs::symlink(&precious, &link).unwrap();
    let error = write::open_own(&link).unwrap_err().to_string();
    assert!(error.contains("`link` is a link"), "{error}");
    write::replace(&link, b"new").unwrap();
    assert_eq!(fs::read(&precious).unwrap(), b"mine");
    assert_eq!(fs::read(&link).unwrap(), b"new");
    assert!(write::open_own(&link).is_ok());
}

#[test]
fn leftovers_of_the_dead_go_and_those_of_the_living_stay() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join(".a.4294967295-0.tmp"), "").unwrap();
    fs::create_dir(home.path().join(".b.4294967295-1.tmp")).unwrap();
    fs::write(home.path().join(".c.1-0.tmp"), "").unwrap(); // the first process lives
    let locked = fs::File::create(home.path().join(".d.4294967295-2.tmp")).unwrap(); // of another machine
    locked.lock().unwrap();
    fs::write(home.path().join("own.tmp"), "").unwrap();
    write::replace(&home.path().join("x"), b"x").unwrap();
    assert_eq!(names(home.path()), [".c.1-0.tmp", ".d.4294967295-2.tmp", "own.tmp", "x"]);
}

#[test]
fn a_folder_takes_its_place_as_a_whole() {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("model");
    let fill = |content: &str, files: &[&str]| {
        let new = NewFolder::beside(&place).unwrap();
        for name in files {
            fs::write(new.path().join(name), content).unwrap();
        }
        new
    };
    fill("1", &["a", "b"]).take_place(&["a", "b"]).unwrap();
    drop(fill("2", &["a"])); // given up
    assert_eq!((names(home.path()), names(&place)), (vec!["model".to_owned()], vec!["a".to_owned(), "b".to_owned()]));
    fill("3", &["a"]).take_place(&["a", "b"]).unwrap();
    assert_eq!((names(&place), fs::read(place.join("a")).unwrap()), (vec!["a".to_owned()], b"3".to_vec()));
    fs::write(place.join("notes"), "mine").unwrap(); // somebody else's: it stays
    fill("4", &["b"]).take_place(&["a", "b"]).unwrap();
    assert_eq!(names(&place), ["b", "notes"]);
    assert_eq!(names(home.path()), ["model"]);
}

#[test]
fn a_folder_does_not_take_the_place_of_a_link() {
    let home = tempfile::tempdir().unwrap();
    let (real, link) = (home.path().join("real"), home.path().join("link"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let new = NewFolder::beside(&link).unwrap();
    fs::write(new.path().join("a"), "").unwrap();
    assert!(new.take_place(&["a"]).is_err());
    assert!(names(&real).is_empty());
    assert!(write::refuse_links(home.path(), &["real", "link"]).unwrap_err().to_string().contains("`link`"));
}

#[test]
fn a_device_without_an_end_is_refused() {
    let error = fidgp_files::text(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.contains("is a device, not a file"), "{error}");
}

/// A pipe that nobody writes to, under the name of a leftover and of a file: nothing waits for it.
#[test]
fn a_named_pipe_holds_nobody_up() {
    let home = tempfile::tempdir().unwrap();
    let pipe = |name: &str| {
        let made = std::process::Command::new("mkfifo").arg(home.path().join(name)).status();
        assert!(made.unwrap().success());
    };
    pipe(".x.4294967295-0.tmp");
    pipe("config.json");
    let (done, waits) = std::sync::mpsc::channel();
    let folder = home.path().to_owned();
    std::thread::spawn(move || {
        let read = fidgp_files::text(&folder.join("config.json")).unwrap_err().to_string();
        done.send((read, write::replace(&folder.join("x"), b"x").is_ok())).unwrap();
    });
    let (read, written) = waits.recv_timeout(std::time::Duration::from_secs(60)).expect("somebody waits for a pipe");
    assert!(read.contains("named pipe") && written, "{read}");
    assert_eq!(names(home.path()), ["config.json", "x"]);
}
