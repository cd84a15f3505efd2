package controls

import (
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"payonce/internal/sequence"
)

// comparedView is what the page shows of the newest comparison.
type comparedView struct {
	Label   string
	Running bool
	CutOff  bool // it was not finished in time
	// Provider is whose dialect the PSP speaks; or "".
	Provider string
	Sides    []sideView
}

type sideView struct {
	Name    string
	Charges int
	Known   bool // the PSP's books were read
	Verdict string
	Diagram sequence.Diagram
	Picture template.HTML
}

// verdict is what was seen, in one sentence.
func (v comparedView) verdict() string {
	if v.CutOff {
		return "not finished within " + compareLimit.String()
	}
	var sides []string
	for _, side := range v.Sides {
		sides = append(sides, side.Name+": "+strings.ToLower(side.Charged()))
	}
	return strings.Join(sides, ". ")
}

// Charged says how often the customer has paid.
func (v sideView) Charged() string {
	switch {
	case !v.Known:
		return "The PSP's books are not read yet"
	case v.Charges == 0:
		return "Not charged"
	case v.Charges == 1:
		return "Charged once"
	case v.Charges == 2: //nolint:mnd // two
		return "Charged twice"
	}
	return fmt.Sprintf("Charged %d times", v.Charges)
}

func (c *comparison) view() comparedView {
	v := comparedView{Label: c.fate.Label, Provider: c.provider}
	for _, side := range c.sides {
		v.Sides = append(v.Sides, side.view())
	}
	return v
}

func (c *contestant) view() sideView {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.diagram()
	return sideView{
		Name: c.Name, Charges: c.books.Charges(), Known: c.books.read, Verdict: c.verdict(), Diagram: d,
		Picture: d.HTML(),
	}
}

// diagram draws the payment as it looks from outside. The caller holds c.mu.
func (c *contestant) diagram() sequence.Diagram {
	d := sequence.Diagram{Title: c.Name, Columns: []sequence.Column{sequence.Client, sequence.API, sequence.PSP},
		Names: map[sequence.Column]string{sequence.API: "server"}}
	for i, x := range c.sent {
		d.Steps = append(d.Steps, x.steps(i)...)
	}
	for _, e := range c.events {
		label := "killed"
		if e.starts {
			label = "started again"
		}
		d.Steps = append(d.Steps, sequence.Step{At: e.at, From: sequence.API, To: sequence.API, Label: label})
	}
	for i, charged := range c.books.charges {
		label := "declined"
		switch {
		case charged.moved() && i > 0:
			label = "charged again: 12.00 USD"
		case charged.moved():
			label = "charged: 12.00 USD"
		}
		d.Steps = append(d.Steps,
			sequence.Step{At: charged.CreatedAt, From: sequence.PSP, To: sequence.PSP, Label: label})
	}
	for _, k := range c.books.calls {
		d.Steps = append(d.Steps, c.callSteps(k)...)
	}
	for _, t := range c.books.tries {
		refused := t.Status != 0 && t.Status/100 != 2 //nolint:mnd // the class of success
		d.Steps = append(d.Steps, sequence.Step{At: t.At, From: sequence.PSP, To: sequence.API,
			Label: "webhook: charged", Lost: t.Status == 0, Unusable: refused})
	}
	slices.SortStableFunc(d.Steps, func(a, b sequence.Step) int { return a.At.Compare(b.At) })
	return d
}

// steps are the arrows of the client's request number i.
func (x exchange) steps(i int) []sequence.Step {
	ask := sequence.Step{At: x.Sent, From: sequence.Client, To: sequence.API, Label: "POST 12.00 USD"}
	if i > 0 {
		ask.Label = "the same request again"
	}
	if x.Heard.IsZero() {
		return []sequence.Step{ask}
	}
	told := sequence.Step{At: x.Heard, From: sequence.API, To: sequence.Client, Label: x.said()}
	if x.Status == 0 { // The client has noticed that no answer comes.
		told.From = sequence.Client
	}
	return []sequence.Step{ask, told}
}

// said is the answer in few words.
func (x exchange) said() string {
	switch {
	case x.Status == 0:
		return "no answer"
	case x.Replayed:
		return fmt.Sprintf("%d, %s", x.Status, sequence.Replayed)
	case x.Status == http.StatusConflict:
		return "409: in progress"
	}
	return fmt.Sprint(x.Status)
}

// callSteps are the arrows of a request to the PSP. When its answer was sent is not known: with the charge, or after.
func (c *contestant) callSteps(k call) []sequence.Step {
	asks := sequence.Step{At: k.At, From: sequence.API, To: sequence.PSP, Label: "charge"}
	ends := sequence.Step{At: k.At, From: sequence.PSP, To: sequence.API, Label: k.Outcome, Lost: true}
	if k.Method == http.MethodGet {
		asks.Label = "look up the key"
		return []sequence.Step{asks}
	}
	ends.At = c.charged(k)
	switch status, answered := strings.CutPrefix(k.Outcome, "answered "); {
	case k.Outcome == pending:
		return []sequence.Step{asks}
	case k.Outcome == "closed without an answer":
		ends.At, ends.Label = k.At, "closed" // at once, whatever is charged later
	case answered:
		ends.Label, ends.Lost = status, false
	}
	for _, e := range c.events { // Nobody was there to read the answer.
		ends.Lost = ends.Lost || !e.starts && e.at.After(k.At) && e.at.Before(ends.At)
	}
	return []sequence.Step{asks, ends}
}

// pending is the outcome of a request that the mock PSP works on.
const pending = "pending"

// charged is when a request has charged; or when it came, if it has not.
func (c *contestant) charged(k call) time.Time {
	for _, charged := range c.books.charges {
		own := c.keys != nil || charged.IdempotencyKey == k.Key
		if own && !charged.CreatedAt.Before(k.At) {
			return charged.CreatedAt
		}
	}
	return k.At
}

// getCompared is the newest comparison as an image, for a page that has no style for it.
func (s *Controls) getCompared(w http.ResponseWriter, _ *http.Request) {
	v := s.compared()
	if v == nil {
		http.Error(w, "nothing was compared yet", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", sequence.SVGType)
	w.Header().Set("Content-Security-Policy", sequence.SVGPolicy)
	var parts []sequence.Part
	for _, side := range v.Sides {
		parts = append(parts, sequence.Part{Diagram: side.Diagram, Caption: side.Charged(), Good: side.Charges == 1})
	}
	_ = sequence.Pair(w, v.Label+": two servers, one payment", parts)
}
