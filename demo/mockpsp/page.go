package mockpsp

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"payonce/internal/look"
)

//go:embed page.html
var pageSource string

const (
	pageEntries = 50
	pageCalls   = 25
	pageTries   = 10
)

// pagePolicy lets the page have its style and send its forms back, and nothing more.
func pagePolicy() string {
	return "default-src 'none'; img-src data:; style-src " + look.StyleSource() +
		"; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}

func parsePage() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"style": func() template.CSS { return template.CSS(look.Style()) }, //nolint:gosec // fixed when it was built
		"clock": clock,
	}).Parse(pageSource))
}

// clock is a time of ours with a blank for the T, and without what is shorter than a millisecond.
func clock(at string) string {
	const upToMillis = len("2006-01-02T15:04:05.000")
	if len(at) < upToMillis {
		return at
	}
	return strings.Replace(at[:upToMillis], "T", " ", 1)
}

// pageView is what the page at / shows.
type pageView struct {
	Account, Key string // the filters
	Entries      []ledgerView
	Charges      int // in the whole ledger, like the next three
	Refunds      int
	Disputes     int
	Late         int
	Calls        []callNote
	Counted      callView // how many calls match the filters
	CallCount    int      // of all calls
	Receiver     string   // where the webhooks go, without its path
	Linked       bool     // whether a browser that reached this page should reach the receiver
	Rates        pageRates
	Problem      string // what was wrong with the form that was sent
	Webhooks     webhooksView
}

// pageRates are the fields of the form.
type pageRates struct{ Faults, Disorders []pageRate }

type pageRate struct{ Field, Name, Value string }

// Meaning says what a fault does; disorders have names that say it.
func (r pageRate) Meaning() string { return behaviours[fault("pm_"+r.Name)].means }

// disorderField tells the fields of disorders from those of faults.
const disorderField = "webhook_"

func (s *Server) getPage(w http.ResponseWriter, r *http.Request) {
	s.renderPage(w, r, http.StatusOK, s.rateFields(), "")
}

func (s *Server) rateFields() pageRates {
	return pageRates{Faults: rateFields(s.faults, ""), Disorders: rateFields(s.disorders, disorderField)}
}

func rateFields(of *Rates, prefix string) []pageRate {
	var fields []pageRate
	rates := of.named()
	for _, name := range of.names {
		fields = append(fields, pageRate{prefix + name, name, strconv.FormatFloat(rates[name], 'g', -1, 64)})
	}
	return fields
}

// postPage sets the fault rates from the page's form. Without JavaScript a form can only POST.
func (s *Server) postPage(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
	faultFields, faults, err := readRates(r, s.faults.names, "")
	disorderFields, disorders, disorderErr := readRates(r, s.disorders.names, disorderField)
	if err = errors.Join(err, disorderErr); err == nil {
		err = s.setFaults(map[string]map[string]*float64{faultsMember: faults, disordersMember: disorders})
	}
	if refused, ok := errors.AsType[apiError](err); ok {
		s.renderPage(w, r, http.StatusBadRequest, pageRates{faultFields, disorderFields}, refused.message)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// readRates returns the form's fields as they were sent, and the rates in them. An empty field is a rate of 0.
func readRates(r *http.Request, names []string, prefix string) ([]pageRate, map[string]*float64, error) {
	fields, rates := make([]pageRate, 0, len(names)), map[string]*float64{}
	var problem error
	for _, name := range names {
		text := strings.TrimSpace(r.PostFormValue(prefix + name))
		fields = append(fields, pageRate{prefix + name, name, text})
		if text == "" {
			continue
		}
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil {
			problem = invalid(fmt.Sprintf("the rate of %s is not a number", name))
		}
		rates[name] = &rate
	}
	return fields, rates, problem
}

func (s *Server) renderPage(w http.ResponseWriter, r *http.Request, status int, rates pageRates, problem string) {
	query := r.URL.Query()
	view := pageView{Account: query.Get("account"), Key: query.Get("idempotencyKey"), Rates: rates, Problem: problem}
	s.fillPage(&view)
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", pagePolicy())
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := s.page.Execute(w, view); err != nil {
		s.config.Log.Debug("page not shown to its end", "error", err)
	}
}

// Changes are the statuses that others can give the entry.
func (v ledgerView) Changes() []string {
	if v.Status == StatusPending {
		return nil // that it succeeds happens by itself
	}
	return changes[v.Object+"."+v.Status]
}

// Tone is the colour of the status.
func (v ledgerView) Tone() string {
	switch v.Status {
	case StatusSucceeded, StatusWon:
		return "good"
	case StatusDeclined, StatusFailed, StatusLost:
		return "bad"
	case StatusClosed:
		return ""
	}
	return "warn"
}

// fillPage adds the newest entries and calls, newest first.
func (s *Server) fillPage(view *pageView) {
	records := s.ledger.snapshot()
	for _, r := range slices.Backward(records) {
		switch r.Entry.Object {
		case ObjectCharge:
			view.Charges++
		case ObjectRefund:
			view.Refunds++
		case ObjectDispute:
			view.Disputes++
		}
		if len(view.Entries) < pageEntries && r.shownFor("", filter{account: view.Account, key: view.Key}) {
			view.Entries = append(view.Entries, ledgerView{r.Entry, r.Fault})
		}
	}
	view.Late = len(s.ledger.promises())
	view.Counted = s.calls.view(view.Account, view.Key)
	slices.Reverse(view.Counted.Requests)
	view.Calls = view.Counted.Requests[:min(len(view.Counted.Requests), pageCalls)]
	view.CallCount = s.calls.view("", "").Count
	view.Receiver, view.Linked = receiverOf(s.config.WebhookURL)
	view.Webhooks = s.webhooks.view()
	view.Webhooks.Tries = view.Webhooks.Tries[:min(len(view.Webhooks.Tries), pageTries)]
}

// Filtered says whether less than everything is shown.
func (v pageView) Filtered() bool { return v.Account != "" || v.Key != "" }

// receiverOf is where the webhooks go: the scheme and the host alone, since the rest may hold a password. A name inside
// a network of containers means nothing to a browser; an address of this machine does, to a browser on it.
func receiverOf(webhookURL string) (origin string, linked bool) {
	target, err := url.Parse(webhookURL)
	if err != nil || target.Host == "" {
		return "", false
	}
	host := target.Hostname()
	return target.Scheme + "://" + target.Host, host == "localhost" || net.ParseIP(host).IsLoopback()
}
