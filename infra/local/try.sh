# A sale by hand, call by call; needs curl and jq.
API=${API:-http://127.0.0.1:8080}
token() { curl -sf "$API/_dev/token" -d "$1" | jq -r .access_token; }
call() { curl -s -H "authorization: Bearer $1" -H 'content-type: application/json' "${@:2}"; }

# A merchant, a shopper, and a sale of two phones that opens in three to four
# seconds: `date` cuts a second's fraction off.
MERCHANT=$(token '{"sub": "merchant", "scope": "sales.admin"}')
SHOPPER=$(token '{"sub": "u_42"}')
SALE=phone-$(date +%s%N)
call "$MERCHANT" "$API/v1/admin/sales" -d '{
  "sale_id": "'"$SALE"'", "sku": "PHONE-1", "name": "Phone", "units": 2,
  "price": {"amount": 999900, "currency": "INR"},
  "opens_at": "'"$(date -u -d '+4 seconds' +%FT%TZ)"'",
  "mode": "draw", "draw_window_ms": 2000, "pay_window_s": 60, "claim_spread_s": 0}' | jq .
call "$MERCHANT" "$API/v1/admin/sales/$SALE/preflight" | jq .
echo "As another shopper sees it, where the page is served: $API/?sale=$SALE&shopper=u_43"

# The right to take part, before the opening.
PASS=$(call "$SHOPPER" "$API/v1/sales/$SALE/passes" -d '{"device": "d1"}' | jq -r .pass)

# From the opening on: a tap is an entry of the draw.
sleep 4
ENTRY=$(call "$SHOPPER" -H "sale-pass: $PASS" -X POST "$API/v1/sales/$SALE/entries" | jq -r .entry_token)

# Once the draw is counted, tickets below the threshold are admitted.
sleep 3
curl -s "$API/v1/sales/$SALE/status" | jq .

# A claim: one unit is held. The same key again is the same claim.
CLAIM=$(call "$SHOPPER" -H "sale-pass: $PASS" -H "sale-entry: $ENTRY" \
  -H 'idempotency-key: my-first-try' -X POST "$API/v1/sales/$SALE/claims")
jq . <<<"$CLAIM"
ORDER=$(jq -r .order.order_id <<<"$CLAIM")

# Its order, and a payment, which the sandbox lets succeed.
sleep 1
call "$SHOPPER" "$API/v1/orders/$ORDER" | jq .
INTENT=$(call "$SHOPPER" -X POST "$API/v1/orders/$ORDER/payments")
EVENT=$(curl -s "$API/v1/sandbox/intents/$(jq -r .intent_id <<<"$INTENT")/confirm" \
  -d '{"client_secret": "'"$(jq -r .client_secret <<<"$INTENT")"'", "outcome": "succeed"}')

# The sandbox hands out the signed event; who tries it plays the provider.
curl -s "$API/v1/webhooks/sandbox" -H "sandbox-signature: $(jq -r .event.signature <<<"$EVENT")" \
  -d "$(jq -r .event.payload <<<"$EVENT")" | jq .

# Where every unit is.
call "$MERCHANT" "$API/v1/admin/sales/$SALE/report" | jq '{units, free, held, paying, paid}'
