package invariants

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"payonce/lab/history"
)

const wrongKey = "wrong-0123456789abcdef"

// Each row agrees with itself wherever one looks but in one place.
func TestWrongBookIsFoundThoughAllElseAgrees(t *testing.T) {
	t.Parallel()
	s := lived(t)
	restore := s.remember()
	body := func(from, to string) string {
		return fmt.Sprintf(`UPDATE idempotency_keys SET response_body = convert_to(regexp_replace(convert_from(response_body, 'UTF8'), '%s', '%s'), 'UTF8')
			WHERE tenant_id = 'acme' AND key = $1`, from, to)
	}
	payment := func(set string) string {
		return "UPDATE payments SET " + set + " WHERE tenant_id = 'acme' AND idempotency_key = $1"
	}
	for name, b := range map[string]struct{ sql, key, invariant, detail string }{
		"another amount is answered": {body(`"amountCents":12000`, `"amountCents":1`), lostKey, "I3",
			"amountCents is 1,"},
		"another charge is answered": {body(`"pspChargeId":"[^"]*"`, `"pspChargeId":"ch_of_somebody_else"`),
			lostKey, "I3", "ch_of_somebody_else"},
		"an operator is answered": {body(`"pspChargeId":"[^"]*"`, `"pspChargeId":"operator:1"`), lostKey, "I3",
			"operator:1"},
		"another payment is answered": {body(`"paymentId":"[^"]*"`, `"paymentId":"pay_other"`), lostKey, "I3",
			"pay_other"},
		"another status is answered": {body(`"succeeded"`, `"processing"`), lostKey, "I3",
			`status is "processing"`},
		"another reason is answered": {body(`"declineCode":"[^"]*"`, `"declineCode":"stolen"`), declinedKey, "I3",
			"stolen"},
		"another refund is answered": {body(`"refundId":"[^"]*"`, `"refundId":"re_other"`), refundKey, "I3",
			"re_other"},
		"more than was asked for": {payment("amount_minor = 120000"), paidKey, "I4",
			"amountCents is 120000, and has to be 12000"},
		"more than was asked to refund": {"UPDATE refunds SET amount_minor = 6000 WHERE idempotency_key = $1",
			refundKey, "I4", "amountCents is 6000, and has to be 5000"},
		"a share that is never given back": {payment("refund_held_minor = 7000"), paidKey, "I4", "hold 7000"},
		"a refund that is not counted":     {payment("refunded_minor = 0"), paidKey, "I4", "have moved 0"},
		"a refund in another currency": {"UPDATE refunds SET currency = 'EUR' WHERE idempotency_key = $1",
			refundKey, "I4", "no refund in the tenant and the currency"},
	} {
		s.breach(b.sql, b.key)
		t.Log(name)
		s.finds(b.invariant, b.detail)
		restore()
	}
}

// A wrong amount is excused while an operator has the case, and after the operator has let it pass. It is not excused
// when a client was told that the amount is right.
func TestDeadLetterDoesNotExcuseWhatAClientWasTold(t *testing.T) {
	t.Parallel()
	s := lived(t)
	ledger, err := ReadLedger(t.Context(), http.DefaultClient, s.psp.URL)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(ledger.Charges, func(e Entry) bool { return e.IdempotencyKey == wrongKey })
	s.breach("UPDATE payments SET status = 'succeeded', psp_charge_id = $1 WHERE idempotency_key = $2",
		ledger.Charges[at].ID, wrongKey)
	const detail = "12001 USD at the PSP, 12000 USD here (succeeded)"
	for _, kind := range []string{"contradicts_completed", "lookups_exhausted", "psp_contradicts_request"} {
		s.breach("UPDATE dead_letters SET kind = $1", kind)
		s.finds("I4", detail)
	}
	s.breach("UPDATE dead_letters SET status = 'resolved', action = 'dismiss', resolved_at = now(), actor = 'o', resolution_reason = 'r'")
	s.finds("I4", detail)
	s.breach("UPDATE dead_letters SET action = 'executed'")
	for _, v := range s.check() {
		if strings.Contains(v.Detail, "12001") {
			t.Errorf("an operator has let it pass: %v", v)
		}
	}
	s.breach("UPDATE payments SET amount_minor = 11999 WHERE tenant_id = 'acme' AND idempotency_key = $1", paidKey)
	s.breach("UPDATE dead_letters SET subject = (SELECT id FROM payments WHERE tenant_id = 'acme' AND idempotency_key = $1)", paidKey)
	s.finds("I4", "12000 USD at the PSP, 11999 USD here") // the PSP has not acted out a wrong amount there
}

func TestDeadLettersDoNotExcuseOtherContradictions(t *testing.T) {
	t.Parallel()
	s := lived(t)
	about := func(kind, key string) {
		s.breach("UPDATE dead_letters SET kind = $1, subject = (SELECT id FROM payments WHERE tenant_id = 'acme' AND idempotency_key = $2)", kind, key)
	}
	about("contradicts_completed", lostKey)
	s.breach("UPDATE payments SET status = 'declined', decline_code = 'stolen' WHERE tenant_id = 'acme' AND idempotency_key = $1", lostKey)
	s.finds("I4", "declined here")
	about("missing_at_psp", paidKey)
	s.breach("UPDATE payments SET psp_charge_id = 'ch_other' WHERE tenant_id = 'acme' AND idempotency_key = $1",
		paidKey)
	s.finds("I4", "which the PSP does not have")
}

// What an API shows that is not to be trusted.
func TestPaymentThatIsShownOtherwiseIsFound(t *testing.T) {
	t.Parallel()
	s := lived(t)
	behind, err := url.Parse(s.api.URL)
	if err != nil {
		t.Fatal(err)
	}
	for detail, lies := range map[string]func(path string) bool{
		"is shown otherwise than it is stored": func(path string) bool { return strings.HasPrefix(path, "/payments/") },
		"has 0 payments, and it has":           func(path string) bool { return path == "/payments" },
	} {
		honest := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(behind) }}
		liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || !lies(r.URL.Path) {
				honest.ServeHTTP(w, r)
			} else if _, err := w.Write([]byte(`{"data":[]}`)); err != nil {
				t.Error(err)
			}
		}))
		e := s.evidence()
		e.APIs, e.APIKeys = []string{liar.URL}, map[string]string{"acme": apiKey("acme")}
		found, err := Check(t.Context(), e)
		liar.Close()
		if err != nil || !slices.ContainsFunc(found,
			func(v Violation) bool { return v.Invariant == "I3" && strings.Contains(v.Detail, detail) }) {
			t.Errorf("%q not found: %v, %v", detail, found, err)
		}
	}
}

// What a server does that does not compare.
func TestSecondRequestThatGetsTheAnswerIsFound(t *testing.T) {
	t.Parallel()
	s := lived(t)
	e := s.evidence()
	first := slices.IndexFunc(e.History, func(o history.Operation) bool {
		return o.Tenant == "acme" &&
			o.Key == paidKey
	})
	other := e.History[first]
	other.Intent, other.Status = "another", http.StatusUnprocessableEntity
	e.History = append(e.History, other)
	w, err := look(t.Context(), Evidence{DB: e.DB, PSP: e.PSP, HTTP: http.DefaultClient})
	if err != nil {
		t.Fatal(err)
	}
	e.HTTP = http.DefaultClient
	found, err := replays(t.Context(), e, w)
	if err != nil || len(found) != 1 || found[0].Invariant != "I7" {
		t.Errorf("%v, %v", found, err)
	}
}

// A payment and a refund may have equal keys, and then each has its own attempts.
func TestSecondSendOfAPaymentIsNotExplainedByARefund(t *testing.T) {
	t.Parallel()
	s := lived(t)
	s.refund("acme", paidKey, paidKey, 100)
	for _, v := range s.check() {
		t.Errorf("the PSP has one of each: %v", v)
	}
	s.breach("UPDATE idempotency_keys SET attempt = 2 WHERE tenant_id = 'acme' AND operation = 'POST /payments/{id}/refunds' AND key = $1", paidKey)
	s.charge("", paidKey, fmt.Sprintf(`{"amountCents":12000,"currency":"USD","paymentMethod":"pm_ok","reference":%q}`,
		s.reference(paidKey)))
	s.finds("I6", "as a charge sent 2 times to the PSP, in 1 attempts")
}
