#!/usr/bin/env bash
# Three retries in less than a second: superagent 10.4.2 with retry(3), ofetch 1.5.1 with retry: 3 (npm), both with a
# POST.
#
# Guess: a retry waits: longer each time, or as long as Retry-After says. ofetch repeats no POST on its defaults, and
#   that is for safety; with retry: 3 it is told to.
# Seen: both send all four requests at once, without a wait between them, and do not read Retry-After. ofetch does so
#   after a 409, too. So a server that restarts, or is still busy with the first request, gets the other three while it
#   is so, and the program is told a failure within a tenth of a second. With a server that needs two seconds, the
#   number of retries does not matter.
# What follows: give a delay (ofetch: retryDelay; superagent: retry in your own loop), or let the server hold the second
#   request until the first one ends.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact superagent@10.4.2 ofetch@1.5.1 >>npm.log 2>&1 ||
	{ cat npm.log; exit 1; }

cat >call.js <<'JS'
const http = require('node:http')
const superagent = require('superagent')
const { ofetch } = require('ofetch')
const callers = {
  superagent: (url) => superagent.post(url).send({ amount: 100 }).retry(3),
  ofetch: (url) => ofetch(url, { method: 'POST', body: { amount: 100 }, retry: 3 }),
}
const main = async () => {
  for (const [name, call] of Object.entries(callers)) {
    for (const status of [409, 429, 503]) {
      let requests = 0
      const began = Date.now()
      // The server is ready after two seconds, and says so.
      const server = http.createServer((req, res) => req.resume().on('end', () => {
        requests++
        const code = Date.now() - began < 2000 ? status : 201
        res.writeHead(code, { 'Content-Type': 'application/json', 'Retry-After': 2 })
        res.end('{}')
      }))
      await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
      let told = 'success'
      try {
        await call(`http://127.0.0.1:${server.address().port}`)
      } catch (err) {
        told = err.status
      }
      const when = Date.now() - began < 1000 ? 'within a second' : 'later'
      console.log(`${name}, ${status}: ${requests} requests, told ${told} ${when}`)
      server.closeAllConnections()
      server.close()
    }
  }
}
main()
JS
node call.js | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
superagent, 409: 1 requests, told 409 within a second
superagent, 429: 4 requests, told 429 within a second
superagent, 503: 4 requests, told 503 within a second
ofetch, 409: 4 requests, told 409 within a second
ofetch, 429: 4 requests, told 429 within a second
ofetch, 503: 4 requests, told 503 within a second
SEEN
echo "as it was seen: four requests before the server is ready"
