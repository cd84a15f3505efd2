#!/usr/bin/env bash
# Events of one form, of which one has a name: @hookflo/tern 4.1.0 (npm), a verifier of many providers' webhooks, with
# normalize: true.
#
# Guess: a payment's events come out in one form for all providers: succeeded, failed, refunded, disputed, with the
#   amount of each, and with the time at which it happened.
# Seen: of Stripe's events only payment_intent.succeeded has a name. A failed payment, a refund and a dispute are all
#   "payment.unknown", and the amount of a partial refund (3.00) is that of its charge (10.00). occurred_at is the clock
#   of the receiver: an event of yesterday that is sent again happens now, and twice. The types of the package list
#   payment.failed and payment.refunded, so a compiler accepts a branch that is never taken.
# What follows: use it for the signature, and read the provider's own event (it is there, as _raw).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact @hookflo/tern@4.1.0 >>npm.log 2>&1 || { cat npm.log; exit 1; }

cat >receive.js <<'JS'
const { createHmac } = require('node:crypto')
const { WebhookVerificationService } = require('@hookflo/tern')
const secret = 'whsec_example'
const yesterday = Math.floor(Date.now() / 1000) - 86400
const events = {
  'payment_intent.succeeded': { id: 'pi_1', amount: 1000, amount_received: 1000, currency: 'eur' },
  'payment_intent.payment_failed': { id: 'pi_1', amount: 1000, amount_received: 0, currency: 'eur' },
  'charge.refunded': { id: 'ch_1', amount: 1000, amount_refunded: 300, currency: 'eur' },
  'charge.dispute.created': { id: 'dp_1', charge: 'ch_1', amount: 1000, currency: 'eur' },
}
const main = async () => {
  for (const [type, object] of Object.entries(events)) {
    const body = JSON.stringify({ id: 'evt_1', object: 'event', created: yesterday, type, data: { object } })
    const at = Math.floor(Date.now() / 1000)
    const v1 = createHmac('sha256', secret).update(`${at}.${body}`).digest('hex')
    const request = new Request('http://127.0.0.1/', {
      method: 'POST', body, headers: { 'stripe-signature': `t=${at},v1=${v1}` },
    })
    const { isValid, payload } = await WebhookVerificationService
      .verifyWithPlatformConfig(request, 'stripe', secret, 300, true)
    const happened = Date.parse(payload.occurred_at) / 1000 - yesterday > 80000 ? 'now' : 'yesterday'
    console.log(`${type}: valid ${isValid}, ${payload.event}, amount ${payload.amount}, happened ${happened}`)
  }
}
main()
JS
node receive.js | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
payment_intent.succeeded: valid true, payment.succeeded, amount 1000, happened now
payment_intent.payment_failed: valid true, payment.unknown, amount 0, happened now
charge.refunded: valid true, payment.unknown, amount 1000, happened now
charge.dispute.created: valid true, payment.unknown, amount 1000, happened now
SEEN
echo "as it was seen: one event has a name"
