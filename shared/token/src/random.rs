//! What must not be guessed.

use aws_lc_rs::rand;
use domain::PassId;
use domain::id::hex;

use crate::Broken;

fn random<const BYTES: usize>() -> Result<String, Broken> {
    let mut bytes = [0; BYTES];
    rand::fill(&mut bytes).map_err(|_| Broken("there are no random bytes"))?;
    Ok(hex(&bytes))
}

/// A draw secret: 256 bits in hex.
///
/// # Errors
/// The system has no random bytes.
pub fn new_secret() -> Result<String, Broken> {
    random::<32>()
}

/// A pass id: 128 bits in hex. It decides the ticket, so it is drawn and not
/// derived from anything that the shopper could choose.
///
/// # Errors
/// The system has no random bytes.
pub fn new_pass_id() -> Result<PassId, Broken> {
    random::<16>()?
        .parse()
        .map_err(|_| Broken("a random text is no pass id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_ids_are_long_and_new() {
        let (one, other) = (new_secret().unwrap(), new_secret().unwrap());
        assert!(domain::draw::secret_bytes(&one).is_some());
        assert_ne!(one, other);
        let (one, other) = (new_pass_id().unwrap(), new_pass_id().unwrap());
        assert_eq!(one.as_str().len(), 32);
        assert_ne!(one, other);
    }
}
