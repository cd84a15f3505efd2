#!/usr/bin/env bash
# A webhook that is too old after five seconds: @paddle/paddle-node-sdk 3.10.0 (npm), a provider's official SDK, beside
# standardwebhooks 1.1.1.
#
# Guess: a webhook may be some minutes old, five as with Stripe and Standard Webhooks. One that is refused for its age
#   is told so.
# Seen: unmarshal refuses a webhook that was signed more than 5 seconds ago, with the text of a wrong secret, "Webhook
#   signature verification failed", and isSignatureValid says false. There is no option for it. So a receiver that puts
#   webhooks into a queue and verifies them there, or whose clock is six seconds ahead, or that was asleep when the
#   request came, loses all of them, and looks for a fault in its secret. standardwebhooks takes 5 minutes and says
#   "Message timestamp too old".
# What follows: verify in the request's handler, before the queue; compare the clock first when "the secret is wrong".
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact @paddle/paddle-node-sdk@3.10.0 standardwebhooks@1.1.1 \
	>>npm.log 2>&1 || { cat npm.log; exit 1; }

cat >verify.js <<'JS'
const { createHmac } = require('node:crypto')
const { Paddle } = require('@paddle/paddle-node-sdk')
const { Webhook } = require('standardwebhooks')
const body = JSON.stringify({
  event_id: 'evt_1', event_type: 'address.created', occurred_at: '2026-11-26T00:00:00Z', notification_id: 'ntf_1',
  data: { id: 'add_1' },
})
const secret = 'example-secret'
const standard = new Webhook(Buffer.from(secret).toString('base64'))
const main = async () => {
  for (const age of [0, 3, 10, 200, 400]) {
    const at = Math.floor(Date.now() / 1000) - age
    const h1 = createHmac('sha256', secret).update(`${at}:${body}`).digest('hex')
    const paddle = await new Paddle('example').webhooks.unmarshal(body, secret, `ts=${at};h1=${h1}`)
      .then((event) => event.eventType, (err) => err.message)
    const headers = { 'webhook-id': 'msg_1', 'webhook-timestamp': String(at) }
    headers['webhook-signature'] = standard.sign('msg_1', new Date(at * 1000), body)
    let other
    try {
      other = standard.verify(body, headers).event_type
    } catch (err) {
      other = err.message
    }
    console.log(`${age} s old: Paddle: ${paddle}; standardwebhooks: ${other}`)
  }
}
main()
JS
node verify.js | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
0 s old: Paddle: address.created; standardwebhooks: address.created
3 s old: Paddle: address.created; standardwebhooks: address.created
10 s old: Paddle: [Paddle] Webhook signature verification failed; standardwebhooks: address.created
200 s old: Paddle: [Paddle] Webhook signature verification failed; standardwebhooks: address.created
400 s old: Paddle: [Paddle] Webhook signature verification failed; standardwebhooks: Message timestamp too old
SEEN
echo "as it was seen: ten seconds are a wrong signature"
