package commands

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"payonce/internal/cli"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/test/pgtest"
)

const refundKey = "give-0000000042-back"

func (c *operatorCall) showKey(args ...string) (string, error) {
	var out bytes.Buffer
	err := Key(c.t.Context(), append([]string{"show"}, args...), Deps[Books]{
		Stdout: &out, Open: func() (Books, func(), error) { return Books{c.keys, c.pay, c.ops}, func() {}, nil },
	})
	return out.String(), err
}

// charge makes a payment with a long description, and gives its id.
func (c *operatorCall) charge(key string) payment.ID {
	c.t.Helper()
	parsed, err := idempotency.ParseKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	_, err = c.pay.Create(c.t.Context(), payments.Keyed{
		Merchant: payment.Merchant{Tenant: "acme", PSP: native.Name, PSPAccount: "acme"},
		Key:      parsed}, payment.CreateRequest{
		CustomerID: "cus-1", AmountCents: 12000, Currency: "USD", PaymentMethod: "pm_ok",
		Description: strings.Repeat("a long story ", 15), Metadata: map[string]string{"order": "42", "shop": "north"},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	record, err := c.keys.Find(c.t.Context(), idempotency.StoredRef("acme", "POST /payments", key))
	if err != nil {
		c.t.Fatal(err)
	}
	return payment.ID(record.Subject)
}

func (c *operatorCall) giveBack(id payment.ID) {
	c.t.Helper()
	key, err := idempotency.ParseKey(refundKey)
	if err != nil {
		c.t.Fatal(err)
	}
	_, err = c.pay.Refund(c.t.Context(), payments.Keyed{
		Merchant: payment.Merchant{Tenant: "acme", PSP: native.Name, PSPAccount: "acme"},
		Key:      key}, id,
		payment.RefundRequest{AmountCents: 500, Reason: "broken on arrival"})
	if err != nil {
		c.t.Fatal(err)
	}
}

func TestKeyIsShownWithItsPaymentAndTimeline(t *testing.T) {
	t.Parallel()
	c := terminal(t)
	c.lost()
	id := c.charge("order-0000000043")
	c.giveBack(id)
	pgtest.Exec(t, c.pool, `INSERT INTO disputes (tenant_id, payment_id, psp_id, amount_minor, currency, status, opened_at)
		VALUES ('acme', $1, 'dp_1', 4500, 'USD', 'under_review', now())`, id)
	for _, row := range []struct {
		args  []string
		wants []string
	}{
		{[]string{lostKey, "--tenant", "acme"}, []string{
			`(?m)^key +` + lostKey + `$`, `tenant +acme`, `operation +POST /payments`,
			`status +unknown, attempt 1, generation 1`, `expires +\S+Z`,
			`payment +pay_\w{26}: processing`, `amount +120\.00 USD`, `customer +cus-1`, `method +pm_ok`,
			`Timeline of the key\nAT +ACTOR`, `request +- +in_progress +1 +1 +reserved`,
			`owner +in_progress +unknown +1 +1 `,
		}},
		{[]string{"--tenant=acme", "order-0000000043", "--operation", "POST /payments"}, []string{
			`status +completed, attempt 1`, `response +201, application/json, \d+ bytes`, `payment +` + id.String() +
				`: succeeded`, `charge +ch_\w+`, `refunded +5\.00 USD`,
			`dispute +dp_1: under_review, 45\.00 USD`,
			`description +a long story`, `metadata +order=42\nmetadata +shop=north`,
			`owner +in_progress +completed +1 +1 +the PSP answered;`,
		}},
		{[]string{refundKey, "--tenant", "acme", "--operation", payment.RefundOperation}, []string{
			`operation +POST /payments/\{id\}/refunds`, `refund +re\w*_\w+: succeeded\namount +5\.00 USD`,
			`reason +broken on arrival`, `payment +` + id.String() + `: succeeded`,
		}},
	} {
		out, err := c.showKey(row.args...)
		if err != nil {
			t.Fatalf("key show %q: %v", row.args, err)
		}
		for _, want := range row.wants {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("key show %q: %s is missing in\n%s", row.args, want, out)
			}
		}
		fits(t, out)
	}
}

// fits checks that a terminal of 120 columns shows it as it was meant.
func fits(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > terminalColumns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestKeyThatThereIsNotIsExplained(t *testing.T) {
	t.Parallel()
	c := terminal(t)
	c.giveBack(c.charge("order-0000000043"))
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"order-9", "--tenant", "acme"},
			`tenant "acme" has no key "order-9": it was never used, or has been deleted; api tenants list shows the tenants`},
		{[]string{"order-0000000043", "--tenant", "globex"}, `tenant "globex" has no key "order-0000000043"`},
		{[]string{refundKey, "--tenant", "acme"},
			`has this key for another operation: add --operation 'POST /payments/{id}/refunds'`},
		{[]string{"order-0000000043", "--tenant", "acme", "--operation", payment.RefundOperation},
			"add --operation 'POST /payments'"},
	} {
		out, err := c.showKey(row.args...)
		if cli.Code(err) != 1 || !strings.Contains(err.Error(), row.want) || out != "" {
			t.Errorf("key show %q: %v\n%s", row.args, err, out)
		}
	}
	c.its.Close()
	if _, err := c.showKey("order-0000000043", "--tenant", "acme"); cli.Code(err) != 1 ||
		!strings.Contains(err.Error(), "DATABASE_URL") {
		t.Errorf("without a database: %v", err)
	}
}

func TestRowsFitTheTerminalAndLoseNothing(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 60) + strings.Repeat("x", 300) + " \x1b[2J\u009b1m end"
	var out bytes.Buffer
	if err := printRows(&out, [][]string{{"AT", "ACTOR", "REASON"}, {"now", "sweeper", long},
		{"then", "über", ""}}); err != nil {
		t.Fatal(err)
	}
	fits(t, out.String())
	if strings.ContainsAny(out.String(), "\x1b\u009b") || strings.Count(out.String(), "word") != 60 ||
		strings.Count(out.String(), "x") != 300 || !strings.Contains(out.String(), "end") {
		t.Errorf("something is lost:\n%s", out.String())
	}
	if !strings.HasSuffix(out.String(), "then  über\n") {
		t.Errorf("blanks at the end of a line:\n%q", out.String())
	}
}

func (c *operatorCall) drawKey(args ...string) (string, error) {
	var out bytes.Buffer
	err := Timeline(c.t.Context(), args, Deps[Books]{
		Stdout: &out, Open: func() (Books, func(), error) { return Books{c.keys, c.pay, c.ops}, func() {}, nil },
	})
	return out.String(), err
}

func TestTimelineIsDrawnWithThePSPsLedger(t *testing.T) {
	t.Parallel()
	c := terminal(t)
	c.lost() // The PSP has charged, and answered 500.
	c.giveBack(c.charge("order-0000000043"))
	for _, row := range []struct {
		args  []string
		wants []string
	}{
		{[]string{lostKey, "--tenant", "acme"}, []string{
			`^POST /payments, key ` + lostKey + `\n`, `\|-+>\| .*  POST /payments\n`, `reserved, attempt 1\n`,
			`\*  succeeded: 120\.00 USD, ch_\w+\n`, `  PSP answered 500 \(not usable\)\n`,
			`unknown\n`, `< - - .*  202, not known yet\n`,
		}},
		{[]string{lostKey, "--tenant", "acme", "--clock"}, []string{
			`times in UTC\n`, `\n\d\d:\d\d:\d\d\.\d{3}  \|`,
		}},
		{[]string{"order-0000000043", "--tenant=acme"}, []string{`completed\n`, `\n0.000 s  \|`, `< - - .*  201\n`}},
		{[]string{refundKey, "--tenant=acme", "--operation", "POST /payments/{id}/refunds"},
			[]string{`  refund\n`, `succeeded: 5\.00 USD, rf_\w+\n`}},
		{[]string{lostKey, "--tenant", "acme", "--svg"},
			[]string{`^<svg `, `succeeded: 120\.00 USD, ch_`, `</svg>\n$`}},
	} {
		out, err := c.drawKey(row.args...)
		if err != nil {
			t.Fatalf("%v: %v", row.args, err)
		}
		for _, want := range row.wants {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("%v: no %s in\n%s", row.args, want, out)
			}
		}
	}
	before := c.everyKey()
	if _, err := c.drawKey(lostKey, "--tenant", "acme"); err != nil || c.everyKey() != before {
		t.Errorf("drawing has changed something: %v", err)
	}
}

// everyKey is all that the database has about keys and payments.
func (c *operatorCall) everyKey() string {
	c.t.Helper()
	return pgtest.Value[string](c.t, c.pool, `SELECT (SELECT jsonb_agg(k ORDER BY key) FROM idempotency_keys AS k)::text ||
		(SELECT jsonb_agg(p ORDER BY id) FROM payments AS p)::text || (SELECT count(*) FROM idempotency_key_events)`)
}

// At a PSP that executes in two steps, the payment's row has the id of the PSP's object.
func TestTimelineHasThePSPsObject(t *testing.T) {
	t.Parallel()
	c := terminal(t)
	c.lost()
	const made = "UPDATE payments SET psp_object_id = 'pi_1' WHERE status = 'processing'"
	pgtest.Exec(t, c.pool, made)
	out, err := c.drawKey(lostKey, "--tenant", "acme")
	if err != nil || !strings.Contains(out, "create pi_1\n") || !strings.Contains(out, "store pi_1\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestTimelineThatCannotBeDrawnIsExplained(t *testing.T) {
	t.Parallel()
	c := terminal(t)
	c.lost()
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"no key":         {nil, "name the key: reconciler timeline KEY --tenant NAME"},
		"no tenant":      {[]string{lostKey}, "name the tenant by --tenant"},
		"no such key":    {[]string{"order-0000000099", "--tenant", "acme"}, "has no key"},
		"unknown flag":   {[]string{lostKey, "--tennant", "acme"}, "see reconciler timeline --help"},
		"another tenant": {[]string{lostKey, "--tenant", "globex"}, "has no key"},
	} {
		if out, err := c.drawKey(row.args...); err == nil || !strings.Contains(err.Error(), row.want) || out != "" {
			t.Errorf("%s: error %v, want %q; printed %q", name, err, row.want, out)
		}
	}
	if out, err := c.drawKey("--help"); err != nil || out != timelineHelp {
		t.Errorf("the help is %q, %v", out, err)
	}
}
