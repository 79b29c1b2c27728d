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

/// The bytes of a draw secret: what tickets and the commitment are made of.
/// `None` if the text is not one that [`new_secret`] makes.
pub fn secret_bytes(secret: &str) -> Option<[u8; 32]> {
    let digits = secret
        .bytes()
        .map(|digit| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        })
        .collect::<Option<Vec<_>>>()?;
    let bytes: Vec<_> = digits
        .chunks_exact(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect();
    (digits.len() == 64).then(|| bytes.try_into().ok())?
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
    fn a_secret_is_its_bytes() {
        let secret = new_secret().unwrap();
        assert_eq!(hex(&secret_bytes(&secret).unwrap()), secret);
        for odd in [
            "",
            &secret[1..],
            &secret[2..],
            &secret.replace(|_| true, "G"),
            &secret.replace(|_| true, "A"),
        ] {
            assert_eq!(secret_bytes(odd), None, "{odd}");
        }
    }

    #[test]
    fn secrets_and_ids_are_long_and_new() {
        let (one, other) = (new_secret().unwrap(), new_secret().unwrap());
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
        let (one, other) = (new_pass_id().unwrap(), new_pass_id().unwrap());
        assert_eq!(one.as_str().len(), 32);
        assert_ne!(one, other);
    }
}
