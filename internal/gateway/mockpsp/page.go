package mockpsp

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

//go:embed page.html
var pageSource string

const (
	pageEntries = 50
	pageCalls   = 25
)

func parsePage() *template.Template { return template.Must(template.New("page").Parse(pageSource)) }

// pageView is what the page at / shows.
type pageView struct {
	Account, Key string // the filters
	Entries      []ledgerView
	Charges      int // in the whole ledger, like the next two
	Refunds      int
	Late         int
	Calls        []callNote
	CallCount    int
	Rates        []pageRate
	Problem      string // what was wrong with the rates that were sent
}

type pageRate struct{ Name, Value string }

func (s *Server) getPage(w http.ResponseWriter, r *http.Request) {
	rates := make([]pageRate, 0, len(randomFaults()))
	named := s.rates.named()
	for _, candidate := range randomFaults() {
		name := candidate.rateName()
		rates = append(rates, pageRate{name, strconv.FormatFloat(named[name], 'g', -1, 64)})
	}
	s.renderPage(w, r, http.StatusOK, rates, "")
}

// postPage sets the fault rates from the page's form. Without JavaScript a form can only POST.
func (s *Server) postPage(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
	sent := make([]pageRate, 0, len(randomFaults()))
	rates := map[string]*float64{}
	problem := ""
	for _, candidate := range randomFaults() {
		name := candidate.rateName()
		text := strings.TrimSpace(r.PostFormValue(name))
		sent = append(sent, pageRate{name, text})
		if text == "" {
			continue
		}
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil {
			problem = fmt.Sprintf("the rate of %s is not a number", name)
		}
		rates[name] = &rate
	}
	if problem == "" {
		if refused, ok := errors.AsType[refusal](s.rates.replace(rates)); ok {
			problem = refused.message
		}
	}
	if problem != "" {
		s.renderPage(w, r, http.StatusBadRequest, sent, problem)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (s *Server) renderPage(w http.ResponseWriter, r *http.Request, status int, rates []pageRate, problem string) {
	query := r.URL.Query()
	view := pageView{Account: query.Get("account"), Key: query.Get("idempotencyKey"), Rates: rates, Problem: problem}
	s.fillPage(&view)
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := s.page.Execute(w, view); err != nil {
		s.config.Log.Debug("page not shown to its end", "error", err)
	}
}

// fillPage adds the newest entries and calls, newest first.
func (s *Server) fillPage(view *pageView) {
	records := s.ledger.snapshot()
	for _, r := range slices.Backward(records) {
		if r.Entry.Object == objectCharge {
			view.Charges++
		} else {
			view.Refunds++
		}
		if len(view.Entries) < pageEntries && r.shownFor("", view.Account, view.Key) {
			view.Entries = append(view.Entries, ledgerView{r.Entry, r.Fault})
		}
	}
	view.Late = len(s.ledger.promises())
	calls := s.calls.view(view.Account, view.Key)
	slices.Reverse(calls.Requests)
	view.Calls, view.CallCount = calls.Requests[:min(len(calls.Requests), pageCalls)], calls.Count
}
