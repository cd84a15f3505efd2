package mockpsp

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
)

// resent is the answer of POST /_webhooks/{entryId}. Status is the receiver's last answer, 0 if it gave none.
type resent struct {
	Status int   `json:"status"`
	Tries  []try `json:"tries"`
}

// postWebhook sends an entry's webhook again, right now and by hand: of any entry, also of those that send none by
// themselves. What is on its way anyway stays as it is. It takes any Content-Type, as putFaults does.
func (s *Server) postWebhook(w http.ResponseWriter, r *http.Request) {
	answer, err := s.resend(w, r)
	if err != nil {
		answer = s.refuse(err)
	}
	answer.deliver(w)
}

func (s *Server) resend(w http.ResponseWriter, r *http.Request) (reply, error) {
	if !s.enter() {
		return reply{}, apiError{http.StatusServiceUnavailable, "shutting_down", "the PSP is shutting down"}
	}
	defer s.active.Done()
	how, err := parseResend(w, r)
	if err != nil {
		return reply{}, err
	}
	by, of, err := s.findSubject(r.PathValue("entryId"))
	if err != nil {
		return reply{}, err
	}
	tries := by.sendNow(r.Context(), of, how)
	return jsonReply(http.StatusOK, resent{tries[len(tries)-1].Status, tries}), nil
}

// findSubject returns an entry, or an event of another dialect, and the webhooks that tell of it.
func (s *Server) findSubject(id string) (*webhooks, Subject, error) {
	by, of := s.webhooks, Subject(nil)
	if found := s.ledger.findAnywhere(id); found != nil {
		of = &found.Entry
	} else if s.outbox != nil {
		by, of = s.outbox.webhooks, s.outbox.find(id)
	}
	switch {
	case of == nil:
		return nil, nil, noSuchEntry()
	case !by.on():
		return nil, nil, webhooksOff()
	}
	return by, of, nil
}

func noSuchEntry() apiError {
	return apiError{http.StatusNotFound, "entry_not_found",
		"there is no such charge or refund; GET /_ledger lists them all"}
}

func webhooksOff() apiError {
	return apiError{http.StatusConflict, "webhooks_off",
		"the PSP was started without a webhook URL; set MOCKPSP_WEBHOOK_URL"}
}

// parseResend returns the disorder that is asked for. No body asks for none.
func parseResend(w http.ResponseWriter, r *http.Request) (disorder, error) {
	body, err := readBody(w, r)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return "", err
	}
	var in struct {
		Disorder disorder `json:"disorder"`
	}
	if err := parseStrictly(body, &in); err != nil {
		return "", err
	}
	switch in.Disorder {
	case "", disorderDuplicate, disorderForge, disorderStale:
		return in.Disorder, nil
	default:
		return "", invalid(fmt.Sprintf("by hand there is no webhook disorder %q, but duplicate, forge and stale",
			in.Disorder))
	}
}

// sendNow sends at once, or as soon as a slot is free; a duplicate twice at the same time, in one slot.
func (w *webhooks) sendNow(ctx context.Context, of Subject, how disorder) []try {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
	case <-ctx.Done(): // the try says so
	}
	tries := make([]try, 1, 2)
	if how == disorderDuplicate {
		tries = tries[:2]
	}
	var sending sync.WaitGroup
	for i := range tries {
		sending.Go(func() { tries[i] = w.sender.send(ctx, of, how, 0) })
	}
	sending.Wait()
	return tries
}
