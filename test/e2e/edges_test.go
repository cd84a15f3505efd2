package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	createOperation = "POST /payments"
	refundOperation = "POST /payments/{id}/refunds"
)

// inspect reads a key as the API shows it.
func (w *world) inspect(key, operation string) reply {
	w.t.Helper()
	path := "/idempotency-keys/" + url.PathEscape(key)
	if operation != "" {
		path += "?operation=" + url.QueryEscape(operation)
	}
	return w.do(call{method: "GET", path: path})
}

// heldPayment is a payment whose owner waits at the PSP until the gate is opened.
func heldPayment(
	t *testing.T, method string, with ...func(*options),
) (w *world, g *gate, key string, owner <-chan reply) {
	t.Helper()
	g = newGate()
	with = append(with, func(o *options) {
		between := o.between
		o.between = func(psp http.Handler) http.Handler { return g.wrap(between(psp)) }
	})
	w = setup(t, with...)
	key = freshKey()
	owner = w.inBackground(paymentOf(key, method))
	g.awaitArrival(t)
	return w, g, key, owner
}

// loseLease has another request find the lease of a key over.
func (w *world) loseLease(key, method string) {
	w.t.Helper()
	w.endLease(key)
	w.pay(key, method).expect(w.t, http.StatusAccepted, "")
	if k := w.keyRow(key); k.Status != "unknown" {
		w.t.Fatalf("key is %+v", k)
	}
}

// Somebody else, with evidence of the PSP's verdict, has completed the key while its owner was waiting. The owner's own
// answer is not needed any more, whatever it is.
func TestOwnerAnswersWhatWasStoredMeanwhile(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"pm_ok", "pm_declined", "pm_500_charged"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			w, gate, key, owner := heldPayment(t, method)
			id := w.do(preferring(paymentOf(key, method), "wait=0")).text(t, "paymentId")
			stored := fmt.Sprintf(`{"paymentId":%q,"status":"succeeded","customerId":"cus-1","amountCents":12000,"currency":"USD","amount":"120.00",`+
				`"paymentMethod":%q,"pspChargeId":"ch_evidence","amountRefundedCents":0,"createdAt":"2026-11-20T00:00:00.000000Z"}`, id, method)
			w.exec(`WITH completed AS (
				UPDATE idempotency_keys SET status = 'completed', locked_until = NULL, finished_at = payonce_now(), response_status = 201,
					response_content_type = 'application/json', response_location = $2, response_schema_version = 1, response_body = $3
				WHERE key = $1 RETURNING subject)
				UPDATE payments SET status = 'succeeded', psp_charge_id = 'ch_evidence' FROM completed WHERE id = subject`, key, "/payments/"+id, []byte(stored))
			gate.open()
			r := <-owner
			r.expect(t, http.StatusCreated, "")
			if string(r.body) != stored || r.header.Get("Idempotent-Replayed") != "false" ||
				r.header.Get("Location") != "/payments/"+id {
				t.Fatalf("the owner answers %v %s", r.header, r.body)
			}
			w.pay(key, method).same(t, r)
			if n := w.count("SELECT count(*) FROM payments WHERE status = 'succeeded' AND psp_charge_id = 'ch_evidence' AND decline_code IS NULL"); n != 1 {
				t.Fatal("an owner that was fenced off has written to the payment")
			}
			if n := w.metric("payonce_fenced_writes_total"); n != 1 {
				t.Fatalf("%d writes were counted as fenced, want 1", n)
			}
			w.transitions(key)
		})
	}
}

// wantDeadLetter wants one open dead letter for a key, with something in its evidence.
func (w *world) wantDeadLetter(key, evidence string) {
	w.t.Helper()
	n := w.count(`SELECT count(*) FROM dead_letters WHERE key = $1 AND kind = 'psp_contradicts_request' AND status = 'open'
		AND tenant_id = 'acme' AND evidence::text LIKE '%' || $2 || '%'`, key, evidence)
	if n != 1 {
		w.t.Fatalf("%d dead letters, want 1", n)
	}
}

// sameID stands before a PSP that names everything after its first charge and its first refund.
func sameID(psp http.Handler) http.Handler {
	var mu sync.Mutex
	first := map[string]string{}
	id := regexp.MustCompile(`"id":"(ch|rf)_[^"]*"`)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		recorded := httptest.NewRecorder()
		psp.ServeHTTP(recorded, r)
		body := id.ReplaceAllStringFunc(recorded.Body.String(), func(named string) string {
			kind := named[:len(`"id":"ch`)]
			if first[kind] == "" {
				first[kind] = named
			}
			return first[kind]
		})
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(recorded.Code)
		_, _ = w.Write([]byte(body))
	})
}

// One charge cannot pay twice: its id on a second payment is a contradiction, and never a second success.
func TestChargeThatBelongsToAnotherPaymentIsADeadLetter(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *options) { o.between = sameID })
	first := w.pay(freshKey(), "pm_ok")
	first.expect(t, http.StatusCreated, "")
	for _, method := range []string{"pm_ok", "pm_declined"} {
		key := freshKey()
		for range 2 {
			r := w.pay(key, method)
			r.expect(t, http.StatusAccepted, "")
			if r.text(t, "status") != "processing" || r.text(t, "pspChargeId") != "" {
				t.Fatalf("unexpected answer: %s", r.body)
			}
		}
		if k := w.keyRow(key); k.Status != "unknown" || w.pspRequests("acme", key) != 1 {
			t.Fatalf("key is %+v, PSP asked %d times", k, w.pspRequests("acme", key))
		}
		w.wantDeadLetter(key, first.text(t, "pspChargeId"))
	}
	if n := w.count("SELECT count(*) FROM payments WHERE status = 'succeeded'"); n != 1 {
		t.Fatalf("%d payments have succeeded with one charge", n)
	}
}

func TestRefundThatBelongsToAnotherIsADeadLetter(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *options) { o.between = sameID })
	id, key := w.paid(), freshKey()
	first := w.refund(id, freshKey(), `{"amountCents":4500}`)
	first.expect(t, http.StatusCreated, "")
	r := w.refund(id, key, `{"amountCents":4500}`)
	r.expect(t, http.StatusAccepted, "")
	w.wantDeadLetter(key, first.text(t, "pspRefundId"))
	w.wantRefunded(id, 4500, 9000)
}

// Attempts of a generation are one operation to the PSP, generations are several.
func TestPSPSeesOneKeyForAllAttemptsAndAnotherForEachGeneration(t *testing.T) {
	t.Parallel()
	w := setup(t)
	unreachable := w.withoutPSP()
	key, id := freshKey(), w.paid()
	for generation := 1; generation <= 3; generation++ {
		pspKey := key
		if generation > 1 {
			pspKey = fmt.Sprintf("%s.g%d", key, generation)
		}
		unreachable.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, "psp_unavailable")
		unreachable.refund(id, key, `{"amountCents":1}`).expect(t, http.StatusServiceUnavailable, "psp_unavailable")
		w.pay(key, "pm_ok").expect(t, http.StatusCreated, "")
		w.refund(id, key, `{"amountCents":1}`).expect(t, http.StatusCreated, "")
		for _, operation := range []string{createOperation, refundOperation} {
			shown := w.inspect(key, operation)
			if shown.member(t, "attempt") != 2.0 || shown.member(t, "generation") != float64(generation) {
				t.Fatalf("%s: key is %s", operation, shown.body)
			}
		}
		if l := w.ledger("acme", pspKey); len(l.Charges) != 1 || len(l.Refunds) != 1 {
			t.Fatalf("the PSP has %+v under %s", l, pspKey)
		}
		w.exec("UPDATE idempotency_keys SET status = 'expired', delete_after = payonce_now() + interval '30 days' WHERE key = $1", key)
	}
	w.wantRefunded(id, 3, 3)
	if n := w.count("SELECT count(DISTINCT id) FROM payments WHERE idempotency_key = $1 AND status = 'succeeded'",
		key); n != 3 {
		t.Fatalf("%d payments for three generations", n)
	}
}

// keyStates lead a key into each status that can be shown, and say what is to be seen there.
func keyStates() map[string]struct {
	method   string
	timeline int
} {
	return map[string]struct {
		method   string
		timeline int
	}{
		"completed": {"pm_ok", 2}, "completed as declined": {"pm_declined", 2}, "unknown": {"pm_500_charged", 2},
		"failed_retryable": {"pm_ok", 2},
	}
}

func TestKeyIsShownWhereItStands(t *testing.T) {
	t.Parallel()
	w := setup(t)
	unreachable := w.withoutPSP()
	for name, state := range keyStates() {
		status := strings.Fields(name)[0]
		asked := w
		if status == "failed_retryable" {
			asked = unreachable
		}
		key, id := freshKey(), w.paid()
		paid := asked.pay(key, state.method)
		refunded := asked.refund(id, key, fmt.Sprintf(`{"amountCents":100,"reason":%q}`, state.method))
		for operation, r := range map[string]reply{createOperation: paid, refundOperation: refunded} {
			shown := w.inspect(key, operation)
			shown.expect(t, http.StatusOK, "")
			w.wantShown(shown, key, operation, status, r)
			if timeline, ok := shown.member(t, "timeline").([]any); !ok || len(timeline) != state.timeline {
				t.Errorf("%s, %s: timeline of %s", name, operation, shown.body)
			}
		}
		if w.inspect(key, "").text(t, "operation") != createOperation {
			t.Error("without an operation, a key is not one of payments")
		}
		w.do(call{method: "GET", path: "/idempotency-keys/" + key, as: readonlyKey}).expect(t, http.StatusOK, "")
	}
}

// wantShown compares an inspected key with the answer that it gave.
func (w *world) wantShown(shown reply, key, operation, status string, r reply) {
	w.t.Helper()
	resource := "/payments/" + r.text(w.t, "paymentId")
	if operation == refundOperation {
		resource = "/refunds/" + r.text(w.t, "refundId")
	}
	for member, want := range map[string]any{
		"key": key, "operation": operation, "status": status, "attempt": 1.0, "generation": 1.0, "resource": resource,
	} {
		if got := shown.member(w.t, member); got != want {
			w.t.Errorf("%s of a %s key is %v, want %v", member, status, got, want)
		}
	}
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(shown.text(w.t, "fingerprint")) {
		w.t.Errorf("fingerprint is %q", shown.text(w.t, "fingerprint"))
	}
	expires, err := time.Parse(time.RFC3339Nano, shown.text(w.t, "expiresAt"))
	if err != nil || expires.Truncate(time.Second).Format(http.TimeFormat) != r.header.Get("Idempotency-Key-Expires") {
		w.t.Errorf("the key ends at %s, its answer said %q", shown.text(w.t, "expiresAt"),
			r.header.Get("Idempotency-Key-Expires"))
	}
	if shown.text(w.t, "createdAt") == "" || shown.text(w.t, "reservedAt") != shown.text(w.t, "createdAt") {
		w.t.Errorf("times of the first generation: %s", shown.body)
	}
	if (shown.member(w.t, "lockedUntil") != nil) != (status == "in_progress") ||
		(shown.member(w.t, "completedAt") != nil) != (status == "completed") {
		w.t.Errorf("lease and end of a %s key: %s", status, shown.body)
	}
	stored, ok := shown.member(w.t, "response").(map[string]any)
	if ok != (status == "completed") {
		w.t.Fatalf("the response of a %s key: %s", status, shown.body)
	}
	if ok && (stored["status"] != float64(r.status) || stored["body"] != string(r.body) ||
		stored["contentType"] != r.header.Get("Content-Type") || stored["location"] != r.header.Get("Location")) {
		w.t.Errorf("the stored response is %v, the answer was %d %v %s", stored, r.status, r.header, r.body)
	}
	w.do(call{method: "GET", path: resource}).expect(w.t, http.StatusOK, "")
}

func TestKeyInFlightIsShownWithItsLease(t *testing.T) {
	t.Parallel()
	w, gate, key, owner := heldPayment(t, "pm_ok")
	shown := w.inspect(key, createOperation)
	busy := w.do(preferring(paymentOf(key, "pm_ok"), "wait=0"))
	w.wantShown(shown, key, createOperation, "in_progress", busy)
	left, err := time.Parse(time.RFC3339Nano, shown.text(t, "lockedUntil"))
	reserved, err2 := time.Parse(time.RFC3339Nano, shown.text(t, "reservedAt"))
	if err != nil || err2 != nil || left.Sub(reserved) != 30*time.Second {
		t.Errorf("a lease of 30 s is shown as %s", shown.body)
	}
	gate.open()
	(<-owner).expect(t, http.StatusCreated, "")
}

func TestKeyThatIsNotThereIsNotShown(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key, refundKey := freshKey(), freshKey()
	w.pay(key, "pm_ok").expect(t, http.StatusCreated, "")
	w.refund(w.paid(), refundKey, `{}`).expect(t, http.StatusCreated, "")
	detail := w.inspect(freshKey(), "").text(t, "detail")
	for name, c := range map[string]call{
		"of payments, not refunds": {path: "/idempotency-keys/" + key + "?operation=" +
			url.QueryEscape(refundOperation)},
		"of refunds, not payments":   {path: "/idempotency-keys/" + refundKey},
		"quoted":                     {path: "/idempotency-keys/%22" + key + "%22"},
		"in upper case":              {path: "/idempotency-keys/" + strings.ToUpper(key)},
		"of a generation at the PSP": {path: "/idempotency-keys/" + key + ".g2"},
	} {
		c.method = "GET"
		r := w.do(c)
		if r.status != http.StatusNotFound || r.text(t, "detail") != detail {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	w.exec("UPDATE idempotency_keys SET status = 'expired', delete_after = payonce_now() + interval '30 days'")
	w.inspect(key, createOperation).expect(t, http.StatusGone, "idempotency_key_expired")
	w.inspect(refundKey, refundOperation).expect(t, http.StatusGone, "idempotency_key_expired")
}

// Everything that a key may hold has to come through a path, however the client escapes it.
func TestKeyIsFoundHoweverItsCharactersAreEscaped(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, key := range []string{
		"orders/2026/0000000042", "/order-0000000042/", "////////////////abc", "orders/../0000000042",
		"./../../../../a/b/.",
		"100%-0000000000041", "100%2F0000000000041", "%25%2525-0000000042", "what?key=0000000042", "order#0000000042#",
		`order"0000000042"`,
		`a\b{c}|d^e~f[g]h<i>` + "`j'k(l)*", "a+b&c=d;e:f@g!h$i_j-k.l", "order-0000000042?operation=POST",
		"..................abc", "0000000042*{key}",
	} {
		first := w.pay(key, "pm_ok")
		first.expect(t, http.StatusCreated, "")
		everything := ""
		for _, c := range []byte(key) {
			everything += fmt.Sprintf("%%%02x", c)
		}
		for _, spelling := range []string{url.PathEscape(key), strings.ReplaceAll(url.QueryEscape(key), "+", "%20"),
			everything, strings.ToUpper(everything)} {
			shown := w.do(call{method: "GET", path: "/idempotency-keys/" + spelling})
			if shown.status != http.StatusOK || shown.text(t, "key") != key ||
				shown.text(t, "resource") != "/payments/"+first.text(t, "paymentId") {
				t.Errorf("%q as %s: %d %s", key, spelling, shown.status, shown.body)
			}
		}
		if n := len(w.ledger("acme", url.QueryEscape(key)).Charges); n != 1 {
			t.Errorf("%q: %d charges", key, n)
		}
	}
}

// Same intent, same payment; any other intent, 422 without effect. The requests are drawn, and written in many ways.
func TestIntentAndNotSpellingDecidesWhatARepetitionIs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	rapid.Check(t, func(t *rapid.T) {
		asked := drawIntent(t)
		key := freshKey()
		first := w.do(call{method: "POST", path: "/payments", key: key, body: asked.spell(t)})
		again := w.do(call{method: "POST", path: "/payments", key: key, body: asked.spell(t)})
		if first.status != http.StatusCreated || again.status != first.status ||
			string(again.body) != string(first.body) || again.header.Get("Idempotent-Replayed") != "true" {
			t.Fatalf("%d %s, then %d %s", first.status, first.body, again.status, again.body)
		}
		other := drawIntent(t, `"pm_declined"`)
		r := w.do(call{method: "POST", path: "/payments", key: key, body: other.spell(t)})
		if asked.same(other) != (r.status == http.StatusCreated) || r.status != http.StatusCreated &&
			r.status != http.StatusUnprocessableEntity {
			t.Fatalf("%+v after %+v: %d %s", other, asked, r.status, r.body)
		}
		if n := w.pspRequests("acme", key); n != 1 {
			t.Fatalf("PSP asked %d times", n)
		}
	})
}

// intent is a body by member, each value in JSON. What is left out and what says the same by default are one intent.
type intent map[string]string

// members lists what may stand in a body. The empty text leaves the member out.
var members = []struct {
	name   string
	values []string
}{
	{"customerId", []string{`"cus-1"`, `"cus-2"`}}, {"amountCents", []string{"1", "2", "999999999999"}},
	{"currency", []string{`"USD"`, `"KRW"`}},
	{"paymentMethod", []string{"", `"pm_ok"`}}, {"description", []string{"", `""`, `"\u00e9"`, `"e"`}},
	{"reference", []string{"", `"order 42"`, `"order 43"`}},
	{"metadata", []string{"", "{}", `{"a":"1"}`, `{"a":"1","b":""}`}},
}

// drawIntent draws a request that is accepted, which may name another payment method, too.
func drawIntent(t *rapid.T, methods ...string) intent {
	i := intent{}
	for _, m := range members {
		values := m.values
		if m.name == "paymentMethod" {
			values = append(slices.Clone(values), methods...)
		}
		i[m.name] = rapid.SampledFrom(values).Draw(t, m.name)
	}
	return i
}

// same compares what is asked for.
func (i intent) same(other intent) bool {
	for member, value := range i {
		if plain(member, value) != plain(member, other[member]) {
			return false
		}
	}
	return true
}

func plain(member, value string) string {
	switch {
	case member == "paymentMethod" && value == "":
		return `"pm_ok"`
	case value == `""` || value == "{}":
		return ""
	}
	return value
}

func (i intent) spell(t *rapid.T) string {
	space := rapid.SampledFrom([]string{"", " ", "\n\t"})
	var written []string
	for _, m := range members {
		value := i[m.name]
		if value == `"\u00e9"` && rapid.Bool().Draw(t, "plain") {
			value = `"é"`
		}
		if value == `{"a":"1","b":""}` && rapid.Bool().Draw(t, "turned round") {
			value = `{"b":"","\u0061":"1"}`
		}
		if value != "" {
			written = append(written, `"`+m.name+`"`+space.Draw(t, "space")+":"+space.Draw(t, "space")+value)
		}
	}
	return "{" + strings.Join(rapid.Permutation(written).Draw(t, "order"), ",") + "}"
}
