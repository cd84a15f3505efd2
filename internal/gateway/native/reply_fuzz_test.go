package native

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// A verdict is believed of an answer only if another reader finds the same verdict in it, about the same movement. A
// contradiction comes with evidence that the database takes.
func FuzzReply(f *testing.F) {
	const charged = `{"id":"ch_1","account":"acme","idempotencyKey":"key-0123456789ab","reference":"pay_1","amountCents":500,"currency":"USD","status":"succeeded"}`
	f.Add(201, []byte(charged), false)
	f.Add(402,
		[]byte(`{"id":"rf_1","account":"acme","idempotencyKey":"key-0123456789ab","reference":"re_1","chargeId":"ch_1","amountCents":500,`+
			`"currency":"USD","status":"declined","declineCode":"refund_exceeds_charge"}`), true)
	f.Add(400,
		[]byte(`{"error":{"code":"unknown_payment_method","message":"no such method","account":"acme","idempotencyKey":"key-0123456789ab",`+
			`"reference":"pay_1"}}`), false)
	f.Add(422, []byte(`{"code":"idempotency_mismatch"}`), false)
	f.Fuzz(func(t *testing.T, status int, body []byte, refund bool) {
		charge := gateway.Charge{Account: "acme", Key: "key-0123456789ab", Reference: "pay_1", AmountMinor: 500,
			Currency: "USD"}
		a := wire.Reply{Status: status, Body: body}
		want, outcome := charge.Wanted(), judgeCharge(charge, a)
		if refund {
			want = gateway.Refund{Account: "acme", Key: "key-0123456789ab", Reference: "re_1", ChargeID: "ch_1",
				AmountMinor: 500, Currency: "USD"}.Wanted()
			outcome = judge(want, a)
		}
		switch o := outcome.(type) {
		case gateway.Succeeded:
			if !slices.Contains([]int{http.StatusOK, http.StatusCreated}, status) {
				t.Fatalf("%d is a success", status)
			}
			saysOf(t, body, want, "succeeded", o.ID, "")
		case gateway.Declined:
			if status == http.StatusBadRequest && !refund {
				refusesOf(t, body, charge)
				return
			}
			if status != http.StatusPaymentRequired {
				t.Fatalf("%d is a decline", status)
			}
			code := o.Code
			if code == gateway.AlreadyMoved {
				code = "refund_exceeds_charge"
			}
			saysOf(t, body, want, "declined", o.ID, code)
		case gateway.NotExecuted, gateway.Pending:
			t.Fatalf("an answer says that the charge is %s", o.Label())
		case gateway.Indeterminate:
			if o.Reason == "" || o.Contradiction && !json.Valid(o.Evidence) {
				t.Fatalf("not decided: %q, contradiction %t, evidence %.100q", o.Reason, o.Contradiction, o.Evidence)
			}
		}
	})
}

// saysOf reads the answer by the standard library, name for name.
func saysOf(t *testing.T, body []byte, want gateway.Record, status, id, code string) {
	t.Helper()
	var theirs map[string]any
	if err := json.Unmarshal(body, &theirs); err != nil {
		t.Fatalf("believed, and is no JSON: %v", err)
	}
	text := func(name string) string { s, _ := theirs[name].(string); return s }
	amount, _ := theirs["amountCents"].(float64)
	got := gateway.Record{
		Object: want.Object, ID: text("id"), Account: text("account"), Key: text("idempotencyKey"),
		Reference: text("reference"), ChargeID: text("chargeId"), AmountMinor: int64(amount),
		Currency: text("currency"),
	}
	want.ID = id
	if got != want || text("status") != status || code != "" && text("declineCode") != code || id == "" {
		t.Fatalf("believed as %s %s %s of %+v; it says %s", status, id, code, want, body)
	}
}

// refusesOf reads the refusal by the standard library.
func refusesOf(t *testing.T, body []byte, ch gateway.Charge) {
	t.Helper()
	var theirs map[string]map[string]string
	if err := json.Unmarshal(body, &theirs); err != nil || len(theirs) != 1 || len(theirs["error"]) != 5 {
		t.Fatalf("taken for the documented refusal: %s, %v", body, err)
	}
	e := theirs["error"]
	if e["code"] != unknownPaymentMethod || e["account"] != ch.Account || e["idempotencyKey"] != ch.Key ||
		e["reference"] != ch.Reference {
		t.Fatalf("taken for the refusal of %+v: %s", ch, body)
	}
}

// Of a page, each record is read or kept as it is; and nothing but a list that is empty, and is stated to be all, finds
// nothing. Where another reader finds records, there are as many.
func FuzzPage(f *testing.F) {
	const held = `{"id":"ch_1","object":"charge","account":"acme","idempotencyKey":"k","reference":"pay_1","amountCents":500,"currency":"USD",` +
		`"status":"succeeded","createdAt":"2026-11-20T12:00:00Z"}`
	f.Add([]byte(`{"data":[` + held + `],"hasMore":false}`))
	f.Add([]byte(`{"data":[` + held + `,{"id":"ch_2"}],"hasMore":true,"nextCursor":"x"}`))
	f.Add([]byte(`{"data":[` + held + `,{"id":"ch_2","x":"` + "\xff\\\"" + `","x":1}],"hasMore":false}`))
	f.Add([]byte(`{"data":[],"hasMore":false}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		page, err := parsePage(bytes.NewReader(body), gateway.ChargeObject, "acme")
		if err != nil {
			return
		}
		records := len(page.Records) + len(page.Unreadable)
		var theirs map[string]json.RawMessage
		var data []json.RawMessage
		switch err := json.Unmarshal(body, &theirs); {
		case err == nil:
			if err := json.Unmarshal(theirs["data"], &data); err != nil || data == nil || len(data) != records ||
				records > gateway.MaxPage {
				t.Fatalf("%d records in a list of %d: %v", records, len(data), err)
			}
			if more := string(theirs["hasMore"]) == "true"; (page.Next != "") != more {
				t.Fatalf("goes on at %q, and says hasMore %t", page.Next, more)
			}
		case len(page.Unreadable) == 0:
			t.Fatalf("taken without an unreadable record, and is no JSON to encoding/json: %v", err)
		}
		if page.Next != "" && records == 0 || len(page.Next) > maxCursor {
			t.Fatalf("goes on at %q behind %d records", page.Next, records)
		}
		for i, r := range page.Records {
			if r.Object != gateway.ChargeObject || r.Account != "acme" ||
				i > 0 && r.Created.Before(page.Records[i-1].Created) {
				t.Fatalf("record %d is %+v", i, r)
			}
		}
		for _, u := range page.Unreadable {
			r, err := parseRecord(u.Raw)
			if astray := err == nil && (r.Account != "acme" || r.Object != gateway.ChargeObject); !astray &&
				(err == nil || u.Reason != err.Error()) {
				t.Fatalf("unreadable for %q: %s, %v", u.Reason, u.Raw, err)
			}
			if !bytes.Contains(body, u.Raw) || u.ID != "" && !gateway.IsID(u.ID) {
				t.Fatalf("%q calls itself %q", u.Raw, u.ID)
			}
		}
		if only := holdsOnly(page, "k"); only == nil && len(page.Records) == 0 && (theirs == nil || len(data) > 0) {
			t.Fatal("a key is proven to be unknown by a list that is not empty")
		}
	})
}
