/// The constants of FILL_PREFIX.weights, which all functions read.
pub struct Weights(Vec<Block>);

impl Weights {
    /// Reads and checks the file.
    pub fn load(path: impl AsRef<std::path::Path>) -> std::io::Result<Weights> {
        let wrong = |what| std::io::Error::new(std::io::ErrorKind::InvalidData, what);
        let bytes = std::fs::read(path)?;
        if bytes.len() != FILL_HEADERSIZE + FILL_DATASIZE || digest(&bytes[..FILL_HEADERSIZE]) != FILL_HEADERDIGEST {
            return Err(wrong("not the weights of this library"));
        }
        if digest(&bytes[FILL_HEADERSIZE..]) != FILL_DATADIGEST {
            return Err(wrong("the weights are damaged"));
        }
        let mut data = blocks(FILL_DATASIZE);
        for (block, from) in data.iter_mut().zip(bytes[FILL_HEADERSIZE..].chunks(64)) {
            block.0[..from.len()].copy_from_slice(from);
        }
        Ok(Weights(data))
    }
}

fn digest(bytes: &[u8]) -> u64 {
    let mut sum = 0u64;
    for (i, word) in bytes.chunks_exact(8).enumerate() {
        let mut word = u64::from_le_bytes(word.try_into().unwrap());
        word = word.wrapping_add((i as u64 + 1).wrapping_mul(0x9E3779B97F4A7C15));
        word = (word ^ word >> 32).wrapping_mul(0xD6E8FEB86659FD93);
        sum = sum.wrapping_add(word ^ word >> 32);
    }
    sum
}
