//! A disk that fills up and goes.

use std::{fs, io::ErrorKind};

use plural_testkit::SmallDisk;

#[test]
fn fills_up_empties_and_goes() {
    let Some(disk) = SmallDisk::new_or_say(1 << 20) else { return };
    let path = disk.path().to_owned();
    fs::write(path.join("fits"), vec![1; 1 << 19]).unwrap();
    let filler = disk.fill().unwrap();
    let error = fs::write(path.join("more"), [1; 4096]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    fs::remove_file(filler).unwrap();
    fs::write(path.join("more"), [1; 4096]).unwrap();
    drop(disk);
    assert!(!path.exists());
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(path.to_str().unwrap()), "still mounted");
}
