package mockpsp

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// onDays dates entries by a clock that the test sets.
func onDays(t *testing.T, further ...func(*Config)) (p *running, set func(string)) {
	t.Helper()
	var now atomic.Pointer[time.Time]
	set = func(text string) {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		now.Store(&at)
	}
	set("2026-03-01T12:00:00Z")
	return setup(t, func(c *Config) {
		c.Now = func() time.Time { return *now.Load() }
		c.HangLimit = time.Millisecond
		for _, change := range further {
			change(c)
		}
	}), set
}

func (p *running) settlement(date string) [][]string {
	p.t.Helper()
	answer := p.get("/v1/settlements/" + date + ".csv")
	answer.want(p.t, http.StatusOK, "")
	if got := answer.header.Get("Content-Type"); got != "text/csv; charset=utf-8" {
		p.t.Errorf("content type %q", got)
	}
	lines, err := csv.NewReader(strings.NewReader(answer.body)).ReadAll()
	if err != nil {
		p.t.Fatalf("%s: %v", answer.body, err)
	}
	if got := strings.Join(lines[0], ","); got != "id,object,idempotencyKey,reference,chargeId,amountCents,currency,"+
		"status,feeCents,netCents,createdAt" {
		p.t.Errorf("header %q", got)
	}
	if want := []string{"total", fmt.Sprint(len(lines) - 2), "", "", "", "", "", "",
		"", "", ""}; !slices.Equal(lines[len(lines)-1], want) {
		p.t.Errorf("trailer %q", lines[len(lines)-1])
	}
	return lines[1 : len(lines)-1]
}

// fee is what is kept of a charge: 2.9 percent and 30 cents. Nothing is given back with a refund.
func (e entry) fee() int64 {
	if e.Object != "charge" {
		return 0
	}
	return min(e.AmountCents, int64(math.Round(float64(e.AmountCents)*0.029))+30)
}

func (e entry) net() int64 {
	if e.Object != "charge" {
		return -e.AmountCents
	}
	return e.AmountCents - e.fee()
}

func (e entry) line() []string {
	return []string{
		e.ID, e.Object, e.IdempotencyKey, e.Reference, e.ChargeID, fmt.Sprint(e.AmountCents), e.Currency, e.Status,
		fmt.Sprint(e.fee()), fmt.Sprint(e.net()), e.CreatedAt,
	}
}

func TestSettlementListsTheDaysMovementsOldestFirst(t *testing.T) {
	t.Parallel()
	p, set := onDays(t)
	set("2026-03-01T23:59:59Z")
	yesterday := p.charge("key-0", "pm_ok").entry(t)
	set("2026-03-02T00:00:00Z")
	first := p.charge("key-1", "pm_wrong_amount").entry(t)
	p.charge("key-2", "pm_declined")
	p.charge("key-3", "pm_stuck")
	refund := p.refund(yesterday.ID, "key-4", "", 10).entry(t)
	p.refund(yesterday.ID, "key-5", "", 100_000).want(t, http.StatusPaymentRequired, "")
	p.send(t.Context(), http.MethodPost, "/v1/charges", chargeBody("pm_ok"),
		header{"Idempotency-Key": "key-6", "PSP-Account": "globex"})
	set("2026-03-03T00:00:00Z")
	tomorrow := p.charge("key-7", "pm_ok").entry(t)

	want := [][]string{first.line(), p.ledger("key-3").Charges[0].line(), refund.line()}
	if got := p.settlement("2026-03-02"); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for date, only := range map[string]entry{"2026-03-01": yesterday, "2026-03-03": tomorrow} {
		if got := p.settlement(date); len(got) != 1 || !slices.Equal(got[0], only.line()) {
			t.Errorf("%s: %q", date, got)
		}
	}
	if got := p.settlement("2026-02-28"); len(got) != 0 {
		t.Errorf("a day without movements: %q", got)
	}
}

func TestSettlementQuotesWhatItMust(t *testing.T) {
	t.Parallel()
	p, _ := onDays(t)
	for i, reference := range []string{`a,b`, `say \"so\"`, `two\nlines`, ` spaces `, `주문`, `\\.`} {
		body := fmt.Sprintf(`{"amountCents":1,"currency":"KRW","paymentMethod":"pm_ok","reference":"%s"}`, reference)
		p.send(t.Context(), http.MethodPost, "/v1/charges", body,
			header{"Idempotency-Key": fmt.Sprintf("key, \"%d\"", i)}).want(t, http.StatusCreated, "")
	}
	lines := p.settlement("2026-03-01")
	for i, charge := range p.ledger("").Charges {
		if !slices.Equal(lines[i], charge.line()) {
			t.Errorf("got %q, want %q", lines[i], charge.line())
		}
	}
	if raw := p.get("/v1/settlements/2026-03-01.csv").body; !strings.HasSuffix(raw, "\r\ntotal,6,,,,,,,,,\r\n") ||
		!strings.Contains(raw, "\"two\nlines\"") {
		t.Errorf("lines end otherwise than RFC 4180 says, or a field was changed: %q", raw)
	}
}

func TestSettlementOfADayThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	p, set := onDays(t)
	set("2026-03-02T00:30:00+01:00") // still the first, in UTC
	for path, want := range map[string]struct {
		status int
		code   string
	}{
		"2026-03-01.csv": {http.StatusOK, ""},
		"2026-03-02.csv": {http.StatusNotFound, "settlement_not_found"},
		"2026-02-30.csv": {http.StatusBadRequest, "invalid_request"},
		"2026-3-1.csv":   {http.StatusBadRequest, "invalid_request"},
		"today.csv":      {http.StatusBadRequest, "invalid_request"},
		".csv":           {http.StatusBadRequest, "invalid_request"},
		"2026-03-01":     {http.StatusNotFound, "not_found"},
	} {
		p.get("/v1/settlements/"+path).want(t, want.status, want.code)
	}
	p.send(t.Context(), http.MethodGet, "/v1/settlements/2026-03-01.csv", "", header{"Authorization": ""}).want(t,
		http.StatusUnauthorized, "unauthenticated")
	p.send(t.Context(), http.MethodGet, "/v1/settlements/2026-03-01.csv", "", header{"PSP-Account": ""}).want(t,
		http.StatusBadRequest, "invalid_request")
}

// pieces counts what is written at a time, and goes away after limit.
type pieces struct {
	bytes.Buffer
	largest, count, limit int
}

func (w *pieces) Write(p []byte) (int, error) {
	w.largest, w.count = max(w.largest, len(p)), w.count+1
	if w.count > w.limit {
		return 0, http.ErrHandlerTimeout
	}
	return w.Buffer.Write(p)
}

func TestSettlementIsWrittenPieceByPiece(t *testing.T) {
	t.Parallel()
	records := make([]*record, 10_000)
	for i := range records {
		records[i] = &record{Entry: entry{ID: fmt.Sprint("ch_", i), Object: ObjectCharge, Account: "acme",
			Status: StatusSucceeded}}
	}
	whole := &pieces{limit: len(records)}
	writeSettlement(whole, records, "acme")
	if whole.largest > 64<<10 || whole.count < 2 || !strings.HasSuffix(whole.String(), "\r\ntotal,10000,,,,,,,,,\r\n") {
		t.Errorf("%d bytes in %d pieces", whole.Len(), whole.count)
	}
	cut := &pieces{limit: 3}
	writeSettlement(cut, records, "acme")
	if cut.count != 4 || strings.Contains(cut.String(), "total") {
		t.Errorf("written on, %d times, for a reader that has gone", cut.count)
	}
}

// payOut pays the account's balances, and returns the payouts as "amount currency".
func (p *running) payOut(account string) (ids, amounts []string) {
	p.t.Helper()
	answer := p.door("/_payouts", fmt.Sprintf(`{"account":%q}`, account))
	answer.want(p.t, http.StatusOK, "")
	var paid []entry
	if err := json.Unmarshal([]byte(answer.body), &paid); err != nil {
		p.t.Fatal(err)
	}
	for _, e := range paid {
		ids, amounts = append(ids, e.ID), append(amounts, fmt.Sprint(e.AmountCents, " ", e.Currency))
	}
	return ids, amounts
}

// paidBy is the file of a payout, without its header and the times.
func (p *running) paidBy(id string) string {
	p.t.Helper()
	answer := p.get("/v1/payouts/" + id + ".csv")
	answer.want(p.t, http.StatusOK, "")
	var lines []string
	for line := range strings.Lines(answer.body) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), ",")
		lines = append(lines, name)
	}
	return strings.Join(lines, " ")
}

func TestPayoutPaysEachLineOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	p, _ := onDays(t, onFile(path))
	usd := p.charge("key-1", "pm_ok").entry(t)
	p.charge("key-2", "pm_declined")
	refund := p.refund(usd.ID, "key-3", "", 100).entry(t)
	p.door("/_adjustments", `{"account":"acme","amountCents":7,"currency":"KRW"}`).want(t, http.StatusOK, "")
	p.door("/_adjustments", `{"account":"acme","amountCents":7,"currency":"USD"}`).want(t, http.StatusOK, "")
	p.door("/_adjustments", `{"account":"globex","amountCents":1,"currency":"KRW"}`).want(t, http.StatusOK, "")
	first, amounts := p.payOut("acme")
	want := fmt.Sprint(usd.net()-100-7, " KRW")
	if diff := cmp.Diff([]string{want}, amounts); diff != "" {
		t.Fatalf("payouts differ (-want +got):\n%s", diff)
	}
	lines := p.settlement("2026-03-01")
	if got := lines[len(lines)-1]; got[0] != first[0] || got[1] != "payout" || "-"+got[5] != got[9] {
		t.Errorf("the payout's line is %q", got)
	}
	if again, _ := p.payOut("acme"); len(again) != 0 {
		t.Errorf("paid again: %v", again)
	}
	p.stop()
	p = setup(t, onFile(path, toldTo(newReceiver(t, receive204))))
	p.awaitWebhooks(0, 3, 0, 0) // of two charges and a refund, and none of what has no webhook
	later := p.charge("key-4", "pm_ok").entry(t)
	second, amounts := p.payOut("acme")
	if want := fmt.Sprint(later.net(), " KRW"); len(amounts) != 1 || amounts[0] != want {
		t.Errorf("after a restart: %q, want %s", amounts, want)
	}
	adjustment := lines[2][0]
	if got, want := p.paidBy(first[0]), "id "+usd.ID+" "+refund.ID+" "+adjustment+" total"; got != want {
		t.Errorf("the first has paid %s, want %s", got, want)
	}
	if got, want := p.paidBy(second[0]), "id "+later.ID+" total"; got != want {
		t.Errorf("the second has paid %s, want %s", got, want)
	}
	p.get("/v1/payouts/"+usd.ID+".csv").want(t, http.StatusNotFound, "payout_not_found")
	p.resend(first[0], "").want(t, http.StatusNotFound, "entry_not_found") // It has no webhook.
}

func TestAdjustmentThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	p, _ := onDays(t)
	for _, body := range []string{`{}`, `{"account":"acme","amountCents":0,"currency":"USD"}`,
		`{"account":"acme","amountCents":1,"currency":"usd"}`, `{"amountCents":1,"currency":"USD"}`,
		`{"account":"acme","amountCents":1,"currency":"USD","x":1}`} {
		p.door("/_adjustments", body).want(t, http.StatusBadRequest, "invalid_request")
	}
}
