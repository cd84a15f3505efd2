package psp

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

// told is what a provider tells by an event or by a line of a statement.
type told struct {
	kind, about string
	seen        judge.Seen // by our books; a line needs none
	body        string     // of the event, or of the line
}

// The tables of docs/providers.md say what becomes of each event and of each line: the dialect reads it, and package
// judge decides. -update writes them.
func TestThePageSaysWhatBecomesOfWhatAProviderTells(t *testing.T) {
	t.Parallel()
	const path = "../../docs/providers.md"
	stored, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(stored)
	for name, table := range map[string]string{
		"events of native": table("event", nativeEvents(), eventBecomes(t, nativeDialect())),
		"events of stripe": table("event", stripeEvents(), eventBecomes(t, stripeDialect())),
		"lines of native":  table("line", nativeLines(), lineBecomes(t, nativeDialect(), nativeFile)),
		"lines of stripe":  table("line", stripeLines(), lineBecomes(t, stripeDialect(), stripeFile)),
	} {
		begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
		before, rest, ok := strings.Cut(page, begin)
		_, after, ended := strings.Cut(rest, end)
		if !ok || !ended {
			t.Fatalf("%s has no place for the %s", path, name)
		}
		page = before + begin + table + end + after
	}
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if page != string(stored) {
		t.Errorf("%s says something else: go test ./test/psp -run ThePage -update writes it", path)
	}
}

func table(first string, rows []told, becomes func(told) string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "| %s | its object | what becomes of it |\n|---|---|---|\n", first)
	for _, r := range rows {
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", r.kind, r.about, becomes(r))
	}
	return out.String()
}

func eventBecomes(t *testing.T, d *Dialect) func(told) string {
	t.Helper()
	c := offline(t, d, "http://psp.test")
	return func(r told) string {
		e, err := c.ParseEvent([]byte(r.body))
		if err != nil {
			t.Fatalf("%s, %s: %v", r.kind, r.about, err)
		}
		switch e := e.(type) {
		case gateway.Moved:
			return decided(judge.Judge(r.seen, judge.Record{Source: judge.SourceWebhook, Record: e.Record}), e.Record)
		case gateway.Ignored:
			return "ignored: " + e.Reason
		}
		return ""
	}
}

// decided is a step in the words of the page.
func decided(step judge.Step, r gateway.Record) string {
	holds := map[bool]string{true: "bounds refunds", false: "bounds nothing"}
	switch {
	case step.Open() != nil:
		return "dead letter `" + string(step.Open().Kind) + "`"
	case step.To() == idempotency.CompletedStatus:
		return "our " + string(r.Object) + " is `" + string(step.Verdict().Status) + "`"
	case step.Reversal() != nil:
		return "our refund is `failed`, and its share is given back"
	case step.Elsewhere() != nil && r.Object == gateway.DisputeObject:
		return "the dispute is `" + string(r.Dispute.Status) + "`; " + holds[r.Dispute.Status.Takes()]
	case step.Elsewhere() != nil:
		status := judge.RefundStatus(r)
		return "a refund `" + string(status.Shown()) + "`, with the origin `provider`; " +
			holds[status != payment.Reversed]
	}
	return "nothing"
}

func lineBecomes(t *testing.T, d *Dialect, file func(w io.Writer, r *http.Request, line string)) func(told) string {
	t.Helper()
	return func(r told) (words string) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			file(w, req, r.body)
		}))
		defer s.Close()
		published := gateway.StatementsOf(offline(t, d, s.URL))
		err := published.Statement(t.Context(), d.Account+"acme", booked(), func(l gateway.Line) error {
			if words = "summed up as `" + string(l.Object) + "`"; l.Object == gateway.UnknownObject {
				words = "summed up under the name of its type"
			}
			if l.Status != "" {
				words = "compared, as `" + string(l.Object) + "` with the status `" + l.Status + "`"
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s, %s: %v", r.kind, r.about, err)
		}
		return words
	}
}

// offline is a client for what needs no mock.
func offline(t *testing.T, d *Dialect, url string) gateway.PSP {
	t.Helper()
	after := func() time.Time { return booked().Add(48 * time.Hour) }
	c, err := d.Client(url, d.Secrets[:1], gateway.DefaultLimits(), after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// booked is the day of all lines, and the time of all objects.
func booked() time.Time { return time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC) }

// ofPayment is a payment of ours under the PSP's id.
func ofPayment(d *Dialect, id string, status payment.Status) judge.Seen {
	ch := aCharge(d)
	ch.TwoSteps, ch.ObjectID = d.Name == "stripe", id
	return seenOf(ch, payment.Verdict{Status: status, PSPID: id})
}

// ofRefund is a refund of ours.
func ofRefund(d *Dialect, charge, id string, status payment.Status) judge.Seen {
	ch := aCharge(d)
	return seenOf(gateway.Refund{Account: ch.Account, Key: ch.Key, Reference: ch.Reference, ChargeID: charge,
		AmountMinor: 500, Currency: ch.Currency, Attempt: 1}, payment.Verdict{Status: status, PSPID: id})
}

func seenOf(r gateway.Request, row payment.Verdict) judge.Seen {
	e := idempotency.Execution{Ref: idempotency.StoredRef("acme", "POST /payments", key),
		Subject: uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057"), Generation: 1, Attempt: 1}
	s := judge.Seen{Status: idempotency.CompletedStatus, Key: e, Own: e, Tenant: "acme", Account: "acct_acme",
		Request: r, Row: row}
	if row.Status == payment.Processing {
		s.Status, s.Row.PSPID = idempotency.UnknownStatus, ""
	}
	return s
}

func nativeEvents() (rows []told) {
	d := nativeDialect()
	event := func(object, status, about string, seen judge.Seen, marks, more string) {
		charge := map[bool]string{true: "", false: "ch_1"}[object == "charge"]
		rows = append(rows, told{object + "." + status, about, seen, fmt.Sprintf(`{"type":"%s.%s","data":{"id":"%s_1",`+
			`"object":%q,"account":"acct_acme",%s,"chargeId":%q,"currency":"USD","status":%q,`+
			`"createdAt":"2026-11-20T00:00:00.000000Z"%s}}`, object, status, object, object, marks, charge, status,
			more)})
	}
	ours := fmt.Sprintf(`"idempotencyKey":%q,"reference":%q`, key, reference)
	const others = `"idempotencyKey":"","reference":""`
	of := ofPayment(d, "charge_1", payment.Processing)
	amount := fmt.Sprintf(`,"amountCents":%d`, amount)
	event("charge", "succeeded", "of ours, unknown", of, ours, amount)
	event("charge", "declined", "of ours, unknown", of, ours, amount+`,"declineCode":"insufficient_funds"`)
	event("refund", "succeeded", "of ours, unknown", ofRefund(d, "ch_1", "", payment.Processing), ours,
		`,"amountCents":500`)
	event("refund", "declined", "of ours, unknown", ofRefund(d, "ch_1", "", payment.Processing), ours,
		`,"amountCents":500,"declineCode":"charge_not_refundable"`)
	event("refund", "failed", "of ours, which succeeded", ofRefund(d, "ch_1", "refund_1", payment.Succeeded), ours,
		`,"amountCents":500,"declineCode":"expired_or_canceled_card"`)
	for _, status := range []string{"pending", "succeeded", "failed"} {
		code := map[bool]string{true: `,"declineCode":"expired_or_canceled_card"`}[status == "failed"]
		event("refund", status, "of others", ofPayment(d, "ch_1", payment.Succeeded), others, `,"amountCents":500`+code)
	}
	for _, status := range []string{"inquiry", "closed", "needs_response", "under_review", "won", "lost"} {
		event("dispute", status, "a dispute", ofPayment(d, "ch_1", payment.Succeeded), others,
			`,"amountCents":500,"reason":"fraudulent"`)
	}
	return rows
}

func nativeLines() (rows []told) {
	for _, l := range [][2]string{
		{"charge", "succeeded"}, {"refund", "succeeded"}, {"refund", "failed"}, {"dispute", "needs_response"},
		{"dispute", "won"}, {"fee", ""}, {"payout", ""}, {"adjustment", ""},
	} {
		charge := map[bool]string{true: "ch_1"}[l[0] == "refund" || l[0] == "dispute"]
		status := map[bool]string{true: "`" + l[1] + "`", false: "none"}[l[1] != ""]
		rows = append(rows, told{kind: l[0], about: status, body: fmt.Sprintf(
			"%s_1,%[1]s,,,%s,500,USD,%s,0,500,2026-11-20T00:00:00.000000Z", l[0], charge, l[1])})
	}
	return rows
}

func nativeFile(w io.Writer, _ *http.Request, line string) {
	fmt.Fprintf(w, "id,object,idempotencyKey,reference,chargeId,amountCents,currency,status,feeCents,netCents,"+
		"createdAt\n%s\ntotal,1,,,,,,,,,\n", line)
}

func stripeEvents() (rows []told) {
	d := stripeDialect()
	event := func(kind, about string, seen judge.Seen, object string) {
		rows = append(rows, told{kind, about, seen, fmt.Sprintf(`{"id":"evt_1","object":"event","type":%q,`+
			`"account":"acct_acme","livemode":false,"data":{"object":%s}}`, kind, object)})
	}
	of := ofPayment(d, "pi_1", payment.Processing)
	event("payment_intent.succeeded", "of ours, unknown", of, stripeIntent("succeeded", "payonce:ours"))
	event("payment_intent.payment_failed", "of ours, unknown", of,
		stripeIntent("requires_payment_method", "payonce:ours"))
	event("payment_intent.succeeded", "of another program", of, stripeIntent("succeeded", "shop"))
	event("payment_intent.canceled", "of ours", of, stripeIntent("canceled", "payonce:ours"))
	unknown, done := ofRefund(d, "pi_1", "", payment.Processing), ofRefund(d, "pi_1", "re_1", payment.Succeeded)
	paid := ofPayment(d, "pi_1", payment.Succeeded)
	for _, kind := range []string{"refund.created", "refund.updated", "charge.refund.updated"} {
		event(kind, "of ours, unknown: `succeeded`", unknown, stripeRefund("succeeded", "payonce:ours"))
	}
	event("refund.created", "of ours: `pending`, `requires_action`", unknown, stripeRefund("pending", "payonce:ours"))
	event("refund.failed", "of ours, unknown: `failed`", unknown, stripeRefund("failed", "payonce:ours"))
	event("refund.failed", "of ours, which succeeded: `failed`", done, stripeRefund("failed", "payonce:ours"))
	event("refund.updated", "of ours, which succeeded: `canceled`", done, stripeRefund("canceled", "payonce:ours"))
	for _, status := range []string{"pending", "requires_action", "succeeded", "failed", "canceled"} {
		kind := map[string]string{"failed": "refund.failed", "canceled": "refund.updated"}[status]
		if kind == "" {
			kind = "refund.created"
		}
		event(kind, "of others: `"+status+"`", paid, stripeRefund(status, ""))
	}
	event("charge.refunded", "a charge", paid, stripeCharge)
	for _, row := range [][2]string{
		{"created", "warning_needs_response"}, {"updated", "warning_under_review"}, {"closed", "warning_closed"},
		{"closed", "prevented"}, {"created", "needs_response"}, {"funds_withdrawn", "needs_response"},
		{"updated", "under_review"}, {"closed", "won"}, {"funds_reinstated", "won"}, {"closed", "lost"},
		{"funds_reinstated", "lost"}, {"updated", "a later status of Stripe's"},
	} {
		event("charge.dispute."+row[0], "`"+row[1]+"`", paid, stripeDispute(row[1]))
	}
	event("charge.dispute.created", "of a charge without an intent", paid,
		strings.Replace(stripeDispute("needs_response"), `"pi_1"`, "null", 1))
	event("payout.paid", "any other", paid, `{"id":"po_1","object":"payout"}`)
	return rows
}

func stripeMarks(origin string) string {
	if origin == "" {
		return "{}"
	}
	return fmt.Sprintf(`{"origin":%q,"reference":%q,"idempotency_key":%q}`, origin, reference, key)
}

func stripeIntent(status, origin string) string {
	received, failure := 0, "null"
	switch status {
	case "succeeded":
		received = amount
	case "requires_payment_method":
		failure = `{"type":"card_error","code":"card_declined","decline_code":"insufficient_funds"}`
	}
	return fmt.Sprintf(`{"id":"pi_1","object":"payment_intent","amount":%d,"amount_received":%d,"currency":"usd",`+
		`"created":%d,"last_payment_error":%s,"metadata":%s,"status":%q}`, amount, received, booked().Unix(), failure,
		stripeMarks(origin), status)
}

func stripeRefund(status, origin string) string {
	return fmt.Sprintf(`{"id":"re_1","object":"refund","amount":500,"currency":"usd","payment_intent":"pi_1",`+
		`"created":%d,"metadata":%s,"status":%q}`, booked().Unix(), stripeMarks(origin), status)
}

func stripeDispute(status string) string {
	return fmt.Sprintf(`{"id":"du_1","object":"dispute","amount":500,"currency":"usd","payment_intent":"pi_1",`+
		`"created":%d,"reason":"fraudulent","status":%q}`, booked().Unix(), status)
}

var stripeCharge = fmt.Sprintf(`{"id":"ch_1","object":"charge","amount":%d,"amount_captured":%d,"captured":true,`+
	`"currency":"usd","status":"succeeded","payment_intent":"pi_1","failure_code":null,"outcome":{"reason":null},`+
	`"created":%d,"metadata":%s}`, amount, amount, booked().Unix(), stripeMarks("payonce:ours"))

func stripeLines() (rows []told) {
	payout := `{"id":"po_1","object":"payout"}`
	for _, l := range []struct {
		kind, category, about string
		amount                int
		source                string
	}{
		{"charge", "charge", "a charge of ours", amount, stripeCharge},
		{"charge", "charge", "a charge of another program", amount,
			strings.Replace(stripeCharge, "payonce:ours", "shop", 1)},
		{"refund", "refund", "a refund: `succeeded`", -500, stripeRefund("succeeded", "")},
		{"refund", "refund", "a refund of ours: `pending`", -500, stripeRefund("pending", "payonce:ours")},
		{"refund_failure", "refund_failure", "a refund: `failed`", 500, stripeRefund("failed", "")},
		{"adjustment", "refund_failure", "a refund: `failed`", 500, stripeRefund("failed", "")},
		{"payment_failure_refund", "charge_failure", "a charge", -500, stripeCharge},
		{"payment_reversal", "charge_failure", "a charge", -500, stripeCharge},
		{"adjustment", "dispute", "a dispute: `needs_response`", -500, stripeDispute("needs_response")},
		{"adjustment", "dispute_reversal", "a dispute: `won`", 500, stripeDispute("won")},
		{"adjustment", "dispute_reversal", "a dispute: `lost`, and a part comes back", 200, stripeDispute("lost")},
		{"adjustment", "fee", "a dispute", -1500, stripeDispute("lost")},
		{"stripe_fee", "fee", "any", -5, "null"}, {"payout", "payout", "a payout", -500, payout},
		{"payout_failure", "payout_reversal", "a payout", 500, payout},
		{"adjustment", "other_adjustment", "none", -5, "null"},
	} {
		rows = append(rows, told{kind: l.kind + "`, `" + l.category, about: l.about, body: fmt.Sprintf(
			`{"id":"txn_1","object":"balance_transaction","amount":%d,"fee":0,"net":%d,"currency":"usd","type":%q,`+
				`"reporting_category":%q,"created":%d,"source":%s}`, l.amount, l.amount, l.kind, l.category,
			booked().Unix()+100, l.source)})
	}
	return rows
}

// stripeFile has the one line in the window of its time.
func stripeFile(w io.Writer, r *http.Request, line string) {
	from, _ := strconv.ParseInt(r.URL.Query().Get("created[gte]"), 10, 64)
	if from > booked().Unix()+100 {
		line = ""
	}
	fmt.Fprintf(w, `{"object":"list","has_more":false,"data":[%s]}`, line)
}
