#!/usr/bin/env bash
# One header, two meanings: mercadopago 3.6.1 (npm), a provider's official SDK, on its defaults.
#
# Guess: Retry-After is honoured wherever the SDK retries: after 429 and after 503, as HTTP defines it for both.
# Seen: after a 429 it waits as long as it is asked to. After a 503 it takes times of its own (1 and 2 seconds), whether
#   less or more was asked for. So a server in maintenance that asks for 3 seconds gets all retries sooner, and one that
#   would be ready at once is waited for. Nothing in the error or in the options says which of the two was used.
# What follows: a server that knows when it is ready again may say 429 to this SDK, or hold the request until then.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact mercadopago@3.6.1 \
	>>npm.log 2>&1 || { cat npm.log; exit 1; }

cat >pay.js <<'JS'
const http = require('node:http')
const { MercadoPagoConfig, Payment } = require('mercadopago')
// The SDK has one address in its code, and no option for it.
const { AppConfig } = require('mercadopago/dist/utils/config')
const main = async () => {
  for (const [status, asked] of [[429, 0], [429, 3], [503, 0], [503, 3]]) {
    const at = []
    const server = http.createServer((req, res) => req.resume().on('end', () => {
      at.push(Date.now())
      res.writeHead(at.length < 3 ? status : 201, { 'Content-Type': 'application/json', 'Retry-After': asked })
      res.end('{"id":1,"status":"approved"}')
    }))
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
    AppConfig.BASE_URL = `http://127.0.0.1:${server.address().port}`
    const paid = await new Payment(new MercadoPagoConfig({ accessToken: 'example' })).create({
      body: { transaction_amount: 1, token: 'example' },
    })
    const waits = at.slice(1).map((time, i) => Math.floor((time - at[i] + 100) / 1000) + ' s')
    console.log(`${status} with Retry-After ${asked}: waited ${waits.join(', ')}, then ${paid.status}`)
    server.closeAllConnections()
    server.close()
  }
}
main()
JS
node pay.js | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
429 with Retry-After 0: waited 0 s, 0 s, then approved
429 with Retry-After 3: waited 3 s, 3 s, then approved
503 with Retry-After 0: waited 1 s, 2 s, then approved
503 with Retry-After 3: waited 1 s, 2 s, then approved
SEEN
echo "as it was seen: 503 is waited for by a time of its own"
