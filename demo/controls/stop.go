package controls

import (
	"cmp"
	"net/http"
	"time"

	"payonce/demo/windows"
)

// stopView is what the page shows of the crash windows.
type stopView struct {
	windows.State
	Limit    time.Duration // how long a payment is held
	FarLimit time.Duration // how long it may take to a window of the reconciler
	// Groups lists the places where a payment can be stopped.
	Groups []windows.Group
}

func (s *Controls) stopView() *stopView {
	if s.config.Windows == nil {
		return nil
	}
	stage := s.config.Windows
	return &stopView{stage.State(), stage.Limit(), stage.Within(windows.Reconciler), stage.Dialect().Groups()}
}

// Chosen is the window that the list shows: the one in use, or the one that tells most.
func (v stopView) Chosen() string { return cmp.Or(v.Window.ID, "3b") }

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
	s.send(what, payment{Key: key, Token: window.Token, Amount: usualAmount}, patience)
	s.back(w, r, key, atStop)
}

// postHeld ends a hold in the way that the form says.
func (s *Controls) postHeld(w http.ResponseWriter, r *http.Request) {
	action := windows.Action(r.PostFormValue("action"))
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
