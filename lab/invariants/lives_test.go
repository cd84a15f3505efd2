package invariants

import "testing"

// What the scan puts right again is found by what the archive has kept.
func TestDisputeThatIsOpenedAgainIsFound(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if err := Archive(t.Context(), s.db); err != nil {
		t.Fatal(err)
	}
	s.pay("acme", paidKey, "pm_ok")
	disputed := s.door("/_disputes", `{"chargeId":%q}`, s.text("SELECT psp_charge_id FROM payments"))
	for _, status := range []string{"under_review", "won"} {
		s.door("/_disputes/"+disputed, `{"status":%q}`, status)
	}
	s.reconcile()
	for _, v := range s.check() {
		t.Error(v)
	}
	s.exec("UPDATE disputes SET status = 'under_review'")
	s.exec("UPDATE disputes SET status = 'won'")
	s.finds("I10", "which was won, became under_review")
}
