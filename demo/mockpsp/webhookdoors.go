package mockpsp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
)

// webhooksView is the answer of GET /_webhooks. The counts are of all entries in the ledger, the tries the latest
// since the start, newest first. Pending are also those whose call has not ended.
type webhooksView struct {
	URL       string `json:"url"` // empty when none are sent
	Pending   int    `json:"pending"`
	Delivered int    `json:"delivered"`
	GivenUp   int    `json:"givenUp"`
	Dropped   int    `json:"dropped"`
	Tries     []try  `json:"tries"`

	Dialect *webhooksView `json:"dialect,omitempty"` // those of another dialect, if it is served
}

func (w *Outbox) view() webhooksView {
	w.mu.Lock()
	defer w.mu.Unlock()
	view := webhooksView{
		Pending:   w.ends.pending,
		Delivered: w.ends.counts[endDelivered],
		GivenUp:   w.ends.counts[endGivenUp],
		Dropped:   w.ends.counts[endDropped],
		Tries:     w.sender.newestFirst(),
	}
	if target, err := url.Parse(w.config.WebhookURL); err == nil {
		view.URL = target.Redacted()
	}
	return view
}

func (s *Server) getWebhooks(w http.ResponseWriter, _ *http.Request) {
	view := s.webhooks.view()
	if s.outbox != nil {
		ofDialect := s.outbox.view()
		view.Dialect = &ofDialect
	}
	jsonReply(http.StatusOK, view).Deliver(w)
}

// getWebhook prints an entry's webhook as a curl command that sends it, signed as of now, in place of sending it.
func (s *Server) getWebhook(w http.ResponseWriter, r *http.Request) {
	by, of, err := s.findSubject(r.PathValue("entryId"))
	if err != nil {
		s.refuse(err).Deliver(w)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, by.sender.curl(of)) // the reader may have gone
}

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
	answer.Deliver(w)
}

func (s *Server) resend(w http.ResponseWriter, r *http.Request) (Reply, error) {
	leave, err := s.Enter()
	if err != nil {
		return Reply{}, err
	}
	defer leave()
	how, err := parseResend(w, r)
	if err != nil {
		return Reply{}, err
	}
	by, of, err := s.findSubject(r.PathValue("entryId"))
	if err != nil {
		return Reply{}, err
	}
	tries := by.sendNow(r.Context(), of, how)
	return jsonReply(http.StatusOK, resent{tries[len(tries)-1].Status, tries}), nil
}

// findSubject returns an entry, or an event of another dialect, and the webhooks that tell of it.
func (s *Server) findSubject(id string) (*Outbox, Subject, error) {
	by, of := s.webhooks, Subject(nil)
	if found := s.ledger.findVersion(id); found != nil {
		of = found
	} else if s.outbox != nil {
		by, of = s.outbox, s.outbox.find(id)
	}
	switch {
	case of == nil:
		return nil, nil, apiError{http.StatusNotFound, "entry_not_found",
			"there is no such charge or refund; GET /_ledger lists them all"}
	case !by.on():
		return nil, nil, apiError{http.StatusConflict, "webhooks_off",
			"the PSP was started without a webhook URL; set MOCKPSP_WEBHOOK_URL"}
	}
	return by, of, nil
}

// findVersion returns the entry with an id, or the version of one that has its own id, as webhooks name it, or nil.
func (l *ledger) findVersion(id string) *record {
	if r := l.findAnywhere(id); r != nil && !r.dialect && r.Entry.Status != StatusPaid {
		return r
	}
	for _, r := range l.lines() {
		if !r.dialect && r.Entry.Status != StatusPaid && r.SubjectID() == id {
			return r
		}
	}
	return nil
}

// parseResend returns the disorder that is asked for. No body asks for none.
func parseResend(w http.ResponseWriter, r *http.Request) (disorder string, err error) {
	body, err := readBody(w, r)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return "", err
	}
	var in struct {
		Disorder string `json:"disorder"`
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
func (w *Outbox) sendNow(ctx context.Context, of Subject, how string) []try {
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
