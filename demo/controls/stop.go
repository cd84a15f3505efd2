package controls

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"payonce/demo/windows"
	"payonce/internal/idempotency"
)

// stopView is what the page shows of the crash windows.
type stopView struct {
	windows.State
	Limit    time.Duration // how long a payment is held
	MaxPause time.Duration // how long the API may be stopped before it sends
	// Groups lists the places where a payment can be stopped.
	Groups []windows.Group
	// Seen says what became of the payment that was held last; or "".
	Seen string
}

// choiceView is a choice about the payment with this key.
type choiceView struct {
	windows.Choice

	Key string
}

func (s *Controls) stopView() *stopView {
	stage := s.config.Windows
	if stage == nil {
		return nil
	}
	v := &stopView{stage.State(), stage.Limit(), s.config.MaxPause, stage.Dialect().Groups(), ""}
	if v.Ended.How != "" {
		row, psp, _ := s.observe(&s.stopped, v.Ended.Key)
		v.Seen = seen(v.Ended, row, psp)
	}
	return v
}

// Chosen is the window that the list shows: the one in use, or the one that tells most. At 3c the PSP has charged, and
// only the API's memory has that.
func (v stopView) Chosen() string { return cmp.Or(v.Window.ID, v.Ended.Window.ID, "3c") }

// seen says in one sentence what was seen at a window, and what has become of the key.
func seen(e windows.Ended, row Row, psp books) string {
	said := "At " + e.Window.ID + " (" + e.Window.Place + "), " + e.How + "; "
	by := map[string]string{"webhook": "a webhook", "lookup": "a lookup", "scan": "the ledger scan",
		"operator": "an operator"}[row.By]
	by = cmp.Or(by, "the API")
	when := "before that"
	switch later := row.Finished.Sub(e.At).Round(time.Second); {
	case later > 0:
		when = fmt.Sprintf("%g s later", later.Seconds())
	case row.Finished.After(e.At):
		when = "at once"
	}
	switch {
	case row.Case:
		return said + "an operator has to decide about it now: the console has the case."
	case row.Status == idempotency.CompletedStatus:
		return said + by + " completed the key " + when + ": " + psp.count() + "."
	case row.Status == idempotency.FailedRetryableStatus:
		return said + by + " released the key " + when + ": " + psp.count() + ", so the same request may be sent again."
	case row.Status == idempotency.InProgressStatus:
		end := row.LeaseEnd.UTC().Format(time.TimeOnly)
		said += "the key is in progress until " + end + " (UTC), when its lease ends"
		if psp.Charges > 0 {
			said += ", or until a webhook comes"
		}
		return said + "."
	case row.Status == idempotency.UnknownStatus:
		return said + "the key is unknown until a webhook, a lookup or the ledger scan finds what the PSP has done."
	case row.Status == idempotency.ExpiredStatus:
		return said + "the key has expired: " + psp.count() + ", and the same request would be a new payment."
	case row.Read && psp.Read && psp.Charges == 0:
		return said + "the database has no such key, and nobody was charged."
	case row.Read && psp.Read: // Only the pruner takes keys away.
		return said + "the key is deleted: " + psp.count() + ", and the same request would be a new payment."
	}
	return said + "what has become of the key is not known yet."
}

// count says how often the PSP has charged.
func (b books) count() string {
	switch {
	case !b.Read:
		return "the PSP does not say whether it has charged"
	case b.Charges == 0:
		return "not charged"
	case b.Charges == 1:
		return "charged once"
	}
	return fmt.Sprintf("charged %d times", b.Charges)
}

// postStop arms a window for a new key, and sends the payment that will be stopped there.
func (s *Controls) postStop(w http.ResponseWriter, r *http.Request) {
	window, known := s.config.Windows.Dialect().ByID(r.PostFormValue("window"))
	if !known {
		http.Error(w, "there is no such window", http.StatusBadRequest)
		return
	}
	key, what := newKey(), "pay, and stop at window "+window.ID
	if err := s.config.Windows.Arm(window, key); err != nil {
		s.told.note(what, "not sent: "+err.Error())
		s.back(w, r, r.PostFormValue("key"), atStop)
		return
	}
	s.send(what, payment{Key: key, Token: window.Token, Amount: usualAmount}, patience+s.config.Windows.Limit())
	s.back(w, r, key, atStop)
}

// dismiss takes the sentence about the last hold away.
const dismiss = "dismiss"

// postHeld ends a hold in the way that the form says.
func (s *Controls) postHeld(w http.ResponseWriter, r *http.Request) {
	action := windows.Action(r.PostFormValue("action"))
	if action == dismiss {
		s.config.Windows.Dismiss()
		s.back(w, r, r.PostFormValue("key"), atStop)
		return
	}
	// The words of the window that is held come last, so that they count.
	what, all := "", s.config.Windows.Dialect().Windows()
	if now := s.config.Windows.State(); now.Phase != windows.Free {
		all = append(all, now.Window)
	}
	for _, window := range all {
		for _, choice := range window.Choices() {
			if choice.Action == action {
				what = "at the window: " + choice.Label
			}
		}
	}
	if what == "" {
		http.Error(w, "there is no such action", http.StatusBadRequest)
		return
	}
	answer := "done"
	if err := s.config.Windows.Do(action); err != nil {
		answer = "not done: " + err.Error()
	}
	s.told.note(what, answer)
	s.back(w, r, r.PostFormValue("key"), atStop)
}

// Note adds a line to the log about what has happened by itself.
func (s *Controls) Note(what, outcome string) { s.told.note(what, outcome) }
