package console

import (
	"testing"
	"time"

	"payonce/internal/httpapi"
	"payonce/internal/idempotency"
	"payonce/internal/sequence"
)

func TestRecentIsBoundedAndInOrder(t *testing.T) {
	t.Parallel()
	ours := idempotency.StoredRef("acme", "POST /payments", "order-1")
	other := idempotency.StoredRef("globex", "POST /payments", "order-1")
	m := NewRecent(time.Time{})
	var woken []idempotency.Ref
	m.OnAdd(func(ref idempotency.Ref) { woken = append(woken, ref) })
	began := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for i := range 10 {
		m.Add(httpapi.Request{Ref: ours, Began: began, At: began.Add(time.Duration(i) * time.Second), Status: 201,
			Replayed: i > 0})
	}
	m.Add(httpapi.Request{Ref: other, At: began, Status: 422, Code: "mismatch"})
	got := m.Of(ours)
	if len(got) != 10 || got[0].Label != "" || got[9].Label != sequence.Replayed || !got[9].At.After(got[8].At) {
		t.Fatalf("remembered are %+v", got)
	}
	if len(woken) != 11 || woken[10] != other {
		t.Errorf("woken were %v", woken)
	}
	for range remembered {
		m.Add(httpapi.Request{Ref: other, At: began, Status: 499})
	}
	if left := m.Of(ours); left != nil {
		t.Errorf("more than %d are remembered: %+v", remembered, left)
	}
	counts := m.ByOutcome()
	if counts["succeeded"] != 1 || counts["replayed"] != 9 || counts["mismatch"] != 1 ||
		counts["client gone"] != remembered {
		t.Errorf("counted are %v", counts)
	}
	var none Recent
	none.OnAdd(nil)
	if none.Of(ours) != nil || none.ByOutcome() != nil {
		t.Error("nothing remembers something")
	}
}
