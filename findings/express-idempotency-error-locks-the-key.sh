#!/usr/bin/env bash
# A key that is in progress for ever: express-idempotency 1.0.6 (npm) with Express 4.22.1, on their defaults.
#
# Guess: a request that failed gives its key back. The package keeps answers of 2xx only (its README, "Response
#   validator"), so a retry after a 503 executes again, and a retry after a 201 gets that answer.
# Seen: that holds for answers by res.send and res.json alone, because the package hears of no other. An error that goes
#   to next(), or is thrown, is answered by res.end of Express's own error handler. The key then stays in progress: each
#   retry is told 409 "A previous request is still in progress for this key", as long as the record lives, unless the
#   handler has called reportError before. An answer by res.end is not kept either: the payment is made, and the client
#   never gets its answer. With res.json all is well, but the replay has lost the header Location.
# What follows: where this package is used, answer by res.send alone, errors too, and test a retry after an error, not
#   only after a success.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact express@4.22.1 express-idempotency@1.0.6 >>npm.log 2>&1 ||
	{ cat npm.log; exit 1; }

cat >shop.js <<'JS'
const express = require('express')
const idempotency = require('express-idempotency')
const app = express()
app.use(express.json())
app.use(idempotency.idempotency())

// The handlers ask isHit first, as the README says: the middleware runs them after a replay, too.
const runs = {}
const pay = (path, answer) => app.post(path, (req, res, next) => {
  if (idempotency.getSharedIdempotencyService().isHit(req)) return
  runs[path] = (runs[path] || 0) + 1
  answer(res, next, runs[path])
})
pay('/sent-503', (res, _, run) => run === 1 ? res.status(503).send('busy') : res.status(201).json({ run }))
pay('/error-503', (res, next, run) =>
  run === 1 ? next(Object.assign(new Error('busy'), { status: 503 })) : res.status(201).json({ run }))
pay('/ended-201', (res, _, run) => res.status(201).end(JSON.stringify({ run })))
pay('/json-201', (res, _, run) => res.status(201).location('/payments/1').json({ run }))
// No stack traces in the output.
app.use((err, req, res, next) => next(Object.assign(err, { stack: err.message })))

const server = app.listen(0, '127.0.0.1', async () => {
  for (const path of ['/sent-503', '/error-503', '/ended-201', '/json-201']) {
    const told = []
    for (let i = 0; i < 3; i++) {
      const answer = await fetch(`http://127.0.0.1:${server.address().port}${path}`, {
        method: 'POST', body: '{"amount":100}',
        headers: { 'Idempotency-Key': 'key-of' + path.replace('/', '-'), 'Content-Type': 'application/json' },
      })
      await answer.text()
      told.push(answer.status + (answer.headers.get('location') ? ' with Location' : ''))
    }
    console.log(`${path}: ${told.join(', ')}; executed ${runs[path]} times`)
  }
  server.close()
})
JS

node shop.js 2>errors | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
/sent-503: 503, 201, 201; executed 2 times
/error-503: 503, 409, 409; executed 1 times
/ended-201: 201, 409, 409; executed 1 times
/json-201: 201 with Location, 201, 201; executed 1 times
SEEN
grep -q 'A previous request is still in progress for this key' errors || { echo "the reason is another one"; exit 1; }
echo "as it was seen: an error that Express answers locks the key"
