package contract_test

import (
	"maps"
	"strings"

	"payonce/internal/problem"
)

// lie is a change to an honest exchange, and a part of the complaint that it must cause.
type lie struct {
	honest exchange
	change func(*exchange)
	want   string
}

func lies() map[string]lie {
	all := liesAboutAnswers()
	maps.Copy(all, liesInProblems())
	maps.Copy(all, liesByLaxServers())
	return all
}

// set, drop, say, send and post are the ways to lie.

func set(name, value string) func(*exchange) {
	return func(e *exchange) { e.received[name] = value }
}

func drop(name string) func(*exchange) {
	return func(e *exchange) { delete(e.received, name) }
}

func say(old, updated string) func(*exchange) {
	return func(e *exchange) { e.answer = strings.ReplaceAll(e.answer, old, updated) }
}

func send(name, value string) func(*exchange) {
	return func(e *exchange) { e.sent[name] = value }
}

func post(body string) func(*exchange) {
	return func(e *exchange) { e.body = body }
}

func liesAboutAnswers() map[string]lie {
	busy := refused("/payments", problem.IdempotencyKeyInProgress)
	declined := refused("/payments", problem.PaymentDeclined)
	return map[string]lie{
		"undocumented status": {paid(), func(e *exchange) { e.status = 200 }, "no such status"},
		"undocumented error":  {paid(), func(e *exchange) { e.status = 418 }, "no such status"},
		"status of no route": {paid(), func(e *exchange) { e.path = "/nowhere" },
			"no such status for elsewhere"},
		"no request id":      {paid(), drop("X-Request-Id"), "X-Request-Id is missing"},
		"no location":        {paid(), drop("Location"), "Location is missing"},
		"location elsewhere": {paid(), set("Location", "/payments/1"), "header Location"},
		"no echo":            {paid(), drop("Idempotency-Key"), "Idempotency-Key is missing"},
		"another echo":       {paid(), set("Idempotency-Key", "another-key-00001"), "was sent"},
		"replayed maybe":     {paid(), set("Idempotent-Replayed", "maybe"), "header Idempotent-Replayed"},
		"expires in seconds": {paid(), set("Idempotency-Key-Expires", "172800"),
			"header Idempotency-Key-Expires"},
		"retry after a date":     {busy, set("Retry-After", "soon"), "no integer"},
		"retry at once":          {busy, set("Retry-After", "0"), "header Retry-After"},
		"no retry after":         {busy, drop("Retry-After"), "Retry-After is missing"},
		"409 as a replay":        {busy, set("Idempotent-Replayed", "true"), "claims to be a replay"},
		"wrong media type":       {paid(), set("Content-Type", "text/plain"), "media type of the answer"},
		"no media type":          {paid(), drop("Content-Type"), "media type of the answer"},
		"problem as plain JSON":  {declined, set("Content-Type", "application/json"), "media type of the answer"},
		"unknown member":         {paid(), say(`{"paymentId"`, `{"extra":1,"paymentId"`), "extra"},
		"missing member":         {paid(), say(`"amount":"12000",`, ``), "amount"},
		"null member":            {paid(), say(`"ch_1"`, `null`), "pspChargeId"},
		"repeated member":        {paid(), say(`{"paymentId"`, `{"status":"failed","paymentId"`), "no valid JSON"},
		"not JSON":               {paid(), func(e *exchange) { e.answer = "OK" }, "no valid JSON"},
		"wrong status member":    {paid(), say("succeeded", "processing"), "/status"},
		"success without charge": {paid(), say(`"pspChargeId":"ch_1",`, ``), "pspChargeId"},
		"local time":             {paid(), say("00.123456Z", "00.123456+09:00"), "/createdAt"},
		"time without micros":    {paid(), say("00.123456Z", "00Z"), "/createdAt"},
		"month thirteen":         {paid(), say("2026-11-20T", "2026-13-20T"), "/createdAt"},
		"fraction of a cent":     {paid(), say("12000,", "12000.5,"), "/amountCents"},
		"more pages without cursor": {read("/payments", `{"data":[],"hasMore":false}`), say("false", "true"),
			"nextCursor"},
		"completed without response": {read("/idempotency-keys/"+key, inProgress), say("in_progress", "completed"),
			"response"},
		"document as JSON": {
			read("/openapi.yaml", ""), func(e *exchange) { e.status = 200; e.received["ETag"] = `"1"` }, "media type",
		},
	}
}

func liesInProblems() map[string]lie {
	busy := refused("/payments", problem.IdempotencyKeyInProgress)
	declined := refused("/payments", problem.PaymentDeclined)
	return map[string]lie{
		"code of another status": {declined, say("payment_declined", "refund_declined"),
			"is not documented for it"},
		"unknown code":   {declined, say("payment_declined", "no_money"), "not in the catalogue"},
		"status differs": {declined, say(`"status":402`, `"status":400`), "says status 400"},
		"type of another code": {declined, say("/problems/payment_declined", "/problems/not_found"),
			"does not lead"},
		"another title": {declined, say("The payment was declined", "Sorry"), "differ from the catalogue"},
		"retryable": {declined, say(`"retryable":false`, `"retryable":true`),
			"differ from the catalogue"},
		"newKeySafe": {declined, say(`"newKeySafe":true`, `"newKeySafe":false`),
			"newKeySafe differ from the catalogue"},
		"decline of another payment": {declined, say(`"instance":"/payments/pay_0`, `"instance":"/payments/pay_1`),
			"identifies neither"},
		"instance of another":      {busy, say("#req-1", "#req-2"), "identifies neither"},
		"decline without a reason": {declined, say(`,"declineCode":"insufficient_funds"`, ``), "declineCode"},
		"error without a place": {
			refused("/payments", problem.InvalidRequest), say(`"pointer":"",`, ``), "/errors/0",
		},
		"two places for one error": {
			refused("/payments", problem.InvalidRequest), say(`"pointer":"",`, `"pointer":"","header":"Prefer",`),
			"/errors/0",
		},
	}
}

// liesByLaxServers are answers to requests that should have been refused.
func liesByLaxServers() map[string]lie {
	return map[string]lie{
		"took no API key": {paid(), send("Authorization", ""), "without an API key"},
		"took no key": {paid(), func(e *exchange) {
			delete(e.sent, "Idempotency-Key")
			delete(e.received,
				"Idempotency-Key")
		}, "header parameter Idempotency-Key is missing"},
		"took a short key": {paid(), send("Idempotency-Key", "short"), "header parameter Idempotency-Key"},
		"took two keys":    {paid(), send("Idempotency-Key", key+"\nanother-key-00001"), "is repeated"},
		"took an unknown member": {paid(), post(`{"customerId":"c","amountCents":1,"currency":"KRW","x":1}`),
			"additional properties"},
		"took another case": {paid(), post(`{"CustomerId":"c","amountCents":1,"currency":"KRW"}`), "customerId"},
		"took a repeated member": {paid(), post(`{"customerId":"c","customerId":"c","amountCents":1,"currency":"KRW"}`),
			"no valid JSON"},
		"took zero": {paid(), post(`{"customerId":"c","amountCents":0,"currency":"KRW"}`), "/amountCents"},
		"took too much": {paid(), post(`{"customerId":"c","amountCents":1000000000000,"currency":"KRW"}`),
			"/amountCents"},
		"took a long name": {
			paid(), post(`{"customerId":"c","amountCents":1,"currency":"KRW","metadata":{"` + strings.Repeat("n", 41) +
				`":"v"}}`), "invalid propertyName",
		},
		"took no body": {paid(), post(""), "no valid JSON"},
		"took a form": {paid(), send("Content-Type", "application/x-www-form-urlencoded"),
			"media type of the request"},
		"took a limit": {read("/payments?limit=101", `{"data":[],"hasMore":false}`), func(*exchange) {},
			"query parameter limit"},
		"took a word for it": {read("/payments?limit=many", `{"data":[],"hasMore":false}`), func(*exchange) {},
			"no integer"},
		"took an unknown filter": {read("/payments?colour=red", `{"data":[],"hasMore":false}`), func(*exchange) {},
			"no query parameter colour"},
		"took another id": {read("/payments/1", payment), func(*exchange) {}, "path parameter paymentId"},
		"took a body":     {read("/payments", `{"data":[],"hasMore":false}`), post("x"), "no request body"},
	}
}
