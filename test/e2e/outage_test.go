package e2e

import (
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"payonce/test/pgproxy"
)

// failAt has the nth round to the database fail, counted from now, and returns the number of rounds that came.
type failAt struct {
	mu     sync.Mutex
	rounds int
	nth    int // 0: none
}

func (f *failAt) next([]string) pgproxy.Action {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rounds++
	if f.rounds == f.nth {
		return pgproxy.CutBefore
	}
	return pgproxy.Pass
}

func (f *failAt) begin(nth int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rounds, f.nth = 0, nth
}

func (f *failAt) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rounds
}

// age is what two answers about the same thing may say differently: how long something has waited, in seconds, and when
// the page was made. Every other number has to be the same: a 0 in the place of a 1 is an outage that looks like
// nothing.
var age = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+s\b|(Seconds":)\d+|data-now="[^"]*"`)

// foundOut are the parts of a page that do not come from one read: the page of a key shows the PSP's ledger, and the
// page of a dead letter says which actions would be refused.
var foundOut = regexp.MustCompile(`(?s)\s*(<svg [^>]*class="sequence".*?</svg>|<ol class="steps">.*?</ol>|` +
	`<p class="figure[^"]*"><strong data-field="executed">.*?</p>|<h2>The PSP's ledger</h2>.*?</section>|` +
	`<span class="(?:refused|soft)">.*?</span>|` +
	`<p class="(soft|notice)">[^<]*(` + notAsked + `|was found out just now)[^<]*</p>)`)

// notAsked is what a page says in the place of such a part.
const notAsked = "could not be asked"

// lacksNothing reports whether an answer is the whole answer, or has everything else and says what could not be asked.
func lacksNothing(r, whole reply) bool {
	got, want := age.ReplaceAllString(string(r.body), "$3"), age.ReplaceAllString(string(whole.body), "$3")
	if strings.Contains(got, notAsked) && !strings.Contains(want, notAsked) {
		got, want = foundOut.ReplaceAllString(got, ""), foundOut.ReplaceAllString(want, "")
	}
	return r.status == whole.status && got == want
}

// A list that cannot be read must not look like one that has nothing, and what an operator is shown must not lack a
// part without a word. So each read of each list and page fails once: the answer is 503, or it is the whole answer, or
// it says what could not be asked.
func TestOutageDoesNotLookLikeNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("long: every page, while the database is away")
	}
	t.Parallel()
	w, proxy := setupProxied(t)
	d, b := w.openOps(), w.browse()
	b.signIn(resolvingKey).expect(t, http.StatusSeeOther, "")
	paid := freshKey()
	w.pay(paid, "pm_ok").expect(t, http.StatusCreated, "")
	payment := w.payment(paid)
	w.do(call{method: http.MethodPost, path: "/payments/" + payment + "/refunds", key: freshKey(),
		body: `{"amountCents":1}`}).expect(t, http.StatusCreated, "")
	w.pay(freshKey(), "pm_silent_charged").expect(t, http.StatusAccepted, "")
	w.pay(freshKey(), "pm_wrong_amount").expect(t, http.StatusAccepted, "")
	var list struct{ Data []deadLetter }
	d.read(d.ask(http.MethodGet, "/dead-letters", resolvingKey, ""), &list)
	if len(list.Data) != 1 {
		t.Fatalf("%d dead letters", len(list.Data))
	}
	public := func(path string) func() reply {
		return func() reply { return w.do(call{method: http.MethodGet, path: path}) }
	}
	operator := func(path string) func() reply {
		return func() reply { return d.ask(http.MethodGet, path, resolvingKey, "") }
	}
	console := func(path string) func() reply { return func() reply { return b.get("/console" + path) } }
	about := "/dead-letters/" + list.Data[0].ID
	var rounds failAt
	proxy.Choose(rounds.next)
	for name, ask := range map[string]func() reply{
		"payments": public("/payments"), "payment": public("/payments/" + payment),
		"refunds": public("/payments/" + payment + "/refunds"), "key": public("/idempotency-keys/" + paid),
		"operator: keys": operator("/keys"), "operator: payments": operator("/payments"),
		"operator: webhooks": operator("/webhooks"), "operator: statements": operator("/statements"),
		"operator: breaks": operator("/breaks"), "operator: search": operator("/search?q=" + paid),
		"operator: search payment": operator("/search?q=" + payment),
		"operator: dead letters":   operator("/dead-letters"), "operator: dead letter": operator(about),
		"operator: summary": operator("/summary"),
		"console":           console("/"), "console: payments": console("/payments"), "console: keys": console("/keys"),
		"console: payment": console("/payments/" + payment), "console: key": console("/keys/acme/payments/" + paid),
		"console: dead letters": console("/dead-letters"), "console: dead letter": console(about),
		"console: webhooks": console("/webhooks"), "console: statements": console("/statements"),
		"console: breaks": console("/breaks"), "console: search": console("/search?q=" + paid),
		"console: books": console("/books?account=acme&day=2026-11-20"),
	} {
		if testing.Short() && name == "console: dead letter" {
			continue // 31 rounds, and each is lost once; the operator's API reads the same
		}
		rounds.begin(0)
		whole := ask()
		all := rounds.count()
		if whole.status >= 400 || all == 0 {
			t.Errorf("%s: %d after %d rounds to the database", name, whole.status, all)
		}
		for n := 1; n <= all; n++ {
			rounds.begin(n)
			r := ask()
			if r.status == http.StatusServiceUnavailable || lacksNothing(r, whole) {
				continue
			}
			rounds.begin(0)
			whole = ask() // Time may have changed it: a lookup becomes late.
			if !lacksNothing(r, whole) {
				t.Errorf("%s: with round %d of %d lost it is %d:\n%s\nThe whole answer is\n%s", name, n, all, r.status,
					r.body, whole.body)
			}
		}
	}
}
