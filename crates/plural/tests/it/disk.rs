//! A console whose disk is full.
//!
//! One backend is enough: the disk is the console's; the cluster only has to be there.

use plural_testkit::{SmallDisk, TestCluster, run_case};
use plural_wire::{ListServiceDeployments, PAGE_SIZE};

use crate::world::{World, map};

#[test]
fn a_full_disk_is_told_and_outlived() {
    let Some(disk) = SmallDisk::new_or_say(24 << 20) else { return };
    run_case(async {
        let place = disk.path().join("console");
        let mut w =
            World::with_config(TestCluster::kubesim().await?, |config| config.data_dir = place).await?;
        w.start_agent().await?;
        let sha =
            w.remote.push_files([("app/a.yaml", map("a", "1")), ("app/still.yaml", map("still", "1"))])?;
        let id = w.service("app").await?;
        w.person.stands_at(&id, &sha).await;

        let filler = disk.fill()?;
        // Noise that no compressor shrinks: the artifact does not fit into what is left of a block.
        let noise: String = (0..40_000).map(|_| char::from(rand::random_range(b'a'..=b'z'))).collect();
        w.remote.push_files([("app/noise.yaml", map("noise", &noise))])?;
        let refused = async {
            loop {
                // Each new row takes room, too: at the latest then somebody is told.
                if let Err(error) = w.person.cluster(&format!("c-{:x}", rand::random::<u64>())).await {
                    return format!("{error:#}");
                }
            }
        };
        let told = w.person.is_told(&id, &["disk is full"]);
        let message = tokio::select! {
            message = refused => message,
            found = told => found.errors[0].message.clone(),
        };
        assert!(message.contains("disk is full"), "{message}");
        // Reading goes on, and so does what runs.
        let all = ListServiceDeployments { after: None, first: PAGE_SIZE, cluster_id: None, cluster: None };
        assert_eq!(w.person.client.send(&all).await?.edges.len(), 1);
        assert_eq!(w.map_names().await?, ["a", "still"]);

        std::fs::remove_file(filler)?;
        let sha = w.remote.push_files([("app/a.yaml", map("a", "2"))])?;
        w.person.stands_at(&id, &sha).await;
        assert_eq!(w.map_names().await?, ["a", "noise", "still"]);
        assert_eq!((w.writes_of("a")?, w.writes_of("noise")?, w.writes_of("still")?), (2, 1, 1));
        w.end().await
    });
}
