package problem

import "slices"

// Entry is what the catalogue says about one code. Title, Status and Retryable go into every document; Meaning,
// WhatToDo and Curl are for the page behind the document's type URL.
type Entry struct {
	Code   Code
	Status int // the HTTP status that always goes with the code
	Title  string

	// Retryable says whether the same key may be sent again with the same body.
	Retryable bool

	Meaning  string
	WhatToDo string

	// Curl is one shell line that shows the code, against the demo. $BASE stands for the server's public URL, $OPERATOR
	// for that of the operator's listener. Where no line can show the code, it is empty, and Unseen says what would.
	Curl, Unseen string
}

// Lookup returns the catalogue's entry for code, and whether there is one.
func Lookup(code Code) (Entry, bool) {
	for _, entry := range catalogue {
		if entry.Code == code {
			return entry, true
		}
	}
	return Entry{}, false
}

// All returns every entry, ordered by status and then by code. The caller owns the slice.
func All() []Entry {
	return slices.Clone(catalogue)
}

// What the lines have in common.
const (
	asAcme     = `-H "Authorization: Bearer demo-acme-key" `
	asGuest    = `-H "Authorization: Bearer demo-globex-key" `
	asOperator = `-H "Authorization: Bearer demo-operator-key" `
	asJSON     = `-H "Content-Type: application/json" `
	pay        = `"$BASE/payments" ` + asAcme + asJSON
	order      = `-d '{"customerId":"cus-1","amountCents":12000,"currency":"USD"}'`

	deadLetters = `curl -s "$OPERATOR/operator/dead-letters?limit=1" ` + asOperator
	latest      = `ID=$(` + deadLetters + `| sed 's/^{"data":\[{"id":"\([^"]*\)".*/\1/'); `
	resolve     = `curl -i "$OPERATOR/operator/dead-letters/$ID/resolve" ` + asOperator + asJSON + `-d `
	aDeadLetter = `curl -s ` + pay + `-H "Idempotency-Key: wrong-amount-$(date +%s)" ` +
		`-d '{"customerId":"cus-1","amountCents":12000,"currency":"USD","paymentMethod":"pm_wrong_amount"}'; ` +
		latest + resolve

	paymentID = `| sed 's/.*"paymentId":"\([^"]*\)".*/\1/'); `
	refund    = `curl -i "$BASE/payments/$ID/refunds" ` + asAcme + asJSON
)

// catalogue is in the order that All promises. It is only ever read.
//
// The curl lines make their keys from the clock, so that each run is a new operation, and each code has its own prefix.
// A test of cmd/demo runs each of them.
var catalogue = []Entry{
	{
		Code: IdempotencyKeyInvalid, Status: 400, Title: "The Idempotency-Key is malformed",
		Meaning: "A key has 16 to 255 printable ASCII characters without spaces or commas, bare or as a quoted string, " +
			"and is sent in one header. Values that look like an e-mail address or a card number are refused, because keys are kept. " +
			"So are values of fewer than four different characters: another operation could have the same.",
		WhatToDo: "Send a random value, best a UUID of version 7. The refused request has used up nothing.",
		Curl:     `curl -i ` + pay + `-H "Idempotency-Key: too-short" ` + order,
	},
	{
		Code: IdempotencyKeyMissing, Status: 400, Title: "The Idempotency-Key is missing",
		Meaning: "Every POST that moves money must carry an Idempotency-Key header. Without one, a retry could not be told " +
			"from a second payment.",
		WhatToDo: "Make one key per intended payment before the first attempt, store it with your order, and send the same key on every retry.",
		Curl:     `curl -i ` + pay + order,
	},
	{
		Code: InvalidRequest, Status: 400, Title: "The request is invalid",
		Meaning: "The body, a query parameter or a header breaks a rule of the OpenAPI document. Bodies are strict JSON: unknown, " +
			"repeated or differently-cased members, null for a required member, and floats or exponents where an integer belongs are refused.",
		WhatToDo: "Read errors: each entry names the place by a JSON pointer, a parameter or a header. Correct it and send the request " +
			"again; the key has not been used.",
		Curl: `curl -i ` + pay + `-H "Idempotency-Key: invalid-$(date +%s)" -d '{"customerId":"cus-1","amountCents":-5,"currency":"USD"}'`,
	},
	{
		Code: Unauthenticated, Status: 401, Title: "No valid API key",
		Meaning:  "The Authorization header is missing, is not a Bearer token, or its key is unknown or revoked.",
		WhatToDo: "Send Authorization: Bearer followed by your API key.",
		Curl:     `curl -i "$BASE/payments"`,
	},
	{
		Code: WebhookSignatureInvalid, Status: 401, Title: "The webhook is not signed as it must be",
		Meaning: "A webhook is taken only with the headers webhook-id, webhook-timestamp and webhook-signature of Standard Webhooks: " +
			"signed with a secret that counts at present, over the body as it came, and sent within five minutes of the " +
			"server's time. Nothing was stored of this one.",
		WhatToDo: "Sign id.timestamp.body with HMAC-SHA256 and the secret of this endpoint, and set the clock. " +
			"Each attempt has a timestamp of its own, and its own signature. Send the same webhook-id again.",
		Curl: `curl -i "$BASE/webhooks/psp" -H "Content-Type: application/json" -H "webhook-id: evt_forged" ` +
			`-H "webhook-timestamp: $(date +%s)" -H "webhook-signature: v1,Zm9yZ2Vk" -d '{"type":"charge.succeeded"}'`,
	},
	{
		Code: PaymentDeclined, Status: 402, Title: "The payment was declined",
		Meaning: "The payment provider was asked and refused the charge; declineCode says why. The refusal is this key's final " +
			"answer and is replayed byte for byte.",
		WhatToDo: "Ask the payer for another payment method, and pay with it under a new key.",
		Curl: `curl -i ` + pay + `-H "Idempotency-Key: declined-$(date +%s)" ` +
			`-d '{"customerId":"cus-1","amountCents":12000,"currency":"USD","paymentMethod":"pm_declined"}'`,
	},
	{
		Code: RefundDeclined, Status: 402, Title: "The refund was declined",
		Meaning: "The payment provider was asked and refused the refund; declineCode says why. The refusal is this key's final " +
			"answer and is replayed byte for byte. Nothing was returned to the payer.",
		WhatToDo: "Return the money in another way, or try another one under a new key when the reason has gone.",
		Curl: `ID=$(curl -s ` + pay + `-H "Idempotency-Key: to-refund-$(date +%s)" ` + order + ` ` + paymentID +
			refund + `-H "Idempotency-Key: refund-$(date +%s)" -d '{"reason":"pm_declined"}'`,
	},
	{
		Code: Forbidden, Status: 403, Title: "The API key lacks a scope",
		Meaning: "The API key is valid but may not do this. Reading needs payments:read, moving money needs payments:write. Operators " +
			"have keys of their own, with ops:read and ops:resolve; neither kind opens the other's side.",
		WhatToDo: "Use a key that has the scope, or have one created.",
		Curl: `curl -i "$BASE/payments" -H "Authorization: Bearer demo-acme-readonly-key" ` + asJSON +
			`-H "Idempotency-Key: forbidden-$(date +%s)" ` + order,
	},
	{
		Code: NotFound, Status: 404, Title: "Not found",
		Meaning: "There is no such payment, refund, key or route for your account. What belongs to another account looks exactly " +
			"the same as what does not exist.",
		WhatToDo: "Check the id and the API key. A key counts for one operation: pass ?operation= for those of refunds.",
		Curl:     `curl -i "$BASE/payments/pay_00000000000000000000000000" -H "Authorization: Bearer demo-acme-key"`,
	},
	{
		Code: MethodNotAllowed, Status: 405, Title: "The method is not allowed here",
		Meaning:  "The path exists but does not answer this method. The Allow header lists the ones that it does.",
		WhatToDo: "Use a method of the Allow header.",
		Curl:     `curl -i -X DELETE "$BASE/payments" -H "Authorization: Bearer demo-acme-key"`,
	},
	{
		Code: ActionNotApplicable, Status: 409, Title: "The action does not fit the dead letter",
		Meaning: "An operator's action makes no sense for this dead letter: executed and not_executed decide about an unknown key, and retry " +
			"needs something that can be tried again. Nothing has moved.",
		WhatToDo: "Read the dead letter with its timeline. When there is nothing left to do, dismiss it.",
		Curl: aDeadLetter + `'{"action":"executed","reason":"asked the provider","version":1}'; ` +
			`for I in $(seq 30); do ` + deadLetters + `| grep -q contradicts_completed && break; sleep 1; done; ` +
			latest + resolve + `'{"action":"executed","reason":"asked the provider","version":1}'`,
	},
	{
		Code: DeadLetterConflict, Status: 409, Title: "The dead letter is not what you have seen",
		Meaning: "Somebody else has resolved the dead letter, or its key has moved since the provider was asked. Of two operators exactly one " +
			"decides; nothing of the other's decision has happened.",
		WhatToDo: "Read the dead letter again. If it is still open, decide again, with the version that it has now.",
		Curl:     aDeadLetter + `'{"action":"retry","reason":"try again","version":99}'`,
	},
	{
		Code: DeadLetterNeedsDecision, Status: 409, Title: "The dead letter's key is still open",
		Meaning: "Nobody knows yet what became of the dead letter's key, so that dismissing the dead letter would leave a customer without an " +
			"answer. Nothing has moved.",
		WhatToDo: "Use retry, which asks the payment provider once more, or decide: executed or not_executed.",
		Curl:     aDeadLetter + `'{"action":"dismiss","reason":"not my business","version":1}'`,
	},
	{
		Code: GracePeriodOpen, Status: 409, Title: "It is too early to call it not executed",
		Meaning: "The provider knows nothing of the movement yet, but what was sent may still arrive there. Only after the grace period " +
			"does finding nothing prove anything. Nothing has moved.",
		WhatToDo: "Decide again after the grace period, which counts from when the key became unknown.",
		Unseen: "No test token leads to it. It needs a dead letter about a payment that the provider does not know, " +
			"and that within the grace period: 25 seconds in the demo.",
	},
	{
		Code: IdempotencyKeyInProgress, Status: 409, Title: "The first request with this key is still running",
		Retryable: true,
		Meaning:   "Another request with the same key and body is being executed at this moment. Nothing was done for this one.",
		WhatToDo: "Wait for as many seconds as Retry-After says and send the same request with the same key. Or send " +
			"Prefer: wait=10 to wait on the connection, or Prefer: respond-async to get a 202 at once.",
		Curl: `K=in-flight-$(date +%s); for I in 1 2; do curl -si ` + pay + `-H "Idempotency-Key: $K" ` +
			`-d '{"customerId":"cus-1","amountCents":12000,"currency":"USD","paymentMethod":"pm_slow"}' & sleep 0.5; done; wait`,
	},
	{
		Code: OperatorContradictsPSP, Status: 409, Title: "The payment provider says the opposite",
		Meaning: "The provider was asked just now, and what it says contradicts the decision: it knows the movement that was called not " +
			"executed, has declined the one that was called executed, or knows it under another id. Nothing has moved.",
		WhatToDo: "Use retry, which resolves the key by what the provider says. If the provider is wrong, it has to be put right there first.",
		Curl:     aDeadLetter + `'{"action":"not_executed","reason":"the customer says so","version":1}'`,
	},
	{
		Code: PaymentNotRefundable, Status: 409, Title: "The payment cannot be refunded",
		Meaning: "Only a payment with the status succeeded can be refunded. This one is still processing, was declined or has failed. " +
			"Or an operator has vouched for it, and the provider has named no charge that could be given back.",
		WhatToDo: "If the payment is processing, wait until it has succeeded. If an operator has vouched for it, ask them: the refund is made " +
			"at the provider. Otherwise there is nothing to give back.",
		Curl: `ID=$(curl -s ` + pay + `-H "Idempotency-Key: not-charged-$(date +%s)" ` +
			`-d '{"customerId":"cus-1","amountCents":12000,"currency":"USD","paymentMethod":"pm_declined"}' ` +
			paymentID +
			refund + `-H "Idempotency-Key: refuse-$(date +%s)" -d '{}'`,
	},
	{
		Code: RefundExceedsPayment, Status: 409, Title: "The refund is more than the payment has left",
		Meaning: "All refunds of a payment together may not exceed what was charged. Refunds that are still processing count too, " +
			"because they may have reached the payer.",
		WhatToDo: "Ask for no more than is left: amountCents less amountRefundedCents less what is still processing. Without amountCents, a refund returns the whole rest.",
		Curl: `ID=$(curl -s ` + pay + `-H "Idempotency-Key: to-exceed-$(date +%s)" ` + order + ` ` + paymentID +
			refund + `-H "Idempotency-Key: exceed-$(date +%s)" -d '{"amountCents":12001}'`,
	},
	{
		Code: IdempotencyKeyExpired, Status: 410, Title: "The key has expired",
		Meaning: "The key's answer was kept for the retention time and is no longer shown. A POST is told so only when its key was " +
			"never executed and has grown older than the payment provider's memory of it; otherwise a POST with an expired key is a new operation.",
		WhatToDo: "Look the payment up by its id. If there is nothing to look up and you still want to pay, use a new key.",
		Unseen: "The key has to be older than KEY_RETENTION, 48 hours by default. Start the demo with KEY_RETENTION=1m PSP_KEY_MEMORY=1m, pay, " +
			"and ask two minutes later for GET /idempotency-keys/ and the key.",
	},
	{
		Code: BodyTooLarge, Status: 413, Title: "The request body is too large",
		Meaning:  "A request body may have 16 KiB at most, and that of a webhook 64 KiB.",
		WhatToDo: "Send less: references belong in metadata, documents elsewhere.",
		Curl: `head -c 20000 /dev/zero | tr '\0' ' ' | curl -i ` + pay +
			`-H "Idempotency-Key: too-large-$(date +%s)" --data-binary @-`,
	},
	{
		Code: UnsupportedMediaType, Status: 415, Title: "The request body is not JSON",
		Meaning:  "Bodies are read as application/json only, encoded as UTF-8 and not compressed.",
		WhatToDo: "Send Content-Type: application/json.",
		Curl: `curl -i "$BASE/payments" -H "Authorization: Bearer demo-acme-key" -H "Content-Type: text/plain" ` +
			`-H "Idempotency-Key: no-json-$(date +%s)" -d 'customerId=cus-1'`,
	},
	{
		Code: IdempotencyKeyReusedWithDifferentPayload, Status: 422, Title: "The key belongs to another request",
		Meaning: "This key was already used for a request with another content. Nothing was done: neither the first request's " +
			"answer nor a new payment would be what you asked for.",
		WhatToDo: "If this is a new payment, send it under a new key. If it is a retry, send exactly what you sent before. " +
			"Spelling differences of the JSON do not matter, values do.",
		Curl: `K=reused-$(date +%s); for A in 12000 13000; do curl -i ` + pay + `-H "Idempotency-Key: $K" ` +
			`-d "{\"customerId\":\"cus-1\",\"amountCents\":$A,\"currency\":\"USD\"}"; done`,
	},
	{
		Code: RateLimited, Status: 429, Title: "Too many requests", Retryable: true,
		Meaning:  "Your account has sent more requests than it may in this time. The key was not used.",
		WhatToDo: "Wait for as many seconds as Retry-After says, then send the same request with the same key.",
		Curl:     `curl -s -Z "$BASE/payments?limit=1#[1-400]" ` + asGuest + `| grep rate_limited | head -n 1`,
	},
	{
		Code: InternalError, Status: 500, Title: "Internal error", Retryable: true,
		Meaning: "Something went wrong that the service did not foresee. What happened to the payment is kept under its key; " +
			"the answer says nothing about the inside.",
		WhatToDo: "Send the same request with the same key: it never charges twice. Quote X-Request-Id when you report it.",
		Unseen:   "It takes a mistake in the program, and no request is known that meets one.",
	},
	{
		Code: IdempotencyStoreUnavailable, Status: 503, Title: "The key store is unavailable", Retryable: true,
		Meaning: "The database that remembers keys cannot be reached or cannot take more. Without it nobody may charge, so " +
			"the payment provider was not asked.",
		WhatToDo: "Wait for as many seconds as Retry-After says, then send the same request with the same key.",
		Unseen:   "It takes a database that is down, full or too slow: no request alone does that. Stop PostgreSQL while the API runs, and pay.",
	},
	{
		Code: PSPUnavailable, Status: 503, Title: "The payment provider is unavailable", Retryable: true,
		Meaning: "The payment provider could not be reached, and it is certain that it has not charged: the request was never sent. " +
			"To an operator it says that the provider did not answer, so that there is no fresh proof.",
		WhatToDo: "Wait for as many seconds as Retry-After says, then send the same request with the same key. It is executed again.",
		Curl: `seq 100 | xargs -P 100 -I {} curl -s ` + pay + `-H "Idempotency-Key: crowded-$(date +%s)-{}" ` +
			`-d '{"customerId":"cus-1","amountCents":12000,"currency":"USD","paymentMethod":"pm_slow"}' | grep psp_unavailable | head -n 1`,
	},
	{
		Code: ShuttingDown, Status: 503, Title: "The server is shutting down", Retryable: true,
		Meaning:  "This server takes no new work while it finishes what it has begun. Nothing was done for this request.",
		WhatToDo: "Wait for as many seconds as Retry-After says, then send the same request with the same key: another server, or the same one after its restart, will take it.",
		Unseen:   "Only a process that is about to end answers so, on connections that were open before. Stop the API while clients send to it.",
	},
	{
		Code: WebhooksNotConfigured, Status: 503, Title: "Webhooks are not configured", Retryable: true,
		Meaning: "This server has no webhook secret, so it cannot tell a genuine webhook from a forged one, and takes none. " +
			"Payments are resolved by polling all the same.",
		WhatToDo: "Send the webhook again later. The operator of the server has to give it the secret that the payment provider signs with.",
		Unseen:   "The demo has webhook secrets. A server without WEBHOOK_SECRETS answers every POST /webhooks/psp with this problem.",
	},
}
