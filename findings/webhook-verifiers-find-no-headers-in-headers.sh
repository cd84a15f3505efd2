#!/usr/bin/env bash
# Headers without headers: standardwebhooks 1.1.1 and svix 2.5.0 (npm), verifiers of Standard Webhooks.
#
# Guess: verify(body, headers) takes what a server has: the object of Node's http, or the Headers of the web's Request.
# Seen: a Headers object is refused as "Missing required headers", since verify looks at an object's own members, and
#   Headers has none. The text says that the sender forgot them, and a log of the request shows them. With a Map it is
#   the same. An array as a value, which some servers give (req.headersDistinct of Node), is a TypeError, "split is not
#   a function", and no WebhookVerificationError: a receiver that catches that class answers 500 and is sent it again. A
#   Uint8Array of the right bytes is refused as a body, and a Buffer is taken.
# What follows: Object.fromEntries(request.headers) in a Next.js route, a Worker, Hono or Bun.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact standardwebhooks@1.1.1 svix@2.5.0 >>npm.log 2>&1 ||
	{ cat npm.log; exit 1; }

cat >verify.js <<'JS'
const secret = 'whsec_' + Buffer.from('an example secret of 32 bytes...').toString('base64')
const signer = new (require('standardwebhooks').Webhook)(secret)
const body = '{"type":"payment.succeeded"}'
const now = new Date()
const plain = {
  'webhook-id': 'msg_1', 'webhook-timestamp': String(Math.floor(now / 1000)),
  'webhook-signature': signer.sign('msg_1', now, body),
}
const given = {
  'a plain object': [body, plain],
  'Headers': [body, new Headers(plain)],
  'Object.fromEntries(Headers)': [body, Object.fromEntries(new Headers(plain))],
  'a Map': [body, new Map(Object.entries(plain))],
  'arrays as values': [body, Object.fromEntries(Object.entries(plain).map(([name, value]) => [name, [value]]))],
  'body as Buffer': [Buffer.from(body), plain],
  'body as Uint8Array': [new TextEncoder().encode(body), plain],
}
for (const name of ['standardwebhooks', 'svix']) {
  const verifier = new (require(name).Webhook)(secret)
  for (const [what, [text, headers]] of Object.entries(given)) {
    let said = 'verified'
    try {
      verifier.verify(text, headers)
    } catch (err) {
      said = `${err.constructor.name}: ${err.message}`
    }
    console.log(`${name}, ${what}: ${said}`)
  }
}
JS
node verify.js | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
standardwebhooks, a plain object: verified
standardwebhooks, Headers: WebhookVerificationError: Missing required headers
standardwebhooks, Object.fromEntries(Headers): verified
standardwebhooks, a Map: WebhookVerificationError: Missing required headers
standardwebhooks, arrays as values: TypeError: msgSignature.split is not a function
standardwebhooks, body as Buffer: verified
standardwebhooks, body as Uint8Array: Error: Expected payload to be of type string or Buffer.
svix, a plain object: verified
svix, Headers: WebhookVerificationError: Missing required headers
svix, Object.fromEntries(Headers): verified
svix, a Map: WebhookVerificationError: Missing required headers
svix, arrays as values: TypeError: msgSignature.split is not a function
svix, body as Buffer: verified
svix, body as Uint8Array: Error: Expected payload to be of type string or Buffer.
SEEN
echo "as it was seen: Headers has no headers"
