#!/usr/bin/env bash
# A timeout that is there and is not used: @adyen/api-library 32.1.0 (npm), a provider's official SDK.
#
# Guess: the timeout of 30 seconds, which the SDK's code has as its default, is that of every client.
# Seen: the default is set by new Config() alone. The README makes a client of a plain object,
#   new Client({ apiKey, environment }), and that one has no timeout at all: a request to a server that does not answer
#   is waited for without end (35 seconds here), and the payer with it. The client made of new Config({ … }) with the same
#   two values ends after 30 seconds.
# What follows: use new Config(), or set connectionTimeoutMillis. A server may be asked again long after its caller's
#   payer has gone.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact @adyen/api-library@32.1.0 >>npm.log 2>&1 ||
	{ cat npm.log; exit 1; }
# The SDK speaks TLS only: a certificate for this address, which the process trusts beside the public ones.
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=127.0.0.1 \
	-addext subjectAltName=IP:127.0.0.1 2>openssl.log || { cat openssl.log; exit 1; }

cat >pay.js <<'JS'
const fs = require('node:fs')
const https = require('node:https')
const { Client, Config, CheckoutAPI, EnvironmentEnum } = require('@adyen/api-library')
const given = () => ({ apiKey: 'example', environment: EnvironmentEnum.TEST })
const server = https.createServer({ key: fs.readFileSync('key.pem'), cert: fs.readFileSync('cert.pem') },
  (req) => req.resume()) // and never answers
server.listen(0, '127.0.0.1', async () => {
  const pay = async (name, client) => {
    const { PaymentsApi } = new CheckoutAPI(client)
    PaymentsApi.baseUrl = `https://127.0.0.1:${server.address().port}`
    const began = Date.now()
    const payment = PaymentsApi.payments({ amount: { currency: 'EUR', value: 100 }, reference: '1' })
      .catch((err) => err.message)
    const ended = await Promise.race([payment, new Promise((resolve) => setTimeout(resolve, 35000, null))])
    const seconds = Math.round((Date.now() - began) / 1000)
    return `${name}: ${ended === null ? `still waits after ${seconds} s` : `ends after ${seconds} s, "${ended}"`}`
  }
  const seen = await Promise.all([
    pay('a plain object', new Client(given())), pay('new Config()', new Client(new Config(given()))),
  ])
  console.log(seen.join('\n'))
  process.exit()
})
JS
NODE_EXTRA_CA_CERTS=cert.pem node pay.js | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
a plain object: still waits after 35 s
new Config(): ends after 30 s, "socket hang up"
SEEN
echo "as it was seen: the client of the README has no timeout"
