//! Runs one simulated cluster until Ctrl-C and prints its kubeconfig.

use plural_kubesim::{ClusterOptions, Sim};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: u16 = std::env::args().nth(1).map_or(Ok(0), |p| p.parse())?;
    let mut options = ClusterOptions::named("kubesim");
    options.bind = ([127, 0, 0, 1], port).into();
    options.admin_token = Some("admintok".into());
    let cluster = Sim::new()?.cluster(options).await?;
    println!("{}", cluster.kubeconfig());
    tokio::signal::ctrl_c().await?;
    cluster.stop().await;
    Ok(())
}
