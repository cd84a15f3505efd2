package crowd

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"payonce/lab/chaos/plan"
)

// long is a retention of which the last part is not near.
const long = time.Hour

// aged is a crowd whose key of the errand has had its first life since a while.
func aged(t *testing.T, e plan.Errand, age time.Duration, status int) *bench {
	t.Helper()
	b := setup(t, func(_ int, r *http.Request) (int, string) {
		if r.Method == http.MethodGet {
			return status, `{}`
		}
		return http.StatusCreated, paidBody
	})
	b.lives = newLives(long)
	b.lives.of[b.payment(e, e.Order).keyName()] = &life{number: 1, order: e.Order.Number - 1,
		began: time.Now().Add(-age), named: true}
	return b
}

func TestKeyIsUsedAgainOnlyWhenTheServerSaysThatItIsOver(t *testing.T) {
	t.Parallel()
	e := setup(t, nil).errand(plan.Reborn)
	for name, c := range map[string]struct {
		age    time.Duration
		status int
		how    string
	}{
		"expired":      {long + time.Minute, http.StatusGone, "expired"},
		"deleted":      {long + time.Minute, http.StatusNotFound, "deleted"},
		"still there":  {long + time.Minute, http.StatusOK, ""},
		"server away":  {long + time.Minute, http.StatusServiceUnavailable, ""},
		"not over yet": {long / 2, http.StatusGone, ""},
	} {
		b := aged(t, e, c.age, c.status)
		b.carryOut(t.Context(), e)
		if used := b.o.Tally.Of("key used again", c.how); c.how != "" && used != 1 || c.how == "" &&
			b.o.Tally.Sum("key used again") != 0 {
			t.Errorf("%s: used again %v", name, b.o.Tally.Group("key used again"))
		}
		for _, o := range b.recorder.Operations() {
			if o.Key == e.Key && o.Route == "POST /payments" && (o.Life != 2 || c.how == "") {
				t.Errorf("%s: recorded in life %d", name, o.Life)
			}
		}
	}
}

func TestKeyIsLeftAloneBeforeItMayEnd(t *testing.T) {
	t.Parallel()
	e := setup(t, nil).errand(plan.Pay)
	for age, sent := range map[time.Duration]bool{long - slack - time.Minute: true, long - slack + time.Minute: false} {
		b := aged(t, e, age, http.StatusOK)
		b.lives.of[b.payment(e, e.Order).keyName()].order = e.Order.Number
		b.carryOut(t.Context(), e)
		if got := len(b.api.asked) > 0; got != sent {
			t.Errorf("after %s it was sent: %t", age, got)
		}
	}
}

// Of an order of an earlier life, nobody could say in which it was paid.
func TestOrderOfAnEarlierLifeIsNotSent(t *testing.T) {
	t.Parallel()
	e := setup(t, nil).errand(plan.Pay)
	b := aged(t, e, 0, http.StatusOK)
	b.carryOut(t.Context(), e)
	if len(b.api.asked) != 0 {
		t.Errorf("asked %v", b.api.asked)
	}
}

func TestLieThatIsTakenIsComplainedOf(t *testing.T) {
	t.Parallel()
	for status, complaints := range map[int]int{http.StatusOK: 1, http.StatusConflict: 0,
		http.StatusServiceUnavailable: 0} {
		var told []string
		b := setup(t, func(_ int, r *http.Request) (int, string) {
			switch {
			case r.URL.Path == "/_ledger":
				return http.StatusOK, `{"charges":[{"id":"ch_1","status":"succeeded"}]}`
			case strings.HasSuffix(r.URL.Path, "/resolve"):
				body := make([]byte, r.ContentLength)
				_, _ = r.Body.Read(body)
				told = append(told, string(body))
				return status, `{}`
			}
			return http.StatusOK, `{"id":"1","version":1,"keyStatus":"unknown","key":"k","tenant":"acme"}`
		})
		b.o.Operators, b.o.PSP = b.o.APIs, b.o.APIs[0]
		b.known[0].paid = []paid{{tenant: "acme", key: "another", ChargeID: "ch_2"}}
		luck := b.o.Plan.Carry(0, 0)
		for range 3 {
			b.lieAbout(t.Context(), luck, deadLetter{ID: "1"})
		}
		if len(b.complaints) != 3*complaints {
			t.Errorf("%d: complains %v", status, b.complaints)
		}
		lies := strings.Join(told, "\n")
		want := []string{"not_executed", "ch_2", `"version":8`}
		if status == http.StatusConflict && slices.ContainsFunc(want,
			func(w string) bool { return !strings.Contains(lies, w) }) {
			t.Errorf("the lies are %s", lies)
		}
	}
}
