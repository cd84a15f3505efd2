// Uses the npm library stripe as its users do, unmodified, against the server at STRIPE_URL. It ends with an error if
// something is not as Stripe documents it, and prints the calls that the server does not do.
import assert from 'node:assert/strict'
import Stripe from 'stripe'

const { hostname: host, port } = new URL(process.env.STRIPE_URL)
const stripe = new Stripe(process.env.STRIPE_KEY, { host, port, protocol: 'http' })
const intent = (payment_method, more) => ({
  amount: 1200, currency: 'usd', payment_method, metadata: { order: "a 'quoted' one" },
  automatic_payment_methods: { enabled: true, allow_redirects: 'never' }, ...more,
})

// A charge, made twice under one key.
const under = { idempotencyKey: 'tour' }
const made = await stripe.paymentIntents.create(intent('pm_card_visa', { expand: ['latest_charge'] }), under)
const again = await stripe.paymentIntents.create(intent('pm_card_visa', { expand: ['latest_charge'] }), under)
assert.equal(again.id, made.id)
await assert.rejects(stripe.paymentIntents.create(intent('pm_card_visa', { amount: 1300 }), under),
  Stripe.errors.StripeIdempotencyError)
const done = await stripe.paymentIntents.confirm(made.id, { expand: ['latest_charge.balance_transaction'] })
assert.equal(done.status, 'succeeded')
assert.equal(done.latest_charge.balance_transaction.amount, 1200)
assert.equal((await stripe.paymentIntents.retrieve(made.id)).amount_received, 1200)
const other = await stripe.paymentIntents.create(intent('pm_card_mastercard'))
assert.equal((await stripe.paymentIntents.cancel(other.id)).status, 'canceled')

// A decline.
const lost = 'pm_card_visa_chargeDeclinedLostCard'
const declined = await stripe.paymentIntents.create(intent(lost))
await assert.rejects(stripe.paymentIntents.confirm(declined.id), (e) =>
  e instanceof Stripe.errors.StripeCardError && e.statusCode === 402 && e.decline_code === 'lost_card' &&
  e.payment_intent.id === declined.id && e.payment_method.id === lost)

// A refund.
const refund = await stripe.refunds.create({ payment_intent: made.id, amount: 200, expand: ['charge'] })
assert.deepEqual([refund.status, refund.charge.amount_refunded], ['succeeded', 200])
await assert.rejects(stripe.refunds.create({ payment_intent: made.id, amount: 1001 }), { param: 'amount' })

// Lists, of which the library asks for the further pages.
const all = async (list) => { const items = []; for await (const item of list) items.push(item); return items }
assert.equal((await all(stripe.paymentIntents.list({ limit: 2 }))).length, 3)
assert.equal((await all(stripe.refunds.list({ payment_intent: made.id }))).length, 1)
assert.equal((await all(stripe.charges.list({ payment_intent: made.id })))[0].payment_intent, made.id)
assert.equal((await all(stripe.balanceTransactions.list({ expand: ['data.source'] })))[0].source.object, 'refund')
assert.equal((await all(stripe.paymentIntents.search({ query: `metadata['order']:"a 'quoted' one"` }))).length, 3)

// What happens after success: a refund that fails, and two disputes, of which evidence wins one.
const until = async (ask, holds) => {
  for (;;) {
    const got = await ask()
    if (holds(got)) return got
    await new Promise((next) => setTimeout(next, 100))
  }
}
const charged = async (payment_method) =>
  (await stripe.paymentIntents.confirm((await stripe.paymentIntents.create(intent(payment_method))).id)).id
const shown = ({ object, amount, status }) => `${object} ${amount} ${status}`
const refunded = await charged('pm_card_visa')
const back = await stripe.refunds.create({ payment_intent: refunded, reason: 'pm_refund_returned' })
assert.equal(back.status, 'succeeded')
const [failed] = await until(() => all(stripe.refunds.list({ payment_intent: refunded })), ([r]) => r.status === 'failed')
assert.deepEqual([failed.id, failed.failure_reason], [back.id, 'expired_or_canceled_card'])
console.log('came back:', shown(failed), failed.failure_reason)
const disputed = async (method) => {
  const payment_intent = await charged(method)
  const [dispute] = await until(() => all(stripe.disputes.list({ payment_intent })), (found) => found.length > 0)
  assert.equal(dispute.status, 'needs_response')
  await assert.rejects(stripe.refunds.create({ payment_intent }), { code: 'charge_disputed' })
  return dispute
}
const [{ id: won }, { id: lostOne }] = await Promise.all(
  ['pm_card_createDispute', 'pm_card_createDisputeProductNotReceived'].map(disputed))
const evidence = { uncategorized_text: 'winning_evidence' }
const staged = await stripe.disputes.update(won, { evidence, submit: false })
assert.deepEqual([staged.status, staged.evidence_details.has_evidence], ['needs_response', true])
assert.equal((await stripe.disputes.update(won, { submit: true })).status, 'under_review')
const decided = await until(() => stripe.disputes.retrieve(won, { expand: ['charge'] }), (d) => d.status === 'won')
assert.deepEqual([decided.charge.disputed, decided.balance_transactions.map((t) => t.amount)], [true, [-1200, 1200]])
const closed = await stripe.disputes.close(lostOne)
assert.deepEqual([closed.status, closed.reason], ['lost', 'product_not_received'])
console.log('disputed:', shown(decided) + ',', shown(closed), closed.reason)

// What the server does not do.
for (const [param, more] of Object.entries({
  capture_method: { capture_method: 'manual' }, confirm: { confirm: true }, customer: { customer: 'cus_1' },
  expand: { expand: ['customer'] }, currency: { currency: 'xts' },
})) {
  await assert.rejects(stripe.paymentIntents.create(intent('pm_card_visa', more)),
    { type: 'StripeInvalidRequestError', param })
}
await assert.rejects(all(stripe.charges.list({ customer: 'cus_1' })), { param: 'customer' })
for (const [call, send] of Object.entries({
  'paymentIntents.capture': () => stripe.paymentIntents.capture(made.id),
  'paymentIntents.update': () => stripe.paymentIntents.update(made.id, { description: 'a' }),
  'charges.retrieve': () => stripe.charges.retrieve('ch_1'),
  'refunds.retrieve': () => stripe.refunds.retrieve('re_1'),
  'events.retrieve': () => stripe.events.retrieve('evt_1'),
  'paymentMethods.retrieve': () => stripe.paymentMethods.retrieve('pm_card_visa'),
  'customers.create': () => stripe.customers.create({}),
})) {
  await assert.rejects(send(), { type: 'StripeInvalidRequestError', statusCode: 404 })
  console.log('not done:', call)
}

// Webhooks, and one that was changed.
const secret = process.env.WEBHOOK_SECRET
const arrived = await (await fetch(process.env.EVENTS_URL + '?until=refund.created')).json()
assert.ok(arrived.length > 0)
for (const { Signature, Body } of arrived) {
  assert.equal(stripe.webhooks.constructEvent(Body, Signature, secret).api_version, Stripe.API_VERSION)
  assert.throws(() => stripe.webhooks.constructEvent(Body + ' ', Signature, secret),
    Stripe.errors.StripeSignatureVerificationError)
}
