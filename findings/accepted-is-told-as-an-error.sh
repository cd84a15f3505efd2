#!/usr/bin/env bash
# A payment that was accepted is told as failed: braintree 3.40.0 and @gr4vy/sdk 1.10.18 (npm), providers' official
# SDKs.
#
# Guess: 202 is a success of the 2xx class. A client returns its body, in which the status says "processing".
# Seen: both throw. braintree: "Unexpected HTTP response: 202"; the body is dropped, and with it the id of the payment.
#   @gr4vy/sdk: SDKError "Unexpected Status or Content-Type", with the body in the text. A program that takes an
#   exception for a failure offers to pay again, although the payment is on its way.
# What follows: a server answers such callers 201 with a status in the body, or waits until the outcome is known. A
#   proxy or queue in between must not turn an answer into 202.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact braintree@3.40.0 @gr4vy/sdk@1.10.18 >>npm.log 2>&1 ||
	{ cat npm.log; exit 1; }

cat >pay.js <<'JS'
const http = require('node:http')
const braintree = require('braintree')
const { Gr4vy } = require('@gr4vy/sdk')
const xml = '<?xml version="1.0"?><transaction><id>t1</id><status>settlement_pending</status></transaction>'
const callers = {
  braintree: (port) => new braintree.BraintreeGateway({
    environment: new braintree.Environment('127.0.0.1', String(port), 'http://127.0.0.1', false),
    merchantId: 'example', publicKey: 'example', privateKey: 'example',
  }).transaction.sale({ amount: '1.00', paymentMethodNonce: 'example' }),
  gr4vy: (port) => new Gr4vy({ serverURL: `http://127.0.0.1:${port}`, bearerAuth: async () => 'example' })
    .transactions.create({ amount: 100, currency: 'USD' }),
}
const main = async () => {
  for (const [name, pay] of Object.entries(callers)) {
    let requests = 0
    const server = http.createServer((req, res) => req.resume().on('end', () => {
      requests++
      res.writeHead(202, { 'Content-Type': name === 'braintree' ? 'application/xml' : 'application/json' })
      res.end(name === 'braintree' ? xml : '{"id":"t1","type":"transaction","status":"processing"}')
    }))
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
    try {
      await pay(server.address().port)
      console.log(name, 'returned')
    } catch (err) {
      console.log(`${name}: ${requests} request, threw ${err.constructor.name} "${err.message.split('. Body')[0]}"`)
      console.log(`  the id is in the error: ${require('node:util').inspect(err).includes('t1')}`)
    }
    server.closeAllConnections()
    server.close()
  }
}
main()
JS
node pay.js | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
braintree: 1 request, threw Error "Unexpected HTTP response: 202"
  the id is in the error: false
gr4vy: 1 request, threw SDKError "Unexpected Status or Content-Type: Status 202"
  the id is in the error: true
SEEN
echo "as it was seen: 202 is an exception"
