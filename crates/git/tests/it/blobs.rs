//! Artifacts at rest.

use std::{collections::HashSet, fs, path::PathBuf, sync::Arc, time::Duration};

use plural_git::{BlobStore, Digest, DiskBlobs, DiskOptions, Error, Stored};
use plural_testkit::{OwnedFolder, SmallDisk};

use crate::support::{files_in, noise};

fn store(folder: &OwnedFolder, change: impl FnOnce(&mut DiskOptions)) -> DiskBlobs {
    let mut options = DiskOptions::new(folder.path());
    change(&mut options);
    DiskBlobs::open(options).unwrap()
}

fn path(folder: &OwnedFolder, digest: Digest) -> PathBuf {
    let hex = digest.to_string();
    folder.path().join(&hex[..2]).join(format!("{hex}.zst"))
}

#[tokio::test]
async fn a_blob_is_stored_once_and_read_back() {
    let folder = OwnedFolder::new("blobs").unwrap();
    let blobs: Arc<dyn BlobStore> = Arc::new(store(&folder, |_| {}));
    let content = b"one ".repeat(10_000);
    let digest = Digest::of(&content);
    assert!(!blobs.contains(digest).await.unwrap());
    assert_eq!(blobs.get(digest).await.unwrap(), None);
    let Stored::New { bytes } = blobs.put(digest, content.clone()).await.unwrap() else {
        panic!("it is new")
    };
    assert!(bytes < 1000, "compressed at rest: {bytes}");
    assert_eq!(blobs.put(digest, content.clone()).await.unwrap(), Stored::Known);
    assert!(blobs.contains(digest).await.unwrap());
    assert_eq!(blobs.get(digest).await.unwrap().unwrap(), content);
    let wire = blobs.get_compressed(digest).await.unwrap().unwrap();
    assert_eq!(zstd::decode_all(&*wire).unwrap(), content);
    // And by another start.
    assert_eq!(store(&folder, |_| {}).get(digest).await.unwrap().unwrap(), content);
    assert_eq!(files_in(&folder.path().join("tmp")), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_of_one_blob_agree() {
    let folder = OwnedFolder::new("blobs").unwrap();
    let blobs = store(&folder, |_| {});
    let content = vec![7; 100_000];
    let digest = Digest::of(&content);
    let writers: Vec<_> = (0..20)
        .map(|_| {
            let (blobs, content) = (blobs.clone(), content.clone());
            tokio::spawn(async move { blobs.put(digest, content).await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    assert_eq!(blobs.get(digest).await.unwrap().unwrap(), content);
    assert_eq!(files_in(folder.path()).len(), 1);
}

#[tokio::test]
async fn a_poisoned_blob_is_refused_and_put_aside() {
    let bomb = zstd::encode_all(&*vec![0; 50 << 20], 3).unwrap();
    let other = zstd::encode_all(&b"other content"[..], 3).unwrap();
    for poison in [other, bomb, b"no zstd at all".to_vec(), vec![]] {
        let folder = OwnedFolder::new("blobs").unwrap();
        let content = b"right content".to_vec();
        let digest = Digest::of(&content);
        store(&folder, |_| {}).put(digest, content.clone()).await.unwrap();
        fs::write(path(&folder, digest), &poison).unwrap();

        let blobs = store(&folder, |o| o.blob_bytes = 1 << 20);
        let error = blobs.get_compressed(digest).await.unwrap_err();
        assert!(
            matches!(&error, Error::Corrupt { what, .. } if what.contains(&digest.to_string())),
            "{error}"
        );
        assert!(folder.path().join("damaged").join(format!("{digest}.zst")).exists());
        assert_eq!(blobs.get(digest).await.unwrap(), None, "gone, so that it can be stored anew");
        blobs.put(digest, content.clone()).await.unwrap();
        assert_eq!(blobs.get(digest).await.unwrap().unwrap(), content);
    }
}

#[tokio::test]
async fn content_with_another_digest_is_not_stored() {
    let folder = OwnedFolder::new("blobs").unwrap();
    let blobs = store(&folder, |_| {});
    let error = blobs.put(Digest::of(b"a"), b"b".to_vec()).await.unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    assert_eq!(files_in(folder.path()).len(), 0);
}

#[tokio::test]
async fn without_room_nothing_is_stored() {
    let folder = OwnedFolder::new("blobs").unwrap();
    let blobs = store(&folder, |o| o.reserve = u64::MAX);
    let error = blobs.put(Digest::of(b"a"), b"a".to_vec()).await.unwrap_err();
    assert!(
        matches!(&error, Error::DiskFull { path, .. } if path == &folder.path().display().to_string()),
        "{error}"
    );
    assert!(error.to_string().contains("free some space"), "{error}");
    assert_eq!(files_in(folder.path()).len(), 0);
}

#[tokio::test]
async fn on_a_disk_that_fills_up_nothing_half_written_stays() {
    let Some(disk) = SmallDisk::new_or_say(4 << 20) else { return };
    let mut options = DiskOptions::new(disk.path().join("blobs"));
    options.reserve = 0;
    let blobs = DiskBlobs::open(options).unwrap();
    let small = b"fits".to_vec();
    blobs.put(Digest::of(&small), small.clone()).await.unwrap();

    // Exactly as much room as the content has bytes; what cannot be compressed becomes a little longer.
    let noise = noise(1 << 20);
    let filler = disk.fill().unwrap();
    let file = fs::File::options().write(true).open(&filler).unwrap();
    file.set_len(file.metadata().unwrap().len() - (1 << 20)).unwrap();
    let before = files_in(disk.path());
    let error = blobs.put(Digest::of(&noise), noise.clone()).await.unwrap_err();
    assert!(matches!(&error, Error::DiskFull { doing, .. } if doing == "cannot store blob at"), "{error:?}");
    assert_eq!(files_in(disk.path()), before, "nothing new is there");
    assert_eq!(blobs.get(Digest::of(&small)).await.unwrap().unwrap(), small, "what was stored is still read");

    // Its room is free at once, although a child that another test starts at this moment may have the file open, too.
    file.set_len(0).unwrap();
    drop(file);
    fs::remove_file(filler).unwrap();
    blobs.put(Digest::of(&noise), noise.clone()).await.unwrap();
    assert_eq!(blobs.get(Digest::of(&noise)).await.unwrap().unwrap(), noise);
}

#[tokio::test]
async fn collection_keeps_what_is_named_or_young() {
    let folder = OwnedFolder::new("blobs").unwrap();
    let blobs = store(&folder, |_| {});
    let mut digests = Vec::new();
    for n in 0..4_u8 {
        let digest = Digest::of(&[n]);
        blobs.put(digest, vec![n]).await.unwrap();
        blobs.get(digest).await.unwrap();
        digests.push(digest);
    }
    let live: HashSet<Digest> = digests[..2].iter().copied().collect();
    let young = blobs.collect(live.clone(), Duration::from_hours(1)).await.unwrap();
    assert_eq!((young.removed, young.kept), (0, 4));
    let collected = blobs.collect(live, Duration::ZERO).await.unwrap();
    assert_eq!((collected.removed, collected.kept), (2, 2));
    assert!(collected.bytes > 0);
    for (n, digest) in digests.iter().enumerate() {
        assert_eq!(blobs.get(*digest).await.unwrap().is_some(), n < 2, "also from memory");
    }
}

#[tokio::test]
async fn what_is_forgotten_by_name_goes_unless_it_is_young() {
    let folder = OwnedFolder::new("blobs").unwrap();
    let blobs = store(&folder, |_| {});
    let digests: Vec<Digest> = (0..3_u8).map(|n| Digest::of(&[n])).collect();
    for n in 0..3_u8 {
        blobs.put(Digest::of(&[n]), vec![n]).await.unwrap();
    }
    let these: HashSet<Digest> = [digests[0], digests[1], Digest::of(b"never stored")].into();
    assert_eq!(blobs.forget(these.clone(), Duration::from_hours(1)).await.unwrap(), 0, "all are young");
    assert_eq!(blobs.forget(these.clone(), Duration::ZERO).await.unwrap(), 2);
    assert_eq!(blobs.forget(these, Duration::ZERO).await.unwrap(), 0, "twice is once");
    for (n, digest) in digests.iter().enumerate() {
        assert_eq!(blobs.get(*digest).await.unwrap().is_some(), n == 2, "also from memory");
    }
}
