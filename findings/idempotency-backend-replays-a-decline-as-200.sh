#!/usr/bin/env bash
# A decline that becomes a success on the retry: idempotency-backend 1.0.4 (npm) with Express 4.22.1.
#
# Guess: a retry gets the status and the body of the first answer. A request without an Idempotency-Key is executed, or
#   refused.
# Seen: the body is kept, and the status is not. A declined payment (402) is replayed as 200 with
#   {"cached":true,"data":…}, so a client that looks at the status takes the retry for a success, and one that looks
#   into the body finds it one level deeper. Another amount under the same key gets the answer to the first amount. A
#   request without a key has a key all the same, the method and the path (one line of the README says so): of two
#   orders without a key, only the first is executed, and the second is told that it was.
# What follows: before this package, refuse a request without a key; put the outcome into the body that is saved;
#   compare payloads in the handler.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact express@4.22.1 idempotency-backend@1.0.4 \
	>>npm.log 2>&1 || { cat npm.log; exit 1; }

cat >shop.js <<'JS'
// As in the README, but for .default, without which require raises an error: the middleware, and a handler that saves
// its answer. The package keeps it in a file of this folder.
const express = require('express')
const app = express()
app.use(express.json())
app.use(require('idempotency-backend/express').default)
let executed = 0
app.post('/payments', async (req, res) => {
  executed++
  const declined = req.body.card === 'declined'
  const answer = declined ? { status: 'declined' } : { paid: req.body.amount }
  await req.idempotencySession.SaveResponse(answer)
  res.status(declined ? 402 : 201).json(answer)
})
const server = app.listen(0, '127.0.0.1', async () => {
  const pay = async (body, key) => {
    const answer = await fetch(`http://127.0.0.1:${server.address().port}/payments`, {
      method: 'POST', body: JSON.stringify(body),
      headers: { 'Content-Type': 'application/json', ...(key && { 'Idempotency-Key': key }) },
    })
    console.log(key || 'no key', JSON.stringify(body), '->', answer.status, await answer.text())
  }
  await pay({ amount: 100, card: 'declined' }, 'key-1')
  await pay({ amount: 100, card: 'declined' }, 'key-1')
  await pay({ amount: 200 }, 'key-2')
  await pay({ amount: 999 }, 'key-2')
  await pay({ amount: 5 })
  await pay({ amount: 700 })
  console.log('executed', executed)
  process.exit()
})
JS

node shop.js | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
key-1 {"amount":100,"card":"declined"} -> 402 {"status":"declined"}
key-1 {"amount":100,"card":"declined"} -> 200 {"cached":true,"data":{"status":"declined"}}
key-2 {"amount":200} -> 201 {"paid":200}
key-2 {"amount":999} -> 200 {"cached":true,"data":{"paid":200}}
no key {"amount":5} -> 201 {"paid":5}
no key {"amount":700} -> 200 {"cached":true,"data":{"paid":5}}
executed 3
SEEN
echo "as it was seen: the retry of a decline is 200"
