package problem

// The parts that several curl lines share.
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

// ofRequests are the problems of requests, with a status from 400 to 499, in the order that All promises. They are only
// ever read.
//
// The curl lines make their keys from the clock, so that each run is a new operation, and each code has its own prefix.
// A test of demo/supervisor runs each of them.
var ofRequests = []Entry{
	{
		Code: IdempotencyKeyInvalid, Status: 400, Title: "The Idempotency-Key is malformed",
		Meaning: "A key has 16 to 255 printable ASCII characters without spaces or commas. The key is sent in " +
			"one header, with or without quotes. The server stores keys, so it refuses a key that looks like an " +
			"e-mail address or a card number. It refuses a key with fewer than four different characters, because " +
			"another operation could have the same key. It also refuses a key that ends in .g and digits, because " +
			"it needs this ending itself.",
		WhatToDo: "Send a random value. A UUID of version 7 is best. This request has not used the key.",
		Curl:     `curl -i ` + pay + `-H "Idempotency-Key: too-short" ` + order,
	},
	{
		Code: IdempotencyKeyMissing, Status: 400, Title: "The Idempotency-Key is missing",
		Meaning: "Every POST that moves money must have an Idempotency-Key header. Without this header, the " +
			"server could not distinguish a retry from a second payment.",
		WhatToDo: "Make one key for each payment that you intend. Make the key before the first attempt, and " +
			"store it with your order. Send the same key on every retry.",
		Curl: `curl -i ` + pay + order,
	},
	{
		Code: InvalidRequest, Status: 400, Title: "The request is invalid",
		Meaning: "The body, a query parameter or a header breaks a rule of the OpenAPI document. A body is " +
			"strict JSON. The server refuses members that are unknown or repeated, or that have other upper-case " +
			"and lower-case letters. It refuses null, and it refuses decimals and exponents in an integer.",
		WhatToDo: "Read errors. Each entry names the place of one mistake: a JSON pointer, a parameter or a " +
			"header. Correct the mistakes and send the request again. This request has not used the key. An earlier " +
			"request with the same key may have.",
		Curl: `curl -i ` + pay + `-H "Idempotency-Key: invalid-$(date +%s)" -d '{"customerId":"cus-1","amountCents":-5,"currency":"USD"}'`,
	},
	{
		Code: Unauthenticated, Status: 401, Title: "No valid API key",
		Meaning: "The Authorization header is missing or has no Bearer token, or the API key is unknown or has " +
			"ended.",
		WhatToDo: "Send the header Authorization with the word Bearer, a space and your API key.",
		Curl:     `curl -i "$BASE/payments"`,
	},
	{
		Code: WebhookSignatureInvalid, Status: 401, Title: "The webhook cannot be verified",
		Meaning: "A webhook at /webhooks/psp must have the headers webhook-id, webhook-timestamp and " +
			"webhook-signature of Standard Webhooks. A webhook at /webhooks/stripe must have the header " +
			"Stripe-Signature. WWW-Authenticate names the signature that this path needs. The signature must be made " +
			"with an active secret, over the exact bytes of the body. The timestamp may differ from the server's time " +
			"by five minutes at most. This webhook breaks one of these rules. The server stored nothing of it.",
		WhatToDo: "Sign with HMAC-SHA256 and the secret of this endpoint: id.timestamp.body for /webhooks/psp, and " +
			"timestamp.body for /webhooks/stripe. Check that your clock is right. Make a new timestamp and a new " +
			"signature for each attempt. Send the webhook again with the same id.",
		Curl: `curl -i "$BASE/webhooks/psp" -H "Content-Type: application/json" -H "webhook-id: evt_forged" ` +
			`-H "webhook-timestamp: $(date +%s)" -H "webhook-signature: v1,Zm9yZ2Vk" -d '{"type":"charge.succeeded"}'`,
	},
	{
		Code: PaymentDeclined, Status: 402, Title: "The payment was declined", NewKeySafe: true,
		Meaning: "The payment provider was asked, and it refused the charge. declineCode says why. The refusal " +
			"is the final answer for this key. The server replays it byte for byte.",
		WhatToDo: "Ask the payer for another payment method. Pay with that method under a new key.",
		Curl: `curl -i ` + pay + `-H "Idempotency-Key: declined-$(date +%s)" ` +
			`-d '{"customerId":"cus-1","amountCents":12000,"currency":"USD","paymentMethod":"pm_declined"}'`,
	},
	{
		Code: RefundDeclined, Status: 402, Title: "The refund was declined", NewKeySafe: true,
		Meaning: "The payment provider was asked, and it refused the refund. declineCode says why. The refusal " +
			"is the final answer for this key. The server replays it byte for byte. No money was returned under " +
			"this key. If declineCode is already_returned_or_held, money of the payment has been returned, or is " +
			"being returned, or is held for a dispute: somebody has done that at the provider.",
		WhatToDo: "If declineCode is already_returned_or_held, do not return the money in another way: the payer " +
			"would get it twice. An operator has the case. Otherwise, return it in another way, or remove the cause of " +
			"the refusal and send another refund under a new key.",
		Curl: `ID=$(curl -s ` + pay + `-H "Idempotency-Key: to-refund-$(date +%s)" ` + order + ` ` + paymentID +
			refund + `-H "Idempotency-Key: refund-$(date +%s)" -d '{"reason":"pm_declined"}'`,
	},
	{
		Code: Forbidden, Status: 403, Title: "The API key lacks a scope",
		Meaning: "The API key is valid, but it does not have the scope that this request needs. Reading needs " +
			"payments:read. Moving money and changing endpoints need payments:write. Operators have their own API " +
			"keys, with the scopes ops:read and ops:resolve. An operator's API key cannot pay, and an account's API key cannot use " +
			"the operator API.",
		WhatToDo: "Use an API key that has the scope, or create such an API key.",
		Curl: `curl -i "$BASE/payments" -H "Authorization: Bearer demo-acme-readonly-key" ` + asJSON +
			`-H "Idempotency-Key: forbidden-$(date +%s)" ` + order,
	},
	{
		Code: NotFound, Status: 404, Title: "Not found",
		Meaning: "Your account has no such payment, refund, key, endpoint or event, or the path does not exist. If " +
			"another account has it, the answer is exactly the same.",
		WhatToDo: "Check the id and the API key. An Idempotency-Key belongs to one operation. To find the key of " +
			"a refund, send the query parameter operation.",
		Curl: `curl -i "$BASE/payments/pay_00000000000000000000000000" -H "Authorization: Bearer demo-acme-key"`,
	},
	{
		Code: MethodNotAllowed, Status: 405, Title: "The method is not allowed here",
		Meaning: "The path exists, but it does not have this method. The Allow header lists the methods of the " +
			"path.",
		WhatToDo: "Use a method from the Allow header.",
		Curl:     `curl -i -X DELETE "$BASE/payments" -H "Authorization: Bearer demo-acme-key"`,
	},
	{
		Code: ActionNotApplicable, Status: 409, Title: "The action does not fit the dead letter",
		Meaning: "The operator's action is not possible for this dead letter. The actions executed and " +
			"not_executed are for an unknown key. The action retry needs a lookup, a job, a webhook or a record " +
			"that can be processed again. Nothing was changed.",
		WhatToDo: "Read the detail and the dead letter with its timeline. If there is nothing left to do, " +
			"dismiss the dead letter.",
		Curl: aDeadLetter + `'{"action":"executed","reason":"asked the provider","version":1}'; ` +
			`for I in $(seq 30); do ` + deadLetters + `| grep -q contradicts_completed && break; sleep 1; done; ` +
			latest + resolve + `'{"action":"executed","reason":"asked the provider","version":1}'`,
	},
	{
		Code: DeadLetterConflict, Status: 409, Title: "The dead letter has changed",
		Meaning: "Another operator has resolved the dead letter, or its version is not the version in the " +
			"request, or its key has changed since the payment provider was asked. If two operators decide at the " +
			"same time, exactly one decision is carried out. Your decision has changed nothing.",
		WhatToDo: "Read the dead letter again. If the dead letter is still open, decide again and send its " +
			"current version.",
		Curl: aDeadLetter + `'{"action":"retry","reason":"try again","version":99}'`,
	},
	{
		Code: DeadLetterNeedsDecision, Status: 409, Title: "The dead letter's key has no outcome yet",
		Meaning: "The dead letter's key is unknown or in progress. If the dead letter were dismissed now, the " +
			"client could stay without an answer. Nothing was changed.",
		WhatToDo: "If the key is in progress, wait. If the key is unknown, use retry, which asks the payment " +
			"provider again. Or decide that the key was executed or not_executed.",
		Curl: aDeadLetter + `'{"action":"dismiss","reason":"not my business","version":1}'`,
	},
	{
		Code: EventsOff, Status: 409, Title: "No events are written for this account",
		Meaning: "Events are written only for an account that has switched on the feed or has an endpoint. This " +
			"account has neither, so its feed would stay empty.",
		WhatToDo: "Send PUT /events/feed with enabled true, or make an endpoint. Events begin then. There are no events " +
			"of changes from before.",
		Curl: `curl -s -X PUT "$BASE/events/feed" ` + asGuest + asJSON + `-d '{"enabled":false}'; ` +
			`curl -i "$BASE/events" ` + asGuest,
	},
	{
		Code: GracePeriodOpen, Status: 409, Title: "It is too early to decide not executed",
		Meaning: "The payment provider does not know the charge or refund. But the request may still arrive at " +
			"the provider. Before the end of the grace period, a lookup that finds nothing proves nothing. Nothing " +
			"was changed.",
		WhatToDo: "Decide again after the grace period. The grace period begins when the key becomes unknown.",
		Unseen: "No test token leads to this problem. It needs a dead letter about a payment that the provider " +
			"does not know, and a decision within the grace period. In the demo, the grace period is 25 seconds.",
	},
	{
		Code: IdempotencyKeyHeld, Status: 409, Title: "Money has moved under this key, and a person is looking at it",
		Retryable: true,
		Meaning: "The payment provider has moved money under this key, and the server cannot tell for which payment. " +
			"The server may have lost the payment, or has called it not executed before. An operator decides. " +
			"Until then, the server executes nothing under this key.",
		WhatToDo: "Do not pay with a new key: the customer may have been charged. Send the same request with the " +
			"same key again, after the seconds in Retry-After or later. If it takes too long, ask the operator.",
		Curl: `K=held-key-$(date +%s); curl -s "$PSP/v1/charges" -H "Authorization: Bearer demo-psp-secret" -H "PSP-Account: acme" ` +
			asJSON + `-H "Idempotency-Key: $K" -d '{"amountCents":900,"currency":"USD","paymentMethod":"pm_ok","reference":"lost"}'; ` +
			`for I in $(seq 30); do curl -s "$BASE/idempotency-keys/$K" ` + asAcme +
			`| grep -q _held && break; sleep 1; done; curl -i ` + pay + `-H "Idempotency-Key: $K" ` + order,
	},
	{
		Code: IdempotencyKeyInProgress, Status: 409, Title: "The first request with this key is still running",
		Retryable: true,
		Meaning: "Another request with the same key and body is being executed now. The server did nothing for " +
			"this second request. It has waited for the first one for some seconds (IN_FLIGHT_WAIT), unless too many " +
			"requests wait.",
		WhatToDo: "Wait for the seconds in Retry-After. Then send the same request with the same key. With the " +
			"header Prefer: wait=10, the server waits up to 10 seconds for the first request. With Prefer: wait=0, it " +
			"answers this 409 at once, and with Prefer: respond-async, 202.",
		Curl: `K=in-flight-$(date +%s); for I in 1 2; do curl -si ` + pay +
			`-H "Idempotency-Key: $K" -H "Prefer: wait=0" ` +
			`-d '{"customerId":"cus-1","amountCents":12000,"currency":"USD","paymentMethod":"pm_slow"}' & sleep 0.5; done; wait`,
	},
	{
		Code: OperatorContradictsPSP, Status: 409, Title: "The payment provider contradicts the decision",
		Meaning: "The server has just asked the payment provider, and the answer contradicts the decision. " +
			"Either the operator decided not_executed, but the provider knows the charge or refund. Or the operator " +
			"decided executed, but the provider declined the charge or refund, or knows it under another id. " +
			"Nothing was changed.",
		WhatToDo: "Use retry, which resolves the key from the provider's answer. If the provider's record is " +
			"wrong, the provider must correct its record first.",
		Curl: aDeadLetter + `'{"action":"not_executed","reason":"the customer says so","version":1}'`,
	},
	{
		Code: PaymentNotRefundable, Status: 409, Title: "The payment cannot be refunded",
		Meaning: "Only a payment with the status succeeded can be refunded. This payment is processing, declined " +
			"or failed. Or an operator decided that the payment was executed, and the provider does not show its " +
			"charge to the server.",
		WhatToDo: "If the payment is processing, wait until it has succeeded. If an operator decided that the " +
			"payment was executed, ask the operator to refund the charge at the provider. If the payment is " +
			"declined or failed, no money was charged.",
		Curl: `ID=$(curl -s ` + pay + `-H "Idempotency-Key: not-charged-$(date +%s)" ` +
			`-d '{"customerId":"cus-1","amountCents":12000,"currency":"USD","paymentMethod":"pm_declined"}' ` +
			paymentID +
			refund + `-H "Idempotency-Key: refuse-$(date +%s)" -d '{}'`,
	},
	{
		Code: RefundExceedsPayment, Status: 409, Title: "The refund is larger than the rest of the payment",
		Meaning: "All refunds of a payment together must not exceed the charged amount. A refund that is still " +
			"processing counts, too, and what others have moved at the provider: a refund in its dashboard, a dispute.",
		WhatToDo: "The rest is amountCents minus amountRefundedCents minus amountDisputedCents minus the " +
			"refunds that are still processing. A refund without amountCents returns the whole rest.",
		Curl: `ID=$(curl -s ` + pay + `-H "Idempotency-Key: to-exceed-$(date +%s)" ` + order + ` ` + paymentID +
			refund + `-H "Idempotency-Key: exceed-$(date +%s)" -d '{"amountCents":12001}'`,
	},
	{
		Code: TooManyEndpoints, Status: 409, Title: "The account has as many endpoints as are possible",
		Meaning:  "An account has 20 endpoints at most. Nothing was made.",
		WhatToDo: "Delete an endpoint that you do not need. One endpoint may get all types of events.",
		Curl: `MADE=$(for I in $(seq 21); do curl -s "$BASE/webhook-endpoints" ` + asAcme + asJSON +
			`-d '{"url":"https://shop.invalid/events","eventTypes":["dispute.closed"]}'; done); ` +
			`echo "$MADE" | grep too_many_endpoints; for I in $(echo "$MADE" | grep -o 'we_[0-9a-z]*'); ` +
			`do curl -s -X DELETE "$BASE/webhook-endpoints/$I" ` + asAcme + `; done`,
	},
	{
		Code: EventGone, Status: 410, Title: "The event is not in the feed any more",
		Meaning: "The feed has no event with the id that is given as after. The event is older than the retention " +
			"time, or the server was restored from a backup that does not have it. So the server cannot tell what " +
			"comes after it. Or the account had neither the feed nor an endpoint for some time after the event, so " +
			"what changed then has no events.",
		WhatToDo: "Read the feed without after: it begins with the oldest event that is kept. You get events a second " +
			"time. Of each payment, refund and dispute, keep what has the greatest version. If the detail says that no " +
			"events were written for some time, list the payments, too.",
		Curl: `curl -s -X PUT "$BASE/events/feed" ` + asAcme + asJSON + `-d '{"enabled":true}'; ` +
			`curl -i "$BASE/events?after=evt_00000000000000000000000000_1" ` + asAcme,
	},
	{
		Code: IdempotencyKeyExpired, Status: 410, Title: "The key has expired",
		Meaning: "The retention time of the key is over, so the server no longer shows the stored answer. A POST " +
			"gets this problem only if the key was released and is so old that the payment provider may have " +
			"forgotten it. Any other POST with an expired key is a new operation.",
		WhatToDo: "Read the payment by its id. Before you pay with a new key, a person has to make sure that nothing " +
			"was charged.",
		Unseen: "The key must be older than KEY_RETENTION, which is 48 hours by default. Start the demo with " +
			"KEY_RETENTION=1m PSP_KEY_MEMORY=1m, and pay. Two minutes later, send GET /idempotency-keys/ with the " +
			"key at the end of the path.",
	},
	{
		Code: BodyTooLarge, Status: 413, Title: "The request body is too large",
		Meaning:  "A request body has 16 KiB at most. The body of a webhook has 1 MiB at most.",
		WhatToDo: "Send a smaller body. Put references into metadata, and store documents in another place.",
		Curl: `head -c 20000 /dev/zero | tr '\0' ' ' | curl -i ` + pay +
			`-H "Idempotency-Key: too-large-$(date +%s)" --data-binary @-`,
	},
	{
		Code: UnsupportedMediaType, Status: 415, Title: "The request body is not JSON",
		Meaning:  "The body must be application/json, encoded as UTF-8 and not compressed.",
		WhatToDo: "Send the header Content-Type: application/json, and no Content-Encoding.",
		Curl: `curl -i "$BASE/payments" -H "Authorization: Bearer demo-acme-key" -H "Content-Type: text/plain" ` +
			`-H "Idempotency-Key: no-json-$(date +%s)" -d 'customerId=cus-1'`,
	},
	{
		Code: IdempotencyKeyReusedWithDifferentPayload, Status: 422, Title: "The key belongs to another request",
		Meaning: "The key was first used for a request with other content. The server did nothing, because " +
			"neither the first request's answer nor a new payment would be right.",
		WhatToDo: "If this is a new payment, use a new key. If this is a retry, send the same content as before. " +
			"The order of the members, the spaces and the escapes in the JSON may differ. The values must be the " +
			"same.",
		Curl: `K=reused-$(date +%s); for A in 12000 13000; do curl -i ` + pay + `-H "Idempotency-Key: $K" ` +
			`-d "{\"customerId\":\"cus-1\",\"amountCents\":$A,\"currency\":\"USD\"}"; done`,
	},
	{
		Code: RateLimited, Status: 429, Title: "Too many requests", Retryable: true,
		Meaning: "Your account has sent more requests than its rate limit allows, or is reading many lists of " +
			"payments at the same time. This request has not used the key. An earlier request with the same key may have.",
		WhatToDo: "Wait for the seconds in Retry-After. Then send the same request with the same key.",
		Curl:     `curl -s -Z "$BASE/payments?limit=1#[1-400]" ` + asGuest + `| grep rate_limited | head -n 1`,
	},
}
