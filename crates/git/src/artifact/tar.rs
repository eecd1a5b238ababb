//! The canonical tar. Written here and not by a library, because its bytes must never change: a different artifact is a
//! different digest, and would redeploy every service there is.

const BLOCK: usize = 512;

/// Appends one file.
pub(super) fn append(out: &mut Vec<u8>, path: &str, executable: bool, content: &[u8]) {
    let mode = if executable { 0o755 } else { 0o644 };
    if path.len() > 100 {
        let record = pax_record("path", path);
        header(out, b"pax", 0o644, record.len(), b'x');
        padded(out, &record);
    }
    let name = path.as_bytes();
    header(out, &name[..name.len().min(100)], mode, content.len(), b'0');
    padded(out, content);
}

/// Ends the archive.
pub(super) fn finish(out: &mut Vec<u8>) {
    out.resize(out.len() + 2 * BLOCK, 0);
}

fn header(out: &mut Vec<u8>, name: &[u8], mode: u32, size: usize, kind: u8) {
    let mut block = [0_u8; BLOCK];
    block[..name.len()].copy_from_slice(name);
    field(&mut block[100..108], u64::from(mode));
    field(&mut block[108..116], 0);
    field(&mut block[116..124], 0);
    field(&mut block[124..136], size as u64);
    field(&mut block[136..148], 0);
    block[156] = kind;
    block[257..263].copy_from_slice(b"ustar\0");
    block[263..265].copy_from_slice(b"00");
    // The checksum counts its own field as spaces.
    block[148..156].fill(b' ');
    let sum: u64 = block.iter().map(|b| u64::from(*b)).sum();
    field(&mut block[148..155], sum);
    out.extend_from_slice(&block);
}

/// Octal digits with leading zeros, ended by NUL.
fn field(slot: &mut [u8], value: u64) {
    let digits = slot.len() - 1;
    let text = format!("{value:0digits$o}");
    slot[..digits].copy_from_slice(text.as_bytes());
    slot[digits] = 0;
}

fn padded(out: &mut Vec<u8>, content: &[u8]) {
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
}

/// `LENGTH KEY=VALUE\n`, where LENGTH counts its own digits too.
fn pax_record(key: &str, value: &str) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    format!("{length} {key}={value}\n").into_bytes()
}
