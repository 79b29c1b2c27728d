// Shoppers by number, for crowds: their passes are made here, with the keys that
// the origin has, and are signed only where someone looks at the signature. A
// shopper follows from its number, so nothing is kept of ten million.
import { createECDH, createHash, createHmac, createPrivateKey, hkdfSync, sign } from 'node:crypto';

const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Passes of one sale, as shared/token makes them. */
export class Passes {
  #key;
  #head;

  /** `pass_keys` and `edge_key` are the secrets of the origin, `until_s` seconds since 1970. */
  constructor({ sale, pass_keys, edge_key, from_s, until_s }) {
    Object.assign(this, { sale, edge_key, from_s, until_s });
    // shared/token/src/keys.rs: a scalar of HKDF, and its thumbprint.
    const scalar = Buffer.from(hkdfSync('sha256', pass_keys, '', Buffer.from('flash-sale pass key ES256\0'), 32));
    const pair = createECDH('prime256v1');
    pair.setPrivateKey(scalar);
    const point = pair.getPublicKey();
    const jwk = { crv: 'P-256', kty: 'EC', x: point.subarray(1, 33).toString('base64url'), y: point.subarray(33).toString('base64url') };
    this.public = jwk;
    this.kid = createHash('sha256').update(JSON.stringify(jwk)).digest('base64url').slice(0, 16);
    this.#key = createPrivateKey({ key: { ...jwk, d: scalar.toString('base64url') }, format: 'jwk' });
    this.#head = part({ typ: 'pass+jwt', alg: 'ES256', kid: this.kid });
  }

  shopper(n) {
    return `crowd-${n}`;
  }

  /** As random as those of the origin, and always the same. */
  id(n) {
    return createHash('sha256').update(`${this.sale}\n${n}`).digest('hex').slice(0, 32);
  }

  /** What the edge can't tell from a signed one. */
  unsigned(n) {
    return `${this.#body(n)}.${'s'.repeat(86)}`;
  }

  signed(n) {
    const body = this.#body(n);
    return `${body}.${sign('sha256', Buffer.from(body), { key: this.#key, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
  }

  receipt(n) {
    return `edge.${this.#code('entry', this.sale, this.id(n), this.shopper(n))}`;
  }

  #body(n) {
    const [jti, sub, nbf, exp] = [this.id(n), this.shopper(n), this.from_s, this.until_s];
    const claims = { iss: 'flash-sale', aud: this.sale, sub, device: 'd', nbf, exp, iat: nbf, jti, mac: this.#code(this.sale, jti, sub, nbf, exp) };
    return `${this.#head}.${part(claims)}`;
  }

  #code(...lines) {
    return createHmac('sha256', this.edge_key).update(lines.join('\n')).digest().subarray(0, 16).toString('base64url');
  }
}
