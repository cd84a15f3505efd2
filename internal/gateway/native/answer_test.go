package native_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"payonce/internal/gateway"
)

func replace(s, from, to string) string {
	if !strings.Contains(s, from) {
		panic("nothing to replace: " + from)
	}
	return strings.Replace(s, from, to, 1)
}

// Not even a body that says otherwise makes a verdict of a status that is none.
func TestStatusThatIsNoVerdictIsIndeterminate(t *testing.T) {
	t.Parallel()
	statuses := []int{202, 203, 204, 205, 206, 226, 299}
	for s := 400; s < 452; s++ {
		if s != http.StatusPaymentRequired && s != http.StatusUnprocessableEntity {
			statuses = append(statuses, s)
		}
	}
	statuses = append(statuses, 499, 500, 501, 502, 503, 504, 505, 507, 508, 511, 520, 529, 598, 599, 600, 999)
	for _, status := range statuses {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := answering(t, status, charged)
			o := newClient(t, s.URL).charge()
			indeterminate(t, o, fmt.Sprintf("PSP answered %d", status))
			// An answer of the PSP is evidence. The page of a server error is not.
			if kept := o.(gateway.Indeterminate).Evidence != nil; kept != (status < 500) {
				t.Errorf("the answer is kept: %t", kept)
			}
		})
	}
}

// Another request was sent under our key, by somebody.
func TestReusedKeyIsAContradiction(t *testing.T) {
	t.Parallel()
	s := answering(t, http.StatusUnprocessableEntity,
		`{"error":{"code":"idempotency_mismatch","message":"other body"}}`)
	evidence := contradiction(t, newClient(t, s.URL).charge(), "PSP answered 422")
	if want := `{"status":422,"answer":{"error":{"code":"idempotency_mismatch","message":"other body"}}}`; string(evidence) != want {
		t.Fatalf("evidence %s, want %s", evidence, want)
	}
}

func TestAnswerAboutSomethingElseIsAContradiction(t *testing.T) {
	t.Parallel()
	refund := replace(refunded, `"status":"succeeded"`, `"status":"declined","declineCode":"x"`)
	for name, row := range map[string]struct{ member, from, to string }{
		"another account": {"account", `"account":"canary-account"`, `"account":"globex"`},
		"no account":      {"account", `"account":"canary-account",`, ``},
		"another key": {"key", `"idempotencyKey":"canary-key-0123456789"`,
			`"idempotencyKey":"canary-key-0123456789.g2"`},
		"the key in another case": {"key", `"canary-key-0123456789"`, `"CANARY-KEY-0123456789"`},
		"no key":                  {"key", `"idempotencyKey":"canary-key-0123456789",`, ``},
		"another reference":       {"reference", `"reference":"`, `"reference":"x`},
		"another charge":          {"charge", `"chargeId":"ch_1"`, `"chargeId":"ch_2"`},
		"no charge":               {"charge", `"chargeId":"ch_1",`, ``},
		"a larger amount":         {"amount", `"amountCents":500`, `"amountCents":501`},
		"a negative amount":       {"amount", `"amountCents":500`, `"amountCents":-500`},
		"no amount":               {"amount", `"amountCents":500,`, ``},
		"another currency":        {"currency", `"currency":"USD"`, `"currency":"KRW"`},
		"the currency in lower":   {"currency", `"USD"`, `"usd"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for status, body := range map[int]string{201: refunded, 402: refund} {
				body = replace(body, row.from, row.to)
				s := answering(t, status, body)
				c := newClient(t, s.URL)
				evidence := contradiction(t, c.checked(c.Refund(t.Context(), aRefund())), "answer has another "+
					row.member)
				if want := fmt.Sprintf(`{"status":%d,"answer":%s}`, status, body); string(evidence) != want {
					t.Fatalf("evidence %s, want %s", evidence, want)
				}
			}
		})
	}
}

func TestAnswerToAChargeThatNamesAChargeIsAContradiction(t *testing.T) {
	t.Parallel()
	s := answering(t, 201, replace(charged, `"object":"charge"`, `"chargeId":"ch_0"`))
	contradiction(t, newClient(t, s.URL).charge(), "answer has another charge")
}

// A dead letter is written with the evidence, in the transaction that makes the key unknown: what PostgreSQL refuses as
// jsonb would undo both.
func TestEvidenceIsAlwaysJSONThatTheDatabaseTakes(t *testing.T) {
	t.Parallel()
	other := replace(charged, `12000`, `12001`)
	// What we have read is kept, above all that money has moved.
	read := `{"status":201,"answer":` + replace(replace(other, `"object":"charge",`, ``),
		`"paymentMethod":"pm_canary",`, ``) + `}`
	for name, body := range map[string]string{
		"U+0000":                        replace(other, `"charge"`, `"a\u0000b"`),
		"a number beyond all ranges":    replace(other, `"charge"`, `1e200000`),
		"a number too small for ranges": replace(other, `"charge"`, `[{"a":1E-200000}]`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := answering(t, 201, body)
			if evidence := contradiction(t, newClient(t, s.URL).charge(),
				"answer has another amount"); string(evidence) != read {
				t.Fatalf("evidence %s", evidence)
			}
		})
	}
	for name, body := range map[string]string{"HTML": "<html>", "nothing": "", "bad UTF-8": "\"\xff\"",
		"too deep": strings.Repeat("[", 20000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := answering(t, 422, body)
			if evidence := contradiction(t, newClient(t, s.URL).charge(),
				"PSP answered 422"); string(evidence) != `{"status":422}` {
				t.Fatalf("evidence %s", evidence)
			}
		})
	}
}

func TestMalformedAnswerIsIndeterminate(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty": "", "null": "null", "array": "[" + charged + "]", "string": `"ok"`, "HTML": "<html>ok</html>",
		"truncated": charged[:len(charged)-1], "more behind": charged + "{}", "two": charged + charged,
		"BOM":                    "\ufeff" + charged,
		"duplicate member":       replace(charged, `{`, `{"status":"succeeded",`),
		"duplicate unknown":      replace(charged, `{`, `{"x":1,"x":2,`),
		"duplicate by an escape": replace(charged, `{`, `{"\u0073tatus":"succeeded",`),
		"names in another case":  replace(charged, `"status"`, `"Status"`),
		"invalid UTF-8":          replace(charged, `"charge"`, "\"\xff\""),
		"lone surrogate":         replace(charged, `"charge"`, `"\ud800"`),
		"no id":                  replace(charged, `"id":"ch_1",`, ``),
		"empty id":               replace(charged, `"ch_1"`, `""`),
		"null id":                replace(charged, `"ch_1"`, `null`),
		"number as id":           replace(charged, `"ch_1"`, `1`),
		"id with U+0000":         replace(charged, `"ch_1"`, `"ch_\u0000"`),
		"id with a space":        replace(charged, `"ch_1"`, `"ch 1"`),
		"id too long":            replace(charged, `"ch_1"`, `"`+strings.Repeat("c", 256)+`"`),
		"no status":              replace(charged, `,"status":"succeeded"`, ``),
		"null status":            replace(charged, `"succeeded"`, `null`),
		"true as status":         replace(charged, `"succeeded"`, `true`),
		"amount as string":       replace(charged, `12000`, `"12000"`),
		"amount with a fraction": replace(charged, `12000`, `12000.0`),
		"amount with exponent":   replace(charged, `12000`, `12e3`),
		"amount out of range":    replace(charged, `12000`, `99999999999999999999`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, status := range []int{200, 201, 402} {
				s := answering(t, status, body)
				indeterminate(t, newClient(t, s.URL).charge(), "answer malformed")
			}
		})
	}
}

func TestLongestIDIsTaken(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("c", 255)
	s := answering(t, 201, replace(charged, `ch_1`, id))
	if o := newClient(t, s.URL).charge(); o != (gateway.Succeeded{ID: id}) {
		t.Fatalf("outcome %T %+v", o, o)
	}
}

// We ask for no compression. An answer that is compressed all the same is not read.
func TestCompressedAnswerIsIndeterminate(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, charged); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	s := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(b.Bytes())
	})
	indeterminate(t, newClient(t, s.URL).charge(), "answer malformed")
}
