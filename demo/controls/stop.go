package controls

import (
	"errors"
	"net/http"
	"time"

	"payonce/demo/windows"
)

// stopView is what the page shows of the crash windows.
type stopView struct {
	windows.State
	Limit time.Duration
}

func (s *Controls) stopView() *stopView {
	if s.config.Windows == nil {
		return nil
	}
	return &stopView{s.config.Windows.State(), s.config.Windows.Limit()}
}

// Windows lists the places where a payment can be stopped.
func (stopView) Windows() []windows.Window { return windows.Windows() }

// postStop arms a window for a new key, and sends the payment that will be stopped there.
func (s *Controls) postStop(w http.ResponseWriter, r *http.Request) {
	id, key := r.PostFormValue("window"), newKey()
	err := s.config.Windows.Arm(id, key)
	what := "pay, and stop at window " + id
	switch {
	case errors.Is(err, windows.ErrNoWindow):
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case err != nil:
		s.told.note(what, "not sent: "+err.Error())
		s.back(w, r, r.PostFormValue("key"))
		return
	}
	s.send(what, payment{Key: key, Token: "pm_ok", Amount: usualAmount}, patience)
	s.back(w, r, key)
}

// postHeld ends a hold in the way that the form says.
func (s *Controls) postHeld(w http.ResponseWriter, r *http.Request) {
	action := windows.Action(r.PostFormValue("action"))
	what, known := "", false
	for _, window := range windows.Windows() {
		for _, choice := range window.Choices() {
			if choice.Action == action {
				what, known = "at the window: "+choice.Label, true
			}
		}
	}
	if !known {
		http.Error(w, "there is no such action", http.StatusBadRequest)
		return
	}
	answer := "done"
	if err := s.config.Windows.Do(action); err != nil {
		answer = "not done: " + err.Error()
	}
	s.told.note(what, answer)
	s.back(w, r, r.PostFormValue("key"))
}

// Note adds a line to the log about what has happened by itself.
func (s *Controls) Note(what, outcome string) { s.told.note(what, outcome) }
