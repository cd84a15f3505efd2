package payment

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/test/golden"
)

// sameAsGolden compares a response with testdata/<name>.golden. What is stored is replayed for days, also to the byte:
// a difference here needs a new schemaVersion.
func sameAsGolden(t *testing.T, name string, r idempotency.Response) {
	t.Helper()
	got := fmt.Sprintf("%d\nContent-Type: %s\nLocation: %s\nschema version %d\n\n%s", r.Status, r.ContentType,
		r.Location, r.SchemaVersion, r.Body)
	golden.File(t, filepath.Join("testdata", name+".golden"), got)
}

func aPayment() Payment {
	return Payment{
		ID: ID(uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")), Tenant: "acme", CustomerID: "cus-1",
		Amount: 12000, Currency: "USD", PaymentMethod: "pm_ok", Status: Processing, Key: "order-0042-attempt-1",
		Created: time.Date(2026, 11, 20, 9, 5, 0, 120_000_000, time.FixedZone("KST", 9*60*60)),
	}
}

func aRefund() Refund {
	return Refund{
		ID: RefundID(uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8058")), PaymentID: aPayment().ID,
		Amount: 4500, Currency: "USD", Status: Processing, Origin: OriginAPI, Key: "refund-0042-attempt-1",
		Created: time.Date(2026, 11, 20, 9, 5, 0, 7_000, time.UTC),
	}
}

// A client that takes each 2xx for a success sees at once that this one is none. What is stored keeps its order.
func TestStatusComesFirstWhileTheOutcomeIsOpen(t *testing.T) {
	t.Parallel()
	payment, refund := aPayment(), aRefund()
	for status, first := range map[Status]bool{Processing: true, Succeeded: false, Declined: false, Failed: false} {
		payment.Status, refund.Status = status, status
		for _, r := range []Resource{payment, refund} {
			body, err := r.MarshalJSON()
			if err != nil || strings.HasPrefix(string(body), `{"status":"`+string(status)+`",`) != first ||
				strings.Count(string(body), `"status"`) != 1 {
				t.Errorf("%s, %v", body, err)
			}
		}
	}
}

func TestStoredResponsesAreTheGoldenOnes(t *testing.T) {
	t.Parallel()
	plain, full := aPayment(), aPayment()
	full.Currency, full.Amount = "KRW", 999999999999
	full.Reference = "order-42"
	full.Description = "caf\u00e9 \"42\" <b> \u2028 \U0001f4b3\n"
	full.Metadata = map[string]string{"b": "2", "a": "1", "A": "</script>"}
	noReason, withReason := aRefund(), aRefund()
	withReason.Reason, withReason.Currency = "wrong size", "KWD"
	for name, c := range map[string]struct {
		of Resource
		v  Verdict
	}{
		"payment_201":      {plain, Verdict{Status: Succeeded, PSPID: "ch_1"}},
		"payment_201_full": {full, Verdict{Status: Succeeded, PSPID: "ch_1"}},
		"payment_402":      {full, Verdict{Status: Declined, PSPID: "ch_2", Code: "insufficient_funds"}},
		"refund_201":       {noReason, Verdict{Status: Succeeded, PSPID: "rf_1"}},
		"refund_201_full":  {withReason, Verdict{Status: Succeeded, PSPID: "rf_1"}},
		"refund_402":       {withReason, Verdict{Status: Declined, PSPID: "rf_2", Code: "refund_exceeds_charge"}},
	} {
		response, err := c.of.Response(c.v, "https://pay.example")
		if err != nil {
			t.Fatal(err)
		}
		sameAsGolden(t, name, response)
	}
}

func text(t *testing.T, r Resource) string {
	t.Helper()
	raw, err := r.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A merchant who is refused a refund must see why. What is stored is the same for all who store it.
func TestWhatOthersHaveMovedIsShownAndNotStored(t *testing.T) {
	t.Parallel()
	p := aPayment()
	p.Refunded, p.Updated = 500, p.Created
	for _, status := range []gateway.DisputeStatus{gateway.Inquiry, gateway.NeedsResponse, gateway.UnderReview,
		gateway.Closed, gateway.Won, gateway.Lost} {
		p.Disputes = append(p.Disputes, Dispute{PSPID: "dp_" + string(status), Status: status, Amount: 30,
			Currency: "USD", Reason: "fraudulent", Opened: p.Created, Updated: p.Created})
	}
	for status, shown := range map[Status]bool{Succeeded: true, Processing: false} {
		p.Status = status
		body := text(t, p)
		for _, part := range []string{`"amountRefundedCents":500`, `"amountDisputedCents":90`,
			`"pspDisputeId":"dp_won"`} {
			if strings.Contains(body, part) != shown {
				t.Errorf("%s: %s, want %s: %t", status, body, part, shown)
			}
		}
		if closed := strings.Count(body, `"closedAt"`); shown && closed != 3 {
			t.Errorf("%d disputes are closed: %s", closed, body)
		}
	}
	p.Status = Processing
	stored, err := p.Response(Verdict{Status: Succeeded, PSPID: "psp_1"}, "")
	said := string(stored.Body)
	if err != nil || strings.Contains(said, "isputed") || strings.Contains(said, "updated") ||
		!strings.Contains(said, `"amountRefundedCents":0`) {
		t.Errorf("stored: %s, %v", stored.Body, err)
	}
}

// Nobody can convert an amount here.
func TestDisputeInAnotherCurrencyIsTheWholePayment(t *testing.T) {
	t.Parallel()
	p := aPayment()
	p.Disputes = []Dispute{{Status: gateway.Lost, Amount: 1, Currency: "EUR"}}
	if p.Disputed() != p.Amount {
		t.Errorf("disputed %d", p.Disputed())
	}
}

// A refund whose money came back has failed, for a client: the customer does not have the money.
func TestReversedRefundHasFailed(t *testing.T) {
	t.Parallel()
	r := aRefund()
	r.Status, r.Origin = Reversed, OriginProvider
	r.Key = ""
	if got := text(t, r); !strings.Contains(got, `"status":"failed"`) ||
		!strings.Contains(got, `"origin":"provider"`) || strings.Contains(got, "idempotencyKey") {
		t.Error(got)
	}
}

// One row, one text: however often it is written, and in whatever zone its time was read.
func TestResourceIsWrittenTheSameEachTime(t *testing.T) {
	t.Parallel()
	p := aPayment()
	p.Metadata = many(20)
	first := text(t, p)
	p.Created = p.Created.UTC()
	for range 50 {
		if again := text(t, p); again != first {
			t.Fatalf("%s\nthen %s", first, again)
		}
	}
	if !strings.Contains(first, `"createdAt":"2026-11-20T00:05:00.120000Z"`) {
		t.Fatalf("not in UTC with microseconds: %s", first)
	}
}
