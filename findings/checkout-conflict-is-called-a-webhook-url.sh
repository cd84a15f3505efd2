#!/usr/bin/env bash
# A payment that is in progress is called UrlAlreadyRegistered: checkout-sdk-node 5.2.1 (npm), a provider's official
# SDK.
#
# Guess: 409 to a payment with an Idempotency-Key is told as a conflict, with the body of the answer, so that the
#   program knows to ask again. A lost answer is told as a connection error.
# Seen: each 409 is an error of class UrlAlreadyRegistered, with that as its name and message, whatever was called. It
#   is the name of a mistake in setting up webhooks. A lost answer is an ApiError "API Error", the class and the text of
#   a 500; it has no status, no cause and no code, and its body is the text "… fetch failed", which says neither that
#   the connection was reset nor that the request may have been executed. A program that sorts or shows errors by class
#   tells the payer of a wrong URL, and takes an unknown outcome for the server's error.
# What follows: look at http_code and not at the class. No http_code means that the outcome is unknown.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact checkout-sdk-node@5.2.1 >>npm.log 2>&1 ||
	{ cat npm.log; exit 1; }

cat >pay.js <<'JS'
const http = require('node:http')
const { Checkout } = require('checkout-sdk-node')
const main = async () => {
  for (const status of [409, 422, 500, 'lost']) {
    const server = http.createServer((req, res) => req.resume().on('end', () => {
      if (status === 'lost') return req.socket.destroy()
      res.writeHead(status, { 'Content-Type': 'application/json' })
      res.end('{"error_type":"processing","error_codes":["payment_in_progress"]}')
    }))
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
    const host = `http://127.0.0.1:${server.address().port}`
    const checkout = new Checkout('sk_sbox_0123456789abcdefghijklmnopq', { host })
    try {
      const payment = { source: { type: 'token', token: 'tok_1' }, currency: 'USD', amount: 100 }
      await checkout.payments.request(payment, 'key-1')
    } catch (err) {
      const body = typeof err.body === 'string' ? err.body.replace(/^.*reason: /, '… ') : err.body.error_codes[0]
      const reason = /ECONNRESET|socket|closed/.test(require('node:util').inspect(err, { depth: 5 }))
      console.log(`${status}: ${err.constructor.name} "${err.message}", http_code ${err.http_code}, ${body}, ` +
        `cause ${err.cause}, says why ${reason}`)
    }
    server.closeAllConnections()
    server.close()
  }
}
main()
JS
node pay.js | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
409: UrlAlreadyRegistered "UrlAlreadyRegistered", http_code 409, payment_in_progress, cause undefined, says why false
422: ValidationError "ValidationError", http_code 422, payment_in_progress, cause undefined, says why false
500: ApiError "API Error", http_code 500, payment_in_progress, cause undefined, says why false
lost: ApiError "API Error", http_code undefined, … fetch failed, cause undefined, says why false
SEEN
echo "as it was seen: a conflict is called a registered URL"
