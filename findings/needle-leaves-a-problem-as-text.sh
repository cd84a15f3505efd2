#!/usr/bin/env bash
# A success is an object, and an error is text: needle 3.5.0 (npm), on its defaults and with json: true.
#
# Guess: a client that parses JSON answers parses application/problem+json too, which is JSON (RFC 9457).
# Seen: needle gives application/json as an object, and application/problem+json as a string. So answer.body.status and
#   answer.body.type are undefined for every error of a server that answers problems, and with them what to do next. The
#   option parse: 'json' changes nothing. superagent 10.4.2, axios 1.21.1 and ofetch 1.5.1 parse both.
# What follows: JSON.parse(answer.body) for errors, if it is a string.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact needle@3.5.0 superagent@10.4.2 axios@1.21.1 \
	ofetch@1.5.1 >>npm.log 2>&1 || { cat npm.log; exit 1; }

cat >call.js <<'JS'
const http = require('node:http')
const needle = require('needle')
const superagent = require('superagent')
const axios = require('axios')
const { ofetch } = require('ofetch')
const server = http.createServer((req, res) => req.resume().on('end', () => {
  res.writeHead(409, { 'Content-Type': req.url.slice(1) })
  res.end('{"type":"about:blank","title":"In progress","status":409}')
}))
server.listen(0, '127.0.0.1', async () => {
  const callers = {
    needle: (url) => needle('post', url, { amount: 100 }, { json: true }).then((answer) => answer.body),
    'needle, parse: json': (url) => needle('post', url, { amount: 100 }, { json: true, parse: 'json' })
      .then((answer) => answer.body),
    superagent: (url) => superagent.post(url).send({ amount: 100 }).catch((err) => err.response.body),
    axios: (url) => axios.post(url, { amount: 100 }).catch((err) => err.response.data),
    ofetch: (url) => ofetch(url, { method: 'POST', body: { amount: 100 } }).catch((err) => err.data),
  }
  for (const [name, call] of Object.entries(callers)) {
    for (const type of ['application/json', 'application/problem+json']) {
      const body = await call(`http://127.0.0.1:${server.address().port}/${type}`)
      console.log(`${name}, ${type}: ${typeof body}, title ${body.title}`)
    }
  }
  process.exit()
})
JS
node call.js | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
needle, application/json: object, title In progress
needle, application/problem+json: string, title undefined
needle, parse: json, application/json: object, title In progress
needle, parse: json, application/problem+json: string, title undefined
superagent, application/json: object, title In progress
superagent, application/problem+json: object, title In progress
axios, application/json: object, title In progress
axios, application/problem+json: object, title In progress
ofetch, application/json: object, title In progress
ofetch, application/problem+json: object, title In progress
SEEN
echo "as it was seen: a problem is text"
