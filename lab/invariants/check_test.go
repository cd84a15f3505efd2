package invariants

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

const (
	paidKey     = "paid-0123456789abcdef"
	declinedKey = "declined-0123456789ab"
	lostKey     = "lost-0123456789abcdef"
	refundKey   = "refund-0123456789abcd"
)

func paymentID(t testing.TB, id string) string {
	t.Helper()
	parsed, err := uuid.Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	return payment.ID(parsed).String()
}

// lived is a shop that has seen a bit of everything, and is quiet.
func lived(t *testing.T) *shop {
	t.Helper()
	s := setup(t)
	for _, tenant := range []string{"acme", "globex"} {
		s.pay(tenant, paidKey, "pm_ok")
		s.pay(tenant, paidKey, "pm_ok")
	}
	s.pay("acme", paidKey, "pm_declined") // a mismatch
	s.pay("acme", declinedKey, "pm_declined")
	s.pay("acme", lostKey, "pm_500_charged")
	s.pay("acme", "wrong-0123456789abcdef", "pm_wrong_amount")
	s.refund("acme", refundKey, paidKey, 5000)
	s.reconcile()
	s.pay("acme", lostKey, "pm_500_charged")
	return s
}

func TestWorldThatKeepsItsPromisesHasNoViolations(t *testing.T) {
	t.Parallel()
	s := lived(t)
	for _, v := range s.check() {
		t.Error(v)
	}
	if n := s.text("SELECT count(*) FROM idempotency_keys WHERE status = 'completed'"); n != "5" {
		t.Errorf("%s keys are completed", n)
	}
	episodes, err := Convergence(t.Context(), s.evidence())
	if err != nil {
		t.Fatal(err)
	}
	median, longest := MedianAndMax(episodes)
	if len(episodes) != 1 || episodes[0].To != "completed" || median <= 0 || median != longest {
		t.Errorf("episodes: %+v", episodes)
	}
}

// Each row is a breach, made behind the guards, and what it is found as. The PSP keeps no record of a payment method
// that it does not have. Any other decline without a record is a difference.
func TestDeclineWithoutARecordHasOneReason(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if status := s.pay("acme", declinedKey, "pm_gold"); status != http.StatusPaymentRequired {
		t.Fatalf("answered %d", status)
	}
	for _, v := range s.check() {
		t.Error(v)
	}
	s.breach("UPDATE payments SET decline_code = 'insufficient_funds'")
	s.finds("I4", "which the PSP does not have")
}

func TestBreachIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("long: each row is a check of a whole system")
	}
	t.Parallel()
	s := lived(t)
	restore := s.remember()
	key := func(set string) string {
		return "UPDATE idempotency_keys SET " + set + " WHERE tenant_id = 'acme' AND key = $1"
	}
	payment := func(set string) string {
		return "UPDATE payments SET " + set + " WHERE tenant_id = 'acme' AND idempotency_key = $1"
	}
	for name, b := range map[string]struct {
		sql, key          string
		invariant, detail string
	}{
		"a key that stays in progress": {key(`status = 'in_progress', locked_until = now(), finished_at = NULL, response_status = NULL,
			response_content_type = NULL, response_location = NULL, response_schema_version = NULL, response_body = NULL`), paidKey, "I2", "still in_progress"},
		"an event that nobody works on": {"INSERT INTO webhook_events (id, sent_at, body) VALUES ($1, now(), '')",
			"evt_1", "I2", "still waiting"},
		"a job that nobody works on": {`INSERT INTO river_job (kind, state, max_attempts, args)
			VALUES ('resolve', 'available', 1, jsonb_build_object('key', $1::text))`, paidKey, "I2", "still waiting"},
		"an event that has no place in the feed": {`INSERT INTO events (tenant_id, payment_id, version, type, status, refunded_minor, changed_at)
			SELECT tenant_id, id, 1, 'payment.succeeded', status, 0, now() FROM payments WHERE tenant_id = 'acme' AND idempotency_key = $1`, paidKey, "I2", "still waiting"},
		"a delivery that nobody makes": {`WITH w AS (INSERT INTO webhook_endpoints (tenant_id, id, url, secret)
			VALUES ('acme', gen_random_uuid(), 'http://x', sha256('x')) RETURNING tenant_id, id)
			INSERT INTO event_deliveries (tenant_id, endpoint_id, payment_id, version)
			SELECT w.tenant_id, w.id, p.id, 1 FROM w, payments AS p WHERE p.tenant_id = 'acme' AND p.idempotency_key = $1`, paidKey, "I2", "still waiting"},
		"a body that was rewritten": {key(`response_body = response_body || ' '`), paidKey, "I3",
			"told otherwise"},
		"a status that was rewritten": {key(`response_status = 200`), paidKey, "I3",
			"status 201, stored is 200"},
		"a type that was rewritten": {key(`response_content_type = 'text/html'`), paidKey, "I3",
			"content type"},
		"a location that was rewritten": {key(`response_location = '/'`), paidKey, "I3", "location"},
		"a key that was forgotten": {"DELETE FROM idempotency_keys WHERE tenant_id = 'acme' AND key = $1",
			paidKey, "I3", "not there"},
		"another amount": {payment("amount_minor = 12001"), paidKey, "I4",
			"12000 USD at the PSP, 12001 USD here"},
		"another currency": {payment("currency = 'EUR'"), paidKey, "I4",
			"12000 USD at the PSP, 12000 EUR here"},
		"another charge": {payment("psp_charge_id = 'ch_other'"), paidKey, "I4",
			"which the PSP does not have"},
		"a decline that was charged": {payment("status = 'declined', decline_code = 'insufficient_funds'"),
			lostKey, "I4", "succeeded at the PSP"},
		"a charge that failed here": {payment("status = 'failed', psp_charge_id = NULL"), lostKey, "I2",
			"not noticed yet"},
		"a success that was declined": {payment("status = 'succeeded', decline_code = NULL"), declinedKey, "I4",
			"declined at the PSP"},
		"another reason of the decline": {payment("decline_code = 'stolen'"), declinedKey, "I4", "stolen"},
		"an operator's word alone":      {payment("psp_charge_id = 'operator:1'"), paidKey, "I4", "vouched"},
		"a dead letter about something else": {"UPDATE dead_letters SET subject = gen_random_uuid() WHERE $1 <> ''",
			paidKey, "I4", "12001 USD at the PSP, 12000 USD here"},
		"a dead letter of another kind": {"UPDATE dead_letters SET kind = 'webhook_unmatched' WHERE $1 <> ''",
			paidKey, "I4", "12001 USD at the PSP"},
		"an attempt that was not made": {key("attempt = 2"), paidKey, "I8", "the row is completed in attempt 2"},
		"a generation that never was":  {key("generation = 2"), paidKey, "I8", "of generation 2"},
		"a timeline that was cut":      {"DELETE FROM idempotency_key_events WHERE key = $1 AND to_status = 'unknown' AND from_status = 'in_progress'", lostKey, "I8", "but it was in_progress"},
		"a completion without its line": {"DELETE FROM idempotency_key_events WHERE key = $1", lostKey, "I8",
			"completed without a line"},
		"a timeline that ends too early": {"DELETE FROM idempotency_key_events WHERE key = $1 AND to_status = 'completed'", lostKey, "I8", "the timeline ends unknown"},
		"an edge that there is not":      {"UPDATE idempotency_key_events SET to_status = 'expired' WHERE key = $1 AND to_status = 'completed'", lostKey, "I8", "which is no edge"},
		"an attempt that goes back": {"UPDATE idempotency_key_events SET attempt = 0 WHERE key = $1", lostKey,
			"I8", "as attempt 0"},
		"a key that went on alone": {payment("status = 'processing', psp_charge_id = NULL"), lostKey, "I8",
			"is processing"},
		"a payment without a key": {"UPDATE payments SET idempotency_key = $1 WHERE idempotency_key = '" +
			paidKey + "'", "nobody-0123456789ab", "I9", "does not stand for it"},
		"a key without a payment": {key("subject = gen_random_uuid()"), paidKey, "I9", "stands for nothing"},
		"a charge under an unreserved key": {`UPDATE idempotency_keys SET key = $1 WHERE key = '` + paidKey + `'`,
			"renamed-0123456789abc", "I9",
			"keys that nobody has reserved"},
	} {
		s.breach(b.sql, b.key)
		t.Log(name)
		s.finds(b.invariant, b.detail)
		restore()
	}
}

func TestWorldThatWasBroughtBackHasNoViolations(t *testing.T) {
	t.Parallel()
	s := lived(t)
	restore := s.remember()
	s.breach("DELETE FROM idempotency_keys")
	restore()
	for _, v := range s.check() {
		t.Error(v)
	}
}

// charge asks the PSP itself, as a program does that has gone wrong.
func (s *shop) charge(path, key, body string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.psp.URL+"/v1/charges"+path,
		strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+pspSecret)
	request.Header.Set("PSP-Account", "acme")
	request.Header.Set("Idempotency-Key", key)
	request.Header.Set("Content-Type", "application/json")
	response, err := s.psp.Client().Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		s.t.Fatalf("the PSP answered %d", response.StatusCode)
	}
}

func (s *shop) reference(key string) string {
	return paymentID(s.t, s.text("SELECT id FROM payments WHERE tenant_id = 'acme' AND idempotency_key = $1", key))
}

func TestSecondChargeUnderAFreshKeyIsFoundByItsReference(t *testing.T) {
	t.Parallel()
	s := lived(t)
	s.charge("", "fresh-0123456789abcdef",
		fmt.Sprintf(`{"amountCents":12000,"currency":"USD","paymentMethod":"pm_ok","reference":%q}`,
			s.reference(paidKey)))
	s.finds("I1", "2 successful charges for one reference")
	s.finds("I4", "at the PSP")
	s.finds("I9", "under a key that nobody has reserved")
	s.finds("I9", "1 of ")
}

func TestChargeOfNobodysIsFound(t *testing.T) {
	t.Parallel()
	s := lived(t)
	s.charge("", "fresh-0123456789abcdef",
		`{"amountCents":12000,"currency":"USD","paymentMethod":"pm_ok","reference":"order-7"}`)
	s.finds("I4", "nothing of ours")
	s.finds("I9", "nothing of ours")
}

func TestSendWithoutAnAttemptIsFound(t *testing.T) {
	t.Parallel()
	s := lived(t)
	s.charge("", paidKey, fmt.Sprintf(`{"amountCents":12000,"currency":"USD","paymentMethod":"pm_ok","reference":%q}`,
		s.reference(paidKey)))
	s.finds("I6", "sent 2 times to the PSP, in 1 attempts that did not deny it")
}

// A key that was given back and taken again, in the timeline of one that has had neither.
func TestKeyThatWasGivenBackWithoutAProofIsFound(t *testing.T) {
	t.Parallel()
	s := lived(t)
	restore := s.remember()
	const (
		line = "INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, at, actor, from_status, to_status, reason) VALUES "
		mine = "('acme', 'POST /payments', $1, 1, "
	)
	retaken := mine + "2, now(), 'request', 'failed_retryable', 'in_progress', '')"
	lost := mine + "1, now() - interval '3 seconds', 'owner', 'in_progress', 'unknown', ''), "
	for _, row := range []struct{ sql, invariant, detail string }{
		{line + mine + "1, now(), 'owner', 'in_progress', 'failed_retryable', ''), " + retaken, "", ""},
		{line + mine + "1, now(), 'request', 'in_progress', 'failed_retryable', ''), " + retaken, "I8",
			"request gave it back"},
		{line + lost + mine + "1, now(), 'lookup', 'unknown', 'failed_retryable', ''), " + retaken, "I8",
			"gave it back 3s after it became unknown"},
		{line + lost + mine + "1, now() + interval '2 seconds', 'lookup', 'unknown', 'failed_retryable', ''), " +
			retaken, "", ""},
	} {
		s.breach(row.sql, paidKey)
		s.breach("UPDATE idempotency_keys SET attempt = 2 WHERE tenant_id = 'acme' AND key = $1", paidKey)
		if row.invariant != "" {
			s.finds(row.invariant, row.detail)
		} else if found := s.checkWith(func(e *Evidence) { e.Retention = 0 }); len(
			found) > 0 { // the key was not really taken again
			t.Errorf("after %s: %v", row.sql, found)
		}
		restore()
	}
	// Attempt 2 has sent once, as the PSP knows, and attempt 1 has sworn that it has not. So have both, here.
	s.breach(line+mine+"1, now(), 'owner', 'in_progress', 'failed_retryable', ''), "+retaken+
		", "+mine+"2, now(), 'owner', 'in_progress', 'failed_retryable', ''), "+mine+
		"2, now(), 'webhook', 'failed_retryable', 'completed', '')", paidKey)
	s.breach("UPDATE idempotency_keys SET attempt = 2 WHERE tenant_id = 'acme' AND key = $1", paidKey)
	s.finds("I6", "sent 1 times to the PSP, in 0 attempts")
}

func TestRefundsBeyondTheirChargeAreFound(t *testing.T) {
	t.Parallel()
	charge := Entry{ID: "ch_1", Account: "acme", IdempotencyKey: "k", Reference: "pay_1", AmountCents: 100,
		Status: "succeeded"}
	refund := func(key string, amount int64) Entry {
		return Entry{ID: "rf_" + key, Account: "acme", IdempotencyKey: key, Reference: "re_" + key, ChargeID: "ch_1",
			AmountCents: amount, Status: "succeeded"}
	}
	declined := charge
	declined.Status = "declined"
	for name, row := range map[string]struct {
		charges, refunds []Entry
		found            int
	}{
		"all of it":             {[]Entry{charge}, []Entry{refund("a", 60), refund("b", 40)}, 0},
		"more than all":         {[]Entry{charge}, []Entry{refund("a", 60), refund("b", 41)}, 1},
		"of a decline":          {[]Entry{declined}, []Entry{refund("a", 1)}, 1},
		"of nothing":            {nil, []Entry{refund("a", 1)}, 1},
		"one under a key twice": {[]Entry{charge}, []Entry{refund("a", 1), refund("a", 1)}, 2},
	} {
		ledger := Ledger{Charges: row.charges, Refunds: row.refunds}
		if found := chargedOnce(world{ledger: &ledger}); len(found) != row.found {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestOtherTenantsPaymentThatShowsIsFound(t *testing.T) {
	t.Parallel()
	s := lived(t)
	leaky := s.evidence()
	leaky.APIKeys = map[string]string{"acme": apiKey("acme"), "globex": apiKey("acme")} // globex sees what acme sees
	leaky.History = nil
	found, err := Check(t.Context(), leaky)
	for _, detail := range []string{"asked for by globex: the answer is 200", "is in the list of globex"} {
		if err != nil || !slices.ContainsFunc(found,
			func(v Violation) bool { return v.Invariant == "I5" && strings.Contains(v.Detail, detail) }) {
			t.Errorf("%q not found: %v, %v", detail, found, err)
		}
	}
}

func TestReplayThatWouldExecuteIsNotSent(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.pay("acme", lostKey, "pm_500_not_charged")
	before := s.text("SELECT attempt FROM idempotency_keys")
	s.finds("I2", "still unknown")
	if after := s.text("SELECT attempt FROM idempotency_keys"); after != before {
		t.Errorf("attempt %s, before %s", after, before)
	}
}

func TestWaitingForQuietTellsWhatStillMoves(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.pay("acme", lostKey, "pm_500_charged")
	var err error
	// A busy machine may take longer for the first look.
	for limit := 3 * pollInterval; ; limit *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err = Quiet(ctx, s.evidence())
		cancel()
		if err == nil || !strings.Contains(err.Error(), "not looked at") {
			break
		}
	}
	if !errors.Is(err, ErrMoving) || !strings.Contains(err.Error(), "POST /payments "+lostKey+": still unknown") {
		t.Errorf("error: %v", err)
	}
}

func TestThousandsOfKeysAreCheckedInSeconds(t *testing.T) {
	if testing.Short() {
		t.Skip("long: thousands of keys")
	}
	t.Parallel()
	s := setup(t)
	s.breach(`INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, status)
		SELECT gen_random_uuid(), 'acme', 'key-0123456789-' || n, 1, 'c', 1, 'USD', 'pm_ok', 'failed' FROM generate_series(1, 5000) AS n`)
	s.breach(`INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at, reserved_at, finished_at, expires_at)
		SELECT 'acme', 'POST /payments', idempotency_key, 'failed_retryable', sha256(''), 1, 1, id, id, now(), now(), now(), now() + interval '48 hours' FROM payments`)
	s.breach(`INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
		SELECT tenant_id, operation, key, 1, 1, 'owner', 'in_progress', 'failed_retryable', '' FROM idempotency_keys`)
	began := time.Now()
	if found := s.check(); len(found) > 0 {
		t.Errorf("%d violations, as %v", len(found), found[0])
	}
	t.Logf("5000 keys in %s", time.Since(began))
}

// The answers of an API that is not to be trusted.
func TestReplayThatSaysOtherwiseIsFound(t *testing.T) {
	t.Parallel()
	s := lived(t)
	behind, err := url.Parse(s.api.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*http.Response){
		"it is not called a replay": func(r *http.Response) { r.Header.Set("Idempotent-Replayed", "false") },
		"location":                  func(r *http.Response) { r.Header.Set("Location", "/") },
		"none of the requests":      func(r *http.Response) { r.StatusCode = http.StatusUnprocessableEntity },
	} {
		proxy := &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(behind) },
			ModifyResponse: func(r *http.Response) error {
				if r.Request.Method == http.MethodPost {
					change(r)
				}
				return nil
			},
		}
		liar := httptest.NewServer(proxy)
		e := s.evidence()
		e.APIs = []string{s.api.URL, liar.URL + "/"}
		found, err := Check(t.Context(), e)
		liar.Close()
		// Every other key is asked for at the second API.
		if err != nil || len(found) != 2 || found[0].Invariant != "I3" || !strings.Contains(found[0].Detail, name) {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

// A record of another amount than was asked agrees with our books if an operator has decided so, each verdict by its
// own decision.
func TestWrongAmountIsLetPassByItsOwnDecisionAlone(t *testing.T) {
	t.Parallel()
	id := uuid.Must(uuid.NewV7())
	for _, row := range []struct {
		status payment.Status
		action deadletters.Action
		agrees bool
	}{
		{payment.Declined, deadletters.NotExecuted, true},
		{payment.Declined, deadletters.Executed, false},
		{payment.Declined, deadletters.Dismiss, false},
		{payment.Succeeded, deadletters.Executed, true},
		{payment.Succeeded, deadletters.NotExecuted, false},
	} {
		b := &books{accounts: map[string]string{"acme": "acct"},
			deadLetters: []deadLetterRow{{Subject: &id, Action: string(row.action)}},
			subjects: map[uuid.UUID]*movementRow{id: {ID: id, Tenant: "acme", Amount: 500, Currency: "USD",
				Status: string(row.status), PSPID: "ch_1"}}}
		e := Entry{ID: "ch_1", Account: "acct", Reference: payment.ID(id).String(), AmountCents: 501,
			Currency: "USD", Status: string(row.status), Fault: wrongAmount}
		if d, differs := b.compare(&e); differs == row.agrees {
			t.Errorf("%s, %s: differs %t: %s", row.status, row.action, differs, d.what)
		}
	}
}

// A key that was deleted is judged by what the archive has of it: answer, attempts and timeline.
func TestDeletedKeyIsJudgedByTheArchive(t *testing.T) {
	t.Parallel()
	s := lived(t)
	if err := Archive(t.Context(), s.db); err != nil {
		t.Fatal(err)
	}
	const it = " WHERE k.tenant_id = 'acme' AND k.operation = 'POST /payments' AND k.key = '" + lostKey + "'"
	s.exec("UPDATE idempotency_keys AS k SET status = 'expired', delete_after = clock_timestamp()" + it)
	s.exec(`INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
		SELECT tenant_id, operation, key, generation, attempt, 'pruner', 'completed', 'expired', 'retention over' FROM idempotency_keys AS k` + it)
	s.exec(`WITH gone AS (DELETE FROM idempotency_keys AS k` + it + ` RETURNING tenant_id, operation, key)
		DELETE FROM idempotency_key_events AS e USING gone AS g WHERE (e.tenant_id, e.operation, e.key) = (g.tenant_id, g.operation, g.key)`)
	for _, v := range s.check() {
		t.Error(v)
	}
	s.breach("UPDATE lab.ended_keys SET attempt = 2")
	s.finds("I8", "the row is expired in attempt 2")
	s.breach("UPDATE lab.ended_keys SET response_body = 'no'")
	s.finds("I3", "told otherwise than is stored")
}

func TestGenerationThatNamesTwoPaymentsIsFound(t *testing.T) {
	t.Parallel()
	s := lived(t)
	s.breach("UPDATE payments SET idempotency_key = '" + paidKey +
		"' WHERE tenant_id = 'acme' AND idempotency_key = '" + lostKey + "'")
	s.finds("I1", "is generation 1 of the key")
}

func TestKeyThatComesToNoEndIsFound(t *testing.T) {
	t.Parallel()
	for n, found := range map[int]int{mostRounds: 0, mostRounds + 1: 1, 3 * mostRounds: 1} {
		var b books
		for i := range n {
			for _, edge := range [][2]idempotency.Status{
				{idempotency.InProgressStatus, idempotency.UnknownStatus},
				{idempotency.UnknownStatus, idempotency.FailedRetryableStatus},
				{idempotency.FailedRetryableStatus, idempotency.InProgressStatus},
			} {
				b.events = append(b.events, eventRow{Tenant: "acme", Operation: payment.RefundOperation, Key: "k",
					Generation: 1, Attempt: int32(i), From: string(edge[0]), To: string(edge[1])})
			}
			// What an operator gives back is no round.
			b.events = append(b.events, eventRow{Tenant: "acme", Operation: payment.RefundOperation, Key: "k",
				Generation: 1, Actor: "operator", From: "unknown", To: "failed_retryable"})
			// Another life of the key begins to count from nothing, and so does another tenant's.
			b.events = append(b.events, eventRow{Tenant: "acme", Operation: payment.RefundOperation, Key: "k",
				Generation: int32(i) + 2, From: "unknown", To: "failed_retryable"},
				eventRow{Tenant: fmt.Sprint(i), Operation: payment.RefundOperation, Key: "k", Generation: 1,
					From: "unknown", To: "failed_retryable"})
		}
		if got := rounds(world{books: &b}); len(got) != found {
			t.Errorf("%d rounds: %v", n, got)
		}
	}
}
