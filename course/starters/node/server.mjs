#!/usr/bin/env node
// A payment server that is wrong: it charges each request, also one that it has charged before.
//
// It is written from docs/grade.md and docs/mock_psp.md, without packages, for Node 18 or newer. Grade it with
//
//     make grade TARGET=course/starters/node/server.mjs PROFILE=plain
//
// or with a program of the release: grade --profile plain ./server.mjs
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

const { PORT, PSP_URL, PSP_SECRET, API_KEYS } = process.env;
const tenant = API_KEYS.split(',')[0].split('=')[1]; // the profile "plain" has one tenant
const pspTimeout = 1000; // ms; a client of the grader waits for 5 s

// charge asks the PSP. It returns the status, and what the PSP has said.
async function charge({ amount, currency, token }) {
  try {
    const answer = await fetch(`${PSP_URL}/v1/charges`, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${PSP_SECRET}`,
        'PSP-Account': tenant,
        // Wrong: a key of its own for each request. The PSP cannot know that it is the same payment.
        'Idempotency-Key': randomUUID(),
        'Content-Type': 'application/json',
      },
      body: JSON.stringify({ amountCents: amount, currency, paymentMethod: token }),
      signal: AbortSignal.timeout(pspTimeout),
    });
    return { status: answer.status, said: await answer.json() };
  } catch {
    return { status: 0, said: {} }; // no answer: was it charged?
  }
}

async function pay(request) {
  let order;
  try {
    let text = '';
    for await (const part of request) text += part;
    const { amount, currency, token } = JSON.parse(text);
    order = { amount, currency, token };
  } catch {
    return [400, { error: 'the body is no payment' }];
  }
  // request.headers['idempotency-key'] is the client's key, and nobody stores it.
  const { status, said } = await charge(order);
  if (status === 201 || status === 402) return [status, { id: said.id, status: said.status }];
  return [502, { error: 'the PSP did not say what happened' }];
}

createServer(async (request, response) => {
  const [status, body] = request.method === 'POST' ? await pay(request) : [404, { error: 'not found' }];
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
}).listen(Number(PORT), '127.0.0.1');
