//! Generates the gRPC code from `proto/agent.proto`, without `protoc`.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/agent.proto");
    let files = protox::compile(["proto/agent.proto"], ["proto"])?;
    // A piece of a proxied body, or of an artifact, is passed on without being copied.
    tonic_prost_build::configure()
        .bytes(".plural.agent.v1.ArtifactChunk")
        .bytes(".plural.agent.v1.ProxyFrame")
        .bytes(".plural.agent.v1.ProxyHead")
        .bytes(".plural.agent.v1.ProxyOpen")
        .compile_fds(files)?;
    Ok(())
}
