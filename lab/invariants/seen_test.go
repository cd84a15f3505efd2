package invariants

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"payonce/lab/history"
)

// Each row changes one thing that a client, an operator or the PSP can see, in the database, behind the guards.
func TestWrongMemberIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("long: each row is a check of a whole system")
	}
	t.Parallel()
	s := lived(t)
	s.decideWrongAmount()
	restore := s.remember()
	const acme = " WHERE tenant_id = 'acme' AND idempotency_key = '" + paidKey + "'"
	const key = " WHERE tenant_id = 'acme' AND operation = 'POST /payments' AND key = '" + paidKey + "'"
	body := func(from, to string) string {
		return "UPDATE idempotency_keys SET response_body = convert_to(replace(convert_from(response_body, 'UTF8'), '" +
			from + "', '" + to + "'), 'UTF8')" +
			" WHERE tenant_id = 'acme' AND key = "
	}
	for name, b := range map[string]struct{ sql, invariant, detail string }{
		"another customer": {"UPDATE payments SET customer_id = 'cus-2'" + acme, "I4",
			`customerId is "cus-2", and has to be "cus-1"`},
		"another method": {"UPDATE payments SET payment_method = 'pm_slow'" + acme, "I4",
			`paymentMethod is "pm_slow"`},
		"another method than was sent": {"UPDATE payments SET payment_method = 'pm_slow'" + acme, "I4",
			"asked of the PSP with"},
		"a reference that is lost": {"UPDATE payments SET reference = NULL" + acme, "I4", "reference is lost"},
		"a description that is lost": {"UPDATE payments SET description = NULL" + acme, "I4",
			"description is lost"},
		"metadata of another payment": {`UPDATE payments SET metadata = '{"order":"7"}'` + acme, "I4",
			"metadata is"},
		"a reason that is lost":        {"UPDATE refunds SET reason = NULL", "I4", "reason is lost"},
		"another reason than was sent": {"UPDATE refunds SET reason = 'x'", "I4", "asked of the PSP with"},
		"a refund of another payment":  {"UPDATE refunds SET payment_id = (SELECT id FROM payments WHERE idempotency_key = '" + lostKey + "')", "I4", "path is"},
		"a refund of another charge": {"UPDATE payments SET psp_charge_id = 'ch_other'" + acme, "I4",
			"a refund of ch_"},
		"a customer that is not answered": {body(`"customerId":"cus-1",`, ``) + "'" + lostKey + "'", "I3",
			"customerId is lost"},
		"a decimal with another exponent": {body(`"120.00"`, `"12.000"`) + "'" + lostKey + "'", "I3",
			`amount is "12.000"`},
		"a member that nobody knows": {body(`"customerId"`, `"secret":1,"customerId"`) + "'" + lostKey +
			"'", "I3", "secret is 1, and there is none"},
		"a decline that still blocks": {body(`"newKeySafe":true`, `"newKeySafe":false`) + "'" + declinedKey +
			"'", "I3", "newKeySafe is false"},
		"a decline that may be sent again": {body(`"retryable":false`, `"retryable":true`) + "'" + declinedKey +
			"'", "I3", "retryable is true"},
		"a decline with another title": {body(`"title":"The`, `"title":"A`) + "'" + declinedKey + "'", "I3",
			"title is"},
		"a reason that is not answered": {body(`"reason":"returned `, `"reason":"`) + "'" + refundKey + "'",
			"I3", "reason is"},
		"a location of something else": {"UPDATE idempotency_keys SET response_location = '/payments/pay_other'" +
			key, "I3", "does not lead to"},
		"a key that expires too early": {"UPDATE idempotency_keys SET expires_at = expires_at - interval '1 hour'" +
			key, "I3", "and by its retention"},
		"an expiry that nobody was told": {"UPDATE idempotency_keys SET expires_at = expires_at + interval '2 seconds'" + key, "I3", "and the key expires at"},
		"a creation that is another": {"UPDATE payments SET created_at = created_at - interval '1 day'" +
			acme, "I3", "createdAt is"},
		"a dead letter about another key": {"UPDATE dead_letters SET key = 'another-0123456789abcdef'", "I8",
			"names the key"},
		"a dead letter with other terms":    {`UPDATE dead_letters SET evidence = jsonb_set(evidence, '{asked,amountCents}', '1')`, "I8", "amountCents is 1"},
		"a dead letter with another record": {`UPDATE dead_letters SET evidence = jsonb_set(evidence, '{record,amountCents}', '1')`, "I8", "amountCents is 1"},
		"a hold of no dead letter": {"UPDATE idempotency_keys SET dead_letter_hold = 'release'" + key,
			"I8", "hold none of it, and its row says release"},
		"a dead letter that holds nothing": {"UPDATE dead_letters SET status = 'open', resolved_at = NULL, action = NULL, actor = NULL, resolution_reason = NULL", "I8", "of it, and its row says none"},
		"a deed that is not on record":     {"DELETE FROM operator_actions", "I8", "0 deeds"},
		"a deed of somebody else": {"UPDATE operator_actions SET actor = 'nobody'", "I8",
			"and on record is nobody"},
		"a deed about a dead letter that is open": {"UPDATE dead_letters SET status = 'open', resolved_at = NULL, action = NULL, actor = NULL, resolution_reason = NULL", "I8", "it is open, and"},
	} {
		t.Log(name)
		s.breach(b.sql)
		s.finds(b.invariant, b.detail)
		restore()
	}
}

// decideWrongAmount has an operator call the wrong amount executed.
func (s *shop) decideWrongAmount() {
	s.t.Helper()
	s.breach(`UPDATE dead_letters SET evidence = evidence || jsonb_build_object('record', jsonb_build_object('account', 'acme', 'id', (SELECT psp FROM (SELECT $1::text AS psp) AS x),
		'reference', $2::text, 'idempotencyKey', $3::text, 'amountCents', 12001, 'currency', 'USD', 'status', 'succeeded'))`, s.charged(wrongKey).ID, s.reference(wrongKey), wrongKey)
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost,
		s.operator.URL+"/operator/dead-letters/"+s.text("SELECT id FROM dead_letters")+"/resolve", strings.NewReader(
			`{"action":"executed","reason":"seen","version":1}`))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+apiKey("operator"))
	r.Header.Set("Content-Type", "application/json")
	response, err := s.operator.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if told, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		s.t.Fatalf("the operator heard %d %s", response.StatusCode, told)
	}
	if found := s.check(); len(found) > 0 {
		s.t.Fatalf("before any breach: %v", found)
	}
}

// charged is the PSP's entry of a key.
func (s *shop) charged(key string) Entry {
	s.t.Helper()
	ledger, err := ReadLedger(s.t.Context(), http.DefaultClient, s.psp.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	return ledger.Charges[slices.IndexFunc(ledger.Charges, func(e Entry) bool { return e.IdempotencyKey == key })]
}

// busyWith makes an answer one of a key that is in progress.
func busyWith(prefer string, took time.Duration) func(*history.Operation) {
	return func(o *history.Operation) {
		o.Status, o.Answer = http.StatusConflict, []byte(`{"type":"http://payonce.test/problems/idempotency_key_in_progress",
			"title":"The first request with this key is still running","status":409,"detail":"d","instance":"i","code":"idempotency_key_in_progress","retryable":true,"newKeySafe":false}`)
		o.Header.Set("Retry-After", "1")
		o.Header.Set("Content-Type", "application/problem+json")
		o.Header.Del("Location")
		o.Prefer, o.Return = prefer, o.Call+took
	}
}

// Each row changes one thing in what a client has heard.
func TestWrongFaceIsFound(t *testing.T) {
	t.Parallel()
	s := lived(t)
	s.pay("acme", "released-0123456789ab", "pm_500_not_charged") // 202
	e := s.evidence()
	w := s.world()
	of := func(status int) func(history.Operation) bool {
		return func(o history.Operation) bool { return o.Status == status }
	}
	set := func(name, value string) func(*history.Operation) {
		return func(o *history.Operation) { o.Header.Set(name, value) }
	}
	without := func(name string) func(*history.Operation) { return func(o *history.Operation) { o.Header.Del(name) } }
	body := func(from, to string) func(*history.Operation) {
		return func(o *history.Operation) { o.Answer = bytes.ReplaceAll(o.Answer, []byte(from), []byte(to)) }
	}
	for name, row := range map[string]struct {
		of     func(history.Operation) bool
		change func(*history.Operation)
		detail string
	}{
		"another key":               {of(201), set("Idempotency-Key", "another"), "Idempotency-Key is"},
		"no key behind a refusal":   {of(422), without("Idempotency-Key"), "Idempotency-Key is"},
		"nothing about replays":     {of(422), without("Idempotent-Replayed"), "Idempotent-Replayed is"},
		"a replay of nothing":       {of(202), set("Idempotent-Replayed", "true"), "Idempotent-Replayed is"},
		"no expiry of a mismatch":   {of(422), without("Idempotency-Key-Expires"), "Idempotency-Key-Expires is"},
		"no expiry of a 202":        {of(202), without("Idempotency-Key-Expires"), "Idempotency-Key-Expires is"},
		"an expiry that is no time": {of(201), set("Idempotency-Key-Expires", "soon"), "Idempotency-Key-Expires is"},
		"no location":               {of(202), without("Location"), "Location is"},
		"a location elsewhere":      {of(201), set("Location", "/payments/pay_1"), "Location is"},
		"a location of a mismatch":  {of(422), set("Location", "/payments/pay_1"), "Location is"},
		"another type":              {of(402), set("Content-Type", "application/json"), "Content-Type is"},
		"no time to come back":      {of(202), without("Retry-After"), "Retry-After is"},
		"a time that is none":       {of(202), set("Retry-After", "0"), "Retry-After is"},
		"a time for what is final":  {of(201), set("Retry-After", "1"), "Retry-After is"},
		"no request id":             {of(201), without("X-Request-Id"), "X-Request-Id"},
		"a request id of another": {of(402), set("X-Request-Id", e.History[0].Header.Get("X-Request-Id")),
			"the same X-Request-Id"},
		"a cache":                    {of(201), set("Cache-Control", "public"), "Cache-Control"},
		"a mismatch, and a new key":  {of(422), body(`"newKeySafe":false`, `"newKeySafe":true`), "newKeySafe is true"},
		"a mismatch to repeat":       {of(422), body(`"retryable":false`, `"retryable":true`), "retryable is true"},
		"another title":              {of(422), body(`"title":"The`, `"title":"A`), "title is"},
		"a type that leads nowhere":  {of(422), body(`/problems/`, `/problem/`), "does not lead to the code"},
		"a status of another":        {of(422), body(`"status":422`, `"status":409`), "status is 409"},
		"no detail":                  {of(422), body(`"detail":`, `"details":`), "there is no detail"},
		"a code of nobody's":         {of(422), body(`"code":"`, `"code":"x`), "not in the catalogue"},
		"a preference of nobody's":   {of(201), set("Preference-Applied", "wait=3"), "Preference-Applied is"},
		"a wish that is passed over": {of(201), busyWith("respond-async", time.Second), "has preferred 202"},
		"a wait that is cut short": {of(201), func(o *history.Operation) {
			busyWith("wait=2", time.Second)(o)
			o.Header.Set("Preference-Applied", "wait=2")
		}, "would have waited 2s"},
		"a wait that is not told": {of(201), func(o *history.Operation) { o.Prefer = "wait=2" },
			"does not say that it has waited"},
		"something wrong inside": {of(422), func(o *history.Operation) { o.Status = 500 }, "something is wrong"},
	} {
		at := slices.IndexFunc(e.History, row.of)
		if at < 0 {
			t.Fatalf("%s: there is no such answer", name)
		}
		changed := e
		changed.History = slices.Clone(e.History)
		o := &changed.History[at]
		o.Header = o.Header.Clone()
		row.change(o)
		if found := surfaces(w, changed); len(found) != 1 || !strings.Contains(found[0].Detail, row.detail) {
			t.Errorf("%s: %v", name, found)
		}
	}
	if found := surfaces(w, e); len(found) > 0 {
		t.Errorf("unchanged: %v", found)
	}
}

func (s *shop) world() world {
	s.t.Helper()
	w, err := look(s.t.Context(), Evidence{DB: s.db, PSP: s.psp.URL, HTTP: http.DefaultClient})
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

// A payment was charged, and its client was told that it was not.
func TestChargeBehindARefusalIsFound(t *testing.T) {
	t.Parallel()
	s := lived(t)
	e, w := s.evidence(), s.world()
	if found := denied(w, e); len(found) > 0 {
		t.Fatalf("unchanged: %v", found)
	}
	refusal := func(o *history.Operation) {
		o.Status, o.Answer = http.StatusServiceUnavailable, []byte(`{"code":"psp_unavailable","paymentId":"pay_1"}`)
	}
	changed := e
	changed.History = slices.Clone(e.History)
	for i := range changed.History {
		if o := &changed.History[i]; o.Tenant == "acme" && o.Key == paidKey && o.Route == history.PaymentsRoute &&
			o.Status == http.StatusCreated {
			refusal(o)
			break // the retry hears the truth
		}
	}
	if found := denied(w, changed); len(found) != 1 || found[0].Invariant != "I6" {
		t.Errorf("a refusal behind a charge: %v", found)
	}
	for i := range changed.History {
		refusal(&changed.History[i])
	}
	if found := denied(w, changed); len(found) != 5 { // all that has moved, and none of the declines
		t.Errorf("refusals alone: %v", found)
	}
}

func TestRefundThatIsRefusedWithoutAReasonIsFound(t *testing.T) {
	t.Parallel()
	s := lived(t)
	if status := s.refund("acme", "refund-too-much-01234", paidKey, 7001); status != http.StatusConflict {
		t.Fatalf("status %d", status)
	}
	if found := s.check(); len(found) > 0 {
		t.Fatalf("7001 of 7000 are too much: %v", found)
	}
	for body, detail := range map[string]string{`{"amountCents":7000}`: "at least 7000 of 12000 were left",
		`{}`: "was refused 0"} {
		e := s.evidence()
		last := &e.History[len(e.History)-1]
		last.Body = []byte(body)
		if found := refusals(s.world(), e); len(found) != 1 || !strings.Contains(found[0].Detail, detail) {
			t.Errorf("%s: %v", body, found)
		}
		last.Answer = bytes.ReplaceAll(last.Answer, []byte("refund_exceeds_payment"), []byte("payment_not_refundable"))
		if found := refusals(s.world(), e); len(found) != 1 ||
			!strings.Contains(found[0].Detail, "which has succeeded") {
			t.Errorf("%s, not refundable: %v", body, found)
		}
	}

	e := s.evidence()
	last := &e.History[len(e.History)-1]
	last.Key = refundKey // in its second life: what the first one was granted is as gone as if another key had it
	if found := refusals(s.world(), e); len(found) > 0 {
		t.Errorf("what the same key was granted before does not come back: %v", found)
	}
	last.At = last.At.Add(-time.Hour) // before anything was granted
	if found := refusals(s.world(), e); len(found) != 1 || !strings.Contains(found[0].Detail, "was refused 7001") {
		t.Errorf("what was granted to the key afterwards was there to be had: %v", found)
	}
}

// liar stands in front of a server and changes its answers.
func (s *shop) liar(behind string, change func(*http.Response)) string {
	s.t.Helper()
	to, err := url.Parse(behind)
	if err != nil {
		s.t.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:        func(p *httputil.ProxyRequest) { p.SetURL(to) },
		ModifyResponse: func(r *http.Response) error { change(r); return nil },
	})
	s.t.Cleanup(server.Close)
	return server.URL
}

// rewrite changes the text of an answer.
func (s *shop) rewrite(r *http.Response, from, to string) {
	s.t.Helper()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	raw = bytes.ReplaceAll(raw, []byte(from), []byte(to))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	r.Header.Set("Content-Length", strconv.Itoa(len(raw)))
}

// What is shown by a server that is not to be trusted. Each row is a path, and what is wrong with what it shows.
func TestWrongSightIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("long: each row is a check of a whole system")
	}
	t.Parallel()
	s := lived(t)
	for name, row := range map[string]struct{ path, from, to, invariant, detail string }{
		"a payment's decimal": {"/payments/pay_", `"120.00"`, `"12000"`, "I3", `amount is "12000"`},
		"a payment's description": {"/payments/pay_", `"description":"ordered`, `"description":"delivered`, "I3",
			"description is"},
		"a payment's metadata": {"/payments/pay_", `"metadata":`, `"meta":`, "I3", "meta is"},
		"a refund's reason":    {"/refunds/", `"reason":"returned`, `"reason":"lost`, "I3", "reason is"},
		"a list's order":       {"/payments?", `"data":[`, `"data":[{},`, "I3", "its list by"},
		"a list's end":         {"/payments?", `"hasMore":false`, `"hasMore":true`, "I3", "hasMore is true"},
		"a key's attempt":      {"/idempotency-keys/", `"attempt":1`, `"attempt":2`, "I3", "attempt is 2"},
		"a key's status": {"/idempotency-keys/", `"status":"completed"`, `"status":"unknown"`, "I3",
			"status is"},
		"a key's timeline": {"/idempotency-keys/", `"actor":"owner"`, `"actor":"scan"`, "I3", "timeline is"},
		"a key's expiry":   {"/idempotency-keys/", `"expiresAt":"2`, `"expiresAt":"3`, "I3", "expiresAt is"},
		"a key's resource": {"/idempotency-keys/", `"resource":"/payments`, `"resource":"/payment`, "I3",
			"resource is"},
		"a key's response": {"/idempotency-keys/", `"contentType":"`, `"contentType":"x-`, "I3",
			"response is"},
		"a dead letter's reason": {"/operator/dead-letters/", `"reason":"`, `"reason":"x`, "I8", "reason is"},
		"a dead letter's payment": {"/operator/dead-letters/", `"paymentId":"pay_`, `"paymentId":"pay_x`, "I8",
			"paymentId is"},
		"a dead letter's key status": {"/operator/dead-letters/", `"keyStatus":"unknown"`, `"keyStatus":"completed"`,
			"I8", "keyStatus is"},
		"a dead letter's evidence": {"/operator/dead-letters/", `"asked":`, `"wanted":`, "I8", "evidence is"},
		"the dead letters in a list": {"/operator/dead-letters?", `"data":[`, `"data":[{},`, "I8",
			"2 dead letters are listed, and there are 1"},
		"a dead letter in a list": {"/operator/dead-letters?", `"kind":"`, `"kind":"x`, "I8", "kind is"},
		"the summary's dead letters": {"/operator/summary", `"psp_contradicts_request":1`,
			`"psp_contradicts_request":2`, "I8", "psp_contradicts_request is 2"},
		"the summary's webhooks": {"/operator/summary", `"webhooks":{"count":0`, `"webhooks":{"count":1`, "I8",
			"webhooks is"},
	} {
		e := s.evidence()
		e.History, e.Statement = nil, nil
		lie := func(r *http.Response) {
			if r.Request.Method == http.MethodGet && strings.HasPrefix(r.Request.URL.RequestURI(), row.path) {
				s.rewrite(r, row.from, row.to)
			}
		}
		e.APIs, e.Operators = []string{s.liar(s.api.URL, lie)}, []string{s.liar(s.operator.URL, lie)}
		found, err := Check(t.Context(), e)
		if err != nil || !slices.ContainsFunc(found,
			func(v Violation) bool { return v.Invariant == row.invariant && strings.Contains(v.Detail, row.detail) }) {
			t.Errorf("%s: not found as %s %q: %v, %v", name, row.invariant, row.detail, found, err)
		}
	}
}

// An operator's key is looked up again, and a worker that was paused confirms what is known, also between two looks of
// ours.
func TestTimelineMayGoOnByRemarksAlone(t *testing.T) {
	t.Parallel()
	const stored = `{"at":"2026-11-22T15:47:22.5Z","from":"unknown","to":"completed"}`
	then := document{"timeline": "[" + stored + "]"}
	for shown, well := range map[string]bool{
		stored + `,{"at":"2026-11-22T15:47:22.6Z","from":"completed","to":"completed"}`: true,
		// the key has moved
		stored + `,{"at":"2026-11-22T15:47:22.6Z","from":"completed","to":"expired"}`:                                                     false,
		stored + `,{"at":"2026-11-22T15:47:22.6Z","from":"completed","to":"completed"},{"at":"2026-11-22T15:47:23Z","from":"a","to":"b"}`: false,
		// it was there before
		stored + `,{"at":"2026-11-22T15:47:22.4Z","from":"completed","to":"completed"}`: false,
		stored + "," + stored: false,
		``:                    false,
	} {
		differs := then.differs(upToThen(then, document{"timeline": "[" + shown + "]"}))
		if (differs == "") != well {
			t.Errorf("[%s]: %q", shown, differs)
		}
	}
}

// API keys that may do more than they should.
func TestKeyThatMayMoreIsFound(t *testing.T) {
	t.Parallel()
	s := lived(t)
	whole := s.evidence()
	for name, row := range map[string]struct {
		change func(*Evidence)
		detail string
	}{
		"a reader that writes": {func(e *Evidence) { e.Limited.Reader = apiKey("acme") },
			"the answer is 201, not 403"},
		"a writer that reads": {func(e *Evidence) { e.Limited.Writer = apiKey("acme") },
			"the answer is 200, not 403"},
		"an ended key that works": {func(e *Evidence) { e.Limited.Ended = s.limited.Reader },
			"the answer is 200, not 401"},
		"an operator that pays": {func(e *Evidence) { e.OperatorKey = apiKey("acme") },
			"the answer is 200, not 403"},
		"a reader with the operator's key": {func(e *Evidence) { e.Limited.Reader = s.limited.OperatorReader },
			"the answer is 200, not 403"},
		"a reading operator decides": {func(e *Evidence) { e.Limited.OperatorReader = apiKey("operator") },
			"the answer is 404, not 403"},
		"an ended operator": {func(e *Evidence) { e.Limited.OperatorEnded = s.limited.OperatorReader },
			"the answer is 200, not 401"},
		"a stranger that refunds": {func(e *Evidence) { e.APIKeys["globex"] = apiKey("acme") }, ", not 404"},
	} {
		e := whole
		e.APIKeys = map[string]string{"acme": apiKey("acme"), "globex": apiKey("globex")}
		row.change(&e)
		e.HTTP = http.DefaultClient
		found, err := permissions(t.Context(), e, s.world())
		if err != nil || !slices.ContainsFunc(found,
			func(v Violation) bool { return v.Invariant == "I5" && strings.Contains(v.Detail, row.detail) }) {
			t.Errorf("%s: not found as %q: %v, %v", name, row.detail, found, err)
		}
	}
}

// An API key that works until its server starts again.
func TestRevokedKeyThatWorksIsFound(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if found, err := Revoked(t.Context(), s.evidence(), RevocationLimit); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	e := s.evidence()
	e.Limited.Reader = s.limited.Writer
	e.APIs = []string{s.liar(s.api.URL, func(r *http.Response) { r.StatusCode = http.StatusOK })}
	if found, err := Revoked(t.Context(), e, time.Millisecond); err != nil || len(found) != 1 ||
		found[0].Invariant != "I5" {
		t.Errorf("%v, %v", found, err)
	}
}

// What a statement has to tell, and what it tells.
func TestStatementThatSaysOtherwiseIsFound(t *testing.T) {
	t.Parallel()
	s := lived(t)
	s.charge("", "nobody-0123456789abcdef",
		`{"amountCents":500,"currency":"USD","paymentMethod":"pm_ok","reference":"order-7"}`)
	s.breach("UPDATE payments SET psp_charge_id = 'ch_other' WHERE tenant_id = 'globex'")
	w := s.world()
	days := w.ledger.days()
	day := days[len(days)-1]
	told, err := s.statement(t.Context(), day)
	if err != nil {
		t.Fatal(err)
	}
	if wrong := w.statementDiffers(day, told); len(wrong) > 0 {
		t.Fatalf("unchanged: %v\n%s", wrong, told.Report)
	}
	for name, row := range map[string]struct{ from, to, detail string }{
		"a break that is swallowed": {`"missing_here"`, `"status"`, "a break is not told of"},
		"a break that is made up":   {`"missing_here"`, `"status"`, "a break that there is not"},
		"another amount":            {`"amountMinor": 500`, `"amountMinor": 501`, "theirs 500 USD"},
		"another side":              {`"amountMinor": 12000`, `"amountMinor": 1`, "ours 12000 USD"},
		"another charge":            {`"pspId": "ch_`, `"pspId": "ch_x`, "a break is not told of"},
		"lines that were not read":  {`"lines": `, `"lines": 1`, "lines of acme were read"},
		"an account that is left out": {`"account": "globex"`, `"account": "initech"`,
			"the account globex was not judged"},
		"breaks that are not counted": {`"breaks": 1`, `"breaks": 0`, "breaks counted"},
	} {
		lie := told
		lie.Report = bytes.ReplaceAll(told.Report, []byte(row.from), []byte(row.to))
		if wrong := w.statementDiffers(day, lie); !slices.ContainsFunc(wrong,
			func(text string) bool { return strings.Contains(text, row.detail) }) {
			t.Errorf("%s: not found as %q: %v\n%s", name, row.detail, wrong, lie.Report)
		}
	}
	told.Exit = 0
	if wrong := w.statementDiffers(day, told); len(wrong) != 1 {
		t.Errorf("exit code 0: %v", wrong)
	}
}

// What has tests of its own above is part of the whole check.
func TestCheckLooksAtAllOfIt(t *testing.T) {
	t.Parallel()
	s := lived(t)
	s.refund("acme", "refund-too-much-01234", paidKey, 7001)
	e := s.evidence()
	for i := range e.History {
		o := &e.History[i]
		switch {
		case o.Status == http.StatusConflict:
			o.Body = []byte(`{"amountCents":7000}`)
		case o.Tenant == "globex" && o.Status == http.StatusCreated:
			o.Status, o.Answer = http.StatusServiceUnavailable, []byte(`{"code":"psp_unavailable"}`)
		}
	}
	e.Limited.Ended = s.limited.Reader
	e.Statement = func(context.Context, time.Time) (Statement, error) { return Statement{Report: []byte(`{}`)}, nil }
	found, err := Check(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	for of, detail := range map[string]string{
		"surfaces": "Content-Type is", "denied": "each request with the key was told",
		"refusals":    "at least 7000 of 12000 were left",
		"permissions": "the answer is 200, not 401", "statements": "the account acme was not judged",
	} {
		if !slices.ContainsFunc(found, func(v Violation) bool { return strings.Contains(v.Detail, detail) }) {
			t.Errorf("%s: %q not found: %v", of, detail, found)
		}
	}
}
