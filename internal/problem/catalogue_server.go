package problem

// ofServer are the problems of the server, with a status of 500 or more, in the order that All promises. They are only
// ever read.
var ofServer = []Entry{
	{
		Code: InternalError, Status: 500, Title: "Internal error", Retryable: true,
		Meaning: "The server has failed in an unexpected way. It keeps the state of the payment under the key. " +
			"The answer has no internal details.",
		WhatToDo: "Send the same request with the same key. The payer is never charged twice. If you report the " +
			"problem, quote X-Request-Id.",
		Unseen: "Only an unexpected failure leads to this problem. No request is known that does so.",
	},
	{
		Code: IdempotencyStoreUnavailable, Status: 503, Title: "The key store is unavailable", Retryable: true,
		Meaning: "The database that stores the keys cannot be reached, is full or is too slow. Nobody may charge " +
			"without this database, so the server did not ask the payment provider for this request.",
		WhatToDo: "Wait for the seconds in Retry-After. Then send the same request with the same key.",
		Unseen: "The database must be down, full or too slow, and no single request causes that. Stop PostgreSQL " +
			"while the API runs, and pay.",
	},
	{
		Code: PSPUnavailable, Status: 503, Title: "The payment provider is unavailable", Retryable: true,
		Meaning: "It is certain that the provider has not charged. Either the request was never sent, or the provider " +
			"says that it has not executed the payment and never will. If an operator's decision gets this problem, the provider did not answer " +
			"the server's lookup, so there is no proof for the decision.",
		WhatToDo: "Wait for the seconds in Retry-After. Then send the same request with the same key. The server " +
			"executes the request again.",
		Curl: `seq 100 | xargs -P 100 -I {} curl -s ` + pay + `-H "Idempotency-Key: crowded-$(date +%s)-{}" ` +
			`-d '{"customerId":"cus-1","amountCents":12000,"currency":"USD","paymentMethod":"pm_slow"}' | grep psp_unavailable | head -n 1`,
	},
	{
		Code: ShuttingDown, Status: 503, Title: "The server is shutting down", Retryable: true,
		Meaning: "The server finishes the requests that have begun, and accepts no new requests. The server did " +
			"nothing for this request.",
		WhatToDo: "Wait for the seconds in Retry-After. Then send the same request with the same key. Another " +
			"server, or this server after its restart, answers the request.",
		Unseen: "Only a process that is about to end gives this answer, on connections that were already open. " +
			"Stop the API while clients send requests.",
	},
	{
		Code: WebhooksNotConfigured, Status: 503, Title: "Webhooks are not configured", Retryable: true,
		Meaning: "This server has no webhook secret for this path, so it cannot distinguish a genuine webhook from " +
			"a forged webhook. It accepts no webhooks at this path. Lookups still resolve unknown payments.",
		WhatToDo: "Send the webhook again later. The operator of the server must set the secret that the payment " +
			"provider signs with: WEBHOOK_SECRETS for /webhooks/psp, STRIPE_WEBHOOK_SECRETS for /webhooks/stripe.",
		Unseen: "The demo has webhook secrets. A server without WEBHOOK_SECRETS answers every POST /webhooks/psp " +
			"with this problem, and a server without STRIPE_WEBHOOK_SECRETS every POST /webhooks/stripe.",
	},
}
