#!/usr/bin/env bash
# A server that asks for more time gets less of it: modern-treasury 3.3.0 (a provider's official SDK) and
# @vercel/fetch-retry 5.1.3 with node-fetch 2.7.0 (npm), both on their defaults.
#
# Guess: after a 503 with Retry-After: 120 a client waits two minutes, or as long as its own limit allows.
# Seen: - modern-treasury honours 2 seconds, and takes 60 or more for no advice at all: it is back after half a second,
#     as if the header were not there. So a server under load that asks for two minutes gets the second request about
#     four times sooner than with 2.
#   - @vercel/fetch-retry honours 1 second, and gives up at once if more than 20 are asked for: the program is given the
#     503 after one request, although five retries were left.
# What follows: as a server, ask for 1 to 5 seconds, again and again. As a client of these, do not count on retries.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact modern-treasury@3.3.0 @vercel/fetch-retry@5.1.3 \
	node-fetch@2.7.0 >>npm.log 2>&1 || { cat npm.log; exit 1; }

cat >call.js <<'JS'
const http = require('node:http')
const ModernTreasury = require('modern-treasury').default
const fetchRetry = require('@vercel/fetch-retry')(require('node-fetch'))

const callers = {
  'modern-treasury': (url) => new ModernTreasury({ organizationID: 'example', apiKey: 'example', baseURL: url })
    .paymentOrders.create({ amount: 100, direction: 'credit', originating_account_id: 'a', type: 'ach' })
    .then(() => 'paid'),
  'fetch-retry': (url) => fetchRetry(url, { method: 'POST', body: '{}' }).then((answer) => answer.status),
}
const main = async () => {
  for (const [name, call] of Object.entries(callers)) {
    for (const seconds of [1, 2, 60, 120]) {
      const at = []
      const server = http.createServer((req, res) => req.resume().on('end', () => {
        at.push(Date.now())
        res.writeHead(at.length === 1 ? 503 : 201, { 'Content-Type': 'application/json', 'Retry-After': seconds })
        res.end('{"id":"1"}')
      }))
      await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
      const told = await call(`http://127.0.0.1:${server.address().port}`)
      const wait = at[1] - at[0]
      const back = at.length === 1 ? 'never' :
        wait < 950 ? 'in less than a second' : wait > seconds * 950 ? 'when it was asked to' : `after ${wait} ms`
      console.log(`${name}, Retry-After ${seconds}: ${at.length} requests, back ${back}, told ${told}`)
      server.closeAllConnections()
      server.close()
    }
  }
}
main()
JS

node call.js | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
modern-treasury, Retry-After 1: 2 requests, back when it was asked to, told paid
modern-treasury, Retry-After 2: 2 requests, back when it was asked to, told paid
modern-treasury, Retry-After 60: 2 requests, back in less than a second, told paid
modern-treasury, Retry-After 120: 2 requests, back in less than a second, told paid
fetch-retry, Retry-After 1: 2 requests, back when it was asked to, told 201
fetch-retry, Retry-After 2: 2 requests, back when it was asked to, told 201
fetch-retry, Retry-After 60: 1 requests, back never, told 503
fetch-retry, Retry-After 120: 1 requests, back never, told 503
SEEN
echo "as it was seen: two minutes are half a second, or the end"
