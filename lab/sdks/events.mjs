// Verifies Payonce's events with the npm libraries standardwebhooks and svix, unmodified. It reads the deliveries as
// JSON, and ends with an error if one is not verified, or if one is that was changed.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import * as standardwebhooks from 'standardwebhooks'
import * as svix from 'svix'

const { dependencies } = JSON.parse(readFileSync('package.json'))
for (const { headers, body, secrets } of JSON.parse(readFileSync(0))) {
  for (const [i, secret] of secrets.entries()) {
    for (const [name, { Webhook, WebhookVerificationError }] of Object.entries({ standardwebhooks, svix })) {
      const webhook = new Webhook(secret)
      webhook.verify(body, headers)
      const event = JSON.parse(body) // since version 2, verify of svix returns nothing
      assert.equal(event.id, headers['webhook-id'])
      assert.equal(event.data.payment.description, 'Käse & <Brot> 🧀')
      assert.throws(() => webhook.verify(body + ' ', headers), WebhookVerificationError)
      console.log(`${name} ${dependencies[name]}: verified ${event.type} ${event.id}, secret ${i + 1} of ${secrets.length}`)
    }
  }
}
