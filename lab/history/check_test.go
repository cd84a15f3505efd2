package history

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Each row is a history that a server has which keeps its promises. Time is in instants, as from and to.
func TestHistoriesThatHaveAnOrderPass(t *testing.T) {
	t.Parallel()
	for name, history := range map[string][]Operation{
		"one payment": {span{1, 2}.first(1)},
		"replays": {span{1, 2}.first(1), span{3, 4}.replay(1),
			span{3, 5}.replay(2)},
		"a replay that overtakes the first": {span{1, 9}.first(1), span{3, 4}.replay(2)},
		"busy while the first is under way": {span{1, 9}.first(1), span{2, 3}.busy(2),
			span{4, 8}.busy(2)},
		"busy that is delivered after the end": {span{1, 5}.first(1), span{2, 9}.busy(2)},
		"202 to the owner, then a replay": {span{1, 2}.accepted(1, "A", paymentA),
			span{3, 4}.replay(1)},
		"202 to a second one": {span{1, 9}.first(1),
			span{2, 3}.accepted(2, "A", paymentA)},
		"unheard, then a replay": {unheard(1, 1, "A"), span{3, 4}.replay(1)},
		"unheard, then busy, then a replay": {unheard(1, 1, "A"), span{3, 4}.busy(1),
			span{5, 6}.replay(1)},
		"unheard, and it came never": {unheard(1, 1, "A"), span{3, 4}.first(1)},
		"unheard, and it came much later": {unheard(1, 1, "A"), span{3, 4}.released(2, ""),
			span{5, 6}.busy(3)},
		"mismatch after the first":                  {span{1, 2}.first(1), span{3, 4}.misuse(2, "B")},
		"mismatch for the second request":           {span{1, 5}.misuse(1, "B"), span{2, 6}.first(2)},
		"mismatch against one that was never heard": {unheard(1, 1, "B"), span{2, 6}.misuse(2, "A")},
		"released, then executed":                   {span{1, 2}.released(1, paymentA), span{3, 4}.first(1)},
		"not even reserved, then executed":          {span{1, 2}.released(1, ""), span{3, 4}.first(1)},
		"released, then too old":                    {span{1, 2}.released(1, paymentA), tooOldAt(3, 4)},
		"released under the eyes of others": {span{1, 9}.released(1, paymentA), span{2, 3}.busy(2),
			span{4, 8}.first(3)},
		"store away, nothing happened": {span{1, 2}.storeAway(1), span{3, 4}.first(1)},
		"store away, but reserved": {span{1, 2}.storeAway(1), span{3, 4}.busy(1),
			span{5, 6}.accepted(1, "A", paymentA)},
		"a 500 that has charged": {span{1, 2}.problem(1, "A", 500, "internal_error", ""),
			span{3, 4}.replay(1)},
		"the second attempt comes late and finds a result": {span{1, 9}.replay(1), span{2, 3}.busy(2),
			span{4, 8}.first(3)},
		"a refused request touches nothing": {span{1, 2}.problem(1, "B", 400, "invalid_request", ""),
			span{3, 4}.first(1)},
		"turned away at the door of one that is closing down": {span{1, 2}.problem(1, "B", 503, "shutting_down", ""),
			span{3, 4}.first(1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, v := range check(t, history...) {
				t.Error(v)
			}
		})
	}
}

func tooOldAt(from, to int) Operation {
	return span{from, to}.problem(3, "A", http.StatusGone, "idempotency_key_expired", "")
}

// Each row breaks one rule of the model, and passes when that rule is dropped.
func TestHistoriesThatNoServerMayHaveAreFound(t *testing.T) {
	t.Parallel()
	expires := func(o *Operation) { o.Header.Set("Idempotency-Key-Expires", "Tue, 24 Nov 2026 00:00:00 GMT") }
	for name, row := range map[string]struct {
		invariant string
		history   []Operation
	}{
		"busy after the final answer was heard": {"I3", []Operation{span{1, 2}.first(1), span{3, 4}.busy(2)}},
		"busy before anybody has asked":         {"I3", []Operation{span{1, 2}.busy(1), span{3, 4}.first(2)}},
		"busy for another intent": {"I3", []Operation{
			span{1, 9}.first(1), span{2, 3}.busy(2).with(func(o *Operation) { o.Intent = "B" }),
		}},
		"busy with oneself":          {"I3", []Operation{span{1, 2}.busy(1)}},
		"too old, and nobody had it": {"I3", []Operation{tooOldAt(1, 2)}},
		"too old, and final":         {"I3", []Operation{span{1, 2}.first(1), tooOldAt(3, 4)}},
		"busy after it was too old": {"I3",
			[]Operation{span{1, 2}.released(1, paymentA), tooOldAt(3, 4), span{5, 6}.busy(2)}},
		"busy after the release was heard": {"I3",
			[]Operation{span{1, 2}.released(1, paymentA), span{3, 4}.busy(2)}},
		"202 after the final answer": {"I3",
			[]Operation{span{1, 2}.first(1), span{3, 4}.accepted(2, "A", paymentA)}},
		"202 for another intent": {"I3",
			[]Operation{span{1, 2}.accepted(1, "A", paymentA), span{3, 4}.accepted(2, "B", paymentA)}},
		"released after the final answer": {"I3",
			[]Operation{span{1, 2}.first(1), span{3, 4}.released(2, paymentA)}},
		"not reserved after the final answer": {"I3", []Operation{span{1, 2}.first(1), span{3, 4}.released(2, "")}},
		"not reserved, after it was": {"I3",
			[]Operation{span{1, 2}.accepted(1, "A", paymentA), span{3, 4}.released(2, "")}},
		"two bodies": {"I3", []Operation{
			span{1, 2}.first(1), span{3, 4}.done(2, "A", paymentA, "ch_2", true),
		}},
		"two expiries":             {"I3", []Operation{span{1, 2}.first(1), span{3, 4}.replay(2).with(expires)}},
		"two firsts":               {"I3", []Operation{span{1, 4}.first(1), span{2, 5}.first(2)}},
		"the first after a replay": {"I3", []Operation{unheard(1, 1, "A"), span{3, 4}.replay(2), span{5, 6}.first(3)}},
		"busy with one who was answered": {"I3", []Operation{
			span{1, 2}.accepted(1, "A", paymentA), span{3, 4}.accepted(2, "A", paymentA),
			span{5, 6}.released(3, paymentA), span{7, 8}.busy(4),
		}},
		"a replay of what nobody did":      {"I3", []Operation{span{1, 2}.replay(1)}},
		"two replays of what nobody did":   {"I3", []Operation{span{1, 3}.replay(1), span{2, 4}.replay(2)}},
		"a result of what was not sent":    {"I3", []Operation{span{1, 2}.storeAway(1), span{3, 4}.replay(2)}},
		"a result of what was not charged": {"I3", []Operation{span{1, 2}.released(1, paymentA), span{3, 4}.replay(2)}},
		"the result of another intent": {"I3",
			[]Operation{span{1, 2}.first(1), span{3, 4}.done(2, "B", paymentA, "ch_1", true)}},
		"two payments for one key": {"I3", []Operation{
			span{1, 2}.accepted(1, "A", paymentB), span{3, 4}.replay(2),
		}},
		"two payments, while it is under way": {"I3",
			[]Operation{span{1, 9}.first(1), span{2, 3}.accepted(2, "A", paymentB)}},
		"mismatch with itself":           {"I7", []Operation{span{1, 2}.first(1), span{3, 4}.misuse(2, "A")}},
		"mismatch of the only request":   {"I7", []Operation{span{1, 2}.misuse(1, "A")}},
		"mismatch before the other came": {"I7", []Operation{span{1, 2}.misuse(1, "B"), span{3, 4}.first(2)}},
		"mismatch with the one that was refused": {"I7", []Operation{
			span{1, 2}.problem(1, "A", 400, "invalid_request", ""), span{3, 4}.misuse(2, "B"),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			violations := check(t, row.history...)
			if len(violations) != 1 || violations[0].Undecided || violations[0].Invariant != row.invariant {
				t.Fatalf("violations: %v, want one of %s", violations, row.invariant)
			}
			if v := violations[0]; v.Key != theKey || len(v.Operations) != len(row.history) ||
				!strings.Contains(v.Detail, "no order") {
				t.Errorf("%+v", v)
			}
		})
	}
}

// What is wrong with an answer by itself needs no search.
func TestAnswersThatTheContractDoesNotHaveAreFound(t *testing.T) {
	t.Parallel()
	first := span{1, 2}.first(1)
	for name, o := range map[string]Operation{
		"an unknown status": span{1, 2}.problem(1, "A", 418, "teapot", ""),
		"a code of another status": span{1, 2}.problem(1, "A", 409, "idempotency_key_reused_with_different_payload",
			""),
		"a refund's refusal": span{1, 2}.problem(1, "A", 409, "refund_exceeds_payment", ""),
		"no JSON":            first.with(func(o *Operation) { o.Answer = []byte("<html>") }),
		"success of what did not": first.with(func(o *Operation) {
			o.Answer = []byte(
				`{"paymentId":"pay_1","status":"declined"}`)
		}),
		"202 of what is over":       first.with(func(o *Operation) { o.Status = 202 }),
		"the echo of another key":   first.with(func(o *Operation) { o.Header.Set("Idempotency-Key", "another") }),
		"nothing about replays":     first.with(func(o *Operation) { o.Header.Del("Idempotent-Replayed") }),
		"no location":               first.with(func(o *Operation) { o.Header.Del("Location") }),
		"no expiry":                 first.with(func(o *Operation) { o.Header.Del("Idempotency-Key-Expires") }),
		"no payment":                first.with(func(o *Operation) { o.Answer = []byte(`{"status":"succeeded"}`) }),
		"no payment in the refusal": span{1, 2}.problem(1, "A", 409, "idempotency_key_in_progress", ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if violations := check(t, o); len(violations) != 1 || violations[0].Visualize("nowhere") == nil {
				t.Errorf("violations: %v", violations)
			}
		})
	}
}

func TestKeysOfTenantsAndRoutesAreKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	globex := span{1, 2}.done(2, "B", paymentB, "ch_2", false)
	globex.Tenant = "globex"
	refund := span{1, 2}.answered(3, "C", http.StatusCreated, `{"refundId":"re_1","paymentId":"`+paymentA+
		`","status":"succeeded"}`)
	refund.Route, refund.Header = RefundsRoute, span{1, 2}.first(3).Header
	other := span{1, 2}.first(4)
	other.Route = "GET /payments/{id}"
	for _, v := range check(t, span{1, 2}.first(1), globex, refund, other) {
		t.Error(v)
	}
}

// Each life of a key begins without the state of the one before, and no payment is in both.
func TestLivesOfAKeyAreKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	next := func(payment string) Operation {
		return span{3, 4}.done(2, "B", payment, "ch_2", false).with(func(o *Operation) { o.Life = 2 })
	}
	for _, v := range check(t, span{1, 2}.first(1), next(paymentB)) {
		t.Error(v)
	}
	if violations := check(t, span{1, 2}.first(1), next(paymentA)); len(violations) != 1 ||
		!strings.Contains(violations[0].Detail, "in its life 1") {
		t.Errorf("the same payment in both: %v", violations)
	}
}

func TestPaymentUnderTwoKeysIsFound(t *testing.T) {
	t.Parallel()
	second := span{3, 4}.first(2).with(func(o *Operation) {
		o.Key = "key-of-another-payment"
		o.Header.Set("Idempotency-Key", o.Key)
	})
	if violations := check(t, span{1, 2}.first(1), second); len(violations) != 1 ||
		!strings.Contains(violations[0].Detail, "is under the key") {
		t.Errorf("violations: %v", violations)
	}
}

func TestStoreThatIsAwayIsToldWithTheKey(t *testing.T) {
	t.Parallel()
	for _, v := range check(t, span{1, 2}.storeAway(1), span{3, 4}.first(1)) {
		t.Error(v)
	}
	for _, echo := range []string{"", "another"} {
		told := span{1, 2}.storeAway(1).with(func(o *Operation) { o.Header.Set("Idempotency-Key", echo) })
		if violations := check(t, told); len(violations) != 1 {
			t.Errorf("the echo is %q: %v", echo, violations)
		}
	}
}

func TestRefusedRefundLeavesTheKeyFree(t *testing.T) {
	t.Parallel()
	refund := func(o Operation) Operation {
		o.Route = RefundsRoute
		return o.with(func(o *Operation) {
			o.Answer = []byte(strings.Replace(string(o.Answer), `"paymentId"`, `"refundId"`, 1))
		})
	}
	exceeds := func(from, to int) Operation {
		return refund(span{from, to}.problem(1, "A", http.StatusConflict, "refund_exceeds_payment", ""))
	}
	for _, v := range check(t, exceeds(1, 2), refund(span{3, 4}.first(1))) {
		t.Error(v)
	}
	if violations := check(t, refund(span{1, 2}.first(1)), exceeds(3, 4)); len(violations) != 1 {
		t.Errorf("refused after it was done: %v", violations)
	}
	if violations := check(t, exceeds(1, 2), refund(span{3, 4}.busy(1))); len(violations) != 1 {
		t.Errorf("refused, and busy: %v", violations)
	}
}

func TestViolationIsExplainedAndShown(t *testing.T) {
	t.Parallel()
	violations := check(t, span{1, 2}.first(1), span{3, 4}.replay(3), span{5, 6}.busy(2))
	if len(violations) != 1 || !strings.Contains(violations[0].Detail,
		"client 2 was answered \"409 idempotency_key_in_progress") {
		t.Fatalf("violations: %v", violations)
	}
	path := filepath.Join(t.TempDir(), "key.html")
	if err := violations[0].Visualize(path); err != nil {
		t.Fatal(err)
	}
	if page, err := os.ReadFile(path); err != nil || !strings.Contains(string(page), "idempotency_key_in_progress") {
		t.Errorf("%d bytes: %v", len(page), err)
	}
}

// crowd is a key that many ask for at once. Its history has an order unless broken.
func crowd(n int, broken bool) []Operation {
	history := []Operation{span{1, 1000}.first(0)}
	for i := range n {
		o := span{2 + i, 900 + i}.replay(i + 1)
		if i%2 == 0 {
			o = span{2 + i, 2000 + i}.busy(i + 1)
		}
		history = append(history, o, unheard(i+1, 3+i, "A"))
	}
	if broken {
		history = append(history, span{3000, 3001}.misuse(1, "A"))
	}
	return history
}

func TestCheckerThatRunsOutOfTimeDoesNotSayYes(t *testing.T) {
	t.Parallel()
	violations := Check(crowd(200, true), time.Nanosecond)
	if len(violations) != 1 || !violations[0].Undecided {
		t.Errorf("violations: %v", violations)
	}
}

func TestCrowdOnOneKeyIsJudged(t *testing.T) {
	t.Parallel()
	for _, v := range check(t, crowd(100, false)...) {
		t.Error(v.Detail)
	}
	if violations := check(t, crowd(10, true)...); len(violations) != 1 || violations[0].Undecided {
		t.Errorf("broken: %v", violations)
	}
}
