#!/usr/bin/env bash
# A limit that its own reader does not read: express-rate-limit 8.7.5 with Express 4.22.1, and ratelimit-header-parser
# 0.1.0 (npm), of the same project.
#
# Guess: the parser reads what the middleware writes, in "various forms, including the combined form from draft 7", and
#   says so if it cannot.
# Seen: the forms of drafts 6 and 7 are read. That of draft 8, "5-in-1min"; r=4; t=60, gives an object whose limit, used
#   and remaining are NaN and whose reset is an invalid date. It is no undefined, which the parser returns if there is
#   no header, and no error. A client that waits while remaining === 0 never waits, and one that asks remaining > 0
#   never sends; both are quiet about it.
# What follows: check Number.isFinite(remaining), or read Retry-After of the 429, which all forms come with.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact express@4.22.1 express-rate-limit@8.7.5 \
	ratelimit-header-parser@0.1.0 >>npm.log 2>&1 || { cat npm.log; exit 1; }

cat >call.js <<'JS'
const express = require('express')
const { rateLimit } = require('express-rate-limit')
const { parseRateLimit } = require('ratelimit-header-parser')
const reset = (read) => Number.isNaN(read.reset.getTime()) ? 'an invalid date' : 'a date'
const app = express()
for (const form of ['draft-6', 'draft-7', 'draft-8']) {
  app.post('/' + form, rateLimit({ windowMs: 60000, limit: 5, standardHeaders: form, legacyHeaders: false }),
    (req, res) => res.sendStatus(201))
}
app.post('/none', (req, res) => res.sendStatus(201))
const server = app.listen(0, '127.0.0.1', async () => {
  for (const form of ['draft-6', 'draft-7', 'draft-8', 'none']) {
    const answer = await fetch(`http://127.0.0.1:${server.address().port}/${form}`, { method: 'POST' })
    const read = parseRateLimit(answer)
    console.log(form, '->', read && `limit ${read.limit}, remaining ${read.remaining}, reset ${reset(read)}`)
  }
  process.exit()
})
JS
node call.js | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
draft-6 -> limit 5, remaining 4, reset a date
draft-7 -> limit 5, remaining 4, reset a date
draft-8 -> limit NaN, remaining NaN, reset an invalid date
none -> undefined
SEEN
echo "as it was seen: draft 8 is read as NaN"
